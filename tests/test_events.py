"""The feed in memory: replaying, following, cursors, retention, listeners, what is in flight."""

import asyncio
import contextlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.errors import Closed, ParseError
from bailiwick.events import Cursor, InFlight, parse_cursor
from bailiwick.paths import ScopedPath
from bailiwick.store import Noticed
from tests.feeds import Follower, change, memory_feed
from tests.waiting import until

pytestmark = pytest.mark.spec("EVENT-1")


class Clock:
    def __init__(self):
        self.now = 1_000

    def __call__(self):
        return self.now


async def take(feed, count, since=None):
    """The next so many changes."""
    async with contextlib.aclosing(feed.follow(since)) as changes:
        return [await anext(changes) for _ in range(count)]


# --- following --------------------------------------------------------------------------------


async def test_nothing_is_kept_until_somebody_asks():
    feed = memory_feed()
    feed.publish([change("before")])
    assert not feed.active
    cursor = await feed.cursor()
    assert feed.active
    feed.publish([change("after")])
    assert [told.path for told in await take(feed, 1, cursor)] == ["after"]


async def test_a_follower_is_told_from_its_first_await_on():
    feed = memory_feed()
    feed.publish([change("before")])
    changes = feed.follow()
    first = asyncio.create_task(anext(changes))
    await asyncio.sleep(0)
    feed.publish([change("a"), change("b")])
    assert (await first).path == "a"
    assert (await anext(changes)).path == "b"
    await changes.aclose()


async def test_every_change_has_a_cursor_and_a_time_and_can_be_continued_from():
    clock = Clock()
    feed = memory_feed(time_ns=clock)
    start = await feed.cursor()
    for number in range(10):
        clock.now += 1
        feed.publish([change(f"f{number}")])
    told = await take(feed, 10, start)
    assert [each.time_ns for each in told] == list(range(1_001, 1_011))
    for position, each in enumerate(told[:-1]):
        rest = await take(feed, 9 - position, each.cursor)
        assert [later.path for later in rest] == [later.path for later in told[position + 1 :]]


async def test_ten_thousand_changes_reach_a_watcher_that_is_killed_a_hundred_times():
    feed = memory_feed()
    rng = random.Random(1)
    cursor, heard = await feed.cursor(), []
    made = [f"f{rng.randrange(50)}" for _ in range(10_000)]

    async def watch():
        nonlocal cursor
        async with contextlib.aclosing(feed.follow(cursor)) as changes:
            async for told in changes:
                heard.append(told.request_id)
                cursor = told.cursor

    task = asyncio.create_task(watch())
    kills = sorted(rng.sample(range(len(made)), 100))
    for number, path in enumerate(made):
        feed.publish([change(path, request_id=str(number))])
        if number in kills:
            await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            task = asyncio.create_task(watch())
        elif rng.random() < 0.1:
            await asyncio.sleep(0)
    await until(lambda: len(heard) >= len(made))
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert heard == [str(number) for number in range(len(made))]


async def test_many_followers_of_different_speed_all_hear_everything():
    feed = memory_feed()
    cursor = await feed.cursor()
    followers = [Follower(feed, cursor) for _ in range(20)]
    async with contextlib.AsyncExitStack() as stack:
        for follower in followers[:10]:
            await stack.enter_async_context(follower)
        for number in range(500):
            feed.publish([change(f"f{number}")])
        for follower in followers[10:]:
            await stack.enter_async_context(follower)
        await until(lambda: all(len(each.told) == 500 for each in followers))
    for follower in followers:
        assert [str(told.path) for told in follower.told] == [f"f{n}" for n in range(500)]


async def test_cancelled_followers_leave_nothing_behind():
    feed = memory_feed()
    tasks = [asyncio.create_task(anext(feed.follow())) for _ in range(50)]
    await until(lambda: len(feed._waiting) == len(tasks))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert feed._waiting == set()
    assert feed.lookout._attending == 0


