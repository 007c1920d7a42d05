"""What this process has answered of late to changes whose senders count their tries.

Where a root does not keep the key of a change with it, the process that made the change is the only
one that knows. It remembers some answers, the newest, in memory: whoever lost one asks again within
seconds. What it does not know any more, or another process has done, is not known. Where there is
no room left, whoever has the most remembered gives way: nobody is pushed out by somebody else's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from bailiwick.model import KiB, MiB
from bailiwick.state.idempotency import StoredAnswer

ANSWER_BYTES_MAX = 64 * KiB
ANSWERS_BYTES_MAX = 16 * MiB
"""How large an answer may be that is remembered, and all together."""

_ANSWER_BYTES_LEAST = 16 * KiB
"""What an answer counts for at least: there are no more than 1,024."""

Outcome = StoredAnswer | None
"""An answer; None where it says that nothing was done."""


class _OfCaller:
    """What one caller was answered, the oldest first."""

    def __init__(self) -> None:
        self.answers: dict[bytes, StoredAnswer] = {}
        self.bytes = 0

    def add(self, mark: bytes, answer: StoredAnswer) -> int:
        self.answers[mark] = answer
        return self._count(answer)

    def drop(self) -> int:
        return self._count(self.answers.pop(next(iter(self.answers))), -1)

    def _count(self, answer: StoredAnswer, sign: int = 1) -> int:
        counted = sign * max(len(answer.body), _ANSWER_BYTES_LEAST)
        self.bytes += counted
        return counted


class RecentAnswers:
    """Changes that are under way, and what those before were answered with."""

    def __init__(self) -> None:
        self._callers: dict[str, _OfCaller] = {}
        self._under_way: dict[bytes, asyncio.Future[Outcome]] = {}
        self._bytes = 0

    async def known(self, caller: str, mark: bytes) -> Outcome:
        """What was answered to a change, once it is; None where that is not known here. The caller
        is whoever is held to bounds for it (`bailiwick.state.grants.budgets`)."""
        under_way = self._under_way.get(mark)
        if under_way is not None:
            return await asyncio.shield(under_way)
        return self._remembered(caller).get(mark)

    def knows(self, caller: str, mark: bytes) -> bool:
        return mark in self._under_way or mark in self._remembered(caller)

    @contextmanager
    def remembering(self, caller: str, mark: bytes) -> Iterator[asyncio.Future[Outcome]]:
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
            if answer is not None and len(answer.body) <= ANSWER_BYTES_MAX:
                self._remember(caller, mark, answer)

    def _remembered(self, caller: str) -> dict[bytes, StoredAnswer]:
        own = self._callers.get(caller)
        return {} if own is None else own.answers

    def _remember(self, caller: str, mark: bytes, answer: StoredAnswer) -> None:
        self._bytes += self._callers.setdefault(caller, _OfCaller()).add(mark, answer)
        while self._bytes > ANSWERS_BYTES_MAX:
            fullest = max(self._callers, key=lambda each: self._callers[each].bytes)
            self._bytes += self._callers[fullest].drop()
            if not self._callers[fullest].answers:
                del self._callers[fullest]
