"""A uvicorn server that looks after its connections, and closes in order."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn

from bailiwick.ending_signals import ending_signals
from bailiwick.fronts.http.settings import KEEP_ALIVE_SECONDS, SHUTDOWN_SECONDS_MAX
from bailiwick.fronts.http.transport.descriptors import DescriptorRoom, limit, room_for
from bailiwick.fronts.http.transport.protocol import BoundedProtocol

if TYPE_CHECKING:
    from bailiwick.fronts.http.application import Application

_log = logging.getLogger("bailiwick.http")

_LOOK_SECONDS = 1.0

_DOORS = 16
"""How many new connections are taken in one turn of the event loop. uvloop takes one for each
listening socket, and on a busy server a turn may last a tenth of a second: behind a single socket
newcomers would wait for seconds, and those who give up and come back would wait for ever."""

_HURRY_SECONDS = 0.1
_LATE_SECONDS_MAX = 0.5
"""How long what was cancelled may take to let go."""


def configure(
    app: Application,
    certfile: str | None = None,
    keyfile: str | None = None,
    *,
    room: DescriptorRoom | None = None,
) -> uvicorn.Config:
    """The settings of uvicorn under which the bounds of this front hold. There are as many
    connections as ``room`` says, or as the descriptors of this process allow."""
    app.room = allowed = room_for(limit()) if room is None else room

    class Protocol(BoundedProtocol):
        room = allowed

    # Quiet unless the program that serves says where its log goes.
    logging.getLogger("uvicorn").addHandler(logging.NullHandler())
    return uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS_MAX,
        ssl_certfile=certfile,
        ssl_keyfile=keyfile,
    )


class Server(uvicorn.Server):
    """Serves one application until it is told to stop.

    On SIGTERM or SIGINT it takes no more connections, ends streams and whatever waits for a person
    or for a client that has stopped sending or reading, and finishes the work it has begun, for a
    few seconds at most.
    """

    def __init__(self, config: uvicorn.Config, app: Application, *, is_last: bool = False) -> None:
        """A server that ``is_last`` is the last that its process does: once it has ended, so does
        the process, and signals that say so are ignored."""
        super().__init__(config)
        self._served = app
        self._is_last = is_last
        self._was_told = False
        self._looking: asyncio.Task[None] | None = None
        self._started: list[Callable[[], None]] = []
        self._doors: list[socket.socket] = []

    def on_start(self, act: Callable[[], None]) -> None:
        """Have something done once connections are taken."""
        self._started.append(act)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._doors = [each.dup() for each in sockets or () for _ in range(_DOORS - 1)]
        await super().startup(None if sockets is None else [*sockets, *self._doors])
        self._looking = asyncio.create_task(self._look_after())
        for act in self._started:
            act()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Streams end by this, and calls that wait for a person: nothing else would end them.
        closing = asyncio.create_task(self._served.aclose())
        hurrying = asyncio.create_task(self._hurry())
        await super().shutdown([*(sockets or ()), *self._doors])
        # uvicorn has cancelled whoever was late, and does not wait for them.
        await asyncio.wait((closing, *self.server_state.tasks), timeout=_LATE_SECONDS_MAX)
        for task in (closing, hurrying, self._looking):
            if task is not None:
                task.cancel()
                await asyncio.wait((task,))

    async def _look_after(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self._at_each(BoundedProtocol.look_at)

    async def _hurry(self) -> None:
        since = asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(_HURRY_SECONDS)
            self._at_each(partial(BoundedProtocol.hurry, stopping_since=since))

    def _at_each(self, look: Callable[[BoundedProtocol, float], None]) -> None:
        now = asyncio.get_running_loop().time()
        for connection in list(self.server_state.connections):
            try:
                look(connection, now)  # type: ignore[arg-type]
            except Exception as error:
                _log.warning("a connection could not be looked at", exc_info=error)

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Stop when told to. Unlike uvicorn's own, it does not die of the signal afterwards: a
        process that ends with its server is left to close what it has open."""
        before: dict[signal.Signals, Any] = {}
        for number in ending_signals():
            with suppress(ValueError):  # not in a process's main thread
                before[number] = signal.signal(number, lambda *_: self.stop())
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_IGN if self._is_last else handler)

    def stop(self) -> None:
        """Begin to stop; told twice, stop at once."""
        self.force_exit, self._was_told = self._was_told, True
        self.finish()

    def finish(self) -> None:
        """Begin to stop, and take the time for it however often this is said."""
        self.should_exit = True