async def test_closing_ends_all_who_follow():
    feed = memory_feed()
    tasks = [asyncio.create_task(anext(feed.follow())) for _ in range(5)]
    await until(lambda: len(feed._waiting) == len(tasks))
    feed.close()
    feed.close()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(end) for end in ends] == [Closed] * 5
    with pytest.raises(Closed):
        await anext(feed.follow())
    with pytest.raises(Closed):
        await feed.cursor()
    feed.publish([change("late")])


# --- retention --------------------------------------------------------------------------------


async def test_a_cursor_older_than_what_is_kept_is_reset_once_and_goes_on():
    feed = memory_feed(feed_memory_changes_max=32)
    old = await feed.cursor()
    for number in range(100):
        feed.publish([change(f"f{number}")])
    changes = feed.follow(old)
    reset = await anext(changes)
    assert (reset.kind, reset.path) == ("reset", ".")
    feed.publish([change("later")])
    later = await anext(changes)
    assert later.path == "later"
    await changes.aclose()
    assert [told.path for told in await take(feed, 1, reset.cursor)] == ["later"]


async def test_a_follower_that_falls_behind_what_is_kept_is_reset():
    feed = memory_feed(feed_memory_changes_max=16)
    changes = feed.follow(await feed.cursor())
    feed.publish([change("first")])
    assert (await anext(changes)).path == "first"
    for number in range(1_000):
        feed.publish([change(f"f{number}")])
    kinds = [(await anext(changes)).kind for _ in range(1)]
    feed.publish([change("later")])
    kinds.append(str((await anext(changes)).path))
    assert kinds == ["reset", "later"]
    await changes.aclose()


async def test_what_is_too_old_is_not_kept():
    clock = Clock()
    feed = memory_feed(time_ns=clock, feed_seconds_max=1.0)
    start = await feed.cursor()
    feed.publish([change("old")])
    middle = (await take(feed, 1, start))[0].cursor
    clock.now += 2 * 10**9
    assert (await take(feed, 1, start))[0].kind == "reset"
    feed.publish([change("new")])
    assert [told.path for told in await take(feed, 1, middle)] == ["new"]


async def test_the_log_is_bounded():
    feed = memory_feed(feed_memory_changes_max=64)
    feed.activate()
    for number in range(1_000):
        feed.publish([change(f"f{number}")])
        assert len(feed._log) <= 64


# --- cursors ----------------------------------------------------------------------------------


async def test_a_cursor_of_another_feed_is_reset():
    one, other = memory_feed(), memory_feed()
    cursor = await other.cursor()
    assert (await take(one, 1, cursor))[0].kind == "reset"
    ahead = Cursor(one.id, 5).text
    assert (await take(one, 1, ahead))[0].kind == "reset"


@pytest.mark.parametrize(
    "text",
    ["", "x", "a.b.c.d", "a.-1.0.", "a.1.0", "a.1.0.x\n", "a/b.1.0.", 7, b"a.1.0.", "é.1.0."],
)
async def test_a_malformed_cursor_is_a_parse_error(text):
    feed = memory_feed()
    with pytest.raises(ParseError):
        await anext(feed.follow(text))


@given(
    st.text("abz09_-", min_size=1, max_size=64),
    st.integers(0, 10**18 - 1),
    st.integers(0, 10**9 - 1),
)
def test_a_cursor_says_what_it_was_made_of(feed, sequence, part):
    cursor = Cursor(feed, sequence, part, "s")
    assert parse_cursor(cursor.text) == cursor


# --- listeners --------------------------------------------------------------------------------


@pytest.mark.spec("EVENT-2")
async def test_a_listener_that_raises_reaches_nobody(caplog):
    feed, heard = memory_feed(), []

    def broken(_):
        raise ZeroDivisionError("in a listener")

    unsubscribe = feed.subscribe(broken)
    feed.subscribe(lambda told: heard.append(told.path))
    feed.publish([change("a")])
    assert heard == ["a"]
    assert "listener failed" in caplog.text
    unsubscribe()
    unsubscribe()
    caplog.clear()
    feed.publish([change("b")])
    assert heard == ["a", "b"]
    assert caplog.text == ""
    feed.close()


