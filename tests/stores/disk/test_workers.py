"""Threads: cancelling, closing, and turns."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from bailiwick.errors import Busy, Closed
from bailiwick.stores.disk.workers import THREADS_MAX, NameTurns, Workers
from tests.waiting import for_ever, loop_turns, until


class Job:
    """A job that waits at a gate before it commits, and notes how far it came."""

    def __init__(self):
        self.loop = asyncio.get_running_loop()
        self.started = asyncio.Event()
        self.gate = threading.Event()
        self.trace = []

    def run(self, commit_first, stop):
        self.trace.append("started")
        if commit_first:
            stop.commit()
        self.loop.call_soon_threadsafe(self.started.set)
        assert self.gate.wait(120)
        stop.check()
        stop.commit()
        self.trace.append("done")
        return "result"


@pytest.mark.spec("LIFE-1")
async def test_a_job_cancelled_before_its_commit_is_abandoned_and_waited_for():
    workers, job = Workers(None), Job()
    task = asyncio.create_task(workers.run(job.run, False))
    await job.started.wait()
    task.cancel()
    await loop_turns(20)
    assert not task.done()
    task.cancel()  # impatience does not help
    await loop_turns(20)
    assert not task.done()
    job.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert job.trace == ["started"]
    await workers.aclose()


@pytest.mark.spec("LIFE-1")
async def test_a_job_cancelled_after_its_commit_is_carried_to_its_end():
    workers, job = Workers(None), Job()
    got = []

    async def caller():
        got.append(await workers.run(job.run, True))
        got.append("between")
        await asyncio.sleep(0)
        got.append("never")

    task = asyncio.create_task(caller())
    await job.started.wait()
    task.cancel()
    job.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert job.trace == ["started", "done"]
    assert got == ["result", "between"]
    await workers.aclose()


@pytest.mark.spec("LIFE-1")
@pytest.mark.parametrize("commit_first", [False, True])
async def test_a_timeout_stays_a_timeout(commit_first):
    workers, job = Workers(None), Job()

    async def within_a_moment():
        async with asyncio.timeout(None) as patience:
            running = asyncio.create_task(let_go_when_it_is_over(patience))
            try:
                await workers.run(job.run, commit_first)
                await for_ever()
            finally:
                await running

    async def let_go_when_it_is_over(patience):
        await job.started.wait()
        patience.reschedule(0)  # long ago
        await until(patience.expired)
        job.gate.set()

    with pytest.raises(TimeoutError):
        await within_a_moment()
    assert asyncio.current_task().cancelling() == 0
    assert job.trace == (["started", "done"] if commit_first else ["started"])
    await workers.aclose()


@pytest.mark.spec("LIFE-1")
async def test_a_job_cancelled_before_it_starts_never_runs():
    executor = ThreadPoolExecutor(1)
    workers, first, second = Workers(executor), Job(), Job()
    running = asyncio.create_task(workers.run(first.run, False))
    await first.started.wait()
    waiting = asyncio.create_task(workers.run(second.run, False))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    first.gate.set()
    assert await running == "result"
    assert second.trace == []
    await workers.aclose()
    executor.shutdown()


@pytest.mark.spec("LIFE-2")
async def test_closing_waits_for_jobs_and_then_refuses_them():
    workers, job = Workers(None), Job()
    task = asyncio.create_task(workers.run(job.run, False))
    await job.started.wait()
    closing = asyncio.create_task(workers.aclose())
    await loop_turns(20)
    assert not closing.done()
    with pytest.raises(Closed):
        await workers.run(job.run, False)
    job.gate.set()
    await closing
    assert await task == "result"
    assert not [t for t in threading.enumerate() if t.name.startswith("bailiwick-disk")]


async def test_a_lent_executor_is_used_and_not_shut_down():
    with ThreadPoolExecutor(1, thread_name_prefix="lent") as executor:
        workers = Workers(executor)
        assert await workers.run(lambda _stop: threading.current_thread().name) == "lent_0"
        await workers.aclose()
        assert executor.submit(lambda: 1).result() == 1


async def test_threads_are_few_and_made_when_needed():
    workers = Workers(None)
    assert threading.active_count() == len(threading.enumerate())
    names = await asyncio.gather(
        *(workers.run(lambda _stop: threading.current_thread().name) for _ in range(100))
    )
    assert len(set(names)) <= THREADS_MAX
    await workers.aclose()


async def test_a_jobs_error_is_the_callers():
    workers = Workers(None)

    def fail(_stop):
        raise KeyError("mine")

    with pytest.raises(KeyError):
        await workers.run(fail)
    await workers.aclose()


@pytest.mark.spec("WRITE-6")
async def test_turns_come_in_the_order_of_asking_and_only_for_one_key():
    queues, order = NameTurns(10), []

    async def take(key, name):
        await queues.take(key)
        order.append(name)
        await loop_turns(5)
        queues.give_back(key)

    await asyncio.gather(*(take("a", f"a{n}") for n in range(4)), take("b", "b"))
    assert order == ["a0", "b", "a1", "a2", "a3"]
    assert "a" not in queues.taken
    assert "b" not in queues.taken


@pytest.mark.spec("LIFE-1", "WRITE-6")
async def test_a_turn_not_taken_is_passed_on():
    turns = NameTurns(10)
    await turns.take("a")
    given_up = asyncio.create_task(turns.take("a"))
    patient = asyncio.create_task(turns.take("a"))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.wait([given_up])
    turns.give_back("a")
    await patient
    at_once = asyncio.create_task(turns.take("a"))
    await asyncio.sleep(0)
    turns.give_back("a")
    at_once.cancel()  # the turn came and the cancellation too
    await asyncio.wait([at_once])
    assert "a" not in turns.taken


async def test_a_turn_that_does_not_come_is_busy():
    turns = NameTurns(0.01)
    await turns.take("a")
    with pytest.raises(Busy):
        await turns.take("a")
    turns.give_back("a")
    assert "a" not in turns.taken
