"""What bringing a working copy back would do to the tree as it stands: every path is compared with
what it was when it was touched first, and with what stands there now."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import closing
from typing import Final, NamedTuple

from bailiwick.call import Call
from bailiwick.errors import PathNotFound, PermissionDenied
from bailiwick.model import EntryType
from bailiwick.operations import READ
from bailiwick.paths import ScopedPath
from bailiwick.store import Handle
from bailiwick.unfollowed import unfollowed
from bailiwick.verbs.checksum import content_hash
from bailiwick.verbs.modes import mode_in
from bailiwick.verbs.working_copies.content import joined, with_some_hunks
from bailiwick.verbs.working_copies.known_places import KnownPlaces, may_with
from bailiwick.verbs.working_copies.moves import Moves
from bailiwick.versions import Touch
from bailiwick.working_copy import (
    Alterations,
    Altered,
    ChosenText,
    Wanted,
    WorkConflict,
    WorkingCopy,
)

_PERMISSIONS: Final = 0o777
_DIRECTORY_MODE: Final = 0o755
_HOLDS_MORE: Final = "something lies in it that does not go with it"

_PATHS_BETWEEN_PAUSES: Final = 256
"""After so many paths looked at, others get their turn."""


class Drawn(NamedTuple):
    """What a working copy would do to the tree as it stands: ``over`` are the versions that it does
    it to. What is ``settled`` is in the tree already, whoever brought it there. ``merged`` is what
    files become that are brought as they stand neither here nor there; of those that are
    ``partly`` brought something is left, and so it is of those that are ``kept``, which others have
    changed as well: what they are compared with stays what it was. Where the machine lets nobody
    look it is ``shut``."""

    touches: list[Touch]
    over: dict[ScopedPath, str]
    conflicts: list[WorkConflict]
    settled: set[ScopedPath]
    merged: dict[ScopedPath, bytes]
    partly: frozenset[ScopedPath]
    kept: frozenset[ScopedPath]
    shut: dict[ScopedPath, PermissionDenied]


class _Now(NamedTuple):
    """What stands in the tree at a place of the working copy."""

    type: EntryType
    version: str
    mode: int
    size: int
    target: str | None


async def draw(call: Call, copy: WorkingCopy, found: Alterations, wanted: Wanted) -> Drawn:
    """Compare what was altered with what stands in the tree by now."""
    altered = [each for each in found.altered if wanted.covers(each.path)]
    drawing = _Drawing(call, copy, altered, wanted, found)
    for count, each in enumerate(altered, 1):
        if count % _PATHS_BETWEEN_PAUSES == 0:
            await asyncio.sleep(0)
        await (drawing.add_where_left if each.path in wanted.leaves else drawing.add)(each)
    return await drawing.finished()


class _Drawing:
    """A plan in the making."""

    def __init__(
        self, call: Call, copy: WorkingCopy, altered: list[Altered], wanted: Wanted,
        found: Alterations,
    ) -> None:  # fmt: skip
        self._call = call
        self._copy = copy
        self._wanted = wanted
        self._store = call.store
        self._gone = {each.path for each in altered if each.type is None} | wanted.leaves
        self._made = {
            each.path
            for each in altered
            if each.type == "directory" and (each.base is None or each.base.type != "directory")
        }
        self._found = found
        self._goes: list[Touch] = []
        self._comes: list[Touch] = []
        self._over: dict[ScopedPath, str] = {}
        self._conflicts: list[WorkConflict] = []
        self._settled: set[ScopedPath] = set()
        self._merged: dict[ScopedPath, bytes] = {}
        self._partly: set[ScopedPath] = set()
        self._kept: set[ScopedPath] = set()
        self._shut: dict[ScopedPath, PermissionDenied] = {}

    async def finished(self) -> Drawn:
        goes = sorted(self._goes, key=lambda each: each.path.order, reverse=True)
        known = KnownPlaces(self._call, self._found)
        seen, unseen = _parted(goes, known)
        coming, unseen_coming = _parted(self._comes, known)
        # What looks like a move does so without what nobody saw in it, which is judged by itself.
        moves = Moves(self._call, seen, coming, self._found.origins())
        touches = [*unseen, *await moves.found(), *unseen_coming]
        return Drawn(
            touches, self._over, self._conflicts, self._settled, self._merged,
            frozenset(self._partly), frozenset(self._kept), self._shut,
        )  # fmt: skip

    async def add(self, each: Altered) -> None:
        try:
            await self._add(each)
        except PermissionDenied as error:
            self._shut[each.path] = error

    async def _add(self, each: Altered) -> None:
        path = each.path
        entry = await self._entry_at(path)
        if entry is None:
            if each.type is None:
                self._settled.add(path)  # gone with what it lay in
            elif each.base is None and path.parent in self._made:
                self._comes.append(self._created(each))
            else:
                self._conflicts.append(WorkConflict(path=path))
            return
        with closing(entry):
            now = await self._now(entry)
            if now is None and self._wanted.over.get(path, "") is None:
                await self._make_way(path)
            text = self._wanted.texts.get(path)
            if text is not None:
                await self._add_text(each, text, entry, now)
            elif (
                now is not None
                and each.type == now.type
                and may_with(self._call, each, READ)  # else it would tell what is kept from them
                and await self._is_ours(each, entry, now)
            ) or (each.type is None and now is None):
                self._settled.add(path)
            elif not (self._goes_over(path, now) or await self._is_as_it_was(each, entry, now)):
                await self._add_changed_by_both(each, entry, now)
            elif path in self._wanted.hunks:
                await self._add_some_hunks(each, entry, now)
            elif now is None:
                self._comes.append(self._created(each))
            elif each.type is None:
                self._goes.append(self._deleted(path, now))
            elif each.type == now.type != "symlink":
                self._over[path] = now.version
                self._comes.append(await self._updated(each, entry, now))
            else:
                self._goes.append(self._deleted(path, now))
                self._comes.append(self._created(each))

    async def add_where_left(self, each: Altered) -> None:
        """What stands there will have been moved away."""
        assert each.type is not None, "it does not go where it has left"
        self._comes.append(self._created(each))

    async def _add_changed_by_both(self, each: Altered, entry: Handle, now: _Now | None) -> None:
        """It is joined where that was asked for and is possible, else it is a conflict."""
        path, base = each.path, each.base
        data: bytes | None = None
        reason = WorkConflict(path=path).reason
        if now is not None and base is not None and now.type == base.type == "directory":
            reason = _HOLDS_MORE
        elif self._wanted.merge and path not in self._wanted.hunks and now is not None:
            if each.type == now.type == "file" and base is not None and base.type == "file":
                data = await joined(self._call, self._copy, each, entry)
            reason = f"{reason}, and it cannot be joined with that"
        if data is None or now is None or base is None:
            self._conflicts.append(WorkConflict(path=path, reason=reason))
            return
        same_mode = each.mode & _PERMISSIONS == base.mode & _PERMISSIONS
        if same_mode and hashlib.sha256(data).hexdigest() == await content_hash(self._store, entry):
            self._settled.add(path)  # others have brought all of it already
            return
        mode = now.mode if each.mode & _PERMISSIONS == base.mode & _PERMISSIONS else each.mode
        await self._comes_as(each._replace(mode=mode), data, entry, now)

    async def _add_text(
        self, each: Altered, text: ChosenText, entry: Handle, now: _Now | None
    ) -> None:
        stands = None if now is None else now.version
        if stands != text.over or (now is not None and now.type != "file"):
            self._conflicts.append(WorkConflict(path=each.path))
            return
        if text.partly:
            as_it_was = await self._is_as_it_was(each, entry, now)
            (self._partly if as_it_was else self._kept).add(each.path)
        await self._comes_as(each._replace(type="file", mode=text.mode), text.data, entry, now)

    async def _add_some_hunks(self, each: Altered, entry: Handle, now: _Now | None) -> None:
        chosen = self._wanted.hunks[each.path]
        data = await with_some_hunks(self._call, self._copy, each, chosen, others=False)
        if hashlib.sha256(data).hexdigest() != each.sha256:
            self._partly.add(each.path)
        await self._comes_as(each, data, entry, now)

    async def _comes_as(self, each: Altered, data: bytes, entry: Handle, now: _Now | None) -> None:
        path = each.path
        becomes = each._replace(size=len(data), sha256=hashlib.sha256(data).hexdigest())
        self._merged[path] = data
        if now is None:
            self._comes.append(self._created(becomes))
        else:
            self._over[path] = now.version
            self._comes.append(await self._updated(becomes, entry, now))

    async def _entry_at(self, path: ScopedPath) -> Handle | None:
        """None where nothing can stand, since what is above it is no directory. What a link above
        it leads to is something else, and nothing of this copy."""
        try:
            return await unfollowed(self._store, path, parents=True)
        except PathNotFound:
            return None

    async def _now(self, entry: Handle) -> _Now | None:
        if entry.type is None:
            return None
        stat = await self._store.stat(entry)
        return _Now(stat.type, stat.version, stat.mode & _PERMISSIONS, stat.size, stat.target)

    def _goes_over(self, path: ScopedPath, now: _Now | None) -> bool:
        """Whether somebody has seen what stands there, and has it replaced. What lies in a
        directory they have not seen."""
        if path not in self._wanted.over or (now is not None and now.type == "directory"):
            return False
        return self._wanted.over[path] == (None if now is None else now.version)

    async def _is_ours(self, each: Altered, entry: Handle, now: _Now) -> bool:
        """Whether what stands there is what would be brought."""
        if each.type == "symlink":
            return each.target == now.target
        if self._mode(each) != now.mode:
            return False
        return each.type == "directory" or (
            each.size == now.size and await content_hash(self._store, entry) == each.sha256
        )

    async def _is_as_it_was(self, each: Altered, entry: Handle, now: _Now | None) -> bool:
        """Whether nobody else has changed what stands there, or what it stands in."""
        base = each.base
        if now is None:
            return base is None and await self._has_parent(each.path)
        if base is None or now.type != base.type:
            return False
        if now.type != "directory":
            return now.version == base.version
        if each.type == "directory":
            return True
        children = await self._store.children(entry)
        return all(each.path.child(child.name) in self._gone for child in children.entries)

    async def _make_way(self, path: ScopedPath) -> None:
        """Have the directories made that others removed around something that is to stand there
        all the same."""
        missing: list[ScopedPath] = []
        while not await self._has_parent(path):
            path = path.parent
            missing.append(path)
        for each in reversed(missing):
            mode = mode_in(self._call.grant.root, _DIRECTORY_MODE, "directory")
            self._comes.append(Touch(each, "created", "directory", mode=mode))
            self._made.add(each)

    async def _has_parent(self, path: ScopedPath) -> bool:
        if path.parent in self._made:
            return True
        try:
            above = await unfollowed(self._store, path.parent)
        except PathNotFound:
            return False
        with closing(above):
            return above.type == "directory"

    def _mode(self, each: Altered) -> int:
        assert each.type is not None
        return mode_in(self._call.grant.root, each.mode & _PERMISSIONS, each.type)

    def _created(self, each: Altered) -> Touch:
        assert each.type is not None
        mode = None if each.type == "symlink" else self._mode(each)
        return Touch(
            each.path, "created", each.type, size=each.size, sha256=each.sha256,
            mode=mode, target=each.target,
        )  # fmt: skip

    async def _updated(self, each: Altered, entry: Handle, now: _Now) -> Touch:
        before = await content_hash(self._store, entry)
        return Touch(
            each.path, "updated", now.type, size=each.size, size_before=now.size,
            sha256=each.sha256, sha256_before=before, mode=self._mode(each), mode_before=now.mode,
        )  # fmt: skip

    def _deleted(self, path: ScopedPath, now: _Now) -> Touch:
        self._over[path] = now.version
        return Touch(
            path, "deleted", now.type, size_before=now.size, mode_before=now.mode,
            target=now.target,
        )  # fmt: skip


def _parted(touches: list[Touch], known: KnownPlaces) -> tuple[list[Touch], list[Touch]]:
    """What whoever calls may know of, and the rest."""
    seen: list[Touch] = []
    unseen: list[Touch] = []
    for each in touches:
        (seen if known.has(each.path) else unseen).append(each)
    return seen, unseen
