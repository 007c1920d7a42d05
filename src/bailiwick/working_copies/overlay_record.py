"""What is known of an overlay, kept in the folder of its working copy.

    record     the log of its changes, one after the other; a cut end never was one
    content/   what files hold that were touched, by the id of their node

In memory: the nodes that were touched, the names of the lower tree that are gone, and of every
touched path what stood below when it was touched first. All of it goes by what was touched, never
by the size of the tree.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from bailiwick.changes_made import mounted_around
from bailiwick.errors import IoError
from bailiwick.model import MiB
from bailiwick.nodes import ROOT_ID, Node
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.sparse_files import write_all
from bailiwick.working_copies.folder import Folder
from bailiwick.working_copy import Base

LOWER: Final = "lower:"
"""Before the path of what stands in the lower tree, in the id of its node. It keeps that id where
it is touched or moved: so what lies in a moved directory is still found below."""

_DROPPED_BYTES_MAX: Final = 256 * MiB
"""Of content that was replaced or removed while the overlay is open: whoever reads it goes on."""

_HEAD_BYTES: Final = 8
_NEW_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_LOG_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class RecordEntry(msgspec.Struct, array_like=True):
    """One change of the record. ``anew`` forgets all that was before. ``mounted`` tells of bases
    that lay in a filesystem which was mounted in the tree, with where."""

    put: list[Node] = []
    gone: list[str] = []
    hidden: list[tuple[str, str]] = []
    bases: dict[str, Base | None] = {}
    anew: bool = False
    mounted: dict[str, str] = {}


class OverlayRecord:
    """The record of one overlay. What changes it blocks, and is called by one at a time."""

    def __init__(self, folder: Folder) -> None:
        self._folder: Final = folder
        self._log = -1
        self._dropped: deque[Node] = deque()
        self.nodes: dict[str, Node] = {}
        """Those that were touched."""
        self.names: dict[str, dict[str, str]] = {}
        """Their ids, by directory and name."""
        self.hidden: set[tuple[str, str]] = set()
        """Names of the lower tree that do not show, by directory."""
        self.bases: dict[ScopedPath, Base | None] = {}
        """What stood in the lower tree at each path that was touched, when it was touched first."""
        self.mounted: dict[ScopedPath, str] = {}
        """Where the filesystem was mounted that it lay in, if it was not that of the tree."""

    # --- opening ------------------------------------------------------------------------------

    def open(self) -> None:
        self._folder.part("content", making=True)
        self._log = os.open("record", _LOG_FLAGS, 0o600, dir_fd=self._folder.directory)
        end = 0
        data = os.pread(self._log, os.fstat(self._log).st_size, 0)
        while (entry := _framed(data, end)) is not None:
            try:
                self._take(msgspec.msgpack.decode(entry, type=RecordEntry))
            except msgspec.MsgspecError:
                raise IoError("the record of an overlay cannot be read") from None
            end += _HEAD_BYTES + len(entry)
        os.ftruncate(self._log, end)
        self._sweep()

    def close(self) -> None:
        log, self._log = self._log, -1
        if log >= 0:
            self._clear_away(-1)
            os.close(log)

    def _sweep(self) -> None:
        """Content that a killed process wrote for a change that was never made."""
        known = {_file_of(each) for each in self.nodes}
        for name in os.listdir(self._contents):
            if name not in known:
                os.unlink(name, dir_fd=self._contents)

    # --- changing -----------------------------------------------------------------------------

    def append(self, entry: RecordEntry) -> None:
        """Durable first, whole or not at all; then it is what everybody sees."""
        data = msgspec.msgpack.encode(entry, enc_hook=str)
        head = len(data).to_bytes(4, "big") + zlib.crc32(data).to_bytes(4, "big")
        if entry.anew:
            self._replace(head + data)
        else:
            self._add(head + data)
        before = self.nodes
        leaving = list(before) if entry.anew else entry.gone
        self._dropped += [before[each] for each in leaving if each in before]
        self._take(entry)
        self._clear_away(_DROPPED_BYTES_MAX)

    def _clear_away(self, bytes_max: int) -> None:
        """Content that nothing stands for is kept a while for whoever still reads it."""
        left = sum(each.size for each in self._dropped)
        while self._dropped and left > bytes_max:
            node = self._dropped.popleft()
            left -= node.size
            if node.type == "file" and node.id not in self.nodes:
                with suppress(FileNotFoundError):
                    os.unlink(_file_of(node.id), dir_fd=self._contents)

    def _add(self, frame: bytes) -> None:
        end = os.fstat(self._log).st_size
        try:
            write_all(self._log, frame)
            os.fsync(self._log)
        except OSError:
            os.ftruncate(self._log, end)
            raise

    def _replace(self, frame: bytes) -> None:
        """What was before is of no use any more."""
        folder = self._folder.directory
        log = os.open("record.new", _LOG_FLAGS | os.O_TRUNC, 0o600, dir_fd=folder)
        try:
            write_all(log, frame)
            os.fsync(log)
            os.rename("record.new", "record", src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            os.close(log)
            raise
        os.close(self._log)
        self._log = log

    def _take(self, entry: RecordEntry) -> None:
        if entry.anew:
            self.nodes, self.names, self.hidden, self.bases = {}, {}, set(), {}
            self.mounted = {}
        for each in entry.gone:
            self._drop(each)
        for node in entry.put:
            self._drop(node.id)
            self.nodes[node.id] = node
            self.names.setdefault(node.parent, {})[node.name] = node.id
        self.hidden |= set(entry.hidden)
        for path, base in entry.bases.items():
            place = ScopedPath(path)
            if place not in self.bases:
                self.bases[place] = base
                if (mount := entry.mounted.get(path)) is not None:
                    self.mounted[place] = mount

    def _drop(self, node_id: str) -> None:
        node = self.nodes.pop(node_id, None)
        if node is not None:
            names = self.names[node.parent]
            if names.get(node.name) == node_id:
                del names[node.name]
            if not names:
                del self.names[node.parent]

    def with_bases(
        self, bases: Mapping[ScopedPath, Base | None], mounts: Collection[str]
    ) -> RecordEntry:
        """The whole of the record, with other bases for some paths, by those ``mounts``."""
        known = {str(path): base for path, base in (self.bases | dict(bases)).items()}
        return RecordEntry(
            list(self.nodes.values()), [], sorted(self.hidden), known, anew=True,
            mounted=self.mounted_of(known, frozenset(bases), mounts),
        )  # fmt: skip

    def mounted_of(
        self, bases: Iterable[str], anew: Collection[ScopedPath], mounts: Collection[str]
    ) -> dict[str, str]:
        """Which of some bases lie in mounted filesystems, and where those are: of those that are
        known that stays, but for some that were looked at ``anew``, by those ``mounts``."""
        found: dict[str, str] = {}
        for text in bases:
            path = ScopedPath(text)
            is_known = path in self.bases and path not in anew
            mount = self.mounted.get(path) if is_known else mounted_around(path, mounts)
            if mount is not None:
                found[text] = mount
        return found

    # --- content ------------------------------------------------------------------------------

    @property
    def _contents(self) -> int:
        return self._folder.part("content", making=True)

    def write(self, node_id: str, chunks: Iterable[bytes]) -> tuple[int, str]:
        """Keep the content of a node. Returns its size and hash."""
        writing = self.begin(node_id)
        try:
            for chunk in chunks:
                writing.add(chunk)
            return writing.end()
        finally:
            writing.close()

    def begin(self, node_id: str) -> Writing:
        return Writing(_file_of(node_id), self._contents)

    def read(self, node_id: str, offset: int, length: int | None) -> bytes:
        content = os.open(_file_of(node_id), _READ_FLAGS, dir_fd=self._contents)
        with os.fdopen(content, "rb") as file:
            file.seek(offset)
            return file.read(-1 if length is None else length)

    def adopt(self, old_id: str, new_id: str) -> None:
        """Let a node have the content of another one, which stays."""
        with suppress(FileExistsError):
            contents = self._contents
            os.link(
                _file_of(old_id), _file_of(new_id), src_dir_fd=contents, dst_dir_fd=contents,
                follow_symlinks=False,
            )  # fmt: skip

    # --- paths --------------------------------------------------------------------------------

    def path_of(self, node_id: str) -> ScopedPath:
        """Where a node stands, whether it was touched or not."""
        names: list[str] = []
        while node_id != ROOT_ID:
            node = self.nodes.get(node_id)
            if node is None:
                above, _, name = node_id.removeprefix(LOWER).rpartition("/")
                node_id = LOWER + above if above else ROOT_ID
            else:
                name, node_id = node.name, node.parent
            names.append(name)
        path = ROOT
        for name in reversed(names):
            path = path.child(name)
        return path

    def origin_at(self, path: ScopedPath) -> ScopedPath | None:
        """Where in the lower tree lies, or lay, what shows at a path; None for what is new."""
        directory = ROOT_ID
        for name in path.parts:
            origin = origin_of(directory)
            touched = self.names.get(directory, {}).get(name)
            if touched is None and origin is None:
                return None
            directory = touched or LOWER + f"{origin}/{name}".lstrip("/")
        found = origin_of(directory)
        return ScopedPath(found) if found else None


class Writing:
    """Content on its way. Its methods block."""

    def __init__(self, name: str, directory: int) -> None:
        self._file = os.open(name, _NEW_FLAGS, 0o600, dir_fd=directory)
        self._digest = hashlib.sha256()
        self._size = 0

    def add(self, chunk: bytes) -> None:
        write_all(self._file, chunk)
        self._digest.update(chunk)
        self._size += len(chunk)

    def end(self) -> tuple[int, str]:
        """On disk. Returns its size and hash."""
        os.fsync(self._file)
        return self._size, self._digest.hexdigest()

    def close(self) -> None:
        os.close(self._file)


def origin_of(node_id: str) -> str | None:
    """Where what lies in a directory stands in the lower tree; None for one that is new."""
    if node_id == ROOT_ID:
        return ""
    return node_id.removeprefix(LOWER) if node_id.startswith(LOWER) else None


def _file_of(node_id: str) -> str:
    return hashlib.sha256(node_id.encode()).hexdigest()


def _framed(data: bytes, start: int) -> bytes | None:
    """The entry that begins there; None where it was cut short."""
    head = data[start : start + _HEAD_BYTES]
    size = int.from_bytes(head[:4], "big")
    entry = data[start + _HEAD_BYTES : start + _HEAD_BYTES + size]
    if len(head) < _HEAD_BYTES or len(entry) < size:
        return None
    return entry if zlib.crc32(entry) == int.from_bytes(head[4:], "big") else None


def in_order(paths: Collection[ScopedPath]) -> Iterator[ScopedPath]:
    """Directories before what lies in them."""
    yield from sorted(paths, key=lambda each: each.order)
