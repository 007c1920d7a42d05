"""Answers that were given under an idempotency key: the same key is answered the same, and what was
asked is not done twice.

A key is taken before anything is done, and the answer is kept after it. All processes that share
the state share the keys, and a restart forgets none. What lies between is this: a process that
dies after it has done something and before it has kept the answer leaves a key that nobody can
answer. Whether it was done is then not known here. Whoever asks again may find it where it was to
be done, since what is changed is marked with a key of its own (`TakenKey.mark`), and goes on for
the one who died (`take_over`). What changes the state itself is kept here, in the commit that makes
it (`under`). Where that cannot be found either they are told so, and it is not
done again.

Keys and requests are kept as digests, answers as they were sent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, NamedTuple

import msgspec

from bailiwick.errors import Closed, FileTooLarge, ParseError, QuotaExceeded
from bailiwick.limits import Limits
from bailiwick.state.database import Connection, Database, DatabasePart
from bailiwick.state.grants.book import select
from bailiwick.state.made_once import changes_in, foretold, under_key, under_way

PART = DatabasePart(
    "idempotency",
    (
        """
        CREATE TABLE answers (
            digest     BLOB PRIMARY KEY,  -- SHA-256 of the caller and the key
            caller     BLOB NOT NULL,     -- SHA-256 of the caller: what is kept is bounded for each
            request    BLOB NOT NULL,     -- SHA-256 of all that was asked
            owner      TEXT NOT NULL,     -- the process that does it, see `Owner`
            status     INTEGER,           -- NULL while it is being done
            headers    BLOB,
            body       BLOB,              -- NULL where it was too large to be kept
            bytes      INTEGER NOT NULL,
            created_ns INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX answers_by_caller ON answers (caller, bytes);
        CREATE INDEX answers_by_age ON answers (created_ns);
        """,
    ),
)

_NOBODY = ""
"""Owns a key that its owner has left, and lives."""

_COLLECTED_MAX = 1_000
"""Answers whose time is up that one request clears away: it should not pay for a whole day."""


class Headers(msgspec.Struct, array_like=True, frozen=True):
    pairs: list[tuple[bytes, bytes]]


class StoredAnswer(NamedTuple):
    """An answer as it was sent."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class TakenKey(NamedTuple):
    """A key that was new, and is now that of what is being done. The same key may be used for
    something else once its time is up: ``mark`` is of this time alone."""

    digest: bytes
    limits: Limits
    mark: bytes


class LeftKey(NamedTuple):
    """A key of which nobody knows here what became of what was asked under it. ``made`` are changes
    of the state that came of it, by name, and what others would have been answered with, had they
    come to pass: see `foretold`."""

    taken: TakenKey
    owner: str
    made: dict[str, Any]


class IdempotencyBook:
    """The keys of one authority, shared by all processes that share its state."""

    def __init__(self, database: Database, *, time_ns: Callable[[], int]) -> None:
        self._database = database
        self._time_ns = time_ns
        self._under_way: set[bytes] = set()
        self._left: set[bytes] = set()  # of ours, and nobody here goes on with them

    async def take(
        self, caller: str, counts_for: str, key: str, request: bytes, limits: Limits
    ) -> TakenKey | LeftKey | StoredAnswer:
        """Take a key, or give the answer that was given under it. ``counts_for`` says whose keys
        are bounded together by ``limits``: see `bailiwick.state.grants.budgets`.

        Raises `ParseError` where the key was used for another request, `Busy` while the first is
        under way, `FileTooLarge` where its answer was not kept, `QuotaExceeded` where that subject
        has as many keys as may be kept.
        """
        digest = hashlib.sha256(hashlib.sha256(caller.encode()).digest() + key.encode()).digest()
        whose = hashlib.sha256(counts_for.encode()).digest()
        oldest = self._time_ns() - int(limits.idempotency_seconds * 1e9)
        begun = False

        def job(connection: Connection) -> TakenKey | LeftKey | StoredAnswer:
            nonlocal begun
            self._let_go(connection)
            connection.execute(
                "DELETE FROM answers WHERE created_ns <= ? AND (digest = ? OR digest IN"
                " (SELECT digest FROM answers WHERE created_ns <= ? LIMIT ?))",
                (oldest, digest, oldest, _COLLECTED_MAX),
            )
            rows = select(
                connection,
                "SELECT created_ns, request, owner, status, headers, body FROM answers"
                " WHERE digest = ? AND created_ns > ?",
                digest, oldest,
            )  # fmt: skip
            if rows:
                ((created_ns, *known),) = rows
                taken = TakenKey(digest, limits, _mark(digest, created_ns))
                return self._known(taken, request, *known)
            self._make_room(connection, whose, limits)
            now_ns = self._time_ns()
            connection.execute(
                "INSERT INTO answers VALUES (?, ?, ?, ?, NULL, NULL, NULL, 0, ?)",
                (digest, whose, request, self._database.owner.name, now_ns),
            )
            self._under_way.add(digest)
            begun = True
            return TakenKey(digest, limits, _mark(digest, now_ns))

        try:
            return await self._database.write(job)
        except BaseException:  # it may be ours all the same: a commit that was not answered
            if begun:
                self._leave(digest)
            raise

    async def take_over(self, left: LeftKey) -> TakenKey:
        """Go on for whoever has left a key. Raises `Busy` where another was first."""
        digest, owner = left.taken.digest, self._database.owner.name
        begun = False

        def job(connection: Connection) -> None:
            nonlocal begun
            if digest in self._under_way:
                raise under_way()
            connection.execute(
                "UPDATE answers SET owner = ? WHERE digest = ? AND owner = ? AND status IS NULL",
                (owner, digest, left.owner),
            )
            if not connection.changes():
                raise under_way()
            self._under_way.add(digest)
            begun = True

        try:
            await self._database.write(job)
        except BaseException:
            if begun:
                self._leave(digest)
            raise
        return left.taken

    def _known(
        self,
        taken: TakenKey,
        request: bytes,
        known: bytes,
        owner: str,
        status: int | None,
        headers: bytes | None,
        body: bytes | None,
    ) -> StoredAnswer | LeftKey:
        if known != request:
            raise ParseError(
                "this Idempotency-Key was used for another request",
                hint="a key is for one request and its repetitions: draw a new one",
            )
        if status is not None and headers is not None:
            if body is None:
                raise FileTooLarge(
                    f"this was done and answered with {status}; the answer was too large to keep",
                    hint="look at what it changed",
                    details={"status": status},
                )
            pairs = msgspec.msgpack.decode(headers, type=Headers).pairs
            return StoredAnswer(status, pairs, body)
        if self._is_under_way(taken.digest, owner):
            raise under_way()
        return LeftKey(taken, owner, changes_in(body) if headers is None else {})

    def _is_under_way(self, digest: bytes, owner: str) -> bool:
        if owner == self._database.owner.name:
            return digest in self._under_way
        return owner != _NOBODY and self._database.owner.is_alive(owner)

    def _make_room(self, connection: Connection, whose: bytes, limits: Limits) -> None:
        ((count, size),) = select(
            connection,
            "SELECT count(*), CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM answers"
            " WHERE caller = ?",
            whose,
        )
        for held, most, what in (
            (count, limits.idempotency_keys_max, "keys"),
            (size, limits.idempotency_bytes_max, "bytes of answers"),
        ):
            if held >= most:
                raise QuotaExceeded(
                    f"{most} {what} are remembered for one caller, and no more",
                    hint="leave out Idempotency-Key, or wait until earlier ones are a day old",
                    details={"limit": most},
                )

    async def foretell(self, taken: TakenKey, what: str, answer: Any) -> None:
        """Keep what a change will be answered with, should it come to pass. Raises `Busy` where
        another goes on with the key."""
        plain = msgspec.to_builtins(answer, enc_hook=str)
        is_small = len(msgspec.json.encode(plain)) <= taken.limits.idempotency_answer_bytes_max
        job = foretold(taken.digest, self._database.owner.name, what, [plain] if is_small else [])
        await self._database.write(job)

    def under(self, taken: TakenKey) -> AbstractContextManager[None]:
        """Have what is changed of the state meanwhile be known again by a key."""
        return under_key(taken.digest, self._database.owner.name)

    async def keep(self, taken: TakenKey, answer: StoredAnswer) -> None:
        """Keep what a key is answered with from now on."""
        headers = msgspec.msgpack.encode(Headers(answer.headers))
        most = taken.limits.idempotency_answer_bytes_max
        body = answer.body if len(answer.body) <= most else None
        size = len(headers) + len(body or b"")

        def job(connection: Connection) -> None:
            connection.execute(
                "UPDATE answers SET status = ?, headers = ?, body = ?, bytes = ? WHERE digest = ?",
                (answer.status, headers, body, size, taken.digest),
            )

        await self._database.write(job)
        self._under_way.discard(taken.digest)

    async def give_back(self, taken: TakenKey) -> None:
        """Let go of a key under which nothing was done."""

        def job(connection: Connection) -> None:
            connection.execute("DELETE FROM answers WHERE digest = ?", (taken.digest,))

        await self._database.write(job)
        self._under_way.discard(taken.digest)

    def ended(self, taken: TakenKey) -> None:
        """What was asked is not under way any more. A key that was neither kept nor given back
        stays, and what became of what was asked is not known: whoever asks again, wherever, may go
        on with it."""
        if taken.digest in self._under_way:
            self._leave(taken.digest)

    def _leave(self, digest: bytes) -> None:
        self._under_way.discard(digest)
        self._left.add(digest)
        with suppress(Closed):
            self._database.submit(self._let_go)

    def _let_go(self, connection: Connection) -> None:
        """Have others see that nobody here goes on. Where that cannot be written now it is with the
        next key that is taken here."""
        left = list(self._left)
        if not left:
            return
        connection.executemany(
            "UPDATE answers SET owner = ? WHERE digest = ? AND owner = ? AND status IS NULL",
            [(_NOBODY, digest, self._database.owner.name) for digest in left],
        )
        self._database.on_commit(lambda: self._left.difference_update(left))


def _mark(digest: bytes, created_ns: int) -> bytes:
    return hashlib.sha256(digest + created_ns.to_bytes(8, "big")).digest()
