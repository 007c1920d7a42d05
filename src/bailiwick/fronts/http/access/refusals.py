"""Callers that were refused before anybody knew who they are, on record.

Whoever has no token can ask as often as they like, and must not fill the ledger by it: refusals are
counted, and a record a second says how many there were of each kind.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING

from bailiwick.audit import AuthorityRecord
from bailiwick.errors import BailiwickError, ForbiddenOrigin, Unauthenticated
from bailiwick.fronts.http.access.callers import ANONYMOUS
from bailiwick.fronts.http.messages.errors import new_request_id

if TYPE_CHECKING:
    from bailiwick.state.ledger.durable import DurableLedger

_GATHER_SECONDS = 1.0


class Refusals:
    """Counts refusals and puts them on record."""

    def __init__(self, ledger: DurableLedger) -> None:
        self._ledger = ledger
        self._counts = Counter[str]()
        self._gathering: asyncio.Task[None] | None = None
        self._closed = False

    def note(self, error: BailiwickError) -> None:
        """Count a refusal, if it is of a caller whom nobody knows."""
        if not isinstance(error, (Unauthenticated, ForbiddenOrigin)):
            return
        self._counts[error.kind] += 1
        if self._gathering is None and not self._closed:
            self._gathering = asyncio.ensure_future(self._gather())

    async def _gather(self) -> None:
        await asyncio.sleep(_GATHER_SECONDS)
        self._gathering = None
        await self._record()

    async def _record(self) -> None:
        counts, self._counts = self._counts, Counter()
        for kind, count in counts.items():
            await self._ledger.append_authority(
                AuthorityRecord(
                    time_ns=time.time_ns(), request_id=new_request_id(), subject=str(ANONYMOUS),
                    act="token", outcome="denied", error_kind=kind, front="http",
                    details={"refused": str(count)},
                )
            )  # fmt: skip

    async def aclose(self) -> None:
        """Put on record what was counted last."""
        self._closed = True
        if self._gathering is not None:
            self._gathering.cancel()
            await asyncio.wait((self._gathering,))
            self._gathering = None
        await self._record()
