"""Figures for Prometheus: how many operations, with what outcome, how many bytes, how long.

A small registry of our own: three families of numbers need no client library. Every label takes its
values from a closed list, so that nobody can fill the memory of a process with new ones.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator

from bailiwick.audit import Record
from bailiwick.errors import KINDS
from bailiwick.operations import OPERATIONS
from bailiwick.policy import Context, Decision

BUCKETS_SECONDS = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
"""From a read out of the page cache to a search that uses up its time."""

_VERBS = frozenset(verb for operation in OPERATIONS.values() for verb in operation.verbs)
_OUTCOMES = frozenset(("success", "denied", "failed"))
_KINDS = frozenset(KINDS) | {"", "cancelled", "interrupted"}
_OTHER = "other"

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Durations:
    """The histogram of one verb."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_SECONDS) + 1)
        self.sum_ns = 0

    def add(self, duration_ns: int) -> None:
        self.counts[bisect_left(BUCKETS_SECONDS, duration_ns / 1e9)] += 1
        self.sum_ns += duration_ns


class Metrics:
    """A hook that counts. One may be registered with any number of roots, in any thread."""

    id = "metrics"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._operations: dict[tuple[str, str, str], int] = {}
        self._bytes: dict[str, int] = {}
        self._durations: dict[str, _Durations] = {}

    async def before(self, context: Context) -> Decision | None:
        return None

    async def after(self, context: Context, record: Record) -> None:
        self.count(record)

    def count(self, record: Record) -> None:
        """Take one record into account."""
        verb = _bounded(record.verb, _VERBS)
        outcome = _bounded(record.outcome, _OUTCOMES)
        kind = _bounded(record.error_kind or "", _KINDS)
        with self._lock:
            key = (verb, outcome, kind)
            self._operations[key] = self._operations.get(key, 0) + 1
            if record.bytes and record.outcome == "success":
                self._bytes[verb] = self._bytes.get(verb, 0) + record.bytes
            self._durations.setdefault(verb, _Durations()).add(record.duration_ns)

    def render(self) -> str:
        """Everything counted so far, in the text format of Prometheus (`CONTENT_TYPE`)."""
        with self._lock:
            return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        yield "# HELP bailiwick_operations_total Operations, by verb, outcome and error kind."
        yield "# TYPE bailiwick_operations_total counter"
        for (verb, outcome, kind), count in sorted(self._operations.items()):
            labels = f'verb="{verb}",outcome="{outcome}",kind="{kind}"'
            yield f"bailiwick_operations_total{{{labels}}} {count}"
        yield "# HELP bailiwick_bytes_total Bytes read or written by operations that succeeded."
        yield "# TYPE bailiwick_bytes_total counter"
        for verb, count in sorted(self._bytes.items()):
            yield f'bailiwick_bytes_total{{verb="{verb}"}} {count}'
        yield "# HELP bailiwick_operation_duration_seconds How long operations took, by verb."
        yield "# TYPE bailiwick_operation_duration_seconds histogram"
        for verb, durations in sorted(self._durations.items()):
            yield from _histogram_lines(verb, durations)


def _histogram_lines(verb: str, durations: _Durations) -> Iterator[str]:
    name, total = "bailiwick_operation_duration_seconds", 0
    for bound, count in zip((*BUCKETS_SECONDS, None), durations.counts, strict=True):
        total += count
        le = "+Inf" if bound is None else f"{bound:.10g}"
        yield f'{name}_bucket{{verb="{verb}",le="{le}"}} {total}'
    yield f'{name}_sum{{verb="{verb}"}} {durations.sum_ns / 1e9:.9f}'
    yield f'{name}_count{{verb="{verb}"}} {total}'


def _bounded(value: str, known: frozenset[str]) -> str:
    """A label's value from a closed list, which also means that none needs escaping."""
    return value if value in known else _OTHER
