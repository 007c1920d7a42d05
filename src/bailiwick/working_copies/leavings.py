"""What a program left on top of a directory, turned into what became of each path.

It is hostile: it is reached by descriptors, one component at a time, no link is followed, and
nothing but regular files is read.
"""

from __future__ import annotations

import hashlib
import os
import stat as stat_bits
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from bailiwick.changes_made import MOUNTED_SINCE
from bailiwick.errors import BailiwickError, escape_for_display
from bailiwick.paths import RESERVED_PREFIX, NameRule, ScopedPath, parse
from bailiwick.sandbox import Touched, TouchedKind
from bailiwick.working_copies.folder import CHUNK_BYTES
from bailiwick.working_copies.survey import MOUNTED, Survey
from bailiwick.working_copy import Altered, Base, Dropped

OpenLeft = Callable[[int, str], int]
"""Opens a file that a program left, whatever its mode and that of the directories around it."""

_FILES: Final[frozenset[TouchedKind]] = frozenset({"file_created", "file_changed"})
SPECIAL_BITS: Final = 0o7000
_DIRECTORY_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Source(NamedTuple):
    """Where the content of a path is: in the upper directory, or where it lay below before the
    directory around it was moved."""

    top: int
    path: str
    open: OpenLeft


class Leavings:
    """What an upper directory tells, turned into what became of each path."""

    def __init__(
        self, survey: Survey, upper: int, lower: int, names: NameRule, open_left: OpenLeft,
        bytes_max: int, mounts: Collection[str],
    ) -> None:  # fmt: skip
        """``mounts`` are the directories that other filesystems are mounted on by now."""
        self._survey = survey
        self._upper = upper
        self._lower = lower
        self._names = names
        self._open_left = open_left
        self._bytes_left = bytes_max
        self._mounts = mounts
        self._covered: set[str] = set()
        self.altered: dict[ScopedPath, Altered] = {}
        self.sources: dict[ScopedPath, Source] = {}
        self.unfit: list[Dropped] = []
        self.dropped: list[Dropped] = []
        self.moved: dict[ScopedPath, ScopedPath] = {}

    def all(self, found: Iterable[Touched]) -> None:
        told = list(found)
        for touched in told:
            self._add(touched)
        kinds = {each.path: each.kind for each in told}  # of two the later, which stands there
        for touched in told:
            if touched.kind == "directory_replaced":
                self._gone_beneath(touched.path, kinds)
        for touched in told:
            if touched.moved_from is not None:
                self._came_along(touched.path, touched.moved_from, kinds)

    def _add(self, touched: Touched) -> None:
        base = self._survey.get(touched.path)
        self._drop_beside_mode(touched)
        was = None if base is None else (base.type, base.mode)
        if touched.kind == "directory_changed" and was == ("directory", touched.mode):
            return  # it was compared with what stands there by now
        source = Source(self._upper, touched.path, self._open_left)
        path = self._path(touched.path, source if touched.kind in _FILES else None)
        if path is None:
            return
        match touched.kind:
            case "removed":
                if base is not None:
                    self.altered[path] = Altered(path, None, base)
                    self._gone_beneath(touched.path, {})
            case "special_dropped":
                self._drop(touched.path, "only files, directories and links are brought back")
            case "too_deep":
                self.unfit.append(Dropped(escape_for_display(touched.path), "it lies too deep"))
            case "symlink_created" | "symlink_changed":
                self._add_link(path, touched, base)
            case "file_created" | "file_changed":
                self._add_file(path, touched, base, source)
            case _ if base is not None and base.version == MOUNTED:
                pass  # its mode is not the one that the program saw
            case _ if base is None or base.type != "directory" or base.mode != touched.mode:
                mode = self._mode(touched)
                self.altered[path] = Altered(path, "directory", base, mode)
            case _:
                self.altered.pop(path, None)  # as it was; what is in it is told by itself

    def _path(
        self, text: str, source: Source | None = None, origin: str | None = None
    ) -> ScopedPath | None:
        """None for what no root can hold there, which is told with what it holds, or with where it
        lay."""
        try:
            path = parse(text, "/", self._names).path
        except BailiwickError as error:
            self._leave_out(text, error.message, source, origin)
            return None
        if any(part.startswith(RESERVED_PREFIX) for part in path.parts):
            self._leave_out(text, "this name is reserved", source, origin)
            return None
        if self._mounts and self._is_mounted_over(text):
            if text not in self._covered:
                self._covered.add(text)
                self._leave_out(text, MOUNTED_SINCE, source, origin)
            return None
        return path

    def _is_mounted_over(self, text: str) -> bool:
        """Whether what the program saw there lies beneath a filesystem that was mounted since: what
        stands there now is something else."""
        for mount in self._mounts:
            if text == mount or text.startswith(f"{mount}/"):
                base = self._survey.get(mount)
                is_new = base is None or base.version != MOUNTED
                if is_new or (text != mount and self._survey.get(text) is not None):
                    return True
        return False

    def _leave_out(
        self, text: str, reason: str, source: Source | None, origin: str | None = None
    ) -> None:
        size, sha256 = (0, None) if source is None else self._looked_at(source)
        self.unfit.append(Dropped(escape_for_display(text), reason, size, sha256, origin))

    def _looked_at(self, source: Source) -> tuple[int, str | None]:
        """The size of a file, and its hash unless there is more than is looked at."""
        try:
            size, sha256 = _hashed(source, self._bytes_left)
        except _TooMuch as found:
            return found.size, None
        except OSError:
            return 0, None
        self._bytes_left -= size
        return size, sha256

    def _drop(self, text: str, reason: str) -> None:
        self.dropped.append(Dropped(escape_for_display(text), reason))

    def _drop_beside_mode(self, touched: Touched) -> None:
        if touched.attributes:
            self._drop(touched.path, "extended attributes are not kept")
        if touched.acls:
            self._drop(touched.path, "access control lists are not kept")

    def _mode(self, touched: Touched) -> int:
        if touched.mode & SPECIAL_BITS:
            self._drop(touched.path, "setuid, setgid and sticky are not kept")
        return touched.mode & ~SPECIAL_BITS

    def _add_link(self, path: ScopedPath, touched: Touched, base: Base | None) -> None:
        text = touched.target or ""
        try:
            text.encode()
        except UnicodeEncodeError:
            self.unfit.append(Dropped(path, "the text of the link is not valid text"))
            self.altered.pop(path, None)
            return
        self.altered[path] = Altered(path, "symlink", base, size=len(text), target=text)

    def _add_file(
        self, path: ScopedPath, touched: Touched, base: Base | None, source: Source
    ) -> None:
        self.sources[path] = source
        try:
            size, sha256 = _hashed(source, self._bytes_left)
        except _TooMuch as found:
            reason = "there is more than is brought back of one command"
            self.unfit.append(Dropped(path, reason, found.size))
            self.altered.pop(path, None)
            return
        except (FileNotFoundError, NotADirectoryError):
            return  # a command that is under way has taken it away since
        self._bytes_left -= size
        mode = self._mode(touched)
        self.altered[path] = Altered(path, "file", base, mode, size, sha256)

    def _gone_beneath(self, directory: str, kinds: Mapping[str, TouchedKind]) -> None:
        """What lay in a directory that was taken away or replaced, and did not come again."""
        for text in self._survey.beneath(directory):
            is_told = kinds.get(text, "special_dropped") != "special_dropped"
            if not is_told and (path := self._path(text)) is not None:
                self.altered[path] = Altered(path, None, self._survey.get(text))

    def _came_along(self, directory: str, origin: str, kinds: Mapping[str, TouchedKind]) -> None:
        """What lies in a directory that was moved, and was not touched there."""
        if (top := self._path(directory)) is not None:
            self.moved[top] = ScopedPath(origin)
        for text in self._survey.beneath(origin):
            there = directory + text.removeprefix(origin)
            was, base = self._survey.get(text), self._survey.get(there)
            if was is None or _is_covered(there, directory, kinds):
                continue
            if (path := self._path(there, origin=text)) is None or self._path(text) is None:
                continue
            if was.type == "file":
                touched = Touched(path=there, kind="file_created", mode=was.mode)
                self._add_file(path, touched, base, Source(self._lower, text, _open_beneath))
            elif was.type == "symlink":
                with suppress(OSError):  # others have put something else there since
                    target = _link_text(self._lower, text)
                    touched = Touched(path=there, kind="symlink_created", target=target)
                    self._add_link(path, touched, base)
            elif was.type == "directory":
                self._add(Touched(path=there, kind="directory_created", mode=was.mode))
            if (came := self.altered.get(path)) is not None and came.type is not None:
                self.altered[path] = came._replace(origin=ScopedPath(text))


