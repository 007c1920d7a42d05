"""What does not go from the tree because what it holds would stay out: a program that gives a file
another name, at which nothing may come, has taken nothing away."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from bailiwick.call import Call
from bailiwick.operations import READ
from bailiwick.paths import ScopedPath
from bailiwick.verbs.working_copies.content import hash_at
from bailiwick.verbs.working_copies.known_places import may
from bailiwick.versions import Touch
from bailiwick.working_copy import Alterations, Wanted


class LastCopies:
    """Finds them among what is left of a plan."""

    def __init__(
        self, call: Call, found: Alterations, wanted: Wanted, settled: Collection[ScopedPath]
    ) -> None:
        self._call = call
        self._files = [each for each in found.altered if each.type == "file" and each.size]
        self._unfit = [each for each in found.unfit if wanted.covers_name(each.path)]
        self._settled = settled
        self._hashes: dict[ScopedPath, str | None] = {}

    async def among(self, left: Iterable[Touch], stays: Collection[ScopedPath]) -> list[Touch]:
        """Those that go from the tree while nothing that stays out would come to it elsewhere."""
        goes = [each for each in left if each.kind == "deleted"]
        if not goes:
            return []
        came_from = {each.origin for each in self._unfit if each.origin is not None}
        comes = {each.sha256 for each in left if each.kind != "deleted"}
        comes.update(each.sha256 for each in self._files if each.path in self._settled)
        out: dict[int, set[str | None]] = {}
        for size, sha256 in self._left_out(stays):
            if sha256 is None or sha256 not in comes:
                out.setdefault(size, set()).add(sha256)
        return [
            each for each in goes if str(each.path) in came_from or await self._is_in(each, out)
        ]

    def _left_out(self, stays: Collection[ScopedPath]) -> Iterator[tuple[int, str | None]]:
        """The size and the hash of every file that stays in the copy; without the hash where there
        was too much to look at."""
        for each in self._files:
            if each.path in stays:
                yield each.size, each.sha256
        for dropped in self._unfit:
            if dropped.size:
                yield dropped.size, dropped.sha256

    async def _is_in(self, touch: Touch, out: dict[int, set[str | None]]) -> bool:
        hashes = out.get(touch.size_before or 0)
        # Of what they may not read it would tell them what it holds.
        if touch.type != "file" or hashes is None or not may(self._call, touch.path, READ):
            return False
        if touch.path not in self._hashes:
            self._hashes[touch.path] = await hash_at(self._call, touch.path)
        return None in hashes or self._hashes[touch.path] in hashes
