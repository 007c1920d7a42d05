"""The log of a volume as others read it: which paths each version changed, and how.

The log itself names keys (a name in a directory, a node), since a directory that is moved touches
nothing that lies in it. Paths are found by looking at the tree as it was before the version and as
it was after it. What nobody can see is not told: a stage that was not published, what lies in a
directory that was removed.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Final, NamedTuple

from bailiwick.change_log import Logged, Note
from bailiwick.model import Change, EntryType
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.store import Written
from bailiwick.stores.volume.core import VolumeCore
from bailiwick.stores.volume.rows.database import RowSession, Transaction
from bailiwick.stores.volume.rows.records import DIRECTORY, LINK, TYPES, BoundName, Inode, RowPlace
from bailiwick.stores.volume.rows.tree import RowTree
from bailiwick.versions import (
    BeneathPage,
    ChangeKind,
    MadeChange,
    Version,
    beneath_cursor,
    parse_beneath_cursor,
)

PLACES: Final = 100_000
"""Places of one version in the log: a version's changes are numbered within it, and its last one
has the last place, so that the end of a version is known without counting."""

CHANGES_MAX: Final = 10_000
"""A version that changed more than this is told as a whole: whoever follows looks anew."""

_ROWS_AT_A_TIME: Final = 256

_END: Final = """
SELECT CASE WHEN c.version > v.horizon THEN c.version ELSE v.horizon END FROM volume v
    LEFT JOIN (SELECT version FROM change
        WHERE volume = $1 AND branch = $2 ORDER BY version DESC LIMIT 1) c ON c.version > 0
WHERE v.id = $1
"""
_START: Final = "SELECT horizon FROM volume WHERE id = $1"
_VERSIONS: Final = """
SELECT version, time_ns, verb, subject, request FROM change
WHERE volume = $1 AND branch = $2 AND version >= $3 AND seq = 0 ORDER BY version LIMIT $4
"""
_NEWEST_FIRST: Final = """
SELECT c.branch, c.version, c.time_ns, c.verb, c.subject, c.request FROM lineage l JOIN change c
    ON c.volume = l.volume AND c.branch = l.ancestor AND c.version <= l.bound AND c.seq = 0
