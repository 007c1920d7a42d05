"""The durable feed: kept, pruned, followed by several processes, told once."""

import asyncio
import contextlib
import os
import random
import shutil
import subprocess
import sys

import pytest

from bailiwick.errors import Closed
from bailiwick.events import Cursor
from bailiwick.limits import Limits
from bailiwick.paths import ScopedPath
from bailiwick.state.feed import FEED, DurableFeed
from bailiwick.state.ledger.chain import LEDGER
from bailiwick.state.ledger.durable import DurableLedger, ledger_key
from tests.feeds import (
    Follower,
    Model,
    Own,
    change,
    disk_store,
    ended,
    own_step,
    stranger,
    tree_of,
    twice_told,
)
from tests.laws.repository import ROOT as CHECKOUT
from tests.state.following import ROOT_NAME
from tests.state.ledgers import change_of, intent
from tests.state.states import open_state
from tests.waiting import give_a_chance, let_pass, until

pytestmark = pytest.mark.spec("EVENT-1")


class State:
    """An open state with one feed."""

    def __init__(self, directory, *, root=ROOT_NAME, store=None, ledger=False, **limits):
        self._directory = None if directory is None else str(directory)
        self._root = root
        self._store = store
        self._with_ledger = ledger
        self._limits = Limits(**limits)
        self.ledger = None

    async def __aenter__(self):
        parts = (FEED, LEDGER) if self._with_ledger else (FEED,)
        self.database = open_state(self._directory, parts)
        announced = None
        if self._with_ledger:
            self.ledger = DurableLedger.open(self.database, ledger_key(self.database))
            announced = self.ledger.in_flight
        self.feed = await DurableFeed.open(
            self.database, self._root, limits=self._limits, source=self._store,
            announced=announced,
        )  # fmt: skip
        return self

    async def __aexit__(self, *_):
        self.feed.close()
        if self.ledger is not None:
            await self.ledger.aclose()
        await self.database.aclose()

    async def settled(self):
        """Wait until what was published is committed."""
        await self.database.write(lambda connection: None)

    def own(self, name):
        """Changes as a pipeline with this ledger makes them."""
        through = self.ledger.for_root(self.feed.keep_changes, self.feed.changes_kept)

        def announced(paths):
            there = paths[1] if len(paths) > 1 else None
            return intent(path=paths[0], destination=there)

        async def announce(paths):
            return await through.intend(announced(paths))

        def settle(paths, number, changes):
            through.settle(change_of(announced(paths)), number, self.feed.prepared(changes))

        return Own(self._store, self.feed, name, announce, settle)


async def take(feed, count, since=None):
    async with contextlib.aclosing(feed.follow(since)) as changes:
        return [await anext(changes) for _ in range(count)]


# --- keeping ----------------------------------------------------------------------------------


@pytest.mark.parametrize("in_memory", [True, False])
async def test_a_change_comes_back_as_it_was_told(tmp_path, in_memory):
    made = change(
        "b", "moved", type="directory", origin=ScopedPath("a"), subtree=True, version="v",
        beneath=("x/", "x/y"), beneath_truncated=True, time_ns=7,
    )  # fmt: skip
    async with State(None if in_memory else tmp_path) as state:
        cursor = await state.feed.cursor()
        state.feed.publish([made, change("c")])
        first, second = await take(state.feed, 2, cursor)
        assert first == change(
            "b", "moved", type="directory", origin=ScopedPath("a"), subtree=True, version="v",
            beneath=("x/", "x/y"), beneath_truncated=True, time_ns=7, cursor=first.cursor,
        )  # fmt: skip
        assert second.time_ns > 0


async def test_a_cursor_outlives_the_process(tmp_path):
    async with State(tmp_path) as state:
        start = await state.feed.cursor()
        state.feed.publish([change(f"f{number}") for number in range(5)])
        told = await take(state.feed, 5, start)
    async with State(tmp_path) as state:
        assert [each.path for each in await take(state.feed, 5, start)] == [
            each.path for each in told
        ]
        assert [each.path for each in await take(state.feed, 2, told[2].cursor)] == ["f3", "f4"]


async def test_roots_have_feeds_of_their_own(tmp_path):
    async with State(tmp_path) as one, State(tmp_path, root="workspace:other") as other:
        here, there = await one.feed.cursor(), await other.feed.cursor()
        one.feed.publish([change("mine")])
        await one.settled()
        other.feed.publish([change("theirs")])
        assert [told.path for told in await take(other.feed, 1, there)] == ["theirs"]
        assert [told.path for told in await take(one.feed, 1, here)] == ["mine"]
        assert (await take(other.feed, 1, here))[0].kind == "reset"


