"""The verbs of a remote scope about runs."""

from __future__ import annotations

from collections.abc import Sequence

from bailiwick.client.failures import no_answer
from bailiwick.client.transport import segment
from bailiwick.client.values import path_text, rebuilt, rebuilt_all
from bailiwick.client.versions import RemoteVersions
from bailiwick.errors import ParseError
from bailiwick.paths import PathText
from bailiwick.runs import RunChanges, RunInfo
from bailiwick.scope.runs import Run, RunPage
from bailiwick.versions import UndoResult


class RemoteRuns(RemoteVersions):
    """What agents did on a server."""

    async def runs(
        self,
        *,
        since_ns: int | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        brief: bool = False,
    ) -> RunPage[Run]:
        """What agents did, run by run, what was seen last first; ``next_cursor`` goes on."""
        query: dict[str, object] = {
            "since": None if since_ns is None else since_ns // 1_000_000, "limit": limit,
            "cursor": cursor, "brief": brief or None,
        }  # fmt: skip
        told = await self._ask("runs", "GET", "/runs", query=query, asks=False)
        runs = [Run(self, each) for each in rebuilt_all(RunInfo, told.get("runs"))]
        following = told.get("nextCursor")
        if following is not None and not isinstance(following, str):
            raise no_answer("the cursor is no text")
        return RunPage(runs, following)

    async def run_info(self, run: str) -> Run:
        """One run, by its id or an unambiguous beginning of it."""
        told = await self._ask("run", "GET", f"/runs/{segment(run)}", asks=False)
        return Run(self, rebuilt(RunInfo, told))

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
        """What a run changed in all, in hunks."""
        wanted = [path_text(each) for each in paths]
        if len(wanted) > 1:
            raise ParseError("over HTTP one path is asked for at a time")
        query: dict[str, object] = {
            "path": wanted[0] if wanted else None, "step": step, "brief": brief or None,
            "cursor": cursor, "limit": limit,
        }  # fmt: skip
        route = f"/runs/{segment(run)}/changes"
        told = await self._ask("run_changes", "GET", route, query=query, asks=False)
        return rebuilt(RunChanges, told)

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
        """Take back what a request, a range of versions, a subject or a run changed."""
        if run is None:
            if paths or hunks or step is not None:
                raise ParseError("paths, hunks and a step are of a run: say which")
            return await self._undone(
                request_id, subject=subject, version=version, through=through,
                since_ns=since_ns, preview=preview, lock_token=lock_token,
            )  # fmt: skip
        if any(each is not None for each in (request_id, subject, version, through, since_ns)):
            raise ParseError("what to undo is a run, or something else, not both")
        body = {
            "paths": [path_text(each) for each in paths],
            "hunks": None if hunks is None else list(hunks), "step": step, "preview": preview,
        }  # fmt: skip
        route = f"/runs/{segment(run)}/undo"
        return rebuilt(UndoResult, await self._ask("undo", "POST", route, body=body))
