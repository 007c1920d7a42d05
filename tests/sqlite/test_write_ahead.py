"""A database that others open at the same moment: nobody is sent away."""

import threading

import apsw
import pytest

from bailiwick.sqlite import write_ahead as module
from bailiwick.sqlite.write_ahead import write_ahead

pytestmark = pytest.mark.spec("DISK-8")


@pytest.fixture
def contended(tmp_path):
    """Two connections to an empty database, one of them about to make it."""
    first, second = (apsw.Connection(str(tmp_path / "new.db")) for _ in range(2))
    second.set_busy_timeout(10_000)
    first.execute("begin immediate")
    yield first, second
    first.close()
    second.close()


def test_who_opens_a_new_database_waits_for_the_one_who_makes_it(contended):
    first, second = contended
    with pytest.raises(apsw.BusyError):  # SQLite does not wait here, however long it was told to
        second.pragma("journal_mode", "wal")
    leaving = threading.Timer(0.05, first.execute, ("commit",))
    leaving.start()
    try:
        write_ahead(second, bytes_kept=1024)
    finally:
        leaving.join()
    assert second.pragma("journal_mode") == "wal"
    assert second.pragma("journal_size_limit") == 1024


def test_who_does_not_let_go_is_told_of_in_the_end(contended, monkeypatch):
    monkeypatch.setattr(module, "WAIT_S_MAX", 0.02)
    _, second = contended
    with pytest.raises(apsw.BusyError):
        write_ahead(second, bytes_kept=1024)
