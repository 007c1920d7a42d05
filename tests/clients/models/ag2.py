"""A scripted model for AG2."""

from ag2.config import LLMClient, ModelConfig
from ag2.events import ModelMessage, ModelResponse, ToolCallEvent, ToolCallsEvent

CALLS = iter(
    [
        ToolCallEvent("write_file", arguments='{"path": "b.txt", "content": "hello\\n"}'),
        ToolCallEvent("read_file", arguments='{"path": "b.txt"}'),
    ]
)


class Script(LLMClient):
    async def __call__(self, messages, context, **given):
        call = next(CALLS, None)
        if call is not None:
            return ModelResponse(tool_calls=ToolCallsEvent([call]))
        (result,) = messages[-1].results
        said = ModelMessage(result.result.parts[0].content)
        await context.send(said)
        return ModelResponse(said)


class Scripted(ModelConfig):
    def copy(self):
        return self

    def create(self):
        return Script()


model = Scripted()
