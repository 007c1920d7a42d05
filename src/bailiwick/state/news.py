"""Whether what was noticed is news to a feed that several write, and what is to be told of it.

A watcher knows what it noticed itself, and what this process told. The feed has been told more, by
others, or in another order. What is noticed is therefore compared with the feed itself, in the
transaction in which it is told: with what one would know who had been told everything in it, and
had looked at nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from bailiwick.model import Change
from bailiwick.paths import ScopedPath
from bailiwick.state.database import Connection
from bailiwick.store import Noticed, Sighting, Watches

_NEVER: Final = 2**63 - 1
"""After the newest of all rows."""

_NEWEST: Final = """
    SELECT * FROM (
        SELECT seq, kind = 'deleted', ?2 != ?3, path, type, version, time_ns, origin FROM feed
        WHERE root = ?1 AND path = ?2 AND seq < ?4 AND (
            kind IN ('deleted', 'moved')
            OR kind IN ('created', 'updated') AND (subtree OR ?2 = ?3)
        ) ORDER BY seq DESC LIMIT 1
    ) UNION ALL SELECT * FROM (
        SELECT seq, 1, ?2 != ?3, origin, type, NULL, time_ns, path FROM feed
        WHERE root = ?1 AND origin = ?2 AND seq < ?4 ORDER BY seq DESC LIMIT 1
    )
