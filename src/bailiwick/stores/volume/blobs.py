"""Where the chunks of large files are kept: bytes under a key, written once.

A key is made of the volume's own random id, the hash of the bytes and a random word, so that two
volumes can share a place, and what is deleted can never be what somebody has just written again.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from bailiwick.errors import IoError, from_os_error

_PARTIAL: Final = ".partial-"
"""How the names of files begin that are being written."""


class Blob(NamedTuple):
    """One blob that is there."""

    key: str
    size: int
    mtime_ns: int


class Blobs(Protocol):
    """A place for blobs. All methods block, and are called on threads of their own."""

    @property
    def description(self) -> str:
        """Which place it is: two stores on one volume must have the same."""
        ...

    def put(self, key: str, data: bytes) -> None:
        """Keep ``data``, durably when this returns. Raises `IoError`."""
        ...

    def get(self, key: str) -> bytes | None:
        """The bytes, or None where there are none. Raises `IoError`."""
        ...

    def delete(self, key: str) -> None:
        """Let go of a blob; one that is not there is fine. Raises `IoError`."""
        ...

    def all(self, prefix: str) -> Iterator[Blob]:
        """Every blob whose key begins with ``prefix`` and a slash."""
        ...


def new_key(volume_uid: str, digest: bytes) -> str:
    """A key that nobody has used for anything."""
    name = digest.hex()
    return f"{volume_uid}/{name[:2]}/{name}-{secrets.token_hex(4)}"


class FolderBlobs:
    """Blobs as files in a folder beside the database."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.abspath(folder)

    @property
    def description(self) -> str:
        return f"folder:{self._folder}"

    def put(self, key: str, data: bytes) -> None:
        folder, _, name = self._path(key).rpartition("/")
        partial = f"{folder}/{_PARTIAL}{name}"
        try:
            self._make_folder(folder)
            descriptor = os.open(
                partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
            )
            try:
                _write_all(descriptor, data)
                os.fsync(descriptor)
            except BaseException:
                with suppress(OSError):
                    os.unlink(partial)
                raise
            finally:
                os.close(descriptor)
            os.rename(partial, f"{folder}/{name}")
            _sync_folder(folder)
        except OSError as error:
            raise _failed(error) from error

    def get(self, key: str) -> bytes | None:
        try:
            descriptor = os.open(self._path(key), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _failed(error) from error
        try:
            return _read_all(descriptor, os.fstat(descriptor).st_size)
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
        for folder, _, names in os.walk(top):
            for name in names:
                path = f"{folder}/{name}"
                with suppress(FileNotFoundError):
                    status = os.stat(path)
                    key = f"{prefix}{path[len(top) :]}"
                    yield Blob(key, status.st_size, status.st_mtime_ns)

    def _path(self, key: str) -> str:
        if ".." in key or key.startswith("/"):
            raise IoError("the key of a blob is damaged")
        return f"{self._folder}/{key}"

    def _make_folder(self, folder: str) -> None:
        """Make the folder and those above it durable too: else all in it is lost with its name."""
        missing = []
        while not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        for made in reversed(missing):
            with suppress(FileExistsError):
                os.mkdir(made, 0o700)
            _sync_folder(os.path.dirname(made))


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _read_all(descriptor: int, size: int) -> bytes:
    data = os.read(descriptor, size)
    if len(data) == size:
        return data
    parts = [data]
    while part := os.read(descriptor, size):
        parts.append(part)
    return b"".join(parts)


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _failed(error: OSError) -> IoError:
    mapped = from_os_error(error)
    if isinstance(mapped, IoError):
        return mapped
    return IoError(f"the blob store failed: {mapped.message}", errno=error.errno, hint=mapped.hint)
