"""Tokens: what a caller over a network shows instead of being here, kept as hashes only.

A token belongs to a subject, or to one grant that was handed to that subject. Two more things are
kept beside tokens, since every process that serves must know them: links that log a person in once,
and the sessions that come of them. A secret is shown when it is made and never again.

The secret of a session has two halves, with a dot between them, and only both together are known
here: one may travel as a cookie, which others on the same host can see.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from bailiwick.audit import AuthorityRecord
from bailiwick.errors import FileAlreadyExists, ParseError
from bailiwick.grant import Subject, parse_subject
from bailiwick.model import Value
from bailiwick.state.database import Connection, Database, DatabasePart
from bailiwick.state.epoch import LastRead
from bailiwick.state.grants.book import Chain, new_id, select
from bailiwick.state.grants.rows import Read
from bailiwick.state.made_once import once

PART = DatabasePart(
    "tokens",
    (
        """
        CREATE TABLE tokens (
            digest     BLOB PRIMARY KEY,  -- SHA-256 of the secret: 256 random bits need no salt
            kind       TEXT NOT NULL CHECK (kind IN ('token', 'link', 'session')),
            name       TEXT NOT NULL,     -- what a token is known by; '' for links and sessions
            origin     TEXT NOT NULL,     -- the configuration that lists it; '' if made at run time
            subject    TEXT NOT NULL,
            grant_id   TEXT,              -- the one grant it is for; NULL: all of the subject's
            created_ns INTEGER NOT NULL,
            expires_ns INTEGER            -- NULL for one that lasts
        ) STRICT, WITHOUT ROWID;
        CREATE UNIQUE INDEX tokens_by_name ON tokens (name) WHERE kind = 'token';
        """,
    ),
)

_WHOSE = "SELECT kind, name, origin, subject, grant_id, expires_ns FROM tokens WHERE digest = ?"

_NAMED = "SELECT 1 FROM tokens WHERE kind = 'token' AND subject = ? LIMIT 1"

PREFIX = "bwk_"
"""What a secret begins with: whoever finds one in a log knows what it is."""

LINK_SECONDS = 10 * 60.0
"""How long a link waits for the person who started the server."""

SESSION_SECONDS = 12 * 3600.0
"""How long a person stays logged in: a working day."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@\[\]-]{0,99}", re.ASCII).fullmatch

_SECRET = re.compile(r"[!-~]{16,512}", re.ASCII).fullmatch
"""What someone may choose: a shorter secret could be guessed."""

Kind = Literal["token", "link", "session"]


class Token(Value, frozen=True, kw_only=True):
    """A token, and who its bearer is. Never the secret."""

    name: str
    kind: Kind
    subject: str
    grant_id: str | None
    created_ns: int
    expires_ns: int | None


def check_token(name: str, subject: str) -> None:
    """Raise `ParseError` for a name that no token can have, or who is nobody in particular."""
    if not _NAME(name):
        raise ParseError(f"{name[:80]!r} is no name of a token")
    parse_plain_subject(subject)


