"""Bringing an SQLite file to the newest schema, and statements to the words of SQLite."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib.resources import files

import apsw

from bailiwick.errors import Unsupported
from bailiwick.sqlite.whose import is_new

APPLICATION_ID = 0x62776B76
"""``bwkv``: says in the file's header whose it is."""

PAGE_BYTES = 4096
"""A commit writes whole pages to the log: with larger ones it takes longer on a real disk."""


READ_SINCE = 7
"""Tables of this version are read as they are, by whoever may not change them yet. What came since
is of no use to reading."""


@cache
def scripts() -> tuple[str, ...]:
    """Each leads to the next version of the schema; one that was published is never changed."""
    room = files(__package__)
    return tuple(
        room.joinpath(name).read_text(encoding="utf-8")
        for name in ("schema.sql", *(f"schema_{number}.sql" for number in range(2, 9)))
    )


_NUMBERED = re.compile(r"\$(\d+)")


@lru_cache(maxsize=1_024)
def for_sqlite(sql: str) -> str:
    """A statement with ``?n`` for ``$n``.

    SQLite takes ``$1`` for a name, and gives names their values in the order in which they first
    appear: ``SELECT $2, $1`` would be answered with the two exchanged.
    """
    return _NUMBERED.sub(r"?\1", sql)


def migrate(connection: apsw.Connection) -> None:
    """Make the tables, or bring them to the newest version, in one transaction.

    Raises `Unsupported` for a database of another program, or of a newer Bailiwick.
    """
    if version_of(connection) == newest_version():
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = version_of(connection)
        for script in scripts()[version:]:
            connection.execute(script)
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", newest_version())
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def version_of(connection: apsw.Connection) -> int:
    """The version of the schema; 0 for an empty file. Changes nothing: to be asked before anything
    is set on a file that may be somebody else's. Raises as `migrate`."""
    if is_new(connection, APPLICATION_ID, "volume"):
        return 0
    version = int(connection.pragma("user_version"))
    if version > newest_version():
        raise newer(version)
    return version


def newest_version() -> int:
    """The version of the schema that this Bailiwick writes."""
    return len(scripts())


def newer(version: int) -> Unsupported:
    return Unsupported(
        f"the volume was written by a newer Bailiwick: its schema has version {version}, this"
        f" one knows {newest_version()}",
        hint="use the newer version of Bailiwick",
    )
