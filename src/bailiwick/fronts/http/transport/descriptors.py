"""How many descriptors this process may have open, and how many connections that allows.

A connection that finds no descriptor is not even refused, and a file cannot be opened any more
either: so connections end where half of what there is is taken, and some are kept for people.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from typing import NamedTuple

from bailiwick.fronts.http.settings import (
    CONNECTIONS_FOR_PEOPLE,
    CONNECTIONS_MAX,
    DESCRIPTORS_MAX,
    DESCRIPTORS_OWN,
    REQUESTS_SHARE,
)


class DescriptorRoom(NamedTuple):
    """How many connections there may be; ``for_people`` of them are not for agents."""

    connections: int
    for_people: int

    @property
    def for_all(self) -> int:
        return self.connections - self.for_people

    @property
    def for_one(self) -> int:
        """Requests of one agent that may be under way."""
        return max(1, int(self.for_all * REQUESTS_SHARE))


def room_for(limit: int) -> DescriptorRoom:
    """What so many descriptors allow."""
    connections = min(CONNECTIONS_MAX, max(8, (limit - DESCRIPTORS_OWN) // 2))
    return DescriptorRoom(connections, min(CONNECTIONS_FOR_PEOPLE, connections // 4))


def limit() -> int:
    """How many descriptors this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return DESCRIPTORS_MAX if soft == resource.RLIM_INFINITY else soft


def raise_limit() -> int:
    """Let this process have as many descriptors as it may allow itself; returns how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # what the system says and what it lets one may differ
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return limit()


def spare() -> int:
    """How many more descriptors can be had."""
    try:
        # One of them is that of the listing itself.
        return limit() - len(os.listdir("/dev/fd")) + 1
    except OSError:
        return 0
