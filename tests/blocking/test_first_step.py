"""The first step of a task is taken where it is begun."""

import asyncio
import contextvars
import gc
import os
import random
import threading
import weakref

import pytest

import bailiwick
from bailiwick.errors import Closed
from bailiwick.first_step import BeginsAtOnce
from bailiwick.portal import Portal
from tests.blocking.steps import here
from tests.waiting import PATIENCE_S, loop_turns, until_blocking

pytestmark = pytest.mark.spec("LINE-4", "LINE-5")


def test_what_does_not_wait_is_done_in_the_thread_that_calls(portal):
    assert here(portal)


def test_a_verb_of_a_blocking_scope_takes_its_first_step_in_the_callers_thread():
    seen = []

    class Told(os.PathLike):
        def __fspath__(self):
            seen.append(threading.get_ident())
            return "f"

    with bailiwick.open_sync("memory:") as fs:
        fs.write_bytes("f", b"1")
        until_blocking(lambda: fs.read_bytes(Told()) and seen[-1] == threading.get_ident())


def test_nobody_keeps_what_a_first_step_came_to(portal):
    class Result:
        pass

    async def work():
        return Result()

    assert here(portal)
    result = weakref.ref(portal.run(work()))
    gc.collect()
    assert result() is None


def test_what_waits_goes_on_on_the_loop_as_the_same_task(portal):
    async def work():
        task, thread = asyncio.current_task(), threading.get_ident()
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0))
        await asyncio.to_thread(int)
        assert asyncio.current_task() is task
        return thread, threading.get_ident()

    until_blocking(lambda: portal.run(work()) == (threading.get_ident(), portal._thread.ident))


def test_what_a_first_step_schedules_is_done_though_the_loop_rests(portal):
    soon, later = threading.Event(), threading.Event()

    async def work():
        loop = asyncio.get_running_loop()
        loop.call_soon(soon.set)
        loop.call_later(0.001, later.set)

    assert here(portal)
    portal.run(work())
    assert soon.wait(PATIENCE_S)
    assert later.wait(PATIENCE_S)


def test_a_generator_that_was_begun_in_a_first_step_is_ended_by_the_loop(portal):
    ended, thread = threading.Event(), []

    async def numbers():
        try:
            yield 1
        finally:
            await asyncio.sleep(0)
            thread.append(threading.get_ident())
            ended.set()

    async def work():
        async for number in numbers():
            return number
        raise AssertionError("there is one")

    assert here(portal)
    assert portal.run(work()) == 1
    gc.collect()
    assert ended.wait(PATIENCE_S)
    assert thread == [portal._thread.ident]


def test_a_variable_of_the_context_is_the_callers_and_stays_the_works_own(portal):
    variable = contextvars.ContextVar("variable", default=0)
    variable.set(1)

    async def work():
        token = variable.set(variable.get() + 1)
        await asyncio.sleep(0)
        seen = variable.get()
        variable.reset(token)
        return seen

    assert portal.run(work()) == 2
    assert variable.get() == 1


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_what_a_first_step_raises_comes_out_and_the_loop_goes_on(portal, error):
    async def work():
        raise error

    for _ in range(3):
        with pytest.raises(error):
            portal.run(work())
    assert here(portal)


def test_blocking_work_in_a_first_step_is_refused_not_waited_for(portal):
    async def work():
        inner = asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="own event loop"):
            portal.run(inner)
        return True

    for _ in range(3):
        assert portal.run(work())


def test_in_debug_mode_nothing_is_borrowed(portal):
    portal.loop.set_debug(True)

    async def thread():
        asyncio.get_running_loop().call_soon(int)
        return threading.get_ident()

    assert portal.run(thread()) == portal._thread.ident


def test_a_thread_that_runs_a_loop_does_not_borrow_another(portal):
    async def outside():
        async def thread():
            return threading.get_ident()

        return portal.run(thread())

    assert asyncio.run(outside()) == portal._thread.ident


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "volume"])
def test_many_threads_take_their_steps_on_one_scope(tmp_path, kind):
    place = {"memory": "memory:", "volume": f"sqlite:{tmp_path}/v.db"}[kind]
    failed = []

    def work(number, fs):
        chosen, mine = random.Random(number), {}
        try:
            for count in range(150):
                name = f"{number}-{chosen.randrange(5)}"
                if chosen.random() < 0.4:
                    mine[name] = b"%d" % count
                    fs.write_bytes(name, mine[name])
                elif name in mine:
                    assert fs.read_bytes(name).data == mine[name]
                else:
                    assert not fs.exists(name)
                fs.append("all", b"x")
        except BaseException as error:
            failed.append(error)

    with bailiwick.open_sync(place) as fs:
        fs.write_bytes("all", b"")
        threads = [threading.Thread(target=work, args=(number, fs)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert fs.stat("all").size == 6 * 150


def test_closing_while_others_take_their_steps_ends_them_all():
    for _ in range(20):
        portal, ended = Portal(), []
        begun = threading.Barrier(4)

        def work(portal=portal, ended=ended, begun=begun):
            async def step():
                await loop_turns(2)

            begun.wait()
            try:
                while True:
                    portal.run(step())
            except Closed:
                ended.append(True)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        begun.wait()
        portal.close()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert ended == [True] * 3


def test_a_task_that_is_begun_is_an_ordinary_task():
    class Loop(BeginsAtOnce, asyncio.SelectorEventLoop):
        pass

    seen = []

    async def work(count):
        seen.append(asyncio.current_task())
        await loop_turns(count)
        return count

    async def after(tasks):
        assert [await each for each in tasks] == [0, 1, 2]

    with asyncio.Runner(loop_factory=Loop) as runner:
        loop, tasks = runner.get_loop(), []

        def begin():
            tasks.extend(loop.begin(work(count)) for count in range(3))
            assert [each.done() for each in tasks] == [True, False, False]
            assert seen == tasks

        loop.call_soon(begin)
        runner.run(asyncio.sleep(0))
        runner.run(after(tasks))
        stopped = []
        loop.call_soon(lambda: stopped.append(loop.begin(work(10))))
        runner.run(asyncio.sleep(0))
        stopped[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            runner.run(after(stopped))
