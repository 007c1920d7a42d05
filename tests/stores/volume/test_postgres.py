"""Volumes in PostgreSQL: opened by their address, shared by processes, refused in our own words."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys

import asyncpg
import pytest

import bailiwick
from bailiwick.build.care import create_volume, open_care
from bailiwick.errors import (
    BailiwickError,
    Busy,
    FileAlreadyExists,
    IoError,
    RootNotFound,
    Unsupported,
)
from bailiwick.limits import Limits
from bailiwick.patience import AT_ONCE_S, keeping
from bailiwick.stores.volume import VolumeStore
from bailiwick.stores.volume.content.blobs import FolderBlobs
from bailiwick.stores.volume.rows import postgres as rows
from bailiwick.stores.volume.rows import schema, tree
from bailiwick.stores.volume.versions import comparison
from bailiwick.testing.driver import StoreDriver
from tests.postgres_proxy import PostgresProxy
from tests.s3 import free_ports
from tests.stores.volume.test_costs import changed_often
from tests.waiting import give_a_chance, let_pass, until

pytestmark = pytest.mark.spec("SCALE-1")


def place(postgres, tmp_path, volume="main"):
    """The address of a volume that no other test has."""
    return f"{postgres.dsn}?volume={volume}{abs(hash(tmp_path))}&blobs={tmp_path}/blobs"


def opened(dsn, tmp_path, **options):
    return VolumeStore.open(dsn, blobs=FolderBlobs(str(tmp_path / "blobs")), **options)


async def test_a_place_is_opened_by_its_address(postgres, tmp_path):
    address = place(postgres, tmp_path)
    async with bailiwick.open(address) as fs:
        await fs.write_text("notes/today.txt", "small", parents=True)
        await fs.write_bytes("large.bin", bytes(3_000_000))
        await fs.snapshot("before")
        await fs.move("notes", "kept")
    async with bailiwick.open(address) as fs:
        assert (await fs.read_text("kept/today.txt")).text == "small"
        assert (await fs.read_bytes("large.bin")).data == bytes(3_000_000)
        past = await fs.read_text("notes/today.txt", as_of="before")
        assert past.text == "small"
        found = await fs.grep("small")
        assert [str(match.path) for match in found.matches] == ["kept/today.txt"]
    async with open_care(address) as care:
        assert (await care.check()).is_clean
        assert (await care.info()).files == 2
        with pytest.raises(Unsupported):
            await care.compact()


def test_blocking_callers_have_it_too(postgres, tmp_path):
    with bailiwick.open_sync(place(postgres, tmp_path)) as fs:
        fs.write_text("f", "x")
        assert fs.read_text("f").text == "x"


async def test_a_volume_is_made_once_and_not_by_who_only_looks(postgres, tmp_path):
    address = place(postgres, tmp_path)
    with pytest.raises(RootNotFound):
        async with open_care(address):
            pass
    await create_volume(address)
    with pytest.raises(FileAlreadyExists):
        await create_volume(address)


async def test_volumes_made_at_the_same_time_are_different_ones(postgres, tmp_path):
    """In a database without tables, so that all of them begin by making these."""
    names = [f"v{number}" for number in range(8)]
    with postgres.fresh_database() as dsn:
        stores = await asyncio.gather(
            *(asyncio.to_thread(opened, dsn, tmp_path, volume=name) for name in names * 2)
        )
        try:
            assert len({store.core.identity.volume for store in stores}) == len(names)
            assert len({store.core.identity.uid for store in stores}) == len(names)
        finally:
            for store in stores:
                await store.aclose()


async def test_a_server_that_is_not_there_is_told_without_its_address(tmp_path):
    (port,) = free_ports(1)
    address = f"postgres://me:hunter2@127.0.0.1:{port}/secrets?blobs={tmp_path}/blobs"
    with pytest.raises(IoError) as refused:
        async with bailiwick.open(address):
            pass
    assert refused.value.retryable
    for secret in ("hunter2", "127.0.0.1", str(port), "secrets"):
        assert secret not in f"{refused.value} {refused.value.hint} {refused.value.details}"


async def test_a_database_that_does_not_exist_is_told(postgres, tmp_path):
    with pytest.raises(IoError, match="no such database"):
        opened(postgres.dsn.replace("/postgres", "/elsewhere"), tmp_path)


async def test_tables_of_a_newer_bailiwick_are_refused(postgres, tmp_path, monkeypatch):
    store = opened(postgres.dsn, tmp_path)
    await store.aclose()
    monkeypatch.setattr(schema, "newest_version", lambda: 3)
    with pytest.raises(Unsupported, match="newer Bailiwick"):
        opened(postgres.dsn, tmp_path)


@pytest.mark.spec("SCALE-8")
@pytest.mark.parametrize(
    "lie",
    [
        "UPDATE bailiwick.about SET version = -1",
        "DELETE FROM bailiwick.about",
        "ALTER TABLE bailiwick.about RENAME COLUMN version TO edition",
        "ALTER TABLE bailiwick.about ALTER COLUMN version TYPE TEXT",
        "ALTER TABLE bailiwick.volume RENAME COLUMN last TO newest",
        "DROP TABLE bailiwick.change",
    ],
)
async def test_tables_that_are_not_ours_are_told_without_their_words(postgres, tmp_path, lie):
    with postgres.fresh_database() as dsn:
        async with contextlib.aclosing(StoreDriver(opened(dsn, tmp_path))) as fs:
            await fs.write("f", b"secret")
        liar = await asyncpg.connect(dsn)
        await liar.execute(lie)
        await liar.close()
        with pytest.raises(IoError, match="not those that Bailiwick made") as refused:
            async with contextlib.aclosing(StoreDriver(opened(dsn, tmp_path))) as fs:
                await fs.write("f", b"x")
        assert "secret" not in str(refused.value)
        assert "relation" not in str(refused.value)


async def test_a_change_waits_for_another_process_only_so_long(postgres, tmp_path):
    """Somebody holds the row of the volume: those who wait are told, and it goes on later."""
    limits = Limits(database_lock_seconds_max=0.2)
    name = f"v{abs(hash(tmp_path))}"
    one, two = (opened(postgres.dsn, tmp_path, volume=name, limits=limits) for _ in range(2))
    first, second = StoreDriver(one), StoreDriver(opened(postgres.dsn, tmp_path, volume=name))
    held, go_on = asyncio.Event(), asyncio.Event()

    async def hold(turn):
        held.set()
        await go_on.wait()

    try:
        holding = asyncio.create_task(second.store.core.database.write(hold))
        await held.wait()
        with pytest.raises(Busy):
            await first.write("f", b"x")
        go_on.set()
        await holding
        await first.write("f", b"x")
        assert await second.read("f") == b"x"
    finally:
        await first.aclose()
        await second.aclose()
        await two.aclose()


async def test_a_change_that_is_cancelled_too_late_has_happened(postgres, tmp_path):
    fs = StoreDriver(opened(postgres.dsn, tmp_path, volume=f"v{abs(hash(tmp_path))}"))
    try:
        for pause_s in (0, 0, 0.001, 0.002, 0.005):
            await fs.write("f", b"before")
            writing = asyncio.create_task(fs.write("f", b"after"))
            await let_pass(pause_s)
            writing.cancel()
            (ended,) = await asyncio.gather(writing, return_exceptions=True)
            found = await fs.read("f")
            if isinstance(ended, asyncio.CancelledError):
                assert found in (b"before", b"after")
            else:
                assert found == b"after"
    finally:
        await fs.aclose()


WRITER = """
import asyncio, sys
from bailiwick.stores.volume import VolumeStore
from bailiwick.stores.volume.content.blobs import FolderBlobs
from bailiwick.testing.driver import StoreDriver

