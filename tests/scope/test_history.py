"""History, `as_of`, restore and undo through a scope: who changed what, and going back."""

import pytest

import bailiwick
from bailiwick import MissingAccess, ParseError, PathNotFound, Unsupported
from tests.scope.support import granted, records
from tests.scope.volumes import AGENT, OTHER, text, told, tree, volume

pytestmark = pytest.mark.spec("VOL-5")


async def _taken(work):
    async with work:
        pass


WITHOUT_POWER = {
    "history": lambda fs: fs.history("f"),
    "restore": lambda fs: fs.restore("f", "1"),
    "undo": lambda fs: fs.undo("r1"),
    "snapshot": lambda fs: fs.snapshot("s"),
    "snapshots": lambda fs: fs.snapshots(),
    "delete_snapshot": lambda fs: fs.delete_snapshot("s"),
    "fork": lambda fs: fs.fork("w"),
    "forks": lambda fs: fs.forks(),
    "open_fork": lambda fs: fs.open_fork("w"),
    "delete_fork": lambda fs: fs.delete_fork("w"),
    "compare": lambda fs: fs.compare("w"),
    "merge": lambda fs: fs.merge("w"),
    "transaction": lambda fs: _taken(fs.transaction()),
    "lock": lambda fs: _taken(fs.lock("f")),
    "write_text": lambda fs: fs.write_text("f", "x", lock_token=1),
    "read_text": lambda fs: fs.read_text("f", as_of="1"),
    "list": lambda fs: fs.list(as_of="1"),
    "stat": lambda fs: fs.stat("f", as_of="1"),
    "diff": lambda fs: fs.diff("f", as_of="1"),
}


@pytest.mark.parametrize("verb", WITHOUT_POWER)
async def test_a_store_without_versions_says_so_on_record(opening, verb):
    async with opening() as fs:
        await fs.write_text("f", "x")
        with pytest.raises(Unsupported) as refused:
            await WITHOUT_POWER[verb](fs)
        last = records(fs)[-1]
        assert (last.verb, last.outcome, last.error_kind) == (verb, "failed", "unsupported")
        assert last.request_id == refused.value.request_id
        assert await text(fs, "f") == "x"


@pytest.mark.spec("AUDIT-5")
async def test_history_tells_who_changed_a_place_and_pages(tmp_path):
    async with volume(tmp_path) as fs:
        agent = await fs.delegate(AGENT)
        await fs.write_text("f", "one")
        await agent.with_request("r1").write_text("f", "two")
        await fs.move("f", "g")
        found = await fs.history("g")
        assert [(each.kind, each.subject, each.path) for each in found.versions] == [
            ("moved", "user:local", "g"),
            ("updated", "agent_run:c1/r7", "f"),
            ("created", "user:local", "f"),
        ]
        assert found.versions[1].request_id == "r1"
        assert not found.truncated
        seen, cursor = [], None
        while True:
            page = await fs.history("g", limit=1, cursor=cursor)
            seen += page.versions
            cursor = page.next_cursor
            if cursor is None:
                break
            assert page.truncated
        assert seen == found.versions
        # What was moved away, and what was removed, is still to be found.
        assert (await fs.history("f")).versions[0].kind == "moved"
        with pytest.raises(PathNotFound):
            await fs.history("never")
        for wrong in ({"limit": 0}, {"limit": 10**6}, {"cursor": "x"}, {"cursor": 5}):
            with pytest.raises(ParseError):
                await fs.history("g", **wrong)


