"""`watch` and `on_change`: what one grant is told of a root's changes, through whole scopes."""

import asyncio
import contextlib
import os
import random
import subprocess

import msgspec
import pytest

import bailiwick
from bailiwick.errors import Closed, GrantRevoked, MissingAccess, ParseError, PathNotFound
from bailiwick.events import parse_cursor
from bailiwick.operations import ALL_ACCESS
from bailiwick.paths import ScopedPath
from tests.feeds import any_path
from tests.scope.support import Rules, deny, granted, hide, place_of, plant, records, unruled
from tests.waiting import give_a_chance, until

pytestmark = pytest.mark.spec("EVENT-1")


class Watch:
    """Gathers what a scope's `watch` tells, from the moment it is entered."""

    def __init__(self, scope, path=".", **options):
        self._changes = scope.watch(path, **options)
        self.told = []

    async def __aenter__(self):
        self._task = asyncio.create_task(self._gather())
        await asyncio.sleep(0)
        return self

    async def _gather(self):
        async with contextlib.aclosing(self._changes):
            async for told in self._changes:
                self.told.append(told)

    async def __aexit__(self, *_):
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def brief(self, count):
        await until(lambda: len(self.told) >= count)
        await give_a_chance(0.05)  # to more
        return [_brief(told) for told in self.told]


def _brief(told):
    return (told.kind, str(told.path)) + ((str(told.origin),) if told.origin else ())


async def cursor_of(scope):
    """A cursor of this moment, with others watched from here on."""
    return await scope._pipeline.changes.cursor()


# --- what is told -----------------------------------------------------------------------------


async def test_every_verb_that_changes_tells_what_it_did(opening):
    async with opening() as fs:
        await plant(unruled(fs), {"d/e/f": "1", "g": "2"})
        mine = fs.with_request("r1")
        async with Watch(fs) as watch:
            await mine.write_text("new", "x")
            await mine.write_text("new", "y")
            await mine.append("new", b"z")
            await mine.truncate("new", 1)
            await mine.edit("g", [bailiwick.Edit("2", "3")])
            await mine.make_dir("h")
            await mine.symlink("l", "g")
            await mine.set_mode("g", 0o600)
            await mine.set_times("g", 5)
            await mine.copy("g", "copy")
            await mine.move("d", "D")
            await mine.remove("D", recursive=True)
            told = await watch.brief(12)
        assert told == [
            ("created", "new"), ("updated", "new"), ("updated", "new"), ("updated", "new"),
            ("updated", "g"), ("created", "h"), ("created", "l"), ("updated", "g"),
            ("updated", "g"), ("created", "copy"), ("moved", "D", "d"), ("deleted", "D"),
        ]  # fmt: skip
        assert {each.request_id for each in watch.told} == {"r1"}
        assert {each.subject for each in watch.told} == {"user:local"}
        assert [each.type for each in watch.told][5:7] == ["directory", "symlink"]
        assert watch.told[-1].subtree
        assert watch.told[-2].subtree


async def test_a_directory_made_on_the_way_is_told_once(disk):
    async with disk() as fs:
        await cursor_of(fs)
        async with Watch(fs) as watch:
            await fs.write_text("a/b/c", "x", parents=True)
            told = await watch.brief(3)
        assert sorted(told) == [("created", "a"), ("created", "a/b"), ("created", "a/b/c")]


@pytest.mark.spec("DISK-7")
async def test_own_and_foreign_changes_side_by_side(disk):
    async with disk() as fs:
        await cursor_of(fs)
        async with Watch(fs) as watch:
            await fs.write_text("own", "x")
            subprocess.run(["sh", "-c", "echo x > foreign"], cwd=place_of(fs), check=True)
            told = await watch.brief(2)
        assert sorted(told) == [("created", "foreign"), ("created", "own")]
        assert {str(each.path): each.subject for each in watch.told} == {
            "own": "user:local", "foreign": "",
        }  # fmt: skip


