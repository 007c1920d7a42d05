"""A model that takes a hint at its word succeeds at the next call: every hint of the table, with
names and texts of all kinds."""

import os
import re
import unicodedata
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bailiwick
from bailiwick import errors
from bailiwick.fronts.mcp.service import Service
from bailiwick.toolbox import hints
from bailiwick.toolbox.hints import ALONE, GENERAL, OF_A_TOOL
from tests.authority.support import Person, governed
from tests.toolbox.literal_model import LiteralModel, failing_once
from tests.toolbox.support import toolbox

pytestmark = pytest.mark.slow


class Names(NamedTuple):
    """A file of two equal lines, a directory with a file in it, and names that nothing has."""

    file: str
    folder: str
    missing: str
    other: str
    word: str


class Situation(NamedTuple):
    run: object
    place: str
    options: dict


class World(NamedTuple):
    """Where it comes about: ``fs`` is the person's, ``tree`` the directory, where it is one."""

    fs: object
    model: LiteralModel
    names: Names
    hint: hints.Hint
    tree: Path


SITUATIONS = {}
NOTHING_FOLLOWS = {
    *(GENERAL[kind] for kind in (
        "not_a_regular_file", "root_not_found", "untrusted_workspace", "missing_access",
        "policy_denied", "approval_denied", "grant_expired", "grant_revoked", "permission_denied",
        "read_only", "unsupported", "closed", "unauthenticated", "forbidden_origin",
        "route_not_found", "method_not_allowed", "unsupported_media_type",
    )),
    OF_A_TOOL["edit_file", "binary_file"], OF_A_TOOL["edit_file", "file_too_large"],
}  # fmt: skip
"""Hints that end it: nothing that the model could call would help."""

OF_EDITORS = {
    GENERAL[kind] for kind in ("text_not_found", "ambiguous_text_match", "range_not_satisfiable")
}
"""Said only where an editor or a server has words of its own for what the tools do."""


def _alike(name):
    return unicodedata.normalize("NFKC", name).casefold()


words = st.text(st.characters(categories=["L", "Nd"]), min_size=1, max_size=12)
names = st.lists(
    words.map(lambda word: f"n{word}"), min_size=5, max_size=5, unique_by=_alike
).map(lambda five: Names(*five))  # fmt: skip


def follows(*met, place="memory:", **options):
    """A situation in which each of these hints is met and followed."""

    def noted(run):
        for hint in met:
            SITUATIONS[hint, run.__name__] = Situation(run, place, options)
        return run

    return noted


@asynccontextmanager
async def arranged(situation, folder, n, hint):
    place, opening = situation.place, dict(situation.options)
    tools = opening.pop("tools", {})
    tree = folder / "tree"
    if place == "disk":
        tree.mkdir()
        place, opening["state_dir"] = tree, str(folder / "state")
    elif place == "volume":
        place = f"sqlite:{folder}/v.db"
    async with bailiwick.open(place, **opening) as fs:
        await fs.write_text(n.file, f"{n.word}\n{n.word}\n")
        await fs.write_text(f"{n.folder}/{n.file}", n.word * 40, parents=True)
        yield World(fs, LiteralModel(toolbox(fs, **tools)), n, hint, tree)


# --- what a path leads to --------------------------------------------------------------------


@follows(GENERAL["path_outside_workspace"])
async def outside(w):
    for path in (f"../{w.names.file}", f"{w.names.folder}/../../{w.names.file}"):
        await w.model.meets(w.hint, "read_file", path=path)
        await w.model.does("read_file", path=w.names.file)


@follows(GENERAL["symlink_escape"], GENERAL["too_many_links"], place="disk")
async def a_link(w):
    leads_out = w.hint == GENERAL["symlink_escape"]
    os.symlink(w.tree / w.names.file if leads_out else w.names.other, w.tree / w.names.other)
    await w.model.meets(w.hint, "read_file", path=w.names.other)
    await w.model.does("read_file", path=w.names.file)


