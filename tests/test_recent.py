"""The newest changes of a store's log: read once for a crowd, and the same as the log for all."""

import asyncio
import random
from contextlib import aclosing

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bailiwick import recent as recent_module
from bailiwick.change_log import Logged
from bailiwick.model import Change
from bailiwick.paths import ScopedPath
from bailiwick.recent import Recent, RecentFeed
from tests.waiting import loop_turns, until

PLACES = 100


class Log:
    """Versions, each of so many changes; counts what is read of it."""

    def __init__(self):
        self.versions = []
        self.read_changes = 0

    def add(self, count, beneath=0):
        version = len(self.versions) + 1
        places = [*range(version * PLACES, version * PLACES + count - 1)] if count else []
        places += [self.place_of(version)] if count else []
        names = tuple(f"n{number}" for number in range(beneath))
        self.versions.append([
            (place, Change(kind="updated", path=ScopedPath(f"f{place}"), type="file",
                           subject="user:me", request_id="r", beneath=names))
            for place in places
        ])  # fmt: skip

    def place_of(self, version):
        return version * PLACES + PLACES - 1

    async def read(self, after, limit):
        found, through = [], (after + 1) // PLACES - 1
        for number, version in enumerate(self.versions, start=1):
            if number <= through:
                continue
            found += [each for each in version if each[0] > after]
            through = number
            if len(found) >= limit:
                break
        self.read_changes += len(found)
        return Logged(found, through)


def at_once(coroutine):
    """What a coroutine returns that has nothing to wait for."""
    with pytest.raises(StopIteration) as ended:
        coroutine.send(None)
    return ended.value.value


def follow(recent, after):
    """All that is given from a place on."""
    told = []
    while batch := at_once(recent.read(after, 256)):
        told += batch
        after = batch[-1][0]
    return told


@pytest.mark.spec("EVENT-1")
def test_a_crowd_that_keeps_up_reads_the_log_once():
    log = Log()
    recent = Recent(log)
    at = dict.fromkeys(range(16), 0)
    for _ in range(50):
        for _ in range(5):
            log.add(2)
        recent.may_have_more = True
        for each in at:
            told = follow(recent, at[each])
            assert len(told) == 10
            at[each] = told[-1][0]
    assert log.read_changes == 500


@pytest.mark.spec("EVENT-1")
def test_what_is_kept_is_bounded_and_who_fell_behind_misses_nothing(monkeypatch):
    monkeypatch.setattr(recent_module, "_NAMES_KEPT", 40)
    log = Log()
    recent = Recent(log)
    everything = []
    for _ in range(30):
        log.add(3, beneath=2)
        recent.may_have_more = True
        everything += follow(recent, everything[-1][0] if everything else 0)
        assert len(recent._kept) <= 40
    assert len(everything) == 90
    assert follow(recent, 0) == everything
    # One that comes back later than everybody else went.
    log.add(1)
    late = log.place_of(len(log.versions))
    log.add(1)
    assert [place for place, _ in follow(recent, late)] == [late + PLACES]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 4)),
        st.tuples(st.just("read"), st.integers(0, 3)),
        st.tuples(st.just("jump"), st.integers(0, 3)),
    ),
    max_size=60,
)


@pytest.mark.spec("EVENT-1")
@given(STEPS)
@example([("add", 3), ("add", 0), ("jump", 1), ("read", 1), ("read", 0), ("read", 1)])
def test_whoever_reads_gets_what_the_log_says(steps):
    log = Log()
    recent = Recent(log)
    readers = dict.fromkeys(range(4), log.place_of(0))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(recent_module, "_NAMES_KEPT", 6)
        for what, number in steps:
            if what == "add":
                log.add(number)
                recent.may_have_more = True
            elif what == "jump":
                readers[number] = log.place_of(len(log.versions))
            else:
                after = readers[number]
                told = at_once(recent.read(after, 3))
                expected = at_once(log.read(after, 10_000)).changes
                assert told == expected[: len(told)]
                assert bool(told) == bool(expected)
                if told:
                    readers[number] = told[-1][0]
                else:
                    assert recent.through == len(log.versions)


class LoggedFeed(RecentFeed):
    """A feed over such a log, to which another process writes: it is told later."""

    active = True

    def __init__(self, log):
        super().__init__("feed", source=None, new_id=lambda: "")
        self._log = log

    def activate(self):
        pass

    async def head(self):
        return self._log.place_of(len(self._log.versions))

    async def floor(self):
        return 0

    async def read_log(self, after, limit):
        return await self._log.read(after, limit)

    def place_of(self, version):
        return self._log.place_of(version)

    def publish(self, changes):
        pass

    def _tell_noticed(self, noticed):
        pass

    def _now_ns(self):
        return 0


@pytest.mark.spec("EVENT-1", "EVENT-3")
async def test_who_waits_is_told_what_somebody_else_began_after():
    log = Log()
    log.add(1)
    feed = LoggedFeed(log)
    async with aclosing(feed.follow()) as early, aclosing(feed.follow()) as late:
        first = asyncio.ensure_future(anext(early))
        await loop_turns(3)
        log.add(1)  # by another process, of which this one has not heard yet
        second = asyncio.ensure_future(anext(late))
        await loop_turns(3)
        feed.wake_for_more()
        await loop_turns(3)
        assert first.done(), "the change is lost until there is another"
        assert (await first).path == ScopedPath(f"f{log.place_of(2)}")
        assert not second.done()
        log.add(1)
        feed.wake_for_more()
        assert (await second).path == ScopedPath(f"f{log.place_of(3)}")


class DistantLog(Log):
    """A log that takes a few turns of the loop to answer, as one across a network does."""

    def __init__(self, seed):
        super().__init__()
        self._random = random.Random(seed)

    async def read(self, after, limit):
        await loop_turns(self._random.randrange(4))
        found = await super().read(after, limit)  # as it was then
        await loop_turns(self._random.randrange(4))
        return found


@pytest.mark.spec("EVENT-1", "EVENT-3")
@pytest.mark.parametrize("seed", range(12))
async def test_what_is_added_while_a_log_is_read_is_lost_to_nobody(seed):
    log = DistantLog(seed)
    chance, feed = random.Random(seed), LoggedFeed(log)
    told, heard = [[] for _ in range(5)], []

    async def gather(number):
        async with aclosing(feed.follow()) as changes:
            async for change in changes:
                told[number].append(change)
                await loop_turns(chance.randrange(3))

    followers = [asyncio.ensure_future(gather(number)) for number in range(5)]
    feed.subscribe(heard.append)
    await loop_turns(20)
    for _ in range(60):
        log.add(chance.randrange(3))
        feed.wake_for_more()
        await loop_turns(chance.randrange(6))
    expected = [place for version in log.versions for place, _ in version]
    await until(lambda: all(len(each) == len(expected) for each in (*told, heard)))
    for each in (*told, heard):
        assert [int(change.path[1:]) for change in each] == expected
    feed.close()
    await asyncio.gather(*followers, return_exceptions=True)
