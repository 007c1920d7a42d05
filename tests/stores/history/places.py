"""Real directories with a history, for tests."""

import contextlib
import itertools

from bailiwick.stores.disk import DiskStore
from bailiwick.stores.history import open_history
from bailiwick.stores.history.startup import ambient_history_directory
from bailiwick.stores.volume import VolumeStore
from bailiwick.testing.driver import StoreDriver
from bailiwick.versions import Mark


def open_place(place, *, symlinks="in-root", containment="auto", limits=None, durability="rename"):
    """A store with a history on ``place/tree``, its state in ``place/state``; both are made."""
    for name in ("tree", "state"):
        (place / name).mkdir(parents=True, exist_ok=True)
    inner = DiskStore.open(
        place / "tree", symlinks=symlinks, containment=containment, durability=durability,
        limits=limits, state_dir=place / "state",
    )  # fmt: skip
    return open_history(
        inner,
        ambient_history_directory(str(place / "state"), "tree"),
        VolumeStore.open,
        durable=durability == "full",
        limits=limits,
        collect=lambda keeper: lambda: keeper.versions.collect(keep_days=0),
    )


def make_history(tmp_path, containment="auto"):
    """What makes fresh trees, as the contract asks for them."""
    numbers = itertools.count()

    async def make(*, symlinks="in-root", plant=None):
        place = tmp_path / f"place{next(numbers)}"
        if plant is not None:
            planting = StoreDriver(open_place(place, containment=containment))
            async with contextlib.aclosing(planting):
                await plant(planting)
        return StoreDriver(open_place(place, symlinks=symlinks, containment=containment))

    return make


@contextlib.asynccontextmanager
async def opened(place, **options):
    """A driver on a directory with a history, closed in the end."""
    driver = StoreDriver(open_place(place, **options))
    try:
        yield driver
    finally:
        await driver.aclose()


def by(driver, subject, request_id=""):
    """The same tree, every change of it made for a subject."""
    return StoreDriver(driver.store.marked(Mark(subject=subject, request_id=request_id)))
