"""A file that is being written: nothing of it appears before it is finished.

What is written goes to the scope as one stream, a block at a time, so that memory holds a block and
a file of any size is still made at once. An upload lives on the scope's own loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Literal

from bailiwick.errors import Closed, PathNotFound
from bailiwick.model import WriteMode, WriteResult
from bailiwick.scope import Scope

OpenMode = Literal["wb", "xb", "ab"]


class FsspecUpload:
    """One write in the making."""

    def __init__(
        self, scope: Scope, path: str, mode: OpenMode, expected_sha256: str | None = None
    ) -> None:
        """``expected_sha256`` is the hash of what must stand there when the file is made."""
        self._scope = scope
        self._path = path
        self._mode = mode
        self._expected_sha256 = expected_sha256
        self._blocks: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=1)
        self._writing: asyncio.Task[WriteResult] | None = None

    async def add(self, block: bytes) -> None:
        """Take a block; waits until the one before is on its way. Raises what went wrong."""
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        await self._put(block)

    async def finish(self, last: bytes) -> WriteResult:
        """All of it is there: make the file."""
        if self._writing is None:
            return await self._write_whole(last)
        if last:
            await self._put(last)
        await self._put(None)
        return await self._writing

    async def abort(self) -> None:
        """Let go of it; nothing was written."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.cancel()
            await asyncio.wait((writing,))
            with suppress(asyncio.CancelledError):
                writing.exception()

    async def _put(self, block: bytes | None) -> None:
        writing = self._writing
        if writing is None:
            raise Closed("this file was given up")
        putting = asyncio.ensure_future(self._blocks.put(block))
        try:
            await asyncio.wait((putting, writing), return_when=asyncio.FIRST_COMPLETED)
            if not putting.done():
                await writing
        finally:
            putting.cancel()

    async def _write_whole(self, data: bytes) -> WriteResult:
        if self._mode == "ab":
            return await self._scope.append(
                self._path, data, expected_sha256=self._expected_sha256, parents=True
            )
        return await self._scope.write_bytes(
            self._path, data, mode=self._write_mode, expected_sha256=self._expected_sha256,
            parents=True,
        )  # fmt: skip

    async def _write(self) -> WriteResult:
        before = None
        if self._mode == "ab":
            # Whoever appends meanwhile must not be overwritten: then this fails.
            with suppress(PathNotFound):
                before = (await self._scope.stat(self._path)).version
        mode: WriteMode = self._write_mode
        if self._mode == "ab" and before is None:
            mode = "create"
        return await self._scope.write_stream(
            self._path, self._content(before is not None), mode=mode, expected_version=before,
            expected_sha256=self._expected_sha256, parents=True,
        )  # fmt: skip

    @property
    def _write_mode(self) -> WriteMode:
        return "create" if self._mode == "xb" else "overwrite"

    async def _content(self, after_what_is_there: bool) -> AsyncGenerator[bytes, None]:
        if after_what_is_there:
            async with aclosing(self._scope.stream(self._path)) as chunks:
                async for chunk in chunks:
                    yield chunk
        while (block := await self._blocks.get()) is not None:
            yield block
