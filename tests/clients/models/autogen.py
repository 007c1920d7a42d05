"""A scripted model for AutoGen."""

from autogen_core import FunctionCall
from autogen_core.models import CreateResult, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient


def _calls(name, arguments):
    call = FunctionCall(id=name, name=name, arguments=arguments)
    return CreateResult(
        finish_reason="function_calls", content=[call],
        usage=RequestUsage(prompt_tokens=0, completion_tokens=0), cached=False,
    )  # fmt: skip


class Scripted(ReplayChatCompletionClient):
    async def create(self, messages, **given):
        try:
            return await super().create(messages, **given)
        except ValueError:  # the script is over
            return CreateResult(
                finish_reason="stop", content=str(messages[-1].content), cached=False,
                usage=RequestUsage(prompt_tokens=0, completion_tokens=0),
            )  # fmt: skip


model = Scripted(
    [
        _calls("write_file", '{"path": "b.txt", "content": "hello\\n"}'),
        _calls("read_file", '{"path": "b.txt"}'),
    ],
    model_info={
        "function_calling": True, "vision": False, "json_output": False, "family": "unknown",
        "structured_output": False,
    },
)  # fmt: skip
