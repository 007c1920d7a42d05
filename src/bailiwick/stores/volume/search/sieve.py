"""Which files of a page may hold a match, and which are binary or not what was written.

All of a page is searched at once for what a match must have in it; only a file that has that is
looked at by itself. Its bytes are compared with their hashes first of all: of a damaged file it
could not be said that nothing in it matches.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from hashlib import sha256
from itertools import pairwise
from typing import Final, NamedTuple

from blake3 import blake3

from bailiwick.errors import IoError, Unsupported
from bailiwick.search.grep import Query
from bailiwick.stores.volume.content.chunks import Chunk, checked
from bailiwick.stores.volume.search.pages import CHUNK, PACKED, SMALL, ContentPage
from bailiwick.stores.volume.search.substrings import contains
from bailiwick.text.sniff import SEARCH_PROBE_BYTES, is_binary_search

_SEARCH_NS_MAX: Final = 1_000_000_000
"""What could take longer than this is left to the search itself, which stops in between. Hardly
anything does: it is a bound for hostile patterns."""


class Sifted(NamedTuple):
    """Places in a page: files that are worth a look, and those that are binary."""

    worth: set[int]
    binary: set[int]


class Sieve:
    """One search, through any number of pages. May be used on several threads.

    ``look`` is called before each file that is looked at by itself, and may end it all.
    """

    def __init__(self, query: Query, binaries: bool, look: Callable[[], None]) -> None:
        self._query = query
        self._binaries = binaries
        self._look = look
        self._hashing = threading.Lock()

    def sift(self, page: ContentPage) -> Sifted:
        # Python's lock is let go of and taken again for each file that is hashed. Where two threads
        # do that at once they wake each other each time, which takes longer than the hashing.
        with self._hashing:
            worth, binary = _damaged(page), set[int]()
        worth.update(self._possible(page))
        if self._binaries:
            binary.update(_binaries(page))
        if page.hows.strip(SMALL + CHUNK):  # of others the page says nothing by itself
            plain = {index for index, how in enumerate(page.hows) if how in (SMALL, CHUNK)}
            worth &= plain
            binary &= plain
            for index, how in enumerate(page.hows):
                if how == PACKED:
                    self._unpack(page, index, worth, binary)
        return Sifted(worth, binary)

    def _possible(self, page: ContentPage) -> Iterator[int]:
        """Files in which something may match, going by the text that each match has in it.

        That text has no newline, so it does not reach from one file into the next."""
        required = self._query.required
        _, names, _, _, starts, _, data = page
        index = 0 if contains(data, required) else len(names)
        while index < len(names):
            at = data.find(required, starts[index])
            if at < 0:
                return
            index = bisect_right(starts, at, index) - 1
            if self._may_match(page.kept(index)):
                yield index
            index += 1

    def _may_match(self, data: bytes) -> bool:
        self._look()
        query = self._query
        return query.ns_max(len(data), 0, 1, 0) > _SEARCH_NS_MAX or query.may_match(data)

    def _unpack(self, page: ContentPage, index: int, worth: set[int], binary: set[int]) -> None:
        self._look()
        kept = page.kept(index)
        chunk = Chunk(page.digest(index), page.size(index), None, None, len(kept))
        try:
            data = bytes(checked(chunk, kept))
        except (IoError, Unsupported):
            worth.add(index)
            return
        if self._binaries and is_binary_search(data):
            binary.add(index)
        if self._may_match(data):
            worth.add(index)


def _damaged(page: ContentPage) -> set[int]:
    """Those whose bytes are not what was written; of packed ones that is not told here."""
    hows, _, _, _, starts, digests, data = page
    view = memoryview(data)
    if not hows.strip(CHUNK):
        found = [blake3(view[start : end - 1]).digest() for start, end in pairwise(starts)]
        if b"".join(found) == digests:
            return set()
    damaged = set[int]()
    for index, how in enumerate(hows):
        if how in (SMALL, CHUNK):
            kept = view[starts[index] : starts[index + 1] - 1]
            hashed = sha256(kept) if how == SMALL else blake3(kept)
            if hashed.digest() != page.digest(index):
                damaged.add(index)
    return damaged


def _binaries(page: ContentPage) -> Iterator[int]:
    """Those that a search takes for binary."""
    _, _, _, _, starts, _, data = page
    at = data.find(0)
    while at >= 0:
        index = bisect_right(starts, at) - 1
        if at - starts[index] < SEARCH_PROBE_BYTES:
            yield index
        at = data.find(0, starts[index + 1])
