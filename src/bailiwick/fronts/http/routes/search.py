"""Finding files by name, lines by pattern, and what differs."""

from __future__ import annotations

from bailiwick.fronts.http.table import Route
from bailiwick.fronts.http.verbs import route
from bailiwick.wire import verbs

ROUTES: tuple[Route, ...] = (
    route(verbs.GLOB),
    route(verbs.FIND),
    route(verbs.FILES),
    route(verbs.GREP),
    route(verbs.DIFF),
)
