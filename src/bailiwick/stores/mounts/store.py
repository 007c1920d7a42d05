"""`MountsStore`: every verb is done by the mount in which its place lies."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Final, NamedTuple, cast

import msgspec

from bailiwick.errors import (
    Closed,
    FileAlreadyExists,
    IsADirectory,
    NotADirectory,
    ParseError,
    PathNotFound,
    ReadOnly,
    Unsupported,
)
from bailiwick.limits import Limits
from bailiwick.model import ANYTHING, Expected, Hardlinks, Stat, Symlinks
from bailiwick.paths import ScopedPath
from bailiwick.store import (
    Changing,
    Child,
    Children,
    Content,
    Handle,
    KnowsMissing,
    Look,
    Narrows,
    Nominates,
    Noticed,
    Sighting,
    Stage,
    Stages,
    Store,
    Surveyed,
    Surveys,
    Watcher,
    Watches,
    WritePlan,
    Written,
)
from bailiwick.stores.mounts.copies import MountStage, copy_across
from bailiwick.stores.mounts.table import MountedStore, MountHandle, MountTable, point_stays
from bailiwick.stores.mounts.versions import MountedPast
from bailiwick.stores.mounts.watchers import OwnChanges, watch_mounts
from bailiwick.versions import Mark, Marks

_READ_BITS: Final = 0o555

_OF_ANY: Final = frozenset({"KnowsMissing", "Marks", "Nominates", "Remembers", "Stages", "Watches"})
"""Powers that the tree has where one of its mounts has them; in the others it is `Unsupported`."""


class _Shared:
    """What all views of one tree have in common."""

    def __init__(self, made_ns: int, limits: Limits) -> None:
        self.made_ns: Final = made_ns
        self.limits: Final = limits
        self.own = OwnChanges()
        self.tree: Final = object()


class MountsStore:
    """Stores beside each other in one tree. They are closed with it."""

    def __init__(
        self,
        mounts: Iterable[MountedStore],
        *,
        clock_ns: Callable[[], int],
        limits: Limits | None = None,
    ) -> None:
        listed = list(mounts)
        table = MountTable({each.point: each for each in listed})
        if len(table.mounts) < len(listed):
            raise ParseError("two mounts have the same place")
        self._join(table, _Shared(clock_ns(), limits or Limits()))

    def _join(self, table: MountTable, shared: _Shared) -> None:
        self._table = table
        self._shared = shared
        self._closed = False

    def _with_stores(self, change: Callable[[MountedStore], Store]) -> MountsStore:
        """This tree, with other views of what is mounted."""
        mounts = self._table.mounts
        table = MountTable(
            {point: each._replace(store=change(each)) for point, each in mounts.items()}
        )
        made = MountsStore.__new__(MountsStore)
        made._join(table, self._shared)
        return made

    # --- what it is --------------------------------------------------------------------------

    @property
    def mounts(self) -> tuple[MountedStore, ...]:
        """All that is mounted, by place."""
        return tuple(self._table.mounts[point] for point in sorted(self._table.mounts))

    @property
    def powers(self) -> frozenset[str]:
        each = [mount.store.powers for mount in self.mounts]
        found = frozenset[str]().union(*each) & _OF_ANY
        if any("Logs" in powers for powers in each):
            found |= {"Watches"}
        return found | {"Narrows"} if all("Narrows" in powers for powers in each) else found

    @property
    def description(self) -> dict[str, str]:
        told = {"kind": "mounts"}
        for mount in self.mounts:
            kind = mount.store.description.get("kind", "store")
            told[f"mount {mount.point}"] = f"{kind}, read-only" if mount.read_only else kind
        rejecting = [m.store.description.get("symlinks") == "reject" for m in self.mounts]
        return told | {"symlinks": "reject" if all(rejecting) else "in-root"}

    def link_top(self, path: ScopedPath) -> ScopedPath:
        """Where absolute links of a place begin, and what none of its links leaves."""
        mount = self._table.mount_of(path)
        return ScopedPath(".") if mount is None else mount.point

    # --- lookup ------------------------------------------------------------------------------

    async def resolve(
        self, path: ScopedPath, look: Look, *, directory: bool = False, parents: bool = False
    ) -> Handle:
        self._check_open()
        mount = self._table.mount_of(path)
        if mount is not None:
            with mount.told():
                held = await mount.store.resolve(
                    mount.inside(path), look, directory=directory, parents=parents
                )
            return MountHandle(mount.outside(held.path), mount, held)
        if path in self._table.above:
            return MountHandle(path, None, None, kind="directory")
        if look == "object" or (path.parent not in self._table.above and not parents):
            raise PathNotFound("no such file or directory", path=path)
        return MountHandle(path, None, None)

    async def descend(self, directory: Handle, name: str) -> Handle:
        here = self._listed(directory)
        if here.mount is None or here.held is None:
            path = here.path.child(name)
            mount = self._table.mounts.get(path)
            if mount is None:
                return await self.resolve(path, "object")
            with mount.told():
                held = await mount.store.resolve(ScopedPath("."), "object")
            return MountHandle(path, mount, held)
        with here.mount.told():
            held = await self._store(here.mount).descend(here.held, name)
        return MountHandle(here.path.child(name), here.mount, held)

    def is_missing(self, *paths: ScopedPath) -> bool:
        return all(map(self._is_missing, paths))

    def _is_missing(self, path: ScopedPath) -> bool:
        mount = self._table.mount_of(path)
        if mount is None:
            return path not in self._table.above
        store = mount.store
        return isinstance(store, KnowsMissing) and store.is_missing(mount.inside(path))

    # --- reading -----------------------------------------------------------------------------

    async def stat(self, handle: Handle) -> Stat:
        here = self._here(handle)
        if here.mount is None or here.held is None:
            if here.type is None:
                raise PathNotFound("no such file or directory", path=here.path)
            return self._above(here.path)
        with here.mount.told():
            stat = await self._store(here.mount).stat(here.held)
        read_only = here.mount.read_only or stat.read_only
        return msgspec.structs.replace(
            stat, path=here.path, name=here.path.name, read_only=read_only,
            mode=stat.mode & (_READ_BITS if read_only else 0o7777),
        )  # fmt: skip

    def _above(self, path: ScopedPath) -> Stat:
        return Stat(
            path=path, name=path.name, type="directory", size=0, mode=_READ_BITS,
            mtime_ns=self._shared.made_ns, created_ns=self._shared.made_ns, version="mounts",
            links=1, read_only=True,
        )  # fmt: skip

    async def children(
        self, directory: Handle, *, after: str | None = None, limit: int | None = None
    ) -> Children:
        here = self._listed(directory)
        if here.mount is not None and here.held is not None:
            with here.mount.told():
                found = await self._store(here.mount).children(here.held, after=after, limit=limit)
            if not here.mount.read_only:
                return found
            return Children([each._replace(read_only=True) for each in found.entries], found.more)
        made_ns = self._shared.made_ns
        names = [
            Child(name, "directory", 0, made_ns, read_only=self._is_read_only(here.path, name))
            for name in self._table.above[here.path]
            if after is None or name > after
        ]
        return Children(names[:limit], more=limit is not None and len(names) > limit)

    def _is_read_only(self, parent: ScopedPath, name: str) -> bool:
        mount = self._table.mounts.get(parent.child(name))
        return mount is None or mount.read_only

    async def names_beside(self, entry: Handle) -> list[str]:
        here = self._here(entry)
        if here.mount is None or here.held is None:
            return list(self._table.above.get(here.path.parent, ()))
        with here.mount.told():
            return await self._store(here.mount).names_beside(here.held)

    async def read(self, file: Handle, offset: int, length: int) -> Content:
        mount, held = self._content(file)
        with mount.told():
            return await self._store(mount).read(held, offset, length)

    async def stream(
        self, file: Handle, offset: int, length: int | None
    ) -> AsyncGenerator[bytes, None]:
        mount, held = self._content(file)
        with mount.told():
            async with aclosing(self._store(mount).stream(held, offset, length)) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def readlink(self, entry: Handle) -> str:
        here = self._here(entry)
        if here.mount is None or here.held is None:
            if here.type is None:
                raise PathNotFound("no such file or directory", path=here.path)
            raise ParseError("this is no link", path=here.path)
        with here.mount.told():
            return await self._store(here.mount).readlink(here.held)

    # --- changing ----------------------------------------------------------------------------

    async def write(self, entry: Handle, data: bytes, sha256: str, plan: WritePlan) -> Written:
        mount, held = self._file(entry)
        with mount.told():
            return await self._store(mount).write(held, data, sha256, plan)

    async def write_stream(
        self, entry: Handle, chunks: AsyncIterator[bytes], plan: WritePlan
    ) -> Written:
        mount, held = self._file(entry)
        passing: list[BaseException] = []
        with mount.told(passing):
            async with aclosing(_noting(chunks, passing)) as source:
                return await self._store(mount).write_stream(held, source, plan)

    async def append(self, entry: Handle, data: bytes, plan: WritePlan) -> Written:
        mount, held = self._file(entry)
        with mount.told():
            return await self._store(mount).append(held, data, plan)

    async def truncate(self, entry: Handle, size: int, plan: WritePlan) -> Written:
        mount, held = self._file(entry)
        with mount.told():
            return await self._store(mount).truncate(held, size, plan)

    async def make_dir(self, entry: Handle, *, file_mode: int | None, parents: bool) -> bool:
        here = self._here(entry)
        if here.type is not None and (here.mount is None or here.is_point):
            if parents:
                return False
            raise FileAlreadyExists("already exists", path=here.path)
        mount, held = self._changeable(here)
        with mount.told():
            return await self._store(mount).make_dir(held, file_mode=file_mode, parents=parents)

    async def remove(self, entry: Handle, *, recursive: bool, expected: Expected = ANYTHING) -> int:
        mount, held = self._changeable(self._existing(entry))
        with mount.told():
            return await self._store(mount).remove(held, recursive=recursive, expected=expected)

    async def move(
        self, source: Handle, destination: Handle, *, replace: bool,
        expected: Expected = ANYTHING, replaced: Expected = ANYTHING,
    ) -> bool:  # fmt: skip
        here, there = self._existing(source), self._here(destination)
        mount, held = self._changeable(here)
        other, arriving = self._changeable(there)
        if mount.point != other.point:
            raise Unsupported(
                "nothing is moved from one mount to another", path=here.path,
                hint="copy it, and remove it when that is done",
                details={"mounts": [str(mount.point), str(other.point)]},
            )  # fmt: skip
        with mount.told():
            return await self._store(mount).move(
                held, arriving, replace=replace, expected=expected, replaced=replaced
            )

    async def copy(self, source: Handle, destination: Handle, *, recursive: bool) -> int:
        here = self._existing(source)
        there = self._here(destination)
        if there.type is not None and (there.mount is None or there.is_point):
            raise FileAlreadyExists("already exists", path=there.path)
        mount, held = self._changeable(there)
        if here.mount is not None and here.held is not None and here.mount.point == mount.point:
            with mount.told():
                return await self._store(mount).copy(here.held, held, recursive=recursive)
        if destination.type is not None:
            raise FileAlreadyExists("already exists", path=destination.path)
        if here.type == "directory" and not recursive:
            raise IsADirectory("is a directory", path=here.path, hint="copy with recursive=True")
        return await copy_across(self, here, destination, self._shared.limits)

    async def symlink(self, entry: Handle, target: str) -> None:
        mount, held = self._changeable(self._here(entry))
        with mount.told():
            await self._store(mount).symlink(held, target)

    async def set_mode(
        self, entry: Handle, file_mode: int, *, expected: Expected = ANYTHING
    ) -> None:
        mount, held = self._changeable(self._existing(entry))
        with mount.told():
            await self._store(mount).set_mode(held, file_mode, expected=expected)

    async def set_times(
        self, entry: Handle, mtime_ns: int, atime_ns: int | None, *, expected: Expected = ANYTHING
    ) -> None:
        mount, held = self._changeable(self._existing(entry))
        with mount.told():
            await self._store(mount).set_times(held, mtime_ns, atime_ns, expected=expected)

    async def aclose(self) -> None:
        self._closed = True
        for mount in self.mounts:
            await mount.store.aclose()

    # --- powers ------------------------------------------------------------------------------

    @property
    def versions(self) -> MountedPast:
        """What was, of each mount by itself."""
        return MountedPast(self._with_stores, self.mounts, self._table.mount_of)

    def marked(self, mark: Mark) -> MountsStore:
        self._shared.own.add(mark)
        return self._with_stores(
            lambda each: (
                each.store.marked(mark)
                if "Marks" in each.store.powers and isinstance(each.store, Marks)
                else each.store
            )
        )

    def narrowed(
        self, *, symlinks: Symlinks | None = None, hardlinks: Hardlinks | None = None
    ) -> Store:
        def narrow(mount: MountedStore) -> Store:
            if not isinstance(mount.store, Narrows):
                raise Unsupported("a mount cannot be seen more strictly", path=mount.point)
            return mount.store.narrowed(symlinks=symlinks, hardlinks=hardlinks)

        return self._with_stores(narrow)

    def shares_tree(self, other: Store) -> bool:
        return isinstance(other, MountsStore) and other._shared.tree is self._shared.tree

    async def stage(self, place: Handle, *, size_max: int) -> Stage:
        here = self._here(place)
        mount, held = here.mount, here.held
        if mount is None or held is None or not (here.is_point and here.type == "directory"):
            mount, held = self._changeable(here)
        elif mount.read_only:
            raise ReadOnly("this mount can only be read", path=here.path)
        store = self._store(mount)
        if "Stages" not in store.powers or not isinstance(store, Stages):
            raise Unsupported("nothing is staged in this mount", path=here.path)
        with mount.told():
            return MountStage(mount, await store.stage(held, size_max=size_max))

    async def nominate(
        self, directory: Handle, pattern: str, *, literal: bool, ignore_case: bool, word: bool,
        binaries: bool, leave_out: tuple[str, ...], file_bytes_max: int | None, deadline_s: float,
    ) -> set[ScopedPath] | None:  # fmt: skip
        """In one mount; what lies above them is walked."""
        here = self._here(directory)
        if here.mount is None or here.held is None:
            return None
        store, mount = self._store(here.mount), here.mount
        if not isinstance(store, Nominates):
            return None
        with mount.told():
            found = await store.nominate(
                here.held, pattern, literal=literal, ignore_case=ignore_case, word=word,
                binaries=binaries, leave_out=leave_out, file_bytes_max=file_bytes_max,
                deadline_s=deadline_s,
            )  # fmt: skip
        return None if found is None else {mount.outside(each) for each in found}

    async def survey(
        self, directory: Handle, pattern: str, *, literal: bool, ignore_case: bool, word: bool,
        leave_out: tuple[str, ...], file_bytes_max: int | None, entries_max: int, depth_max: int,
        deadline_s: float,
    ) -> dict[ScopedPath, Surveyed] | None:  # fmt: skip
        here = self._here(directory)
        if here.mount is None or here.held is None:
            return None
        store, mount = self._store(here.mount), here.mount
        if not isinstance(store, Surveys):
            return None
        with mount.told():
            found = await store.survey(
                here.held, pattern, literal=literal, ignore_case=ignore_case, word=word,
                leave_out=leave_out, file_bytes_max=file_bytes_max, entries_max=entries_max,
                depth_max=depth_max - mount.point.levels, deadline_s=deadline_s,
            )  # fmt: skip
        return None if found is None else {mount.outside(at): each for at, each in found.items()}

    def sight(self, path: ScopedPath) -> Sighting | None:
        mount = self._table.mount_of(path)
        if mount is None or not isinstance(mount.store, Watches):
            return None
        return mount.store.sight(mount.inside(path))

    def watch_tree(self, tell: Callable[[Sequence[Noticed]], None], changing: Changing) -> Watcher:
        return watch_mounts(self.mounts, self._table.mount_of, tell, changing, self._shared.own)

    # --- handles -----------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("this store is closed")

    def _store(self, mount: MountedStore) -> Store:
        """The mount's store as this view has it: handles of one view are good for another."""
        return self._table.mounts[mount.point].store

    def _here(self, handle: Handle) -> MountHandle:
        self._check_open()
        return cast(MountHandle, handle)

    def _existing(self, handle: Handle) -> MountHandle:
        here = self._here(handle)
        if here.mount is None and here.type is None:
            raise PathNotFound("no such file or directory", path=here.path)
        return here

    def _listed(self, directory: Handle) -> MountHandle:
        here = self._here(directory)
        if here.mount is None and here.path not in self._table.above:
            raise NotADirectory("not a directory", path=here.path)
        return here

    def _content(self, file: Handle) -> _PlaceInMount:
        here = self._here(file)
        if here.mount is None or here.held is None:
            if here.type is None:
                raise PathNotFound("no such file or directory", path=here.path)
            raise IsADirectory("is a directory", path=here.path)
        return _PlaceInMount(here.mount, here.held)

    def _file(self, entry: Handle) -> _PlaceInMount:
        """Where a file may be written. A directory stands at a mount point, as at any other."""
        here = self._here(entry)
        if here.type is not None and (here.mount is None or here.is_point):
            raise IsADirectory("is a directory", path=here.path)
        return self._changeable(here)

    def _changeable(self, here: MountHandle) -> _PlaceInMount:
        """Where a change is really made. Raises `ReadOnly`, and `PermissionDenied` for what holds
        the tree together."""
        mount, held = here.mount, here.held
        if mount is None or held is None:
            if here.type is not None:
                raise point_stays(here.path)
            raise ReadOnly(
                "nothing is made beside the mounts", path=here.path, hint="name a place in a mount"
            )
        if here.is_point:
            raise point_stays(here.path)
        if mount.read_only:
            raise ReadOnly("this mount can only be read", path=here.path)
        return _PlaceInMount(mount, held)


class _PlaceInMount(NamedTuple):
    """A place in a mount, as its store knows it."""

    mount: MountedStore
    held: Handle


async def _noting(
    chunks: AsyncIterator[bytes], passing: list[BaseException]
) -> AsyncGenerator[bytes, None]:
    """Chunks, and what they raise noted: that comes through a mount, and is not of it."""
    try:
        async for chunk in chunks:
            yield chunk
    except GeneratorExit:
        raise
    except BaseException as error:
        passing.append(error)
        raise
