"""The tree as it was at a version, as far as that is known: a store that only reads.

A place that was changed through Bailiwick since is what was found there then. One that was not is
what stands there now, if it has not been written since; what other programs changed in between is
not known, and not shown.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, closing
from typing import Any, Final, NoReturn

import msgspec

from bailiwick.errors import (
    Closed,
    IsADirectory,
    NotADirectory,
    NotARegularFile,
    ParseError,
    PathNotFound,
    ReadOnly,
    SymlinkEscape,
)
from bailiwick.model import EntryType, Stat
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.store import Child, Children, Content, Handle, Look
from bailiwick.stores.history.capture import Elsewhere
from bailiwick.stores.history.core import HistoryCore
from bailiwick.stores.history.lineage import END, START, HistoryPosition, begin_of, end_of
from bailiwick.stores.history.states import (
    WENT,
    Effect,
    PlaceState,
    seen,
    unpacked,
    with_content,
)

_FOUND: Final = """
SELECT seq, kind, before FROM effect WHERE entry = ? AND path = ? ORDER BY seq LIMIT 1
"""
_TIME: Final = "SELECT time_ns FROM entry WHERE id >= ? ORDER BY id LIMIT 1"
_ALL: Final = 2**62


class PastHandle:
    """A place as it was. ``live`` is where its content still stands in the tree."""

    def __init__(self, path: ScopedPath, state: PlaceState | None, live: ScopedPath | None) -> None:
        self.path: Final = path
        self.state: Final = state
        self.live: Final = live

    @property
    def type(self) -> EntryType | None:
        return None if self.state is None else self.state.type

    @property
    def size(self) -> int:
        return 0 if self.state is None else self.state.size

    def close(self) -> None:
        """Nothing is held."""


class _PastSearch:
    """What is found out about one path, from now back to a position. ``moved`` is the move that was
    met last, of the thing itself or of a directory ``above`` it."""

    def __init__(self, path: ScopedPath, until: HistoryPosition) -> None:
        self.path: Final = path
        self.until: Final = until
        self.at = END
        self.found: PastHandle | None = None
        self.moved: Effect | None = None
        self.above = False


class PastStore:
    """A tree as it was at a version."""

    def __init__(self, core: HistoryCore, number: int) -> None:
        self._core = core
        self._number = number
        # What was written before the next entry was there at this version, too.
        rows = core.ledger.rows(_TIME, number + 1)
        self._until_ns: int = rows[0][0] if rows else _ALL
        self._closed = False

    @property
    def powers(self) -> frozenset[str]:
        return frozenset()

    @property
    def description(self) -> dict[str, str]:
        return {**self._core.inner.description, "as_of": str(self._number)}

    # --- what was where ----------------------------------------------------------------------

    async def _at(self, path: ScopedPath) -> PastHandle:
        """What stood at a path, by its name then."""
        if path.is_root:
            with closing(await self._core.inner.resolve(ROOT, "object")) as handle:
                return PastHandle(path, seen(await self._core.inner.stat(handle)), ROOT)
        # A thing may have been moved again and again: each move is followed by a search of its own.
        searches = [_PastSearch(path, end_of(self._number))]
        while True:
            search = searches[-1]
            following = self._follow(search)
            if following is not None:
                searches.append(following)
                continue
            found = search.found or await self._live(search.path)
            searches.pop()
            if not searches:
                return found
            outer = searches[-1]
            assert outer.moved is not None
            state = found.state if outer.above else self._read(outer.moved.before, found)
            outer.found = PastHandle(outer.path, state, found.live)

    def _follow(self, search: _PastSearch) -> _PastSearch | None:
        """Go back as far as something else has to be found first; None at the end."""
        lineage, path, until = self._core.lineage, search.path, search.until
        while True:
            at = search.at
            own = lineage.own_before(path, at)
            above = lineage.moved_above(path, at, START if own is None else own[0])
            newest = above or own
            if newest is None:
                return None
            position, effect = newest
            if position <= until:
                found = search.found
                if above is None and (found is None or at.entry > until.entry + 1):
                    live = path if found is None else found.live
                    search.found = PastHandle(path, effect.after, live)
                elif above is not None and effect.kind == WENT and found is None:
                    search.found = PastHandle(path, None, None)
                return None
            search.at = begin_of(position, effect)
            if effect.kind == WENT:  # it stands where it, or its directory, was moved to
                search.moved, search.above = effect, above is not None
                aside = path.relative_to(effect.path).beneath(effect.other)
                return _PastSearch(aside, position._replace(seq=position.seq + 1))
            search.found = PastHandle(path, None if above else effect.before, None)

    def _read(self, state: PlaceState | None, moved: PastHandle) -> PlaceState | None:
        """What was moved, with its content as it was read where it went to."""
        if state is None or moved.state is None:
            return state
        sha256 = self._core.lineage.content(moved.path, moved.state)
        return with_content(state, msgspec.structs.replace(moved.state, sha256=sha256))

    async def _live(self, path: ScopedPath) -> PastHandle:
        """What stands at a path now, if it was there then."""
        try:
            handle = await self._core.looker.place(path)
        except Elsewhere:
            handle = None
        if handle is None:
            return PastHandle(path, None, None)
        with closing(handle):
            stat = await self._core.looker.stat(handle)
        if stat is None or (stat.type != "directory" and stat.mtime_ns > self._until_ns):
            return PastHandle(path, None, None)
        return PastHandle(path, seen(stat), path)

    # --- lookup ------------------------------------------------------------------------------

    async def resolve(
        self, path: ScopedPath, look: Look, *, directory: bool = False, parents: bool = False
    ) -> Handle:
        self._check_open()
        handle = self._found_next(path)
        if handle is None:
            await self._check_above(path)
            handle = await self._at(path)
        if handle.state is None and look == "object":
            raise PathNotFound("it did not exist then, or what it was is not kept", path=path)
        if handle.type == "symlink" and look == "object":
            raise SymlinkEscape("links are not followed in the past", path=path)
        if directory and handle.type not in ("directory", None):
            raise NotADirectory("not a directory", path=path)
        return handle

    def _found_next(self, path: ScopedPath) -> PastHandle | None:
        """What the change that came right after found where it wrote: it need not be looked for
        from now on back, nor what it lay in."""
        following, lineage = self._number + 1, self._core.lineage
        for seq, kind, before in lineage.ledger.rows(_FOUND, following, str(path)):
            at, begin = HistoryPosition(following, seq), HistoryPosition(following, -1)
            state = unpacked(before)
            if kind != WENT and state is not None and not lineage.moved_above(path, at, begin):
                return PastHandle(path, state, None)
        return None

    async def _check_above(self, path: ScopedPath) -> None:
        above = list[ScopedPath]()
        place = path
        while not place.is_root:
            place = place.parent
            above.insert(0, place)
        for each in above:
            state = (await self._at(each)).state
            if state is None:
                raise PathNotFound("no such file or directory", path=path)
            if state.type == "symlink":
                raise SymlinkEscape("links are not followed in the past", path=path)
            if state.type != "directory":
                raise NotADirectory("not a directory", path=path)

    async def descend(self, directory: Handle, name: str) -> Handle:
        self._directory(directory)
        handle = await self._at(directory.path.child(name))
        if handle.state is None:
            raise PathNotFound("no such file or directory", path=handle.path)
        return handle

    async def stat(self, handle: Handle) -> Stat:
        state = self._held(handle)
        return Stat(
            path=handle.path,
            name=handle.path.name,
            type=state.type,
            size=state.size,
            mode=state.mode,
            mtime_ns=state.mtime_ns,
            version=state.version,
            links=1,
            target=state.target,
        )

    async def children(
        self, directory: Handle, *, after: str | None = None, limit: int | None = None
    ) -> Children:
        held = self._directory(directory)
        names = {
            place.relative_to(held.path).parts[0]
            for place in self._core.lineage.known_beneath(
                held.path, self._core.limits.walk_entries_max
            )
        }
        if held.live is not None:
            names |= await self._current_names(held.live)
        entries: list[Child] = []
        for name in sorted(names):
            if after is not None and name <= after:
                continue
            state = (await self._at(held.path.child(name))).state
            if state is None:
                continue
            if limit is not None and len(entries) == limit:
                return Children(entries, more=True)
            entries.append(Child(name, state.type, state.size, state.mtime_ns))
        return Children(entries, more=False)

    async def _current_names(self, path: ScopedPath) -> set[str]:
        try:
            handle = await self._core.looker.place(path)
        except Elsewhere:
            return set()
        if handle is None or handle.type != "directory":
            return set()
        with closing(handle):
            children = (await self._core.inner.children(handle)).entries
        return {child.name for child in children if child.addressable}

    async def names_beside(self, entry: Handle) -> list[str]:
        above = await self._at(entry.path.parent)
        return [child.name for child in (await self.children(above)).entries]

    # --- content -----------------------------------------------------------------------------

    async def read(self, file: Handle, offset: int, length: int) -> Content:
        state = self._file(file)
        if offset < 0 or length < 0:
            raise ParseError("an offset or length is not negative", path=file.path)
        async with aclosing(self.stream(file, offset, length)) as chunks:
            data = b"".join([chunk async for chunk in chunks])
        return Content(data, state.size, state.version)

    async def stream(
        self, file: Handle, offset: int, length: int | None
    ) -> AsyncGenerator[bytes, None]:
        state = self._file(file)
        assert isinstance(file, PastHandle)
        contents = self._core.contents
        sha256 = self._core.lineage.content(file.path, state)
        if sha256 is not None and contents.has(sha256):
            async with aclosing(_window(contents.stream(sha256), offset, length)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        live = None if file.live is None else await self._core.looker.place(file.live)
        if live is None:
            raise PathNotFound("what it held then is not kept", path=file.path)
        with closing(live):
            if not await self._still_holds(live, state, sha256):
                raise PathNotFound("what it held then is not kept", path=file.path)
            async with aclosing(self._core.inner.stream(live, offset, length)) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def _still_holds(self, live: Handle, state: PlaceState, sha256: str | None) -> bool:
        """Whether a file in the tree holds what it held then: by its hash, else by its times."""
        if sha256 is not None:
            known = msgspec.structs.replace(state, sha256=sha256)
            now = await self._core.looker.look(live, known)
            return now is not None and now.sha256 == sha256
        stat = await self._core.looker.stat(live)
        return stat is not None and (
            stat.version == state.version
            or (stat.size == state.size and stat.mtime_ns == state.mtime_ns)
        )

    async def readlink(self, entry: Handle) -> str:
        state = self._held(entry)
        if state.type != "symlink":
            raise ParseError("not a link", path=entry.path)
        if state.target is None:
            raise SymlinkEscape("the link leads outside", path=entry.path)
        return state.target

    # --- nothing is changed ------------------------------------------------------------------

    async def _refuse(self, *given: Any, **more: Any) -> NoReturn:
        self._check_open()
        raise ReadOnly("an earlier version is only looked at")

    write = write_stream = append = truncate = make_dir = remove = _refuse
    move = copy = symlink = set_mode = set_times = _refuse

    async def aclose(self) -> None:
        self._closed = True

    # --- handles -----------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the store is closed")
        self._core.check_open()

    def _held(self, handle: Handle) -> PlaceState:
        self._check_open()
        assert isinstance(handle, PastHandle)
        if handle.state is None:
            raise PathNotFound("no such file or directory", path=handle.path)
        return handle.state

    def _directory(self, handle: Handle) -> PastHandle:
        if self._held(handle).type != "directory":
            raise NotADirectory("not a directory", path=handle.path)
        assert isinstance(handle, PastHandle)
        return handle

    def _file(self, handle: Handle) -> PlaceState:
        state = self._held(handle)
        if state.type == "directory":
            raise IsADirectory("is a directory", path=handle.path)
        if state.type == "symlink":
            raise SymlinkEscape("is a link, which is not followed here", path=handle.path)
        if state.type != "file":
            raise NotARegularFile("not a regular file", path=handle.path)
        return state


async def _window(
    chunks: AsyncGenerator[bytes, None], offset: int, length: int | None
) -> AsyncGenerator[bytes, None]:
    """The part of some chunks that begins at ``offset``."""
    left = length
    async with aclosing(chunks):
        async for chunk in chunks:
            if offset >= len(chunk):
                offset -= len(chunk)
                continue
            piece = chunk[offset:] if left is None else chunk[offset : offset + left]
            offset = 0
            if left is not None:
                left -= len(piece)
            if piece:
                yield piece
            if left == 0:
                return
