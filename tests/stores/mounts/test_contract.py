"""A mount keeps the contract of its store: the tree around it is invisible."""

import pytest

from bailiwick.testing.store_contract import CASES, DIFFERENCES, failure_of
from tests.stores.mounts.trees import make_mounted
from tests.stores.trees import cases_of, litter, make_kind
from tests.stores.volume.volumes import make_volume

pytestmark = pytest.mark.spec("OVER-2", "VOL-12")


@pytest.mark.parametrize("kind", ["memory", "disk-kernel", "volume"])
@pytest.mark.parametrize("case", cases_of(CASES))
async def test_a_mount_keeps_the_contract(case, kind, tmp_path):
    make = make_mounted(make_volume(tmp_path) if kind == "volume" else make_kind(kind, tmp_path))
    if case.name in DIFFERENCES[kind.partition("-")[0]] | DIFFERENCES["mounts"]:
        assert await failure_of(case, make), "declared as different, but it holds"
    else:
        await case.run(make)
    assert litter(tmp_path) == []
