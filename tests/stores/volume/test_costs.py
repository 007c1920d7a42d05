"""Costs that do not grow with the tree: counted in rows and in steps of SQLite, never in time."""

import asyncio

import pytest

from bailiwick.stores.volume import VolumeStore
from bailiwick.testing.driver import StoreDriver
from tests.stores.volume.volumes import blob_files, in_database, opened

SMALL, LARGE = 1_000, 20_000


async def grown(fs, count):
    await fs.make_dir("d")
    for number in range(10):
        await fs.make_dir(f"d/e{number}")
    for start in range(0, count, 500):
        await asyncio.gather(
            *(fs.write(f"d/e{n % 10}/f{n:06}", b"x") for n in range(start, start + 500))
        )


class Steps:
    """Instructions of SQLite's machine on the connections of a store, by a progress handler."""

    def __init__(self, fs):
        database = fs.store.core.database
        self._connections = [database.file._connection, database._connection]
        self._busy = database.file.writer.busy  # held by whoever uses the writer's connection
        self.count = 0

    def _one_more(self):
        self.count += 1
        return False

    def __enter__(self):
        self._call(self._one_more)
        return self

    def __exit__(self, *_):
        self._call(None)

    def _call(self, handler):
        with self._busy:
            for connection in self._connections:
                connection.set_progress_handler(handler, 1)


async def spent(fs, call):
    """Rows that a call changes, and steps that it takes."""
    file = fs.store.core.database.file
    before = file.changes()
    with Steps(fs) as steps:
        result = await call
    if isinstance(result, VolumeStore):
        await result.aclose()
    return file.changes() - before, steps.count


@pytest.mark.slow
@pytest.mark.spec("TREE-4", "VOL-6")
async def test_what_touches_a_whole_tree_costs_the_same_for_any_size(tmp_path):
    costs = {}
    for count in (SMALL, LARGE):
        async with opened(tmp_path / f"v{count}.db") as fs:
            await grown(fs, count)
        async with opened(tmp_path / f"v{count}.db") as fs:  # nothing of it is remembered
            versions = fs.store.versions
            await fs.stat("d")
            await in_database(fs, "SELECT 1")  # after what nobody waits for
            costs[count] = {
                "move": await spent(fs, fs.move("d", "moved")),
                "snapshot": await spent(fs, versions.snapshot("s")),
                "fork": await spent(fs, versions.fork("work")),
            }
            fork = StoreDriver(await versions.open_fork("work"))
            for number in range(100):
                await fork.write(f"moved/e{number % 10}/f{number:06}", b"changed")
            costs[count]["compare"] = await spent(fs, versions.compare("work"))
            costs[count]["move in a fork"] = await spent(fork, fork.move("moved", "again"))
            await fork.aclose()
            rows, steps = await spent(fs, fs.remove("moved", recursive=True))
            costs[count]["remove"] = (rows, 0)
            # How many went is counted, in an index, without a look at what they are.
            assert steps < 2_000 + 12 * count
    for verb, cost in costs[SMALL].items():
        rows, steps = costs[LARGE][verb]
        assert rows == cost[0] <= 12, verb
        assert steps <= cost[1] * 1.1 + 50, (verb, cost, steps)


@pytest.mark.spec("VOL-6")
async def test_a_look_through_four_forks_costs_little_more_than_through_none(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("a/b/c/f", b"x", parents=True)
        stores, costs = [fs], []
        for depth in range(5):
            here = stores[-1]
            with Steps(here) as steps:
                await here.stat("a/b/c/f")
            costs.append(steps.count)
            if depth < 4:
                stores.append(StoreDriver(await here.store.versions.fork(f"f{depth}")))
        cold = costs[4]
        with Steps(stores[4]) as steps:
            await stores[4].stat("a/b/c/f")
        warm = steps.count
        with Steps(fs) as steps:
            await fs.stat("a/b/c/f")
        assert warm <= steps.count * 1.5, "what was looked up is remembered in a fork as well"
        assert cold <= costs[0] * 6, costs
        for store in stores[1:]:
            await store.aclose()


@pytest.mark.slow
@pytest.mark.spec("VOL-8")
@pytest.mark.parametrize("size", [1 << 20, 2 << 20])
async def test_a_hundred_rewrites_leave_no_more_than_three_times_the_size(tmp_path, size):
    """1 MiB is kept in the database, 2 MiB in blobs: neither may keep what nobody can see."""
    async with opened(tmp_path / "v.db") as fs:
        for number in range(100):
            await fs.write("f", b"%03d" % number * (size // 3))
        await fs.store.versions.collect(keep_days=0)
        kept = await in_database(fs, "SELECT sum(size) FROM chunk")
        files = [open_size(path) for path in blob_files(tmp_path)]
        assert kept <= 3 * size
        assert sum(files) <= 3 * size
        assert (await fs.read("f"))[:3] == b"099"


def open_size(path):
    with open(path, "rb") as file:
        return len(file.read())
