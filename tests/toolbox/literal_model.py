"""A model that does what the last hint says, and nothing that it does not say."""

import re
from contextlib import contextmanager
from unittest.mock import patch

from bailiwick.toolbox import hints, text_of
from bailiwick.toolbox.schemas import input_schema
from bailiwick.toolbox.tool import OPERATIONS

ANY_OTHER = ("something else", "the tools are")
"""Words that leave it to the model which tool it calls next."""


class LiteralModel:
    """Calls tools by their plain names, and holds each call to the hint of the one before."""

    def __init__(self, box):
        self.box = box
        self.hint, self.failed, self.given = None, None, {}

    async def call(self, tool, given):
        return await self.box.call(tool, given)

    async def meets(self, hint, tool, **given):
        """Make a call that is answered with a hint; what is filled in in the hint is returned."""
        return self.reads(hint, tool, given, await self.call(tool, _wired(given)))

    def reads(self, hint, tool, given, answer):
        told = answer.get("hint") or text_of(answer)
        words = re.escape(hint.text).replace(r"\{", "{").replace(r"\}", "}")
        filled = hints.TOOL_IN_HINT.sub(
            lambda name: name[1] if name[1] in OPERATIONS else rf"(?P<{name[1]}>[^\];]+)", words
        )
        found = re.search(filled, told)
        assert found, (hint, told)
        self.hint, self.failed, self.given = hint.text, tool, given
        return found.groupdict()

    async def does(self, tool, **given):
        """Make the call that the hint speaks of: it succeeds."""
        named = {self.failed, *hints.TOOL_IN_HINT.findall(self.hint)}
        assert tool in named or any(words in self.hint for words in ANY_OTHER), self.hint
        takes = input_schema(OPERATIONS[tool].takes)
        of_itself = {"path", *takes.get("required", ())} if tool != self.failed else {"path"}
        spoken = {*re.findall(r"`(\w+)`", self.hint), *of_itself, *self.given}
        assert _wired(given).keys() <= {*spoken, *_wired(self.given)}, (self.hint, given)
        answer = await self.call(tool, _wired(given))
        assert "errorKind" not in answer, (self.hint, answer)
        return text_of(answer)


def _wired(given):
    return {"from" if name == "source" else name: value for name, value in given.items()}


@contextmanager
def failing_once(tool, error):
    """The tool fails the first time as it does where nothing here can bring it about."""
    failures = [error]

    async def run(bench, asked):
        if failures:
            raise failures.pop()
        return await whole.run(bench, asked)

    whole = OPERATIONS[tool]
    with patch.dict(OPERATIONS, {tool: whole._replace(run=run)}):
        yield