async def random_change(fs, rng):
    path, other = any_path(rng), any_path(rng)
    verbs = (
        lambda: fs.write_bytes(path, rng.randbytes(rng.randint(0, 20))),
        lambda: fs.write_bytes(path, rng.randbytes(rng.randint(0, 20)), mode="create"),
        lambda: fs.append(path, b"x"),
        lambda: fs.make_dir(path),
        lambda: fs.remove(path, recursive=True),
        lambda: fs.move(path, other, replace=True),
        lambda: fs.copy(path, other, recursive=True),
        lambda: fs.symlink(path, "a"),
    )
    with contextlib.suppress(bailiwick.BailiwickError):
        result = await rng.choice(verbs)()
        if getattr(result, "changed", True):
            return result.request_id
    return None


@pytest.mark.slow
async def test_ten_thousand_random_changes_with_a_watcher_killed_a_hundred_times(either):
    rng = random.Random(11)
    async with either() as fs:
        cursor, heard, done = await cursor_of(fs), [], []

        async def watch():
            nonlocal cursor
            async with contextlib.aclosing(fs.watch(since=cursor)) as changes:
                async for told in changes:
                    heard.append((told.kind, told.request_id))
                    cursor = told.cursor

        task = asyncio.create_task(watch())
        for number in range(10_000):
            request = await random_change(fs, rng)
            if request is not None:
                done.append(request)
            if number % 100 == 99:
                await asyncio.sleep(0)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                task = asyncio.create_task(watch())
        await until(lambda: len(heard) >= len(done))
        await give_a_chance()  # to more
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert len(done) > 1_000
        assert [request for _, request in heard] == done


# --- one path ---------------------------------------------------------------------------------


async def test_a_watch_of_one_path_tells_what_happens_there(opening):
    async with opening() as fs:
        await plant(unruled(fs), {"d/f": "1", "e/g": "2", "h": "3"})
        async with Watch(fs, "d") as watch:
            await fs.write_text("e/new", "x")
            await fs.write_text("d/new", "x")
            await fs.move("e/g", "d/g")  # into sight
            await fs.move("d/f", "e/f")  # out of sight
            await fs.move("d/new", "d/old")
            await fs.move("e", "E")
            await fs.remove("d", recursive=True)
            told = await watch.brief(5)
        assert told == [
            ("created", "d/new"), ("created", "d/g"), ("deleted", "d/f"),
            ("moved", "d/old", "d/new"), ("deleted", "d"),
        ]  # fmt: skip


async def test_what_happens_to_directories_above_a_watched_path_is_told_of_it(opening):
    async with opening() as fs:
        await plant(unruled(fs), {"a/b/c/f": "1", "x/y": "2"})
        async with Watch(fs, "a/b") as watch:
            await fs.move("a", "away")
            await fs.move("away", "a")
            await fs.write_text("a/other", "x")
            await fs.remove("a", recursive=True)
            await fs.move("x", "a")
            told = await watch.brief(3)
        assert told == [("deleted", "a/b"), ("created", "a/b"), ("deleted", "a/b")]
        assert watch.told[0].subtree
        assert watch.told[0].beneath == ("c/", "c/f")


async def test_a_single_file_can_be_watched(opening):
    async with opening() as fs:
        await plant(unruled(fs), {"d/f": "1"})
        async with Watch(fs, "d/f") as watch:
            await fs.write_text("d/g", "x")
            await fs.write_text("d/f", "x")
            await fs.remove("d/f")
            assert await watch.brief(2) == [("updated", "d/f"), ("deleted", "d/f")]


async def test_expand_tells_every_path_and_each_can_be_continued_from(opening):
    async with opening() as fs:
        await plant(unruled(fs), {"d/e/f": "1", "d/g": "2"})
        start = await cursor_of(fs)
        await fs.move("d", "D")
        await fs.write_text("after", "x")
        await fs.remove("D", recursive=True)
        expected = [
            ("moved", "D", "d"), ("moved", "D/e", "d/e"), ("moved", "D/e/f", "d/e/f"),
            ("moved", "D/g", "d/g"), ("created", "after"), ("deleted", "D"), ("deleted", "D/e"),
            ("deleted", "D/e/f"), ("deleted", "D/g"),
        ]  # fmt: skip
        async with Watch(fs, since=start, expand=True) as watch:
            assert await watch.brief(9) == expected
        assert [each.type for each in watch.told[:4]] == ["directory", "directory", "file", "file"]
        for number, told in enumerate(watch.told[:-1], start=1):
            async with Watch(fs, since=told.cursor, expand=True) as rest:
                assert await rest.brief(9 - number) == expected[number:]