async def test_what_was_is_read_by_version_and_by_snapshot(tmp_path):
    async with volume(tmp_path) as fs:
        await fs.write_json("d/j", {"a": 1}, parents=True)
        await fs.symlink("l", "d/j")
        await fs.write_text(".gitignore", "*.log\n")
        await fs.write_text("d/x.log", "ignored then\n")
        await fs.snapshot("before")
        version = (await fs.write_text("d/j", '{"a": 2}\n')).version
        await fs.remove("l")
        await fs.remove(".gitignore")
        then = {"as_of": "before"}
        assert (await fs.read_json("d/j", **then)).value == {"a": 1}
        assert (await fs.read_json("l", **then)).value == {"a": 1}
        assert await fs.readlink("l", **then) == "d/j"
        assert (await fs.lstat("l", **then)).type == "symlink"
        assert (await fs.stat("d/j", **then)).size != (await fs.stat("d/j")).size
        assert await fs.exists("l", **then)
        assert not await fs.exists("l")
        assert b"".join([chunk async for chunk in fs.stream("d/j", **then)]).startswith(b"{")
        assert (await fs.read_bytes("d/j", 0, 1, **then)).data == b"{"
        assert [each.name for each in (await fs.list("d", **then)).entries] == ["j"]
        assert [each.name for each in (await fs.list("d")).entries] == ["j", "x.log"]
        assert (await fs.files("d", **then)).paths == ["d/j"]
        assert (await fs.glob("**/j", **then)).paths == ["d/j"]
        assert (await fs.find(pattern="j", **then)).paths == ["d/j"]
        assert (await fs.read_text("d/x.log", **then)).matched_ignore == "file"
        assert (await fs.read_text("d/x.log")).matched_ignore is None
        assert '"a": 2' in await text(fs, "d/j", as_of=version)
        for nothing in ("nothing", "999999"):
            with pytest.raises(PathNotFound):
                await fs.read_text("d/j", as_of=nothing)
        with pytest.raises(ParseError):
            await fs.read_text("d/j", as_of="")


@pytest.mark.spec("DIFF-1")
async def test_versions_of_a_file_are_compared(tmp_path):
    async with volume(tmp_path) as fs:
        versions = [
            (await fs.write_text("f", f"{number}\n")).version for number in ("one", "two", "three")
        ]
        first, second, _ = versions
        to_now = await fs.diff("f", as_of=first)
        assert "-one\n+three\n" in to_now.text
        assert "-one\n+two\n" in (await fs.diff("f", as_of=first, other_as_of=second)).text
        assert "-three\n+two\n" in (await fs.diff("f", other_as_of=second)).text
        await fs.write_text("g", "one\n")
        assert (await fs.diff("f", "g", as_of=first)).equal
        assert (await fs.diff("f", as_of=first, text="one\n")).equal
        with pytest.raises(ParseError):
            await fs.diff("f", text="x", other_as_of=first)
        with pytest.raises(ParseError):
            await fs.diff("f")


async def test_a_restore_brings_back_what_was_there(tmp_path):
    async with volume(tmp_path) as fs:
        await fs.write_text("d/a", "old", parents=True)
        version = (await fs.write_text("d/b", "old")).version
        await fs.write_text("d/a", "new")
        await fs.remove("d/b")
        await fs.write_text("d/c", "later")
        restored = await fs.restore("d/a", version)
        assert (restored.path, restored.changed) == ("d/a", 1)
        assert await tree(fs) == {"d/a": "old", "d/c": "later"}
        again = await fs.restore("d/a", version)
        assert (again.version, again.changed) == (None, 0)
        await fs.restore("d", version)
        assert await tree(fs) == {"d/a": "old", "d/b": "old"}
        await fs.remove("d", recursive=True)
        await fs.restore("d", version)
        assert await tree(fs) == {"d/a": "old", "d/b": "old"}
        with pytest.raises(ParseError):
            await fs.restore("d", None)
        assert records(fs)[-1].operation == "edit"


async def test_the_run_of_an_agent_is_undone_among_the_work_of_a_person(tmp_path):
    """Only its own changes, and where the person has changed the same file since, that is said."""
    async with volume(tmp_path) as fs:
        agent = await fs.delegate(AGENT)
        await fs.write_text("a", "person 1")
        await fs.write_text("b", "person 1")
        await agent.write_text("a", "agent 1")
        await fs.write_text("c", "person 2")
        await agent.write_text("b", "agent 2")
        await agent.write_text("new", "agent 3")
        await agent.remove("c")
        await fs.write_text("b", "person 3")
        await fs.write_text("d", "person 4")
        seen = await fs.undo(subject=str(AGENT), preview=True)
        assert (seen.version, told(seen)) == (None, {"b"})
        assert seen.undone == ["a", "c", "new"]
        assert (await tree(fs))["a"] == "agent 1"
        done = await fs.undo(subject=str(AGENT))
        assert (done.undone, told(done), done.preview) == (["a", "c", "new"], {"b"}, False)
        assert await tree(fs) == {
            "a": "person 1", "b": "person 3", "c": "person 2", "d": "person 4",
        }  # fmt: skip
        # An undo is a change like any other: by whoever undid it, and to be undone itself.
        newest = (await fs.history("a")).versions[0]
        assert (newest.verb, newest.subject) == ("undo", "user:local")
        assert newest.request_id == done.request_id
        await fs.undo(done.request_id)
        assert (await tree(fs))["a"] == "agent 1"


