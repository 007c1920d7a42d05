"""Several threads that fork at once."""

import sys
import threading

import pytest

from bailiwick.sqlite.fork_safety import _Inheritance


class Announcing:
    """A lock that tells when somebody asks for it."""

    def __init__(self):
        self._lock = threading.Lock()
        self.asked = threading.Event()
        self.patient = True

    def acquire(self, timeout):
        if self._lock.acquire(blocking=False):
            return True
        self.asked.set()
        return self._lock.acquire(timeout=timeout) if self.patient else False

    def release(self):
        self._lock.release()


@pytest.mark.spec("LIFE-3")
@pytest.mark.parametrize("patient", [True, False])
def test_threads_that_fork_at_once_leave_the_interpreter_as_it_was(patient):
    before = sys.getswitchinterval()
    inheritance = _Inheritance()
    inheritance.opening = lock = Announcing()
    lock.patient = patient
    others = []

    def fork():
        inheritance.before()
        others.append(sys.getswitchinterval())
        inheritance.after()

    try:
        inheritance.before()
        other = threading.Thread(target=fork)
        other.start()
        assert lock.asked.wait(60)
        if not patient:
            other.join()
            assert inheritance._held == [lock], "what the first holds is not the second's to free"
        inheritance.after()
        other.join()
        assert len(others) == 1
        assert sys.getswitchinterval() == before
    finally:
        sys.setswitchinterval(before)
