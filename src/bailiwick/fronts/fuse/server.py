"""Answering the kernel: some threads that read what it asks, call the tree and answer.

A question to a person holds up the thread that asks it, and so the program that waits; the others
go on.
"""

from __future__ import annotations

import errno
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from bailiwick.errors import BailiwickError, PathOutsideWorkspace, SymlinkEscape
from bailiwick.fronts.fuse import protocol
from bailiwick.fronts.fuse.descriptors import is_written, writes_still
from bailiwick.fronts.fuse.nodes import FuseNode
from bailiwick.fronts.fuse.protocol import FuseAttributes, Op, RequestHead
from bailiwick.fronts.fuse.tree import ListedDirectory, MountedTree

_log = logging.getLogger("bailiwick.fuse")

THREADS: Final = 8
"""Requests that are under way at a time: enough that some questions to a person can be open."""

_VALID_NS: Final = 500_000_000
"""How long the kernel goes by what it was told: what others change shows within a second."""

_NAME_BYTES_MAX: Final = 255


class _Handle(NamedTuple):
    """An open file. ``appends``: whatever the kernel says, at the end."""

    node: FuseNode
    opener: int
    writes: bool
    appends: bool


class _Listing:
    """An open directory: what was in it when it was last read from its beginning."""

    def __init__(self, node: FuseNode) -> None:
        self.node = node
        self.rows: list[ListedDirectory] = []


