"""A scripted model for Strands."""

from strands.models import Model


class Scripted(Model):
    def update_config(self, **given):
        pass

    def get_config(self):
        return {}

    async def structured_output(self, *given, **named):
        yield {}

    async def stream(self, messages, *given, **named):
        yield {"messageStart": {"role": "assistant"}}
        if "hello" in str(messages[-1]):
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "it says hello"}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}
            return
        yield {"contentBlockStart": {"start": {"toolUse": {"name": "read_file", "toolUseId": "1"}}}}
        yield {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"path": "a.txt"}'}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use"}}


model = Scripted()
