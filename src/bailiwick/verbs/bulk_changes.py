"""Carrying out what touches many paths at once: a restore, an undo, a merge, a transaction.

Each path is held to grant and policy as the operation that it stands for: what comes back is
written, what goes is deleted. All of it is decided before anything is done, and what is done is
what was decided: a store that would touch something else by then does nothing, and it is decided
anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import closing, suppress
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from bailiwick.acts import Act
from bailiwick.approvals import Preview
from bailiwick.call import Asked, Call
from bailiwick.errors import (
    MissingAccess,
    PathNotFound,
    PolicyDenied,
    escape_for_display,
)
from bailiwick.meter import NOTHING, Amount
from bailiwick.operations import DELETE, EDIT, MOVE, READ, WRITE, Access, Operation
from bailiwick.paths import ROOT, ScopedPath, folded
from bailiwick.policy import Ask, Decision, Hide
from bailiwick.proposal import Proposal
from bailiwick.resolution import refuse_hidden_twin, twin_exists
from bailiwick.unfollowed import unfollowed
from bailiwick.verbs.walks.ignore_files import Ignores
from bailiwick.version_acts import hash_of_effects
from bailiwick.versions import Conflict, Done, Plan, Touch

_WORDS_LINES_MAX: Final = 200
"""Paths that a person is shown who is asked about many; all are counted and bound."""


Result = TypeVar("Result")


class Work(NamedTuple):
    """What it would touch, and the act that does exactly that.

    ``reads`` is whether what it brings back counts as read. ``decided`` is for what was changed in
    a draft, by calls that were decided on one by one: the places that people let them change, about
    which nobody is asked again. ``counts`` is whether it makes the branch grow by what is not
    counted elsewhere. ``conditional`` is for what depends on more than what it touches, and is held
    against that also where it touches nothing. ``came_from`` is where things lay that came along
    with a directory, which counts as reading them. ``difference`` shows a person what files become.
    """

    plan: Callable[[], Awaitable[Plan]]
    act: Callable[[Plan], Act[Done]]
    reads: bool = False
    decided: AbstractSet[ScopedPath] | None = None
    counts: bool = True
    conditional: bool = False
    came_from: Mapping[ScopedPath, ScopedPath] = {}
    difference: Callable[[Plan, int], Awaitable[tuple[str, bool]]] | None = None
    """What files become, in so many lines, and whether that is all of it."""


class Use(NamedTuple):
    """One place that would be touched: what a grant must hold for that, and what rules see."""

    path: ScopedPath
    operation: Operation
    needed: frozenset[Access]
    ruled: frozenset[Access]
    is_directory: bool
    destination: ScopedPath | None = None


async def look(
    call: Call, ignores: Ignores, work: Work, result: Callable[[Done], Result]
) -> Proposal[Result]:
    """What would be touched, for a caller who may know; nobody is asked, for nothing is done."""
    plan = await work.plan()
    _judge_all(call, work, plan)
    call.questions = None
    return Proposal(None, lambda _: result(Done(None, plan)))


async def propose(
    call: Call, ignores: Ignores, work: Work, result: Callable[[Done], Result]
) -> Proposal[Result]:
    """All of it as one act, with everything it touches decided on."""
    plan = await work.plan()
    _judge_all(call, work, plan)
    touching = Touching(call, work, plan)

    def foretold() -> Result:
        return result(Done(None, plan))

    if not plan.touches:
        if not work.reads:  # else that nothing would change tells what is there
            call.questions = None
        act = work.act(plan) if work.conditional else None
        return Proposal(
            act,
            lambda done: result(done or Done(None, plan)),
            agreement=touching,
            foretold=foretold,
        )
    counts = call.metered and work.counts

    def carried_out(done: Done) -> Result:
        if counts:
            call.added = _added(done.plan)
        ignores.forget_all()
        _tell(call, done.plan)
        return result(done)

    async def refuse_twins() -> None:
        if call.grant.root.names == "portable":
            await _refuse_twins(call, plan)

    async def charge() -> None:
        if work.counts:
            await _charge(call, plan)

    return Proposal(
        work.act(plan), carried_out, agreement=touching, cost=charge, last_look=refuse_twins,
        touches=tuple(_touched(plan)), foretold=foretold,
    )  # fmt: skip


# --- deciding -----------------------------------------------------------------------------------


def _judge_all(call: Call, work: Work, plan: Plan) -> None:
    """Hold everything to grant and policy; what is to be asked becomes questions of the call."""
    call.judged = plan
    for use in _all_uses(work, plan):
        if work.decided is None:
            call.pipeline.check_access(call.grant, use.needed)
        decision = decide_use(call, use)
        if isinstance(decision, Hide):
            raise _kept(decision)
        if isinstance(decision, Ask) and work.decided is not None and use.path in work.decided:
            continue
        call.pipeline.obey(call, decision, call.target, use.path)
    for conflict in plan.conflicts:
        use = Use(conflict.path, WRITE, WRITE.access, WRITE.ruled, False)
        decision = decide_use(call, use)
        if isinstance(decision, Hide):
            raise _kept(decision)


def decide_use(call: Call, use: Use) -> Decision:
    """What grant and policy say of one place, by the operation that it stands for. Raises
    `MissingAccess` beyond the grant's reach."""
    call = msgspec.structs.replace(call, operation=use.operation)
    grant = call.grant
    if not grant.whole and not grant.reaches(use.path, use.is_directory):
        raise MissingAccess(
            "this touches what the grant does not reach",
            hint="ask somebody who may change all of it",
        )
    return call.pipeline.judge(call, use.path, use.ruled, use.destination)


