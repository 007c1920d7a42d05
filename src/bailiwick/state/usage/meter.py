"""What grants and roots hold, counted against their quotas.

One row for each grant and root that has a quota on bytes or files. A charge looks at all the rows
it concerns and changes them in one transaction, so that no number of writers, in any number of
processes, goes past a bound together. A process that dies between its charge and its write leaves
the count too high, never too low, and what others put into a tree is not seen here: so a root is
counted anew by each process that begins to change it, and now and then after that.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Awaitable, Callable, Collection
from typing import Literal, NamedTuple

from bailiwick.errors import QuotaExceeded
from bailiwick.grant import Grant, Quota, Root
from bailiwick.meter import Amount, Turns
from bailiwick.paths import ROOT
from bailiwick.state.database import Connection, Database, DatabasePart
from bailiwick.state.grants.book import GrantBook, select
from bailiwick.state.usage.branches import (
    NONE,
    TABLE,
    Beside,
    Usage,
    forget_all,
    forks_beside,
    give_back_gone,
    grown_beside,
)

_log = logging.getLogger("bailiwick.state")

PART = DatabasePart(
    "usage",
    (
        """
        CREATE TABLE usage (
            kind  TEXT NOT NULL CHECK (kind IN ('grant', 'root')),
            name  TEXT NOT NULL,     -- the grant's id, the root's name
            bytes INTEGER NOT NULL CHECK (bytes >= 0),
            files INTEGER NOT NULL CHECK (files >= 0),
            PRIMARY KEY (kind, name)
        ) STRICT, WITHOUT ROWID;
        """,
        TABLE,
    ),
)

_SET = (
    "INSERT INTO usage VALUES (?, ?, ?, ?) ON CONFLICT (kind, name)"
    " DO UPDATE SET bytes = excluded.bytes, files = excluded.files"
)
_USED = "SELECT bytes, files FROM usage WHERE kind = ? AND name = ?"

_AMOUNT_MAX = 2**62
"""Where an amount that nothing bounds stops growing: SQLite's numbers end a little later."""

Measure = Callable[[Root], Awaitable[tuple[int, int]]]
"""How many bytes and files a root's tree holds."""


Forks = Callable[[Root], Awaitable[Collection[str] | None]]
"""The branches that a root has; None where that cannot be known."""


async def _unknown(root: Root) -> None:
    return None


class _Bound(NamedTuple):
    kind: Literal["grant", "root"]
    name: str
    quota: Quota


class _NotMeasured(Exception):
    """A root is charged that has no row yet."""


