"""A store with a history keeps the contract of the store that it wraps."""

import pytest

from bailiwick.testing.store_contract import CASES, DIFFERENCES, failure_of
from tests.stores.history.places import make_history
from tests.stores.trees import litter

pytestmark = [pytest.mark.spec("DISK-8", "VOL-12"), pytest.mark.slow]


@pytest.mark.parametrize("containment", ["auto", "walk"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_a_store_with_a_history_keeps_the_contract(case, containment, tmp_path):
    make = make_history(tmp_path, containment)
    if case.name in DIFFERENCES["disk"]:
        assert await failure_of(case, make), "declared as different, but it holds"
    else:
        await case.run(make)
    assert litter(tmp_path) == []
