"""Transactions of several processes that are committed at the same time: each as a whole or not at
all, and nothing of another's is lost."""

import asyncio
import random
from contextlib import suppress

import pytest

from bailiwick.errors import Busy, IoError
from bailiwick.testing.driver import StoreDriver
from bailiwick.versions import Mark, Stale
from tests.stores.volume.volumes import opened

pytestmark = [pytest.mark.spec("SCALE-3", "VOL-7"), pytest.mark.both_engines(lean=True)]

COMMITTERS = 4


async def begun(fs, work):
    """A transaction that has done its work, and is not committed yet."""
    draft = await fs.store.versions.begin()
    inside = StoreDriver(draft.store)
    await work(inside)
    await draft.store.aclose()
    return draft


async def committed(draft, key=None):
    """Whether it came to pass."""
    mark = Mark(key=key)
    try:
        done = await draft.commit(mark, cleared=await draft.plan(mark))
        return not done.conflicts
    except Stale:
        return False
    finally:
        await draft.discard()


def changing(*paths, text):
    async def work(inside):
        for path in paths:
            await inside.write(path, text)

    return work


async def test_of_two_that_change_the_same_one_comes_to_pass_as_a_whole(tmp_path):
    async with opened(tmp_path / "v.db") as one, opened(tmp_path / "v.db") as two:
        for path in ("a", "b", "c"):
            await one.write(path, b"before")
        drafts = [
            await begun(one, changing("a", "b", text=b"one")),
            await begun(two, changing("b", "c", text=b"two")),
        ]
        told = await asyncio.gather(*map(committed, drafts))
        assert sorted(told) == [False, True]
        found = [await one.read(path) for path in ("a", "b", "c")]
        first = told[0]
        assert found == ([b"one", b"one", b"before"] if first else [b"before", b"two", b"two"])
        assert [await two.read(path) for path in ("a", "b", "c")] == found


async def test_those_that_change_different_things_all_come_to_pass(tmp_path):
    async with opened(tmp_path / "v.db") as one, opened(tmp_path / "v.db") as two:
        await one.write("d/f", b"", parents=True)
        both = [one, two] * 2
        drafts = [
            await begun(fs, changing(f"d/{number}", f"d/{number}b", text=b"x"))
            for number, fs in enumerate(both)
        ]
        assert await asyncio.gather(*map(committed, drafts)) == [True] * 4
        assert len(await two.entries("d")) == 9


async def test_a_directory_that_goes_under_another_committer_takes_nothing_with_it(tmp_path):
    """One removes the directory in which the other makes something: never half of both."""
    async with opened(tmp_path / "v.db") as one, opened(tmp_path / "v.db") as two:
        await one.write("d/f", b"", parents=True)

        async def removing(inside):
            await inside.remove("d", recursive=True)

        drafts = [await begun(one, removing), await begun(two, changing("d/new", text=b"x"))]
        gone, made = await asyncio.gather(*map(committed, drafts))
        assert (gone, made) in {(True, False), (False, True)}
        names = {entry.name for entry in await one.entries(".")}
        assert names == (set() if gone else {"d"})


async def test_what_only_one_may_make_is_made_by_one(tmp_path):
    """Both would write the same: whoever claims something by making it must not share it."""
    async with opened(tmp_path / "v.db") as one, opened(tmp_path / "v.db") as two:

        async def claiming(inside):
            await inside.write("claims/task", b"mine", mode="create", parents=True)

        drafts = [await begun(one, claiming), await begun(two, claiming)]
        assert sorted(await asyncio.gather(*map(committed, drafts))) == [False, True]


async def test_counters_that_many_committers_move_on_lose_nothing(tmp_path):
    """Each takes from one and gives to another: what all hold together stays, and every transfer
    that was acknowledged is there."""
    async with opened(tmp_path / "v.db") as one, opened(tmp_path / "v.db") as two:
        for name in range(3):
            await one.write(f"n{name}", b"100")
        acknowledged = []

        async def transfer(fs, chance):
            for _ in range(4):
                giver, taker = chance.sample(range(3), 2)

                async def work(inside, giver=giver, taker=taker):
                    for name, change in ((giver, -1), (taker, 1)):
                        held = int(await inside.read(f"n{name}"))
                        await inside.write(f"n{name}", str(held + change).encode())

                with suppress(Busy, IoError):
                    if await committed(await begun(fs, work)):
                        acknowledged.append((giver, taker))

        stores = [one, two] * (COMMITTERS // 2)
        await asyncio.gather(*(
            transfer(fs, random.Random(number)) for number, fs in enumerate(stores)
        ))  # fmt: skip
        expected = [
            100 + sum((taker == name) - (giver == name) for giver, taker in acknowledged)
            for name in range(3)
        ]
        assert [int(await two.read(f"n{name}")) for name in range(3)] == expected
        assert acknowledged


async def test_under_one_key_one_of_two_committers_comes_to_pass(tmp_path):
    """Whoever was taken for lost, and whoever goes on for them, commit at the same time."""
    async with opened(tmp_path / "v.db") as one, opened(tmp_path / "v.db") as two:
        await one.write("log", b"")

        async def appending(inside):
            await inside.append("log", b"x")

        drafts = [await begun(one, appending), await begun(two, appending)]
        told = await asyncio.gather(
            *(committed(draft, b"k" * 32) for draft in drafts), return_exceptions=True
        )
        assert told.count(True) == 1, told
        assert await one.read("log") == await two.read("log") == b"x"
