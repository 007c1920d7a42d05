"""Hearing from PostgreSQL that another process has changed a volume.

A notification says which volume, and how far its counter has come, and no more: what was changed is
read from the log. One that is lost costs time only, since whoever follows looks now and then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import asyncpg

from bailiwick.postgres.failures import FAILURES
from bailiwick.stores.volume.rows.postgres_schema import CHANNEL

_AGAIN_S: Final = 0.5
"""How long after a connection was lost another one is tried."""

ToldOf = Callable[[int, int], None]
"""Told of a volume and how far its counter has come."""


def payload(volume: int, last: int, session: str) -> str:
    """What others are told by a process that calls itself ``session``."""
    return f"{volume:d}:{last:d}:{session}"


class Notifications:
    """What one event loop hears, on a connection of its own while anybody listens."""

    def __init__(self, options: dict[str, Any], session: str, told_of: ToldOf) -> None:
        self._options = options
        self._session = session
        self._told_of = told_of
        self._listeners: dict[object, tuple[int, Callable[[], None]]] = {}
        self._task: asyncio.Task[None] | None = None

    def listen(self, volume: int, told: Callable[[], None]) -> Callable[[], None]:
        """Have ``told`` called when another process has changed a volume, or may have; the answer
        ends it, and may be called twice."""
        key = object()
        self._listeners[key] = volume, told
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(
                self._run(), name="bailiwick-notifications"
            )

        def end() -> None:
            self._listeners.pop(key, None)

        return end

    async def _run(self) -> None:
        while True:
            with suppress(*FAILURES):
                await self._hear()
            await asyncio.sleep(_AGAIN_S)

    async def _hear(self) -> None:
        """Until the connection is lost."""
        connection = await asyncpg.connect(**self._options)
        try:
            lost = asyncio.Event()
            connection.add_termination_listener(lambda _: lost.set())
            await connection.add_listener(CHANNEL, self._notified)
            for _, told in list(self._listeners.values()):
                told()  # what was told before this was not heard
            await lost.wait()
        finally:
            connection.terminate()

    def _notified(self, connection: Any, pid: int, channel: str, payload: str) -> None:
        volume, _, rest = payload.partition(":")
        last, _, session = rest.partition(":")
        if session == self._session or not (volume.isdigit() and last.isdigit()):
            return
        self._told_of(int(volume), int(last))
        for heard, told in list(self._listeners.values()):
            if heard == int(volume):
                told()

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
