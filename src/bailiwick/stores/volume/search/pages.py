"""The files of a directory with their content, many in one row.

A search looks at every file, and at most of them once. Whatever Python does for each of them then
counts, and so does each time it lets go of its lock and waits for it again. So SQLite puts together
what is asked for: a page is some entries of one directory with their bytes one after another, made
in one step while another thread goes on.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Final, NamedTuple

import apsw

from bailiwick.model import KiB
from bailiwick.stores.volume.rows import records
from bailiwick.stores.volume.rows.records import BranchView
from bailiwick.stores.volume.rows.schema import for_sqlite
from bailiwick.stores.volume.rows.tree import IN_DIRECTORY, IN_LONE_DIRECTORY, Level

PAGE_NAMES: Final = 128
"""So many names of a level make a page: each page is a time that threads meet."""

TOGETHER_BYTES_MAX: Final = 32 * KiB
"""A larger content is fetched alone: a page never has more than `PAGE_NAMES` times this."""

SMALL, CHUNK, PACKED = "s", "c", "p"
"""How content is kept: in the node's row, in a chunk, in a chunk and compressed. The first is known
by its SHA-256, the others by the BLAKE3 of their plain bytes."""

WITH_CONTENT: Final = SMALL + CHUNK + PACKED

DIRECTORY, ALONE, NAMED, LARGE, OTHER = "d", "a", "n", "l", "o"
"""Of which there is no content in a page: what has to be fetched alone, what is not plainly at hand
(several pieces, a base, a blob, a row that cannot be right), what is larger than was asked for."""

_AS_NAMED: Final = str.maketrans(dict.fromkeys(WITH_CONTENT, NAMED))

DIGEST_BYTES: Final = 32

# The letter of an entry.
_HOW: Final = f"""
CASE WHEN d.kind = {records.DIRECTORY} THEN '{DIRECTORY}'
    WHEN d.kind <> {records.FILE} THEN '{OTHER}'
    WHEN i.size > $6 THEN '{LARGE}'
    WHEN i.content IS NULL AND length(i.data) = i.size AND i.size <= {TOGETHER_BYTES_MAX}
        THEN '{SMALL}'
    WHEN m.size <> i.size OR c.blob IS NOT NULL THEN '{NAMED}'
    WHEN length(c.data) = coalesce(c.packed, i.size) THEN
        CASE WHEN i.size > {TOGETHER_BYTES_MAX} THEN '{ALONE}'
            WHEN c.packed IS NULL THEN '{CHUNK}' ELSE '{PACKED}' END
    ELSE '{NAMED}' END
"""
_IS_SHORT: Final = f"coalesce(length(c.data), length(i.data)) <= {TOGETHER_BYTES_MAX}"

# Aggregates of one statement see its rows in the same order, whatever that is. No name has a slash.
# Every entry has its place in each of them: a condition on some costs more than a few bytes.
_PAGE: Final = f"""
SELECT group_concat({_HOW}, ''), group_concat(d.name, '/'),
    group_concat(coalesce(i.content, d.node)), group_concat(i.size),
    group_concat(iif({_IS_SHORT}, coalesce(length(c.data), length(i.data)), 0)),
    CAST(group_concat(coalesce(c.hash, i.sha256, zeroblob({DIGEST_BYTES})), '') AS BLOB),
    CAST(group_concat(iif({_IS_SHORT}, coalesce(c.data, i.data), x''), x'0a') AS BLOB)
"""
_CONTENTS: Final = """
LEFT JOIN manifest m ON m.volume = i.volume AND m.content = i.content AND m.start = 0
LEFT JOIN chunk c ON c.volume = i.volume AND c.id = m.chunk
"""
_ONE: Final = for_sqlite("""
SELECT c.hash, c.size, c.data, c.packed
FROM manifest m JOIN chunk c ON c.volume = m.volume AND c.id = m.chunk
WHERE m.volume = $1 AND m.content = $2 AND m.start = 0
""")
_LAST_NAME: Final = for_sqlite("""
SELECT count(*), max(name) FROM (
    SELECT name FROM dentry
    WHERE volume = $1 AND branch = $2 AND parent = $3 AND name > $4 AND born <= $5 AND died > $5
    ORDER BY name LIMIT $6)
