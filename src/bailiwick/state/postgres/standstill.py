"""How much of its time an event loop stands still for answers of the database.

Each answer is waited for only so long, but all who ask on one loop do so one after the other, and
nothing else is done meanwhile: no headers are read, no timer goes off. A database that answers, and
slowly, would keep a server from everything for as long as anybody asks. So the loop stands still
for a part of its time, and who asks beyond that is told to come again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from bailiwick.errors import Busy
from bailiwick.postgres.failures import SOON

_WITHIN_S: Final = 10.0
_SECONDS_MAX: Final = 6.0
"""With the answer that is waited for last it is eight: of the fifteen seconds in which a request
ends half is left to whoever asks then."""

_QUICK_S: Final = 0.25
"""What is answered sooner is not counted: a busy machine takes as long. What a server asks of a
database that needs more than that for an answer is seldom, or refused."""


class Standstill:
    """What one state has kept event loops from."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Until when, and for how long: no more than are of any account.
        self._stood: deque[tuple[float, float]] = deque(maxlen=int(_SECONDS_MAX / _QUICK_S))

    def refuse(self) -> None:
        """Raise `Busy` where the loop has stood still for too long of late."""
        if not self._stood:
            return
        oldest = self._clock() - _WITHIN_S
        if sum(s for until, s in tuple(self._stood) if until >= oldest) >= _SECONDS_MAX:
            raise Busy(
                "the database of the state answers slowly", hint="try again in a moment",
                details=dict(SOON),
            )  # fmt: skip

    def note(self, seconds: float) -> None:
        """It has just stood still for so long."""
        if seconds > _QUICK_S:
            self._stood.append((self._clock(), seconds))
