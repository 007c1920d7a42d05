"""Working copies that are put aside and removed: all that a program left goes, nothing that a link
leads to does, and nothing that somebody is removing just now or works in.

Every function here runs behind the wall.
"""

import asyncio
import contextlib
import os
import stat
import subprocess
import sys

import bailiwick
from tests.hostile import inside, sandboxed
from tests.hostile.layouts import CANARY

LEFT = """
os.symlink({outside!r}, "out"); os.symlink({outside!r} + "/secret", "file"); os.symlink("/", "root")
os.symlink("../../../..", "up"); os.mkfifo("fifo")
attempt(lambda: socket.socket(socket.AF_UNIX).bind("sock"))
for mode in (0, 0o100, 0o200, 0o400, 0o1000, 0o2555):
    name = "mode-%o" % mode
    os.mkdir(name); os.mkdir(name + "/in"); os.symlink({outside!r}, name + "/in/out")
    with open(name + "/in/file", "w") as file: file.write("x")
    os.chmod(name + "/in/file", 0); os.chmod(name + "/in", 0); os.chmod(name, mode)
for each in (b"odd\\xff\\n", b"-rf", b" ", b"a.gone"):
    os.mkdir(each); os.close(os.open(each + b"/\\xfe", os.O_CREAT | os.O_WRONLY)); os.chmod(each, 0)
os.mkdir("many")
for n in range(300): os.mkdir("many/%d" % n)
for n in range(1000):
    os.mkdir("d"); os.chdir("d")
os.symlink({outside!r}, "out")
"""

DYING = """
import asyncio, os, sys
import bailiwick
from bailiwick.working_copies import removal

place, state, id, left = *sys.argv[1:4], int(sys.argv[4])

def dying(name):
    def step(*args, **how):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), 9)
        return getattr(os, name)(*args, **how)
    return staticmethod(step)

steps = {name: dying(name) for name in ("rename", "unlink", "rmdir", "chmod")}
removal.os = type("", (), {**vars(os), **steps})

async def main():
    async with bailiwick.open(place, state_dir=state) as fs:
        async with await fs.open_work(id) as work:
            await work.discard()

asyncio.run(main())
"""

HOLDING = """
import os, sys
from bailiwick.working_copies.removal import PutAside

aside = PutAside(*os.path.split(sys.argv[1]))
print("put aside", flush=True)
sys.stdin.read()
aside.remove()
"""

OPENING = """
import asyncio, logging, sys
import bailiwick

logging.basicConfig(level=logging.WARNING)

async def main():
    async with bailiwick.open(sys.argv[1], state_dir=sys.argv[2]):
        pass

print("ready", flush=True)
sys.stdin.readline()
asyncio.run(main())
"""


