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


@pytest.fixture
def make(s3, tmp_path, everything_spills):
    """What makes fresh volumes with their blobs in the bucket, as the contract asks for them."""
    s3.make_bucket("contract")
    opened = []

    async def made(*, symlinks="in-root", plant=None):
        number = next(_numbers)
        path, url = str(tmp_path / f"{number}.db"), s3.url("contract", f"{tmp_path.name}-{number}")
        opened.append(url)
        if plant is not None:
            planting = StoreDriver(VolumeStore.open(path, blobs=open_blobs(url)))
            async with contextlib.aclosing(planting):
                await plant(planting)
        return StoreDriver(VolumeStore.open(path, blobs=open_blobs(url), symlinks=symlinks))

    made.opened = opened
    return made


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
