"""Starts `tests.state.worker` processes, lets them go at once, and ends them."""

import subprocess
import sys
from contextlib import contextmanager

from tests.laws.repository import ROOT


class Worker:
    def __init__(self, *arguments):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.state.worker", *map(str, arguments)],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def wait_ready(self):
        assert self._process.stdout.readline() == "ready\n"

    def go(self):
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def line(self):
        return self._process.stdout.readline().strip()

    def end(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(120)


@contextmanager
def workers(*jobs):
    """One process for each job, all of them ready."""
    started = [Worker(*job) for job in jobs]
    try:
        for worker in started:
            worker.wait_ready()
        yield started
    finally:
        for worker in started:
            worker.end()


def run_at_once(*jobs):
    """What each job printed, all let go at the same moment."""
    with workers(*jobs) as started:
        for worker in started:
            worker.go()
        return [worker.line() for worker in started]