async def test_a_state_that_was_lost_resets_its_cursors(tmp_path):
    async with State(tmp_path / "one") as state:
        cursor = await state.feed.cursor()
    shutil.rmtree(tmp_path / "one")
    async with State(tmp_path / "one") as state:
        assert (await take(state.feed, 1, cursor))[0].kind == "reset"
        assert (await take(state.feed, 1, Cursor(state.feed.id, 99).text))[0].kind == "reset"


async def test_old_changes_are_pruned_in_small_steps(tmp_path):
    async with State(tmp_path, feed_changes_max=100) as state:
        old = await state.feed.cursor()
        for number in range(1_000):
            state.feed.publish([change(f"f{number}")])
        await state.settled()
        (kept,) = state.database.read("SELECT count(*), min(seq), max(seq) FROM feed")
        assert kept[0] < 100 + 64
        assert kept[2] - kept[1] + 1 == kept[0]
        ((counted, newest, pruned),) = state.database.read(
            "SELECT kept, counted, pruned FROM feed_roots"
        )
        assert (counted, pruned) == (kept[0] - (kept[2] - newest), kept[1] - 1)
        assert (await take(state.feed, 1, old))[0].kind == "reset"
        within = Cursor(state.feed.id, await state.feed.floor()).text
        assert len(await take(state.feed, kept[0], within)) == kept[0]


async def test_what_came_before_a_crash_is_counted_by_whoever_comes_next(tmp_path):
    for _ in range(3):
        async with State(tmp_path) as state:  # none of them comes to the number at which it counts
            state.feed.publish([change(f"f{number}") for number in range(60)])
            await state.settled()
    async with State(tmp_path) as state:
        state.feed.publish([change(f"g{number}") for number in range(70)])
        await state.settled()
        assert state.database.read("SELECT kept, counted FROM feed_roots") == [(250, 250)]


@pytest.mark.sqlite_only
async def test_of_changes_that_cannot_all_be_kept_none_is(tmp_path, caplog):
    async with State(tmp_path) as state:
        state.feed.publish([change("good"), change("bad\udc80")])
        state.feed.publish([change("later")])
        await state.settled()
        assert state.database.read("SELECT path FROM feed") == [("later",)]
        assert "could not be" in caplog.text


async def test_changes_too_old_are_pruned(tmp_path):
    async with State(tmp_path, feed_seconds_max=3600.0) as state:
        old = await state.feed.cursor()
        state.feed.publish([change(f"old{number}", time_ns=5) for number in range(10)])
        state.feed.publish([change(f"new{number}") for number in range(100)])
        await state.settled()
        assert state.database.read("SELECT count(*) FROM feed") == [(100,)]
        assert (await take(state.feed, 1, old))[0].kind == "reset"


async def test_a_follower_overtaken_by_pruning_is_reset(tmp_path):
    async with State(tmp_path, feed_changes_max=16) as state:
        changes = state.feed.follow(await state.feed.cursor())
        state.feed.publish([change("first")])
        assert (await anext(changes)).path == "first"
        for number in range(2_000):
            state.feed.publish([change(f"f{number}")])
        await state.settled()
        assert (await anext(changes)).kind == "reset"
        state.feed.publish([change("later")])
        assert (await anext(changes)).path == "later"
        await changes.aclose()


# --- following --------------------------------------------------------------------------------


async def test_followers_and_listeners_hear_at_once_and_end_on_closing(tmp_path):
    async with State(tmp_path) as state:
        heard = []
        state.feed.subscribe(lambda told: heard.append(str(told.path)))
        async with Follower(state.feed) as follower:
            for number in range(300):
                state.feed.publish([change(f"f{number}")])
            await until(lambda: len(follower.told) == 300 and len(heard) == 300)
        assert heard == [str(told.path) for told in follower.told]
        assert heard == [f"f{number}" for number in range(300)]
        waiting = asyncio.create_task(anext(state.feed.follow()))
        await until(lambda: state.feed._waiting)
        state.feed.close()
        with pytest.raises(Closed):
            await waiting


@pytest.mark.spec("EVENT-2")
async def test_a_listener_that_raises_reaches_nobody(tmp_path, caplog):
    async with State(tmp_path) as state:
        heard = []

        def broken(_):
            raise ZeroDivisionError

        state.feed.subscribe(broken)
        unsubscribe = state.feed.subscribe(heard.append)
        state.feed.publish([change("a")])
        await until(lambda: heard)
        assert "listener failed" in caplog.text
        unsubscribe()
        unsubscribe()
        state.feed.publish([change("b")])
        await state.settled()
        await give_a_chance()
        assert len(heard) == 1


