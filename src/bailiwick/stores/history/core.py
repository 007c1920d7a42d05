"""What the views of one directory with a history share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from bailiwick.errors import Closed
from bailiwick.finishing import to_the_end
from bailiwick.limits import Limits
from bailiwick.paths import ScopedPath
from bailiwick.store import HostDirectory, Store
from bailiwick.stores.history.capture import Looker
from bailiwick.stores.history.contents import Contents
from bailiwick.stores.history.ledger import HistoryLedger
from bailiwick.stores.history.lineage import Lineage
from bailiwick.stores.history.recorder import ChangeRecorder
from bailiwick.stores.history.turns import PathTurns

_LOOKS: Final = ("resolve", "descend", "stat", "children", "names_beside", "read", "stream",
                 "readlink")  # fmt: skip
_POWERS: Final = {
    "KnowsMissing": ("is_missing",),
    "Nominates": ("nominate",),
    "Watches": ("sight", "watch_tree"),
}
"""What is handed on as it is: a power whose methods change nothing."""

_DIRECTORY: Final = (
    "open_directory", "version_of", "tells_times", "mounts", "heeds_modes",
    "share_directory",
)  # fmt: skip

Collect = Callable[[], Awaitable[Any]]
"""Takes away what the volume that keeps large content does not need any more."""


class HistoryCore:
    """The wrapped store, its history, and the volume that keeps large content."""

    def __init__(
        self,
        inner: Store,
        ledger: HistoryLedger,
        keeper: Store,
        *,
        limits: Limits,
        collect: Collect | None = None,
        whole: HistoryCore | None = None,
    ) -> None:
        self.inner: Final = inner
        self.handed_on: Final = _handed_on(inner)
        self.ledger: Final = ledger
        self.keeper: Final = keeper
        self.limits: Final = limits
        self.collect: Final = collect
        self.lineage: Final = Lineage(ledger)
        self.contents: Final = Contents(ledger, keeper)
        self.looker: Final = Looker(inner, self.contents, self.lineage, limits)
        self.recorder: Final = ChangeRecorder(ledger, self.looker)
        self._whole: Final = whole
        self._turns: Final[PathTurns] = PathTurns() if whole is None else whole._turns
        self._closed = False
        self._is_settled = False
        self._under_way = 0
        self._idle: asyncio.Future[None] | None = None

    def view(self, inner: Store) -> HistoryCore:
        """This history for a stricter view of the same tree."""
        return HistoryCore(
            inner, self.ledger, self.keeper, limits=self.limits, collect=self.collect,
            whole=self._whole or self,
        )  # fmt: skip

    def check_open(self) -> None:
        if self._closed or (self._whole is not None and self._whole._closed):
            raise Closed("the store is closed")

    @contextmanager
    def working(self) -> Iterator[None]:
        """Be waited for by whoever closes the store. Raises `Closed`."""
        self._begin()
        try:
            yield
        finally:
            self._end()

    def _begin(self) -> None:
        self.check_open()
        self._under_way += 1

    def _end(self) -> None:
        self._under_way -= 1
        if self._idle is not None and not self._under_way and not self._idle.done():
            self._idle.set_result(None)

    def changing(self, *places: ScopedPath) -> _Changing:
        """Have a turn at some places, and all beneath them. Raises `Closed`."""
        return _Changing(self, places)

    async def settle(self, entry: int) -> None:
        """Find out what became of a change that failed, whoever is cancelled meanwhile."""
        await to_the_end(self.recorder.settle(entry))

    async def aclose(self) -> None:
        """Wait for changes under way, then let go. A view lets go of the wrapped view only."""
        if self._closed:
            return
        self._closed = True
        if self._whole is None:
            await self._turns.close()
        await self.recorder.settled()
        try:
            await self.inner.aclose()
        finally:
            if self._under_way:
                self._idle = asyncio.get_running_loop().create_future()
                await self._idle
            if self._whole is None:
                await self._let_go()

    async def _let_go(self) -> None:
        try:
            await self.ledger.aclose()
        finally:
            await self.keeper.aclose()


class _Changing:
    """A turn at some places. Written out: every change has one, and a generator costs more."""

    __slots__ = ("_core", "_places")

    def __init__(self, core: HistoryCore, places: tuple[ScopedPath, ...]) -> None:
        self._core = core
        self._places = places

    async def __aenter__(self) -> None:
        core, places = self._core, self._places
        core._begin()
        try:
            whole = core._whole or core
            if not whole._is_settled:
                whole._is_settled = True
                await whole.recorder.settle_dead()
            await core._turns.take(*places)
            try:
                core.check_open()
            except BaseException:
                core._turns.give_back(*places)
                raise
        except BaseException:
            core._end()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._core._turns.give_back(*self._places)
        self._core._end()


def _handed_on(inner: Store) -> dict[str, Any]:
    """The wrapped store's own methods, by name: found once, since every change has a view of its
    own."""
    has = inner.powers
    powers = (name for power, names in _POWERS.items() if power in has for name in names)
    directory = _DIRECTORY if isinstance(inner, HostDirectory) else ()
    return {name: getattr(inner, name) for name in (*_LOOKS, *powers, *directory)}