@follows(GENERAL["hardlink_refused"], place="disk", hardlinks="reject")
async def another_name_elsewhere(w):
    os.link(w.tree / w.names.file, w.tree.parent / "outside")
    change = {"oldText": f"{w.names.word}\n{w.names.word}", "newText": "x"}
    await w.model.meets(w.hint, "edit_file", path=w.names.file, **change)
    await w.model.does("write_file", path=w.names.other, content="x")


@follows(GENERAL["is_a_directory"])
async def a_directory(w):
    for tool, more in (("read_file", {}), ("write_file", {"content": "x"})):
        await w.model.meets(w.hint, tool, path=w.names.folder, **more)
        assert w.names.file in await w.model.does("ls", path=w.names.folder)


@follows(GENERAL["not_a_directory"])
async def through_a_file(w):
    beneath = f"{w.names.file}/{w.names.other}"
    for tool in ("read_file", "ls", "tree", "stat", "mkdir", "rm"):
        await w.model.meets(w.hint, tool, path=beneath)
        assert w.names.file in await w.model.does("ls")


@follows(GENERAL["path_not_found"], place="volume")
async def nothing_there(w):
    for tool in ("read_file", "ls", "tree", "stat", "history", "diff", "rm"):
        await w.model.meets(w.hint, tool, path=w.names.missing)
        shown = await w.model.does("ls")
        assert w.names.file in shown
        assert w.names.missing not in shown


@follows(hints.A_FILE)
async def a_file_for_a_directory(w):
    for tool in ("ls", "tree"):
        await w.model.meets(w.hint, tool, path=w.names.file)
        assert w.names.word in await w.model.does("read_file", path=w.names.file)


@follows(OF_A_TOOL["glob", "not_a_directory"])
async def a_file_to_begin_in(w):
    await w.model.meets(w.hint, "glob", pattern="*", path=w.names.file)
    assert w.names.file in await w.model.does("glob", pattern="*")


@follows(OF_A_TOOL["edit_file", "path_not_found"])
async def nothing_to_edit(w):
    new = {"oldText": "x", "newText": w.names.word}
    await w.model.meets(w.hint, "edit_file", path=w.names.missing, **new)
    await w.model.does("ls")
    await w.model.does("write_file", path=w.names.missing, content=w.names.word)


@follows(OF_A_TOOL["rm", "directory_not_empty"])
async def a_full_directory(w):
    await w.model.meets(w.hint, "rm", path=w.names.folder)
    await w.model.does("rm", path=w.names.folder, recursive=True)


@follows(OF_A_TOOL["mkdir", "path_not_found"])
async def a_directory_in_none(w):
    deep = f"{w.names.missing}/{w.names.other}/{w.names.word}"
    await w.model.meets(w.hint, "mkdir", path=deep)
    await w.model.does("mkdir", path=deep, recursive=True)


@follows(OF_A_TOOL["mkdir", "file_already_exists"])
async def a_directory_that_is_there(w):
    for path in (w.names.folder, w.names.file):
        await w.model.meets(w.hint, "mkdir", path=path)
        await w.model.does("mkdir", path=f"{w.names.other}-{path}")


@follows(OF_A_TOOL["move", "file_already_exists"])
async def a_name_that_is_taken(w):
    taken = f"{w.names.folder}/{w.names.file}"
    await w.model.meets(w.hint, "move", source=w.names.file, to=taken)
    await w.model.does("rm", path=taken)
    await w.model.does("move", source=w.names.file, to=taken)
    await w.fs.write_text(w.names.file, "again")
    await w.model.meets(w.hint, "move", source=w.names.file, to=taken)
    await w.model.does("move", source=w.names.file, to=w.names.other)


