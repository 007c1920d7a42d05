"""The authority's database: one writer, many readers, nothing half done."""

import asyncio
import errno
import os
import sqlite3
import subprocess
import sys
import threading

import apsw
import pytest

from bailiwick.errors import Busy, Closed, InternalError, IoError, PermissionDenied, Unsupported
from bailiwick.state import database as database_module
from bailiwick.state.database import FILE, Database, DatabasePart
from tests.state.ledgers import state_at

NUMBERS = DatabasePart("numbers", ("CREATE TABLE numbers (n INTEGER NOT NULL UNIQUE) STRICT",))

BOTH = pytest.mark.parametrize("kept", ["in a directory", "in memory"])


def place(kept, tmp_path):
    return tmp_path / "state" if kept == "in a directory" else None


def add(number):
    def job(connection):
        connection.execute("INSERT INTO numbers VALUES (?)", (number,))
        return number

    return job


def numbers(database):
    return [row[0] for row in database.read("SELECT n FROM numbers ORDER BY n")]


class Gate:
    """A job that holds the writer up, so that what is asked for meanwhile waits together."""

    def __init__(self, database):
        self._opened = threading.Event()
        self.entered = threading.Event()
        database.submit(self._wait)
        assert self.entered.wait(120)

    def _wait(self, connection):
        self.entered.set()
        assert self._opened.wait(120)

    def open(self):
        self._opened.set()


# --- where it is kept ------------------------------------------------------------------------


def test_directory_and_files_are_private(tmp_path):
    before = os.umask(0)
    try:
        with state_at(tmp_path / "deep" / "state", NUMBERS) as database:
            database.write_blocking(add(1))
            modes = {
                name: oct((tmp_path / "deep/state" / name).stat().st_mode & 0o777)
                for name in os.listdir(tmp_path / "deep/state")
            }
    finally:
        os.umask(before)
    assert (tmp_path / "deep/state").stat().st_mode & 0o777 == 0o700
    assert modes.pop("owners") == "0o700"
    assert set(modes.values()) == {"0o600"}
    assert {FILE, f"{FILE}-wal", "epoch"} <= set(modes)


def test_directory_that_others_may_write_is_refused(tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o770)
    with pytest.raises(PermissionDenied, match="others may write"):
        Database.open(str(tmp_path / "state"), [NUMBERS])
    assert os.listdir(tmp_path / "state") == []


def test_database_of_another_program_is_refused_and_left_alone(tmp_path):
    (tmp_path / "state").mkdir(0o700)
    foreign = tmp_path / "state" / FILE
    other = sqlite3.connect(foreign)
    other.execute("CREATE TABLE theirs (x)")
    other.commit()
    other.close()
    before = foreign.read_bytes()
    with pytest.raises(Unsupported, match="another program"):
        Database.open(str(tmp_path / "state"), [NUMBERS])
    assert foreign.read_bytes() == before


def test_file_that_is_no_database_is_io_error(tmp_path):
    (tmp_path / "state").mkdir(0o700)
    (tmp_path / "state" / FILE).write_bytes(b"not a database at all, and long enough " * 40)
    with pytest.raises(IoError, match="no database"):
        Database.open(str(tmp_path / "state"), [NUMBERS])


def test_link_in_place_of_the_database_is_not_followed(tmp_path):
    (tmp_path / "state").mkdir(0o700)
    (tmp_path / "elsewhere").write_bytes(b"")
    (tmp_path / "state" / FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="link"):
        Database.open(str(tmp_path / "state"), [NUMBERS])
    assert (tmp_path / "elsewhere").read_bytes() == b""


@pytest.mark.parametrize(("durability", "synchronous"), [("full", 2), ("rename", 1)])
def test_commit_is_synced_as_durability_says(durability, synchronous, tmp_path):
    with state_at(tmp_path, NUMBERS, durability=durability) as database:
        set_to = database.write_blocking(lambda connection: connection.pragma("synchronous"))
        assert set_to == synchronous
        assert database.read("PRAGMA journal_mode") == [("wal",)]


# --- schema ----------------------------------------------------------------------------------


@BOTH
def test_parts_are_brought_to_their_newest_version_in_order(kept, tmp_path):
    later = DatabasePart(
        "numbers", (*NUMBERS.versions, "ALTER TABLE numbers ADD COLUMN name TEXT", "SELECT 1")
    )
    with state_at(place(kept, tmp_path), NUMBERS) as database:
        database.write_blocking(add(1))
    with state_at(
        place(kept, tmp_path), later, DatabasePart("more", ("CREATE TABLE more (x)",))
    ) as again:
        again.read("SELECT name FROM numbers")
        versions = dict(again.read("SELECT name, version FROM parts"))
        assert versions == {"numbers": 3, "more": 1}
        assert numbers(again) == ([1] if kept == "in a directory" else [])


