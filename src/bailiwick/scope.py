"""`Scope`: the verbs a caller has over the tree that one grant sees.

A scope never hands out a host path, a descriptor or a store. Every verb is one call through the
pipeline: parse, check the grant, resolve, ask the policy, act, record. Paths are text relative to
the root (or absolute under its mount point); results are the frozen values of `bailiwick.model`;
errors are those of `bailiwick.errors`, and a failed verb has changed nothing.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import msgspec

from bailiwick import operations
from bailiwick.errors import ParseError
from bailiwick.grant import Grant, Root, Subject
from bailiwick.model import (
    BytesRead,
    ChangeResult,
    DiffResult,
    Edit,
    EditResult,
    EntryType,
    Found,
    GrepResult,
    JsonRead,
    Limits,
    LineEnding,
    Page,
    Stat,
    TextRead,
    WriteMode,
    WriteResult,
)
from bailiwick.operations import Access, Operation
from bailiwick.paths import PathText
from bailiwick.pipeline import Call, Pipeline, Target
from bailiwick.verbs import (
    comparing,
    copying,
    editing,
    finding,
    listing,
    reading,
    searching,
    shaping,
    writing,
)
from bailiwick.verbs.arguments import an_int, check_all, check_request_id, checking, plan, size_of
from bailiwick.verbs.ignoring import Ignores
from bailiwick.verbs.writing import ByteSource

Result = TypeVar("Result")


class Scope:
    """The tree one grant sees, and everything that can be done in it."""

    def __init__(
        self,
        pipeline: Pipeline,
        grant: Grant,
        *,
        ignores: Ignores,
        front: str = "python",
        request_id: str | None = None,
        copy_in_scopes: tuple[Scope, ...] = (),
    ) -> None:
        self._pipeline = pipeline
        self._ignores = ignores
        self._front = front
        self._request_id = request_id
        self._copy_in_scopes = copy_in_scopes
        self.grant = grant

    @property
    def root(self) -> Root:
        return self.grant.root

    @property
    def subject(self) -> Subject:
        return self.grant.subject

    @property
    def access(self) -> frozenset[Access]:
        return self.grant.access

    @property
    def limits(self) -> Limits:
        return self.grant.limits

    @property
    def powers(self) -> frozenset[str]:
        """What the store beneath can do beyond the common verbs."""
        return self._pipeline.store.powers

    @property
    def description(self) -> dict[str, str]:
        """How the store works here: kind, containment, durability …"""
        return self._pipeline.store.description

    def __repr__(self) -> str:
        return f"<Scope {self.root} for {self.subject}>"

    def with_request(self, request_id: str) -> Scope:
        """The same scope, whose results, errors and records carry ``request_id``.

        An id is 1 to 128 printable characters.
        """
        check_request_id(request_id)
        return Scope(
            self._pipeline, self.grant, ignores=self._ignores, front=self._front,
            request_id=request_id, copy_in_scopes=self._copy_in_scopes,
        )  # fmt: skip

    async def aclose(self) -> None:
        """Wait for work under way and let go. Verbs called afterwards raise `Closed`."""
        await self._pipeline.aclose()
        for scope in self._copy_in_scopes:
            await scope.aclose()

    # Reading

    async def read_bytes(
        self, path: PathText, offset: int = 0, length: int | None = None
    ) -> BytesRead:
        """The bytes of a file, or of a range of it; at most 100 MiB a call."""
        call = self._call(operations.READ, "read_bytes", Target(path, "object"))
        return await self._pipeline.run(call, lambda call: reading.read_bytes(call, offset, length))

    async def read_text(
        self,
        path: PathText,
        *,
        line: int | None = None,
        limit: int | None = None,
        tail: int | None = None,
        cursor: str | None = None,
        encoding: str | None = None,
    ) -> TextRead:
        """The text of a file, or a window of its lines.

        The whole of a file over 256 KiB is `FileTooLarge`; ask for a window instead: ``line`` and
        ``limit`` (1-based), ``tail`` (the last so many lines), or the ``cursor`` that the page
        before gave. Decoding is strict: what is not text is `BinaryFile`.
        """
        asked = reading.TextAsked(line, limit, tail, cursor, encoding)
        return await self._run(
            operations.READ, "read_text", Target(path, "object"),
            lambda call: reading.read_text(call, self._ignores, asked),
        )  # fmt: skip

    async def read_json(self, path: PathText) -> JsonRead:
        """A JSON document. Invalid JSON is `ParseError` with line and column."""
        return await self._run(
            operations.READ, "read_json", Target(path, "object"), reading.read_json
        )

    def stream(
        self, path: PathText, offset: int = 0, length: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The bytes of a file of any size, chunk by chunk, one chunk in memory.

        The file is opened at the first chunk; close the iterator if you stop early.
        """
        return reading.stream(
            self._call(operations.READ, "stream", Target(path, "object")), offset, length
        )

    # Writing

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
    ) -> WriteResult:
        """Write a whole file, atomically.

        ``mode`` ``create`` refuses an existing file, ``replace`` demands one and an expected hash
        or version. A precondition that fails is `HashMismatch` with the current hash.
        """
        how = mode, expected_sha256, expected_version, parents, file_mode
        return await self._run(
            operations.WRITE, "write_bytes", _new(path, parents),
            lambda call: writing.write_bytes(call, self._ignores, data, plan(self.limits, how)),
            None, size_of(data),
        )  # fmt: skip

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
    ) -> WriteResult:
        """Write a whole text file; at most 5 MiB.

        Encoding, BOM and line ending are those of the file that is replaced, unless told; a new
        file is UTF-8 without BOM, its line endings as given.
        """
        how = mode, expected_sha256, expected_version, parents, file_mode
        form = writing.FormAsked(encoding, bom, line_ending)
        return await self._run(
            operations.WRITE, "write_text", _new(path, parents),
            lambda call: writing.write_text(
                call, self._ignores, text, form, plan(self.limits, how, form)
            ),
            None, size_of(text),
        )  # fmt: skip

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
    ) -> WriteResult:
        """Write a JSON document: two spaces, keys in the order given, a newline at the end."""
        how = mode, expected_sha256, expected_version, parents, file_mode
        return await self._run(
            operations.WRITE, "write_json", _new(path, parents),
            lambda call: writing.write_json(call, self._ignores, value, plan(self.limits, how)),
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
    ) -> WriteResult:
        """Write a file of any size from chunks: an iterable, an async iterable, or a binary file.

        One chunk is in memory at a time; nothing is visible until all of it is there.
        """
        how = mode, expected_sha256, expected_version, parents, file_mode
        return await self._run(
            operations.WRITE, "write_stream", _new(path, parents),
            lambda call: writing.write_stream(call, self._ignores, source, plan(self.limits, how)),
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
    ) -> WriteResult:
        """Add to the end of a file, all or nothing, making it where it is missing.

        Text is encoded as the file is. Parallel appends lose nothing.
        """
        how: writing.How = "overwrite", expected_sha256, expected_version, parents, file_mode
        return await self._run(
            operations.WRITE, "append", _new(path, parents),
            lambda call: writing.append(call, self._ignores, data, plan(self.limits, how)),
            None, size_of(data),
        )  # fmt: skip

    async def truncate(self, path: PathText, size: int = 0) -> WriteResult:
        """Cut or extend (with zeros) an existing file to ``size`` bytes, all or nothing."""
        return await self._run(
            operations.WRITE, "truncate", Target(path, "entry"),
            lambda call: writing.truncate(call, self._ignores, size, plan(self.limits)), size=size,
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
        dry_run: bool = False,
    ) -> EditResult:
        """Replace text in a file: give ``edits``, or one as ``old`` and ``new``.

        All edits apply to the text as it was, must not overlap, and land together or not at all;
        bytes outside them stay as they are. An edit is a compare-and-swap on what it read.
        """
        return await self._run(
            operations.EDIT, "edit", Target(path, "entry"),
            lambda call: editing.edit(
                call, self._ignores, editing.collect(edits, old, new, replace_all),
                expected_sha256, dry_run,
            ),
            edits=edits, old=old, new=new, replace_all=replace_all,
            expected_sha256=expected_sha256, dry_run=dry_run,
        )  # fmt: skip

    # Looking

    async def list(
        self,
        path: PathText = ".",
        *,
        cursor: str | None = None,
        limit: int | None = None,
        include_ignored: bool = False,
    ) -> Page:
        """One page of a directory, sorted by name; at most 2,000 entries."""
        return await self._run(
            operations.LIST, "list", Target(path, "object"),
            lambda call: listing.list_page(call, self._ignores, cursor, limit, include_ignored),
            cursor=cursor, limit=limit, include_ignored=include_ignored,
        )  # fmt: skip

    async def find(
        self,
        path: PathText = ".",
        pattern: str | None = None,
        *,
        type: EntryType | None = None,
        depth: int | None = None,
        empty: bool | None = None,
        size_min: int | None = None,
        size_max: int | None = None,
        modified_after_ns: int | None = None,
        limit: int | None = None,
        include_ignored: bool = False,
    ) -> Found:
        """Everything beneath ``path`` that fits all conditions, sorted by path.

        A ``pattern`` without a slash is held against the name at any depth, one with a slash
        against the path from ``path``.
        """
        asked = finding.FindAsked(
            pattern=pattern, type=type, depth=depth, empty=empty, size_min=size_min,
            size_max=size_max, modified_after_ns=modified_after_ns, limit=limit,
            include_ignored=include_ignored,
        )  # fmt: skip
        given = msgspec.structs.asdict(asked)
        if pattern is None:
            del given["pattern"]
        return await self._run(
            operations.LIST, "find", Target(path, "object"),
            lambda call: finding.find(call, self._ignores, asked), **given,
        )  # fmt: skip

    async def files(
        self, prefix: PathText = ".", *, limit: int | None = None, include_ignored: bool = False
    ) -> Found:
        """All files beneath a directory, flat; nothing where the directory is missing."""
        call = self._call(operations.LIST, "files", Target(prefix, "object"))
        try:
            check_all({"limit": limit, "include_ignored": include_ignored})
        except ParseError as error:
            raise await self._pipeline.failed(call, error) from None
        return await finding.files(call, self._ignores, limit, include_ignored)

    async def glob(
        self,
        pattern: str,
        base: PathText = ".",
        *,
        limit: int | None = None,
        include_ignored: bool = False,
    ) -> Found:
        """Files and directories whose path from ``base`` matches: ``* ** ? [ab] [!ab] {a,b}``.

        A pattern without a slash matches in ``base`` itself only; ``**`` stands for any number of
        directories, also none.
        """
        return await self._run(
            operations.LIST, "glob", Target(base, "object"),
            lambda call: finding.glob(call, self._ignores, pattern, limit, include_ignored),
            pattern=pattern, limit=limit, include_ignored=include_ignored,
        )  # fmt: skip

    async def grep(
        self,
        pattern: str,
        path: PathText = ".",
        *,
        literal: bool = False,
        ignore_case: bool = False,
        word: bool = False,
        include: str | Sequence[str] | None = None,
        exclude: str | Sequence[str] | None = None,
        max_results: int | None = None,
        max_file_bytes: int | None = -1,
        context: int = 0,
        include_ignored: bool = False,
        report_skipped: bool = True,
    ) -> GrepResult:
        """Lines that match an RE2 pattern in a file or beneath a directory.

        ``max_file_bytes`` None lifts the limit of 10 MiB a file. ``report_skipped=False`` leaves
        out the lists of skipped files, which is quicker on a large tree.
        """
        asked = searching.GrepAsked(
            pattern=pattern, literal=literal, ignore_case=ignore_case, word=word,
            include=include, exclude=exclude, max_results=max_results,
            max_file_bytes=max_file_bytes, context=context, include_ignored=include_ignored,
            report_skipped=report_skipped,
        )  # fmt: skip
        return await self._run(
            operations.SEARCH, "grep", Target(path, "object"),
            lambda call: searching.grep(call, self._ignores, asked),
            **msgspec.structs.asdict(asked),
        )  # fmt: skip

    async def stat(self, path: PathText) -> Stat:
        """What is known of the object; a link is followed."""
        return await self._run(operations.METADATA, "stat", Target(path, "object"), shaping.stat)

    async def lstat(self, path: PathText) -> Stat:
        """What is known of the entry itself; a link is not followed."""
        return await self._run(operations.METADATA, "lstat", Target(path, "entry"), shaping.stat)

    async def exists(self, path: PathText) -> bool:
        """Whether the path leads to something. A path that may not be named still raises."""
        return await shaping.exists(
            self._pipeline, self._call(operations.METADATA, "exists", Target(path, "object"))
        )

    async def readlink(self, path: PathText) -> str:
        """The text of a link."""
        return await self._run(
            operations.METADATA, "readlink", Target(path, "entry"), shaping.readlink
        )

    async def diff(
        self, path: PathText, other: PathText | None = None, *, text: str | None = None
    ) -> DiffResult:
        """The difference from ``path`` to ``other``, or to the given ``text``, as unified diff."""
        return await self._run(
            operations.READ, "diff", Target(path, "object"),
            lambda call: comparing.diff(call, other, text),
            None if other is None else Target(other, "object"),
        )  # fmt: skip

    # Shaping the tree

    async def make_dir(
        self, path: PathText, *, parents: bool = False, file_mode: int | None = None
    ) -> ChangeResult:
        """Make a directory; with ``parents`` also those above it, and an existing one is fine."""
        return await self._run(
            operations.WRITE, "make_dir", _new(path, parents),
            lambda call: shaping.make_dir(call, parents, file_mode),
            parents=parents, file_mode=file_mode,
        )  # fmt: skip

    async def remove(
        self, path: PathText, *, recursive: bool = False, missing_ok: bool = False
    ) -> ChangeResult:
        """Remove a file, a link itself, or a directory (a full one only with ``recursive``)."""
        return await self._run(
            operations.DELETE, "remove", Target(path, "entry", parents=missing_ok is True),
            lambda call: shaping.remove(call, self._ignores, recursive, missing_ok),
            recursive=recursive, missing_ok=missing_ok,
        )  # fmt: skip

    async def move(self, path: PathText, to: PathText, *, replace: bool = False) -> ChangeResult:
        """Give a file, link or directory another name, atomically."""
        return await self._run(
            operations.MOVE, "move", Target(path, "entry"),
            lambda call: shaping.move(call, self._ignores, replace),
            Target(to, "entry", creates=True), replace=replace,
        )  # fmt: skip

    async def copy(self, path: PathText, to: PathText, *, recursive: bool = False) -> ChangeResult:
        """Copy a file or link, or with ``recursive`` a directory, to a new name."""
        return await self._run(
            operations.COPY, "copy", Target(path, "entry"),
            lambda call: copying.copy(call, self._ignores, recursive),
            Target(to, "entry", creates=True), recursive=recursive,
        )  # fmt: skip

    async def copy_from(
        self,
        other: Scope,
        path: PathText,
        to: PathText,
        *,
        recursive: bool = False,
        parents: bool = False,
    ) -> ChangeResult:
        """Copy from another scope into this one; the grants and policies of both apply."""
        there = self._call(operations.COPY_DESTINATION, "copy_from", _new(to, parents))

        def source() -> tuple[Call, Ignores]:
            check_all({"recursive": recursive, "parents": parents})
            if not isinstance(other, Scope):
                raise ParseError(f"other must be a scope, not {type(other).__name__}")
            return other._source_call(there, path)

        return await copying.copy_between(source, there, self._ignores, recursive=recursive)

    async def copy_in(
        self, host_path: str, to: PathText, *, recursive: bool = False, parents: bool = False
    ) -> ChangeResult:
        """Copy from a host directory that this root's configuration lists."""
        there = self._call(operations.COPY_IN_DESTINATION, "copy_in", _new(to, parents))

        def source() -> tuple[Call, Ignores]:
            check_all({"host_path": host_path, "recursive": recursive, "parents": parents})
            scope = copying.source_for(self._copy_in_scopes, host_path)
            return scope._source_call(there, host_path)

        return await copying.copy_between(source, there, self._ignores, recursive=recursive)

    def _source_call(self, there: Call, path: PathText) -> tuple[Call, Ignores]:
        """The half of a copy between roots that this scope answers for."""
        scope = self.with_request(there.request_id)
        return scope._call(operations.COPY_SOURCE, there.verb, Target(path, "entry")), self._ignores

    async def symlink(self, path: PathText, target: str) -> ChangeResult:
        """Make a link at ``path`` whose text is ``target``, relative to the link's directory."""
        return await self._run(
            operations.WRITE, "symlink", _new(path, False),
            lambda call: shaping.symlink(call, target), target=target,
        )  # fmt: skip

    async def set_mode(self, path: PathText, file_mode: int) -> ChangeResult:
        """Set the permission bits of a file or directory."""

        def act(call: Call) -> Awaitable[ChangeResult]:
            an_int("file_mode", file_mode)
            return shaping.set_mode(call, file_mode)

        return await self._run(operations.WRITE, "set_mode", Target(path, "entry"), act)

    async def set_times(
        self, path: PathText, mtime_ns: int, *, atime_ns: int | None = None
    ) -> ChangeResult:
        """Set the times of a file or directory."""
        return await self._run(
            operations.WRITE, "set_times", Target(path, "entry"),
            lambda call: shaping.set_times(call, mtime_ns, atime_ns),
            mtime_ns=mtime_ns, atime_ns=atime_ns,
        )  # fmt: skip

    def _call(
        self,
        operation: Operation,
        verb: str,
        target: Target,
        destination: Target | None = None,
        size: int | None = None,
    ) -> Call:
        pipeline, grant = self._pipeline, self.grant
        machine = pipeline.machine
        return Call(
            pipeline, pipeline.store, grant, grant.limits, self._front,
            self._request_id or machine.new_request_id(), operation, verb,
            machine.monotonic_ns(), target, destination, size,
        )  # fmt: skip

    def _run(
        self,
        operation: Operation,
        verb: str,
        place: Target,
        act: Callable[[Call], Awaitable[Result]],
        destination: Target | None = None,
        written: int | None = None,
        /,
        **given: object,
    ) -> Coroutine[Any, Any, Result]:
        """One call. What was ``given`` is checked inside it, so that a refusal is on record."""
        call = self._call(operation, verb, place, destination, written)
        return self._pipeline.run(call, checking(given, act) if given else act)


def _new(path: PathText, parents: bool) -> Target:
    return Target(path, "entry", parents=parents is True, creates=True)
