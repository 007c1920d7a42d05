"""The changes of a plan in the order in which they are made, and which are made together."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from bailiwick.model import KiB, MiB
from bailiwick.paths import ScopedPath
from bailiwick.store import Store, Swaps
from bailiwick.versions import Touch

BATCH_BYTES: Final = 4 * MiB
BATCH_STEPS: Final = 512
"""What of them is held in memory, and made before others get their turn."""

SWAPPED_BYTES_MAX: Final = 256 * KiB
"""Of a file that is replaced or goes together with others: it is held in memory to be put aside.
Larger ones are streamed, one by one."""


def in_order(
    store: Store, touches: Sequence[Touch], alone: Collection[ScopedPath]
) -> Iterator[Sequence[Touch]]:
    """The changes of a plan as they are carried out: one by one, but for those in one row that are
    made together. What is ``alone`` goes by itself."""
    swaps = isinstance(store, Swaps)
    row: list[Touch] = []
    for touch in touches:
        together = _goes_with_others(touch) if swaps else touch.kind == "created"
        if together and not (touch.kind == "deleted" and touch.path in alone):
            row.append(touch)
            continue
        yield from _together(row, swaps)
        row = []
        if touch.kind != "moved" or not touch.beneath:  # else it goes with its directory
            yield (touch,)
    yield from _together(row, swaps)


def _goes_with_others(touch: Touch) -> bool:
    if touch.kind == "created" or (touch.kind == "deleted" and touch.type != "file"):
        return True
    small = touch.type == "file" and max(touch.size_before, touch.size) <= SWAPPED_BYTES_MAX
    return small and (touch.kind == "deleted" or touch.sha256 != touch.sha256_before)


def _together(row: Sequence[Touch], swaps: bool) -> Iterator[Sequence[Touch]]:
    """What of a row is made at once: where a store can change much together some of it at a time,
    else what comes into one directory."""
    if not swaps:
        yield from _by_existing_parent(row).values()
        return
    batch: list[Touch] = []
    size = 0
    for touch in row:
        batch.append(touch)
        size += touch.size_before
        if len(batch) >= BATCH_STEPS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def above_all(touches: Sequence[Touch]) -> ScopedPath:
    """The innermost directory that all of them lie in."""
    above = touches[0].path.parent
    for touch in touches:
        while not touch.path.parent.lies_in(above):
            above = above.parent
    return above


def _by_existing_parent(touches: Sequence[Touch]) -> dict[ScopedPath, list[Touch]]:
    """What comes, by the directory that is there already, in which it comes to lie."""
    found: dict[ScopedPath, list[Touch]] = {}
    parents: dict[ScopedPath, ScopedPath] = {}
    for touch in touches:
        parent = parents.get(touch.path.parent, touch.path.parent)
        if touch.type == "directory":
            parents[touch.path] = parent
        found.setdefault(parent, []).append(touch)
    return found
