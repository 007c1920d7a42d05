"""A volume that collects by itself: in the background, one at a time, in nobody's way."""

import asyncio
import contextlib
import os

import pytest

import bailiwick
from bailiwick.errors import ParseError
from bailiwick.stores.volume import VolumeStore
from bailiwick.stores.volume.retention import auto_collection
from bailiwick.stores.volume.retention.auto_collection import VolumeAutoCollection
from bailiwick.stores.volume.uptime import Uptime
from bailiwick.testing.driver import StoreDriver
from tests.stores.volume.volumes import in_database, opened
from tests.waiting import for_ever, until

pytestmark = [pytest.mark.spec("VOL-8"), pytest.mark.both_engines]


@pytest.fixture(autouse=True)
def without_rest(monkeypatch):
    """A pass follows the other as soon as it is told to."""
    monkeypatch.setattr(auto_collection, "_REST", 0.0)


async def rewritten(volume, times=20, size=100_000):
    for _ in range(times):
        await volume.write("f", os.urandom(size))


async def stored(volume):
    return await in_database(volume, "SELECT coalesce(sum(size), 0) FROM chunk")


async def test_it_collects_what_is_older_than_the_retention(tmp_path):
    async with opened(tmp_path / "v.db") as volume:
        await rewritten(volume)
        assert await stored(volume) == 20 * 100_000
        kept = VolumeAutoCollection(volume.store, "main", 0.0, first_s=0.0, every_s=0.01)
        kept.begin()
        try:
            await until_stored(volume, 100_000)
            await rewritten(volume)  # and goes on doing so
            await until_stored(volume, 100_000)
        finally:
            await kept.aclose()
        assert await in_database(volume, "SELECT count(*) FROM lease") == 0


async def until_stored(volume, size):
    async def only_that():
        return await stored(volume) == size

    await until(only_that)


async def test_what_is_within_the_retention_stays(tmp_path):
    async with opened(tmp_path / "v.db") as volume:
        await rewritten(volume, 5)
        done = await VolumeAutoCollection(volume.store, "main").collect_if_due()
        assert done is not None
        assert (done.nodes, done.chunks) == (0, 0)
        assert await stored(volume) == 5 * 100_000


async def test_only_one_of_several_collects_at_a_time(tmp_path, monkeypatch):
    under_way, most, passes = 0, 0, 0
    collect = auto_collection.collect

    async def watched(*given, **named):
        nonlocal under_way, most, passes
        under_way, passes = under_way + 1, passes + 1
        most = max(most, under_way)
        try:
            return await collect(*given, **named)
        finally:
            under_way -= 1

    monkeypatch.setattr(auto_collection, "collect", watched)
    stores = [StoreDriver(VolumeStore.open(str(tmp_path / "v.db"))) for _ in range(4)]
    keepers = [
        VolumeAutoCollection(each.store, "main", 0.0, first_s=0.0, every_s=0.001) for each in stores
    ]
    try:
        for each in keepers:
            each.begin()
        while passes < 3:
            await rewritten(stores[0], 10, 20_000)
            before = passes
            await until(lambda before=before: passes > before)
        await until_stored(stores[0], 20_000)
    finally:
        for each in keepers:
            await each.aclose()
        for store in stores:
            await store.aclose()
    assert most == 1


async def test_another_takes_over_from_one_that_died(tmp_path):
    now = [10**6]
    async with opened(tmp_path / "v.db", uptime=Uptime("boot", lambda: now[0])) as volume:
        await rewritten(volume, 3)
        assert await VolumeAutoCollection(
            volume.store, "main", 0.0
        )._take()  # and is never heard of again
        other = VolumeAutoCollection(volume.store, "main", 0.0)
        assert await other.collect_if_due() is None
        now[0] += 61_000
        done = await other.collect_if_due()
        assert done is not None
        assert done.chunks == 2


async def test_one_that_lost_its_turn_stops(tmp_path, monkeypatch):
    """A process that was stopped for long must not go on as if nothing had happened."""
    monkeypatch.setattr(auto_collection, "_PAUSE_S_MIN", 0.0)
    now = [10**6]
    async with opened(tmp_path / "v.db", uptime=Uptime("boot", lambda: now[0])) as volume:
        await rewritten(volume, 3)
        slow, quick = (VolumeAutoCollection(volume.store, "main", 0.0) for _ in range(2))
        assert await slow._take()
        now[0] += 61_000
        assert await quick._take()
        slow._leased_until = 0.0
        with pytest.raises(bailiwick.Busy):
            await slow._pace()


