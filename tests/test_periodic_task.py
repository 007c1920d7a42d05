"""Work that comes again by itself."""

import asyncio

import pytest

from bailiwick.periodic_task import PeriodicTask
from tests.waiting import for_ever, let_pass, until


async def test_it_comes_again_though_it_failed(caplog):
    times = []

    async def work():
        times.append(len(times))
        if len(times) == 1:
            raise OSError("no luck")

    periodic = PeriodicTask(work, name="tidying", every_s=0.001)
    periodic.begin()
    await until(lambda: len(times) >= 3)
    await periodic.aclose()
    done = len(times)
    await periodic.aclose()
    assert [each.getMessage() for each in caplog.records] == ["tidying failed, and is tried again"]
    assert len(times) == done


async def test_closing_waits_for_the_end_of_the_work():
    began, ended = asyncio.Event(), []

    async def work():
        began.set()
        try:
            await for_ever()
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    periodic = PeriodicTask(work, name="tidying", first_s=0.0, every_s=60.0)
    periodic.begin()
    await began.wait()
    await periodic.aclose()
    assert ended


async def test_whoever_closes_it_can_be_cancelled():
    began, held = asyncio.Event(), asyncio.Event()

    async def work():
        began.set()
        try:
            await for_ever()
        finally:
            await held.wait()

    periodic = PeriodicTask(work, name="tidying", first_s=0.0, every_s=60.0)
    periodic.begin()
    await began.wait()
    closing = asyncio.create_task(periodic.aclose())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    held.set()
    await until(lambda: len(asyncio.all_tasks()) == 1)


async def test_after_long_work_it_rests_long():
    clock, began = asyncio.get_running_loop().time, []

    async def work():
        began.append(clock())
        if len(began) == 1:
            await let_pass(0.05)

    periodic = PeriodicTask(work, name="tidying", first_s=0.0, every_s=0.0, rest=2.0)
    periodic.begin()
    await until(lambda: len(began) >= 2)
    await periodic.aclose()
    assert began[1] - began[0] >= 0.14