async def test_only_a_person_undoes_what_another_did(tmp_path):
    async with volume(tmp_path) as fs:
        one, other = await fs.delegate(AGENT), await fs.delegate(OTHER)
        await one.with_request("same").write_text("one", "x")
        version = (await other.with_request("same").write_text("other", "x")).version
        theirs = {"subject": str(OTHER)}
        for meddling in (theirs, {"version": version}, {"request_id": "same", **theirs}):
            with pytest.raises(MissingAccess):
                await one.undo(**meddling)
        assert await tree(fs) == {"one": "x", "other": "x"}
        # An id is the caller's own: both have used the same one.
        assert (await one.undo("same")).undone == ["one"]
        assert await tree(fs) == {"other": "x"}
        await one.with_request("same").write_text("one", "x")
        with pytest.raises(ParseError, match="more than one subject"):
            await fs.undo("same")
        assert (await fs.undo("same", subject=str(OTHER))).undone == ["other"]
        with pytest.raises(PathNotFound):
            await one.undo("never")


async def test_what_to_undo_must_be_said(tmp_path):
    async with volume(tmp_path) as fs:
        version = (await fs.write_text("f", "x")).version
        for wrong in (
            {}, {"request_id": "r", "version": version}, {"through": version},
            {"version": 5}, {"version": "x"}, {"subject": "nobody"}, {"request_id": 5},
            {"version": version, "preview": "yes"},
        ):  # fmt: skip
            with pytest.raises(ParseError):
                await fs.undo(**wrong)
        assert (await fs.undo(version=version, through=version)).undone == ["f"]


async def test_going_back_needs_what_it_really_does(tmp_path):
    """Undoing a creation deletes, undoing a removal writes, undoing a move moves."""
    async with volume(tmp_path) as fs:
        await fs.write_text("f", "x")
        await fs.with_request("made").write_text("made", "x")
        await fs.with_request("moved").move("f", "g")
        writer = granted(fs, access=frozenset({"read", "write"}))
        for request in ("made", "moved"):
            with pytest.raises(MissingAccess):
                await writer.undo(request)
            with pytest.raises(MissingAccess):
                await writer.undo(request, preview=True)
        assert await tree(fs) == {"g": "x", "made": "x"}
        deleter = granted(fs, access=frozenset({"write", "delete"}))
        assert (await deleter.undo("made")).undone == ["made"]
        mover = granted(fs, access=frozenset({"write", "move"}))
        assert (await mover.undo("moved", preview=True)).undone == ["f", "g"]
        reader = granted(fs, access=frozenset({"read", "list"}))
        with pytest.raises(MissingAccess):
            await reader.undo("moved")
        with pytest.raises(MissingAccess):
            await reader.restore("g", "4")
        assert (await reader.history("g")).versions


@pytest.mark.spec("AUTH-4")
async def test_a_part_of_the_root_goes_back_by_itself(tmp_path):
    async with volume(tmp_path) as fs:
        await fs.write_text("in/a", "1", parents=True)
        await fs.write_text("out/a", "1", parents=True)
        part = await fs.delegate(bailiwick.User("local"), path="in", rebase=True)
        await part.with_request("inside").write_text("a", "2")
        first = (await part.history("a")).versions[-1]
        assert (first.path, first.kind) == ("a", "created")
        assert (await part.undo("inside", preview=True)).undone == ["a"]
        await fs.with_request("both").write_text("in/b", "1")
        await fs.with_request("both").write_text("out/b", "1")
        for preview in (True, False):
            with pytest.raises(MissingAccess) as refused:
                await part.undo("both", preview=preview)
            assert refused.value.path is None
            assert "out" not in str(refused.value)
        assert (await part.undo("inside")).undone == ["a"]
        assert await text(fs, "in/a") == "1"
        # What came from elsewhere says nothing of where, nor what it held there.
        await fs.write_text("out/secret", "s")
        await fs.move("out/secret", "in/came")
        assert [each.path for each in (await part.history("came")).versions] == ["came"]
