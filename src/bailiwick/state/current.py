"""What was last read of the authority's tables, read again once someone has changed them.

The comparison costs one look at shared memory; nothing is queried while nothing changed, in this
process or another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from bailiwick.errors import Closed
from bailiwick.state.epoch import Epoch

Read = TypeVar("Read")


def current_epoch(epoch: Epoch) -> bytes:
    """The epoch as it is. Raises `Closed`: a state that was closed is not mapped any more."""
    try:
        return epoch.current()
    except ValueError:
        raise Closed("the state is closed") from None


class LastRead(Generic[Read]):
    """One thing read of the database, as of now.

    While a change is under way, or after a crash in the middle of one, it is read every time. A
    read that fails raises, each time: what was read before is not trusted any more.
    """

    def __init__(self, epoch: Epoch, read: Callable[[], Read]) -> None:
        self._epoch = epoch
        self._current = epoch.current
        self._read = read
        # One tuple, so that another thread never sees an old value under a new epoch.
        self._known: tuple[bytes | None, Read] | None = None

    def get(self) -> Read:
        try:
            seen = self._current()
        except ValueError:
            raise Closed("the state is closed") from None
        known = self._known
        if known is not None and known[0] == seen:
            return known[1]
        read = self._read()
        self._known = (seen if self._epoch.is_steady(seen) else None, read)
        return read