async def main(dsn, folder, volume, name):
    fs = StoreDriver(VolumeStore.open(dsn, volume=volume, blobs=FolderBlobs(folder)))
    for number in range(25):
        await fs.append("log", f"{name}{number}\\n".encode())
        await fs.write(f"{name}{number}", name.encode())
    await fs.aclose()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_three_processes_write_one_volume_and_lose_nothing(postgres, tmp_path):
    name = f"v{abs(hash(tmp_path))}"
    fs = StoreDriver(opened(postgres.dsn, tmp_path, volume=name))
    try:
        await fs.write("log", b"")
        command = [sys.executable, "-c", WRITER, postgres.dsn, str(tmp_path / "blobs"), name]
        writers = [subprocess.Popen([*command, each], cwd=os.getcwd()) for each in "abc"]
        codes = [await asyncio.to_thread(writer.wait) for writer in writers]
        assert codes == [0, 0, 0]
        lines = (await fs.read("log")).decode().split()
        assert sorted(lines) == sorted(f"{each}{number}" for each in "abc" for number in range(25))
        for each in "abc":
            assert [line for line in lines if line[0] == each] == [
                f"{each}{number}" for number in range(25)
            ]
        assert len(await fs.entries(".")) == 76
    finally:
        await fs.aclose()


@pytest.mark.spec("SCALE-3")
async def test_a_server_that_is_killed_loses_nothing_and_is_found_again(postgres, tmp_path):
    limits = Limits(database_connect_seconds_max=1.0)
    fs = StoreDriver(
        opened(postgres.dsn, tmp_path, volume=f"v{abs(hash(tmp_path))}", limits=limits)
    )
    acknowledged = []
    try:
        for number in range(20):
            await fs.write(f"f{number}", b"x")
            acknowledged.append(f"f{number}")
        with postgres.killed():
            with pytest.raises(BailiwickError) as failed:
                await fs.write("late", b"x")
            assert failed.value.retryable
            with pytest.raises(BailiwickError) as failed:
                await fs.read("f0")
            assert failed.value.retryable

        async def written_again():
            try:
                await fs.write("again", b"x")
            except BailiwickError as error:  # a busy machine takes a second to connect
                if not error.retryable:
                    raise
                return False
            return True

        await until(written_again)
        names = {entry.name for entry in await fs.entries(".")}
        assert names >= {*acknowledged, "again"}
    finally:
        await fs.aclose()