async def test_what_a_listener_hears_has_a_cursor():
    feed, heard = memory_feed(), []
    feed.subscribe(heard.append)
    feed.publish([change("a"), change("b")])
    assert [told.path for told in await take(feed, 1, heard[0].cursor)] == ["b"]
    feed.close()


# --- what is in flight ------------------------------------------------------------------------


def test_in_flight_covers_a_path_and_all_beneath_it():
    flight = InFlight()
    path = ScopedPath("a/b")
    flight.begin(path)
    flight.begin(path)
    assert flight.covers(path)
    assert flight.covers(ScopedPath("a/b/c/d"))
    assert not flight.covers(ScopedPath("a"))
    assert not flight.covers(ScopedPath("a/bc"))
    flight.end(path)
    assert flight.covers(path)
    flight.end(path)
    assert not flight.covers(path)
    assert flight.ended == 2


def test_in_flight_knows_the_directories_that_may_be_made_on_the_way():
    flight = InFlight()
    path = ScopedPath("a/b/c")
    flight.begin(path, parents=True)
    flight.begin(ScopedPath("x/y"))
    assert flight.leads_through(ScopedPath("a"))
    assert flight.leads_through(ScopedPath("a/b"))
    assert not flight.leads_through(ScopedPath("x"))
    flight.end(path, parents=True)
    assert not flight.leads_through(ScopedPath("a"))


# --- a source of foreign changes --------------------------------------------------------------


class Watcher:
    def __init__(self, tell):
        self.tell = tell
        self.sees_all = True
        self.closed = False
        self.heard, self.caught_up = [], []
        self.entered = asyncio.Event()
        self.entered.set()

    async def ready(self):
        await self.entered.wait()

    def told(self, told):
        self.heard.append(told)

    def catch_up(self, path):
        self.caught_up.append(path)

    def close(self):
        self.closed = True
        self.entered.set()


class Source:
    """A store that can watch, as far as the feed sees it."""

    def __init__(self):
        self.watchers = []

    def sight(self, path):
        return None

    def watch_tree(self, tell, changing):
        self.watchers.append(Watcher(tell))
        return self.watchers[-1]


async def test_others_are_watched_only_while_somebody_follows_and_a_while_longer(monkeypatch):
    monkeypatch.setattr("bailiwick.events.LINGER_S", 0.01)
    source = Source()
    feed = memory_feed(source)
    feed.publish([change("a")])
    assert source.watchers == []
    changes = feed.follow()
    task = asyncio.create_task(anext(changes))
    await asyncio.sleep(0)
    assert not source.watchers[0].closed
    feed.publish([change("b")])
    told = await task
    await changes.aclose()
    await until(lambda: source.watchers[0].closed)
    # Nobody watched since: whoever comes back is told that something may have gone unnoticed.
    changes = feed.follow(told.cursor)
    assert (await anext(changes)).kind == "rescan"
    await changes.aclose()
    feed.close()
    assert all(watcher.closed for watcher in source.watchers)
    assert len(source.watchers) == 2


async def test_one_who_comes_back_in_time_has_missed_nothing():
    source = Source()
    feed = memory_feed(source)
    cursor = await feed.cursor()
    source.watchers[0].tell([Noticed(change("f", subject="", request_id=""))])
    feed.publish([change("g")])
    told = await take(feed, 2, cursor)
    assert [(each.kind, str(each.path)) for each in told] == [("updated", "f"), ("updated", "g")]
    assert len(source.watchers) == 1
    watcher = source.watchers[0]
    assert [each.path for each in watcher.heard] == ["f", "g"]
    assert watcher.caught_up == ["g"]
    feed.close()


async def test_where_others_cannot_be_watched_that_is_said(caplog):
    from bailiwick.errors import Unsupported

    class Blind(Source):
        def watch_tree(self, tell, changing):
            raise Unsupported("not here")

    feed = memory_feed(Blind())
    changes = feed.follow()
    assert (await anext(changes)).kind == "rescan"
    assert "not noticed" in caplog.text
    feed.publish([change("own")])
    assert (await anext(changes)).path == "own"
    await changes.aclose()
    feed.close()