class Aside:
    """A place with a working copy that holds whatever resists, and a directory outside."""

    def __init__(self):
        sandboxed.sandbox()
        self.arena = f"{inside.arena()}/aside"
        if os.path.exists(self.arena):
            _naively_removed(self.arena)
        self.place, self.state = f"{self.arena}/place", f"{self.arena}/state"
        self.outside = f"{self.arena}/outside"
        for each in (self.place, f"{self.outside}/shut"):
            os.makedirs(each)
        for name in ("secret", "shut/secret"):
            with open(f"{self.outside}/{name}", "w") as file:
                file.write(CANARY)
        os.chmod(f"{self.outside}/shut", 0o500)
        self.was = self.look()
        self.folder = asyncio.run(self._leave())
        self.id = os.path.basename(self.folder)
        self.parent = os.path.dirname(self.folder)

    async def _leave(self):
        program = sandboxed.PRELUDE + LEFT.format(outside=self.outside)
        words = [sandboxed.PYTHON, "-c", program]
        async with bailiwick.open(self.place, state_dir=self.state) as fs:
            result = await fs.exec(words, publish="manual").result()
            assert result.exit_code == 0
        [key] = os.listdir(f"{self.state}/work")
        return f"{self.state}/work/{key}/{result.work_id}"

    def look(self):
        found = {}
        for directory, names, files in os.walk(self.outside):
            for name in (*names, *files):
                status = os.stat(f"{directory}/{name}")
                found[f"{directory}/{name}"] = (status.st_ino, oct(status.st_mode), status.st_nlink)
        return found

    def started(self, program, *words):
        return subprocess.Popen(
            [sys.executable, "-c", program, *words], cwd=inside.CHECKOUT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def open_again(self):
        opening = self.started(OPENING, self.place, self.state)
        _, said = opening.communicate("\n")
        assert opening.returncode == 0, said
        return said


def _naively_removed(path):
    """By paths, with directories opened as one goes: what is deep takes as many calls."""
    subprocess.run(["chmod", "-R", "u+rwx", path], check=True)
    subprocess.run(["rm", "-rf", path], check=True)


def killed():
    """Whenever the process that removes it is killed, the next one removes the rest."""
    for steps in (0, 1, 7, 400):
        aside = Aside()
        try:
            dying = aside.started(DYING, aside.place, aside.state, aside.id, str(steps))
            _, said = dying.communicate()
            assert dying.returncode == -9, said
            assert os.listdir(aside.parent), "it was killed too late"
            put_aside = not os.path.exists(aside.folder)
            assert put_aside == (steps > 0)
            assert aside.open_again() == ""
            assert os.listdir(aside.parent) == ([] if put_aside else [aside.id])
            assert aside.look() == aside.was
        finally:
            _naively_removed(aside.arena)


def planted():
    """What goes by the name of what was put aside, and leads out, is not gone after."""
    aside = Aside()
    try:
        _plant(aside)
        assert aside.open_again().count("could not be removed") == 2
        assert aside.look() == aside.was
        assert sorted(os.listdir(aside.parent)) == sorted([aside.id, "file.gone", "link.gone"])
    finally:
        _naively_removed(aside.arena)


def _plant(aside):
    os.symlink(aside.outside, f"{aside.parent}/link.gone")
    os.link(f"{aside.outside}/secret", f"{aside.parent}/file.gone")
    aside.was = aside.look()
    os.mkdir(f"{aside.parent}/real.gone")
    os.symlink(aside.outside, f"{aside.parent}/real.gone/out")
    os.symlink(f"{aside.outside}/secret", f"{aside.parent}/real.gone/secret")


def control():
    """Whoever goes by paths, and makes what he removes removable, goes outside."""
    aside = Aside()
    try:
        _plant(aside)
        for name in os.listdir(aside.parent):
            if name.endswith(".gone"):
                _followed(f"{aside.parent}/{name}")
        assert aside.look() == {}
    finally:
        _naively_removed(aside.arena)


def _followed(path):
    with contextlib.suppress(FileNotFoundError):
        os.chmod(path, stat.S_IRWXU)
    if os.path.isdir(path):
        for name in os.listdir(path):
            _followed(f"{path}/{name}")
    with contextlib.suppress(OSError):
        os.rmdir(path)
    with contextlib.suppress(OSError):
        os.unlink(path)


def held():
    """What a process that lives is removing is left to it, and so is what one works in."""
    aside = Aside()
    try:
        holding = aside.started(HOLDING, aside.folder)
        assert holding.stdout.readline() == "put aside\n"
        [name] = os.listdir(aside.parent)
        before = os.stat(f"{aside.parent}/{name}/upper").st_ctime_ns

        async def beside():
            opened = bailiwick.open(aside.place, state_dir=aside.state)
            async with opened as fs, fs.session() as session:
                await session.exec(shell="echo x > x").result()
                aside.open_again()
                await session.exec(shell="test -e x && echo y > y").result()
                assert [str(x.path) for x in (await session.publish()).changes] == ["x", "y"]
                await session.discard()

        asyncio.run(beside())
        assert os.listdir(aside.parent) == [name]
        assert os.stat(f"{aside.parent}/{name}/upper").st_ctime_ns == before
        _, said = holding.communicate()
        assert holding.returncode == 0, said
        assert os.listdir(aside.parent) == []
        assert aside.look() == aside.was
    finally:
        _naively_removed(aside.arena)


def at_once():
    """Several that come upon it at once: one removes it, nobody fails, nobody goes outside."""
    aside = Aside()
    try:
        os.rename(aside.folder, f"{aside.parent}/0123456789abcdef.gone")
        opening = [aside.started(OPENING, aside.place, aside.state) for _ in range(4)]
        for each in opening:
            assert each.stdout.readline() == "ready\n"
        for each in opening:
            each.stdin.write("\n")
            each.stdin.flush()
        for each in opening:
            _, said = each.communicate()
            assert (each.returncode, said) == (0, "")
        assert os.listdir(aside.parent) == []
        assert aside.look() == aside.was
    finally:
        _naively_removed(aside.arena)
