"""A draft of a volume that is kept over a network: what it changes is held here until its end.

Nobody else sees a draft, and it shows the tree as it was when it was begun. So what was looked up
stays true, and what it changes need not be written for anybody: it is gathered, row by row, and
taken over from here when it is committed. Most drafts never write a row of their own.

Rows are written to the draft's branch after all before a question that they would change the answer
to, where they have become many, and where more than the tree was changed. What cannot be held at
all, a statement that finds its rows by a question, ends the holding: from then on the draft is a
branch like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from itertools import islice
from types import TracebackType
from typing import Any, Final, TypeVar

from bailiwick.finishing import to_the_end
from bailiwick.model import MiB
from bailiwick.stores.volume.core import ChangeTurn, VolumeCore
from bailiwick.stores.volume.lookup.cache import Cache, Own
from bailiwick.stores.volume.rows.checksums import checked_inode, checked_name
from bailiwick.stores.volume.rows.database import Row, RowSession, Transaction
from bailiwick.stores.volume.rows.records import (
    NOTHING,
    BoundName,
    BranchView,
    Inode,
    Numbers,
    RowKey,
    RowPlace,
)
from bailiwick.stores.volume.rows.tree import (
    INODE,
    NAME,
    NAMES_IN_DIRECTORY,
    OWN_NAME,
    PATHS,
    PLACE,
    Level,
    PinnedTree,
    RowTree,
    remember_path,
    unknown_of,
)
from bailiwick.stores.volume.rows.write_set import WriteSet, tables_of

Result = TypeVar("Result")

NUMBERS: Final = 4_096
"""Numbers that are set aside for a draft when it is begun: two for a new file, one for a write."""

_HELD_BYTES_MAX: Final = 4 * MiB
"""Of what is held. What is sent is in memory three times."""

_HELD_ROWS_MAX: Final = 8_192

_NAMES_AHEAD_MAX: Final = 1_024
"""Names of a directory that are fetched at once when a second one of it is asked for."""

_INODES_AHEAD: Final = 64
"""Nodes fetched with one that is asked for: with the content of small files 256 KiB."""

_TREE_TABLES: Final = frozenset({"dentry", "inode", "change", "fallen"})
"""What a draft is taken over from: in all others are things that it needs besides."""

_NAMES: Final = f"SELECT d.name, d.node, d.kind, d.guard {NAMES_IN_DIRECTORY} LIMIT $6"
_INODES: Final = f"""
SELECT i.* FROM unnest(CAST($4 AS BIGINT[])) AS w (node)
    CROSS JOIN LATERAL ({INODE.replace("$4", "w.node").replace("$5", "0")}) i
