"""Every hint names tools and arguments that there are."""

import re

import pytest

import bailiwick
from bailiwick.toolbox import hints
from bailiwick.toolbox.schemas import input_schema
from bailiwick.toolbox.tool import OPERATIONS

ARGUMENT = re.compile(r"`(\w+)`")
SHARED = [(None, kind, hint) for kind, hint in hints.GENERAL.items()]
ALL = [
    *SHARED,
    *((operation, kind, hint) for (operation, kind), hint in hints.OF_A_TOOL.items()),
    *((operation, "", hint) for operation, some in hints.ALONE.items() for hint in some),
]


def arguments_of(operation):
    return set(input_schema(OPERATIONS[operation].takes)["properties"])


@pytest.mark.spec("TOOL-4")
@pytest.mark.parametrize(("operation", "kind", "hint"), ALL, ids=str)
def test_a_hint_names_only_what_there_is(operation, kind, hint):
    named = set(hints.TOOL_IN_HINT.findall(hint.text)) & OPERATIONS.keys()
    filled = set(hints.TOOL_IN_HINT.findall(hint.text)) - OPERATIONS.keys()
    assert filled <= {"next_line", "cursor", "names"}
    known = set().union(
        *(arguments_of(each) for each in (*named, *([operation] if operation else [])))
    )
    assert set(ARGUMENT.findall(hint.text)) <= known
    assert not hints.TOOL_IN_HINT.findall(hint.without)
    assert set(ARGUMENT.findall(hint.without)) <= (arguments_of(operation) if operation else set())
    # A word that is an argument of some tool, and of no other meaning, stands in backticks.
    every = set().union(*(arguments_of(each) for each in OPERATIONS))
    odd = {each for each in every if re.search("[A-Z]", each)}
    assert not odd & set(re.findall(r"(?<!`)\b\w+\b(?!`)", hint.text))


@pytest.mark.spec("TOOL-4")
async def test_a_hint_names_tools_as_they_are_called_here_and_only_those_offered():
    async with bailiwick.open("memory:") as fs:
        box = bailiwick.tools(fs, name="notes")
        told = await box.call("workspace__notes__read_file", {"path": "none"})
        assert told["hint"] == "look with workspace__notes__ls what there is"
        few = bailiwick.tools(fs, name="notes", operations=["read_file"])
        told = await few.call("workspace__notes__read_file", {"path": "none"})
        assert told["hint"] == hints.GENERAL["path_not_found"].without
