"""Working copies: what commands changed, or was changed in an overlay, and is not in the tree."""

from __future__ import annotations

from typing import Any

from bailiwick.fronts.http.messages.requests import Request
from bailiwick.fronts.http.table import Route, access
from bailiwick.fronts.http.verbs import route
from bailiwick.scope.working_copies import OpenWork
from bailiwick.wire import command_verbs, values, verbs


async def listed(request: Request) -> values.WorkList:
    scope = await request.scoped()
    return values.WorkList(work=values.WORK_INFO.write_all(await scope.work()))


async def _opened(request: Request) -> OpenWork:
    scope = await request.scoped()
    return await scope.open_work(request.names["id"])


async def changes(request: Request) -> Any:
    async with await _opened(request) as work:
        return values.WORK_CHANGES.write(await work.changes())


async def difference(request: Request) -> Any:
    async with await _opened(request) as work:
        return values.WORK_DIFF.write(await work.diff(request.query["path"]))


def _how(body: Any) -> dict[str, Any]:
    return {
        "publish": body.publish, "merge": body.merge, "hunks": body.hunks, "seen": body.seen,
    }  # fmt: skip


async def apply(request: Request) -> Any:
    body = request.body
    async with await _opened(request) as work:
        return values.PUBLISHED.write(await work.apply(body.paths, **_how(body)))


async def discard(request: Request) -> values.WorkDiscarded:
    async with await _opened(request) as work:
        given_up = await work.discard(
            request.body.paths, hunks=request.body.hunks, seen=request.body.seen
        )
    return values.WorkDiscarded(id=request.names["id"], discarded=[*map(str, given_up)])


# --- overlays ----------------------------------------------------------------------------------


async def overlay(request: Request) -> Any:
    scope = await request.scoped()
    return values.WORK_CHANGES.write(await scope.changes())


async def apply_overlay(request: Request) -> Any:
    body, scope = request.body, await request.scoped()
    return values.PUBLISHED.write(await scope.apply(body.paths, **_how(body)))


async def discard_overlay(request: Request) -> values.OverlayDiscarded:
    scope = await request.scoped()
    given_up = await scope.discard(
        request.body.paths, hunks=request.body.hunks, seen=request.body.seen
    )
    return values.OverlayDiscarded(discarded=[*map(str, given_up)])


ROUTES: tuple[Route, ...] = (
    route(verbs.WORK, listed, who="caller"),
    route(verbs.OPEN_WORK, changes, needs=access("read"), who="caller"),
    route(command_verbs.WORK_DIFF, difference, who="caller"),
    route(command_verbs.WORK_APPLY, apply, who="caller"),
    route(command_verbs.WORK_DISCARD, discard, who="caller"),
    route(command_verbs.OVERLAY_CHANGES, overlay, who="caller"),
    route(command_verbs.OVERLAY_APPLY, apply_overlay, who="caller"),
    route(command_verbs.OVERLAY_DISCARD, discard_overlay, who="caller"),
)
