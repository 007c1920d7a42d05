"""Answers that were given under an idempotency key: the same key is answered the same, and what was
asked is not done twice.

A key is taken before anything is done, and the answer is kept after it. All processes that share
the state share the keys, and a restart forgets none. What lies between is this: a process that
dies after it has done something and before it has kept the answer leaves a key that nobody can
answer. Whether it was done is then not known here. Whoever asks again may find it where it was to
be done, since what is changed is marked with a key of its own (`TakenKey.mark`), and goes on for
the one who died (`take_over`). Where that cannot be found either they are told so, and it is not
done again.

Keys and requests are kept as digests, answers as they were sent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from bailiwick.errors import Busy, FileTooLarge, InternalError, ParseError, QuotaExceeded
from bailiwick.limits import Limits
from bailiwick.state.database import Connection, Database, DatabasePart
from bailiwick.state.grants.book import select

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

_FORETOLD_STATUS = 200
"""Of what is foretold: a row has a status once it is answered."""

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
    """A key of which nobody knows here what became of what was asked under it. ``foretold`` is what
    would have been answered, had it come to pass."""

    taken: TakenKey
    owner: str
    foretold: StoredAnswer | None


def interrupted() -> InternalError:
    """What whoever asks again is told where nobody knows what became of it."""
    return InternalError(
        "the server ended while it did this, and whether it was done is not known",
        hint="look at what it would have changed; to do it again, use another key",
        details={"interrupted": True},
    )


class IdempotencyBook:
    """The keys of one authority, shared by all processes that share its state."""

    def __init__(self, database: Database, *, time_ns: Callable[[], int]) -> None:
        self._database = database
        self._time_ns = time_ns
        self._under_way: set[bytes] = set()

    async def take(
        self, caller: str, counts_for: str, key: str, request: bytes, limits: Limits
    ) -> TakenKey | LeftKey | StoredAnswer:
        """Take a key, or give the answer that was given under it. ``counts_for`` is the subject
        against whose bounds it is held: see `bailiwick.state.grants.budgets`.

        Raises `ParseError` where the key was used for another request, `Busy` while the first is
        under way, `FileTooLarge` where its answer was not kept, `QuotaExceeded` where that subject
        has as many keys as may be kept.
        """
        digest = hashlib.sha256(hashlib.sha256(caller.encode()).digest() + key.encode()).digest()
        whose = hashlib.sha256(counts_for.encode()).digest()
        oldest = self._time_ns() - int(limits.idempotency_seconds * 1e9)

        def job(connection: Connection) -> TakenKey | LeftKey | StoredAnswer:
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
            return TakenKey(digest, limits, _mark(digest, now_ns))

        return await self._database.write(job)

    async def take_over(self, left: LeftKey) -> TakenKey:
        """Go on for whoever has left a key. Raises `Busy` where another was first."""
        digest, owner = left.taken.digest, self._database.owner.name

        def job(connection: Connection) -> None:
            if digest in self._under_way:
                raise _under_way()
            connection.execute(
                "UPDATE answers SET owner = ? WHERE digest = ? AND owner = ? AND status IS NULL",
                (owner, digest, left.owner),
            )
            if not connection.changes():
                raise _under_way()
            self._under_way.add(digest)

        await self._database.write(job)
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
        answer = None
        if headers is not None and body is not None:
            pairs = msgspec.msgpack.decode(headers, type=Headers).pairs
            answer = StoredAnswer(status or _FORETOLD_STATUS, pairs, body)
        if status is not None and headers is not None:
            if answer is None:
                raise FileTooLarge(
                    f"this was done and answered with {status}; the answer was too large to keep",
                    hint="look at what it changed",
                    details={"status": status},
                )
            return answer
        mine = owner == self._database.owner.name
        if taken.digest in self._under_way if mine else self._database.owner.is_alive(owner):
            raise _under_way()
        return LeftKey(taken, owner, answer)

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

    async def foretell(self, taken: TakenKey, answer: StoredAnswer) -> None:
        """Keep what a key will be answered with, should what is about to be done come to pass."""
        assert answer.status == _FORETOLD_STATUS, "there is no room for another"
        await self._write(taken, answer, None)

    async def keep(self, taken: TakenKey, answer: StoredAnswer) -> None:
        """Keep what a key is answered with from now on."""
        await self._write(taken, answer, answer.status)

    async def _write(self, taken: TakenKey, answer: StoredAnswer, status: int | None) -> None:
        headers = msgspec.msgpack.encode(Headers(answer.headers))
        most = taken.limits.idempotency_answer_bytes_max
        body = answer.body if len(answer.body) <= most else None
        size = len(headers) + len(body or b"")

        def job(connection: Connection) -> None:
            connection.execute(
                "UPDATE answers SET status = ?, headers = ?, body = ?, bytes = ? WHERE digest = ?",
                (status, headers, body, size, taken.digest),
            )

        await self._database.write(job)

    async def give_back(self, taken: TakenKey) -> None:
        """Let go of a key under which nothing was done."""

        def job(connection: Connection) -> None:
            connection.execute("DELETE FROM answers WHERE digest = ?", (taken.digest,))

        await self._database.write(job)

    def ended(self, taken: TakenKey) -> None:
        """What was asked is not under way any more. A key that was neither kept nor given back
        stays, and what became of what was asked is not known."""
        self._under_way.discard(taken.digest)


def _mark(digest: bytes, created_ns: int) -> bytes:
    return hashlib.sha256(digest + created_ns.to_bytes(8, "big")).digest()


def _under_way() -> Busy:
    return Busy(
        "the first request with this Idempotency-Key is still under way",
        hint="ask again in a moment", details={"retry_after_s": 1.0},
    )  # fmt: skip
