"""Costs, counted in rows that change and not in time."""

import pytest

from bailiwick.paths import ScopedPath
from bailiwick.stores.volume import VolumeStore
from bailiwick.testing.driver import StoreDriver
from tests.stores.volume.volumes import opened


async def grown(fs, count):
    await fs.make_dir("d")
    for number in range(count):
        await fs.write(f"d/e{number % 7}/f{number}", b"x", parents=True)


async def cost(fs, call):
    """Rows that a call changes."""
    file = fs.store.core.database.file
    before = file.changes()
    result = await call
    spent = file.changes() - before
    if isinstance(result, VolumeStore):
        await result.aclose()
    return spent


@pytest.mark.spec("TREE-4", "VOL-6")
@pytest.mark.parametrize("in_fork", [False, True])
async def test_moves_removes_snapshots_and_forks_cost_the_same_for_any_tree(tmp_path, in_fork):
    costs = []
    for count in (2, 300):
        async with opened(tmp_path / f"v{count}.db") as fs:
            await grown(fs, count)
            here = StoreDriver(await fs.store.versions.fork("work")) if in_fork else fs
            spent = [
                await cost(here, here.move("d", "moved")),
                await cost(here, here.store.versions.snapshot("s")),
                await cost(here, here.store.versions.fork("more")),
                await cost(here, here.remove("moved", recursive=True)),
            ]
            costs.append(spent)
            if in_fork:
                await here.aclose()
    assert costs[0] == costs[1]
    assert max(costs[0]) <= 12


@pytest.mark.spec("VOL-2")
async def test_a_small_overwrite_is_two_rows_and_the_counter(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("d/f", b"one", parents=True)
        await fs.read("d/f")
        assert await cost(fs, fs.write("d/f", b"two")) == 3


@pytest.mark.spec("VOL-6")
async def test_a_diff_reads_what_differs_and_not_the_trees(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await grown(fs, 300)
        fork = StoreDriver(await fs.store.versions.fork("work"))
        await fork.write("d/e1/f1", b"changed")
        session = fs.store.core.database.reading()
        statements = []
        rows, row = session.rows, session.row

        class Counted:
            async def __aenter__(self):
                await session.__aenter__()
                return self

            async def __aexit__(self, *error):
                await session.__aexit__(*error)

            async def rows(self, sql, *values):
                statements.append(sql)
                return await rows(sql, *values)

            async def row(self, sql, *values):
                statements.append(sql)
                return await row(sql, *values)

        fs.store.core.database.reading = Counted
        try:
            found = await fs.store.versions.compare("work")
        finally:
            del fs.store.core.database.reading
        assert [each.path for each in found] == ["d/e1/f1"]
        assert len(statements) < 40
        await fork.aclose()


@pytest.mark.spec("TREE-4")
async def test_a_recursive_remove_of_many_is_one_version(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await grown(fs, 50)
        assert await fs.remove("d", recursive=True) == 1 + 7 + 50
        history = await fs.store.versions.history(ScopedPath("d"))
        assert [each.kind for each in history.versions] == ["deleted", "created"]
