"""A scripted model for smolagents."""

from smolagents.models import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    Model,
)

CALLS = iter(
    [
        ("write_file", {"path": "b.txt", "content": "hello\n"}),
        ("read_file", {"path": "b.txt"}),
    ]
)


class Scripted(Model):
    def generate(self, messages, **given):
        last = {"answer": str(messages[-1].content)}
        name, arguments = next(CALLS, ("final_answer", last))
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        call = ChatMessageToolCall(id=name, type="function", function=function)
        return ChatMessage(role="assistant", content="", tool_calls=[call])


model = Scripted()
