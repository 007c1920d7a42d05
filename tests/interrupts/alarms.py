"""Real signals that raise in the main thread, at instants that a seed says."""

import contextlib
import gc
import random
import signal
import time


class Alarm(Exception):
    """What the handler of the tests raises."""


class Interrupter:
    """Real alarms at seeded instants, which raise in whatever the main thread does then."""

    def __init__(self, seed):
        self._random = random.Random(seed)
        self.span_s = 0.001

    def _ring(self, signum, frame):
        if frame.f_code.co_name == "_remove":
            return  # called by the collector, which would swallow it
        while frame is not None:
            if frame.f_code is self._act.__func__.__code__:
                raise Alarm
            frame = frame.f_back

    def _act(self, action):
        """Only what happens in here is interrupted."""
        action()

    @contextlib.contextmanager
    def installed(self):
        timer = signal.setitimer(signal.ITIMER_REAL, 0)  # of whoever watches over the tests
        before = signal.signal(signal.SIGALRM, self._ring)
        try:
            yield self
        finally:
            signal.signal(signal.SIGALRM, before)
            signal.setitimer(signal.ITIMER_REAL, *timer)
            # A coroutine that an alarm kept from being awaited is found here, not by another test.
            gc.collect()

    def measure(self, action):
        """How long it takes, so that alarms come while it is under way."""
        took = []
        for _ in range(5):
            begun = time.perf_counter()
            action()
            took.append(time.perf_counter() - begun)
        self.span_s = min(took)

    def interrupted(self, action, *, again_s=0.0):
        """Whether an alarm came while ``action`` was done; more of them every ``again_s``."""
        signal.setitimer(signal.ITIMER_REAL, self._random.uniform(1e-6, self.span_s * 1.1), again_s)
        came = False
        try:
            self._act(action)
        except Alarm:
            came = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        return came
