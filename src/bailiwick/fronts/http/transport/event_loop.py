"""The event loop of a server: on it a request takes its first step where it came in."""

from __future__ import annotations

import asyncio

from bailiwick.first_step import BeginsAtOnce, SelectorLoop


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where there is one: it is what the server is measured with."""
    try:
        import uvloop
    except ImportError:
        return SelectorLoop()

    class UvLoop(BeginsAtOnce, uvloop.Loop):  # type: ignore[misc]  # its stubs and asyncio's differ
        pass

    return UvLoop()
