"""The first step of a task is taken where it is begun."""

import asyncio
import contextlib
import contextvars
import functools
import gc
import os
import random
import signal
import subprocess
import sys
import threading
import weakref

import pytest

import bailiwick
from bailiwick import finishing, first_step
from bailiwick import portal as portals
from bailiwick.errors import Closed
from bailiwick.first_step import BeginsAtOnce
from bailiwick.held_signals import HeldSignals, unbroken
from bailiwick.paths import ScopedPath
from bailiwick.portal import Portal
from tests.waiting import PATIENCE_S, for_ever, loop_turns, until_blocking

pytestmark = pytest.mark.spec("LINE-4", "LINE-5")


class Came(Exception):
    """What a handler of a signal raises."""


@pytest.fixture
def portal():
    portal = Portal()
    portal.run(asyncio.sleep(0))  # by now it runs, and can be borrowed
    yield portal
    portal.close()


@pytest.fixture
def rings():
    """Handlers of two signals, which raise."""

    def ring(number, frame):
        raise Came(number)

    before = {each: signal.signal(each, ring) for each in (signal.SIGUSR1, signal.SIGUSR2)}
    yield ring
    for number, handler in before.items():
        signal.signal(number, handler)


def _here(portal):
    """Whether a step is taken in the calling thread; not at once, where its loop is busy."""

    async def thread():
        return threading.get_ident()

    return until_blocking(lambda: portal.run(thread()) == threading.get_ident())


def test_what_does_not_wait_is_done_in_the_thread_that_calls(portal):
    assert _here(portal)


def test_a_verb_of_a_blocking_scope_takes_its_first_step_in_the_callers_thread():
    seen = []

    class Told(os.PathLike):
        def __fspath__(self):
            seen.append(threading.get_ident())
            return "f"

    with bailiwick.open_sync("memory:") as fs:
        fs.write_bytes("f", b"1")
        until_blocking(lambda: fs.read_bytes(Told()) and seen[-1] == threading.get_ident())


def test_nobody_keeps_what_a_first_step_came_to(portal):
    class Result:
        pass

    async def work():
        return Result()

    assert _here(portal)
    result = weakref.ref(portal.run(work()))
    gc.collect()
    assert result() is None


def test_what_waits_goes_on_on_the_loop_as_the_same_task(portal):
    async def work():
        task, thread = asyncio.current_task(), threading.get_ident()
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0))
        await asyncio.to_thread(int)
        assert asyncio.current_task() is task
        return thread, threading.get_ident()

    until_blocking(lambda: portal.run(work()) == (threading.get_ident(), portal._thread.ident))


def test_what_a_first_step_schedules_is_done_though_the_loop_rests(portal):
    soon, later = threading.Event(), threading.Event()

    async def work():
        loop = asyncio.get_running_loop()
        loop.call_soon(soon.set)
        loop.call_later(0.001, later.set)

    assert _here(portal)
    portal.run(work())
    assert soon.wait(PATIENCE_S)
    assert later.wait(PATIENCE_S)


def test_a_generator_that_was_begun_in_a_first_step_is_ended_by_the_loop(portal):
    ended, thread = threading.Event(), []

    async def numbers():
        try:
            yield 1
        finally:
            await asyncio.sleep(0)
            thread.append(threading.get_ident())
            ended.set()

    async def work():
        async for number in numbers():
            return number
        raise AssertionError("there is one")

    assert _here(portal)
    assert portal.run(work()) == 1
    gc.collect()
    assert ended.wait(PATIENCE_S)
    assert thread == [portal._thread.ident]


def test_a_variable_of_the_context_is_the_callers_and_stays_the_works_own(portal):
    variable = contextvars.ContextVar("variable", default=0)
    variable.set(1)

    async def work():
        token = variable.set(variable.get() + 1)
        await asyncio.sleep(0)
        seen = variable.get()
        variable.reset(token)
        return seen

    assert portal.run(work()) == 2
    assert variable.get() == 1


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_what_a_first_step_raises_comes_out_and_the_loop_goes_on(portal, error):
    async def work():
        raise error

    for _ in range(3):
        with pytest.raises(error):
            portal.run(work())
    assert _here(portal)


def test_blocking_work_in_a_first_step_is_refused_not_waited_for(portal):
    async def work():
        inner = asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="own event loop"):
            portal.run(inner)
        return True

    for _ in range(3):
        assert portal.run(work())


def test_in_debug_mode_nothing_is_borrowed(portal):
    portal.loop.set_debug(True)

    async def thread():
        asyncio.get_running_loop().call_soon(int)
        return threading.get_ident()

    assert portal.run(thread()) == portal._thread.ident


