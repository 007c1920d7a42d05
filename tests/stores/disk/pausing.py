"""A watcher that may be held up between any two of its steps, while other programs go on.

``python -m tests.stores.disk.pausing FIRST LAST [DIRECTORY]`` plays the rounds with these seeds,
gently and roughly, and says which of them lost something.
"""

import asyncio
import contextlib
import os
import pathlib
import random
import shutil
import sys
import tempfile

from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.watch.inotify import Inotify
from bailiwick.stores.disk.watch.watcher import TreeWatcher
from tests.feeds import (
    Follower,
    Model,
    Own,
    disk_store,
    memory_feed,
    own_of,
    own_step,
    rough_step,
    stranger_step,
    tree_of,
    twice_told,
)
from tests.virtual_time import LoopExecutor, run
from tests.waiting import let_pass


class PausingQueue(Inotify):
    """The kernel's notices, with a pause before each and around the beginning of each watch."""

    __slots__ = ("pause",)

    def watch(self, directory):
        self.pause()
        found = super().watch(directory)
        self.pause()
        return found

    def read(self):
        self.pause()
        for notice in super().read():
            yield notice
            self.pause()


class PausingLookup:
    """A lookup with a pause before and after each look."""

    def __init__(self, inner, pause):
        self._inner = inner
        self._pause = pause

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def find_object(self, *arguments):
        return self._paused(self._inner.find_object, arguments)

    def look_at(self, *arguments):
        return self._paused(self._inner.look_at, arguments)

    def _paused(self, find, arguments):
        self._pause()
        try:
            return find(*arguments)
        finally:
            self._pause()


class PausingListing:
    """A directory that is being listed, with a pause before each name."""

    def __init__(self, inner, pause):
        self._inner = inner
        self._pause = pause

    def __enter__(self):
        self._inner.__enter__()
        return self

    def __exit__(self, *failure):
        self._inner.__exit__(*failure)

    def __iter__(self):
        for entry in self._inner:
            self._pause()
            yield entry


class PausingSource:
    """`bailiwick.store.Watches` over a store on disk: ``pause`` is called between the steps."""

    def __init__(self, store, pause):
        self._store = store
        self._pause = pause
        self.sight = store.sight

    def watch_tree(self, tell, changing):
        queue = PausingQueue.open()
        queue.pause = self._pause
        lookup = PausingLookup(self._store._lookup, self._pause)
        return TreeWatcher(lookup, tell, changing, closed=lambda watcher: None, queue=queue)


@contextlib.contextmanager
def paused_listings(pause):
    scandir = syscalls.scandir
    syscalls.scandir = lambda listing: PausingListing(scandir(listing), pause)
    try:
        yield
    finally:
        syscalls.scandir = scandir


class Pauses:
    """Holds up whoever calls it, at random: the clock goes on, and so do other programs."""

    def __init__(self, rng, chance, step, steps):
        self._rng = rng
        self._chance = chance
        self._step = step
        self.steps_left = steps
        self.armed = False

    def __call__(self):
        if self.armed and self.steps_left and self._rng.random() < self._chance:
            asyncio.get_running_loop().pass_time(self._rng.choice((0, 0, 0.001, 0.02, 0.05, 0.3)))
            for _ in range(self._rng.choice((0, 1, 1, 2, 5))):
                self.others_go_on()

    def others_go_on(self):
        if self.steps_left:
            self.steps_left -= 1
            self._step(self._rng)


async def play(place, seed, *, rough, own, chance, durability="rename", steps=250):
    """One round: own and foreign changes at random, with pauses. Returns what was got wrong."""
    rng = random.Random(seed)
    pauses = Pauses(rng, chance, rough_step if rough else stranger_step, steps)
    workers = LoopExecutor(lambda: rng.choice((0, 0, 0.001, 0.01, 0.03)))
    store = disk_store(place, durability=durability, workers=workers)
    feed = memory_feed(PausingSource(store, pauses))
    mine = Own(store, feed)
    model = Model(place / "root")
    with contextlib.chdir(place / "root"), paused_listings(pauses):
        async with Follower(feed) as follower:
            pauses.armed = True
            while pauses.steps_left:
                if own and rng.random() < 0.5:
                    await own_step(mine, rng)
                else:
                    pauses.others_go_on()
                await let_pass(rng.choice((0, 0, rng.random() * 0.01, rng.random() * 0.1)))
            told = await follower.quiet(3)
    feed.close()
    await store.aclose()
    return wrong(told, model, mine)


def wrong(told, model, own):
    """In what the model of one who was told differs from the tree as it is."""
    for each in told:
        model.apply(each)
    real = tree_of(model.root)
    found = differing(model.tree, real)
    found |= {str(each.path) for each in twice_told(told)}
    found |= {str(each.path) for each in told if each.kind == "rescan"}
    return sorted(found) + ([] if own_of(told) == own.requests else ["own changes"])


def differing(known, real):
    """The paths that are not known as they are. A directory of ours that was gone before it could
    be told is told without a version."""
    known = {
        path: real.get(path, kept) if kept == ("directory", None) else kept
        for path, kept in known.items()
    }
    return {path for path in {*known, *real} if known.get(path) != real.get(path)}


def main(first, last, directory=None):
    for seed in range(int(first), int(last)):
        for rough in (False, True):
            place = pathlib.Path(tempfile.mkdtemp(dir=directory))
            try:
                durability = "full" if seed % 2 else "rename"
                lost = run(
                    play(
                        place, seed, rough=rough, own=seed % 3 > 0, durability=durability,
                        chance=(0.1, 0.3, 0.5)[seed // 6 % 3],
                    )
                )  # fmt: skip
            finally:
                shutil.rmtree(place)
            if lost:
                print(f"seed {seed}, {'rough' if rough else 'gentle'}: {lost}", flush=True)
    print("done", os.times().user)


if __name__ == "__main__":
    main(*sys.argv[1:])
