"""How servers that share a state in PostgreSQL know of each other, and of each other's changes.

Each server says a few times a second that it is there, and hears by the same statement how often
the control plane (grants, trust, rules, tokens, answers) was changed. What it has read of that is
good for a second from then on, and no longer: whoever is cut off from the database trusts nothing
it has read before. A notification makes it ask at once.

Whoever changes the control plane waits until all others have said that they know, or until what
they have read is no good any more. So a revocation that has returned holds everywhere, also where
notifications are lost and for servers that hear nothing at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import contextmanager, suppress
from typing import Any, Final

import asyncpg

from bailiwick.errors import BailiwickError, Busy, Unsupported
from bailiwick.postgres.clock import NOW_US, SharedClock
from bailiwick.postgres.failures import FAILURES, SOON
from bailiwick.postgres.place import ServerPlace
from bailiwick.state.epoch import Epoch
from bailiwick.state.postgres.connection import CHANNEL
from bailiwick.state.postgres.database_loop import DatabaseLoop
from bailiwick.state.postgres.schema import ALIVE_S

_log = logging.getLogger("bailiwick.state")

FRESH_S: Final = 1.0
"""How long what was read of the control plane is good, from when it was last asked about."""

_BEAT_S: Final = 0.25
"""How often that is asked: one may be late, or two, and nothing is read anew."""

_HEARD_S: Final = 2.5
"""A server that was heard of within this time may have something that is still good."""

_SILENT_S: Final = 2.5
"""A database that has not answered for so long is not asked by whoever cannot wait."""

_SHORT_US: Final = int(FRESH_S * 1_000_000)
"""Between two beats so much may pass, and the database was not away."""

_SILENCES_MAX: Final = 256
"""How many silences of the database are kept in mind. Who was heard of before all of them has had
its time in between."""

_AGAIN_S: Final = 0.3
_POLLS_S: Final = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032)

_BEAT: Final = f"""
INSERT INTO state_servers VALUES ($1, clock_timestamp(), $2)
ON CONFLICT (owner) DO UPDATE SET seen = excluded.seen, known = excluded.known
RETURNING (SELECT number FROM state_control), (SELECT sum(version) FROM parts), {NOW_US}
"""
_SERVERS: Final = (
    f"SELECT count(*) FROM state_servers WHERE seen > clock_timestamp() - interval '{ALIVE_S} s'"
)
_BEHIND: Final = (
    "SELECT count(*) FROM state_servers WHERE owner <> $1 AND known < $2"
    f" AND seen > clock_timestamp() - interval '{_HEARD_S} s'"
)
_SEEN: Final = f"""
SELECT {NOW_US}, CAST(extract(epoch FROM seen) * 1000000 AS BIGINT)
FROM state_servers WHERE owner = $1
"""
_STALE: Final = bytes([1] * 8)


class SharedEpoch(Epoch):
    """The epoch as this server knows it: steady for as long as it has been heard lately that
    nothing has changed."""

    def __init__(self) -> None:
        super().__init__(None)
        self.fresh_until = 0.0
        self._steady = self.current
        self.current = self._now
        self._turn = threading.Lock()
        self._changes = 0

    def _now(self) -> bytes:
        return self._steady() if time.monotonic() < self.fresh_until else _STALE

    def changed(self) -> None:
        """Another server has changed something."""
        with self._turn:
            self._put(self._number() + 2)

    @contextmanager
    def changing(self) -> Any:
        with self._turn:
            self._changes += 1
            self._put(self._number() | 1)
        try:
            yield
        finally:
            with self._turn:
                self._changes -= 1
                self._put((self._number() | 1) + (2 if self._changes else 1))


class Pulse:
    """One server's. Everything but its properties runs on the loop of the database."""

    def __init__(self, loop: DatabaseLoop, place: ServerPlace, owner: str) -> None:
        self.epoch = SharedEpoch()
        self.clock = SharedClock()
        self.servers = 1
        """How many processes serve on this state, as far as is known."""
        self._loop = loop
        self._place = place
        self._owner = owner
        self._connection: Any = None
        self._is_outdated = False
        self._known = -1
        self._tables: int | None = None
        self._answered = self._heard = 0.0
        self._since = 0.0
        self._beaten_us = 0
        self._silences: deque[tuple[int, int]] = deque(maxlen=_SILENCES_MAX)
        self._early = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_heard(self) -> bool:
        """Whether the database has answered lately, whoever asked: on a machine with much to do one
        beat may be late while others are answered."""
        return not self._is_outdated and time.monotonic() - self._heard < _SILENT_S

    @property
    def is_steady(self) -> bool:
        """Whether it has answered for a while, so that what failed before may succeed again."""
        return self.is_heard and time.monotonic() - self._since > FRESH_S

    def refuse_silent(self) -> None:
        """Raise `Busy` where the database has not answered lately: nobody waits for it then. Raises
        `Unsupported` where it is none for this server any more."""
        if self._is_outdated:
            raise _outdated()
        if not self.is_heard:
            raise Busy(
                "the database of the state does not answer", hint="try again in a moment",
                details=dict(SOON),
            )  # fmt: skip

    def heard(self) -> None:
        """It has answered somebody who asked."""
        self._heard = time.monotonic()

    def missed(self) -> None:
        """It has not answered somebody who asked."""
        self._answered = self._heard = 0.0

    async def start(self) -> None:
        """Be known to others, before anything is read."""
        await self._connect()
        await self._beat()
        await self._beat()
        self._task = asyncio.create_task(self._go_on(), name="bailiwick-pulse")

    async def _connect(self) -> None:
        self._connection = await asyncpg.connect(**self._place.options)
        await self._connection.execute("SET synchronous_commit = off")
        await self._connection.add_listener(CHANNEL, self._notified)

    def _notified(self, connection: Any, pid: int, channel: str, payload: str) -> None:
        if payload != self._owner:
            self._early.set()

    async def _beat(self) -> None:
        asked, asked_ns = time.monotonic(), time.time_ns()
        # Others wait for those that they have heard of: who was silent is heard of first, and
        # trusts what it has read only from the next time on.
        is_known = asked - self._answered < FRESH_S
        answer = await self._connection.fetchrow(_BEAT, self._owner, self._known)
        number, tables, told_us = answer
        self.clock.heard(told_us, asked_ns)
        self._tables = self._tables or tables
        if tables != self._tables:
            raise _outdated()
        changed, self._known = number != self._known, number
        if changed:
            self.epoch.changed()
            self._early.set()  # to say so
        self._answered = self._heard = time.monotonic()
        if self._beaten_us and told_us - self._beaten_us > _SHORT_US:
            self._silences.append((self._beaten_us, told_us))
        self._beaten_us = told_us
        if not is_known:
            self._since = self._answered
        if is_known:
            self.epoch.fresh_until = asked + FRESH_S

    async def _go_on(self) -> None:
        counted = 0
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_BEAT_S):
                    await self._early.wait()
            self._early.clear()
            try:
                async with asyncio.timeout(self._place.connect_s):
                    if self._connection is None or self._connection.is_closed():
                        await self._connect()
                async with asyncio.timeout(FRESH_S):
                    await self._beat()
                    counted += 1
                    if counted % 4 == 1:
                        self.servers = max(1, await self._connection.fetchval(_SERVERS))
            except Unsupported as error:
                # Nobody had heard of this one, and so it was done without waiting for it.
                _log.error("this server serves no more: %s", error)
                self._is_outdated, self.epoch.fresh_until = True, 0.0
                await self._leave()
                return
            except (*FAILURES, BailiwickError):
                if self._connection is not None:
                    self._connection.terminate()
                await asyncio.sleep(_AGAIN_S)

    async def everyone_knows(self, ask: Callable[..., Any]) -> None:
        """Wait until all other servers know of what is committed by now; no longer than what they
        have read before is good, also where the database does not answer."""
        until = time.monotonic() + FRESH_S
        with contextlib.suppress(*FAILURES, BailiwickError):
            async with asyncio.timeout(FRESH_S):
                (number,) = (await ask("SELECT number FROM state_control"))[0]
                polls = iter(_POLLS_S)
                while (await ask(_BEHIND, self._owner, number))[0][0]:
                    left = until - time.monotonic()
                    await asyncio.sleep(min(left, next(polls, _POLLS_S[-1])))
                return
        await asyncio.sleep(max(0.0, until - time.monotonic()))

    async def is_alive(self, ask: Callable[..., Any], name: str) -> bool:
        """Whether the server of a name still serves; in doubt it does. Nobody could be heard of
        while the database was away, so that time does not count, and no other is given for it.

        All by the clock of the database: where that is set on, or this machine slept, nobody was
        heard of in between either."""
        heard_of = await ask(_SEEN, name)
        if not heard_of:
            return False
        now, seen = heard_of[0]
        goes_on = now - self._beaten_us > _SHORT_US
        silences = [*self._silences, *([(self._beaten_us, now)] if goes_on else ())]
        away = sum(max(0, ended - max(begun, seen)) for begun, ended in silences)
        return bool(now - seen - away < ALIVE_S * 1_000_000)

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await self._leave()

    async def _leave(self) -> None:
        """Be known to others no more."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*FAILURES):
                async with asyncio.timeout(1.0):
                    await connection.execute(
                        "DELETE FROM state_servers WHERE owner = $1", self._owner
                    )
            connection.terminate()


def _outdated() -> Unsupported:
    return Unsupported(
        "a newer Bailiwick has changed the tables of this state",
        hint="start the newer version in the place of this one",
    )