def test_a_thread_that_runs_a_loop_does_not_borrow_another(portal):
    async def outside():
        async def thread():
            return threading.get_ident()

        return portal.run(thread())

    assert asyncio.run(outside()) == portal._thread.ident


@pytest.mark.parametrize("waits", [False, True])
def test_a_signal_in_a_first_step_raises_when_the_work_has_ended(portal, rings, waits):
    done = []

    async def work():
        os.kill(os.getpid(), signal.SIGUSR1)
        done.append("the rest of the step")
        try:
            if waits:
                await for_ever()
        finally:
            if waits:
                await loop_turns(3)
            done.append("the end")

    assert _here(portal)
    with pytest.raises(Came):
        portal.run(work())
    assert done == ["the rest of the step", "the end"]
    assert signal.getsignal(signal.SIGUSR1) is rings


def test_of_two_signals_in_a_first_step_both_are_told(portal):
    told = []
    before = {
        each: signal.signal(each, lambda number, _: told.append(number))
        for each in (signal.SIGUSR1, signal.SIGUSR2)
    }

    async def work():
        os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR2)
        return list(told)

    try:
        assert _here(portal)
        assert portal.run(work()) == []
        assert sorted(told) == [signal.SIGUSR1, signal.SIGUSR2]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_held_signals_are_all_given_back_whatever_their_handlers_raise(rings):
    held = HeldSignals()
    held.hold()
    try:
        assert signal.getsignal(signal.SIGUSR1) is not rings
        os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR2)
        came = []
        while held.any:
            try:
                held.release()
            except Came as error:
                came.append(error.args[0])
        assert sorted(came) == [signal.SIGUSR1, signal.SIGUSR2]
        assert signal.getsignal(signal.SIGUSR1) is rings
        assert signal.getsignal(signal.SIGUSR2) is rings
    finally:
        held.release()


