"""A database with a write-ahead log: who reads and who writes do not wait for each other."""

from __future__ import annotations

import time
from typing import Final

import apsw

WAIT_S_MAX: Final = 10.0
"""So long the others who open the same database at the same time are waited for: as long as for a
lock of theirs later."""

_PAUSE_S: Final = 0.002
"""Between two tries: about as long as another one takes to make the log of an empty database."""


def write_ahead(connection: apsw.Connection, *, bytes_kept: int) -> None:
    """Give a database its log, of which ``bytes_kept`` stay on the disk once it is written back.

    Whoever makes the log must be alone for a moment. Of two who try at once SQLite sends one away
    without asking how long that one would wait, so it is asked again here. Blocks. Raises
    `apsw.BusyError` where others do not let go in time.
    """
    until = time.monotonic() + WAIT_S_MAX
    while True:
        try:
            connection.pragma("journal_mode", "wal")
        except apsw.BusyError:
            if time.monotonic() > until:
                raise
            time.sleep(_PAUSE_S)
        else:
            break
    connection.pragma("journal_size_limit", bytes_kept)
