"""A change of a volume and its record: one is never without the other, whenever a process dies."""

import asyncio
import contextlib
import random
import shutil

import pytest

import bailiwick
from tests.build.volume_houses import (
    changes_on_record,
    configuration,
    house,
    in_volume,
    worker,
)
from tests.killing import killed_at_work

pytestmark = [pytest.mark.spec("AUDIT-3"), pytest.mark.slow]

KILLS = 20


def died_at_settle(tmp_path, name="w", **options):
    """Have a process change something and die between the commit and its record."""
    with worker(tmp_path, name, 1, "die-at-settle", **options) as process:
        assert process.stdout.read() == ""  # nothing was acknowledged
        assert process.wait(120) == 9


async def test_a_kill_between_commit_and_record_gives_exactly_one_record(tmp_path):
    await asyncio.to_thread(died_at_settle, tmp_path)
    for _ in range(3):
        async with house(tmp_path) as opened:
            fs = await opened.scope()
            assert (await fs.read_text("d/w-0")).text == "w-0"
            assert await changes_on_record(opened) == [("w-0", "success")]
            record = next(each for each in await opened.records() if each.request_id == "w-0")
            assert (record.subject, record.path) == ("agent_run:c/r", "d/w-0")
    ((drained, newest),) = in_volume(
        tmp_path, "SELECT drained, (SELECT max(version) FROM change) FROM volume"
    )
    assert drained == newest


async def test_killed_at_random_instants_every_file_has_its_one_record(tmp_path):
    chance, acknowledged = random.Random(11), set()

    def killed(name):
        with worker(tmp_path, name, 1_000_000) as process:
            return killed_at_work(process, chance.randrange(4), chance.uniform(0.0, 0.05))

    for kill in range(KILLS):
        said = await asyncio.to_thread(killed, f"w{kill}")
        acknowledged.update(line for line in said if line.rpartition("-")[2].isdigit())
    async with house(tmp_path) as opened:
        records = await changes_on_record(opened)
        names = {path.name for path in await opened.tree() if path != "d"}
    assert len(set(records)) == len(records)
    succeeded = [request for request, outcome in records if outcome == "success"]
    assert len(set(succeeded)) == len(succeeded)
    assert acknowledged <= set(succeeded)
    # As many as there are files: those too that were never acknowledged, and no other.
    assert names == set(succeeded)
    assert acknowledged


async def test_several_processes_on_one_volume_and_one_state_record_everything_once(tmp_path):
    await asyncio.to_thread(died_at_settle, tmp_path, "dead")

    def work(name):
        with worker(tmp_path, name, 40) as process:
            return process.stdout.read().split()

    said = await asyncio.gather(*(asyncio.to_thread(work, name) for name in ("a", "b")))
    async with house(tmp_path) as opened:
        records = await changes_on_record(opened)
    expected = {("dead-0", "success"), *((name, "success") for each in said for name in each)}
    assert len(records) == len(expected) == 81
    assert set(records) == expected


async def test_what_a_living_process_has_not_settled_yet_is_left_to_it(tmp_path):
    async with house(tmp_path) as one:
        fs = await one.scope()
        await fs.write_text("before", "x")
        await one.authority.ledger.flush()
        queue = one.authority.ledger._queue
        held, settle = [], queue.settle
        queue.settle = lambda *given, **named: held.append((given, named))
        await fs.with_request("slow").write_text("slow", "x")
        async with house(tmp_path) as other:
            assert [each for each, _ in await changes_on_record(other)] != []
            assert ("slow", "success") not in await changes_on_record(other)
        queue.settle = settle
        for given, named in held:
            settle(*given, **named)
    async with house(tmp_path) as opened:
        records = await changes_on_record(opened)
    assert records.count(("slow", "success")) == 1


async def test_a_note_of_another_state_is_left_to_that_state(tmp_path):
    """Only its own state knows whether it is on record, and can prove who wrote it."""
    await asyncio.to_thread(died_at_settle, tmp_path, state="state")
    async with house(tmp_path, state="other") as opened:
        await (await opened.scope()).with_request("mine").write_text("mine", "x")
        assert await changes_on_record(opened) == [("mine", "success")]
    ((drained,),) = in_volume(tmp_path, "SELECT drained FROM volume")
    ((oldest,),) = in_volume(tmp_path, "SELECT max(version) FROM change WHERE request = 'w-0'")
    assert drained < oldest
    for _ in range(2):
        async with house(tmp_path) as opened:
            assert await changes_on_record(opened) == [("w-0", "success")]
    async with house(tmp_path, state="other") as opened:
        assert await changes_on_record(opened) == [("mine", "success")]


