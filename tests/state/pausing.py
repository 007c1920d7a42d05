"""Two authorities over one root and one state, and another program, in virtual time.

Each has a store, a watcher that may be held up between any two of its steps, and a writer of the
state that takes its time. ``python -m tests.state.pausing FIRST LAST [DIRECTORY]`` plays the rounds
with these seeds and says which of them lost something.
"""

import asyncio
import contextlib
import os
import pathlib
import random
import shutil
import sys
import tempfile
from collections import deque

import apsw

from bailiwick.state.feed import FEED, DurableFeed
from tests.feeds import (
    Follower,
    Model,
    Own,
    disk_store,
    own_step,
    rough_step,
    stranger_step,
    tree_of,
    twice_told,
)
from tests.stores.disk.pausing import Pauses, PausingSource, differing, paused_listings
from tests.virtual_time import LoopExecutor, run
from tests.waiting import let_pass


class SlowState:
    """`Database` for a feed, as one process has it: what is to be written is written on the loop,
    in order, ``delay()`` seconds after what was written before."""

    is_shared = False

    def __init__(self, connection, delay=lambda: 0):
        self._connection = connection
        self._delay = delay
        self._due = 0.0
        self._waiting = deque()

    @classmethod
    def begin(cls):
        """The first, with an empty state."""
        connection = apsw.Connection(":memory:")
        for statements in FEED.versions:
            connection.execute(statements)
        return cls(connection)

    def of_another(self, delay):
        """The same state, as another process has it."""
        return SlowState(self._connection, delay)

    def read(self, sql, bindings=()):
        return self._connection.execute(sql, tuple(bindings)).fetchall()

    async def write(self, job):
        return job(self._connection)

    def submit(self, job, after, *, ended=None):
        loop = asyncio.get_running_loop()
        self._due = max(loop.time(), self._due) + self._delay()
        self._waiting.append((job, after))
        loop.call_at(self._due, self._commit)

    def _commit(self):
        job, after = self._waiting.popleft()
        job(self._connection)
        after()


class Announcements:
    """The ledger's part in it: what was announced by either and is not committed yet."""

    def __init__(self):
        self._open = {}
        self._number = 0

    def covers(self, root, path):
        return any(
            path.lies_in(each) or each.lies_in(path)
            for paths in self._open.values()
            for each in paths
        )

    def own(self, store, feed, state, name):
        """Changes as a pipeline with this ledger makes them."""

        async def announce(paths):
            self._number += 1
            self._open[self._number] = list(paths)
            return self._number

        def settle(paths, number, changes):
            told = feed.prepared(changes)

            def keep(connection):
                feed.keep_changes(connection, told)
                del self._open[number]

            state.submit(keep, feed.changes_kept)

        return Own(store, feed, name, announce, settle)


def _nobody(rng):
    """No other program changes anything."""


async def play(place, seed, *, rough=False, alone=False, chance, steps=120):
    """One round. Returns what was got wrong, and the rows of the feed. ``alone``: without another
    program, each of the two in a directory of its own."""
    rng = random.Random(seed)
    step = _nobody if alone else rough_step if rough else stranger_step
    pauses = Pauses(rng, chance, step, steps)
    workers = LoopExecutor(lambda: rng.choice((0, 0, 0.001, 0.01, 0.03)))
    first, announced = SlowState.begin(), Announcements()
    root = place / "root"
    async with contextlib.AsyncExitStack() as stack:
        followers, owns = [], []
        for name in ("one", "two"):
            store = disk_store(place, workers=workers)
            stack.push_async_callback(store.aclose)
            state = first.of_another(lambda: rng.choice((0, 0.001, 0.01, 0.05, 0.2)))
            feed = await DurableFeed.open(
                state, "root", source=PausingSource(store, pauses), announced=announced.covers
            )
            stack.callback(feed.close)
            owns.append(announced.own(store, feed, state, name))
            followers.append(await stack.enter_async_context(Follower(feed)))
        for own in owns if alone else ():
            await own.make_dir(own.name)
        model = Model(place / "state")  # the root was empty when all began
        model.root, model.tree = root, {}
        stack.enter_context(contextlib.chdir(root))
        stack.enter_context(paused_listings(pauses))
        pauses.armed = True

        async def work(own, mine):
            while pauses.steps_left:
                await own_step(own, mine, f"{own.name}/" if alone else "")
                await let_pass(mine.choice((0, mine.random() * 0.01, mine.random() * 0.1)))

        async def others():
            while pauses.steps_left:
                pauses.others_go_on()
                await let_pass(rng.choice((0, 0, rng.random() * 0.01, rng.random() * 0.1)))

        await asyncio.gather(
            others(), *(work(own, random.Random(f"{seed} {own.name}")) for own in owns)
        )
        for follower in followers:
            told = await follower.quiet(12)
        return wrong(told, followers, model, owns), told


def wrong(told, followers, model, owns):
    """In what the model of one who was told differs from the tree as it is."""
    for each in told:
        model.apply(each)
    found = differing(model.tree, tree_of(model.root))
    # Two changes of ours may have been told when both were done.
    found |= {f"{each.path} twice" for each in twice_told(told) if not each.request_id}
    found |= {str(each.path) for each in told if each.kind == "rescan"}
    found |= {
        f"changes of {own.name}"
        for own in owns
        if [each.request_id for each in told if each.request_id.startswith(own.name)]
        != own.requests
    }
    if any(each.brief() != followers[0].brief() for each in followers):
        found.add("followers")
    return sorted(found)


def main(first, last, directory=None):
    for seed in range(int(first), int(last)):
        for rough in (False, True):
            place = pathlib.Path(tempfile.mkdtemp(dir=directory))
            try:
                lost, _ = run(play(place, seed, rough=rough, chance=(0.02, 0.1, 0.3)[seed % 3]))
            finally:
                shutil.rmtree(place)
            if lost:
                print(f"seed {seed}, {'rough' if rough else 'gentle'}: {lost}", flush=True)
    print("done", os.times().user)


if __name__ == "__main__":
    main(*sys.argv[1:])
