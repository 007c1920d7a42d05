"""Signals that come in the middle of a blocking verb."""

import os
import signal
import sys
import threading

import pytest

from bailiwick import first_step, handed_over, held_signals
from bailiwick.held_signals import HeldSignals, unbroken
from tests.blocking.steps import Came, here
from tests.waiting import for_ever, loop_turns

pytestmark = pytest.mark.spec("LINE-4", "LINE-5")


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

    assert here(portal)
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
        assert here(portal)
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


def test_a_handler_that_is_set_in_a_first_step_stays(portal, rings):
    def mine(number, frame):
        raise AssertionError("nobody sends it")

    async def work():
        signal.signal(signal.SIGUSR1, mine)

    assert here(portal)
    portal.run(work())
    assert signal.getsignal(signal.SIGUSR1) is mine


def test_a_handler_that_was_looked_for_in_a_first_step_can_be_set_again(portal, rings):
    found = []

    async def work():
        found.append(signal.getsignal(signal.SIGUSR1))

    assert here(portal)
    portal.run(work())
    signal.signal(signal.SIGUSR1, found[0])
    with pytest.raises(Came):
        os.kill(os.getpid(), signal.SIGUSR1)


@pytest.mark.skipif(
    sys.version_info[:2] == (3, 12),
    reason="Python 3.12 does not trace every instruction: run it with 3.11 or 3.13",
)
def test_no_signal_of_a_first_step_is_lost_where_another_raises(portal, rings):
    told = []
    signal.signal(signal.SIGUSR2, lambda number, frame: told.append(number))
    assert here(portal)
    instant = 0
    while _rung_at(portal, instant := instant + 1):
        assert told == [signal.SIGUSR2], f"at instruction {instant}"
        told.clear()
    assert instant > 50


def _rung_at(portal, instant):
    """Whether there was such an instruction, after the one with which a first step signals itself:
    it was interrupted there by another signal."""
    rooms = {each.__file__ for each in (first_step, handed_over, held_signals)}
    traced = sys.gettrace()
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
