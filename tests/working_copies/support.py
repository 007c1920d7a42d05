"""A working copy that tests make by hand: what was changed, and what stood there before."""

from __future__ import annotations

import hashlib

from bailiwick.errors import SymlinkEscape
from bailiwick.paths import ScopedPath
from bailiwick.working_copy import Alterations, Altered, Base, Dropped


class CopyByHand:
    """What a program would have left, said path by path."""

    id = "by-hand"

    def __init__(self, scope):
        self._scope = scope
        self.altered = {}
        self.contents = {}
        self.unfit = []
        self.dropped = []
        self.notes = []
        self._kept = {}
        self.bases = {}

    async def base(self, path):
        try:
            stat = await self._scope.lstat(path)
        except (FileNotFoundError, NotADirectoryError, SymlinkEscape):
            return None
        return Base(stat.type, stat.version, stat.size, stat.mode & 0o777)

    async def write(self, path, data, mode=0o644):
        path, base = ScopedPath(path), await self.base(path)
        if base is not None and base.type == "file" and path not in self.bases:
            self.bases[path] = (await self._scope.read_bytes(path)).data
        sha256 = hashlib.sha256(data).hexdigest()
        self.altered[path] = Altered(path, "file", base, mode, len(data), sha256)
        self.contents[path] = data

    async def remove(self, path):
        path = ScopedPath(path)
        self.altered[path] = Altered(path, None, await self.base(path))

    async def make_dir(self, path, mode=0o755):
        path = ScopedPath(path)
        self.altered[path] = Altered(path, "directory", await self.base(path), mode)

    async def link(self, path, target):
        path = ScopedPath(path)
        base = await self.base(path)
        self.altered[path] = Altered(path, "symlink", base, size=len(target), target=target)

    # --- as a working copy ---------------------------------------------------------------------

    async def alterations(self):
        found = sorted(self.altered.values(), key=lambda each: each.path.order)
        unfit = [Dropped(*each) for each in self.unfit]
        return Alterations(found, unfit, [Dropped(*each) for each in self.dropped])

    async def content(self, path):
        data = self.contents[path]
        for start in range(0, len(data), 3):
            yield data[start : start + 3]

    async def keep(self, path, chunks):
        self._kept[path] = b"".join([chunk async for chunk in chunks])

    async def keep_all(self, contents):
        self._kept.update(contents)

    async def kept(self, path):
        yield self._kept[path]

    async def base_image(self, path):
        return self.bases.get(path)

    async def rebase(self, path, image):
        self.bases[path] = image
        self.altered[path] = self.altered[path]._replace(base=await self.base(path))

    async def rewrite(self, path, data, seen):
        sha256 = hashlib.sha256(data).hexdigest()
        self.altered[path] = self.altered[path]._replace(size=len(data), sha256=sha256)
        self.contents[path] = data

    async def restored(self, paths):
        for path in paths:
            if path in self.altered:
                self.altered[path] = self.altered[path]._replace(base=await self.base(path))

    async def publishing(self, what):
        self.notes.append(what)

    async def giving_up(self, what):
        self.notes.append(what)

    async def note_done(self, key):
        self.notes.append(key)

    async def settle(self, published, seen):
        for path in published:
            self.altered.pop(path, None)
            self.bases.pop(path, None)

    async def discard(self, seen=None):
        self.altered.clear()
