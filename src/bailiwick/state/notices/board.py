"""Following notices: one look for all who follow in this process, while anybody does.

Another process is heard of by the epoch, which is looked at ten times a second; what this one does
is told at once. A question that nobody answers is settled here when its time is up, so that those
who follow hear of it then and not when somebody asks the next one. Runs are told from the ledger,
so they are looked for, once a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

import msgspec

from bailiwick.errors import Closed
from bailiwick.notices import ApprovalNotice, Notice, RunNotice, Told
from bailiwick.patience import for_nobody
from bailiwick.state.approvals.desk import ApprovalDesk
from bailiwick.state.database import Database
from bailiwick.state.epoch import current_epoch
from bailiwick.state.notices.book import NoticeBook
from bailiwick.state.notices.run_watch import RunWatch
from bailiwick.state.runs.index import RunIndex

_log = logging.getLogger("bailiwick.notices")

LOOK_S = 0.1
"""How soon a follower notices what another process put down."""

RUNS_S = 1.0
"""How often runs are looked for: each look goes through what was recorded since."""


class _Follower(msgspec.Struct, frozen=True, eq=False):
    told: Told
    runs: bool


class NoticeBoard:
    """Tells followers of one process; to be used on the event loop that it was made on."""

    def __init__(
        self,
        database: Database,
        book: NoticeBook,
        desk: ApprovalDesk,
        runs: RunIndex | None,
        *,
        time_ns: Callable[[], int],
        look_s: float = LOOK_S,
    ) -> None:
        self._epoch = database.epoch
        self.book = book
        self._desk = desk
        self._time_ns = time_ns
        self._look_s = look_s
        self._runs = None if runs is None else RunWatch(runs, time_ns=time_ns)
        self._loop = asyncio.get_running_loop()
        self._followers: list[_Follower] = []
        self._looking: asyncio.Task[None] | None = None
        self._stirred = asyncio.Event()
        self._last = 0
        self._looked_under: bytes | None = None
        self._expires_ns: int | None = None
        self._runs_due = 0.0
        book.stir = self._stir

    def follow(self, told: Told, *, runs: bool = True) -> Callable[[], None]:
        """Have ``told`` called with every notice from now on, those of ``runs`` among them or not.
        Returns what ends it, which may be called twice. What ``told`` raises is logged and reaches
        nobody."""
        if not self._followers:
            self._last = self.book.newest
            self._looked_under = None
        if runs and self._runs is not None and not self._wants_runs:
            self._runs.begin()
            self._runs_due = 0.0
        follower = _Follower(told, runs)
        self._followers.append(follower)
        if self._looking is None:
            self._looking = self._loop.create_task(self._look(), name="bailiwick-notices")

        def end() -> None:
            with suppress(ValueError):
                self._followers.remove(follower)
            if not self._followers and self._looking is not None:
                self._looking.cancel()
                self._looking = None

        return end

    @property
    def _wants_runs(self) -> bool:
        return any(each.runs for each in self._followers)

    async def aclose(self) -> None:
        """End all following."""
        self._followers.clear()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait((self._looking,))
            self._looking = None

    def _stir(self) -> None:
        with suppress(RuntimeError):  # a loop that was closed waits for nothing
            self._loop.call_soon_threadsafe(self._stirred.set)

    async def _look(self) -> None:
        for_nobody()
        failing = False
        while True:
            self._stirred.clear()
            try:
                await self._look_once()
                failing = False
            except Closed:
                return
            except Exception as error:
                if not failing:
                    _log.warning("notices are not told for now", exc_info=error)
                failing = True
            timer = self._loop.call_later(self._look_s, self._stirred.set)
            try:
                await self._stirred.wait()
            finally:
                timer.cancel()

    async def _look_once(self) -> None:
        seen = current_epoch(self._epoch)
        if seen != self._looked_under:
            for row in self.book.since(self._last):
                self._last = row.seq
                if row.what == "review":
                    self._tell(row.review)
                    continue
                approval = self._desk.get(row.about, brief=True)
                if approval is not None:
                    self._tell(ApprovalNotice(kind=row.kind, approval=approval))  # type: ignore[arg-type]
            self._expires_ns = self._desk.next_expiry()
            self._looked_under = seen if self._epoch.is_steady(seen) else None
        if self._expires_ns is not None and self._time_ns() >= self._expires_ns:
            self._expires_ns = None
            self._looked_under = None
            await self._desk.prune()
            self._stirred.set()
        if (
            self._runs is not None and self._wants_runs and self._loop.time() >= self._runs_due
        ):  # fmt: skip
            self._runs_due = self._loop.time() + RUNS_S
            for notice in await self._runs.look():
                self._tell(notice)

    def _tell(self, notice: Notice) -> None:
        for follower in tuple(self._followers):
            if isinstance(notice, RunNotice) and not follower.runs:
                continue
            try:
                follower.told(notice)
            except Exception:
                _log.exception("whoever follows notices failed")
