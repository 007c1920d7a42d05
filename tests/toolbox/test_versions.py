"""`history`, `undo` and `diff`: where the store keeps versions, and only there."""

import pytest

import bailiwick
from bailiwick.fronts.tools import tools
from bailiwick.toolbox import BASE_OPERATIONS, HISTORY_OPERATIONS, Pending
from tests.toolbox.support import inner, toolbox


@pytest.fixture
def volume(tmp_path):
    return f"sqlite:{tmp_path}/a.db?volume=main"


@pytest.mark.spec("TOOL-1", "MCP-1")
async def test_they_are_offered_where_there_is_history(volume):
    async with bailiwick.open(volume) as fs:
        assert [t.operation for t in tools(fs).tools] == [*BASE_OPERATIONS, *HISTORY_OPERATIONS]
        without = tools(fs, operations=["ls", "undo"]).tools
        assert [t.operation for t in without] == ["ls", "undo"]
    async with bailiwick.open("memory:") as fs:
        assert [t.operation for t in tools(fs).tools] == list(BASE_OPERATIONS)
        assert tools(fs, operations=["undo"]).tools == ()


@pytest.mark.spec("TOOL-1", "VOL-5")
async def test_an_agent_sees_and_undoes_what_it_did(volume):
    async with bailiwick.open(volume) as fs:
        box = toolbox(fs)
        made = await box.call("write_file", {"path": "a", "content": "one\n"})
        edited = await box.call("edit_file", {"path": "a", "oldText": "one", "newText": "two"})
        versions = (await box.call("history", {"path": "a"}))["versions"]
        assert [v["requestId"] for v in versions] == [edited["requestId"], made["requestId"]]
        assert versions[0]["by"] == "agent_run:tools/s1"
        assert versions[0]["sha256"] == edited["sha256"]
        page = await box.call("history", {"path": "a", "limit": 1})
        assert page["truncated"] is True
        rest = await box.call("history", {"path": "a", "cursor": page["nextCursor"]})
        assert rest["versions"] == versions[1:]

        diff = await box.call("diff", {"path": "a"})
        assert "-one\n+two" in inner(diff["diff"])
        assert diff["equal"] is False
        same = await box.call("diff", {"path": "a", "version": versions[0]["version"]})
        assert same["equal"] is True

        plan = await box.call("undo", {"request": edited["requestId"], "preview": True})
        assert (plan["undone"], plan["preview"]) == (["a"], True)
        assert (await fs.read_text("a")).text == "two\n"
        done = await box.call("undo", {"request": edited["requestId"]})
        assert (done["ok"], done["undone"], done["conflicts"]) == (True, ["a"], [])
        assert (await fs.read_text("a")).text == "one\n"


@pytest.mark.spec("TOOL-1", "TOOL-4")
@pytest.mark.parametrize("place", ["volume", "directory"])
async def test_a_file_is_compared_with_what_it_was_under_another_name(place, volume, tmp_path):
    kept = {"history": "on", "state_dir": str(tmp_path / "state")}
    (tmp_path / "tree").mkdir()
    opened = bailiwick.open(volume) if place == "volume" else bailiwick.open(
        tmp_path / "tree", **kept
    )  # fmt: skip
    async with opened as fs:
        box = toolbox(fs)
        await box.call("write_file", {"path": "a", "content": "one\n"})
        await box.call("write_file", {"path": "other", "content": "x\n"})
        await box.call("move", {"from": "a", "to": "b"})
        assert (await box.call("diff", {"path": "b"}))["equal"] is True
        await box.call("write_file", {"path": "b", "content": "two\n"})
        assert "-one\n+two" in (await box.call("diff", {"path": "b"}))["diff"]
        for version in (await box.call("history", {"path": "b"}))["versions"]:
            answer = await box.call("diff", {"path": "b", "version": version["version"]})
            assert answer["equal"] is (version["path"] == "b" and version["kind"] == "updated")
        [theirs] = (await box.call("history", {"path": "other"}))["versions"]
        wrong = await box.call("diff", {"path": "b", "version": theirs["version"]})
        assert wrong["errorKind"] == "path_not_found"
        assert wrong["hint"] == "history tells which versions there are"


@pytest.mark.spec("TOOL-1", "TOOL-4")
async def test_what_cannot_be_undone(volume):
    async with bailiwick.open(volume) as fs:
        box = toolbox(fs)
        await fs.write_text("theirs", "x")
        [version] = (await box.call("history", {"path": "theirs"}))["versions"]
        assert version["by"] == "user:local"
        for given in ({"request": version["requestId"]}, {"version": version["version"]}):
            assert (await box.call("undo", given))["ok"] is False
        assert (await fs.read_text("theirs")).text == "x"
        for given in ({}, {"request": "a", "version": "1"}):
            assert (await box.call("undo", given))["errorKind"] == "parse_error"
        assert (await box.call("diff", {"path": "theirs"}))["errorKind"] == "parse_error"
        made = await box.call("write_file", {"path": "mine", "content": "1"})
        await fs.write_text("mine", "2")
        late = await box.call("undo", {"request": made["requestId"]})
        assert late["ok"] is False
        assert [each["path"] for each in late["conflicts"]] == ["mine"]
        assert (await fs.read_text("mine")).text == "2"


@pytest.mark.spec("TOOL-5", "POL-4")
async def test_an_undo_is_asked_about_like_anything_else(volume):
    async with bailiwick.open(volume) as fs:
        await fs.write_text(".git/config", "old\n", parents=True)
        box = toolbox(fs)
        given = {"path": ".git/config", "content": "new\n"}
        made = await box.resume("write_file", given, allowed=True)
        undo = {"request": made["requestId"]}
        rehearsed = await box.rehearse("undo", undo)
        attempted = await box.attempt("undo", undo)
        assert isinstance(attempted, Pending)
        assert rehearsed.binding == attempted.binding
        assert (await fs.read_text(".git/config")).text == "new\n"
        assert (await box.resume("undo", undo, allowed=False))["ok"] is False
        assert (await fs.read_text(".git/config")).text == "new\n"
        assert (await box.resume("undo", undo, allowed=True))["ok"] is True
        assert (await fs.read_text(".git/config")).text == "old\n"


@pytest.mark.spec("TOOL-5")
async def test_a_rehearsed_undo_changes_nothing(volume):
    async with bailiwick.open(volume) as fs:
        box = toolbox(fs)
        made = await box.call("write_file", {"path": "a", "content": "one\n"})
        assert await box.rehearse("undo", {"request": made["requestId"]}) is None
        assert await fs.exists("a")
