"""A disk that forgets whatever was not synced, for SQLite's files and for the folder of blobs.

Everything that is written, synced, renamed and removed is written down in order. What a power cut
at some instant would have left is made from that: what was synced is there; of the rest any part
may be, in any order, cut at any sector, and a name may have reached the disk without its content.
"""

import os
import random
import threading
from types import SimpleNamespace

import apsw

from bailiwick.sqlite import fork_safety
from bailiwick.stores.volume.content import blobs
from bailiwick.stores.volume.rows import sqlite_file

SECTOR = 512
VFS = "bailiwick-forgetful"


class Log:
    """What has happened, in order. ``mark`` adds what the test itself has to say."""

    def __init__(self):
        self.events = []
        self._lock = threading.Lock()

    def add(self, *event):
        with self._lock:
            self.events.append(event)

    def mark(self, *words):
        self.add("mark", *words)

    def __len__(self):
        return len(self.events)


# --- SQLite's files ----------------------------------------------------------------------------


class _File(apsw.VFSFile):
    def __init__(self, log, name, flags):
        self._log = log
        self._name = name.filename() if isinstance(name, apsw.URIFilename) else name
        super().__init__("unix", name, flags)

    def xWrite(self, data, offset):
        self._log.add("write", self._name, offset, bytes(data))
        super().xWrite(data, offset)

    def xTruncate(self, size):
        self._log.add("truncate", self._name, size)
        super().xTruncate(size)

    def xSync(self, flags):
        super().xSync(flags)
        self._log.add("sync", self._name)


class _Files(apsw.VFS):
    def __init__(self, log):
        self._log = log
        super().__init__(VFS, "unix")

    def xOpen(self, name, flags):
        if name is None:  # a temporary file: nobody misses it
            return super().xOpen(name, flags)
        return _File(self._log, name, flags)

    def xDelete(self, name, sync):
        super().xDelete(name, sync)
        self._log.add("delete", name)


# --- the folder of blobs -----------------------------------------------------------------------


class _Calls:
    """The calls of `os` that the blob store makes, written down."""

    def __init__(self, log):
        self._log = log
        self._open = {}

    def __getattr__(self, name):
        return getattr(os, name)

    def open(self, path, flags, mode=0o777):
        descriptor = os.open(path, flags, mode)
        self._open[descriptor] = (path, bool(flags & os.O_DIRECTORY))
        if flags & os.O_CREAT:
            self._log.add("create", path, os.fstat(descriptor).st_ino)
        return descriptor

    def close(self, descriptor):
        del self._open[descriptor]
        os.close(descriptor)

    def writev(self, descriptor, parts):
        written = os.writev(descriptor, parts)
        data = b"".join(bytes(part) for part in parts)[:written]
        self._log.add("data", os.fstat(descriptor).st_ino, data)
        return written

    def fsync(self, descriptor):
        path, is_directory = self._open[descriptor]
        os.fsync(descriptor)
        if is_directory:
            self._log.add("sync-folder", path)
        else:
            self._log.add("sync-data", os.fstat(descriptor).st_ino)

    def rename(self, old, new):
        os.rename(old, new)
        self._log.add("rename", old, new)

    def unlink(self, path):
        os.unlink(path)
        self._log.add("unlink", path)

    def mkdir(self, path, mode=0o777):
        os.mkdir(path, mode)
        self._log.add("mkdir", path)


def forgetful(monkeypatch):
    """From now on volumes are kept on such a disk; returns its log."""
    log = Log()
    files = _Files(log)
    monkeypatch.setattr(blobs, "os", _Calls(log))
    with_log = lambda *args, **options: apsw.Connection(*args, vfs=VFS, **options)  # noqa: E731
    known = {name: getattr(apsw, name) for name in dir(apsw)}
    monkeypatch.setattr(fork_safety, "apsw", SimpleNamespace(**known | {"Connection": with_log}))
    monkeypatch.setattr(sqlite_file, "_is_in_memory", lambda device: False)
    return log, files


# --- what is left --------------------------------------------------------------------------------


class Left:
    """The disk after a power cut: made by going through the log up to that instant.

    ``deaf`` names a kind of event that does nothing, to show that it matters.
    """

    def __init__(self, before, seed, deaf=()):
        self._random = random.Random(seed)
        self._deaf = deaf
        self._durable = {name: bytearray(data) for name, data in before.items()}
        self._pending = {}
        self._content, self._synced = {}, {}
        self._names, self._on_disk = {}, {}
        self._folders = set()

    def go(self, events):
        for kind, *rest in events:
            if kind != "mark" and kind not in self._deaf:
                getattr(self, f"_{kind.replace('-', '_')}")(*rest)

    def put(self, folder, path):
        """Write what is left of the files of ``folder`` into another one, ``path``."""
        for name in {*self._durable, *self._pending}:
            data = self._survived(name)
            if data is not None:
                with open(name.replace(folder, path, 1), "wb") as file:
                    file.write(data)
        for name, data in self._blobs().items():
            target = name.replace(folder, path, 1)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as file:
                file.write(data)

    # SQLite's files: a write is pending until its file is synced.

    def _write(self, name, offset, data):
        self._pending.setdefault(name, []).append((offset, data))

    def _truncate(self, name, size):
        self._pending.setdefault(name, []).append((size, None))

    def _sync(self, name):
        data = self._durable.setdefault(name, bytearray())
        for offset, piece in self._pending.pop(name, ()):
            _apply(data, offset, piece)

    def _delete(self, name):
        self._durable.pop(name, None)
        self._pending.pop(name, None)

    def _survived(self, name):
        data, pending = self._durable.get(name), self._pending.get(name, [])
        if data is None and self._random.random() < 0.5:
            return None  # its name was never synced
        data = bytearray(data or b"")
        share = self._random.choice((0.0, 0.5, 1.0))
        for offset, piece in pending:
            if self._random.random() < share:
                if piece is not None and self._random.random() < 0.1:
                    piece = piece[: self._random.randrange(0, len(piece) + 1, SECTOR)]
                _apply(data, offset, piece)
        return data

    # Blobs: content is durable when it was synced, a name when its folder was.

    def _create(self, path, number):
        self._names[path] = number
        self._content[number] = self._synced[number] = b""

    def _data(self, number, data):
        self._content[number] += data

    def _sync_data(self, number):
        self._synced[number] = self._content[number]

    def _mkdir(self, path):
        self._names[path] = None
        self._folders.add(path)

    def _rename(self, old, new):
        self._names[new] = self._names.pop(old)

    def _unlink(self, path):
        self._names.pop(path, None)

    def _sync_folder(self, folder):
        for path in [each for each in self._on_disk if os.path.dirname(each) == folder]:
            del self._on_disk[path]
        for path, number in self._names.items():
            if os.path.dirname(path) == folder:
                self._on_disk[path] = number

    def _blobs(self):
        luck = self._random.random() < 0.5
        names = dict(self._on_disk)
        if luck:  # what was not synced may have reached the disk all the same
            names |= {path: n for path, n in self._names.items() if self._random.random() < 0.5}
        found = {}
        for path, number in names.items():
            above = os.path.dirname(path)
            while above in self._folders and above in names:
                above = os.path.dirname(above)
            if number is None or above in self._folders:
                continue
            kept, all_of_it = self._synced[number], self._content[number]
            found[path] = all_of_it if luck and self._random.random() < 0.5 else kept
        return found


def _apply(data, offset, piece):
    if piece is None:
        del data[offset:]
        return
    if len(data) < offset:
        data.extend(bytes(offset - len(data)))
    data[offset : offset + len(piece)] = piece