@follows(OF_A_TOOL["move", "path_not_found"])
async def a_move_to_nowhere(w):
    there = f"{w.names.missing}/{w.names.other}"
    await w.model.meets(w.hint, "move", source=w.names.file, to=f"{there}/{w.names.file}")
    await w.model.does("mkdir", path=there, recursive=True)
    await w.model.does("move", source=w.names.file, to=f"{there}/{w.names.file}")
    await w.model.meets(w.hint, "move", source=w.names.missing + "x", to=w.names.word)
    await w.model.does("ls")


# --- what is in a file -----------------------------------------------------------------------


@follows(OF_A_TOOL["read_file", "binary_file"])
async def the_wrong_encoding(w):
    await w.fs.write_bytes(w.names.other, b"odd")
    await w.model.meets(w.hint, "read_file", path=w.names.other, encoding="utf-16")
    await w.model.does("read_file", path=w.names.other)
    await w.model.does("read_file", path=w.names.other, encoding="latin-1")


@follows(hints.NAME_THIS_ENCODING)
async def utf_16_by_its_name(w):
    await w.fs.write_bytes(w.names.other, "grün\n".encode("utf-16-be"))
    filled = await w.model.meets(w.hint, "read_file", path=w.names.other)
    encoding = filled["likely"]
    assert "grün" in await w.model.does("read_file", path=w.names.other, encoding=encoding)


@follows(hints.NAME_THE_ENCODING)
async def an_old_encoding(w):
    await w.fs.write_bytes(w.names.other, f"grün\n{len(w.names.word)}\n".encode("latin-1"))
    await w.model.meets(w.hint, "read_file", path=w.names.other)
    assert "grün" in await w.model.does("read_file", path=w.names.other, encoding="latin-1")


@follows(OF_A_TOOL["read_file", "hash_mismatch"], tools={"max_tool_result_bytes": 256})
async def a_cursor_of_what_was(w):
    line = w.names.word * 300
    await w.fs.write_text(w.names.other, line)
    filled = await w.model.meets(hints.GO_ON_BY_CURSOR, "read_file", path=w.names.other)
    await w.fs.write_text(w.names.other, f"X{line}")
    await w.model.meets(w.hint, "read_file", path=w.names.other, cursor=filled["cursor"])
    assert "X" in await w.model.does("read_file", path=w.names.other)


@follows(hints.GO_ON_AT_LINE)
async def lines_that_follow(w):
    filled = await w.model.meets(w.hint, "read_file", path=w.names.file, limit=1)
    line = int(filled["next_line"])
    assert line == 2
    assert w.names.word in await w.model.does("read_file", path=w.names.file, line=line)


@follows(hints.GO_ON_BY_CURSOR, tools={"max_tool_result_bytes": 256})
async def a_long_line(w):
    await w.fs.write_text(w.names.other, w.names.word * 300)
    filled = await w.model.meets(w.hint, "read_file", path=w.names.other)
    await w.model.does("read_file", path=w.names.other, cursor=filled["cursor"])
    given = {"path": w.names.other, "encoding": "latin-1", "lineNumbers": True, "limit": 1}
    await w.fs.write_bytes(w.names.other, b"\xe9" * 300)
    filled = await w.model.meets(w.hint, "read_file", **given)
    assert "1\té" in await w.model.does("read_file", **given, cursor=filled["cursor"])


@follows(hints.READ_ALONE, tools={"max_tool_result_bytes": 256})
async def no_room_for_all(w):
    await w.fs.write_text(w.names.other, w.names.word * 300)
    await w.model.meets(w.hint, "read_file", paths=[w.names.other] * 3)
    assert w.names.word in await w.model.does("read_file", path=w.names.other)


@follows(OF_A_TOOL["write_file", "hash_mismatch"])
async def a_file_that_was_changed(w):
    stale = {"path": w.names.file, "content": "mine", "expectedSha256": "0" * 64}
    await w.model.meets(w.hint, "write_file", **stale)
    read = await w.model.does("read_file", path=w.names.file)
    told = re.search(r"sha256 ([0-9a-f]{64})", read)[1]
    await w.model.does("write_file", **{**stale, "expectedSha256": told})