@pytest.mark.spec("SCALE-6")
@pytest.mark.parametrize("work", ["read", "write", "snapshot", "merge"])
async def test_a_silent_server_is_given_up_after_one_statement(postgres, tmp_path, work):
    """A statement has a second; what is waited for once more would take twenty."""
    limits = Limits(database_statement_seconds_max=1.0, database_connect_seconds_max=20.0)
    async with PostgresProxy(postgres) as proxy:
        name = f"v{abs(hash(tmp_path))}"
        fs = StoreDriver(
            await asyncio.to_thread(opened, proxy.dsn, tmp_path, volume=name, limits=limits)
        )
        try:
            await fs.write("f", b"x")
            versions = fs.store.versions
            fork = StoreDriver(await versions.fork("try"))
            await fork.write("g", b"x")
            await fork.aclose()
            done = {
                "read": lambda: fs.read("f"),
                "write": lambda: fs.write("f", b"y"),
                "snapshot": lambda: versions.snapshot("s"),
                "merge": lambda: versions.merge("try"),
            }[work]
            with proxy.stalled():
                async with asyncio.timeout(15):
                    with pytest.raises(Busy):
                        await done()
            await until(lambda: _succeeds(done))
        finally:
            await fs.aclose()


@pytest.mark.spec("SCALE-6")
async def test_who_has_no_more_patience_is_told_and_their_change_never_happens(postgres, tmp_path):
    """Be it that others are before it, or that it has begun."""
    name = f"v{abs(hash(tmp_path))}"
    fs = StoreDriver(opened(postgres.dsn, tmp_path, volume=name))
    other = await asyncpg.connect(postgres.dsn)
    try:
        await fs.write("f", b"1")
        held = other.transaction()
        await held.start()
        await other.execute(_LOCKED, name)
        with keeping(AT_ONCE_S), pytest.raises((Busy, IoError)) as told:
            await fs.write("f", b"2")
        patient = asyncio.ensure_future(fs.write("g", b"1"))
        await until(lambda: asyncio.to_thread(_is_waited_for, postgres.dsn))
        with keeping(AT_ONCE_S), pytest.raises(Busy):
            await fs.write("h", b"1")
        assert not patient.done()
        await held.rollback()
        await patient
        if isinstance(told.value, Busy):  # else a busy machine could not say in time
            assert await fs.read("f") == b"1"
        assert {entry.name for entry in await fs.entries(".")} == {"f", "g"}
    finally:
        await other.close()
        await fs.aclose()


