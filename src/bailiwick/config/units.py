"""Durations and sizes as people write them, with their unit; nothing that could mean two.

``5 min``, ``8h``, ``30 s``, ``7 days``; ``100 MiB``, ``1 GiB``, or a plain number of bytes. Units
of a thousand (``MB``) are refused: half of the world means 1,024 by them.
"""

from __future__ import annotations

import re

from bailiwick.errors import ParseError
from bailiwick.policies.nearness import quoted

_MILLISECONDS: dict[str, int] = {
    "ms": 1,
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1_000),
    **dict.fromkeys(("min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}

_BYTES: dict[str, int] = {
    "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}  # fmt: skip

_WRITTEN = re.compile(r"([0-9]{1,18}) ?([A-Za-z]+)").fullmatch

_DURATION_HINT = "write a number and its unit: 30 s, 5 min, 8 h, 7 days"
_SIZE_HINT = "write a number of bytes, or a number and its unit: 64 KiB, 100 MiB, 1 GiB"


def parse_duration(text: str) -> float:
    """The seconds that a duration such as ``5 min`` means. Raises `ParseError`."""
    written = _WRITTEN(text)
    unit = None if written is None else _MILLISECONDS.get(written[2])
    if written is None or unit is None:
        raise ParseError(f"{quoted(text)} is no duration", hint=_DURATION_HINT)
    return int(written[1]) * unit / 1_000


def parse_size(text: str) -> int:
    """The bytes that a size such as ``100 MiB`` means. Raises `ParseError`."""
    written = _WRITTEN(text)
    unit = None if written is None else _BYTES.get(written[2])
    if written is None or unit is None:
        raise ParseError(f"{quoted(text)} is no size", hint=_SIZE_HINT)
    return int(written[1]) * unit