async def test_a_note_that_was_changed_or_planted_is_no_record(tmp_path):
    await asyncio.to_thread(died_at_settle, tmp_path)
    in_volume(
        tmp_path, "UPDATE change SET note = CAST(note || x'00' AS BLOB) WHERE request = 'w-0'"
    )
    in_volume(
        tmp_path, "UPDATE change SET note = zeroblob(5) WHERE request <> 'w-0' AND note IS NOT NULL"
    )
    async with house(tmp_path) as opened:
        assert await changes_on_record(opened) == []


async def test_a_copy_of_a_volume_brings_no_second_record(tmp_path):
    await asyncio.to_thread(died_at_settle, tmp_path)
    in_volume(tmp_path, "PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(tmp_path / "agent.db", tmp_path / "copy.db")
    async with house(tmp_path) as opened:
        assert await changes_on_record(opened) == [("w-0", "success")]
    shutil.copy(tmp_path / "copy.db", tmp_path / "agent.db")
    async with house(tmp_path) as opened:
        assert await changes_on_record(opened) == [("w-0", "success")]


async def test_a_state_in_memory_writes_no_notes(tmp_path):
    """There is nothing that could take them over: they would stay for ever."""
    file = configuration(tmp_path)
    file.write_text(file.read_text().replace('durability = "rename"', "memory = true"))
    async with house(tmp_path, state=None) as opened:
        await (await opened.scope()).write_text("f", "x")
        assert len(await changes_on_record(opened)) == 1
    assert in_volume(tmp_path, "SELECT count(*) FROM change WHERE note IS NOT NULL") == [(0,)]


@pytest.mark.spec("AUDIT-4")
async def test_where_records_cannot_be_written_nothing_is_changed(tmp_path):
    async with house(tmp_path) as opened:
        fs = await opened.scope()
        await fs.write_text("f", "x")
        await opened.authority.ledger.flush()  # which would say that it can be written
        opened.authority.ledger._queue.failing = True
        with pytest.raises(bailiwick.IoError):
            await fs.write_text("g", "x")
        opened.authority.ledger._queue.failing = False
        assert not await fs.exists("g")
        await fs.write_text("g", "x")
        await opened.authority.ledger.flush()
        assert opened.authority.ledger.health().open_intents == 0


async def test_a_change_that_fails_is_on_record_once_and_leaves_nothing_open(tmp_path):
    async with house(tmp_path) as opened:
        fs = await opened.scope()
        await fs.write_text("f", "x")
        with contextlib.suppress(bailiwick.FileAlreadyExists):
            await fs.with_request("twice").write_text("f", "y", mode="create")
        with pytest.raises(bailiwick.HashMismatch):
            await fs.with_request("stale").write_text("f", "y", expected_sha256="0" * 64)
        await opened.authority.ledger.flush()
        assert opened.authority.ledger.health().open_intents == 0
        records = await changes_on_record(opened)
    assert [each for each in records if each[1] == "failed"] == [
        ("twice", "failed"), ("stale", "failed"),
    ]  # fmt: skip


@pytest.mark.spec("VOL-13")
async def test_what_was_done_in_a_fork_is_taken_over_too(tmp_path):
    """Also where the fork is gone by then: it was done all the same."""
    async with house(tmp_path) as opened:
        fs = await opened.scope()
        await fs.write_text("f", "x")
        fork = await fs.fork("try")
        await opened.authority.ledger.flush()
        queue = opened.authority.ledger._queue
        settle, queue.settle = queue.settle, lambda *given, **named: None  # as if it died here
        await fork.with_request("forked").write_text("f", "y")
        queue.settle = settle
        await fork.aclose()
    async with house(tmp_path) as opened:
        records = await changes_on_record(opened)
        assert records.count(("forked", "success")) == 1
        await (await opened.scope()).delete_fork("try")
