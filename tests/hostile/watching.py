"""Directories swapped under a watcher's eyes: what it tells must never name the outside.

Every function here runs behind the wall.
"""

import asyncio
import contextlib
import ctypes
import os
import threading

import bailiwick
from bailiwick.stores.disk.watch import inotify
from bailiwick.stores.disk.watch.inotify import Inotify
from tests.hostile.corpus import CONTAINMENTS
from tests.hostile.upheaval import new_layout
from tests.waiting import let_pass, until

OUTSIDE_NAMES = ("secret", "box", "inner", "outside", "root-evil")


class Swapper(threading.Thread):
    """Swaps a directory for a link to the outside and back, and moves another out and back in,
    while names come and go there and here."""

    def __init__(self, layout):
        super().__init__(name="swapper")
        self._layout = layout
        self._over = threading.Event()
        self.rounds = 0
        self.failure = None

    def run(self):
        try:
            while not self._over.is_set():
                self._round(self.rounds)
                self.rounds += 1
        except BaseException as error:
            self.failure = error

    def _round(self, number):
        root, outside = self._layout.root, self._layout.outside
        away = f"{self._layout.place}/root-evil/m"
        os.rename(f"{root}/d", f"{root}/aside")
        os.symlink("../outside", f"{root}/d")
        self._touch(f"{outside}/secret-{number}")
        self._touch(f"{outside}/box/secret-{number}")
        os.unlink(f"{root}/d")
        os.rename(f"{root}/aside", f"{root}/d")
        with open(f"{root}/d/seen-{number}", "wb"):
            pass
        os.rename(f"{root}/m", away)
        self._touch(f"{away}/secret-{number}")
        self._touch(f"{away}/n/secret-{number}")
        os.rename(away, f"{root}/m")

    def _touch(self, path):
        with open(path, "wb"):
            pass
        if self.rounds % 3 == 0:
            self._over.wait(0.03)  # long enough to be looked at
        os.unlink(path)

    def stop(self):
        self._over.set()
        self.join()
        if self.failure is not None:
            raise self.failure


async def _swapped(containment, seconds):
    layout = new_layout(lambda made: made.directory("m/n"))
    told = []
    async with bailiwick.open(layout.root, containment=containment, durability="rename") as fs:
        await fs.on_change(told.append)
        swapper = Swapper(layout)
        swapper.start()
        try:
            await let_pass(seconds)
            await until(lambda: swapper.rounds > 5 or swapper.failure is not None)
        finally:
            await asyncio.to_thread(swapper.stop)
        os.close(os.open(f"{layout.root}/last", os.O_CREAT | os.O_WRONLY, 0o600))
        await until(lambda: any(change.path == "last" for change in told))
    for change in told:
        names = [change.path, change.origin or "", *change.beneath]
        for name in names:
            hit = [word for word in OUTSIDE_NAMES if word in name]
            assert not hit, f"the outside was told: {change.kind} {name}"
    assert any(change.path.startswith("d/seen-") for change in told), "nothing inside was told"
    for name in os.listdir(f"{layout.root}/d"):
        if name.startswith("seen-"):
            os.unlink(f"{layout.root}/d/{name}")


def swapped(containment, seconds):
    asyncio.run(_swapped(CONTAINMENTS[containment], seconds))


def control():
    """A watcher that goes by names is led outside by the same swap."""
    layout = new_layout()
    queue = Inotify.open()
    try:
        os.rename(f"{layout.root}/d", f"{layout.root}/aside")
        os.symlink("../outside", f"{layout.root}/d")
        path = os.fsencode(f"{layout.root}/d")
        mask = ctypes.c_uint32(inotify.CREATE | inotify.DELETE)
        assert queue._libc.inotify_add_watch(queue.fd, path, mask) >= 0
        with contextlib.closing(open(f"{layout.outside}/secret-1", "wb")):
            pass
        names = [notice.name for notice in queue.read()]
    finally:
        queue.close()
    assert b"secret-1" in names, "the attack is harmless: it proves nothing"
