"""The durable ledger: what is on record, when, and what happens when it cannot be."""

import asyncio
import threading

import apsw
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.audit import LedgerRecord
from bailiwick.errors import Closed, IoError
from bailiwick.grant import Grant, Root, User
from bailiwick.limits import Limits
from bailiwick.model import Change
from bailiwick.paths import ScopedPath
from bailiwick.state import database as database_module
from bailiwick.state.database import FILE
from bailiwick.state.ledger import queue as queue_module
from bailiwick.state.ledger.durable import DurableLedger, ledger_key
from bailiwick.state.ledger.encoding import decode, encode_authority, encode_record, keep_path
from bailiwick.state.ledger.intents import lineage, places_of, touches
from bailiwick.state.ledger.key import Keys
from tests.state.ledgers import (
    ROOT_NAME,
    act,
    change_of,
    intent,
    ledger_at,
    record,
    state_at,
)
from tests.waiting import until

pytestmark = pytest.mark.both_engines

CONTENT = Change(
    kind="updated", path=ScopedPath("src/a.py"), type="file", subject="agent_run:c1/r7",
    request_id="change-1",
)  # fmt: skip


async def all_of(ledger):
    return (await ledger.query(limit=1000)).records[::-1]


# --- records ---------------------------------------------------------------------------------


@pytest.mark.spec("AUDIT-1")
@pytest.mark.parametrize("kept", ["in a directory", "in memory"])
async def test_operations_and_acts_become_the_same_flat_record(kept, tmp_path):
    async with ledger_at(tmp_path if kept == "in a directory" else None) as ledger:
        ledger.note(
            record(
                1, outcome="denied", error_kind="policy_denied", policy_source="rule 3",
                hooks=("a", "b"), destination=ScopedPath("to"), approval_id="q1",
            )
        )  # fmt: skip
        announced = intent(2)
        ledger.settle(change_of(announced), await ledger.intend(announced), ())
        await ledger.append_authority(act(3))
        refused, changed, revoked = await all_of(ledger)
        assert refused == LedgerRecord(
            seq=1, time_ns=1_700_000_000_000_000_001, request_id="request-1",
            subject="agent_run:c1/r7", grant_id="g1", root="workspace:demo", operation="read",
            verb="read_text", path="src/file-1.py", destination="to", outcome="denied",
            error_kind="policy_denied", policy_source="rule 3", hooks=("a", "b"),
            reason="to mend the build", bytes=1, sha256_before=None, sha256_after=None,
            duration_ns=1_000, front="python", approval_id="q1", details={},
        )  # fmt: skip
        assert (changed.request_id, changed.outcome, changed.sha256_after) == (
            "change-2", "success", "ab" * 32,
        )  # fmt: skip
        assert (revoked.verb, revoked.operation, revoked.subject, revoked.details) == (
            "authority", "revoke", "user:ada", {"why": "it is done"},
        )  # fmt: skip
        assert (await ledger.verify(ledger.head())).tail_proved
        assert [each.request_id for each in ledger.records()] == ["request-1", "change-2"]


TEXT = st.text(max_size=40)


@given(
    TEXT, TEXT, TEXT, st.none() | TEXT, st.lists(TEXT, max_size=3).map(tuple),
    st.integers(0, 2**62), st.none() | st.integers(0, 2**62),
)  # fmt: skip
def test_what_is_encoded_is_what_is_read(request_id, path, reason, rule, hooks, time_ns, size):
    grant = Grant(id="g", subject=User("x"), root=Root(kind="temp", id="t"), reason=reason)
    given_record = record(
        request_id=request_id, path=ScopedPath(path), grant=grant, policy_source=rule, hooks=hooks,
        time_ns=time_ns, bytes=size,
    )  # fmt: skip
    kept = decode(9, encode_record(given_record, keep_path))
    assert (kept.request_id, kept.path, kept.reason) == (request_id, path, reason)
    assert (kept.policy_source, kept.hooks) == (rule, hooks)
    assert (kept.time_ns, kept.bytes) == (time_ns, size)
    assert msgspec.json.decode(msgspec.json.encode(kept), type=LedgerRecord) == kept


def test_text_that_no_encoding_has_is_kept_escaped():
    kept = decode(1, encode_record(record(request_id="half \ud800", hooks=("\udfff",)), keep_path))
    assert (kept.request_id, kept.hooks) == ("half \\ud800", ("\\udfff",))
    kept = decode(1, encode_authority(act(details={"\ud800": "x"}), keep_path))
    assert kept.details == {"\\ud800": "x"}


