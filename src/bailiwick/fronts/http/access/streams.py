"""How many answers that go on for a while a caller may have, and all agents together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bailiwick.errors import RateLimited
from bailiwick.fronts.http.settings import EVENT_STREAMS_MAX, EVENT_STREAMS_PER_CALLER_MAX

if TYPE_CHECKING:
    from bailiwick.fronts.http.messages.requests import Request


def refuse_more_streams(request: Request) -> None:
    """Raises `RateLimited`."""
    app = request.app
    most = max(1, EVENT_STREAMS_PER_CALLER_MAX // app.parts)
    if request.caller.budget.streams >= most:
        raise RateLimited(
            "this subject follows as many streams as it may", hint="end one of them",
            details={"limit": most},
        )  # fmt: skip
    if (
        app.streams >= min(EVENT_STREAMS_MAX, app.room.for_all * 3 // 4)
        and not request.caller.is_person
    ):
        raise RateLimited("the server has as many streams as it may", hint="try again later")


@contextmanager
def counted_stream(request: Request) -> Iterator[None]:
    """Count a stream for as long as it is told."""
    refuse_more_streams(request)
    budget, app = request.caller.budget, request.app
    budget.streams += 1
    app.streams += 1
    try:
        yield
    finally:
        budget.streams -= 1
        app.streams -= 1
