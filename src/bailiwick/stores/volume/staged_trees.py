"""Whole trees made in a directory that has no name, and given one when they are complete.

Everything in a stage is ordinary rows, beneath a node that nothing leads to. Publishing is one
name. What a killed process left is already noted as fallen, and gc takes it away.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec

from bailiwick.errors import (
    BailiwickError,
    FileAlreadyExists,
    InternalError,
    IsADirectory,
    NotADirectory,
    PathNotFound,
    SymlinkEscape,
)
from bailiwick.model import MiB, Symlinks
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.store import Staged, WritePlan
from bailiwick.stores.volume.content.reader import ContentReader
from bailiwick.stores.volume.content.uploads import Prepared, VolumeUpload
from bailiwick.stores.volume.core import ChangeTurn, VolumeCore
from bailiwick.stores.volume.leases import check_lease
from bailiwick.stores.volume.lookup.paths import VolumeHandle, current_directory, stand
from bailiwick.stores.volume.refusals import check_link_text, check_size, not_through_a_link
from bailiwick.stores.volume.rows.mutation import Attributes, Mutation, attributes_of
from bailiwick.stores.volume.rows.records import (
    DIRECTORY,
    FILE,
    LINK,
    LINK_MODE,
    PERMISSION_BITS,
    BoundName,
    RowPlace,
)
from bailiwick.versions import Mark

_WAITING_BYTES_MAX: Final = 4 * MiB
"""Content that waits to be made with others in one version."""

_FALL: Final = """
INSERT INTO fallen (volume, branch, node, version, after) VALUES ($1, $2, $3, $4, '')
"""


class VolumeStage:
    """One tree that nothing leads to yet."""

    def __init__(
        self, core: VolumeCore, reader: ContentReader, place: VolumeHandle, size_max: int,
        symlinks: Symlinks, mark: Mark,
    ) -> None:  # fmt: skip
        self._core: Final = core
        self._place: Final = place
        self._plan: Final = WritePlan(size_max=size_max)
        self._symlinks: Final = symlinks
        self._mark: Final = mark
        # One version is made under a key: that in which it appears.
        self._apart: Final = msgspec.structs.replace(mark, key=None)
        self._top: int | None = None
        self._implied: set[ScopedPath] = set()
        self._types: dict[ScopedPath, str] = {}
        self._file: tuple[Staged, VolumeUpload] | None = None
        self._waiting: list[tuple[Staged, Prepared | None]] = []
        self._uploads: list[VolumeUpload] = []
        self._ended = False
        core.hold(self)

    async def add(self, steps: Sequence[Staged | bytes]) -> None:
        self._core.check_open()
        for step in steps:
            if isinstance(step, bytes):
                await self._write(step)
            else:
                await self._end_file()
                await self._make(step)
        await self._flush()

    async def _write(self, data: bytes) -> None:
        if self._file is None:
            raise InternalError("content follows the file it belongs to")
        step, upload = self._file
        check_size(self._final(step.path), upload.size + len(data), self._plan)
        await upload.add(data)

    async def _make(self, step: Staged) -> None:
        if step.type == "symlink":
            most = self._core.limits.link_text_bytes_max
            check_link_text(self._final(step.path), step.target, most)
            if self._symlinks == "reject":
                raise SymlinkEscape("links are not made in this root", path=self._final(step.path))
        self._note(step)
        if step.type == "file":
            self._file = (step, VolumeUpload(self._core, self._final(step.path)))
        else:
            self._waiting.append((step, None))

    def _note(self, step: Staged) -> None:
        """Refuse what is made twice, or in what is no directory, as soon as it is said."""
        way = ROOT
        for name in step.path.parent.parts:
            way = way.child(name)
            kind = self._types.setdefault(way, "implied")
            if kind == "symlink":
                raise not_through_a_link(self._final(way))
            if kind not in ("implied", "directory"):
                raise NotADirectory("not a directory", path=self._final(way))
        made = self._types.get(step.path)
        if made is not None and (made, step.type) != ("implied", "directory"):
            raise FileAlreadyExists("already exists", path=self._final(step.path))
        self._types[step.path] = step.type

    async def _end_file(self) -> None:
        if self._file is None:
            return
        step, upload = self._file
        self._file = None
        self._uploads.append(upload)
        self._waiting.append((step, await upload.finish()))
        if sum(made.size for _, made in self._waiting if made) > _WAITING_BYTES_MAX:
            await self._flush()

    async def _flush(self) -> None:
        """Make what waits, in one version."""
        waiting, self._waiting = self._waiting, []
        if not waiting and self._top is not None:
            return

        async def job(turn: ChangeTurn) -> int:
            mutation = turn.mutation("stage", self._apart)
            top = self._top
            if top is None:
                top = await self._make_top(turn, mutation)
            for step, prepared in waiting:
                await self._make_one(turn, mutation, top, step, prepared)
            return top

        try:
            self._top = await self._core.change(job, once=True)  # it notes what it has made
        except BaseException:
            for upload in self._uploads:
                await upload.end(published=False)
            self._uploads.clear()
            raise
        for upload in self._uploads:
            await upload.end(published=True)
        self._uploads.clear()

    async def _make_top(self, turn: ChangeTurn, mutation: Mutation) -> int:
        top = turn.transaction.numbers.next()
        view = turn.tree.view
        await mutation.set_inode(top, self._new_directory(mutation))
        await turn.transaction.session.run(_FALL, view.volume, view.branch, top, mutation.version)
        return top

    def _new_directory(self, mutation: Mutation, step: Staged | None = None) -> Attributes:
        mode, mtime_ns = self._core.modes.directory, mutation.now_ns
        if step is not None and step.file_mode is not None:
            mode = step.file_mode & PERMISSION_BITS
        if step is not None and step.mtime_ns is not None:
            mtime_ns = step.mtime_ns
        return Attributes(DIRECTORY, mode, 0, mtime_ns, None, None, None, None)

    async def _make_one(
        self,
        turn: ChangeTurn,
        mutation: Mutation,
        top: int,
        step: Staged,
        prepared: Prepared | None,
    ) -> None:
        directory = await self._directory(turn, mutation, top, step.path.parent)
        place = RowPlace(directory, step.path.name)
        standing = await turn.tree.name(*place)
        if step.type == "directory" and step.path in self._implied and standing is not None:
            self._implied.discard(step.path)
            await mutation.set_inode(standing.node, self._new_directory(mutation, step))
            return
        if standing is not None:
            raise FileAlreadyExists("already exists", path=self._final(step.path))
        if step.type == "directory":
            attributes = self._new_directory(mutation, step)
        elif step.type == "symlink":
            text = step.target.encode()
            attributes = Attributes(
                LINK, LINK_MODE, len(text), mutation.now_ns, None, None, None, text
            )
        else:
            attributes = await self._file_attributes(turn, mutation, top, step, prepared)
        await mutation.new_node(place, attributes)

    async def _file_attributes(
        self,
        turn: ChangeTurn,
        mutation: Mutation,
        top: int,
        step: Staged,
        prepared: Prepared | None,
    ) -> Attributes:
        mode = self._core.modes.file if step.file_mode is None else step.file_mode & PERMISSION_BITS
        mtime_ns = mutation.now_ns if step.mtime_ns is None else step.mtime_ns
        if prepared is not None:
            stored = await prepared.store(turn.transaction, turn.tree.view.volume)
            return Attributes(
                FILE, mode, prepared.size, mtime_ns, None, prepared.sha256,
                stored.content, stored.data,
            )  # fmt: skip
        target = ScopedPath(step.target)
        directory = await self._directory(turn, mutation, top, target.parent)
        bound = await turn.tree.name(directory, target.name)
        original = None if bound is None else await turn.tree.inode(bound.node)
        if original is None or original.kind != FILE:
            raise PathNotFound("no such file", path=self._final(target))
        return attributes_of(original, mode=mode, mtime_ns=mtime_ns, edition=None, created_ns=None)

    async def _directory(
        self, turn: ChangeTurn, mutation: Mutation, top: int, path: ScopedPath
    ) -> int:
        """A directory of the stage, made if it is not there yet."""
        directory, way = top, ROOT
        for name in path.parts:
            way = way.child(name)
            bound = await turn.tree.name(directory, name)
            if bound is None:
                attributes = self._new_directory(mutation)
                made = await mutation.new_node(RowPlace(directory, name), attributes)
                self._implied.add(way)
                directory = made.id
                continue
            if bound.kind == LINK:
                raise not_through_a_link(self._final(way))
            if bound.kind != DIRECTORY:
                raise NotADirectory("not a directory", path=self._final(way))
            directory = bound.node
        return directory

    # --- appearing ---------------------------------------------------------------------------

    async def publish(self) -> None:
        top = await self._complete()

        async def job(turn: ChangeTurn) -> None:
            held = self._place
            spot = await stand(turn.tree, held)
            if spot.bound is not None:
                raise FileAlreadyExists("already exists", path=held.path)
            await check_lease(turn, spot.directory, held.path.name, self._mark)
            mutation = turn.mutation("extract", self._mark)
            await self._rise(turn, mutation, top)
            await mutation.set_name(
                RowPlace(spot.directory, held.path.name), BoundName(top, DIRECTORY)
            )
            await mutation.touch_directories()

        await self._core.change(job)
        self._end()

    async def _complete(self) -> int:
        await self._end_file()
        await self._flush()
        assert self._top is not None
        return self._top

    async def _rise(self, turn: ChangeTurn, mutation: Mutation, top: int) -> None:
        inode = await turn.tree.inode(top)
        if inode is None:
            raise PathNotFound("the stage was taken away", path=self._place.path)
        await mutation.revive(top, attributes_of(inode))

    async def merge(self, *, replace: bool) -> None:
        top = await self._complete()

        async def job(turn: ChangeTurn) -> None:
            target = await current_directory(turn.tree, self._place)
            steps = await self._plan_merge(turn, top, target, replace=replace)
            for place, *_ in steps:
                await check_lease(turn, place.parent, place.name, self._mark)
            mutation = turn.mutation("extract", self._mark)
            for place, origin, bound, old in steps:
                await mutation.set_name(origin, None)
                await mutation.set_name(place, bound)
                if old is not None:
                    await mutation.end_inode(old)
            await mutation.end_inode(BoundName(top, DIRECTORY))
            mutation.touched = {place.parent for place, *_ in steps}
            await mutation.touch_directories()

        await self._core.change(job)
        self._end()

    async def _plan_merge(
        self, turn: ChangeTurn, top: int, target: int, *, replace: bool
    ) -> list[tuple[RowPlace, RowPlace, BoundName, BoundName | None]]:
        """Where each staged thing goes, from where, and what it replaces."""
        steps: list[tuple[RowPlace, RowPlace, BoundName, BoundName | None]] = []
        waiting = [(top, target, ROOT)]
        while waiting:
            staged, standing, way = waiting.pop()
            for name, bound in await turn.tree.children(staged):
                old = await turn.tree.name(standing, name)
                final = self._final(way.child(name))
                if old is not None and bound.kind == DIRECTORY:
                    _check_directory(old, final)
                    waiting.append((bound.node, old.node, way.child(name)))
                    continue
                if old is not None:
                    _check_replaced(bound, old, final, replace=replace)
                steps.append((RowPlace(standing, name), RowPlace(staged, name), bound, old))
        return steps

    async def discard(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            self._uploads.append(file[1])
        for upload in self._uploads:
            await upload.end(published=False)
        self._uploads.clear()
        top = self._top
        if top is None or self._ended or self._core.is_closed:
            self._end()
            return

        async def job(turn: ChangeTurn) -> None:
            if await turn.tree.inode(top) is not None:
                mutation = turn.mutation("discard", self._apart)
                await mutation.end_inode(BoundName(top, DIRECTORY))

        # Where this fails gc takes it away: it is noted as fallen since it was begun.
        with suppress(BailiwickError):
            await self._core.change(job)
        self._end()

    def _end(self) -> None:
        self._ended = True
        self._top = None
        self._core.let_go(self)

    def _final(self, path: ScopedPath) -> ScopedPath:
        return path.beneath(self._place.path)


def _check_directory(old: BoundName, final: ScopedPath) -> None:
    if old.kind == LINK:
        raise SymlinkEscape("is a link, and nothing is unpacked through one", path=final)
    if old.kind != DIRECTORY:
        raise NotADirectory("a directory of the archive meets something else", path=final)


def _check_replaced(bound: BoundName, old: BoundName, final: ScopedPath, *, replace: bool) -> None:
    if not replace or bound.kind == LINK:
        raise FileAlreadyExists("already exists", path=final)
    if old.kind == DIRECTORY:
        raise IsADirectory("a file of the archive meets a directory", path=final)
    if old.kind == LINK:
        raise not_through_a_link(final)
