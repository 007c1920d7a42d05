"""All entries of one archive, and whether they can stand beside each other."""

from __future__ import annotations

from typing import Final

from bailiwick.archives.bounds import Bounds, Budget
from bailiwick.archives.entries import ArchiveEntry, refused, too_much
from bailiwick.archives.names import check_link
from bailiwick.errors import ParseError, SymlinkEscape
from bailiwick.paths import folded

_IMPLIED: Final = -1
"""The size of a directory that no entry names, but that one lies in."""


class Catalogue:
    """What was seen so far. An entry that does not fit to the others is refused.

    Directories that are only implied by what lies in them count as entries: they are made too.
    """

    def __init__(self, bounds: Bounds, budget: Budget) -> None:
        self._bounds = bounds
        self._budget = budget
        self._portable = bounds.names == "portable"
        self._seen: dict[str, tuple[str, int]] = {}  # path → kind, size
        self._spelled: dict[str, str] = {}

    def add(self, entry: ArchiveEntry, number: int) -> ArchiveEntry:
        """Take one more entry. Returns it with its size, which a copy has from its original."""
        if entry.kind == "symlink":
            if not self._bounds.links:
                raise refused(
                    SymlinkEscape, number, entry.path, "is a link, and none are made here"
                )
            check_link(entry.path, entry.target, number, self._bounds.link_text_bytes_max)
        elif entry.kind == "copy":
            kind, size = self._seen.get(entry.target, ("", 0))
            if kind != "file":
                why = "is a hard link to something that is no earlier file of the archive"
                raise refused(SymlinkEscape, number, entry.path, why)
            entry = entry._replace(size=size)
        if entry.kind in ("file", "copy"):
            self._budget.file(entry.size)
        self._claim_above(entry.path, number)
        self._claim(entry, number)
        return entry

    def _claim_above(self, path: str, number: int) -> None:
        """The directories on the way; those above a known one are known as well."""
        implied: list[str] = []
        above = path.rpartition("/")[0]
        while above:
            kind, _ = self._seen.get(above, ("", 0))
            if kind:
                if kind != "directory":
                    raise refused(ParseError, number, path, f"lies in another entry, a {kind}")
                break
            implied.append(above)
            above = above.rpartition("/")[0]
        for directory in reversed(implied):
            self._put(directory, "directory", _IMPLIED, number)

    def _claim(self, entry: ArchiveEntry, number: int) -> None:
        known = self._seen.get(entry.path)
        if known is not None and known != ("directory", _IMPLIED):
            raise refused(ParseError, number, entry.path, "is in the archive twice")
        if known is not None and entry.kind != "directory":
            why = "has the name of a directory in which other entries lie"
            raise refused(ParseError, number, entry.path, why)
        if known is not None:
            self._seen[entry.path] = ("directory", 0)
            return
        self._put(entry.path, "file" if entry.kind == "copy" else entry.kind, entry.size, number)

    def _put(self, path: str, kind: str, size: int, number: int) -> None:
        if len(self._seen) >= self._bounds.entries_max:
            raise too_much("entries", self._bounds.entries_max)
        self._seen[path] = (kind, size)
        if self._portable and self._spelled.setdefault(folded(path), path) != path:
            why = "differs from another one only in case or accents"
            raise refused(ParseError, number, path, why)
