"""Fresh volumes for tests: in a file or a database of their own, closed by the driver that was
given."""

import contextlib
import hashlib
import itertools

from bailiwick.stores.volume import VolumeStore
from bailiwick.stores.volume.content.blobs import FolderBlobs
from bailiwick.testing.driver import StoreDriver

engine = {"dsn": None}
"""Where volumes are kept: with a ``dsn`` in PostgreSQL, each under a name made of the path of the
file that it would else have. See the fixture of the same name."""


def open_volume(path, *, volume="main", **options):
    """The volume of a file, or the one that stands for it."""
    if engine["dsn"] is None:
        return VolumeStore.open(str(path), volume=volume, **options)
    options.setdefault("blobs", FolderBlobs(f"{path}-blobs"))
    name = "v" + hashlib.sha256(f"{path}?{volume}".encode()).hexdigest()[:32]
    return VolumeStore.open(engine["dsn"], volume=name, **options)


def make_volume(tmp_path):
    """What makes fresh volumes, as the contract asks for them."""
    numbers = itertools.count()

    async def make(*, symlinks="in-root", plant=None):
        path = str(tmp_path / f"volume{next(numbers)}.db")
        if plant is not None:
            planting = StoreDriver(open_volume(path))
            async with contextlib.aclosing(planting):
                await plant(planting)
        return StoreDriver(open_volume(path, symlinks=symlinks))

    return make


@contextlib.asynccontextmanager
async def opened(path, **options):
    """A driver on a volume, closed in the end."""
    driver = StoreDriver(open_volume(path, **options))
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
