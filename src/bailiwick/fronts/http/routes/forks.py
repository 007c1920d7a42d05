"""What is tried apart: forks, comparing and merging them."""

from __future__ import annotations

from bailiwick.errors import ParseError
from bailiwick.fronts.http.requests import Reply, Request
from bailiwick.fronts.http.routes.versions import Deleted, Name
from bailiwick.fronts.http.table import (
    APPROVAL,
    NAME_CHARACTERS_MAX,
    Parameter,
    Route,
    access,
)
from bailiwick.fronts.http.verbs import doing
from bailiwick.fronts.http.wire import Body, Change
from bailiwick.wire import Document, Result, values


class ForkMade(Result, frozen=True, kw_only=True, tag="fork"):
    """A fork that was made: act in it with ``fork=NAME`` in any query."""

    name: str


class ForkList(Result, frozen=True, kw_only=True, tag="forks"):
    """All forks."""

    forks: list[values.FORK.struct]  # type: ignore[name-defined]


class ForkBody(Body, frozen=True, kw_only=True):
    name: Name
    version: str | None = None
    approval: str | None = None


class MergeBody(Change, frozen=True, kw_only=True):
    name: Name
    preview: bool = False


async def make_fork(request: Request) -> Reply:
    body: ForkBody = request.body
    scope = await request.scoped()
    fork = await scope.fork(body.name, version=body.version)
    await fork.aclose()
    return Reply(ForkMade(name=body.name), 201)


async def list_forks(request: Request) -> ForkList:
    scope = await request.scoped()
    return ForkList(forks=values.FORK.write_all(await scope.forks()))


async def delete_fork(request: Request) -> Deleted:
    name = request.names["name"]
    if request.query.get("fork") == name:
        raise ParseError("a fork is not removed from within itself", hint="leave out fork")
    scope = await request.scoped()
    await request.holding.close_forks(request.root or request.app.default_root(), name)
    await scope.delete_fork(name)
    return Deleted(name=name)


async def compare(request: Request) -> Document:
    name = request.query["name"]
    scope = await request.scoped()
    return values.COMPARE.write(await scope.compare(name), fork=name)


merge = doing("merge", values.MERGE, where="everywhere")

_READ = access("read")
_WRITE = access("write")

ROUTES: tuple[Route, ...] = (
    Route(
        method="POST", path="/fork", name="fork", family="versions", handler=make_fork,
        about="Make a branch of everything, at once.", body=ForkBody, result=ForkMade,
        statuses=(201,), needs=_WRITE, verb="fork", changes=True, asks=True,
        example='POST /fork {"name": "try-it"}',
    ),
    Route(
        method="GET", path="/forks", name="forks", family="versions", handler=list_forks,
        about="All forks.", result=ForkList, needs=_READ, verb="forks", example="GET /forks",
    ),
    Route(
        method="DELETE", path="/forks/{name}", name="deleteFork", family="versions",
        handler=delete_fork, about="Remove a fork.", result=Deleted, needs=_WRITE,
        verb="delete_fork", changes=True, parameters=(APPROVAL,), asks=True,
        example="DELETE /forks/try-it",
    ),
    Route(
        method="GET", path="/compare", name="compare", family="versions", handler=compare,
        about="How a fork differs from this branch.", result=values.COMPARE.struct, needs=_READ,
        verb="compare",
        parameters=(
            Parameter(
                name="name", about="The fork to compare with.", required=True,
                characters_max=NAME_CHARACTERS_MAX,
            ),
            APPROVAL,
        ),
        asks=True, example="GET /compare?name=try-it",
    ),
    Route(
        method="POST", path="/merge", name="merge", family="versions", handler=merge,
        about="Take over what a fork changed; with conflicts, nothing.", body=MergeBody,
        result=values.MERGE.struct, needs=_WRITE, verb="merge", changes=True, asks=True,
        example='POST /merge {"name": "try-it", "preview": true}',
    ),
)  # fmt: skip
