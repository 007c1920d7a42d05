"""The least that a filesystem in SQLite can be: one table without versions, nothing checked."""

import asyncio
import itertools
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import apsw

from bailiwick.sqlite.writer import Frame, WriterThread
from bench.peers.peer import Contenders, Peer
from bench.scratch import SMALL, Sizes
from bench.timing import Contender

WRITERS = 64
REFERENCE_WRITERS = f"sqlite3 reference, {WRITERS} writers in threads, a commit each"
UNVERSIONED = f"an unversioned table, {WRITERS} writers in shared commits"

_TABLE = "CREATE TABLE file (path TEXT PRIMARY KEY, mtime INTEGER, data BLOB) WITHOUT ROWID"
_WRITE = "INSERT OR REPLACE INTO file VALUES (?, ?, ?)"
_READ = "SELECT data FROM file WHERE path = ?"


def written_paths(sizes: Sizes) -> Iterator[str]:
    """Where the writers write: each time other files, until all have had their turn."""
    return itertools.cycle([f"writers/{n % 20:02}/{n:04}.txt" for n in range(sizes.touched)])


def _opened(path: str, connect: Callable[[str], Any]) -> Any:
    connection = connect(path)
    for statement in ("PRAGMA journal_mode = wal", "PRAGMA synchronous = full", _TABLE):
        connection.execute(statement)
    connection.execute(_WRITE, ("docs/small.txt", 0, SMALL))
    return connection


class SqliteReference(Peer):
    name = "sqlite3 reference"
    own = True
    remark = "forty lines: one table, no versions, no hash, no confinement; blocking calls"

    async def open(self) -> None:
        memory, disk = self.places.memory, self.places.disk
        plain = partial(sqlite3.connect, isolation_level=None, check_same_thread=False)
        self._memory = _opened(f"{memory}/reference.db", plain)
        self._disk = _opened(f"{disk}/reference.db", plain)
        self._threads = ThreadPoolExecutor(WRITERS)
        self._shared = _opened(f"{memory}/shared.db", apsw.Connection)
        self._writer = WriterThread(self._shared, whose="reference", frame=Frame())

    async def close(self) -> None:
        await asyncio.to_thread(self._writer.close)
        self._threads.shutdown()
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
        sizes = self.places.sizes
        paths, threads_paths, shared_paths = (written_paths(sizes) for _ in range(3))
        turn = threading.Lock()
        filled = [False, False]

        def fill(which: int, connection: Any) -> None:
            if not filled[which]:  # in the first call, which is not timed
                filled[which] = True
                for path in itertools.islice(written_paths(sizes), sizes.touched):
                    connection.execute(_WRITE, (path, 0, SMALL))

        def write_in_turn(path: str) -> None:
            with turn:
                self._memory.execute(_WRITE, (path, 1, SMALL))

        def in_threads() -> None:
            fill(0, self._memory)
            list(self._threads.map(write_in_turn, itertools.islice(threads_paths, WRITERS)))

        def one_after_the_other() -> None:
            fill(0, self._memory)
            for path in itertools.islice(paths, WRITERS):
                self._memory.execute(_WRITE, (path, 1, SMALL))

        async def write(path: str) -> None:
            row = (path, 1, SMALL)
            await self._writer.run(lambda connection: connection.execute(_WRITE, row))

        async def all_of_them() -> None:
            fill(1, self._shared)
            await asyncio.gather(*map(write, itertools.islice(shared_paths, WRITERS)))

        yield Contender(REFERENCE_WRITERS, in_threads)
        yield Contender(f"sqlite3 reference, one writer {WRITERS} times", one_after_the_other)
        yield Contender(UNVERSIONED, all_of_them, awaits=True)
