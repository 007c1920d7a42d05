"""The least that a filesystem in SQLite can be: one table without versions, nothing checked."""

import asyncio
import sqlite3
import sys
from collections.abc import Callable
from typing import Any

import apsw

from bailiwick.sqlite.writer import Frame, WriterThread
from bench.peers.peer import Contenders, Peer
from bench.scratch import SMALL
from bench.timing import Contender

WRITERS = 64
UNVERSIONED = f"an unversioned table, {WRITERS} writers in shared commits"

_TABLE = "CREATE TABLE file (path TEXT PRIMARY KEY, mtime INTEGER, data BLOB) WITHOUT ROWID"
_WRITE = "INSERT OR REPLACE INTO file VALUES (?, ?, ?)"
_READ = "SELECT data FROM file WHERE path = ?"


def _opened(path: str, connect: Callable[[str], Any]) -> Any:
    connection = connect(path)
    for statement in ("PRAGMA journal_mode = wal", "PRAGMA synchronous = full", _TABLE):
        connection.execute(statement)
    connection.execute(_WRITE, ("docs/small.txt", 0, SMALL))
    return connection


class SqliteReference(Peer):
    name = "sqlite3 reference"
    remark = "forty lines: one table, no versions, no hash, no confinement; blocking calls"

    async def open(self) -> None:
        memory, disk = self.places.memory, self.places.disk
        plain = lambda path: sqlite3.connect(path, isolation_level=None)  # noqa: E731
        self._memory = _opened(f"{memory}/reference.db", plain)
        self._disk = _opened(f"{disk}/reference.db", plain)
        self._shared = _opened(f"{memory}/shared.db", apsw.Connection)
        self._writer = WriterThread(self._shared, whose="reference", frame=Frame())

    async def close(self) -> None:
        await asyncio.to_thread(self._writer.close)
        for connection in (self._memory, self._disk, self._shared):
            connection.close()

    def version(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}, Python {sys.version.split()[0]}"

    def volume_read(self) -> Contenders:
        connection, key = self._memory, ("docs/small.txt",)
        read = lambda: connection.execute(_READ, key).fetchone()[0]  # noqa: E731
        yield Contender("sqlite3 reference, read", read, answer=len)

    def volume_write(self) -> Contenders:
        yield self._writing(self._memory)

    def volume_durable(self) -> Contenders:
        yield self._writing(self._disk)

    def _writing(self, connection: Any) -> Contender:
        row = ("docs/small.txt", 1, SMALL)
        return Contender("sqlite3 reference, write", lambda: connection.execute(_WRITE, row))

    def volume_writers(self) -> Contenders:
        async def write(number: int) -> None:
            row = (f"docs/{number}.txt", 1, SMALL)
            await self._writer.run(lambda connection: connection.execute(_WRITE, row))

        async def all_of_them() -> None:
            await asyncio.gather(*map(write, range(WRITERS)))

        yield Contender(UNVERSIONED, all_of_them, awaits=True)
