"""As late as the database says: what a machine's clock is worth beside it."""

import time

import pytest

from bailiwick.postgres.clock import SharedClock

SECOND = 1_000_000_000
HOUR = 3600 * SECOND


class Told:
    """A machine whose clock is at ``now``, and a database that is ``ahead`` of it."""

    def __init__(self, monkeypatch):
        self.now = 1_000_000 * SECOND
        self.clock = SharedClock()
        monkeypatch.setattr(time, "time_ns", lambda: self.now)

    def ask(self, ahead, waited=0):
        """Where the clock is then, from what the machine's own says. The database's is read at the
        end of the wait, which nobody can tell from its beginning."""
        asked = self.now
        self.now += waited
        self.clock.heard((self.now + ahead) // 1_000, asked)
        return self.clock.time_ns() - self.now


@pytest.mark.spec("SCALE-5")
def test_a_clock_is_set_by_the_databases_where_they_differ_and_left_alone_where_not(monkeypatch):
    told = Told(monkeypatch)
    assert told.clock.time_ns() == told.now
    assert told.ask(SECOND // 2) == 0
    assert told.ask(-HOUR) == -HOUR
    assert told.ask(-HOUR + SECOND // 2) == -HOUR, "it does not waver"
    assert told.ask(HOUR) == HOUR
    assert told.ask(0) == 0, "somebody has set it right"


@pytest.mark.spec("SCALE-5")
def test_an_answer_that_was_late_says_no_more_than_it_can(monkeypatch):
    told = Told(monkeypatch)
    assert told.ask(0, waited=20 * SECOND) == 0
    assert told.ask(HOUR, waited=20 * SECOND) == HOUR + 10 * SECOND
    assert told.ask(HOUR) == HOUR