@follows(OF_A_TOOL["write_file", "file_too_large"], tools={"max_file_size_mb": 0.0001})
async def too_much_to_write(w):
    text = "x" * 150
    await w.model.meets(w.hint, "write_file", path=w.names.other, content=text)
    await w.model.does("write_file", path=w.names.other, content=text[:75])
    await w.model.does("write_file", path=w.names.missing, content=text[75:])


@follows(OF_A_TOOL["edit_file", "text_not_found"])
async def text_that_is_not_there(w):
    change = {"path": w.names.file, "oldText": f"{w.names.word} \n", "newText": "x"}
    await w.model.meets(w.hint, "edit_file", **change)
    read = await w.model.does("read_file", path=w.names.file)
    copied = f"{w.names.word}\n{w.names.word}"
    assert copied in read
    await w.model.does("edit_file", **{**change, "oldText": copied})


@follows(OF_A_TOOL["edit_file", "ambiguous_text_match"])
async def text_that_is_there_twice(w):
    change = {"path": w.names.file, "oldText": w.names.word, "newText": "x"}
    await w.model.meets(w.hint, "edit_file", **change)
    await w.model.does("edit_file", **change, replaceAll=True)
    await w.fs.write_text(w.names.file, f"{w.names.word}\n{w.names.word}\n")
    await w.model.meets(w.hint, "edit_file", **change)
    await w.model.does("edit_file", **{**change, "oldText": f"{w.names.word}\n{w.names.word}"})


# --- what was cut ----------------------------------------------------------------------------


@follows(hints.NARROW_GREP)
async def too_many_lines(w):
    given = {"pattern": w.names.word, "maxResults": 1}
    for wider in ({"maxResults": 9}, {"path": w.names.folder}, {"includeGlob": w.names.file}):
        await w.model.meets(w.hint, "grep", **given)
        assert w.names.word in await w.model.does("grep", **{**given, **wider})


@follows(hints.RAISE_FILE_SIZE)
async def too_large_to_be_searched(w):
    given = {"pattern": w.names.word, "maxGrepFileSizeMb": 1e-6}
    await w.model.meets(w.hint, "grep", **given)
    assert w.names.word in await w.model.does("grep", **{**given, "maxGrepFileSizeMb": 1})


@follows(hints.READ_THE_LINE)
async def too_long_a_line(w):
    await w.fs.write_text(w.names.other, f"first\n{'x' * 5000}{w.names.word}\nlast\n")
    await w.model.meets(w.hint, "grep", pattern=w.names.word, path=w.names.other)
    told = await w.model.does("read_file", path=w.names.other, line=2, limit=1)
    assert f"{'x' * 5000}{w.names.word}\n<" in told


@follows(hints.NARROW_GLOB, tools={"max_glob_matches": 1})
async def too_many_paths(w):
    await w.model.meets(w.hint, "glob", pattern="**")
    assert w.names.file in await w.model.does("glob", pattern="*", path=w.names.folder)


@follows(hints.NARROW_LS, tools={"max_dir_entries": 1})
async def too_many_entries(w):
    await w.model.meets(w.hint, "ls")
    assert w.names.file in await w.model.does("glob", pattern=w.names.file)


@follows(hints.NARROW_TREE, tools={"max_dir_entries": 2})
async def too_large_a_tree(w):
    await w.model.meets(w.hint, "tree")
    assert "truncated" not in await w.model.does("tree", path=w.names.folder)
    assert "truncated" not in await w.model.does("tree", depth=1)


# --- versions --------------------------------------------------------------------------------


@follows(hints.GO_ON_IN_HISTORY, place="volume")
async def a_long_history(w):
    filled = await w.model.meets(w.hint, "history", limit=1)
    assert "version" in await w.model.does("history", limit=1, cursor=filled["cursor"])


@follows(hints.NOTHING_TO_COMPARE, place="volume")
async def one_version(w):
    await w.model.meets(w.hint, "diff", path=w.names.file)
    assert "version" in await w.model.does("history", path=w.names.file)