def test_migration_that_fails_leaves_everything_as_it_was(tmp_path):
    with state_at(tmp_path, NUMBERS) as database:
        database.write_blocking(add(7))
    broken = DatabasePart(
        "numbers", (*NUMBERS.versions, "DELETE FROM numbers; CREATE TABLE numbers (x)")
    )
    with pytest.raises(InternalError):
        Database.open(str(tmp_path), [broken])
    with state_at(tmp_path, NUMBERS) as database:
        assert numbers(database) == [7]


@pytest.mark.spec("SCALE-8")
def test_tables_are_not_changed_under_processes_that_do_not_know_them(tmp_path):
    later = DatabasePart("numbers", (*NUMBERS.versions, "ALTER TABLE numbers ADD COLUMN name TEXT"))
    other = DatabasePart("other", ("CREATE TABLE other (n INTEGER NOT NULL) STRICT",))
    with state_at(tmp_path, NUMBERS) as older:
        older.write_blocking(add(1))
        for _ in range(2):
            with pytest.raises(Busy, match="older Bailiwick"):
                Database.open(str(tmp_path), [later])
        # Tables that nobody else knows of are no other ones for them.
        with state_at(tmp_path, NUMBERS, other) as same:
            assert numbers(same) == [1]
        older.write_blocking(add(2))
    with state_at(tmp_path, later) as newer:
        assert newer.read("SELECT n, name FROM numbers ORDER BY n") == [(1, None), (2, None)]


def test_newer_state_is_refused(tmp_path):
    later = DatabasePart("numbers", (*NUMBERS.versions, "SELECT 1"))
    with state_at(tmp_path, later):
        pass
    with pytest.raises(Unsupported, match=r"newer Bailiwick.*'numbers' has version 2.*knows 1"):
        Database.open(str(tmp_path), [NUMBERS])


# --- writing ---------------------------------------------------------------------------------


@BOTH
async def test_write_returns_what_the_job_returned_and_reads_see_it(kept, tmp_path):
    with state_at(place(kept, tmp_path), NUMBERS) as database:
        assert await database.write(add(5)) == 5
        assert numbers(database) == [5]


@BOTH
async def test_jobs_that_wait_together_share_one_transaction(kept, tmp_path):
    with state_at(place(kept, tmp_path), NUMBERS) as database:
        gate = Gate(database)
        before = database.transactions
        waiting = [asyncio.ensure_future(database.write(add(n))) for n in range(100)]
        await asyncio.sleep(0)
        gate.open()
        assert await asyncio.gather(*waiting) == list(range(100))
        assert database.transactions == before + 1
        assert numbers(database) == list(range(100))


@BOTH
async def test_job_that_raises_is_undone_alone(kept, tmp_path):
    def fails(connection):
        connection.execute("INSERT INTO numbers VALUES (99)")
        raise LookupError("changed its mind")

    with state_at(place(kept, tmp_path), NUMBERS) as database:
        gate = Gate(database)
        waiting = [
            asyncio.ensure_future(database.write(job))
            for job in (add(1), fails, add(2), add(1), add(3))
        ]
        await asyncio.sleep(0)
        gate.open()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(result) for result in results] == [int, LookupError, int, InternalError, int]
        assert numbers(database) == [1, 2, 3]
        assert not database.broken


async def test_cancelled_before_its_turn_a_job_never_runs():
    with state_at(None, NUMBERS) as database:
        gate = Gate(database)
        waiting = asyncio.ensure_future(database.write(add(1)))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        gate.open()
        await database.write(add(2))
        assert numbers(database) == [2]


async def test_cancelled_too_late_a_write_returns_and_the_cancellation_comes_next():
    entered, leave, reached = threading.Event(), threading.Event(), []

    def slow(connection):
        entered.set()
        assert leave.wait(120)
        return add(1)(connection)

    async def caller(database):
        reached.append(await database.write(slow))
        await asyncio.sleep(0)
        reached.append("never")

    with state_at(None, NUMBERS) as database:
        task = asyncio.ensure_future(caller(database))
        await asyncio.to_thread(entered.wait)
        task.cancel()
        await asyncio.sleep(0)
        leave.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert reached == [1]
        assert numbers(database) == [1]


async def test_submitted_job_tells_the_event_loop_once_it_is_committed():
    with state_at(None, NUMBERS) as database:
        told = asyncio.get_running_loop().create_future()

        def after():
            told.set_result((threading.current_thread(), numbers(database)))

        database.submit(add(1), after)
        assert await told == (threading.current_thread(), [1])


