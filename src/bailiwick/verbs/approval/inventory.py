"""What a person's answer about a move or copy is bound to: all that would arrive.

Whoever may write where nothing asks could else have one thing approved and carry another: an
approval names places, and what stands at them can be changed until it is redeemed. So what is
carried is looked at when a person is asked, when the approval is redeemed, and once more right
before the act. Of a tree that is every entry at or beneath a place that is asked about; what
nothing asks about could be written where it arrives without a word, and may change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import aclosing, closing
from typing import NamedTuple

from bailiwick.acts import hash_of_words
from bailiwick.call import Call
from bailiwick.errors import (
    BailiwickError,
    NotADirectory,
    PathNotFound,
    SymlinkEscape,
    Unsupported,
    escape_for_display,
)
from bailiwick.model import EntryType, Stat
from bailiwick.paths import ScopedPath
from bailiwick.policy import Allow
from bailiwick.store import Handle
from bailiwick.unchanged import changed_meanwhile
from bailiwick.verbs.checksum import hashed
from bailiwick.verbs.walks.ignore_files import Ignores
from bailiwick.verbs.walks.walk import UNREADABLE, Visit, Walk

_PERMISSIONS = 0o7777

_VERSION = "version "
"""Before the version of what is known by that. No hash begins so."""

_HASH_SHOWN = 12
"""Characters of a hash that are listed: enough to tell two apart by eye."""


class Carried(NamedTuple):
    """What stands at the source of a move or copy. ``data`` is what a file holds, where that is
    small enough to be shown; ``mode`` is that of a file, which is told by itself."""

    sha256: str | None = None
    mode: int | None = None
    size: int | None = None
    data: bytes | None = None
    words: str | None = None
    cut: bool = False

    def is_same_as(self, other: Carried) -> bool:
        return (self.sha256, self.mode) == (other.sha256, other.mode)


class Load:
    """What one call carries from its place to ``to``. ``asked`` are the places that a person is
    asked about where it stands, ``asked_there`` those where it arrives."""

    def __init__(
        self,
        call: Call,
        ignores: Ignores,
        to: ScopedPath,
        asked: frozenset[ScopedPath],
        asked_there: frozenset[ScopedPath],
    ) -> None:
        self._call = call
        self._ignores = ignores
        self._to = to
        self._asked = asked
        self._asked_there = asked_there
        self._seen = Carried()
        self._contents: dict[ScopedPath, str] = {}
        self._bound: set[ScopedPath] = set()

    async def look(self) -> Carried:
        """What is there now, to be shown and agreed to."""
        self._seen = await self._carried()
        return self._seen

    async def require(self) -> None:
        """Refuse unless it is still what was looked at."""
        try:
            same = self._seen.is_same_as(await self._carried())
        except (NotADirectory, PathNotFound, SymlinkEscape):
            same = False
        if not same:
            raise changed_meanwhile(self._call.handle.path)

    def require_content(self, path: ScopedPath, sha256: str) -> None:
        """Refuse content that was read from ``path`` and is not what was looked at there."""
        known = self._contents.get(path)
        if known is None:
            same = not self._is_asked(path) and self._bound.isdisjoint(self._above(path))
        else:
            same = known == sha256 or known.startswith(_VERSION)
        if not same:
            raise changed_meanwhile(self._call.handle.path)

    async def _carried(self) -> Carried:
        call, source = self._call, self._call.handle
        if source.type == "directory":
            return await self._tree()
        stat = await call.store.stat(source)
        if stat.type == "symlink":
            text = await _link_text(call, source, stat)
            words = f"a link to {escape_for_display(text)}"
            return Carried(hash_of_words(f"a link to {text}"), words=words)
        sha256, data = await hashed(call.store, source, call.limits.diff_bytes_max)
        self._contents = {} if sha256 is None else {source.path: sha256}
        return Carried(sha256, stat.mode & _PERMISSIONS, stat.size, data)

    async def _tree(self) -> Carried:
        call, source = self._call, self._call.handle
        taken = _Inventory(call)
        # What policy keeps from the caller was refused before: this is what a person looks at.
        walk = Walk(call, self._ignores, include_ignored=True, judge=lambda path, is_dir: _SEEN)
        with closing(await call.store.resolve(source.path, "object", directory=True)) as top:
            if top.path != source.path:
                raise changed_meanwhile(source.path)
            self._bound = bound = set()
            if self._is_asked(source.path):
                bound.add(source.path)
                await taken.add(top, "")
            async with aclosing(walk.visits(top)) as visits:
                async for visit in visits:
                    if visit.directory.path in bound or self._is_asked(visit.path):
                        if visit.child.type == "directory":
                            bound.add(visit.path)
                        await taken.visit(visit, visit.path.relative_to(source.path))
                    else:
                        taken.listing.others += 1
        if walk.reason is not None:
            raise Unsupported(
                f"a person cannot be asked about all of it: {walk.reason}",
                path=source.path, hint="do it in parts",
            )  # fmt: skip
        self._contents = taken.contents
        return taken.carried(str(sorted(walk.unreadable)))

    def _above(self, path: ScopedPath) -> Iterator[ScopedPath]:
        """The directories of the tree that a path lies in."""
        while path != self._call.handle.path and not path.is_root:
            path = path.parent
            yield path

    def _is_asked(self, path: ScopedPath) -> bool:
        source = self._call.handle.path
        if path in self._asked:
            return True
        return path.relative_to(source).beneath(self._to) in self._asked_there


_SEEN = Allow("preview")


class ShownListing:
    """What a tree or archive holds, as a person is shown it: the first entries, one a line."""

    def __init__(self, lines_max: int) -> None:
        self._lines_max = lines_max - 1  # the first line counts
        self._lines: list[str] = []
        self.entries = 0
        self.size = 0
        self.others = 0
        """Entries that go along, and that nothing asks about."""

    def add(self, path: str, kind: EntryType, mode: int, size: int = 0, about: str = "") -> None:
        """The name comes last: whatever is in it, it cannot pass for what stands before it."""
        self.entries += 1
        self.size += size
        if len(self._lines) >= self._lines_max:
            return
        path = escape_for_display(path)
        if kind == "file":
            said = f"{mode:04o}", f"{size} bytes", about, path
            self._lines.append("  ".join(filter(None, said)))
        elif kind == "symlink":
            self._lines.append(f"link  {path} -> {escape_for_display(about)}")
        elif kind == "directory":
            self._lines.append(f"{mode:04o}  directory  {path or '.'}/")
        else:
            self._lines.append(f"{mode:04o}  neither file, directory nor link  {path}")

    @property
    def cut(self) -> bool:
        return self.entries > len(self._lines)

    @property
    def text(self) -> str:
        first = f"{self.entries} entries, {self.size} bytes in files"
        if self.cut:
            first += f"; the last {self.entries - len(self._lines)} are not listed"
        if self.others:
            first += f"; {self.others} others that nothing asks about"
        return "\n".join((f"{first}:", *self._lines, ""))


def shown_hash(sha256: str) -> str:
    """A hash, as it stands in a listing."""
    return sha256[:_HASH_SHOWN]


class _Inventory:
    """Every entry that counts, in the order of paths: one hash over all, and the list of them."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._digest = hashlib.sha256()
        self._bytes_left = call.limits.ask_tree_bytes_max
        self.listing = ShownListing(call.limits.ask_diff_lines_max)
        self.contents: dict[ScopedPath, str] = {}
        """What each file holds: its hash, or its version."""

    async def visit(self, visit: Visit, path: str) -> None:
        child = visit.child
        if not child.addressable or not await self._examined(visit, path):
            # A name that is no text, unreadable, or gone: known by what its directory says of it.
            self._note(path, child.type, 0, repr(child))
            self.listing.add(path, child.type, 0, child.size, "unreadable")

    async def _examined(self, visit: Visit, path: str) -> bool:
        try:
            with closing(await self._call.store.descend(visit.directory, visit.child.name)) as held:
                await self.add(held, path)
        except PathNotFound:
            return False
        except UNREADABLE:
            return False
        return True

    async def add(self, handle: Handle, path: str) -> None:
        stat = await self._call.store.stat(handle)
        about = ""
        if stat.type == "file":
            about = self.contents[handle.path] = await self._content(handle, stat)
        elif stat.type == "symlink":
            about = await _link_text(self._call, handle, stat)
        elif stat.type == "other":
            about = stat.version
        mode = stat.mode & _PERMISSIONS
        self._note(path, stat.type, mode, about)
        size = stat.size if stat.type == "file" else 0
        self.listing.add(path, stat.type, mode, size, _shown(about, stat.type))

    def _note(self, path: str, kind: EntryType, mode: int, about: str) -> None:
        limit = self._call.limits.ask_tree_entries_max
        if self.listing.entries >= limit:
            raise Unsupported(
                f"a person cannot be asked about more than {limit} entries at once",
                path=self._call.handle.path, hint="do it in parts", details={"limit": limit},
            )  # fmt: skip
        entry = repr((path, kind, mode, about))
        self._digest.update(entry.encode(errors="surrogatepass"))

    async def _content(self, handle: Handle, stat: Stat) -> str:
        """The hash of a file, or its version where hashing would take long, or cannot be done."""
        if stat.size <= self._bytes_left:
            self._bytes_left -= stat.size
            store, limits = self._call.store, self._call.limits
            try:
                sha256, _ = await hashed(store, handle, limits.stream_chunk_bytes)
            except BailiwickError:
                sha256 = None
            if sha256 is not None:
                return sha256
        return f"{_VERSION}{stat.version}"

    def carried(self, unreadable: str) -> Carried:
        self._digest.update(unreadable.encode(errors="surrogatepass"))
        listing = self.listing
        return Carried(
            self._digest.hexdigest(), size=listing.size, words=listing.text, cut=listing.cut
        )


def _shown(about: str, kind: EntryType) -> str:
    if kind != "file":
        return about
    return "bound by its version" if about.startswith(_VERSION) else shown_hash(about)


async def _link_text(call: Call, link: Handle, stat: Stat) -> str:
    """The text of a link; its version, as no text can be, where that is not told."""
    try:
        return await call.store.readlink(link)
    except BailiwickError:
        return f"\0{_VERSION}{stat.version}"
