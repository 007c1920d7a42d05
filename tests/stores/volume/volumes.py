"""Fresh volumes for tests: in a file of their own, closed by the driver that was given."""

import contextlib
import functools
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


class _Behalf:
    """A store whose changes are made on somebody's behalf."""

    CHANGES = frozenset({
        "write", "write_stream", "append", "truncate", "make_dir", "remove", "move", "copy",
        "symlink", "set_mode", "set_times", "stage",
    })  # fmt: skip

    def __init__(self, store, origin):
        self._store = store
        self._origin = origin

    def __getattr__(self, name):
        found = getattr(self._store, name)
        if name in self.CHANGES:
            return functools.partial(found, origin=self._origin)
        return found


def by(driver, origin):
    """The same tree, every change of it with this origin."""
    return StoreDriver(_Behalf(driver.store, origin))


async def in_database(driver, sql, *values):
    """Run one statement on the volume's rows; the first value it answers."""

    async def job(turn):
        row = await turn.session.row(sql, *values)
        return None if row is None else row[0]

    return await driver.store.core.database.write(job)


def blob_files(folder):
    """Every file of a blob store beneath a folder."""
    return sorted(str(path) for path in folder.rglob("*-blobs/**/*") if path.is_file())
