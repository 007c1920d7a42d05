"""Working copies: what commands changed, or was changed in an overlay, and is not in the tree."""

from __future__ import annotations

from typing import Any, TypeVar

from bailiwick.fronts.http.messages.requests import Request
from bailiwick.fronts.http.table import Route, access
from bailiwick.fronts.http.verbs import route
from bailiwick.paths import ScopedPath
from bailiwick.scope.lost_answers import lost_decision
from bailiwick.scope.working_copies import OpenWork
from bailiwick.state.made_once import FORETOLD
from bailiwick.wire import command_verbs, values, verbs
from bailiwick.working_copy import Published

Told = TypeVar("Told")


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


async def _lost(request: Request, verb: str, kind: type[Told]) -> Told | None:
    """What came of a decision that a server has ended over."""
    if not request.was_left:
        return None
    assert request.key is not None, "left behind is a key"
    foretold = request.made.get(FORETOLD + verb)
    return await lost_decision(
        await request.scoped(), request.key, foretold, kind, work=request.names.get("id")
    )


async def apply(request: Request) -> Any:
    body, done = request.body, await _lost(request, "publish", Published)
    if done is None:
        async with await _opened(request) as work:
            done = await work.apply(body.paths, **_how(body))
    return values.PUBLISHED.write(done)


async def discard(request: Request) -> values.WorkDiscarded:
    body, given_up = request.body, await _lost(request, "discard", list[ScopedPath])
    if given_up is None:
        async with await _opened(request) as work:
            given_up = await work.discard(body.paths, hunks=body.hunks, seen=body.seen)
    return values.WorkDiscarded(id=request.names["id"], discarded=[*map(str, given_up)])


# --- overlays ----------------------------------------------------------------------------------


async def overlay(request: Request) -> Any:
    scope = await request.scoped()
    return values.WORK_CHANGES.write(await scope.changes())


async def apply_overlay(request: Request) -> Any:
    body, done = request.body, await _lost(request, "publish", Published)
    if done is None:
        done = await (await request.scoped()).apply(body.paths, **_how(body))
    return values.PUBLISHED.write(done)


async def discard_overlay(request: Request) -> values.OverlayDiscarded:
    body, given_up = request.body, await _lost(request, "discard", list[ScopedPath])
    if given_up is None:
        scope = await request.scoped()
        given_up = await scope.discard(body.paths, hunks=body.hunks, seen=body.seen)
    return values.OverlayDiscarded(discarded=[*map(str, given_up)])


ROUTES: tuple[Route, ...] = (
    route(verbs.WORK, listed, who="caller"),
    route(verbs.OPEN_WORK, changes, needs=access("read"), who="caller"),
    route(command_verbs.WORK_DIFF, difference, who="caller"),
    route(command_verbs.WORK_APPLY, apply, who="caller", governing=True),
    route(command_verbs.WORK_DISCARD, discard, who="caller", governing=True),
    route(command_verbs.OVERLAY_CHANGES, overlay, who="caller"),
    route(command_verbs.OVERLAY_APPLY, apply_overlay, who="caller", governing=True),
    route(command_verbs.OVERLAY_DISCARD, discard_overlay, who="caller", governing=True),
)