@follows(hints.WHICH_VERSIONS, place="volume")
async def a_version_that_never_was(w):
    await w.fs.write_text(w.names.file, "newer\n")
    for wrong in ("99999", w.names.word):
        await w.model.meets(w.hint, "diff", path=w.names.file, version=wrong)
        told = await w.model.does("history", path=w.names.file)
        oldest = re.findall(r"version (\S+):", told)[-1]
        assert "newer" in await w.model.does("diff", path=w.names.file, version=oldest)


@follows(hints.IN_PARTS, place="volume", tools={"max_tool_result_bytes": 256})
async def a_long_difference(w):
    for text in ("one", "two"):
        await w.fs.write_text(w.names.other, f"{text}\n" * 100)
    await w.model.meets(w.hint, "diff", path=w.names.other)
    assert "two" in await w.model.does("read_file", path=w.names.other, line=50, limit=5)
    change = {"path": w.names.other, "oldText": "two", "newText": "six", "replaceAll": True}
    await w.model.meets(w.hint, "edit_file", **change)
    assert "six" in await w.model.does("read_file", path=w.names.other, line=50, limit=5)


@follows(hints.ONE_OF_TWO, OF_A_TOOL["undo", "path_not_found"], place="volume")
async def nothing_to_undo(w):
    await w.model.call("write_file", {"path": w.names.other, "content": w.names.word})
    wrong = {} if w.hint == hints.ONE_OF_TWO else {"request": w.names.missing}
    for argument, row in (("request", r"request (\S+)"), ("version", r"version (\S+):")):
        await w.model.meets(w.hint, "undo", **wrong)
        told = await w.model.does("history")
        mine = next(line for line in told.splitlines() if w.names.other in line)
        if w.hint == hints.ONE_OF_TWO or argument == "request":
            await w.model.does("undo", **{argument: re.search(row, mine)[1]})
            await w.model.call("write_file", {"path": w.names.other, "content": w.names.word})


# --- what passes -----------------------------------------------------------------------------


@follows(GENERAL["lock_held"], place="volume")
async def somebody_elses_lease(w):
    given = {"path": w.names.file, "content": w.names.word}
    async with w.fs.lock(w.names.file):
        await w.model.meets(w.hint, "write_file", **given)
    await w.model.does("write_file", **given)


@follows(GENERAL["rate_limited"], GENERAL["busy"], GENERAL["io_error"])
async def what_passes_by_itself(w):
    kinds = {each.kind: each for each in (errors.RateLimited, errors.Busy, errors.IoError)}
    for kind, error in kinds.items():
        if GENERAL[kind] == w.hint:
            with failing_once("stat", error("not now")):
                model = LiteralModel(toolbox(w.fs))
                await model.meets(w.hint, "stat", path=w.names.file)
                await model.does("stat", path=w.names.file)


@follows(GENERAL["hash_mismatch"], GENERAL["binary_file"], GENERAL["file_already_exists"],
         GENERAL["directory_not_empty"], OF_A_TOOL["diff", "file_too_large"],
         GENERAL["file_too_large"], GENERAL["internal_error"],
         GENERAL["approval_timeout"], place="volume")  # fmt: skip
