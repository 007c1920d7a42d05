"""Every hint leads on: it names tools and arguments that there are, and doing as it says works."""

import re

import pytest

import bailiwick
from bailiwick.toolbox import hints, text_of
from bailiwick.toolbox.schemas import input_schema
from bailiwick.toolbox.tool import OPERATIONS
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


# What goes wrong, the hint it must give, and what a model does that takes the hint at its word.
FOLLOWED = [
    ("read_file", {"path": "none"}, "ls", {}),
    ("read_file", {"path": "/etc/x"}, "read_file", {"path": "a"}),
    ("read_file", {"path": "d"}, "ls", {"path": "d"}),
    ("read_file", {"path": "a/b"}, "ls", {}),
    ("read_file", {"path": "latin"}, "read_file", {"path": "latin", "encoding": "latin-1"}),
    ("read_file", {"path": "a", "encoding": "utf-16"}, "read_file", {"path": "a"}),
    ("read_file", {"path": "long", "limit": 1}, "read_file", {"path": "long", "line": 2}),
    ("read_file", {"paths": ["a", "none"]}, "ls", {}),
    ("ls", {"path": "a"}, "read_file", {"path": "a"}),
    ("tree", {"path": "a"}, "read_file", {"path": "a"}),
    ("tree", {"path": ".", "depth": 5}, "tree", {"path": "d", "depth": 1}),
    ("glob", {"pattern": "x", "path": "a"}, "glob", {"pattern": "x"}),
    ("glob", {"pattern": "["}, "glob", {"pattern": r"\["}),
    ("grep", {"pattern": "("}, "grep", {"pattern": "(", "literal": True}),
    ("grep", {"pattern": "", "path": "."}, "grep", {"pattern": "^"}),
    ("grep", {"pattern": "x", "maxResults": 1}, "grep", {"pattern": "x", "maxResults": 9}),
    ("grep", {"pattern": "x", "maxGrepFileSizeMb": 0.0001}, "grep",
     {"pattern": "x", "maxGrepFileSizeMb": 1}),
    ("write_file", {"path": "a", "content": "n", "expectedSha256": "0" * 64}, "read_file",
     {"path": "a"}),
    ("write_file", {"path": "d", "content": "n"}, "ls", {"path": "d"}),
    ("edit_file", {"path": "a", "oldText": "nope", "newText": "n"}, "read_file", {"path": "a"}),
    ("edit_file", {"path": "a", "oldText": "x", "newText": "n"}, "edit_file",
     {"path": "a", "oldText": "x", "newText": "n", "replaceAll": True}),
    ("edit_file", {"path": "new", "oldText": "x", "newText": "n"}, "write_file",
     {"path": "new", "content": "n"}),
    ("rm", {"path": "d"}, "rm", {"path": "d", "recursive": True}),
    ("mkdir", {"path": "p/q"}, "mkdir", {"path": "p/q", "recursive": True}),
    ("move", {"from": "a", "to": "d"}, "move", {"from": "a", "to": "d2"}),
    ("move", {"from": "a", "to": "p/a"}, "mkdir", {"path": "p"}),
    ("undo", {}, "history", {}),
    ("undo", {"request": "none"}, "history", {}),
    ("diff", {"path": "a"}, "history", {"path": "a"}),
    ("diff", {"path": "none"}, "history", {}),
    ("nonsense", {}, "ls", {}),
]  # fmt: skip


@pytest.mark.spec("TOOL-4")
@pytest.mark.parametrize(("failed", "given", "following", "then"), FOLLOWED, ids=str)
async def test_who_takes_a_hint_at_its_word_succeeds(tmp_path, failed, given, following, then):
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db") as fs:
        await fs.write_text("a", "x\nx\n")
        await fs.write_text("d/f", "x" * 300, parents=True)
        await fs.write_bytes("latin", "grün".encode("latin-1"))
        await fs.write_text("long", "1\n2\n3\n")
        box = toolbox(fs, max_dir_entries=5)
        answer = await box.call(failed, given)
        told = text_of(answer)
        hint = answer.get("hint") or told
        # Whatever is new in the second call, the hint (or the message) has named.
        if following != failed:
            assert following in told, told
        for argument in then.keys() - given.keys() - {"path"} - {"pattern", "content"}:
            assert argument in hint, told
        done = await box.call(following, then)
        assert "errorKind" not in done, (told, done)


@pytest.mark.spec("TOOL-4")
async def test_what_the_hash_that_is_told_is_good_for():
    async with bailiwick.open("memory:") as fs:
        box = toolbox(fs)
        await fs.write_text("a", "one")
        stale = {"path": "a", "content": "two", "expectedSha256": "0" * 64}
        assert "`expectedSha256`" in (await box.call("write_file", stale))["hint"]
        read = text_of(await box.call("read_file", {"path": "a"}))
        sha256 = read.rpartition("sha256 ")[2].rstrip("]")
        assert (await box.call("write_file", {**stale, "expectedSha256": sha256}))["ok"]
