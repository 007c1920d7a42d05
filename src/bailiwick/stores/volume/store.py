"""`VolumeStore`: the store protocol over the rows of a volume.

Durable, versioned, forkable. A change is one transaction, shared with whatever else waits to be
committed; acknowledged means on disk. Reads run on the event loop and see everybody's last commit.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from bailiwick.errors import (
    Closed,
    InternalError,
    IoError,
    IsADirectory,
    NotADirectory,
    ParseError,
    SymlinkEscape,
)
from bailiwick.limits import Limits
from bailiwick.model import (
    ANYTHING,
    Expected,
    Hardlinks,
    MoreThan,
    NewFileMode,
    Stat,
    Symlinks,
)
from bailiwick.paths import ScopedPath
from bailiwick.store import (
    Child,
    Children,
    Content,
    Handle,
    Look,
    Store,
    Surveyed,
    WritePlan,
    Written,
)
from bailiwick.stores.volume import changes
from bailiwick.stores.volume.content.appends import Growing
from bailiwick.stores.volume.content.blobs import Blobs
from bailiwick.stores.volume.content.chunks import (
    INLINE_BYTES_MAX,
    SPILL_BYTES_MIN,
    Stored,
    named,
    store_pieces,
)
from bailiwick.stores.volume.content.reader import ContentReader
from bailiwick.stores.volume.content.small_writes import SmallWrite
from bailiwick.stores.volume.content.uploads import VolumeUpload, cut
from bailiwick.stores.volume.core import MAIN, ChangeTurn, VolumeCore, default_modes, open_core
from bailiwick.stores.volume.lookup.paths import (
    VolumeHandle,
    are_known_missing,
    current_directory,
    current_inode,
    find_entry,
    find_object,
    recall,
    recall_inode,
    stand,
)
from bailiwick.stores.volume.lookup.subtree_counts import count_beneath
from bailiwick.stores.volume.refusals import check_link_text, check_range, check_size, no_such
from bailiwick.stores.volume.rows.database import HEAD
from bailiwick.stores.volume.rows.records import (
    DIRECTORY,
    FILE,
    LINK,
    NOBODY,
    TYPES,
    Inode,
)
from bailiwick.stores.volume.rows.tree import PinnedTree
from bailiwick.stores.volume.staged_trees import VolumeStage
from bailiwick.stores.volume.uptime import Uptime
from bailiwick.stores.volume.versions.api import VolumeVersions
from bailiwick.stores.volume.versions.change_log import VolumeLog
from bailiwick.versions import Mark

if TYPE_CHECKING:
    from bailiwick.stores.volume.search.candidates import WantedContent

_PAST_POWERS: Final = frozenset({"KnowsMissing", "Narrows", "Nominates"})

_AT_ONCE_POWERS: Final = frozenset({"KnowsMissing", "Nominates"})
"""What takes rows that are at hand: over a network, names would be asked for one by one."""

_DRAFT_POWERS: Final = _PAST_POWERS | {"Stages", "Logs", "Marks", "Remembers"}
"""Within a transaction: a fork of what may never have been, and a lock that nobody else sees, would
be of no use."""

_POWERS: Final = _DRAFT_POWERS | {"Branches", "Leases"}

_PAGE_ENTRIES: Final = 1_000_000_000
"""What a listing without a limit asks for."""


class VolumeStore:
    """One branch of a volume, at its newest version or (read-only) as it was at another."""

    def __init__(
        self,
        core: VolumeCore,
        symlinks: Symlinks,
        whole: VolumeStore | None = None,
        mark: Mark = NOBODY,
        *,
        is_draft: bool = False,
    ) -> None:
        self.symlinks = symlinks
        self._core = core
        self._whole = whole
        self._mark = mark
        self._is_draft = is_draft
        self._reader: ContentReader = ContentReader(core) if whole is None else whole.reader
        self._closed = False

    @classmethod
    def open(
        cls,
        path: str,
        *,
        volume: str = MAIN,
        branch: str = MAIN,
        symlinks: Symlinks = "in-root",
        limits: Limits | None = None,
        clock_ns: Callable[[], int] | None = None,
        uptime: Uptime | None = None,
        new_file_mode: NewFileMode = "private",
        blobs: Blobs | None = None,
        compression: str = "off",
    ) -> VolumeStore:
        """Open a branch of a volume kept in the SQLite file at ``path``; both are made if missing.

        Blocks. Large files go to ``blobs``, a folder beside the file by default. With
        ``compression="zstd"`` chunks are kept compressed where that pays. Leases end by ``uptime``,
        that of this machine by default. Raises
        `ParseError`, `RootNotFound` for an unknown branch, `Unsupported` for a file that is not a
        volume or of a newer Bailiwick, `IoError`, `Busy`.
        """
        core = open_core(
            path,
            volume=volume,
            branch=branch,
            blobs=blobs,
            limits=limits or Limits(),
            modes=default_modes(new_file_mode),
            clock_ns=clock_ns,
            uptime=uptime,
            compression=compression,
        )
        return cls(core, symlinks)

    @property
    def core(self) -> VolumeCore:
        """What the parts of this room share."""
        return self._core

    @property
    def mark(self) -> Mark:
        """What the changes made through this view are stamped with."""
        return self._mark

    @property
    def is_draft(self) -> bool:
        """Whether this is a transaction, which nobody else sees."""
        return self._is_draft

    @property
    def reader(self) -> ContentReader:
        return self._reader

    @property
    def powers(self) -> frozenset[str]:
        powers = _DRAFT_POWERS if self._is_draft else _POWERS
        if self._core.view.at != HEAD:
            powers = _PAST_POWERS
        return powers if self._core.at_once else powers - _AT_ONCE_POWERS

    @property
    def description(self) -> dict[str, str]:
        described = {"kind": "volume", "symlinks": self.symlinks, "durability": "full"}
        if self._core.view.at != HEAD:
            described["as_of"] = str(self._core.view.at)
        return described

    # --- lookup ------------------------------------------------------------------------------

    async def resolve(
        self, path: ScopedPath, look: Look, *, directory: bool = False, parents: bool = False
    ) -> Handle:
        handle = self._recall(path, look, directory=directory)
        if handle is None:
            handle = await self._look_up(path, look, directory=directory, parents=parents)
        return handle

    def is_missing(self, *paths: ScopedPath) -> bool:
        self._check_open()
        return are_known_missing(self._core, paths)

    def _recall(self, path: ScopedPath, look: Look, *, directory: bool) -> VolumeHandle | None:
        self._check_open()
        try:
            handle = recall(self._core, path, is_entry=look == "entry")
        except IoError as error:
            raise named(error, path) from error
        if handle is None or not directory or handle.type in ("directory", None):
            return handle
        handle.close()
        raise NotADirectory("not a directory", path=path)

    async def _look_up(
        self, path: ScopedPath, look: Look, *, directory: bool, parents: bool
    ) -> VolumeHandle:
        core = self._core
        try:
            async with core.looking() as session:
                tree = await core.tree(session, path.parts)
                if isinstance(tree, PinnedTree):
                    await tree.fetch_path(path.parts)
                if look == "object" or path.is_root:
                    handle = await find_object(core, tree, path, self.symlinks)
                else:
                    handle = await find_entry(core, tree, path, self.symlinks, parents=parents)
        except IoError as error:
            raise named(error, path) from error
        if directory and handle.type not in ("directory", None):
            handle.close()
            raise NotADirectory("not a directory", path=path)
        return handle

    async def descend(self, directory: Handle, name: str) -> Handle:
        held = self._held(directory)
        core = self._core
        path = held.path.child(name)
        async with core.looking() as session:
            tree = await core.tree(session)
            parent = await current_directory(tree, held)
            bound = await tree.name(parent, name)
            inode = None if bound is None else await tree.inode(bound.node)
        if inode is None:
            raise no_such(path)
        return VolumeHandle(core, path, inode, parent)

    # --- reading -----------------------------------------------------------------------------

    async def stat(self, handle: Handle) -> Stat:
        held = self._held(handle)
        inode = held.inode
        if inode is None or inode.kind == DIRECTORY:
            async with self._core.looking() as session:
                inode = await current_inode(await self._core.tree(session), held)
        text = inode.data.decode() if inode.kind == LINK and inode.data is not None else None
        return Stat(
            path=held.path,
            name=held.path.name,
            type=TYPES[inode.kind],
            size=inode.size,
            mode=inode.mode,
            mtime_ns=inode.mtime_ns,
            created_ns=inode.created_ns,
            version=inode.version,
            links=1,
            target=text,
        )

    async def children(
        self, directory: Handle, *, after: str | None = None, limit: int | None = None
    ) -> Children:
        held = self._held(directory)
        most = _PAGE_ENTRIES if limit is None else limit
        async with self._core.looking() as session:
            rows = None
            seen = self._core.as_seen(session)
            if seen is not None:
                node = await current_directory(seen, held)
                rows = await seen.listing_now(node, after or "", most + 1)
            if rows is None:
                tree = await self._core.tree(session)
                node = await current_directory(tree, held)
                rows = await tree.listing(node, after or "", most + 1)
        entries = [
            Child(name, TYPES[kind], size, mtime_ns)
            for name, _, kind, size, mtime_ns in rows[:most]
        ]
        return Children(entries, more=len(rows) > most)

    async def names_beside(self, entry: Handle) -> list[str]:
        held = self._held(entry)
        if held.parent is None:
            return []
        async with self._core.looking() as session:
            tree = await self._core.tree(session)
            spot = await stand(tree, held, parents=True)
            if spot.missing:
                return []
            return [name for name, _ in await tree.children(spot.directory)]

    async def read(self, file: Handle, offset: int, length: int) -> Content:
        held = self._held(file)
        if offset < 0 or length < 0:
            check_range(held.path, offset, length)
        inode = held.inode or recall_inode(self._core, held)
        if inode is not None and inode.kind == FILE and inode.content is None:
            # In its row, and so at hand.
            return Content((inode.data or b"")[offset : offset + length], inode.size, inode.version)
        inode = await self._file(held)
        data = await self._reader.read(inode, held.path, offset, length)
        return Content(data, inode.size, inode.version)

    async def stream(
        self, file: Handle, offset: int, length: int | None
    ) -> AsyncGenerator[bytes, None]:
        held = self._held(file)
        check_range(held.path, offset, length)
        inode = await self._file(held)
        # The handle may be closed while the stream goes on: it holds the content itself.
        holder = object()
        self._core.hold(holder)
        chunks = self._reader.stream(inode, held.path, offset, length)
        try:
            async for chunk in chunks:
                self._check_open()
                yield chunk
                self._check_open()
        finally:
            await chunks.aclose()
            self._core.let_go(holder)

    async def _file(self, held: VolumeHandle) -> Inode:
        async with self._core.looking() as session:
            inode = await current_inode(await self._core.tree(session), held)
        if inode.kind == DIRECTORY:
            raise IsADirectory("is a directory", path=held.path)
        if inode.kind == LINK:
            raise SymlinkEscape("is a link, and is not followed here", path=held.path)
        return inode

    # --- content -----------------------------------------------------------------------------

    async def write(self, entry: Handle, data: bytes, sha256: str, plan: WritePlan) -> Written:
        held = self._held(entry)
        if len(data) >= SPILL_BYTES_MIN:
            return await self.write_stream(entry, _once(data), plan)
        core, digest = self._core, bytes.fromhex(sha256)
        if len(data) <= INLINE_BYTES_MAX:
            small = SmallWrite(core, held, bytes(data), digest, plan, self._mark)
            written = small.done_inline()
            return await small.done() if written is None else written
        volume, pieces = core.view.volume, await cut(data, core.pack)

        async def job(turn: ChangeTurn) -> Written:
            async def store() -> Stored:
                return Stored(None, await store_pieces(turn.transaction, volume, len(data), pieces))

            spot, old = await changes.admit(turn.tree, held, plan)
            fresh = changes.FreshContent(len(data), digest, store)
            return await changes.publish(turn, held, spot, old, fresh, plan, self._mark)

        return await core.change(job)

    async def write_stream(
        self,
        entry: Handle,
        chunks: AsyncIterator[bytes],
        plan: WritePlan,
    ) -> Written:
        held = self._held(entry)
        async with self._core.looking() as session:
            await changes.admit(await self._core.tree(session), held, plan)
        upload, published = VolumeUpload(self._core, held.path), False
        try:
            async for chunk in chunks:
                self._check_open()
                check_size(held.path, upload.size + len(chunk), plan)
                await upload.add(chunk)
            self._check_open()
            prepared = await upload.finish()
            written = await self._core.change(
                partial(changes.publish_prepared, held, plan, prepared, self._mark)
            )
            published = True
            return written
        finally:
            await upload.end(published=published)

    async def append(self, entry: Handle, data: bytes, plan: WritePlan) -> Written:
        growing = Growing(self._core, self._reader)
        return await growing.append(self._held(entry), bytes(data), plan, self._mark)

    async def truncate(self, entry: Handle, size: int, plan: WritePlan) -> Written:
        if size < 0:
            raise ParseError("a size is not negative", path=entry.path)
        growing = Growing(self._core, self._reader)
        return await growing.resize(self._held(entry), size, plan, self._mark)

    # --- names -------------------------------------------------------------------------------

    async def make_dir(self, entry: Handle, *, file_mode: int | None, parents: bool) -> bool:
        held = self._held(entry)
        return await self._core.change(
            lambda turn: changes.make_dir(turn, held, file_mode, self._mark, parents=parents)
        )

    async def remove(self, entry: Handle, *, recursive: bool, expected: Expected = ANYTHING) -> int:
        held = self._held(entry)
        removed = await self._core.change(
            lambda turn: changes.remove(
                turn, held, self._mark, recursive=recursive, expected=expected
            )
        )
        most = self._core.limits.removed_counted_max
        beneath = removed.beneath
        if beneath is None:  # a fork's own rows do not tell what it shares with others
            before = removed.version - 1
            beneath = await count_beneath(self._core, before, removed.bound.node, most + 1)
        return MoreThan(most) if beneath > most else 1 + beneath

    async def move(
        self, source: Handle, destination: Handle, *, replace: bool,
        expected: Expected = ANYTHING, replaced: Expected = ANYTHING,
    ) -> bool:  # fmt: skip
        here, there = self._held(source), self._held(destination)
        return await self._core.change(
            lambda turn: changes.move(
                turn,
                here,
                there,
                self._mark,
                replace=replace,
                expected=expected,
                replaced=replaced,
            )
        )

    async def copy(self, source: Handle, destination: Handle, *, recursive: bool) -> int:
        here, there = self._held(source), self._held(destination)
        return await self._core.change(
            lambda turn: changes.copy(turn, here, there, self._mark, recursive=recursive)
        )

    async def symlink(self, entry: Handle, target: str) -> None:
        held = self._held(entry)
        text = check_link_text(held.path, target, self._core.limits.link_text_bytes_max)
        if self.symlinks == "reject":
            async with self._core.looking() as session:
                await stand(await self._core.tree(session), held)
            raise SymlinkEscape("links are not made in this root", path=held.path)
        await self._core.change(lambda turn: changes.symlink(turn, held, text, self._mark))

    async def readlink(self, entry: Handle) -> str:
        held = self._held(entry)
        async with self._core.looking() as session:
            inode = await current_inode(await self._core.tree(session), held)
        if inode.kind != LINK or inode.data is None:
            raise ParseError("not a link", path=held.path)
        return inode.data.decode()

    async def set_mode(
        self, entry: Handle, file_mode: int, *, expected: Expected = ANYTHING
    ) -> None:
        held, verb = self._held(entry), "set_mode"
        await self._core.change(
            lambda turn: changes.set_attributes(
                turn, held, verb, self._mark, expected, file_mode=file_mode
            )
        )

    async def set_times(
        self, entry: Handle, mtime_ns: int, atime_ns: int | None, *, expected: Expected = ANYTHING
    ) -> None:
        """The time of access is not kept: nothing reads it back."""
        held = self._held(entry)
        await self._core.change(
            lambda turn: changes.set_attributes(
                turn, held, "set_times", self._mark, expected, mtime_ns=mtime_ns
            )
        )

    # --- powers ------------------------------------------------------------------------------

    async def stage(self, place: Handle, *, size_max: int) -> VolumeStage:
        held = self._held(place)
        async with self._core.looking() as session:
            tree = await self._core.tree(session)
            if held.inode is not None or (await stand(tree, held)).bound is not None:
                await current_directory(tree, held)
        return VolumeStage(self._core, self._reader, held, size_max, self.symlinks, self._mark)

    async def nominate(
        self, directory: Handle, pattern: str, *, literal: bool, ignore_case: bool, word: bool,
        binaries: bool, leave_out: tuple[str, ...], file_bytes_max: int | None, deadline_s: float,
    ) -> set[ScopedPath] | None:  # fmt: skip
        from bailiwick.search.grep import compile_query
        from bailiwick.stores.volume.search.candidates import WantedContent, nominated

        query = compile_query(pattern, literal=literal, ignore_case=ignore_case, word=word)
        wanted = WantedContent(query, binaries, frozenset(leave_out), file_bytes_max)
        return nominated(await self._survey(directory, wanted, deadline_s))

    async def survey(
        self, directory: Handle, pattern: str, *, literal: bool, ignore_case: bool, word: bool,
        leave_out: tuple[str, ...], file_bytes_max: int | None, entries_max: int, depth_max: int,
        deadline_s: float,
    ) -> dict[ScopedPath, Surveyed] | None:  # fmt: skip
        from bailiwick.search.grep import compile_query
        from bailiwick.stores.volume.search.candidates import WantedContent

        query = compile_query(pattern, literal=literal, ignore_case=ignore_case, word=word)
        left_out = frozenset(leave_out)
        wanted = WantedContent(query, True, left_out, file_bytes_max, entries_max, depth_max)
        return await self._survey(directory, wanted, deadline_s)

    async def _survey(
        self, directory: Handle, wanted: WantedContent, deadline_s: float
    ) -> dict[ScopedPath, Surveyed] | None:
        from bailiwick.stores.volume.search.candidates import survey

        held = self._held(directory)
        async with self._core.looking() as session:
            top = await current_directory(await self._core.tree(session), held)
        return await survey(self._core, top, held.path, wanted, deadline_s)

    def narrowed(
        self, *, symlinks: Symlinks | None = None, hardlinks: Hardlinks | None = None
    ) -> VolumeStore:
        """There are no hard links here, so none to reject."""
        if symlinks not in (None, "reject", "in-root") or hardlinks not in (
            None, "reject", "allow",
        ):  # fmt: skip
            raise ParseError("a link is rejected or stays in the root")
        stricter: Symlinks = "reject" if symlinks == "reject" else self.symlinks
        return self._view(symlinks=stricter)

    def marked(self, mark: Mark) -> VolumeStore:
        return self._view(mark=mark)

    def _view(self, *, symlinks: Symlinks | None = None, mark: Mark | None = None) -> VolumeStore:
        return VolumeStore(
            self._core, symlinks or self.symlinks, self, mark or self._mark,
            is_draft=self._is_draft,
        )  # fmt: skip

    def shares_tree(self, other: Store) -> bool:
        """Also where one branch was opened twice."""
        return isinstance(other, VolumeStore) and (
            (other._core.identity.uid, other._core.view.branch)
            == (self._core.identity.uid, self._core.view.branch)
        )

    @property
    def log(self) -> VolumeLog:
        """Every change of the branch, as the feed tells it."""
        return VolumeLog(self._core)

    @property
    def versions(self) -> VolumeVersions:
        """History, forks, locks and housekeeping."""
        return VolumeVersions(self)

    async def aclose(self) -> None:
        self._closed = True
        if self._whole is None:
            await self._core.aclose()
        elif self._whole.core is not self._core:
            self._whole.core.let_go(self._core)  # an earlier version, which nobody reads any more
            self._core.database.shared.holders.discard(self._core)

    # --- what a handle stands for ------------------------------------------------------------

    def _check_open(self) -> None:
        store: VolumeStore | None = self
        while store is not None:
            if store._closed:
                raise Closed("the store is closed")
            store = store._whole

    def held(self, handle: Handle) -> VolumeHandle:
        """The handle, if it is one of this store and open."""
        return self._held(handle)

    def _held(self, handle: Handle) -> VolumeHandle:
        self._check_open()
        if not isinstance(handle, VolumeHandle) or handle.core is not self._core:
            raise InternalError("the handle is of another store")
        if handle.is_closed:
            raise Closed("the handle is closed", path=handle.path)
        return handle


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