@pytest.mark.spec("SCALE-6", "SCALE-8")
async def test_who_brings_tables_up_to_date_waits_no_longer_than_for_anything_else(
    postgres, tmp_path
):
    async with PostgresProxy(postgres) as proxy:
        core = await asyncio.to_thread(opened, proxy.dsn, tmp_path)
        fs = StoreDriver(core)
        try:
            await fs.write("f", b"1")
            [server] = [each for each in rows._servers.values() if each.place.dsn == proxy.dsn]
            with proxy.stalled(), keeping(AT_ONCE_S), pytest.raises(Busy):
                async with asyncio.timeout(4 * AT_ONCE_S):
                    await server.catch_up()
            await fs.write("f", b"2")
            assert await fs.read("f") == b"2"
        finally:
            await fs.aclose()


@pytest.mark.spec("SCALE-6")
async def test_who_is_cut_off_in_the_middle_of_a_statement_lets_others_change_the_volume(
    postgres, tmp_path
):
    """It had the row of the volume locked, and had sent a statement to be learnt: for that
    PostgreSQL has no limit of time."""
    name = f"v{abs(hash(tmp_path))}"
    async with PostgresProxy(postgres) as proxy:
        cut_off = StoreDriver(await asyncio.to_thread(opened, proxy.dsn, tmp_path, volume=name))
        other = StoreDriver(await asyncio.to_thread(opened, postgres.dsn, tmp_path, volume=name))
        try:
            await cut_off.write("f", b"x")
            fork = StoreDriver(await cut_off.store.versions.fork("try"))
            await fork.write("g", b"x")
            await fork.aclose()
            holds = proxy.stall_after(b"SELECT max(version) FROM change")
            lost = asyncio.ensure_future(cut_off.store.versions.merge("try"))
            await holds.wait()
            await until(lambda: asyncio.to_thread(_is_said, postgres.dsn, _LEARNING))
            await other.write("g", b"x")
            proxy.flow()
            with pytest.raises((Busy, IoError)):
                await lost
            await until(lambda: _succeeds(lambda: cut_off.write("h", b"x")))
        finally:
            await cut_off.aclose()
            await other.aclose()


_LEARNING = """
SELECT count(*) > 0 FROM pg_stat_activity
WHERE state = 'active' AND wait_event = 'ClientRead' AND query LIKE '%max(version)%'
"""

_LOCKED = "SELECT 1 FROM bailiwick.volume WHERE name = $1 FOR UPDATE"
_ALL_LOCKED = "LOCK TABLE bailiwick.volume IN EXCLUSIVE MODE"


@pytest.mark.spec("SCALE-6")
async def test_who_has_no_more_patience_ends_the_turn_of_nobody_else(postgres, tmp_path):
    """Who has time still waits for theirs, and does not share it with somebody who has none."""
    name = f"v{abs(hash(tmp_path))}"
    fs = StoreDriver(opened(postgres.dsn, tmp_path, volume=name))
    first, second = [await asyncpg.connect(postgres.dsn) for _ in range(2)]

    async def hurried():
        with keeping(4 * AT_ONCE_S):
            await fs.write("hurried", b"1")

    try:
        await fs.write("f", b"1")
        held, held_next = first.transaction(), second.transaction()
        await held.start()
        await first.execute(_LOCKED, name)
        before = asyncio.ensure_future(fs.write("before", b"1"))
        await until(lambda: asyncio.to_thread(_is_waited_for, postgres.dsn))
        await held_next.start()
        # For all of the table, which nobody is let to who comes later; for a row somebody may be.
        behind = asyncio.ensure_future(second.execute(_ALL_LOCKED))
        await until(lambda: asyncio.to_thread(_is_waited_for, postgres.dsn, 2))
        told, patient = asyncio.ensure_future(hurried()), asyncio.ensure_future(fs.write("g", b"1"))
        await give_a_chance()  # both wait for the turn that comes next
        await held.rollback()
        await before
        await behind
        with pytest.raises((Busy, IoError)):
            await told
        await give_a_chance()
        assert not patient.done()
        await held_next.rollback()
        await patient
        assert {entry.name for entry in await fs.entries(".")} >= {"f", "before", "g"}
    finally:
        await first.close()
        await second.close()
        await fs.aclose()


