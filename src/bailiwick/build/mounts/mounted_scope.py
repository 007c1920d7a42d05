"""A scope as a part of a tree of mounts: each verb of the tree is one of the scope, under its own
grant, rules and records.

What the tree has judged is the name that its lookup found, with no link left in it. It is acted on
through a view of the scope that follows none: whoever swaps a directory for a link meanwhile leads
nowhere.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Final

import msgspec

from bailiwick.errors import Closed, HashMismatch, NotADirectory, PathNotFound, Unsupported
from bailiwick.model import ANYTHING, EntryType, Expected, Hardlinks, MoreThan, Stat, Symlinks
from bailiwick.nodes.refusals import check_size
from bailiwick.paths import ScopedPath
from bailiwick.pipeline import Pipeline
from bailiwick.scope import Scope
from bailiwick.store import (
    Child,
    Children,
    Content,
    Handle,
    Look,
    Narrows,
    Store,
    WritePlan,
    Written,
)
from bailiwick.versions import Mark

_CURSORS_MAX: Final = 64
"""Listings that are gone through page by page at a time; of another one the beginning is listed
again."""


class ScopeHandle:
    """What a scope has told of a place; None for a place where nothing stands."""

    __slots__ = ("path", "size", "type")

    def __init__(self, path: ScopedPath, stat: Stat | None) -> None:
        self.path: Final = path
        self.type: EntryType | None = None if stat is None else stat.type
        self.size = 0 if stat is None else stat.size

    def close(self) -> None:
        """It holds nothing."""


class ScopeStore:
    """The names and bytes that a scope shows. The scope stays its owner's, and is not closed."""

    def __init__(self, scope: Scope) -> None:
        """Raises `Unsupported` for a scope on a tree of mounts, and on what cannot be seen without
        its links."""
        whole = scope._lent.pipeline
        if whole.store.description.get("kind") == "mounts":
            raise Unsupported("a tree of mounts is not mounted in another")
        if "Narrows" not in whole.store.powers or not isinstance(whole.store, Narrows):
            raise Unsupported("the store of this scope cannot be seen without its links")
        self._whole = whole
        self._strict = _linkless(whole, whole.store.narrowed(symlinks="reject"))
        lent = msgspec.structs.replace(scope._lent, pipeline=self._strict)
        self._seen, self._acted = scope, Scope(lent, None, scope._life)
        self._cursors: dict[tuple[ScopedPath, str], str] = {}
        self._is_closed = False

    def begin(self) -> None:
        """It is mounted from now on: what is under way ends before the root of the scope does."""
        self._whole.dependents[id(self)] = self._strict.drain

    @property
    def tree(self) -> Store:
        """What the scope is on."""
        return self._whole.store

    @property
    def top(self) -> ScopedPath:
        """How much of it the scope reaches."""
        return self._seen.grant.path

    # --- what it is ---------------------------------------------------------------------------

    @property
    def powers(self) -> frozenset[str]:
        return frozenset({"Marks", "Narrows"})

    @property
    def description(self) -> dict[str, str]:
        told = self._whole.store.description
        return {"kind": f"scope of {told.get('kind', 'a store')}", "symlinks": "in-root"}

    def marked(self, mark: Mark) -> ScopeStore:
        """A change has the request of whoever changed the tree on the scope's record, too."""
        return self._viewed(self._seen, self._acted.with_request(mark.request_id))

    def narrowed(
        self, *, symlinks: Symlinks | None = None, hardlinks: Hardlinks | None = None
    ) -> ScopeStore:
        if hardlinks == "reject":
            raise Unsupported("whether files have more names is for the scope to say")
        return self._viewed(self._acted if symlinks == "reject" else self._seen, self._acted)

    def shares_tree(self, other: Store) -> bool:
        return isinstance(other, ScopeStore) and other._whole is self._whole

    def _viewed(self, seen: Scope, acted: Scope) -> ScopeStore:
        view = ScopeStore.__new__(ScopeStore)
        view.__dict__.update(self.__dict__, _seen=seen, _acted=acted)
        return view

    # --- lookup -------------------------------------------------------------------------------

    async def resolve(
        self, path: ScopedPath, look: Look, *, directory: bool = False, parents: bool = False
    ) -> Handle:
        self._check_open()
        looking = self._seen.stat if look == "object" or path.is_root else self._seen.lstat
        try:
            found = await looking(path)
        except PathNotFound:
            if look == "object" or path.is_root:
                raise
            return await self._place_for(path, parents=parents)
        if directory and found.type != "directory":
            raise NotADirectory("not a directory", path=path)
        return ScopeHandle(found.path, found)

    async def _place_for(self, path: ScopedPath, *, parents: bool) -> ScopeHandle:
        """Where something could be made: in the deepest directory there is."""
        names, above = [path.name], path.parent
        found: Stat | None = None
        while found is None:
            try:
                found = await self._seen.stat(above)
            except PathNotFound:
                if not parents or above.is_root:
                    raise
                names.insert(0, above.name)
                above = above.parent
        if found.type != "directory":
            raise NotADirectory("a part of the path is not a directory", path=path)
        place = found.path
        for name in names:
            place = place.child(name)
        return ScopeHandle(place, None)

    async def descend(self, directory: Handle, name: str) -> Handle:
        self._check_open()
        if name in ("", ".", "..") or "/" in name:
            raise PathNotFound("no such file or directory", path=directory.path)
        found = await self._acted.lstat(directory.path.child(name))
        return ScopeHandle(found.path, found)

    # --- reading ------------------------------------------------------------------------------

    async def stat(self, handle: Handle) -> Stat:
        self._check_open()
        found = await self._acted.lstat(handle.path)
        if found.type == "symlink" and handle.type not in ("symlink", None):
            raise HashMismatch("another thing stands there by now", path=handle.path)
        return found

    async def children(
        self, directory: Handle, *, after: str | None = None, limit: int | None = None
    ) -> Children:
        self._check_open()
        path = directory.path
        cursor = None if after is None else self._cursors.pop((path, after), None)
        found: list[Child] = []
        most = self._acted.limits.list_page_max
        step = most if limit is None else min(limit, most)
        while True:
            page = await self._acted.list(path, cursor=cursor, limit=step, include_ignored=True)
            found += [
                Child(each.name, each.type, each.size, each.mtime_ns, each.addressable)
                for each in page.entries
                if after is None or each.name > after
            ]
            cursor = page.next_cursor
            if cursor is None or (limit is not None and len(found) >= limit):
                break
        kept = found if limit is None else found[:limit]
        if cursor is not None and len(kept) == len(found):
            if len(self._cursors) >= _CURSORS_MAX:
                self._cursors.clear()
            self._cursors[path, kept[-1].name] = cursor
        return Children(kept, more=cursor is not None or len(kept) < len(found))

    async def names_beside(self, entry: Handle) -> list[str]:
        try:
            beside = await self.resolve(entry.path.parent, "object", directory=True)
        except PathNotFound:
            return []
        return [each.name for each in (await self.children(beside)).entries if each.addressable]

    async def read(self, file: Handle, offset: int, length: int) -> Content:
        self._check_open()
        most = self._acted.limits.bytes_call_max
        first = await self._acted.read_bytes(file.path, offset, min(length, most))
        data = first.data
        while len(data) < length and offset + len(data) < first.size:
            rest = min(length - len(data), most)
            more = await self._acted.read_bytes(file.path, offset + len(data), rest)
            if more.version != first.version or not more.data:
                raise HashMismatch("it was changed while it was read", path=file.path)
            data += more.data
        return Content(data, first.size, first.version)

    async def stream(
        self, file: Handle, offset: int, length: int | None
    ) -> AsyncGenerator[bytes, None]:
        self._check_open()
        async with aclosing(self._acted.stream(file.path, offset, length)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def readlink(self, entry: Handle) -> str:
        self._check_open()
        return await self._acted.readlink(entry.path)

    # --- content ------------------------------------------------------------------------------

    async def write(self, entry: Handle, data: bytes, sha256: str, plan: WritePlan) -> Written:
        self._check_open()
        check_size(entry.path, len(data), plan)
        done = await self._acted.write_bytes(entry.path, data, **_made_by(plan))
        return _written(done, sha256)

    async def write_stream(
        self, entry: Handle, chunks: AsyncIterator[bytes], plan: WritePlan
    ) -> Written:
        self._check_open()
        bounded = _bounded(entry.path, chunks, plan)
        async with aclosing(bounded):
            done = await self._acted.write_stream(entry.path, bounded, **_made_by(plan))
        return _written(done, "")

    async def append(self, entry: Handle, data: bytes, plan: WritePlan) -> Written:
        self._check_open()
        check_size(entry.path, entry.size + len(data), plan)
        given = {key: each for key, each in _made_by(plan).items() if key != "mode"}
        return _written(await self._acted.append(entry.path, data, **given), "")

    async def truncate(self, entry: Handle, size: int, plan: WritePlan) -> Written:
        self._check_open()
        check_size(entry.path, size, plan)
        done = await self._acted.truncate(entry.path, size, **_expecting(plan.expected))
        return _written(done, "")

    # --- names --------------------------------------------------------------------------------

    async def make_dir(self, entry: Handle, *, file_mode: int | None, parents: bool) -> bool:
        self._check_open()
        made = await self._acted.make_dir(entry.path, parents=parents, file_mode=file_mode)
        return made.changed

    async def remove(self, entry: Handle, *, recursive: bool, expected: Expected = ANYTHING) -> int:
        self._check_open()
        done = await self._acted.remove(entry.path, recursive=recursive, **_expecting(expected))
        return MoreThan(done.count) if done.count_truncated else done.count

    async def move(
        self, source: Handle, destination: Handle, *, replace: bool,
        expected: Expected = ANYTHING, replaced: Expected = ANYTHING,
    ) -> bool:  # fmt: skip
        self._check_open()
        done = await self._acted.move(
            source.path, destination.path, replace=replace, **_expecting(expected),
            expected_destination_version=replaced.version,
            expected_destination_sha256=replaced.sha256,
        )  # fmt: skip
        return done.changed

    async def copy(self, source: Handle, destination: Handle, *, recursive: bool) -> int:
        self._check_open()
        done = await self._acted.copy(source.path, destination.path, recursive=recursive)
        return done.count

    async def symlink(self, entry: Handle, target: str) -> None:
        raise Unsupported("no links are made in a mounted scope", path=entry.path)

    async def set_mode(
        self, entry: Handle, file_mode: int, *, expected: Expected = ANYTHING
    ) -> None:
        self._check_open()
        await self._acted.set_mode(entry.path, file_mode, **_expecting(expected))

    async def set_times(
        self, entry: Handle, mtime_ns: int, atime_ns: int | None, *, expected: Expected = ANYTHING
    ) -> None:
        self._check_open()
        times = {"atime_ns": atime_ns, **_expecting(expected)}
        await self._acted.set_times(entry.path, mtime_ns, **times)

    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._whole.dependents.pop(id(self), None)
            await self._strict.drain()

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("this store is closed")


def _linkless(whole: Pipeline, store: Store) -> Pipeline:
    """The pipeline of a root, over a view that follows no links."""
    return Pipeline(
        store=store, standing=whole.standing, policy=whole.policy, hooks=whole.hooks,
        ledger=whole.ledger, changes=whole.changes, machine=whole.machine,
        approvals=whole.approvals, meter=whole.meter if whole.meters else None,
    )  # fmt: skip


def _made_by(plan: WritePlan) -> dict[str, Any]:
    given = {"mode": plan.mode, "parents": plan.parents, "file_mode": plan.file_mode}
    return {**given, **_expecting(plan.expected)}


def _expecting(expected: Expected) -> dict[str, Any]:
    return {"expected_version": expected.version, "expected_sha256": expected.sha256}


def _written(done: Any, sha256: str) -> Written:
    return Written(done.created, done.size, done.sha256 or sha256, done.version, done.file_mode)


async def _bounded(
    path: ScopedPath, chunks: AsyncIterator[bytes], plan: WritePlan
) -> AsyncGenerator[bytes, None]:
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        check_size(path, size, plan)
        yield chunk