@pytest.mark.spec("AUDIT-3")
async def test_ring_keeps_only_the_newest():
    async with ledger_at(limits=Limits(audit_ring_records=3)) as ledger:
        for number in range(5):
            ledger.note(record(number))
        assert [each.bytes for each in ledger.records()] == [2, 3, 4]
        assert len(await all_of(ledger)) == 5


@pytest.mark.spec("AUDIT-3")
async def test_reads_are_written_in_batches_soon_without_anyone_asking(tmp_path):
    async with ledger_at(tmp_path, limits=Limits(audit_batch_seconds_max=0.01)) as ledger:
        before = ledger._database.transactions
        for number in range(500):
            ledger.note(record(number))
        await until(lambda: not ledger.health().queued)
        assert ledger._database.read("SELECT count(*) FROM ledger") == [(500,)]
        assert ledger._database.transactions - before <= 2


@pytest.mark.spec("AUDIT-3")
async def test_what_comes_while_records_are_written_waits_for_company(monkeypatch):
    async with ledger_at() as ledger:
        queue, came, armed = ledger._queue, [], []
        arm = queue._arm

        def arming(within_s):
            armed.append(within_s)
            arm(within_s)

        def encoded(items):
            rows = encode(items)
            if len(came) < 3:  # one more, each time some are written
                came.append(record(len(came)))
                queue.note(came[-1])
            return rows

        encode = queue._encoded
        monkeypatch.setattr(queue, "_arm", arming)
        monkeypatch.setattr(queue, "_encoded", encoded)
        queue.note(record(100))
        await ledger.flush()
        assert len(came) == 3
        assert set(armed) == {queue._batch_seconds_max}
        assert len(await all_of(ledger)) == 4


@pytest.mark.spec("AUDIT-2", "AUDIT-3")
async def test_what_is_too_much_for_one_transaction_is_written_by_the_next():
    count = queue_module._FLUSH_RECORDS_MAX + 300
    async with ledger_at() as ledger:
        before = ledger._database.transactions
        for number in range(count):
            ledger.note(record(number))
        await until(lambda: not ledger.health().queued)
        assert ledger._database.transactions - before == 2
        assert [each.bytes for each in await all_of(ledger)] == list(range(count))[-1000:]
        verified = await ledger.verify()
        assert (verified.ok, verified.records) == (True, count)


async def test_changes_share_their_commits_where_a_disk_has_to_be_waited_for(monkeypatch):
    monkeypatch.setattr(database_module, "_HERE_S", 0.0)
    async with ledger_at() as ledger:
        before = ledger._database.transactions

        async def change(number):
            announced = intent(number)
            ledger.settle(change_of(announced), await ledger.intend(announced), ())

        await asyncio.gather(*(change(number) for number in range(200)))
        await ledger.flush()
        # All 200 were announced before the writer came round twice, or nearly so.
        assert ledger._database.transactions - before <= 20
        assert len(await all_of(ledger)) == 200


async def test_one_change_after_the_other_costs_one_commit_each():
    async with ledger_at(limits=Limits()) as ledger:
        before = ledger._database.transactions
        for number in range(50):
            announced = intent(number)
            ledger.settle(change_of(announced), await ledger.intend(announced), ())
        await ledger.flush()
        assert ledger._database.transactions - before <= 60


# --- intents ---------------------------------------------------------------------------------


@pytest.mark.spec("AUDIT-3")
async def test_intent_is_durable_when_intend_returns_and_gone_when_settled(tmp_path):
    async with ledger_at(tmp_path) as ledger:
        number = await ledger.intend(intent(1))
        with state_at(tmp_path) as other:
            assert other.read("SELECT count(*) FROM ledger_intents") == [(1,)]
            assert other.read("SELECT count(*) FROM ledger") == [(0,)]
            ledger.settle(change_of(intent(1)), number, ())
            await ledger.flush()
            assert other.read("SELECT count(*) FROM ledger_intents") == [(0,)]
            assert other.read("SELECT count(*) FROM ledger") == [(1,)]


async def test_cancelled_intent_leaves_nothing():
    async with ledger_at() as ledger:
        opened, entered = threading.Event(), threading.Event()

        def hold_up(connection):
            entered.set()
            assert opened.wait(120)

        ledger._database.submit(hold_up)
        await asyncio.to_thread(entered.wait)
        waiting = asyncio.ensure_future(ledger.intend(intent(1)))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        opened.set()
        await ledger.append_authority(act())
        assert ledger._database.read("SELECT count(*) FROM ledger_intents") == [(0,)]
        assert ledger.health().open_intents == 0


