"""Tables that are described in SQLite's words, in those of PostgreSQL."""

from __future__ import annotations

import re
from typing import Any, Final

from bailiwick.errors import IoError, Unsupported

VERSION_MIN: Final = 16
"""Earlier ones want a name for every table that is made by a query."""

_WORDS: Final = (
    (re.compile(r"\)\s*STRICT(, WITHOUT ROWID)?\s*(?=;|\Z)"), ")"),
    (re.compile(r"\bINTEGER\b"), "BIGINT"),
    (re.compile(r"\bBLOB\b"), "BYTEA"),
    # By their bytes, as they are compared everywhere else.
    (re.compile(r"\bTEXT\b"), 'TEXT COLLATE "C"'),
)
_COMMENT: Final = re.compile(r"--[^\n]*")


def refuse_older(connection: Any, what: str) -> None:
    """Raise `Unsupported` for a server that is too old to keep ``what``."""
    if connection.get_server_version().major < VERSION_MIN:
        raise Unsupported(
            f"{what} are kept in PostgreSQL {VERSION_MIN} or newer", hint="upgrade the server"
        )


def in_postgres_words(script: str) -> str:
    """A script that makes or changes tables, as PostgreSQL takes it."""
    script = _COMMENT.sub("", script)
    for pattern, word in _WORDS:
        script = pattern.sub(word, script)
    return script


def not_ours(hint: str) -> IoError:
    """For tables that are not as they were made: somebody has changed them, or they are of
    something else."""
    return IoError(
        "the tables in the database are not those that Bailiwick made",
        hint=f"is this the right database? Else restore them from a backup ({hint})",
    )
