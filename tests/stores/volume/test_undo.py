"""Random undoes of anything, not only of what was done last: never damage to the tree."""

import random

import pytest

from bailiwick.errors import BailiwickError
from bailiwick.testing.driver import StoreDriver
from bailiwick.versions import Mark, Undoing
from tests.stores.volume.test_model import new, some
from tests.stores.volume.trees import outcome, tree_of
from tests.stores.volume.volumes import by, opened

pytestmark = pytest.mark.both_engines(lean=True)


async def step(fs, rng, request):
    """One random change under a request id."""
    driver, tree = by(fs, Mark(request_id=request)), await tree_of(fs.store)
    pick, to = rng.randrange(10**6), rng.randrange(10**6)
    call = rng.choice([
        lambda: driver.write(new(tree, pick), b"%d" % pick),
        lambda: driver.write(some(tree, pick), b"%d" % pick),
        lambda: driver.make_dir(new(tree, pick)),
        lambda: driver.remove(some(tree, pick), recursive=True),
        lambda: driver.move(some(tree, pick), new(tree, to), replace=True),
        lambda: driver.copy(some(tree, pick), new(tree, to), recursive=True),
    ])  # fmt: skip
    await outcome(call())


async def undo(fs, request, label):
    """Undo a request, if that can be; whether it was done whole."""
    try:
        versions = fs.store.marked(Mark(request_id=label)).versions
        what = Undoing(request_id=request)
        plan = await versions.plan_undo(what)
        done = await versions.undo(what, cleared=plan)
    except BailiwickError:
        return False
    return done.version is not None and not done.conflicts


@pytest.mark.slow
@pytest.mark.spec("VOL-5")
@pytest.mark.parametrize("in_fork", [False, True])
@pytest.mark.parametrize("seed", range(8))
async def test_undoing_anything_leaves_a_sound_tree(tmp_path, seed, in_fork):
    rng = random.Random(seed)
    async with opened(tmp_path / "v.db") as whole:
        for number in range(10):
            await step(whole, rng, f"base{number}")
        fs = StoreDriver(await whole.store.versions.fork("work")) if in_fork else whole
        for round_ in range(12):
            for number in range(rng.randrange(1, 4)):
                await step(fs, rng, f"r{round_ % 5}-{number}")
            before = await tree_of(fs.store)
            whole_again = await undo(fs, f"r{rng.randrange(5)}-{rng.randrange(3)}", f"u{round_}")
            after = await tree_of(fs.store)
            if not whole_again and after == before:
                continue
            # What was undone can be undone: nobody has changed anything since.
            assert await undo(fs, f"u{round_}", f"v{round_}"), (before, after)
            assert await tree_of(fs.store) == before
        assert (await fs.store.versions.check()).problems == []
        if in_fork:
            await fs.aclose()
