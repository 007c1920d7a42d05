"""A scope with a full grant keeps the contract of the store beneath: it is invisible."""

import itertools

import pytest

import bailiwick
from bailiwick.testing.scope_driver import ScopeDriver
from bailiwick.testing.store_contract import DIFFERENCES, PATH_CASES, failure_of
from tests.stores.trees import cases_of

pytestmark = pytest.mark.spec("VOL-12", "PATH-6", "TREE-3", "WRITE-2", "LIFE-1", "LIFE-2")


async def open_driver(place, **options):
    return ScopeDriver(await bailiwick.open(place, mount_point="/", **options).__aenter__())


def make_memory():
    async def make(*, symlinks, plant):
        driver = await open_driver("memory:")
        if plant is not None:
            await plant(driver)
        driver.scope._pipeline.store.symlinks = symlinks
        return driver

    return make


def make_disk(tmp_path):
    numbers = itertools.count()

    async def make(*, symlinks, plant):
        place = tmp_path / f"place{next(numbers)}"
        for name in ("tree", "state"):
            (place / name).mkdir(parents=True)
        options = {"durability": "rename", "state_dir": str(place / "state")}
        if plant is not None:
            planting = await open_driver(place / "tree", **options)
            await plant(planting)
            await planting.aclose()
        return await open_driver(place / "tree", symlinks=symlinks, **options)

    return make


@pytest.mark.parametrize("kind", ["memory", "disk"])
@pytest.mark.parametrize("case", cases_of(PATH_CASES))
async def test_scope_keeps_the_contract(case, kind, tmp_path):
    make = make_memory() if kind == "memory" else make_disk(tmp_path)
    if case.name in DIFFERENCES[kind]:
        assert await failure_of(case, make), "declared as different, but it holds"
    else:
        await case.run(make)
