"""What other programs change in a directory: noticed once, never doubled, never outside."""

import asyncio
import errno
import os
import random
import shutil
import subprocess

import pytest
import uvloop

from bailiwick.errors import Unsupported
from bailiwick.events import InFlight
from bailiwick.paths import ScopedPath
from bailiwick.stores.disk.watch import inotify, known
from bailiwick.stores.disk.watch import watcher as watcher_module
from bailiwick.stores.disk.watch.inotify import Inotify, Notice
from tests.feeds import (
    Follower,
    Model,
    Own,
    disk_store,
    ended,
    memory_feed,
    own_of,
    own_step,
    stranger,
    tree_of,
    twice_told,
)
from tests.waiting import give_a_chance, let_pass, until

pytestmark = pytest.mark.spec("DISK-7")

CONTAINMENTS = pytest.mark.parametrize("containment", ["require-kernel", "walk"])


class Watched:
    """A directory with a store, a feed and a follower of it."""

    def __init__(self, tmp_path, **options):
        self.root = tmp_path / "root"
        self.store = disk_store(tmp_path, **options)
        self.feed = memory_feed(self.store)
        self.own = Own(self.store, self.feed)
        self.follower = Follower(self.feed)

    async def __aenter__(self):
        self.model = Model(self.root)
        await self.follower.__aenter__()
        return self

    async def __aexit__(self, *_):
        await self.follower.__aexit__()
        self.feed.close()
        await self.store.aclose()

    @property
    def told(self):
        return self.follower.told

    @property
    def watcher(self):
        return self.feed.lookout._watcher

    async def brief(self, count=None):
        """What was told, in short; waits for so many changes, and that no more come."""
        if count is not None:
            await until(lambda: len(self.told) >= count)
        await self.settled()
        return self.follower.brief()

    async def settled(self):
        """Until all is told that was changed so far: what another program does last is told last.
        Of that nothing stays, neither in the tree nor in what was told."""
        last = self.root / "the-last-of-all"
        for kind, act in (("created", last.touch), ("deleted", last.unlink)):
            act()
            await until(lambda sign=(kind, last.name): sign in self.follower.brief())
        self.told[:] = [each for each in self.told if each.path != last.name]

    def check(self):
        """What was told leads from the tree as it was to the tree as it is."""
        for each in self.told:
            self.model.apply(each)
        assert self.model.tree == tree_of(self.root)
        assert twice_told(self.told) == []
        assert own_of(self.told) == self.own.requests


def shell(root, commands):
    subprocess.run(["sh", "-ec", commands], cwd=root, check=True)


# --- what is told -----------------------------------------------------------------------------


@CONTAINMENTS
async def test_what_another_program_does_is_told_once(tmp_path, containment):
    (tmp_path / "root").mkdir()
    shell(tmp_path / "root", "mkdir -p old/sub; echo 1 > old/f; echo 2 > keep; echo 3 > gone")
    async with Watched(tmp_path, containment=containment) as tree:
        shell(tree.root, "echo new > n; echo more >> keep; rm gone; mkdir -p x/y/z; echo q > x/y/q")
        told = await tree.brief(7)
        assert sorted(told) == [
            ("created", "n"), ("created", "x"), ("created", "x/y"), ("created", "x/y/q"),
            ("created", "x/y/z"), ("deleted", "gone"), ("updated", "keep"),
        ]  # fmt: skip
        assert all(each.subject == each.request_id == "" for each in tree.told)
        assert all(each.time_ns and each.cursor for each in tree.told)
        tree.check()


