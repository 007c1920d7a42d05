"""What was: histories, restoring, undoing, snapshots."""

from __future__ import annotations

from typing import Annotated

import msgspec

from bailiwick.fronts.http.requests import Reply, Request
from bailiwick.fronts.http.table import APPROVAL, CURSOR, Parameter, Route, access, limit
from bailiwick.fronts.http.verbs import doing
from bailiwick.fronts.http.wire import Body, Change, ConditionalChange, PathField
from bailiwick.wire import Document, Result, values

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class SnapshotMade(Result, frozen=True, kw_only=True, tag="snapshot"):
    """A snapshot that was made."""

    snapshot: values.SNAPSHOT.struct  # type: ignore[name-defined]


class SnapshotList(Result, frozen=True, kw_only=True, tag="snapshots"):
    """All snapshots."""

    snapshots: list[values.SNAPSHOT.struct]  # type: ignore[name-defined]


class Deleted(Result, frozen=True, kw_only=True, tag="deleted"):
    """Something with a name that is gone."""

    name: str


class RestoreBody(ConditionalChange, frozen=True, kw_only=True):
    path: PathField
    version: Name


class UndoBody(Change, frozen=True, kw_only=True):
    request_id: str | None = None
    subject: str | None = None
    version: str | None = None
    through: str | None = None
    preview: bool = False


class SnapshotBody(Body, frozen=True, kw_only=True):
    name: Name
    approval: str | None = None


async def history(request: Request) -> Document:
    query = request.query
    path = query.get("path", ".")
    scope = await request.scoped(path)
    found = await scope.history(path, limit=query.get("limit", 100), cursor=query.get("cursor"))
    return values.HISTORY.write(found)


restore = doing("restore", values.RESTORE)
undo = doing("undo", values.UNDO, where="everywhere")


async def make_snapshot(request: Request) -> Reply:
    scope = await request.scoped()
    return Reply(
        SnapshotMade(snapshot=values.SNAPSHOT.write(await scope.snapshot(request.body.name))), 201
    )


async def list_snapshots(request: Request) -> SnapshotList:
    scope = await request.scoped()
    return SnapshotList(snapshots=values.SNAPSHOT.write_all(await scope.snapshots()))


async def delete_snapshot(request: Request) -> Deleted:
    scope = await request.scoped()
    await scope.delete_snapshot(request.names["name"])
    return Deleted(name=request.names["name"])


_READ = access("read")
_WRITE = access("write")

ROUTES: tuple[Route, ...] = (
    Route(
        method="GET", path="/history", name="history", family="versions", handler=history,
        about="The versions of a file, of a directory, or of everything.",
        result=values.HISTORY.struct,
        parameters=(
            Parameter(name="path", about="Of what; the whole root unless told."),
            limit(1_000), CURSOR, APPROVAL,
        ),
        needs=_READ, verb="history", asks=True, example="GET /history?path=a.txt",
    ),
    Route(
        method="POST", path="/restore", name="restore", family="versions", handler=restore,
        about="Make a file or directory what it was.", body=RestoreBody,
        result=values.RESTORE.struct, needs=access("read", "write"), verb="restore", changes=True,
        asks=True, example='POST /restore {"path": "a.txt", "version": "12"}',
    ),
    Route(
        method="POST", path="/undo", name="undo", family="versions", handler=undo,
        about="Take back what a request, or everything from one version to another, changed.",
        body=UndoBody, result=values.UNDO.struct, needs=_WRITE, verb="undo", changes=True,
        asks=True, example='POST /undo {"requestId": "4f1c", "preview": true}',
    ),
    Route(
        method="POST", path="/snapshot", name="snapshot", family="versions",
        handler=make_snapshot, about="Keep the version of now under a name.", body=SnapshotBody,
        result=SnapshotMade, statuses=(201,), needs=_WRITE, verb="snapshot", changes=True,
        asks=True, example='POST /snapshot {"name": "before-the-migration"}',
    ),
    Route(
        method="GET", path="/snapshots", name="snapshots", family="versions",
        handler=list_snapshots, about="All snapshots.", result=SnapshotList, needs=_READ,
        verb="snapshots", example="GET /snapshots",
    ),
    Route(
        method="DELETE", path="/snapshots/{name}", name="deleteSnapshot", family="versions",
        handler=delete_snapshot, about="Let go of a snapshot.", result=Deleted, needs=_WRITE,
        verb="delete_snapshot", changes=True, parameters=(APPROVAL,), asks=True,
        example="DELETE /snapshots/before-the-migration",
    ),
)  # fmt: skip
