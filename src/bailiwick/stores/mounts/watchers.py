"""Changes that others make in what is mounted, told by their names in the whole tree.

A directory of the host is watched by its store. A store that keeps a log of its changes is followed
by that log, and what was changed through this tree is left out: whoever did it tells it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from bailiwick.change_log import ChangeLog, Logs
from bailiwick.errors import BailiwickError
from bailiwick.model import Change
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.patience import for_nobody
from bailiwick.store import Changing, Noticed, Watcher, Watches
from bailiwick.stores.mounts.table import MountedStore
from bailiwick.versions import Mark

_log = logging.getLogger("bailiwick.events")

_REQUESTS_KEPT: Final = 10_000
"""Requests by which our own changes are known in a log: some megabytes, and far more than are made
before the log is looked at again."""

_ROWS_AT_ONCE: Final = 32
"""Changes taken from a log before other tasks get their turn: each costs several lookups."""

_STRANGERS: Final = {"subject": "", "request_id": "", "time_ns": 0, "cursor": ""}
"""What is noticed names nobody, as what other programs change."""

Tell = Callable[[Sequence[Noticed]], None]


class OwnChanges:
    """Whose changes in a log were made through this tree, by subject and request."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()

    def add(self, mark: Mark) -> None:
        self._known[mark.subject, mark.request_id] = None
        if len(self._known) > _REQUESTS_KEPT:
            self._known.popitem(last=False)

    def holds(self, change: Change) -> bool:
        return (change.subject, change.request_id) in self._known


def watch_mounts(
    mounts: Sequence[MountedStore],
    mount_of: Callable[[ScopedPath], MountedStore | None],
    tell: Tell,
    changing: Changing,
    own: OwnChanges,
) -> JoinedWatcher:
    """Begin to watch all mounts, on the running event loop."""
    watchers: dict[ScopedPath, Watcher] = {}
    blind = False
    for mount in mounts:
        to_all = _Prefixing(mount, tell)
        store = mount.store
        if isinstance(store, Logs) and "Logs" in store.powers:
            watchers[mount.point] = LogWatcher(store.log, to_all, own)
        elif isinstance(store, Watches) and "Watches" in store.powers:
            try:
                watchers[mount.point] = store.watch_tree(to_all, _ChangingIn(mount, changing))
            except BailiwickError as error:
                blind = True
                _log.warning("changes by others in a mount are not noticed: %s", error.message)
    return JoinedWatcher(watchers, mount_of, sees_all=not blind)


class _Prefixing:
    """Tells what was noticed in a mount by its names in the whole tree."""

    def __init__(self, mount: MountedStore, tell: Tell) -> None:
        self._mount = mount
        self._tell = tell

    def __call__(self, noticed: Sequence[Noticed]) -> None:
        outside = self._mount.outside
        self._tell([Noticed(_moved(each.change, outside), each.keys) for each in noticed])


class _ChangingIn:
    """What is being changed, as one mount knows it."""

    def __init__(self, mount: MountedStore, changing: Changing) -> None:
        self._mount = mount
        self._changing = changing

    @property
    def ended(self) -> int:
        return self._changing.ended

    def covers(self, path: ScopedPath) -> bool:
        return self._changing.covers(self._mount.outside(path))

    def leads_through(self, path: ScopedPath) -> bool:
        return self._changing.leads_through(self._mount.outside(path))


def _moved(change: Change, to: Callable[[ScopedPath], ScopedPath]) -> Change:
    origin = None if change.origin is None else to(change.origin)
    return msgspec.structs.replace(change, path=to(change.path), origin=origin)


class JoinedWatcher:
    """The watchers of all mounts as one."""

    def __init__(
        self,
        watchers: Mapping[ScopedPath, Watcher],
        mount_of: Callable[[ScopedPath], MountedStore | None],
        *,
        sees_all: bool,
    ) -> None:
        self._watchers = watchers
        self._mount_of = mount_of
        self._sees_all = sees_all

    @property
    def sees_all(self) -> bool:
        return self._sees_all and all(each.sees_all for each in self._watchers.values())

    async def ready(self) -> None:
        for each in self._watchers.values():
            await each.ready()

    def told(self, change: Change) -> None:
        mount, watcher = self._for(change.path)
        if mount is not None and watcher is not None:
            watcher.told(_moved(change, mount.inside))

    def catch_up(self, path: ScopedPath) -> None:
        mount, watcher = self._for(path)
        if mount is not None and watcher is not None:
            watcher.catch_up(mount.inside(path))

    def look_anew(self, noticed: Noticed) -> None:
        mount, watcher = self._for(noticed.change.path)
        if mount is not None and watcher is not None:
            watcher.look_anew(Noticed(_moved(noticed.change, mount.inside), noticed.keys))

    def _for(self, path: ScopedPath) -> tuple[MountedStore | None, Watcher | None]:
        mount = self._mount_of(path)
        return mount, None if mount is None else self._watchers.get(mount.point)

    def close(self) -> None:
        for each in self._watchers.values():
            each.close()


class LogWatcher:
    """Follows the log of a store, from when it was made until `close`."""

    def __init__(self, log: ChangeLog, tell: Tell, own: OwnChanges) -> None:
        self._log = log
        self._tell = tell
        self._own = own
        self._news = asyncio.Event()
        self._begun = asyncio.Event()
        self._end_hearing = log.on_commit(self._news.set)
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._follow(), name="bailiwick-mount")

    @property
    def sees_all(self) -> bool:
        return not self._task.done()

    async def ready(self) -> None:
        await self._begun.wait()

    async def _follow(self) -> None:
        for_nobody()
        place: int | None = None
        while True:
            try:
                if place is None:
                    place = self._log.place_of(await self._log.end())
                    self._begun.set()
                place = await self._read_on(place)
            except BailiwickError as error:
                _log.warning("the changes of a mount could not be read", exc_info=error)
                self._begun.set()
            self._news.clear()
            try:
                async with asyncio.timeout(self._log.poll_s):
                    await self._news.wait()
            except TimeoutError:
                pass  # other processes may have changed something

    async def _read_on(self, place: int) -> int:
        """Tell all that is in the log by now. What is not kept any more is one ``rescan``."""
        oldest = self._log.place_of(await self._log.start())
        if place < oldest:
            self._say(
                [Change(kind="rescan", path=ROOT, type="directory", subject="", request_id="")]
            )
            return oldest
        while True:
            logged = await self._log.read(place, _ROWS_AT_ONCE)
            self._say([change for _, change in logged.changes if not self._own.holds(change)])
            if not logged.changes:
                return max(place, self._log.place_of(logged.through))
            place = logged.changes[-1][0]

    def _say(self, changes: list[Change]) -> None:
        if changes:
            self._tell([Noticed(msgspec.structs.replace(c, **_STRANGERS)) for c in changes])

    def told(self, change: Change) -> None:
        """The log itself says what was changed."""

    def catch_up(self, path: ScopedPath) -> None:
        """The log keeps the order."""

    def look_anew(self, noticed: Noticed) -> None:
        """It was in the log, whatever was told of the place besides."""
        self._tell([noticed])

    def close(self) -> None:
        self._end_hearing()
        self._task.cancel()