async def test_moves_are_told_with_their_origin(tmp_path):
    (tmp_path / "root").mkdir()
    shell(tmp_path / "root", "mkdir -p d/e; echo 1 > d/f; echo 2 > g; echo 3 > h")
    async with Watched(tmp_path) as tree:
        shell(tree.root, "mv g d/g; mv d D; mv D/f D/F; mv h i; mv i j")
        told = await tree.brief(4)
        assert sorted(told) == [
            ("moved", "D", "d"), ("moved", "D/F", "D/f"), ("moved", "D/g", "g"),
            ("moved", "j", "h"),
        ] or sorted(told) == [
            ("moved", "D", "d"), ("moved", "D/F", "D/f"), ("moved", "d/g", "g"),
            ("moved", "j", "h"),
        ]  # fmt: skip
        tree.check()
        whole = next(each for each in tree.told if each.path == "D")
        assert whole.subtree
        assert "e/" in whole.beneath


async def test_a_file_saved_by_replacing_it_is_updated(tmp_path):
    (tmp_path / "root").mkdir()
    shell(tmp_path / "root", "echo 1 > f")
    async with Watched(tmp_path) as tree:
        shell(tree.root, "echo 2 > f.tmp; mv f.tmp f")
        assert await tree.brief(1) == [("updated", "f")]


async def test_what_came_and_went_is_not_told(tmp_path):
    async with Watched(tmp_path) as tree:
        shell(tree.root, "echo 1 > lock; rm lock; echo 1 > f")
        assert await tree.brief(1) == [("created", "f")]


async def test_a_directory_removed_whole_is_told_once(tmp_path):
    (tmp_path / "root").mkdir()
    shell(tmp_path / "root", "mkdir -p d/e/f; for i in 1 2 3 4 5; do echo > d/e/$i; done")
    async with Watched(tmp_path) as tree:
        # In one step, so that it does not depend on the time it takes.
        os.rename(tree.root / "d", tmp_path / "outside")
        assert await tree.brief(1) == [("deleted", "d")]
        assert tree.told[0].subtree
        assert tree.told[0].beneath == ("e/", "e/1", "e/2", "e/3", "e/4", "e/5", "e/f/")
        # What happens to it outside is no business of ours any more.
        (tmp_path / "outside" / "e" / "secret").write_text("x")
        assert await tree.brief() == [("deleted", "d")]
        assert tree.watcher._known.by_watch.keys() == {tree.watcher._known.root.watch}


async def test_a_directory_moved_in_is_told_with_all_in_it(tmp_path):
    shell(tmp_path, "mkdir -p outside/e; echo > outside/e/f")
    async with Watched(tmp_path) as tree:
        os.rename(tmp_path / "outside", tree.root / "d")
        assert sorted(await tree.brief(3)) == [
            ("created", "d"), ("created", "d/e"), ("created", "d/e/f"),
        ]  # fmt: skip
        (tree.root / "d" / "e" / "g").write_text("x")
        await until(lambda: len(tree.told) == 4)
        tree.check()


async def test_modes_times_and_links_are_told(tmp_path):
    (tmp_path / "root").mkdir()
    shell(tmp_path / "root", "mkdir d; echo 1 > f; echo 1 > t")
    async with Watched(tmp_path) as tree:
        shell(tree.root, "chmod 700 d; chmod 600 f; touch -d '2001-01-01' t; ln -s f l")
        assert sorted(await tree.brief(4)) == [
            ("created", "l"), ("updated", "d"), ("updated", "f"), ("updated", "t"),
        ]  # fmt: skip
        assert {str(each.path): each.type for each in tree.told} == {
            "d": "directory", "f": "file", "t": "file", "l": "symlink",
        }  # fmt: skip


async def test_staging_names_and_names_that_are_no_text_are_never_told(tmp_path):
    async with Watched(tmp_path) as tree:
        (tree.root / ".bailiwick~planted").mkdir()
        (tree.root / ".bailiwick~planted" / "inner").write_text("x")
        (tree.root / ".bailiwick~file").write_text("x")
        with open(os.fsencode(tree.root) + b"/bad\xff", "wb"):
            pass
        (tree.root / "f").write_text("x")
        os.rename(tree.root / ".bailiwick~file", tree.root / "g")
        assert sorted(await tree.brief(2)) == [("created", "f"), ("created", "g")]


