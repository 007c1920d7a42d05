"""A session, for blocking code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

from bailiwick.paths import PathText, ScopedPath
from bailiwick.scope.sessions import Session
from bailiwick.sync_execution import SyncExecution
from bailiwick.text.diff import UnifiedDiff
from bailiwick.verbs.working_copies import Publish
from bailiwick.working_copy import Published, WorkChanges


class SyncSession:
    """A `Session` for blocking code, to be entered or closed."""

    def __init__(self, session: Session, run: Callable[..., Any]) -> None:
        """``run`` has a coroutine run to its end where the session belongs: `Portal.run`."""
        self._session = session
        self._run = run

    @staticmethod
    async def begin(make: Callable[[], Session]) -> Session:
        """For the loop that it is to belong to. On a server it is opened by this."""
        return await make().__aenter__()

    @property
    def id(self) -> str:
        return self._session.id

    @property
    def lost(self) -> tuple[str, ...]:
        return self._session.lost

    @property
    def env(self) -> dict[str, str]:
        return self._session.env

    @property
    def cwd(self) -> PathText:
        return self._session.cwd

    @cwd.setter
    def cwd(self, cwd: PathText) -> None:
        self._session.cwd = cwd

    def exec(self, *arguments: Any, **more: Any) -> SyncExecution:
        """Run a program in the working copy of this session: see `Session.exec`."""
        begin = SyncExecution.begin(lambda: self._session.exec(*arguments, **more))
        execution = self._run(begin, let_go=SyncExecution.let_go)
        return SyncExecution(execution, self._run)

    def publish(
        self,
        publish: Publish = "atomic",
        *,
        paths: Iterable[PathText] | None = None,
        merge: bool = False,
    ) -> Published:
        """Bring what was changed back into the tree: see `Session.publish`."""
        published: Published = self._run(self._session.publish(publish, paths=paths, merge=merge))
        return published

    def discard(self, paths: Iterable[PathText] | None = None) -> list[ScopedPath]:
        """Give up what was changed: all of it, or these paths with what lies beneath them."""
        given_up: list[ScopedPath] = self._run(self._session.discard(paths))
        return given_up

    def changes(self) -> WorkChanges:
        """What publishing would do to the tree as it stands now."""
        changes: WorkChanges = self._run(self._session.changes())
        return changes

    def diff(self, path: PathText) -> UnifiedDiff:
        """From what stands in the tree to what stands in the working copy."""
        diff: UnifiedDiff = self._run(self._session.diff(path))
        return diff

    def close(self) -> None:
        """End every command that is under way, and keep what was not published."""
        self._run(self._session.aclose(), stoppable=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
