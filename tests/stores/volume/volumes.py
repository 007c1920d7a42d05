"""Fresh volumes for tests: in a file of their own, closed by the driver that was given."""

import contextlib
import itertools

from bailiwick.stores.volume import VolumeStore
from bailiwick.testing.driver import StoreDriver


def make_volume(tmp_path):
    """What makes fresh volumes, as the contract asks for them."""
    numbers = itertools.count()

    async def make(*, symlinks="in-root", plant=None):
        path = str(tmp_path / f"volume{next(numbers)}.db")
        if plant is not None:
            planting = StoreDriver(VolumeStore.open(path))
            async with contextlib.aclosing(planting):
                await plant(planting)
        return StoreDriver(VolumeStore.open(path, symlinks=symlinks))

    return make


@contextlib.asynccontextmanager
async def opened(path, **options):
    """A driver on a volume, closed in the end."""
    driver = StoreDriver(VolumeStore.open(str(path), **options))
    try:
        yield driver
    finally:
        await driver.aclose()


def by(driver, mark):
    """The same tree, every change of it with this mark."""
    return StoreDriver(driver.store.marked(mark))


async def in_database(driver, sql, *values):
    """Run one statement on the volume's rows; the first value it answers."""

    async def job(turn):
        row = await turn.session.row(sql, *values)
        return None if row is None else row[0]

    return await driver.store.core.database.write(job)


def blob_files(folder):
    """Every file of a blob store beneath a folder."""
    return sorted(str(path) for path in folder.rglob("*-blobs/**/*") if path.is_file())