WHERE l.volume = $1 AND l.branch = $2 AND c.version <= $3 ORDER BY c.version DESC LIMIT $4
"""
_UNDER: Final = """
SELECT branch, version, time_ns, verb, subject, request FROM change WHERE volume = $1 AND key = $2
"""
_KEYS: Final = """
SELECT parent, name, node, was FROM change
WHERE volume = $1 AND branch = $2 AND version = $3 ORDER BY seq LIMIT $4
"""
_NOTES: Final = """
SELECT version, note FROM change
WHERE volume = $1 AND note IS NOT NULL AND version > $2 AND verb NOT IN ('stage', 'discard')
ORDER BY version LIMIT $3
"""
_DRAINED_THROUGH: Final = "SELECT drained FROM volume WHERE id = $1"
_DRAINED: Final = "UPDATE volume SET drained = $2 WHERE id = $1 AND drained < $2"

_ONE_BY_ONE: Final = ("write", "append", "truncate", "make_dir", "symlink")
"""Verbs that make directories only on their way: each is told. What others make is told whole."""


class _Version(NamedTuple):
    """One version of the branch, and on whose behalf it was made."""

    version: int
    time_ns: int
    verb: str | None
    subject: str | None
    request: str | None


class VolumeLog:
    """`bailiwick.change_log.ChangeLog` of one branch."""

    def __init__(self, core: VolumeCore) -> None:
        self._core = core

    @property
    def id(self) -> str:
        return f"{self._core.identity.uid}-{self._core.view.branch}"

    @property
    def poll_s(self) -> float:
        return self._core.database.poll_s

    def known(self) -> int:
        return self._core.known()

    async def end(self) -> int:
        row = await self._row(_END, self._core.view.volume, self._core.view.branch)
        return int(row[0]) if row else 0

    async def start(self) -> int:
        row = await self._row(_START, self._core.view.volume)
        return int(row[0]) if row else 0

    def place_of(self, version: int) -> int:
        return version * PLACES + PLACES - 1

    def on_commit(self, told: Callable[[], None]) -> Callable[[], None]:
        return self._core.on_commit(told)

    @property
    def notes_id(self) -> str:
        return self._core.identity.uid

    async def drained_through(self) -> int:
        row = await self._row(_DRAINED_THROUGH, self._core.view.volume)
        return int(row[0]) if row else 0

    async def drained(self, version: int) -> None:
        volume = self._core.view.volume

        async def job(turn: Transaction) -> None:
            await turn.session.run(_DRAINED, volume, version)

        await self._core.database.write(job)

    # --- reading -----------------------------------------------------------------------------

    async def _row(self, sql: str, *values: object) -> tuple[int, ...] | None:
        async with self._core.looking() as session:
            return await session.row(sql, *values)

    async def notes(self, after: int, limit: int) -> list[Note]:
        async with self._core.looking() as session:
            rows = await session.rows(_NOTES, self._core.view.volume, after, limit)
        return [Note(*row) for row in rows]

    async def made_under(self, key: bytes) -> list[MadeChange] | None:
        async with self._core.looking() as session:
            found = await _under(self._core, session, key)
            if found is None:
                return None
            branch, version = found
            told = await _changes_of(self._core, session, branch, version)
        number = str(version.version)
        return [MadeChange(change, _written(change, inode), number) for change, inode in told or []]

    async def read(self, after: int, limit: int) -> Logged:
        view = self._core.view
        found: list[tuple[int, Change]] = []
        version = (after + 1) // PLACES
        while True:
            async with self._core.looking() as session:
                rows = await session.rows(
                    _VERSIONS, view.volume, view.branch, version, _ROWS_AT_A_TIME
                )
                for row in rows:
                    each = _Version(*row)
                    version = each.version + 1
                    found += [at for at in await self._told(session, each) if at[0] > after]
                    if len(found) >= limit:
                        return Logged(found, each.version)
            if len(rows) < _ROWS_AT_A_TIME:
                return Logged(found, version - 1)

    async def _told(self, session: RowSession, version: _Version) -> list[tuple[int, Change]]:
        """The changes of one version with their places; the last one has the last place."""
        told = await _changes_of(self._core, session, self._core.view.branch, version)
        if told is None:
            whole = Change(
                kind="rescan", path=ROOT, type="directory", subject=version.subject or "",
                request_id=version.request or "", time_ns=version.time_ns,
            )  # fmt: skip
            return [(self.place_of(version.version), whole)]
        changes = [change for change, _ in told]
        start = version.version * PLACES
        numbered = list(enumerate(changes[:-1], start=start))
        return [*numbered, *((self.place_of(version.version), last) for last in changes[-1:])]


async def version_under(core: VolumeCore, key: bytes) -> int | None:
    """The version that was made under a key, on whichever branch."""
    async with core.looking() as session:
        found = await _under(core, session, key)
    return None if found is None else found[1].version


async def _under(core: VolumeCore, session: RowSession, key: bytes) -> tuple[int, _Version] | None:
    core.database.shared.refuse_behind()  # older tables have no keys
    row = await session.row(_UNDER, core.view.volume, key)
    if row is None:
        return None
    branch, *made = row
    return branch, _Version(*made)


def _written(change: Change, inode: Inode | None) -> Written | None:
    if inode is None or change.type != "file" or inode.sha256 is None:
        return None
    created = change.kind == "created"
    return Written(created, inode.size, inode.sha256.hex(), inode.version, inode.mode)


async def _changes_of(
    core: VolumeCore, session: RowSession, branch: int, version: _Version
) -> list[tuple[Change, Inode | None]] | None:
    """What a version of a branch did, each with what stands there since; None where it is too much
    to be told by path."""
    view = core.view
    keys = await session.rows(_KEYS, view.volume, branch, version.version, CHANGES_MAX + 1)
    if len(keys) > CHANGES_MAX:
        return None
    before = core.tree_at(session, view._replace(at=version.version - 1))
    after = core.tree_at(session, view._replace(at=version.version))
    telling = _Telling(before, after, version, core.limits.feed_subtree_paths_max)
    return await telling.changes(keys)


async def beneath(
    core: VolumeCore, path: ScopedPath, cursor: str | None, limit: int
) -> BeneathPage:
    """What happened to a directory and all that lay in it, newest first."""
    view, found = core.view, list[Version]()
    version, told = parse_beneath_cursor(cursor, view.at)
    async with core.looking() as session:
        rows = await session.rows(_NEWEST_FIRST, view.volume, view.branch, version, _ROWS_AT_A_TIME)
        for branch, *row in rows:
            each = _Version(*row)
            made = await _changes_of(core, session, branch, each)
            all_of_it = _versions_beneath(path, each, made)
            skipped = told if each.version == version else 0
            room = limit - len(found)
            found += all_of_it[skipped : skipped + room]
            if skipped + room < len(all_of_it):
                return BeneathPage(found, beneath_cursor(each.version, skipped + room))
            if len(found) == limit:
                return BeneathPage(found, beneath_cursor(each.version - 1, 0))
    more = len(rows) == _ROWS_AT_A_TIME
    return BeneathPage(found, beneath_cursor(rows[-1][1] - 1, 0) if more else None)


def _versions_beneath(
    path: ScopedPath, made: _Version, changes: list[tuple[Change, Inode | None]] | None
) -> list[Version]:
    """The changes of one version at or beneath a directory. What was moved out of it is told by the
    name that it had there; what was too much to be told by path is the whole tree's."""
    if changes is None:
        return [_shown(made, "updated", ROOT, "directory", None)] if path == ROOT else []
    found = []
    for change, inode in changes:
        where = change.path
        if not where.lies_in(path):
            if change.origin is None or not change.origin.lies_in(path):
                continue
            where = change.origin
        assert change.kind in ("created", "updated", "deleted", "moved")
        found.append(_shown(made, change.kind, where, change.type, inode))
        if change.kind in ("created", "deleted"):
            found += [_shown(made, change.kind, *each, None) for each in _came_along(change)]
    return found


