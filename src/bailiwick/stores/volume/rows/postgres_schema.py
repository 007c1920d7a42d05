"""The tables of volumes in PostgreSQL: the scripts of `schema`, in its words."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final, NamedTuple

from bailiwick.postgres.words import in_postgres_words, refuse_older
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


async def migrate(connection: Any) -> None:
    """Make the tables, or bring them to the newest version, in one transaction that only one
    process has at a time. Raises `Unsupported` for an older PostgreSQL or a newer Bailiwick."""
    refuse_older(connection, "volumes")
    if await _version(connection) == schema.newest_version():
        return
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATING)
        version = await _version(connection)
        if version is None:
            await connection.execute(_BEGIN)
            version = 0
        for script in schema.scripts()[version:]:
            await connection.execute(in_postgres_words(script))
        await connection.execute("UPDATE bailiwick.about SET version = $1", schema.newest_version())


async def _version(connection: Any) -> int | None:
    """The version of the tables; None where there are none."""
    if not await connection.fetchval(FOUND):
        return None
    version: int = await connection.fetchval(_VERSION)
    if version > schema.newest_version():
        raise schema.newer(version)
    return version
