"""Noticing what other programs change in a root, and telling it once.

The kernel's notices are taken for hints only: a little later what stands under the name is looked
at, by the store's own confined lookup, and compared with what is known of it (`Known`). So a change
that was told by whoever made it here is no news, a burst of notices for one file is one change, and
a notice from a directory that was moved out of the root, or swapped for a link, tells nothing.

Everything runs on the event loop in small steps. What is being changed through this process is
looked at when that is over.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from bailiwick.errors import BailiwickError, Unsupported
from bailiwick.model import Change
from bailiwick.paths import DEPTH_MAX, RESERVED_PREFIX, ROOT, ScopedPath
from bailiwick.store import Changing, Noticed, Sighting
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.lookup.beneath import Lookup
from bailiwick.stores.disk.watch import inotify as kernel
from bailiwick.stores.disk.watch.inotify import Inotify, Notice
from bailiwick.stores.disk.watch.judge import Judge, Key
from bailiwick.stores.disk.watch.known import (
    Known,
    WatchedDirectory,
    is_same,
    is_same_object,
    leaf_of,
)
from bailiwick.stores.disk.watch.sightings import ELSEWHERE, sighting_of

_log = logging.getLogger("bailiwick.stores.disk.watching")

QUIET_S: Final = 0.02
"""How long nothing must happen to a name before it is looked at: the steps of one save are over by
then, and two writes so far apart have different times on every filesystem."""

OPEN_S: Final = 0.25
"""How long a file that someone has open for writing may stay unlooked at."""

MAKING_S: Final = 2.0
"""How long a new directory waits for the change that may have made it on its way."""

_STEPS: Final = 128
"""Names looked at before other tasks get their turn: about a millisecond."""

_CHUNK_NAMES: Final = 32
_CHUNK_STEPS: Final = 8
"""A directory is listed in chunks: a name costs less there than by itself."""

_HINTS_MAX: Final = 65_536
"""More than this waiting is as good as lost: then the whole tree is looked at anew."""

_DEFERRED_MAX: Final = 4_096
"""More names than this are not kept while a large change is under way, only their directories."""

_DEPARTED_MAX: Final = 256
"""Halves of moves whose other half has not come yet: it comes next, or the move led outside."""


_OVER: Final = kernel.CLOSE_WRITE | kernel.DELETE | kernel.MOVED_TO | kernel.MOVED_FROM
"""Notices after which a file is not being written any more, as far as one can know."""


class _Hint:
    """What the kernel said of one name since it was last looked at."""

    __slots__ = ("due", "first", "is_open", "key", "mask", "order", "origin")

    def __init__(self, now: float, mask: int = 0) -> None:
        self.mask = mask
        self.is_open = False
        self.first = now
        self.due = now
        self.origin: Key | None = None
        self.key: Key | None = None
        self.order = 0


class TreeWatcher:
    """`bailiwick.store.Watcher` for a directory of the host."""

    def __init__(
        self,
        lookup: Lookup,
        tell: Callable[[Sequence[Noticed]], None],
        changing: Changing,
        *,
        closed: Callable[[TreeWatcher], None],
        queue: Inotify | None = None,
    ) -> None:
        if not lookup.holds_objects:
            raise Unsupported("what other programs change cannot be noticed without /proc")
        self._lookup: Final = lookup
        self._tell: Final = tell
        self._changing: Final = changing
        self._loop: Final = asyncio.get_running_loop()
        self._inotify: Final = queue or Inotify.open()
        self._known: Final = Known(self._inotify.unwatch)
        self._moving: dict[Key, set[_Hint]] = {}
        self._judge: Final = Judge(
            lookup, self._known, self._enter_later, self._hint, self._moving.__contains__
        )
        self._fresh: dict[Key, _Hint] = {}
        self._ripe: deque[tuple[Key, _Hint]] = deque()
        self._deferred: dict[Key, _Hint] = {}
        self._dirty: set[WatchedDirectory] = set()
        self._ended_seen = changing.ended
        self._look_at_deferred = self._loop.time() + MAKING_S
        self._departed: dict[int, Key] = {}
        self._moved = 0
        self._to_enter: deque[WatchedDirectory] = deque()
        self._entering: Iterator[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = 0.0
        self._ready: Final = asyncio.Event()
        self._forget_me: Final = closed
        self._lost = False
        self._closed = False
        self.sees_all = True
        self._loop.add_reader(self._inotify.fd, self._read)
        self._enter_later(self._known.root)

    # --- for the feed -------------------------------------------------------------------------

    async def ready(self) -> None:
        await self._ready.wait()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._forget_me(self)
        if self._timer is not None:
            self._timer.cancel()
        self._entering = None  # a generator that is let go closes what it holds
        # Whoever is told something may close this in the middle of a step.
        self._ripe.clear()
        self._to_enter.clear()
        self._loop.remove_reader(self._inotify.fd)
        self._inotify.close()
        self._ready.set()

    def told(self, change: Change) -> None:
        if self._closed:
            return
        try:
            self._judge.told(change)
        except Exception as error:
            _log.error("a change could not be taken note of", exc_info=error)
            self._lose_track()

    def catch_up(self, path: ScopedPath) -> None:
        if self._closed:
            return
        try:
            self._judge.catch_up(path)
        except Exception as error:
            _log.error("what is above a change could not be looked at", exc_info=error)
            self._lose_track()
        self._deliver()

    def look_anew(self, noticed: Noticed) -> None:
        if not self._closed:
            self._judge.look_anew(noticed)

    # --- taking in what the kernel says -------------------------------------------------------

    def _read(self) -> None:
        try:
            for notice in self._inotify.read():
                self._take_in(notice)
        except Exception as error:
            _log.warning("notices of changes cannot be read", exc_info=error)
            self._lose_track()
        if self._fresh:
            self._schedule(QUIET_S)

    def _take_in(self, notice: Notice) -> None:
        mask = notice.mask
        if mask & kernel.OVERFLOW or len(self._fresh) > _HINTS_MAX:
            self._lose_track()
            return
        place = self._known.by_watch.get(notice.watch)
        if place is None:
            return
        if mask & kernel.IGNORED:
            # The directory is gone, or what it is mounted from: a look at its name will tell.
            del self._known.by_watch[notice.watch]
            place.watch, place.entered = -1, False
            if place.parent is not None:
                self._hint(place.parent, place.name, 0)
            elif place is self._known.root:
                self._lose_track()
            return
        name = _text_of(notice.name)
        departure = self._departed.pop(notice.cookie, None) if mask & kernel.MOVED_TO else None
        if name is None:
            if departure is not None:
                self._hint(*departure, kernel.MOVED_FROM)
            return
        hint = self._hint(place, name, mask)
        if mask & kernel.MOVED_FROM:
            self._departed[notice.cookie] = (place, name)
            if len(self._departed) > _DEPARTED_MAX:
                del self._departed[next(iter(self._departed))]
        elif departure is not None:
            # Whatever happened under the old name before is over; where it had come from stays.
            before = self._fresh.pop(departure, None)
            origin = departure
            if before is not None and before.origin is not None:
                origin = before.origin
                self._moves(before, departure, None, considered=True)
                self._examine(*departure, kernel.MOVED_FROM)
            self._moves(hint, (place, name), origin)

    def _hint(self, place: WatchedDirectory, name: str, mask: int) -> _Hint:
        now = self._loop.time()
        hint = self._fresh.get((place, name))
        if hint is None:
            hint = self._fresh[(place, name)] = _Hint(now)
            self._schedule(QUIET_S)
        hint.mask |= mask
        if mask & kernel.DELETE:
            self._moves(hint, (place, name), None)
        if mask & _OVER or mask & kernel.IS_DIRECTORY:
            hint.is_open = False
        elif mask & (kernel.MODIFY | kernel.CREATE):
            hint.is_open = True
        latest = hint.first + OPEN_S
        hint.due = latest if hint.is_open else min(now + QUIET_S, latest)
        return hint

    def _moves(
        self, hint: _Hint, key: Key, origin: Key | None, *, considered: bool = False
    ) -> None:
        """Note where something was moved from, or that what was is not there any more: unless it
        is being considered, the name that it came from is then looked at for itself.

        While a move waits to be looked at, neither of its names is looked at for itself.
        """
        if hint.origin is not None:
            for each in (hint.origin, key):
                moves = self._moving.get(each, set())
                moves.discard(hint)
                if not moves:
                    self._moving.pop(each, None)
            if not considered:
                self._examine(*hint.origin, kernel.MOVED_FROM)
        hint.key, hint.origin = key, origin
        if origin is not None:
            self._moved += 1
            hint.order = self._moved
            for each in (origin, key):
                self._moving.setdefault(each, set()).add(hint)

    def _is_carried(self, hint: _Hint) -> bool:
        """Whether a directory that a move leads from or to, or one above it, is about to be found
        under another name: then that is looked at first.

        Moves may wait for each other in a ring, when what was moved into a directory made room for
        that directory. The first of them to be looked at does not wait: what cannot be seen as a
        move any more is looked at name by name.
        """
        met: set[_Hint] = set()
        waiting = self._carriers(hint)
        while waiting:
            each = waiting.pop()
            if each is hint:
                return False
            if each not in met:
                met.add(each)
                waiting |= self._carriers(each)
        return bool(met)

    def _carriers(self, hint: _Hint) -> set[_Hint]:
        """The moves that a move has to wait for, itself perhaps among them."""
        found: set[_Hint] = set()
        for key in (hint.key, hint.origin):
            place = None if key is None else key[0]
            while place is not None and place.parent is not None:
                found |= self._moving.get((place.parent, place.name), set())
                place = place.parent
        return found

    def _lose_track(self) -> None:
        """Notices were lost: look at everything anew, tell what differs, and say that it was so."""
        if self._closed:
            return
        self._fresh.clear()
        self._ripe.clear()
        self._deferred.clear()
        self._departed.clear()
        self._moving.clear()
        self._lost = True
        for place in self._known.root.places():
            place.blind = False
            self._enter_later(place)

    # --- the steps ----------------------------------------------------------------------------

    def _schedule(self, delay_s: float) -> None:
        if self._closed:
            return
        when = self._loop.time() + delay_s
        if self._timer is not None:
            if self._timer_s <= when:
                return
            self._timer.cancel()
        # Remembered here: a timer of another loop than Python's own need not know when it is due.
        self._timer_s = when
        self._timer = self._loop.call_at(when, self._step)

    def _step(self) -> None:
        """Do a little of what is waiting, tell what was found, and come again if need be."""
        self._timer = None
        if self._closed:
            return
        try:
            self._sort_hints()
            left = self._judge_some(_STEPS)
            self._enter_some(left)
        except Exception as error:
            _log.error("looking for changes failed", exc_info=error)
            self._entering = None
            self._lose_track()
        busy = bool(self._to_enter or self._entering is not None or self._ripe)
        if not busy:
            self._ready.set()
            if self._lost:
                self._lost = False
                self._judge.report("rescan", ROOT, "directory", None)
        self._deliver()
        if busy:
            self._schedule(0)
        elif self._fresh or self._deferred or self._dirty:
            self._schedule(QUIET_S)

    def _deliver(self) -> None:
        news, self._judge.news = self._judge.news, []
        if news and not self._closed:
            self._tell(news)

    def _sort_hints(self) -> None:
        """Hints whose time has come, and those that waited for a change of ours which is over."""
        now = self._loop.time()
        if self._changing.ended != self._ended_seen or now > self._look_at_deferred:
            self._ended_seen = self._changing.ended
            self._look_at_deferred = now + MAKING_S
            self._ripe.extend(self._deferred.items())
            self._deferred.clear()
            dirty, self._dirty = self._dirty, set()
            for place in dirty:
                path = self._known.path_of(place)
                if path is not None and self._changing.covers(path):
                    self._dirty.add(place)
                elif path is not None:
                    self._enter_later(place)
        due = [(key, hint) for key, hint in self._fresh.items() if hint.due <= now]
        for key, _ in due:
            del self._fresh[key]
        # Moves first, in the order they were made: the rest is looked at by its newest name.
        due.sort(key=_moves_first)
        self._ripe.extend(due)

    def _judge_some(self, steps: int) -> int:
        while steps > 0 and self._ripe:
            steps -= 1
            key, hint = self._ripe.popleft()
            self._consider(key, hint)
            self._deliver()  # what is known depends on what is told
        return steps

    def _enter_some(self, steps: int) -> None:
        while steps > 0 and not self._ripe:
            if self._entering is None:
                if not self._to_enter:
                    return
                self._entering = self._enter(self._to_enter.popleft())
            if next(self._entering, True):
                self._entering = None
            steps -= _CHUNK_STEPS

    # --- entering directories -----------------------------------------------------------------

    def _enter_later(self, place: WatchedDirectory) -> None:
        place.entered = False
        if not place.queued:
            place.queued = True
            self._to_enter.append(place)
            self._schedule(0)

    def _enter(self, place: WatchedDirectory) -> Iterator[None]:
        """Watch a directory, then look at every name in it: what changes later is noticed."""
        place.queued = False
        path = self._known.path_of(place)
        if path is None:
            return
        listing = self._watch(place, path)
        if listing is None:
            return
        found: set[str] = set()
        try:
            with syscalls.scandir(listing) as entries:
                for entry in entries:
                    if len(found) % _CHUNK_NAMES == _CHUNK_NAMES - 1:
                        yield
                        if self._known.path_of(place) is None:
                            return
                    found.add(entry.name)
                    self._found(place, entry)
        except OSError as error:
            self._blinded(place, path, error)
            return
        finally:
            os.close(listing)
        place.adopt_ns = 0
        place.entered = not place.queued
        for name in [name for name in place.entries if name not in found]:
            self._examine(place, name, kernel.DELETE)

    def _watch(self, place: WatchedDirectory, path: ScopedPath) -> int | None:
        """Begin to watch a directory, if it is still where it is known; a descriptor to list it."""
        try:
            held = self._lookup.find_object(path, True)
        except ELSEWHERE:
            self._look_for(place)
            return None
        except (BailiwickError, OSError, UnicodeError) as error:
            self._blinded(place, path, error)
            return None
        try:
            if len(path.parts) >= DEPTH_MAX:
                self._blinded(place, path, None)
                return None
            seen = sighting_of(os.fstat(held.fd))
            if held.path != path or not is_same_object(place, seen):
                self._look_for(place)
                return None
            place.version = place.version or seen.version
            other = self._known.watched(place, self._inotify.watch(held.fd))
            if other is not None and other.parent is not None:
                self._examine(other.parent, other.name, 0)
            return held.open_for_listing()
        except OSError as error:
            self._blinded(place, path, error)
            return None
        finally:
            held.close()

    def _look_for(self, place: WatchedDirectory) -> None:
        """A directory is not where it is known. It may have gone for an instant only: once it is
        seen in its place it is entered."""
        if place.parent is not None:
            self._examine(place.parent, place.name, 0)

    def _blinded(self, place: WatchedDirectory, path: ScopedPath, error: Exception | None) -> None:
        """A directory may not be entered, as long as it is what it is."""
        place.blind = True
        self._look_for(place)
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.ENOMEM):
            if self.sees_all:
                _log.warning("no watches are left: not all foreign changes will be noticed")
                self._judge.report("rescan", path, "directory", None)
            self.sees_all = False
        elif isinstance(error, PermissionError):
            self.sees_all = False

    def _found(self, place: WatchedDirectory, entry: os.DirEntry[str]) -> None:
        """One name of a directory that is being entered."""
        name = entry.name
        if not _is_told_of(name):
            return
        try:
            seen = sighting_of(entry.stat(follow_symlinks=False))
        except OSError:
            return
        told, adopts = place.entries.get(name), place.adopt_ns
        if told is None and adopts and (seen.changed_ns <= adopts or seen.type == "directory"):
            self._adopt(place, name, seen)
        elif not isinstance(told, WatchedDirectory):
            if told is None or not is_same(told, seen):
                self._examine(place, name, kernel.CREATE)
        elif not is_same(told, seen) or (told.implied and not adopts):
            self._examine(place, name, kernel.CREATE)
        else:
            told.version, told.implied = seen.version, False
            if not told.entered and not told.blind:
                told.adopt_ns = told.adopt_ns or adopts
                self._enter_later(told)

    def _adopt(self, place: WatchedDirectory, name: str, seen: Sighting) -> None:
        """Take what is found for known: it was there before, or was told with its directory."""
        if seen.type != "directory":
            self._known.keep_if_room(place, name, leaf_of(seen.type, seen.version))
            return
        child = WatchedDirectory(place, name, seen.version, place.adopt_ns)
        place.entries[name] = child
        self._enter_later(child)
        if seen.changed_ns > place.adopt_ns:
            # It may be new, or something in it: also what was told may be told again, but not lost.
            child.implied = True
            self._examine(place, name, kernel.CREATE)

    def _examine(self, place: WatchedDirectory, name: str, mask: int) -> None:
        self._ripe.append(((place, name), _Hint(self._loop.time(), mask)))

    # --- considering names --------------------------------------------------------------------

    def _consider(self, key: Key, hint: _Hint) -> None:
        """Look at one name, and at the one it was moved from."""
        path, origin = self._path_of(key), None
        if hint.origin is not None:
            origin = self._path_of(hint.origin)
        if any(each is not None and self._must_wait(each, hint) for each in (path, origin)):
            self._defer(key, hint)
            return
        if hint.origin is not None:
            from_key = hint.origin
            if key not in self._fresh and self._is_carried(hint):
                hint.due = self._loop.time() + QUIET_S
                self._fresh[key] = hint
                return
            self._moves(hint, key, None, considered=True)
            if origin is not None:
                if path is not None and self._judge.judge_move(key, path, from_key, origin):
                    return
                self._judge.compare(*from_key, origin, kernel.MOVED_FROM)
                self._ripe.appendleft((key, hint))
                return
        if path is not None:
            self._judge.compare(*key, path, hint.mask)

    def _path_of(self, key: Key) -> ScopedPath | None:
        directory = self._known.path_of(key[0])
        return None if directory is None else directory.child(key[1])

    def _must_wait(self, path: ScopedPath, hint: _Hint) -> bool:
        changing = self._changing
        return changing.covers(path) or (
            changing.leads_through(path) and self._loop.time() < hint.first + MAKING_S
        )

    def _defer(self, key: Key, hint: _Hint) -> None:
        before = self._deferred.get(key)
        if before is not None:
            hint.mask |= before.mask
            self._moves(before, key, None)
        self._deferred[key] = hint
        if len(self._deferred) > _DEFERRED_MAX:
            for each, kept in self._deferred.items():
                self._dirty.add(each[0])
                if kept.origin is not None:
                    self._dirty.add(kept.origin[0])
                    self._moves(kept, each, None, considered=True)
            self._deferred.clear()


def _moves_first(item: tuple[Key, _Hint]) -> tuple[bool, int]:
    return item[1].origin is None, item[1].order


def _text_of(name: bytes) -> str | None:
    """A name that may be told of; None for one that is no text, or is ours for staging."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return None
    return text if text and _is_told_of(text) else None


def _is_told_of(name: str) -> bool:
    if name.startswith(RESERVED_PREFIX):
        return False
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
