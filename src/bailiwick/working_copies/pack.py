"""Many small contents in one file, by the path that each belongs to.

A file for each is made, renamed and removed: three changes of directories, which take longer than
all the rest of bringing it back. One is only added to here, and emptied when nothing in it counts.
"""

from __future__ import annotations

import hashlib
import os
import struct
import threading
from collections.abc import Collection, Mapping
from typing import Final

from bailiwick.paths import ScopedPath

_HEAD: Final = struct.Struct("<32s32sQ")
"""Of each record: hashes of the path and of the content, and the size of that."""

_FORGOTTEN: Final = 2**64 - 1
"""Instead of a size: what was put there before does not count any more."""

_Place = tuple[int, int, bytes]
"""Where a content begins, its size, and its hash."""

_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Pack:
    """One such file. A record that was not written to its end is none. Its methods block, and may
    be called by several threads; of several processes the folder is locked by one."""

    def __init__(self, directory: int, name: str) -> None:
        """Both are there as long as it is used; the file is made when it is needed."""
        self._directory = directory
        self._name = name
        self._lock = threading.Lock()
        self._places: dict[bytes, _Place] | None = None
        self._end = 0

    def __contains__(self, path: ScopedPath) -> bool:
        with self._lock:
            return _key(path) in self._known()

    def add(self, contents: Mapping[ScopedPath, bytes], *, durable: bool = False) -> None:
        """All of them, or those of them that were written before somebody was killed."""
        if not contents:
            return
        with self._lock:
            known, end = self._known(), self._end
            new: dict[bytes, _Place] = {}
            pieces: list[bytes] = []
            for path, data in contents.items():
                key, digest = _key(path), hashlib.sha256(data).digest()
                pieces += [_HEAD.pack(key, digest, len(data)), data]
                new[key] = (end + _HEAD.size, len(data), digest)
                end += _HEAD.size + len(data)
            self._append(b"".join(pieces), durable=durable)
            known.update(new)

    def get(self, path: ScopedPath) -> bytes | None:
        """What was put there last; None where nothing was, or a loss of power has taken it."""
        with self._lock:
            found = self._known().get(_key(path))
            if found is None:
                return None
            offset, size, digest = found
            file = os.open(self._name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=self._directory)
            try:
                data = os.pread(file, size, offset)
            finally:
                os.close(file)
        return data if hashlib.sha256(data).digest() == digest else None

    def forget(self, paths: Collection[ScopedPath]) -> None:
        with self._lock:
            known = self._known()
            gone = [key for key in map(_key, paths) if known.pop(key, None) is not None]
            if known:
                self._append(b"".join(_HEAD.pack(key, bytes(32), _FORGOTTEN) for key in gone))
            elif gone:
                self._empty()

    def clear(self) -> None:
        with self._lock:
            if self._known():
                self._empty()

    def _empty(self) -> None:
        os.unlink(self._name, dir_fd=self._directory)
        self._places, self._end = {}, 0

    def _append(self, data: bytes, *, durable: bool = False) -> None:
        file = os.open(self._name, _FLAGS, 0o600, dir_fd=self._directory)
        try:
            # Of what was not written to its end no byte may come to stand after a shorter record:
            # it would be taken for one.
            os.ftruncate(file, self._end)
            written = 0
            while written < len(data):
                written += os.pwrite(file, data[written:], self._end + written)
            if durable:
                os.fsync(file)
                os.fsync(self._directory)
        finally:
            os.close(file)
        self._end += written

    def _known(self) -> dict[bytes, _Place]:
        if self._places is None:
            self._places, self._end = self._read()
        return self._places

    def _read(self) -> tuple[dict[bytes, _Place], int]:
        """Where each content is, and the end of the last record that is whole."""
        found: dict[bytes, _Place] = {}
        try:
            file = os.open(self._name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=self._directory)
        except FileNotFoundError:
            return found, 0
        end = 0
        try:
            all_bytes = os.fstat(file).st_size
            while len(head := os.pread(file, _HEAD.size, end)) == _HEAD.size:
                key, digest, size = _HEAD.unpack(head)
                offset = end + _HEAD.size
                if size == _FORGOTTEN:
                    found.pop(key, None)
                    size = 0
                elif offset + size > all_bytes:
                    break
                else:
                    found[key] = (offset, size, digest)
                end = offset + size
        finally:
            os.close(file)
        return found, end


def _key(path: ScopedPath) -> bytes:
    return hashlib.sha256(path.encode()).digest()
