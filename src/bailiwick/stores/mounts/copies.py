"""A copy from one mount to another: made out of sight, so that it appears whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import Final

from bailiwick.errors import HashMismatch, NotARegularFile, PathNotFound
from bailiwick.finishing import to_the_end
from bailiwick.limits import Limits
from bailiwick.model import Expected
from bailiwick.paths import DEPTH_MAX, ROOT, ScopedPath, tree_too_deep
from bailiwick.store import Child, Handle, Stage, Staged, Stages, Store, WritePlan
from bailiwick.stores.mounts.table import MountedStore

_NAMES_AT_ONCE: Final = 1_000


class MountStage:
    """A tree that is staged in a mount: what goes wrong is told by its name in the whole tree."""

    def __init__(self, mount: MountedStore, stage: Stage) -> None:
        self._mount = mount
        self._stage = stage

    async def add(self, steps: Sequence[Staged | bytes]) -> None:
        with self._mount.told():
            await self._stage.add(steps)

    async def publish(self) -> None:
        with self._mount.told():
            await self._stage.publish()

    async def merge(self, *, replace: bool) -> None:
        with self._mount.told():
            await self._stage.merge(replace=replace)

    async def discard(self) -> None:
        with self._mount.told():
            await self._stage.discard()


async def copy_across(store: Store, source: Handle, destination: Handle, limits: Limits) -> int:
    """Copy what ``source`` holds to a new name in another mount of ``store``. Returns how many
    objects were made. What is neither file, directory nor link is `NotARegularFile`."""
    if source.type == "symlink":
        await store.symlink(destination, await store.readlink(source))
        return 1
    if source.type == "directory":
        return await _copy_tree(store, source, destination, limits)
    if source.type != "file":
        raise NotARegularFile("not a regular file", path=source.path)
    stat = await store.stat(source)
    # The bits of what is read are those of a mount that may not be written: its owner may.
    mode = stat.mode & 0o777 | (0o200 if stat.read_only else 0)
    plan = WritePlan(mode="create", file_mode=mode, size_max=limits.max_file_bytes)
    async with aclosing(store.stream(source, 0, None)) as chunks:
        written = await store.write_stream(destination, chunks, plan)
    with suppress(HashMismatch, PathNotFound):
        still = Expected(written.version, written.sha256)
        await store.set_times(destination, stat.mtime_ns, None, expected=still)
    return 1


async def _copy_tree(store: Store, source: Handle, destination: Handle, limits: Limits) -> int:
    assert isinstance(store, Stages)
    stage = await store.stage(destination, size_max=limits.max_file_bytes)
    try:
        copy = _TreeCopy(store, stage, destination.path.levels)
        await copy.take_all(source)
        await stage.publish()
        return copy.count
    finally:
        await to_the_end(stage.discard())


class _TreeCopy:
    """A tree on its way to a stage, directory by directory."""

    def __init__(self, store: Store, stage: Stage, levels: int) -> None:
        self._store = store
        self._stage = stage
        self._levels = levels
        self.count = 1

    async def take_all(self, source: Handle) -> None:
        held: list[tuple[Handle, ScopedPath]] = [(source, ROOT)]
        try:
            while held:
                directory, place = held.pop()
                try:
                    held += await self._take_names(directory, place)
                finally:
                    if directory is not source:
                        directory.close()
        finally:
            for directory, _ in held:
                directory.close()

    async def _take_names(
        self, directory: Handle, place: ScopedPath
    ) -> list[tuple[Handle, ScopedPath]]:
        """Everything in one directory but what lies in those that it holds, which are returned."""
        below: list[tuple[Handle, ScopedPath]] = []
        after: str | None = None
        more = True
        try:
            while more:
                names = await self._store.children(directory, after=after, limit=_NAMES_AT_ONCE)
                for child in names.entries:
                    kept = await self._take(directory, child, place.child(child.name))
                    below += [] if kept is None else [(kept, place.child(child.name))]
                    after = child.name
                more = names.more and bool(names.entries)
        except BaseException:
            for each, _ in below:
                each.close()
            raise
        return below

    async def _take(self, directory: Handle, child: Child, place: ScopedPath) -> Handle | None:
        """Stage one object. A directory stays held, for what lies in it."""
        if not child.addressable:
            raise NotARegularFile(
                "a name here is not valid text", path=directory.path.child(child.name)
            )
        if self._levels + place.levels > DEPTH_MAX:
            raise tree_too_deep(directory.path.child(child.name))
        entry = await self._store.descend(directory, child.name)
        stays = False
        try:
            stat = await self._store.stat(entry)
            mode = stat.mode & 0o777 | (0o200 if stat.read_only else 0)
            if stat.type == "symlink":
                text = await self._store.readlink(entry)
                await self._stage.add([Staged(place, "symlink", target=text)])
            elif stat.type == "directory":
                await self._stage.add([Staged(place, "directory", mode, stat.mtime_ns)])
                stays = True
            elif stat.type == "file":
                await self._stage.add([Staged(place, "file", mode, stat.mtime_ns)])
                async with aclosing(self._store.stream(entry, 0, None)) as chunks:
                    async for chunk in chunks:
                        await self._stage.add([chunk])
            else:
                raise NotARegularFile("not a regular file", path=entry.path)
            self.count += 1
            return entry if stays else None
        finally:
            if not stays:
                entry.close()
