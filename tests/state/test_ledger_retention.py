"""Moving old records out: what remains is proved from a checkpoint, what went by itself."""

import os

import msgspec
import pytest

from bailiwick.audit import LedgerRecord
from bailiwick.errors import IoError, Unsupported
from bailiwick.state.ledger import retention
from bailiwick.state.ledger.retention import FOLDER
from tests.state.ledgers import act, ledger_at, record

pytestmark = pytest.mark.spec("AUDIT-3")

DAY_NS = 24 * 3600 * 10**9
NOW_NS = 1_700_000_000 * 10**9


def now():
    return NOW_NS


async def aged(ledger, days):
    """One record for each number of days, that old."""
    for number, age in enumerate(days):
        ledger.note(record(number, time_ns=NOW_NS - int(age * DAY_NS)))
    await ledger.flush()


def run(ledger, sql, bindings=()):
    ledger._database.write_blocking(lambda connection: connection.execute(sql, bindings) and None)


async def kept(ledger):
    return [each.bytes for each in (await ledger.query(limit=1000)).records[::-1]]


async def test_what_is_old_goes_and_the_rest_is_proved(tmp_path, monkeypatch):
    monkeypatch.setattr(retention, "SEGMENT_RECORDS_MAX", 4)
    async with ledger_at(tmp_path, clock=now) as ledger:
        await aged(ledger, [40] * 10 + [1] * 5)
        head = ledger.head()
        moved = await ledger.retain(30)
        assert (moved.records, moved.through) == (10, 10)
        found = await ledger.verify(head)
        assert (found.ok, found.tail_proved, found.moved_out) == (True, True, 10)
        assert found.records == 5 + 1  # and that retention was at work is on record
        (told,) = await ledger.tail(1)
        assert (told.operation, told.details["through"]) == ("ledger", "10")
        assert (await kept(ledger))[:5] == list(range(10, 15))
        names = sorted(os.listdir(tmp_path / FOLDER))
        assert names == [
            "000000000001-000000000004.jsonl",
            "000000000005-000000000008.jsonl",
            "000000000009-000000000010.jsonl",
        ]
        assert list(moved.archives) == names
        assert [each.ok for each in await ledger.retention.verify_archives()] == [True] * len(names)
        assert not (await ledger.retain(30)).records
        await aged(ledger, [0, 0])
        assert (await ledger.verify()).ok


async def test_archives_are_private_and_hold_every_record(tmp_path):
    async with ledger_at(tmp_path, clock=now) as ledger:
        await aged(ledger, [40] * 3)
        before = (await ledger.query()).records[::-1]
        await ledger.retain(30)
        (name,) = os.listdir(tmp_path / FOLDER)
        path = tmp_path / FOLDER / name
        assert path.stat().st_mode & 0o777 == 0o600
        assert (tmp_path / FOLDER).stat().st_mode & 0o777 == 0o700
        lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
        assert msgspec.convert([line["record"] for line in lines], list[LedgerRecord]) == before


async def test_only_the_oldest_run_goes_when_times_are_mixed(tmp_path):
    async with ledger_at(tmp_path, clock=now) as ledger:
        await aged(ledger, [40, 40, 1, 40, 40])
        assert (await ledger.retain(30)).through == 2
        assert (await ledger.verify()).ok


async def test_everything_may_go_and_the_chain_goes_on(tmp_path):
    async with ledger_at(tmp_path, clock=now) as ledger:
        await aged(ledger, [40] * 6)
        head = ledger.head()
        await ledger.retention.move_out(NOW_NS)
        assert ledger.head() == head
        assert (await ledger.verify(head)).tail_proved
        await aged(ledger, [0])
        (first,) = await ledger.tail()
        assert first.seq == 7
        assert (await ledger.verify(head)).tail_proved


async def test_head_among_what_was_moved_out_is_said_to_be_unproved(tmp_path):
    async with ledger_at(tmp_path, clock=now) as ledger:
        await aged(ledger, [40, 40])
        head = ledger.head()
        await aged(ledger, [40, 40, 0])
        await ledger.retain(30)
        found = await ledger.verify(head)
        assert (found.ok, found.tail_proved) == (True, False)
        assert "check its archive" in found.words


