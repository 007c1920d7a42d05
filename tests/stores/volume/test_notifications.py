"""The feed of a volume in PostgreSQL: told by other processes, and complete whatever gets lost."""

import asyncio
import contextlib

import pytest

from bailiwick.build.log_feed import StoreFeed
from bailiwick.errors import BailiwickError, Busy, IoError
from bailiwick.limits import Limits
from bailiwick.stores.volume import VolumeStore
from bailiwick.stores.volume.content.blobs import FolderBlobs
from bailiwick.stores.volume.rows import postgres as rows
from bailiwick.stores.volume.rows import postgres_notifications
from bailiwick.testing.driver import StoreDriver
from tests.postgres_proxy import PostgresProxy
from tests.waiting import give_a_chance, loop_turns, until

pytestmark = pytest.mark.spec("SCALE-3", "EVENT-1")

NEVER_S = 3_600.0


@contextlib.asynccontextmanager
async def volume(dsn, tmp_path, **options):
    blobs, name = FolderBlobs(str(tmp_path / "blobs")), f"v{abs(hash(tmp_path))}"
    store = await asyncio.to_thread(VolumeStore.open, dsn, volume=name, blobs=blobs, **options)
    try:
        yield StoreDriver(store)
    finally:
        await store.aclose()


@contextlib.asynccontextmanager
async def followed(store):
    """Paths that are told of a store from now on. Who cannot read goes on by the last cursor."""
    feed, told = StoreFeed(store.log), []
    since = await feed.cursor()

    async def gather():
        nonlocal since
        while True:
            with contextlib.suppress(IoError, Busy):
                async for change in feed.follow(since):
                    told.append(str(change.path))
                    since = change.cursor
            await loop_turns()

    following = asyncio.create_task(gather())
    try:
        yield told
    finally:
        feed.close()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


@contextlib.asynccontextmanager
async def two_processes(postgres, tmp_path):
    """Two that share no connection: each is another process for the other."""
    async with (
        PostgresProxy(postgres) as proxy,
        volume(proxy.dsn, tmp_path) as here,
        volume(postgres.dsn, tmp_path) as there,
    ):
        yield proxy, here, there


async def test_a_change_of_another_process_is_told_by_it(postgres, tmp_path, monkeypatch):
    monkeypatch.setattr(rows.PostgresDatabase, "poll_s", NEVER_S)
    async with two_processes(postgres, tmp_path) as (_, here, there), followed(here.store) as told:
        for number in range(20):
            await there.write(f"f{number}", b"x")
            if number % 3 == 0:
                await here.write(f"own{number}", b"x")
        await until(lambda: len(told) == 27)
        await give_a_chance()
        assert sorted(told) == sorted(
            [f"f{number}" for number in range(20)] + [f"own{number}" for number in range(0, 20, 3)]
        )


async def test_what_was_not_heard_is_read_later(postgres, tmp_path, monkeypatch):
    """The connection is cut again and again: nothing is missing, and nothing comes twice."""
    monkeypatch.setattr(rows.PostgresDatabase, "poll_s", NEVER_S)
    monkeypatch.setattr(postgres_notifications, "_AGAIN_S", 0.01)
    async with two_processes(postgres, tmp_path) as (proxy, here, there):
        async with followed(here.store) as told:
            for number in range(30):
                await there.write(f"f{number}", b"x")
                if number % 10 == 5:
                    await proxy.cut()
            await until(lambda: len(told) >= 30)
            await give_a_chance()
        assert told == [f"f{number}" for number in range(30)]


async def test_without_any_notification_it_is_looked_for(postgres, tmp_path, monkeypatch):
    monkeypatch.setattr(rows.PostgresDatabase, "poll_s", 0.05)
    monkeypatch.setattr(rows.Notifications, "listen", lambda *_: lambda: None)
    async with two_processes(postgres, tmp_path) as (_, here, there), followed(here.store) as told:
        await there.write("f", b"x")
        await until(lambda: told == ["f"])


async def test_a_server_that_does_not_answer_is_waited_for_only_so_long(postgres, tmp_path):
    """It stalls, it is cut off in the middle, and it is there again: nobody hangs, all goes on."""
    limits = Limits(database_connect_seconds_max=0.3, database_statement_seconds_max=0.3)
    async with PostgresProxy(postgres) as proxy, volume(proxy.dsn, tmp_path, limits=limits) as fs:
        await fs.write("f", b"before")
        with proxy.stalled():
            for call in (fs.read("f"), fs.write("f", b"lost"), fs.entries(".")):
                with pytest.raises(BailiwickError) as failed:
                    await call
                assert failed.value.kind in ("busy", "io_error")
                assert failed.value.retryable
        await proxy.cut()
        await until(lambda: answers(fs.write("f", b"after")))
        assert await fs.read("f") == b"after"


async def answers(call):
    with contextlib.suppress(IoError, Busy):
        await call
        return True
    return False


async def test_a_listener_is_called_for_what_others_change(postgres, tmp_path, monkeypatch):
    monkeypatch.setattr(rows.PostgresDatabase, "poll_s", NEVER_S)
    async with two_processes(postgres, tmp_path) as (_, here, there):
        feed, told = StoreFeed(here.store.log), []
        feed.subscribe(lambda change: told.append(str(change.path)))
        await here.write("own", b"x")
        await there.write("other", b"x")
        await until(lambda: len(told) == 2)
        assert told == ["own", "other"]
        feed.close()
