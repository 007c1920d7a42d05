"""While commits are quick an intent is kept on the thread that announces it, and what was settled
before goes along; with a slow disk, or another at work on the database, its thread does it."""

import asyncio
import threading
import time

import apsw
import pytest

from bailiwick.errors import IoError
from bailiwick.model import Change
from bailiwick.paths import ScopedPath
from bailiwick.state import database as database_module
from bailiwick.state.database import FILE
from bailiwick.state.ledger import durable as durable_module
from bailiwick.state.ledger import queue as queue_module
from tests.state.ledgers import change_of, intent, ledger_at


@pytest.fixture
def threads(monkeypatch):
    """The threads on which intents were kept."""
    seen, keep = [], durable_module.keep_intent

    def watched(*given):
        seen.append(threading.current_thread())
        keep(*given)

    monkeypatch.setattr(durable_module, "keep_intent", watched)
    return seen


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch):
    monkeypatch.setattr(database_module, "_HERE_S", 10.0)
    monkeypatch.setattr(queue_module, "_SETTLE_SECONDS_MAX", 600.0)  # no thread comes in between
    monkeypatch.setattr(queue_module, "_ALONG_RECORDS", 1)


def step(ledger, number):
    """What `intend` does without being kept waiting; its number, or the coroutine that waits."""
    work = ledger.intend(intent(number))
    try:
        work.send(None)
    except StopIteration as ended:
        return ended.value
    return work


@pytest.mark.spec("AUDIT-2")
@pytest.mark.parametrize("kept", ["in a directory", "in memory"])
async def test_an_intent_is_durable_in_the_first_step_and_takes_the_records_before_it_along(
    kept, tmp_path, threads
):
    directory = tmp_path / "state" if kept == "in a directory" else None
    async with ledger_at(directory) as ledger:
        database = ledger._database
        for number in range(1, 6):
            kept_number = step(ledger, number)
            rows = database.read("SELECT number FROM ledger_intents")
            assert (kept_number,) in rows
            ledger.settle(change_of(intent(number)), kept_number, ())
        assert set(threads) == {threading.current_thread()}
        assert ledger.health().open_intents <= 5
        await ledger.flush()
        records = (await ledger.query(limit=100)).records
        assert [each.request_id for each in records] == [f"change-{n}" for n in range(5, 0, -1)]
        assert not database.read("SELECT 1 FROM ledger_intents")
        assert ledger.health().open_intents == 0
        assert (await ledger.verify()).ok


async def test_with_a_slow_disk_the_thread_of_the_database_keeps_it(tmp_path, threads, monkeypatch):
    monkeypatch.setattr(database_module, "_HERE_S", 0.0)
    async with ledger_at(tmp_path / "state") as ledger:
        ledger.settle(change_of(intent(1)), await ledger.intend(intent(1)), ())
        assert threads
        assert threading.current_thread() not in threads


async def test_while_another_process_writes_it_waits_elsewhere(tmp_path, threads):
    async with ledger_at(tmp_path / "state") as ledger:
        other = apsw.Connection(str(tmp_path / "state" / FILE))
        other.execute("BEGIN IMMEDIATE")
        waits = asyncio.ensure_future(ledger.intend(intent(1)))
        await asyncio.sleep(0)
        assert not threads
        other.execute("COMMIT")
        other.close()
        number = await waits
        assert threading.current_thread() not in threads
        ledger.settle(change_of(intent(1)), number, ())


async def test_what_could_not_go_along_is_written_once(tmp_path, monkeypatch):
    async with ledger_at(tmp_path / "state") as ledger:
        ledger.settle(change_of(intent(1)), step(ledger, 1), ())
        keep = durable_module.keep_intent

        def full(*given):
            raise apsw.FullError("database or disk is full")

        monkeypatch.setattr(durable_module, "keep_intent", full)
        with pytest.raises(Exception, match="full"):
            await ledger.intend(intent(2))
        monkeypatch.setattr(durable_module, "keep_intent", keep)
        await ledger.flush()
        assert [each.request_id for each in (await ledger.query()).records] == ["change-1"]
        assert ledger.health().ok


async def test_what_fails_before_it_has_changed_anything_is_written_later(tmp_path, monkeypatch):
    async with ledger_at(tmp_path / "state") as ledger:
        ledger.settle(change_of(intent(1)), step(ledger, 1), ())
        append, failed = queue_module.append, []

        def fails_once(*given):
            if not failed:
                failed.append(1)
                raise apsw.IOError("disk I/O error")
            return append(*given)

        monkeypatch.setattr(queue_module, "append", fails_once)
        with pytest.raises(IoError):
            await ledger.intend(intent(2))
        await ledger.flush()
        assert [each.request_id for each in (await ledger.query()).records] == ["change-1"]


async def test_a_feed_hears_once_in_a_turn_of_what_went_along(tmp_path):
    heard = []
    async with ledger_at(tmp_path / "state") as ledger:
        told = asyncio.Event()

        def kept():
            heard.append(len(kept_changes))
            told.set()

        kept_changes = []
        root = ledger.for_root(lambda _, changes: kept_changes.extend(changes), kept)
        for number in range(1, 5):
            change = Change(
                kind="updated", path=ScopedPath("a"), type="file", subject="x", request_id="y"
            )
            root.settle(change_of(intent(number)), step(ledger, number), (change,))
        assert len(kept_changes) == 3
        assert not heard
        await told.wait()
        assert heard == [3]


async def test_records_go_along_together_or_when_the_first_is_due(tmp_path, monkeypatch):
    monkeypatch.setattr(queue_module, "_ALONG_RECORDS", 3)
    async with ledger_at(tmp_path / "state") as ledger:

        def recorded():
            return ledger._database.read("SELECT count(*) FROM ledger")[0][0]

        kept = []
        for number in range(1, 6):
            ledger.settle(change_of(intent(number)), step(ledger, number), ())
            kept.append(recorded())
        assert kept == [0, 0, 0, 3, 3]
        monkeypatch.setattr(queue_module, "_ALONG_SECONDS", 1_000.0)
        number = step(ledger, 6)
        assert recorded() == 5
        assert ledger._database.read("SELECT number FROM ledger_intents") == [(number,)]
        assert (await ledger.verify()).ok


async def test_what_goes_along_with_the_next_intent_needs_no_transaction_of_its_own(tmp_path):
    async with ledger_at(tmp_path / "state") as ledger:
        queue = ledger._queue
        ledger.settle(change_of(intent(1)), step(ledger, 1), ())
        assert queue._still_due() > time.monotonic()  # it may wait for company
        assert queue._settle_armed
        before = ledger._database.transactions
        second = step(ledger, 2)
        assert queue._still_due() > time.monotonic()  # it has gone, and another may come
        assert queue._settle_armed
        assert queue._still_due() is None  # none has come
        assert not queue._settle_armed
        ledger.settle(change_of(intent(2)), second, ())
        assert queue._settle_armed
        await ledger.flush()
        assert ledger._database.transactions - before == 2
        assert (await ledger.verify()).ok
