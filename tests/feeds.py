"""What the tests of feeds share: a model that follows a feed, own changes, and other programs."""

import asyncio
import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import time

from bailiwick.errors import BailiwickError, PathNotFound
from bailiwick.events import MemoryFeed
from bailiwick.limits import Limits
from bailiwick.model import Change
from bailiwick.paths import ScopedPath
from bailiwick.store import WritePlan
from bailiwick.stores.disk import DiskStore
from bailiwick.stores.disk.watch.sightings import sighting_of
from tests.waiting import let_pass, until

_ids = itertools.count(1)


def new_id():
    return f"id{next(_ids)}"


def memory_feed(source=None, *, time_ns=time.time_ns, **limits):
    return MemoryFeed(limits=Limits(**limits), time_ns=time_ns, new_id=new_id, source=source)


def change(path, kind="updated", **more):
    given = {"type": "file", "subject": "user:me", "request_id": "r", **more}
    return Change(kind=kind, path=ScopedPath(path), **given)


def disk_store(tmp_path, **options):
    root, state = tmp_path / "root", tmp_path / "state"
    root.mkdir(exist_ok=True)
    state.mkdir(exist_ok=True)
    options.setdefault("durability", "rename")
    return DiskStore.open(root, state_dir=state, **options)


class Follower:
    """Gathers what a feed tells, from the moment it is entered."""

    def __init__(self, feed, since=None):
        self._feed = feed
        self._since = since
        self.told = []

    async def __aenter__(self):
        cursor = self._since if self._since is not None else await self._feed.cursor()
        self._task = asyncio.create_task(self._gather(cursor))
        return self

    async def _gather(self, cursor):
        async with contextlib.aclosing(self._feed.follow(cursor)) as changes:
            async for told in changes:
                self.told.append(told)

    async def __aexit__(self, *_):
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError, BailiwickError):
            await self._task

    async def quiet(self, seconds=0.4):
        """Wait until nothing was told for a while: for where nothing can be said last."""
        count = -1
        while count != len(self.told):
            count = len(self.told)
            await let_pass(seconds)
        return self.told

    def brief(self, start=0):
        return [
            (told.kind, str(told.path)) + ((str(told.origin),) if told.origin else ())
            for told in self.told[start:]
        ]


class Model:
    """A tree as someone knows it who saw it once and then only heard of changes."""

    def __init__(self, root):
        self.root = root
        self.tree = tree_of(root)

    def apply(self, told):
        path = str(told.path)
        if told.kind == "deleted":
            self._take(path)
        elif told.kind == "moved":
            taken = self._take(str(told.origin))
            self._take(path)
            self.tree.update({path + rest: kept for rest, kept in taken.items()})
            self.tree[path] = (told.type, told.version)
        elif told.kind in ("created", "updated"):
            self.tree[path] = (told.type, told.version)

    def _take(self, path):
        taken = {
            name[len(path) :]: kept
            for name, kept in self.tree.items()
            if name == path or name.startswith(path + "/")
        }
        for rest in taken:
            del self.tree[path + rest]
        return taken


def tree_of(root):
    """Every path of a real tree, with its type and version; no staging names."""
    found = {}
    for directory, names, files in os.walk(root):
        names[:] = [name for name in names if not name.startswith(".bailiwick~")]
        for name in (*names, *files):
            if name.startswith(".bailiwick~"):
                continue
            full = os.path.join(directory, name)
            seen = sighting_of(os.lstat(full))
            found[os.path.relpath(full, root)] = (seen.type, seen.version)
    return found


class Own:
    """Changes made through the store as the pipeline makes them: announced, done, told.

    ``announce`` and ``settle`` are a ledger's part in it.
    """

    def __init__(self, store, feed, name="own", announce=None, settle=None):
        self._store = store
        self._feed = feed
        self.name = name
        self._announce = announce
        self._settle = settle or (lambda paths, number, changes: feed.publish(changes))
        self.requests = []

    async def write(self, path, data=b"own"):
        async def done(entry):
            written = await self._store.write(entry, data, "", WritePlan())
            kind = "created" if written.created else "updated"
            return [(kind, entry.path, "file", {"version": written.version})]

        await self._change(path, done)

    async def make_dir(self, path):
        async def done(entry):
            await self._store.make_dir(entry, file_mode=None, parents=False)
            return [("created", entry.path, "directory", {})]

        await self._change(path, done)

    async def remove(self, path):
        async def done(entry):
            kind = entry.type
            await self._store.remove(entry, recursive=True)
            return [("deleted", entry.path, kind, {"subtree": kind == "directory"})]

        await self._change(path, done, exists=True)

    async def symlink(self, path, target="nowhere"):
        async def done(entry):
            await self._store.symlink(entry, target)
            return [("created", entry.path, "symlink", {})]

        await self._change(path, done)

    async def set_mode(self, path, mode):
        async def done(entry):
            kind = entry.type
            await self._store.set_mode(entry, mode)
            return [("updated", entry.path, kind, {})]

        await self._change(path, done, exists=True)

    async def move(self, path, to):
        async def done(entry, there):
            kind = entry.type
            if not await self._store.move(entry, there, replace=True):
                return []
            more = {"origin": entry.path, "subtree": kind == "directory"}
            return [("moved", there.path, kind, more)]

        await self._change(path, done, to, exists=True)

    async def copy(self, path, to, *, trees=False):
        async def done(entry, there):
            kind = entry.type
            await self._store.copy(entry, there, recursive=trees)
            return [("created", there.path, kind, {"subtree": kind == "directory"})]

        await self._change(path, done, to, exists=True)

    async def _change(self, path, act, to=None, *, exists=False):
        request = f"{self.name}-{len(self.requests)}"
        in_flight = self._feed.in_flight
        handles, paths, number, changes = [], [], None, []
        try:
            for text in (path, *([] if to is None else [to])):
                handle = await self._store.resolve(ScopedPath(text), "entry")
                handles.append(handle)
                paths.append(handle.path)
                in_flight.begin(handle.path)
            if exists and handles[0].type is None:
                raise PathNotFound("no such file or directory")
            if self._announce is not None:
                number = await self._announce(paths)
            changes = [
                Change(
                    kind=kind, path=where, type=of, subject="user:me", request_id=request, **more
                )
                for kind, where, of, more in await act(*handles)
            ]  # fmt: skip
        finally:
            self.requests.extend(each.request_id for each in changes)
            if changes or number is not None:
                self._settle(paths, number, changes)
            for handle in handles:
                in_flight.end(handle.path)
                handle.close()


