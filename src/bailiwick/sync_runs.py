"""Runs, for blocking code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from bailiwick.paths import PathText
from bailiwick.runs import RunChanges
from bailiwick.scope import Scope
from bailiwick.scope.runs import Run
from bailiwick.sync_review import SyncReview
from bailiwick.sync_work import RunsToTheEnd
from bailiwick.versions import UndoResult


class LooksAtRuns:
    """Blocking code that looks at runs."""

    _scope: Scope
    _portal: RunsToTheEnd
    _stay: Any

    def runs(self, *, since_ns: int | None = None, limit: int | None = None) -> list[SyncRun]:
        """What agents did here, run by run: see `Scope.runs`."""
        run = self._portal.run
        found: list[Run] = run(self._scope.runs(since_ns=since_ns, limit=limit))
        return [SyncRun(each, run) for each in found]

    @property
    def review(self) -> SyncReview:
        """What is left to look at of what agents did, and verdicts on it: see `Scope.review`."""
        return SyncReview(self._scope.review, self._portal.run)

    def with_run(self, *, title: str | None = None, step: str | None = None) -> Self:
        """This scope for a run, and a step of it, that people know by name."""
        make: Callable[..., Self] = type(self)
        return make(self._scope.with_run(title=title, step=step), self._portal, self._stay)

    def run_changes(
        self,
        run: str,
        *,
        paths: Sequence[PathText] = (),
        step: str | None = None,
        brief: bool = False,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> RunChanges:
        """What a run changed in all: see `Scope.run_changes`."""
        changes: RunChanges = self._portal.run(
            self._scope.run_changes(
                run, paths=paths, step=step, brief=brief, cursor=cursor, limit=limit
            )
        )
        return changes

    def run_info(self, run: str) -> SyncRun:
        """One run: see `Scope.run_info`."""
        return SyncRun(self._portal.run(self._scope.run_info(run)), self._portal.run)


class SyncRun:
    """A `Run` for blocking code."""

    def __init__(self, run: Run, finish: Callable[..., Any]) -> None:
        """``finish`` has a coroutine run to its end where the scope belongs: `Portal.run`."""
        self._run = run
        self._finish = finish
        self.info = run.info

    def __getattr__(self, name: str) -> Any:
        return getattr(self.info, name)

    def __repr__(self) -> str:
        return repr(self._run)

    def changes(
        self,
        *,
        paths: Sequence[PathText] = (),
        step: str | None = None,
        brief: bool = False,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> RunChanges:
        """What it changed in all: see `Run.changes`."""
        changes: RunChanges = self._finish(
            self._run.changes(paths=paths, step=step, brief=brief, cursor=cursor, limit=limit)
        )
        return changes

    def undo(
        self,
        paths: Sequence[PathText] = (),
        *,
        hunks: Sequence[str] | None = None,
        step: str | None = None,
        preview: bool = False,
    ) -> UndoResult:
        """Take it back, or a part of it: see `Scope.undo`."""
        done: UndoResult = self._finish(
            self._run.undo(paths, hunks=hunks, step=step, preview=preview)
        )
        return done
