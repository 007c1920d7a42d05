"""Carrying steps out on the wrapped store, as one change that can itself be undone.

Every step compares what stands there with what must stand there, and acts through the wrapped
store's own verbs on a held name: a place that others change, or lead elsewhere by a link, is left
and told as a conflict.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, closing
from typing import NamedTuple

import msgspec

from bailiwick.changes_made import MOUNTED_SINCE, mounted_around, mounts_in
from bailiwick.errors import BailiwickError, Closed, IoError, PermissionDenied
from bailiwick.finishing import to_the_end
from bailiwick.paths import ScopedPath
from bailiwick.store import Handle, Stage, Staged, Stages, WritePlan
from bailiwick.stores.history.capture import Allowance, Elsewhere
from bailiwick.stores.history.contents import SMALL_BYTES_MAX
from bailiwick.stores.history.core import HistoryCore
from bailiwick.stores.history.ledger import EntryOutcome
from bailiwick.stores.history.moving_places import MovingPlaces
from bailiwick.stores.history.openings import Openings
from bailiwick.stores.history.states import (
    CAME,
    UNKNOWN,
    WENT,
    Effect,
    PlaceState,
    is_same,
    seen,
    with_content,
)
from bailiwick.stores.history.steps import Planned, Step, plan_of
from bailiwick.versions import Conflict, Done, Mark

_CHANGED = "it was changed meanwhile"


class LeftAsItIs(Exception):
    """A place was left as it is, for the reason given."""


class _Ready(NamedTuple):
    """A step, what was kept of the place, and the number of its (first) effect."""

    step: Step
    kept: PlaceState | None
    number: int


class Applier:
    """Carries out one plan."""

    def __init__(self, core: HistoryCore, mark: Mark) -> None:
        self._core = core
        self._looker = core.looker
        self._inner = core.inner
        self._mark = mark
        self._recorder = core.recorder
        self._opened = Openings(core.looker, core.recorder, mark)
        self._mounts: frozenset[str] | None = None
        self._keeping = Allowance(core.limits)
        self._conflicts: list[Conflict] = []
        self._after: dict[int, PlaceState | None] = {}
        self._before: dict[int, PlaceState] = {}
        self._dropped: list[int] = []
        self._standing = MovingPlaces[PlaceState | None]()  # what our own steps have left
        self._done: list[Step] = []

    async def carry_out(self, verb: str, planned: Planned) -> Done:
        """Do what can be done; the rest is told. The caller has a turn at all places."""
        self._conflicts = list(planned.conflicts)
        self._mounts = planned.mounts
        begun: list[int] = []
        wanted = len(planned.steps)
        try:
            await self._opened.open(planned)
            ready, effects = await self._prepare(planned.steps)
            wanted = len(ready)
            if ready:
                begun += [await self._recorder.begin(verb, self._mark, effects, self._keeping)]
                await self._do(ready)
        except BaseException as error:
            self._opened.let_go()
            await to_the_end(self._recorder.settle_opened(self._opened.begun, begun))
            if isinstance(error, IoError) and self._done:
                raise _after_some(error, len(self._done), wanted) from error
            raise
        await to_the_end(self._end(begun))
        if not begun:
            return Done(None, plan_of((), self._conflicts, planned.subjects))
        plan = plan_of(self._done, self._conflicts, planned.subjects, planned.moved)
        versions = {step.path: step.then.version for step in self._done if step.then is not None}
        touches = tuple(each._replace(version=versions.get(each.path)) for each in plan.touches)
        return Done(str(begun[0]) if self._done else None, plan._replace(touches=touches))

    async def _end(self, begun: Sequence[int]) -> None:
        outcome = EntryOutcome(self._after, self._dropped, before=self._before)
        for entry in begun:
            await self._core.ledger.settle(entry, outcome)
        await self._opened.close(in_vain=not self._done)

    async def _prepare(self, steps: Sequence[Step]) -> tuple[list[_Ready], list[Effect]]:
        """Keep what the steps will replace, so that they can be undone."""
        ready: list[_Ready] = []
        effects: list[Effect] = []
        for step in steps:
            try:
                kept = await self._keep(step)
            except (LeftAsItIs, PermissionDenied) as error:
                self._conflicts.append(Conflict(step.path, self._told(step, error)))
                continue
            ready.append(_Ready(step, kept, len(effects)))
            if step.origin is None:
                effects.append(Effect(step.path, kept, step.then))
            else:
                effects.append(Effect(step.origin, kept, None, WENT, step.path))
                effects.append(Effect(step.path, None, UNKNOWN, CAME, step.origin))
        return ready, effects

    async def _keep(self, step: Step) -> PlaceState | None:
        if step.found_at is None:
            # What an earlier step makes is put down as it will be.
            return None if step.now is None else msgspec.structs.replace(step.now, version="")
        try:
            handle = await self._looker.place(step.found_at)
        except Elsewhere:
            raise LeftAsItIs("a link stands in the way to it now") from None
        if handle is None:
            return None
        with closing(handle):
            kept = await self._looker.keep(handle, self._keeping, content=step.origin is None)
            kept = self._opened.as_shut(step.found_at, kept)
        if kept is None or step.now is None or kept.sha256 or kept.version != step.now.version:
            return kept
        return msgspec.structs.replace(kept, sha256=step.now.sha256)

    # --- doing -------------------------------------------------------------------------------

    async def _do(self, ready: Sequence[_Ready]) -> None:
        at = 0
        while at < len(ready):
            tree = _tree_at(ready, at) if isinstance(self._inner, Stages) else []
            if len(tree) > 1 and await self._make_tree(tree):
                at += len(tree)
                continue
            await self._try(ready[at])
            at += 1

    async def _try(self, one: _Ready) -> None:
        step = one.step
        try:
            self._refuse_mounted(step)
            left = await (self._set(one) if step.origin is None else self._move(one))
        except (Closed, IoError):
            raise
        except (LeftAsItIs, BailiwickError) as error:
            self._leave(one, self._told(step, error))
            return
        self._note(one, left)

    def _told(self, step: Step, error: Exception) -> str:
        """Why a step was not done."""
        if isinstance(error, LeftAsItIs):
            return str(error)
        shut = self._opened.why(step) if isinstance(error, PermissionDenied) else None
        return shut or f"it could not be done: {error}"

    def _leave(self, one: _Ready, reason: str) -> None:
        self._conflicts.append(Conflict(one.step.path, reason))
        self._dropped.append(one.number)
        if one.step.origin is not None:
            self._dropped.append(one.number + 1)

    def _note(self, one: _Ready, left: PlaceState | None) -> None:
        step = one.step
        self._done.append(step._replace(then=left))
        self._after[one.number if step.origin is None else one.number + 1] = left
        found = self._standing.get(step.origin or step.path)
        if found is not None:
            if found.sha256 is None and one.kept is not None:
                # It was moved without being read; what was kept of it is its content still.
                found = msgspec.structs.replace(found, sha256=one.kept.sha256, lost=one.kept.lost)
            self._before[one.number] = found
        if step.origin is not None:
            self._standing.move(step.origin, step.path)
        self._standing[step.path] = left

    async def _check(self, one: _Ready, handle: Handle) -> PlaceState | None:
        """What stands under a held name, which must be what was kept, or what we left there."""
        place = one.step.origin or one.step.path
        expected = self._standing.get(place, one.kept)
        now = self._opened.as_shut(place, await self._looker.look(handle, expected))
        if not is_same(now, expected):
            raise LeftAsItIs(_CHANGED)
        if place not in self._standing and not is_same(now, one.step.now):
            raise LeftAsItIs(_CHANGED)
        return now

    async def _set(self, one: _Ready) -> PlaceState | None:
        step, then = one.step, one.step.then
        with closing(await self._place(step.path)) as handle:
            now = await self._check(one, handle)
            if now is not None and (then is None or then.type != now.type or _is_link(then)):
                await self._inner.remove(handle, recursive=False)
                self._opened.gone(step.path)
                now = None
        if then is None:
            return None
        then = with_content(then, now)  # one that was never read is put back by its mode or time
        with closing(await self._place(step.path)) as handle:
            await self._make(handle, now, then, times=step.times)
            stat = await self._looker.stat(handle)
        if stat is None:
            raise LeftAsItIs("it was taken away meanwhile")
        return self._opened.as_shut(step.path, seen(stat, then.sha256))

    async def _make(
        self, handle: Handle, now: PlaceState | None, then: PlaceState, *, times: bool
    ) -> None:
        inner = self._inner
        if then.type == "symlink":
            await inner.symlink(handle, then.target or "")
            return
        if then.type == "directory" and now is None:
            mode = self._opened.opened(handle.path, then)
            await inner.make_dir(handle, file_mode=mode, parents=False)
        elif then.type == "file" and (now is None or now.sha256 != then.sha256):
            await self._write(handle, now, then)
        elif now is not None and now.mode != then.mode:
            await inner.set_mode(handle, self._opened.opened(handle.path, then))
        if times:
            await inner.set_times(handle, then.mtime_ns, None)

    async def _write(self, handle: Handle, now: PlaceState | None, then: PlaceState) -> None:
        inner, contents = self._inner, self._core.contents
        if then.sha256 is None:
            raise LeftAsItIs("what stood there is not kept")
        plan = WritePlan(
            mode="create" if now is None else "replace",
            expected_version=None if now is None else now.version,
            file_mode=then.mode,
            size_max=max(then.size, 1),
        )
        if then.size <= SMALL_BYTES_MAX:
            data = await contents.read(then.sha256, then.size)
            await inner.write(handle, data, then.sha256, plan)
            return
        async with aclosing(contents.stream(then.sha256)) as chunks:
            await inner.write_stream(handle, chunks, plan)

    async def _move(self, one: _Ready) -> PlaceState | None:
        step = one.step
        assert step.origin is not None
        with closing(await self._place(step.origin)) as source:
            now = await self._check(one, source)
            if now is None:
                raise LeftAsItIs(_CHANGED)
            with closing(await self._place(step.path)) as destination:
                await self._inner.move(source, destination, replace=False)
                self._opened.moved(step.origin, step.path)
                stat = await self._looker.stat(destination)
        if stat is None:
            return UNKNOWN
        return self._opened.as_shut(step.path, seen(stat, now.sha256))

    def _refuse_mounted(self, step: Step) -> None:
        """What is to be changed is in the filesystem that was looked at."""
        if self._mounts is not None:
            others = (mounts_in(self._inner) or frozenset()) ^ self._mounts
            if any(mounted_around(path, others) for path in (step.path, step.origin or step.path)):
                raise LeftAsItIs(MOUNTED_SINCE)

    async def _place(self, path: ScopedPath) -> Handle:
        try:
            handle = await self._looker.place(path)
        except Elsewhere:
            raise LeftAsItIs("a link stands in the way to it now") from None
        if handle is None:
            raise LeftAsItIs("its directory is gone")
        return handle

    # --- whole trees -------------------------------------------------------------------------

    async def _make_tree(self, tree: Sequence[_Ready]) -> bool:
        """Make a directory with all that lies in it, at once. Returns False where that is refused
        for any of it: then each is tried by itself."""
        top = tree[0].step
        try:
            self._refuse_mounted(top)
            handle = await self._place(top.path)
        except LeftAsItIs:
            return False
        with closing(handle):
            if await self._looker.stat(handle) is not None:
                return False
            try:
                await self._stage(handle, tree)
            except (Closed, IoError):
                raise
            except BailiwickError:
                return False
        for one in tree:
            then = one.step.then
            assert then is not None
            with closing(await self._place(one.step.path)) as made:
                stat = await self._looker.stat(made)
            left = None if stat is None else seen(stat, then.sha256)
            self._note(one, self._opened.as_shut(one.step.path, left) or UNKNOWN)
        return True

    async def _stage(self, handle: Handle, tree: Sequence[_Ready]) -> None:
        assert isinstance(self._inner, Stages)
        top = tree[0].step
        size_max = max(each.step.then.size for each in tree if each.step.then is not None)
        stage = await self._inner.stage(handle, size_max=max(size_max, 1))
        try:
            for one in tree[1:]:
                await self._add(stage, one.step, top.path)
            await stage.publish()
        finally:
            await stage.discard()
        assert top.then is not None
        with closing(await self._place(top.path)) as made:
            await self._inner.set_mode(made, self._opened.opened(top.path, top.then))

    async def _add(self, stage: Stage, step: Step, top: ScopedPath) -> None:
        then = step.then
        assert then is not None
        path = step.path.relative_to(top)
        if then.type == "symlink":
            await stage.add([Staged(path, "symlink", target=then.target or "")])
            return
        kind = "directory" if then.type == "directory" else "file"
        mode = self._opened.opened(step.path, then)
        await stage.add([Staged(path, kind, file_mode=mode)])  # type: ignore[arg-type]
        if then.type == "file":
            async for chunk in self._content(then):
                await stage.add([chunk])

    async def _content(self, then: PlaceState) -> AsyncIterator[bytes]:
        assert then.sha256 is not None
        async with aclosing(self._core.contents.stream(then.sha256)) as chunks:
            async for chunk in chunks:
                if chunk:
                    yield chunk


def _is_link(state: PlaceState) -> bool:
    return state.type == "symlink"


def _after_some(error: IoError, done: int, wanted: int) -> IoError:
    """What to raise where some of many changes were made."""
    return IoError(
        f"{done} of {wanted} changes were made, then: {error.message}",
        errno=error.errno, path=error.path, hint="to say it again does the rest",
        details={"done": done, "wanted": wanted},
    )  # fmt: skip


def _tree_at(ready: Sequence[_Ready], at: int) -> Sequence[_Ready]:
    """A directory that is to be made, and all in it that is to be made right after."""
    top = ready[at].step
    if not top.makes or top.then is None or top.then.type != "directory":
        return []
    end = at + 1
    while end < len(ready) and ready[end].step.makes and ready[end].step.path.lies_in(top.path):
        end += 1
    return ready[at:end]