async def test_changes_of_other_processes_are_heard_while_somebody_follows(tmp_path):
    async with State(tmp_path) as here, State(tmp_path) as there:
        async with Follower(here.feed) as follower:
            for number in range(20):
                there.feed.publish([change(f"f{number}")])
                await until(lambda number=number: len(follower.told) == number + 1)
        await until(lambda: here.feed._poll is None)  # nobody asks any more


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.state.following", *map(str, arguments)],
        cwd=CHECKOUT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.slow
async def test_a_real_watcher_killed_again_and_again_misses_nothing(tmp_path):
    heard, kills = [], 12
    async with State(tmp_path) as state:
        cursor = await state.feed.cursor()
        writers = [start("publish", tmp_path, name, 2_000) for name in ("x", "y")]
        rng = random.Random(5)
        total = 4_000 + 1_000
        published = 0
        while len(heard) < total:
            watcher = start("watch", tmp_path, cursor)
            quota = len(heard) + (total if kills == 0 else rng.randrange(50, 500))
            kills = max(kills - 1, 0)
            try:
                while len(heard) < min(quota, total):
                    for _ in range(min(20, 1_000 - published)):
                        state.feed.publish([change("own", request_id=f"own-{published}")])
                        published += 1
                    line = await asyncio.to_thread(watcher.stdout.readline)
                    request, cursor = line.split()
                    heard.append(request)
            finally:
                watcher.kill()  # as kill -9 does: it cannot say goodbye
                # What it printed and nobody read does not count: the cursor is the last one read.
                watcher.wait()
                watcher.stdout.close()
        for writer in writers:
            assert await asyncio.to_thread(writer.wait) == 0
            writer.stdout.close()
        everything = state.database.read("SELECT request_id FROM feed ORDER BY seq")
    assert heard == [request for (request,) in everything]
    for name, count in (("x", 2_000), ("y", 2_000), ("own", 1_000)):
        mine = [request for request in heard if request.startswith(f"{name}-")]
        assert mine == [f"{name}-{number}" for number in range(count)]


# --- what others change -----------------------------------------------------------------------


@pytest.mark.spec("DISK-7")
async def test_foreign_changes_are_kept_once_however_many_watch(tmp_path):
    stores = [disk_store(tmp_path) for _ in range(3)]
    root, state = tmp_path / "root", tmp_path / "authority"
    async with contextlib.AsyncExitStack() as stack:
        states = [await stack.enter_async_context(State(state, store=store)) for store in stores]
        followers = [await stack.enter_async_context(Follower(each.feed)) for each in states]
        model = Model(root)
        subprocess.run(
            ["sh", "-ec", "mkdir -p a/b; echo 1 > a/f; echo 2 > g; mv a c; rm g; echo 3 > c/b/h"],
            cwd=root, check=True,
        )  # fmt: skip
        await until(lambda: all(each.told for each in followers))
        for follower in followers:
            await follower.quiet(0.3)
        rows = (await states[0].feed.read_log(0, 100)).changes
        assert twice_told([told for _, told in rows]) == []
        for _, told in rows:
            model.apply(told)
        assert model.tree == tree_of(root)
        assert all(each.brief() == followers[0].brief() for each in followers)
        assert len(followers[0].told) == len(rows)
    for store in stores:
        await store.aclose()


@pytest.mark.spec("DISK-7")
async def test_a_reader_that_comes_back_after_a_pause_is_told_to_look(tmp_path):
    store = disk_store(tmp_path)
    async with State(tmp_path / "authority", store=store) as state:
        cursor = await state.feed.cursor()
    (tmp_path / "root" / "meanwhile").write_text("x")
    async with State(tmp_path / "authority", store=store) as state:
        changes = state.feed.follow(cursor)
        sign = await anext(changes)
        assert sign.kind == "rescan"
        await changes.aclose()
        changes = state.feed.follow(sign.cursor)
        waiting = asyncio.create_task(anext(changes))
        await until(lambda: state.feed._waiting)
        (tmp_path / "root" / "later").write_text("x")
        assert (await waiting).path == "later"
        await changes.aclose()
    await store.aclose()


