"""How far two sequences agree, found by comparing slices instead of elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# Slices of this size are compared by C code in well under a microsecond.
_FIRST_STEP = 64


def common_prefix(a: Sequence[Any], b: Sequence[Any], known: int = 0) -> int:
    """Return the length of the longest common beginning, of which ``known`` is known already.
    Linear, whatever the content."""
    most = min(len(a), len(b))
    if known >= most or a[known] != b[known]:  # as it is after what an edit left as it was
        return known
    # Gallop forward while slices agree, then halve into the slice that does not.
    step = _FIRST_STEP
    while (end := known + step) <= most and a[known:end] == b[known:end]:
        known = end
        step *= 2
    while step > 1:
        step //= 2
        if (end := known + step) <= most and a[known:end] == b[known:end]:
            known = end
    return known


def common_suffix(a: Sequence[Any], b: Sequence[Any], most: int, known: int = 0) -> int:
    """Return the length of the longest common end, at most ``most``, of which ``known`` is known
    already. Linear, as `common_prefix` is."""
    known = min(known, most)
    end_a, end_b, most = len(a) - known, len(b) - known, most - known
    if not most or a[end_a - 1] != b[end_b - 1]:
        return known
    agreed, step = 0, _FIRST_STEP
    while agreed + step <= most and (
        a[end_a - agreed - step : end_a - agreed] == b[end_b - agreed - step : end_b - agreed]
    ):
        agreed += step
        step *= 2
    while step > 1:
        step //= 2
        if agreed + step <= most and (
            a[end_a - agreed - step : end_a - agreed] == b[end_b - agreed - step : end_b - agreed]
        ):
            agreed += step
    return known + agreed
