"""What has to be done to put places back, as steps, and how a step is told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bailiwick.paths import ScopedPath
from bailiwick.stores.history.own_directories import Around, OwnDirectories
from bailiwick.stores.history.states import PlaceState, is_directory
from bailiwick.versions import ChangeKind, Conflict, Plan, Touch


class Step(NamedTuple):
    """One place that is to become what it was; or, with an ``origin``, a thing that is to be moved
    from there.

    ``now`` is what must stand there, ``then`` what is to stand there. ``found_at`` is where it
    stands before any step is done; None where nothing does, or an earlier step makes it. ``times``
    asks for the time, too. ``around`` are the directories that are gone through for it.
    """

    path: ScopedPath
    now: PlaceState | None
    then: PlaceState | None
    found_at: ScopedPath | None = None
    origin: ScopedPath | None = None
    times: bool = False
    around: tuple[Around, ...] = ()

    @property
    def makes(self) -> bool:
        return self.origin is None and self.now is None and self.then is not None


class Planned(NamedTuple):
    """Steps in the order in which they are to be done, and the places that are left. ``own`` are
    the directories that may be opened for them, ``mounts`` those that other filesystems were
    mounted on when it was looked at."""

    steps: list[Step]
    conflicts: list[Conflict]
    subjects: frozenset[str] = frozenset()
    moved: tuple[Touch, ...] = ()
    own: OwnDirectories | None = None
    mounts: frozenset[str] | None = None

    def plan(self) -> Plan:
        return plan_of(self.steps, self.conflicts, self.subjects, self.moved)


def plan_of(
    steps: Iterable[Step],
    conflicts: Iterable[Conflict],
    subjects: frozenset[str] = frozenset(),
    moved: Iterable[Touch] = (),
) -> Plan:
    """The touches of steps; ``moved`` are those of what lies in directories that are moved."""
    steps = list(steps)
    coming = {step.path for step in steps if step.makes and is_directory(step.then)}
    going = {
        step.path
        for step in steps
        if step.then is None and step.origin is None and is_directory(step.now)
    }
    touches = [_touch(step, coming | going) for step in steps]
    touches += moved
    return Plan(
        tuple(sorted(touches, key=lambda each: each.path.order)),
        tuple(sorted(conflicts, key=lambda each: each.path)),
        subjects,
    )


def _touch(step: Step, whole: set[ScopedPath]) -> Touch:
    now, then = step.now, step.then
    known = then or now
    kind: ChangeKind = "updated"
    if step.origin is not None:
        kind = "moved"
    elif now is None:
        kind = "created"
    elif then is None:
        kind = "deleted"
    return Touch(
        path=step.path,
        kind=kind,
        type="other" if known is None else known.type,
        origin=step.origin,
        size=0 if then is None else then.size,
        size_before=0 if now is None else now.size,
        sha256=None if then is None else then.sha256,
        sha256_before=None if now is None else now.sha256,
        beneath=step.path.parent in whole,
        mode=None if known is None else known.mode,
        mode_before=None if now is None else now.mode,
        target=None if known is None else known.target,
    )
