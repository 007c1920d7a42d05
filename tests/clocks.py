"""A clock that a test can put forward, instead of waiting for what is to come."""

import time

import msgspec

from bailiwick.build import governed, own
from bailiwick.postgres.clock import SharedClock


class Clock:
    """The clock of the machine, and what it was put forward by."""

    def __init__(self):
        self._ahead_ns = 0

    def time_ns(self):
        return time.time_ns() + self._ahead_ns

    def advance(self, seconds):
        self._ahead_ns += int(seconds * 1_000_000_000)


def put_in_place(monkeypatch):
    """Have everything that is opened from here on go by the clock that is returned."""
    clock, own_machine = Clock(), own.own_machine

    def machine():
        return msgspec.structs.replace(own_machine(), time_ns=clock.time_ns)

    monkeypatch.setattr(own, "own_machine", machine)
    monkeypatch.setattr(governed, "own_machine", machine)
    # As if the clock of the database had gone on as well.
    monkeypatch.setattr(SharedClock, "time_ns", lambda self: clock.time_ns() + self._off_ns)
    return clock