async def test_intents_of_the_dead_become_interrupted_and_those_of_the_living_stay(tmp_path):
    with state_at(tmp_path) as dead:
        ledger = DurableLedger.open(dead, ledger_key(dead))
        await ledger.intend(intent(1, destination=ScopedPath("there"), approval_id="q7"))
        settled = await ledger.intend(intent(2))
        ledger.settle(change_of(intent(2)), settled, ())
        await ledger.aclose()
    async with ledger_at(tmp_path) as living:
        (interrupted,) = living.interrupted
        assert (interrupted.outcome, interrupted.error_kind) == ("failed", "interrupted")
        assert (interrupted.request_id, interrupted.path) == ("change-1", "src/file-1.py")
        assert (interrupted.destination, interrupted.approval_id) == ("there", "q7")
        assert (interrupted.subject, interrupted.verb) == ("agent_run:c1/r7", "write_text")
        number = await living.intend(intent(3))
        async with ledger_at(tmp_path) as other:
            assert other.interrupted == ()
            assert other.recover() == []
            living.settle(change_of(intent(3)), number, ())
            await living.flush()
            records = await all_of(other)
            assert [each.request_id for each in records] == ["change-2", "change-1", "change-3"]
            assert (await other.verify()).ok


async def test_planted_intent_is_not_taken_at_its_word(tmp_path):
    with state_at(tmp_path) as dead:
        ledger = DurableLedger.open(dead, ledger_key(dead))
        await ledger.intend(intent(1))
        await ledger.aclose()
        dead.write_blocking(
            lambda connection: connection.execute(
                "UPDATE ledger_intents SET body = ?",
                (encode_record(record(7), keep_path),),
            )
        )
    async with ledger_at(tmp_path) as living:
        (found,) = living.interrupted
        assert (found.subject, found.operation) == ("core:bailiwick", "ledger")
        assert "without the key" in found.reason


NAMES = st.lists(st.sampled_from("ab"), min_size=1, max_size=4).map("/".join) | st.just(".")


@given(NAMES, NAMES, st.booleans())
def test_places_touch_when_one_lies_in_the_other(one, other, hashed):
    hide = Keys(bytes(32)).hidden_path if hashed else keep_path
    related = ScopedPath(one).lies_in(ScopedPath(other)) or ScopedPath(other).lies_in(
        ScopedPath(one)
    )
    assert touches(places_of((one, None), hide), [hide(each) for each in lineage(other)]) == related


@pytest.mark.parametrize("paths", ["raw", "keyed-hash"])
async def test_in_flight_until_the_record_is_durable_for_every_process(paths, tmp_path):
    async with ledger_at(tmp_path, paths=paths) as here, ledger_at(tmp_path, paths=paths) as there:
        announced = intent(1, path=ScopedPath("a/b"), destination=ScopedPath("c"))
        number = await here.intend(announced)
        for ledger in (here, there):
            for path in ("a/b", "a", ".", "a/b/c/d", "c", "c/x"):
                assert ledger.in_flight(ROOT_NAME, path)
            for path in ("a/bb", "b", "a/c", "cc"):
                assert not ledger.in_flight(ROOT_NAME, path)
            assert not ledger.in_flight("workspace:other", "a/b")
        here.settle(change_of(announced), number, ())
        await here.flush()
        assert not here.in_flight(ROOT_NAME, "a/b")
        assert not there.in_flight(ROOT_NAME, "a/b")


# --- acts on the authority -------------------------------------------------------------------


@pytest.mark.spec("AUDIT-1")
async def test_act_and_its_record_are_kept_together_or_not_at_all():
    async with ledger_at() as ledger:
        database = ledger._database

        def grant(connection, fails):
            ledger.chain_in(connection, act(1))
            ledger.chain_in(connection, act(2))
            if fails:
                raise LookupError

        with pytest.raises(LookupError):
            await database.write_control(lambda connection: grant(connection, True))
        assert await all_of(ledger) == []
        await database.write_control(lambda connection: grant(connection, False))
        assert [each.request_id for each in await all_of(ledger)] == ["act-1", "act-2"]
        assert (await ledger.verify()).ok


# --- the feed --------------------------------------------------------------------------------


