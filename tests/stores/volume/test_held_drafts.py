"""Transactions over a network hold what they change: the same answers as where nothing is held, in
few trips."""

import asyncio
import random
from functools import partial

import pytest

from bailiwick.testing.driver import StoreDriver
from bailiwick.versions import Mark
from tests.stores.test_model import outcome, plain, snapshot
from tests.stores.volume.test_trips import distant, fewest
from tests.stores.volume.volumes import engine, open_volume

LARGE = bytes(range(256)) * 40
"""More than is kept in the row of a file."""


async def carried_out(fs, work):
    """A transaction as a scope has it: begun, planned, committed and let go of."""
    draft = await fs.store.versions.begin()
    try:
        await work(StoreDriver(draft.store))
        await draft.store.aclose()
        plan = await draft.plan(Mark())
        done = await draft.commit(Mark(), cleared=plan)
        assert not done.conflicts
        return done
    finally:
        await draft.discard()


async def creating(inside, top):
    for name in range(64):
        await inside.write(f"{top}/n{name}", b"new", mode="create")


async def editing(inside, top):
    for name in range(64):
        assert await inside.read(f"{top}/e{name}") == b"before"
        await inside.write(f"{top}/e{name}", b"after", mode="replace")


async def removing(inside, top):
    for name in range(64):
        await inside.remove(f"{top}/g{name}")


async def mixing(inside, top):
    await inside.make_dir(f"{top}/made")
    for name in range(20):
        await inside.write(f"{top}/made/m{name}", b"new")
        await inside.move(f"{top}/e{name}", f"{top}/made/e{name}")
        await inside.append(f"{top}/made/m{name}", b"er")
        await inside.remove(f"{top}/n{name}")


@pytest.mark.spec("SCALE-4")
async def test_a_transaction_asks_a_few_times_whatever_it_changes(postgres, tmp_path):
    async with distant(postgres, tmp_path) as (proxy, fs, other):
        tops = [f"r{number}" for number in range(4)]
        for top in tops:
            await other.write(f"{top}/kept", b"x", parents=True)
            await asyncio.gather(
                *(other.write(f"{top}/{kind}{n}", b"before") for kind in "eg" for n in range(64))
            )
        asked = {}
        for work in (creating, editing, removing, mixing):
            calls = [partial(carried_out, fs, partial(work, top=top)) for top in tops]
            asked[work.__name__] = await fewest(proxy, *calls)
        assert max(asked.values()) <= 12, asked
        left = {f"{kind}{name}" for kind in "en" for name in range(20, 64)} | {"kept", "made"}
        for top in tops:
            assert {entry.name for entry in await other.entries(top)} == left
            assert await other.read(f"{top}/made/e1") == b"after"
            assert await other.read(f"{top}/made/m1") == b"newer"
        assert (await fs.store.versions.check()).is_clean


PATHS = ["a", "b", "d/a", "d/b", "d/e/a", "d/e", "d", "f/a", "f"]


def steps(chance, count):
    """Calls, the same for every store."""
    for _ in range(count):
        path, to = chance.choice(PATHS), chance.choice(PATHS)
        yield chance.choice((
            ("write", (path, str(chance.random()).encode()), {}),
            ("write", (path, b"made"), {"parents": True}),
            ("write", (path, LARGE[: chance.choice((5_000, 9_000))]), {"parents": True}),
            ("append", (path, b"more"), {}),
            ("remove", (path,), {}),
            ("remove", (path,), {"recursive": True}),
            ("move", (path, to), {"replace": chance.random() < 0.5}),
            ("copy", (path, to), {"recursive": True}),
            ("make_dir", (path,), {"parents": chance.random() < 0.5}),
            ("set_mode", (path, chance.choice((0o600, 0o644))), {}),
            ("symlink", (path, "a"), {}),
            ("truncate", (path, 3), {}),
            ("read", (path,), {}),
            ("stat", (path,), {}),
            ("entries", (path,), {}),
        ))  # fmt: skip


