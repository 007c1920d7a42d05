"""Files as fsspec's callers hold them: read by ranges, written a block at a time."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, cast

from fsspec.asyn import AbstractAsyncStreamedFile
from fsspec.spec import AbstractBufferedFile

from bailiwick.errors import FileAlreadyExists, IsADirectory
from bailiwick.fronts.fsspec.blocking_calls import sync
from bailiwick.fronts.fsspec.uploads import FsspecUpload, OpenMode
from bailiwick.model import WriteResult

if TYPE_CHECKING:
    from bailiwick.fronts.fsspec.filesystem import BailiwickFileSystem

BLOCK_BYTES = 4 * 1024 * 1024
"""What is read ahead, and what is held of a file that is written."""


class BailiwickFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file for blocking callers.

    Reading sees one version of the file: where it was changed meanwhile that is `HashMismatch`, and
    never a mix. Writing makes the file when it is closed, all at once; one whose block was left by
    an exception is not made.
    """

    DEFAULT_BLOCK_SIZE = BLOCK_BYTES
    fs: BailiwickFileSystem

    def __init__(
        self,
        fs: BailiwickFileSystem,
        path: str,
        mode: str = "rb",
        expected_sha256: str | None = None,
        **more: Any,
    ) -> None:
        self.written: WriteResult | None = None
        """What came of a write, once the file was made: its hash, version and request id."""
        self._expected_sha256 = expected_sha256
        self._upload: FsspecUpload | None = None
        self.closed = True
        super().__init__(fs, path, mode, **more)
        try:
            if mode == "rb":
                refuse_directory(self.details)
            elif mode == "xb" and fs.exists(path):
                raise FileAlreadyExists("already exists", path=path.strip("/"))
            elif mode == "ab":
                # A file that is opened to append says where it ends.
                self.loc = fs.info(path)["size"] if fs.exists(path) else 0
        except BaseException:
            self.closed = True
            raise

    def commit(self) -> None:
        """Make the file, at the end of a transaction."""
        if self._upload is not None:
            upload, self._upload = self._upload, None
            self.written = self._run(lambda: upload.finish(b""))

    def discard(self) -> None:
        """Give up what was written."""
        self.closed = True
        if self._upload is not None:
            upload, self._upload = self._upload, None
            self._run(upload.abort)

    def __exit__(self, kind: object = None, *error: object) -> None:
        if kind is not None and self.writable():
            self.discard()
        else:
            self.close()

    def __del__(self) -> None:
        """Close it, as compressing writers leave it to their file. Where that would have to wait
        for the loop it runs on, or for one that has ended, what was written is given up."""
        if self.closed:
            return
        if self.writable() and not self.fs.can_be_waited_for:
            warnings.warn(
                f"a file was written and not closed, so it is not made: {self.path}",
                ResourceWarning, stacklevel=2,
            )  # fmt: skip
            if self._upload is not None:
                self.fs.abandon(self._upload)
            self.closed = True
        self.close()

    def _fetch_range(self, start: int, end: int) -> bytes:
        version = str(self.details["version"])
        return sync(self.fs.loop, self.fs._range, self.path, start, end, version)

    def _initiate_upload(self) -> None:
        self._upload = sync(
            self.fs.loop, self.fs._begin, self.path, self.mode, self._expected_sha256
        )

    def _upload_chunk(self, final: bool = False) -> bool:
        assert self._upload is not None
        upload, block = self._upload, self.buffer.getvalue()
        try:
            if final and self.autocommit:
                self.written = self._run(lambda: upload.finish(block))
                self._upload = None
            else:
                self._run(lambda: upload.add(block))
        except BaseException:
            self.discard()
            raise
        return True

    def _run(self, work: Any) -> Any:
        return sync(self.fs.loop, self.fs._at_home, work)


class BailiwickAsyncFile(AbstractAsyncStreamedFile):  # type: ignore[misc]
    """A file for callers on an event loop: ``async with await fs.open_async(…) as file``."""

    DEFAULT_BLOCK_SIZE = BLOCK_BYTES
    fs: BailiwickFileSystem

    def __init__(
        self,
        fs: BailiwickFileSystem,
        path: str,
        mode: OpenMode | str,
        details: dict[str, Any],
        expected_sha256: str | None = None,
    ) -> None:
        self.written: WriteResult | None = None
        self._expected_sha256 = expected_sha256
        self._upload: FsspecUpload | None = None
        self._details = details
        self._opened_as = mode
        # What is only for a new file is written like any other.
        super().__init__(fs, path, "wb" if mode == "xb" else mode)
        if mode == "ab":
            self.loc = details.get("size", 0)

    async def __aexit__(self, kind: object, *error: object) -> None:
        if kind is not None and self.writable():
            await self.discard()
        else:
            await self.close()

    async def discard(self) -> None:
        """Give up what was written."""
        self.closed = True
        if self._upload is not None:
            upload, self._upload = self._upload, None
            await self.fs._at_home(upload.abort)

    def __del__(self) -> None:
        if not self.closed and self._upload is not None:
            self.fs.abandon(self._upload)
        self.closed = True

    async def _fetch_range(self, start: int, end: int) -> bytes:
        return await self.fs._range(self.path, start, end, str(self.details["version"]))

    async def _initiate_upload(self) -> None:
        self._upload = await self.fs._begin(
            self.path, cast(OpenMode, self._opened_as), self._expected_sha256
        )

    async def _upload_chunk(self, final: bool = False) -> bool:
        assert self._upload is not None
        upload, block = self._upload, self.buffer.getvalue()
        try:
            if final:
                self.written = await self.fs._at_home(lambda: upload.finish(block))
                self._upload = None
            else:
                await self.fs._at_home(lambda: upload.add(block))
        except BaseException:
            await self.discard()
            raise
        return True


def refuse_directory(details: dict[str, Any]) -> None:
    if details["type"] == "directory":
        raise IsADirectory("is a directory", path=details["name"].strip("/") or ".")
