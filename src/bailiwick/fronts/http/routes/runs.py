"""Runs: what agents did, what each changed, and taking it back."""

from __future__ import annotations

from typing import Any

from bailiwick.fronts.http.messages.requests import Request
from bailiwick.fronts.http.table import Route, access
from bailiwick.fronts.http.verbs import Body
from bailiwick.wire import Document, Result, values
from bailiwick.wire.arguments import Argument, a_flag, a_number, a_text, limit


class RunList(Result, frozen=True, kw_only=True, tag="runs"):
    """Runs, what was seen last first; with `nextCursor` those that were seen before."""

    runs: list[values.RUN.struct]  # type: ignore[name-defined]
    truncated: bool
    next_cursor: str | None


class RunUndoBody(Body, frozen=True, kw_only=True):
    """All of the run, or some paths, some hunks by their ids, one step."""

    paths: list[str] = []
    hunks: list[str] | None = None
    step: str | None = None
    preview: bool = False
    approval: str | None = None


async def list_runs(request: Request) -> RunList:
    query, scope = request.query, await request.scoped()
    since = query.get("since")
    found = await scope.runs(
        since_ns=None if since is None else since * 1_000_000, limit=query.get("limit"),
        cursor=query.get("cursor"), brief=query.get("brief", False),
    )  # fmt: skip
    return RunList(
        runs=values.RUN.write_all([each.info for each in found]), truncated=found.truncated,
        next_cursor=found.next_cursor,
    )  # fmt: skip


async def show_run(request: Request) -> Document:
    scope = await request.scoped()
    return values.RUN.write((await scope.run_info(request.names["id"])).info)


async def show_changes(request: Request) -> Document:
    query, scope = request.query, await request.scoped()
    paths = [query["path"]] if "path" in query else []
    found = await scope.run_changes(
        request.names["id"], paths=paths, step=query.get("step"), brief=query.get("brief", False),
        cursor=query.get("cursor"), limit=query.get("limit"),
    )  # fmt: skip
    return values.RUN_CHANGES.write(found)


def _undone(request: Request) -> dict[str, Any]:
    body: RunUndoBody = request.body
    return {
        "run": request.names["id"], "paths": body.paths, "hunks": body.hunks, "step": body.step,
        "preview": body.preview,
    }  # fmt: skip


async def undo_run(request: Request) -> Document:
    scope = await request.scoped()
    return values.UNDO.write(await scope.undo(**_undone(request)))


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET", path="/runs", name="runs", family="runs", handler=list_runs,
        about="What agents did, run by run: an agent sees its own, a person all.",
        result=RunList, needs=access("read"), who="caller",
        parameters=(
            a_number("since", "Only what was seen from this time on, in milliseconds."),
            limit(1_000),
            a_text("cursor", "Where an earlier answer left off."),
            a_flag("brief", "Which there are, and not what came of each."),
        ),
        example="GET /runs",
    ),
    Route(
        method="GET", path="/runs/{id}", name="run", family="runs", handler=show_run,
        about="One run, by its id or the beginning of it.", result=values.RUN.struct,
        needs=access("read"), who="caller", example="GET /runs/4f1c22ab90de",
    ),
    Route(
        method="GET", path="/runs/{id}/changes", name="runChanges", family="runs",
        handler=show_changes, about="What a run changed in all, in hunks.",
        result=values.RUN_CHANGES.struct, needs=access("read"), who="caller",
        parameters=(
            Argument(name="path", about="Only what lies there."),
            a_text("step", "Only one step of it."),
            a_flag("brief", "How many hunks each path has, and not the hunks themselves."),
            a_text("cursor", "Where an earlier answer left off."),
            limit(1_000),
        ),
        example="GET /runs/4f1c22ab90de/changes",
    ),
    Route(
        method="POST", path="/runs/{id}/undo", name="undoRun", family="runs", handler=undo_run,
        about="Take back a run, or a part of it, line by line by what stands there now.",
        body=RunUndoBody, result=values.UNDO.struct, needs=access("write"), who="caller",
        changes=True, asks=True, verb="undo", given=_undone,
        example='POST /runs/4f1c22ab90de/undo {"preview": true}',
    ),
)  # fmt: skip
