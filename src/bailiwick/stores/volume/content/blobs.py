"""Where the chunks of large files are kept: bytes under a key, written once.

A key is made of the volume's own random id, the hash of the bytes and a random word, so that two
volumes can share a place, and what is deleted can never be what somebody has just written again.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from bailiwick.errors import IoError, PermissionDenied, from_os_error
from bailiwick.stores.volume.content.compression import Buffer
from bailiwick.stores.volume.fsck.ownership import refuse_foreign_folder

_PARTIAL: Final = ".partial-"
"""How the names of files begin that are being written."""

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Without waiting: a FIFO would be waited for by whoever opens it."""
_FOLDERS: Final = 2
"""Each blob lies in a folder of its volume, and in that of the first letters of its hash."""

_PARTS_AT_ONCE: Final = 512
"""Parts handed to the system in one call, which takes 1,024."""


class Blob(NamedTuple):
    """One blob that is there."""

    key: str
    size: int
    mtime_ns: int


class Blobs(Protocol):
    """A place for blobs. All methods block, and are called on threads."""

    @property
    def description(self) -> str:
        """Which place it is: two stores on one volume must have the same. Holds no secret."""
        ...

    @property
    def threads(self) -> Executor | None:
        """Threads of its own, where a call may take long; None: any thread will do."""
        ...

    def put(self, key: str, parts: Sequence[Buffer]) -> None:
        """Keep the parts as one blob, durably when this returns. Raises `IoError`."""
        ...

    def fetch(self, key: str, into: memoryview) -> int:
        """Read a blob into a buffer. Returns how many bytes it has: none where there is no such
        blob, and what does not fit is not read. Raises `IoError`."""
        ...

    def delete(self, key: str) -> None:
        """Let go of a blob; one that is not there is fine. Raises `IoError`."""
        ...

    def all(self, prefix: str) -> Iterator[Blob]:
        """Every blob whose key begins with ``prefix`` and a slash. Raises `IoError`."""
        ...

    def answer(self) -> None:
        """Return once the place has answered, which is asked of it anew each time. Raises `IoError`
        where it does not, within seconds."""
        ...

    def close(self) -> None:
        """Let go of threads and connections. They come back when the place is used again."""
        ...


def new_key(volume_uid: str, digest: bytes) -> str:
    """A key that nobody has used for anything."""
    name = digest.hex()
    return f"{volume_uid}/{name[:2]}/{name}-{secrets.token_hex(4)}"


def check_key(key: str) -> str:
    """Refuse a key that would lead out of the place: a row may be damaged."""
    if not isinstance(key, str) or ".." in key or key.startswith("/"):
        raise IoError("the key of a blob is damaged")
    return key


_KEY: Final = re.compile(
    r"[0-9a-f]{16}/[0-9a-f]{2}/(\.partial-)?[0-9a-f]{64}-[0-9a-f]{8}"
).fullmatch


def is_blob(key: str) -> bool:
    """Whether this is a blob of a volume, or one that was not written to its end. Nothing else in a
    place that others may use too is ever taken away."""
    return _KEY(key) is not None


