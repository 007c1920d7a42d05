"""How late it is for all who share a database: as late as it says.

What lasts for a while, a question, a lease, a grant, lasts as long for every machine, and one whose
clock is wrong must not end it for the others.
"""

from __future__ import annotations

import time
from typing import Final

NOW_US: Final = "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)"
"""What the database's clock says."""

_ALIKE_NS: Final = 1_000_000_000
"""Clocks that are no further apart are the same: those of machines that are kept right are, and
what they say is not changed by every answer that was a little late."""


class SharedClock:
    """The clock of this machine, set right where it is away from that of the database."""

    def __init__(self) -> None:
        self._off_ns = 0

    def time_ns(self) -> int:
        return time.time_ns() + self._off_ns

    def heard(self, told_us: int, asked_ns: int) -> None:
        """Take up what the database said of `NOW_US`, asked at a time of this machine's clock."""
        answered_ns = time.time_ns()
        waited_ns = answered_ns - asked_ns
        off_ns = told_us * 1_000 - (asked_ns + answered_ns) // 2
        # Its clock may have said so at any moment of the wait.
        if abs(off_ns - self._off_ns) > _ALIKE_NS + abs(waited_ns) // 2:
            self._off_ns = off_ns if abs(off_ns) > _ALIKE_NS else 0
