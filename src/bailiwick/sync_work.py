"""A working copy that was opened, for blocking code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, Self

from bailiwick.paths import PathText, ScopedPath
from bailiwick.scope import Scope
from bailiwick.scope.working_copies import Hunks, OpenWork
from bailiwick.text.diff import UnifiedDiff
from bailiwick.verbs.working_copies import Publish
from bailiwick.working_copy import Published, WorkChanges


class RunsToTheEnd(Protocol):
    """Has a coroutine run to its end on the event loop of a portal."""

    @property
    def run(self) -> Callable[..., Any]: ...


class OpensWork:
    """Blocking code that opens working copies."""

    _scope: Scope
    _portal: RunsToTheEnd

    def open_work(self, id: str) -> SyncWork:
        """A working copy that was left: see `Scope.open_work`."""
        return SyncWork(self._portal.run(self._scope.open_work(id)), self._portal.run)


class SyncWork:
    """A `OpenWork` for blocking code. To be closed, or left as a context manager."""

    def __init__(self, work: OpenWork, run: Callable[..., Any]) -> None:
        """``run`` has a coroutine run to its end where the working copy belongs: `Portal.run`."""
        self._work = work
        self._run = run

    @property
    def id(self) -> str:
        return self._work.id

    def changes(self) -> WorkChanges:
        """What it would do to the tree as it stands now."""
        changes: WorkChanges = self._run(self._work.changes())
        return changes

    def diff(self, path: PathText) -> UnifiedDiff:
        """From what stands in the tree to what stands in the copy."""
        diff: UnifiedDiff = self._run(self._work.diff(path))
        return diff

    def apply(
        self,
        paths: Iterable[PathText] | None = None,
        *,
        publish: Publish = "atomic",
        merge: bool = False,
        hunks: Hunks | None = None,
    ) -> Published:
        """Bring it back into the tree: see `OpenWork.apply`."""
        published: Published = self._run(
            self._work.apply(paths, publish=publish, merge=merge, hunks=hunks)
        )
        return published

    def discard(
        self, paths: Iterable[PathText] | None = None, *, hunks: Hunks | None = None
    ) -> list[ScopedPath]:
        """Give up what was changed: see `OpenWork.discard`."""
        given_up: list[ScopedPath] = self._run(self._work.discard(paths, hunks=hunks))
        return given_up

    def close(self) -> None:
        self._run(self._work.__aexit__(None, None, None), stoppable=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
