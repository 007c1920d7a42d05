"""What the server says of itself."""

from __future__ import annotations

import sys
from typing import Any

from bailiwick.errors import Busy, Closed
from bailiwick.fronts.http.messages.requests import Reply, Request
from bailiwick.fronts.http.settings import (
    DESCRIPTORS_SPARE_MIN,
    JSON_BYTES_MAX,
    UPLOAD_BYTES_MAX,
)
from bailiwick.fronts.http.table import Route
from bailiwick.fronts.http.transport import descriptors
from bailiwick.hooks.metrics import CONTENT_TYPE
from bailiwick.wire import Result, values
from bailiwick.wire.arguments import LINES_MAX

FEATURES = (
    "workspace_file_read", "workspace_file_bytes", "workspace_file_write", "workspace_file_edit",
    "workspace_file_raw", "workspace_file_upload", "workspace_tree", "workspace_search",
    "workspace_archives", "workspace_events", "approvals", "audit", "grants", "temporary_roots",
)  # fmt: skip
"""What every root here can do; what a root can do beyond that is in ``powers``."""


class Health(Result, frozen=True, kw_only=True, tag="health"):
    """Whether the server runs."""

    ok: bool


class Ready(Result, frozen=True, kw_only=True, tag="ready"):
    """Whether the server can record what is done and open files, and what its roots are kept in
    answers, so that changes are possible."""

    ok: bool


async def capabilities(request: Request) -> values.Capabilities:
    scope = await request.scoped()
    limits, root = scope.limits, scope.root
    return values.Capabilities(
        version=version(), features=FEATURES,
        limits=values.Limits(
            text_read_bytes=limits.text_read_bytes_max,
            text_write_bytes=limits.text_write_bytes_max, max_file_bytes=limits.max_file_bytes,
            json_body_bytes=JSON_BYTES_MAX, upload_bytes=UPLOAD_BYTES_MAX, lines=LINES_MAX,
            list_page=limits.list_page_max, glob_matches=limits.glob_max,
            grep_matches=limits.grep_matches_max,
        ),
        subject=str(scope.subject), root=str(root), grant_id=scope.grant.id,
        access=sorted(scope.access), powers=sorted(scope.powers),
        trusted=request.authority.root(str(root)).trusted if root.kind != "temp" else True,
        read_only=request.app.settings.read_only,
    )  # fmt: skip


def version() -> str:
    # Loaded already, or this module would not be: what is inside does not import the package.
    return str(sys.modules["bailiwick"].__version__)


async def health(request: Request) -> Health:
    return Health(ok=True)


async def ready(request: Request) -> Ready:
    if request.app.closing.is_set() or not request.authority.ledger.health().ok:
        raise Closed("the server is closing, or cannot record what is done")
    await request.authority.readiness.refuse_silence()
    if descriptors.spare() < DESCRIPTORS_SPARE_MIN:
        raise Busy(
            "this process has hardly any descriptors left to open files with",
            hint="close what is no longer needed, or let it have more (ulimit -n)",
        )
    return Ready(ok=True)


async def metrics(request: Request) -> Reply:
    text = request.app.metrics.render()
    return Reply(headers=[(b"content-type", CONTENT_TYPE.encode())], body=text.encode())


async def openapi(request: Request) -> Reply:
    from bailiwick.fronts.http.openapi import encoded

    return Reply(headers=[(b"content-type", b"application/json")], body=encoded())


_DOCUMENT: dict[str, Any] = {"family": "system", "rooted": False}

ROUTES: tuple[Route, ...] = (
    Route(
        method="GET", path="/capabilities", name="capabilities", family="system",
        handler=capabilities, about="What this server, and the caller on this root, can do.",
        result=values.Capabilities,  example="GET /capabilities",
    ),
    Route(
        method="GET", path="/health", name="health", handler=health,
        about="Whether the server runs.", result=Health, who="anyone", example="GET /health",
        **_DOCUMENT,
    ),
    Route(
        method="GET", path="/ready", name="ready", handler=ready,
        about="Whether the server takes changes.", result=Ready, who="anyone",
        example="GET /ready", **_DOCUMENT,
    ),
    Route(
        method="GET", path="/metrics", name="metrics", handler=metrics,
        about="Counters for Prometheus, from when they were first asked for.", answers="text",
        who="person", example="GET /metrics", **_DOCUMENT,
    ),
    Route(
        method="GET", path="/openapi.json", name="openapi", handler=openapi,
        about="This table, as OpenAPI 3.1.", answers="document", who="anyone",
        example="GET /openapi.json", **_DOCUMENT,
    ),
)  # fmt: skip
