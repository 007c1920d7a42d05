"""Telling others what changed: the feed of one root, as a log with cursors.

Every change is one row, in the order it was made. A follower reads the log by position: one that is
slow falls behind and catches up, nothing is queued for it and nothing is dropped; only what is
older than what the log keeps is lost, and then it is told so (``reset``). What other programs
change comes from the store's own watcher, where it has one (`Lookout`).

Whatever a listener raises stays here: it is logged, and the write that was told is answered.
"""

from __future__ import annotations

import asyncio
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from bailiwick.errors import BailiwickError, Closed, ParseError
from bailiwick.limits import Limits
from bailiwick.model import Change
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.store import Noticed, Watcher, Watches

_log = logging.getLogger("bailiwick.events")

Listener = Callable[[Change], None]

LINGER_S: Final = 60.0
"""How long others are still watched after the last follower went: one that comes back by then with
its cursor has missed nothing."""

_BATCH: Final = 256
"""Changes a follower takes at a time before other tasks get their turn."""


class Feed(Protocol):
    """Every change of one root, in order."""

    @property
    def active(self) -> bool:
        """Whether anybody listens or will ask later: else changes need not be told at all."""
        ...

    @property
    def in_flight(self) -> InFlight:
        """What is being changed just now: whoever changes something says so there."""
        ...

    def prepared(self, changes: Sequence[Change]) -> Sequence[Change]:
        """What one operation changed, as it will be told: to be called when it has succeeded, and
        before it is given to whoever keeps it."""
        ...

    def publish(self, changes: Sequence[Change]) -> None:
        """Tell what one operation changed. Must not raise."""
        ...

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with each change; the answer ends it, and may be called twice."""
        ...

    def follow(
        self, since: str | None = None, holds: Callable[[], None] | None = None
    ) -> AsyncGenerator[Change, None]:
        """Every change after the cursor ``since``, or from now on, and on and on.

        A cursor of another feed, or from before what is kept, gives one ``reset`` and then what
        changes from that moment on: whoever is told so looks at the tree anew. Where changes of
        other programs may have gone unnoticed since the cursor, there is one ``rescan`` first.
        Raises `ParseError` for what is no cursor, `Closed` when the feed is closed.
        """
        ...

    async def cursor(self) -> str:
        """The cursor of this moment, from which all that changes later can be followed."""
        ...

    async def ready(self) -> None:
        """Wait until changes of other programs are noticed, for one who has subscribed."""
        ...

    def wake(self) -> None:
        """Have everyone who follows ask whether they still may."""
        ...

    def close(self) -> None:
        """End all who follow with `Closed`. Closing twice does nothing."""
        ...


# --- cursors ----------------------------------------------------------------------------------

_CURSOR = re.compile(r"([0-9A-Za-z_-]{1,64})\.([0-9]{1,18})\.([0-9]{1,9})\.([0-9A-Za-z_-]{0,64})")


class Cursor(NamedTuple):
    """A position in one feed: after the change ``sequence``.

    ``part`` above zero means in the middle of it: so many of the changes that it was expanded to
    were given out. ``session`` names the time without a gap in which other programs were watched.
    """

    feed: str
    sequence: int
    part: int = 0
    session: str = ""

    @property
    def text(self) -> str:
        return f"{self.feed}.{self.sequence}.{self.part}.{self.session}"


def parse_cursor(text: object) -> Cursor:
    """What a cursor says. A convenience, not a credential: checked for its shape only."""
    found = _CURSOR.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ParseError(
            "the cursor is malformed", hint="pass the cursor of a change that was told, unchanged"
        )
    feed, sequence, part, session = found.groups()
    return Cursor(feed, int(sequence), int(part), session)


# --- what is being changed --------------------------------------------------------------------


class InFlight:
    """The places that are being changed through this process at the moment.

    Begun before the store acts and ended once the change was told, or has failed. What a watcher
    notices in between is ours, and is told by the operation itself.
    """

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._above: dict[str, int] = {}
        self.ended = 0

    def begin(self, path: ScopedPath, *, parents: bool = False) -> None:
        """``parents``: directories on the way may be made too."""
        self._places[path] = self._places.get(path, 0) + 1
        if parents:
            for above in path.parents:
                self._above[above] = self._above.get(above, 0) + 1

    def end(self, path: ScopedPath, *, parents: bool = False) -> None:
        """As `begin`, once for each."""
        self.ended += 1
        _count_down(self._places, path)
        if parents:
            for above in path.parents:
                _count_down(self._above, above)

    def covers(self, path: ScopedPath) -> bool:
        """Whether ``path``, or a directory that it lies in, is being changed."""
        places = self._places
        if not places:
            return False
        return path in places or any(above in places for above in path.parents)

    def leads_through(self, path: ScopedPath) -> bool:
        """Whether ``path`` is a directory that a change may be making on its way."""
        return path in self._above


def _count_down(counts: dict[str, int], key: str) -> None:
    left = counts.get(key, 0) - 1
    if left > 0:
        counts[key] = left
    else:
        counts.pop(key, None)


# --- what others change -----------------------------------------------------------------------


class Lookout:
    """Has other programs watched while somebody follows, and a while longer.

    ``source`` is the store if it can watch, None where nobody else can change it: then all is seen
    always. ``session`` is a new name for every time that watching begins.
    """

    def __init__(
        self,
        source: Watches | None,
        in_flight: InFlight,
        tell: Callable[[Sequence[Noticed]], None],
        new_id: Callable[[], str],
    ) -> None:
        self._source = source
        self._in_flight = in_flight
        self._tell = tell
        self._new_id = new_id
        self._watcher: Watcher | None = None
        self._attending = 0
        self._blind = False
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self.session = ""

    @property
    def watching(self) -> bool:
        return self._watcher is not None

    def attend(self) -> Callable[[], None]:
        """Begin to watch if nobody did; the answer ends one's part in it, and may be called
        twice."""
        self._attending += 1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._watcher is None and self._source is not None and not self._closed:
            self._open(self._source)
        over = False

        def leave() -> None:
            nonlocal over
            if not over:
                over = True
                self._leave()

        return leave

    def _open(self, source: Watches) -> None:
        try:
            self._watcher = source.watch_tree(self._tell, self._in_flight)
        except BailiwickError as error:
            if not self._blind:
                _log.warning("changes by other programs are not noticed: %s", error.message)
            self._blind = True
            return
        self._blind = False
        self.session = self._new_id()

    async def ready(self) -> None:
        """Wait until the whole tree is watched."""
        if self._watcher is not None:
            await self._watcher.ready()

    def may_have_missed(self, since: Cursor | None) -> bool:
        """Whether others may have changed something unseen: since a cursor, or in what cannot be
        watched at all."""
        if self._source is None:
            return False
        if self._blind or self._watcher is None or not self._watcher.sees_all:
            return True
        return since is not None and since.session != self.session

    def completed(self, change: Change) -> Change:
        """A change whose version the operation that made it did not know, with that and with its
        type as it is.

        Looked at before it is told: what someone else changes afterwards is another change.
        """
        if self._source is None or change.kind == "deleted":
            return change
        seen = self._source.sight(change.path)
        if seen is None:
            return change
        return msgspec.structs.replace(change, version=seen.version, type=seen.type)

    def told(self, change: Change) -> None:
        """A change was told: it is no news any more."""
        if self._watcher is not None:
            self._watcher.told(change)

    def catch_up(self, path: ScopedPath) -> None:
        """What is noticed above a path is told before a change of it."""
        if self._watcher is not None:
            self._watcher.catch_up(path)

    def look_anew(self, noticed: Noticed) -> None:
        """What the watcher noticed was not told."""
        if self._watcher is not None:
            self._watcher.look_anew(noticed)

    def _leave(self) -> None:
        self._attending -= 1
        if not self._attending and self._watcher is not None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(LINGER_S, self._stop)

    def _stop(self) -> None:
        self._timer = None
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.close()

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._stop()


# --- what every feed does ---------------------------------------------------------------------


class LogFeed(ABC):
    """A feed over a log that is read by position: following, waiting, listening.

    Positions are whole numbers that grow with every change.
    """

    def __init__(self, id: str, *, source: Watches | None, new_id: Callable[[], str]) -> None:
        self.id: Final = id
        self.in_flight: Final = InFlight()
        self.lookout: Final = Lookout(source, self.in_flight, self._tell_noticed, new_id)
        self._listeners: dict[object, Listener] = {}
        self._waiting: set[asyncio.Future[None]] = set()
        self._closed = False
        self.listener_failed: Callable[[str], None] = lambda why: None
        """Told how a listener failed; for whoever counts such things."""

    # --- the log ------------------------------------------------------------------------------

    @property
    @abstractmethod
    def active(self) -> bool: ...

    @abstractmethod
    def activate(self) -> None:
        """Keep changes from now on."""

    @abstractmethod
    async def head(self) -> int:
        """The position of the newest change."""

    @abstractmethod
    async def floor(self) -> int:
        """The oldest position from which nothing is missing. Grows; looked at after `read`."""

    @abstractmethod
    async def read(self, after: int, limit: int) -> list[tuple[int, Change]]:
        """The changes after a position, oldest first, each with its own."""

    async def lost(self, position: int) -> bool:
        """Whether something after a position is not kept any more. Looked at after `read`."""
        return await self.floor() > position

    async def may_have_more(self, position: int) -> bool:
        """Whether there may be something after a position, for one who has just read none."""
        return await self.head() > position

    def prepared(self, changes: Sequence[Change]) -> Sequence[Change]:
        """Changes with their versions and times filled in.

        The time is taken after the version: what was seen was there when it was told.
        """
        told = []
        for change in changes:
            if not change.time_ns:
                if change.version is None:
                    change = self.lookout.completed(change)
                change = msgspec.structs.replace(change, time_ns=self._now_ns())
            told.append(change)
        return told

    @abstractmethod
    def publish(self, changes: Sequence[Change]) -> None: ...

    @abstractmethod
    def _tell_noticed(self, noticed: Sequence[Noticed]) -> None:
        """Tell what others changed, unless it was told already."""

    # --- following ----------------------------------------------------------------------------

    async def follow(
        self, since: str | None = None, holds: Callable[[], None] | None = None
    ) -> AsyncGenerator[Change, None]:
        """`Feed.follow`. Begins with the first `anext`: what changes after that is told."""
        self.refuse_closed()
        asked = None if since is None else parse_cursor(since)
        self.activate()
        head = await self.head()
        position, reset = head, False
        if asked is not None:
            reset = asked.feed != self.id or not await self.floor() <= asked.sequence <= head
            position = head if reset else asked.sequence - (asked.part > 0)
        leave = self.lookout.attend()
        try:
            await self.lookout.ready()
            self.refuse_closed()
            if reset:
                yield self._sign("reset", Cursor(self.id, position))
            elif self.lookout.may_have_missed(asked):
                begin = Cursor(self.id, position) if asked is None else asked
                yield self._sign("rescan", begin)
            while True:
                batch = await self.read(position, _BATCH)
                if await self.lost(position):
                    position = await self.head()
                    yield self._sign("reset", Cursor(self.id, position))
                    continue
                if not batch:
                    await self._more(position)
                    if holds is not None:
                        holds()
                for position, change in batch:
                    self.refuse_closed()
                    yield self.stamped(change, position)
                self.refuse_closed()
                if len(batch) > 1:
                    await asyncio.sleep(0)
        finally:
            leave()

    def stamped(self, change: Change, position: int) -> Change:
        """The change with its cursor, where it has none yet."""
        if change.cursor:
            return change
        cursor = Cursor(self.id, position, 0, self.lookout.session)
        return msgspec.structs.replace(change, cursor=cursor.text)

    def _sign(self, kind: str, cursor: Cursor) -> Change:
        """A row that is not a change but says something about changes."""
        assert kind in ("reset", "rescan")
        return Change(
            kind="reset" if kind == "reset" else "rescan",
            path=ROOT, type="directory", subject="", request_id="", time_ns=self._now_ns(),
            cursor=cursor._replace(session=self.lookout.session).text,
        )  # fmt: skip

    @abstractmethod
    def _now_ns(self) -> int: ...

    async def cursor(self) -> str:
        self.refuse_closed()
        self.activate()
        leave = self.lookout.attend()
        try:
            await self.lookout.ready()
            self.refuse_closed()
            return Cursor(self.id, await self.head(), 0, self.lookout.session).text
        finally:
            leave()

    async def ready(self) -> None:
        await self.lookout.ready()

    async def _more(self, position: int) -> None:
        """Wait until there is something after ``position``."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            if not self._closed and not await self.may_have_more(position):
                self._someone_waits(position)
                await waiting
        finally:
            self._waiting.discard(waiting)

    def _someone_waits(self, position: int) -> None:  # noqa: B027 (most logs are told of all that is added)
        """For a log that others write to: begin to look whether they did."""

    def wake(self) -> None:
        """Whoever waits looks again: something was added, or they may not go on."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    # --- listening ----------------------------------------------------------------------------

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        self.refuse_closed()
        self.activate()
        leave = self.lookout.attend()
        key = object()
        self._listeners[key] = listener

        def unsubscribe() -> None:
            if self._listeners.pop(key, None) is not None:
                leave()

        return unsubscribe

    def _call_listeners(self, change: Change) -> None:
        for listener in list(self._listeners.values()):
            try:
                listener(change)
            except BaseException as error:  # whatever it is, it is about the listener alone
                _log.warning("change listener failed", exc_info=error)
                self.listener_failed(type(error).__name__)

    # --- closing ------------------------------------------------------------------------------

    def refuse_closed(self) -> None:
        if self._closed:
            raise Closed("the change feed is closed")

    def close(self) -> None:
        self._closed = True
        self.lookout.close()
        self._listeners.clear()
        self.wake()


class MemoryFeed(LogFeed):
    """The changes of one root, kept in memory: gone with the process.

    Nothing is kept until somebody follows, listens or asks for a cursor. Bounded in number and age
    by ``limits``.
    """

    active = False

    def __init__(
        self,
        *,
        limits: Limits,
        time_ns: Callable[[], int],
        new_id: Callable[[], str],
        source: Watches | None = None,
    ) -> None:
        super().__init__(new_id(), source=source, new_id=new_id)
        self._time_ns = time_ns
        self._changes_max = min(limits.feed_memory_changes_max, limits.feed_changes_max)
        self._age_ns_max = int(limits.feed_seconds_max * 1e9)
        self._log: list[Change] = []
        self._floor = 0

    def activate(self) -> None:
        self.active = True

    def _now_ns(self) -> int:
        return self._time_ns()

    async def head(self) -> int:
        return self._head

    @property
    def _head(self) -> int:
        return self._floor + len(self._log)

    async def floor(self) -> int:
        self._forget_old()
        return self._floor

    async def read(self, after: int, limit: int) -> list[tuple[int, Change]]:
        first = max(after - self._floor, 0)
        found = self._log[first : first + limit]
        return list(enumerate(found, start=self._floor + first + 1))

    def publish(self, changes: Sequence[Change]) -> None:
        if not self.active or self._closed:
            return
        changes = self.prepared(changes)
        for change in changes:
            for path in (change.origin, change.path):
                if path is not None:
                    self.lookout.catch_up(path)
        self._append(changes)

    def _tell_noticed(self, noticed: Sequence[Noticed]) -> None:
        now = self._time_ns()
        self._append([msgspec.structs.replace(each.change, time_ns=now) for each in noticed])

    def _append(self, changes: Sequence[Change]) -> None:
        position = self._head
        self._log.extend(changes)
        for change in changes:
            self.lookout.told(change)
        if len(self._log) > self._changes_max:
            # A sixteenth at a time, since the rest moves up.
            keep = self._changes_max - self._changes_max // 16
            self._drop(len(self._log) - keep)
        self._forget_old()
        self.wake()
        if self._listeners:
            for number, change in enumerate(changes, start=position + 1):
                self._call_listeners(self.stamped(change, number))

    def _forget_old(self) -> None:
        if not self._log:
            return
        oldest = self._time_ns() - self._age_ns_max
        count = 0
        while count < len(self._log) and self._log[count].time_ns < oldest:
            count += 1
        if count:
            self._drop(count)

    def _drop(self, count: int) -> None:
        del self._log[:count]
        self._floor += count
