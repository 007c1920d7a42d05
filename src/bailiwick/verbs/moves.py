"""Finding moves among what goes and what comes: a program that gives a file or a directory another
name leaves nothing behind that says so.

What comes is taken for what goes where it is the same to the last byte, with the same mode. So its
versions go along, and a person who is asked sees one line instead of two trees.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from typing import Final

from bailiwick.call import Call
from bailiwick.errors import BailiwickError
from bailiwick.paths import ScopedPath
from bailiwick.policy import Allow
from bailiwick.verbs.bulk_changes import decide_use, uses_of
from bailiwick.verbs.checksum import content_hash
from bailiwick.versions import Touch

_Shape = tuple[tuple[str, str, int, int | None, str | None], ...]
"""A tree without its content: of each path in it the kind, the size, the mode, a link's text."""

_TREE_ENTRIES_MAX: Final = 10_000
"""Of a larger tree it is not found out whether it was moved: its content would be read for that."""


class Moves:
    """Looks for moves in a plan. ``goes`` is deepest first, ``comes`` parents first."""

    def __init__(self, call: Call, goes: list[Touch], comes: list[Touch]) -> None:
        self._call = call
        self._goes = goes
        self._comes = comes
        self._gone = {each.path for each in goes}
        self._hashes: dict[ScopedPath, str | None] = {}
        self._taken: set[ScopedPath] = set()
        self._arrived: dict[ScopedPath, Touch] = {}

    async def found(self) -> list[Touch]:
        """The plan, what goes before what comes, with moves for what was moved."""
        if self._goes and self._comes:
            await self._trees()
            await self._files()
        goes = [each for each in self._goes if each.path not in self._taken]
        return [*goes, *(self._arrived.get(each.path, each) for each in self._comes)]

    async def _trees(self) -> None:
        origins: dict[_Shape, list[Touch]] = defaultdict(list)
        for each in self._goes:
            if each.type == "directory" and self._stands_alone(each):
                origins[_shape(each, self._goes)].append(each)
        for each in self._comes:
            if each.kind != "created" or each.type != "directory" or each.path in self._arrived:
                continue
            for origin in origins.get(_shape(each, self._comes), ()):
                if origin.path not in self._taken and await self._is_same_tree(origin, each):
                    self._moved_tree(origin, each)
                    break

    async def _files(self) -> None:
        origins: dict[tuple[int, int | None], list[Touch]] = defaultdict(list)
        for each in self._goes:
            if each.type == "file" and each.size_before and self._stands_alone(each):
                origins[each.size_before, each.mode_before].append(each)
        for each in self._comes:
            if each.kind != "created" or each.type != "file" or each.path in self._arrived:
                continue
            for origin in origins.get((each.size, each.mode), ()):
                if origin.path not in self._taken and await self._is_same(origin, each):
                    self._moved(origin, each)
                    break

    def _stands_alone(self, touch: Touch) -> bool:
        """What goes with a directory around it was not moved out of it one can be sure of, and what
        is replaced where it stood was not moved at all."""
        came_there = any(each.path == touch.path for each in self._comes)
        return touch.path.parent not in self._gone and not came_there

    async def _is_same_tree(self, origin: Touch, arrived: Touch) -> bool:
        beneath = [each for each in self._comes if _lies_beneath(each, arrived)]
        if not beneath or len(beneath) > _TREE_ENTRIES_MAX:
            return False
        by_path = {each.path: each for each in self._goes}
        for each in beneath:
            was = by_path[each.path.relative_to(arrived.path).beneath(origin.path)]
            if each.type == "file" and not await self._has_content(was, each):
                return False
        return self._may_move(_moved(origin, arrived))

    async def _is_same(self, origin: Touch, arrived: Touch) -> bool:
        return await self._has_content(origin, arrived) and self._may_move(_moved(origin, arrived))

    async def _has_content(self, origin: Touch, arrived: Touch) -> bool:
        path = origin.path
        if path not in self._hashes:
            with closing(await self._call.store.resolve(path, "entry")) as entry:
                self._hashes[path] = await content_hash(self._call.store, entry)
        return self._hashes[path] is not None and self._hashes[path] == arrived.sha256

    def _may_move(self, touch: Touch) -> bool:
        """Else it is a removal and something new, each of which is judged by itself."""
        call = self._call
        try:
            for use in uses_of(touch):
                call.pipeline.check_access(call.grant, use.needed)
                if not isinstance(decide_use(call, use), Allow):
                    return False
        except BailiwickError:
            return False
        return True

    def _moved_tree(self, origin: Touch, arrived: Touch) -> None:
        by_path = {each.path: each for each in self._goes}
        self._moved(origin, arrived)
        for each in self._comes:
            if _lies_beneath(each, arrived):
                was = by_path[each.path.relative_to(arrived.path).beneath(origin.path)]
                self._moved(was, each)

    def _moved(self, origin: Touch, arrived: Touch) -> None:
        self._taken.add(origin.path)
        self._arrived[arrived.path] = _moved(origin, arrived)


def _moved(origin: Touch, arrived: Touch) -> Touch:
    return arrived._replace(
        kind="moved", origin=origin.path, size_before=origin.size_before,
        sha256_before=arrived.sha256, mode_before=origin.mode_before,
    )  # fmt: skip


def _lies_beneath(touch: Touch, top: Touch) -> bool:
    return touch.path != top.path and touch.path.lies_in(top.path)


def _shape(top: Touch, touches: list[Touch]) -> _Shape:
    """What a tree is like, whether it goes or comes."""
    return tuple(
        sorted(
            (
                str(each.path.relative_to(top.path)) if each is not top else "",
                each.type,
                0 if each.type != "file" else each.size or each.size_before,
                each.mode if each.kind == "created" else each.mode_before,
                each.target,
            )
            for each in touches
            if each is top or _lies_beneath(each, top)
        )
    )
