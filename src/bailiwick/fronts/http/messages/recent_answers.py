"""What this process has answered of late to changes whose senders count their tries.

Where a root does not keep the key of a change with it, the process that made the change is the only
one that knows. It remembers some answers, the newest, in memory: whoever lost one asks again within
seconds. What it does not know any more, or another process has done, is not known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from bailiwick.model import KiB, MiB
from bailiwick.state.idempotency import StoredAnswer

ANSWERS_MAX = 1_024
ANSWER_BYTES_MAX = 64 * KiB
ANSWERS_BYTES_MAX = 16 * MiB
"""Answers that are remembered, how large one may be, and all together."""

Outcome = StoredAnswer | None
"""An answer; None where it says that nothing was done."""


class RecentAnswers:
    """Changes that are under way, and what those before were answered with."""

    def __init__(self) -> None:
        self._answers: dict[bytes, StoredAnswer] = {}
        self._under_way: dict[bytes, asyncio.Future[Outcome]] = {}
        self._bytes = 0

    async def known(self, mark: bytes) -> Outcome:
        """What was answered to a change, once it is; None where that is not known here."""
        under_way = self._under_way.get(mark)
        if under_way is not None:
            return await asyncio.shield(under_way)
        return self._answers.get(mark)

    def knows(self, mark: bytes) -> bool:
        return mark in self._under_way or mark in self._answers

    @contextmanager
    def remembering(self, mark: bytes) -> Iterator[asyncio.Future[Outcome]]:
        """Have a change under way: what is given to the future is remembered."""
        told: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._under_way[mark] = told
        try:
            yield told
        finally:
            del self._under_way[mark]
            if not told.done():
                told.set_result(None)
            answer = told.result()
            if answer is not None:
                self._remember(mark, answer)

    def _remember(self, mark: bytes, answer: StoredAnswer) -> None:
        if len(answer.body) > ANSWER_BYTES_MAX:
            return
        self._answers[mark] = answer
        self._bytes += len(answer.body)
        while len(self._answers) > ANSWERS_MAX or self._bytes > ANSWERS_BYTES_MAX:
            self._bytes -= len(self._answers.pop(next(iter(self._answers))).body)