NAMES = ("a", "b", "c", "d")


def any_path(rng, levels=3):
    return "/".join(rng.choice(NAMES) for _ in range(rng.randint(1, levels)))


async def own_step(own, rng, top=""):
    """One random change through the store; one that is refused has changed nothing."""
    path, other = top + any_path(rng), top + any_path(rng)
    verbs = (
        lambda: own.write(path, rng.randbytes(rng.randint(0, 40))),
        lambda: own.write(path, rng.randbytes(rng.randint(0, 40))),
        lambda: own.make_dir(path),
        lambda: own.make_dir(path),
        lambda: own.remove(path),
        lambda: own.symlink(path),
        lambda: own.set_mode(path, rng.choice((0o700, 0o750))),
        lambda: own.move(path, other),
        lambda: own.copy(path, other),
    )
    with contextlib.suppress(BailiwickError):
        await rng.choice(verbs)()


STRANGER = """
import os, random, sys
sys.path[:0] = [{checkout!r}]
from tests.feeds import stranger_step
from tests.waiting import let_pass_blocking
rng = random.Random({seed})
os.chdir({root!r})
for _ in range({steps}):
    stranger_step(rng)
    if rng.random() < {rest}:
        let_pass_blocking(rng.random() * 0.01)
"""


def stranger_step(rng):
    """One random change by a program that knows nothing of us, in the working directory."""
    path, other = any_path(rng), any_path(rng)
    kind = rng.randrange(9)
    try:
        if kind <= 1:
            with open(path, "wb") as file:
                file.write(rng.randbytes(rng.randint(0, 50)))
        elif kind == 2:
            with open(path + ".tmp", "wb") as file:
                file.write(rng.randbytes(10))
            os.replace(path + ".tmp", path)
        elif kind == 3:
            os.makedirs(path + "/" + other, exist_ok=True)
        elif kind == 4:
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        elif kind == 5:
            os.rename(path, other)
        elif kind == 6:
            os.symlink("nothing", path)
        elif kind == 7:
            os.chmod(path, rng.choice((0o700, 0o755)), follow_symlinks=True)
        else:
            with open(path, "ab") as file:
                file.write(b"more")
    except OSError:
        pass
    except shutil.Error:
        pass


def rough_step(rng):
    """The same by one who moves directories about most of the time, among very few names."""
    path, other = ("/".join(rng.choices("ab", k=rng.randint(1, 3))) for _ in range(2))
    kind = rng.randrange(10)
    try:
        if kind <= 4:
            os.rename(path, other)
        elif kind == 5:
            os.makedirs(path, exist_ok=True)
        elif kind == 6:
            os.mkdir(path)
        elif kind == 7:
            with open(path, "ab") as file:
                file.write(b"more")
        elif kind == 8:
            (shutil.rmtree if os.path.isdir(path) else os.unlink)(path)
        else:
            os.rename(path, "t")
            os.rename(other, path)
            os.rename("t", other)
    except (OSError, shutil.Error):
        pass


def stranger(root, seed, steps, rest=0.2):
    """Start another program that changes the tree at random."""
    checkout = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    code = STRANGER.format(root=str(root), seed=seed, steps=steps, rest=rest, checkout=checkout)
    return subprocess.Popen([sys.executable, "-c", code])


async def ended(process):
    await until(lambda: process.poll() is not None)
    assert process.returncode == 0


def own_of(told):
    return [each.request_id for each in told if each.request_id]


def twice_told(told):
    """Versions of files that were told again although they stood all the while."""
    standing, doubled = {}, []
    for each in told:
        path = str(each.path)
        for gone in (each.origin, each.path if each.kind in ("deleted", "moved") else None):
            if gone is not None:
                standing = {
                    name: version
                    for name, version in standing.items()
                    if not ScopedPath(name).lies_in(gone)
                }
        if each.version is not None and standing.get(path) == each.version:
            doubled.append(each)
        if each.type == "directory":
            standing.pop(path, None)
        else:
            standing[path] = each.version
    return doubled
