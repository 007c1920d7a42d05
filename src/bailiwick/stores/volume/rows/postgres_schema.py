"""The tables of volumes in PostgreSQL: the scripts of `schema`, in its words."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final, NamedTuple

from bailiwick.errors import Busy
from bailiwick.postgres.words import in_postgres_words, not_ours, refuse_older
from bailiwick.stores.volume.rows import schema

MIGRATING: Final = 0x62776B76
"""The advisory lock under which tables and volumes are made: one process at a time."""

CHANNEL: Final = "bailiwick"
"""Where servers tell each other which volume was changed."""

FOUND: Final = (
    "SELECT EXISTS (SELECT FROM pg_class JOIN pg_namespace ON relnamespace = pg_namespace.oid"
    " WHERE nspname = 'bailiwick' AND relname = 'about')"
)
"""Asked of the tables and not of `to_regclass`, whose memory of what is not there outlasts the wait
for a lock: who waited while another made the tables would make them again."""

_TABLE: Final = re.compile(r"CREATE TABLE (\w+) \((.*?)\n\);", re.DOTALL)
_COLUMN: Final = re.compile(r"^\s*(\w+)\s+(BIGINT|TEXT|BYTEA)\b(.*)$", re.MULTILINE)
_KEY: Final = re.compile(r"PRIMARY KEY \(([\w, ]+)\)")
_ADDED: Final = re.compile(r"ALTER TABLE (\w+) ADD COLUMN (\w+) (\w+)")

_AT_WORK: Final = 0x62776B77
"""The advisory locks of those who have connections: one for each version of the tables."""

_NEWER: Final = "BWNEW"
"""What is raised inside PostgreSQL for tables of a newer Bailiwick."""

_ALONE: Final = """
SELECT coalesce(bool_and(pg_try_advisory_xact_lock($1, older)), true)
FROM generate_series(1, $2 - 1) older
"""
_HERE: Final = """
DO $$ BEGIN
    PERFORM pg_advisory_lock_shared({at_work:d}, {newest:d});
    IF (SELECT version FROM bailiwick.about) > {newest:d} THEN
        RAISE EXCEPTION 'newer tables' USING ERRCODE = '{code}';
    END IF;
END $$
"""
"""Asked after the lock is had: whoever changes the tables has it until they are changed."""

_VERSION: Final = "SELECT version FROM bailiwick.about"
_BEGIN: Final = """
CREATE SCHEMA IF NOT EXISTS bailiwick;
CREATE TABLE bailiwick.about (version BIGINT NOT NULL);
INSERT INTO bailiwick.about (version) VALUES (0);
"""


class VolumeTable(NamedTuple):
    """The columns that are a row's key, and of what type each column is."""

    key: tuple[str, ...]
    types: dict[str, str]


@cache
def tables() -> dict[str, VolumeTable]:
    """The tables by name, as the scripts make them."""
    found: dict[str, VolumeTable] = {}
    for script in schema.scripts():
        script = in_postgres_words(script)
        for name, body in _TABLE.findall(script):
            columns = _COLUMN.findall(body)
            keys = _KEY.findall(body) or [
                column for column, _, rest in columns if "PRIMARY KEY" in rest
            ]
            types = {column: kind for column, kind, _ in columns}
            found[name] = VolumeTable(tuple(keys[0].split(", ")), types)
        for name, column, kind in _ADDED.findall(script):
            found[name].types[column] = kind
    return found


async def migrate(connection: Any) -> bool:
    """Make the tables, or bring them to the newest version, in one transaction that only one
    process has at a time. False where they are left as they are, to be read, since processes of an
    older Bailiwick are at work on them. Raises `Busy` where they cannot even be read so,
    `Unsupported` for an older PostgreSQL or a newer Bailiwick."""
    refuse_older(connection, "volumes")
    newest = schema.newest_version()
    if await _version(connection) == newest:
        return True
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATING)
        version = await _version(connection)
        if version is None:
            await connection.execute(_BEGIN)
            version = 0
        if version and not await connection.fetchval(_ALONE, _AT_WORK, newest):
            if version < schema.READ_SINCE:
                raise older_at_work()
            return version == newest
        for script in schema.scripts()[version:]:
            await connection.execute(in_postgres_words(script))
        await connection.execute("UPDATE bailiwick.about SET version = $1", newest)
    return True


async def begin(connection: Any) -> None:
    """For each connection that stays: as long as it is there, tables of this version are not
    changed by a newer one. Raises `Unsupported` where they were changed already."""
    newest = schema.newest_version()
    try:
        await connection.execute(_HERE.format(at_work=_AT_WORK, newest=newest, code=_NEWER))
    except Exception as error:
        # Its class is of a package that is not there for everyone who knows the tables.
        if getattr(error, "sqlstate", None) == _NEWER:
            raise schema.newer(newest + 1) from None
        raise


def older_at_work() -> Busy:
    return Busy(
        "servers of an older Bailiwick are at work on these volumes: so long they are only read",
        hint="stop them: the tables are brought up to date by the next change",
    )


async def _version(connection: Any) -> int | None:
    """The version of the tables; None where there are none."""
    if not await connection.fetchval(FOUND):
        return None
    version: object = await connection.fetchval(_VERSION)
    if not isinstance(version, int) or version < 0:
        raise not_ours("their version is none")
    if version > schema.newest_version():
        raise schema.newer(version)
    return version
