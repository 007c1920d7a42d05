"""A state as the test at hand wants it: in a directory, in memory, or in PostgreSQL.

Other processes that a test starts are told by their environment.
"""

import os

from bailiwick.limits import Limits
from bailiwick.state.database import Database

DSN = "BAILIWICK_TESTS_STATE"
FOLDER = "BAILIWICK_TESTS_BESIDE"
PATIENT = Limits(database_connect_seconds_max=60.0, database_statement_seconds_max=60.0)
"""A machine whose disk is busy answers late; what becomes of that has tests of its own."""


def open_state(directory, parts, durability="rename"):
    """What is in PostgreSQL has a directory for its key; what would be in memory has one, too."""
    dsn = os.environ.get(DSN)
    if dsn is None:
        where = None if directory is None else str(directory)
        return Database.open(where, parts, durability=durability)
    from bailiwick.state.postgres.database import open_in_postgres

    beside = str(directory or os.environ[FOLDER])
    os.makedirs(beside, 0o700, exist_ok=True)
    return open_in_postgres(dsn, beside, parts, PATIENT)
