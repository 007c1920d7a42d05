"""Archives and temporary roots."""

from __future__ import annotations

from typing import Annotated

import msgspec

from bailiwick.errors import PathNotFound
from bailiwick.fronts.http.requests import Reply, Request
from bailiwick.fronts.http.table import Route, access
from bailiwick.fronts.http.verbs import doing
from bailiwick.fronts.http.wire import (
    Body,
    Change,
    Destination,
    DestinationAlias,
    FileMode,
    PathField,
)
from bailiwick.model import WriteMode
from bailiwick.wire import Result, values


class TempRoot(Result, frozen=True, kw_only=True, tag="temp"):
    """A private root, to be used as ``/roots/temp/{id}/…`` by whoever made it."""

    root: str
    id: str
    expires_at_ms: int | None


class TempClosed(Result, frozen=True, kw_only=True, tag="temp_closed"):
    """A private root that is gone."""

    id: str


class ExtractBody(Change, frozen=True, kw_only=True):
    path: PathField
    destination: Destination = None
    to: DestinationAlias = None
    overwrite: bool = False


class CreateBody(Change, frozen=True, kw_only=True):
    paths: Annotated[list[PathField], msgspec.Meta(min_length=1, max_length=10_000)]
    destination: Destination = None
    to: DestinationAlias = None
    format: str | None = None
    include_ignored: bool = True
    mode: WriteMode = "create"
    file_mode: FileMode | None = None


class TempBody(Body, frozen=True, kw_only=True):
    seconds: Annotated[float, msgspec.Meta(gt=0, le=365 * 24 * 3600)] | None = None


extract = doing("extract_archive", values.EXTRACTED)
create = doing(
    "create_archive", values.ARCHIVED, where="destination", made=lambda result: result.created
)


async def make_temp(request: Request) -> Reply:
    body: TempBody = request.body
    scope = await request.scoped()
    temp = await request.holding.make_temp(scope, body.seconds, request.app.settings.workers)
    ends = temp.grant.expires_at
    document = TempRoot(
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
    Route(
        method="POST", path="/archive/extract", name="extractArchive", family="archives",
        handler=extract, about="Unpack a tar or zip archive into a directory.", body=ExtractBody,
        result=values.EXTRACTED.struct, needs=access("archive", "write"), verb="extract_archive",
        changes=True, asks=True, raises=(422,),
        example='POST /archive/extract {"path": "a.tar.gz", "destination": "unpacked"}',
    ),
    Route(
        method="POST", path="/archive/create", name="createArchive", family="archives",
        handler=create, about="Pack files and directories into an archive.", body=CreateBody,
        result=values.ARCHIVED.struct, statuses=(200, 201), needs=access("archive", "read"),
        verb="create_archive", changes=True, asks=True, raises=(422,),
        example='POST /archive/create {"paths": ["src"], "destination": "src.tar.gz"}',
    ),
    Route(
        method="POST", path="/temp", name="makeTemp", family="archives", handler=make_temp,
        about="A private root of its own, gone when it is closed or its time is up.",
        body=TempBody, result=TempRoot, statuses=(201,), needs=access("write"),
        verb="create_temp", changes=True, who="caller", example='POST /temp {"seconds": 600}',
    ),
    Route(
        method="DELETE", path="/temp/{id}", name="closeTemp", family="archives",
        handler=close_temp, about="Remove a private root and all that is in it.",
        result=TempClosed, changes=True, rooted=False, who="caller",
        example="DELETE /temp/4f1c",
    ),
)  # fmt: skip
