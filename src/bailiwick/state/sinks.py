"""Handing records on to whoever else wants them: a metrics exporter, a log, a collector.

A sink is a convenience, never a condition: it runs on a thread of its own, so that a slow one
delays nothing, and what it raises is counted and goes no further.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import NamedTuple

from bailiwick.audit import LedgerRecord
from bailiwick.state.encoding import decode

_log = logging.getLogger("bailiwick.state")

Sink = Callable[[Sequence[LedgerRecord]], None]
"""Takes some records, oldest first, once they are durable."""

Batch = tuple[int, list[tuple[int, bytes]]]
"""The number of the first record, and each with its time and body."""

_WAITING_RECORDS_MAX = 65_536
"""Records that wait for slow sinks; more are not handed on, and counted."""


class SinkHealth(NamedTuple):
    """How one sink is doing: calls that raised, records that it was too slow for."""

    name: str
    failures: int
    missed: int
    last_error: str | None


class Sinks:
    """Every sink of a ledger, and the thread they share. Without any there is no thread."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = tuple(sinks)
        self._failures = [0] * len(self._sinks)
        self._errors: list[str | None] = [None] * len(self._sinks)
        self._missed = 0
        self._put = 0  # counted by the writer's thread
        self._taken = 0  # counted by the sinks' thread
        self._queue: SimpleQueue[Batch | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        if self._sinks:
            self._thread = threading.Thread(target=self._serve, name="bailiwick-sinks", daemon=True)
            self._thread.start()

    def hand_on(self, first: int, records: list[tuple[int, bytes]]) -> None:
        """Queue records that are durable now. Called on the writer's thread only."""
        if self._thread is None:
            return
        if self._put - self._taken > _WAITING_RECORDS_MAX:
            self._missed += len(records)
            return
        self._put += len(records)
        self._queue.put((first, records))

    def health(self) -> tuple[SinkHealth, ...]:
        return tuple(
            SinkHealth(_name_of(sink), failures, self._missed, error)
            for sink, failures, error in zip(self._sinks, self._failures, self._errors, strict=True)
        )

    def close(self) -> None:
        """Hand on what waits, then end the thread. Closing twice does nothing."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            thread.join()

    def _serve(self) -> None:
        while (batch := self._queue.get()) is not None:
            first, bodies = batch
            records = [decode(first + index, body) for index, (_, body) in enumerate(bodies)]
            for index, sink in enumerate(self._sinks):
                self._hand(index, sink, records)
            self._taken += len(records)

    def _hand(self, index: int, sink: Sink, records: list[LedgerRecord]) -> None:
        try:
            sink(records)
        except BaseException as error:  # the thread serves the other sinks too
            self._failures[index] += 1
            self._errors[index] = f"{type(error).__name__}: {error}"
            _log.warning("a sink of the ledger failed: %s", _name_of(sink))


def _name_of(sink: Sink) -> str:
    return getattr(sink, "__qualname__", None) or type(sink).__name__
