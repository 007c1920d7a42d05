"""Plain calls of the standard library, and ripgrep: the baseline. Nothing is checked."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable

from bench.peers.peer import Contenders, Peer, there_and_back
from bench.scratch import CHUNK, EDITED, NEEDLE, SMALL, TICKET
from bench.timing import Contender

PLAIN = "plain open()"
PLAIN_LIST = "os.listdir, names only"
PLAIN_STAT = "os.stat"
PLAIN_EDIT = "plain read, replace, write"
DURABLE = "temp, fsync, rename, fsync directory by hand"
RIPGREP = "ripgrep"
INTERPRETER = "python -c pass"


class Plain(Peer):
    name = "plain"
    own = True
    remark = "no confinement, not atomic, no hash"

    def version(self) -> str:
        return sys.version.split()[0]

    def read(self) -> Contenders:
        path = str(self.places.memory / "docs" / "small.txt")

        def read() -> bytes:
            with open(path, "rb") as file:
                return file.read()

        yield Contender(PLAIN, read, answer=len)

    def write(self) -> Contenders:
        path = str(self.places.memory / "docs" / "plain.txt")

        def write() -> None:
            with open(path, "wb") as file:
                file.write(SMALL)

        def replace() -> None:
            with open(path + ".temp", "wb") as file:
                file.write(SMALL)
            os.replace(path + ".temp", path)

        yield Contender(PLAIN, write)
        yield Contender("plain temp and rename (atomic, unchecked)", replace)

    def durable_write(self) -> Contenders:
        path, write = str(self.places.disk / "docs" / "plain.txt"), replace_durably(SMALL)
        yield Contender(DURABLE, lambda: write(path))

    def listing(self) -> Contenders:
        path = str(self.places.memory / "many")

        def scan() -> list[tuple[str, int, int]]:
            with os.scandir(path) as entries:
                found = [(entry.name, entry.stat()) for entry in entries]
            return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in found]

        yield Contender(PLAIN_LIST, lambda: os.listdir(path), answer=len)
        yield Contender("os.scandir and stat", scan, answer=len)

    def stat(self) -> Contenders:
        path = str(self.places.memory / "docs" / "small.txt")
        yield Contender(PLAIN_STAT, lambda: os.stat(path), answer=lambda stat: stat.st_size)

    def edit(self) -> Contenders:
        path = self.places.memory / "docs" / "plain-edit.txt"
        path.write_text(EDITED)

        def edit(old: str, new: str) -> None:
            with open(path) as file:
                text = file.read()
            with open(path, "w") as file:
                file.write(text.replace(old, new))

        yield Contender(PLAIN_EDIT, there_and_back(edit))

    def stream_in(self) -> Contenders:
        path, chunks = str(self.places.memory / "plain.bin"), self.places.sizes.large_chunks

        def write() -> None:
            with open(path, "wb") as file:
                file.writelines(CHUNK for _ in range(chunks))

        def write_hashed() -> None:
            digest = hashlib.sha256()
            with open(path, "wb") as file:
                for _ in range(chunks):
                    file.write(CHUNK)
                    digest.update(CHUNK)

        yield Contender(PLAIN, write)
        yield Contender("plain open() and SHA-256", write_hashed)

    def stream_out(self) -> Contenders:
        path = str(self.places.memory / "large.bin")

        def read() -> int:
            size = 0
            with open(path, "rb") as file:
                while chunk := file.read(len(CHUNK)):
                    size += len(chunk)
            return size

        yield Contender(PLAIN, read, answer=int)

    def grep_few(self) -> Contenders:
        yield Contender(RIPGREP, self._ripgrep(self.places.few, "-F", NEEDLE), answer=int)

    def grep_literal(self) -> Contenders:
        yield Contender(RIPGREP, self._ripgrep(self.places.tree, "-F", NEEDLE), answer=int)

    def grep_pattern(self) -> Contenders:
        yield Contender(RIPGREP, self._ripgrep(self.places.tree, TICKET), answer=int)

    def _ripgrep(self, tree: pathlib.Path, *pattern: str) -> Callable[[], int]:
        """Ripgrep on everything, as Bailiwick looks at everything here: matching lines."""
        program = shutil.which("rg")
        if program is None:
            raise FileNotFoundError("rg is not installed")
        command = [program, "--no-config", "-n", "--no-ignore", "--hidden", *pattern, "."]
        return lambda: subprocess.run(command, cwd=tree, capture_output=True).stdout.count(b"\n")

    def volume_read(self) -> Contenders:
        yield from self.read()

    def volume_write(self) -> Contenders:
        yield next(self.write())

    def volume_durable(self) -> Contenders:
        yield from self.durable_write()

    def memory_read(self) -> Contenders:
        yield from self.read()

    def memory_write(self) -> Contenders:
        yield next(self.write())

    def startup(self) -> Contenders:
        yield Contender(INTERPRETER, interpreter("pass"))

    def help(self) -> Contenders:
        yield from self.startup()


def replace_durably(data: bytes) -> Callable[[str], None]:
    """What it takes by hand that a file is there, whole, after a power cut."""

    def write(path: str) -> None:
        with open(path + ".temp", "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".temp", path)
        descriptor = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(descriptor)
        os.close(descriptor)

    return write


def interpreter(statement: str) -> Callable[[], object]:
    """A fresh interpreter that runs one statement."""
    command = [sys.executable, "-I", "-c", statement]
    return lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