async def test_expand_says_where_not_all_names_were_kept(opening):
    limits = bailiwick.Limits(feed_subtree_paths_max=2)
    async with opening(limits=limits) as fs:
        await plant(unruled(fs), {"d/1": "", "d/2": "", "d/3": ""})
        async with Watch(fs, expand=True) as watch:
            await fs.remove("d", recursive=True)
            assert await watch.brief(4) == [
                ("deleted", "d"), ("deleted", "d/1"), ("deleted", "d/2"), ("rescan", "d"),
            ]  # fmt: skip


# --- who sees what ----------------------------------------------------------------------------


@pytest.mark.spec("POL-1")
async def test_hidden_paths_are_never_told(opening):
    async with opening(policy=Rules(hide("kept", "d/secret"))) as fs:
        whole = unruled(fs)
        await plant(whole, {"kept/f": "1", "d/secret/g": "2", "d/open": "3", "h": "4"})
        async with Watch(fs) as plain, Watch(fs, expand=True) as expanded:
            # Whoever is not bound by the rule changes what is hidden, and all around it.
            whole._pipeline.ledger._feed = fs._pipeline.changes
            whole._pipeline.changes = fs._pipeline.changes
            await whole.write_text("kept/new", "x")
            await whole.move("h", "kept/h")  # out of sight
            await whole.move("kept/f", "f")  # into sight
            await whole.move("kept", "k2")  # a hidden name becomes one that is seen
            await whole.move("d", "D")
            await whole.remove("D", recursive=True)
            await whole.write_text("end", "x")
            await until(lambda: _brief(plain.told[-1]) == ("created", "end") if plain.told else 0)
            await until(lambda: _brief(expanded.told[-1]) == ("created", "end"))
            told = [*plain.told, *expanded.told]
        for each in told:
            for path in (each.path, each.origin):
                assert path is None or not path.lies_in(ScopedPath("kept"))
                assert path is None or not path.lies_in(ScopedPath("d/secret"))
            if each.origin == "d":
                assert not any(name.startswith("secret") for name in each.beneath)
        assert ("deleted", "h") in [_brief(each) for each in plain.told]
        assert ("created", "f") in [_brief(each) for each in plain.told]
        assert ("created", "k2") in [_brief(each) for each in plain.told]
        assert ("moved", "D/open", "d/open") in [_brief(each) for each in expanded.told]


@pytest.mark.spec("POL-1")
async def test_what_a_rule_refuses_is_told_by_its_name(opening):
    async with opening(policy=Rules(deny("kept"))) as fs:
        whole = unruled(fs)
        whole._pipeline.ledger._feed = whole._pipeline.changes = fs._pipeline.changes
        async with Watch(fs) as watch:
            await whole.write_text("kept", "x")
            assert await watch.brief(1) == [("created", "kept")]


async def test_a_grant_is_told_what_it_reaches(opening):
    async with opening() as fs:
        await plant(unruled(fs), {"a/f": "1", "b/g": "2"})
        part = granted(fs, path=ScopedPath("a"))
        globs = granted(fs, allowed=(("b/**",),), denied=("*.key",))
        async with Watch(part, "a") as narrow, Watch(globs, "b") as filtered:
            await fs.write_text("a/new", "x")
            await fs.write_text("b/new", "x")
            await fs.write_text("b/new.key", "x")
            await fs.move("b/g", "a/g")
            assert await narrow.brief(2) == [("created", "a/new"), ("created", "a/g")]
            assert await filtered.brief(2) == [("created", "b/new"), ("deleted", "b/g")]


async def test_watching_needs_its_access(opening):
    async with opening() as fs:
        blind = granted(fs, access=ALL_ACCESS - {"watch"})
        with pytest.raises(MissingAccess):
            await anext(blind.watch())
        with pytest.raises(MissingAccess):
            await blind.on_change(print)
        with pytest.raises(PathNotFound):
            await anext(fs.watch("missing"))


