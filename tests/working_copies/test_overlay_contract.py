"""An overlay is a store like any other, wherever what it shows lies."""

import itertools
import os

import pytest

from bailiwick.stores.memory import MemoryStore
from bailiwick.stores.volume import VolumeStore
from bailiwick.testing.driver import StoreDriver
from bailiwick.testing.store_contract import CASES, DIFFERENCES, failure_of
from tests.stores.trees import cases_of, disk_store, litter
from tests.working_copies.overlays import overlay

pytestmark = pytest.mark.spec("OVER-1")


def made_of(directory):
    """All that stands in a directory of the host, to be compared."""
    found = {}
    for place, names, files in os.walk(directory):
        for name in (*names, *files):
            status = os.lstat(os.path.join(place, name))
            found[os.path.join(place, name)] = (status.st_ino, status.st_mode, status.st_mtime_ns)
    return found


def make_overlay(tmp_path, over):
    numbers = itertools.count()

    async def make(*, symlinks="in-root", plant=None):
        place = tmp_path / f"place{next(numbers)}"
        (place / "tree").mkdir(parents=True)
        if over == "memory":
            lower = MemoryStore()
        elif over == "volume":
            lower = VolumeStore.open(str(place / "volume.db"))
        else:
            lower = disk_store().open(place / "tree", state_dir=place / "journal")
        if plant is not None and over != "disk":
            await plant(StoreDriver(lower))
        store = overlay(lower, place / "state", symlinks="in-root")
        if plant is not None and over == "disk":
            await plant(StoreDriver(store))
        store.symlinks = symlinks
        return StoreDriver(store)

    return make


@pytest.mark.parametrize("over", ["memory", "disk", "volume"])
@pytest.mark.parametrize("case", cases_of(CASES))
async def test_an_overlay_keeps_the_contract(case, over, tmp_path):
    """What a case plants lies below, or was made above."""
    before = made_of(tmp_path)
    make = make_overlay(tmp_path, over)
    if case.name in DIFFERENCES["memory"]:
        assert await failure_of(case, make), "declared as different, but it holds"
    else:
        await case.run(make)
    assert litter(tmp_path) == []
    assert not list(tmp_path.glob("place*/tree/*"))
    assert before == {}
