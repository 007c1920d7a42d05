"""What one request waits for is counted together, and what is answered at once is not."""

import asyncio
import time

import pytest

from bailiwick import patience
from bailiwick.build.log_feed import StoreFeed
from bailiwick.change_log import Logged
from bailiwick.patience import (
    AT_ONCE_S,
    UNCOUNTED_S,
    RequestPatience,
    keeping,
    standing_still,
    waiting,
)
from bailiwick.stores.mounts.watchers import LogWatcher
from tests.waiting import let_pass, let_pass_blocking, loop_turns, until

pytestmark = pytest.mark.spec("SCALE-6")


def test_waits_are_counted_together_and_those_at_the_same_time_once():
    held = RequestPatience(10.0)
    assert held.left_s(4.0) == 4.0
    held.count(100.0, 104.0)
    held.count(102.0, 106.0)  # two seconds of it are counted already
    assert held.left_s(None) == 4.0
    assert held.left_s(9.0) == 4.0
    assert held.left_s(3.0) == 3.0
    held.count(101.0, 105.0)
    assert held.left_s(None) == 4.0


def test_a_long_wait_counts_as_a_whole_beside_short_ones_that_end_before_it():
    held = RequestPatience(10.0)
    held.count(101.0, 102.0)
    held.count(104.0, 105.0)
    held.count(100.0, 106.0)
    assert held.left_s(None) == 4.0
    held.count(108.0, 109.0)
    assert held.left_s(None) == 3.0
    held.count(105.5, 108.5)
    assert held.left_s(None) == 1.0


def test_what_is_answered_at_once_is_not_counted_and_always_waited_for():
    held = RequestPatience(10.0)
    for begun in range(1_000):
        held.count(begun, begun + UNCOUNTED_S)
    assert held.left_s(None) == 10.0
    held.count(2_000.0, 2_030.0)
    assert held.left_s(None) == held.left_s(5.0) == AT_ONCE_S
    assert held.left_s(AT_ONCE_S / 2) == AT_ONCE_S / 2


def test_a_wait_that_may_take_longer_by_itself_may():
    held = RequestPatience(10.0)
    assert held.left_s(60.0) == 60.0
    held.count(0.0, 20.0)
    assert held.left_s(60.0) == 40.0
    assert held.left_s(5.0) == AT_ONCE_S


def test_those_of_one_level_are_about_as_patient():
    now = 100.0
    left = [0.0, AT_ONCE_S, 1.5, 1.9, 3.0, 3.9, 5.0, 7.0, 9.0, 13.0]
    assert [patience.level(now + each, now) for each in left] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert patience.level(None, now) == patience.level(now + 13.0, now)


def stand_still(seconds):
    with standing_still(10.0, time.monotonic):
        let_pass_blocking(seconds)


async def left_after(event, seconds=3.0):
    """Of the patience of a request that waits until then."""
    with keeping(seconds):
        with waiting():
            await event.wait()
        with waiting() as left:
            return left


async def test_what_an_event_loop_stands_still_for_counts_for_all_whom_it_serves():
    """Whoever asked, be it nobody; and once, for who waits for something else meanwhile."""
    goes_on = asyncio.Event()
    others = [asyncio.ensure_future(left_after(goes_on)) for _ in range(2)]
    await loop_turns()
    since = time.monotonic()
    stand_still(2 * UNCOUNTED_S)
    with keeping(3.0):
        begun = time.monotonic()
        stand_still(2 * UNCOUNTED_S)
        with waiting() as left:
            assert 3.0 - (time.monotonic() - begun) <= left <= 3.0 - 2 * UNCOUNTED_S
    with keeping(3.0), waiting() as left:
        assert left == 3.0, "what was before it does not count"
    goes_on.set()
    for other in others:
        left = await other
        assert 3.0 - (time.monotonic() - since) - UNCOUNTED_S <= left <= 3.0 - 4 * UNCOUNTED_S


async def test_what_another_event_loop_stands_still_for_counts_for_nobody_here():
    async def elsewhere():
        stand_still(2 * UNCOUNTED_S)

    with keeping(3.0):
        await asyncio.to_thread(asyncio.run, elsewhere())
        with waiting() as left:
            assert left == 3.0


async def test_it_binds_what_a_request_waits_for_and_nothing_that_outlives_it():
    goes_on = asyncio.Event()

    def left(own_s=None):
        with waiting(own_s) as seconds:
            return seconds

    async def later():
        within = left()
        await goes_on.wait()
        return within, left()

    async def for_all():
        patience.for_nobody()
        return left()

    assert (left(), left(7.0)) == (None, 7.0)
    with keeping(3.0):
        assert left() == 3.0
        assert left(1.0) == 1.0
        outliving = asyncio.ensure_future(later())
        assert await asyncio.ensure_future(for_all()) is None
        with waiting():
            await let_pass(2 * AT_ONCE_S)
        assert left() < 3.0
        assert left(1.0) == 1.0
    goes_on.set()
    within, afterwards = await outliving
    assert within is not None
    assert afterwards is None
    assert left() is None


class Log:
    """A log that is read slowly; notes how long it is waited for, and for whom."""

    id = "log"
    poll_s = 0.01

    def __init__(self):
        self.bounds = []
        self.read_at = asyncio.Event()

    def on_commit(self, told):
        return lambda: None

    def known(self):
        return 0

    def place_of(self, version):
        return version

    async def end(self):
        with waiting() as seconds:
            self.bounds.append(seconds)
        self.read_at.set()
        return 0

    async def start(self):
        return 0

    async def read(self, after, limit):
        return Logged([], 0)


async def test_what_follows_changes_for_all_is_bound_by_nobody():
    """Whoever was the first to look, and waits for a person meanwhile, say."""
    log, feed_log = Log(), Log()
    feed = StoreFeed(feed_log)
    with keeping(3.0):
        watcher = LogWatcher(log, lambda noticed: None, None)
        end = feed.subscribe(lambda change: None)
        await log.read_at.wait()
        await feed_log.read_at.wait()
    end()
    feed.close()
    watcher.close()
    await until(lambda: not watcher.sees_all)
    assert set(log.bounds) == set(feed_log.bounds) == {None}
