"""One thread that writes: tasks share a commit, fail alone, and are withdrawn until their turn."""

import asyncio
import contextlib
import threading
import time

import apsw
import pytest

from bailiwick.errors import Busy, Closed, InternalError, IoError
from bailiwick.sqlite.failures import from_sqlite
from bailiwick.sqlite.tasks import Task
from bailiwick.sqlite.writer import Frame, WriterThread


class Noting(Frame):
    """Notes what happens around transactions."""

    def __init__(self):
        self.seen = []
        self.refusing = False

    def begin(self):
        self.seen.append("begin")

    def committing(self, *, control):
        if self.refusing:
            raise ZeroDivisionError
        self.seen.append(f"commit {control}")
        return contextlib.nullcontext()

    def undone(self):
        self.seen.append("undone")


@contextlib.contextmanager
def writing(path, frame=None, **options):
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE IF NOT EXISTS t (x PRIMARY KEY)")
    writer = WriterThread(connection, whose="test", frame=frame or Frame(), **options)
    try:
        yield writer
    finally:
        writer.close()
        connection.close()


def insert(value):
    def job(connection):
        connection.execute("INSERT INTO t VALUES (?)", (value,))
        return value

    return job


def rows(connection):
    return [row[0] for row in connection.execute("SELECT x FROM t ORDER BY x")]


async def test_tasks_that_wait_share_a_transaction_and_fail_alone(tmp_path):
    frame = Noting()
    with writing(tmp_path / "db", frame) as writer:
        gate, reached = threading.Event(), threading.Event()
        blocked = asyncio.ensure_future(writer.run(lambda _: reached.set() or gate.wait()))
        await asyncio.to_thread(reached.wait)
        waiting = [asyncio.ensure_future(writer.run(insert(n))) for n in (1, 2, 2, 3)]
        await asyncio.sleep(0)
        gate.set()
        await blocked
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [results[0], results[1], results[3]] == [1, 2, 3]
        assert isinstance(results[2], InternalError)
        assert writer.transactions == 1
        assert await writer.run(rows) == [1, 2, 3]
        assert frame.seen[:4] == ["begin", "commit False", "begin", "commit False"]


async def test_a_commit_that_cannot_be_prepared_undoes_the_whole_group(tmp_path):
    frame = Noting()
    with writing(tmp_path / "db", frame) as writer:
        frame.refusing = True
        with pytest.raises(ZeroDivisionError):
            await writer.run(insert(1))
        frame.refusing = False
        assert frame.seen == ["begin", "undone"]
        assert await writer.run(rows) == []
        assert await writer.run(insert(2), control=True) == 2
        assert frame.seen[-1] == "commit True"


@pytest.mark.spec("LIFE-1")
async def test_a_task_is_withdrawn_before_its_turn_and_carried_through_after_it(tmp_path):
    with writing(tmp_path / "db") as writer:
        gate, entered = threading.Event(), threading.Event()

        def slow(connection):
            entered.set()
            gate.wait()
            connection.execute("INSERT INTO t VALUES (1)")

        running = asyncio.ensure_future(writer.run(slow))
        await asyncio.to_thread(entered.wait)
        queued = asyncio.ensure_future(writer.run(insert(2)))
        await asyncio.sleep(0)
        queued.cancel()
        running.cancel()
        await asyncio.wait([queued])
        assert queued.cancelled()
        gate.set()
        await asyncio.wait([running])
        assert await writer.run(rows) == [1]


def test_a_thread_without_a_loop_waits_for_its_task(tmp_path):
    with writing(tmp_path / "db") as writer:
        assert writer.run_blocking(insert(1)) == 1
        with pytest.raises(InternalError):
            writer.run_blocking(insert(1))
        done = []

        def job(_):
            writer.on_commit(lambda: done.append("committed"))

        writer.run_blocking(job)
        assert done == ["committed"]


async def test_after_closing_nothing_is_taken(tmp_path):
    with writing(tmp_path / "db") as writer:
        last = asyncio.ensure_future(writer.run(insert(1)))
        await asyncio.sleep(0)
        await asyncio.to_thread(writer.close)
        assert await last == 1
        with pytest.raises(Closed, match="the test is closed"):
            await writer.run(insert(2))


def where(_connection):
    return threading.current_thread()