class UsageMeter:
    """Counts for one authority. A grant's quota bounds what is added under it and under all that
    was handed out or delegated from it, together."""

    def __init__(
        self, database: Database, grants: GrantBook, measure: Measure, forks: Forks = _unknown
    ) -> None:
        self._database = database
        self._grants = grants
        self._measure = measure
        self._forks = forks
        self._locks: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, dict[str, asyncio.Lock]
        ] = weakref.WeakKeyDictionary()
        self.turns = Turns()
        # By name of the root: the roots that this process has measured, and what it has charged
        # for and not settled. The latter is changed by the writer's thread, with the row.
        self._measured: dict[str, Root] = {}
        self._pending: dict[str, Usage] = {}

    def counts(self, grant: Grant) -> bool:
        quota = grant.root.quota
        if quota is not None and quota.measures_content:
            return True
        bounds = self._grants.lineage(grant.id)
        return bool(bounds) and any(bound.quota.measures_content for bound in bounds)

    async def charge(
        self,
        grant: Grant,
        size: int,
        files: int,
        *,
        apart: str | None = None,
        over: str | None = None,
    ) -> None:
        """See `bailiwick.meter.Meter`. The details of a `QuotaExceeded` say which ``bound``
        (grant or root, and its ``name``) on what (``of``), its ``limit``, and how much was
        ``used`` and ``asked``."""
        bounds = self._bounds(grant)
        if not bounds or (size == 0 and files == 0):
            return
        lines = _UsageLines.of(grant, apart, over)
        try:
            await self._count(bounds, lines, Usage(size, files), Usage(size, files))
        except _NotMeasured:
            try:
                await self._measure_first(grant.root)
            except Exception:
                if size > 0 or files > 0:
                    raise
                # What is taken away is never refused; whoever measures later sees it gone.
                _log.warning("a root could not be measured", extra={"root": str(grant.root)})
                bounds = [bound for bound in bounds if bound.kind == "grant"]
            await self._count(bounds, lines, Usage(size, files), Usage(size, files))

    async def settle(
        self,
        grant: Grant,
        charged: Amount,
        added: Amount,
        *,
        apart: str | None = None,
        over: str | None = None,
    ) -> None:
        """See `bailiwick.meter.Meter`."""
        bounds = self._bounds(grant)
        more = Usage(*added).but_for(Usage(*charged))
        if not bounds:
            return
        lines, pending = _UsageLines.of(grant, apart, over), NONE.but_for(Usage(*charged))
        if more == NONE and lines.over is None:
            if lines.apart is None:
                self._set_pending(bounds, pending)
            return
        try:
            await self._count(bounds, lines, more, pending, settles=True)
        except _NotMeasured:  # whoever measures later sees what is there
            bounds = [bound for bound in bounds if bound.kind == "grant"]
            await self._count(bounds, lines, more, NONE, settles=True)

    async def let_go(self, root: Root, branch: str) -> None:
        """See `bailiwick.meter.Meter`."""
        await self._database.write(Beside(str(root), branch).give_back)

    async def prepare(self, grant: Grant) -> None:
        """Measure the root, if it has a quota and this process has not measured it yet. Where that
        cannot be done, what was known before holds, and where nothing was, nothing is added."""
        root, quota = grant.root, grant.root.quota
        name = str(root)
        if name in self._measured or quota is None or not quota.measures_content:
            return
        async with self._turn_to_measure(name):
            if name not in self._measured:
                try:
                    await self.remeasure(root)
                except Exception as error:
                    _log.warning(
                        "a root could not be measured", extra={"root": name}, exc_info=error
                    )

    def used_by_grant(self, grant_id: str) -> Usage:
        """What was added under a grant that has a quota."""
        return self._used("grant", grant_id) or NONE

    def used_by_root(self, root: str) -> Usage | None:
        """What a root with a quota holds; None where it was never measured."""
        return self._used("root", root)

    async def remeasure(self, root: Root) -> Usage:
        """Count a root anew, while nobody in this process changes it: they wait for their turn.

        What was charged here and is not published yet is counted on top. Of other processes the
        same is not known: what they charge during the walk is counted on top, so that it may count
        twice; what they had charged before it, and publish after it, is not counted until the
        next time. Forks that were counted and are gone count no more.
        """
        name = str(root)
        turn = await self.turns.take(name, ROOT)
        try:
            before, pending, counted_forks = await self._database.write(
                lambda connection: (*self._look(connection, name), forks_beside(connection, name))
            )
            measured = Usage(*await self._measure(root))
            forks = None if not counted_forks else await self._forks(root)
            gone = set() if forks is None else counted_forks.difference(forks)

            def job(connection: Connection) -> Usage:
                now, pending_now = self._look(connection, name)
                foreign = now.but_for(before).but_for(pending_now.but_for(pending))
                give_back_gone(connection, name, gone)
                counted = measured.and_also(pending_now).and_also(foreign.grown)
                counted = counted.and_also(grown_beside(connection, name))
                connection.execute(
                    _SET,
                    ("root", name, _within(counted.bytes), _within(counted.files)),
                )
                return counted

            counted = await self._database.write(job)
        finally:
            self.turns.give_back(turn)
        self._measured[name] = root
        return counted

    async def remeasure_all(self) -> None:
        """Count every root anew that this process has measured before."""
        for name, root in list(self._measured.items()):
            try:
                await self.remeasure(root)
            except Exception as error:
                _log.warning("a root could not be measured", extra={"root": name}, exc_info=error)

    async def forget(self, root: str) -> None:
        """Drop the count of a root that is gone."""
        self._measured.pop(root, None)

        def job(connection: Connection) -> None:
            connection.execute("DELETE FROM usage WHERE kind = 'root' AND name = ?", (root,))
            forget_all(connection, root)

        await self._database.write(job)

    async def prune(self) -> None:
        """Drop the counts of grants that are no longer in the book."""

        def job(connection: Connection) -> None:
            connection.execute(
                "DELETE FROM usage WHERE kind = 'grant'"
                " AND NOT EXISTS (SELECT 1 FROM grants WHERE grants.id = usage.name)"
            )

        await self._database.write(job)

    # --- parts -----------------------------------------------------------------------------

    def _bounds(self, grant: Grant) -> list[_Bound]:
        bounds = [
            _Bound("grant", bound.grant_id, bound.quota)
            for bound in self._grants.lineage(grant.id)
            if bound.quota.measures_content
        ]
        quota = grant.root.quota
        if quota is not None and quota.measures_content:
            bounds.append(_Bound("root", str(grant.root), quota))
        return bounds

    def _used(self, kind: str, name: str) -> Usage | None:
        rows = self._database.read(_USED, (kind, name))
        return Usage(*rows[0]) if rows else None

    async def _measure_first(self, root: Root) -> None:
        """Give a root its first row. Callers of one event loop share one walk of the tree; of
        several processes the first to finish is believed, since nobody adds to the tree before
        there is a row to charge."""
        async with self._turn_to_measure(str(root)):
            if self._used("root", str(root)) is None:
                measured = Usage(*await self._measure(root))

                def job(connection: Connection) -> None:
                    counted = measured.and_also(grown_beside(connection, str(root)))
                    connection.execute(
                        "INSERT INTO usage VALUES ('root', ?, ?, ?) ON CONFLICT DO NOTHING",
                        (str(root), *counted),
                    )

                await self._database.write(job)

    def _turn_to_measure(self, root: str) -> asyncio.Lock:
        locks = self._locks.setdefault(asyncio.get_running_loop(), {})
        return locks.setdefault(root, asyncio.Lock())

    def _look(self, connection: Connection, root: str) -> tuple[Usage, Usage]:
        """What a root's own branch is known to hold and what is pending in it; on the writer's
        thread."""
        rows = select(connection, _USED, "root", root)
        used = Usage(*rows[0]).but_for(grown_beside(connection, root)) if rows else NONE
        return used, self._pending.get(root, NONE)

    async def _count(
        self,
        bounds: list[_Bound],
        lines: _UsageLines,
        more: Usage,
        pending: Usage,
        *,
        settles: bool = False,
    ) -> None:
        """Change the rows, and with them what is pending. What is counted apart need not be: it is
        in rows of its own."""
        done = False
        pending = pending if lines.apart is None else NONE

        def job(connection: Connection) -> None:
            nonlocal done
            _charge(connection, bounds, lines, more, settles)
            self._set_pending(bounds, pending)
            done = True

        try:
            await self._database.write(job)
        except Exception:
            if done:  # the job was done, and not committed
                self._set_pending(bounds, NONE.but_for(pending))
            raise

    def _set_pending(self, bounds: list[_Bound], more: Usage) -> None:
        for bound in bounds:
            if bound.kind == "root":
                left = self._pending.get(bound.name, NONE).and_also(more)
                if left == NONE:
                    self._pending.pop(bound.name, None)
                else:
                    self._pending[bound.name] = left


