"""Others at work in the place where what is removed lies: nothing outside goes and nothing is made
there, whatever they put in it, and what is to be removed is gone.

Every function here runs behind the wall.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import tempfile
import time

import bailiwick
from bailiwick.paths import REMOVED
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.changes import removal
from tests.hostile import children, inside, kernel
from tests.hostile.layouts import CANARY
from tests.sandboxes.workshop import remove

SECONDS = 4
STEPS = 7
"""What goes of a tree before whoever removes it is killed."""


class Arena:
    def __init__(self):
        self.top = tempfile.mkdtemp(dir=inside.arena())
        self.root, self.outside = f"{self.top}/root", f"{self.top}/outside"
        os.makedirs(f"{self.root}/d")
        os.makedirs(f"{self.outside}/t/in/in")
        for place in ("secret", "t/secret", "t/in/secret", "t/in/in/secret"):
            with open(f"{self.outside}/{place}", "w") as file:
                file.write(CANARY)
        self.was = self.look()

    def look(self):
        return sorted(os.walk(self.outside))


def _put(arena, number):
    """One after the other in the place, each at another time of what the removal does."""
    place = f"{arena.root}/{REMOVED}"
    kind = number % 6
    with contextlib.suppress(OSError):
        os.rename(place, f"{arena.root}/away{number}")
    with contextlib.suppress(OSError):
        if kind == 0:
            os.symlink(arena.outside, place)
        elif kind == 1:
            os.symlink("../outside/t", place)
        elif kind == 2:
            os.mkfifo(place)
        elif kind == 3:
            os.mkdir(place, 0o700)
        elif kind == 4:
            os.mkdir(place, 0)
    for name in os.listdir(arena.root):
        if name.startswith("away"):
            _meddle(arena, f"{arena.root}/{name}")
            with contextlib.suppress(OSError):
                os.rename(f"{arena.root}/{name}", place)
            with contextlib.suppress(OSError):
                os.rmdir(f"{arena.root}/{name}")
            with contextlib.suppress(OSError):
                os.unlink(f"{arena.root}/{name}")


def _meddle(arena, away):
    """In what is being removed directories become links that lead out."""
    with contextlib.suppress(OSError):
        for name in os.listdir(away):
            inner = f"{away}/{name}/in"
            os.rename(inner, f"{away}/{name}/was")
            os.symlink(f"{arena.outside}/t/in", inner)


def _attack(arena):
    number = 0
    while True:
        number += 1
        _put(arena, number)


async def _remove(arena):
    removed, ends = 0, time.monotonic() + SECONDS
    async with bailiwick.open(arena.root, state_dir=f"{arena.top}/state") as fs:
        while time.monotonic() < ends:
            deep = f"{arena.root}/d/t/in/in" + "/in" * (
                removal.LEVELS_MAX if removed % 5 == 0 else 0
            )
            os.makedirs(deep, exist_ok=True)
            for name in ("secret", "in/secret", "in/in/secret"):
                with open(f"{arena.root}/d/t/{name}", "w") as file:
                    file.write("own")
            try:
                await fs.remove("d/t", recursive=True)
                assert not os.path.lexists(f"{arena.root}/d/t")
                removed += 1
            except bailiwick.errors.BailiwickError:
                shutil.rmtree(f"{arena.root}/d/t", ignore_errors=True)
    return removed


def run():
    arena = Arena()
    attacker = os.fork()
    if attacker == 0:
        try:
            _attack(arena)
        finally:
            os._exit(1)
    try:
        removed = asyncio.run(_remove(arena))
    finally:
        os.kill(attacker, signal.SIGKILL)
        os.waitpid(attacker, 0)
    assert removed > 20, removed
    assert arena.look() == arena.was
    remove(arena.top)


def control():
    """Who goes by the name finds somebody else's tree."""
    arena = Arena()
    os.symlink(arena.outside, f"{arena.root}/{REMOVED}")
    os.makedirs(f"{arena.root}/d/t")
    os.rename(f"{arena.root}/d/t", f"{arena.root}/{REMOVED}/own")
    assert arena.look() != arena.was
    remove(arena.top)


PLACES = {"itself": "", "a directory in it": "/in"}


def mounted_on_the_rest(where):
    """Somebody mounts a filesystem on what a killed removal has left, and the tree is opened. It is
    left alone until it is mounted there no more."""
    arena = Arena()
    token = "0123456789ab"
    rest = f"{arena.root}/{REMOVED}/.bailiwick~{token}-1"
    os.makedirs(f"{rest}/in")
    _leave_journal(arena, token)
    mount = rest + PLACES[where]
    kernel.mount("tmpfs", mount, "tmpfs", kernel.MS_NOSUID, "size=64k,mode=0555")
    try:
        os.makedirs(f"{mount}/theirs/in")
        with open(f"{mount}/theirs/secret", "w") as file:
            file.write(CANARY)
        before = sorted(os.walk(mount)), os.lstat(mount).st_mode
        _open(arena)
        assert (sorted(os.walk(mount)), os.lstat(mount).st_mode) == before
    finally:
        kernel.unmount(mount)
    _open(arena)
    assert not os.path.lexists(f"{arena.root}/{REMOVED}")
    remove(arena.top)


def _leave_journal(arena, token):
    """The journal of a store that is dead, beside that of one that has written something."""
    with bailiwick.open_sync(arena.root, state_dir=f"{arena.top}/state") as fs:
        fs.write_text("written", "own")
        [folder] = [each for each, _, files in os.walk(f"{arena.top}/state/journals") if files]
    lines = (
        {"type": "journal", "token": token},
        {"type": "directory", "path": REMOVED, "inode": 0},
    )
    with open(f"{folder}/dead.journal", "w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def _open(arena):
    with bailiwick.open_sync(arena.root, state_dir=f"{arena.top}/state"):
        pass


def killed_again_and_again():
    """Whoever removes a tree is killed, and so is each who finds the rest of it: the last one finds
    nothing of it any more, and nothing else is gone, though links in the tree lead to it."""
    arena = Arena()
    os.makedirs(f"{arena.root}/live/in")
    for number in range(3 * STEPS):
        os.makedirs(f"{arena.root}/d/t/{number}/in", 0o755)
        os.symlink(arena.outside, f"{arena.root}/d/t/{number}/out")
        os.symlink("../../../live", f"{arena.root}/d/t/{number}/in/live")
    kills = 0
    while _is_killed(arena, remove_first=kills == 0):
        kills += 1
        assert os.listdir(f"{arena.root}/d") == []
        assert sorted(os.listdir(arena.root)) == [REMOVED, "d", "live"]
    assert kills == 6, kills
    assert sorted(os.listdir(arena.root)) == ["d", "live"]
    assert os.listdir(f"{arena.root}/live") == ["in"]
    assert arena.look() == arena.was
    remove(arena.top)


def _is_killed(arena, remove_first):
    child = children.fork(lambda: _until_killed(arena, remove_first))
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or status == 0, status
    return os.WIFSIGNALED(status)


def _until_killed(arena, remove_first):
    unlink, left = syscalls.unlink, STEPS

    def killing(name, *, dir_fd):
        nonlocal left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        unlink(name, dir_fd=dir_fd)

    async def opened():
        async with bailiwick.open(arena.root, state_dir=f"{arena.top}/state") as fs:
            if remove_first:
                await fs.remove("d/t", recursive=True)

    syscalls.unlink = killing
    asyncio.run(opened())
