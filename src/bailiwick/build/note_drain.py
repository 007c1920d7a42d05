"""Taking over the notes that a volume keeps with its changes, into the ledger of an authority.

On opening, before anybody gets a scope; then now and then, so that the volume need not keep them;
and when the root is closed. What is settled already is passed over: see
`bailiwick.state.ledger.notes`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from bailiwick.build.options import Options
from bailiwick.build.places import volume_store
from bailiwick.build.stores import let_go
from bailiwick.change_log import ChangeLog, Logs
from bailiwick.config.places import VolumePlace
from bailiwick.errors import BailiwickError
from bailiwick.finishing import in_thread
from bailiwick.periodic_task import PeriodicTask
from bailiwick.state.ledger.durable import DurableLedger
from bailiwick.store import Store
from bailiwick.stores.volume.rows.databases import has_volume

_log = logging.getLogger("bailiwick.authority")

_EVERY_S: Final = 5.0
_NOTES_AT_A_TIME: Final = 500
"""Some ten milliseconds of the ledger's writer, in which no other record is written."""


async def drain_once(place: VolumePlace, options: Options, ledger: DurableLedger) -> None:
    """Take over what is left in a volume that nobody has opened here yet. One that cannot be opened
    now keeps its notes; whoever asks for its root is told why."""
    try:
        store = await in_thread(_existing_store, place, options, let_go=let_go)
    except BailiwickError as error:
        _log.warning("notes of a volume could not be taken over: %s", error.message)
        return
    if store is None:
        return
    try:
        if isinstance(store, Logs):
            await (await Draining.begin(store.log, ledger)).drain()
    except BailiwickError as error:
        _log.warning("notes of a volume could not be taken over: %s", error.message)
    finally:
        await store.aclose()


def _existing_store(place: VolumePlace, options: Options) -> Store | None:
    return volume_store(place, options) if has_volume(place.file, place.volume) else None


class Draining:
    """Takes notes over from `open` until `aclose`."""

    def __init__(self, log: ChangeLog, ledger: DurableLedger, through: int) -> None:
        self._log = log
        self._ledger = ledger
        self._through = through
        self._foreign = False
        self._periodic: PeriodicTask | None = None
        self._turn = asyncio.Lock()

    @classmethod
    async def begin(cls, log: ChangeLog, ledger: DurableLedger) -> Draining:
        """Ready to go on where somebody has stopped."""
        return cls(log, ledger, await log.drained_through())

    @classmethod
    async def open(cls, log: ChangeLog, ledger: DurableLedger) -> Draining:
        draining = await cls.begin(log, ledger)
        await draining.drain()
        draining._periodic = PeriodicTask(draining.drain, name="draining", every_s=_EVERY_S)
        draining._periodic.begin()
        return draining

    async def drain(self) -> None:
        """Take over all that can be by now."""
        log = self._log
        async with self._turn:
            while notes := await log.notes(self._through, _NOTES_AT_A_TIME):
                taken = await self._ledger.take_over(log.notes_id, notes, self._through)
                before, self._through = self._through, taken.through
                await self._let_go(before, taken.through, taken.foreign)
                if taken.waiting:
                    return

    async def _let_go(self, before: int, through: int, foreign: int | None) -> None:
        """Tell the volume which notes it need not keep: none from the first on that another state
        wrote, since only that one knows whether it is on record."""
        if self._foreign:
            return
        if foreign is not None:
            self._foreign = True
            through = foreign - 1
        if through > before:
            await self._log.drained(through)

    async def aclose(self) -> None:
        """Stop, and take over what is left. To be called when all is settled, before the store is
        closed."""
        periodic, self._periodic = self._periodic, None
        if periodic is None:
            return
        await periodic.aclose()
        try:
            await self._ledger.flush()
            await self.drain()
        except BailiwickError as error:
            _log.warning("notes of a volume are left for the next start: %s", error.message)
