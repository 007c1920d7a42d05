"""Whether what an authority keeps its state and its roots in answers, for who sends requests here.

Asked of the places themselves, on threads, and only when somebody wants to know: anybody may, so
that what was heard is good for a second, and whoever comes meanwhile shares the question.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from bailiwick.build.places import NamedPlace, blobs_of
from bailiwick.errors import Busy
from bailiwick.state.database import Database
from bailiwick.stores.volume.threads import RestingPool

if TYPE_CHECKING:
    from bailiwick.config.places import VolumePlace

_log = logging.getLogger("bailiwick.authority")

_GOOD_S: Final = 1.0
"""How long an answer holds: half of what a load balancer leaves between two questions."""

_PATIENCE_S: Final = 3.0
"""How long the places are waited for: who asks is to know within five seconds."""

_THREADS_MAX: Final = 8

_AGAIN: Final = "try again in a moment"


class Readiness:
    """Of one authority, which adds the places of its roots."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._places: dict[str, Callable[[], None]] = {}
        self._close: list[Callable[[], None]] = []
        self._threads = RestingPool(_THREADS_MAX, "bailiwick-ready")
        self._asking: asyncio.Future[None] | None = None
        self._failing = False
        self._heard_at = -_GOOD_S

    def add(self, place: NamedPlace) -> None:
        """The place of a root. Of those that are not on this machine it is asked whether they are
        there."""
        for mount in place.mounts or ():
            self.add(mount.place)
        if place.volume is not None:
            self._add(place.volume)

    def _add(self, volume: VolumePlace) -> None:
        if not volume.in_file and volume.file not in self._places:
            from bailiwick.stores.volume.rows.databases import answer

            self._places[volume.file] = partial(answer, volume.file)
        blobs = volume.blobs
        if blobs is not None and volume.blobs_folder is None and blobs not in self._places:
            self._places[blobs] = partial(self._ask_blobs, volume)

    def _ask_blobs(self, volume: VolumePlace) -> None:
        assert volume.blobs is not None
        blobs = blobs_of(volume)  # what does not fit together is told here, too
        self._close.append(blobs.close)
        self._places[volume.blobs] = blobs.answer
        blobs.answer()

    async def refuse_silence(self) -> None:
        """Raises `Busy` where the state, or what a root is kept in, does not answer."""
        if not self._database.is_answering:
            raise Busy("the database of the state does not answer", hint=_AGAIN)
        if not self._places:
            return
        if self._asking is None and time.monotonic() - self._heard_at > _GOOD_S:
            self._asking = asyncio.create_task(self._ask(), name="bailiwick-ready")
        if self._asking is not None:
            await asyncio.wait({self._asking}, timeout=_PATIENCE_S)
        if self._failing or self._asking is not None:
            raise Busy("what a root is kept in does not answer", hint=_AGAIN)

    async def _ask(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            asked = [
                loop.run_in_executor(self._threads, each) for each in list(self._places.values())
            ]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            failed = [str(each) for each in answers if each is not None]
            if failed and not self._failing:
                _log.warning("what a root is kept in does not answer: %s", "; ".join(failed))
            self._failing = bool(failed)
        finally:
            self._heard_at, self._asking = time.monotonic(), None

    async def aclose(self) -> None:
        """Let go of threads and connections, once what is under way has ended: that takes no longer
        than its bounds."""
        if self._asking is not None:
            await asyncio.wait({self._asking})
        self._threads.rest()
        for close in self._close:
            close()
