"""The durable change feed of one root, in the authority's database.

The ledger inserts the changes of an operation in the transaction of its record (`keep_changes`), so
that there is neither one without the other. Rows are numbered by SQLite inside the one transaction
that writes at a time, hence in the order of their commits: whoever reads on from a number misses
nothing, in this process or another.

What other programs change is noticed by every process that watches. Each follows the feed, its own
changes included, and takes what is told there for known, in that order and as one would who cannot
look. What it sees and does not know it tells, in a transaction in which nothing was told of the
place that it had not heard of when it looked; else it looks again. Whatever is told is looked at
once more by all. So the feed ends with what is true, also where two processes changed one name and
the later change was committed first.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import apsw
import msgspec

from bailiwick.change_log import Logged
from bailiwick.errors import BailiwickError
from bailiwick.limits import Limits
from bailiwick.model import Change
from bailiwick.paths import ScopedPath
from bailiwick.recent import RecentFeed
from bailiwick.state.database import Connection, Database, DatabasePart, Statements
from bailiwick.state.news import News, Told
from bailiwick.store import Noticed, Watches

_log = logging.getLogger("bailiwick.state")

FEED: Final = DatabasePart(
    "feed",
    (
        """
        -- One row for each root that has a feed. `feed` is the feed's own name, which its cursors
        -- carry; `pruned` the number of the newest change that is not kept any more; `kept` counts
        -- those that are.
        CREATE TABLE feed_roots (
            id INTEGER PRIMARY KEY,
            root TEXT NOT NULL UNIQUE,
            feed TEXT NOT NULL,
            pruned INTEGER NOT NULL DEFAULT 0,
            kept INTEGER NOT NULL DEFAULT 0
        );
        -- One row for each change of any root. AUTOINCREMENT: a number is never used again, also
        -- when the newest rows were pruned. `beneath` is a list of names in MessagePack.
        CREATE TABLE feed (
            seq INTEGER PRIMARY KEY AUTOINCREMENT,
            root INTEGER NOT NULL REFERENCES feed_roots (id),
            time_ns INTEGER NOT NULL,
            kind TEXT NOT NULL,
            path TEXT NOT NULL,
            type TEXT NOT NULL,
            subject TEXT NOT NULL,
            request_id TEXT NOT NULL,
            version TEXT,
            origin TEXT,
            subtree INTEGER NOT NULL,
            beneath BLOB,
            beneath_truncated INTEGER NOT NULL
        );
        CREATE INDEX feed_by_root ON feed (root, seq);
        CREATE INDEX feed_by_path ON feed (root, path, seq);
        CREATE INDEX feed_by_origin ON feed (root, origin, seq) WHERE origin IS NOT NULL;
        """,
        """
        -- `kept` counts changes up to the number `counted`: to count each as it comes would be a
        -- row more to be written with every change.
        ALTER TABLE feed_roots ADD COLUMN counted INTEGER NOT NULL DEFAULT 0;
        UPDATE feed_roots SET counted =
            coalesce((SELECT max(seq) FROM feed WHERE root = feed_roots.id), pruned);
        """,
    ),
)

POLL_S: Final = 0.04
"""How often a follower looks for what other processes wrote; what this one wrote it hears of."""

_PRUNE_EVERY: Final = 64
_PRUNE_ROWS_MAX: Final = 256
"""So many old rows go with every so many new ones: faster than they come, and never a long wait."""

_ASK_AGAIN_S: Final = 0.05
_ASK_FOR_S: Final = 10.0
"""What was noticed where an announced change is not settled yet is that change, most likely: it is
looked at anew once that is settled. A process that takes longer to settle one than this is stuck,
and what was noticed is told."""

_TELL_AGAIN_S: Final = 1.0
"""When what could not be written is looked at again."""

_FOLLOW_ROWS: Final = 256
"""Rows that a watcher is told of at a time: some milliseconds."""

_BEHIND_ROWS_MAX: Final = 4_096
"""So many rows are compared with what is to be told: some milliseconds. A watcher that has more of
them to hear hears them first."""

_COLUMNS: Final = (
    "kind, path, type, subject, request_id, version, origin, subtree, time_ns, beneath,"
    " beneath_truncated"
)

_INSERT: Final = f"INSERT INTO feed (root, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[str, ...]).decode

Announced = Callable[[str, str], bool]
"""Whether a change of a path in a root was announced, by any process, and is not settled yet:
`DurableLedger.in_flight`."""


class DurableFeed(RecentFeed):
    """The changes of one root, kept with the authority's state. Made by `open`."""

    def __init__(
        self,
        database: Database,
        root: str,
        number: int,
        feed: str,
        *,
        limits: Limits,
        source: Watches | None,
        announced: Announced | None,
    ) -> None:
        super().__init__(feed, source=source, new_id=lambda: secrets.token_hex(6))
        self._database = database
        self._root = root
        self._number = number
        self._changes_max = limits.feed_changes_max
        self._age_ns_max = int(limits.feed_seconds_max * 1e9)
        self._announced = announced
        self._kept_since_pruning = 0
        self._poll: asyncio.TimerHandle | None = None
        self._ask_again: asyncio.TimerHandle | None = None
        self._noticed: list[News] = []
        self._held: list[News] = []
        self._followed = 0

    @classmethod
    async def open(
        cls,
        database: Database,
        root: str,
        *,
        limits: Limits | None = None,
        source: Watches | None = None,
        announced: Announced | None = None,
    ) -> DurableFeed:
        """The feed of ``root``, in a state that has the part `FEED`; begun if there was none.

        ``source`` is the root's store, if others can change it and it can notice that.
        """

        def begin(connection: Connection) -> tuple[int, str]:
            found: Any = connection.execute(
                "INSERT INTO feed_roots (root, feed) VALUES (?, ?)"
                " ON CONFLICT (root) DO UPDATE SET root = excluded.root RETURNING id, feed",
                (root, secrets.token_hex(8)),
            ).fetchall()
            number, feed = found[0]
            return number, feed

        number, feed = await database.write(begin)
        return cls(
            database, root, number, feed, limits=limits or Limits(), source=source,
            announced=announced,
        )  # fmt: skip

    # --- the log ------------------------------------------------------------------------------

    active = True
    """Somebody may ask later, in another process."""

    def activate(self) -> None:
        if not self.lookout.watching:
            self._followed = self._head()
            self._recent.clear()  # its cursors name a time of watching that is over

    _now_ns = staticmethod(time.time_ns)

    async def head(self) -> int:
        return self._head()

    def _head(self) -> int:
        rows = self._database.read(
            "SELECT seq FROM feed WHERE root = ? ORDER BY seq DESC LIMIT 1", (self._number,)
        )
        return int(rows[0][0]) if rows else self._floor()

    async def floor(self) -> int:
        return self._floor()

    def _floor(self) -> int:
        rows = self._database.read("SELECT pruned FROM feed_roots WHERE id = ?", (self._number,))
        return int(rows[0][0])

    async def read_log(self, after: int, limit: int) -> Logged:
        return self._rows_after(after, limit)

    def _rows_after(self, after: int, limit: int) -> Logged:
        rows = self._database.read(
            f"SELECT seq, {_COLUMNS} FROM feed WHERE root = ? AND seq > ? ORDER BY seq LIMIT ?",
            (self._number, after, limit),
        )
        return Logged(
            [(row[0], _change_of(row[1:])) for row in rows], rows[-1][0] if rows else after
        )

    def place_of(self, version: int) -> int:
        return version

    # --- keeping ------------------------------------------------------------------------------

    def keep_changes(self, statements: Statements, changes: Sequence[Change]) -> None:
        """Insert changes in somebody's transaction, all or none of them. For the ledger, by whoever
        has the database to themselves."""
        now = time.time_ns()
        self._kept_since_pruning += len(changes)
        prunes = self._kept_since_pruning >= _PRUNE_EVERY
        if len(changes) == 1 and not prunes and not self._database.is_shared:
            # Most of the time: SQLite undoes one statement by itself.
            statements.execute(_INSERT, _row_of(self._number, changes[0], now))
            return
        rows = [_row_of(self._number, change, now) for change in changes]
        statements.execute("SAVEPOINT feed")
        try:
            statements.executemany(_INSERT, rows)
            if prunes:
                self._kept_since_pruning = 0
                self._prune(statements, now)
        except Exception:
            with suppress(apsw.Error):  # where the machine failed, all may be undone already
                statements.execute("ROLLBACK TO feed")
                statements.execute("RELEASE feed")
            raise
        statements.execute("RELEASE feed")

    def changes_kept(self) -> None:
        """What was kept is committed: tell whoever follows. On the event loop."""
        if not self._closed:
            self._hear()

    def publish(self, changes: Sequence[Change]) -> None:
        """Tell what one operation changed, where no ledger does so in a transaction of its own."""
        if changes and not self._closed:
            told = self.prepared(changes)
            self._submit(lambda connection: self.keep_changes(connection, told), self.changes_kept)

    def _submit(
        self,
        job: Callable[[Connection], None],
        after: Callable[[], None],
        ended: Callable[[BaseException | None], None] | None = None,
    ) -> None:
        try:
            self._database.submit(job, after, ended=ended)
        except BailiwickError as error:
            _log.error("changes could not be put into the feed", exc_info=error)

    def _prune(self, statements: Statements, now_ns: int) -> None:
        """Count what came since the last time, and take away a few of the oldest changes, if they
        are too many or too old."""
        statements.execute(
            "UPDATE feed_roots SET"
            " kept = kept + (SELECT count(*) FROM feed WHERE root = ?1 AND seq > counted),"
            " counted = (SELECT max(seq) FROM feed WHERE root = ?1) WHERE id = ?1",
            (self._number,),
        )
        kept: Any = statements.execute(
            "SELECT kept FROM feed_roots WHERE id = ?", (self._number,)
        ).fetchall()[0][0]
        oldest: Any = statements.execute(
            "SELECT seq, time_ns FROM feed WHERE root = ? ORDER BY seq LIMIT ?",
            (self._number, _PRUNE_ROWS_MAX),
        ).fetchall()
        gone, last = 0, 0
        for seq, time_ns in oldest:
            if kept - gone <= self._changes_max and time_ns >= now_ns - self._age_ns_max:
                break
            gone, last = gone + 1, seq
        if gone:
            statements.execute("DELETE FROM feed WHERE root = ? AND seq <= ?", (self._number, last))
            statements.execute(
                "UPDATE feed_roots SET kept = kept - ?, pruned = ? WHERE id = ?",
                (gone, last, self._number),
            )

    # --- hearing of what was kept -------------------------------------------------------------

    def _hear(self) -> None:
        """Something may have been added, here or elsewhere."""
        self._follow_told()
        self.wake_for_more()

    def subscribe(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        unsubscribe = super().subscribe(listener)
        if len(self._listeners) == 1:
            self._heard = self._head()
        self._someone_waits(self._heard)
        return unsubscribe

    def _someone_waits(self, position: int) -> None:
        if self._poll is None and not self._closed:
            self._follow_told()  # nobody looked for a while
            loop = asyncio.get_running_loop()
            self._poll = loop.call_later(POLL_S, self._look_for_more, position)

    def _look_for_more(self, seen: int) -> None:
        """Whether another process added something. Ends when nobody waits or listens."""
        self._poll = None
        if self._closed:
            return
        try:
            head = self._head()
        except BailiwickError as error:
            _log.warning("the change feed could not be read", exc_info=error)
            head = seen
        if head > seen:
            self._hear()
        if self._waiting or self._listeners:
            self._poll = asyncio.get_running_loop().call_later(POLL_S, self._look_for_more, head)

    def close(self) -> None:
        super().close()
        for timer in (self._poll, self._ask_again):
            if timer is not None:
                timer.cancel()

    # --- what others change -------------------------------------------------------------------

    def _follow_told(self) -> None:
        """Have the watcher take for known what was told, by anyone: it compares with nothing else.
        A little at a time."""
        if self._closed or not self.lookout.watching:
            return
        try:
            rows = self._rows_after(self._followed, _FOLLOW_ROWS).changes
        except BailiwickError as error:
            _log.warning("the change feed could not be read", exc_info=error)
            return
        for seq, change in rows:
            self.lookout.told(change)
            self._followed = seq
        if len(rows) == _FOLLOW_ROWS:
            asyncio.get_running_loop().call_soon(self._follow_told)

    def _tell_noticed(self, noticed: Sequence[Noticed]) -> None:
        """Until what was noticed is told, or is not to be, the watcher looks at nothing there."""
        loop = asyncio.get_running_loop()
        news = News(tuple(noticed), self._followed, loop.time() + _ASK_FOR_S)
        for path in news.places:
            self.in_flight.begin(path)
        if not self._noticed:
            loop.call_soon(self._decide)  # with what is noticed besides, in one transaction
        self._noticed.append(news)

    def _decide(self) -> None:
        """Tell what nobody has announced. The rest is that change, most likely."""
        noticed, self._noticed = self._noticed, []
        clear: list[News] = []
        for news in noticed:
            (self._held if self._is_announced(news) else clear).append(news)
        self._tell(clear)
        self._ask_later()

    def _ask_later(self) -> None:
        if self._held and self._ask_again is None:
            loop = asyncio.get_running_loop()
            self._ask_again = loop.call_later(_ASK_AGAIN_S, self._again)

    def _again(self) -> None:
        """What was announced and is settled by now has been told as that: it is looked at anew."""
        self._ask_again = None
        if self._closed:
            return
        now = asyncio.get_running_loop().time()
        held, self._held = self._held, []
        stuck: list[News] = []
        settled: list[News] = []
        for news in held:
            if not self._is_announced(news):
                settled.append(news)
            else:
                (self._held if now < news.until else stuck).append(news)
        self._tell(stuck)
        self._ask_later()
        self._follow_told()
        self._decided(settled)

    def _tell(self, news: Sequence[News]) -> None:
        """Tell what was noticed, unless something was told there that the watcher did not know."""
        if not news:
            return
        loop = asyncio.get_running_loop()

        def keep(connection: Connection) -> None:
            rows: Any = connection.execute(
                "SELECT seq, path, origin FROM feed WHERE root = ? AND seq > ?"
                " ORDER BY seq LIMIT ?",
                (self._number, min(each.known for each in news), _BEHIND_ROWS_MAX + 1),
            ).fetchall()
            if len(rows) > _BEHIND_ROWS_MAX:
                return
            told = Told()
            for row in rows:
                told.add(*row)
            for each in news:
                if not told.concerns(each):
                    self.keep_changes(connection, [noticed.change for noticed in each.noticed])

        def kept() -> None:
            self.changes_kept()
            self._decided(news)

        def ended(error: BaseException | None) -> None:
            if error is not None:
                with suppress(RuntimeError):  # the loop may be gone
                    loop.call_soon_threadsafe(loop.call_later, _TELL_AGAIN_S, self._decided, news)

        self._submit(keep, kept, ended)

    def _decided(self, news: Sequence[News]) -> None:
        """Told or not: what stands there by now is looked at, and compared with what was told."""
        for each in news:
            for path in each.places:
                self.in_flight.end(path)
            for noticed in each.noticed:
                self.lookout.look_anew(noticed)

    def _is_announced(self, news: News) -> bool:
        if self._announced is None:
            return False
        try:
            return any(self._announced(self._root, path) for path in news.places)
        except BailiwickError as error:
            _log.warning("announced changes could not be read", exc_info=error)
            return True


def _row_of(root: int, change: Change, now_ns: int) -> tuple[Any, ...]:
    return (
        root, change.kind, str(change.path), change.type, change.subject, change.request_id,
        change.version, None if change.origin is None else str(change.origin), int(change.subtree),
        change.time_ns or now_ns, _encode(change.beneath) if change.beneath else None,
        int(change.beneath_truncated),
    )  # fmt: skip


def _change_of(row: tuple[Any, ...]) -> Change:
    kind, path, type_, subject, request_id, version, origin, subtree, time_ns, beneath, cut = row
    return Change(
        kind=kind, path=ScopedPath(path), type=type_, subject=subject, request_id=request_id,
        version=version, origin=None if origin is None else ScopedPath(origin),
        subtree=bool(subtree), time_ns=time_ns, beneath=_decode(beneath) if beneath else (),
        beneath_truncated=bool(cut),
    )  # fmt: skip