async def test_a_task_that_comes_alone_is_done_where_it_comes_from_if_there_is_no_disk(tmp_path):
    here = threading.current_thread()
    with writing(tmp_path / "db", inline_s=10.0, never_waits=True) as writer:
        assert await writer.run(where) is here
        assert await writer.run(insert(1)) == 1
        with pytest.raises(InternalError):
            await writer.run(insert(1))
        both = await asyncio.gather(writer.run(where), writer.run(where))
        assert here not in both
        assert await writer.run(where) is not here, "others may be about to come"
    with writing(tmp_path / "db", inline_s=1e-9, never_waits=True) as writer:
        for _ in range(3):
            assert await writer.run(where) is here
        assert await writer.run(where) is not here, "three of the last five were too slow"
    with writing(tmp_path / "db", never_waits=True) as writer:
        assert await writer.run(where) is not here


async def test_a_job_is_done_now_only_where_it_comes_alone_and_there_is_no_disk(tmp_path):
    here = threading.current_thread()
    with writing(tmp_path / "db", inline_s=10.0, never_waits=True) as writer:
        assert writer.run_inline(insert(1)) is None, "others may be about to come"
        await writer.run(rows)
        assert writer.run_inline(where).unwrap() is here
        assert writer.run_inline(insert(1)).unwrap() == 1
        with pytest.raises(InternalError):
            writer.run_inline(insert(1)).unwrap()
        both = await asyncio.gather(writer.run(where), writer.run(where))
        assert here not in both
        assert writer.run_inline(insert(2)) is None, "others may be about to come"
        assert await writer.run(rows) == [1]
    with writing(tmp_path / "db", inline_s=10.0) as writer:
        await writer.run(rows)
        assert writer.run_inline(insert(2)) is None, "there is a disk"
        assert await writer.run(rows) == [1]


async def test_nothing_is_synced_on_the_event_loop_where_there_is_a_disk(tmp_path):
    here = threading.current_thread()
    with writing(tmp_path / "db", inline_s=10.0) as writer:
        for number in range(40):
            assert await writer.run(where) is not here
            assert await writer.run(insert(number)) == number
            with pytest.raises(InternalError):
                await writer.run(insert(number))
        assert await writer.run(rows) == list(range(40))


async def test_a_caller_that_stands_still_gives_others_their_turn_in_between(tmp_path):
    turns = 0

    async def other():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    with writing(tmp_path / "db", inline_s=10.0, never_waits=True) as writer:
        beside = asyncio.ensure_future(other())
        for number in range(100):
            await writer.run(insert(number))
        beside.cancel()
        await asyncio.wait([beside])
        assert turns >= 5


async def test_a_slow_disk_keeps_the_event_loop_for_a_moment_only(tmp_path):
    entered, gate = threading.Event(), threading.Event()

    def slow(connection):
        entered.set()
        gate.wait()
        return connection.execute("INSERT INTO t VALUES (1) RETURNING x").fetchone()[0]

    with writing(tmp_path / "db", inline_s=10.0) as writer:
        waiting = asyncio.ensure_future(writer.run(slow))
        while not entered.is_set():
            await asyncio.sleep(0)
        # The task is under way and has no end, and the loop is here all the same.
        assert not waiting.done()
        gate.set()
        assert await waiting == 1


@pytest.mark.spec("LIFE-1")
async def test_who_is_cancelled_after_a_moment_of_standing_still_still_hears_the_end(tmp_path):
    entered, gate = threading.Event(), threading.Event()
    heard = []

    def slow(connection):
        entered.set()
        gate.wait()
        connection.execute("INSERT INTO t VALUES (1)")
        return "done"

    with writing(tmp_path / "db", inline_s=10.0) as writer:

        async def act():
            heard.append(await writer.run(slow))
            await asyncio.sleep(0)
            heard.append("never")

        task = asyncio.ensure_future(act())
        while not entered.is_set():
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        gate.set()
        await asyncio.wait([task])
        assert task.cancelled()
        assert heard == ["done"]
        assert await writer.run(rows) == [1]


@pytest.mark.spec("LIFE-1")
@pytest.mark.slow
async def test_who_is_cancelled_as_the_end_is_told_still_hears_it(tmp_path):
    """The cancellation and the answer come in the same turn of the loop, in either order."""
    with writing(tmp_path / "db") as writer:
        for number in range(200):
            job = insert(number)
            task = asyncio.ensure_future(writer.run(job))
            while writer.transactions < number + 1 and not task.done():
                await asyncio.sleep(0)
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=120)
            assert done, "nobody was told"
        assert await writer.run(rows) == list(range(200))


