"""Looking at the tree, and making, moving, copying and removing what is in it."""

from __future__ import annotations

from typing import Annotated

import msgspec

from bailiwick.errors import ParseError
from bailiwick.fronts.http.requests import Request
from bailiwick.fronts.http.table import (
    APPROVAL,
    AS_OF,
    CURSOR,
    INCLUDE_IGNORED,
    PATH,
    Parameter,
    Route,
    access,
    limit,
)
from bailiwick.fronts.http.verbs import doing, looking
from bailiwick.fronts.http.wire import (
    Change,
    ConditionalChange,
    Destination,
    DestinationAlias,
    FileMode,
    Natural,
    PathField,
    as_of,
    at_destination,
    locked,
    place_of,
)
from bailiwick.wire import Document, Result, values


class LinkResult(Result, frozen=True, kw_only=True, tag="link"):
    """The text of a link."""

    path: str
    target: str


class DirBody(Change, frozen=True, kw_only=True):
    path: PathField
    parents: bool = False
    file_mode: FileMode | None = None


class RemoveBody(ConditionalChange, frozen=True, kw_only=True):
    path: PathField
    recursive: bool = False
    missing_ok: bool = False


class MoveBody(ConditionalChange, frozen=True, kw_only=True):
    path: PathField
    destination: Destination = None
    to: DestinationAlias = None
    replace: bool = False
    expected_destination_hash: str | None = None
    expected_destination_version: str | None = None


class CopyBody(Change, frozen=True, kw_only=True):
    path: PathField
    destination: Destination = None
    to: DestinationAlias = None
    recursive: bool = False
    from_root: Annotated[
        str | None, msgspec.Meta(description="Another root to copy from: kind:id.")
    ] = None
    parents: bool = False
    expected_destination_hash: str | None = None
    expected_destination_version: str | None = None


class SymlinkBody(Change, frozen=True, kw_only=True):
    path: PathField
    target: str


class ModeBody(ConditionalChange, frozen=True, kw_only=True):
    path: PathField
    file_mode: FileMode


class TimesBody(ConditionalChange, frozen=True, kw_only=True):
    path: PathField
    modified_ns: Natural
    accessed_ns: Natural | None = None


list_directory = looking("list", values.LIST)


async def stat(request: Request) -> Document:
    query = request.query
    path, more = query["path"], as_of(query.get("as_of"))
    scope = await request.scoped(path)
    if query.get("follow", True):
        return values.STAT.write(await scope.stat(path, **more))
    return values.STAT.write(await scope.lstat(path, **more))


async def readlink(request: Request) -> LinkResult:
    path = request.query["path"]
    scope = await request.scoped(path)
    target = await scope.readlink(path, **as_of(request.query.get("as_of")))
    return LinkResult(path=path, target=target)


make_dir = doing("make_dir", values.CHANGE, made=lambda result: result.changed)
remove = doing("remove", values.CHANGE)
move = doing("move", values.CHANGE)


async def copy(request: Request) -> Document:
    body: CopyBody = request.body
    scope = await request.scoped(place_of(body))
    replaced = at_destination(body.expected_destination_version, body.expected_destination_hash)
    if body.from_root is None:
        return values.CHANGE.write(
            await scope.copy(
                body.path, place_of(body), recursive=body.recursive, **replaced,
                **locked(body.lock_token),
            )
        )  # fmt: skip
    if replaced:
        raise ParseError("a copy from another root goes to a new name, and replaces nothing")
    other = await request.holding.scope(body.from_root, access("read"), body.path)
    return values.CHANGE.write(
        await scope.copy_from(
            other, body.path, place_of(body), recursive=body.recursive, parents=body.parents,
            **locked(body.lock_token),
        )
    )  # fmt: skip


symlink = doing("symlink", values.CHANGE, made=lambda result: True)
set_mode = doing("set_mode", values.CHANGE)
set_times = doing("set_times", values.CHANGE)

