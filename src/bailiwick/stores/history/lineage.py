"""What a place was, by the entries of the history: its versions, and its state at one of them.

A thing that was moved is followed to where it came from; so is what lies in a directory that was.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from bailiwick.errors import PathNotFound
from bailiwick.paths import ScopedPath
from bailiwick.stores.history.ledger import HistoryEntry, HistoryLedger, effect_of
from bailiwick.stores.history.states import (
    CAME,
    OPENED,
    UNKNOWN,
    WENT,
    Effect,
    PlaceState,
    is_same,
)
from bailiwick.versions import (
    BeneathPage,
    ChangeKind,
    Version,
    Versions,
    beneath_cursor,
    parse_beneath_cursor,
)

_ALL: Final = 2**62
"""More entries than there can be."""

_EFFECT: Final = "e.path, e.before, e.after, e.kind, e.other"
_NEWEST: Final = f"""
SELECT e.entry, e.seq, {_EFFECT} FROM effect e
WHERE e.path = ? AND e.kind <> {OPENED} AND (e.entry, e.seq) < (?, ?)
ORDER BY e.entry DESC, e.seq DESC LIMIT 1
"""
_BENEATH: Final = f"""
SELECT DISTINCT path FROM effect WHERE path > ? AND path < ? AND kind <> {OPENED}
ORDER BY path LIMIT ?
"""

_CAME_TO: Final = f"""
SELECT other FROM effect WHERE entry = ? AND path = ? AND kind = {CAME} ORDER BY seq DESC LIMIT 1
"""
_HAPPENED_BENEATH: Final = f"""
SELECT e.entry, e.seq, {_EFFECT} FROM effect e JOIN entry ON entry.id = e.entry
WHERE entry.owner = '' AND e.kind <> {OPENED}
AND (e.entry, e.seq) < (?, ?) AND (e.path = ? OR (e.path > ? AND e.path < ?))
ORDER BY e.entry DESC, e.seq DESC LIMIT ?
"""


class HistoryPosition(NamedTuple):
    """Where an effect stands in the history: one entry may move a thing away, put others in its
    place and take those away again."""

    entry: int
    seq: int


END: Final = HistoryPosition(_ALL, 0)
START: Final = HistoryPosition(-1, 0)


def end_of(entry: int) -> HistoryPosition:
    """After all that an entry did."""
    return HistoryPosition(entry, _ALL)


def begin_of(position: HistoryPosition, effect: Effect) -> HistoryPosition:
    """Before an effect: what came has left its place in the same step, by the effect before."""
    return position._replace(seq=position.seq - 1) if effect.kind == CAME else position


class Happened(NamedTuple):
    """One entry, as it touched a place: in one change that may be by several effects."""

    entry: int
    path: ScopedPath
    before: PlaceState | None
    after: PlaceState | None
    kind: int
    other: ScopedPath


class Lineage:
    """Looks back along the entries of one history."""

    def __init__(self, ledger: HistoryLedger) -> None:
        self.ledger: Final = ledger

    def newest(self, path: ScopedPath) -> PlaceState | None:
        """What the newest entry left at a path."""
        for happened in self.of(path):
            return happened.after
        return None

    def of(self, path: ScopedPath) -> Iterator[Happened]:
        """What happened to what stands at a path, or stood there last, newest first."""
        return self._story(path, END, [])

    def _stories(self, path: ScopedPath) -> Iterator[tuple[HistoryPosition, Iterator[Happened]]]:
        """The story of what stands at a path, and of what stood there before that came, one after
        the other; and before which moment each ends. What went with its directory is told where it
        went."""
        bounds = [END]
        while bounds:
            bound = bounds.pop()
            left = list[HistoryPosition]()
            story = self._story(path, bound, left)
            newest = next(story, None)
            if newest is not None:
                if bound != END and newest.before is UNKNOWN:
                    return
                yield bound, itertools.chain([newest], story)
            bounds += left[:1]

    def _story(
        self, path: ScopedPath, bound: HistoryPosition, left: list[HistoryPosition]
    ) -> Iterator[Happened]:
        """What happened before a moment to what lay at a path then. What ``left`` tells is when
        it, or what it lay in, came from elsewhere: others may have been there before."""
        while True:
            own = self.own_before(path, bound)
            above = self.moved_above(path, bound, START if own is None else own[0])
            if above is not None:
                position, effect = above
                bound = begin_of(position, effect)
                aside = path.relative_to(effect.path).beneath(effect.other)
                if effect.kind == WENT:  # what stood there went with its directory
                    yield Happened(position.entry, path, UNKNOWN, None, WENT, aside)
                else:
                    left.append(bound)
                    path = aside
                continue
            if own is None:
                return
            position, effect = own
            bound, happened = self._whole(position, effect)
            yield happened
            if effect.kind == CAME:
                left.append(bound)
                path = effect.other

    def own_before(
        self, path: ScopedPath, bound: HistoryPosition
    ) -> tuple[HistoryPosition, Effect] | None:
        """The newest effect before another that touched this very path."""
        return _first(self.ledger.rows(_NEWEST, str(path), *bound))

    def moved_above(
        self, path: ScopedPath, bound: HistoryPosition, after: HistoryPosition
    ) -> tuple[HistoryPosition, Effect] | None:
        """The newest move of a directory that the path lies in, between two effects. Where it lies
        a file may have come and gone as well, with which nothing went."""
        above = [str(each) for each in path.parents]
        marks = ",".join("?" * len(above))
        newest = f"""
            SELECT e.entry, e.seq, {_EFFECT} FROM effect e WHERE e.path IN ({marks})
            AND e.kind IN ({WENT}, {CAME}) AND (e.entry, e.seq) < (?, ?)
            AND (e.entry, e.seq) > (?, ?) ORDER BY e.entry DESC, e.seq DESC LIMIT 1
        """
        while above:
            found = _first(self.ledger.rows(newest, *above, *bound, *after))
            if found is None or _may_hold_others(found[1]):
                return found
            bound = found[0]
        return None

    def _whole(self, position: HistoryPosition, last: Effect) -> tuple[HistoryPosition, Happened]:
        """All that an entry did to one thing at a path, and where that began: the first of its
        effects knows what stood before. What comes where another was moved away is none with it."""
        since = self.moved_above(last.path, position, HistoryPosition(position.entry, -1))
        rows = self.ledger.rows(
            f"SELECT e.entry, e.seq, {_EFFECT} FROM effect e"
            " WHERE e.entry = ? AND e.path = ? AND e.seq > max(?, coalesce((SELECT max(w.seq)"
            " FROM effect w WHERE w.entry = e.entry AND w.path = e.path AND w.kind = ?"
            " AND w.seq < ?), -1)) ORDER BY e.seq LIMIT 1",
            position.entry, str(last.path), -1 if since is None else since[0].seq, WENT,
            position.seq,
        )  # fmt: skip
        start, first = _first(rows) or (position, last)
        bound = min(begin_of(start, first), begin_of(position, last))
        return bound, Happened(
            position.entry, last.path, first.before, last.after, last.kind, last.other
        )

    def beneath(self, path: ScopedPath, cursor: str | None, limit: int) -> BeneathPage:
        """What happened to a directory and all that lay in it, newest first. A move within it is
        told once, where it went to."""
        entry, seq = parse_beneath_cursor(cursor, _ALL)
        rows = self.ledger.rows(
            _HAPPENED_BENEATH, entry, seq, str(path), *_between(path), limit + 1
        )
        found = []
        for row in rows[:limit]:
            effect = effect_of(row[2:])
            if effect.kind == WENT and effect.other.lies_in(path):
                continue
            found.append(self._told(Happened(row[0], *effect)))
        more = len(rows) > limit
        return BeneathPage(found, beneath_cursor(*rows[limit - 1][:2]) if more else None)

    def known_beneath(self, path: ScopedPath, limit: int) -> list[ScopedPath]:
        """Paths beneath a directory that some entry has touched."""
        first, last = _between(path)
        return [ScopedPath(row[0]) for row in self.ledger.rows(_BENEATH, first, last, limit)]

    def since(self, path: ScopedPath, number: int) -> list[HistoryEntry]:
        """The changes of a place, or beneath it, after a version."""
        return self.ledger.entries(
            "WHERE id > ? AND id IN (SELECT entry FROM effect WHERE entry > ?"
            " AND (path = ? OR (path > ? AND path < ?)))",
            number, number, str(path), *_between(path),
        )  # fmt: skip

    def came_since(self, path: ScopedPath, number: int) -> list[tuple[ScopedPath, int]]:
        """Directories that were moved since a version, to a place, beneath it or with what it lies
        in, as seen from it; and when."""
        above = [str(each) for each in path.parents]
        marks = ",".join("?" * len(above))
        rows = self.ledger.rows(
            "SELECT e.path, entry.time_ns FROM effect e JOIN entry ON entry.id = e.entry"
            f" WHERE e.kind = {CAME} AND e.entry > ?"
            f" AND (e.path = ? OR (e.path > ? AND e.path < ?) OR e.path IN ({marks}))",
            number, str(path), *_between(path), *above,
        )  # fmt: skip
        return [(max(ScopedPath(each), path, key=len), time_ns) for each, time_ns in rows]

    # --- versions ----------------------------------------------------------------------------

    def number(self, version: str) -> int:
        """The number that a version stands for. Raises `PathNotFound` for what is none, or is no
        longer kept."""
        horizon = self.ledger.horizon()
        if not version.isascii() or not version.isdigit() or int(version) > self.ledger.last():
            raise PathNotFound(f"there is no version {version!r}")
        number = int(version)
        if number < horizon:
            raise PathNotFound(
                f"version {version} is no longer kept",
                details={"oldest": str(horizon)},
                hint=f"the oldest version that is kept is {horizon}",
            )
        return number

    def at(self, path: ScopedPath, number: int) -> tuple[bool, PlaceState | None]:
        """Whether anything is known of a path, and if so what stood there at a version, whatever
        has come there since.

        Before the first entry of a path it was what that one found.
        """
        until, bound = end_of(number), END
        known, state, next_entry = False, None, -1
        while True:
            own = self.own_before(path, bound)
            above = self.moved_above(path, bound, START if own is None else own[0])
            newest = above or own
            if newest is None:
                return known, state
            position, effect = newest
            bound = begin_of(position, effect)
            if position > until and above is None:
                known, state, next_entry = True, effect.before, position.entry
            elif position > until:
                known, state, next_entry = True, UNKNOWN if effect.kind == WENT else None, -1
            elif above is None:
                # What the next entry found is how others left it.
                return True, state if next_entry == number + 1 else effect.after
            elif effect.kind == WENT:
                return True, None
            else:  # it lay elsewhere, in a directory that was moved
                path, until = path.relative_to(effect.path).beneath(effect.other), END

    def content(self, path: ScopedPath, state: PlaceState) -> str | None:
        """The hash of a state's content. A file that was only moved, or whose mode or time was set,
        was not read for that: its content is told by what was read before or after."""
        if state.sha256 is not None or state.type != "file":
            return state.sha256
        alike, pairs = {state.version}, list[tuple[PlaceState, PlaceState]]()
        known: dict[str, str] = {}
        for happened in itertools.chain.from_iterable(each for _, each in self._stories(path)):
            before, after = happened.before, happened.after
            if happened.kind == CAME:
                before = self._went(happened)
            for each in (before, after):
                if each is not None and each.sha256 is not None:
                    known.setdefault(each.version, each.sha256)
            if before is None or after is None or before.size != after.size:
                continue
            if happened.kind == CAME or (before.sha256 is None and after.sha256 is None):
                pairs.append((before, after))
        for before, after in [*pairs, *reversed(pairs)]:
            if before.version in alike or after.version in alike:
                alike |= {before.version, after.version}
        return next((known[each] for each in alike if each in known), None)

    def _went(self, came: Happened) -> PlaceState | None:
        """What was moved, as it was where it came from."""
        for effect in self.ledger.effects(came.entry):
            if effect.kind == WENT and (effect.path, effect.other) == (came.other, came.path):
                return effect.before
        return None

    def history(
        self, path: ScopedPath, before: int | None, limit: int, own: bool = False
    ) -> Versions:
        """The versions of a place, newest first; those older than the version ``before``, and with
        ``own`` those of one thing."""
        found: dict[int, Version] = {}
        newest: list[int] = []
        for bound, story in self._stories(path):
            if bound != END and (own or (len(newest) > limit and newest[limit] >= bound.entry)):
                break  # what stood there before is older than those
            for each in self._versions(story, _ALL if before is None else before, limit):
                found.setdefault(int(each.version), each)
            newest = sorted(found, reverse=True)
        return Versions([found[each] for each in newest[:limit]], more=len(found) > limit)

    def origin(self, path: ScopedPath, number: int) -> ScopedPath | None:
        """Where something lay that an entry has moved to a path."""
        rows = self.ledger.rows(_CAME_TO, number, str(path))
        return ScopedPath(rows[0][0]) if rows else None

    def _versions(self, story: Iterator[Happened], bound: int, limit: int) -> list[Version]:
        """The versions of one thing that are older than a bound, as many as are wanted and one."""
        found: list[Version] = []
        newer: Happened | None = None
        # From the newest on, since only from there it is known what was moved from where.
        for happened in story:
            if newer is not None and newer.entry <= bound:
                found += self._found_before(newer, happened)
            if len(found) > limit:
                return found
            if happened.entry < bound:
                found.append(self._told(happened))
            newer = happened
        if newer is not None and newer.entry <= bound:
            found += self._found_before(newer, None)
        return found

    def _told(self, happened: Happened) -> Version:
        entry = self._entry(happened.entry)
        state = happened.after or happened.before
        return Version(
            version=str(happened.entry),
            kind=_kind(happened),
            path=happened.path,
            type="other" if state is None else state.type,
            size=0 if happened.after is None else happened.after.size,
            sha256=None if happened.after is None else happened.after.sha256,
            time_ns=entry.time_ns,
            verb=entry.verb,
            subject=entry.subject,
            request_id=entry.request,
            mode=None if happened.after is None else happened.after.mode,
        )

    def _found_before(self, newer: Happened, older: Happened | None) -> list[Version]:
        """What a change found that none before it had left: it was made by others."""
        path, state = newer.path, newer.before
        if newer.kind == CAME:
            path, state = newer.other, self._went(newer)
        if state is UNKNOWN:
            return []
        if older is not None and is_same(older.after, state):
            return []
        left = None if older is None else older.after
        if state is None and left is None:
            return []
        kind: ChangeKind = "updated"
        if left is None:
            kind = "created"
        elif state is None:
            kind = "deleted"
        known = state or left
        assert known is not None
        return [
            Version(
                version=str(newer.entry - 1),
                kind=kind,
                path=path,
                type=known.type,
                size=0 if state is None else state.size,
                sha256=None if state is None else state.sha256,
                time_ns=None if state is None else state.mtime_ns,
                mode=None if state is None else state.mode,
            )
        ]

    def _entry(self, entry: int) -> HistoryEntry:
        return self.ledger.entries("WHERE id = ?", entry)[0]


def _first(rows: Sequence[tuple[Any, ...]]) -> tuple[HistoryPosition, Effect] | None:
    if not rows:
        return None
    entry, seq, *effect = rows[0]
    return HistoryPosition(entry, seq), effect_of(effect)


def _may_hold_others(moved: Effect) -> bool:
    state = moved.before if moved.kind == WENT else moved.after
    return state is None or state.type not in ("file", "symlink")


def _between(path: ScopedPath) -> tuple[str, str]:
    """Between which texts all paths beneath a directory lie."""
    return ("", "\U0010ffff") if path.is_root else (f"{path}/", f"{path}0")


def _kind(happened: Happened) -> ChangeKind:
    if happened.kind in (WENT, CAME):
        return "moved"
    if happened.before is None:
        return "created"
    return "deleted" if happened.after is None else "updated"
