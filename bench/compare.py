"""What others do where Bailiwick refuses, keeps or tells: the table of docs/comparison.md.

    python -m bench.compare

Each row is tried here and now, on a secret and files of its own in a temporary directory. Nothing
outside it is touched, and nothing there but what a row says is changed.
"""

import os
import resource
import signal
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar, Protocol

import bailiwick

SECRET = "the neighbour's"


class Subject(Protocol):
    """What is tried: a library on a directory."""

    name: ClassVar[str]
    refusals: ClassVar[tuple[type[Exception], ...]]
    edits: ClassVar[bool]

    def __init__(self, root: Path) -> None: ...

    def read(self, path: str) -> str: ...

    def write(self, path: str, text: str) -> None: ...

    def edit(self, path: str, old: str, new: str) -> None: ...


class Plain:
    """`open()` on a path that was joined to the root."""

    name: ClassVar[str] = "plain `open`"
    refusals: ClassVar[tuple[type[Exception], ...]] = (OSError,)
    edits: ClassVar[bool] = True

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, path: str) -> str:
        return (self.root / path).read_bytes().decode()

    def write(self, path: str, text: str) -> None:
        (self.root / path).write_bytes(text.encode())

    def edit(self, path: str, old: str, new: str) -> None:
        text = self.read(path)
        self.write(path, text.replace(old, new, 1))


class DirFileSystem:
    """fsspec's directory file system, on its local one."""

    name: ClassVar[str] = "fsspec `DirFileSystem`"
    refusals: ClassVar[tuple[type[Exception], ...]] = (OSError, ValueError)
    edits: ClassVar[bool] = False

    def __init__(self, root: Path) -> None:
        from fsspec.implementations.dirfs import DirFileSystem
        from fsspec.implementations.local import LocalFileSystem

        self.fs = DirFileSystem(str(root), LocalFileSystem())

    def read(self, path: str) -> str:
        data: bytes = self.fs.cat_file(path)
        return data.decode()

    def write(self, path: str, text: str) -> None:
        self.fs.pipe_file(path, text.encode())

    def edit(self, path: str, old: str, new: str) -> None:
        raise NotImplementedError


class Deepagents:
    """deepagents' backend for a real directory, with its paths kept virtual."""

    name: ClassVar[str] = "deepagents `FilesystemBackend`"
    refusals: ClassVar[tuple[type[Exception], ...]] = (OSError, ValueError)
    edits: ClassVar[bool] = True

    def __init__(self, root: Path) -> None:
        from deepagents.backends import FilesystemBackend

        self.backend = FilesystemBackend(root_dir=root, virtual_mode=True)

    def read(self, path: str) -> str:
        return str(self.backend.read(f"/{path}"))

    def write(self, path: str, text: str) -> None:
        answer = self.backend.upload_files([(f"/{path}", text.encode())])
        if answer[0].error:
            raise OSError(answer[0].error)

    def edit(self, path: str, old: str, new: str) -> None:
        answer = self.backend.edit(f"/{path}", old, new)
        if answer.error:
            raise ValueError(answer.error)


class Ours:
    """A directory opened as it is, without a policy."""

    name: ClassVar[str] = "Bailiwick"
    refusals: ClassVar[tuple[type[Exception], ...]] = (bailiwick.BailiwickError,)
    edits: ClassVar[bool] = True

    def __init__(self, root: Path) -> None:
        self.root = root

    def _opened(self) -> AbstractContextManager[bailiwick.SyncScope]:
        return bailiwick.open_sync(self.root, state_dir=str(self.root.parent / "state"))

    def read(self, path: str) -> str:
        with self._opened() as fs:
            return fs.read_text(path).text

    def write(self, path: str, text: str) -> None:
        with self._opened() as fs:
            fs.write_text(path, text)

    def edit(self, path: str, old: str, new: str) -> None:
        with self._opened() as fs:
            fs.edit(path, old=old, new=new)


SUBJECTS: tuple[type[Subject], ...] = (Plain, DirFileSystem, Deepagents, Ours)


def leaks(subject: Subject, path: str) -> str:
    try:
        return "**leaks**" if SECRET in subject.read(path) else "refused"
    except subject.refusals:
        return "refused"


def dots(subject: Subject, root: Path) -> str:
    return leaks(subject, "../secret.txt")


def link(subject: Subject, root: Path) -> str:
    (root / "link").symlink_to(root.parent / "secret.txt")
    return leaks(subject, "link")


def line_endings(subject: Subject, root: Path) -> str:
    if not subject.edits:
        return "no edits"
    (root / "crlf.txt").write_bytes(b"one\r\ntwo\r\n")
    try:
        subject.edit("crlf.txt", "two", "2")
    except subject.refusals:
        return "refused"
    kept = (root / "crlf.txt").read_bytes() == b"one\r\n2\r\n"
    return "kept" if kept else "**rewritten**"


def overlapping(subject: Subject, root: Path) -> str:
    if not subject.edits:
        return "no edits"
    (root / "twice.txt").write_text("aXaXa")
    try:
        subject.edit("twice.txt", "aXa", "b")
    except subject.refusals:
        return "refused"
    return "**one is taken**"


def full_disk(subject: Subject, root: Path) -> str:
    """A write that ends in the middle: what stands there then. In a process of its own, whose
    files may not grow past 64 KiB."""
    (root / "old.txt").write_text("old")
    if subject.read("old.txt").find("old") < 0:
        raise AssertionError("what is inside cannot be read")
    subprocess.run(
        [sys.executable, "-m", "bench.compare", type(subject).__name__, str(root)],
        capture_output=True, check=False,
    )  # fmt: skip
    stands = (root / "old.txt").read_text()
    if "x" not in stands and stands != "old":
        raise AssertionError(stands)
    return "old kept" if stands == "old" else f"**{len(stands):,} of 1,000,000 bytes**"


ROWS = {
    "`../secret.txt` is read": dots,
    "a link to a file outside is read": link,
    "an edit of one line in a file with CRLF": line_endings,
    "an edit of `aXa` in `aXaXa`, which is there twice": overlapping,
    "a write that fails in the middle": full_disk,
}


def table() -> str:
    lines = [f"| | {' | '.join(each.name for each in SUBJECTS)} |", "|---" * 5 + "|"]
    for what, probe in ROWS.items():
        cells = []
        for kind in SUBJECTS:
            with tempfile.TemporaryDirectory() as place:
                root = Path(place) / "root"
                root.mkdir()
                (root.parent / "secret.txt").write_text(SECRET)
                cells.append(probe(kind(root), root))
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write_too_much(name: str, root: str) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    kind = next(kind for kind in SUBJECTS if kind.__name__ == name)
    subject = kind(Path(root))
    subject.read("old.txt")
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
    subject.write("old.txt", "x" * 1_000_000)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        write_too_much(sys.argv[1], sys.argv[2])
    else:
        os.environ.pop("PYTHONPATH", None)
        sys.stdout.write(table())
