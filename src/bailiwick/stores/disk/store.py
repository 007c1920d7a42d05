"""`DiskStore`: a real directory as a store. Thin: chooses where work runs, and speaks the errors.

Small reads and lookups run where they are called, since a hop to a thread costs more than they do;
what may take long, or waits for the disk, runs in a thread.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from concurrent.futures import Executor
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, Final, TypeVar

from bailiwick.errors import Busy, IoError, NotADirectory, RootNotFound, Unsupported, from_os_error
from bailiwick.limits import Limits
from bailiwick.model import (
    ANYTHING,
    Containment,
    Durability,
    Expected,
    Hardlinks,
    NewFileMode,
    Stat,
    Symlinks,
)
from bailiwick.opened_together import Share
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.store import (
    Changing,
    Children,
    Content,
    Handle,
    Look,
    Noticed,
    Sighting,
    Store,
    Watcher,
    WritePlan,
    Written,
)
from bailiwick.stores.disk import listing, reader, syscalls
from bailiwick.stores.disk.changes import (
    attributes,
    conditional,
    copies,
    directories,
    links,
    removal,
    renames,
)
from bailiwick.stores.disk.changes.modes import NewModes
from bailiwick.stores.disk.changes.shared_directories import share_directory
from bailiwick.stores.disk.flush_pace import FlushPace
from bailiwick.stores.disk.journal import Journal, JournalPlace, ambient_check_outside
from bailiwick.stores.disk.lookup.beneath import Lookup, check_filesystem
from bailiwick.stores.disk.lookup.handles import (
    Held,
    Replaced,
    held_entry,
    held_object,
    same_object,
    version_of,
)
from bailiwick.stores.disk.lookup.mounts import mounts_beneath
from bailiwick.stores.disk.lookup.openat2 import KernelLookup
from bailiwick.stores.disk.lookup.walk import WalkLookup
from bailiwick.stores.disk.recovery import recover
from bailiwick.stores.disk.settings import INLINE_BYTES_MAX, DiskRoot, DiskSettings
from bailiwick.stores.disk.watch.sightings import sight
from bailiwick.stores.disk.workers import (
    UNSTOPPABLE,
    LentWorkers,
    NameTurns,
    Workers,
    WouldWait,
)
from bailiwick.stores.disk.writes.compare_and_swap import Swapper
from bailiwick.stores.disk.writes.publisher import Publisher
from bailiwick.stores.disk.writes.staged_trees import DiskStage, StagedTree
from bailiwick.stores.disk.writes.uploads import DiskUpload, gather

T = TypeVar("T")


class DiskStore:
    """A directory of the host. Nothing outside it is ever opened, made, changed or named."""

    def __init__(
        self,
        lookup: Lookup,
        place: JournalPlace,
        workers: Workers,
        whole: DiskStore | None = None,
    ) -> None:
        """Use `open`, or `narrowed`, which makes a view of the ``whole`` store."""
        self._lookup: Final = lookup
        self._settings: Final = lookup.settings
        self._place: Final = place
        self._whole: Final = whole
        self._journal: Final[Journal] = Journal(place) if whole is None else whole._journal
        self._modes: Final = NewModes(lookup.settings.new_file_mode, place)
        self._publisher: Final = Publisher(lookup, self._journal, self._modes)
        self._swapper: Final = Swapper(self._publisher)
        self._workers: Final = workers
        waits = lookup.settings.limits.lock_wait_seconds_max
        self._turns: Final[NameTurns] = NameTurns(waits) if whole is None else whole._turns
        self._durable: Final = lookup.settings.durable
        self._pace: Final[FlushPace] = FlushPace() if whole is None else whole._pace
        self._find_object: Final = lookup.find_object
        self._sees_others: Final = syscalls.LINUX and lookup.holds_objects
        self._watchers: Final[set[Watcher]] = set()

    @classmethod
    def open(
        cls,
        host_path: str | os.PathLike[str],
        *,
        state_dir: str | os.PathLike[str],
        key: str | None = None,
        earlier: tuple[str, str] | None = None,
        symlinks: Symlinks = "in-root",
        hardlinks: Hardlinks = "allow",
        cross_mounts: bool = True,
        containment: Containment = "auto",
        durability: Durability = "full",
        new_file_mode: NewFileMode = "private",
        limits: Limits | None = None,
        workers: Executor | None = None,
    ) -> DiskStore:
        """Open a directory of the host as a store, and clear up what a killed one left there.

        ``state_dir`` is a directory outside it, for the journal, and ``key`` what the root is
        called there (None: by its path); ``earlier`` are such two of before. ``containment``
        "require-kernel" refuses to work without the kernel's help; "walk" does without it.
        ``workers`` lends an executor; otherwise the store has its own threads.

        Raises `RootNotFound`, `Unsupported`, `ParseError` (a setting), `PermissionDenied`.
        """
        settings = DiskSettings(
            symlinks=symlinks,
            hardlinks=hardlinks,
            cross_mounts=cross_mounts,
            durability=durability,
            new_file_mode=new_file_mode,
            limits=limits or Limits(),
        )
        settings.check(containment)
        if syscalls.WINDOWS:
            raise Unsupported(
                "a directory of this host cannot be a root: Python has no way to confine names on"
                " Windows",
                hint="use a volume or a memory root",
            )
        root = _ambient_open_root(os.fspath(host_path))
        try:
            state = os.fspath(state_dir)
            ambient_check_outside(state, root.status)
            lookup = _choose_lookup(root, settings, containment)
            if key is None:
                name = lookup.root_name or os.path.realpath(host_path)
                key = hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
            place = JournalPlace(state, key)
            recover(lookup, place)
            if earlier is not None:
                recover(lookup, JournalPlace(*earlier))
        except OSError as error:
            root.close()
            raise from_os_error(error) from None
        except BaseException:
            root.close()
            raise
        return cls(lookup, place, Workers(workers))

    # --- what it is ---------------------------------------------------------------------------

    @property
    def powers(self) -> frozenset[str]:
        from bailiwick.stores.disk.search.candidates import ambient_can_nominate

        nominates = {"Nominates"} if ambient_can_nominate() else set()
        watches = {"Watches"} if self._sees_others else set()
        return frozenset({"KnowsMissing", "Narrows", "Stages", *nominates, *watches})

    @property
    def description(self) -> dict[str, str]:
        settings = self._settings
        mode = settings.new_file_mode
        return {
            "kind": "disk",
            "containment": self._lookup.containment,
            "symlinks": settings.symlinks,
            "hardlinks": settings.hardlinks,
            "cross_mounts": "yes" if settings.cross_mounts else "no",
            "durability": settings.durability,
            "new_file_mode": f"{mode:04o}" if isinstance(mode, int) else mode,
            "compare_and_swap": "exchange" if self._swapper.can_exchange else "check-then-rename",
            "foreign_changes": "noticed" if self._sees_others else "not noticed",
        }

    # --- lookups ------------------------------------------------------------------------------

    async def resolve(
        self, path: ScopedPath, look: Look, *, directory: bool = False, parents: bool = False
    ) -> Held:
        if self._workers.closed:
            self._workers.refuse_closed()
        try:
            if look == "object":
                return self._find_object(path, directory)
            return self._lookup.find_entry(path, directory, parents)
        except OSError as error:
            raise from_os_error(error, path) from None

    def is_missing(self, *paths: ScopedPath) -> bool:
        if self._workers.closed:
            self._workers.refuse_closed()
        return all(map(self._lookup.is_missing, paths))

    async def descend(self, directory: Handle, name: str) -> Held:
        held = held_object(directory)
        if held.type != "directory":
            raise NotADirectory("not a directory", path=held.path)
        return self._inline(held.path.child(name), self._lookup.find_child, held, name)

    async def stat(self, handle: Handle) -> Stat:
        held = held_object(handle)
        return self._inline(held.path, listing.stat_of, held)

    async def children(
        self, directory: Handle, *, after: str | None = None, limit: int | None = None
    ) -> Children:
        held = held_object(directory)
        job = listing.children_blocking
        if held.listing_bytes <= INLINE_BYTES_MAX:
            return self._inline(held.path, job, held, after, limit, UNSTOPPABLE)
        return await self._in_thread(held.path, job, held, after, limit)

    async def names_beside(self, entry: Handle) -> list[str]:
        held = held_entry(entry)
        return self._inline(held.path, listing.names_beside, held)

    # --- reading ------------------------------------------------------------------------------

    async def read(self, file: Handle, offset: int, length: int) -> Content:
        if self._workers.closed:
            self._workers.refuse_closed()
        held = file if type(file) is Held and file.fd >= 0 else held_object(file)
        try:
            content = reader.read_quickly(held, offset, length, self._settings)
            if content is not None:
                return content
            if length <= INLINE_BYTES_MAX:
                return reader.read_closely_blocking(held, offset, length, UNSTOPPABLE)
            return await self._workers.run(reader.read_closely_blocking, held, offset, length)
        except Replaced:
            return await self._read_newest(held, offset, length)
        except OSError as error:
            raise from_os_error(error, held.path) from None

    async def _read_newest(self, held: Held, offset: int, length: int) -> Content:
        """Read what is held by its name only, however often others replace it meanwhile."""
        for _ in range(self._settings.limits.busy_retries_max):
            held.look_again()
            with suppress(Replaced):
                content = reader.read_quickly(held, offset, length, self._settings)
                if content is not None:
                    return content
                return reader.read_closely_blocking(held, offset, length, UNSTOPPABLE)
        raise Busy("others keep replacing this file", path=held.path)

    async def stream(
        self, file: Handle, offset: int, length: int | None
    ) -> AsyncGenerator[bytes, None]:
        self._workers.refuse_closed()
        held = held_object(file)
        chunks = reader.stream(held, offset, length, self._settings, self._workers)
        try:
            async for chunk in chunks:
                yield chunk
        except OSError as error:
            raise from_os_error(error, held.path) from None
        finally:
            await chunks.aclose()

    async def nominate(
        self,
        directory: Handle,
        pattern: str,
        *,
        literal: bool,
        ignore_case: bool,
        word: bool,
        binaries: bool,
        leave_out: tuple[str, ...],
        file_bytes_max: int | None,
        deadline_s: float,
    ) -> set[ScopedPath] | None:
        held = held_object(directory)
        settings = self._settings
        if not settings.cross_mounts or settings.hardlinks == "reject":
            return None  # ripgrep would enter, and read, what this root does not
        from bailiwick.search.grep import compile_query
        from bailiwick.stores.disk.search.candidates import nominate_paths_blocking
        from bailiwick.stores.disk.search.ripgrep import Area

        query = compile_query(pattern, literal=literal, ignore_case=ignore_case, word=word)
        area = Area(leave_out=leave_out, file_bytes_max=file_bytes_max)
        return await self._in_thread(
            held.path, nominate_paths_blocking, held, query, binaries, area, deadline_s
        )

    # --- content ------------------------------------------------------------------------------

    async def write(self, entry: Handle, data: bytes, sha256: str, plan: WritePlan) -> Written:
        held = entry if type(entry) is Held and entry.parent >= 0 else held_entry(entry)
        if plan.mode == "replace" or plan.conditional:  # what stands there now decides: swap it
            job = self._swapper.write_blocking
            return await self._at_once_or_in_turn(
                held, job, held, data, sha256, plan, size=len(data)
            )
        job = self._publisher.write_blocking
        waits = self._durable and self._waits()
        if waits or len(data) > INLINE_BYTES_MAX or held.path in self._turns.taken:
            return await self._in_turn(held, job, held, data, sha256, plan)
        if self._workers.closed:
            self._workers.refuse_closed()
        try:
            if self._durable:
                return self._pace.timed(job, held, data, sha256, plan, UNSTOPPABLE)
            return job(held, data, sha256, plan, UNSTOPPABLE)
        except OSError as error:
            raise from_os_error(error, held.path) from None

    async def write_stream(
        self, entry: Handle, chunks: AsyncIterator[bytes], plan: WritePlan
    ) -> Written:
        held = held_entry(entry)
        upload = DiskUpload(held, plan, self._publisher, self._swapper)
        try:
            await self._in_thread(held.path, upload.begin)
            async with aclosing(gather(chunks)) as pieces:
                async for piece in pieces:
                    await self._in_thread(held.path, upload.add, piece)
            return await self._in_turn(held, upload.publish)
        finally:
            upload.discard()

    async def append(self, entry: Handle, data: bytes, plan: WritePlan) -> Written:
        held = held_entry(entry)
        return await self._in_turn(held, self._swapper.append_blocking, held, data, plan)

    async def truncate(self, entry: Handle, size: int, plan: WritePlan) -> Written:
        held = held_entry(entry)
        return await self._in_turn(held, self._swapper.truncate_blocking, held, size, plan)

    # --- names --------------------------------------------------------------------------------

    async def make_dir(self, entry: Handle, *, file_mode: int | None, parents: bool) -> bool:
        held = held_entry(entry)
        return await self._short(
            held, directories.make_dir_blocking, self._lookup, self._modes, held, file_mode, parents
        )

    async def remove(self, entry: Handle, *, recursive: bool, expected: Expected = ANYTHING) -> int:
        held = held_entry(entry)
        if expected.conditional:
            act = self._in_turn if recursive else self._at_once_or_in_turn
            return await act(
                held, conditional.remove_blocking, self._publisher, held, recursive, expected
            )
        job = removal.remove_blocking
        if recursive and held.type == "directory":
            return await self._in_thread(held.path, job, self._publisher, held, recursive)
        return await self._short(held, job, self._publisher, held, recursive)

    async def move(
        self, source: Handle, destination: Handle, *, replace: bool,
        expected: Expected = ANYTHING, replaced: Expected = ANYTHING,
    ) -> bool:  # fmt: skip
        held, to = held_entry(source), held_entry(destination)
        if expected.conditional or replaced.conditional:
            act = self._in_turn if held.type == "directory" else self._at_once_or_in_turn
            return await act(
                held, conditional.move_blocking, self._publisher, held, to, replace, expected,
                replaced,
            )  # fmt: skip
        job = renames.move_blocking
        if held.type == "directory" and to.path.levels > held.path.levels:  # all in it is looked at
            return await self._in_thread(held.path, job, self._publisher, held, to, replace)
        return await self._short(held, job, self._publisher, held, to, replace)

    async def copy(self, source: Handle, destination: Handle, *, recursive: bool) -> int:
        held, to = held_object(source), held_entry(destination)
        return await self._in_thread(
            held.path, copies.copy_blocking, self._publisher, held, to, recursive
        )

    async def symlink(self, entry: Handle, target: str) -> None:
        held = held_entry(entry)
        await self._short(held, links.symlink_blocking, self._publisher, held, target)

    async def readlink(self, entry: Handle) -> str:
        held = held_object(entry)
        return self._inline(held.path, links.readlink, held)

    async def set_mode(
        self, entry: Handle, file_mode: int, *, expected: Expected = ANYTHING
    ) -> None:
        held = held_object(entry)
        change = partial(attributes.set_mode, file_mode=file_mode)
        await self._set_attributes(held, change, expected, file_mode, None, None)

    async def set_times(
        self, entry: Handle, mtime_ns: int, atime_ns: int | None, *, expected: Expected = ANYTHING
    ) -> None:
        held = held_object(entry)
        change = partial(attributes.set_times, mtime_ns=mtime_ns, atime_ns=atime_ns)
        await self._set_attributes(held, change, expected, None, mtime_ns, atime_ns)

    async def _set_attributes(
        self, held: Held, change: attributes.Setting, expected: Expected,
        file_mode: int | None, mtime_ns: int | None, atime_ns: int | None,
    ) -> None:  # fmt: skip
        try:
            if expected.conditional:
                job = conditional.set_attributes_blocking
                args = self._publisher, held, change, expected
                await self._at_once_or_in_turn(held, job, *args, flushes=False)
            else:
                self._inline(held.path, change, self._publisher, held)
        except attributes.Shared:
            own = self._swapper.make_own_blocking
            await self._in_turn(
                held, own, held_entry(held), file_mode, mtime_ns, atime_ns, expected
            )

    # --- powers -------------------------------------------------------------------------------

    async def stage(self, place: Handle, *, size_max: int) -> DiskStage:
        held = held_entry(place)
        stage = DiskStage(StagedTree(self._publisher, held, size_max), held.path, self._workers)
        try:
            await stage.begin()
        except BaseException:
            await stage.discard()
            raise
        return stage

    async def stage_swap(self, place: Handle, *, size_max: int) -> DiskStage:
        return await self.stage(place, size_max=size_max)

    def open_directory(self) -> int:
        return os.open(".", syscalls.LIST_FLAGS, dir_fd=self._lookup.root.fd)

    version_of = staticmethod(version_of)
    tells_times = staticmethod(syscalls.tells_times)
    heeds_modes = staticmethod(syscalls.heeds_modes)

    def share_directory(self, directory: Handle, beside: Share | None = None) -> Share | None:
        return share_directory(held_object(directory), self._place, beside)

    def mounts(self) -> frozenset[str]:
        return mounts_beneath(self._lookup.root.fd)

    def narrowed(
        self, *, symlinks: Symlinks | None = None, hardlinks: Hardlinks | None = None
    ) -> DiskStore:
        settings = self._settings.narrowed(symlinks, hardlinks)
        root, place = self._lookup.root, self._place
        containment: Containment = "walk" if self._lookup.containment == "walk" else "auto"
        lookup = _choose_lookup(root, settings, containment)
        return DiskStore(lookup, place, LentWorkers(self._workers), self._whole or self)

    def shares_tree(self, other: Store) -> bool:
        """Also where one directory was opened twice."""
        return isinstance(other, DiskStore) and same_object(
            other._lookup.root.status, self._lookup.root.status
        )

    # --- watching -----------------------------------------------------------------------------

    def sight(self, path: ScopedPath) -> Sighting | None:
        return None if self._workers.closed else sight(self._lookup, path)

    def watch_tree(self, tell: Callable[[Sequence[Noticed]], None], changing: Changing) -> Watcher:
        from bailiwick.stores.disk.watch.watcher import TreeWatcher

        self._workers.refuse_closed()
        watcher = TreeWatcher(self._lookup, tell, changing, closed=self._watchers.discard)
        self._watchers.add(watcher)
        return watcher

    # --- closing ------------------------------------------------------------------------------

    async def aclose(self) -> None:
        for watcher in list(self._watchers):
            watcher.close()
        await self._workers.aclose()
        if self._whole is not None:
            return  # the rest is the whole store's
        try:
            self._journal.close()
        except OSError as error:
            raise IoError(f"the journal could not be removed ({error.errno})") from None
        finally:
            self._lookup.root.close()

    # --- where work runs ----------------------------------------------------------------------

    def _inline(self, path: ScopedPath, job: Callable[..., T], *args: Any) -> T:
        self._workers.refuse_closed()
        try:
            return job(*args)
        except OSError as error:
            raise from_os_error(error, path) from None

    async def _in_thread(self, path: ScopedPath, job: Callable[..., T], *args: Any) -> T:
        try:
            return await self._workers.run(job, *args)
        except OSError as error:
            raise from_os_error(error, path) from None

    def _waits(self) -> bool:
        """Whether a change has to wait for the disk."""
        return self._durable and not self._pace.is_quick

    async def _short(self, held: Held, job: Callable[..., T], *args: Any) -> T:
        """A few calls on names: in a thread only where they wait for the disk."""
        if self._waits():
            return await self._in_thread(held.path, self._pace.timed, job, *args)
        if self._durable:  # it does not wait, as far as is known
            result: T = self._inline(held.path, self._pace.timed, job, *args, UNSTOPPABLE)
            return result
        return self._inline(held.path, job, *args, UNSTOPPABLE)

    async def _at_once_or_in_turn(
        self, held: Held, job: Callable[..., T], *args: Any, size: int = 0, flushes: bool = True
    ) -> T:
        """What depends on the old content: at once where that and the new are small and nobody has
        to be waited for, no disk and no lock of another process; else in a thread, one at a time.
        """
        before = 0 if held.status is None else held.status.st_size
        waits = held.path in self._turns.taken or (self._durable and flushes and self._waits())
        if not waits and before <= INLINE_BYTES_MAX and size <= INLINE_BYTES_MAX:
            if self._workers.closed:
                self._workers.refuse_closed()
            try:
                if not self._durable:
                    return job(*args, UNSTOPPABLE)
                return self._pace.timed(job, *args, UNSTOPPABLE)
            except WouldWait:
                pass
            except OSError as error:
                raise from_os_error(error, held.path) from None
        return await self._in_turn(held, job, *args)

    async def _in_turn(self, held: Held, job: Callable[..., T], *args: Any) -> T:
        """One at a time for each name."""
        await self._turns.take(held.path)
        try:
            return await self._in_thread(held.path, self._pace.timed, job, *args)
        finally:
            self._turns.give_back(held.path)


def _ambient_open_root(host_path: str) -> DiskRoot:
    """Open the directory of the host that everything happens in: the one lookup by host path."""
    flags = (syscalls.O_PATH or os.O_RDONLY) | syscalls.O_DIRECTORY | syscalls.O_CLOEXEC
    try:
        root = DiskRoot(os.open(host_path, flags))
    except FileNotFoundError:
        raise RootNotFound("the directory of this root does not exist") from None
    except NotADirectoryError:
        raise NotADirectory("what this root stands on is not a directory") from None
    except OSError as error:
        raise from_os_error(error) from None
    try:
        check_filesystem(root.fd, ROOT)
    except BaseException:
        root.close()
        raise
    return root


def _choose_lookup(root: DiskRoot, settings: DiskSettings, containment: Containment) -> Lookup:
    """The kernel's way where there is one. /proc is part of it: it names what was opened."""
    walk = WalkLookup(root, settings)
    if containment == "walk":
        return walk
    if syscalls.has_openat2() and walk.holds_objects:
        return KernelLookup(root, settings, explaining=walk)
    if containment == "require-kernel":
        raise Unsupported(
            "this kernel does not confine lookups (no openat2, or no /proc)",
            hint='containment = "auto" walks each path by held descriptors instead',
        )
    return walk
