"""A scripted model for AutoGen."""

from autogen_core import FunctionCall
from autogen_core.models import CreateResult, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient

_call = FunctionCall(id="1", name="read_file", arguments='{"path": "a.txt"}')
model = ReplayChatCompletionClient(
    [
        CreateResult(
            finish_reason="function_calls", content=[_call], cached=False,
            usage=RequestUsage(prompt_tokens=0, completion_tokens=0),
        ),
    ],
    model_info={
        "function_calling": True, "vision": False, "json_output": False, "family": "unknown",
        "structured_output": False,
    },
)  # fmt: skip