async def test_where_nothing_changed_nothing_is_looked_through(tmp_path):
    async with opened(tmp_path / "v.db") as volume:
        await rewritten(volume, 3)
        kept = VolumeAutoCollection(volume.store, "main", 0.0)
        whole = await kept.collect_if_due()
        again = await kept.collect_if_due()
        assert again.steps == 1 < whole.steps
        await rewritten(volume, 1)
        assert (await kept.collect_if_due()).chunks == 1


async def test_what_a_reader_held_back_is_collected_when_it_is_gone(tmp_path):
    async with opened(tmp_path / "v.db") as volume:
        await rewritten(volume, 3)
        handle = await volume.store.resolve(bailiwick.ScopedPath("f"), "object")
        await rewritten(volume, 3)
        kept = VolumeAutoCollection(volume.store, "main", 0.0)
        assert (await kept.collect_if_due()).chunks == 2
        handle.close()
        assert (await kept.collect_if_due()).chunks == 3


async def test_writers_go_on_while_it_collects(tmp_path):
    """Between two steps they have their turn: what was written meanwhile is all there."""
    async with opened(tmp_path / "v.db") as volume:
        for number in range(60):
            await volume.write(f"f{number % 6}", os.urandom(3_000))
        kept = VolumeAutoCollection(volume.store, "main", 0.0, first_s=0.0, every_s=0.001)
        kept.begin()
        try:
            for number in range(200):
                await volume.write(f"g{number}", b"x%d" % number)
        finally:
            await kept.aclose()
        for number in range(200):
            assert await volume.read(f"g{number}") == b"x%d" % number
        assert (await volume.store.versions.check()).problems == []


async def test_what_is_being_read_is_not_taken_away(tmp_path, monkeypatch):
    passes, collect = [], auto_collection.collect

    async def counted(*given, **named):
        passes.append(await collect(*given, **named))
        return passes[-1]

    monkeypatch.setattr(auto_collection, "collect", counted)
    async with opened(tmp_path / "v.db") as volume:
        content = os.urandom(4_000_000)
        await volume.write("f", content)
        store = volume.store
        handle = await store.resolve(bailiwick.ScopedPath("f"), "object")
        chunks = store.stream(handle, 0, None)
        read = await anext(chunks)
        await volume.write("f", b"other")
        kept = VolumeAutoCollection(store, "main", 0.0, first_s=0.0, every_s=0.001)
        kept.begin()
        await until(lambda: len(passes) >= 3)
        async for chunk in chunks:
            read += chunk
        handle.close()
        await kept.aclose()
        assert read == content


async def test_closing_in_the_middle_stops_between_two_steps(tmp_path, monkeypatch):
    between, pace = asyncio.Event(), VolumeAutoCollection._pace

    async def held(keeper):
        await pace(keeper)
        between.set()
        await for_ever()

    monkeypatch.setattr(VolumeAutoCollection, "_pace", held)
    async with opened(tmp_path / "v.db") as volume:
        await rewritten(volume, 30, 20_000)
        kept = VolumeAutoCollection(volume.store, "main", 0.0, first_s=0.0)
        kept.begin()
        await between.wait()
        await kept.aclose()
        await kept.aclose()
        assert await in_database(volume, "SELECT count(*) FROM lease") == 0
        assert (await volume.store.versions.check()).problems == []


@pytest.mark.spec("VOL-1")
async def test_two_retentions_of_one_volume_are_refused(tmp_path):
    async with opened(tmp_path / "v.db") as volume:
        VolumeAutoCollection(volume.store, "main", 3)
        with pytest.raises(ParseError, match="'main' is open with other settings"):
            VolumeAutoCollection(volume.store, "main", 4)


async def test_a_place_that_is_open_collects(tmp_path, monkeypatch):
    """Through the front door, with nothing said but how long versions are kept."""
    monkeypatch.setattr(
        auto_collection.VolumeAutoCollection.__init__,
        "__kwdefaults__",
        {"first_s": 0.0, "every_s": 0.01},
    )
    place = f"sqlite:{tmp_path}/v.db"
    async with bailiwick.open(place, keep_versions_days=0) as fs:
        for _ in range(20):
            await fs.write_bytes("f", os.urandom(2_000_000))
        blobs = tmp_path / "v.db-blobs"

        def kept():
            found = 0
            for path in blobs.rglob("*"):
                with contextlib.suppress(FileNotFoundError):  # it is collected meanwhile
                    found += path.stat().st_size if path.is_file() else 0
            return found

        await until(lambda: kept() <= 2_100_000)
        assert (await fs.stat("f")).size == 2_000_000