class FolderBlobs:
    """Blobs as files in a folder beside the database. No link in it is followed: what somebody has
    planted there is neither read nor written nor taken away."""

    def __init__(self, folder: str) -> None:
        """Raises `PermissionDenied` for a folder that another user controls."""
        self._folder = os.path.abspath(folder)
        self._refuse_foreign()
        self._making = threading.Lock()
        self._durable: set[str] = set()

    @property
    def description(self) -> str:
        return f"folder:{self._folder}"

    @property
    def threads(self) -> None:
        return None

    def put(self, key: str, parts: Sequence[Buffer]) -> None:
        path = self._path(key)
        folder, _, name = path.rpartition("/")
        partial = f"{folder}/{_PARTIAL}{name}"
        try:
            descriptor = self._create(folder, partial)
            try:
                _write_all(descriptor, parts)
                os.fsync(descriptor)
                os.rename(partial, path)
                _sync_folder(folder)
            except BaseException:
                for left in (partial, path):  # the key is new: whatever has it is of this call
                    with suppress(OSError):
                        os.unlink(left)
                raise
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _failed(error) from error

    def fetch(self, key: str, into: memoryview) -> int:
        try:
            descriptor = os.open(self._path(key), _READ)
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise _failed(error) from error
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise IoError("what stands in the place of a blob is no plain file")
            done, size = 0, status.st_size
            while done < len(into) and (read := os.readv(descriptor, [into[done:]])):
                done += read
            return max(done, size)
        except OSError as error:
            raise _failed(error) from error
        finally:
            os.close(descriptor)

    def delete(self, key: str) -> None:
        try:
            os.unlink(self._path(key))
        except FileNotFoundError:
            return
        except OSError as error:
            raise _failed(error) from error

    def all(self, prefix: str) -> Iterator[Blob]:
        top = self._path(prefix)
        for folder, _, names in os.walk(top, onerror=_raise_unless_missing):
            for name in names:
                path = f"{folder}/{name}"
                with suppress(FileNotFoundError):
                    status = os.lstat(path)
                    key = f"{prefix}{path[len(top) :]}"
                    yield Blob(key, status.st_size, status.st_mtime_ns)

    def answer(self) -> None:
        """What is on this machine is there, or made by whoever writes first."""

    def close(self) -> None:
        pass

    def _refuse_foreign(self) -> None:
        """A folder that stands and is ours stays so. Where there is none yet, another user of the
        directory may make one first: it is looked at again until it is there."""
        self._is_ours = refuse_foreign_folder(self._folder)

    def _path(self, key: str) -> str:
        """Where a blob lies. Nobody else can plant a link on the way meanwhile: the folder is only
        ours to write, or was refused."""
        if not self._is_ours:
            self._refuse_foreign()
        path, above = f"{self._folder}/{check_key(key)}", self._folder
        for part in key.split("/")[:_FOLDERS]:
            above = f"{above}/{part}"
            if os.path.islink(above):
                raise IoError("a link stands in the place of a folder of blobs")
        return path

    def _create(self, folder: str, path: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with self._making:
            if folder not in self._durable:
                self._make_folder(folder)
        try:
            return os.open(path, flags, 0o600)
        except FileNotFoundError:  # somebody has tidied up
            with self._making:
                self._is_ours = False
                self._make_folder(folder)
            return os.open(path, flags, 0o600)

    def _make_folder(self, folder: str) -> None:
        if not self._is_ours:
            _make_durable(self._folder)
            self._refuse_foreign()
            if not self._is_ours:
                raise PermissionDenied("somebody else changes what stands in the place of blobs")
        _make_durable(folder)
        self._durable.add(folder)


def _make_durable(folder: str) -> None:
    """Make the folder and those above it durable too: else all in it is lost with its name.

    One that stands already is made durable once, too: who made it may have died before.
    """
    missing, above = [folder], os.path.dirname(folder)
    while not os.path.isdir(above):
        missing.append(above)
        above = os.path.dirname(above)
    for made in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(made, 0o700)
        _sync_folder(os.path.dirname(made))


def _write_all(descriptor: int, parts: Sequence[Buffer]) -> None:
    waiting = [memoryview(part) for part in parts]
    first = 0
    while first < len(waiting):
        written = os.writev(descriptor, waiting[first : first + _PARTS_AT_ONCE])
        while first < len(waiting) and written >= len(waiting[first]):
            written -= len(waiting[first])
            first += 1
        if written:
            waiting[first] = waiting[first][written:]


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _raise_unless_missing(error: OSError) -> None:
    """A folder that cannot be listed is not one without blobs."""
    if not isinstance(error, FileNotFoundError):
        raise _failed(error) from error


def _failed(error: OSError) -> IoError:
    mapped = from_os_error(error)
    if isinstance(mapped, IoError):
        return mapped
    return IoError(f"the blob store failed: {mapped.message}", errno=error.errno, hint=mapped.hint)
