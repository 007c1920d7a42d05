"""Threads for what blocks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any


class RestingPool(Executor):
    """A few threads for one purpose, which are there while they are needed.

    Whoever shares the pool may send it to rest: what was given to it is still done, and the next
    to give it something finds it awake.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._most, self._name)
            return self._threads.submit(work, *args, **kwargs)

    def rest(self) -> None:
        with self._lock:
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False)
