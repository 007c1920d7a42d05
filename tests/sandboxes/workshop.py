"""A tree, what was changed on it, and commands that are run there."""

import contextlib
import os
import shutil
import stat
from pathlib import Path

from bailiwick.sandbox import CommandLimits, Invocation, Tree, View
from bailiwick.sandboxes.uppers import make_removable, touched


class Workshop:
    """Directories for one working copy, in a directory that is given."""

    place = "/work/project"

    def __init__(self, directory, sandbox):
        self.sandbox = sandbox
        self.lower, self.upper, self.work = (
            Path(directory) / name for name in ("lower", "upper", "work")
        )
        for path in (self.lower, self.upper, self.work):
            path.mkdir()

    def plant(self, files):
        for name, content in files.items():
            path = self.lower / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    def tree(self, *, writable=True, masked=()):
        return Tree(
            place=self.place,
            lower=str(self.lower),
            upper=str(self.upper) if writable else None,
            work=str(self.work) if writable else None,
            masked=tuple(masked),
        )

    def view(self, *, writable=True, masked=(), **others):
        return View(trees=(self.tree(writable=writable, masked=masked),), **others)

    async def start(self, *argv, view=None, limits=None, **options):
        command = Invocation(argv=argv, limits=limits or CommandLimits(seconds_max=60), **options)
        return await self.sandbox.start(command, view or self.view())

    async def run(self, *argv, **options):
        """What it printed on both streams, and how it ended."""
        process = await self.start(*argv, **options)
        try:
            ending = await process.wait()
            said = {"stdout": b"", "stderr": b""}
            async for piece in process.pieces():
                said[piece.stream] += piece.data
        finally:
            await process.close()
        return Said(said["stdout"].decode(errors="replace"), said["stderr"].decode(), ending)

    async def shell(self, script, **options):
        return await self.run("sh", "-c", script, **options)

    def changes(self, **options):
        with opened(self.upper) as upper, opened(self.lower) as lower:
            return list(touched(upper, lower, **options))

    def clear(self):
        """What a program has shut is opened before it is taken away."""
        make_removable(str(self.work))
        for path in (self.upper, self.work, self.lower):
            remove(path)


class Said:
    def __init__(self, out, err, ending):
        self.out, self.err, self.ending = out, err, ending

    @property
    def code(self):
        return self.ending.exit_code


@contextlib.contextmanager
def opened(path):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def remove(path):
    for directory, names, _ in os.walk(path):
        os.chmod(directory, stat.S_IRWXU)
        for name in names:
            inner = os.path.join(directory, name)
            if not os.path.islink(inner):
                os.chmod(inner, stat.S_IRWXU)
    shutil.rmtree(path)


LONG = 700_000_000 + os.getpid()
"""Seconds that nobody else on this machine waits for."""


def sleepers(seconds=LONG):
    """Processes that wait so long."""
    return [pid for pid, words in _commands() if words == [b"sleep", b"%d" % int(seconds)]]


def launchers_at_work():
    """How many that this process has started are there."""
    own = str(os.getpid()).encode()
    found = 0
    for pid, words in _commands():
        if any(b"launcher.main" in word for word in words):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
                found += file.read().rpartition(b")")[2].split()[1] == own
    return found


def _commands():
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError), open(f"/proc/{name}/cmdline", "rb") as file:
                yield int(name), file.read().split(b"\0")[:-1]
