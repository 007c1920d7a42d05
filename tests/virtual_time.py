"""An event loop whose clock a test turns: a timer is due the moment nothing else is to be done."""

import asyncio
import selectors
from concurrent.futures import Executor, Future


class _Selector(selectors.DefaultSelector):
    def select(self, timeout=None):
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            return super().select(None)
        self.loop.pass_time(timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Never waits: time passes by what timers ask for, and by `pass_time`.

    For programs without threads: work that is given to one is done by `LoopExecutor`.
    """

    def __init__(self):
        self._now_s = 1_000.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self):
        return self._now_s

    def pass_time(self, seconds):
        self._now_s += seconds


def run(coroutine):
    """As `asyncio.run`, in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)


class LoopExecutor(Executor):
    """Does what would be done by a thread on the loop itself, ``delay()`` seconds later."""

    def __init__(self, delay):
        self._delay = delay

    def submit(self, job, *arguments):
        future = Future()
        asyncio.get_running_loop().call_later(self._delay(), _work, future, job, arguments)
        return future


def _work(future, job, arguments):
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = job(*arguments)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
