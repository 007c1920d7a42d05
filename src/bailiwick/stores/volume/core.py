"""An open volume: the database, the branch that is looked at, and what all views of it share."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import Final, NamedTuple, TypeVar

from bailiwick.errors import (
    BailiwickError,
    Closed,
    IoError,
    LockHeld,
    ParseError,
    ReadOnly,
    RootNotFound,
)
from bailiwick.finishing import to_the_end
from bailiwick.limits import Limits
from bailiwick.model import NewFileMode
from bailiwick.stores.volume.content.blobs import Blobs, FolderBlobs
from bailiwick.stores.volume.content.chunks import Hashes
from bailiwick.stores.volume.content.compression import Pack, packing
from bailiwick.stores.volume.lookup.cache import Cache, Own
from bailiwick.stores.volume.lookup.shared_rounds import SharedRounds
from bailiwick.stores.volume.refusals import stale_token
from bailiwick.stores.volume.rows.checksums import row_guard
from bailiwick.stores.volume.rows.database import (
    HEAD,
    INFINITY,
    AnswersAtOnce,
    Pin,
    RowDatabase,
    RowSession,
    SharedDatabase,
    Transaction,
)
from bailiwick.stores.volume.rows.databases import acquire
from bailiwick.stores.volume.rows.mutation import Mutation
from bailiwick.stores.volume.rows.records import (
    DIRECTORY,
    PERMISSION_BITS,
    BranchView,
    Inode,
    RowKey,
    RowPlace,
)
from bailiwick.stores.volume.rows.sqlite_file import Work
from bailiwick.stores.volume.rows.tree import (
    Level,
    PinnedTree,
    RowTree,
    catch_up_with,
    levels_of,
    remember_step,
    step_over,
)
from bailiwick.stores.volume.uptime import Uptime, uptime_of_this_machine
from bailiwick.versions import Mark

Result = TypeVar("Result")

MAIN: Final = "main"

FIRST: Final = 2
"""The number of the first branch of every volume, which is never deleted."""

_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_]{0,63}").fullmatch

_FIND: Final = "SELECT id, uid, root, last FROM volume WHERE name = $1"
_MAKE: Final = """
INSERT INTO volume (id, name, uid, root, last, horizon, locks, drained, created_ns)
VALUES ((SELECT coalesce(max(id), 0) + 1 FROM volume), $1, $2, 1, 3, 0, 0, 0, $3)
"""
_GUARD: Final = "UPDATE volume SET guard = $2 WHERE id = $1"
GUARDED: Final = "SELECT guard, id, name, uid, root, created_ns FROM volume WHERE guard IS NOT NULL"
_MAKE_BRANCH: Final = """
INSERT INTO branch (volume, id, name, parent, at, expires_ms, created_ns, guard)
VALUES ($1, 2, 'main', 0, 0, $2, $3, $4)
"""
_MAKE_ROOT: Final = """
INSERT INTO inode (volume, branch, id, born, kind, mode, size, mtime_ns, edition, created_ns)
VALUES ($1, 2, 1, 3, $2, $3, 0, $4, 3, $4)
"""
_MAKE_LINEAGE: Final = """
INSERT INTO lineage (volume, branch, depth, ancestor, bound) VALUES ($1, $2, $3, $4, $5)
"""
_PIN: Final = """
INSERT INTO pin (volume, session, version, expires_ms) VALUES ($1, $2, $3, $4)
ON CONFLICT (volume, session) DO UPDATE SET
    version = excluded.version, expires_ms = excluded.expires_ms
