"""The book of grants: what stands, what was handed out of it, and what has ended.

All grants are one forest. A standing grant is a root of it; what `Authority.request_root` hands out
hangs beneath, and what a holder delegates beneath that. Ending one ends all that hangs on it, in
one transaction; so whether a grant holds is seen in its own row alone. A grant is never widened and
never comes back: one that is not in the book (any more) does not hold.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from bailiwick.audit import AuthorityAct, AuthorityRecord
from bailiwick.errors import FileAlreadyExists, GrantExpired, ParseError
from bailiwick.grant import Grant, Quota, StandingGrant
from bailiwick.state.database import Connection, Database, DatabasePart
from bailiwick.state.epoch import LastRead
from bailiwick.state.grants.rows import (
    COLUMNS,
    LINE,
    LISTED_THERE,
    OF_CONFIGURATION,
    GrantEntry,
    GrantPage,
    decode_grant,
    encode_grant,
    entry_of,
    nanoseconds,
    readable_entries,
    readable_standing,
    revoked,
    shared_of,
    until,
)
from bailiwick.state.made_once import once

Chain = Callable[[Connection, AuthorityRecord], None]
"""Puts a record into the ledger within the transaction at hand."""

DAY_NS = 24 * 3600 * 10**9

ENDED_KEPT_DAYS = 7
"""How long a grant stays in the book after its end: long enough to be looked at."""

IDLE_DAYS_MAX = 90
"""A grant that was handed out and not used for so long is given up, or the book would only grow:
most are held by processes that are gone."""

_PRUNE_EVERY = 256
_PRUNE_ROWS_MAX = 1_000
"""Every so many hand-outs up to four times as many are cleared away: the book cannot outrun it,
and no transaction becomes long."""

_LINEAGES_KEPT = 10_000

PAGE_MAX = 1_000
"""Rows of one page of a list."""

CONFIGURATION = "configuration"
"""Who is on record as granting and ending what a configuration lists."""

PART = DatabasePart(
    "grants",
    (
        """
        CREATE TABLE grants (
            seq        INTEGER PRIMARY KEY,
            id         TEXT NOT NULL UNIQUE,
            kind       TEXT NOT NULL CHECK (kind IN ('standing', 'held')),
            parent     TEXT,              -- what it was handed out or delegated from
            origin     TEXT NOT NULL,     -- the configuration that lists it; '' if made at run time
            subject    TEXT NOT NULL,     -- the names in the body, for lists
            root       TEXT NOT NULL,
            body       BLOB NOT NULL,     -- the StandingGrant or Grant
            created_ns INTEGER NOT NULL,
            seen_ns    INTEGER NOT NULL,  -- when it was last used, to the day
            expires_ns INTEGER NOT NULL,  -- never later than that of the parent
            ended_ns   INTEGER            -- NULL while nobody has ended it
        ) STRICT;
        CREATE INDEX grants_by_parent ON grants (parent) WHERE parent IS NOT NULL;
        CREATE INDEX grants_standing ON grants (kind, origin) WHERE kind = 'standing';
        CREATE INDEX grants_by_expiry ON grants (expires_ns);
        CREATE INDEX grants_by_use ON grants (seen_ns) WHERE kind = 'held';
        CREATE INDEX grants_by_end ON grants (ended_ns) WHERE ended_ns IS NOT NULL;
        """,
        """
        -- Whether its holder has no more use for it, and it only carries what hangs on it.
        ALTER TABLE grants ADD COLUMN released INTEGER NOT NULL DEFAULT 0;
        CREATE INDEX grants_released ON grants (id) WHERE released = 1;
        """,
    ),
)

_TREE = """
    WITH RECURSIVE tree (id) AS (
        SELECT id FROM grants WHERE id = ?1
        UNION SELECT grants.id FROM grants JOIN tree ON grants.parent = tree.id)
"""

_CHILDLESS = "NOT EXISTS (SELECT 1 FROM grants AS child WHERE child.parent = grants.id)"

_ROW = f"SELECT {COLUMNS} FROM grants WHERE id = ?"

_LISTED = "SELECT id, body, ended_ns FROM grants WHERE kind = 'standing' AND origin = ?"


class GrantBound(NamedTuple):
    """A quota that stands over a grant: its own, or that of one it descends from."""

    grant_id: str
    quota: Quota


class Synchronised(NamedTuple):
    """What a configuration changed in the book. ``revoked`` are listed still, but someone has
    taken them back at run time, and that stands until the configuration says something else."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    ended: tuple[str, ...]
    revoked: tuple[str, ...]