async def test_a_task_that_would_have_to_wait_is_left_to_the_thread(tmp_path):
    here = threading.current_thread()
    with writing(tmp_path / "db", inline_s=10.0, never_waits=True) as writer:
        other = apsw.Connection(str(tmp_path / "db"))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Busy):
            await writer.run(where)
        other.execute("COMMIT")
        other.close()
        assert await writer.run(where) is here


async def test_a_task_alone_that_fails_is_undone_and_one_that_refuses_costs_nothing(tmp_path):
    frame = Noting()

    def halfway(connection):
        connection.execute("INSERT INTO t VALUES (7)")
        raise ZeroDivisionError

    def refusing(_connection):
        raise ZeroDivisionError

    with writing(tmp_path / "db", frame, inline_s=10.0, never_waits=True) as writer:
        for job, seen in ((refusing, ["begin", "commit False"]), (halfway, ["begin", "undone"])):
            for run in (writer.run, lambda job: asyncio.to_thread(writer.run_blocking, job)):
                frame.seen.clear()
                with pytest.raises(ZeroDivisionError):
                    await run(job)
                assert frame.seen == seen
        assert await writer.run(rows) == []


@pytest.mark.spec("LIFE-1")
async def test_a_task_that_is_cancelled_before_it_is_done_at_once_is_not_done(tmp_path):
    with writing(tmp_path / "db", inline_s=10.0, never_waits=True) as writer:
        task = asyncio.ensure_future(writer.run(insert(1)))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert await writer.run(rows) == []


@pytest.mark.spec("ERR-3")
@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (apsw.BusyError, Busy), (apsw.LockedError, Busy), (apsw.FullError, IoError),
        (apsw.IOError, IoError), (apsw.CorruptError, IoError), (apsw.ReadOnlyError, IoError),
        (apsw.ConnectionClosedError, Closed), (apsw.SQLError, InternalError),
    ],
)  # fmt: skip
def test_what_sqlite_says_becomes_an_error_of_ours(cause, kind):
    mapped = from_sqlite(cause("/host/path"), "volume")
    assert type(mapped) is kind
    assert "volume" in str(mapped)
    if kind is not InternalError:
        assert "/host/path" not in str(mapped)


async def test_what_is_not_due_yet_goes_along_with_another_and_makes_no_transaction_of_its_own(
    tmp_path,
):
    frame = Noting()
    asked, ended = asyncio.Queue(), []
    loop = asyncio.get_running_loop()

    def later():
        loop.call_soon_threadsafe(asked.put_nowait, "asked")
        return time.monotonic() + 600

    with writing(tmp_path / "db", frame) as writer:
        writer.put(
            Task(insert(1), lambda *told: ended.append(told), None, due=1.0, still_due=later)
        )
        await asked.get()
        assert not frame.seen
        assert await writer.run(insert(2)) == 2
        assert await writer.run(rows) == [1, 2]
        assert ended == [(1, None)]
        assert writer.transactions == 1


@pytest.mark.parametrize("closing", [False, True])
async def test_what_has_nothing_left_to_do_is_given_up_and_what_is_queued_at_the_end_is_done(
    tmp_path, closing
):
    frame, asked = Noting(), threading.Event()
    ended = []

    def over():
        asked.set()
        return time.monotonic() + 600 if closing else None

    with writing(tmp_path / "db", frame) as writer:
        task = Task(insert(1), lambda *told: ended.append(told), None, due=1.0, still_due=over)
        writer.put(task)
        await asyncio.to_thread(asked.wait)
    assert ended == ([(1, None)] if closing else [])
    assert frame.seen == (["begin", "commit False"] if closing else [])


async def test_of_a_connection_that_others_read_on_nothing_is_used_out_of_turn(tmp_path):
    turn, in_turn = threading.RLock(), []

    class Watching(Frame):
        def wait(self, patiently):
            in_turn.append((patiently, turn._is_owned()))

    with writing(tmp_path / "db", Watching(), turn=turn, here_s=10.0) as writer:
        for number in range(0, 6, 3):
            assert writer.run_here(insert(number)) is not None
            await writer.run(insert(number + 1))
            await asyncio.gather(writer.run(insert(number + 2)), writer.run(insert(100 + number)))
    assert in_turn == [(False, True), (True, True)] * 2