# --- own changes ------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["rename", "full"])
async def test_own_changes_are_never_doubled(tmp_path, durability):
    rng = random.Random(3)
    async with Watched(tmp_path, durability=durability) as tree:
        for _ in range(300):
            await own_step(tree.own, rng)
            if rng.random() < 0.1:
                await let_pass(0.005)
        await tree.settled()
        assert [each.path for each in tree.told if not each.request_id] == []
        tree.check()


async def test_a_copied_tree_is_told_once(tmp_path):
    (tmp_path / "root").mkdir()
    shell(tmp_path / "root", "mkdir -p d/e/f; echo 1 > d/e/g; echo 2 > d/h")
    async with Watched(tmp_path) as tree:
        await tree.own.copy("d", "copy", trees=True)
        assert await tree.brief(1) == [("created", "copy")]
        # It is watched like the rest from then on.
        (tree.root / "copy" / "e" / "new").write_text("x")
        assert await tree.brief(2) == [("created", "copy"), ("created", "copy/e/new")]


@pytest.mark.slow
async def test_a_large_tree_removed_by_us_is_told_once(tmp_path):
    for number in range(40):
        (tmp_path / "root" / "d" / f"e{number}").mkdir(parents=True)
        for name in range(150):
            (tmp_path / "root" / "d" / f"e{number}" / str(name)).touch()
    async with Watched(tmp_path, durability="full") as tree:
        await tree.own.remove("d")
        assert await tree.brief(1) == [("deleted", "d")]
        assert tree.watcher._known.by_watch.keys() == {tree.watcher._known.root.watch}


async def test_what_is_being_changed_is_looked_at_when_that_is_over(tmp_path):
    async with Watched(tmp_path) as tree:
        flight = tree.feed.in_flight
        flight.begin(ScopedPath("f"))
        (tree.root / "f").write_text("x")
        (tree.root / "g").write_text("x")
        assert await tree.brief(1) == [("created", "g")]
        flight.end(ScopedPath("f"))
        assert await tree.brief(2) == [("created", "g"), ("created", "f")]


async def test_a_burst_where_a_large_change_is_under_way_is_not_kept_name_by_name(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(watcher_module, "_DEFERRED_MAX", 10)
    async with Watched(tmp_path) as tree:
        flight = tree.feed.in_flight
        (tree.root / "d").mkdir()
        await until(lambda: len(tree.told) == 1)
        flight.begin(ScopedPath("d"))
        for number in range(50):
            (tree.root / "d" / str(number)).touch()
        await until(lambda: tree.watcher._dirty)
        assert len(tree.watcher._deferred) <= 11
        flight.end(ScopedPath("d"))
        await until(lambda: len(tree.told) == 51)
        tree.check()


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["rename", "full"])
@pytest.mark.parametrize("seed", range(4))
async def test_own_and_foreign_changes_mixed(tmp_path, seed, durability):
    rng = random.Random(seed)
    async with Watched(tmp_path, durability=durability) as tree:
        process = stranger(tree.root, seed, 250)
        while process.poll() is None:
            await own_step(tree.own, rng)
            await let_pass(rng.random() * 0.01)
        await ended(process)
        await tree.follower.quiet(0.4)
        assert not any(each.kind == "rescan" for each in tree.told)
        tree.check()


async def test_a_burst_as_git_makes_it(tmp_path):
    (tmp_path / "root").mkdir()
    for number in range(200):
        (tmp_path / "root" / f"f{number}").write_text("one")
    (tmp_path / "root" / "sub").mkdir()
    async with Watched(tmp_path) as tree:
        shell(
            tree.root,
            "for i in $(seq 0 99); do echo two > f$i.lock; mv f$i.lock f$i; done;"
            " for i in $(seq 100 149); do rm f$i; done;"
            " for i in $(seq 150 199); do mv f$i sub/f$i; done",
        )
        await until(lambda: len(tree.told) >= 200)
        await tree.settled()
        kinds = [each.kind for each in tree.told]
        assert (kinds.count("updated"), kinds.count("deleted"), kinds.count("moved")) == (
            100, 50, 50,
        )  # fmt: skip
        tree.check()


