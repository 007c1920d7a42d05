"""Processes that are started to be killed."""

import os
import signal
import traceback
from collections.abc import Callable
from typing import Any

from tests.waiting import let_pass_blocking, until_blocking

HANG_SECONDS = 60


def read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def fork(function: Callable[[], Any]) -> int:
    """Run ``function`` in a child that leaves nothing but its exit code."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        function()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def wait_for_start(notes: str) -> None:
    """Until the child has opened the root, so that it is killed at its work."""
    until_blocking(lambda: read(notes), HANG_SECONDS)


def kill_after(child: int, seconds: float) -> bool:
    """Kill a child at that instant; whether it was still alive."""
    let_pass_blocking(seconds)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])