""")


def _with_contents(source: str) -> str:
    joined, _, where = source.rpartition("WHERE")
    return for_sqlite(f"{_PAGE} {joined} {_CONTENTS} WHERE {where} AND d.name <= $7")


_IN_BRANCH: Final = _with_contents(IN_LONE_DIRECTORY)
_IN_FORK: Final = _with_contents(IN_DIRECTORY)


class Unclear(Exception):
    """A page that cannot be read: a name on it holds a slash."""


class Span(NamedTuple):
    """The entries of a directory after a name."""

    directory: int
    after: str = ""


class ContentPage(NamedTuple):
    """Some entries of a directory, each with its letter, its name, the number of its content or its
    node, the size of its plain bytes, where in ``data`` those that are kept begin, and its digest.

    Whatever is in ``data`` is followed by a newline, but for the last; ``starts`` has one more.
    """

    hows: str
    names: list[str]
    numbers: str
    sizes: str
    starts: list[int]
    digests: bytes
    data: bytes

    def number(self, index: int) -> int:
        return int(self.numbers.split(",")[index])

    def size(self, index: int) -> int:
        return int(self.sizes.split(",")[index])

    def digest(self, index: int) -> bytes:
        return self.digests[DIGEST_BYTES * index : DIGEST_BYTES * (index + 1)]

    def kept(self, index: int) -> bytes:
        return self.data[self.starts[index] : self.starts[index + 1] - 1]


class Pages:
    """Pages of the directories of a tree, as one connection sees it."""

    def __init__(
        self,
        connection: apsw.Connection,
        view: BranchView,
        levels: tuple[Level, ...],
        size_max: int,
    ) -> None:
        self._execute = connection.execute
        self._view = view
        self._levels = levels
        self._size_max = size_max
        self._statement = _IN_BRANCH if len(levels) == 1 else _IN_FORK

    def bounds(self, span: Span) -> tuple[str | None, Span | None]:
        """The last name of a page; None where there is no more. And what follows that page.

        Each level is asked by itself: to sort the names of all would take longer with every page
        of a large directory.
        """
        directory, after = span
        full: list[str] = []
        ends: list[str] = []
        for branch, bound in self._levels:
            values = (self._view.volume, branch, directory, after, bound, PAGE_NAMES)
            for count, last in self._execute(_LAST_NAME, values):
                if count:
                    (full if count == PAGE_NAMES else ends).append(last)
        if full:
            return min(full), Span(directory, min(full))
        return max(ends, default=None), None

    def page(self, span: Span, upto: str) -> ContentPage | None:
        """The entries of a directory up to a name; None where all are hidden. Raises `Unclear`."""
        volume, branch, _, at = self._view
        values = (volume, branch, at, span.directory, span.after, self._size_max, upto)
        (row,) = self._execute(self._statement, values)
        return None if row[0] is None else _page(*row)

    def alone(self, name: str, content: int) -> ContentPage | None:
        """The content of one file in one piece; None where it is not at hand."""
        for digest, size, data, packed in self._execute(_ONE, (self._view.volume, content)):
            if data is not None:
                how = CHUNK if packed is None else PACKED
                return ContentPage(
                    how, [name], str(content), str(size), [0, len(data) + 1], digest, data
                )
        return None


def _page(
    hows: str, names: str, numbers: str, sizes: str, kept_sizes: str, digests: bytes, data: bytes
) -> ContentPage:
    split = names.split("/")
    starts = list(accumulate([int(size) + 1 for size in kept_sizes.split(",")], initial=0))
    if not len(split) == len(hows) == len(starts) - 1:
        raise Unclear
    if len(digests) != DIGEST_BYTES * len(hows):  # whose they are cannot be told
        hows = hows.translate(_AS_NAMED)
    return ContentPage(hows, split, numbers, sizes, starts, digests, data)