# --- what is lost -----------------------------------------------------------------------------


async def test_an_overflow_is_told_and_the_tree_looked_at_anew(tmp_path):
    (tmp_path / "root").mkdir()
    shell(tmp_path / "root", "mkdir d; echo 1 > d/f; echo 1 > gone")
    async with Watched(tmp_path) as tree:
        watcher = tree.watcher
        # As if the kernel's queue had been full: what is written meanwhile makes no notice.
        watcher._loop.remove_reader(watcher._inotify.fd)
        shell(tree.root, "echo 22 > d/f; rm gone; mkdir -p n/m; echo 1 > n/m/f")
        while list(watcher._inotify.read()):
            pass
        watcher._loop.add_reader(watcher._inotify.fd, watcher._read)
        watcher._take_in(Notice(-1, inotify.OVERFLOW, 0, b""))
        told = await tree.brief(6)
        assert told[-1] == ("rescan", ".")
        assert sorted(told[:-1]) == [
            ("created", "n"), ("created", "n/m"), ("created", "n/m/f"), ("deleted", "gone"),
            ("updated", "d/f"),
        ]  # fmt: skip
        tree.check()
        (tree.root / "n" / "m" / "later").write_text("x")
        assert (await tree.brief(7))[-1] == ("created", "n/m/later")


@pytest.mark.slow
async def test_a_real_overflow_of_the_queue(tmp_path):
    with open("/proc/sys/fs/inotify/max_queued_events") as setting:
        size = int(setting.read())
    async with Watched(tmp_path) as tree:
        # Without an await in between nobody reads the queue.
        for number in range(size // 2 + 10):
            (tree.root / f"f{number}").touch()
            os.unlink(tree.root / f"f{number}")
        (tree.root / "last").touch()
        await until(lambda: any(each.kind == "rescan" for each in tree.told))
        await tree.settled()
        tree.check()


async def test_without_watches_left_a_rescan_is_told(tmp_path, monkeypatch, caplog):
    (tmp_path / "root" / "d").mkdir(parents=True)
    watch, calls = Inotify.watch, []

    def scarce(self, directory):
        calls.append(directory)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "no watches")
        return watch(self, directory)

    monkeypatch.setattr(Inotify, "watch", scarce)
    async with Watched(tmp_path) as tree:
        (tree.root / "f").write_text("x")
        await until(lambda: ("created", "f") in tree.follower.brief())
        assert ("rescan", ".") in tree.follower.brief() or ("rescan", "d") in tree.follower.brief()
        assert not tree.watcher.sees_all
        assert "no watches are left" in caplog.text


async def test_a_lost_watch_is_taken_up_again(tmp_path):
    (tmp_path / "root" / "d").mkdir(parents=True)
    async with Watched(tmp_path) as tree:
        place = tree.watcher._known.root.entries["d"]
        tree.watcher._inotify.unwatch(place.watch)
        (tree.root / "d" / "unseen").write_text("x")
        assert await tree.brief(1) == [("created", "d/unseen")]
        (tree.root / "d" / "seen").write_text("x")
        assert await tree.brief(2) == [("created", "d/unseen"), ("created", "d/seen")]


async def test_more_hints_than_are_kept_count_as_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(watcher_module, "_HINTS_MAX", 20)
    async with Watched(tmp_path) as tree:
        for number in range(100):
            (tree.root / f"f{number}").touch()
        await until(lambda: any(each.kind == "rescan" for each in tree.told))
        await tree.settled()
        tree.check()


