"""Carrying out a plan on a store, change by change, so that an error undoes all of it.

Each change is done on the condition that what it replaces, removes or moves is what was looked at:
where others were quicker all of it is taken back, and it is `Stale`. Taking back touches only what
was done here: where someone else has changed a place since, theirs stays.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, suppress
from typing import Final

import msgspec

from bailiwick.errors import (
    BailiwickError,
    DirectoryNotEmpty,
    FileAlreadyExists,
    HashMismatch,
    NotADirectory,
    PathNotFound,
    PermissionDenied,
    PolicyDenied,
    SymlinkEscape,
    TooManyLinks,
    Unsupported,
)
from bailiwick.finishing import to_the_end
from bailiwick.model import ANYTHING, Expected, KiB, MiB
from bailiwick.paths import ScopedPath
from bailiwick.store import Handle, Staged, StagedRemoval, Stages, Store, Swaps, WritePlan
from bailiwick.unfollowed import unfollowed
from bailiwick.versions import Done, Plan, Stale, Touch, branches
from bailiwick.working_copy import CopyContents, Publishing, WorkingCopy

_OTHERS_WERE_QUICKER = (
    DirectoryNotEmpty, FileAlreadyExists, HashMismatch, NotADirectory, PathNotFound,
)  # fmt: skip


_STAGED_MIN: Final = 16
"""From so many new things in one directory on they are made out of sight, and flushed at once:
fewer are flushed as quickly one by one."""

_BATCH_BYTES: Final = 4 * MiB
_BATCH_STEPS: Final = 512
"""What of them is held in memory, and made before others get their turn."""

_SWAPPED_BYTES_MAX: Final = 256 * KiB
"""Of a file that is replaced or goes together with others: it is held in memory to be put aside.
Larger ones are streamed, one by one."""

_ONE_BY_ONE: Final = (PermissionDenied, SymlinkEscape, TooManyLinks, Unsupported)
"""Why changes that lie apart cannot be made together, where each may be possible by itself: another
filesystem is mounted between them, nothing can be put where they meet, a link leads there."""


_NOTHING: Final[Mapping[ScopedPath, str]] = {}


async def publish(
    store: Store, what: Publishing, copy: WorkingCopy, beside: Mapping[ScopedPath, str] = _NOTHING
) -> Done:
    """Carry out a plan: at once where a store has transactions, else so that it can be undone.
    ``beside`` are the versions that the rest of the copy is compared with."""
    if "Branches" not in store.powers:
        return await _one_by_one(store, what, copy, record=copy, beside=beside)
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
    done = [touch for steps in _in_order(store, what.plan.touches) for touch in steps]
    for touch in done[: what.taken_back]:
        if await stands(store, touch):
            publication.done.append((touch, None))
    await copy.restored(await publication.undo())


async def _one_by_one(
    store: Store, what: Publishing, contents: CopyContents, record: WorkingCopy | None = None,
    beside: Mapping[ScopedPath, str] = _NOTHING,
) -> Done:  # fmt: skip
    """Where it fails, ``record`` has it that it is taken back: whoever finds it goes on with
    that."""
    publication = _Publication(store, what, contents)
    try:
        await publication.know_by_content({**beside, **what.over})
        await publication.do_all(what.plan.touches)
        await publication.close_directories()
        if record is not None and (names := await publication.untouched_names()):
            await record.restored(names)
    except BaseException as error:
        await to_the_end(_undo(publication, what, record))
        if isinstance(error, _OTHERS_WERE_QUICKER):
            raise Stale from error
        raise
    return Done(publication.version, what.plan)


async def _undo(publication: _Publication, what: Publishing, record: WorkingCopy | None) -> None:
    if record is None:
        await publication.undo()
        return
    if publication.done:
        await record.publishing(what._replace(taken_back=len(publication.done)))
        await record.restored(await publication.undo())
    if publication.put_back:
        await record.restored(publication.put_back)


async def stands(store: Store, touch: Touch) -> bool:
    """Whether what a change makes stands in the tree."""
    try:
        entry = await unfollowed(store, touch.path)
    except PathNotFound:
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


def _in_order(store: Store, touches: Sequence[Touch]) -> Iterator[Sequence[Touch]]:
    """The changes of a plan as they are carried out: one by one, but for those in one row that are
    made together."""
    swaps = isinstance(store, Swaps)
    row: list[Touch] = []
    for touch in touches:
        if _goes_with_others(touch) if swaps else touch.kind == "created":
            row.append(touch)
            continue
        yield from _together(row, swaps)
        row = []
        if touch.kind != "moved" or not touch.beneath:  # else it goes with its directory
            yield (touch,)
    yield from _together(row, swaps)


def _goes_with_others(touch: Touch) -> bool:
    if touch.kind == "created" or (touch.kind == "deleted" and touch.type != "file"):
        return True
    small = touch.type == "file" and max(touch.size_before, touch.size) <= _SWAPPED_BYTES_MAX
    return small and (touch.kind == "deleted" or touch.sha256 != touch.sha256_before)


def _together(row: Sequence[Touch], swaps: bool) -> Iterator[Sequence[Touch]]:
    """What of a row is made at once: where a store can change much together some of it at a time,
    else what comes into one directory."""
    if not swaps:
        yield from _by_existing_parent(row).values()
        return
    batch: list[Touch] = []
    size = 0
    for touch in row:
        batch.append(touch)
        size += touch.size_before
        if len(batch) >= _BATCH_STEPS or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _above_all(touches: Sequence[Touch]) -> ScopedPath:
    """The innermost directory that all of them lie in."""
    above = touches[0].path.parent
    for touch in touches:
        while not touch.path.parent.lies_in(above):
            above = above.parent
    return above


def _by_existing_parent(touches: Sequence[Touch]) -> dict[ScopedPath, list[Touch]]:
    """What comes, by the directory that is there already, in which it comes to lie."""
    found: dict[ScopedPath, list[Touch]] = {}
    parents: dict[ScopedPath, ScopedPath] = {}
    for touch in touches:
        parent = parents.get(touch.path.parent, touch.path.parent)
        if touch.type == "directory":
            parents[touch.path] = parent
        found.setdefault(parent, []).append(touch)
    return found


class _Publication:
    """One plan under way, and how each change of it is taken back."""

    def __init__(self, store: Store, what: Publishing, contents: CopyContents) -> None:
        self._store = store
        self._what = what
        self._over = dict(what.over)
        self._size_max = what.size_max
        self._contents = contents
        self._modes: list[tuple[ScopedPath, int]] = []
        self._by_content: dict[ScopedPath, str] = {}
        self.done: list[tuple[Touch, str | None]] = []
        """What was done, and the version that it gave what stands there."""
        self.put_back: list[ScopedPath] = []
        """What was changed together with others in vain, and stands as before by another version.
        """
        self.version: str | None = None

    async def know_by_content(self, versions: Mapping[ScopedPath, str]) -> None:
        """A file that goes by several names has another version with each of them that is changed,
        and so has what is left of it. Where that happens here it is held by what it contains."""
        names: dict[str, list[ScopedPath]] = {}
        for path, version in versions.items():
            names.setdefault(version, []).append(path)
        for version in set(self._over.values()):
            if len(names[version]) > 1:
                with suppress(BailiwickError), closing(await self._entry(names[version][0])) as one:
                    if one.type == "file" and (await self._store.stat(one)).links > 1:
                        sha256 = await _hash_at(self._store, one)
                        if (await self._store.stat(one)).version == version:
                            self._by_content.update(dict.fromkeys(names[version], sha256))

    async def untouched_names(self) -> list[ScopedPath]:
        """Names of files that others of their names were changed of: they stand there as before,
        by another version."""
        done = {touch.origin or touch.path for touch, _ in self.done}
        found: list[ScopedPath] = []
        for path, sha256 in self._by_content.items():
            if path not in done:
                with suppress(BailiwickError), closing(await self._entry(path)) as entry:
                    if entry.type == "file" and await _hash_at(self._store, entry) == sha256:
                        found.append(path)
        return found

    async def undo(self) -> list[ScopedPath]:
        """Take back what was done. Returns where it stands as before, by another version."""
        restored: list[ScopedPath] = []
        for touch, version in reversed(self.done):
            with suppress(BailiwickError):  # others have changed it since: theirs stays
                await self._take_back(touch, version)
                if touch.kind != "created":
                    restored.append(touch.origin or touch.path)
        return restored + await self.untouched_names()

    async def do_all(self, touches: Sequence[Touch]) -> None:
        """In their order; what is much is done at once where it can be."""
        for steps in _in_order(self._store, touches):
            if len(steps) >= _STAGED_MIN:
                if isinstance(self._store, Swaps):
                    with suppress(*_ONE_BY_ONE):
                        await self._swap_all(self._store, steps)
                        continue
                elif "Stages" in self._store.powers:
                    await self._make_all(steps)
                    continue
            for touch in steps:
                await self._do(touch)

    async def _swap_all(self, store: Swaps, steps: Sequence[Touch]) -> None:
        """What goes or is replaced is put aside first; that is what must then be found there."""
        top = _above_all(steps)
        expected = await self._put_aside(steps)
        gone = [
            StagedRemoval(touch.path.relative_to(top), touch.type, expected[touch.path])
            for touch in steps
            if touch.kind == "deleted"
        ]
        over = {
            touch.path.relative_to(top): expected[touch.path]
            for touch in steps
            if touch.kind == "updated"
        }
        new = [self._opened(touch) for touch in steps if touch.kind != "deleted"]
        with closing(await self._directory(top)) as directory:
            stage = await store.stage_swap(directory, size_max=self._size_max)
            try:
                async with aclosing(self._steps(top, new)) as batches:
                    async for batch in batches:
                        await stage.add(batch)
                await stage.swap(over, gone)
            except BaseException:
                await to_the_end(self._look_again(steps, expected))
                raise
            finally:
                await to_the_end(stage.discard())
        self.done += [(touch, None) for touch in steps]

    async def _look_again(
        self, steps: Sequence[Touch], expected: Mapping[ScopedPath, Expected]
    ) -> None:
        """What went out and was put back is no change of others, though its version says so."""
        for touch in steps:
            if touch.kind == "created" or touch.type == "directory":
                continue
            with suppress(BailiwickError), closing(await self._entry(touch.path)) as entry:
                stat = await self._store.stat(entry)
                same = stat.type == touch.type and stat.target == touch.target
                if same and touch.type == "file":
                    same = await _hash_at(self._store, entry) == expected[touch.path].sha256
                if same and stat.version != self._over[touch.path]:
                    self._over[touch.path] = stat.version
                    self.put_back.append(touch.path)

    async def _put_aside(self, steps: Sequence[Touch]) -> dict[ScopedPath, Expected]:
        """What stands where something goes or is replaced, the content of files put aside."""
        expected: dict[ScopedPath, Expected] = {}
        contents: dict[ScopedPath, bytes] = {}
        for touch in steps:
            path = touch.path
            if touch.kind == "created":
                continue
            if touch.type == "directory":
                expected[path] = ANYTHING  # it goes if nothing is left in it
                continue
            wanted = self._expected(path)
            if touch.type == "file":
                with closing(await self._entry(path)) as entry:
                    data, _, version = await self._store.read(entry, 0, _SWAPPED_BYTES_MAX + 1)
                sha256 = hashlib.sha256(data).hexdigest()
                wanted.check(path, version, sha256)
                contents[path] = data
                wanted = wanted._replace(sha256=sha256)
            expected[path] = wanted
        await self._contents.keep_all(contents)
        return expected

    def _opened(self, touch: Touch) -> Touch:
        """A directory that comes is open until all has come that lies in it."""
        if touch.type != "directory" or touch.mode is None or touch.mode & 0o700 == 0o700:
            return touch
        self._modes.append((touch.path, touch.mode))
        return touch._replace(mode=touch.mode | 0o700)

    async def _directory(self, path: ScopedPath) -> Handle:
        directory = await self._store.resolve(path, "entry", directory=True)
        if directory.path != path or directory.type != "directory":
            directory.close()
            raise PathNotFound("others have put something else in its place", path=path)
        return directory

    async def _make_all(self, new: Sequence[Touch]) -> None:
        """Made out of sight, all of it is durable by one flush and comes by one merge."""
        store, parent = self._store, new[0].path.parent
        assert isinstance(store, Stages)
        with closing(await self._directory(parent)) as directory:
            stage = await store.stage(directory, size_max=self._size_max)
            try:
                async with aclosing(self._steps(parent, new)) as batches:
                    async for batch in batches:
                        await stage.add(batch)
                await stage.merge(replace=False)
            finally:
                await to_the_end(stage.discard())
        self.done += [(touch, None) for touch in new]

    async def _steps(
        self, parent: ScopedPath, new: Sequence[Touch]
    ) -> AsyncGenerator[list[Staged | bytes], None]:
        batch: list[Staged | bytes] = []
        size = 0
        for touch in new:
            assert touch.type != "other"
            path = touch.path.relative_to(parent)
            batch.append(Staged(path, touch.type, touch.mode, target=touch.target or ""))
            if touch.type == "file":
                async with aclosing(_as_shown(self._content(touch.path), touch)) as chunks:
                    async for chunk in chunks:
                        batch.append(chunk)
                        size += len(chunk)
                        if size >= _BATCH_BYTES:
                            yield batch
                            batch, size = [], 0
            if len(batch) >= _BATCH_STEPS:
                yield batch
                batch, size = [], 0
        yield batch

    async def _do(self, touch: Touch) -> None:
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
        """Make a place what it was before: as long as ``version`` stands there, if it is known, or
        else what was brought there."""
        path, before = touch.path, touch.mode_before
        wanted = Expected(version, None if version is not None else touch.sha256)
        expected = {"expected": wanted} if wanted.conditional else {}
        if touch.kind == "moved":
            assert touch.origin is not None
            if touch.sets_mode:
                await self._set_mode_at(path, before)
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
                    mode="replace", expected_version=version, expected_sha256=wanted.sha256,
                    file_mode=before, size_max=self._size_max,
                )  # fmt: skip
                await self._write_kept(entry, plan)
            elif before is not None:
                await self._store.set_mode(entry, before)

    async def close_directories(self) -> None:
        """Give new directories the modes that would have kept everything out of them."""
        for path, mode in reversed(self._modes):
            await self._set_mode_at(path, mode)

    async def _entry(self, path: ScopedPath) -> Handle:
        return await unfollowed(self._store, path)

    def _expected(self, path: ScopedPath) -> Expected:
        sha256 = self._by_content.get(path)
        return Expected(self._over[path] if sha256 is None else None, sha256)

    # --- what comes ---------------------------------------------------------------------------

    async def _make_dir(self, entry: Handle, touch: Touch) -> None:
        await self._store.make_dir(entry, file_mode=self._opened(touch).mode, parents=False)

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
        version, sha256 = self._expected(touch.path)
        plan = WritePlan(mode="replace", expected_version=version, expected_sha256=sha256)
        return await self._write(entry, touch, plan)

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
        if touch.sets_mode:
            await self._set_mode_at(touch.path, touch.mode)

    async def _set_mode_at(self, path: ScopedPath, mode: int | None) -> None:
        """Of what came here just now: nobody expects anything of its place."""
        assert mode is not None
        with closing(await self._entry(path)) as entry:
            await self._store.set_mode(entry, mode)

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
