"""Trees of mounts, and one mount of them seen as a tree of its own."""

import time
from contextlib import contextmanager

import msgspec

from bailiwick.errors import BailiwickError
from bailiwick.paths import ScopedPath
from bailiwick.store import made_for
from bailiwick.stores.memory import MemoryStore
from bailiwick.stores.mounts import MountedStore, MountsStore
from bailiwick.testing.driver import StoreDriver


def at(path):
    return ScopedPath(path)


def joined(stores, read_only=(), limits=None):
    """A tree of mounts, by their places."""
    return MountsStore(
        [MountedStore(at(point), store, point in read_only) for point, store in stores.items()],
        clock_ns=time.time_ns,
        limits=limits,
    )


class SeenHandle:
    def __init__(self, held, path):
        self.held = held
        self.path = path

    @property
    def type(self):
        return self.held.type

    @property
    def size(self):
        return self.held.size

    @property
    def made(self):
        made = made_for(self.held)
        return made and tuple(each.relative_to(at("there")) for each in made)

    def close(self):
        self.held.close()


class SeenFromWithin:
    """The mount ``there`` of a tree as a store: every call goes through the whole tree."""

    def __init__(self, whole):
        self.whole = whole
        self.powers = whole.powers
        self.description = whole.description

    @contextmanager
    def told(self):
        try:
            yield
        except BailiwickError as error:
            if error.path is not None:
                if not at(error.path).lies_in(at("there")):
                    raise AssertionError("an error names another place") from error
                error.path = at(error.path).relative_to(at("there"))
                error.filename = error.path
            raise

    def seen(self, handle):
        return SeenHandle(handle, handle.path.relative_to(at("there")))

    async def resolve(self, path, look, *, directory=False, parents=False):
        with self.told():
            return self.seen(
                await self.whole.resolve(
                    path.beneath(at("there")), look, directory=directory, parents=parents
                )
            )

    async def descend(self, directory, name):
        with self.told():
            return self.seen(await self.whole.descend(directory.held, name))

    async def stat(self, handle):
        with self.told():
            stat = await self.whole.stat(handle.held)
        return msgspec.structs.replace(stat, path=handle.path, name=handle.path.name)

    async def stream(self, file, offset, length):
        with self.told():
            async for chunk in self.whole.stream(file.held, offset, length):
                yield chunk

    def is_missing(self, *paths):
        return self.whole.is_missing(*(path.beneath(at("there")) for path in paths))

    async def _with(self, verb, handles, *args, **kwargs):
        with self.told():
            return await getattr(self.whole, verb)(*(h.held for h in handles), *args, **kwargs)

    async def children(self, directory, *, after=None, limit=None):
        return await self._with("children", [directory], after=after, limit=limit)

    async def names_beside(self, entry):
        return await self._with("names_beside", [entry])

    async def read(self, file, offset, length):
        return await self._with("read", [file], offset, length)

    async def readlink(self, entry):
        return await self._with("readlink", [entry])

    async def write(self, entry, data, sha256, plan):
        return await self._with("write", [entry], data, sha256, plan)

    async def write_stream(self, entry, chunks, plan):
        return await self._with("write_stream", [entry], chunks, plan)

    async def append(self, entry, data, plan):
        return await self._with("append", [entry], data, plan)

    async def truncate(self, entry, size, plan):
        return await self._with("truncate", [entry], size, plan)

    async def make_dir(self, entry, *, file_mode, parents):
        return await self._with("make_dir", [entry], file_mode=file_mode, parents=parents)

    async def remove(self, entry, *, recursive, **conditions):
        return await self._with("remove", [entry], recursive=recursive, **conditions)

    async def move(self, source, destination, *, replace, **conditions):
        return await self._with("move", [source, destination], replace=replace, **conditions)

    async def copy(self, source, destination, *, recursive):
        return await self._with("copy", [source, destination], recursive=recursive)

    async def symlink(self, entry, target):
        return await self._with("symlink", [entry], target)

    async def set_mode(self, entry, file_mode, **conditions):
        return await self._with("set_mode", [entry], file_mode, **conditions)

    async def set_times(self, entry, mtime_ns, atime_ns, **conditions):
        return await self._with("set_times", [entry], mtime_ns, atime_ns, **conditions)

    async def aclose(self):
        await self.whole.aclose()


def make_mounted(make):
    """What makes fresh trees in a mount, between two others, from what makes them by themselves."""

    async def made(*, symlinks="in-root", plant=None):
        driver = await make(symlinks=symlinks, plant=plant)
        whole = joined({"here": MemoryStore(), "there": driver.store, "yonder/x": MemoryStore()})
        return StoreDriver(SeenFromWithin(whole))

    return made
