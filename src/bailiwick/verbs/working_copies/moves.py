"""Finding moves among what goes and what comes: a program that gives a file or a directory another
name leaves nothing behind that says so.

What comes is taken for what goes where it is the same to the last byte, with the same mode. So its
versions go along, and a person who is asked sees one line instead of two trees.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from bailiwick.call import Call
from bailiwick.errors import BailiwickError
from bailiwick.paths import ScopedPath
from bailiwick.policy import Allow
from bailiwick.verbs.bulk_changes import decide_use, uses_of
from bailiwick.verbs.working_copies.content import hash_at
from bailiwick.versions import Touch

_Shape = tuple[tuple[str, str, int, int | None, str | None], ...]
"""A tree without its content: of each path in it the kind, the size, the mode, a link's text."""

_Contents = tuple[str | None, ...]
"""The hashes of the files of a tree, in its order."""

_TREE_ENTRIES_MAX: Final = 10_000
"""Of a larger tree it is not found out whether it was moved: its content would be read for that."""


class _Forest:
    """What goes, or what comes, by the trees that it is made of."""

    def __init__(self, touches: list[Touch]) -> None:
        self._sorted = sorted(touches, key=lambda each: each.path.order)
        self._orders = [each.path.order for each in self._sorted]
        self.by_path = {each.path: each for each in self._sorted}

    def beneath(self, top: Touch) -> list[Touch]:
        start, end = self._span(top)
        return self._sorted[start:end]

    def count(self, top: Touch) -> int:
        """How much lies beneath: much quicker to tell than what."""
        start, end = self._span(top)
        return end - start

    def _span(self, top: Touch) -> tuple[int, int]:
        order = top.path.order
        start = bisect_left(self._orders, order + "\0")
        return start, bisect_left(self._orders, order + "\1", start)

    def shape(self, top: Touch) -> _Shape:
        """What a tree is like, whether it goes or comes."""
        return tuple(
            (
                str(each.path.relative_to(top.path)) if each is not top else "",
                each.type,
                0 if each.type != "file" else each.size or each.size_before,
                _mode(each),
                each.target,
            )
            for each in (top, *self.beneath(top))
        )


class Moves:
    """Looks for moves in a plan. ``goes`` is deepest first, ``comes`` parents first. ``origins``
    are the files of which it is known where they came from."""

    def __init__(
        self, call: Call, goes: list[Touch], comes: list[Touch],
        origins: Mapping[ScopedPath, ScopedPath],
    ) -> None:  # fmt: skip
        self._call = call
        self._goes = goes
        self._comes = comes
        self._going = _Forest(goes)
        self._coming = _Forest(comes)
        self._origins = origins
        self._destinations = {origin: path for path, origin in origins.items()}
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
        tops = [each for each in self._goes if each.type == "directory"]
        tops = [each for each in tops if self._stands_alone(each)]
        counts = {self._going.count(each) for each in tops} - {0}
        origins: dict[_Shape, list[Touch]] = defaultdict(list)
        for each in tops:
            origins[self._going.shape(each)].append(each)
        by_content: dict[_Shape, dict[_Contents, list[Touch]]] = {}
        for each in self._comes:
            if each.kind != "created" or each.type != "directory" or each.path in self._arrived:
                continue
            if not 0 < self._coming.count(each) <= _TREE_ENTRIES_MAX:
                continue
            shape = self._coming.shape(each) if self._coming.count(each) in counts else None
            if shape is None or shape not in origins:
                continue
            if shape not in by_content:
                by_content[shape] = await self._by_contents(origins[shape])
            files = (touch for touch in self._coming.beneath(each) if touch.type == "file")
            same = by_content[shape].get(tuple(touch.sha256 for touch in files), [])
            origin = self._first_movable(same, each)
            if origin is not None:
                self._moved_tree(origin, each)

    async def _by_contents(self, tops: list[Touch]) -> dict[_Contents, list[Touch]]:
        """Trees of one shape, by what their files hold."""
        found: dict[_Contents, list[Touch]] = defaultdict(list)
        for top in tops:
            files = [each for each in self._going.beneath(top) if each.type == "file"]
            hashes = [await self._hash(each.path) for each in files]
            if None not in hashes:
                found[tuple(hashes)].append(top)
        return found

    async def _files(self) -> None:
        origins: dict[tuple[int, int | None], list[Touch]] = defaultdict(list)
        for each in self._goes:
            if each.type == "file" and each.size_before and self._stands_alone(each):
                origins[each.size_before, each.mode_before].append(each)
        by_hash: dict[tuple[int, int | None], dict[str | None, list[Touch]]] = {}
        for each in self._comes:
            kind = each.size, each.mode
            if each.kind != "created" or each.type != "file" or kind not in origins:
                continue
            if each.path in self._arrived:
                continue
            if kind not in by_hash:
                by_hash[kind] = defaultdict(list)
                for origin in origins[kind]:
                    by_hash[kind][await self._hash(origin.path)].append(origin)
            found = self._first_movable(by_hash[kind].get(each.sha256, []), each)
            if found is not None:
                self._moved(found, each)

    def _stands_alone(self, touch: Touch) -> bool:
        """What goes with a directory around it was not moved out of it one can be sure of, and what
        is replaced where it stood was not moved at all."""
        path = touch.path
        return path.parent not in self._going.by_path and path not in self._coming.by_path

    def _first_movable(self, same: list[Touch], arrived: Touch) -> Touch | None:
        """One of those that are the same, which is used up then."""
        for number, origin in enumerate(same):
            if origin.path in self._taken or not self._may_have_come(origin, arrived):
                continue
            if self._may_move(_moved(origin, arrived)):
                del same[number]
                return origin
        return None

    def _may_have_come(self, origin: Touch, arrived: Touch) -> bool:
        """Whether nothing is known to have come from elsewhere, or to have gone elsewhere."""
        if not self._origins:
            return True
        for each in (arrived, *self._coming.beneath(arrived)):
            was = each.path.relative_to(arrived.path).beneath(origin.path)
            if self._origins.get(each.path, was) != was:
                return False
            if self._destinations.get(was, each.path) != each.path:
                return False
        return True

    async def _hash(self, path: ScopedPath) -> str | None:
        if path not in self._hashes:
            self._hashes[path] = await hash_at(self._call, path)
        return self._hashes[path]

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
        self._moved(origin, arrived)
        for each in self._coming.beneath(arrived):
            was = each.path.relative_to(arrived.path).beneath(origin.path)
            self._moved(self._going.by_path[was], each)

    def _moved(self, origin: Touch, arrived: Touch) -> None:
        self._taken.add(origin.path)
        self._arrived[arrived.path] = _moved(origin, arrived)


def _moved(origin: Touch, arrived: Touch) -> Touch:
    return arrived._replace(
        kind="moved", origin=origin.path, size_before=origin.size_before,
        sha256_before=arrived.sha256, mode_before=origin.mode_before,
    )  # fmt: skip


def _mode(touch: Touch) -> int | None:
    """Of what comes or goes; links have none of their own."""
    if touch.type == "symlink":
        return None
    return touch.mode if touch.kind == "created" else touch.mode_before
