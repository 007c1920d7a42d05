"""Finding files by name, lines by pattern, and what differs."""

from __future__ import annotations

from bailiwick.errors import ParseError
from bailiwick.fronts.http.messages.requests import Request
from bailiwick.fronts.http.table import Route
from bailiwick.fronts.http.verbs import from_query, route
from bailiwick.wire import Document, values, verbs

_diff = from_query("diff", verbs.DIFF)


async def diff(request: Request) -> Document:
    given = _diff(request.query)
    if len(given) == 1:
        raise ParseError("a diff compares with other, or with an earlier version")
    scope = await request.scoped(given["path"])
    return values.DIFF.write(await scope.diff(**given))


ROUTES: tuple[Route, ...] = (
    route(verbs.GLOB),
    route(verbs.FIND),
    route(verbs.FILES),
    route(verbs.GREP),
    route(verbs.DIFF, diff),
)
