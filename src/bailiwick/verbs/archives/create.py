"""`create_archive`: files of a tree, read one after the other, written as one file.

Each file is read under the policy of its own path. What policy hides is not in the archive, what it
refuses refuses the whole, and what it would ask is one question, put when the archive is staged and
not yet published.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Literal

import msgspec

from bailiwick.acts import WriteStream
from bailiwick.archives.entries import STEP_BYTES, ArchiveEntry
from bailiwick.archives.formats import format_for
from bailiwick.archives.names import entry_name
from bailiwick.archives.results import ArchiveResult
from bailiwick.archives.writer import ArchiveWriter, new_writer, written
from bailiwick.call import Call, Target
from bailiwick.errors import (
    Busy,
    FileAlreadyExists,
    HashMismatch,
    NotADirectory,
    NotARegularFile,
    ParseError,
)
from bailiwick.model import Stat
from bailiwick.operations import REPLACE, Access
from bailiwick.paths import DEPTH_MAX, ScopedPath
from bailiwick.policy import Allow, Decision, Hide
from bailiwick.proposal import Proposal
from bailiwick.resolution import resolve
from bailiwick.store import Handle, WritePlan, Written
from bailiwick.verbs.approval.agreements import Streaming
from bailiwick.verbs.approval.inventory import ShownListing, shown_hash
from bailiwick.verbs.checksum import sha256_inline
from bailiwick.verbs.entries import existing
from bailiwick.verbs.quota_charges import StreamCost, settle_written
from bailiwick.verbs.walks.ignore_files import Ignores
from bailiwick.verbs.walks.walk import Walk

_READ: frozenset[Access] = frozenset(("read",))
_WRITE: frozenset[Access] = frozenset(("write",))
_OVERWRITE: frozenset[Access] = frozenset(("write", REPLACE))

_ALLOWED_OR_ASKED = Allow("archive")
"""What is asked about is read all the same: the question comes before anything is published."""

_WHOLE_READ_BYTES = STEP_BYTES
"""Files up to this size are read in one go; larger ones by a stream."""


_SOURCES_SHOWN_MAX = 20


class _Counts:
    """What went into an archive."""

    def __init__(self) -> None:
        self.file = self.directory = self.symlink = self.bytes = 0


async def create(
    call: Call,
    ignores: Ignores,
    more: Sequence[Target],
    format: str | None,
    include_ignored: bool,
    plan: WritePlan,
) -> Proposal[ArchiveResult]:
    """Write an archive of the call's path and ``more`` paths to its destination."""
    to = call.destination_handle
    known = format_for(to.path.name, format)
    assert call.destination is not None
    if call.destination.directory:
        raise NotADirectory("the trailing slash demands a directory", path=to.path)
    if plan.mode == "create" and to.type is not None:
        raise FileAlreadyExists("already exists", path=to.path)
    if to.type is not None:  # what packs may add a file; to replace one is to write it
        call.pipeline.check_access(call.grant, _WRITE)
    decision = call.decide(to.path, _WRITE if to.type is None else _OVERWRITE)
    call.pipeline.obey(call, decision, call.destination, to.path)
    packing = _Packing(call, ignores, include_ignored)
    sources = await packing.sources(more)
    chunks, asking = _packed(packing, sources, new_writer(known)), None
    if call.questions is not None or call.pipeline.discreet:  # more may be asked about on the way
        packing.listing = ShownListing(call.limits.ask_diff_lines_max)
        call.given = {**(call.given or {}), "format": known, "of": _listed(sources)}
        asking = Streaming(call, to, plan, packing.listing)
    if to.type is None and not isinstance(call.decide(to.path, _OVERWRITE), Allow):
        plan = msgspec.structs.replace(plan, mode="create")  # what comes meanwhile stays

    def made(written: Written) -> ArchiveResult:
        ignores.forget(to.path)
        call.bytes, call.sha256_after = written.size, written.sha256
        if call.turn is not None:
            settle_written(call, to, written)
        kind: Literal["created", "updated"] = "created" if written.created else "updated"
        call.changed(kind, to.path, "file", version=written.version)
        counts = packing.counts
        return ArchiveResult(
            path=to.path, format=known, files=counts.file, directories=counts.directory,
            links=counts.symlink, bytes=counts.bytes, size=written.size, sha256=written.sha256,
            version=written.version, created=written.created, file_mode=written.file_mode,
            request_id=call.request_id,
        )  # fmt: skip

    return Proposal(
        WriteStream(to, chunks, plan), made, agreement=asking,
        counting=StreamCost(call, to),
    )  # fmt: skip


def _listed(sources: Sequence[Handle]) -> str:
    """What goes into an archive, for the person who is asked. What it is bound to is its hash."""
    more = len(sources) - _SOURCES_SHOWN_MAX
    shown = ", ".join(source.path for source in sources[:_SOURCES_SHOWN_MAX])
    return f"{shown} and {more} more" if more > 0 else shown


