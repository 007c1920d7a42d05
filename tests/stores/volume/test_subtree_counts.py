"""How much a recursive removal took: counted in a fork as by visiting every name."""

import asyncio
import contextlib
import random

import pytest

from bailiwick.errors import BailiwickError
from bailiwick.limits import Limits
from bailiwick.model import MoreThan
from bailiwick.stores.volume.lookup import subtree_counts
from bailiwick.testing.driver import StoreDriver
from tests.stores.volume.trees import beneath, tree_of
from tests.stores.volume.volumes import in_database, opened

pytestmark = pytest.mark.both_engines

NAMES = ("a", "b", "c", "d")


async def stir(fs, rng, steps):
    """Some changes at random places; those that cannot be made are left."""
    for _ in range(steps):
        path = "t/" + "/".join(rng.choices(NAMES, k=rng.randint(1, 3)))
        other = "t/" + "/".join(rng.choices(NAMES, k=rng.randint(1, 3)))
        change = rng.choice(
            (
                lambda p=path: fs.write(p, b"x", parents=True),
                lambda p=path: fs.write(p, b"y", parents=True),
                lambda p=path: fs.make_dir(p, parents=True),
                lambda p=path: fs.remove(p, recursive=True),
                lambda p=path, o=other: fs.move(p, o, replace=True),
            )
        )
        with contextlib.suppress(BailiwickError):
            await change()


def told(gone, most):
    """What is told of so many that went, where ``most`` are counted beneath a directory."""
    return (MoreThan, most) if gone - 1 > most else (int, gone)


@pytest.mark.slow
@pytest.mark.spec("VOL-4", "TREE-3", "TREE-7")
@pytest.mark.parametrize("log", ["kept", pytest.param("cut", marks=pytest.mark.slow)])
async def test_a_fork_counts_what_it_shares_as_if_it_visited_all_of_it(tmp_path, log):
    rng = random.Random(7)
    for turn in range(12):
        most = rng.choice((1, 3, 6, 10_000))
        limits = Limits(removed_counted_max=most)
        async with opened(tmp_path / f"{log}{turn}.db", limits=limits) as fs:
            await stir(fs, rng, 25)
            chain = [fs]
            for depth in range(3):
                chain.append(StoreDriver(await chain[-1].store.versions.fork(f"work{depth}")))
                for each in chain:  # ancestors go on too, unseen by those that stand on them
                    await stir(each, rng, 8)
            if log == "cut":
                await in_database(fs, "UPDATE volume SET horizon = last RETURNING last")
            for each in reversed(chain):
                if "t" in (shown := await tree_of(each.store)):
                    went = await each.remove("t", recursive=True)
                    assert (type(went), went) == told(len(beneath(shown, "t")), most)
                if each is not fs:
                    await each.aclose()


@pytest.mark.spec("TREE-7")
@pytest.mark.parametrize("where", ["the main branch", "a fork"])
async def test_beyond_the_limit_it_is_told_that_more_went(tmp_path, where):
    async with opened(tmp_path / "v.db", limits=Limits(removed_counted_max=3)) as fs:
        for tree, names in (("few", "abc"), ("many", "abcd"), ("deep", ("a/b/c/d", "a/e"))):
            for name in names:
                await fs.write(f"{tree}/{name}", b"x", parents=True)
        branch = fs
        if where == "a fork":
            branch = StoreDriver(await fs.store.versions.fork("work"))
        for tree, went in (("few", (int, 4)), ("many", (MoreThan, 3)), ("deep", (MoreThan, 3))):
            gone = await branch.remove(tree, recursive=True)
            assert (type(gone), gone) == went
        assert await tree_of(branch.store) == {}
        if branch is not fs:
            await branch.aclose()


@pytest.mark.spec("VOL-4", "TREE-7")
async def test_whoever_is_cancelled_while_it_is_counted_has_removed_it(tmp_path, monkeypatch):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("t/a", b"x", parents=True)
        fork = StoreDriver(await fs.store.versions.fork("work"))
        counted, loop = subtree_counts.counted, asyncio.get_running_loop()
        removing = None

        async def cancelled_meanwhile(*given):
            if asyncio._get_running_loop() is None:  # on a thread
                asyncio.run_coroutine_threadsafe(cancel(), loop).result()
            else:
                await cancel()
            return await counted(*given)

        async def cancel():
            removing.cancel()
            await asyncio.sleep(0)

        async def remove():
            taken = await fork.remove("t", recursive=True)
            with pytest.raises(asyncio.CancelledError):
                await asyncio.sleep(0)
            return taken

        monkeypatch.setattr(subtree_counts, "counted", cancelled_meanwhile)
        removing = asyncio.create_task(remove())
        assert await removing == 2
        assert await tree_of(fork.store) == {}
        await fork.aclose()