def _kept(decision: Decision) -> PolicyDenied:
    """A refusal that does not tell which path is hidden."""
    return PolicyDenied("this touches what a rule keeps", decided_by=decision.source)


def _all_uses(work: Work, plan: Plan) -> Iterator[Use]:
    for touch in plan.touches:
        yield from uses_of(touch, reads=work.reads, came_from=work.came_from.get(touch.path))


def uses_of(
    touch: Touch, *, reads: bool = False, came_from: ScopedPath | None = None
) -> Iterator[Use]:
    """What one change comes to; ``reads`` is whether what it brings counts as read, ``came_from``
    where that lies."""
    writing = EDIT if reads else WRITE
    is_directory = touch.type == "directory"
    if touch.kind == "deleted":
        yield Use(touch.path, DELETE, DELETE.access, DELETE.ruled, is_directory)
    elif touch.kind == "moved" and touch.origin is not None:
        there = MOVE.destination_access
        yield Use(touch.origin, MOVE, MOVE.access, MOVE.ruled, is_directory, touch.path)
        yield Use(touch.path, MOVE, there, there, is_directory, touch.path)
    else:
        if came_from is not None:
            yield Use(came_from, READ, READ.access, READ.ruled, is_directory)
        over = touch.kind == "updated" and not is_directory
        ruled = writing.ruled_over if over else writing.ruled
        yield Use(touch.path, writing, writing.access, ruled, is_directory)


class Touching:
    """About all that would be touched, path by path."""

    def __init__(self, call: Call, work: Work, plan: Plan) -> None:
        self._call = call
        self._work = work
        self._plan = plan

    async def show(self) -> Preview:
        lines = "\n".join(_words(self._plan)).split("\n", _WORDS_LINES_MAX)
        shown, cut = "\n".join(lines[:_WORDS_LINES_MAX]) + "\n", len(lines) > _WORDS_LINES_MAX
        if self._work.difference is not None:
            most = self._call.limits.ask_diff_lines_max
            difference, cut_too = await self._work.difference(self._plan, most)
            shown, cut = shown + difference, cut or cut_too
        return Preview(sha256=hash_of_effects(self._plan), diff=shown, diff_truncated=cut)

    async def agreed(self, act: Act[Any]) -> Act[Any]:
        """What they were asked about may be refused by now, and what they allowed is not asked
        again."""
        questions: list[Asked] | None = self._call.questions
        _judge_all(self._call, self._work, self._plan)
        self._call.questions = questions
        return act

    def close(self) -> None:
        """Nothing is held: an act that would touch anything else is `Stale`."""


