"""What files hold, as programs read and write them through a mount.

Reads go to the scope in large pieces. Writes are gathered (`StagedBytes`) and go there as one
write of the whole file when a program closes the file, or asks for it to be safe: a save is one
version, judged and recorded once.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from typing import Final, TypeVar

from bailiwick.errors import BailiwickError, PathNotFound, escape_for_display
from bailiwick.fronts.fuse.nodes import FuseNode, FuseNodes
from bailiwick.fronts.fuse.staged_files import StagedBytes
from bailiwick.model import KiB, MiB, Stat
from bailiwick.portal import SyncScope, behind
from bailiwick.scope.core import ScopeCore
from bailiwick.scope.front_access import refuse_writing

_log = logging.getLogger("bailiwick.fuse")

Result = TypeVar("Result")

_BLOCK_BYTES: Final = 1 * MiB
"""Read at a time, wherever a program reads in it: each read is a call, and on record."""

_FIRST_BYTES: Final = 128 * KiB
"""Read of a file when it is opened: the whole of most, so that they cost one call."""

_BLOCKS_KEPT: Final = 2
_WHOLE_BYTES_MAX: Final = 4 * MiB
"""Published in one piece, or read so to be changed; more goes by the stream."""

_LOADS_MAX: Final = 8
"""How often a file that others keep changing is read anew before it is changed."""


class OpenContents:
    """The content of all nodes of a mount."""

    def __init__(self, scope: SyncScope, nodes: FuseNodes, as_of: str | None) -> None:
        self._scope = scope
        self._nodes = nodes
        self._as_of = as_of

    def at(self, node: FuseNode, verb: Callable[[str], Result]) -> Result:
        """Call a verb with the place of a node, again where that was moved meanwhile."""
        while True:
            path = self._nodes.path(node)
            try:
                return verb(path)
            except PathNotFound:
                if self._nodes.path(node) == path:
                    raise

    def stat(self, node: FuseNode) -> Stat:
        return self.at(node, lambda path: self._scope.lstat(path, as_of=self._as_of))

    def refuse_writing(self, path: str, *, over: bool) -> None:
        """Refuse now what would be refused when it is published: many programs do not look at what
        closing a file says. What a person can be asked is asked then."""
        scope, _ = behind(self._scope)
        if isinstance(scope, ScopeCore):  # a server decides for itself
            refuse_writing(scope, path, over=over)

    # --- reading ----------------------------------------------------------------------------------

    def begin_reading(self, node: FuseNode) -> None:
        """Refuse what may not be read, and have the beginning of what may."""
        with node.lock:
            if node.staged is None:
                self._block(node, 0, _FIRST_BYTES)

    def read(self, node: FuseNode, offset: int, size: int) -> bytes:
        with node.lock:
            staged = node.staged
            if staged is None:
                return self._pieces(node, offset, size)
            if offset >= staged.base:
                return staged.read(offset, size)
            before = self._pieces(node, offset, min(size, staged.base - offset))
            return before + staged.read(staged.base, size - len(before))

    def _pieces(self, node: FuseNode, offset: int, size: int) -> bytes:
        pieces: list[bytes] = []
        while size > 0:
            piece = self._piece(node, offset, size)
            if not piece:
                break
            pieces.append(piece)
            offset += len(piece)
            size -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _piece(self, node: FuseNode, offset: int, size: int) -> bytes:
        for start, data in node.blocks:
            if start <= offset < start + len(data):
                return data[offset - start : offset - start + size]
        start = offset - offset % _BLOCK_BYTES
        data = self._block(node, start, _BLOCK_BYTES)
        return data[offset - start : offset - start + size]

    def _block(self, node: FuseNode, start: int, size: int) -> bytes:
        read = self.at(
            node, lambda path: self._scope.read_bytes(path, start, size, as_of=self._as_of)
        )
        node.seen(read.version)
        node.blocks = [*node.blocks[1 - _BLOCKS_KEPT :], (start, read.data)]
        return read.data

    # --- writing ----------------------------------------------------------------------------------

    def stage(self, node: FuseNode, *, empty: bool = False) -> StagedBytes:
        """All bytes of a file, to be changed. Under its lock."""
        staged = node.staged
        if staged is None or staged.base:
            whole = self._loaded(node, empty)
            node.blocks.clear()
            if staged is not None:
                whole.take_over(staged)
                staged.close()
            node.staged = staged = whole
        return staged

    def _stage_end(self, node: FuseNode) -> StagedBytes:
        """Room after the end of a file: what is only added to is not read."""
        if node.staged is None:
            stood = self.stat(node)
            node.staged = StagedBytes(mode=stood.mode & 0o777, is_new=False, base=stood.size)
            node.staged.version = stood.version
            node.staged.mtime_ns = stood.mtime_ns
        return node.staged

    def _loaded(self, node: FuseNode, empty: bool) -> StagedBytes:
        stood = self.stat(node)
        staged = StagedBytes(mode=stood.mode & 0o777, is_new=False)
        staged.version = stood.version
        staged.mtime_ns = stood.mtime_ns
        if empty:
            return staged
        try:
            for _ in range(_LOADS_MAX):
                if self._fill(node, staged):
                    return staged
                staged.truncate(0)
                staged.dirty = False
            raise OSError(errno.EAGAIN, "others keep changing it")
        except BaseException:
            staged.close()
            raise

    def _fill(self, node: FuseNode, staged: StagedBytes) -> bool:
        """Read all of it. False where it was changed meanwhile."""
        version, offset = None, 0
        while True:
            start = offset
            read = self.at(
                node,
                lambda path, start=start: self._scope.read_bytes(  # type: ignore[misc]
                    path, start, _WHOLE_BYTES_MAX, as_of=self._as_of
                ),
            )
            if version not in (None, read.version):
                return False
            version = staged.version = read.version
            staged.fill(offset, read.data)
            offset += len(read.data)
            if not read.truncated or not read.data:
                return True

    def write(self, node: FuseNode, offset: int | None, data: memoryview) -> int:
        """Without an offset at the end."""
        with node.lock:
            staged = self._stage_end(node) if offset is None else node.staged
            if staged is None or (offset is not None and offset < staged.base):
                staged = self.stage(node)
            at = staged.size if offset is None else offset
            self._refuse_large(at + len(data))
            staged.write(at, data)
            return len(data)

    def resize(self, node: FuseNode, size: int) -> None:
        with node.lock:
            self._refuse_large(size)
            self.stage(node, empty=size == 0).truncate(size)

    def _refuse_large(self, size: int) -> None:
        if size > self._scope.limits.max_file_bytes:
            raise OSError(errno.EFBIG, "the file would be larger than it may be")

    def publish(self, node: FuseNode) -> None:
        """Have what was written where everybody sees it. What nobody can find is not published."""
        with node.lock:
            staged = node.staged
            if staged is None or node.is_gone:
                return
            try:
                if staged.dirty:
                    staged = self._written(node, staged)
                if staged.times is not None:
                    times, staged.times = staged.times, None
                    self.at(
                        node,
                        lambda path: self._scope.set_times(
                            path, times.mtime_ns, atime_ns=times.atime_ns
                        ),
                    )
                    staged.version = self.stat(node).version
            except BaseException:
                staged.told = True
                raise
            node.cached = staged.version

    def _written(self, node: FuseNode, staged: StagedBytes) -> StagedBytes:
        """Publish it; what is staged from then on."""
        if staged.base and staged.size - staged.base <= _WHOLE_BYTES_MAX:
            # So that what others add meanwhile stays.
            done = self.at(node, lambda path: self._scope.append(path, staged.added))
            staged.appended(done.size, done.version)
            return staged
        staged = self.stage(node)
        whole = staged.read(0, staged.size) if staged.size <= _WHOLE_BYTES_MAX else None
        file_mode = staged.mode if staged.is_new else None

        def write(path: str) -> str:
            if whole is not None:
                return self._scope.write_bytes(
                    path, whole, mode="create" if staged.exclusive else "overwrite",
                    file_mode=file_mode,
                ).version  # fmt: skip
            return self._scope.write_stream(
                path, staged.chunks(), mode="create" if staged.exclusive else "overwrite",
                file_mode=file_mode,
            ).version  # fmt: skip

        staged.published(self.at(node, write))
        return staged

    def publish_all(self) -> None:
        """The last chance of what is still open: the mount ends."""
        for node in self._nodes.staged():
            self._publish_at_last(node)

    def close(self) -> None:
        """Let go of all, when nobody is answered any more."""
        for node in self._nodes.staged():
            self._let_go(node)

    def _publish_at_last(self, node: FuseNode) -> None:
        staged = node.staged
        if staged is None or staged.told:
            return
        try:
            self.publish(node)
        except (BailiwickError, OSError) as error:
            _log.warning("%s was not saved: %s", escape_for_display(self._nodes.path(node)), error)

    # --- opening and closing ----------------------------------------------------------------------

    def closed(self, node: FuseNode, *, wrote: bool) -> None:
        """One who had it open has it no more. Nobody hears what goes wrong now, so that it is
        logged."""
        with node.lock:
            if wrote:
                node.writers -= 1
                if node.writers == 0 and not node.is_gone:
                    self._publish_at_last(node)
                    self.give_up(node)
            else:
                node.readers -= 1
            if not node.is_open:
                self._let_go(node)
        self._nodes.closed(node)

    def give_up(self, node: FuseNode) -> None:
        """What was refused goes with the last who wrote it: whoever reads the file on, or opens it,
        has what stands there."""
        with node.lock:
            staged = node.staged
            if staged is not None and staged.dirty and staged.told:
                self._let_go(node)
                node.cached = None  # the kernel has pages of what was refused

    def _let_go(self, node: FuseNode) -> None:
        if node.staged is not None:
            node.staged.close()
            node.staged = None
        node.blocks.clear()

    def pin(self, node: FuseNode) -> Callable[[], None]:
        """Have all of what an open file holds, since it will be taken away. What is given back
        undoes it. Under its lock."""
        if node.staged is not None or not node.is_open:
            return lambda: None
        self.stage(node)

        def unpin() -> None:
            if node.staged is not None and not node.staged.dirty:
                self._let_go(node)

        return unpin

    def current(self, node: FuseNode) -> StagedBytes | None:
        """What is staged of a file, unless that is published and another stands there now. Under
        its lock."""
        staged = node.staged
        if staged is None or staged.dirty or node.is_gone:
            return staged
        try:
            version = self.stat(node).version
        except PathNotFound:
            return staged
        if version != staged.version:
            self._let_go(node)
        return node.staged
