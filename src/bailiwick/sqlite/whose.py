"""Whose a database is, said by a number in its header."""

from __future__ import annotations

import apsw

from bailiwick.errors import Unsupported


def is_new(connection: apsw.Connection, application_id: int, kind: str) -> bool:
    """Whether nothing was made in a database yet. ``application_id`` is in those that are ours.

    Both looks are at one moment: another one may be making it just now. Changes nothing. Raises
    `Unsupported` for a database of another program, `apsw.Error`.
    """
    with connection:
        whose = connection.pragma("application_id")
        if whose == application_id:
            return False
        if whose == 0 and not connection.execute("SELECT 1 FROM sqlite_schema").fetchall():
            return True
    raise Unsupported(f"the file is no {kind} of Bailiwick: another program made it")
