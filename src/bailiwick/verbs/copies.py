"""`copy` within a root, and copies between roots, where both grants apply."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, closing
from typing import NamedTuple, Protocol, TypeVar

from bailiwick.acts import Copy, CopyIn, CopyOver, Within
from bailiwick.call import Call, place_in
from bailiwick.errors import (
    BailiwickError,
    Busy,
    FileAlreadyExists,
    FileTooLarge,
    IsADirectory,
    MissingAccess,
    NotARegularFile,
    ParseError,
    PathOutsideWorkspace,
)
from bailiwick.finishing import to_the_end
from bailiwick.grant import Root
from bailiwick.meter import NOTHING, Amount
from bailiwick.model import ANYTHING, ChangeResult, EntryType, Expected, Stat
from bailiwick.operations import Access
from bailiwick.paths import ScopedPath, check_new_name, check_portable, folded, parse
from bailiwick.proposal import Proposal
from bailiwick.reader import same_tree
from bailiwick.store import Handle, WritePlan
from bailiwick.unfollowed import unfollowed
from bailiwick.verbs.approval.agreements import Carrying, CarryingBetween
from bailiwick.verbs.approval.inventory import Load
from bailiwick.verbs.entries import existing
from bailiwick.verbs.modes import mode_in
from bailiwick.verbs.quota_charges import reserve_copy
from bailiwick.verbs.walks.ignore_files import Ignores
from bailiwick.verbs.walks.walk import Beneath, Visit, Walk, survey


class Mounted(Protocol):
    """A scope, as far as it says where its absolute paths begin."""

    @property
    def root(self) -> Root: ...


Source = TypeVar("Source", bound=Mounted)

_READ: frozenset[Access] = frozenset(("read",))


async def copy(
    call: Call, ignores: Ignores, recursive: bool, replaced: Expected
) -> Proposal[ChangeResult]:
    """Copy to a new name; or, where the caller says what is to be ``replaced``, over that file."""
    source, destination = call.handle, call.destination_handle
    kind = _copyable(source, destination, recursive, replaced)

    async def find() -> Beneath:
        return await survey(call, ignores, source, _READ, (call, destination.path))

    carrying = Carrying(call, ignores, await find(), find)

    def copied(count: int) -> ChangeResult:
        ignores.forget(destination.path, kind)
        call.changed(
            "updated" if replaced.conditional else "created", destination.path, kind,
            subtree=kind == "directory",
        )  # fmt: skip
        return ChangeResult(
            path=source.path, destination=destination.path, changed=True, count=count,
            request_id=call.request_id,
        )  # fmt: skip

    return Proposal(
        await _copy_over(call, source, destination, replaced)
        if replaced.conditional
        else Copy(source, destination, recursive),
        copied, agreement=carrying, cost=lambda: reserve_copy(call, source, destination),
        last_look=carrying.require,
    )  # fmt: skip


async def _copy_over(
    call: Call, source: Handle, destination: Handle, replaced: Expected
) -> CopyOver:
    stat = await call.store.stat(source)
    plan = WritePlan(
        mode="replace", expected_version=replaced.version, expected_sha256=replaced.sha256,
        file_mode=mode_in(call.grant.root, stat.mode & 0o777, "file"),
        size_max=call.limits.max_file_bytes,
    )  # fmt: skip
    return CopyOver(source, destination, plan, stat.mtime_ns, call.mark)


def _copyable(
    source: Handle, destination: Handle, recursive: bool, replaced: Expected
) -> EntryType:
    kind = existing(source)
    if replaced.conditional:
        _refuse_unreplaceable(source, destination, replaced)
        return kind
    if destination.type is not None:
        raise FileAlreadyExists("already exists", path=destination.path)
    if kind == "directory" and not recursive:
        raise IsADirectory("is a directory", path=source.path, hint="copy with recursive=True")
    return kind


def _refuse_unreplaceable(source: Handle, destination: Handle, replaced: Expected) -> None:
    """Only a file is copied over a file."""
    if destination.type is None:
        replaced.check(destination.path, None, None)
    for each in (source, destination):
        if each.type == "directory":
            raise IsADirectory("only a file is copied over a file", path=each.path)
        if each.type != "file":
            raise NotARegularFile("only a file is copied over a file", path=each.path)
    if source.path == destination.path:
        raise ParseError("a file is not copied over itself", path=source.path)


def source_for(scopes: tuple[Source, ...], host_path: str) -> Source:
    """The configured host directory in which ``host_path`` lies."""
    if not isinstance(host_path, str) or not host_path.startswith("/"):
        raise ParseError("a place on the host is named by its absolute path")
    for scope in scopes:
        try:
            parse(host_path, mount_point=scope.root.mount_point)
        except PathOutsideWorkspace:
            continue
        return scope
    raise MissingAccess(
        "no host directory that this root may copy from holds that path",
        hint="list the directory under copy_in when the root is opened",
    )


def copy_between(
    source: Callable[[], Awaitable[tuple[Call, Ignores]]],
    ignores_there: Ignores,
    *,
    recursive: bool,
) -> Callable[[Call], Awaitable[Proposal[ChangeResult]]]:
    """Copy a file, a link, or a tree from one root to another: one call, and one record, on each.

    The destination is admitted first; only then is the ``source``'s call made.
    """

    async def prepare(there: Call) -> Proposal[ChangeResult]:
        here, ignores = await source()
        await there.hold().enter_async_context(here.pipeline.reading(here))
        path, to = here.handle.path, there.handle.path
        kind = _copyable(here.handle, there.handle, recursive, ANYTHING)
        if same_tree(here.store, there.store) and kind == "directory" and to.lies_in(path):
            raise ParseError("a directory cannot be copied into itself", path=to)
        there.given = {**(there.given or {}), "from": place_in(here.grant, path)}

        async def find() -> Beneath:
            return await survey(here, ignores, here.handle, _READ, (there, to), measures=True)

        carrying = CarryingBetween(here, there, ignores, await find(), find)
        await carrying.ask_here()

        async def charge() -> None:
            await there.take_turn(to)
            await there.account(carrying.found.size, carrying.found.files)

        def copied(count: int) -> ChangeResult:
            ignores_there.forget(to, kind)
            there.changed("created", to, kind, subtree=kind == "directory")
            return ChangeResult(
                path=path, destination=to, changed=True, count=count, request_id=there.request_id
            )

        async def make(store: Within) -> int:
            return await _Copy(here, there, store, ignores, carrying.load).make(kind)

        return Proposal(
            CopyIn(there.handle, make, there.mark), copied, agreement=carrying, cost=charge,
            last_look=carrying.require,
        )  # fmt: skip

    return prepare


class _Made(NamedTuple):
    """One object that this copy made. ``version`` is None for a directory (what others have put
    into it since keeps it in place), empty where it is not known yet."""

    path: ScopedPath
    version: str | None


class _Copy:
    """One copy between two roots under way. What it made is removed again when it fails: exactly
    that, and only while nobody else has changed it."""

    def __init__(
        self, here: Call, there: Call, store: Within, ignores: Ignores, load: Load | None
    ) -> None:
        self._load = load
        self._store = store
        self._here = here
        self._there = there
        self._ignores = ignores
        self._portable = there.grant.root.names == "portable"
        self._names: set[tuple[ScopedPath, str]] = set()
        self._directories: list[tuple[ScopedPath, Stat]] = []
        self._made: list[_Made] = []
        self._files = 0
        here.bytes = there.bytes = 0

    async def make(self, kind: EntryType) -> int:
        """Make the copy; returns how many objects it has."""
        here, there = self._here, self._there
        try:
            if kind == "file" and not self._store.is_draft:
                await self._file(here.handle, there.handle, parents=there.target.parents)
                return 1
            await self._parents()
            if kind == "directory":
                return await self._tree(there.handle.path)
            await self._object(here.handle, there.handle.path)
        except BaseException:
            await to_the_end(self._undo())
            raise
        return 1

    async def _parents(self) -> None:
        """Make the directories that are missing above the copy, one by one: those that others
        make at the same time are theirs."""
        there = self._there
        missing: list[ScopedPath] = []
        above = there.handle.path.parent
        while there.target.parents and not above.is_root:
            entry = await self._store.resolve(above, "entry", parents=True)
            with closing(entry):
                if entry.type is not None:
                    break
                missing.append(above)
            above = above.parent
        there.new_parents = []
        for path in reversed(missing):
            entry = await unfollowed(self._store, path)
            with closing(entry):
                try:
                    await self._make_dir(entry)
                except FileAlreadyExists:
                    continue
                there.new_parents.append(path)

    async def _make_dir(self, entry: Handle) -> None:
        await self._store.make_dir(entry)
        self._made.append(_Made(entry.path, None))

    async def _tree(self, to: ScopedPath) -> int:
        here = self._here
        top = await here.store.resolve(here.handle.path, "object")
        with closing(top):
            await self._object(top, to)
            walk, count = Walk(here, self._ignores, include_ignored=True), 1
            async with aclosing(walk.visits(top)) as visits:
                async for visit in visits:
                    await self._visited(visit, top.path, to)
                    count += 1
        walk.refuse_partial()
        # Last, since making what lies in a directory changes its time and needs its mode.
        for path, stat in reversed(self._directories):
            await self._dress(path, stat)
        return count

    async def _visited(self, visit: Visit, top: ScopedPath, to: ScopedPath) -> None:
        here, name = self._here, visit.child.name
        if not visit.child.addressable:
            raise ParseError("a name there is not valid text", path=visit.path)
        check_new_name(name)
        if self._portable:
            check_portable(name)
            key = visit.directory.path, folded(name)
            if key in self._names:
                raise FileAlreadyExists(
                    "a name that differs only in case or accents exists",
                    path=visit.path, hint="this root keeps names portable",
                )  # fmt: skip
            self._names.add(key)
        handle = await here.store.descend(visit.directory, name)
        with closing(handle):
            await self._object(handle, visit.path.relative_to(top).beneath(to))

    async def _object(self, handle: Handle, to: ScopedPath) -> None:
        """One object, without what lies beneath it."""
        entry = await self._store.resolve(to, "entry")
        with closing(entry):
            if entry.path != to:
                raise Busy("another directory took the place of a copied one", path=to)
            if handle.type == "file":
                await self._file(handle, entry, parents=False)
            elif handle.type == "symlink":
                await self._store.symlink(entry, await self._here.store.readlink(handle))
                self._made.append(_Made(to, ""))
                self._made[-1] = _Made(to, await self._version_of(to))
            elif handle.type == "directory":
                await self._make_dir(entry)
                self._directories.append((to, await self._here.store.stat(handle)))
            else:
                raise NotARegularFile("neither file, directory nor link", path=handle.path)

    async def _file(self, handle: Handle, entry: Handle, *, parents: bool) -> None:
        here, there = self._here, self._there
        stat = await here.store.stat(handle)
        if stat.size > there.limits.max_file_bytes:
            raise FileTooLarge(
                f"files over {there.limits.max_file_bytes} bytes are not copied here",
                path=handle.path, details={"limit": there.limits.max_file_bytes},
            )  # fmt: skip
        plan = WritePlan(
            mode="create", parents=parents, size_max=there.limits.max_file_bytes,
            file_mode=mode_in(there.grant.root, stat.mode & 0o777, "file"),
        )  # fmt: skip
        chunks = here.store.stream(handle, 0, None)
        if self._load is not None:
            chunks = _agreed(chunks, handle.path, self._load)
        if there.turn is not None:
            chunks = self._counted(chunks)
        async with aclosing(chunks):
            written = await self._store.write_stream(entry, chunks, plan)
            self._made.append(_Made(entry.path, written.version))
        here.bytes = there.bytes = (there.bytes or 0) + written.size
        if there.turn is not None:
            self._files += 1
            there.added = Amount(there.bytes, self._files)
        if handle is here.handle:
            there.sha256_after = written.sha256
        await self._dress(entry.path, stat)
        self._made[-1] = _Made(entry.path, await self._version_of(entry.path))

    async def _counted(self, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        """Chunks as they come, charged for where the destination has a quota: what is copied may
        have grown since it was charged for."""
        there, size = self._there, self._there.bytes or 0
        charged = there.charged or NOTHING
        await there.account(0, self._files + 1 - charged.files)
        async with aclosing(chunks):
            async for chunk in chunks:
                size += len(chunk)
                charged = there.charged or NOTHING
                await there.account(size - charged.size, 0)
                yield chunk

    async def _dress(self, path: ScopedPath, stat: Stat) -> None:
        """Give a copy the mode and time of what it was copied from."""
        store = self._store
        entry = await unfollowed(store, path)
        with closing(entry):
            if stat.type == "directory":
                mode = mode_in(self._there.grant.root, stat.mode & 0o777, "directory")
                await store.set_mode(entry, mode)
            await store.set_times(entry, stat.mtime_ns)

    async def _version_of(self, path: ScopedPath) -> str:
        store = self._store
        entry = await unfollowed(store, path)
        with closing(entry):
            return (await store.stat(entry)).version

    async def _undo(self) -> None:
        store = self._store
        for path, _ in self._directories:  # some may have a mode by now that keeps all in them
            try:
                entry = await unfollowed(store, path)
                with closing(entry):
                    await store.set_mode(entry, 0o700)
            except BailiwickError:
                continue
        for path, version in reversed(self._made):
            try:
                entry = await unfollowed(store, path)
                with closing(entry):
                    if (await store.stat(entry)).version == version or (
                        version is None and entry.type == "directory"
                    ):
                        await store.remove(entry)
            except BailiwickError:
                continue


async def _agreed(
    chunks: AsyncGenerator[bytes, None], path: ScopedPath, load: Load
) -> AsyncGenerator[bytes, None]:
    """Chunks as they come; after the last, when nothing is published, refuse what a person did not
    see: a tree takes its time, and what was looked at before may be another by now."""
    digest = hashlib.sha256()
    async with aclosing(chunks):
        async for chunk in chunks:
            digest.update(chunk)
            yield chunk
    load.require_content(path, digest.hexdigest())
