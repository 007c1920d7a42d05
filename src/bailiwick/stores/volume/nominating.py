"""Which files beneath a directory may hold a match: one pass over the rows of a whole tree.

Reading each file by itself costs more than searching it. Here a directory's files come with their
content in one statement, on a thread and a connection of their own, and in one transaction: what is
looked at is one state of the tree. The answer only names candidates. Whatever is not plainly at
hand (a file of several pieces, in a blob, damaged, slow to search) is named without a look.

Loaded only when something is searched.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

import apsw
from blake3 import blake3

from bailiwick.errors import IoError, Unsupported
from bailiwick.paths import ScopedPath
from bailiwick.search.grep import Query
from bailiwick.sqlite.writer import wait_through_cancellation
from bailiwick.stores.volume.content import Chunk, checked
from bailiwick.stores.volume.core import Core
from bailiwick.stores.volume.guards import is_small_content
from bailiwick.stores.volume.rows import DIRECTORY, FILE
from bailiwick.stores.volume.schema import for_sqlite
from bailiwick.stores.volume.tree import IN_DIRECTORY, IN_LONE_DIRECTORY
from bailiwick.text.sniff import is_binary_search

_FILES_BETWEEN_LOOKS: Final = 64
"""The clock is looked at after so many files."""

_SEARCH_NS_MAX: Final = 1_000_000_000
"""What could take longer than this is left to the search itself, which stops in between. Hardly
anything does: it is a bound for hostile patterns."""

_SIZE_MAX: Final = 2**63 - 1

# A content in one piece comes with its bytes. One with several, with a base, or in a blob has none.
_FILES: Final = """
SELECT d.name, d.node, d.kind, i.size, i.content, i.sha256, i.data, c.hash, c.data, c.packed
"""
_CONTENTS: Final = """
LEFT JOIN manifest m ON m.volume = i.volume AND m.content = i.content AND m.start = 0
    AND i.size <= $6
LEFT JOIN chunk c ON c.volume = i.volume AND c.id = m.chunk AND c.blob IS NULL AND m.size = i.size
"""


def _with_contents(source: str) -> str:
    joined, _, where = source.rpartition("WHERE")
    return for_sqlite(f"{_FILES} {joined} {_CONTENTS} WHERE {where}")


_IN_BRANCH: Final = _with_contents(IN_LONE_DIRECTORY)
_IN_FORK: Final = _with_contents(IN_DIRECTORY)


class Wanted(NamedTuple):
    """What is looked for, and where not; the terms are those of `Nominates.nominate`."""

    query: Query
    binaries: bool
    leave_out: frozenset[str]
    file_bytes_max: int | None


class _Stop(Exception):
    """There is no time left, or nobody waits any more."""


class _Scan:
    """One pass under way."""

    def __init__(self, core: Core, wanted: Wanted, deadline_s: float) -> None:
        self.is_given_up = False
        self._core = core
        self._wanted = wanted
        self._until = time.monotonic() + deadline_s
        self._seen = 0

    def run_blocking(self, top: int, path: ScopedPath) -> set[ScopedPath] | None:
        try:
            with self._core.database.file.aside() as connection:
                return set(self._found(connection, top, path))
        except _Stop:
            return None

    def _found(
        self, connection: apsw.Connection, top: int, path: ScopedPath
    ) -> Iterator[ScopedPath]:
        view, largest = self._core.view, self._wanted.file_bytes_max
        largest = _SIZE_MAX if largest is None else largest
        statement = _IN_BRANCH if len(self._core.levels) == 1 else _IN_FORK
        may_match = self._may_match
        waiting = [(top, path)]
        while waiting:
            self._look()
            node, directory = waiting.pop()
            values = (view.volume, view.branch, view.at, node, "", largest)
            for name, child, kind, size, *content in connection.execute(statement, values):
                if kind == FILE:
                    if size <= largest and may_match(size, *content):
                        yield directory.child(name)
                elif kind == DIRECTORY:
                    below = directory.child(name)
                    if not self._is_left_out(below, path):
                        waiting.append((child, below))

    def _is_left_out(self, directory: ScopedPath, top: ScopedPath) -> bool:
        left_out = self._wanted.leave_out
        return bool(left_out) and directory.relative_to(top) in left_out

    def _may_match(
        self, size: int, content: int | None, sha256: bytes | None, small: bytes | None,
        digest: bytes | None, kept: bytes | None, packed: int | None,
    ) -> bool:  # fmt: skip
        """Whether a file is worth a look. What is not at hand, or not what it should be, is."""
        self._seen += 1
        if self._seen % _FILES_BETWEEN_LOOKS == 0:
            self._look()
        if content is None:
            data = small
            if data is None or not is_small_content(size, sha256, data):
                return True
        else:
            data = kept
            if data is None or digest is None:
                return True
            if packed is not None:
                data = _plain(Chunk(digest, size, None, None, packed), data)
                if data is None:
                    return True
            elif len(data) != size or blake3(data).digest() != digest:
                return True
        query, binaries, _, _ = self._wanted
        if binaries and is_binary_search(data):
            return True
        if query.ns_max(size, 0, 1, 0) > _SEARCH_NS_MAX:
            return True
        return query.may_match(data)

    def _look(self) -> None:
        if self.is_given_up or self._core.is_closed or time.monotonic() > self._until:
            raise _Stop


def _plain(chunk: Chunk, kept: bytes) -> bytes | None:
    """The bytes of a chunk that may be compressed; None where they are not what they should be."""
    try:
        data = checked(chunk, kept)
    except (IoError, Unsupported):
        return None
    return data if isinstance(data, bytes) else bytes(data)


async def nominate(
    core: Core, top: int, path: ScopedPath, wanted: Wanted, deadline_s: float
) -> set[ScopedPath] | None:
    """The files beneath the directory ``top``, whose path is ``path``, that are worth a look.

    None where there was no time to see all. Cancelled, it ends before this does.
    """
    scan = _Scan(core, wanted, deadline_s)
    running = asyncio.get_running_loop().run_in_executor(None, scan.run_blocking, top, path)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        scan.is_given_up = True
        await wait_through_cancellation(running)
        if not running.cancelled():
            running.exception()  # looked at: nobody else will
        raise
