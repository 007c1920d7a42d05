"""Carrying out a plan on a store, change by change, so that an error undoes all of it.

Each change is done on the condition that what it replaces, removes or moves is what was looked at:
where others were quicker all of it is taken back, and it is `Stale`. Taking back touches only what
was done here: where someone else has changed a place since, theirs stays.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from contextlib import aclosing, closing, suppress

import msgspec

from bailiwick.errors import (
    BailiwickError,
    DirectoryNotEmpty,
    FileAlreadyExists,
    HashMismatch,
    NotADirectory,
    PathNotFound,
    PolicyDenied,
)
from bailiwick.finishing import to_the_end
from bailiwick.model import Expected
from bailiwick.paths import ScopedPath
from bailiwick.store import Handle, Store, WritePlan
from bailiwick.versions import Done, Plan, Stale, Touch, branches
from bailiwick.working_copy import CopyContents, Publishing, WorkingCopy

_OTHERS_WERE_QUICKER = (
    DirectoryNotEmpty, FileAlreadyExists, HashMismatch, NotADirectory, PathNotFound,
)  # fmt: skip


async def publish(store: Store, what: Publishing, copy: WorkingCopy) -> Done:
    """Carry out a plan: at once where a store has transactions, else so that it can be undone."""
    if "Branches" not in store.powers:
        return await _one_by_one(store, what, copy, record=copy)
    draft = await branches(store).begin()
    try:
        await _one_by_one(draft.store, what, copy)
        done = await draft.commit(what.mark)
        if done.conflicts:
            raise Stale
        return Done(done.version, what.plan)
    finally:
        await to_the_end(draft.discard())


async def take_back(store: Store, what: Publishing, copy: WorkingCopy) -> None:
    """Take back the first changes of a plan, as many as it says, as far as they still stand as they
    were made. What others have changed since stays."""
    publication = _Publication(store, what, copy)
    done = [each for each in what.plan.touches if each.kind != "moved" or not each.beneath]
    for touch in done[: what.taken_back]:
        if await stands(store, touch):
            publication.done.append((touch, None))
    await copy.restored(await publication.undo())


async def _one_by_one(
    store: Store, what: Publishing, contents: CopyContents, record: WorkingCopy | None = None
) -> Done:
    """Where it fails, ``record`` has it that it is taken back: whoever finds it goes on with
    that."""
    publication = _Publication(store, what, contents)
    try:
        for touch in what.plan.touches:
            await publication.do(touch)
        await publication.close_directories()
    except BaseException as error:
        await to_the_end(_undo(publication, what, record))
        if isinstance(error, _OTHERS_WERE_QUICKER):
            raise Stale from error
        raise
    return Done(publication.version, what.plan)


async def _undo(publication: _Publication, what: Publishing, record: WorkingCopy | None) -> None:
    if record is None:
        await publication.undo()
    elif publication.done:
        await record.publishing(what._replace(taken_back=len(publication.done)))
        await record.restored(await publication.undo())


async def stands(store: Store, touch: Touch) -> bool:
    """Whether what a change makes stands in the tree."""
    try:
        entry = await store.resolve(touch.path, "entry")
    except (NotADirectory, PathNotFound):
        return touch.kind == "deleted"
    with closing(entry):
        if touch.kind == "deleted" or entry.type is None:
            return touch.kind == "deleted" and entry.type is None
        if entry.type != touch.type:
            return False
        stat = await store.stat(entry)
        if touch.type == "symlink":
            return stat.target == touch.target
        if touch.mode is not None and stat.mode & 0o777 != touch.mode:
            return False
        return touch.type == "directory" or await _hash_at(store, entry) == touch.sha256


async def _hash_at(store: Store, entry: Handle) -> str:
    digest = hashlib.sha256()
    async with aclosing(store.stream(entry, 0, None)) as chunks:
        async for chunk in chunks:
            digest.update(chunk)
    return digest.hexdigest()


def paths_of(plan: Plan) -> frozenset[ScopedPath]:
    """All places that a plan is about."""
    origins = (each.origin for each in plan.touches if each.origin is not None)
    return frozenset((*(each.path for each in plan.touches), *origins))


class _Publication:
    """One plan under way, and how each change of it is taken back."""

    def __init__(self, store: Store, what: Publishing, contents: CopyContents) -> None:
        self._store = store
        self._what = what
        self._over = what.over
        self._size_max = what.size_max
        self._contents = contents
        self._modes: list[tuple[ScopedPath, int]] = []
        self.done: list[tuple[Touch, str | None]] = []
        """What was done, and the version that it gave what stands there."""
        self.version: str | None = None

    async def undo(self) -> list[ScopedPath]:
        """Take back what was done. Returns where it stands as before, by another version."""
        restored: list[ScopedPath] = []
        for touch, version in reversed(self.done):
            with suppress(BailiwickError):  # others have changed it since: theirs stays
                await self._take_back(touch, version)
                if touch.kind != "created":
                    restored.append(touch.origin or touch.path)
        return restored

    async def do(self, touch: Touch) -> None:
        if touch.kind == "moved" and touch.beneath:
            return  # with the directory that it lies in
        version: str | None = None
        with closing(await self._entry(touch.path)) as entry:
            match touch.kind, touch.type:
                case "deleted", _:
                    await self._remove(entry, touch)
                case "moved", _:
                    await self._move(entry, touch)
                case "created", "directory":
                    await self._make_dir(entry, touch)
                case "created", "symlink":
                    await self._store.symlink(entry, touch.target or "")
                    version = await self._version_at(touch.path)
                case "created", _:
                    version = await self._write(entry, touch, WritePlan(mode="create"))
                case _, "file" if touch.sha256 != touch.sha256_before:
                    version = await self._replace(entry, touch)
                case _:
                    await self._set_mode(entry, touch)
        self.done.append((touch, version))

    async def _take_back(self, touch: Touch, version: str | None) -> None:
        """Make a place what it was before: as long as ``version`` stands there, if it is known."""
        path, before = touch.path, touch.mode_before
        expected = {} if version is None else {"expected": Expected(version, None)}
        if touch.kind == "moved":
            assert touch.origin is not None
            moved, back = await self._entry(path), await self._entry(touch.origin)
            with closing(moved), closing(back):
                await self._store.move(moved, back, replace=False)
            return
        with closing(await self._entry(path)) as entry:
            if touch.kind == "deleted":
                await self._put_back(entry, touch)
            elif touch.kind == "created":
                await self._store.remove(entry, recursive=False, **expected)
            elif touch.type == "file" and touch.sha256 != touch.sha256_before:
                plan = WritePlan(
                    mode="replace", expected_version=version, file_mode=before,
                    size_max=self._size_max,
                )  # fmt: skip
                await self._write_kept(entry, plan)
            elif before is not None:
                await self._store.set_mode(entry, before)

    async def close_directories(self) -> None:
        """Give new directories the modes that would have kept everything out of them."""
        for path, mode in reversed(self._modes):
            with closing(await self._entry(path)) as entry:
                await self._store.set_mode(entry, mode)

    async def _entry(self, path: ScopedPath) -> Handle:
        return await self._store.resolve(path, "entry")

    def _expected(self, path: ScopedPath) -> Expected:
        return Expected(self._over[path], None)

    # --- what comes ---------------------------------------------------------------------------

    async def _make_dir(self, entry: Handle, touch: Touch) -> None:
        mode = touch.mode
        open_mode = None if mode is None else mode | 0o700  # what lies in it is made first
        await self._store.make_dir(entry, file_mode=open_mode, parents=False)
        if mode is not None and mode != open_mode:
            self._modes.append((touch.path, mode))

    async def _write(self, entry: Handle, touch: Touch, plan: WritePlan) -> str:
        """Publish the content that the plan shows, and no other."""
        plan = msgspec.structs.replace(plan, file_mode=touch.mode, size_max=self._size_max)
        async with aclosing(_as_shown(self._content(touch.path), touch)) as chunks:
            written = await self._store.write_stream(entry, chunks, plan)
        self.version = written.version
        return written.version

    async def _content(self, path: ScopedPath) -> AsyncGenerator[bytes, None]:
        merged = self._what.merged.get(path)
        if merged is not None:
            yield merged
            return
        async with aclosing(self._contents.content(path)) as chunks:
            async for chunk in chunks:
                yield chunk

    # --- what becomes another -----------------------------------------------------------------

    async def _replace(self, entry: Handle, touch: Touch) -> str:
        await self._keep(entry, touch.path)
        over = self._over[touch.path]
        return await self._write(entry, touch, WritePlan(mode="replace", expected_version=over))

    async def _set_mode(self, entry: Handle, touch: Touch) -> None:
        assert touch.mode is not None
        is_directory = touch.type == "directory"
        expected = {} if is_directory else {"expected": self._expected(touch.path)}
        await self._store.set_mode(entry, touch.mode, **expected)

    # --- what goes ----------------------------------------------------------------------------

    async def _move(self, entry: Handle, touch: Touch) -> None:
        origin = touch.origin
        assert origin is not None
        with closing(await self._entry(origin)) as source:
            # The version of a directory changes with every name in it: it is held by its contents.
            expected = {} if touch.type == "directory" else {"expected": self._expected(origin)}
            await self._store.move(source, entry, replace=False, **expected)

    async def _remove(self, entry: Handle, touch: Touch) -> None:
        if touch.type == "directory":
            await self._store.remove(entry, recursive=False)
            return
        if touch.type == "file":
            await self._keep(entry, touch.path)
        await self._store.remove(entry, recursive=False, expected=self._expected(touch.path))

    async def _put_back(self, entry: Handle, touch: Touch) -> None:
        mode = touch.mode_before
        if touch.type == "directory":
            await self._store.make_dir(entry, file_mode=mode, parents=False)
        elif touch.type == "symlink":
            await self._store.symlink(entry, touch.target or "")
        else:
            plan = WritePlan(mode="create", file_mode=mode, size_max=self._size_max)
            await self._write_kept(entry, plan)

    # --- what is put aside --------------------------------------------------------------------

    async def _keep(self, entry: Handle, path: ScopedPath) -> None:
        async with aclosing(self._store.stream(entry, 0, None)) as old:
            await self._contents.keep(path, old)

    async def _write_kept(self, entry: Handle, plan: WritePlan) -> None:
        async with aclosing(self._contents.kept(entry.path)) as chunks:
            await self._store.write_stream(entry, chunks, plan)

    async def _version_at(self, path: ScopedPath) -> str:
        with closing(await self._entry(path)) as entry:
            return (await self._store.stat(entry)).version


async def _as_shown(
    chunks: AsyncGenerator[bytes, None], touch: Touch
) -> AsyncGenerator[bytes, None]:
    """Content on its way, which must turn out to be what was decided on: else nothing of it is
    published."""
    digest = hashlib.sha256()
    async with aclosing(chunks):
        async for chunk in chunks:
            digest.update(chunk)
            yield chunk
    if digest.hexdigest() != touch.sha256:
        raise PolicyDenied("this is not what was shown", path=touch.path)
