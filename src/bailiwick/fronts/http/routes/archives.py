"""Archives and temporary roots."""

from __future__ import annotations

from bailiwick.errors import PathNotFound
from bailiwick.fronts.http.messages.requests import Reply, Request
from bailiwick.fronts.http.table import Route, access
from bailiwick.fronts.http.verbs import route
from bailiwick.wire import Result, values, verbs


class TempClosed(Result, frozen=True, kw_only=True, tag="temp_closed"):
    """A private root that is gone."""

    id: str


async def make_temp(request: Request) -> Reply:
    scope = await request.scoped()
    seconds, several = request.body.seconds, request.app.settings.several
    temp = await request.holding.make_temp(scope, seconds, several)
    ends = temp.grant.expires_at
    document = values.TempRoot(
        root=str(temp.root), id=temp.root.id,
        expires_at_ms=None if ends is None else int(ends * 1_000),
    )  # fmt: skip
    return Reply(document, 201)


async def close_temp(request: Request) -> TempClosed:
    name = request.names["id"]
    temp = request.holding.temps.pop(f"temp:{name}", None)
    if temp is None:
        raise PathNotFound("there is no such temporary root")
    await temp.aclose()
    return TempClosed(id=name)


ROUTES: tuple[Route, ...] = (
    route(verbs.EXTRACT_ARCHIVE),
    route(verbs.CREATE_ARCHIVE),
    route(verbs.CREATE_TEMP, make_temp, needs=access("write"), who="caller"),
    Route(
        method="DELETE", path="/temp/{id}", name="closeTemp", family="archives",
        handler=close_temp, about="Remove a private root and all that is in it.",
        result=TempClosed, changes=True, rooted=False, who="caller",
        example="DELETE /temp/4f1c",
    ),
)  # fmt: skip