"""


class _Unheld(Exception):
    """A job asks what cannot be answered by what is held: it is to be written first."""


class _NotHoldable(_Unheld):
    """A job does what cannot be held."""


class _SetAside(Numbers):
    """The numbers of a draft."""

    __slots__ = ("end",)

    def __init__(self, last: int, end: int) -> None:
        super().__init__(last)
        self.end = end

    def next(self) -> int:
        if self.last >= self.end:
            raise _NotHoldable
        return super().next()


class HeldChanges:
    """What a draft has changed, and what it knows of the tree that it has come from."""

    def __init__(self, volume: int, cache: Cache, last: int) -> None:
        """Numbers after ``last`` were set aside."""
        self.cache = cache
        self.numbers = _SetAside(last, last + NUMBERS)
        self.begun_at = last
        self.writes = WriteSet(volume)
        self.journal: list[tuple[str, tuple[Any, ...]]] = []
        self.keys: list[RowKey] = []
        self.has_written = False
        self._whole: set[int] = set()  # directories all of whose names are remembered
        self._beside: dict[int, list[int]] = {}  # a node, and all that were listed with it
        self._asked: set[int] = set()  # directories in which a name was looked for
        self._tried: set[int] = set()  # those that were listed, or begun to
        self._own = Cache()  # what the draft itself has made of things: never forgotten

    # --- changing ----------------------------------------------------------------------------

    def take(self, sql: str, values: tuple[Any, ...]) -> None:
        if not self.writes.take(sql, values):
            raise _NotHoldable
        self.journal.append((sql, values))

    def mark(self) -> tuple[int, int, int]:
        return self.writes.mark(), len(self.journal), self.numbers.last

    def take_back(self, mark: tuple[int, int, int]) -> None:
        """A job was given up: what it has gathered and remembered never was."""
        if self.mark() != mark:
            writes, rows, self.numbers.last = mark
            self.writes.take_back(writes)
            del self.journal[rows:]
            self._forget()

    def keep(self, made: Iterable[list[RowKey]]) -> None:
        """A job has ended well: what it has touched is the draft's own."""
        cache, own = self.cache, self._own
        for key in (key for keys in made for key in keys):
            self.keys.append(key)
            if key.parent:
                own.names[key.parent, key.name] = cache.names[key.parent, key.name]
            for node in {key.node, key.was, key.parent} - {0}:
                if node in cache.inodes:
                    own.inodes[node] = cache.inodes[node]
                if node in cache.places:
                    own.places[node] = cache.places[node]

    def written(self) -> None:
        """All that was gathered is in the database."""
        self.writes.clear()
        self.journal.clear()
        self.has_written = True

    def _forget(self) -> None:
        self.cache.clear()
        self._whole.clear()
        self._beside.clear()
        self._asked.clear()
        self._tried.clear()
        self.cache.names.update(self._own.names)
        self.cache.inodes.update(self._own.inodes)
        self.cache.places.update(self._own.places)

    @property
    def is_much(self) -> bool:
        return self.writes.bytes > _HELD_BYTES_MAX or len(self.journal) > _HELD_ROWS_MAX

    @property
    def is_tree_alone(self) -> bool:
        return all(tables_of(sql) <= _TREE_TABLES for sql, _ in self.journal)

    # --- looking -----------------------------------------------------------------------------

    def knows_all_names(self, directory: int) -> bool:
        """Whether what has no remembered name in a directory has none: it was listed, or made by
        the draft."""
        return directory > self.begun_at or directory in self._whole

    def is_worth_listing(self, directory: int) -> bool:
        """Whether a name was looked for in it before: where there are two, there are more."""
        return directory in self._asked and directory not in self._tried

    def found(self, found: Cache) -> None:
        """Remember what was looked up in the database, but for what is known better."""
        self._asked.update(parent for parent, _ in found.names)
        for name, bound in found.names.items():
            self.cache.names.setdefault(name, bound)
        for node, inode in found.inodes.items():
            self.cache.inodes.setdefault(node, inode)
        for node, place in found.places.items():
            self.cache.places.setdefault(node, place)

    def listed(self, directory: int, rows: list[Row]) -> None:
        """Remember names of a directory; all of them, unless there were more than were asked
        for."""
        self._tried.add(directory)
        cache, nodes = self.cache, [node for _, node, _, _ in rows]
        for name, node, kind, guard in rows:
            bound = checked_name(directory, name, node, kind, guard)
            cache.names.setdefault((directory, name), bound)
            cache.places.setdefault(node, RowPlace(directory, name))
            self._beside[node] = nodes
        if len(rows) <= _NAMES_AHEAD_MAX:
            self._whole.add(directory)

    def to_fetch_with(self, node: int) -> list[int]:
        """A node, and some that may be asked for after it."""
        beside, inodes = self._beside.get(node, [node]), self.cache.inodes
        first = beside.index(node)
        unknown = (each for each in (*beside[first:], *beside[:first]) if each not in inodes)
        return list(islice(unknown, _INODES_AHEAD))


