"""A scripted model for Strands."""

from strands.models import Model

CALLS = iter(
    [
        ("write_file", '{"path": "b.txt", "content": "hello\\n"}'),
        ("read_file", '{"path": "b.txt"}'),
    ]
)


class Scripted(Model):
    def update_config(self, **given):
        pass

    def get_config(self):
        return {}

    async def structured_output(self, *given, **named):
        yield {}

    async def stream(self, messages, *given, **named):
        yield {"messageStart": {"role": "assistant"}}
        name, arguments = next(CALLS, (None, ""))
        if name is None:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": str(messages[-1])}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}
            return
        yield {"contentBlockStart": {"start": {"toolUse": {"name": name, "toolUseId": name}}}}
        yield {"contentBlockDelta": {"delta": {"toolUse": {"input": arguments}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use"}}


model = Scripted()