@pytest.mark.spec("SCALE-6")
async def test_where_statements_may_take_longer_a_change_may_too(postgres, tmp_path):
    """Be it more than all waits of a request together may take as a rule."""
    name = f"v{abs(hash(tmp_path))}"
    limits = Limits(database_statement_seconds_max=60.0, database_lock_seconds_max=60.0)
    fs = StoreDriver(opened(postgres.dsn, tmp_path, volume=name, limits=limits))
    other = await asyncpg.connect(postgres.dsn)
    try:
        await fs.write("f", b"1")
        held = other.transaction()
        await held.start()
        await other.execute(_LOCKED, name)
        with keeping(AT_ONCE_S):
            writing = asyncio.ensure_future(fs.write("f", b"2"))
            await until(lambda: asyncio.to_thread(_is_waited_for, postgres.dsn))
            await let_pass(2 * AT_ONCE_S)
            assert not writing.done()
            await held.rollback()
            await writing
        assert await fs.read("f") == b"2"
    finally:
        await other.close()
        await fs.aclose()


def _is_waited_for(dsn, waiting=1):
    return _is_said(dsn, "SELECT count(*) >= $1 FROM pg_locks WHERE NOT granted", waiting)


def _is_said(dsn, sql, *values):
    async def look():
        connection = await asyncpg.connect(dsn)
        try:
            return await connection.fetchval(sql, *values)
        finally:
            await connection.close()

    return asyncio.run(look())


async def _succeeds(done):
    try:
        await done()
    except (Busy, IoError):
        return False
    return True


@pytest.mark.spec("SCALE-1", "VOL-6")
@pytest.mark.parametrize(
    "statement",
    [
        tree.LISTING_UP_TO.postgres,
        f"SELECT d.name {tree.NAMES_IN_DIRECTORY} LIMIT $6",
        comparison._IN_DIRECTORY.postgres,
    ],
    ids=["listed", "names", "compared"],
)
async def test_a_listing_of_a_fork_looks_at_no_more_where_files_were_changed_often(
    postgres, tmp_path, statement
):
    """By the pages that it looks at, with no statistics: a table is new to the server at first."""
    looked_at = {}
    for changes in (5, 200):
        with postgres.fresh_database() as dsn:
            async with contextlib.aclosing(StoreDriver(opened(dsn, tmp_path))) as fs:
                await changed_often(fs, changes)
                await (await fs.store.versions.fork("work")).aclose()
            connection = await asyncpg.connect(dsn)
            try:
                looked_at[changes] = await pages_looked_at(connection, statement)
            finally:
                await connection.close()
    assert looked_at[200] <= looked_at[5] * 3, looked_at


async def pages_looked_at(connection, sql):
    """By a listing of the top of the youngest branch, as it is planned for any values."""
    branch, volume, last = await connection.fetchrow(
        "SELECT max(b.id), v.id, v.last FROM bailiwick.branch b"
        " JOIN bailiwick.volume v ON v.id = b.volume GROUP BY v.id, v.last"
    )
    await connection.execute(
        "SET search_path = bailiwick; SET plan_cache_mode = force_generic_plan"
    )
    explained = await connection.prepare(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}")
    end = 100 if sql.endswith("LIMIT $6") else "~"
    (plan,) = json.loads(await explained.fetchval(volume, branch, last, 1, "", end))
    assert plan["Plan"]["Actual Rows"] == 10
    return plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]
