"""`HistoryStore`: the verbs of the wrapped store, those that change something written down.

What only looks is the wrapped store's own method: it costs nothing more.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, aclosing, closing, nullcontext
from typing import Any, Final

import msgspec

from bailiwick.errors import (
    Busy,
    FileAlreadyExists,
    HashMismatch,
    PathNotFound,
    Unsupported,
)
from bailiwick.finishing import CLOSED, to_the_end
from bailiwick.model import ANYTHING, Expected, Hardlinks, Stat, Symlinks
from bailiwick.paths import ScopedPath, from_parts, is_reserved
from bailiwick.store import (
    Children,
    Content,
    Handle,
    Narrows,
    Stage,
    Stages,
    Store,
    Swaps,
    SwapStage,
    WritePlan,
    Written,
)
from bailiwick.stores.history.capture import Allowance
from bailiwick.stores.history.contents import SMALL_BYTES_MAX, PassingContent
from bailiwick.stores.history.core import HistoryCore
from bailiwick.stores.history.ledger import EntryOutcome
from bailiwick.stores.history.recorder import NOBODY, Result
from bailiwick.stores.history.staged_trees import HistoryStage, HistorySwapStage
from bailiwick.stores.history.states import (
    CAME,
    UNKNOWN,
    WENT,
    Effect,
    PlaceState,
    foretold,
    is_text,
    seen,
)
from bailiwick.stores.history.versions import Remembering
from bailiwick.versions import Mark

_Left = tuple[str, bytes]
"""Content that a change leaves, after its hash."""


class HistoryStore:
    """A store, and what was changed through it. Made by `open_history`."""

    # The wrapped store's own methods.
    resolve: Callable[..., Coroutine[Any, Any, Handle]]
    descend: Callable[..., Coroutine[Any, Any, Handle]]
    stat: Callable[..., Coroutine[Any, Any, Stat]]
    children: Callable[..., Coroutine[Any, Any, Children]]
    names_beside: Callable[..., Coroutine[Any, Any, list[str]]]
    read: Callable[..., Coroutine[Any, Any, Content]]
    stream: Callable[..., AsyncGenerator[bytes, None]]
    readlink: Callable[..., Coroutine[Any, Any, str]]

    def __init__(self, core: HistoryCore, mark: Mark = NOBODY) -> None:
        self._core: Final = core
        self._inner: Final = core.inner
        self._mark: Final = mark
        self.__dict__.update(core.handed_on)

    @property
    def powers(self) -> frozenset[str]:
        return self._inner.powers | {"Marks", "Remembers"}

    @property
    def description(self) -> dict[str, str]:
        return {**self._inner.description, "history": "on"}

    @property
    def versions(self) -> Remembering:
        """What was: history, restore, undo. What is changed by it carries the mark."""
        return Remembering(self._core, self._mark)

    def marked(self, mark: Mark) -> HistoryStore:
        return HistoryStore(self._core, mark)

    # --- content -----------------------------------------------------------------------------

    async def write(self, entry: Handle, data: bytes, sha256: str, plan: WritePlan) -> Written:
        def act(plan: WritePlan) -> Awaitable[Written]:
            return self._inner.write(entry, data, sha256, plan)

        return await self._swap("write", entry, plan, act, lambda _: (sha256, bytes(data)))

    async def append(self, entry: Handle, data: bytes, plan: WritePlan) -> Written:
        def act(plan: WritePlan) -> Awaitable[Written]:
            return self._inner.append(entry, data, plan)

        def left(was: bytes | None) -> _Left | None:
            is_small = was is not None and len(was) + len(data) <= SMALL_BYTES_MAX
            return _hashed(was + data) if was is not None and is_small else None

        return await self._swap("append", entry, plan, act, left)

    async def truncate(self, entry: Handle, size: int, plan: WritePlan) -> Written:
        def act(plan: WritePlan) -> Awaitable[Written]:
            return self._inner.truncate(entry, size, plan)

        def left(was: bytes | None) -> _Left | None:
            is_small = was is not None and 0 <= size <= SMALL_BYTES_MAX
            return _hashed(was[:size].ljust(size, b"\0")) if was is not None and is_small else None

        return await self._swap("truncate", entry, plan, act, left)

    async def _swap(
        self, verb: str, entry: Handle, plan: WritePlan,
        act: Callable[[WritePlan], Awaitable[Written]],
        left: Callable[[bytes | None], _Left | None],
    ) -> Written:  # fmt: skip
        """Change the content of a file, on the condition that it is what was kept: where others
        changed it in between, what they left is kept and all is done again. What will be ``left``
        is told by what stood there, where that is small, and is kept beforehand if it is, too."""
        core, looker = self._core, self._core.looker
        may_make = plan.parents and entry.type is None
        places = await self._places(entry, plan) if may_make else (entry.path,)
        async with core.changing(*places):
            for _ in range(core.limits.busy_retries_max):
                keeping = Allowance(core.limits)
                before = await looker.keep(entry, keeping)
                if _is_refused(plan, before):
                    written = await act(plan)
                    await self._note_unforeseen(verb, entry, plan, written)
                    return written
                after = UNKNOWN
                content = left(keeping.kept(before))
                if content is not None:
                    after = _foretold(plan, before, content, keeping)
                above = await self._missing_above(entry, True) if may_make else []
                bound = _bound_to(plan, before, keeping)
                try:
                    return await core.recorder.record(
                        verb, self._mark, [*above, Effect(entry.path, before, after)], keeping,
                        lambda: act(bound),  # noqa: B023 - run before the next round
                        lambda written: self._published(entry, above, written),  # noqa: B023
                    )  # fmt: skip
                except (HashMismatch, FileAlreadyExists, PathNotFound):
                    now = await looker.stat(entry)
                    if (now and now.version) == (before and before.version):
                        raise
        raise Busy("others keep changing this file", path=entry.path)

    async def _note_unforeseen(
        self, verb: str, entry: Handle, plan: WritePlan, written: Written
    ) -> None:
        """Others changed the place in the very instant in which it was looked at, so that what
        should have been refused was not. What stood there is gone."""
        gone = PlaceState("file", 0, 0, 0, lost="others changed it in the instant before")
        before = None if plan.mode == "create" else gone
        effects = [Effect(entry.path, before, UNKNOWN)]
        begun = await to_the_end(
            self._core.recorder.begin(verb, self._mark, effects, Allowance(self._core.limits))
        )
        self._core.ledger.finish(begun, await self._published(entry, [], written))

    async def write_stream(
        self, entry: Handle, chunks: AsyncIterator[bytes], plan: WritePlan
    ) -> Written:
        """What stands there is kept when the last chunk has come: the instant before it goes. Only
        then is a turn taken, since a stream may last as long as its source likes."""
        core = self._core
        begun: list[int] = []
        above: list[Effect] = []
        passing = PassingContent()
        async with AsyncExitStack() as turn:

            async def then_keep() -> AsyncGenerator[bytes, None]:
                async for chunk in chunks:
                    passing.add(chunk)
                    yield chunk
                places = await self._places(entry, plan)
                await turn.enter_async_context(core.changing(*places))
                keeping = Allowance(core.limits)
                before = await core.looker.keep(entry, keeping)
                if not _is_refused(plan, before):
                    above.extend(await self._missing_above(entry, plan.parents))
                    small, after = passing.small, UNKNOWN
                    if small is not None:
                        after = _foretold(plan, before, _hashed(small), keeping)
                    effects = [*above, Effect(entry.path, before, after)]
                    begun.append(await core.recorder.begin("write", self._mark, effects, keeping))

            turn.enter_context(core.working())
            try:
                async with aclosing(then_keep()) as source:
                    written = await self._inner.write_stream(entry, source, plan)
            except CLOSED:
                for each in begun:
                    core.recorder.settle_later(each)
                raise
            except BaseException as error:
                for each in begun:
                    await to_the_end(core.recorder.give_up(each, error))
                raise
            if begun:
                core.ledger.finish(begun[0], await self._published(entry, above, written))
            else:
                await self._note_unforeseen("write", entry, plan, written)
            return written

    async def _published(
        self, entry: Handle, above: list[Effect], written: Written
    ) -> EntryOutcome:
        after = await self._made(above) if above else {}
        after[len(above)] = PlaceState(
            "file", written.file_mode & 0o777, written.size, 0, written.version, written.sha256
        )
        return EntryOutcome(after)

    async def _places(self, entry: Handle, plan: WritePlan) -> list[ScopedPath]:
        """The place to have a turn at: where directories are to be made, the first of them."""
        missing = await self._missing_above(entry, plan.parents)
        return [missing[0].path if missing else entry.path]

    async def _missing_above(self, entry: Handle, parents: bool) -> list[Effect]:
        """The directories that have to be made above an entry, outermost first."""
        if not parents or entry.type is not None:
            return []
        parts = entry.path.parts
        above = [from_parts(parts[:levels]) for levels in range(1, len(parts))]
        # Mostly the last is there. Otherwise the first that is missing is found by halving, since
        # to look for one takes the longer, the more are missing.
        there, missing = 0, len(above)
        look = missing - 1
        while there < missing:
            with closing(await self._inner.resolve(above[look], "entry", parents=True)) as held:
                if held.type is not None:
                    there = look + 1
                else:
                    missing = look
            look = (there + missing) // 2
        return [Effect(path, None, UNKNOWN) for path in above[missing:]]

    async def _made(self, effects: list[Effect]) -> dict[int, PlaceState | None]:
        """What stands now at places that were made."""
        return {
            number: await self._core.looker.now(each.path) for number, each in enumerate(effects)
        }

    # --- names -------------------------------------------------------------------------------

    async def make_dir(self, entry: Handle, *, file_mode: int | None, parents: bool) -> bool:
        inner, core = self._inner, self._core
        if entry.type is not None:
            return await inner.make_dir(entry, file_mode=file_mode, parents=parents)
        above = await self._missing_above(entry, parents)
        async with core.changing(above[0].path if above else entry.path):
            effects = [
                *await self._missing_above(entry, parents),
                Effect(entry.path, None, UNKNOWN),
            ]

            async def outcome(made: bool) -> EntryOutcome | None:
                return EntryOutcome(await self._made(effects)) if made else None

            return await core.recorder.record(
                "make_dir", self._mark, effects, Allowance(core.limits),
                lambda: inner.make_dir(entry, file_mode=file_mode, parents=parents), outcome,
            )  # fmt: skip

    async def remove(self, entry: Handle, *, recursive: bool, expected: Expected = ANYTHING) -> int:
        inner = self._inner

        def act() -> Awaitable[int]:
            return inner.remove(entry, recursive=recursive, expected=expected)

        if is_reserved(entry.path):
            return await act()
        return await self._gone(entry, act, recursive=recursive)

    async def _gone(
        self, entry: Handle, act: Callable[[], Awaitable[Result]], *, recursive: bool
    ) -> Result:
        """What stands there is not there any more when that is done."""
        core = self._core
        async with core.changing(entry.path):
            keeping = Allowance(core.limits)
            if recursive:
                found = await core.looker.keep_tree(entry, keeping)
            else:
                state = await core.looker.keep(entry, keeping)
                found = [] if state is None else [(entry.path, state)]
            if not found or entry.path.is_root:
                return await act()
            # What lies in a directory goes before it does.
            effects = [Effect(path, state, None) for path, state in reversed(found)]

            async def outcome(_: Result) -> EntryOutcome:
                return EntryOutcome()

            return await core.recorder.record(
                "remove", self._mark, effects, keeping, act, outcome, in_parts=recursive,
            )  # fmt: skip

    async def move(
        self, source: Handle, destination: Handle, *, replace: bool,
        expected: Expected = ANYTHING, replaced: Expected = ANYTHING,
    ) -> bool:  # fmt: skip
        """What gets a reserved name has gone, as far as anybody is told, and comes from nowhere
        when it gets another."""
        inner, core, looker = self._inner, self._core, self._core.looker
        here, there = source.path, destination.path

        def act() -> Awaitable[bool]:
            return inner.move(
                source, destination, replace=replace, expected=expected, replaced=replaced
            )

        if is_reserved(there):
            return await self._gone(source, act, recursive=True)
        if is_reserved(here):
            return await self._dress("move", destination, act, Effect(there, None, UNKNOWN))
        async with core.changing(here, there):
            keeping = Allowance(core.limits)
            moved = await looker.keep(source, keeping, content=False)
            gone = await looker.keep(destination, keeping)
            if (
                moved is None
                or here == there
                or here.is_root
                or there.is_root
                or (gone is not None and not replace)
            ):
                return await act()
            effects = [] if gone is None else [Effect(there, gone, None)]
            effects += [
                Effect(here, moved, None, WENT, there), Effect(there, None, UNKNOWN, CAME, here),
            ]  # fmt: skip

            async def outcome(changed: bool) -> EntryOutcome | None:
                stat = await looker.stat(destination) if changed else None
                if not changed:
                    return None
                now = UNKNOWN if stat is None else seen(stat, moved.sha256)
                return EntryOutcome({len(effects) - 1: now})

            return await core.recorder.record(
                "move", self._mark, effects, keeping, act, outcome,
            )  # fmt: skip

    async def copy(self, source: Handle, destination: Handle, *, recursive: bool) -> int:
        inner, core = self._inner, self._core
        top = destination.path
        if destination.type is not None:
            return await inner.copy(source, destination, recursive=recursive)

        async def outcome(_: int) -> EntryOutcome:
            made = await core.looker.states_beneath(top)
            after = made[0][1] if made else UNKNOWN
            return EntryOutcome({0: after}, added=[Effect(path, None, it) for path, it in made[1:]])

        async with core.changing(top):
            return await core.recorder.record(
                "copy", self._mark, [Effect(top, None, UNKNOWN)], Allowance(core.limits),
                lambda: inner.copy(source, destination, recursive=recursive), outcome,
            )  # fmt: skip

    async def symlink(self, entry: Handle, target: str) -> None:
        after = PlaceState("symlink", 0o777, 0, 0, "", None, target)
        if entry.type is not None or not is_text(target):
            return await self._inner.symlink(entry, target)
        return await self._dress(
            "symlink",
            entry,
            lambda: self._inner.symlink(entry, target),
            Effect(entry.path, None, after),
        )

    async def set_mode(
        self, entry: Handle, file_mode: int, *, expected: Expected = ANYTHING
    ) -> None:
        await self._dress(
            "set_mode", entry,
            lambda: self._inner.set_mode(entry, file_mode, expected=expected),
        )  # fmt: skip

    async def set_mode_for_all(
        self, entry: Handle, was: int, file_mode: int, *, by_us: bool
    ) -> None:
        async def act() -> None:
            if by_us:
                await self._inner.set_mode(entry, file_mode)

        await self._dress(
            "set_mode", entry, act, modes=(was, file_mode), by_others=not by_us
        )  # fmt: skip

    async def set_times(
        self, entry: Handle, mtime_ns: int, atime_ns: int | None, *, expected: Expected = ANYTHING
    ) -> None:
        await self._dress(
            "set_times", entry,
            lambda: self._inner.set_times(entry, mtime_ns, atime_ns, expected=expected),
        )  # fmt: skip

    async def _dress(
        self, verb: str, entry: Handle, act: Callable[[], Awaitable[Result]],
        effect: Effect | None = None, modes: tuple[int, int] | None = None,
        by_others: bool = False,
    ) -> Result:  # fmt: skip
        """A change of what is not content. ``modes`` are told in place of those that are seen
        before and after it; where ``by_others``, who may be at it for long, nobody is waited for.
        """
        core = self._core
        async with nullcontext() if by_others else core.changing(entry.path):
            keeping = Allowance(core.limits)
            if effect is None:
                before = await core.looker.keep(entry, keeping, content=False)
                if before is None:
                    return await act()
                if modes is not None:
                    before = msgspec.structs.replace(before, mode=modes[0])
                effect = Effect(entry.path, before, UNKNOWN)

            async def outcome(_: Result) -> EntryOutcome:
                stat = await core.looker.stat(entry)
                sha256 = None if effect.before is None else effect.before.sha256
                after = UNKNOWN if stat is None else seen(stat, sha256)
                if modes is not None and stat is not None:
                    after = msgspec.structs.replace(after, mode=modes[1])
                return EntryOutcome({0: after})

            return await core.recorder.record(verb, self._mark, [effect], keeping, act, outcome)

    # --- powers ------------------------------------------------------------------------------

    async def stage(self, place: Handle, *, size_max: int) -> Stage:
        if not isinstance(self._inner, Stages):
            raise Unsupported("the wrapped store stages nothing")
        stage = await self._inner.stage(place, size_max=size_max)
        return HistoryStage(self._core, self._mark, place, stage)

    async def stage_swap(self, place: Handle, *, size_max: int) -> SwapStage:
        if not isinstance(self._inner, Swaps):
            raise Unsupported("the wrapped store changes one thing at a time")
        stage = await self._inner.stage_swap(place, size_max=size_max)
        return HistorySwapStage(self._core, self._mark, place, stage)

    def narrowed(
        self, *, symlinks: Symlinks | None = None, hardlinks: Hardlinks | None = None
    ) -> HistoryStore:
        if not isinstance(self._inner, Narrows):
            raise Unsupported("the wrapped store has no stricter view")
        view = self._inner.narrowed(symlinks=symlinks, hardlinks=hardlinks)
        return HistoryStore(self._core.view(view), self._mark)

    def shares_tree(self, other: Store) -> bool:
        inner = other._inner if isinstance(other, HistoryStore) else other
        return isinstance(self._inner, Narrows) and self._inner.shares_tree(inner)

    async def aclose(self) -> None:
        await self._core.aclose()


def _is_refused(plan: WritePlan, before: PlaceState | None) -> bool:
    """Whether the wrapped store will refuse the plan for what stands there: nothing is changed."""
    if before is None:
        return plan.mode == "replace" or plan.conditional
    if plan.mode == "create" or before.type != "file":
        return True
    if plan.expected_version is not None and plan.expected_version != before.version:
        return True
    expected = plan.expected_sha256
    return expected is not None and before.sha256 is not None and expected != before.sha256


def _bound_to(plan: WritePlan, before: PlaceState | None, kept: Allowance) -> WritePlan:
    """A plan that holds for exactly what was kept."""
    if before is None:
        return msgspec.structs.replace(plan, mode="create")
    sha256 = before.sha256
    content = kept.kept(before)
    if content is None or len(content) > plan.size_max:
        return msgspec.structs.replace(plan, expected_version=before.version)
    return msgspec.structs.replace(
        plan, expected_version=before.version, expected_sha256=sha256, expected_content=content
    )


def _hashed(content: bytes) -> _Left:
    return hashlib.sha256(content).hexdigest(), content


def _foretold(
    plan: WritePlan, before: PlaceState | None, content: _Left, keeping: Allowance
) -> PlaceState:
    """What a plan will leave. It is kept at once where it is small: other programs may write over
    it before anybody looks."""
    sha256, data = content
    if len(data) <= SMALL_BYTES_MAX:
        keeping.keep(sha256, data)
    mode = plan.file_mode
    if mode is None and before is not None:
        mode = before.mode
    return foretold(sha256, len(data), mode)