async def what_is_told_by_a_store_of_another_kind(w):
    path = w.names.file
    tool, error, following, then = {
        GENERAL["hash_mismatch"]: ("edit_file", errors.HashMismatch, "read_file", {"path": path}),
        GENERAL["binary_file"]: ("grep", errors.BinaryFile, "stat", {"path": path}),
        GENERAL["file_already_exists"]: ("write_file", errors.FileAlreadyExists, "rm",
                                         {"path": path}),
        GENERAL["directory_not_empty"]: ("move", errors.DirectoryNotEmpty, "move",
                                         {"source": path, "to": w.names.other}),
        GENERAL["file_too_large"]: ("read_file", errors.FileTooLarge, "read_file", {"path": path}),
        GENERAL["internal_error"]: ("stat", errors.InternalError, "ls", {}),
        GENERAL["approval_timeout"]: ("stat", errors.ApprovalTimeout, "ls", {}),
        hints.IN_PARTS: ("diff", errors.FileTooLarge, "read_file",
                         {"path": path, "line": 1, "limit": 1}),
    }[w.hint]  # fmt: skip
    given = {
        "edit_file": {"path": path, "oldText": "x", "newText": "y"}, "grep": {"pattern": "x"},
        "write_file": {"path": path, "content": "x"},
        "move": {"source": path, "to": w.names.folder},
    }.get(tool, {"path": path})  # fmt: skip
    with failing_once(tool, error("refused")):
        model = LiteralModel(toolbox(w.fs))
        await model.meets(w.hint, tool, **given)
        await model.does(following, **then)


@follows(GENERAL["parse_error"], place="volume")
async def a_path_that_is_none(w):
    for tool in ("ls", "tree", "stat", "history"):
        await w.model.meets(w.hint, tool, path=f"{w.names.folder}\0")
        await w.model.does(tool, path=w.names.folder)


@follows(hints.ARGUMENTS, place="volume")
async def an_argument_that_is_none(w):
    for tool in ("ls", "tree", "stat", "history"):
        filled = await w.model.meets(w.hint, tool, path=w.names.folder, **{w.names.word: 1})
        assert "path" in filled["names"].split(", ")
        await w.model.does(tool, path=w.names.folder)
    edit = {"path": w.names.file, "edits": [{"old": "x", "new": "y"}]}
    filled = await w.model.meets(w.hint, "edit_file", **edit)
    assert "edits (each oldText, newText, replaceAll)" in filled["names"]


@follows(hints.TOOLS)
async def a_tool_that_is_none(w):
    filled = await w.model.meets(w.hint, w.names.word)
    assert "ls" in filled["names"].split(", ")
    await w.model.does("ls")


@follows(hints.MAKE_IT_AGAIN)
async def a_person_who_has_not_answered(w):
    await w.fs.write_text(".env", w.names.word)
    pending = await w.model.box.attempt("read_file", {"path": ".env"})
    w.model.reads(w.hint, "read_file", {"path": ".env"}, pending.answer())
    await w.model.does("read_file", path=w.names.file)


@pytest.mark.spec("TOOL-4")
@pytest.mark.parametrize("key", SITUATIONS, ids=lambda key: f"{key[1]}: {key[0].text[:40]}")
@settings(max_examples=6)
@given(n=names)
async def test_who_takes_a_hint_at_its_word_succeeds(tmp_path_factory, key, n):
    folder = tmp_path_factory.mktemp("hints")
    async with arranged(SITUATIONS[key], folder, n, key[0]) as world:
        await SITUATIONS[key].run(world)


@pytest.mark.spec("TOOL-4", "AUTH-8")
async def test_room_is_made_by_removing_something(tmp_path):
    async with governed(tmp_path, options="quota = {bytes = 100}") as house:
        box = toolbox(await house.scope())
        model = LiteralModel(box)
        await box.call("write_file", {"path": "a", "content": "x" * 90})
        more = {"path": "b", "content": "x" * 50}
        await model.meets(GENERAL["quota_exceeded"], "write_file", **more)
        await model.does("rm", path="a")
        await model.does("write_file", **more)


@pytest.mark.spec("TOOL-4", "POL-4")
async def test_the_same_call_goes_through_once_a_person_agreed(tmp_path):
    async with governed(tmp_path, more='[ask]\nsurface = "console"\n') as house:
        await house.plant({".env": b"KEY=1", "a": b"x"})
        model = LiteralModel(toolbox(await house.scope()))
        answer = await model.box.call("read_file", {"path": ".env"}, wait_s=0)
        model.reads(hints.STILL_OPEN, "read_file", {"path": ".env"}, answer)
        await model.does("read_file", path="a")
        await house.authority.approvals.answer(
            answer["approvalId"], "once", by="user:ann", front="console"
        )
        assert "KEY=1" in await model.does("read_file", path=".env")


