"""A real directory for every test, opened in every way the store can work.

``kernel`` and ``walk`` are the two containments. ``bare`` is the walk on a platform that can hold
neither files nor links by a descriptor of their own (no O_PATH, or no /proc).
"""

import asyncio
import os
from collections import Counter

import pytest

from bailiwick.paths import RESERVED_PREFIX, ScopedPath
from bailiwick.stores.disk import DiskStore, syscalls
from bailiwick.testing.driver import StoreDriver

WAYS = ("kernel", "walk", "bare")


class Place:
    """A root, a state directory and an outside, all of this test alone."""

    def __init__(self, folder, monkeypatch):
        self.root = folder / "root"
        self.state = folder / "state"
        self.outside = folder / "outside"
        for directory in (self.root, self.outside):
            directory.mkdir()
        (self.outside / "secret").write_bytes(b"secret")
        self.containment = "auto"
        self._monkeypatch = monkeypatch
        self._stores = []

    def work_in(self, way):
        if way != "kernel":
            self.containment = "walk"
        if way == "bare":
            flags = syscalls.LIST_FLAGS | syscalls.O_NOFOLLOW
            self._monkeypatch.setattr(syscalls, "can_reopen", lambda: False)
            self._monkeypatch.setattr(syscalls, "HOLD_DIRECTORY_FLAGS", flags)

    def open(self, **settings):
        settings = {
            "state_dir": self.state,
            "containment": self.containment,
            "durability": "rename",
        } | settings
        store = DiskStore.open(self.root, **settings)
        self._stores.append(store)
        return StoreDriver(store)

    def close(self):
        for store in self._stores:
            asyncio.run(store.aclose())

    def tree(self):
        """Everything in the root, staging names included: path to content, link text or None."""
        found = {}
        for folder, directories, files in os.walk(self.root):
            for name in directories + files:
                path = os.path.join(folder, name)
                shown = os.path.relpath(path, self.root)
                if os.path.islink(path):
                    found[shown] = os.readlink(path)
                elif os.path.isfile(path):
                    with open(path, "rb") as file:
                        found[shown] = file.read()
                else:
                    found[shown] = None
        return found

    def litter(self):
        return [name for name in self.tree() if RESERVED_PREFIX in name]

    def journals(self):
        return sorted(self.state.rglob("*.journal"))


@pytest.fixture
def bare_place(tmp_path, monkeypatch):
    place = Place(tmp_path, monkeypatch)
    yield place
    place.close()


@pytest.fixture
def place(bare_place):
    """The place as the platform allows: confined by the kernel."""
    return bare_place


@pytest.fixture(params=WAYS)
def every_place(request, bare_place):
    bare_place.work_in(request.param)
    bare_place.way = request.param
    return bare_place


@pytest.fixture(params=("kernel", "walk"))
def both_places(request, bare_place):
    bare_place.work_in(request.param)
    return bare_place


class Faults:
    """Makes one call of the seam fail, act, or be counted."""

    def __init__(self, monkeypatch):
        self._monkeypatch = monkeypatch
        self._actions = {}
        self.calls = Counter()

    def on(self, name, action, nth=1, module=syscalls):
        """Run ``action(*args, **kwargs)`` before the nth call; what it returns replaces the call
        unless that is None."""
        if name not in self._actions:
            self._actions[name] = {}
            self._watch(name, module)
        self._actions[name][nth] = action

    def _watch(self, name, module):
        real = getattr(module, name)

        def call(*args, **kwargs):
            self.calls[name] += 1
            action = self._actions[name].get(self.calls[name])
            result = None if action is None else action(*args, **kwargs)
            return real(*args, **kwargs) if result is None else result

        self._monkeypatch.setattr(module, name, call)

    def fail(self, name, number, nth=1, module=syscalls):
        def action(*_args, **_kwargs):
            raise OSError(number, os.strerror(number))

        self.on(name, action, nth, module)

    def fail_always(self, name, number, module=syscalls):
        def call(*_args, **_kwargs):
            raise OSError(number, os.strerror(number))

        self._monkeypatch.setattr(module, name, call)


@pytest.fixture
def faults(monkeypatch):
    return Faults(monkeypatch)


async def hold(fs, path, look="object", **options):
    """A handle, to be closed by the caller."""
    return await fs.store.resolve(ScopedPath(path), look, **options)
