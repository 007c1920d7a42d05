"""Bringing a tree from one scope into another: files, directories, links, with modes and times.

It uses the verbs of the two scopes and nothing else, so whatever holds for a caller holds here:
both sides are confined, governed and recorded, no link is followed out of either, and it works
between any two places, a directory, a volume or a server alike. That is also why it stands beside
the scope and not in a front: a program that brings trees in wants the same care as the command.

A transfer can be interrupted at any moment and begun again. Files appear whole or not at all, with
their times set last, so that one which was not finished never looks as if it were. What is the same
on both sides already is passed over. What stands in the target only is left alone.

It is not one transaction: whoever changes the source meanwhile gets some of it before and some
after. Two names of one file become two files. Owners and extended attributes are not kept.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine
from contextlib import aclosing
from typing import Any, Final, Literal, NamedTuple

import msgspec

from bailiwick.errors import (
    BailiwickError,
    Closed,
    FileAlreadyExists,
    GrantExpired,
    GrantRevoked,
    InternalError,
    IoError,
    NotARegularFile,
    PathNotFound,
    QuotaExceeded,
    ReadOnly,
    Unauthenticated,
    UntrustedWorkspace,
)
from bailiwick.model import Entry, MiB, Stat, Value
from bailiwick.paths import DEPTH_MAX, ScopedPath, parse
from bailiwick.scope import Scope

Compare = Literal["times", "content", "never"]
"""When a file that stands on both sides is the same: by size and time of change; by its content as
well, which reads both; or never, which copies everything anew."""

AsyncWork = Coroutine[Any, Any, None]

PARALLEL_FILES: Final = 16
"""Files under way at once. Commits and syncs are waited for together, and memory stays bounded."""

PARALLEL_DIRECTORIES: Final = 8
"""Directories under way at once: a tree of many small ones would else go one file at a time."""

WHOLE_BYTES_MAX: Final = 1 * MiB
"""A file up to this size is read and written in one call each; a larger one is streamed."""

_PERMISSIONS: Final = 0o777
_WORKABLE: Final = 0o700
"""What a new directory has while it is filled: its own mode may forbid that."""

_HOPELESS = (
    Closed, GrantExpired, GrantRevoked, InternalError, IoError, QuotaExceeded, ReadOnly,
    Unauthenticated, UntrustedWorkspace,
)  # fmt: skip
"""Errors of the target after which no other file would fare better: a full disk, a closed scope."""


class LeftOut(Value, frozen=True, kw_only=True):
    """Something that was not brought over, and why."""

    path: ScopedPath
    error_kind: str
    reason: str


class Transferred(Value, frozen=True, kw_only=True):
    """What a transfer did. ``unchanged`` are files and links that were the same already."""

    files: int
    directories: int
    links: int
    bytes: int
    unchanged: int
    left_out: list[LeftOut]


class Extent(NamedTuple):
    """How much there is to bring over."""

    files: int
    bytes: int


class Progress(msgspec.Struct):
    """How far a transfer has come. Told again and again: the same object, changed."""

    files: int = 0
    bytes: int = 0
    path: str = ""


async def measure(source: Scope, path: str = ".", *, include_ignored: bool = True) -> Extent:
    """Count what a transfer would look at: for who wants to see how far it has come."""
    files = size = 0
    waiting = [path]
    while waiting:
        async with aclosing(_children(source, waiting.pop(), include_ignored)) as entries:
            async for entry in entries:
                if entry.type == "directory" and entry.addressable:
                    if entry.path.levels < DEPTH_MAX:
                        waiting.append(entry.path)
                elif entry.type == "file":
                    files += 1
                    size += entry.size
    return Extent(files, size)


async def transfer(
    source: Scope,
    target: Scope,
    path: str = ".",
    to: str = ".",
    *,
    compare: Compare = "times",
    include_ignored: bool = True,
    without: Collection[str] = (),
    told: Callable[[Progress], None] | None = None,
) -> Transferred:
    """Bring the directory or file ``path`` of ``source`` to the place ``to`` of ``target``.

    What cannot be brought over is left out and reported: special files, links that lead out,
    names that are no text, what a rule refuses, what is something else in the target already.
    Paths of the source that stand in ``without`` are not looked at: a target that lies in its own
    source would else never end. Raises where going on makes no sense: the target is full,
    read-only or closed.
    """
    work = _Transfer(source, target, compare, include_ignored, frozenset(without), told)
    try:
        return await work.run(path, to)
    except BaseExceptionGroup as group:
        raise _first(group) from None


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _children(scope: Scope, path: str, include_ignored: bool) -> AsyncGenerator[Entry, None]:
    cursor = None
    while True:
        page = await scope.list(path, cursor=cursor, include_ignored=include_ignored)
        for entry in page.entries:
            yield entry
        cursor = page.next_cursor
        if cursor is None:
            return


class _SourceFailed(Exception):
    """Reading failed: that is about one file, whatever the kind of error."""

    def __init__(self, error: BailiwickError) -> None:
        super().__init__()
        self.error = error


class _Transfer:
    def __init__(
        self,
        source: Scope,
        target: Scope,
        compare: Compare,
        include_ignored: bool,
        without: frozenset[str],
        told: Callable[[Progress], None] | None,
    ) -> None:
        self._source = source
        self._target = target
        self._compare = compare
        self._include_ignored = include_ignored
        self._without = without
        self._told = told
        self._progress = Progress()
        self._turns = asyncio.Semaphore(PARALLEL_FILES)
        self._directories_open = 0
        self._files = self._directories = self._links = self._bytes = self._unchanged = 0
        self._left_out: list[LeftOut] = []

    async def run(self, path: str, to: str) -> Transferred:
        top = await self._source.stat(path)
        place = parse(to).path
        if top.type == "directory":
            if not place.is_root:
                await self._target.make_dir(place, parents=True)
            await self._fill(top.path, place, fresh=False)
            if not place.is_root:
                await self._finish_directory(top, place)
        elif top.type == "file":
            await self._guarded(top.path, self._file(top.path, place, fresh=False))
        else:
            raise NotARegularFile("is neither a file nor a directory", path=path)
        self._left_out.sort(key=lambda each: each.path.order)
        return Transferred(
            files=self._files, directories=self._directories, links=self._links,
            bytes=self._bytes, unchanged=self._unchanged, left_out=self._left_out,
        )  # fmt: skip

    # --- directories -------------------------------------------------------------------------

    async def _fill(self, path: str, to: ScopedPath, *, fresh: bool) -> None:
        """Bring over what lies in a directory. ``fresh``: we made it, so nothing stands in it."""
        children = _children(self._source, path, self._include_ignored)
        async with aclosing(children), asyncio.TaskGroup() as group:
            async for entry in children:
                if not entry.addressable:
                    self._leave(entry, "parse_error", "its name is no valid text")
                    continue
                if str(entry.path) in self._without:
                    continue
                place = to.child(entry.name)
                if entry.type == "directory":
                    work = self._guarded(entry.path, self._directory(entry.path, place, fresh))
                    if self._directories_open < PARALLEL_DIRECTORIES:
                        self._directories_open += 1
                        group.create_task(self._opened(work))
                    else:
                        # One at a time, and in a task of its own all the same: a deep tree would
                        # else be as deep a stack.
                        await group.create_task(work)
                elif entry.type == "other":
                    self._leave(entry, "not_a_regular_file", "a special file")
                else:
                    await self._turns.acquire()
                    group.create_task(self._in_turn(entry, place, fresh))

    async def _opened(self, work: AsyncWork) -> None:
        try:
            await work
        finally:
            self._directories_open -= 1

    async def _directory(self, path: ScopedPath, to: ScopedPath, fresh: bool) -> None:
        stands = None if fresh else await self._standing(to)
        if stands is None:
            await self._target.make_dir(to, file_mode=_WORKABLE)
            self._directories += 1
        elif stands.type != "directory":
            raise FileAlreadyExists(f"a {stands.type} stands in the way", path=to)
        await self._fill(path, to, fresh=stands is None)
        await self._finish_directory(await self._looked(path), to)

    async def _finish_directory(self, original: Stat, to: ScopedPath) -> None:
        """Its mode and time, after all that is in it: each name put into it changes its time."""
        stands = await self._target.lstat(to)
        if (stands.mode ^ original.mode) & _PERMISSIONS:
            await self._target.set_mode(to, original.mode & _PERMISSIONS)
        if stands.mtime_ns != original.mtime_ns:
            await self._target.set_times(to, original.mtime_ns)

    # --- files and links ---------------------------------------------------------------------

    async def _in_turn(self, entry: Entry, to: ScopedPath, fresh: bool) -> None:
        try:
            act = self._link if entry.type == "symlink" else self._file
            await self._guarded(entry.path, act(entry.path, to, fresh))
        finally:
            self._turns.release()

    async def _file(self, path: ScopedPath, to: ScopedPath, fresh: bool) -> None:
        original = await self._looked(path)
        mode = original.mode & _PERMISSIONS
        stands = None if fresh else await self._standing(to)
        if stands is not None:
            if stands.type != "file":
                raise FileAlreadyExists(f"a {stands.type} stands in the way", path=to)
            if await self._is_same(original, stands):
                if stands.mode & _PERMISSIONS != mode:
                    await self._target.set_mode(to, mode)
                if stands.mtime_ns != original.mtime_ns:
                    await self._target.set_times(to, original.mtime_ns)
                self._unchanged += 1
                self._tell(path, files=1, size=original.size)
                return
        size = await self._copy(original, path, to, mode)
        await self._target.set_times(to, original.mtime_ns)
        self._files += 1
        self._bytes += size
        self._tell(path, files=1)

    async def _copy(self, original: Stat, path: ScopedPath, to: ScopedPath, mode: int) -> int:
        if original.size <= WHOLE_BYTES_MAX:
            try:
                read = await self._source.read_bytes(path, 0, WHOLE_BYTES_MAX)
            except BailiwickError as error:
                raise _SourceFailed(error) from None
            if not read.truncated:  # else it has grown: as a stream, then
                await self._target.write_bytes(to, read.data, file_mode=mode)
                self._tell(path, size=len(read.data))
                return len(read.data)
        failed: list[BailiwickError] = []
        try:
            async with aclosing(self._chunks(path, failed)) as chunks:
                written = await self._target.write_stream(to, chunks, file_mode=mode)
        except BailiwickError:
            if failed:
                raise _SourceFailed(failed[0]) from None
            raise
        return written.size

    async def _chunks(
        self, path: ScopedPath, failed: list[BailiwickError]
    ) -> AsyncGenerator[bytes, None]:
        """What a file holds. An error of the source is noted: on its way through the target it
        looks like one of the target's."""
        async with aclosing(self._source.stream(path)) as chunks:
            try:
                async for chunk in chunks:
                    yield chunk
                    self._tell(path, size=len(chunk))
            except BailiwickError as error:
                failed.append(error)
                raise

    async def _is_same(self, original: Stat, stands: Stat) -> bool:
        if self._compare == "never" or original.size != stands.size:
            return False
        if self._compare == "times":
            return original.mtime_ns == stands.mtime_ns
        theirs, ours = await asyncio.gather(
            self._hash(self._source, original.path), self._hash(self._target, stands.path)
        )
        return theirs == ours

    async def _hash(self, scope: Scope, path: ScopedPath) -> bytes:
        digest = hashlib.sha256()
        async with aclosing(scope.stream(path)) as chunks:
            async for chunk in chunks:
                digest.update(chunk)
        return digest.digest()

    async def _link(self, path: ScopedPath, to: ScopedPath, fresh: bool) -> None:
        try:
            text = await self._source.readlink(path)
        except BailiwickError as error:
            raise _SourceFailed(error) from None
        stands = None if fresh else await self._standing(to)
        if stands is not None:
            if stands.type != "symlink":
                raise FileAlreadyExists(f"a {stands.type} stands in the way", path=to)
            if stands.target == text:
                self._unchanged += 1
                return
            await self._target.remove(to)
        await self._target.symlink(to, text)
        self._links += 1

    # --- looking, telling, leaving out -------------------------------------------------------

    async def _looked(self, path: ScopedPath) -> Stat:
        try:
            return await self._source.lstat(path)
        except BailiwickError as error:
            raise _SourceFailed(error) from None

    async def _standing(self, to: ScopedPath) -> Stat | None:
        """What stands in the target, never through a link."""
        try:
            return await self._target.lstat(to)
        except PathNotFound:
            return None

    async def _guarded(self, path: ScopedPath, work: AsyncWork) -> None:
        """Do one thing. An error that is about this thing alone leaves it out, no more."""
        try:
            await work
        except _SourceFailed as failed:
            self._leave_path(path, failed.error)
        except _HOPELESS:
            raise
        except BailiwickError as error:
            self._leave_path(path, error)

    def _leave(self, entry: Entry, kind: str, reason: str) -> None:
        path = entry.parent.child(entry.name) if entry.addressable else entry.parent
        shown = reason if entry.addressable else f"{entry.display}: {reason}"
        self._left_out.append(LeftOut(path=path, error_kind=kind, reason=shown))

    def _leave_path(self, path: ScopedPath, error: BailiwickError) -> None:
        left = LeftOut(path=path, error_kind=error.kind, reason=error.message)
        self._left_out.append(left)

    def _tell(self, path: str, *, files: int = 0, size: int = 0) -> None:
        if self._told is not None:
            self._progress.files += files
            self._progress.bytes += size
            self._progress.path = path
            self._told(self._progress)