CHECKPOINT_ATTACKS = {
    "removed": "DELETE FROM ledger_checkpoints WHERE seq = 6",
    "an older one removed": "DELETE FROM ledger_checkpoints WHERE seq = 3",
    "all removed": "DELETE FROM ledger_checkpoints",
    "moved": "UPDATE ledger_checkpoints SET seq = 7 WHERE seq = 6",
    "its mac changed": "UPDATE ledger_checkpoints SET mac = zeroblob(32) WHERE seq = 6",
    "its beginning changed": "UPDATE ledger_checkpoints SET first = 5 WHERE seq = 6",
    "its archive disowned": "UPDATE ledger_checkpoints SET archive = NULL WHERE seq = 3",
    "more records gone": "DELETE FROM ledger WHERE seq = 7",
    "made without the key": (
        "DELETE FROM ledger WHERE seq = 7; INSERT INTO ledger_checkpoints"
        " SELECT 7, 7, mac, zeroblob(32), NULL, signature FROM ledger_checkpoints WHERE seq = 6"
    ),
    "a record put back": "INSERT INTO ledger SELECT 6, time_ns, body, mac FROM ledger LIMIT 1",
}


@pytest.mark.parametrize("attack", CHECKPOINT_ATTACKS)
async def test_checkpoint_that_was_tampered_with_is_found(attack, tmp_path, monkeypatch):
    monkeypatch.setattr(retention, "SEGMENT_RECORDS_MAX", 3)
    async with ledger_at(tmp_path, clock=now) as ledger:
        await aged(ledger, [40] * 6 + [0] * 4)
        await ledger.retain(30)
        assert (await ledger.verify()).ok
        run(ledger, CHECKPOINT_ATTACKS[attack])
        found = await ledger.verify()
        assert not found.ok
        assert 1 <= found.first_bad.seq <= 7


@pytest.mark.parametrize(
    ("attack", "bad"),
    [
        (lambda lines: lines[:2] + lines[3:], 3),
        (lambda lines: lines[:-1], 5),
        (lambda lines: [*lines, lines[-1]], 5),
        (lambda lines: [lines[1], lines[0], *lines[2:]], 1),
        (lambda lines: [lines[0].replace(b"request-0", b"request-9"), *lines[1:]], 1),
        (lambda lines: [*lines[:3], b'{"not": "a record"}\n', lines[4]], 4),
        (lambda lines: [], 1),
    ],
)
async def test_archive_that_was_tampered_with_is_found(attack, bad, tmp_path):
    async with ledger_at(tmp_path, clock=now) as ledger:
        await aged(ledger, [40] * 5)
        await ledger.retain(30)
        (name,) = os.listdir(tmp_path / FOLDER)
        path = tmp_path / FOLDER / name
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(attack(lines)))
        (found,) = await ledger.retention.verify_archives()
        assert (found.ok, found.archive, found.first_bad.seq) == (False, name, bad)
        path.unlink()
        (found,) = await ledger.retention.verify_archives()
        assert (found.ok, found.first_bad.seq) == (False, 1)


async def test_tampered_records_are_not_signed_for(tmp_path):
    async with ledger_at(tmp_path, clock=now) as ledger:
        await aged(ledger, [40] * 5)
        run(ledger, "UPDATE ledger SET time_ns = 1 WHERE seq = 3")
        with pytest.raises(IoError, match="record 3"):
            await ledger.retain(30)
        assert ledger._database.read("SELECT count(*) FROM ledger") == [(5,)]
        assert os.listdir(tmp_path / FOLDER) == []
        assert (await ledger.verify()).first_bad.seq == 3


async def test_archive_that_cannot_be_written_moves_nothing(tmp_path):
    async with ledger_at(tmp_path, clock=now) as ledger:
        await aged(ledger, [40] * 5)
        (tmp_path / FOLDER).write_bytes(b"in the way")
        with pytest.raises(OSError, match=r"exists|directory"):
            await ledger.retain(30)
        assert ledger._database.read("SELECT count(*) FROM ledger") == [(5,)]
        assert (await ledger.verify()).ok


async def test_slower_of_two_processes_leaves_the_archive_of_the_quicker(tmp_path):
    async with ledger_at(tmp_path, clock=now) as one, ledger_at(tmp_path, clock=now) as other:
        await aged(one, [40] * 5)
        late = one.retention._segment(5)
        await other.retain(30)
        one.retention._discard(late)  # what a process does whose segment was moved by another
        assert [each.ok for each in await one.retention.verify_archives()] == [True]
        assert (await one.verify()).ok


async def test_state_in_memory_has_no_archives():
    async with ledger_at(clock=now) as ledger:
        await aged(ledger, [40])
        with pytest.raises(Unsupported, match="archives"):
            await ledger.retain(30)
        await ledger.append_authority(act())
        assert (await ledger.verify()).ok