"""
"""The newest rows of root ?1 before ?4 in which ?2 (?3 or a directory above it) says whether
?3 stands: the columns of `_Row`."""


class News:
    """Keeps what was noticed, as far as the newest that was told says otherwise. Where that differs
    from what the watcher took for known, it is ``doubtful``: to be looked at anew."""

    def __init__(
        self,
        told: Told,
        source: Watches | None,
        keep: Callable[[Connection, Sequence[Change]], None],
        doubtful: list[Noticed],
    ) -> None:
        self._told = told
        self._source = source
        self._keep = keep
        self._doubtful = doubtful

    def keep(self, noticed: Sequence[Noticed]) -> None:
        for each in noticed:
            kind = each.change.kind
            if kind == "rescan":
                self._keep(self._told.connection, (each.change,))
            elif kind == "moved":
                self._keep_move(each)
            elif kind == "deleted" and each.change.subtree:
                # Of what lay in a directory that is gone only this tells.
                self._keep_deletion(each)
            elif kind != "deleted" and self._told.has(each.change, each.changed_ns):
                continue
            elif not self._stands(each.change):
                # That was noticed too, and is told instead.
                self._doubtful.append(each)
            elif kind == "deleted":
                self._keep_deletion(each)
            else:
                self._keep_coming(each)

    def _keep_coming(self, noticed: Noticed) -> None:
        """What came, or became another. A directory that was told in its place is gone first."""
        news = noticed.change
        last = self._told.last(news.path)
        if (
            last is not None and not last.absent and not last.whole and last.type == "directory"
            and _number(last.version) not in ("", _number(news.version))
        ):  # fmt: skip
            gone = msgspec.structs.replace(
                news, kind="deleted", type="directory", version=None, subtree=True
            )
            self._keep(self._told.connection, (gone,))
            self._doubtful.append(noticed)
        self._keep(self._told.connection, (news,))

    def _keep_move(self, noticed: Noticed) -> None:
        news = noticed.change
        assert news.origin is not None
        here = self._told.has(news, noticed.changed_ns)
        there = self._told.last(news.origin)
        if here and self._told.is_gone(news.origin, there):
            return
        stands = self._stands(news)
        carries = there is None or (
            not there.absent and _number(there.version) in ("", _number(noticed.was))
        )
        if stands and not here and carries:
            self._keep(self._told.connection, (news,))
            return
        # It cannot be told as a move: what it takes along is to be told by itself.
        self._doubtful.append(noticed)
        gone = msgspec.structs.replace(
            news, kind="deleted", path=news.origin, origin=None, version=None
        )
        if carries:
            self._keep(self._told.connection, (gone,))
        else:
            self._keep_gone(gone, gone.path, ("", *gone.beneath))
        if stands and not here:
            news = msgspec.structs.replace(
                news, kind="created", origin=None, subtree=False, beneath=(),
                beneath_truncated=False,
            )  # fmt: skip
            self._keep_coming(noticed._replace(change=news))

    def _keep_deletion(self, noticed: Noticed) -> None:
        news = noticed.change
        last = self._told.last(news.path)
        if self._told.is_gone(news.path, last):
            # It may have been told to be elsewhere, and what is gone with it.
            path, row = news.path, self._told.newest(news.path)
            while row is not None and row.absent and row.other is not None:
                path = ScopedPath(row.other + path[len(row.path) :])
                row = self._told.newest(path)
            if path != news.path:
                self._keep_gone(news, path, ("", *news.beneath))
        elif last is not None and not last.absent and self._stands_as(news.path, last):
            # It was told since, perhaps with the same number: only what lay in it may be news.
            self._keep_gone(news, news.path, news.beneath)
            self._doubtful.append(noticed)
        elif (
            not news.subtree or last is None or last.absent or last.whole
            or _number(last.version) in ("", _number(noticed.was))
        ):  # fmt: skip
            self._keep(self._told.connection, (news,))
            if news.subtree:
                self._doubtful.append(noticed)  # another may stand there, with what was told of it
        else:
            # Another has been told in its place: only what lay in the one that is gone is news.
            self._keep_gone(news, news.path, news.beneath)

    def _keep_gone(self, news: Change, path: ScopedPath, names: Sequence[str]) -> None:
        """Of names in a directory, tell those to be gone that were told to stand and do not."""
        for name in names:
            each = ScopedPath(f"{path}/{name.removesuffix('/')}") if name else path
            last = self._told.last(each)
            if last is None or last.absent or last.whole or self._sight(each) is not None:
                continue
            gone = msgspec.structs.replace(
                news, path=each, type=last.type, subtree=last.type == "directory", beneath=(),
                beneath_truncated=False,
            )  # fmt: skip
            self._keep(self._told.connection, (gone,))

    def _sight(self, path: ScopedPath) -> Sighting | None:
        return None if self._source is None else self._source.sight(path)

    def _stands_as(self, path: ScopedPath, last: _Row) -> bool:
        seen = self._sight(path)
        return seen is not None and not last.whole and seen.version == last.version

    def _stands(self, change: Change) -> bool:
        """Whether it is still so: it may have been decided a while ago."""
        seen = self._sight(change.path)
        version = None if seen is None else seen.version
        return self._source is None or version == change.version


class Told:
    """What a feed has told, inside a transaction. Before the row ``watched_from`` nobody watched
    others."""

    def __init__(self, connection: Connection, root: int, watched_from: int) -> None:
        self.connection = connection
        self._number = root
        self._watched_from = watched_from

    def has(self, change: Change, changed_ns: int) -> bool:
        last = self.last(change.path)
        if last is None or last.absent:
            return False
        if last.whole:
            # It came with a directory that was told once for all in it.
            return last.time_ns >= changed_ns
        if last.version is None:
            # It was gone before it could be told: what stands there now is another, of any type.
            return change.type == last.type == "directory"
        return last.version == change.version

    def is_gone(self, path: ScopedPath, last: _Row | None) -> bool:
        """Whether the last that was told is that nothing stands there, nor anything beneath it;
        told before others were watched it says nothing, since what was there then is not in the
        feed."""
        if last is None or not last.absent or last.seq <= self._watched_from:
            return False
        beneath: Any = self.connection.execute(
            "SELECT 1 FROM feed WHERE root = ? AND seq > ? AND kind != 'deleted'"
            " AND path > ? AND path < ? LIMIT 1",
            (self._number, last.seq, f"{path}/", f"{path}0"),
        ).fetchall()
        return not beneath

    def last(self, path: ScopedPath) -> _Row | None:
        """The newest change that says whether something stands under a name: of the name itself,
        or of a directory above it as a whole. What came with a directory that was moved is what
        was told of it where it came from."""
        before = _NEVER
        while True:
            newest = self.newest(path, before)
            if newest is None or newest.absent or newest.other is None or not newest.whole:
                return newest
            path = ScopedPath(newest.other + path[len(newest.path) :])
            before = newest.seq

    def newest(self, path: ScopedPath, before: int = _NEVER) -> _Row | None:
        newest: _Row | None = None
        for each in (str(path), *_above(path)):
            rows: Any = self.connection.execute(
                _NEWEST, (self._number, each, str(path), before)
            ).fetchall()
            for row in rows:
                if newest is None or row[0] > newest.seq:
                    newest = _Row(*row)
        return newest


class _Row(NamedTuple):
    """What one row says of a name. ``whole``: by what it says of a directory above it, ``path``;
    ``other`` is where that came from, or went to where it is absent."""

    seq: int
    absent: bool
    whole: bool
    path: str
    type: str
    version: str | None
    time_ns: int
    other: str | None


class Lines:
    """Places, and whether another one is one of them, lies in one or has one in it."""

    def __init__(self) -> None:
        self._places: set[str] = set()
        self._above: set[str] = set()

    def add(self, places: Sequence[ScopedPath]) -> None:
        for place in places:
            self._places.add(place)
            self._above.update(_above(place))

    def touch(self, place: ScopedPath) -> bool:
        return (
            place in self._places
            or place in self._above
            or any(each in self._places for each in _above(place))
        )


def _number(version: str | None) -> str:
    """The number of the object, with which a version of a file or directory on disk begins."""
    return (version or "").partition("-")[0]


def _above(path: ScopedPath) -> list[str]:
    """The directories above a path, but for the root, as plain text."""
    found = []
    while not path.parent.is_root:
        path = path.parent
        found.append(str(path))
    return found