def _came_along(change: Change) -> list[tuple[ScopedPath, EntryType]]:
    """What came or went with its directory."""
    links = set(change.beneath_links)
    return [
        (
            ScopedPath(f"{change.path}/{name.rstrip('/')}"),
            "directory" if name.endswith("/") else "symlink" if name in links else "file",
        )
        for name in change.beneath
    ]


def _shown(
    made: _Version, kind: ChangeKind, path: ScopedPath, type_: EntryType, inode: Inode | None
) -> Version:
    has_content = inode is not None and type_ != "directory"
    return Version(
        version=str(made.version), kind=kind, path=path, type=type_,
        size=inode.size if inode is not None and has_content else 0,
        sha256=inode.sha256.hex() if inode is not None and inode.sha256 else None,
        time_ns=made.time_ns, verb=made.verb, subject=made.subject or "",
        request_id=made.request or "", mode=None if inode is None else inode.mode & 0o777,
    )  # fmt: skip


class _Telling:
    """What one version did to the tree, from the tree before it and the tree after it."""

    def __init__(self, before: RowTree, after: RowTree, version: _Version, names_max: int) -> None:
        self._before = before
        self._after = after
        self._version = version
        self._names_max = names_max
        self._whole = version.verb not in _ONE_BY_ONE
        self._gone: dict[int, RowPlace] = {}
        self._came: dict[int, RowPlace] = {}
        self._changes: list[tuple[Change, Inode | None]] = []

    async def changes(
        self, keys: Iterable[tuple[int, str, int, int]]
    ) -> list[tuple[Change, Inode | None]]:
        places = dict.fromkeys(RowPlace(parent, name) for parent, name, _, _ in keys if parent)
        nodes = dict.fromkeys(node for parent, _, node, _ in keys if not parent)
        for place in places:
            was, now = await self._before.name(*place), await self._after.name(*place)
            if was != now:
                if was is not None:
                    self._gone[was.node] = place
                if now is not None:
                    self._came[now.node] = place
        for place in places:
            await self._tell_place(place)
        for node in nodes:
            if node not in self._came and node not in self._gone:
                await self._tell_node(node)
        return self._changes

    async def _tell_place(self, place: RowPlace) -> None:
        was, now = await self._before.name(*place), await self._after.name(*place)
        if was == now:
            return
        if now is not None:
            await self._tell_arrival(place, was, now)
        elif was is not None and was.node not in self._came:
            await self._tell_departure(place, was)

    async def _tell_arrival(self, place: RowPlace, was: BoundName | None, now: BoundName) -> None:
        path = await _path(self._after, place)
        if path is None:
            return
        left = self._gone.get(now.node)
        origin = None if left is None else await _path(self._before, left)
        inode = await self._after.inode(now.node)
        if was is not None and was.kind == DIRECTORY and was.node not in self._came:
            await self._tell_departure(place, was)
        if origin is not None:
            await self._add("moved", path, now, inode, origin=origin, top=self._after)
        elif await self._came_with_its_directory(place):
            return
        elif was is not None and was.kind == now.kind != DIRECTORY:
            await self._add("updated", path, now, inode)
        else:
            await self._add("created", path, now, inode, top=self._after if self._whole else None)

    async def _came_with_its_directory(self, place: RowPlace) -> bool:
        """Whether a directory above it is told as a whole."""
        return self._whole and place.parent in self._came and place.parent not in self._gone

    async def _tell_departure(self, place: RowPlace, was: BoundName) -> None:
        path = await _path(self._before, place)
        # What goes with its directory is told with it.
        if path is not None and (place.parent not in self._gone or place.parent in self._came):
            await self._add("deleted", path, was, None, top=self._before)

    async def _tell_node(self, node: int) -> None:
        """A node that stayed where it is, and is not what it was."""
        path, inode = await self._after.path(node), await self._after.inode(node)
        if path is not None and inode is not None:
            await self._add("updated", path, BoundName(node, inode.kind), inode)

    async def _add(
        self, kind: ChangeKind, path: ScopedPath, bound: BoundName, inode: Inode | None,
        *, origin: ScopedPath | None = None, top: RowTree | None = None,
    ) -> None:  # fmt: skip
        version, type_ = self._version, TYPES[bound.kind]
        subtree = top is not None and bound.kind == DIRECTORY
        # What was moved out of it, or into it, at the same time is told by itself.
        apart = self._gone if kind == "created" else self._came
        found = await _names(top, bound.node, self._names_max, apart) if subtree and top else {}
        names = list(found)[: self._names_max]
        change = Change(
            kind=kind, path=path, type=type_, subject=version.subject or "",
            request_id=version.request or "", version=_shown_version(type_, inode),
            origin=origin, subtree=subtree, time_ns=version.time_ns,
            beneath=tuple(names), beneath_truncated=len(found) > self._names_max,
            beneath_links=tuple(name for name in names if found[name] == LINK),
        )  # fmt: skip
        self._changes.append((change, inode))


def _shown_version(type_: EntryType, inode: Inode | None) -> str | None:
    return None if inode is None or type_ == "directory" else inode.version


async def _path(tree: RowTree, place: RowPlace) -> ScopedPath | None:
    """Where a place is, in one tree; None where its directory is not to be seen there."""
    above = await tree.path(place.parent)
    return None if above is None else above.child(place.name)


async def _names(tree: RowTree, directory: int, most: int, apart: Container[int]) -> dict[str, int]:
    """What lies beneath a directory and is not told ``apart``, by components, and what it is: one
    more than ``most`` where there is more."""
    found: dict[str, int] = {}
    waiting = [("", BoundName(directory, DIRECTORY))]
    while waiting and len(found) <= most:
        name, bound = waiting.pop()
        if name:
            found[name + "/" if bound.kind == DIRECTORY else name] = bound.kind
        if bound.kind == DIRECTORY:
            children = await tree.children(bound.node, limit=most + 1)
            prefix = name + "/" if name else ""
            waiting += [
                (prefix + each, child)
                for each, child in reversed(children)
                if child.node not in apart
            ]
    return found
