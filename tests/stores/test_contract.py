"""Every store keeps the same contract, except where one list says otherwise."""

import subprocess
import sys

import pytest

from bailiwick.testing.driver import StoreDriver
from bailiwick.testing.store_contract import (
    CASES,
    DIFFERENCES,
    PATH_CASES,
    ContractBroken,
    failure_of,
    run_contract,
)
from tests.laws.citations import ROOT, read_spec
from tests.stores.trees import KINDS, LONG_CASES, cases_of, litter, make_kind, make_memory
from tests.stores.volume.volumes import make_volume

# What all cases together prove. A case says which of these it is about (`Case.rules`).
pytestmark = pytest.mark.spec(
    "PATH-2", "PATH-3", "PATH-4", "LINK-1", "LINK-2", "LINK-3", "LINK-6", "READ-1", "READ-6",
    "WRITE-1", "WRITE-2", "WRITE-3", "WRITE-4", "TREE-1", "TREE-2", "TREE-3", "TREE-4", "LIFE-1",
    "LIFE-2", "VOL-12",
)  # fmt: skip


@pytest.mark.spec("SCALE-1")
@pytest.mark.parametrize("case", cases_of(CASES))
async def test_a_volume_in_postgresql_keeps_the_contract(case, tmp_path, in_postgres):
    make = make_volume(tmp_path)
    if case.name in DIFFERENCES["volume"]:
        assert await failure_of(case, make), "declared as different, but it holds"
    else:
        await case.run(make)
    assert litter(tmp_path) == []


@pytest.mark.parametrize("kind", [*KINDS, "volume"])
@pytest.mark.parametrize("case", cases_of(CASES))
async def test_store_keeps_the_contract(case, kind, tmp_path):
    make = make_volume(tmp_path) if kind == "volume" else make_kind(kind, tmp_path)
    if case.name in DIFFERENCES[kind.partition("-")[0]]:
        assert await failure_of(case, make), "declared as different, but it holds"
    else:
        await case.run(make)
    assert litter(tmp_path) == []


def test_the_contract_is_large_and_every_case_has_its_own_name():
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names) >= 90
    assert set(names) > LONG_CASES
    assert set(PATH_CASES) < set(CASES)


def test_only_existing_cases_differ_and_each_says_why():
    names = {case.name for case in CASES}
    for kind, differing in DIFFERENCES.items():
        assert differing.keys() <= names, kind
        assert all(reason.strip() for reason in differing.values()), kind


def test_cases_cite_rules_that_exist():
    spec = read_spec((ROOT / "SPEC.md").read_text(encoding="utf-8"))
    cited = {rule for case in CASES for rule in case.rules}
    assert cited <= spec.built | spec.not_built


class Forgetful(StoreDriver):
    """A store with one fault: it appends nothing."""

    async def append(self, path, data, *, parents=False):
        return await super().append(path, b"", parents=parents)


async def make_forgetful(*, symlinks, plant):
    driver = await make_memory()(symlinks=symlinks, plant=plant)
    return Forgetful(driver.store)


async def test_a_store_with_a_fault_breaks_the_contract():
    with pytest.raises(ContractBroken) as caught:
        await run_contract(make_forgetful, differences=DIFFERENCES["memory"])
    assert "parallel appends lose nothing" in caught.value.failures
    assert len(caught.value.failures) < 10


OUTSIDER = """
import asyncio, sys
from bailiwick.stores.memory import MemoryStore
from bailiwick.testing.driver import StoreDriver
from bailiwick.testing.store_contract import DIFFERENCES, run_contract

async def make(*, symlinks, plant):
    store = MemoryStore()
    if plant is not None:
        await plant(StoreDriver(store))
    store.symlinks = symlinks
    return StoreDriver(store)

asyncio.run(run_contract(make, differences=DIFFERENCES["memory"]))
assert "pytest" not in sys.modules
"""


@pytest.mark.spec("PY-4")
def test_the_whole_contract_runs_without_a_test_runner():
    subprocess.run([sys.executable, "-c", OUTSIDER], check=True, timeout=120)


@pytest.mark.spec("PY-4")
def test_the_contract_refuses_to_prove_nothing():
    """Without assertions every case would hold."""
    run = subprocess.run([sys.executable, "-O", "-c", OUTSIDER], capture_output=True, text=True)
    assert run.returncode != 0
    assert "run it without -O" in run.stderr


async def test_a_declared_difference_must_be_one():
    some = [case for case in CASES if case.name == "parallel appends lose nothing"]
    with pytest.raises(ContractBroken, match="declared as different, but it holds"):
        await run_contract(make_memory(), cases=some, differences={some[0].name})
    with pytest.raises(ContractBroken, match="no case has this name"):
        await run_contract(make_memory(), cases=some, differences={"no such case"})
