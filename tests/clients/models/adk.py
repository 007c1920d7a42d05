"""A scripted model for Google's ADK."""

from google.adk.models import BaseLlm, LlmResponse
from google.genai import types

CALLS = iter(
    [
        types.FunctionCall(name="write_file", args={"path": "b.txt", "content": "hello\n"}),
        types.FunctionCall(name="read_file", args={"path": "b.txt"}),
    ]
)


class Scripted(BaseLlm):
    async def generate_content_async(self, request, stream=False):
        call = next(CALLS, None)
        said = types.Part(text=str(request.contents[-1]))
        part = types.Part(function_call=call) if call else said
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


model = Scripted(model="scripted")
