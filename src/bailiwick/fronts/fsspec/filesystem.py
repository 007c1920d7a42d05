"""`BailiwickFileSystem`: the methods of fsspec, done by the verbs of a scope.

A filesystem stands for the whole of a tree, so ignored files are part of it. Paths are relative
to the top of the scope, which is the empty path; a file that is written brings its directories
along, as fsspec's callers expect. Errors are those of the scope, which are the standard library's
own: `FileNotFoundError`, `PermissionError` …
"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from fsspec.asyn import AsyncFileSystem, has_magic
from fsspec.utils import isfilelike, stringify_path

from bailiwick.errors import (
    DirectoryNotEmpty,
    FileAlreadyExists,
    HashMismatch,
    IsADirectory,
    NotADirectory,
    ParseError,
    PathNotFound,
    Unsupported,
)
from bailiwick.fronts.fsspec.beyond import Beyond
from bailiwick.fronts.fsspec.blocking_calls import blocking, sync, wait_for_the_end
from bailiwick.fronts.fsspec.entries import Info, entry_info, info_of, place_of
from bailiwick.fronts.fsspec.files import BailiwickAsyncFile, BailiwickFile, refuse_directory
from bailiwick.fronts.fsspec.transfers import take_out
from bailiwick.fronts.fsspec.uploads import FsspecUpload, OpenMode
from bailiwick.model import MiB, WriteMode, WriteResult
from bailiwick.portal import SyncScope, behind
from bailiwick.scope import Scope
from bailiwick.scope.front_access import as_called
from bailiwick.toolbox.bridge import Bridge

Result = TypeVar("Result")

_RANGE_BYTES_MAX = 64 * MiB
"""What one call to a scope reads; more of a file is read in several, all of one version."""

_WHOLE_BYTES = 8 * MiB
"""A file up to this is read by one call; a larger one as a stream."""

_MODES = ("rb", "wb", "xb", "ab")


class BailiwickFileSystem(Beyond, AsyncFileSystem):  # type: ignore[misc]
    """A scope as fsspec sees a filesystem: ``BailiwickFileSystem(scope)``.

    Takes a blocking scope (`bailiwick.open_sync`), which works from any thread, or one of an event
    loop. The latter is driven on its own loop, also by blocking calls from other threads: make the
    filesystem on that loop, or name it as ``loop``.
    """

    protocol = "bailiwick+scope"
    cachable = False
    root_marker = ""
    mirror_sync_methods = False  # done here, so that they wait

    def __init__(
        self,
        scope: Scope | SyncScope,
        *,
        asynchronous: bool = False,
        loop: asyncio.AbstractEventLoop | None = None,
        **more: Any,
    ) -> None:
        home = loop
        if isinstance(scope, SyncScope):
            home = behind(scope)[1].loop
        elif home is None:
            with suppress(RuntimeError):
                home = asyncio.get_running_loop()
            if home is None:
                raise ParseError(
                    "which event loop does the scope belong to?",
                    hint="make the filesystem on that loop, name it as loop=, or use open_sync",
                )
        super().__init__(asynchronous=asynchronous, loop=home, **more)
        wait_for_the_end(self)
        self._bridge: Bridge | None = bridge_to(scope, home)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        """A path from the top on, of text that may be a URL."""
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        text: str = stringify_path(path)
        if text.startswith(f"{cls.protocol}://"):
            text = cls._path_in(text[len(cls.protocol) + 3 :])
        return text.strip("/")

    @classmethod
    def _path_in(cls, rest: str) -> str:
        """The path in what follows the protocol of a URL."""
        return rest

    # --- where the scope lives -----------------------------------------------------------------

    async def _bridged(self) -> Bridge:
        """The way to the scope."""
        assert self._bridge is not None
        return self._bridge

    async def _at_home(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Run something on the scope's own loop."""
        return await (await self._bridged()).run(work)

    async def _with_scope(self, work: Callable[[Scope], Coroutine[Any, Any, Result]]) -> Result:
        bridge = await self._bridged()
        return await bridge.run(lambda: work(bridge.scope))

    @property
    def can_be_waited_for(self) -> bool:
        """Whether a blocking call from here could come to an end."""
        home = self._loop
        if home is None or home.is_closed():
            return False
        with suppress(RuntimeError):
            return asyncio.get_running_loop() is not home
        return True

    def abandon(self, upload: FsspecUpload) -> None:
        """Give up a write that nobody waits for any more."""
        bridge = self._bridge
        home = self._loop if bridge is None or bridge.home is None else bridge.home
        if home is not None and not home.is_closed():
            with suppress(RuntimeError):
                asyncio.run_coroutine_threadsafe(upload.abort(), home)

    def __eq__(self, other: object) -> bool:
        """Two are the same where they are on the same scope: what a scope is called says less."""
        return self is other

    def __hash__(self) -> int:
        return id(self)

    @property
    def fsid(self) -> str:
        if self._bridge is None:
            raise NotImplementedError
        return f"bailiwick-{self._bridge.scope.root}"

    # --- looking -------------------------------------------------------------------------------

    async def _info(self, path: str, **more: Any) -> Info:
        place = place_of(self._strip_protocol(path))
        found = await self._with_scope(lambda scope: scope.stat(place))
        return info_of(found, place)

    async def _ls(self, path: str, detail: bool = True, **more: Any) -> list[Any]:
        place = place_of(self._strip_protocol(path))

        async def listed(scope: Scope) -> list[Info]:
            infos: list[Info] = []
            cursor: str | None = None
            try:
                while True:
                    page = await scope.list(place, cursor=cursor, include_ignored=True)
                    infos += [await entry_info(scope, entry) for entry in page.entries]
                    cursor = page.next_cursor
                    if cursor is None:
                        return infos
            except NotADirectory:
                return [info_of(await scope.stat(place), place)]

        infos = await self._with_scope(listed)
        return infos if detail else [info["name"] for info in infos]

    async def _exists(self, path: str, **more: Any) -> bool:
        place = place_of(self._strip_protocol(path))
        return await self._with_scope(lambda scope: scope.exists(place))

    def modified(self, path: str) -> dt.datetime:
        """When the content of a file was last changed."""
        mtime: float = self.info(path)["mtime"]
        return dt.datetime.fromtimestamp(mtime, tz=dt.UTC)

    # --- content -------------------------------------------------------------------------------

    async def _cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **more: Any
    ) -> bytes:
        place = place_of(self._strip_protocol(path))
        if (start or 0) < 0 or (end or 0) < 0:
            size = (await self._info(path))["size"]
            start = max(size + start, 0) if start is not None and start < 0 else start
            end = max(size + end, 0) if end is not None and end < 0 else end
        begin = start or 0
        if end is not None:
            return await self._range(place, begin, end, None)

        async def whole(scope: Scope) -> bytes:
            read = await scope.read_bytes(place, begin, _WHOLE_BYTES)
            if not read.truncated:
                return read.data
            return b"".join([chunk async for chunk in scope.stream(place, begin)])

        return await self._with_scope(whole)

    async def _range(self, path: str, start: int, end: int, version: str | None) -> bytes:
        """A range of a file, all of one version: of the one given, where one is."""

        async def read(scope: Scope) -> bytes:
            pieces: list[bytes] = []
            at, seen = start, version
            while at < end:
                size = min(end - at, _RANGE_BYTES_MAX)
                piece = await scope.read_bytes(place_of(path), at, size)
                if seen is not None and piece.version != seen:
                    raise HashMismatch(
                        "the file was changed while it was read", path=place_of(path),
                        hint="open it again", details={"current_version": piece.version},
                    )  # fmt: skip
                seen = piece.version
                pieces.append(piece.data)
                at += len(piece.data)
                if len(piece.data) < size:
                    break
            return b"".join(pieces)

        return await self._with_scope(read)

    async def _pipe_file(
        self,
        path: str,
        value: bytes,
        mode: WriteMode = "overwrite",
        *,
        expected_sha256: str | None = None,
        **more: Any,
    ) -> WriteResult:
        """Write a file, and what came of it: its hash, version and request id. With an expected
        hash, only onto what it names; else `HashMismatch`."""
        place = place_of(self._strip_protocol(path))
        data = bytes(value)

        async def write(scope: Scope) -> WriteResult:
            if len(data) <= scope.limits.bytes_call_max:
                return await scope.write_bytes(
                    place, data, mode=mode, expected_sha256=expected_sha256, parents=True
                )
            return await scope.write_stream(
                place, _pieces(data), mode=mode, expected_sha256=expected_sha256, parents=True
            )

        return await self._with_scope(write)

    async def _put_file(
        self, lpath: str, rpath: str, mode: WriteMode = "overwrite", **more: Any
    ) -> None:
        callback = more.get("callback")
        if await asyncio.to_thread(os.path.isdir, lpath):
            await self._makedirs(rpath, exist_ok=True)
            return
        place = place_of(self._strip_protocol(rpath))
        file = await asyncio.to_thread(open, lpath, "rb")
        try:
            size = os.fstat(file.fileno()).st_size
            if callback is not None:
                callback.set_size(size)
            await self._with_scope(
                lambda scope: scope.write_stream(place, file, mode=mode, parents=True)
            )
            if callback is not None:
                callback.relative_update(size)
        finally:
            file.close()

    async def _get_file(self, rpath: str, lpath: Any, **more: Any) -> None:
        info = await self._info(rpath)
        if info["type"] == "directory":
            if isfilelike(lpath):
                refuse_directory(info)
            await asyncio.to_thread(os.makedirs, lpath, exist_ok=True)
            return
        place = place_of(self._strip_protocol(rpath))
        callback = more.get("callback")
        if callback is not None:
            callback.set_size(info["size"])
        target = lpath if isfilelike(lpath) else stringify_path(lpath)
        await self._with_scope(lambda scope: take_out(scope, place, target, callback))

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        *,
        expected_sha256: str | None = None,
        **more: Any,
    ) -> BailiwickFile:
        _check_mode(mode, expected_sha256)
        return BailiwickFile(
            self, path, mode, expected_sha256, block_size=block_size, autocommit=autocommit,
            cache_options=cache_options, **more,
        )  # fmt: skip

    async def open_async(self, path: str, mode: str = "rb", **more: Any) -> BailiwickAsyncFile:
        """A file for the event loop this is called on; bytes only. One that is written takes
        ``expected_sha256``, as `open` does."""
        if "b" not in mode or more.get("compression"):
            raise ValueError("only bytes are read and written here")
        expected_sha256 = more.get("expected_sha256")
        _check_mode(mode, expected_sha256)
        path = self._strip_protocol(path)
        details: Info = {}
        try:
            if mode != "wb":
                details = await self._info(path)
        except PathNotFound:
            if mode == "rb":
                raise
        if mode == "rb":
            refuse_directory(details)
        elif mode == "xb" and details:
            raise FileAlreadyExists("already exists", path=place_of(path))
        return BailiwickAsyncFile(self, path, mode, details, expected_sha256)

    async def _begin(self, path: str, mode: OpenMode, expected_sha256: str | None) -> FsspecUpload:
        async def begin(scope: Scope) -> FsspecUpload:
            return FsspecUpload(scope, place_of(path), mode, expected_sha256)

        return await self._with_scope(begin)

    def touch(self, path: str, truncate: bool = True, **more: Any) -> None:
        """Make an empty file; without ``truncate`` one that exists is only dated now."""
        if truncate or not self.exists(path):
            self.pipe_file(path, b"")
        else:
            place = place_of(self._strip_protocol(path))
            now = time.time_ns()
            sync(self.loop, self._with_scope, lambda scope: scope.set_times(place, now))

    async def _get(self, rpath: Any, lpath: Any, **more: Any) -> Any:
        async def is_directory(path: str) -> bool:
            return await asyncio.to_thread(os.path.isdir, path)

        return await super()._get(*await self._into(rpath, lpath, is_directory), **more)

    async def _copy(self, path1: Any, path2: Any, **more: Any) -> None:
        await super()._copy(*await self._into(path1, path2, self._isdir), **more)

    async def _into(
        self, source: Any, target: Any, is_directory: Callable[[str], Coroutine[Any, Any, bool]]
    ) -> tuple[Any, Any]:
        """What is copied into a directory keeps its name there. fsspec finds that name by what
        stands before the last slash, so it is told where there is none."""
        if not isinstance(source, str) or not isinstance(target, str) or source.endswith("/"):
            return source, target
        name = self._strip_protocol(source)
        if has_magic(name) and "/" not in name:
            found = await self._expand_path(name)
            name = found[0] if len(found) == 1 else "/"
        if "/" in name or not (target.endswith("/") or await is_directory(target)):
            return source, target
        return f"{name}/", f"{target.rstrip('/')}/{name}"

    # --- making, moving, removing --------------------------------------------------------------

    async def _mkdir(self, path: str, create_parents: bool = True, **more: Any) -> None:
        place = place_of(self._strip_protocol(path))

        async def make(scope: Scope) -> None:
            if create_parents:
                await _make_parents(scope, place)
            await scope.make_dir(place)

        await self._with_scope(make)

    async def _makedirs(self, path: str, exist_ok: bool = False) -> None:
        place = place_of(self._strip_protocol(path))
        if not exist_ok:
            await self._mkdir(path)
        elif place != ".":
            await self._with_scope(lambda scope: scope.make_dir(place, parents=True))

    async def _rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        place = place_of(self._strip_protocol(path))

        async def remove(scope: Scope) -> None:
            if (await scope.lstat(place)).type != "directory":
                raise NotADirectory("not a directory", path=place)
            await scope.remove(place)

        await self._with_scope(remove)

    rmdir = blocking(_rmdir)

    async def _rm_file(self, path: str, **more: Any) -> None:
        place = place_of(self._strip_protocol(path))

        async def remove(scope: Scope) -> None:
            if (await scope.lstat(place)).type == "directory":
                raise IsADirectory("is a directory", path=place, hint="remove it recursively")
            await scope.remove(place)

        await self._with_scope(remove)

    async def _rm(
        self,
        path: str | list[str],
        recursive: bool = False,
        batch_size: int | None = None,
        maxdepth: int | None = None,
        **more: Any,
    ) -> None:
        if maxdepth is not None:
            for each in reversed(await self._expand_path(path, recursive, maxdepth)):
                # What lies deeper than that stays, and so do the directories it lies in.
                with suppress(DirectoryNotEmpty):
                    await self._removed(each, recursive=False)
            return
        for each in await self._expand_path(path):
            if recursive:
                await self._removed(each, recursive=True)
            else:
                await self._rm_file(each)

    async def _removed(self, path: str, *, recursive: bool) -> None:
        place = place_of(path)
        await self._with_scope(lambda scope: scope.remove(place, recursive=recursive))

    async def _cp_file(self, path1: str, path2: str, **more: Any) -> None:
        source = place_of(self._strip_protocol(path1))
        target = place_of(self._strip_protocol(path2))

        async def copy(scope: Scope) -> None:
            kind = (await scope.stat(source)).type
            if kind == "directory":
                await scope.make_dir(target, parents=True)
                return
            if source == target:
                return
            if (await scope.lstat(source)).type == "file":
                with suppress(FileAlreadyExists):
                    await _make_parents(scope, target)
                    await scope.copy(source, target)
                    return
            # What stands there is replaced at once, and a link is copied as what it leads to.
            await scope.write_stream(target, scope.stream(source), parents=True)

        await self._with_scope(copy)

    async def _mv_file(self, path1: str, path2: str) -> None:
        source = place_of(self._strip_protocol(path1))
        target = place_of(self._strip_protocol(path2))

        async def move(scope: Scope) -> None:
            await _make_parents(scope, target)
            await scope.move(source, target, replace=True)

        if source != target:
            await self._with_scope(move)

    async def _mv(
        self,
        /,
        path1: str | list[str],
        path2: str | list[str],
        recursive: bool = False,
        maxdepth: int | None = None,
        **more: Any,
    ) -> None:
        """Give another name, atomically. Into a directory that exists, the name is kept."""
        sources = await self._expand_path(path1)
        if isinstance(path2, list):
            targets = [self._strip_protocol(each) for each in path2]
            if len(targets) != len(sources):
                raise ValueError("as many places to move to as there are to move")
        else:
            into = path2.endswith("/") or len(sources) > 1 or await self._isdir(path2)
            top = self._strip_protocol(path2)
            names = [source.rpartition("/")[2] for source in sources]
            targets = [f"{top}/{name}".lstrip("/") for name in names] if into else [top]
        for source, target in zip(sources, targets, strict=True):
            await self._mv_file(source, target)

    mv = blocking(_mv)


def bridge_to(scope: Scope | SyncScope, home: asyncio.AbstractEventLoop | None) -> Bridge:
    """The way to a scope, under the name of this front; who is asked stays as it is."""
    bridge = Bridge.to(scope, home)
    bridge.scope = as_called(bridge.scope, front="fsspec")
    return bridge


def _check_mode(mode: str, expected_sha256: str | None) -> None:
    if mode not in _MODES:
        raise Unsupported(
            f"files are not opened as {mode!r}",
            hint="read with rb, write with wb, make with xb, append with ab",
        )
    if mode == "rb" and expected_sha256 is not None:
        raise ParseError("a file that is read has no expected hash: only what is written has")


async def _make_parents(scope: Scope, place: str) -> None:
    parent = place.rpartition("/")[0]
    if parent:
        await scope.make_dir(parent, parents=True)


def _pieces(data: bytes) -> list[bytes]:
    view = memoryview(data)
    return [bytes(view[at : at + _WHOLE_BYTES]) for at in range(0, len(data), _WHOLE_BYTES)]
