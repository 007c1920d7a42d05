"""A scripted model for Google's ADK."""

from google.adk.models import BaseLlm, LlmResponse
from google.genai import types


class Scripted(BaseLlm):
    async def generate_content_async(self, request, stream=False):
        call = types.FunctionCall(name="read_file", args={"path": "a.txt"})
        seen = "hello" in str(request.contents[-1])
        part = types.Part(text="it says hello") if seen else types.Part(function_call=call)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


model = Scripted(model="scripted")