@pytest.mark.spec("EVENT-3")
@pytest.mark.parametrize("crowd", [1, 40])
async def test_a_change_is_read_once_however_many_follow(tmp_path, monkeypatch, crowd):
    async with State(tmp_path) as state, contextlib.AsyncExitStack() as stack:
        feed = state.feed
        followers = [await stack.enter_async_context(Follower(feed)) for _ in range(crowd)]
        await until(lambda: len(feed._waiting) == crowd)
        queries, read = [], feed._database.read
        monkeypatch.setattr(
            feed._database, "read", lambda sql, *values: queries.append(sql) or read(sql, *values)
        )
        # Others are looked for now and then: not while it is counted.
        feed._poll.cancel()
        for number in range(10):
            feed.publish([change(f"f{number}")])
            told = number + 1
            await until(lambda told=told: all(len(each.told) == told for each in followers))
            await until(lambda: len(feed._waiting) == crowd)
        assert len(queries) <= 10 * 4, queries
        for told in zip(*(each.told for each in followers), strict=True):
            assert all(each is told[0] for each in told)


@pytest.mark.spec("DISK-7", "EVENT-1")
async def test_a_directory_that_a_file_replaced_is_told_gone_first(tmp_path):
    (tmp_path / "root" / "d" / "e").mkdir(parents=True)
    store = disk_store(tmp_path)
    authority = tmp_path / "authority"
    async with State(authority, store=store) as state, Follower(state.feed) as follower:
        (tmp_path / "root" / "new").write_text("x")
        shutil.rmtree(tmp_path / "root" / "d")
        os.rename(tmp_path / "root" / "new", tmp_path / "root" / "d")
        await until(lambda: ("created", "d") in follower.brief())
        told = [each for each in await follower.quiet(0.2) if each.path == "d"]
    assert [(each.kind, each.type) for each in told] == [
        ("deleted", "directory"), ("created", "file"),
    ]  # fmt: skip
    await store.aclose()


@pytest.mark.slow
@pytest.mark.spec("DISK-7")
@pytest.mark.parametrize("seed", range(3))
async def test_own_changes_of_two_authorities_and_a_stranger(tmp_path, seed):
    stores = [disk_store(tmp_path) for _ in range(2)]
    root, state = tmp_path / "root", tmp_path / "authority"
    async with contextlib.AsyncExitStack() as stack:
        states = [
            await stack.enter_async_context(State(state, store=store, ledger=True))
            for store in stores
        ]
        followers = [await stack.enter_async_context(Follower(each.feed)) for each in states]
        owns = [each.own(name) for each, name in zip(states, ("one", "two"), strict=True)]
        # Without a stranger each keeps to itself: then no change is anybody else's.
        process = stranger(root, seed, 120 if seed else 0)
        for own, name in zip(owns, ("one", "two"), strict=True):
            await own.make_dir(name)

        async def work(own, number):
            rng = random.Random(seed * 10 + number)
            for _ in range(120):
                await own_step(own, rng, "" if seed else f"{own.name}/")
                await let_pass(rng.random() * 0.01)

        await asyncio.gather(*(work(own, number) for number, own in enumerate(owns)))
        await ended(process)
        for follower in followers:
            await follower.quiet(0.6)
        rows = [told for _, told in (await states[0].feed.read_log(0, 100_000)).changes]
        for own, name in zip(owns, ("one", "two"), strict=True):
            mine = [told.request_id for told in rows if told.request_id.startswith(name)]
            assert mine == own.requests
        if not seed:
            assert [told for told in rows if not told.request_id] == []
            assert twice_told(rows) == []
        assert all(each.brief() == followers[0].brief() for each in followers)
        model = Model(tmp_path / "state")  # the root was empty when all began
        model.tree = {}
        for told in rows:
            model.apply(told)
        real = tree_of(root)
        assert {path: kind for path, (kind, _) in model.tree.items()} == {
            path: kind for path, (kind, _) in real.items()
        }
    for store in stores:
        await store.aclose()


async def test_what_was_announced_and_never_settled_is_told_in_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr("bailiwick.state.feed._ASK_FOR_S", 0.2)
    store = disk_store(tmp_path)
    async with (
        State(tmp_path / "authority", store=store, ledger=True) as state,
        Follower(state.feed) as follower,
    ):
        await state.ledger.intend(intent(path=ScopedPath("f")))
        (tmp_path / "root" / "f").write_text("x")
        (tmp_path / "root" / "g").write_text("x")
        await until(lambda: len(follower.told) == 2)
        assert follower.brief() == [("created", "g"), ("created", "f")]
    await store.aclose()


async def test_nothing_is_left_of_a_feed_that_was_closed(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    store = disk_store(tmp_path)
    async with (
        State(tmp_path / "authority", store=store, ledger=True) as state,
        Follower(state.feed),
    ):
        (tmp_path / "root" / "f").write_text("x")
    await store.aclose()
    assert len(os.listdir("/proc/self/fd")) <= before
