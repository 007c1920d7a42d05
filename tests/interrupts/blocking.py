"""A signal that raises in a blocking verb: nothing of that verb happens after it has left."""

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading

import pytest

import bailiwick
from bailiwick.portal import Portal
from tests.interrupts.alarms import Alarm, Interrupter
from tests.waiting import for_ever, until_blocking

# A coroutine that was made when the alarm came, and not yet handed over, is never begun.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")

A, B = b"a" * 300_000, b"b" * 300_000


@pytest.fixture
def alarms(request):
    with Interrupter(request.node.name).installed() as alarms:
        yield alarms


def _place(kind, tmp_path):
    (tmp_path / "tree").mkdir()
    return {
        "memory": "memory:", "disk": str(tmp_path / "tree"), "volume": f"sqlite:{tmp_path}/v.db",
    }[kind]  # fmt: skip


def _under_way(fs):
    """What still runs on the loop of a blocking scope, but for what looks after a volume."""

    async def others():
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        return [task for task in tasks if "keeping" not in task.get_name()]

    return fs._portal.run(others())


@pytest.mark.spec("LINE-5")
@pytest.mark.parametrize("kind", ["disk", "volume", "memory"])
@pytest.mark.parametrize("again_s", [0.0, 0.000_2], ids=["once", "many"])
def test_an_interrupted_write_does_not_land_later(tmp_path, alarms, kind, again_s):
    interrupted = 0
    with bailiwick.open_sync(_place(kind, tmp_path)) as fs:
        alarms.measure(lambda: fs.write_bytes("f", A))
        for _ in range(60):
            fs.write_bytes("f", B)
            if alarms.interrupted(lambda: fs.write_bytes("f", A), again_s=again_s):
                interrupted += 1
                assert not _under_way(fs)
            seen = fs.read_bytes("f").data
            assert seen in (A, B)
            fs.write_bytes("f", B)
            assert not _under_way(fs)
            assert fs.read_bytes("f").data == B
    assert interrupted > 5


@pytest.mark.spec("LINE-5", "LIFE-2")
@pytest.mark.parametrize("what", ["transaction", "stream", "branch", "upload"])
def test_nothing_goes_on_in_what_was_entered_when_the_alarm_came(tmp_path, alarms, what):
    with bailiwick.open_sync(f"sqlite:{tmp_path}/v.db") as fs:
        fs.write_bytes("f", A)

        def transaction():
            with fs.transaction() as inside:
                inside.write_bytes("g", B)
                inside.write_bytes("h", B)

        def stream():
            for _ in fs.stream("f"):
                pass

        def branch():
            fs.open_fork("main").close()

        def upload():
            fs.write_stream("f", fs.stream("f"))

        action = locals()[what]
        alarms.measure(action)
        interrupted = 0
        for _ in range(40):
            for name in ("g", "h"):
                if fs.exists(name):
                    fs.remove(name)
            if alarms.interrupted(action, again_s=0.000_5):
                interrupted += 1
                gc.collect()  # what the alarm kept from being left is left by now
                seen = fs.find().paths
                assert seen in (["f"], ["f", "g", "h"])
                assert fs.read_bytes("f").data == A
                asyncio.run_coroutine_threadsafe(_others_end(), fs._portal.loop).result()
                assert fs.find().paths == seen
        assert interrupted


async def _others_end():
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    others = [task for task in tasks if "keeping" not in task.get_name()]
    if others:
        await asyncio.wait(others)


@pytest.mark.spec("LINE-5", "LIFE-2")
def test_what_came_of_the_work_all_the_same_is_let_go():
    portal, begun, got = Portal(), threading.Event(), []

    async def too_late():
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await for_ever()
        return "a lease"

    async def let_go(value):
        got.append(value)

    def ring(signum, frame):
        raise Alarm

    before = signal.signal(signal.SIGUSR1, ring)
    helper = threading.Thread(target=lambda: (begun.wait(30), os.kill(os.getpid(), signal.SIGUSR1)))
    helper.start()
    try:
        with pytest.raises(Alarm):
            portal.run(too_late(), let_go=let_go)
        assert got == ["a lease"]
    finally:
        helper.join()
        signal.signal(signal.SIGUSR1, before)
        portal.close()