class GrantBook:
    """The grants of one authority, shared by all processes that share its state. Who is not
    ``configured`` knows no rules of a configuration, so that what one grants is nothing here."""

    def __init__(
        self, database: Database, chain: Chain, *, time_ns: Callable[[], int],
        configured: bool = True,
    ) -> None:  # fmt: skip
        self._configured = configured
        self._database = database
        self._chain = chain
        self._time_ns = time_ns
        self._handed_out = 0
        self._living = LastRead(database.epoch, self._read_standing)
        # A living grant keeps its parents and their quotas, so this is never out of date.
        self._lineages: dict[str, tuple[GrantBound, ...]] = {}

    # --- looking ---------------------------------------------------------------------------

    def standing(self) -> list[StandingGrant]:
        """The standing grants that hold now, oldest first."""
        now = self._time_ns()
        return [grant for grant, expires_ns in self._living.get() if now < expires_ns]

    @property
    def state(self) -> object:
        """Another object once what stands has changed: to be compared by identity."""
        return self._living.get()

    def find(self, grant_id: str) -> GrantEntry | None:
        """A grant of either kind, ended or not, as long as it is in the book."""
        rows = self._database.read(_ROW, (grant_id,))
        return entry_of(rows[0]) if rows else None

    def load(self, grant_id: str) -> Grant | None:
        """A grant that was handed out and still holds."""
        entry = self.find(grant_id)
        if entry is None or not isinstance(entry.grant, Grant):
            return None
        if not self._configured and self._database.read(OF_CONFIGURATION, (grant_id,)):
            return None
        return entry.grant if entry.holds(self._time_ns()) else None

    def entries(
        self,
        *,
        kind: Literal["standing", "held"] | None = None,
        subject: str | None = None,
        root: str | None = None,
        ended: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> GrantPage:
        """A page of the book, newest first; with ``ended`` also what holds no more. What cannot be
        read is left out, and in the log."""
        check_limit(limit)
        where, given = ["1 = 1"], list[object]()
        for column, wanted in (("kind", kind), ("subject", subject), ("root", root)):
            if wanted is not None:
                where.append(f"{column} = ?")
                given.append(wanted)
        if not ended:
            where.append("ended_ns IS NULL AND expires_ns > ?")
            given.append(self._time_ns())
        if cursor is not None:
            where.append("seq < ?")
            given.append(row_of(cursor))
        rows = self._database.read(
            f"SELECT {COLUMNS}, seq FROM grants WHERE {' AND '.join(where)}"
            " ORDER BY seq DESC LIMIT ?",
            (*given, limit + 1),
        )
        more = len(rows) > limit
        page = rows[:limit]
        return GrantPage(readable_entries(page), str(page[-1][-1]) if more else None)

    def row(self, grant_id: str) -> tuple[int, int | None, int] | None:
        """When a grant that was handed out expires, when it was ended, and when it was last
        seen in use. Under a standing grant nobody can act."""
        rows = self._database.read(
            "SELECT expires_ns, ended_ns, seen_ns FROM grants WHERE id = ? AND kind = 'held'",
            (grant_id,),
        )
        return rows[0] if rows else None

    def lineage(self, grant_id: str) -> tuple[GrantBound, ...]:
        """The quotas a grant is under, its own first: what is done under it counts for each.

        Otherwise a holder would go past a bound by delegating, or by asking for a root again.
        """
        known = self._lineages.get(grant_id)
        if known is None:
            known = self._read_lineage(grant_id)
            if known is None:
                return ()
            if len(self._lineages) >= _LINEAGES_KEPT:
                self._lineages.clear()
            self._lineages[grant_id] = known
        return known

    # --- changing --------------------------------------------------------------------------

    async def add(self, grant: StandingGrant, *, by: str, front: str, request_id: str = "") -> str:
        """Let a grant stand; returns the id under which it does: another than its own where it was
        made before under the same key. Raises `FileAlreadyExists` where its id is in the book."""
        expires_ns = nanoseconds(grant.expires_at)
        encode_grant(grant)

        def job(connection: Connection) -> str:
            if select(connection, "SELECT 1 FROM grants WHERE id = ?", grant.id):
                raise FileAlreadyExists(f"there is a grant with the id {grant.id!r} already")
            self._insert_standing(connection, grant, expires_ns, origin="")
            self._record_standing(connection, grant, by, front, request_id)
            return grant.id

        return await self._database.write_control(once("grant", job))

    def shared(self, grant_id: str) -> Grant | None:
        """A grant that several processes act under, if one of them has put it into the book. Raises
        `GrantRevoked` or `GrantExpired` where it does not hold any more."""
        return shared_of(self._database.read(_ROW, (grant_id,)), self._time_ns())

    async def hand_out(
        self, grant: Grant, *, front: str, by: str | None = None, shared: bool = False
    ) -> Grant:
        """Put a grant into the book, and return it as it stands there; one that is ``shared`` as
        another process has put it there before.

        It ends with its parent at the latest. ``by`` is whoever gave it: its own subject where a
        root was requested, the parent's holder where it was delegated. Raises `GrantRevoked` or
        `GrantExpired` where the parent does not hold any more.
        """
        own_ns = nanoseconds(grant.expires_at)
        self._handed_out += 1
        clear = self._handed_out % _PRUNE_EVERY == 0

        def job(connection: Connection) -> Grant:
            now = self._time_ns()
            if clear:
                _prune_in(connection, now)
            known = shared_of(select(connection, _ROW, grant.id), now) if shared else None
            if known is not None:
                return known
            act: AuthorityAct = "grant"
            kept, expires_ns = grant, own_ns
            if grant.parent is not None:
                kind, parent_ns = _living_parent(connection, grant.parent, now)
                act = "grant" if kind == "standing" else "delegate"
                if parent_ns < own_ns:
                    kept, expires_ns = until(grant, parent_ns), parent_ns
            _insert(
                connection, (kept.id, "held", kept.parent, "", str(kept.subject), str(kept.root)),
                encode_grant(kept), now, expires_ns,
            )  # fmt: skip
            record = AuthorityRecord(
                time_ns=now, request_id=new_id(), subject=by or str(kept.subject),
                act=act, root=str(kept.root), grant_id=kept.id, reason=kept.reason, front=front,
                details={
                    "to": str(kept.subject), "access": " ".join(sorted(kept.access)),
                    "source": kept.source, "parent": kept.parent or "",
                },
            )  # fmt: skip
            self._chain(connection, record)
            return kept

        return await self._database.write(job)

    async def revoke(
        self, grant_id: str, *, by: str, front: str, request_id: str = "", reason: str = ""
    ) -> int:
        """End a grant and all that descends from it; returns how many ended by this.

        Once it returns, none of them passes another check, in any process. Ending what has ended,
        or what is not in the book, ends nothing and is no error.
        """

        def job(connection: Connection) -> int:
            ended = self._end(connection, grant_id, by, front, request_id, reason)
            return len(ended)

        return await self._database.write_control(once(f"revoke {grant_id}", job))

    async def release(self, grant_id: str) -> None:
        """Take a grant out of the book whose holder has no more use for it, and those above that
        only waited for it. While something hangs on it, it stays. Nobody is refused anything by
        this, so it is not on record, and other processes may learn of it late."""

        await self._database.write(lambda connection: _release_in(connection, grant_id))

    async def release_shared(self, front: str) -> None:
        """Release all whose ids begin with ``front``, once no process acts under them any more."""

        def job(connection: Connection) -> None:
            for (grant_id,) in select(
                connection, "SELECT id FROM grants WHERE substr(id, 1, ?) = ?", len(front), front
            ):
                _release_in(connection, grant_id)

        await self._database.write(job)

    async def sync_configured(
        self, grants: Sequence[StandingGrant], *, origin: str = CONFIGURATION
    ) -> Synchronised:
        """Let exactly these stand of what the configuration named ``origin`` lists.

        What it listed before and lists no more ends, with all that hangs on it. What it lists
        differently ends what hangs on it, which may hold more than is granted now; a new expiry
        alone only shortens. What is to hold for so long (``expires_in``) holds so long from when it
        was listed first, or differently. What was made at run time is left alone.
        """
        wanted = {grant.id: (grant, nanoseconds(grant.expires_at)) for grant in grants}
        if len(wanted) < len(grants):
            raise ParseError("two configured grants have the same id")

        def job(connection: Connection) -> Synchronised:
            _prune_in(connection, self._time_ns())
            listed = dict[str, tuple[StandingGrant | None, int | None]]()
            for row in select(connection, _LISTED, origin):
                listed[row[0]] = (readable_standing(row[0], row[1]), row[2])
            gone = tuple(sorted(listed.keys() - wanted.keys()))
            for grant_id in gone:
                self._end(connection, grant_id, CONFIGURATION, "python", "", "no longer listed")
                connection.execute("DELETE FROM grants WHERE id = ?", (grant_id,))
            outcomes: dict[str, list[str]] = {"added": [], "changed": [], "revoked": []}
            for grant, expires_ns in wanted.values():
                outcome = self._sync_one(
                    connection, grant, expires_ns, listed.get(grant.id), origin
                )
                outcomes.setdefault(outcome, []).append(grant.id)
            return Synchronised(
                tuple(outcomes["added"]), tuple(outcomes["changed"]), gone,
                tuple(outcomes["revoked"]),
            )  # fmt: skip

        return await self._database.write_control(job)

    def origins(self) -> list[str]:
        """Which configurations list grants here."""
        rows = self._database.read("SELECT DISTINCT origin FROM grants WHERE kind = 'standing'")
        return sorted(origin for (origin,) in rows if origin)

    def is_synchronised(self, grants: Sequence[StandingGrant], *, origin: str) -> bool:
        """Whether the book has exactly these of what ``origin`` lists, without changing it."""
        rows = self._database.read(_LISTED, (origin,))
        listed = {row[0]: readable_standing(row[0], row[1]) for row in rows}
        return listed.keys() == {grant.id for grant in grants} and all(
            _listed_alike(listed[grant.id], grant) for grant in grants
        )

    async def prune(self) -> int:
        """Clear away what ended or expired a while ago, and what nobody has used for long.

        Returns how many went. A configured grant stays: that it was revoked must not be forgotten.
        """
        # Whatever goes has ended for everyone already, so nobody need look again.
        return await self._database.write(lambda connection: _prune_in(connection, self._time_ns()))

    def note_use(self, grant_id: str, now_ns: int) -> None:
        """Keep, some time soon, that a grant is in use."""

        def job(connection: Connection) -> None:
            connection.execute(
                LINE + "UPDATE grants SET seen_ns = ?2 WHERE id IN (SELECT id FROM line)",
                (grant_id, now_ns),
            )

        self._database.submit(job)

    # --- within a transaction --------------------------------------------------------------

    def _sync_one(
        self,
        connection: Connection,
        grant: StandingGrant,
        expires_ns: int,
        before: tuple[StandingGrant | None, int | None] | None,
        origin: str,
    ) -> str:
        """Bring one configured grant up to date; says what that meant."""
        if before is None:
            if select(connection, "SELECT 1 FROM grants WHERE id = ?", grant.id):
                raise FileAlreadyExists(
                    f"the configured grant {grant.id!r} has the id of one made elsewhere"
                )
            self._insert_standing(connection, grant, expires_ns, origin)
            self._record_standing(connection, grant, CONFIGURATION, "python", "")
            return "added"
        listed, ended_ns = before
        same = _listed_alike(listed, grant)
        if same and ended_ns is not None:
            return "revoked"
        if same and grant.expires_in is not None:
            return "kept"  # it counts from the first time, or it would never be over
        if not same:
            why = "listed differently"
            for child in select(connection, "SELECT id FROM grants WHERE parent = ?", grant.id):
                self._end(connection, child[0], CONFIGURATION, "python", "", why)
        connection.execute(
            "UPDATE grants SET body = ?, subject = ?, root = ?, expires_ns = ?, ended_ns = NULL"
            " WHERE id = ?",
            (encode_grant(grant), grant.subject, grant.root, expires_ns, grant.id),
        )
        connection.execute(
            _TREE + "UPDATE grants SET expires_ns = ?2"
            " WHERE id IN (SELECT id FROM tree) AND expires_ns > ?2",
            (grant.id, expires_ns),
        )
        if same:
            return "kept"
        self._record_standing(connection, grant, CONFIGURATION, "python", "")
        return "changed"

    def _end(
        self,
        connection: Connection,
        grant_id: str,
        by: str,
        front: str,
        request_id: str,
        reason: str,
    ) -> list[str]:
        now = self._time_ns()
        request_id = request_id or new_id()
        ended: list[str] = []
        for id_, root, subject in select(
            connection,
            _TREE + "UPDATE grants SET ended_ns = ?2 WHERE id IN (SELECT id FROM tree)"
            " AND ended_ns IS NULL RETURNING id, root, subject",
            grant_id,
            now,
        ):
            record = AuthorityRecord(
                time_ns=now, request_id=request_id, subject=by, act="revoke", grant_id=id_,
                root=root, reason=reason, front=front, details={"of": subject, "with": grant_id},
            )  # fmt: skip
            self._chain(connection, record)
            ended.append(id_)
        return ended

    def _insert_standing(
        self, connection: Connection, grant: StandingGrant, expires_ns: int, origin: str
    ) -> None:
        names = (grant.id, "standing", None, origin, grant.subject, grant.root)
        _insert(connection, names, encode_grant(grant), self._time_ns(), expires_ns)

    def _record_standing(
        self, connection: Connection, grant: StandingGrant, by: str, front: str, request_id: str
    ) -> None:
        record = AuthorityRecord(
            time_ns=self._time_ns(), request_id=request_id or new_id(), subject=by, act="grant",
            root=grant.root, grant_id=grant.id, reason=grant.reason, front=front,
            details={
                "to": grant.subject, "access": " ".join(sorted(grant.access)),
                "source": grant.source, "standing": "true",
            },
        )  # fmt: skip
        self._chain(connection, record)

    # --- reading ---------------------------------------------------------------------------

    def _read_standing(self) -> list[tuple[StandingGrant, int]]:
        rows = self._database.read(
            "SELECT id, body, expires_ns FROM grants WHERE kind = 'standing' AND ended_ns IS NULL"
            f" AND (? OR NOT {LISTED_THERE}) ORDER BY seq",
            (self._configured,),
        )
        standing = ((readable_standing(id_, body), expires_ns) for id_, body, expires_ns in rows)
        return [(grant, expires_ns) for grant, expires_ns in standing if grant is not None]

    def _read_lineage(self, grant_id: str) -> tuple[GrantBound, ...] | None:
        rows = self._database.read(
            LINE + "SELECT id, kind, body FROM line JOIN grants USING (id) ORDER BY step",
            (grant_id,),
        )
        if not rows:
            return None
        bounds = []
        for id_, kind, body in rows:
            quota = decode_grant(kind, body).quota
            if quota is not None:
                bounds.append(GrantBound(id_, quota))
        return tuple(bounds)


def new_id() -> str:
    """The id of a request that nobody gave one."""
    return secrets.token_hex(8)


def check_limit(limit: int) -> None:
    if not 1 <= limit <= PAGE_MAX:
        raise ParseError(f"a page has 1 to {PAGE_MAX} rows")


def row_of(cursor: str) -> int:
    """The row a list is to go on after."""
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
        raise ParseError("this is not a cursor of this list")
    return int(cursor)


def select(connection: Connection, sql: str, *given: Any) -> list[tuple[Any, ...]]:
    return connection.execute(sql, given).fetchall()


def _insert(
    connection: Connection,
    names: Iterable[str | None],
    body: bytes,
    now_ns: int,
    expires_ns: int,
) -> None:
    connection.execute(
        "INSERT INTO grants (id, kind, parent, origin, subject, root, body, created_ns, seen_ns,"
        " expires_ns) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*names, body, now_ns, now_ns, expires_ns),
    )


def _release_in(connection: Connection, grant_id: str) -> None:
    connection.execute("UPDATE grants SET released = 1 WHERE id = ? AND kind = 'held'", (grant_id,))
    freed: str | None = grant_id
    while freed is not None:
        gone = select(
            connection,
            f"DELETE FROM grants WHERE id = ? AND released = 1 AND {_CHILDLESS} RETURNING parent",
            freed,
        )
        freed = gone[0][0] if gone else None


def _prune_in(connection: Connection, now_ns: int) -> int:
    past = now_ns - ENDED_KEPT_DAYS * DAY_NS
    removed = 0
    for where, before in (
        ("ended_ns < ?", past),
        ("expires_ns < ?", past),
        (f"kind = 'held' AND seen_ns < ? AND {_CHILDLESS}", now_ns - IDLE_DAYS_MAX * DAY_NS),
        (f"released = 1 AND created_ns <= ? AND {_CHILDLESS}", now_ns),
    ):
        connection.execute(
            f"DELETE FROM grants WHERE id IN (SELECT id FROM grants WHERE {where}"
            f" AND origin = '' LIMIT {_PRUNE_ROWS_MAX})",
            (before,),
        )
        removed += connection.changes()
    return removed


def _listed_alike(before: StandingGrant | None, now: StandingGrant) -> bool:
    """Whether an entry of a configuration says what it said before; when it is over is no part of
    that."""
    if before is None:
        return False
    return msgspec.structs.replace(before, expires_at=now.expires_at) == now


def _living_parent(connection: Connection, parent: str, now_ns: int) -> tuple[str, int]:
    rows = select(connection, "SELECT kind, expires_ns, ended_ns FROM grants WHERE id = ?", parent)
    if not rows or rows[0][2] is not None:
        raise revoked()
    kind, expires_ns, _ = rows[0]
    if now_ns >= expires_ns:
        raise GrantExpired("the time of the grant this would come from is up")
    return kind, expires_ns
