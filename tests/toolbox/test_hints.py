"""Every hint names tools and arguments that there are."""

import re

import pytest

import bailiwick
from bailiwick.toolbox import hints, text_of
from bailiwick.toolbox.schemas import input_schema
from bailiwick.toolbox.tool import OPERATIONS
from tests.authority.support import governed
from tests.toolbox.support import toolbox

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
    assert filled <= {"next_line", "cursor", "names", "likely"}
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


@pytest.mark.spec("TOOL-4")
async def test_what_is_cut_names_no_argument_that_the_tool_does_not_take():
    """The library's own words speak of arguments of Python."""
    other = {"max_results", "limit", "cursor"}
    async with bailiwick.open("memory:") as fs:
        for number in range(5):
            await fs.write_text(f"d/{number}", "x\nx\n", parents=True)
        box = toolbox(fs, max_dir_entries=3, max_glob_matches=3)
        for operation, given in [
            ("grep", {"pattern": "x", "maxResults": 3}), ("glob", {"pattern": "**"}),
            ("ls", {"path": "d"}), ("tree", {}),
        ]:  # fmt: skip
            answer = await box.call(operation, given)
            notes = [row for row in text_of(answer).split("\n") if row.startswith("[")]
            assert len(notes) == 1, notes
            assert not other & set(re.findall(r"\w+", notes[0])), notes
            assert "note" not in answer
        for found in (await fs.grep("x", max_results=3), await fs.glob("**", limit=3)):
            assert not other & set(re.findall(r"\w+", found.reason))


@pytest.mark.spec("TOOL-4")
async def test_what_a_rule_withholds_is_not_to_be_had_by_asking_otherwise(tmp_path):
    rule = """
    [[rule]]
    subject = "agent_run:*"
    path = ["d", "d/**"]
    access = ["list"]
    effect = "deny"
    """
    async with governed(tmp_path, rule) as house:
        await house.plant({"a": b"x", "d/b": b"x"})
        box = toolbox(await house.scope())
        for operation, given in (("glob", {"pattern": "**/[ab]"}), ("tree", {})):
            notes = [
                row for row in text_of(await box.call(operation, given)).split("\n")
                if row.startswith("[")
            ]  # fmt: skip
            assert notes == ["[policy withholds what lies in 1 of the directories]"]