@pytest.mark.sqlite_only
async def test_changes_and_their_record_are_kept_in_one_transaction_and_told_on_the_loop():
    rows, told = [], asyncio.Queue()

    def keep_changes(connection, changes):
        (count,) = connection.execute("SELECT count(*) FROM ledger").fetchone()
        rows.append((count, list(changes), threading.current_thread().name))

    async with ledger_at() as ledger:
        root = ledger.for_root(keep_changes, lambda: told.put_nowait(threading.current_thread()))
        assert root.takes_intents
        root.note(record(1))
        number = await root.intend(intent(1))
        root.settle(change_of(intent(1)), number, (CONTENT,))
        assert await told.get() is threading.current_thread()
        assert rows == [(2, [CONTENT], "bailiwick-state")]
        root.settle(record(2), None, ())
        await ledger.flush()
        assert len(rows) == 1  # nothing changed, nothing told
        assert told.empty()


@pytest.mark.sqlite_only
async def test_fault_of_the_feed_is_counted_and_the_record_kept(caplog):
    def keep_changes(connection, changes):
        raise KeyError("a fault of the feed")

    async with ledger_at() as ledger:
        root = ledger.for_root(keep_changes)
        root.settle(change_of(intent(1)), await root.intend(intent(1)), (CONTENT,))
        await ledger.flush()
        assert [each.request_id for each in await all_of(ledger)] == ["change-1"]
        assert (ledger.health().feed_failures, ledger.health().ok) == (1, False)
        assert "could not be put into the feed" in caplog.text


# --- names that are not kept -----------------------------------------------------------------


@pytest.mark.sqlite_only
@pytest.mark.spec("AUDIT-2")
async def test_keyed_hash_keeps_no_name_anywhere(tmp_path):
    secret = "very-telling-name"
    async with ledger_at(tmp_path, paths="keyed-hash") as ledger:
        ledger.note(record(1, path=ScopedPath(f"src/{secret}")))
        announced = intent(2, path=ScopedPath(secret), destination=ScopedPath(f"{secret}/x"))
        number = await ledger.intend(announced)
        await ledger.append_authority(act(3, details={"path": secret, "why": "kept"}))
        await ledger.flush()
        for name in (FILE, f"{FILE}-wal"):
            assert secret.encode() not in (tmp_path / name).read_bytes()
        ledger.settle(change_of(announced), number, ())
        exported = b"".join([lines async for lines in ledger.export()])
        assert secret.encode() not in exported
        assert exported.count(b"hmac-sha256:") == 4
        read, approved, changed = await all_of(ledger)
        assert approved.details["why"] == "kept"
        assert changed.path == approved.details["path"] != changed.destination
        assert read.path != changed.path
        for name in (FILE, f"{FILE}-wal"):
            assert secret.encode() not in (tmp_path / name).read_bytes()
    async with ledger_at(tmp_path / "another", paths="keyed-hash") as other:
        other.note(record(1, path=ScopedPath(secret)))
        (elsewhere,) = await all_of(other)
        assert elsewhere.path != changed.path  # another key, another hash


# --- failing ---------------------------------------------------------------------------------


def fill_up(connection):
    """Leave no room but on the pages that are begun, as on a full disk."""
    connection.pragma("max_page_count", connection.pragma("page_count"))


def more_room(connection):
    connection.pragma("max_page_count", 1_000_000)


async def announce_many(ledger):
    for number in range(1_000):
        await ledger.intend(intent(number))


@pytest.mark.sqlite_only
@pytest.mark.spec("AUDIT-4")
@pytest.mark.parametrize("where", ["in a directory", "in memory"])
async def test_full_disk_stops_changes_and_loses_no_record_of_one(where, tmp_path, monkeypatch):
    monkeypatch.setattr(queue_module, "QUEUED_RECORDS_MAX", 50)
    monkeypatch.setattr(queue_module, "_RETRY_SECONDS", 0.01)
    async with ledger_at(tmp_path if where == "in a directory" else None) as ledger:
        database = ledger._database
        announced = [(number, await ledger.intend(intent(number))) for number in range(10)]
        await database.write(fill_up)
        with pytest.raises(IoError, match="full"):
            await announce_many(ledger)
        in_flight = ledger.health().open_intents
        for number in range(40):  # reads go on
            ledger.note(record(number))
        for number, kept in announced:
            ledger.settle(change_of(intent(number)), kept, ())
        with pytest.raises(IoError, match="full"):
            await ledger.flush()
        health = ledger.health()
        assert (health.ok, health.queued, health.open_intents) == (False, 50, in_flight)
        assert "full" in health.last_error
        for number in range(30):  # what does not fit the queue is given up, and counted
            ledger.note(record(number))
        assert ledger.health().dropped == 30

        await database.write(more_room)
        await ledger.flush()
        records = await all_of(ledger)
        assert [each.request_id for each in records[:50]] == [
            *(f"request-{number}" for number in range(40)),
            *(f"change-{number}" for number in range(10)),
        ]
        assert [each.details for each in records[50:]] == [{"lost_records": "30"}]
        assert database.read("SELECT count(*) FROM ledger_intents") == [(in_flight - 10,)]
        assert (await ledger.verify()).ok
        await ledger.intend(intent(1))
        assert ledger.health().last_error is not None  # what happened is not forgotten