async def test_of_a_tree_too_large_to_be_known_changes_are_still_told(tmp_path, monkeypatch):
    monkeypatch.setattr(known, "FILES_KNOWN_MAX", 2)
    (tmp_path / "root").mkdir()
    for number in range(20):
        (tmp_path / "root" / f"f{number}").write_text("x")
    async with Watched(tmp_path) as tree:
        for number in range(10):
            (tree.root / f"f{number}").write_text("xy")
        os.unlink(tree.root / "f15")
        (tree.root / "new").write_text("x")
        assert sorted(await tree.brief(12)) == sorted(
            [*(("updated", f"f{n}") for n in range(10)), ("deleted", "f15"), ("created", "new")]
        )


# --- its life ---------------------------------------------------------------------------------


async def test_watching_is_lazy_and_leaves_nothing(tmp_path):
    before = set(os.listdir("/proc/self/fd"))
    store = disk_store(tmp_path)
    feed = memory_feed(store)
    await Own(store, feed).write("f")
    assert not any("inotify" in target for target in _targets())
    async with Follower(feed):
        assert sum("inotify" in target for target in _targets()) == 1
    feed.close()
    assert not any("inotify" in target for target in _targets())
    await store.aclose()
    assert set(os.listdir("/proc/self/fd")) <= before


def _targets():
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:
            continue
    return found


async def test_a_store_that_is_closed_stops_its_watchers(tmp_path):
    (tmp_path / "root").mkdir()
    for number in range(500):
        (tmp_path / "root" / f"d{number}").mkdir()
    store = disk_store(tmp_path)
    watcher = store.watch_tree(lambda news: None, InFlight())
    await asyncio.sleep(0)
    await store.aclose()
    await watcher.ready()
    watcher.close()
    assert store.sight(ScopedPath("d1")) is None


async def test_where_inotify_is_missing_that_is_said(tmp_path, monkeypatch, caplog):
    def refuse():
        raise Unsupported("no queues are left")

    monkeypatch.setattr(Inotify, "open", refuse)
    store = disk_store(tmp_path)
    feed = memory_feed(store)
    async with Follower(feed) as follower:
        (tmp_path / "root" / "foreign").write_text("x")
        await Own(store, feed).write("own")
        await until(lambda: len(follower.told) == 2)
        assert follower.brief() == [("rescan", "."), ("created", "own")]
    assert caplog.text.count("not noticed") == 1
    feed.close()
    await store.aclose()


async def test_the_store_says_whether_it_notices_others(tmp_path):
    store = disk_store(tmp_path)
    assert "Watches" in store.powers
    assert store.description["foreign_changes"] == "noticed"
    await store.aclose()


async def test_the_root_itself_removed(tmp_path):
    (tmp_path / "root").mkdir()
    shell(tmp_path / "root", "echo > f; mkdir d")
    async with Watched(tmp_path) as tree:
        shutil.rmtree(tree.root)
        await until(lambda: len(tree.told) >= 2)
        await give_a_chance()  # to more
        assert sorted(tree.follower.brief()) == [("deleted", "d"), ("deleted", "f")]


# --- other event loops ------------------------------------------------------------------------


@pytest.mark.leaks_ok("libuv keeps one pipe for signals as long as the process lives")
def test_it_watches_on_uvloop_too(tmp_path):
    """The loop that a server runs on: its timers do not say when they are due."""
    (tmp_path / "root").mkdir()

    async def many_things():
        async with Watched(tmp_path) as tree:
            shell(tree.root, "for d in a b c; do mkdir -p $d/e/f; echo 1 > $d/e/f/g; done; mv c C")
            await until(lambda: ("created", "b/e/f/g") in tree.follower.brief())
            await tree.own.write("own", b"1")
            await tree.brief()
            tree.check()
            assert tree.watcher.sees_all
            assert not any(each.kind == "rescan" for each in tree.told)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(many_things())
