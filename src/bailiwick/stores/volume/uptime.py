"""How long this machine has been running: what leases end by.

The clock on the wall may be set, and a lease must neither end nor go on by that. The count since
the machine was started only goes forward, for all processes alike; but it begins anew with every
start, so it means something only together with the name of the start.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple

_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


class Uptime(NamedTuple):
    """``now_ms`` counts from the start of the machine that ``boot`` names."""

    boot: str
    now_ms: Callable[[], int]


@cache
def uptime_of_this_machine() -> Uptime:
    """The count that goes on while the machine sleeps. A system that does not name its starts has
    nothing better than the clock on the wall: there ``boot`` is empty."""
    clock: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            boot = file.read().strip()
    except (OSError, UnicodeError):
        boot = ""
    if clock is None or not boot:
        return Uptime("", lambda: time.time_ns() // 1_000_000)
    return Uptime(boot, lambda: time.clock_gettime_ns(clock) // 1_000_000)
