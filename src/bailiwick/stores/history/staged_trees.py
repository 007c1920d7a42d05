"""A stage of the wrapped store whose appearance is written down."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing

from bailiwick.model import EntryType, Expected
from bailiwick.paths import ScopedPath
from bailiwick.store import Handle, Stage, Staged, StagedRemoval, SwapStage
from bailiwick.stores.history.capture import Allowance, Elsewhere
from bailiwick.stores.history.core import HistoryCore
from bailiwick.stores.history.ledger import EntryOutcome
from bailiwick.stores.history.states import UNKNOWN, Effect, PlaceState, seen
from bailiwick.versions import Mark


class HistoryStage:
    """Passes everything on, and keeps in mind what it was told to make."""

    def __init__(self, core: HistoryCore, mark: Mark, place: Handle, inner: Stage) -> None:
        self._core = core
        self._mark = mark
        self._place = place
        self._inner = inner
        self._made: dict[ScopedPath, EntryType] = {}
        self._implied: set[ScopedPath] = set()
        self._hashes: dict[ScopedPath, str] = {}
        self._file: ScopedPath | None = None
        self._digest = hashlib.sha256()

    async def add(self, steps: Sequence[Staged | bytes]) -> None:
        await self._inner.add(steps)
        for step in steps:
            if isinstance(step, bytes):
                self._digest.update(step)
            else:
                self._began(step)

    def _began(self, step: Staged) -> None:
        self._ended()
        above, missing = step.path.parent, list[ScopedPath]()
        while not above.is_root and above not in self._made:
            missing.append(above)
            above = above.parent
        for path in reversed(missing):
            self._made[path] = "directory"
            self._implied.add(path)
        self._implied.discard(step.path)
        if step.type == "copy":
            self._made[step.path] = "file"
            self._hashes[step.path] = self._hashes.get(ScopedPath(step.target), "")
            return
        self._made[step.path] = step.type
        if step.type == "file":
            self._file, self._digest = step.path, hashlib.sha256()

    def _ended(self) -> None:
        if self._file is not None:
            self._hashes[self._file] = self._digest.hexdigest()
            self._file = None

    async def publish(self) -> None:
        effects = [Effect(self._place.path, None, UNKNOWN)]
        effects += [Effect(path, None, UNKNOWN) for path in self._paths()]
        await self._record(effects, Allowance(self._core.limits), self._inner.publish)

    async def merge(self, *, replace: bool) -> None:
        async def act() -> None:
            await self._inner.merge(replace=replace)

        keeping, effects = Allowance(self._core.limits), list[Effect]()
        for path in self._paths():
            before = await self._before(path, keeping)
            if before is None or before.type != "directory":
                effects.append(Effect(path, before, UNKNOWN))
        await self._record(effects, keeping, act)

    async def _before(self, path: ScopedPath, keeping: Allowance) -> PlaceState | None:
        try:
            handle = await self._core.looker.place(path)
        except Elsewhere:
            return None  # the merge will refuse it
        if handle is None:
            return None
        with closing(handle):
            return await self._core.looker.keep(handle, keeping)

    def _paths(self) -> list[ScopedPath]:
        """All that was made, each directory before what lies in it."""
        self._ended()
        return [path.beneath(self._place.path) for path in self._made]

    async def _record(
        self, effects: list[Effect], keeping: Allowance, act: Callable[[], Awaitable[None]],
        verb: str = "extract",
    ) -> None:  # fmt: skip
        core = self._core
        keeping.missed += max(0, len(effects) - core.limits.history_entries_max)
        effects = effects[: core.limits.history_entries_max]

        async def outcome(_: None) -> EntryOutcome:
            return EntryOutcome(
                {
                    number: await self._left(each.path)
                    for number, each in enumerate(effects)
                    if each.after is not None
                }
            )

        async with core.changing(self._place.path):
            await core.recorder.record(
                verb, self._mark, effects, keeping, act, outcome, in_parts=True
            )

    async def _left(self, path: ScopedPath) -> PlaceState | None:
        try:
            handle = await self._core.looker.place(path)
        except Elsewhere:
            return UNKNOWN
        if handle is None:
            return UNKNOWN
        with closing(handle):
            stat = await self._core.looker.stat(handle)
        sha256 = self._hashes.get(path.relative_to(self._place.path)) or None
        return UNKNOWN if stat is None else seen(stat, sha256)

    async def discard(self) -> None:
        await self._inner.discard()


class HistorySwapStage(HistoryStage):
    """A stage that also takes away, and replaces on a condition."""

    def __init__(self, core: HistoryCore, mark: Mark, place: Handle, inner: SwapStage) -> None:
        super().__init__(core, mark, place, inner)
        self._swapping = inner

    async def swap(
        self, over: Mapping[ScopedPath, Expected], gone: Sequence[StagedRemoval]
    ) -> None:
        """What is kept of each place is what the wrapped store then holds it to."""
        keeping, effects, top = Allowance(self._core.limits), list[Effect](), self._place.path
        for each in gone:
            path = each.path.beneath(top)
            before = await self._before(path, keeping)
            if before is not None:
                effects.append(Effect(path, before, None))
            await self._core.looker.put_down(keeping)
        self._ended()
        for path in self._made:
            if path in self._implied:
                continue
            place = path.beneath(top)
            before = await self._before(place, keeping) if path in over else None
            effects.append(Effect(place, before, UNKNOWN))
            await self._core.looker.put_down(keeping)

        async def act() -> None:
            await self._swapping.swap(over, gone)

        await self._record(effects, keeping, act, "publish")