async def test_submitted_jobs_run_in_order_with_those_that_are_awaited():
    with state_at(None, DatabasePart("log", ("CREATE TABLE log (n INTEGER)",))) as database:
        gate = Gate(database)
        for n in range(20):
            database.submit(
                lambda connection, n=n: connection.execute("INSERT INTO log VALUES (?)", (n,)),
                within_s=n % 3,
            )
        last = asyncio.ensure_future(
            database.write(lambda connection: connection.execute("INSERT INTO log VALUES (20)"))
        )
        await asyncio.sleep(0)
        gate.open()
        await last
        assert [n for (n,) in database.read("SELECT n FROM log ORDER BY rowid")] == list(range(21))


async def test_patient_job_waits_for_company_but_not_for_ever():
    with state_at(None, NUMBERS) as database:
        done = asyncio.Event()
        database.submit(add(1), within_s=3600)
        database.submit(add(2), done.set, within_s=0.001)
        await done.wait()
        assert (numbers(database), database.transactions) == ([1, 2], 1)


@pytest.mark.spec("AUDIT-4", "HTTP-11")
async def test_who_is_told_to_come_again_has_broken_nothing(tmp_path):
    """As whoever asks under a key while the first request under it is under way: others would have
    had their changes refused."""
    database = Database.open(str(tmp_path), [NUMBERS])
    try:

        def come_again(connection):
            raise Busy("it is under way")

        for told in (1, 3):  # alone, and together with others
            asked = [database.write(come_again) for _ in range(told)]
            refused = await asyncio.gather(*asked, return_exceptions=True)
            assert {type(each) for each in refused} == {Busy}
            assert not database.broken
    finally:
        await database.aclose()


def test_submitted_job_that_fails_is_counted_and_marks_the_state_broken(caplog):
    def fails(connection):
        raise LookupError("no")

    with state_at(None, NUMBERS) as database:
        ended = threading.Event()
        database.submit(fails, ended=lambda error: isinstance(error, LookupError) and ended.set())
        assert ended.wait(120)
        assert (database.failures, database.broken) == (1, True)
        assert "could not be written" in caplog.text
        database.write_blocking(add(1))
        assert (database.failures, database.broken) == (1, False)


async def test_action_on_commit_runs_only_if_the_job_is_kept():
    ran = []

    def job(connection, kept):
        database.on_commit(lambda: ran.append(kept))
        add(1)(connection)
        if not kept:
            raise LookupError

    with state_at(None, NUMBERS) as database:
        with pytest.raises(LookupError):
            await database.write(lambda connection: job(connection, False))
        await database.write(lambda connection: job(connection, True))
        assert ran == [True]
        with pytest.raises(RuntimeError):
            database.on_commit(ran.clear)


# --- failures of the machine -----------------------------------------------------------------


def fill_up(connection):
    pages = connection.pragma("page_count")
    connection.pragma("max_page_count", pages + 4)


def more_room(connection):
    connection.pragma("max_page_count", 1_000_000)


def large(number):
    def job(connection):
        connection.execute("INSERT INTO blobs VALUES (?, zeroblob(60000))", (number,))

    return job


BLOBS = DatabasePart("blobs", ("CREATE TABLE blobs (n INTEGER, data BLOB) STRICT",))


@BOTH
@pytest.mark.spec("AUDIT-4")
async def test_full_disk_is_io_error_for_whom_it_hits_and_passes(kept, tmp_path):
    with state_at(place(kept, tmp_path), NUMBERS, BLOBS) as database:
        await database.write(fill_up)
        gate = Gate(database)
        jobs = (add(1), large(1), add(2), large(2))
        waiting = [asyncio.ensure_future(database.write(job)) for job in jobs]
        await asyncio.sleep(0)
        gate.open()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        full = [result for result in results if isinstance(result, IoError)]
        assert {error.errno for error in full} == {errno.ENOSPC}
        # Whoever was told that it is kept finds it, and nobody else.
        assert numbers(database) == [result for result in results if isinstance(result, int)]
        assert database.read("SELECT count(*) FROM blobs") == [(0,)]
        assert "full" in database.last_error
        await database.write(more_room)
        await database.write(large(3))
        assert not database.broken
        assert database.read("SELECT n FROM blobs") == [(3,)]


async def test_transaction_that_sqlite_undoes_fails_for_all_who_were_in_it():
    def undone(connection):
        connection.execute("ROLLBACK")  # what SQLite does by itself after some failures
        raise apsw.FullError("database or disk is full")

    with state_at(None, NUMBERS) as database:
        gate = Gate(database)
        waiting = [
            asyncio.ensure_future(database.write(job)) for job in (add(1), undone, add(2), add(3))
        ]
        await asyncio.sleep(0)
        gate.open()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(result) for result in results] == [IoError, IoError, int, int]
        assert numbers(database) == [2, 3]


