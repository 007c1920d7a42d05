"""What PostgreSQL, or the way to it, says went wrong, in the words of this house."""

from __future__ import annotations

import errno
from typing import Final

import asyncpg

from bailiwick.errors import BailiwickError, Busy, InternalError, IoError, ParseError
from bailiwick.postgres.words import not_ours

FAILURES: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
    UnicodeEncodeError,
)
"""All that a statement may raise. The client's own internal error is what a connection raises that
dies in the middle of an answer."""

_TRY_AGAIN: Final = frozenset({"40001", "40P01", "53300", "55P03", "57014"})
"""Others were in the way: a serialization failure, a deadlock, too many connections, a lock or a
statement that took too long."""

_NOT_TEXT: Final = frozenset({"22021", "22P05"})
"""A text that holds NUL, or what is no character."""

_NO_ROOM: Final = frozenset({"53100"})

_THERE: Final = frozenset({"23505"})
"""A row with the same key: somebody who was taken for lost has made the change after all."""

_REFUSED: Final = {
    "28": "PostgreSQL does not let this user in",
    "3D": "PostgreSQL has no such database",
    "42501": "PostgreSQL refuses this user what is needed",
}

_OTHER_TABLES: Final = ("42", "23502")
"""There is no such table or column, or it is something else; what should be in a row is not."""

SOON: Final = {"retry_after_s": 1.0}
"""A database is started again, or its standby takes over, within seconds."""

_MACHINE: Final = ("08", "25", "53", "57", "58", "72", "F0", "XX")
"""Classes of what happens to a server and to connections, whatever is asked of it."""


def from_postgres(error: BaseException) -> BailiwickError:
    """The error to be raised for one of `FAILURES`. What the server wrote is not repeated: it may
    name hosts, users and rows."""
    if isinstance(error, UnicodeEncodeError) or isinstance(error.__cause__, UnicodeEncodeError):
        return ParseError("a name is not valid text")
    if not isinstance(error, asyncpg.PostgresError):
        return _from_client(error)
    code = error.sqlstate or ""
    if code in _NOT_TEXT:
        return ParseError("a name is not valid text")
    if code in _TRY_AGAIN:
        return Busy("the database is busy", hint=f"SQLSTATE {code}", details=dict(SOON))
    if code in _THERE:
        return IoError(
            "this was done already", hint="ask for it again under the same key", details=dict(SOON)
        )
    if code in _NO_ROOM:
        return IoError("the database has no room left", errno=errno.ENOSPC)
    for beginning, what in _REFUSED.items():
        if code.startswith(beginning):
            return IoError(what, hint=f"SQLSTATE {code}")
    if code.startswith(_MACHINE):
        return IoError(
            "the database failed, or is not there", hint=f"SQLSTATE {code}", details=dict(SOON)
        )
    if code.startswith(_OTHER_TABLES):
        return not_ours(f"SQLSTATE {code}")
    return InternalError(f"the database refused a statement (SQLSTATE {code})")


def in_doubt() -> IoError:
    """For a commit that was not answered, of which nobody can tell whether it has happened."""
    return IoError(
        "the database gave no answer in time, and may have done it", errno=errno.ETIMEDOUT,
        hint="look, or ask again under the same Idempotency-Key", details=dict(SOON),
    )  # fmt: skip


def is_lost(error: BaseException) -> bool:
    """Whether the answer was lost on the way, and with it what became of the statement."""
    if isinstance(error, asyncpg.PostgresError):
        return (error.sqlstate or "").startswith(("08", "57P"))
    return not isinstance(error, (TimeoutError, UnicodeEncodeError))


def _from_client(error: BaseException) -> BailiwickError:
    if isinstance(error, TimeoutError):
        return Busy("the database does not answer in time", details=dict(SOON))
    return IoError("the database cannot be reached", hint=type(error).__name__, details=dict(SOON))
