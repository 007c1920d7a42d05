"""What was: histories, restoring, undoing, snapshots."""

from __future__ import annotations

from typing import Annotated

import msgspec

from bailiwick.fronts.http.requests import Reply, Request, hash_of
from bailiwick.fronts.http.table import APPROVAL, CURSOR, Parameter, Route, access, limit
from bailiwick.fronts.http.wire import (
    Body,
    Change,
    ConditionalChange,
    PathField,
    Result,
    locked,
)
from bailiwick.versions import Conflict, Snapshot, Version

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class WireVersion(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One version of what stands, or stood, at a place. ``kind`` is what happened."""

    version: str
    kind: str
    path: str
    type: str
    size_bytes: int
    hash: str | None
    time_ms: int | None
    verb: str | None
    subject: str
    request_id: str


class WireConflict(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A place that was left as it is, and why."""

    path: str
    reason: str


class HistoryResult(Result, frozen=True, kw_only=True, tag="history"):
    """Versions, newest first."""

    path: str
    versions: list[WireVersion]
    next_cursor: str | None
    truncated: bool


class Restored(Result, frozen=True, kw_only=True, tag="restore"):
    """What a restore changed."""

    path: str
    version: str | None
    changed: int
    request_id: str


class Undone(Result, frozen=True, kw_only=True, tag="undo"):
    """What an undo put back, and what it left."""

    version: str | None
    undone: list[str]
    conflicts: list[WireConflict]
    preview: bool
    request_id: str


class WireSnapshot(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A version with a name."""

    name: str
    branch: str
    version: str
    created_ms: int


class SnapshotMade(Result, frozen=True, kw_only=True, tag="snapshot"):
    """A snapshot that was made."""

    snapshot: WireSnapshot


class SnapshotList(Result, frozen=True, kw_only=True, tag="snapshots"):
    """All snapshots."""

    snapshots: list[WireSnapshot]


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


async def history(request: Request) -> HistoryResult:
    query = request.query
    path = query.get("path", ".")
    scope = await request.scoped(path)
    found = await scope.history(path, limit=query.get("limit", 100), cursor=query.get("cursor"))
    return HistoryResult(
        path=str(found.path), versions=[_version(each) for each in found.versions],
        next_cursor=found.next_cursor, truncated=found.truncated,
    )  # fmt: skip


def _version(version: Version) -> WireVersion:
    return WireVersion(
        version=version.version, kind=version.kind, path=str(version.path), type=version.type,
        size_bytes=version.size, hash=hash_of(version.sha256),
        time_ms=None if version.time_ns is None else version.time_ns // 1_000_000,
        verb=version.verb, subject=version.subject, request_id=version.request_id,
    )  # fmt: skip


def conflicts_of(conflicts: list[Conflict]) -> list[WireConflict]:
    return [WireConflict(path=str(each.path), reason=each.reason) for each in conflicts]


async def restore(request: Request) -> Restored:
    body: RestoreBody = request.body
    scope = await request.scoped(body.path)
    result = await scope.restore(
        body.path, body.version, **body.condition, **locked(body.lock_token)
    )
    return Restored(
        path=str(result.path), version=result.version, changed=result.changed,
        request_id=result.request_id,
    )  # fmt: skip


async def undo(request: Request) -> Undone:
    body: UndoBody = request.body
    scope = await request.scoped()
    result = await scope.undo(
        body.request_id, subject=body.subject, version=body.version, through=body.through,
        preview=body.preview, **locked(body.lock_token),
    )  # fmt: skip
    return Undone(
        version=result.version, undone=[str(each) for each in result.undone],
        conflicts=conflicts_of(result.conflicts), preview=result.preview,
        request_id=result.request_id,
    )  # fmt: skip


def _snapshot(snapshot: Snapshot) -> WireSnapshot:
    return WireSnapshot(
        name=snapshot.name, branch=snapshot.branch, version=snapshot.version,
        created_ms=snapshot.created_ns // 1_000_000,
    )  # fmt: skip


async def make_snapshot(request: Request) -> Reply:
    scope = await request.scoped()
    return Reply(SnapshotMade(snapshot=_snapshot(await scope.snapshot(request.body.name))), 201)


async def list_snapshots(request: Request) -> SnapshotList:
    scope = await request.scoped()
    return SnapshotList(snapshots=[_snapshot(each) for each in await scope.snapshots()])


async def delete_snapshot(request: Request) -> Deleted:
    scope = await request.scoped()
    await scope.delete_snapshot(request.names["name"])
    return Deleted(name=request.names["name"])


_READ = access("read")
_WRITE = access("write")

ROUTES: tuple[Route, ...] = (
    Route(
        method="GET", path="/history", name="history", family="versions", handler=history,
        about="The versions of a file, of a directory, or of everything.", result=HistoryResult,
        parameters=(
            Parameter(name="path", about="Of what; the whole root unless told."),
            limit(1_000), CURSOR, APPROVAL,
        ),
        needs=_READ, verb="history", asks=True, example="GET /history?path=a.txt",
    ),
    Route(
        method="POST", path="/restore", name="restore", family="versions", handler=restore,
        about="Make a file or directory what it was.", body=RestoreBody, result=Restored,
        needs=access("read", "write"), verb="restore", changes=True, asks=True,
        example='POST /restore {"path": "a.txt", "version": "12"}',
    ),
    Route(
        method="POST", path="/undo", name="undo", family="versions", handler=undo,
        about="Take back what a request, or everything from one version to another, changed.",
        body=UndoBody, result=Undone, needs=_WRITE, verb="undo", changes=True, asks=True,
        example='POST /undo {"requestId": "4f1c", "preview": true}',
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