async def test_a_watch_is_on_record_once_when_it_begins(opening):
    async with opening() as fs:
        async with Watch(fs.with_request("w1")) as watch:
            await fs.write_text("f", "x")
            await watch.brief(1)
            kept = [each for each in records(fs) if each.operation == "watch"]
            assert [(each.verb, each.path, each.outcome) for each in kept] == [
                ("watch", ".", "success")
            ]
            assert kept[0].request_id == "w1"
        assert len([each for each in records(fs) if each.operation == "watch"]) == 1
        for since in ("nonsense", 7):
            with pytest.raises(ParseError):
                await anext(fs.watch(since=since))
            assert records(fs)[-1].error_kind == "parse_error"


async def test_a_watch_ends_with_its_grant(opening):
    async with opening() as fs:
        changes = fs.watch()
        waiting = asyncio.create_task(anext(changes))
        await asyncio.sleep(0)
        heard = []
        await fs.on_change(heard.append)
        await fs.write_text("f", "x")
        assert (await waiting).path == "f"

        class Revoked:
            constant = False

            def check(self, grant, operation):
                raise GrantRevoked("the grant was taken back")

            holds = check

        other = fs._pipeline.standing
        whole = unruled(fs)
        whole._pipeline.ledger._feed = whole._pipeline.changes = fs._pipeline.changes
        fs._pipeline.standing = Revoked()
        await whole.write_text("secret", "x")
        with pytest.raises(GrantRevoked):
            await anext(changes)
        fs._pipeline.standing = other
        await fs.write_text("later", "x")
        assert [str(told.path) for told in heard] == ["f"]


async def test_closing_the_scope_ends_its_watches(opening):
    async with opening() as fs:
        waiting = asyncio.create_task(anext(fs.watch()))
        await until(lambda: fs._pipeline.changes._waiting)
    with pytest.raises(Closed):
        await waiting


# --- listeners --------------------------------------------------------------------------------


@pytest.mark.spec("EVENT-2")
async def test_a_listener_hears_what_its_grant_sees_and_harms_nobody(opening, caplog):
    async with opening(policy=Rules(hide("kept"))) as fs:
        heard = []

        def broken(told):
            heard.append(_brief(told))
            raise ZeroDivisionError

        unsubscribe = await fs.on_change(broken)
        whole = unruled(fs)
        whole._pipeline.ledger._feed = whole._pipeline.changes = fs._pipeline.changes
        await whole.write_text("kept", "x")
        await fs.write_text("f", "x")
        assert heard == [("created", "f")]
        assert "listener failed" in caplog.text
        unsubscribe()
        unsubscribe()
        await fs.write_text("g", "x")
        assert heard == [("created", "f")]


async def test_a_listener_is_a_plain_function(opening):
    async def asynchronous(told):
        pass

    async with opening() as fs:
        for callback in (None, "text", asynchronous):
            with pytest.raises(ParseError):
                await fs.on_change(callback)


async def test_a_rebased_scope_is_told_by_its_own_names(opening):
    async with opening() as fs:
        await plant(unruled(fs), {"base/f": "1"})
        grant = msgspec.structs.replace(fs.grant, path=ScopedPath("base"), base=ScopedPath("base"))
        inner = type(fs)(msgspec.structs.replace(fs._lent, grant=grant))
        heard = []
        async with Watch(inner) as watch:
            await inner.on_change(heard.append)
            await fs.write_text("base/f", "x")
            await fs.write_text("other", "x")
            await fs.write_text("base/g", "x")
            assert await watch.brief(2) == [("updated", "f"), ("created", "g")]
        assert [_brief(told) for told in heard] == [("updated", "f"), ("created", "g")]


def test_no_descriptor_is_left_by_scopes_that_watched(tmp_path):
    async def once():
        async with bailiwick.open(
            tmp_path, durability="rename", state_dir=str(state)
        ) as fs, Watch(fs) as watch:  # fmt: skip
            await fs.write_text("f", "x")
            await watch.brief(1)
            assert parse_cursor(watch.told[0].cursor).session

    state = tmp_path.parent / "watch-state"
    state.mkdir()
    asyncio.run(once())
    before = len(os.listdir("/proc/self/fd"))
    asyncio.run(once())
    assert len(os.listdir("/proc/self/fd")) == before