class _HeldSession:
    """Statements on a draft that is held, for a look or for a job."""

    def __init__(
        self, held: HeldChanges, look: RowSession, write: Callable[[], Awaitable[None]] | None
    ) -> None:
        """``write`` has written what is held; a job must not have that, since it may be undone."""
        self._held = held
        self._look = look
        self._write = write

    async def beneath(self, sql: str, *values: Any) -> list[Row]:
        """What the database says, whatever is held."""
        return await self._look.rows(sql, *values)

    async def rows(self, sql: str, *values: Any) -> list[Row]:
        held = self._held
        answer = held.writes.answer(sql, values)
        if answer is not None:
            return answer
        if not sql.lstrip().startswith(("SELECT", "WITH")):
            raise _NotHoldable
        if held.writes.stands_against(sql, values):
            if self._write is None:
                raise _Unheld
            await self._write()
        elif sql is OWN_NAME and not held.has_written:
            return []
        return await self._look.rows(sql, *values)

    async def row(self, sql: str, *values: Any) -> Row | None:
        rows = await self.rows(sql, *values)
        return rows[0] if rows else None

    async def run(self, sql: str, *values: Any) -> None:
        self._held.take(sql, values)


class _HeldTransaction:
    """A turn to change a draft that is held: nobody else has any."""

    locks = 0

    def __init__(self, held: HeldChanges, session: _HeldSession) -> None:
        self.session = session
        self.numbers = held.numbers
        self.begun_at = held.cache.seen
        self._cache = held.cache

    def set_locks(self, count: int) -> None:
        raise _NotHoldable

    def on_commit(self, action: Callable[[], None]) -> None:
        raise _NotHoldable

    def cache(self, branch: int, known: Cache | None = None) -> Cache:
        return self._cache


class DraftTree(PinnedTree):
    """The tree of a draft that is held. All that the draft has changed is remembered, so what is
    not remembered is what the database says."""

    __slots__ = ("_asking", "_held")

    def __init__(
        self, session: _HeldSession, view: BranchView, levels: tuple[Level, ...], held: HeldChanges
    ) -> None:
        super().__init__(session, view, levels, held.cache)
        self._asking = session
        self._held = held

    async def fetch_path(self, parts: tuple[str, ...]) -> None:
        cache, root = self.cache, self.view.root
        while (ahead := unknown_of(cache, root, parts)) is not None:
            directory, name = ahead.node, ahead.names[0]
            if self._held.knows_all_names(directory):
                cache.names[directory, name] = None
            elif self._held.is_worth_listing(directory):
                await self._list(directory)
            else:
                view, found = self.view, Cache()
                rows = await self._asking.beneath(
                    PATHS, view.volume, view.branch, view.at, [directory], ["/".join(ahead.names)]
                )
                remember_path(found, ahead, [row[2:] for row in rows])
                self._held.found(found)

    async def _list(self, directory: int) -> None:
        view = self.view
        values = (view.volume, view.branch, view.at, directory, "", _NAMES_AHEAD_MAX + 1)
        self._held.listed(directory, await self._asking.beneath(_NAMES, *values))

    async def name(self, parent: int, name: str) -> BoundName | None:
        names = self.cache.names
        if (parent, name) not in names and self._held.knows_all_names(parent):
            return None
        return await super().name(parent, name)

    async def name_uncached(self, parent: int, name: str, depth: int = 0) -> BoundName | None:
        view = self.view
        values = (view.volume, view.branch, view.at, parent, name, depth)
        rows = await self._asking.beneath(NAME, *values)
        bound = checked_name(parent, name, *rows[0]) if rows else None
        return None if bound is None or bound.kind == NOTHING else bound

    async def is_inherited(self, parent: int, name: str) -> bool:
        """Perhaps. A name that is hidden for nothing says no more than one that is not there."""
        return parent <= self._held.begun_at

    async def inode_uncached(self, node: int, depth: int = 0) -> Inode | None:
        view = self.view
        nodes = self._held.to_fetch_with(node)
        found = Cache()
        found.inodes[node] = None
        for *row, guard in await self._asking.beneath(
            _INODES, view.volume, view.branch, view.at, nodes
        ):
            inode = checked_inode(Inode(*row), guard)
            found.inodes[inode.id] = None if inode.kind == NOTHING else inode
        self._held.found(found)
        return found.inodes[node]

    async def place(self, node: int) -> RowPlace | None:
        places = self.cache.places
        if node not in places:
            view = self.view
            rows = await self._asking.beneath(PLACE, view.volume, view.branch, view.at, node)
            places[node] = RowPlace(*rows[0]) if rows else None
        return places[node]


