"""Carrying out a plan on a store, change by change, so that an error undoes all of it.

Each change is done on the condition that what it replaces, removes or moves is what was looked at:
where others were quicker all of it is taken back, and it is `Stale`. Taking back touches only what
was done here: where someone else has changed a place since, theirs stays.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable
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
from bailiwick.working_copy import CopyContents, Publishing

_OTHERS_WERE_QUICKER = (
    DirectoryNotEmpty, FileAlreadyExists, HashMismatch, NotADirectory, PathNotFound,
)  # fmt: skip

Undo = Callable[[], Awaitable[object]]


async def publish(store: Store, what: Publishing, contents: CopyContents) -> Done:
    """Carry out a plan: at once where a store has transactions, else so that it can be undone."""
    if "Branches" not in store.powers:
        return await _one_by_one(store, what, contents)
    draft = await branches(store).begin()
    try:
        await _one_by_one(draft.store, what, contents)
        done = await draft.commit(what.mark)
        if done.conflicts:
            raise Stale
        return Done(done.version, what.plan)
    finally:
        await to_the_end(draft.discard())


async def _one_by_one(store: Store, what: Publishing, contents: CopyContents) -> Done:
    publication = _Publication(store, what, contents)
    try:
        for touch in what.plan.touches:
            await publication.do(touch)
        await publication.close_directories()
    except BaseException as error:
        await to_the_end(publication.undo())
        if isinstance(error, _OTHERS_WERE_QUICKER):
            raise Stale from error
        raise
    return Done(publication.version, what.plan)


def paths_of(plan: Plan) -> frozenset[ScopedPath]:
    """All places that a plan is about."""
    origins = (each.origin for each in plan.touches if each.origin is not None)
    return frozenset((*(each.path for each in plan.touches), *origins))


class _Publication:
    """One plan under way, and how each change of it is taken back."""

    def __init__(self, store: Store, what: Publishing, contents: CopyContents) -> None:
        self._store = store
        self._over = what.over
        self._size_max = what.size_max
        self._contents = contents
        self._undoing: list[Undo] = []
        self._modes: list[tuple[ScopedPath, int]] = []
        self.version: str | None = None

    async def undo(self) -> None:
        for undo in reversed(self._undoing):
            with suppress(BailiwickError):  # others have changed it since: theirs stays
                await undo()

    async def do(self, touch: Touch) -> None:
        if touch.kind == "moved" and touch.beneath:
            return  # with the directory that it lies in
        with closing(await self._entry(touch.path)) as entry:
            match touch.kind, touch.type:
                case "deleted", _:
                    await self._remove(entry, touch)
                case "moved", _:
                    await self._move(entry, touch)
                case "created", "directory":
                    await self._make_dir(entry, touch)
                case "created", "symlink":
                    await self._link(entry, touch)
                case "created", _:
                    await self._create(entry, touch)
                case _, "file" if touch.sha256 != touch.sha256_before:
                    await self._replace(entry, touch)
                case _:
                    await self._set_mode(entry, touch)

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
        self._takes_away(touch.path, None)
        if mode is not None and mode != open_mode:
            self._modes.append((touch.path, mode))

    async def _link(self, entry: Handle, touch: Touch) -> None:
        await self._store.symlink(entry, touch.target or "")
        self._takes_away(touch.path, await self._version_at(touch.path))

    async def _create(self, entry: Handle, touch: Touch) -> None:
        version = await self._write(entry, touch, WritePlan(mode="create"))
        self._takes_away(touch.path, version)

    def _takes_away(self, path: ScopedPath, version: str | None) -> None:
        async def undo() -> None:
            with closing(await self._entry(path)) as entry:
                expected = {} if version is None else {"expected": Expected(version, None)}
                await self._store.remove(entry, recursive=False, **expected)

        self._undoing.append(undo)

    async def _write(self, entry: Handle, touch: Touch, plan: WritePlan) -> str:
        """Publish the content that the plan shows, and no other."""
        plan = msgspec.structs.replace(plan, file_mode=touch.mode, size_max=self._size_max)
        async with aclosing(_as_shown(self._contents.content(touch.path), touch)) as chunks:
            written = await self._store.write_stream(entry, chunks, plan)
        self.version = written.version
        return written.version

    # --- what becomes another -----------------------------------------------------------------

    async def _replace(self, entry: Handle, touch: Touch) -> None:
        path, over = touch.path, self._over[touch.path]
        async with aclosing(self._store.stream(entry, 0, None)) as old:
            await self._contents.keep(path, old)
        version = await self._write(entry, touch, WritePlan(mode="replace", expected_version=over))

        async def undo() -> None:
            plan = WritePlan(
                mode="replace", expected_version=version, file_mode=touch.mode_before,
                size_max=self._size_max,
            )  # fmt: skip
            with closing(await self._entry(path)) as again:
                async with aclosing(self._contents.kept(path)) as chunks:
                    await self._store.write_stream(again, chunks, plan)

        self._undoing.append(undo)

    async def _set_mode(self, entry: Handle, touch: Touch) -> None:
        path, before = touch.path, touch.mode_before
        assert touch.mode is not None
        expected = {} if touch.type == "directory" else {"expected": self._expected(path)}
        await self._store.set_mode(entry, touch.mode, **expected)

        async def undo() -> None:
            if before is not None:
                with closing(await self._entry(path)) as again:
                    await self._store.set_mode(again, before)

        self._undoing.append(undo)

    # --- what goes ----------------------------------------------------------------------------

    async def _move(self, entry: Handle, touch: Touch) -> None:
        origin = touch.origin
        assert origin is not None
        with closing(await self._entry(origin)) as source:
            # The version of a directory changes with every name in it: it is held by its contents.
            expected = {} if touch.type == "directory" else {"expected": self._expected(origin)}
            await self._store.move(source, entry, replace=False, **expected)

        async def undo() -> None:
            moved, back = await self._entry(touch.path), await self._entry(origin)
            with closing(moved), closing(back):
                await self._store.move(moved, back, replace=False)

        self._undoing.append(undo)

    async def _remove(self, entry: Handle, touch: Touch) -> None:
        path, mode = touch.path, touch.mode_before
        if touch.type == "directory":
            await self._store.remove(entry, recursive=False)
            self._puts_back(path, lambda back: self._store.make_dir(
                back, file_mode=mode, parents=False
            ))  # fmt: skip
            return
        if touch.type == "symlink":
            text = await self._store.readlink(entry)
            await self._store.remove(entry, recursive=False, expected=self._expected(path))
            self._puts_back(path, lambda back: self._store.symlink(back, text))
            return
        async with aclosing(self._store.stream(entry, 0, None)) as old:
            await self._contents.keep(path, old)
        await self._store.remove(entry, recursive=False, expected=self._expected(path))

        async def write_again(back: Handle) -> None:
            plan = WritePlan(mode="create", file_mode=mode, size_max=self._size_max)
            async with aclosing(self._contents.kept(path)) as chunks:
                await self._store.write_stream(back, chunks, plan)

        self._puts_back(path, write_again)

    def _puts_back(self, path: ScopedPath, make: Callable[[Handle], Awaitable[object]]) -> None:
        async def undo() -> None:
            with closing(await self._entry(path)) as back:
                await make(back)

        self._undoing.append(undo)

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
