"""The verbs of a scope about runs: what agents did here, what they changed, and taking it back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from bailiwick import operations
from bailiwick.errors import ParseError
from bailiwick.late_module import LateModule
from bailiwick.paths import PathText, ScopedPath, parse
from bailiwick.runs import RunChanges, RunInfo, found_run
from bailiwick.scope.versions import VersionVerbs
from bailiwick.verbs.walks.path_pages import path_page
from bailiwick.versions import UndoResult

if TYPE_CHECKING:
    from bailiwick.verbs.runs import run_verbs
else:
    run_verbs = LateModule("bailiwick.verbs.runs.run_verbs")


class TellsRuns(Protocol):
    """A scope, here or on a server, as far as a run asks it."""

    async def run_changes(
        self,
        run: str,
        *,
        paths: Sequence[PathText] = (),
        step: str | None = None,
        brief: bool = False,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> RunChanges: ...

    async def undo(
        self,
        request_id: str | None = None,
        *,
        run: str | None = None,
        paths: Sequence[PathText] = (),
        hunks: Sequence[str] | None = None,
        step: str | None = None,
        preview: bool = False,
    ) -> UndoResult: ...


class Run:
    """One run: what is known of it are its attributes, as `RunInfo` lists them."""

    def __init__(self, scope: TellsRuns, info: RunInfo) -> None:
        self._scope = scope
        self.info = info

    def __getattr__(self, name: str) -> Any:
        return getattr(self.info, name)

    def __repr__(self) -> str:
        return f"<Run {self.info.id} of {self.info.subject}: {self.info.title or 'untitled'}>"

    async def changes(
        self,
        *,
        paths: Sequence[PathText] = (),
        step: str | None = None,
        brief: bool = False,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> RunChanges:
        """What it changed in all, path by path, in hunks; or one step of it: see
        `Scope.run_changes`."""
        return await self._scope.run_changes(
            self.info.id, paths=paths, step=step, brief=brief, cursor=cursor, limit=limit
        )

    async def undo(
        self,
        paths: Sequence[PathText] = (),
        *,
        hunks: Sequence[str] | None = None,
        step: str | None = None,
        preview: bool = False,
    ) -> UndoResult:
        """Take it back, or a part of it: see `Scope.undo`."""
        return await self._scope.undo(
            run=self.info.id, paths=paths, hunks=hunks, step=step, preview=preview
        )


OneRun = TypeVar("OneRun")


class RunPage(list[OneRun]):
    """Some runs, what was seen last first: a list that says where it was cut. ``next_cursor`` goes
    on to those that were seen before, None where there are none. A run that is seen meanwhile
    stands before all of them: whoever wants it looks again from the beginning."""

    def __init__(self, runs: Iterable[OneRun], next_cursor: str | None = None) -> None:
        super().__init__(runs)
        self.next_cursor = next_cursor

    @property
    def runs(self) -> list[OneRun]:
        """The runs alone."""
        return list(self)

    @property
    def truncated(self) -> bool:
        """Whether there are more."""
        return self.next_cursor is not None


class RunVerbs(VersionVerbs):
    """What agents did here."""

    async def runs(
        self,
        *,
        since_ns: int | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        brief: bool = False,
    ) -> RunPage[Run]:
        """What agents did here, run by run, what was seen last first; with ``since_ns`` only those
        seen from then on. An agent sees its own, a person and the host all of them. A ``brief``
        list does not say what came of each, which takes a look at all that it changed.

        At most ``limit`` are told (default: ``history_default``): ``truncated`` says whether there
        are more, and ``next_cursor`` goes on to them."""
        book = run_verbs.required(self._pipeline.runs)
        asked = run_verbs.RunsAsked(since_ns, limit, cursor)
        infos, following = await self._run(
            operations.READ, "runs", self._top,
            lambda call: run_verbs.listed(call, book, asked, brief=bool(brief)),
            since_ns=since_ns, limit=limit, cursor=cursor,
        )  # fmt: skip
        return RunPage([Run(self, each) for each in infos], following)

    async def run_info(self, run: str) -> Run:
        """One run, by its id or an unambiguous beginning of it. Raises `PathNotFound`."""
        book = run_verbs.required(self._pipeline.runs)

        async def told(call: Any) -> RunInfo:
            row = found_run(await run_verbs.rows_for(call, book), run)
            return await run_verbs.told(call, book, row)

        return Run(self, await self._run(operations.READ, "runs", self._top, told))

    async def run_changes(
        self,
        run: str,
        *,
        paths: Sequence[PathText] = (),
        step: str | None = None,
        brief: bool = False,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> RunChanges:
        """What a run changed in all, from before its first touch of a path to after its last, in
        hunks. What others changed in between is told as theirs.

        With a ``limit`` at most so many paths are told, and ``next_cursor`` goes on to the others.
        ``brief`` counts hunks and does not show them, which costs next to nothing."""
        book = run_verbs.required(self._pipeline.runs)
        part = run_verbs.part_of(self._places_of(paths), None, step)
        page = path_page(cursor, limit)
        return await self._run(
            operations.READ, "runs", self._top,
            lambda call: run_verbs.changes(call, book, run, part, page, brief=bool(brief)),
        )  # fmt: skip

    async def undo(
        self,
        request_id: str | None = None,
        *,
        subject: str | None = None,
        version: str | None = None,
        through: str | None = None,
        since_ns: int | None = None,
        run: str | None = None,
        paths: Sequence[PathText] = (),
        hunks: Sequence[str] | None = None,
        step: str | None = None,
        preview: bool = False,
        lock_token: int | None = None,
    ) -> UndoResult:
        """Take back what a request changed, or the versions from ``version`` to ``through``, or all
        that a ``subject`` did, ever or since a time (nanoseconds since 1970).

        Only what was not changed again since: the rest is reported as conflicts, and left. What
        another subject did, only a person or the host undoes. An undo can be undone.

        A ``run`` is taken back line by line, by what stands there now: all of it, some ``paths``
        with what lies beneath them, some ``hunks`` by their ids, or one ``step``. What others wrote
        stays. Where they have changed the same lines it is a conflict, and nothing is done.
        """
        if run is None:
            if paths or hunks or step is not None:
                raise ParseError("paths, hunks and a step are of a run: say which")
            return await super().undo(
                request_id, subject=subject, version=version, through=through,
                since_ns=since_ns, preview=preview, lock_token=lock_token,
            )  # fmt: skip
        if any(each is not None for each in (request_id, subject, version, through, since_ns)):
            raise ParseError("what to undo is a run, or something else, not both")
        book = run_verbs.required(self._pipeline.runs)
        part = run_verbs.part_of(self._places_of(paths), hunks, step)
        return await self._run(
            operations.VERSION, "undo", self._top,
            lambda call: run_verbs.undo(call, self._ignores, book, run, part, preview),
            preview=preview, lock_token=lock_token,
        )  # fmt: skip

    def _places_of(self, paths: Sequence[PathText]) -> tuple[ScopedPath, ...]:
        if isinstance(paths, str):
            raise ParseError("paths are a list of paths")
        root = self.root
        return tuple(
            parse(each, root.mount_point, root.names).path.beneath(self.grant.base)
            for each in paths
        )