class TokenBook:
    """The tokens of one authority, shared by all processes that share its state."""

    def __init__(self, database: Database, chain: Chain, *, time_ns: Callable[[], int]) -> None:
        self._database = database
        self._chain = chain
        self._time_ns = time_ns
        self._known = LastRead(database.epoch, self._read)

    # --- looking ---------------------------------------------------------------------------

    def find(self, secret: bytes) -> Token | None:
        """The token or session that a secret is, if it holds now.

        The secret itself is compared with nothing: its hash is looked up, and how long that takes
        says something about the hash alone, of which nobody can make use.
        """
        digest = hashlib.sha256(secret).digest()
        known = self._known.get().get(digest)
        if known is None or not hmac.compare_digest(known[0], digest):
            return None
        token = known[1]
        if token.expires_ns is not None and self._time_ns() >= token.expires_ns:
            return None
        return token

    def holds(self, digest: bytes, token: Token) -> bool:
        """Whether a token that was found earlier is still what its digest stands for, and holds."""
        known = self._known.get().get(digest)
        if known is None or known[1] != token:
            return False
        return token.expires_ns is None or self._time_ns() < token.expires_ns

    def tokens(self) -> list[Token]:
        """Every token that holds now, by name; no links and no sessions."""
        now = self._time_ns()
        held = [
            token
            for _, token in self._known.get().values()
            if token.kind == "token" and (token.expires_ns is None or now < token.expires_ns)
        ]
        return sorted(held, key=lambda token: token.name)

    @property
    def state(self) -> object:
        """Another object once a token was made or ended: to be compared by identity."""
        return self._known.get()

    def _read(self) -> Mapping[bytes, tuple[bytes, Token]]:
        rows = self._database.read(
            "SELECT digest, kind, name, subject, grant_id, created_ns, expires_ns FROM tokens"
            " WHERE kind != 'link'"
        )
        return {
            digest: (
                digest,
                Token(
                    name=name, kind=kind, subject=subject, grant_id=grant_id,
                    created_ns=created_ns, expires_ns=expires_ns,
                ),
            )
            for digest, kind, name, subject, grant_id, created_ns, expires_ns in rows
        }  # fmt: skip

    # --- changing --------------------------------------------------------------------------

    async def issue(
        self,
        name: str,
        subject: str,
        *,
        by: Subject,
        front: str,
        secret: str | None = None,
        grant_id: str | None = None,
        expires_in: float | None = None,
        origin: str = "",
        only_new: bool = False,
    ) -> str:
        """Make the token of a name, in place of the one it had; returns the secret, once. Raises
        `FileAlreadyExists` where it has one and may have ``only_new``.

        ``secret`` is one that someone chose; else it is drawn here. What the name has already is
        not made anew: whoever uses it would lose what is open for them, at each server, whenever
        another that is given the same is started.
        """
        check_token(name, subject)
        if secret is not None and not _SECRET(secret):
            raise ParseError(
                "a token is 16 to 512 printable ASCII characters without spaces",
                hint="leave it out, and one is drawn",
            )
        shown = secret or PREFIX + secrets.token_urlsafe(32)
        row = _TokenRow("token", name, origin, subject, grant_id, expires_in)

        def job(connection: Connection) -> None:
            if only_new and select(
                connection, "SELECT 1 FROM tokens WHERE kind = 'token' AND name = ?", name
            ):
                raise FileAlreadyExists("there is a token of this name already")
            if expires_in is None and self._is_there(connection, shown, row):
                return
            connection.execute(
                "DELETE FROM tokens WHERE kind = 'token' AND (name = ? OR expires_ns <= ?)",
                (name, self._time_ns()),
            )
            self._insert(connection, shown, row)
            self._record(connection, by, front, name, subject, "issued")

        await self._database.write_control(job)
        return shown

    async def revoke(self, name: str, *, by: Subject, front: str) -> bool:
        """End a token, in every process; says whether there was one."""

        def job(connection: Connection) -> bool:
            gone = select(
                connection,
                "DELETE FROM tokens WHERE kind = 'token' AND name = ? RETURNING subject",
                name,
            )
            if gone:
                self._record(connection, by, front, name, gone[0][0], "revoked")
            return bool(gone)

        return await self._database.write_control(once(f"end {name}", job))

    async def sync_configured(self, listed: Mapping[str, str], *, origin: str) -> None:
        """End the tokens that a configuration listed and lists no more, or for someone else."""

        def job(connection: Connection) -> None:
            rows = select(
                connection,
                "SELECT name, subject FROM tokens WHERE kind = 'token' AND origin = ?",
                origin,
            )
            for name, subject in rows:
                if listed.get(name) != subject:
                    connection.execute(
                        "DELETE FROM tokens WHERE kind = 'token' AND name = ?", (name,)
                    )
                    self._record(connection, None, "python", name, subject, "no longer listed")

        if self._database.read("SELECT 1 FROM tokens WHERE origin = ? LIMIT 1", (origin,)):
            await self._database.write_control(job)

    # --- a person at a browser ---------------------------------------------------------------

    async def new_link(self, subject: Subject) -> str:
        """A secret that logs ``subject`` in once, within ten minutes."""
        shown = secrets.token_urlsafe(32)
        row = _TokenRow("link", "", "", str(subject), None, LINK_SECONDS)
        await self._database.write_control(lambda connection: self._insert(connection, shown, row))
        return shown

    async def redeem_link(self, secret: str, *, front: str) -> str | None:
        """Use a link up; returns the secret of a session, both halves of it. None where it is not,
        or no more."""
        digest = hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
        if not self._database.read("SELECT 1 FROM tokens WHERE digest = ?", (digest,)):
            return None  # whoever guesses does not keep the writer busy
        shown = f"{secrets.token_urlsafe(32)}.{secrets.token_urlsafe(32)}"

        def job(connection: Connection) -> str | None:
            now = self._time_ns()
            used = select(
                connection,
                "DELETE FROM tokens WHERE digest = ? AND kind = 'link' RETURNING subject,"
                " expires_ns",
                digest,
            )
            connection.execute(
                "DELETE FROM tokens WHERE kind != 'token' AND expires_ns <= ?", (now,)
            )
            if not used or now >= used[0][1]:
                return None
            subject = used[0][0]
            row = _TokenRow("session", "", "", subject, None, SESSION_SECONDS)
            self._insert(connection, shown, row)
            self._record(connection, parse_subject(subject), front, "session", subject, "issued")
            return shown

        return await self._database.write_control(job)

    async def end_session(self, secret: bytes, *, front: str) -> None:
        """Log out."""
        digest = hashlib.sha256(secret).digest()

        def job(connection: Connection) -> None:
            gone = select(
                connection,
                "DELETE FROM tokens WHERE digest = ? AND kind = 'session' RETURNING subject",
                digest,
            )
            for (subject,) in gone:
                who = parse_subject(subject)
                self._record(connection, who, front, "session", subject, "revoked")

        await self._database.write_control(job)

    # --- rows --------------------------------------------------------------------------------

    def _is_there(self, connection: Connection, secret: str, row: _TokenRow) -> bool:
        """Whether a secret stands for just that, and lasts."""
        digest = hashlib.sha256(secret.encode()).digest()
        return select(connection, _WHOSE, digest) == [
            (row.kind, row.name, row.origin, row.subject, row.grant_id, None)
        ]

    def _insert(self, connection: Connection, secret: str, row: _TokenRow) -> None:
        now = self._time_ns()
        expires_ns = None if row.expires_in is None else now + int(row.expires_in * 1e9)
        connection.execute(
            "INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (digest) DO UPDATE SET"
            " kind = excluded.kind, name = excluded.name, origin = excluded.origin,"
            " subject = excluded.subject, grant_id = excluded.grant_id,"
            " created_ns = excluded.created_ns, expires_ns = excluded.expires_ns",
            (
                hashlib.sha256(secret.encode()).digest(), row.kind, row.name, row.origin,
                row.subject, row.grant_id, now, expires_ns,
            ),
        )  # fmt: skip

    def _record(
        self,
        connection: Connection,
        by: Subject | None,
        front: str,
        name: str,
        subject: str,
        became: str,
    ) -> None:
        record = AuthorityRecord(
            time_ns=self._time_ns(), request_id=new_id(),
            subject="configuration" if by is None else str(by), act="token", front=front,
            details={"token": name, "for": subject, "became": became},
        )  # fmt: skip
        self._chain(connection, record)


class _TokenRow(Value, frozen=True):
    """What is kept of a new secret."""

    kind: Kind
    name: str
    origin: str
    subject: str
    grant_id: str | None
    expires_in: float | None


def parse_plain_subject(text: str) -> Subject:
    """The subject that a text names, without space around any part of it: two names that look the
    same to whoever reads a list of tokens are not two subjects."""
    if any(part != part.strip() for part in re.split("[:/]", text)):
        raise ParseError(f"{text[:80]!r} names no subject: there is space around a part of it")
    return parse_subject(text)


def listed_tokens(configured: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The subjects of configured tokens, by name. Raises `ParseError` for a name that is none."""
    listed = dict(configured)
    for name in listed:
        if not _NAME(name):
            raise ParseError(f"{name[:80]!r} is no name of a token")
    return listed


def has_token(read: Read, subject: str) -> bool:
    """Whether anybody comes by this name with a token of their own."""
    return bool(read(_NAMED, (subject,)))
