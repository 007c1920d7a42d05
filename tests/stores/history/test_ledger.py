"""What became of a change is written down with the next one, or by itself once it has waited."""

import contextlib
import os

import apsw
import pytest

from bailiwick.errors import Unsupported
from bailiwick.paths import ScopedPath
from bailiwick.stores.history import ledger as ledger_module
from bailiwick.stores.history.ledger import EntryOutcome, FreshEntry, HistoryLedger
from bailiwick.stores.history.states import Effect, PlaceState
from tests.waiting import until


def fresh(number):
    return FreshEntry("write", "user:a", f"request-{number}", (), {})


def open_entries(ledger):
    """By a look at the rows alone: whoever asks the ledger has what was made written down first."""
    return [row[0] for row in ledger._reader.execute("SELECT id FROM entry WHERE owner <> ''")]


async def test_what_has_just_become_of_a_change_is_left_to_the_next_one(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_module, "_HERE_S", 10.0)
    monkeypatch.setattr(ledger_module, "FINISH_S", 600.0)
    ledger = HistoryLedger.open(str(tmp_path), durable=False)
    try:
        first = await ledger.begin(fresh(1), lambda _: None)
        ledger.finish(first, EntryOutcome(), foretold=True)
        ledger._close_soon()  # as if the time of an earlier one had come
        assert ledger._made.any
        assert ledger._armed
        second = await ledger.begin(fresh(2), lambda _: None)
        assert not ledger._made.any
        assert open_entries(ledger) == [second]
        ledger.finish(second, EntryOutcome(), foretold=True)
        monkeypatch.setattr(ledger_module, "FINISH_S", 0.0)
        ledger._close_soon()
        await until(lambda: not ledger._made.any)
        assert open_entries(ledger) == []
    finally:
        await ledger.aclose()


async def test_of_what_was_foretold_only_what_is_new_is_written(tmp_path):
    """What refers to content stays as it was when the change was begun, and so does the content."""
    data, sha256 = b"text", "ab" * 32
    foretold = PlaceState("file", 0, len(data), 0, "", sha256)
    made = PlaceState("file", 0o644, len(data), 0, "version", sha256)
    ledger = HistoryLedger.open(str(tmp_path), durable=False)
    try:
        for name in ("a", "b"):
            effect = Effect(ScopedPath(name), None, foretold)
            fresh = FreshEntry("write", "user:a", name, (effect,), {bytes.fromhex(sha256): data})
            entry = await ledger.begin(fresh, lambda _: None)
            ledger.finish(entry, EntryOutcome({0: made}), foretold=True)
        await ledger.quiet()
        assert [each.after for each in ledger.effects(entry)] == [made]
        assert ledger.rows("SELECT after_sha FROM effect") == [(bytes.fromhex(sha256),)] * 2
        assert ledger.rows("SELECT data FROM content") == [(data,)]
    finally:
        await ledger.aclose()


@pytest.mark.spec("DISK-8")
def test_a_database_of_another_program_is_left_as_it_is(tmp_path):
    """Its journal stays what it was, too."""
    path = tmp_path / "history.db"
    with contextlib.closing(apsw.Connection(str(path))) as theirs:
        theirs.execute("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")
    before = path.read_bytes()
    with pytest.raises(Unsupported, match="another program made it"):
        HistoryLedger.open(str(tmp_path), durable=False)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["history.db"]
