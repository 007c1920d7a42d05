"""What is tried apart: forks, comparing and merging them."""

from __future__ import annotations

import msgspec

from bailiwick.errors import ParseError
from bailiwick.fronts.http.requests import Reply, Request, hash_of
from bailiwick.fronts.http.routes.versions import Deleted, Name, WireConflict, conflicts_of
from bailiwick.fronts.http.table import (
    APPROVAL,
    NAME_CHARACTERS_MAX,
    Parameter,
    Route,
    access,
)
from bailiwick.fronts.http.wire import Body, Change, Result, locked


class WireFork(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A branch, and the version of its parent that it began with."""

    name: str
    parent: str
    version: str
    created_ms: int


class ForkMade(Result, frozen=True, kw_only=True, tag="fork"):
    """A fork that was made: act in it with ``fork=NAME`` in any query."""

    name: str


class ForkList(Result, frozen=True, kw_only=True, tag="forks"):
    """All forks."""

    forks: list[WireFork]


class WireDifference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that is not the same in two branches."""

    kind: str
    path: str
    type: str
    origin: str | None
    hash_before: str | None
    hash: str | None


class Compared(Result, frozen=True, kw_only=True, tag="compare"):
    """How a fork differs, sorted by path."""

    fork: str
    differences: list[WireDifference]
    truncated: bool


class Merged(Result, frozen=True, kw_only=True, tag="merge"):
    """What a merge took over, or the conflicts for which it took over nothing."""

    version: str | None
    changed: list[str]
    conflicts: list[WireConflict]
    preview: bool
    request_id: str


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
    return ForkList(
        forks=[
            WireFork(
                name=each.name, parent=each.parent, version=each.version,
                created_ms=each.created_ns // 1_000_000,
            )
            for each in await scope.forks()
        ]
    )  # fmt: skip


async def delete_fork(request: Request) -> Deleted:
    name = request.names["name"]
    if request.query.get("fork") == name:
        raise ParseError("a fork is not removed from within itself", hint="leave out fork")
    scope = await request.scoped()
    await request.holding.close_forks(request.root or request.app.default_root(), name)
    await scope.delete_fork(name)
    return Deleted(name=name)


async def compare(request: Request) -> Compared:
    name = request.query["name"]
    scope = await request.scoped()
    found = await scope.compare(name)
    return Compared(
        fork=name,
        differences=[
            WireDifference(
                kind=each.kind, path=str(each.path), type=each.type,
                origin=None if each.origin is None else str(each.origin),
                hash_before=hash_of(each.sha256_before), hash=hash_of(each.sha256),
            )
            for each in found.differences
        ],
        truncated=found.truncated,
    )  # fmt: skip


async def merge(request: Request) -> Merged:
    body: MergeBody = request.body
    scope = await request.scoped()
    result = await scope.merge(body.name, preview=body.preview, **locked(body.lock_token))
    return Merged(
        version=result.version, changed=[str(each) for each in result.changed],
        conflicts=conflicts_of(result.conflicts), preview=result.preview,
        request_id=result.request_id,
    )  # fmt: skip


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
        about="How a fork differs from this branch.", result=Compared, needs=_READ,
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
        result=Merged, needs=_WRITE, verb="merge", changes=True, asks=True,
        example='POST /merge {"name": "try-it", "preview": true}',
    ),
)  # fmt: skip
