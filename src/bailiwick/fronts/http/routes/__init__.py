"""The table of all routes, family by family."""

from __future__ import annotations

from bailiwick.fronts.http.routes import (
    approvals,
    archives,
    audit,
    batch,
    commands,
    events,
    files,
    forks,
    grants,
    locks,
    raw,
    review,
    runs,
    search,
    sessions,
    system,
    tokens,
    tree,
    versions,
    work,
)
from bailiwick.fronts.http.table import Route

ROUTES: tuple[Route, ...] = (
    *files.ROUTES,
    *raw.ROUTES,
    *tree.ROUTES,
    *search.ROUTES,
    *archives.ROUTES,
    *versions.ROUTES,
    *forks.ROUTES,
    *locks.ROUTES,
    *batch.ROUTES,
    *commands.ROUTES,
    *sessions.ROUTES,
    *work.ROUTES,
    *runs.ROUTES,
    *review.ROUTES,
    *events.ROUTES,
    *audit.ROUTES,
    *approvals.ROUTES,
    *grants.ROUTES,
    *tokens.ROUTES,
    *system.ROUTES,
)
