"""Times as a person writes them."""

from __future__ import annotations

import contextlib
import datetime as dt
import time
from typing import Final

from bailiwick.config.units import parse_duration
from bailiwick.errors import ParseError

_TIME_NS_MAX: Final = 2**63 - 1


def moment_ns(text: str) -> int:
    """A time: a date, a date with a time (UTC unless it says otherwise), or so long ago. What lies
    before or after all records is as good as the first or the last moment there can be. Raises
    `ParseError`."""
    with contextlib.suppress(ParseError):
        return max(0, time.time_ns() - int(parse_duration(text) * 1e9))
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ParseError(
            f"{text[:40]!r} is no time", hint="write 2026-01-31, 2026-01-31T12:00:00Z, or 2h"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return min(max(0, int(moment.timestamp() * 1e9)), _TIME_NS_MAX)