async def test_lock_of_another_process_is_busy_after_a_while(tmp_path, monkeypatch):
    monkeypatch.setattr(database_module, "_BUSY_MS_MAX", 50)
    with state_at(tmp_path, NUMBERS) as database:
        other = apsw.Connection(str(tmp_path / FILE))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Busy):
            await database.write(add(1))
        assert database.broken
        assert numbers(database) == []  # reading goes on
        other.execute("ROLLBACK")
        other.close()
        await database.write(add(2))
        assert (numbers(database), database.broken) == ([2], False)


# --- life ------------------------------------------------------------------------------------


@BOTH
async def test_closing_does_what_is_queued_and_refuses_what_comes_later(kept, tmp_path):
    kept_at = place(kept, tmp_path)
    with state_at(kept_at, NUMBERS) as database:
        done = []
        for n in range(50):
            database.submit(add(n), within_s=3600, ended=done.append)
        await database.aclose()
        assert done == [None] * 50
        await database.aclose()
        for late in (lambda: database.submit(add(1)), lambda: database.read("SELECT 1")):
            with pytest.raises(Closed):
                late()
        with pytest.raises(Closed):
            await database.write(add(1))
    if kept_at is not None:
        with state_at(kept_at, NUMBERS) as again:
            assert numbers(again) == list(range(50))


def test_closing_leaves_one_file_without_a_log_and_no_owner(tmp_path):
    with state_at(tmp_path, NUMBERS) as database:
        database.write_blocking(add(1))
    assert sorted(os.listdir(tmp_path)) == [FILE, "epoch", "owners"]
    assert os.listdir(tmp_path / "owners") == []


def test_process_that_ends_without_closing_keeps_what_it_queued(tmp_path):
    program = """if True:
        import sys
        from bailiwick.state.database import Database, DatabasePart
        database = Database.open(sys.argv[1], [DatabasePart("numbers", (
            "CREATE TABLE numbers (n INTEGER NOT NULL UNIQUE) STRICT",))])
        for n in range(30):
            database.submit(lambda c, n=n: c.execute("INSERT INTO numbers VALUES (?)", (n,)),
                            within_s=60)
        """
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=120)
    with state_at(tmp_path, NUMBERS) as database:
        assert numbers(database) == list(range(30))


def test_forked_child_does_not_touch_what_its_parent_uses(tmp_path):
    program = """if True:
        import os, sys, warnings
        warnings.simplefilter("ignore")
        from bailiwick.errors import Closed
        from bailiwick.state.database import Database, DatabasePart
        database = Database.open(sys.argv[1], [DatabasePart("numbers", (
            "CREATE TABLE numbers (n INTEGER NOT NULL UNIQUE) STRICT",))])
        add = lambda n: lambda c: c.execute("INSERT INTO numbers VALUES (?)", (n,))
        database.write_blocking(add(1))
        child = os.fork()
        if not child:
            for attempt in (lambda: database.write_blocking(add(2)), lambda: database.read("")):
                try:
                    attempt()
                except Closed:
                    continue
                os._exit(3)
            sys.exit(0)  # runs what is registered for the end
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert os.listdir(sys.argv[1] + "/owners") == [database.owner.name]
        database.write_blocking(add(3))
        """
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=120)
    with state_at(tmp_path, NUMBERS) as database:
        assert numbers(database) == [1, 3]


@pytest.mark.slow
def test_many_threads_read_while_one_writes(tmp_path):
    with state_at(tmp_path, NUMBERS) as database:
        wrong, stop = [], threading.Event()

        def look():
            while not stop.is_set():
                found = numbers(database)
                if found != list(range(len(found))):
                    wrong.append(found)

        readers = [threading.Thread(target=look) for _ in range(6)]
        for reader in readers:
            reader.start()
        for n in range(100):
            database.write_blocking(add(n))
        stop.set()
        for reader in readers:
            reader.join()
        assert wrong == []


def test_owners_are_alive_until_they_close_or_die(tmp_path):
    program = """if True:
        import os, signal, sys
        from bailiwick.state.database import Database
        print(Database.open(sys.argv[1], []).owner.name, flush=True)
        signal.pause()
        """
    with state_at(tmp_path, NUMBERS) as mine:
        with subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as process:
            theirs = process.stdout.readline().strip()
            assert mine.owner.is_alive(theirs)
            process.kill()
        assert not mine.owner.is_alive(theirs)
        assert mine.owner.is_alive(mine.owner.name)
        assert not mine.owner.is_alive("../epoch")
        # The next to open sweeps away what the dead have left, and nothing else.
        with state_at(tmp_path, NUMBERS) as other:
            assert sorted(os.listdir(tmp_path / "owners")) == sorted(
                [mine.owner.name, other.owner.name]
            )
            assert mine.owner.is_alive(other.owner.name)
            assert other.owner.is_alive(mine.owner.name)
