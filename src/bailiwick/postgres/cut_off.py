"""Servers that were cut off from the database in the middle of a statement, and hold up others.

PostgreSQL itself ends whoever says nothing for too long within a transaction. Not so whoever was
cut off after a statement was sent to be learnt, and before it was used: that session counts as
busy while it waits to read on, for which PostgreSQL 16 has no limit of time, and what it had locked
stays locked for as long as its connection seems to be there. So whoever waits for a lock longer
than anybody may be silent has such sessions ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import asyncpg

from bailiwick.postgres.failures import FAILURES
from bailiwick.postgres.place import APPLICATION, ServerPlace

_AGAIN_S: Final = 0.25
"""Who was not silent for long enough when it was looked first may be so a little later."""

_END: Final = f"""
SELECT pg_terminate_backend(silent.pid) FROM pg_stat_activity AS silent
WHERE silent.application_name = '{APPLICATION}' AND silent.usename = current_user
AND silent.state = 'active' AND silent.wait_event = 'ClientRead'
AND silent.state_change < clock_timestamp() - make_interval(secs => $1)
AND EXISTS (
    SELECT 1 FROM pg_locks AS waiting
    WHERE NOT waiting.granted AND silent.pid = ANY (pg_blocking_pids(waiting.pid))
)
"""


@contextmanager
def ending_cut_off(place: ServerPlace) -> Iterator[None]:
    """What is done meanwhile may have to wait for others: those of them are ended who were cut off.
    On an event loop."""
    loop = asyncio.get_running_loop()
    looking = list[asyncio.Task[None]]()

    def look() -> None:
        looking.append(loop.create_task(_end_cut_off(place), name="bailiwick-cut-off"))

    timer = loop.call_later(place.silence_s, look)
    try:
        yield
    finally:
        timer.cancel()
        for task in looking:
            task.cancel()


async def _end_cut_off(place: ServerPlace) -> None:
    with suppress(*FAILURES):
        connection = await asyncpg.connect(**place.options)
        try:
            while True:
                await connection.fetch(_END, place.silence_s)
                await asyncio.sleep(_AGAIN_S)
        finally:
            connection.terminate()