_LIST = access("list")
_METADATA = access("metadata")
_WRITE = access("write")

ROUTES: tuple[Route, ...] = (
    Route(
        method="GET", path="/list", name="list", family="tree", handler=list_directory,
        about="One page of a directory, sorted by name.", result=values.LIST.struct,
        parameters=(
            Parameter(name="path", about="The directory; the root unless told."),
            limit(2_000), CURSOR, INCLUDE_IGNORED, AS_OF, APPROVAL,
        ),
        needs=_LIST, verb="list", asks=True, example="GET /list?path=src&limit=100",
    ),
    Route(
        method="GET", path="/stat", name="stat", family="tree", handler=stat,
        about="What is known of a file, directory or link.", result=values.STAT.struct,
        parameters=(
            PATH,
            Parameter(
                name="follow", about="Whether a link is followed (true unless told).",
                type="boolean",
            ),
            AS_OF, APPROVAL,
        ),
        needs=_METADATA, verb="stat", asks=True, example="GET /stat?path=README.md",
    ),
    Route(
        method="GET", path="/readlink", name="readLink", family="tree", handler=readlink,
        about="The text of a link.", result=LinkResult, parameters=(PATH, AS_OF, APPROVAL),
        needs=_METADATA, verb="readlink", asks=True, example="GET /readlink?path=latest",
    ),
    Route(
        method="POST", path="/dir", name="makeDirectory", family="tree", handler=make_dir,
        about="Make a directory; with parents also those above it.", body=DirBody,
        result=values.CHANGE.struct, statuses=(200, 201), needs=_WRITE, verb="make_dir",
        changes=True, asks=True, example='POST /dir {"path": "notes/2026", "parents": true}',
    ),
    Route(
        method="POST", path="/move", name="move", family="tree", handler=move,
        about="Give a file, link or directory another name, atomically.", body=MoveBody,
        result=values.CHANGE.struct, needs=access("move", "write"), verb="move", changes=True,
        asks=True, example='POST /move {"path": "a.txt", "destination": "b.txt"}',
    ),
    Route(
        method="POST", path="/copy", name="copy", family="tree", handler=copy,
        about="Copy a file or directory to a new name, also from another root.", body=CopyBody,
        result=values.CHANGE.struct, needs=access("read", "write"), verb="copy", changes=True,
        asks=True, raises=(422,), example='POST /copy {"path": "a.txt", "destination": "b.txt"}',
    ),
    Route(
        method="POST", path="/remove", name="remove", family="tree", handler=remove,
        about="Remove a file, a link, or a directory (a full one only with recursive).",
        body=RemoveBody, result=values.CHANGE.struct, needs=access("delete"), verb="remove",
        changes=True, asks=True, example='POST /remove {"path": "a.txt"}',
    ),
    Route(
        method="POST", path="/symlink", name="symlink", family="tree", handler=symlink,
        about="Make a link.", body=SymlinkBody, result=values.CHANGE.struct, statuses=(201,),
        needs=_WRITE, verb="symlink", changes=True, asks=True,
        example='POST /symlink {"path": "latest", "target": "v2.txt"}',
    ),
    Route(
        method="POST", path="/mode", name="setMode", family="tree", handler=set_mode,
        about="Set permission bits.", body=ModeBody, result=values.CHANGE.struct, needs=_WRITE,
        verb="set_mode", changes=True, asks=True,
        example='POST /mode {"path": "run.sh", "fileMode": "0700"}',
    ),
    Route(
        method="POST", path="/times", name="setTimes", family="tree", handler=set_times,
        about="Set the times of a file or directory.", body=TimesBody, result=values.CHANGE.struct,
        needs=_WRITE, verb="set_times", changes=True, asks=True,
        example='POST /times {"path": "a.txt", "modifiedNs": 1700000000000000000}',
    ),
)  # fmt: skip