@pytest.mark.sqlite_only
@pytest.mark.spec("AUDIT-4")
async def test_change_is_refused_where_the_database_is_locked_or_read_only(tmp_path, monkeypatch):
    monkeypatch.setattr(database_module, "_BUSY_MS_MAX", 20)
    async with ledger_at(tmp_path) as ledger:
        other = apsw.Connection(str(tmp_path / FILE))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(IoError, match="held by another process"):
            await ledger.intend(intent(1))
        other.execute("ROLLBACK")
        other.close()
        ledger._database._connection.pragma("query_only", True)
        with pytest.raises(IoError):
            await ledger.intend(intent(1))
        ledger._database._connection.pragma("query_only", False)
        assert ledger.health().open_intents == 0
        await ledger.intend(intent(1))
        assert ledger._database.read("SELECT count(*) FROM ledger_intents") == [(1,)]


@pytest.mark.sqlite_only
async def test_records_that_could_not_be_written_are_tried_again_by_themselves(monkeypatch):
    monkeypatch.setattr(queue_module, "_RETRY_SECONDS", 0.01)
    async with ledger_at(limits=Limits(audit_batch_seconds_max=0.001)) as ledger:
        await ledger._database.write(fill_up)
        for number in range(300):
            ledger.note(record(number))
        await until(lambda: ledger.health().failures)
        assert ledger.health().queued == 300
        await ledger._database.write(more_room)
        await until(lambda: not ledger.health().queued)
        assert [each.bytes for each in await all_of(ledger)] == list(range(300))
        assert ledger._queue._note_armed is False


async def test_reader_is_held_up_when_the_queue_is_full_and_nothing_is_lost(monkeypatch):
    monkeypatch.setattr(queue_module, "QUEUED_RECORDS_MAX", 20)
    async with ledger_at(limits=Limits(audit_batch_seconds_max=0.0)) as ledger:
        for number in range(500):
            ledger.note(record(number))
            assert ledger.health().queued <= 2 * 20  # those that wait, and those at hand
        await ledger.flush()
        assert ledger.health().dropped == 0
        assert [each.bytes for each in await all_of(ledger)] == list(range(500))


async def test_record_that_cannot_be_encoded_does_not_hold_up_the_others(caplog):
    async with ledger_at() as ledger:
        ledger.note(record(1))
        ledger.note(record(2, bytes=2**70))
        ledger.note(record(3))
        records = await all_of(ledger)
        assert [each.request_id for each in records][::2] == ["request-1", "request-3"]
        assert records[1].details == {"lost_records": "1"}
        assert "cannot be encoded" in caplog.text


# --- closing ---------------------------------------------------------------------------------


async def test_closing_the_database_alone_writes_what_is_queued(tmp_path):
    with state_at(tmp_path) as database:
        ledger = DurableLedger.open(database, ledger_key(database))
        for number in range(5_000):
            ledger.note(record(number))
        number = await ledger.intend(intent(1))
        ledger.settle(change_of(intent(1)), number, ())
    with pytest.raises(Closed):
        ledger.note(record(1))
    with state_at(tmp_path) as database:
        assert database.read("SELECT count(*) FROM ledger") == [(5_001,)]
        assert database.read("SELECT count(*) FROM ledger_intents") == [(0,)]


@pytest.mark.sqlite_only
async def test_closing_succeeds_when_nothing_can_be_written(caplog):
    with state_at(None) as database:
        ledger = DurableLedger.open(database, ledger_key(database))
        await database.write(fill_up)
        for number in range(200):
            ledger.note(record(number))
        await ledger.aclose()
        assert "200 records are lost" in caplog.text
