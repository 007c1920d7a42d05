"""A database that another one makes while it is looked at: ours or new, never a stranger's."""

import apsw
import pytest

from bailiwick.errors import Unsupported
from bailiwick.sqlite.whose import is_new

pytestmark = pytest.mark.spec("DISK-8")

OURS = 0x1234


def made(connection, application_id):
    with connection:
        connection.execute("CREATE TABLE t (x)")
        connection.pragma("application_id", application_id)


class Interrupted:
    """A connection: something happens after the first thing that is asked of it."""

    def __init__(self, connection, happens):
        self._connection = connection
        self._happens = happens

    def pragma(self, name):
        told = self._connection.pragma(name)
        self._happens()
        return told

    def execute(self, sql):
        return self._connection.execute(sql)

    def __enter__(self):
        return self._connection.__enter__()

    def __exit__(self, *error):
        return self._connection.__exit__(*error)


@pytest.fixture
def two(tmp_path):
    opened = [apsw.Connection(str(tmp_path / "one.db")) for _ in range(2)]
    opened[0].pragma("journal_mode", "wal")
    yield opened
    for each in opened:
        each.close()


def test_whose_a_database_is(two):
    one, other = two
    assert is_new(one, OURS, "volume")
    made(other, OURS)
    assert not is_new(one, OURS, "volume")
    with pytest.raises(Unsupported, match="no history of Bailiwick"):
        is_new(one, OURS + 1, "history")


def test_one_that_is_made_meanwhile_is_new_or_ours(two):
    one, other = two
    assert is_new(Interrupted(one, lambda: made(other, OURS)), OURS, "volume")
    assert not is_new(one, OURS, "volume")