async def _packed(
    packing: _Packing, sources: list[Handle], writer: ArchiveWriter
) -> AsyncGenerator[bytes, None]:
    """The bytes of the archive, packed in a thread of their own, some at a time."""
    loop = asyncio.get_running_loop()
    thread = ThreadPoolExecutor(1, thread_name_prefix="bailiwick-archive")
    batch: list[ArchiveEntry | bytes] = []
    size = 0
    try:
        async with aclosing(packing.parts(sources)) as parts:
            async for part in parts:
                batch.append(part)
                size += len(part) if isinstance(part, bytes) else 512
                if size >= STEP_BYTES:
                    chunk = await loop.run_in_executor(thread, written, writer, batch)
                    batch, size = [], 0
                    if chunk:
                        yield chunk
        yield await loop.run_in_executor(thread, written, writer, batch)
        yield await loop.run_in_executor(thread, writer.finish)
    finally:
        thread.shutdown(wait=False)


class _Packing:
    """One archive under way: what goes into it, in the order of paths."""

    def __init__(self, call: Call, ignores: Ignores, include_ignored: bool) -> None:
        self._call = call
        self._ignores = ignores
        self._include_ignored = include_ignored
        self._to = call.destination_handle.path
        self._more: list[Handle] = []
        self._number = 0
        self.counts = _Counts()
        self.listing: ShownListing | None = None
        """What goes into it, for a person who may be asked."""

    async def sources(self, more: Sequence[Target]) -> list[Handle]:
        """What was named, sorted, without what lies in something else that was named."""
        call = self._call
        for target in more:
            target.handle = handle = await resolve(call, target)
            call.hold().callback(handle.close)
            self._more.append(handle)
            decision = call.decide(handle.path, _READ, handle.type == "directory")
            call.pipeline.obey(call, decision, target)
        found: list[Handle] = []
        for handle in sorted((call.handle, *self._more), key=lambda each: each.path.order):
            existing(handle)
            if handle.path == self._to:
                raise ParseError("an archive cannot hold itself", path=handle.path)
            if not any(handle.path.lies_in(other.path) for other in found[-1:]):
                found.append(handle)
        return found

    async def parts(self, sources: list[Handle]) -> AsyncGenerator[ArchiveEntry | bytes, None]:
        for source in sources:
            if source.type != "directory":
                async with aclosing(self._object(source)) as parts:
                    async for part in parts:
                        yield part
                continue
            async with aclosing(self._tree(source)) as parts:
                async for part in parts:
                    yield part

    async def _tree(self, source: Handle) -> AsyncGenerator[ArchiveEntry | bytes, None]:
        call = self._call
        walk = Walk(call, self._ignores, include_ignored=self._include_ignored, judge=self._judge)
        top = await call.store.resolve(source.path, "object", directory=True)
        try:
            if top.path != source.path:
                raise Busy("another directory took its place", path=source.path)
            if self._seen_path(source.path) != ".":
                yield self._entry(await call.store.stat(top))
            async with aclosing(walk.visits(top)) as visits:
                async for visit in visits:
                    if visit.path == self._to:
                        continue
                    if not visit.child.addressable:
                        raise ParseError("a name there is not valid text", path=visit.path)
                    handle = await call.store.descend(visit.directory, visit.child.name)
                    try:
                        async with aclosing(self._object(handle)) as parts:
                            async for part in parts:
                                yield part
                    finally:
                        handle.close()
        finally:
            top.close()
        walk.refuse_partial()

    def _judge(self, path: ScopedPath, is_directory: bool) -> Decision:
        call = self._call
        decision = call.decide(path, _READ, is_directory)
        if isinstance(decision, (Allow, Hide)):
            return decision
        call.pipeline.obey(call, decision, call.target, path)
        return _ALLOWED_OR_ASKED

    async def _object(self, handle: Handle) -> AsyncGenerator[ArchiveEntry | bytes, None]:
        """One object, without what lies beneath it."""
        store = self._call.store
        stat = await store.stat(handle)
        if stat.type == "symlink":
            yield self._entry(stat, target=await store.readlink(handle))
        elif stat.type == "directory":
            yield self._entry(stat)
        elif stat.type != "file":
            raise NotARegularFile("neither file, directory nor link", path=stat.path)
        elif stat.size <= _WHOLE_READ_BYTES:
            content = await store.read(handle, 0, stat.size)
            if content.size != stat.size:
                raise HashMismatch("the file was changed meanwhile", path=stat.path)
            yield self._entry(stat, data=content.data)
            yield content.data
        else:
            yield self._entry(stat)
            async with aclosing(store.stream(handle, 0, None)) as chunks:
                async for chunk in chunks:
                    yield chunk

    def _entry(self, stat: Stat, *, target: str = "", data: bytes | None = None) -> ArchiveEntry:
        self._number += 1
        kind = stat.type
        assert kind != "other"
        path = self._seen_path(stat.path)
        # What could not be unpacked again is not packed in the first place.
        entry_name(path, self._number, depth_max=DEPTH_MAX, portable=False)
        setattr(self.counts, kind, getattr(self.counts, kind) + 1)
        size = stat.size if kind == "file" else 0
        self.counts.bytes += size
        if self.listing is not None:
            about = target
            if data is not None and not self.listing.cut:
                about = shown_hash(sha256_inline(data))
            self.listing.add(path, kind, stat.mode & 0o777, size, about)
        return ArchiveEntry(path, kind, size, stat.mode & 0o777, stat.mtime_ns, target)

    def _seen_path(self, path: ScopedPath) -> ScopedPath:
        """A path as the caller sees it, who may be given a part of the tree for the whole."""
        return path.relative_to(self._call.grant.base)
