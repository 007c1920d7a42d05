"""How often PostgreSQL is asked: over a network that is what everything costs."""

import asyncio
import contextlib
import random

import pytest

from bailiwick.errors import PathNotFound
from bailiwick.stores.volume import VolumeStore
from bailiwick.stores.volume.content.blobs import FolderBlobs
from bailiwick.testing.driver import StoreDriver
from tests.postgres_proxy import PostgresProxy

pytestmark = pytest.mark.spec("SCALE-4")

DEEP = "a/b/c/d/e/f/g/h/file"


@contextlib.asynccontextmanager
async def volume(dsn, tmp_path):
    blobs = FolderBlobs(str(tmp_path / "blobs"))
    name = f"v{abs(hash(tmp_path))}"
    # To open blocks, and the proxy is on this loop.
    fs = StoreDriver(await asyncio.to_thread(VolumeStore.open, dsn, volume=name, blobs=blobs))
    try:
        yield fs
    finally:
        await fs.aclose()


@contextlib.asynccontextmanager
async def distant(postgres, tmp_path):
    """A volume behind a proxy, and the same opened besides, without one: another process."""
    async with (
        PostgresProxy(postgres) as proxy,
        volume(postgres.dsn, tmp_path) as other,
        volume(proxy.dsn, tmp_path) as fs,
    ):
        yield proxy, fs, other


async def prepared(*calls):
    """Each statement is prepared once on each connection, which takes a trip more."""
    for _ in range(2):
        for call in calls:
            await call()


async def test_a_warm_read_and_stat_ask_once(postgres, tmp_path):
    async with distant(postgres, tmp_path) as (proxy, fs, _):
        await fs.write(DEEP, b"x", parents=True)
        await prepared(lambda: fs.read(DEEP), lambda: fs.stat(DEEP))
        with proxy.counting() as trips:
            assert await fs.read(DEEP) == b"x"
        assert trips == [1]
        with proxy.counting() as trips:
            await fs.stat(DEEP)
        assert trips == [1]


async def test_a_cold_lookup_of_any_depth_asks_twice(postgres, tmp_path):
    async with distant(postgres, tmp_path) as (proxy, fs, other):
        for top in ("warm", "one", "two"):
            await other.write(f"{top}/{DEEP}", b"x", parents=True)
        await fs.read(f"warm/{DEEP}")
        await fs.read(f"one/{DEEP}")
        with proxy.counting() as trips:
            assert await fs.read(f"two/{DEEP}") == b"x"
        assert trips == [2]
        with proxy.counting() as trips, pytest.raises(PathNotFound):
            await fs.stat(f"warm/{DEEP}-that-is-not-there")
        assert trips[0] <= 2


async def test_what_another_process_changed_is_read_with_few_questions(postgres, tmp_path):
    async with distant(postgres, tmp_path) as (proxy, fs, other):
        await other.write("d/f", b"1", parents=True)
        await prepared(lambda: fs.read("d/f"))
        await other.write("d/f", b"2")
        await fs.read("d/f")
        await other.write("d/f", b"3")
        with proxy.counting() as trips:
            assert await fs.read("d/f") == b"3"
        assert trips[0] <= 2


async def test_a_crowd_of_readers_shares_its_questions(postgres, tmp_path):
    async with distant(postgres, tmp_path) as (proxy, fs, _):
        await fs.write(DEEP, b"x", parents=True)
        await prepared(lambda: fs.read(DEEP))
        with proxy.counting() as trips:
            found = await asyncio.gather(*(fs.read(DEEP) for _ in range(64)))
        assert found == [b"x"] * 64
        assert trips[0] <= 4


@pytest.mark.spec("SCALE-1")
@pytest.mark.parametrize("seed", range(4))
async def test_looks_that_overlap_with_changes_remember_nothing_wrong(postgres, tmp_path, seed):
    """Looks are awaited while what is remembered goes on: none may add what has gone since."""
    chance = random.Random(seed)
    paths = ["d/a", "d/b", "e/a"]
    async with distant(postgres, tmp_path) as (proxy, fs, other):
        for path in paths:
            await other.write(path, b"0", parents=True)
        proxy.latency_s = 0.001

        async def change():
            for number in range(25):
                path = chance.choice(paths)
                await other.write(path, str(number).encode())
                if chance.random() < 0.3:
                    await other.move(path, f"{path}2")
                    await other.move(f"{path}2", path)

        async def look():
            while not changing.done():
                path = chance.choice(paths)
                with contextlib.suppress(FileNotFoundError):
                    await fs.read(path)
                await fs.entries(path.partition("/")[0])

        changing = asyncio.create_task(change())
        await asyncio.gather(changing, *(look() for _ in range(6)))
        for path in paths:
            assert await fs.read(path) == await other.read(path)
            assert (await fs.stat(path)).version == (await other.stat(path)).version


async def test_what_small_writes_ask(postgres, tmp_path):
    """As docs/scale.md has it."""
    async with distant(postgres, tmp_path) as (proxy, fs, _):
        numbers = iter(range(9))
        await prepared(
            lambda: fs.write("d/f", b"x", parents=True),
            lambda: fs.write(f"d/n{next(numbers)}", b"x"),
        )
        with proxy.counting() as overwrite:
            await fs.write("d/f", b"y")
        with proxy.counting() as create:
            await fs.write("d/new", b"x")
        assert overwrite[0] <= 5
        assert create[0] <= 10
