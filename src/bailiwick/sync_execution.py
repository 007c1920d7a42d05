"""A command under way, for blocking code."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, Self

from bailiwick.commands import ExecResult
from bailiwick.sandbox import Piece
from bailiwick.scope.execution import Execution


class SyncExecution:
    """An `Execution` for blocking code, started already: iterate over its output, then ask for its
    result."""

    def __init__(self, execution: Execution, run: Callable[..., Any]) -> None:
        """``run`` has a coroutine run to its end where the execution belongs: `Portal.run`."""
        self._execution = execution
        self._run = run

    @staticmethod
    async def begin(make: Callable[[], Execution]) -> Execution:
        """For the loop that it is to belong to: one that was started."""
        return await make()

    @staticmethod
    async def let_go(execution: Execution) -> None:
        """For one that nobody got. By its own method: one on a server is of another class."""
        await execution.aclose()

    @property
    def request_id(self) -> str:
        return self._execution.request_id

    def __iter__(self) -> Iterator[Piece]:
        return self.output()

    def output(self, since: int = 0) -> Iterator[Piece]:
        """What it prints, from a sequence number on, to its end."""
        pieces = self._execution.output(since)
        try:
            while (piece := self._run(_next(pieces))) is not None:
                yield piece
        finally:
            self._run(_close(pieces), stoppable=False)

    def result(self) -> ExecResult:
        """Wait until it has ended and what it changed was brought back."""
        result: ExecResult = self._run(self._execution.result())
        return result

    def write(self, data: bytes) -> None:
        """Hand ``data`` to its input. Raises `Closed` where it has none."""
        self._run(self._execution.write(data))

    def close_input(self) -> None:
        self._run(self._execution.close_input())

    def send_signal(self, signal: int) -> None:
        """To the command, and to what it started in its own group."""
        self._run(self._execution.send_signal(signal))

    def resize(self, rows: int, columns: int) -> None:
        """Its terminal has another size; without a terminal nothing happens."""
        self._run(self._execution.resize(rows, columns))

    def close(self) -> None:
        """End it, with everything it started; what it changed until then is not brought back."""
        self._run(self._execution.aclose(), stoppable=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


async def _next(pieces: AsyncGenerator[Piece, None]) -> Piece | None:
    return await anext(pieces, None)


async def _close(pieces: AsyncGenerator[Piece, None]) -> None:
    await pieces.aclose()
