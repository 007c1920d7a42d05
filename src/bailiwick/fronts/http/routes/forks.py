"""What is tried apart: forks, comparing and merging them."""

from __future__ import annotations

from bailiwick.errors import ParseError
from bailiwick.fronts.http.messages.requests import Reply, Request
from bailiwick.fronts.http.table import Route
from bailiwick.fronts.http.verbs import route
from bailiwick.wire import values, verbs


async def make_fork(request: Request) -> Reply:
    name = request.body.name
    scope = await request.scoped()
    fork = await scope.fork(name, version=request.body.version)
    await fork.aclose()
    return Reply(values.ForkMade(name=name), 201)


async def list_forks(request: Request) -> values.ForkList:
    scope = await request.scoped()
    return values.ForkList(forks=values.FORK.write_all(await scope.forks()))


async def delete_fork(request: Request) -> values.Deleted:
    name = request.names["name"]
    if request.query.get("fork") == name:
        raise ParseError("a fork is not removed from within itself", hint="leave out fork")
    scope = await request.scoped()
    await request.holding.close_forks(request.root or request.app.default_root(), name)
    await scope.delete_fork(name)
    return values.Deleted(name=name)


ROUTES: tuple[Route, ...] = (
    route(verbs.FORK, make_fork),
    route(verbs.FORKS, list_forks),
    route(verbs.DELETE_FORK, delete_fork),
    route(verbs.COMPARE),
    route(verbs.MERGE),
)