def test_signals_are_left_alone_by_other_threads(rings):
    held = HeldSignals()
    thread = threading.Thread(target=held.hold)
    thread.start()
    thread.join()
    assert not held.any
    assert signal.getsignal(signal.SIGUSR1) is rings


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "volume"])
def test_many_threads_take_their_steps_on_one_scope(tmp_path, kind):
    place = {"memory": "memory:", "volume": f"sqlite:{tmp_path}/v.db"}[kind]
    failed = []

    def work(number, fs):
        chosen, mine = random.Random(number), {}
        try:
            for count in range(150):
                name = f"{number}-{chosen.randrange(5)}"
                if chosen.random() < 0.4:
                    mine[name] = b"%d" % count
                    fs.write_bytes(name, mine[name])
                elif name in mine:
                    assert fs.read_bytes(name).data == mine[name]
                else:
                    assert not fs.exists(name)
                fs.append("all", b"x")
        except BaseException as error:
            failed.append(error)

    with bailiwick.open_sync(place) as fs:
        fs.write_bytes("all", b"")
        threads = [threading.Thread(target=work, args=(number, fs)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert fs.stat("all").size == 6 * 150


def test_closing_while_others_take_their_steps_ends_them_all():
    for _ in range(20):
        portal, ended = Portal(), []
        begun = threading.Barrier(4)

        def work(portal=portal, ended=ended, begun=begun):
            async def step():
                await loop_turns(2)

            begun.wait()
            try:
                while True:
                    portal.run(step())
            except Closed:
                ended.append(True)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        begun.wait()
        portal.close()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert ended == [True] * 3


def test_a_task_that_is_begun_is_an_ordinary_task():
    class Loop(BeginsAtOnce, asyncio.SelectorEventLoop):
        pass

    seen = []

    async def work(count):
        seen.append(asyncio.current_task())
        await loop_turns(count)
        return count

    async def after(tasks):
        assert [await each for each in tasks] == [0, 1, 2]

    with asyncio.Runner(loop_factory=Loop) as runner:
        loop, tasks = runner.get_loop(), []

        def begin():
            tasks.extend(loop.begin(work(count)) for count in range(3))
            assert [each.done() for each in tasks] == [True, False, False]
            assert seen == tasks

        loop.call_soon(begin)
        runner.run(asyncio.sleep(0))
        runner.run(after(tasks))
        stopped = []
        loop.call_soon(lambda: stopped.append(loop.begin(work(10))))
        runner.run(asyncio.sleep(0))
        stopped[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            runner.run(after(stopped))


def _ends(work):
    """In a thread of its own, as one that never ends would be waited for forever."""
    raised = []

    def bear():
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=bear, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "it waits for itself"
    assert raised == []


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
        _ends(work)
    finally:
        gc.set_threshold(*thresholds)
        gc.enable()


def test_what_is_called_while_work_is_handed_over_may_hand_over_itself(monkeypatch):
    portal, nested = Portal(), []
    portal.loop.set_debug(True)
    call = portal.loop.call_soon_threadsafe

    def interrupted(*given):
        if not nested:
            nested.append(True)
            nested.append(portal.run(asyncio.sleep(0, "nested")))
        return call(*given)

    monkeypatch.setattr(portal.loop, "call_soon_threadsafe", interrupted)
    _ends(lambda: nested.append(portal.run(asyncio.sleep(0, "outer"))))
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
    _ends(lambda: Portal.borrow().give_back())


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

    assert _here(portal)
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


def test_a_handler_that_is_set_in_a_first_step_stays(portal, rings):
    def mine(number, frame):
        raise AssertionError("nobody sends it")

    async def work():
        signal.signal(signal.SIGUSR1, mine)

    assert _here(portal)
    portal.run(work())
    assert signal.getsignal(signal.SIGUSR1) is mine


def test_a_handler_that_was_looked_for_in_a_first_step_can_be_set_again(portal, rings):
    found = []

    async def work():
        found.append(signal.getsignal(signal.SIGUSR1))

    assert _here(portal)
    portal.run(work())
    signal.signal(signal.SIGUSR1, found[0])
    with pytest.raises(Came):
        os.kill(os.getpid(), signal.SIGUSR1)


def test_no_signal_of_a_first_step_is_lost_where_another_raises(portal, rings):
    told = []
    signal.signal(signal.SIGUSR2, lambda number, frame: told.append(number))
    assert _here(portal)
    instant = 0
    while _rung_at(portal, instant := instant + 1):
        assert told == [signal.SIGUSR2], f"at instruction {instant}"
        told.clear()
    assert instant > 50


def _rung_at(portal, instant):
    """Whether there was such an instruction, after the one with which a first step signals itself:
    it was interrupted there by another signal."""
    rooms, traced = {first_step.__file__, finishing.__file__}, sys.gettrace()
    began, passed = False, 0

    async def work():
        nonlocal began
        os.kill(os.getpid(), signal.SIGUSR2)
        began = True

    def at(frame, event, _):
        nonlocal passed
        if frame.f_code.co_filename not in rooms:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and began:
            passed += 1
            if passed == instant:
                os.kill(os.getpid(), signal.SIGUSR1)
        return at

    sys.settrace(at)
    try:
        portal.run(work())
    except Came:
        pass
    finally:
        sys.settrace(traced)
    return passed >= instant


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

    _ends(try_all)
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


# --- what is opened by blocking code -------------------------------------------------------------


def test_a_scope_that_nobody_has_any_more_is_closed_and_one_that_somebody_has_is_not(tmp_path):
    fs = bailiwick.open_sync(tmp_path).__enter__()
    named = fs.with_request("mine")
    store = fs._scope._pipeline.store
    del fs
    gc.collect()
    named.write_text("f", "a")
    assert named.read_text("f").text == "a"
    del named
    gc.collect()
    with pytest.raises(Closed):
        store.is_missing(ScopedPath("f"))
    assert not [each for each in threading.enumerate() if each.name == "bailiwick-portal"]


def test_a_scope_that_is_let_go_of_on_its_own_loop_is_closed_there(tmp_path):
    with bailiwick.open_sync(tmp_path) as other:
        fs = [bailiwick.open_sync(tmp_path).__enter__()]
        store = fs[0]._scope._pipeline.store

        async def let_go():
            fs.clear()
            gc.collect()

        other._portal.run(let_go())
        until_blocking(lambda: store._workers.closed)
        assert not other.exists("f")


def test_what_is_done_unbroken_is_done_once_whatever_its_signals_raise(rings):
    done = []

    def act():
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            os.kill(os.getpid(), number)
        done.append("whole")

    with pytest.raises(Came):
        unbroken(act)
    assert done == ["whole"]
    assert signal.getsignal(signal.SIGUSR1) is rings
    assert signal.getsignal(signal.SIGUSR2) is rings


def test_what_is_done_unbroken_may_fail():
    def act():
        raise ValueError("by itself")

    with pytest.raises(ValueError, match="by itself"):
        unbroken(act)


@pytest.mark.parametrize("how", ["kept", "forked"])
def test_a_scope_that_is_never_closed_keeps_no_process_from_ending(tmp_path, how):
    code = (
        "import bailiwick, os, sys\n"
        f"fs = bailiwick.open_sync({str(tmp_path)!r}).__enter__()\n"
        "fs.write_text('f', 'a')\n"
        "if sys.argv[1] == 'forked' and (child := os.fork()):\n"
        "    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "print(open(sys.argv[2] + '/f').read())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, how, str(tmp_path)],
        capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "a\n", "")