"""
_UNPIN: Final = "DELETE FROM pin WHERE volume = $1 AND session = $2"
_PIN_S: Final = 60.0
"""How long a process that does nothing is still believed to read."""

_FOREIGN_LEASES: Final = """
SELECT branch, token, expires_ms FROM lease WHERE volume = $1 AND boot <> $2 AND expires_ms > 0
"""
_GO_ON: Final = """
UPDATE lease SET boot = $4, ends_ms = $5 WHERE volume = $1 AND branch = $2 AND token = $3
"""

BRANCH: Final = "SELECT id FROM branch WHERE volume = $1 AND name = $2"
_STANDS: Final = """
SELECT 1 FROM branch WHERE volume = $1 AND id = $2 AND (name IS NOT NULL OR expires_ms > 0)
"""


def is_name(name: object) -> bool:
    """Whether a volume, branch or snapshot may have this name."""
    return isinstance(name, str) and _NAME(name) is not None


def check_name(what: str, name: str) -> str:
    """Refuse what is no name of a volume, branch or snapshot; none of them looks like a version."""
    if not is_name(name):
        raise ParseError(
            f"the name of a {what} is letters, digits and underscores, a letter first",
            hint="at most 64 characters",
        )
    return name


class Modes(NamedTuple):
    """The modes of what is made without being told one."""

    file: int
    directory: int


def default_modes(new_file_mode: NewFileMode) -> Modes:
    """The mode of a new file and of a new directory, which can be entered by who may read it."""
    if new_file_mode == "private":
        return Modes(0o600, 0o700)
    if new_file_mode == "umask":
        # There is no process whose umask counts: the usual one, 022, is taken.
        return Modes(0o644, 0o755)
    file_mode = new_file_mode & PERMISSION_BITS
    return Modes(file_mode, 0o700 | file_mode | (file_mode & 0o444) >> 2)


class Identity(NamedTuple):
    """A volume in its database."""

    volume: int
    uid: str
    branch: int
    root: int


class VolumeCore:
    """One branch of a volume at its newest version, or as it was at another, for all its views."""

    def __init__(
        self,
        database: RowDatabase,
        identity: Identity,
        levels: tuple[Level, ...],
        blobs: Blobs,
        *,
        limits: Limits,
        modes: Modes,
        clock_ns: Callable[[], int],
        uptime: Uptime,
        pack: Pack | None = None,
        at: int = HEAD,
    ) -> None:
        self.database = database
        self.at_once = database.at_once
        self.identity = identity
        self.view = BranchView(identity.volume, identity.branch, identity.root, at)
        self.levels = levels
        self.blobs = blobs
        self.limits = limits
        self.modes = modes
        self.clock_ns = clock_ns
        self.uptime = uptime
        self.pack = pack
        self.hashes = Hashes()
        self.is_closed = False
        self._cache = Cache()
        if at != HEAD:
            self._cache.seen = at
        self._rounds: SharedRounds[tuple[str, ...]] = SharedRounds(self._catch_up)
        self._held: dict[int, int] = {}
        self._pin_due = 0.0
        self._told: list[Callable[[], None]] = []
        database.shared.holders.add(self)

    @property
    def volume(self) -> int:
        return self.view.volume

    # --- looking -----------------------------------------------------------------------------

    def looking(self) -> AbstractAsyncContextManager[RowSession]:
        """``async with core.looking() as session: tree = await core.tree(session)``. Short."""
        self.check_open()
        if time.monotonic() > self._pin_due:
            self._renew_pin()
        return self.database.reading()

    async def tree(self, session: RowSession, ahead: tuple[str, ...] | None = None) -> RowTree:
        """The tree as everybody's last commit left it, with the path ``ahead`` looked up in passing
        where each look takes waiting."""
        cache = self._cache
        if self.at_once is None:
            return await self.pinned_tree(session, ahead)
        if self.view.at == HEAD:
            last = await self.database.last()
            if last != cache.seen and not cache.take_own(last):
                await self.refuse_deleted(session)
                await cache.catch_up(session, self.view)
        cache.trim()
        return RowTree(session, self.view, self.levels, cache)

    async def pinned_tree(
        self, session: RowSession, ahead: tuple[str, ...] | None = None
    ) -> PinnedTree:
        """The tree for statements that are awaited: all of them see the version they ask for."""
        if self.view.at == HEAD:
            await self._rounds.join(ahead)
        return self._pinned(session)

    def as_seen(self, session: RowSession) -> PinnedTree | None:
        """The newest tree as it was seen last, for whoever finds out whether it is still so; None
        where that is told at once, or an earlier version is looked at."""
        if self.at_once is not None or self.view.at != HEAD:
            return None
        return self._pinned(session)

    def _pinned(self, session: RowSession) -> PinnedTree:
        seen = self._cache.seen
        view = self.view._replace(at=seen)
        return PinnedTree(session, view, self._levels_at(seen), self._cache)

    @property
    def cache(self) -> Cache:
        """What whoever looks here remembers."""
        return self._cache

    async def catch_up(self) -> None:
        """See what was committed before this is awaited."""
        await self._rounds.join()

    async def _catch_up(self, wanted: list[tuple[str, ...]]) -> None:
        """Take up what others have committed, and look up some paths: one trip, and one more where
        it is a branch that may be deleted."""
        async with self.database.reading() as session:
            before = self._cache.seen
            await catch_up_with(session, self.view, self._cache, wanted)
            if self._cache.seen != before:
                try:
                    await self.refuse_deleted(session)
                except BailiwickError:
                    self._cache.clear()
                    self._cache.seen = before  # so that whoever looks next is told as well
                    raise
            self._cache.trim()
        self.database.learn(self._cache.seen)

    def remembered(self, step: RowPlace | None = None) -> Cache | None:
        """What is known of the tree without looking; None where others have changed it, or to ask
        whether they did takes waiting. A ``step`` that is not known is looked up by the statement
        that asks."""
        if self.is_closed:
            self.check_open()
        if self.at_once is None:
            return None
        if time.monotonic() > self._pin_due:
            self._renew_pin()
        cache, view, row = self._cache, self.view, None
        if step is not None:
            sql = step_over(self.levels)
            row = self.at_once.row_at_once(sql, view.volume, view.branch, view.at, *step)
            if row is None:
                raise Closed("the volume was deleted")
        if view.at == HEAD:
            last = self.at_once.newest() if row is None else row[0]
            if last != cache.seen:
                if not cache.take_own(last):
                    return None
                cache.trim()
        if step is not None and row is not None:
            remember_step(cache, step, row)
        return cache

    def known(self) -> int:
        """The newest number that is known here: all that is changed here later is newer."""
        self.check_open()
        return self.database.known()

    def tree_at(self, session: RowSession, view: BranchView, cache: Cache | None = None) -> RowTree:
        """This branch as it was at a version, of which nothing is remembered but by ``cache``."""
        return RowTree(session, view, self._levels_at(view.at), Cache() if cache is None else cache)

    def turn_tree(self, transaction: Transaction) -> RowTree:
        """The tree as a turn to change it sees it."""
        cache = transaction.cache(self.view.branch, self._cache)
        return RowTree(transaction.session, self.view, self.levels, cache)

    def _levels_at(self, at: int) -> tuple[Level, ...]:
        return tuple(Level(branch, min(bound, at)) for branch, bound in self.levels)

    # --- changing ----------------------------------------------------------------------------

    async def change(
        self, job: Callable[[ChangeTurn], Awaitable[Result]], *, once: bool = False
    ) -> Result:
        """Run ``job`` with a turn to change the volume: all or nothing, durable in the end. Unless
        it must be run only ``once``, it may be begun again from the start."""
        self._check_changeable()
        result = await self.database.write(partial(self.run, job), None if once else self)
        self._tell()
        return result

    async def work(self, database: AnswersAtOnce, work: Work[Result]) -> Result:
        """Do a piece of work that knows by itself what a turn is for: durable in the end."""
        self._check_changeable()
        result = await database.work(work)
        self._tell()
        return result

    def work_inline(self, database: AnswersAtOnce, work: Work[Result]) -> Result | None:
        """Do a piece of work at once; None where it has to be awaited, and nothing was done."""
        self._check_changeable()
        result = database.work_inline(work)
        if result is not None:
            self._tell()
        return result

    async def run(
        self, job: Callable[[ChangeTurn], Awaitable[Result]], transaction: Transaction
    ) -> Result:
        """Do a job of `change` in the transaction that it was given."""
        if self.at_once is not None or self._cache.seen != transaction.begun_at:
            await self.refuse_deleted(transaction.session)  # else that was looked at
        turn, numbers = ChangeTurn(self, transaction), transaction.numbers
        before = numbers.last
        result = await job(turn)
        if turn.is_fenced is False:
            raise stale_token()
        self.note(transaction, Own(before, numbers.last, turn.made, turn.written))
        return result

    def note(self, transaction: Transaction, own: Own) -> None:
        """Know what a change of our own has touched, once it is committed."""
        transaction.on_commit(partial(self._cache.note, own))

    def _tell(self) -> None:
        for told in self._told:
            told()

    def _check_changeable(self) -> None:
        if self.is_closed:
            self.check_open()
        if self.view.at != HEAD:
            raise ReadOnly("an earlier version is only looked at")

    def on_commit(self, told: Callable[[], None]) -> Callable[[], None]:
        """Have ``told`` called on the event loop after each change made here, before whoever made
        it goes on, and for those of other processes where they are heard of; the answer ends it,
        and may be called twice."""
        self._told = [*self._told, told]
        end_listening = self.database.listen(told)

        def end() -> None:
            end_listening()
            self._told = [each for each in self._told if each is not told]

        return end

    def check_open(self) -> None:
        if self.is_closed:
            raise Closed("the store is closed")

    async def refuse_deleted(self, session: RowSession) -> None:
        """Somebody else may have deleted the branch, or a transaction may have taken too long:
        what was written there would be lost, and what is read there is about to go."""
        view = self.view
        if view.branch != FIRST and await session.row(_STANDS, view.volume, view.branch) is None:
            raise Closed("the branch was deleted")

    # --- what is being read --------------------------------------------------------------------

    def hold(self, holder: object) -> None:
        """Somebody may go on reading what can be seen at this moment."""
        at = self.view.at
        self._held[id(holder)] = self._cache.seen if at == HEAD else at

    def hold_version(self, holder: object, version: int) -> None:
        """Somebody may go on reading a version that is looked at."""
        self._held[id(holder)] = version

    def let_go(self, holder: object) -> None:
        self._held.pop(id(holder), None)

    def oldest_held(self) -> int:
        """The oldest version that somebody here may go on reading; `HEAD` where nobody does."""
        return min(list(self._held.values()), default=HEAD)

    def _renew_pin(self) -> None:
        """Tell other processes what may be looked at from here: their gc spares it.

        A process that looked at nothing for a minute is forgotten, and so is what it holds.
        """
        now = time.monotonic()
        shared, volume = self.database.shared, self.view.volume
        told = shared.pins.get(volume)
        if told is not None and told.due > now and told.version <= shared.oldest_held(volume):
            self._pin_due = told.due  # by another view, of which this is as much as it looks at
            return
        due = self._pin_due = now + _PIN_S / 3
        expires_ms = self.clock_ns() // 1_000_000 + int(_PIN_S * 1000)

        async def renew(turn: Transaction) -> None:
            version = min(turn.numbers.last, shared.oldest_held(volume))
            await turn.session.run(_PIN, volume, shared.session, version, expires_ms)
            shared.pins[volume] = Pin(due, version)

        self.database.submit(renew)

    async def aclose(self) -> None:
        """Let go of everything, to the end: a file that is let go of by half is never closed."""
        if not self.is_closed:
            self.is_closed = True
            await to_the_end(self._close())

    async def _close(self) -> None:
        await self._rounds.end()
        try:
            if self._pin_due and self.database.shared.users == 1:
                with suppress(BailiwickError):
                    await self.database.write(self._unpin)
        finally:
            self.blobs.close()
            await self.database.aclose()

    async def _unpin(self, turn: Transaction) -> None:
        """Nothing is read from here any more."""
        self.database.shared.pins.pop(self.view.volume, None)
        await turn.session.run(_UNPIN, self.view.volume, self.database.shared.session)


class ChangeTurn:
    """A turn to change one branch: its tree as the transaction sees it, and versions to be made."""

    __slots__ = ("core", "held_up", "is_fenced", "latest", "made", "transaction", "tree", "written")

    def __init__(self, core: VolumeCore, transaction: Transaction) -> None:
        self.core = core
        self.transaction = transaction
        self.written: Inode | None = None  # the file that was written, where it stood already
        # What leases stand against, where that is told only once the work is looked at.
        self.held_up: list[LockHeld] | None = None
        # Whether the caller's token is of a lease on anything that is touched; None without one.
        self.is_fenced: bool | None = None
        self.made: list[list[RowKey]] = []  # what each of its versions touched
        self.latest: Mutation | None = None
        self.tree = core.turn_tree(transaction)

    def refuse(self, held: LockHeld) -> None:
        """Raise, or note it for when it is known that all that is touched may be told."""
        if self.held_up is None:
            raise held
        self.held_up.append(held)

    def mutation(self, verb: str, mark: Mark) -> Mutation:
        """A new version. What may be refused must be refused before: a version that is begun and
        given up costs everything that is remembered."""
        # Where to look takes waiting, and what was changed is compared in the end.
        before = Cache() if self.core.at_once is None and self.held_up is not None else None
        now_ns = self.core.clock_ns()
        made = Mutation(self.tree, self.transaction.numbers, verb, mark, now_ns, before=before)
        self.made.append(made.keys)
        self.latest = made
        return made

    async def keep_key(self, verb: str, mark: Mark) -> None:
        """Keep the key of what touches nothing of the tree, in a version that does not either. It
        follows the number that was taken last, by which is known what was made."""
        if mark.key is not None:
            await self.mutation(verb, Mark(key=mark.key)).touch_nothing()


# --- opening -----------------------------------------------------------------------------------


def open_core(
    path: str,
    *,
    volume: str,
    branch: str,
    blobs: Blobs | None,
    limits: Limits,
    modes: Modes,
    clock_ns: Callable[[], int] | None = None,
    uptime: Uptime | None = None,
    compression: str = "off",
) -> VolumeCore:
    """Open a branch of a volume in the file at ``path``; file and volume are made if missing.
    Without a clock it is as late as for all who share it.

    Blocks. Raises `ParseError` for a name that is none or for settings that differ from those with
    which this process has the volume open, `RootNotFound` for a branch that does not exist.
    """
    check_name("volume", volume)
    check_name("branch", branch)
    pack = packing(compression)
    shared = acquire(path, limits)
    try:
        blobs = blobs or folder_of(shared)
        settings = {"blobs": blobs.description, "compression": compression}
        compare_settings(shared, volume, settings)
        clock_ns = clock_ns or shared.time_ns
        now_ns, uptime = clock_ns(), uptime or uptime_of_this_machine()

        async def find(session: RowSession) -> tuple[Identity, tuple[Level, ...]]:
            identity = await _find_or_make(session, volume, branch, modes, now_ns, shared)
            if not shared.is_behind:
                await _go_on_here(session, identity.volume, uptime, now_ns // 1_000_000, limits)
            view = BranchView(identity.volume, identity.branch, identity.root, HEAD)
            return identity, await levels_of(session, view)

        identity, levels = shared.set_up(find)
        database = shared.database(identity.volume)
    except BaseException:
        shared.release_blocking()
        raise
    return VolumeCore(
        database, identity, levels, blobs,
        limits=limits, modes=modes, clock_ns=clock_ns, uptime=uptime, pack=pack,
    )  # fmt: skip


def folder_of(shared: SharedDatabase) -> Blobs:
    folder = shared.blobs_folder
    if folder is None:
        raise ParseError("where large files go is not said", hint="add &blobs=s3://bucket/place")
    return FolderBlobs(folder)


def compare_settings(shared: SharedDatabase, what: str, settings: dict[str, str]) -> None:
    """Refuse settings other than those with which this process has something of it open."""
    open_with = shared.settings.setdefault(what, settings)
    if open_with != settings:
        raise ParseError(
            f"{what} is open with other settings",
            details={"open_with": open_with, "asked_for": settings},
            hint=f"open with {open_with}, asked for {settings}",
        )


async def _find_or_make(
    session: RowSession, volume: str, branch: str, modes: Modes, now_ns: int, shared: SharedDatabase
) -> Identity:
    row = await session.row(_FIND, volume)
    if row is None:
        shared.refuse_behind()
        if shared.is_one_file:
            await _refuse_renamed(session)
        await session.run(_MAKE, volume, secrets.token_hex(8), now_ns)
        row = await session.row(_FIND, volume)
        assert row is not None
        made = row_guard(row[0], volume, row[1], row[2], now_ns)
        await session.run(_GUARD, row[0], made)
        main = row_guard(FIRST, MAIN, 0, 0, INFINITY, now_ns)
        await session.run(_MAKE_BRANCH, row[0], INFINITY, now_ns, main)
        await session.run(_MAKE_LINEAGE, row[0], 2, 0, 2, HEAD)
        await session.run(_MAKE_ROOT, row[0], DIRECTORY, modes.directory, now_ns)
    found = await session.row(BRANCH, row[0], branch)
    if found is None:
        raise RootNotFound(f"the volume has no branch {branch!r}")
    return Identity(row[0], row[1], found[0], row[2])


async def _go_on_here(
    session: RowSession, volume: int, uptime: Uptime, clock_ms: int, limits: Limits
) -> None:
    """Leases of another machine, or from before this one was started again, go on by its count: for
    what the clock says is left of them, and never for longer than any lease may last."""
    boot, now_ms = uptime
    most = int(limits.lock_ttl_seconds_max * 1000)
    for branch, token, expires_ms in await session.rows(_FOREIGN_LEASES, volume, boot):
        left = min(max(expires_ms - clock_ms, 0), most)
        await session.run(_GO_ON, volume, branch, token, boot, now_ms() + left)


async def _refuse_renamed(session: RowSession) -> None:
    """A volume whose row was damaged may be the one that is looked for: in its place an empty one
    must not be made."""
    for guard, *row in await session.rows(GUARDED):
        if guard != row_guard(*row):
            raise IoError("the row of a volume is damaged", hint="restore the file from a backup")
