"""The verbs of a scope that read and write what files hold."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from bailiwick import operations
from bailiwick.call import PastView, Target
from bailiwick.model import (
    BytesRead,
    Edit,
    EditResult,
    JsonRead,
    LineEnding,
    TextRead,
    WriteMode,
    WriteResult,
)
from bailiwick.paths import PathText
from bailiwick.proposal import Prepare
from bailiwick.scope.core import ScopeCore
from bailiwick.verbs import edit, reads, writes
from bailiwick.verbs.arguments import locking
from bailiwick.verbs.writes import ByteSource, plan


class ContentVerbs(ScopeCore):
    """Reading and writing."""

    async def read_bytes(
        self,
        path: PathText,
        offset: int = 0,
        length: int | None = None,
        *,
        as_of: str | None = None,
    ) -> BytesRead:
        """The bytes of a file, or of a range of it; at most 100 MiB a call.

        ``as_of`` a version, or the name of a snapshot, reads what stood there then.
        """
        call = self._call(operations.READ, "read_bytes", Target(path, "object"))
        return await self._carry_out(
            call, lambda call: reads.read_bytes(call, offset, length), as_of
        )

    async def read_text(
        self,
        path: PathText,
        *,
        line: int | None = None,
        limit: int | None = None,
        tail: int | None = None,
        cursor: str | None = None,
        encoding: str | None = None,
        as_of: str | None = None,
    ) -> TextRead:
        """The text of a file, or a window of its lines.

        The whole of a file over 256 KiB is `FileTooLarge`; ask for a window instead: ``line`` and
        ``limit`` (1-based), ``tail`` (the last so many lines), or the ``cursor`` that the page
        before gave. Decoding is strict: what is not text is `BinaryFile`.
        """
        asked = reads.TextAsked(line, limit, tail, cursor, encoding)
        call = self._call(operations.READ, "read_text", Target(path, "object"))
        ignores = self._ignores_at(as_of)
        return await self._carry_out(
            call, lambda call: reads.read_text(call, ignores, asked), as_of
        )

    async def read_json(self, path: PathText, *, as_of: str | None = None) -> JsonRead:
        """A JSON document. Invalid JSON is `ParseError` with line and column."""
        return await self._run(
            operations.READ, "read_json", Target(path, "object"), reads.read_json, as_of=as_of
        )

    def stream(
        self,
        path: PathText,
        offset: int = 0,
        length: int | None = None,
        *,
        as_of: str | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """The bytes of a file of any size, chunk by chunk, one chunk in memory.

        The file is opened at the first chunk; close the iterator if you stop early.
        """
        call = self._call(operations.READ, "stream", Target(path, "object"))
        chunks = reads.stream(call, offset, length)
        if as_of is not None:
            call.past = PastView(as_of)
            chunks = reads.closing_past(call.past, chunks)
        return chunks if self.grant.base == "." else self._rebased_all(chunks)

    async def write_bytes(
        self,
        path: PathText,
        data: bytes,
        *,
        mode: WriteMode = "overwrite",
        expected_sha256: str | None = None,
        expected_version: str | None = None,
        parents: bool = False,
        file_mode: int | None = None,
        lock_token: int | None = None,
    ) -> WriteResult:
        """Write a whole file, atomically.

        ``mode`` ``create`` refuses an existing file, ``replace`` demands one and an expected hash
        or version. A precondition that fails is `HashMismatch` with the current hash.
        """
        how = mode, expected_sha256, expected_version, parents, file_mode
        call = self._call(
            operations.WRITE, "write_bytes", new(path, parents), None, _size_of(data),
            data if type(data) is bytes else None, lock_token,
        )  # fmt: skip
        prepare: Prepare[WriteResult] = lambda call: writes.write_bytes(  # noqa: E731
            call, self._ignores, data, plan(self.grant, how)
        )
        if lock_token is not None:
            prepare = locking(lock_token, prepare)
        result: WriteResult = await self._start(call, prepare)
        return result

    async def write_text(
        self,
        path: PathText,
        text: str,
        *,
        mode: WriteMode = "overwrite",
        expected_sha256: str | None = None,
        expected_version: str | None = None,
        encoding: str | None = None,
        bom: bool | None = None,
        line_ending: LineEnding | None = None,
        parents: bool = False,
        file_mode: int | None = None,
        lock_token: int | None = None,
    ) -> WriteResult:
        """Write a whole text file; at most 5 MiB.

        Encoding, BOM and line ending are those of the file that is replaced, unless told; a new
        file is UTF-8 without BOM, its line endings as given.
        """
        how = mode, expected_sha256, expected_version, parents, file_mode
        form = writes.FormAsked(encoding, bom, line_ending)
        call = self._call(
            operations.WRITE, "write_text", new(path, parents), None, _size_of(text), None,
            lock_token,
        )  # fmt: skip
        prepare: Prepare[WriteResult] = lambda call: writes.write_text(  # noqa: E731
            call, self._ignores, text, form, plan(self.grant, how, form)
        )
        if lock_token is not None:
            prepare = locking(lock_token, prepare)
        result: WriteResult = await self._start(call, prepare)
        return result

    async def write_json(
        self,
        path: PathText,
        value: Any,
        *,
        mode: WriteMode = "overwrite",
        expected_sha256: str | None = None,
        expected_version: str | None = None,
        parents: bool = False,
        file_mode: int | None = None,
        lock_token: int | None = None,
    ) -> WriteResult:
        """Write a JSON document: two spaces, keys in the order given, a newline at the end."""
        how = mode, expected_sha256, expected_version, parents, file_mode
        return await self._run(
            operations.WRITE, "write_json", new(path, parents),
            lambda call: writes.write_json(call, self._ignores, value, plan(self.grant, how)),
            lock_token=lock_token,
        )  # fmt: skip

    async def write_stream(
        self,
        path: PathText,
        source: ByteSource,
        *,
        mode: WriteMode = "overwrite",
        expected_sha256: str | None = None,
        expected_version: str | None = None,
        parents: bool = False,
        file_mode: int | None = None,
        lock_token: int | None = None,
    ) -> WriteResult:
        """Write a file of any size from chunks: an iterable, an async iterable, or a binary file.

        One chunk is in memory at a time; nothing is visible until all of it is there.
        """
        how = mode, expected_sha256, expected_version, parents, file_mode
        return await self._run(
            operations.WRITE, "write_stream", new(path, parents),
            lambda call: writes.write_stream(call, self._ignores, source, plan(self.grant, how)),
            lock_token=lock_token,
        )  # fmt: skip

    async def append(
        self,
        path: PathText,
        data: bytes | str,
        *,
        expected_sha256: str | None = None,
        expected_version: str | None = None,
        parents: bool = False,
        file_mode: int | None = None,
        lock_token: int | None = None,
    ) -> WriteResult:
        """Add to the end of a file, all or nothing, making it where it is missing.

        Text is encoded as the file is. Parallel appends lose nothing.
        """
        how: writes.How = "overwrite", expected_sha256, expected_version, parents, file_mode
        return await self._run(
            operations.WRITE_ONTO, "append", new(path, parents),
            lambda call: writes.append(call, self._ignores, data, plan(self.grant, how)),
            None, _size_of(data), lock_token=lock_token,
        )  # fmt: skip

    async def truncate(
        self,
        path: PathText,
        size: int = 0,
        *,
        expected_sha256: str | None = None,
        expected_version: str | None = None,
        lock_token: int | None = None,
    ) -> WriteResult:
        """Cut or extend (with zeros) an existing file to ``size`` bytes, all or nothing."""
        how: writes.How = "overwrite", expected_sha256, expected_version, False, None
        return await self._run(
            operations.WRITE_ONTO, "truncate", Target(path, "entry"),
            lambda call: writes.truncate(call, self._ignores, size, plan(self.grant, how)),
            size=size, lock_token=lock_token,
        )  # fmt: skip

    async def edit(
        self,
        path: PathText,
        edits: Sequence[Edit] | None = None,
        *,
        old: str | None = None,
        new: str | None = None,
        replace_all: bool = False,
        expected_sha256: str | None = None,
        expected_version: str | None = None,
        dry_run: bool = False,
        lock_token: int | None = None,
    ) -> EditResult:
        """Replace text in a file: give ``edits``, or one as ``old`` and ``new``.

        All edits apply to the text as it was, must not overlap, and land together or not at all;
        bytes outside them stay as they are. An edit is a compare-and-swap on what it read.
        """
        return await self._run(
            operations.EDIT, "edit", Target(path, "entry"),
            lambda call: edit.edit(
                call, self._ignores, edit.collect(edits, old, new, replace_all),
                (expected_sha256, expected_version), dry_run,
            ),
            edits=edits, old=old, new=new, replace_all=replace_all,
            expected_sha256=expected_sha256, expected_version=expected_version, dry_run=dry_run,
            lock_token=lock_token,
        )  # fmt: skip


def new(path: PathText, parents: bool) -> Target:
    """A place where something is made."""
    return Target(path, "entry", parents=parents is True, creates=True)


def _size_of(data: object) -> int | None:
    """How much is to be written, as far as that is known before it is looked at."""
    return len(data) if isinstance(data, (bytes, bytearray, memoryview, str)) else None
