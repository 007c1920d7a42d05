"""Forks, snapshots, comparing and merging through a scope."""

import asyncio

import pytest

import bailiwick
from bailiwick import Busy, Closed, FileAlreadyExists, MissingAccess, ParseError, PathNotFound
from bailiwick.grant import AgentRun
from bailiwick.scope.front_access import as_called
from bailiwick.state.usage.meter import UsageMeter
from tests.scope.support import granted, records
from tests.scope.test_runs import rooted
from tests.scope.volumes import AGENT, text, tree, volume

pytestmark = pytest.mark.spec("VOL-6", "VOL-13")


async def test_a_fork_goes_its_own_way_until_it_is_merged(tmp_path):
    async with volume(tmp_path) as fs:
        await fs.write_text("a", "1")
        await fs.write_text("d/b", "1", parents=True)
        fork = await fs.fork("work")
        assert (str(fork.root), fork.root.branch, fs.root.branch) == (str(fs.root), "work", "")
        await fork.write_text("a", "2")
        await fork.move("d", "e")
        await fs.write_text("c", "ours")
        assert await tree(fs) == {"a": "1", "c": "ours", "d/b": "1"}
        compared = await fs.compare("work")
        assert [(each.kind, each.path, each.origin) for each in compared.differences] == [
            ("updated", "a", None), ("deleted", "c", None), ("moved", "e", "d"),
        ]  # fmt: skip
        seen = await fs.merge("work", preview=True)
        assert (seen.version, seen.preview, seen.changed) == (None, True, ["a", "d", "e"])
        assert await text(fs, "a") == "1"
        done = await fs.merge("work")
        assert (done.changed, done.conflicts) == (["a", "d", "e"], [])
        assert await tree(fs) == {"a": "2", "c": "ours", "e/b": "1"}
        newest = (await fs.history("a")).versions[0]
        assert (newest.verb, newest.request_id) == ("merge", done.request_id)
        assert (await fs.merge("work")).version is None
        await fs.undo(done.request_id)
        assert await tree(fs) == {"a": "1", "c": "ours", "d/b": "1"}
        await fork.aclose()
        with pytest.raises(Closed):
            await fork.read_text("a")


async def test_both_sides_changed_is_a_conflict_and_nothing_is_taken_over(tmp_path):
    async with volume(tmp_path) as fs:
        await fs.write_text("a", "base")
        fork = await fs.fork("work")
        await fork.write_text("a", "theirs")
        await fork.write_text("new", "theirs")
        await fs.write_text("a", "ours")
        merged = await fs.merge("work")
        assert (merged.version, merged.changed) == (None, [])
        assert [(each.path, each.reason) for each in merged.conflicts] == [
            ("a", "it was changed on both sides")
        ]
        assert await tree(fs) == {"a": "ours"}
        await fork.aclose()


async def test_forks_and_snapshots_are_named_listed_and_let_go(tmp_path):
    async with volume(tmp_path) as fs:
        await fs.write_text("a", "1")
        made = await fs.snapshot("first")
        assert (made.name, made.branch) == ("first", "main")
        assert await text(fs, "a", as_of=made.version) == "1"
        assert await fs.snapshots() == [made]
        await fs.write_text("a", "2")
        old = await fs.fork("old", version="first")
        assert await text(old, "a") == "1"
        again = await fs.open_fork("old")
        await old.write_text("b", "by one")
        assert await text(again, "b") == "by one"
        home = await again.open_fork("main")
        assert (home.root.branch, await text(home, "a")) == ("", "2")
        listed = await fs.forks()
        assert [(each.name, each.parent, each.version) for each in listed][1:] == [
            ("old", "main", made.version)
        ]
        for refused, wrong in (
            (FileAlreadyExists, fs.fork("old")), (FileAlreadyExists, fs.snapshot("first")),
            (ParseError, fs.fork("no/name")), (ParseError, fs.snapshot("")),
            (ParseError, fs.fork(5)), (ParseError, fs.delete_fork("main")),
            (ParseError, fs.merge("main")), (PathNotFound, fs.open_fork("none")),
            (PathNotFound, fs.merge("none")), (PathNotFound, fs.compare("none")),
            (PathNotFound, fs.delete_fork("none")), (PathNotFound, fs.delete_snapshot("none")),
            (PathNotFound, fs.fork("x", version="none")),
        ):  # fmt: skip
            with pytest.raises(refused):
                await wrong
        for each in (home, again, old):
            await each.aclose()
        await fs.delete_fork("old")
        await fs.delete_snapshot("first")
        assert ([each.name for each in await fs.forks()], await fs.snapshots()) == (["main"], [])


@pytest.mark.spec("AUDIT-1")
async def test_what_is_done_in_a_fork_is_on_record_with_its_branch(tmp_path):
    async with volume(tmp_path) as fs:
        fork = await fs.fork("work")
        await fork.write_text("a", "1")
        inner = await fork.fork("inner")
        await inner.write_text("a", "2")
        await fs.write_text("b", "1")
        assert [(each.verb, each.root.branch) for each in records(fs)] == [
            ("fork", ""), ("write_text", "work"), ("fork", "work"), ("write_text", "inner"),
            ("write_text", ""),
        ]  # fmt: skip
        # Closing the root closes what was opened from it.
    for closed in (fork, inner):
        with pytest.raises(Closed):
            await closed.read_text("a")