def _words(plan: Plan) -> Iterator[str]:
    for touch in plan.touches:
        path = escape_for_display(touch.path)
        came = "" if touch.origin is None else f" (from {escape_for_display(touch.origin)})"
        yield f"{touch.kind} {path}{came}{_manner(touch)}"


def _manner(touch: Touch) -> str:
    """Where a link leads, and the mode of what comes or gets another."""
    if touch.target is not None:
        return f", a link to {escape_for_display(touch.target)}"
    if touch.mode is None or touch.mode == touch.mode_before:
        return ""
    return f", mode {touch.mode:04o}"


async def _refuse_twins(call: Call, plan: Plan) -> None:
    """No name may come that differs only in case or accents from one that stays, or comes too."""
    gone = {each.path for each in plan.touches if each.kind == "deleted"}
    gone |= {each.origin for each in plan.touches if each.origin is not None}
    coming: set[tuple[ScopedPath, str]] = set()
    for touch in plan.touches:
        if touch.kind not in ("created", "moved") or touch.beneath:
            continue
        path = touch.path
        key = path.parent, folded(path.name)
        refuse_hidden_twin(call, path)
        with suppress(PathNotFound):
            with closing(await unfollowed(call.store, path, parents=True)) as entry:
                beside = await call.store.names_beside(entry)
            for other in beside:
                twin = path.parent.child(other)
                if other != path.name and folded(other) == key[1] and twin not in gone:
                    raise twin_exists(call, call.target, path, other)
        if key in coming:
            raise twin_exists(call, call.target, path, path.name)
        coming.add(key)


# --- counting and telling -------------------------------------------------------------------------


async def _charge(call: Call, plan: Plan) -> None:
    """Charge what it adds; on a second try only what is more than before."""
    if call.turn is None:
        await call.take_turn(ROOT)
    charged, added = call.charged or NOTHING, _added(plan)
    await call.account(added.size - charged.size, added.files - charged.files)


def _touched(plan: Plan) -> Iterator[ScopedPath]:
    """Where something changes: whoever watches for foreign changes need not tell of these."""
    for touch in plan.touches:
        if not touch.beneath:
            yield touch.path
            if touch.origin is not None:
                yield touch.origin


def _added(plan: Plan) -> Amount:
    size = files = 0
    for touch in plan.touches:
        if touch.type == "file":
            size += touch.size - touch.size_before
            files += {"created": 1, "deleted": -1}.get(touch.kind, 0)
    return Amount(size, files)


def _tell(call: Call, plan: Plan) -> None:
    """Note every change for the feed; what lies in a directory that came, went or moved whole is
    told with the directory."""
    if not call.pipeline.tells_changes:
        return
    most = call.limits.feed_subtree_paths_max
    beneath = _names_beneath(plan)
    for touch in plan.touches:
        if touch.beneath:
            continue
        names = beneath.get(touch.path, []) if touch.type == "directory" else []
        call.changed(
            touch.kind, touch.path, touch.type, version=touch.version, origin=touch.origin,
            subtree=bool(names) or (touch.type == "directory" and touch.kind != "updated"),
            beneath=tuple(names[:most]), beneath_truncated=len(names) > most,
        )  # fmt: skip


def _names_beneath(plan: Plan) -> dict[ScopedPath, list[str]]:
    """What came, went or moved with each directory, seen from there: by one pass over all of it,
    however many directories there are."""
    tops = {
        each.path: each.kind
        for each in plan.touches
        if each.type == "directory" and not each.beneath
    }
    found: dict[ScopedPath, list[str]] = {}
    for each in plan.touches:
        above = each.path.parent
        while each.beneath and not above.is_root:
            if tops.get(above) == each.kind:
                name = each.path.relative_to(above) + ("/" if each.type == "directory" else "")
                found.setdefault(above, []).append(name)
            above = above.parent
    return found


def touched_paths(plan: Plan) -> list[ScopedPath]:
    """The places that were touched by themselves, for a result."""
    found = {each.path for each in plan.touches if not each.beneath}
    found |= {each.origin for each in plan.touches if each.origin is not None and not each.beneath}
    return sorted(found, key=lambda path: path.order)


def sorted_conflicts(plan: Plan) -> list[Conflict]:
    return sorted(plan.conflicts, key=lambda each: (each.path.order, each.reason))