class _UsageLines(NamedTuple):
    """In which branch something is counted, if not in the root's own, and which one it is taken
    over from."""

    apart: Beside | None
    over: Beside | None

    @classmethod
    def of(cls, grant: Grant, apart: str | None, over: str | None) -> _UsageLines:
        root, branch = str(grant.root), apart or grant.root.line
        return cls(
            Beside(root, branch) if branch else None, None if over is None else Beside(root, over)
        )


def _charge(
    connection: Connection, bounds: list[_Bound], lines: _UsageLines, more: Usage, settles: bool
) -> None:
    """Change the rows of all bounds, and of the branch; refuse what would pass one, or, where it is
    done and settled, let go of what it was taken over from."""
    rows: list[tuple[str, str, int, int]] = []
    apart, over = lines
    for bound in bounds:
        used = select(connection, _USED, bound.kind, bound.name)
        if not used and bound.kind == "root":
            raise _NotMeasured
        holds, grows = Usage(*used[0]) if used else NONE, more
        if apart is not None:
            before = apart.size(connection, bound.kind, bound.name)
            after = before.and_also(more)
            grows = after.grown.but_for(before.grown)
            apart.resize(connection, bound.kind, bound.name, after)
        if not settles:
            spared = NONE if over is None else over.size(connection, bound.kind, bound.name).grown
            others = holds.but_for(spared)
            _refuse_past(bound, "bytes", bound.quota.bytes, others.bytes, grows.bytes)
            _refuse_past(bound, "files", bound.quota.files, others.files, grows.files)
        holds = holds.and_also(grows)
        rows.append((bound.kind, bound.name, _within(holds.bytes), _within(holds.files)))
    connection.executemany(_SET, rows)
    if settles and over is not None:
        over.give_back(connection)


def _within(amount: int) -> int:
    return min(max(amount, 0), _AMOUNT_MAX)


def _refuse_past(bound: _Bound, of: str, limit: int | None, used: int, asked: int) -> None:
    if limit is None or asked <= 0 or used + asked <= limit:
        return
    raise QuotaExceeded(
        f"the {bound.kind} may hold {limit} {of}; {used} are used and {asked} more were asked for",
        hint="remove something first, or ask for a larger quota",
        details={
            "bound": bound.kind, "name": bound.name, "of": of, "limit": limit, "used": used,
            "asked": asked,
        },
    )  # fmt: skip
