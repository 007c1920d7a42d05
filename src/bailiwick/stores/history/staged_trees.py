"""A stage of the wrapped store whose appearance is written down."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing

from bailiwick.model import EntryType, Expected
from bailiwick.paths import ScopedPath
from bailiwick.store import Handle, Stage, Staged, StagedRemoval, SwapStage
from bailiwick.stores.history.capture import Allowance, Elsewhere
from bailiwick.stores.history.contents import PassingContent
from bailiwick.stores.history.core import HistoryCore
from bailiwick.stores.history.ledger import EntryOutcome
from bailiwick.stores.history.states import UNKNOWN, Effect, PlaceState, foretold, seen
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
        self._foretold: dict[ScopedPath, PlaceState] = {}
        self._file: Staged | None = None
        self._digest = hashlib.sha256()
        self._passing = PassingContent()
        self._keeping = Allowance(core.limits)

    async def add(self, steps: Sequence[Staged | bytes]) -> None:
        await self._inner.add(steps)
        for step in steps:
            if isinstance(step, bytes):
                self._digest.update(step)
                self._passing.add(step)
            else:
                self._began(step)
        await self._core.looker.put_down(self._keeping)

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
            origin = ScopedPath(step.target)
            self._made[step.path] = "file"
            self._hashes[step.path] = self._hashes.get(origin, "")
            if origin in self._foretold:
                known = self._foretold[origin]
                self._foretold[step.path] = foretold(
                    self._hashes[origin], known.size, step.file_mode
                )
            return
        self._made[step.path] = step.type
        if step.type == "file":
            self._file, self._digest, self._passing = step, hashlib.sha256(), PassingContent()

    def _ended(self) -> None:
        if self._file is None:
            return
        path, sha256, small = self._file.path, self._digest.hexdigest(), self._passing.small
        self._hashes[path] = sha256
        # Nobody would find what is kept of a place that is not even listed.
        if small is not None and len(self._made) <= self._core.limits.history_entries_max:
            self._keeping.keep(sha256, small)
            self._foretold[path] = foretold(sha256, len(small), self._file.file_mode)
        self._file = None

    def _effect(self, path: ScopedPath, before: PlaceState | None) -> Effect:
        """What is about to come to a place: foretold where its content is kept already."""
        known = self._foretold.get(path.relative_to(self._place.path), UNKNOWN)
        return Effect(path, before, known)

    async def publish(self) -> None:
        effects = [Effect(self._place.path, None, UNKNOWN)]
        effects += [self._effect(path, None) for path in self._paths()]
        await self._record(effects, self._inner.publish)

    async def merge(self, *, replace: bool) -> None:
        async def act() -> None:
            await self._inner.merge(replace=replace)

        effects: list[Effect] = []
        for path in self._paths():
            before = await self._before(path)
            if before is None or before.type != "directory":
                effects.append(self._effect(path, before))
        await self._record(effects, act)

    async def _before(self, path: ScopedPath) -> PlaceState | None:
        """What stands at a place, its content kept, what is much of it written down at once."""
        try:
            handle = await self._core.looker.place(path)
        except Elsewhere:
            return None  # the merge will refuse it
        if handle is None:
            return None
        with closing(handle):
            before = await self._core.looker.keep(handle, self._keeping)
        await self._core.looker.put_down(self._keeping)
        return before

    def _paths(self) -> list[ScopedPath]:
        """All that was made, each directory before what lies in it."""
        self._ended()
        return [path.beneath(self._place.path) for path in self._made]

    async def _record(
        self, effects: list[Effect], act: Callable[[], Awaitable[None]], verb: str = "extract"
    ) -> None:
        core, keeping = self._core, self._keeping
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
        effects, top = list[Effect](), self._place.path
        for each in gone:
            path = each.path.beneath(top)
            before = await self._before(path)
            if before is not None:
                effects.append(Effect(path, before, None))
        self._ended()
        for path in self._made:
            if path in self._implied:
                continue
            place = path.beneath(top)
            before = await self._before(place) if path in over else None
            effects.append(self._effect(place, before))

        async def act() -> None:
            await self._swapping.swap(over, gone)

        await self._record(effects, act, "publish")
