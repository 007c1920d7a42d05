"""The contract of stores, kept by a volume of which every byte lies in a bucket.

Files that are not empty go to the object store, whatever their size: so every case that reads,
writes, appends, copies or moves meets a real server.
"""

import contextlib
import itertools

import pytest

from bailiwick.stores.volume import VolumeStore, store
from bailiwick.stores.volume.content import appends, chunks, uploads
from bailiwick.stores.volume.content.object_store import open_blobs
from bailiwick.testing.driver import StoreDriver
from bailiwick.testing.store_contract import CASES, DIFFERENCES, failure_of

pytestmark = pytest.mark.spec("VOL-2", "VOL-3", "VOL-12")

_numbers = itertools.count()


@pytest.fixture
def everything_spills(monkeypatch):
    for module in (chunks, appends, store, uploads):
        monkeypatch.setattr(module, "SPILL_BYTES_MIN", 1)
        monkeypatch.setattr(module, "INLINE_BYTES_MAX", 0)


def maker(s3, tmp_path, database):
    """What makes fresh volumes with their blobs in the bucket, as the contract asks for them;
    ``database`` says where the rows of a numbered one are."""
    s3.make_bucket("contract")
    opened = []

    async def made(*, symlinks="in-root", plant=None):
        number = next(_numbers)
        (path, volume), url = database(number), s3.url("contract", f"{tmp_path.name}-{number}")
        opened.append(url)
        if plant is not None:
            planting = StoreDriver(VolumeStore.open(path, volume=volume, blobs=open_blobs(url)))
            async with contextlib.aclosing(planting):
                await plant(planting)
        blobs = open_blobs(url)
        return StoreDriver(VolumeStore.open(path, volume=volume, blobs=blobs, symlinks=symlinks))

    made.opened = opened
    return made


@pytest.fixture
def make(s3, tmp_path, everything_spills):
    return maker(s3, tmp_path, lambda number: (str(tmp_path / f"{number}.db"), "main"))


@pytest.fixture
def make_in_postgres(s3, tmp_path, postgres, everything_spills):
    name = f"s3x{abs(hash(tmp_path))}x"
    return maker(s3, tmp_path, lambda number: (postgres.dsn, f"{name}{number}"))


@pytest.mark.scale
@pytest.mark.spec("SCALE-1")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_postgres_with_all_content_in_a_bucket_keeps_the_contract(case, make_in_postgres):
    if case.name in DIFFERENCES["volume"]:
        assert await failure_of(case, make_in_postgres), "declared as different, but it holds"
    else:
        await case.run(make_in_postgres)


@pytest.mark.spec("SCALE-1", "VOL-9")
async def test_rows_in_postgres_and_bytes_in_a_bucket_are_checked_together(make_in_postgres):
    driver = await make_in_postgres()
    async with contextlib.aclosing(driver):
        await driver.write("d/kept", b"kept", parents=True)
        await driver.write("d/lost", b"lost")
        assert (await driver.store.versions.check()).is_clean
        with contextlib.closing(open_blobs(make_in_postgres.opened[0])) as blobs:
            uid = driver.store.core.identity.uid
            before = {found.key for found in blobs.all(uid)}
            await driver.write("d/lost", b"lost again")
            (newest,) = {found.key for found in blobs.all(uid)} - before
            blobs.delete(newest)
        found = await driver.store.versions.check()
        assert {problem.path for problem in found.problems} - {None} == {"d/lost"}
        assert await driver.read("d/kept") == b"kept"


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_a_volume_keeps_the_contract_with_all_content_in_a_bucket(case, make):
    if case.name in DIFFERENCES["volume"]:
        assert await failure_of(case, make), "declared as different, but it holds"
    else:
        await case.run(make)


@pytest.mark.slow
async def test_a_few_bytes_are_in_the_bucket_and_not_in_the_database(make, tmp_path):
    """The control: with the threshold as it is here, even a small file is an object."""
    driver = await make()
    async with contextlib.aclosing(driver):
        await driver.write("f", b"a few bytes")
        uid = driver.store.core.identity.uid
        (found,) = open_blobs(make.opened[0]).all(uid)
        assert found.size == len(b"a few bytes")
        assert await driver.read("f") == b"a few bytes"
        assert (await driver.store.versions.check()).problems == []
    (database,) = tmp_path.glob("*.db")
    assert b"a few bytes" not in database.read_bytes()