class Answering:
    """What each request is answered with."""

    def __init__(self, tree: MountedTree) -> None:
        self._tree = tree
        self._nodes, self._contents = tree.nodes, tree.contents
        self._owner = os.getuid(), os.getgid()
        self._numbers = itertools.count(1)
        self._files: dict[int, _Handle] = {}
        self._directories: dict[int, _Listing] = {}
        self._by_op: dict[int, Callable[[RequestHead, memoryview], bytes]] = {
            Op.INIT: lambda _, body: protocol.init(body),
            Op.DESTROY: lambda *_: b"",
            Op.LOOKUP: self._look_up,
            Op.GETATTR: self._get_attributes,
            Op.SETATTR: self._set_attributes,
            Op.READLINK: self._read_link,
            Op.SYMLINK: self._symlink,
            Op.MKNOD: self._mknod,
            Op.MKDIR: self._mkdir,
            Op.UNLINK: self._unlink,
            Op.RMDIR: self._rmdir,
            Op.RENAME: self._rename,
            Op.RENAME2: self._rename2,
            Op.LINK: self._link,
            Op.OPEN: self._open,
            Op.CREATE: self._create,
            Op.READ: self._read,
            Op.WRITE: self._write,
            Op.FALLOCATE: self._fallocate,
            Op.FLUSH: self._flush,
            Op.FSYNC: self._fsync,
            Op.RELEASE: self._release,
            Op.STATFS: lambda *_: protocol.filesystem(_NAME_BYTES_MAX),
            Op.OPENDIR: self._open_directory,
            Op.READDIR: self._read_directory,
            Op.RELEASEDIR: self._release_directory,
            Op.FSYNCDIR: lambda *_: b"",
        }

    def answer(self, request: bytes) -> bytes | None:
        """The answer to a request; None where none is wanted."""
        head = protocol.head(request)
        body = memoryview(request)[protocol.HEAD_BYTES : head.length]
        if head.op == Op.FORGET:
            self._nodes.forget(head.node, protocol.FORGET.unpack_from(body)[0])
            return None
        if head.op == Op.BATCH_FORGET:
            self._forget_all(body)
            return None
        act = self._by_op.get(head.op)
        if act is None:
            # The kernel does not ask again, and does what it can without.
            return protocol.refusal(head.unique, errno.ENOSYS)
        try:
            return protocol.answer(head.unique, act(head, body))
        except (BailiwickError, OSError) as error:
            return protocol.refusal(head.unique, number_of(error))
        except Exception:
            _log.exception("a request of the kernel could not be answered")
            return protocol.refusal(head.unique, errno.EIO)

    def _forget_all(self, body: memoryview) -> None:
        count, _ = protocol.BATCH.unpack_from(body)
        for row in range(count):
            at = protocol.BATCH.size + row * protocol.FORGET_ONE.size
            self._nodes.forget(*protocol.FORGET_ONE.unpack_from(body, at))

    # --- names ------------------------------------------------------------------------------------

    def _entry(self, found: tuple[FuseNode, FuseAttributes]) -> bytes:
        node, shown = found
        changes = node.staged is not None
        valid = _VALID_NS, 0 if changes else _VALID_NS
        return protocol.entry(node.number, shown, self._owner, valid)

    def _look_up(self, head: RequestHead, body: memoryview) -> bytes:
        return self._entry(self._tree.look_up(self._nodes[head.node], _only_name(body)))

    def _symlink(self, head: RequestHead, body: memoryview) -> bytes:
        name, target = protocol.names(body)
        return self._entry(self._tree.make_link(self._nodes[head.node], _checked(name), target))

    def _mknod(self, head: RequestHead, body: memoryview) -> bytes:
        mode, *_ = protocol.MKNOD.unpack_from(body)
        name = _only_name(body, protocol.MKNOD.size)
        return self._entry(self._tree.make_file(self._nodes[head.node], name, mode))

    def _mkdir(self, head: RequestHead, body: memoryview) -> bytes:
        mode, _ = protocol.MKDIR.unpack_from(body)
        name = _only_name(body, protocol.MKDIR.size)
        return self._entry(self._tree.make_directory(self._nodes[head.node], name, mode))

    def _link(self, head: RequestHead, body: memoryview) -> bytes:
        raise OSError(errno.EPERM, "a file has one name here")

    def _unlink(self, head: RequestHead, body: memoryview) -> bytes:
        self._tree.remove(self._nodes[head.node], _only_name(body))
        return b""

    def _rmdir(self, head: RequestHead, body: memoryview) -> bytes:
        self._tree.remove_directory(self._nodes[head.node], _only_name(body))
        return b""

    def _rename(self, head: RequestHead, body: memoryview) -> bytes:
        (to,) = protocol.RENAME.unpack_from(body)
        return self._renamed(head, to, 0, protocol.names(body, protocol.RENAME.size))

    def _rename2(self, head: RequestHead, body: memoryview) -> bytes:
        to, flags, _ = protocol.RENAME2.unpack_from(body)
        return self._renamed(head, to, flags, protocol.names(body, protocol.RENAME2.size))

    def _renamed(self, head: RequestHead, to: int, flags: int, names: list[str]) -> bytes:
        name, new = names
        self._tree.rename(self._nodes[head.node], name, self._nodes[to], _checked(new), flags)
        return b""

    # --- attributes -------------------------------------------------------------------------------

    def _get_attributes(self, head: RequestHead, body: memoryview) -> bytes:
        shown, changes = self._tree.attributes(self._nodes[head.node])
        return protocol.attributes(shown, self._owner, 0 if changes else _VALID_NS)

    def _set_attributes(self, head: RequestHead, body: memoryview) -> bytes:
        self._tree.set_attributes(self._nodes[head.node], protocol.set_attributes(body))
        return self._get_attributes(head, body)

    def _read_link(self, head: RequestHead, body: memoryview) -> bytes:
        return os.fsencode(self._tree.read_link(self._nodes[head.node]))

    # --- files ------------------------------------------------------------------------------------

    def _opened(self, head: RequestHead, node: FuseNode, flags: int, *, writes: bool) -> int:
        number = next(self._numbers)
        self._files[number] = _Handle(node, head.pid, writes, bool(flags & os.O_APPEND))
        return number

    def _open(self, head: RequestHead, body: memoryview) -> bytes:
        flags, _ = protocol.OPEN.unpack_from(body)
        node = self._nodes[head.node]
        is_right = self._tree.open(node, flags)
        number = self._opened(head, node, flags, writes=flags & os.O_ACCMODE != os.O_RDONLY)
        return protocol.opened(number, protocol.KEEP_CACHE if is_right else 0)

    def _create(self, head: RequestHead, body: memoryview) -> bytes:
        flags, mode, _, _ = protocol.CREATE.unpack_from(body)
        name = _only_name(body, protocol.CREATE.size)
        # Also where it is only read: what is made is written.
        node, shown = self._tree.create(self._nodes[head.node], name, mode, flags)
        number = self._opened(head, node, flags, writes=True)
        return self._entry((node, shown)) + protocol.opened(number)

    def _read(self, head: RequestHead, body: memoryview) -> bytes:
        handle, offset, size, *_ = protocol.TRANSFER.unpack_from(body)
        return self._contents.read(self._files[handle].node, offset, size)

    def _write(self, head: RequestHead, body: memoryview) -> bytes:
        handle, offset, size, flags, *_ = protocol.TRANSFER.unpack_from(body)
        file = self._files[handle]
        at = None if file.appends and not flags & protocol.WRITE_CACHE else offset
        data = body[protocol.TRANSFER.size : protocol.TRANSFER.size + size]
        return protocol.WRITTEN.pack(self._contents.write(file.node, at, data), 0)

    def _fallocate(self, head: RequestHead, body: memoryview) -> bytes:
        handle, offset, length, mode, _ = protocol.FALLOCATE.unpack_from(body)
        if mode:
            raise OSError(errno.EOPNOTSUPP, "room is only made at the end")
        node = self._files[handle].node
        with node.lock:
            if self._contents.stage(node).size < offset + length:
                self._contents.resize(node, offset + length)
        return b""

    def _flush(self, head: RequestHead, body: memoryview) -> bytes:
        """A program closes a descriptor. What one that only read closes says nothing of others.
        As long as it, or who opened the file, has another to write it, the save has not ended: that
        one will be closed too, if only by the end of its process."""
        file = self._files[protocol.HANDLE.unpack_from(body)[0]]
        if not file.writes or file.node.staged is None:
            return b""
        if any(writes_still(pid, file.node.ino) for pid in {head.pid, file.opener}):
            return b""
        try:
            self._contents.publish(file.node)
        except (BailiwickError, OSError):
            # That the file is let go of comes later, by another thread. Whoever opens it first
            # would find what was refused.
            if not is_written(file.node.ino):
                self._contents.give_up(file.node)
            raise
        return b""

    def _fsync(self, head: RequestHead, body: memoryview) -> bytes:
        self._contents.publish(self._files[protocol.HANDLE.unpack_from(body)[0]].node)
        return b""

    def _release(self, head: RequestHead, body: memoryview) -> bytes:
        file = self._files.pop(protocol.HANDLE.unpack_from(body)[0])
        self._contents.closed(file.node, wrote=file.writes)
        return b""

    # --- directories ------------------------------------------------------------------------------

    def _open_directory(self, head: RequestHead, body: memoryview) -> bytes:
        listing = _Listing(self._nodes[head.node])
        listing.rows = self._tree.entries(listing.node)  # so that opening is refused, not reading
        number = next(self._numbers)
        self._directories[number] = listing
        return protocol.opened(number)

    def _read_directory(self, head: RequestHead, body: memoryview) -> bytes:
        handle, offset, size, *_ = protocol.TRANSFER.unpack_from(body)
        listing = self._directories[handle]
        if not listing.rows:  # read from its beginning once more
            listing.rows = self._tree.entries(listing.node)
        found, length = [], 0
        for at, row in enumerate(listing.rows[offset:], start=offset + 1):
            packed = protocol.directory_entry(row.ino, at, row.name, row.mode)
            length += len(packed)
            if length > size:
                break
            found.append(packed)
        if not found:
            listing.rows = []
        return b"".join(found)

    def _release_directory(self, head: RequestHead, body: memoryview) -> bytes:
        del self._directories[protocol.HANDLE.unpack_from(body)[0]]
        return b""


