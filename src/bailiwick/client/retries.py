"""What is asked again when it got no answer: how often, for how long, and under which key.

A change is sent under a key that is drawn for it, with the number of the try, so that a server
makes it once and whoever asks again is given its answer. What cannot be sent again is not: see
`bailiwick.client.transport`.
"""

from __future__ import annotations

import asyncio
import random
import secrets

from bailiwick.client.failures import comes_back_s, is_unanswered
from bailiwick.errors import BailiwickError

RETRY_SECONDS = 20.0
"""For how long after the first failure it is tried again, unless told: in that time a server is
started anew, one that has lost its database has found it again, and one that has died is known to
have (after fifteen)."""

RETRIES_MAX = 16
FIRST_RETRIES_MAX = 2
"""How often. A server that has never answered is most likely not there: its caller is told soon."""

PAUSE_SECONDS = 0.05
PAUSE_SECONDS_MAX = 2.0
"""The first pause, and the longest; each is twice as long as the one before. A part of it is left
to chance, so that those who lost one server do not all come to the next at once."""


class Retries:
    """The tries of one request."""

    def __init__(self, seconds: float, retries_max: int) -> None:
        self._until: float | None = None
        self._seconds = seconds
        self._left = retries_max
        self._pause = PAUSE_SECONDS
        self._key: str | None = None
        self._number = 1
        self._unanswered: BailiwickError | None = None
        self._is_pausing = False

    def headers(self) -> dict[str, str]:
        """What the next try of a change is sent with."""
        if self._key is None:
            self._key = secrets.token_hex(16)
        return {"idempotency-key": self._key, "idempotency-try": str(self._number)}

    def give_up(self) -> bool:
        """Try no more: nobody wants it any longer. Returns whether nothing is under way."""
        self._left = 0
        return self._is_pausing

    async def failed(self, error: BailiwickError, *, harmless: bool = False) -> None:
        """A try has failed: wait before the next one. ``harmless`` says that to try again is right,
        whatever it was. Raises where there is no next one: what failed, or that it is not known
        whether it was done, where an earlier try may have done it."""
        wait_s = 0.0 if harmless else comes_back_s(error)
        if is_unanswered(error):
            self._unanswered, wait_s = error, 0.0
            self._number += 1
        if wait_s is None:
            raise error
        now = asyncio.get_running_loop().time()
        if self._until is None:
            self._until = now + self._seconds
        pause = max(wait_s, self._pause * random.uniform(0.5, 1.0))
        if not self._left or now + pause > self._until:
            raise self._unanswered or error
        self._left -= 1
        self._pause = min(self._pause * 2, PAUSE_SECONDS_MAX)
        self._is_pausing = True
        try:
            await asyncio.sleep(pause)
        finally:
            self._is_pausing = False