@pytest.mark.spec("LINE-5", "LIFE-2")
@pytest.mark.parametrize("kind", ["disk", "volume"])
def test_what_was_being_opened_when_the_alarm_came_is_closed(tmp_path, alarms, kind):
    place, interrupted = _place(kind, tmp_path), 0

    def open_and_close():
        with bailiwick.open_sync(place) as fs:
            fs.exists("f")

    with bailiwick.open_sync(place):  # the loop of all blocking scopes stays
        alarms.measure(open_and_close)
        before = set(os.listdir("/proc/self/fd"))
        for _ in range(25):
            interrupted += alarms.interrupted(open_and_close)
        gc.collect()
        assert set(os.listdir("/proc/self/fd")) <= before
    assert interrupted


class _Stubborn:
    """Work that takes its time to stop, and says when it has."""

    def __init__(self):
        self.begun = threading.Event()
        self.may_end = threading.Event()
        self.ended = False

    async def run(self):
        self.begun.set()
        try:
            await for_ever()
        finally:
            await asyncio.to_thread(self.may_end.wait, 30)
            self.ended = True


@pytest.mark.spec("LINE-5")
def test_a_second_and_third_interrupt_wait_too_and_the_second_is_told(caplog):
    portal, stubborn, raised = Portal(), _Stubborn(), []

    def ring(signum, frame):
        raised.append(signum)
        raise KeyboardInterrupt if len(raised) == 2 else Alarm(len(raised))

    def annoy():
        for _ in range(3):
            stubborn.begun.wait(30)
            seen = len(raised)
            os.kill(os.getpid(), signal.SIGUSR1)
            until_blocking(lambda seen=seen: len(raised) > seen)  # the main thread has taken it
        stubborn.may_end.set()

    before = signal.signal(signal.SIGUSR1, ring)
    helper = threading.Thread(target=annoy)
    helper.start()
    try:
        with pytest.raises(KeyboardInterrupt), caplog.at_level("WARNING", "bailiwick"):
            portal.run(stubborn.run())
        assert stubborn.ended
        assert len(raised) == 3
        assert [record.message[:17] for record in caplog.records] == ["interrupted again"]
    finally:
        helper.join()
        signal.signal(signal.SIGUSR1, before)
        portal.close()


@pytest.mark.spec("LINE-5")
def test_any_number_of_interrupts_wait():
    """Of some each comes while the one before is being caught."""
    portal, stubborn, raised = Portal(), _Stubborn(), []

    def ring(signum, frame):
        raised.append(signum)
        raise Alarm

    def annoy():
        stubborn.begun.wait(30)
        signal.setitimer(signal.ITIMER_REAL, 0.000_05, 0.000_05)
        until_blocking(lambda: len(raised) > 5_000)
        signal.setitimer(signal.ITIMER_REAL, 0)
        stubborn.may_end.set()

    timer = signal.setitimer(signal.ITIMER_REAL, 0)
    before = signal.signal(signal.SIGALRM, ring)
    helper = threading.Thread(target=annoy)
    helper.start()
    try:
        with pytest.raises(Alarm):
            portal.run(stubborn.run())
        assert stubborn.ended
        assert len(raised) > 5_000
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        stubborn.may_end.set()
        helper.join()
        portal.close()
        signal.setitimer(signal.ITIMER_REAL, *timer)


_CHILD = """
import os, signal, sys, threading
import bailiwick

def never_ending():
    yield b"a" * 1_000_000
    print("begun", flush=True)
    threading.Event().wait(60)
    yield b"b"

with bailiwick.open_sync(sys.argv[1]) as fs:
    try:
        fs.write_stream("f", never_ending())
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("interrupted", fs.exists("f"), fs.find(include_ignored=True).paths, flush=True)
        os._exit(0)
"""


@pytest.mark.spec("LINE-5")
@pytest.mark.parametrize("kind", ["disk", "volume", "memory"])
def test_ctrl_c_ends_a_write_whose_source_gives_nothing_more(tmp_path, kind):
    command = [sys.executable, "-c", _CHILD, _place(kind, tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "begun\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted False []\n"
        assert child.wait(30) == 0
