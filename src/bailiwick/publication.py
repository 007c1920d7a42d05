"""Carrying out a plan on a store, change by change, so that an error undoes all of it.

Each change is done on the condition that what it replaces, removes or moves is what was looked at:
where others were quicker all of it is taken back, and it is `Stale`. Taking back touches only what
was done here: where someone else has changed a place since, theirs stays.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, closing, suppress
from typing import Final

import msgspec

from bailiwick.change_rows import (
    BATCH_BYTES,
    BATCH_STEPS,
    SWAPPED_BYTES_MAX,
    above_all,
    in_order,
)
from bailiwick.changes_made import (
    OpenedAround,
    hash_at,
    leads_to,
    open_directories,
    opened_for_all,
    refuse_mounted,
    stands,
)
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
    escape_for_display,
)
from bailiwick.finishing import to_the_end
from bailiwick.lying_aside import bring_all_back, forget_all, lay_aside, tell_left
from bailiwick.model import ANYTHING, Expected
from bailiwick.paths import ScopedPath
from bailiwick.store import Handle, Staged, StagedRemoval, Stages, Store, Swaps, WritePlan
from bailiwick.unfollowed import unfollowed
from bailiwick.versions import Done, Plan, Stale, Touch, branches
from bailiwick.working_copy import CopyContents, Publishing, WorkingCopy

_OTHERS_WERE_QUICKER = (
    DirectoryNotEmpty, FileAlreadyExists, HashMismatch, NotADirectory, PathNotFound,
)  # fmt: skip


_THEIRS_STAYS: Final = (*_OTHERS_WERE_QUICKER, Stale)

Named = Callable[[ScopedPath], ScopedPath]
"""What to call a place towards whoever is told of it."""

_log = logging.getLogger("bailiwick.working_copies")

_STAGED_MIN: Final = 16
"""From so many new things in one directory on they are made out of sight, and flushed at once:
fewer are flushed as quickly one by one."""

_ONE_BY_ONE: Final = (PermissionDenied, SymlinkEscape, TooManyLinks, Unsupported)
"""Why changes that lie apart cannot be made together, where each may be possible by itself: another
filesystem is mounted between them, nothing can be put where they meet, a link leads there."""


async def known_by_content(
    store: Store, what: Publishing, beside: Mapping[ScopedPath, str]
) -> Publishing:
    """A file or link that goes by several names has another version with each of them that is
    changed, and so has what is left of it. Where that happens it is held by what it contains, or by
    where it leads. ``beside`` are the versions that the rest of the copy is compared with."""
    if "Branches" in store.powers:
        return what
    names: dict[str, list[ScopedPath]] = {}
    for path, version in {**beside, **what.over}.items():
        names.setdefault(version, []).append(path)
    held: dict[ScopedPath, str] = {}
    leading: dict[ScopedPath, str] = {}
    for version in set(what.over.values()):
        if len(names[version]) > 1:
            with suppress(BailiwickError), closing(await unfollowed(store, names[version][0])) as x:
                stat = await store.stat(x)
                if stat.links > 1 and x.type == "file":
                    sha256 = await hash_at(store, x)
                    if (await store.stat(x)).version == version:
                        held.update(dict.fromkeys(names[version], sha256))
                elif stat.links > 1 and (target := leads_to(stat)) and stat.version == version:
                    leading.update(dict.fromkeys(names[version], target))
    return what._replace(held=held, leading=leading)


async def publish(
    store: Store, what: Publishing, copy: WorkingCopy, named: Named | None = None
) -> Done:
    """Carry out a plan: at once where a store has transactions, else so that it can be undone. What
    could not be taken back is told with the error, as far as it is ``named``."""
    if "Branches" not in store.powers:
        return await _one_by_one(store, what, copy, record=copy, named=named)
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
    rows = in_order(store, what.plan.touches, what.aside)
    done = [touch for steps in rows for touch in steps]
    done = done[: what.taken_back]
    try:
        await publication.around.open(what.shut, done)
        await open_directories(store, done)
        for touch in done:
            if await stands(store, opened_for_all(touch)):
                publication.done.append((touch, None))
        await copy.restored(await publication.undo())
    finally:
        publication.around.release()


async def _one_by_one(
    store: Store, what: Publishing, contents: CopyContents, record: WorkingCopy | None = None,
    named: Named | None = None,
) -> Done:  # fmt: skip
    """Where it fails, ``record`` has it that it is taken back: whoever finds it goes on with
    that."""
    publication = _Publication(store, what, contents)
    try:
        refuse_mounted(store, what.mounts, what.plan.touches)
        await publication.around.open(what.shut)
        await publication.do_all(what.plan.touches)
        await publication.close_directories()
        await publication.around.close(what.shut, what.plan.touches)
        if record is not None and (names := await publication.untouched_names()):
            await record.restored(names)
    except BaseException as error:
        await to_the_end(_undo(publication, what, record))
        if isinstance(error, _OTHERS_WERE_QUICKER):
            raise Stale from error
        if named is not None and isinstance(error, BailiwickError):
            tell_left(error, sorted(set(map(named, publication.left))))
        raise
    finally:
        publication.around.release()
    await to_the_end(publication.forget_aside())
    return Done(publication.version, what.plan)


async def _undo(publication: _Publication, what: Publishing, record: WorkingCopy | None) -> None:
    if record is None:
        await publication.undo()
        return
    if publication.done:
        await record.publishing(what._replace(taken_back=len(publication.done)))
    if publication.done or publication.aside or what.shut:
        await record.restored(await publication.undo())
    if publication.put_back:
        await record.restored(publication.put_back)


def paths_of(plan: Plan) -> frozenset[ScopedPath]:
    """All places that a plan is about."""
    origins = (each.origin for each in plan.touches if each.origin is not None)
    return frozenset((*(each.path for each in plan.touches), *origins))


class _Publication:
    """One plan under way, and how each change of it is taken back."""

    def __init__(self, store: Store, what: Publishing, contents: CopyContents) -> None:
        self._store = store
        self._what = what
        self._over = dict(what.over)
        self._size_max = what.size_max
        self._contents = contents
        self.around = OpenedAround(store)
        self._shut: list[Touch] = []
        self.aside = {
            each.path: what.aside[each.path]
            for each in what.plan.touches
            if each.kind == "deleted" and each.path in what.aside
        }
        self.done: list[tuple[Touch, str | None]] = []
        """What was done, and the version that it gave what stands there."""
        self.put_back: list[ScopedPath] = []
        """What was changed together with others in vain, and stands as before by another version.
        """
        self.left: list[ScopedPath] = []
        """What stood there before could not be put back."""
        self.version: str | None = None

    async def untouched_names(self) -> list[ScopedPath]:
        """Names of files that others of their names were changed of: they stand there as before,
        by another version."""
        done = {touch.origin or touch.path for touch, _ in self.done}
        found: list[ScopedPath] = []
        for path, sha256 in self._what.held.items():
            if path not in done:
                with suppress(BailiwickError), closing(await self._entry(path)) as entry:
                    if entry.type == "file" and await hash_at(self._store, entry) == sha256:
                        found.append(path)
        for path, target in self._what.leading.items():
            if path not in done:
                with suppress(BailiwickError), closing(await self._entry(path)) as entry:
                    if leads_to(await self._store.stat(entry)) == target:
                        found.append(path)
        return found

    async def undo(self) -> list[ScopedPath]:
        """Take back what was done. Returns where it stands as before, by another version."""
        restored: list[ScopedPath] = []
        await self.around.open(self._what.shut, [touch for touch, _ in self.done])
        await open_directories(self._store, self._shut)
        for touch, version in reversed(self.done):
            origin = touch.origin or touch.path
            try:
                refuse_mounted(self._store, self._what.mounts, [touch])
                await self._take_back(touch, version)
            except (BailiwickError, Stale) as error:
                # Where others have changed it since theirs stays, and nothing is missing.
                if touch.kind in ("deleted", "moved") or not isinstance(error, _THEIRS_STAYS):
                    self.left.append(origin)
                    _log.warning("%s could not be put back", escape_for_display(origin))
            else:
                if touch.kind != "created" and origin not in self.aside:
                    restored.append(origin)
        back, left = await bring_all_back(self._store, self.aside, self._laid())
        self.left += left
        await self.around.close(self._what.shut)
        return restored + back + await self.untouched_names()

    def _laid(self) -> set[ScopedPath]:
        return {touch.path for touch, _ in self.done if touch.kind == "deleted"} & set(self.aside)

    async def forget_aside(self) -> None:
        """What lies aside may be in directories that are shut by now, one in another."""
        if self.aside:
            shut, touches = self._what.shut, self._what.plan.touches
            await self.around.open(shut, touches)
            await open_directories(self._store, self._shut)
            await self.around.open(shut, touches)
            await forget_all(self._store, self.aside, self._laid())
            with suppress(BailiwickError):  # others have changed it meanwhile: theirs stays
                await self.close_directories()
            await self.around.close(shut, touches)

    async def do_all(self, touches: Sequence[Touch]) -> None:
        """In their order; what is much is done at once where it can be."""
        for steps in in_order(self._store, touches, self.aside):
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
        refuse_mounted(self._store, self._what.mounts, steps)
        top = above_all(steps)
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
                    same = await hash_at(self._store, entry) == expected[touch.path].sha256
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
            if path in self._what.leading:
                raise Unsupported("each changes the version of the others", path=path)
            wanted = self._expected(path)
            if touch.type == "file":
                with closing(await self._entry(path)) as entry:
                    data, _, version = await self._store.read(entry, 0, SWAPPED_BYTES_MAX + 1)
                sha256 = hashlib.sha256(data).hexdigest()
                wanted.check(path, version, sha256)
                contents[path] = data
                wanted = wanted._replace(sha256=sha256)
            expected[path] = wanted
        await self._contents.keep_all(contents)
        return expected

    def _mode_before(self, touch: Touch) -> int | None:
        """What it had, but a directory that was shut is open until all is taken back."""
        if touch.type != "directory" or touch.mode_before is None:
            return touch.mode_before
        was = touch._replace(kind="created", mode=touch.mode_before)
        is_shut = (touch.origin or touch.path) in self._what.shut
        return opened_for_all(was).mode if is_shut else touch.mode_before

    def _opened(self, touch: Touch) -> Touch:
        """A directory is open until all has come, or gone, that lies in it."""
        opened = opened_for_all(touch)
        if opened != touch:
            self._shut.append(touch)
        return opened

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
                        if size >= BATCH_BYTES:
                            yield batch
                            batch, size = [], 0
            if len(batch) >= BATCH_STEPS:
                yield batch
                batch, size = [], 0
        yield batch

    async def _do(self, touch: Touch) -> None:
        version: str | None = None
        refuse_mounted(self._store, self._what.mounts, [touch])
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
        path, before = touch.path, self._mode_before(touch)
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
                if path not in self.aside:
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
        """Give directories the modes that would have kept everything out of them."""
        for touch in reversed(self._shut):
            await self._set_mode_at(touch.path, touch.mode)

    async def _entry(self, path: ScopedPath) -> Handle:
        return await unfollowed(self._store, path)

    def _expected(self, path: ScopedPath) -> Expected:
        sha256 = self._what.held.get(path)
        return Expected(self._over[path] if sha256 is None else None, sha256)

    async def _expected_of(self, entry: Handle) -> Expected:
        """That, of a link too."""
        target = self._what.leading.get(entry.path)
        if target is None:
            return self._expected(entry.path)
        stat = await self._store.stat(entry)
        if leads_to(stat) != target:
            raise HashMismatch("others have changed it meanwhile", path=entry.path)
        return Expected(stat.version)

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
        if touch.type == "directory":
            await self._set_directory_mode(entry, touch)
            return
        assert touch.mode is not None
        await self._store.set_mode(entry, touch.mode, expected=self._expected(touch.path))

    async def _set_directory_mode(self, entry: Handle, touch: Touch) -> None:
        opened = self._opened(touch)
        if opened.mode is not None and opened.mode != touch.mode_before:
            await self._store.set_mode(entry, opened.mode)

    # --- what goes ----------------------------------------------------------------------------

    async def _move(self, entry: Handle, touch: Touch) -> None:
        origin = touch.origin
        assert origin is not None
        with closing(await self._entry(origin)) as source:
            # The version of a directory changes with every name in it: it is held by its contents.
            is_directory = touch.type == "directory"
            expected = {} if is_directory else {"expected": await self._expected_of(source)}
            await self._store.move(source, entry, replace=False, **expected)
        if touch.sets_mode:
            with closing(await self._entry(touch.path)) as moved:
                if touch.type == "directory":
                    await self._set_directory_mode(moved, touch)
                elif touch.mode is not None:
                    await self._store.set_mode(moved, touch.mode)

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
        expected = await self._expected_of(entry)
        if touch.path in self.aside:
            await lay_aside(self._store, entry, self.aside[touch.path], expected)
            return
        await self._store.remove(entry, recursive=False, expected=expected)

    async def _put_back(self, entry: Handle, touch: Touch) -> None:
        mode = self._mode_before(touch)
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