async def done_to(fs, calls):
    found = []
    for verb, arguments, options in calls:
        said, result = await outcome(getattr(fs, verb)(*arguments, **options))
        found.append((verb, arguments, said, plain(verb, result) if said == "done" else result))
    return found


def told(plan):
    """What does not depend on the clock, or on how versions are numbered."""
    touches = [
        (str(each.path), each.kind, each.type, str(each.origin), each.size, each.size_before,
         each.sha256, each.sha256_before, each.beneath, each.mode, each.mode_before, each.target)
        for each in plan.touches
    ]  # fmt: skip
    return sorted(touches, key=str), sorted(
        (str(each.path), each.reason) for each in plan.conflicts
    )


async def played(fs, seed):
    """What a transaction and what is changed beside it come to."""
    chance = random.Random(seed)
    shown = [await done_to(fs, steps(chance, 25))]
    draft = await fs.store.versions.begin()
    try:
        inside = StoreDriver(draft.store)
        shown.append(await done_to(inside, steps(chance, chance.choice((3, 10, 40)))))
        if chance.random() < 0.7:
            shown.append(await done_to(fs, steps(chance, chance.choice((1, 6)))))
        if chance.random() < 0.3:
            shown.append(await snapshot(inside))
            shown.append(await done_to(inside, steps(chance, 5)))
        await draft.store.aclose()
        plan = await draft.plan(Mark())
        shown.append(told(plan))
        done = await draft.commit(Mark(), cleared=plan)
        shown += [told(done.plan), done.version is None]
    finally:
        await draft.discard()
    shown.append(await snapshot(fs))
    checked = await fs.store.versions.check()
    assert checked.is_clean, checked.problems
    return shown


@pytest.mark.spec("SCALE-1", "VOL-9")
@pytest.mark.parametrize("seed", range(40))
async def test_a_transaction_that_is_held_does_what_one_does_that_is_not(
    postgres, tmp_path, seed, monkeypatch
):
    """The same calls on SQLite, where every change is written at once."""
    there = StoreDriver(open_volume(tmp_path / "v.db"))
    monkeypatch.setitem(engine, "dsn", postgres.dsn)
    here = StoreDriver(open_volume(tmp_path / "v.db"))
    try:
        assert await played(here, seed) == await played(there, seed)
    finally:
        await here.aclose()
        await there.aclose()


@pytest.mark.spec("SCALE-3")
async def test_what_is_done_at_the_same_time_inside_is_all_there(postgres, tmp_path):
    async with distant(postgres, tmp_path) as (proxy, fs, other):
        proxy.latency_s = 0.001
        await other.write("d/f", b"x", parents=True)

        async def work(inside):
            await asyncio.gather(*(inside.write(f"d/n{name}", b"y") for name in range(30)))
            found, *_ = await asyncio.gather(
                inside.entries("d"), inside.write("d/late", b"z"), inside.remove("d/f")
            )
            assert {f"n{name}" for name in range(30)} <= {entry.name for entry in found}

        await carried_out(fs, work)
        names = {entry.name for entry in await other.entries("d")}
        assert names == {f"n{name}" for name in range(30)} | {"late"}


@pytest.mark.spec("SCALE-3")
async def test_a_call_that_is_given_up_in_the_middle_leaves_nothing_in_a_transaction(
    postgres, tmp_path
):
    async with distant(postgres, tmp_path) as (proxy, fs, other):
        await other.write("d/f", b"x", parents=True)

        async def work(inside):
            await inside.write("d/a", b"kept")
            with proxy.stalled():
                waiting = asyncio.ensure_future(inside.write("e/b/c", b"lost", parents=True))
                await asyncio.wait((waiting,), timeout=0.1)
                waiting.cancel()
                await asyncio.wait((waiting,))
            assert await inside.read("d/a") == b"kept"
            await inside.write("d/b", b"too")

        await carried_out(fs, work)
        names = {entry.name for entry in await other.entries("d")}
        assert names == {"f", "a", "b"}
