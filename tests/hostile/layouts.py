"""A root, an outside, and what the outside tells when it was touched.

Every layout lies in the arena behind the wall:

    <place>/root/        what the scope is opened on
    <place>/outside/     what it must never reach: `secret`, `box/inner`, `sock`-less and quiet
    <place>/root-evil/   a sibling whose name begins like the root's
    <place>/twin/        the same once more, for the plain calls that a case is compared with

The arena keeps strict access times, so that an outside file that was merely read has changed too.
"""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from typing import NamedTuple

from bailiwick.paths import RESERVED_PREFIX
from tests.hostile import inside

CANARY = "CANARY-OF-THE-OUTSIDE"
SECRET_TEXT = f"needle {CANARY}\n" + "never to be seen\n" * 461
INSIDE_TEXT = "alpha\nneedle inside\nomega\n"
HASHED_BYTES_MAX = 1 << 20


class Layout:
    """One place in the arena, rebuilt from nothing by `reset`."""

    def __init__(
        self, place: str, build: Callable[["Layout"], None], keep: tuple[str, ...]
    ) -> None:
        self.place = place
        self.root = f"{place}/root"
        self.outside = f"{place}/outside"
        self._build = build
        self._keep = keep
        assert self.place.startswith(f"{inside.arena()}/"), "a layout lies in the arena"

    def reset(self) -> None:
        """Make everything as it was, keeping the root directory itself: scopes have it open."""
        os.makedirs(self.place, exist_ok=True)
        os.chmod(self.place, 0o700)
        for name in ("root", "outside", "root-evil"):
            directory = f"{self.place}/{name}"
            os.makedirs(directory, exist_ok=True)
            empty(directory, self._keep)
        for name, text in (("secret", SECRET_TEXT), ("box/inner", SECRET_TEXT)):
            self._write(f"{self.outside}/{name}", text)
        self._write(f"{self.place}/root-evil/secret", SECRET_TEXT)
        self.file("f")
        self.file("other", "some other text\n")
        self.file("d/g")
        self.file("d/e/h")
        self._build(self)

    def file(self, path: str, text: str = INSIDE_TEXT) -> str:
        return self._write(f"{self.root}/{path}", text)

    def directory(self, path: str) -> str:
        os.makedirs(f"{self.root}/{path}", exist_ok=True)
        return f"{self.root}/{path}"

    def link(self, path: str, target: str) -> None:
        os.makedirs(os.path.dirname(f"{self.root}/{path}"), exist_ok=True)
        os.symlink(self.spell(target), f"{self.root}/{path}")

    def spell(self, text: str) -> str:
        """Put this layout's own places into a path or the text of a link."""
        return text.replace("{root}", self.root).replace("{outside}", self.outside)

    def _write(self, path: str, text: str) -> str:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        os.write(fd, text.encode())
        os.close(fd)
        return path


def empty(directory: str, keep: tuple[str, ...] = ()) -> None:
    """Remove everything in a directory of the arena, never through a link or into a mount kept."""
    assert directory.startswith(f"{inside.arena()}/"), "only the arena is ever emptied"
    os.chmod(directory, 0o700)
    for name in os.listdir(directory):
        path = f"{directory}/{name}"
        if name in keep:
            continue
        if stat.S_ISDIR(os.lstat(path).st_mode):
            empty(path)
            os.rmdir(path)
        else:
            os.unlink(path)


class Seen(NamedTuple):
    """What a tree looks like from outside the scope: one of these for each object."""

    type: str
    mode: int
    content: str
    times: tuple[int, ...]


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "symlink" if stat.S_ISLNK(mode) else "other"


def _content(path: str, status: os.stat_result) -> str:
    if stat.S_ISLNK(status.st_mode):
        return os.readlink(path)
    if not stat.S_ISREG(status.st_mode):
        return ""
    if status.st_size > HASHED_BYTES_MAX or not status.st_mode & 0o400:
        return str(status.st_size)
    # Our own look must not count as an access.
    fd = os.open(path, os.O_RDONLY | os.O_NOATIME | os.O_NOFOLLOW)
    try:
        data = os.read(fd, HASHED_BYTES_MAX)
    finally:
        os.close(fd)
    return hashlib.sha256(data).hexdigest()


def _walk(directory: str, prefix: str, skip: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOATIME | os.O_NOFOLLOW)
    except PermissionError:
        return
    try:
        names = sorted(os.listdir(fd))
    finally:
        os.close(fd)
    for name in names:
        if name in skip:
            continue
        path = f"{directory}/{name}"
        yield f"{prefix}{name}", path
        if os.path.isdir(path) and not os.path.islink(path):
            yield from _walk(path, f"{prefix}{name}/", ())


def snapshot(
    directory: str, *, outside: bool = False, skip: tuple[str, ...] = ()
) -> dict[str, Seen]:
    """Every object beneath ``directory``; of an outside tree all that can be known of each."""
    seen: dict[str, Seen] = {}
    for name, path in [(".", directory), *_walk(directory, "", skip)]:
        try:
            status = os.lstat(path)
            content = _content(path, status)
        except PermissionError:
            seen[name] = Seen("unreadable", 0, "", ())
            continue
        times: tuple[int, ...] = (status.st_mtime_ns,)
        if outside:
            times += (
                status.st_ctime_ns,
                # Reading a link's text is how this snapshot itself looks at it.
                0 if stat.S_ISLNK(status.st_mode) else status.st_atime_ns,
                status.st_ino,
                status.st_nlink,
            )
        seen[name] = Seen(_kind(status.st_mode), stat.S_IMODE(status.st_mode), content, times)
    return seen


def without_times(seen: dict[str, Seen]) -> dict[str, tuple[str, int, str]]:
    return {name: (each.type, each.mode, each.content) for name, each in seen.items()}


def litter(seen: dict[str, Seen]) -> list[str]:
    """Staging names that were left behind."""
    return [name for name in seen if name.rpartition("/")[2].startswith(RESERVED_PREFIX)]


def difference(before: dict[str, Seen], after: dict[str, Seen]) -> str:
    """Which names differ between two snapshots, for a person."""
    told = []
    for name in sorted({*before, *after}):
        if name not in before:
            told.append(f"{name} appeared")
        elif name not in after:
            told.append(f"{name} vanished")
        elif before[name] != after[name]:
            told.append(f"{name} changed in {_fields_changed(before[name], after[name])}")
    return ", ".join(told)


def _fields_changed(before: Seen, after: Seen) -> str:
    fields = [f for f in ("type", "mode", "content") if getattr(before, f) != getattr(after, f)]
    kinds = ("mtime", "ctime", "atime", "inode", "links")
    pairs = zip(kinds, before.times, after.times, strict=False)
    return " ".join(fields + [kind for kind, old, new in pairs if old != new])
