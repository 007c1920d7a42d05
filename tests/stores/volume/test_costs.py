"""Costs that do not grow with the tree: counted in rows and in steps of SQLite, never in time."""

import asyncio

import pytest

from bailiwick.limits import Limits
from bailiwick.paths import ScopedPath
from bailiwick.stores.volume import VolumeStore
from bailiwick.stores.volume.lookup import cache
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


async def changed_often(fs, times):
    for number in range(times):
        await asyncio.gather(*(fs.write(f"f{n}", f"{number}".encode()) for n in range(10)))


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
        # Nothing of it is remembered, and what goes is counted as far as it is told.
        limits = Limits(removed_counted_max=SMALL // 2)
        async with opened(tmp_path / f"v{count}.db", limits=limits) as fs:
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
            gone = fork.remove("again", recursive=True)
            costs[count]["remove in a fork"] = await spent(fork, gone)
            await fork.aclose()
            costs[count]["remove"] = await spent(fs, fs.remove("moved", recursive=True))
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


@pytest.mark.spec("VOL-6")
async def test_a_listing_of_a_fork_costs_the_same_however_often_its_files_were_changed(tmp_path):
    costs = {}
    for changes in (2, 200):
        async with opened(tmp_path / f"v{changes}.db") as fs:
            await changed_often(fs, changes)
            await (await fs.store.versions.fork("work")).aclose()
        async with opened(tmp_path / f"v{changes}.db") as fs:  # nothing of it is remembered
            fork = StoreDriver(await fs.store.versions.open_fork("work"))
            with Steps(fork) as steps:
                assert len(await fork.entries(".")) == 10
            costs[changes] = steps.count
            await fork.aclose()
    assert costs[200] <= costs[2] * 1.1 + 50, costs


@pytest.mark.spec("VOL-6")
async def test_each_step_of_a_path_is_one_statement_in_a_fork_too(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("a/b/c/f", b"x", parents=True)
        forks = [await fs.store.versions.fork("one")]
        forks.append(await forks[0].versions.fork("two"))
        for fork in reversed(forks):
            await fork.aclose()
    for name in (None, "one", "two"):
        async with opened(tmp_path / "v.db") as fs:  # nothing of it is remembered
            store = fs.store if name is None else await fs.store.versions.open_fork(name)
            await StoreDriver(store).stat(".")  # comes to know how far the volume is
            database, asked = store.core.database, []

            def ask(sql, *values, of=database.row_at_once, asked=asked):
                asked.append(values[-1])
                return of(sql, *values)

            def transaction():
                raise AssertionError("a transaction is begun for what one statement answers")

            database.row_at_once, database.reading = ask, transaction
            assert (await StoreDriver(store).read("a/b/c/f"), asked) == (b"x", list("abcf"))
            if name is not None:
                await store.aclose()


@pytest.mark.spec("VOL-6")
@pytest.mark.parametrize("bytes_each", [1, 1_000])
async def test_what_is_remembered_is_bounded_for_who_only_reads_too(
    tmp_path, monkeypatch, bytes_each
):
    """By names and by the content of nodes: many small files are all at hand."""
    monkeypatch.setattr(cache, "CONTENT_BYTES_MAX", 100_000)
    async with opened(tmp_path / "v.db") as fs:
        await fs.make_dir("d")
        await asyncio.gather(*(fs.write(f"d/{n}", b"x" * bytes_each) for n in range(600)))
    async with opened(tmp_path / "v.db") as fs:
        known = fs.store.core.cache
        for number in range(600):
            assert await fs.read(f"d/{number}") == b"x" * bytes_each
            held = sum(len(each.data or b"") for each in known.inodes.values() if each is not None)
            assert held <= 101_000
        assert (len(known.inodes) >= 600) == (bytes_each == 1)
        monkeypatch.setattr(cache, "NAMES_MAX", 50)
        monkeypatch.setattr(cache, "INODES_MAX", 50)
        await fs.write("d/new", b"x" * bytes_each)
        for number in range(600):
            assert await fs.read(f"d/{number}") == b"x" * bytes_each
        assert max(map(len, (known.names, known.inodes, known.places))) <= 53
        assert (await fs.stat("d/new")).size == bytes_each


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


@pytest.mark.spec("REVIEW-6", "VOL-5")
async def test_the_past_of_one_place_costs_the_same_in_a_tree_of_any_size(tmp_path):
    """It went through all names that ever were in the volume, for each directory above it."""
    costs = {}
    for count in (500, 1_500):
        async with opened(tmp_path / f"v{count}.db") as fs:
            await grown(fs, count)
            await fs.move("d/e0/f000000", "d/moved")
            versions, place = fs.store.versions, ScopedPath("d/moved")
            newest = (await versions.history(place)).versions[0].version
            costs[count] = [
                (await spent(fs, call))[1]
                for call in (
                    versions.history(place), versions.history(ScopedPath("d/e1/f000001"), own=True),
                    versions.history(ScopedPath("d/e0/f000000")), versions.origin(place, newest),
                    versions.as_of(newest),
                )
            ]  # fmt: skip
    for small, large in zip(*costs.values(), strict=True):
        assert large < small * 1.5
