"""What was: histories, restoring, undoing, snapshots."""

from __future__ import annotations

from bailiwick.fronts.http.messages.requests import Reply, Request
from bailiwick.fronts.http.table import Route
from bailiwick.fronts.http.verbs import route
from bailiwick.wire import values, verbs


async def make_snapshot(request: Request) -> Reply:
    scope = await request.scoped()
    made = values.SNAPSHOT.write(await scope.snapshot(request.body.name))
    return Reply(values.SnapshotMade(snapshot=made), 201)


async def list_snapshots(request: Request) -> values.SnapshotList:
    scope = await request.scoped()
    return values.SnapshotList(snapshots=values.SNAPSHOT.write_all(await scope.snapshots()))


async def delete_snapshot(request: Request) -> values.Deleted:
    scope = await request.scoped()
    await scope.delete_snapshot(request.names["name"])
    return values.Deleted(name=request.names["name"])


ROUTES: tuple[Route, ...] = (
    route(verbs.HISTORY),
    route(verbs.RESTORE),
    route(verbs.UNDO),
    route(verbs.SNAPSHOT, make_snapshot),
    route(verbs.SNAPSHOTS, list_snapshots),
    route(verbs.DELETE_SNAPSHOT, delete_snapshot),
)
