"""Nothing is lost when the watcher is held up: whatever others do between any two of its steps."""

import os
import time

import pytest

from bailiwick.paths import ScopedPath
from tests.feeds import Follower, Model, Own, change, disk_store, memory_feed, until
from tests.stores.disk.pausing import PausingSource, paused_listings, play, wrong
from tests.stores.disk.test_watcher import Watched, shell
from tests.virtual_time import LoopExecutor, run

pytestmark = pytest.mark.spec("DISK-7", "EVENT-1")


@pytest.mark.parametrize(
    ("before", "moves", "told"),
    [
        ("mkdir -p a/x d/b", "mv d/b a/c; mv -T a d/b", ("created", "d/b/c")),
        ("mkdir -p a/x d; touch d/b", "mv d/b a/c; mv -T a d/b", ("created", "d/b/c")),
        ("mkdir -p a/b/x", "mv a/b t; rmdir a; mv t a", ("moved", "a", "a/b")),
        ("mkdir -p p/x q/y", "mv p q/y/p; mv q/y/p/x x; mv q x/q", ("created", "x/q/y/p")),
    ],
    ids=["a directory", "a file", "out of its own", "three"],
)
async def test_moves_that_wait_for_each_other(tmp_path, before, moves, told):
    """What was moved into a directory makes room for that directory, and the like."""
    (tmp_path / "root").mkdir()
    shell(tmp_path / "root", before)
    async with Watched(tmp_path) as tree:
        shell(tree.root, moves)
        await until(lambda: told in tree.follower.brief())
        await tree.brief()
        tree.check()


class Once:
    """A pause in which something happens, the ``nth`` time that it comes after `arm`."""

    def __init__(self):
        self._left = 0
        self._happens = None

    def arm(self, nth, happens):
        self._left, self._happens = nth, happens

    def __call__(self):
        self._left -= 1
        if self._left == 0:
            self._happens()


@pytest.mark.parametrize("nth", range(1, 13))
def test_a_directory_that_is_away_for_an_instant(tmp_path, nth):
    """A new directory is moved away in one pause and back in the next, wherever that is."""

    async def watched():
        store, once = disk_store(tmp_path), Once()
        feed, root = memory_feed(PausingSource(store, once)), tmp_path / "root"
        model = Model(root)

        def away():
            os.rename(root / "d", root / "e")
            once.arm(1, lambda: os.rename(root / "e", root / "d"))

        with paused_listings(once):
            async with Follower(feed) as follower:
                (root / "d" / "x").mkdir(parents=True)
                (root / "d" / "x" / "f").write_text("1")
                once.arm(nth, away)
                await follower.quiet(1)
                (root / "d" / "x" / "f").write_text("22")
                once.arm(nth, away)
                told = await follower.quiet(1)
                while (root / "e").exists():
                    once()
                    told = await follower.quiet(1)
        feed.close()
        await store.aclose()
        assert wrong(told, model, Own(store, feed)) == []

    run(watched())


async def test_a_change_of_ours_that_others_undid_before_it_was_told(tmp_path):
    (tmp_path / "root" / "d").mkdir(parents=True)
    async with Watched(tmp_path) as tree:
        flight, path = tree.feed.in_flight, ScopedPath("d/f")
        flight.begin(path)
        (tree.root / path).write_text("ours")
        version = tree.store.sight(path).version
        shell(tree.root, "mkdir n; rm -r d; mv n d")
        await until(lambda: ("deleted", "d") in tree.follower.brief())
        tree.feed.publish([change(path, "created", version=version, request_id="late")])
        flight.end(path)
        tree.own.requests.append("late")
        await until(lambda: ("deleted", "d/f") in tree.follower.brief())
        tree.check()


def test_a_directory_that_others_moved_and_we_moved_back(tmp_path):
    """Nobody was told where it stood meanwhile: our move empties the place that it comes back to,
    for all who only listen."""
    root = tmp_path / "root"
    (root / "a" / "x").mkdir(parents=True)
    (root / "a" / "x" / "f").write_text("1")

    async def watched():
        store = disk_store(tmp_path, workers=LoopExecutor(lambda: 0))
        feed = memory_feed(store)
        mine, model = Own(store, feed), Model(root)
        async with Follower(feed) as follower:
            os.rename(root / "a", root / "b")
            await mine.move("b", "a")
            told = await follower.quiet(1)
        feed.close()
        await store.aclose()
        assert ("moved", "a", "b") in follower.brief()
        assert wrong(told, model, mine) == []

    run(watched())


async def test_a_directory_made_in_one_that_was_told_as_a_whole_and_not_looked_into_yet(tmp_path):
    store, now = disk_store(tmp_path), []
    feed, root = memory_feed(store, time_ns=lambda: now[0]), tmp_path / "root"
    now.append(time.time_ns())
    async with Follower(feed) as follower:
        (root / "e" / "x").mkdir(parents=True)
        now[0] = time.time_ns()
        later = root / "e" / "later"
        later.mkdir()
        while later.stat().st_ctime_ns <= now[0]:  # the kernel's clock is behind
            later.rmdir()
            later.mkdir()
        feed.publish([change("e", "created", type="directory", subtree=True)])
        await until(lambda: ("created", "e/later") in follower.brief())
        assert follower.brief() == [("created", "e"), ("created", "e/later")]
    feed.close()
    await store.aclose()


async def test_a_listener_may_close_the_feed(tmp_path, caplog):
    store = disk_store(tmp_path)
    feed, told = memory_feed(store), []

    def close(change):
        told.append(change)
        feed.close()

    feed.subscribe(close)
    await feed.ready()
    for name in "abc":
        (tmp_path / "root" / name).mkdir()
    await until(lambda: told)
    await store.aclose()
    assert len(told) == 1
    assert not caplog.records


def _slow(seeds):
    return [pytest.param(seed, marks=pytest.mark.slow) for seed in seeds]


@pytest.mark.parametrize("durability", ["rename", "full"])
@pytest.mark.parametrize("seed", [*range(5), *_slow(range(5, 20))])
def test_seeded_pauses_lose_nothing(tmp_path, seed, durability):
    for rough in (False, True):
        place = tmp_path / ("rough" if rough else "gentle")
        place.mkdir()
        lost = run(
            play(
                place, seed, rough=rough, own=seed % 3 > 0, durability=durability,
                chance=(0.1, 0.3, 0.5)[seed % 3],
            )
        )  # fmt: skip
        assert lost == []
