"""Whatever call of the store fails, a scope's verb leaks no handle and leaves nothing half-done."""

import pytest

from bailiwick.build.options import Options
from bailiwick.build.own import join
from bailiwick.stores.memory import MemoryStore
from bailiwick.testing import faults
from bailiwick.testing.faults import FaultyStore, at_every_call
from tests.scope.every_verb import VERBS, plant_tree
from tests.scope.support import snapshot

FAULTS = {
    "disk-full": lambda: faults.raising(faults.disk_full()),
    "busy": lambda: faults.raising(faults.busy()),
    "cancelled": faults.cancelling,
}


def scope_on(store):
    return join(store, Options(), "test", "/")


async def make_planted():
    store = MemoryStore()
    await plant_tree(scope_on(store))
    return store


async def outcome_of(verb):
    """The tree after the verb has gone well."""
    store = await make_planted()
    await verb.call(scope_on(store))
    return await snapshot(scope_on(store))


@pytest.mark.spec("LIFE-1", "LIFE-2", "WRITE-3")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", VERBS)
async def test_a_fault_at_any_call_leaves_nothing_open_or_half_done(name, fault):
    verb = VERBS[name]
    before = await snapshot(scope_on(await make_planted()))
    allowed = [before, await outcome_of(verb)]
    under_test = []

    async def act(store):
        under_test[:] = [store]
        await verb.call(scope_on(store))

    async def check(store):
        assert store.open_handles == []
        assert await snapshot(scope_on(store.inner)) in allowed

    tried = await at_every_call(make_planted, act, check, FAULTS[fault])
    # Every verb looks something up and does one thing to it, each failing before and after.
    assert tried >= 2
    assert under_test[0].open_handles == []


@pytest.mark.spec("LIFE-2")
@pytest.mark.parametrize("name", VERBS)
async def test_a_verb_that_goes_well_closes_all_it_held(name):
    store = FaultyStore(await make_planted())
    await VERBS[name].call(scope_on(store))
    assert store.open_handles == []
    assert "resolve" in store.calls