def _only_name(body: memoryview, start: int = 0) -> str:
    (name,) = protocol.names(body, start)
    return _checked(name)


def _checked(name: str) -> str:
    if len(os.fsencode(name)) > _NAME_BYTES_MAX:
        raise OSError(errno.ENAMETOOLONG, "the name is too long")
    return name


def number_of(error: BailiwickError | OSError) -> int:
    """The number that a program gets. One for places outside means another filesystem to it."""
    if isinstance(error, (PathOutsideWorkspace, SymlinkEscape)):
        return errno.EACCES
    return error.errno or errno.EIO


class FuseWorkers:
    """The threads that answer what comes over a descriptor."""

    def __init__(self, descriptor: int, answering: Answering, on_end: Callable[[], object]) -> None:
        self._descriptor = descriptor
        self._answering = answering
        self._on_end = on_end
        self._ending = False
        self.ended = threading.Event()
        """Set when the kernel has nothing to ask any more: it was unmounted."""
        self._threads = [
            threading.Thread(target=self._work, name=f"bailiwick-fuse-{number}", daemon=True)
            for number in range(THREADS)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def _work(self) -> None:
        try:
            while not self._ending:
                request = self._next()
                if request is None:
                    return
                answer = self._answering.answer(request)
                if answer is not None:
                    self._say(answer)
        finally:
            self.ended.set()
            self._on_end()

    def _next(self) -> bytes | None:
        while True:
            try:
                return os.read(self._descriptor, protocol.REQUEST_BYTES_MAX)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.EINTR, errno.EAGAIN):
                    continue  # who asked was interrupted before it was read
                return None  # ENODEV: it was unmounted

    def _say(self, answer: bytes) -> None:
        try:
            os.write(self._descriptor, answer)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENODEV):  # nobody waits for it any more
                _log.warning("an answer was not taken: %s", os.strerror(error.errno or 0))

    def end(self, ask: Callable[[], object]) -> None:
        """Have all of them end while programs still have files open: each ends after what it is
        asked next, so each is asked something. What nobody is left to answer ends with the
        descriptor."""
        self._ending = True
        for _ in self._threads:
            threading.Thread(target=ask, name="bailiwick-fuse-end", daemon=True).start()

    def join(self, timeout_s: float) -> bool:
        """Whether all have ended."""
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)
