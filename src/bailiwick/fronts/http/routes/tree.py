"""Looking at the tree, and making, moving, copying and removing what is in it."""

from __future__ import annotations

from bailiwick.errors import ParseError
from bailiwick.fronts.http.messages.requests import Request
from bailiwick.fronts.http.table import Route, access
from bailiwick.fronts.http.verbs import body_of, from_body, from_query, place_of, route
from bailiwick.wire import Document, values, verbs

_stat = from_query("stat", verbs.STAT)
_readlink = from_query("readlink", verbs.READLINK)
_copy = from_body("copy", body_of(verbs.COPY))
_copy_from = from_body("copy_from", body_of(verbs.COPY))


async def stat(request: Request) -> Document:
    query = request.query
    scope = await request.scoped(query["path"])
    look = scope.stat if query.get("follow", True) else scope.lstat
    return values.STAT.write(await look(**_stat(query)))


async def readlink(request: Request) -> values.LinkResult:
    path = request.query["path"]
    scope = await request.scoped(path)
    return values.LinkResult(path=path, target=await scope.readlink(**_readlink(request.query)))


async def copy(request: Request) -> Document:
    body = request.body
    scope = await request.scoped(place_of(body))
    given = _copy(body)
    if body.from_root is None:
        if body.parents:
            raise ParseError(
                "parents are made by a copy from another root only",
                hint="make the directory first: POST /dir",
            )
        return values.CHANGE.write(await scope.copy(**given))
    if {body.expected_destination_version, body.expected_destination_hash} != {None}:
        raise ParseError("a copy from another root goes to a new name, and replaces nothing")
    other = await request.holding.scope(body.from_root, access("read"), body.path)
    return values.CHANGE.write(await scope.copy_from(other, **_copy_from(body)))


ROUTES: tuple[Route, ...] = (
    route(verbs.LIST),
    route(verbs.STAT, stat),
    route(verbs.READLINK, readlink),
    route(verbs.MAKE_DIR),
    route(verbs.MOVE),
    route(verbs.COPY, copy),
    route(verbs.REMOVE),
    route(verbs.SYMLINK),
    route(verbs.SET_MODE),
    route(verbs.SET_TIMES),
)
