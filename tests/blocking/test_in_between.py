"""What is called in the middle of a blocking verb: finalizers, handlers, forks."""

import contextlib
import functools
import gc
import subprocess
import sys
import weakref

import pytest

import bailiwick
from bailiwick import portal as portals
from bailiwick.portal import Portal
from tests.blocking.steps import ends, here
from tests.waiting import PATIENCE_S, loop_turns

pytestmark = [pytest.mark.spec("LINE-4", "LINE-5"), pytest.mark.slow]


class _Collected:
    """Garbage that does something when the collector finds it."""

    def __init__(self, action):
        self.itself = self
        self.action = action

    def __del__(self):
        self.action()


@pytest.mark.spec("LIFE-2")
@pytest.mark.parametrize("debug", [False, True], ids=["borrowed", "handed over"])
@pytest.mark.parametrize("action", ["a stream", "a verb", "a callback"])
def test_what_the_collector_ends_at_any_instant_of_a_verb_keeps_nobody_waiting(action, debug):
    thresholds = gc.get_threshold()

    def work():
        done = []
        with bailiwick.open_sync("memory:") as fs:
            fs.write_bytes("f", b"1" * 100_000)
            fs._portal.loop.set_debug(debug)

            def act(chunks):
                if action == "a stream":
                    chunks.close()
                elif action == "a callback" and not debug:
                    fs._portal.loop.call_soon(int)
                elif action == "a verb":
                    with contextlib.suppress(RuntimeError):  # in the middle of another
                        fs.exists("f")
                done.append(True)

            for count in range(1, 150):
                gc.disable()
                gc.collect()
                chunks = fs.stream("f")
                next(chunks)
                _Collected(functools.partial(act, chunks))
                del chunks
                gc.set_threshold(gc.get_count()[0] + count, 1_000, 1_000)
                gc.enable()
                assert fs.read_bytes("f").size == 100_000
            gc.collect()
        assert len(done) == 149

    try:
        ends(work)
    finally:
        gc.set_threshold(*thresholds)
        gc.enable()


async def _said(word):
    await loop_turns()
    return word


def test_what_is_called_while_work_is_handed_over_may_hand_over_itself(monkeypatch):
    portal, nested = Portal(), []
    portal.loop.set_debug(True)
    call = portal.loop.call_soon_threadsafe

    def interrupted(*given):
        if not nested:
            nested.append(True)
            nested.append(portal.run(_said("nested")))
        return call(*given)

    monkeypatch.setattr(portal.loop, "call_soon_threadsafe", interrupted)
    ends(lambda: nested.append(portal.run(_said("outer"))))
    assert nested == [True, "nested", "outer"]
    portal.close()


def test_what_is_called_while_the_portal_is_made_may_borrow_it(monkeypatch):
    made = portals.LentLoop
    monkeypatch.setattr(Portal, "_shared", None)

    def interrupted():
        monkeypatch.setattr(portals, "LentLoop", made)
        Portal.borrow().give_back()
        return made()

    monkeypatch.setattr(portals, "LentLoop", interrupted)
    ends(lambda: Portal.borrow().give_back())


@pytest.mark.parametrize("fails", [False, True])
def test_nobody_keeps_what_the_last_verb_gave(portal, fails):
    class Thing:
        pass

    made = []

    async def work():
        thing = Thing()
        made.append(weakref.ref(thing))
        if fails:
            raise ValueError(thing)
        return thing

    assert here(portal)
    gc.collect()
    gc.disable()
    try:
        try:
            portal.run(work())
        except ValueError:
            assert fails
        assert made[0]() is None
    finally:
        gc.enable()


# One that was made, and there was no room to hand it over.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_a_thread_without_room_for_more_calls_is_told_so_and_nothing_is_begun(portal):
    begun = []

    async def work():
        begun.append(True)

    def deep(count):
        return portal.run(work()) if count == 0 else deep(count - 1)

    def try_all():
        refused = 0
        for count in range(sys.getrecursionlimit() - 5, sys.getrecursionlimit() - 120, -1):
            before = len(begun)
            try:
                deep(count)
            except RecursionError:
                refused += 1
                assert len(begun) == before
        assert refused > 20

    ends(try_all)
    assert begun


_FORKS = """
import asyncio, os, signal, sys, threading
from bailiwick.errors import Closed
from bailiwick.portal import Portal

portal, here, begun, children, ended = Portal(), os.getpid(), threading.Event(), [], []

def fork(number, frame):
    child = os.fork()
    if child:
        children.append(child)
        portal.loop.call_soon_threadsafe(go_on.set)

async def work():
    global go_on
    go_on = asyncio.Event()
    begun.set()
    try:
        await go_on.wait()
    finally:
        ended.append(os.getpid())
    return "done"

signal.signal(signal.SIGUSR1, fork)
threading.Thread(target=lambda: (begun.wait(), os.kill(here, signal.SIGUSR1))).start()
try:
    said = portal.run(work())
except Closed as error:
    os._exit(7 if os.getpid() != here and not ended else 1)
print(said, [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in children])
"""


def test_a_child_that_was_forked_where_its_parent_waits_is_told_and_undoes_nothing():
    command = [sys.executable, "-c", _FORKS]
    run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert run.stdout == "done [7]\n", run.stderr
