"""A tree of 100,000 files in PostgreSQL: what is done to it as a whole takes what it takes of a
small one. To remove it tells how many went besides, as far as they are counted: in an index."""

import contextlib
import time

import asyncpg
import pytest

from bailiwick.stores.volume import VolumeStore
from bailiwick.stores.volume.content.blobs import FolderBlobs
from bailiwick.testing.driver import StoreDriver
from tests.waiting import until

REMOVED = 3
TRIES = 30
"""The least time of so many is what it takes, however busy the machine is."""

SMALL, LARGE = 1_000, 100_000

_MORE = (
    """
    INSERT INTO bailiwick.inode (volume, branch, id, born, kind, mode, size, mtime_ns, edition,
        sha256, content, data, created_ns)
    SELECT volume, branch, id * 1000000000 + number, born, kind, mode, size, mtime_ns, edition,
        sha256, content, data, created_ns
    FROM bailiwick.inode, generate_series(1, $1::bigint) AS number
    WHERE kind = (SELECT max(kind) FROM bailiwick.dentry WHERE name = 'f')
    """,
    """
    INSERT INTO bailiwick.dentry (volume, branch, parent, name, born, died, node, kind)
    SELECT volume, branch, parent, 'f' || number, born, died, node * 1000000000 + number, kind
    FROM bailiwick.dentry, generate_series(1, $1::bigint) AS number WHERE name = 'f'
    """,
)
"""A file becomes many in its directory. Rows without a guard are those of an earlier Bailiwick."""


@contextlib.asynccontextmanager
async def trees(dsn, folder, count):
    """Trees of so many files each in ten directories: t0, and others to be removed."""
    fs = StoreDriver(VolumeStore.open(dsn, blobs=FolderBlobs(str(folder))))
    try:
        for tree in ("t0", *(f"r{number}" for number in range(REMOVED))):
            for number in range(10):
                await fs.write(f"{tree}/e{number}/f", b"x", parents=True)
        connection = await asyncpg.connect(dsn)
        try:
            for sql in _MORE:
                await connection.execute(sql, count // 10 - 1)
            await connection.execute("VACUUM ANALYZE")  # as autovacuum would
        finally:
            await connection.close()
        assert len(await fs.entries("t0/e0")) == count // 10
        yield fs
    finally:
        await fs.aclose()


async def fastest(call, tries=TRIES):
    """Seconds that a call takes, the least of some."""
    took = []
    for number in range(tries):
        began = time.perf_counter()
        made = await call(number)
        took.append(time.perf_counter() - began)
        if isinstance(made, VolumeStore):
            await made.aclose()
    return min(took)


async def costs(postgres, folder, count):
    with postgres.fresh_database() as dsn:
        async with trees(dsn, folder, count) as fs:
            versions = fs.store.versions
            took = {
                "snapshot": await fastest(lambda number: versions.snapshot(f"s{number}")),
                "fork": await fastest(lambda number: versions.fork(f"line{number}")),
                "move": await fastest(lambda number: fs.move(f"t{number}", f"t{number + 1}")),
                "remove": await fastest(
                    lambda number: fs.remove(f"r{number}", recursive=True), REMOVED
                ),
            }
            assert len(await fs.entries(f"t{TRIES}/e0")) == count // 10
            return took


@pytest.mark.scale
@pytest.mark.slow
@pytest.mark.spec("SCALE-4")
async def test_what_is_done_to_a_whole_tree_in_postgres_takes_the_same_for_any_size(
    postgres, tmp_path
):
    small = await costs(postgres, tmp_path / "small", SMALL)
    large = await costs(postgres, tmp_path / "large", LARGE)
    for what, took in large.items():
        assert took < 0.020, (what, small, large)
        assert took < max(3 * small[what], 0.008), (what, small, large)


async def names_read(connection):
    """How many names were read so far, once all others have told what they read and are gone."""
    others = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'bailiwick'"

    async def are_gone():
        return await connection.fetchval(others) == 0

    await until(are_gone)
    await connection.execute("SELECT pg_stat_clear_snapshot()")
    return await connection.fetchval(
        "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'dentry'"
    )


async def remove_from_a_fork(fs):
    fork = StoreDriver(await fs.store.versions.fork("work"))
    try:
        assert await fork.remove("few", recursive=True) == 4
    finally:
        await fork.aclose()


async def move_deeper(fs):
    assert await fs.move("few", "t0/few")


async def move_deeper_in_a_fork(fs):
    fork = StoreDriver(await fs.store.versions.fork("work"))
    try:
        assert await fork.move("few", "t0/few")
    finally:
        await fork.aclose()


@pytest.mark.scale
@pytest.mark.spec("SCALE-4")
@pytest.mark.parametrize("change", [remove_from_a_fork, move_deeper, move_deeper_in_a_fork])
async def test_what_is_done_to_a_small_directory_in_postgres_reads_none_of_a_large_one_beside_it(
    postgres, tmp_path, change
):
    with postgres.fresh_database() as dsn:
        async with trees(dsn, tmp_path, SMALL) as fs:
            await fs.write("few/d/a", b"x", parents=True)
            await fs.write("few/b", b"x")
        connection = await asyncpg.connect(dsn)
        try:
            before = await names_read(connection)
            fs = StoreDriver(VolumeStore.open(dsn, blobs=FolderBlobs(str(tmp_path))))
            try:
                await change(fs)
            finally:
                await fs.aclose()
            assert await names_read(connection) - before < SMALL / 4
        finally:
            await connection.close()