def _is_covered(path: str, directory: str, kinds: Mapping[str, TouchedKind]) -> bool:
    """Whether what stands at a path in a directory that was moved is told by itself, or did not
    come along with it."""
    if path in kinds:
        return True
    while (path := path.rpartition("/")[0]) != directory:
        if kinds.get(path, "directory_changed") != "directory_changed":
            return True
    return False


# --- by descriptors ---------------------------------------------------------------------------


@contextmanager
def _parent(top: int, path: str) -> Iterator[tuple[int, str]]:
    """The directory that a path stands in, opened one component at a time, and its name there."""
    *above, name = path.split("/")
    directory = os.open(".", _DIRECTORY_FLAGS, dir_fd=top)
    try:
        for part in above:
            below = os.open(part, _DIRECTORY_FLAGS, dir_fd=directory)
            os.close(directory)
            directory = below
        yield directory, name
    finally:
        os.close(directory)


def _opened(source: Source) -> int:
    return source.open(source.top, source.path)


def begun(source: Source) -> tuple[bytes, int | None]:
    """The first of a file, and its descriptor where there is more."""
    file = _opened(source)
    more = False
    try:
        data = os.read(file, CHUNK_BYTES)
        more = len(data) < os.fstat(file).st_size
    finally:
        if not more:
            os.close(file)
    return data, file if more else None


def _open_beneath(top: int, path: str) -> int:
    """A regular file of the tree below, to be read. Raises OSError, and `FileNotFoundError` where
    something else stands there by now."""
    with _parent(top, path) as (directory, name):
        if not stat_bits.S_ISREG(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            raise FileNotFoundError(path)
        file = os.open(name, _FILE_FLAGS, dir_fd=directory)
    if not stat_bits.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise FileNotFoundError(path)
    return file


class _TooMuch(Exception):
    """More than is looked at."""

    def __init__(self, size: int) -> None:
        self.size = size


def _hashed(source: Source, bytes_max: int) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    file = _opened(source)
    try:
        if (stands := os.fstat(file).st_size) > bytes_max:
            raise _TooMuch(stands)
        while chunk := os.read(file, CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
            if size > bytes_max:
                raise _TooMuch(size)
    finally:
        os.close(file)
    return size, digest.hexdigest()


def _link_text(top: int, path: str) -> str:
    with _parent(top, path) as (directory, name):
        return os.readlink(name, dir_fd=directory)