@pytest.mark.spec("EVENT-1")
async def test_a_fork_has_a_feed_of_its_own(tmp_path):
    async with volume(tmp_path) as fs:
        fork = await fs.fork("work")
        here, there = [], []
        await fs.on_change(lambda change: here.append((change.kind, change.path)))
        await fork.on_change(lambda change: there.append((change.kind, change.path)))
        await fork.write_text("a", "1")
        await fs.write_text("b", "1")
        await asyncio.sleep(0)
        assert (here, there) == ([("created", "b")], [("created", "a")])
        await fs.merge("work")
        await asyncio.sleep(0)
        assert here[1:] == [("created", "a")]
        assert there == [("created", "a")]
        await fork.aclose()


@pytest.mark.spec("AUTH-4", "AUTH-5")
async def test_a_fork_keeps_to_the_grant_and_so_do_its_heirs(tmp_path):
    async with volume(tmp_path) as fs:
        await fs.write_text("in/a", "1", parents=True)
        await fs.write_text("out/a", "1", parents=True)
        part = await fs.delegate(bailiwick.User("local"), path="in")
        fork = await part.fork("work")
        assert await text(fork, "in/a") == "1"
        with pytest.raises(MissingAccess):
            await fork.read_text("out/a")
        heir = await fork.delegate(AGENT, path="in", rebase=True, access=["read", "write"])
        assert (heir.root.branch, heir.subject) == ("work", AGENT)
        await heir.write_text("a", "2")
        assert (await text(fs, "in/a"), await text(fork, "in/a")) == ("1", "2")
        with pytest.raises(MissingAccess):
            await heir.remove("a")
        # Who reaches a part takes over a part, and lets go of nothing that is more than that.
        whole = await fs.open_fork("work")
        await whole.write_text("out/a", "2")
        with pytest.raises(MissingAccess) as refused:
            await part.merge("work")
        assert "out" not in str(refused.value)
        assert [each.path for each in (await part.compare("work")).differences] == ["in/a"]
        for wrong in (part.delete_fork("work"), part.delete_snapshot("s")):
            with pytest.raises(MissingAccess):
                await wrong
        temp = await fork.create_temp()
        assert (temp.root.kind, temp.root.branch) == ("temp", "")
        await temp.aclose()
        await fork.aclose()
        with pytest.raises(Closed):
            await heir.read_text("a")
        await whole.aclose()


async def test_letting_go_of_a_fork_is_a_deletion(tmp_path):
    async with volume(tmp_path) as fs:
        await (await fs.fork("work")).aclose()
        await fs.snapshot("s")
        writer = granted(fs, access=frozenset({"read", "write", "list"}))
        for wrong in (writer.delete_fork("work"), writer.delete_snapshot("s")):
            with pytest.raises(MissingAccess):
                await wrong
        reader = granted(fs, access=frozenset({"read", "list"}))
        for wrong in (reader.fork("x"), reader.snapshot("x"), reader.merge("work")):
            with pytest.raises(MissingAccess):
                await wrong
        assert [each.name for each in await reader.forks()] == ["main", "work"]
        opened = await reader.open_fork("work")
        with pytest.raises(MissingAccess):
            await opened.write_text("a", "x")
        await opened.aclose()


async def test_a_moved_directory_brings_what_came_into_it(tmp_path):
    """What a fork moves, it moves as it is by now: each path in it is decided on."""
    async with volume(tmp_path) as fs:
        await fs.write_text("d/a", "1", parents=True)
        fork = await fs.fork("work")
        await fork.move("d", "e")
        await fs.write_text("d/late", "1")
        narrow = granted(fs, denied=("d/late",))
        with pytest.raises(MissingAccess):
            await narrow.merge("work")
        assert (await fs.merge("work")).conflicts == []
        assert await tree(fs) == {"e/a": "1", "e/late": "1"}
        await fork.aclose()


async def test_an_expired_or_closed_scope_forks_nothing(tmp_path, clock):
    async with volume(tmp_path) as fs:
        agent = await fs.delegate(AgentRun("a", "b"), expires_in=60)
        clock.advance(60)
        for late in (agent.fork("x"), agent.undo("r"), agent.history(".")):
            with pytest.raises(bailiwick.GrantExpired):
                await late
        await agent.aclose()
        with pytest.raises(Closed):
            await agent.fork("x")
        assert [each.name for each in await fs.forks()] == ["main"]


async def test_history_in_a_fork_is_the_forks_own(tmp_path):
    async with volume(tmp_path) as fs:
        await fs.write_text("kept", "1")
        await fs.write_text("gone", "1")
        fork = await fs.fork("work")
        await fs.remove("kept")
        await fork.remove("gone")
        assert [each.kind for each in (await fork.history("kept")).versions] == ["created"]
        assert [each.kind for each in (await fork.history("gone")).versions] == [
            "deleted", "created",
        ]  # fmt: skip
        assert [each.kind for each in (await fs.history("gone")).versions] == ["created"]
        await fork.aclose()


@pytest.mark.spec("ASK-1")
async def test_a_fork_is_opened_in_a_rehearsal(tmp_path):
    """Opening one only looks, and what only looks is done in a rehearsal."""
    told = []
    async with volume(tmp_path) as fs:
        await (await fs.fork("side")).aclose()
        side = await as_called(fs, rehearsal=told.append).open_fork("side")
        await side.aclose()
        assert told == []


@pytest.mark.spec("SCALE-6")
async def test_a_fork_that_came_or_went_is_told_so_where_its_count_cannot_be_changed(
    tmp_path, monkeypatch
):
    async def busy(*_):
        raise Busy("the database of the state does not answer")

    monkeypatch.setattr(UsageMeter, "let_go", busy)
    async with rooted(tmp_path, "volume") as (person, _):
        await (await person.fork("try")).aclose()
        assert {each.name for each in await person.forks()} == {"main", "try"}
        await person.delete_fork("try")
        assert {each.name for each in await person.forks()} == {"main"}
