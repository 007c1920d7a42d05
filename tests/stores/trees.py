"""Fresh trees of every kind of store, for the contract and the model tests."""

import contextlib
import itertools
import os

import pytest

from bailiwick.paths import RESERVED_PREFIX
from bailiwick.stores.memory import MemoryStore
from bailiwick.testing.driver import StoreDriver

LONG_CASES = {
    "a deep tree is made walked and removed",
    "a call that is cancelled under way is whole or not at all",
    "no move or copy puts anything deeper than a path can name",
    "a file is not put deeper than a path can name by way of a link",
    "a directory of many names is listed copied moved and removed whole",
}
"""Of the contract: as long as all others together. In `make unit` memory alone keeps them."""

DISK_IS_MISSING = "bailiwick.stores.disk cannot be imported: "

KINDS = ("memory", "disk-kernel", pytest.param("disk-walk", marks=pytest.mark.slow))
"""For `parametrize`. How the walk looks names up is tried in `make unit` by tests/stores/disk."""


def cases_of(cases):
    """Cases of the contract, for `parametrize`."""
    return [
        pytest.param(case, id=case.id, marks=[pytest.mark.slow] if case.name in LONG_CASES else [])
        for case in cases
    ]


def disk_store():
    """The class, or a skip that says what is missing."""
    try:
        from bailiwick.stores.disk import DiskStore
    except ImportError as error:
        pytest.skip(DISK_IS_MISSING + str(error))
    return DiskStore


def make_memory():
    async def make(*, symlinks="in-root", plant=None):
        store = MemoryStore()
        if plant is not None:
            await plant(StoreDriver(store))
        store.symlinks = symlinks
        return StoreDriver(store)

    return make


def make_disk(tmp_path, containment):
    numbers = itertools.count()
    store_class = disk_store()

    def open_store(place, symlinks):
        return store_class.open(
            place / "tree",
            symlinks=symlinks,
            containment=containment,
            durability="rename",
            state_dir=place / "state",
        )

    async def make(*, symlinks="in-root", plant=None):
        place = tmp_path / f"place{next(numbers)}"
        for name in ("tree", "state"):
            (place / name).mkdir(parents=True)
        if plant is not None:
            planting = StoreDriver(open_store(place, "in-root"))
            async with contextlib.aclosing(planting):
                await plant(planting)
        return StoreDriver(open_store(place, symlinks))

    return make


def make_kind(kind, tmp_path):
    """What makes fresh trees of a kind of `KINDS`."""
    if kind == "memory":
        return make_memory()
    return make_disk(tmp_path, "auto" if kind == "disk-kernel" else "walk")


def litter(tmp_path):
    """Staging names left anywhere on disk, which no verb would show."""
    return [
        os.path.join(folder, name)
        for folder, directories, files in os.walk(tmp_path)
        for name in (*directories, *files)
        if name.startswith(RESERVED_PREFIX)
    ]