class _HeldLook:
    """A look at a draft, alone: what is looked up must not mix with what is changed meanwhile."""

    def __init__(self, core: DraftCore, look: AbstractAsyncContextManager[RowSession]) -> None:
        self._core = core
        self._look = look

    async def __aenter__(self) -> RowSession:
        await self._core.alone.acquire()
        try:
            session = await self._look.__aenter__()
        except BaseException:
            self._core.alone.release()
            raise
        held = self._core.held
        return session if held is None else _HeldSession(held, session, self._core.write_held)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        try:
            await self._look.__aexit__(kind, error, at)
        finally:
            self._core.alone.release()


class DraftCore(VolumeCore):
    """The branch of a draft. Made by `VolumeVersions.begin`."""

    held: HeldChanges | None
    alone: asyncio.Lock
    _parent: VolumeCore

    def begin_holding(self, parent: VolumeCore, last: int) -> None:
        """Hold what is changed from now on; numbers after ``last`` were set aside for that."""
        self.held = HeldChanges(self.view.volume, self._cache, last)
        self.alone = asyncio.Lock()
        self._parent = parent
        self._cache.seen = last + NUMBERS

    async def write_held(self) -> None:
        """Have the database know what is held."""
        held = self.held
        if held is None or not held.journal:
            return
        journal = list(held.journal)

        async def replay(turn: Transaction) -> None:
            for sql, values in journal:
                await turn.session.run(sql, *values)

        # By the branch that it was begun in: this one may be closed by now.
        await to_the_end(self._parent.database.write(replay, self._parent))
        held.written()

    async def _end_holding(self) -> None:
        await self.write_held()
        self.held = None

    # --- looking -----------------------------------------------------------------------------

    def looking(self) -> AbstractAsyncContextManager[RowSession]:
        look = super().looking()
        return look if self.held is None else _HeldLook(self, look)

    async def tree(self, session: RowSession, ahead: tuple[str, ...] | None = None) -> RowTree:
        tree = self._held_tree(session)
        return await super().tree(session, ahead) if tree is None else tree

    async def pinned_tree(
        self, session: RowSession, ahead: tuple[str, ...] | None = None
    ) -> PinnedTree:
        tree = self._held_tree(session)
        return await super().pinned_tree(session, ahead) if tree is None else tree

    def as_seen(self, session: RowSession) -> PinnedTree | None:
        return None if isinstance(session, _HeldSession) else super().as_seen(session)

    def turn_tree(self, transaction: Transaction) -> RowTree:
        tree = self._held_tree(transaction.session)
        return super().turn_tree(transaction) if tree is None else tree

    def _held_tree(self, session: RowSession) -> DraftTree | None:
        if not isinstance(session, _HeldSession) or self.held is None:
            return None
        seen = self._cache.seen
        view = self.view._replace(at=seen)
        return DraftTree(session, view, self._levels_at(seen), self.held)

    # --- changing ----------------------------------------------------------------------------

    async def change(
        self, job: Callable[[ChangeTurn], Awaitable[Result]], *, once: bool = False
    ) -> Result:
        if self.held is not None:
            self._check_changeable()
            async with self.alone:
                if self.held is not None and not once:
                    for is_again in (False, True):
                        try:
                            return await self._hold(self.held, job)
                        except _NotHoldable:
                            break
                        except _Unheld:
                            if not is_again:
                                await self.write_held()
                await self._end_holding()
        return await super().change(job, once=once)

    async def _hold(
        self, held: HeldChanges, job: Callable[[ChangeTurn], Awaitable[Result]]
    ) -> Result:
        mark = held.mark()
        try:
            async with self.database.reading() as session:
                transaction = _HeldTransaction(held, _HeldSession(held, session, None))
                result = await self.run(job, transaction)
        except BaseException:
            held.take_back(mark)
            raise
        if held.is_much:
            await self.write_held()
        self._tell()
        return result

    def note(self, transaction: Transaction, own: Own) -> None:
        if isinstance(transaction, _HeldTransaction) and self.held is not None:
            self.held.keep(own.keys)
        else:
            super().note(transaction, own)
