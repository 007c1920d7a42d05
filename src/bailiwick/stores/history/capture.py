"""Looking at what stands at a place, and keeping it before it is changed.

By handles that the wrapped store gave: nothing here is looked up by a name that was not checked to
be the place itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import aclosing, closing, suppress
from typing import Final

from bailiwick.errors import (
    BailiwickError,
    Busy,
    Closed,
    FileTooLarge,
    HashMismatch,
    NotADirectory,
    PathNotFound,
    SymlinkEscape,
    TooManyLinks,
)
from bailiwick.limits import Limits
from bailiwick.model import Expected, MiB, Stat
from bailiwick.paths import DEPTH_MAX, ROOT, ScopedPath
from bailiwick.store import Child, Handle, Store
from bailiwick.stores.history.contents import SMALL_BYTES_MAX, Contents
from bailiwick.stores.history.lineage import Lineage
from bailiwick.stores.history.states import PlaceState, seen

_LOOKS_MAX: Final = 8
"""Times a file is read anew that others rewrite meanwhile; then it is said not to be kept."""

_HELD_BYTES_MAX: Final = 8 * MiB
"""Small content of one change that is held in memory before it is written down."""

_PAGE: Final = 1_000


class Elsewhere(Exception):
    """The way to a place is not made of directories any more: a link stands in it."""


class Allowance:
    """What one change may keep, and what it has kept so far.

    ``missed`` counts places that are not even listed, since they were too many.
    """

    def __init__(self, limits: Limits) -> None:
        self.bytes_left = limits.history_bytes_max
        self.entries_left = limits.history_entries_max
        self.small: dict[bytes, bytes] = {}
        self.small_bytes = 0
        self.missed = 0

    def keep(self, sha256: str, data: bytes) -> None:
        """Have small content written down with the change: what it replaces, or is to leave."""
        self.small[bytes.fromhex(sha256)] = data
        self.small_bytes += len(data)

    def kept(self, state: PlaceState | None) -> bytes | None:
        """The content of what stood there, where it is small; nothing stands there without any."""
        if state is None:
            return b""
        return None if state.sha256 is None else self.small.get(bytes.fromhex(state.sha256))


class Looker:
    """Looks at one store, for one history."""

    def __init__(self, inner: Store, contents: Contents, lineage: Lineage, limits: Limits) -> None:
        self.inner: Final = inner
        self.contents: Final = contents
        self.lineage: Final = lineage
        self.limits: Final = limits

    # --- at one place ------------------------------------------------------------------------

    async def stat(self, handle: Handle) -> Stat | None:
        """What stands under a held name now."""
        try:
            return await self.inner.stat(handle)
        except PathNotFound:
            return None

    async def place(self, path: ScopedPath) -> Handle | None:
        """The entry at exactly this path; None where a directory on the way is missing.

        Raises `Elsewhere` where the way leads over a link: it was put there since.
        """
        try:
            handle = await self.inner.resolve(path, "object" if path == ROOT else "entry")
        except PathNotFound:
            return None
        except (NotADirectory, SymlinkEscape, TooManyLinks):
            raise Elsewhere from None
        if handle.path != path:
            handle.close()
            raise Elsewhere
        return handle

    async def now(self, path: ScopedPath, known: PlaceState | None = None) -> PlaceState | None:
        """What stands at a path, with its hash, read only where it is not ``known`` already."""
        handle = await self.place(path)
        if handle is None:
            return None
        with closing(handle):
            return await self.look(handle, known)

    async def require(self, path: ScopedPath, expected: Expected) -> None:
        """Refuse what is not as a caller expects it. Raises `HashMismatch`."""
        if expected.conditional:
            state = None
            with suppress(Elsewhere):
                state = await self.now(path)
            version, sha256 = (None, None) if state is None else (state.version, state.sha256)
            expected.check(path, version, sha256)

    async def look(self, handle: Handle, known: PlaceState | None = None) -> PlaceState | None:
        """What stands under a held name. Nothing is kept."""
        stat = await self.stat(handle)
        if stat is None or stat.type != "file":
            return None if stat is None else seen(stat)
        if known is not None and known.version == stat.version:
            return seen(stat, known.sha256, known.lost)
        if stat.size > self.limits.history_bytes_max:
            return seen(stat)
        digest = hashlib.sha256()
        try:
            async with aclosing(self.inner.stream(handle, 0, None)) as chunks:
                async for chunk in chunks:
                    digest.update(chunk)
        except Closed:
            raise
        except BailiwickError:
            return seen(stat)
        return seen(stat, digest.hexdigest())

    # --- before a change ---------------------------------------------------------------------

    async def keep(
        self, handle: Handle, keeping: Allowance, *, content: bool = True
    ) -> PlaceState | None:
        """What stands under a held name, its content kept. Without ``content`` only small content
        is: nothing of it is about to be lost. Raises `IoError` where it cannot be kept."""
        stat: Stat | None = None
        for _ in range(_LOOKS_MAX):
            stat = await self.stat(handle)
            if stat is None:
                return None
            if stat.type != "file":
                return seen(stat, lost=_why_lost(stat))
            try:
                if stat.size <= SMALL_BYTES_MAX:
                    state = await self._keep_small(handle, stat, keeping)
                elif content:
                    state = await self._keep_large(handle, stat, keeping)
                else:
                    return seen(stat)
            except (HashMismatch, PathNotFound, Busy):
                continue
            if state is not None:
                return state
        return None if stat is None else seen(stat, lost="others kept changing it")

    async def _keep_small(
        self, handle: Handle, stat: Stat, keeping: Allowance
    ) -> PlaceState | None:
        """None where it is another file by now."""
        try:
            content = await self.inner.read(handle, 0, SMALL_BYTES_MAX + 1)
        except (Closed, HashMismatch, PathNotFound, Busy):
            raise
        except BailiwickError as error:
            return seen(stat, lost=f"it could not be read ({error.kind})")
        if content.version != stat.version:
            return None
        sha256 = hashlib.sha256(content.data).hexdigest()
        keeping.keep(sha256, content.data)
        return seen(stat, sha256)

    async def _keep_large(
        self, handle: Handle, stat: Stat, keeping: Allowance
    ) -> PlaceState | None:
        known = self.lineage.newest(stat.path)
        sha256 = known.sha256 if known is not None and known.version == stat.version else None
        if sha256 is not None and self.contents.has(sha256):
            return seen(stat, sha256)
        if stat.size > keeping.bytes_left:
            return seen(stat, lost="it was larger than history_bytes_max")
        source = _Source(self.inner, handle)
        try:
            sha256, size = await self.contents.keep_stream(source.chunks(), keeping.bytes_left)
        except FileTooLarge:
            return None
        except BailiwickError as error:
            if source.refused is None:
                raise  # it is the history that cannot be written
            if isinstance(error, (Closed, HashMismatch, PathNotFound, Busy)):
                raise
            return seen(stat, lost=f"it could not be read ({error.kind})")
        keeping.bytes_left -= size
        after = await self.stat(handle)
        if after is None or after.version != stat.version:
            return None
        return seen(stat, sha256)

    # --- trees -------------------------------------------------------------------------------

    async def keep_tree(
        self, handle: Handle, keeping: Allowance
    ) -> list[tuple[ScopedPath, PlaceState]]:
        """What stands under a held name and all beneath it, a directory before what lies in it.
        Links are not followed. Beyond the limits it is counted only."""
        found: list[tuple[ScopedPath, PlaceState]] = []
        state = await self.keep(handle, keeping)
        if state is None:
            return found
        found.append((handle.path, state))
        if state.type == "directory":
            descent = _Descent(self.inner, handle)
            try:
                while (child := await descent.next()) is not None:
                    await self._keep_child(descent, child, keeping, found)
            finally:
                descent.close()
        return found

    async def _keep_child(
        self, descent: _Descent, child: Child, keeping: Allowance,
        found: list[tuple[ScopedPath, PlaceState]],
    ) -> None:  # fmt: skip
        if keeping.entries_left <= 0 or not child.addressable or descent.is_too_deep:
            keeping.missed += 1
            return
        handle = await descent.hold(child.name)
        if handle is None:
            return
        state = None
        try:
            state = await self.keep(handle, keeping)
            if state is not None:
                keeping.entries_left -= 1
                found.append((handle.path, state))
        finally:
            descent.enter_or_close(handle, state)
        await self.put_down(keeping)

    async def put_down(self, keeping: Allowance) -> None:
        """Write down what is kept of a change that is still being looked at, where it is much."""
        if keeping.small_bytes > _HELD_BYTES_MAX:
            await self.lineage.ledger.keep(keeping.small)
            keeping.small, keeping.small_bytes = {}, 0

    async def states_beneath(self, path: ScopedPath) -> list[tuple[ScopedPath, PlaceState]]:
        """What stands at a path and beneath it, by name and version only."""
        handle = await self.place(path)
        if handle is None:
            return []
        with closing(handle):
            stat = await self.stat(handle)
            if stat is None:
                return []
            found = [(path, seen(stat))]
            if stat.type == "directory":
                descent = _Descent(self.inner, handle)
                try:
                    while (child := await descent.next()) is not None:
                        await self._see_child(descent, child, found)
                finally:
                    descent.close()
        return found

    async def _see_child(
        self, descent: _Descent, child: Child, found: list[tuple[ScopedPath, PlaceState]]
    ) -> None:
        too_many = len(found) > self.limits.history_entries_max
        if not child.addressable or too_many or descent.is_too_deep:
            return
        handle = await descent.hold(child.name)
        if handle is None:
            return
        state = None
        try:
            stat = await self.stat(handle)
            if stat is not None:
                state = seen(stat)
                found.append((handle.path, state))
        finally:
            descent.enter_or_close(handle, state)


class _Descent:
    """A walk over a tree of the wrapped store, a directory before what lies in it. It holds one
    handle a level, and goes no deeper than a path can name."""

    def __init__(self, inner: Store, top: Handle) -> None:
        """``top`` stays the caller's to close."""
        self._inner = inner
        self._top = top
        self._levels: list[_Page] = [_Page(top)]

    async def next(self) -> Child | None:
        """The next entry, in the directory that was entered last; None at the end."""
        while self._levels:
            page = self._levels[-1]
            if not page.entries and page.more:
                entries, page.more = await self._inner.children(
                    page.directory, after=page.after, limit=_PAGE
                )
                page.entries = entries[::-1]
                page.more = page.more and bool(entries)
            if page.entries:
                child = page.entries.pop()
                page.after = child.name
                return child
            self._levels.pop()
            if page.directory is not self._top:
                page.directory.close()
        return None

    @property
    def is_too_deep(self) -> bool:
        """Whether no path names what lies in the directory that was entered last."""
        return self._levels[-1].directory.path.levels >= DEPTH_MAX

    async def hold(self, name: str) -> Handle | None:
        """One name of the directory that was entered last; None where it is gone."""
        try:
            return await self._inner.descend(self._levels[-1].directory, name)
        except PathNotFound:
            return None

    def enter_or_close(self, handle: Handle, state: PlaceState | None) -> None:
        """Go into what was held, if it is a directory."""
        if state is not None and state.type == "directory":
            self._levels.append(_Page(handle))
        else:
            handle.close()

    def close(self) -> None:
        for page in self._levels:
            if page.directory is not self._top:
                page.directory.close()


class _Page:
    """What is left to be looked at of one directory."""

    def __init__(self, directory: Handle) -> None:
        self.directory = directory
        self.entries: list[Child] = []
        self.after: str | None = None
        self.more = True


class _Source:
    """The content of a file, and whether it was the file that failed while it was copied."""

    def __init__(self, inner: Store, handle: Handle) -> None:
        self._inner = inner
        self._handle = handle
        self.refused: BailiwickError | None = None

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async with aclosing(self._inner.stream(self._handle, 0, None)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except BailiwickError as error:
            self.refused = error
            raise


def _why_lost(stat: Stat) -> str:
    if stat.type == "other":
        return "it was neither file, directory nor link"
    if stat.type == "symlink" and stat.target is None:
        return "it was a link that leads outside"
    return ""
