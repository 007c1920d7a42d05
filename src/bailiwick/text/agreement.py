"""How far two sequences agree, found by comparing slices instead of elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

# Slices of this size are compared by C code in well under a microsecond.
_FIRST_STEP = 64


def common_prefix(a: Sequence[Any], b: Sequence[Any], known: int = 0) -> int:
    """Return the length of the longest common beginning, of which ``known`` is known already.
    Linear, whatever the content."""
    most = min(len(a), len(b)) - known
    if most <= 0 or a[known] != b[known]:  # as it is after what an edit left as it was
        return known
    return known + _agreement(
        most, lambda low, high: a[known + low : known + high] == b[known + low : known + high]
    )


def common_suffix(a: Sequence[Any], b: Sequence[Any], most: int, known: int = 0) -> int:
    """Return the length of the longest common end, at most ``most``, of which ``known`` is known
    already. Linear."""
    known = min(known, most)
    end_a, end_b = len(a) - known, len(b) - known
    if known == most or a[end_a - 1] != b[end_b - 1]:
        return known
    return known + _agreement(
        most - known,
        lambda low, high: a[end_a - high : end_a - low] == b[end_b - high : end_b - low],
    )


def _agreement(most: int, equal: Callable[[int, int], bool]) -> int:
    """Gallop forward while slices agree, then halve into the slice that does not."""
    agreed, step = 0, _FIRST_STEP
    while agreed + step <= most and equal(agreed, agreed + step):
        agreed += step
        step *= 2
    while step > 1:
        step //= 2
        if agreed + step <= most and equal(agreed, agreed + step):
            agreed += step
    return agreed