@pytest.mark.spec("TOOL-4", "MCP-1")
async def test_a_root_that_is_named_in_the_hint_is_one():
    async with bailiwick.open("memory:") as one, bailiwick.open("memory:") as two:
        service = Service({"workspace:one": toolbox(one), "workspace:two": toolbox(two)})
        client = SimpleNamespace(can_elicit=False)
        refused = await service.call_tool(client, "ls", {"root": "workspace"}, None)
        told = refused["content"][0]["text"]
        named = re.search(r"`root` is one of ([^\"]+)", told)[1].split(", ")
        assert named == list(service.boxes)
        for root in named:
            listed = await service.call_tool(client, "ls", {"root": root}, None)
            assert not listed.get("isError"), listed


@pytest.mark.spec("TOOL-4", "EXEC-10")
@pytest.mark.usefixtures("needs_bubblewrap")
async def test_a_command_looks_into_what_is_no_text(tmp_path):
    async with bailiwick.open(tmp_path, state_dir=str(tmp_path.parent / "state")) as fs:
        await fs.write_bytes("b", b"\0\1" * 9)
        mine = fs.with_caller("mine", asker=Person("once"))
        model = LiteralModel(toolbox(mine, operations=["read_file", "run_command"]))
        await model.meets(hints.LOOK_BY_COMMAND, "read_file", path="b")
        assert "18" in await model.does("run_command", command="wc -c b")


PATTERNS = [
    ("glob", "pattern", "", "**"), ("glob", "pattern", "/a", "a"), ("glob", "pattern", "../a", "a"),
    ("glob", "pattern", "[z-a]", "[a-z]"), ("glob", "pattern", "{a", r"\{a"),
    ("glob", "pattern", "a\\", r"a\\"),
    ("glob", "pattern", "[[:alpha:]]", "[a-z]"), ("glob", "pattern", "a" * 5_000, "a" * 4_096),
    ("glob", "pattern", "./", "**"), ("grep", "pattern", "", "^"),
    ("grep", "pattern", "a\nb", "a"), ("grep", "pattern", "a(?=b)", "ab"),
    ("grep", "pattern", r"(a)\1", r"a\w"), ("grep", "includeGlob", "[z-a]", "[a-z]"),
    ("grep", "includeGlob", "../a", "a"),
]  # fmt: skip


@pytest.mark.spec("TOOL-4")
@pytest.mark.parametrize(("tool", "argument", "wrong", "right"), PATTERNS)
async def test_a_pattern_that_is_mended_as_the_hint_says_is_searched_for(
    tool, argument, wrong, right
):
    async with bailiwick.open("memory:") as fs:
        await fs.write_text("a", "ab\n")
        box = toolbox(fs)
        more = {} if argument == "pattern" else {"pattern": "a"}
        refused = await box.call(tool, {argument: wrong, **more})
        assert refused["errorKind"] == "parse_error"
        assert refused["hint"] != GENERAL["parse_error"].text
        assert "errorKind" not in await box.call(tool, {argument: right, **more})


def test_every_hint_of_the_table_is_followed():
    table = {
        *GENERAL.values(), *OF_A_TOOL.values(), *(each for some in ALONE.values() for each in some),
        *(each for each in vars(hints).values() if isinstance(each, hints.Hint)),
    }  # fmt: skip
    by_themselves = {
        GENERAL["quota_exceeded"], hints.STILL_OPEN, hints.ONE_OF, hints.LOOK_BY_COMMAND,
    }  # fmt: skip
    followed = {hint for hint, _ in SITUATIONS} | by_themselves
    assert table == followed | NOTHING_FOLLOWS | OF_EDITORS
    assert not followed & NOTHING_FOLLOWS
