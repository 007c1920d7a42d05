"""What is deleted or closed while somebody still has it: told plainly, and never by half."""

import asyncio
import os

import pytest

from bailiwick.errors import Closed, PathNotFound
from bailiwick.stores.volume import VolumeStore
from bailiwick.testing.driver import StoreDriver
from bailiwick.versions import Mark
from tests.stores.volume.trees import tree_of
from tests.stores.volume.volumes import by, in_database, opened

BYTES = 6_000_000
"""Larger than what is read ahead of a slow reader."""


async def deleted_fork(fs, name="work"):
    """A fork that is still open when it is deleted."""
    fork = StoreDriver(await fs.store.versions.fork(name))
    await fork.write("own", b"1")
    await fs.store.versions.delete_fork(name)
    return fork


# --- branches -----------------------------------------------------------------------------------


@pytest.mark.spec("VOL-6", "VOL-8")
@pytest.mark.parametrize("collected", [False, True])
async def test_a_deleted_fork_takes_nothing_more(tmp_path, collected):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("a", b"0")
        fork = await deleted_fork(fs)
        if collected:
            await fs.store.versions.collect(keep_days=0)
        versions = fork.store.versions
        for refused in (
            lambda: fork.write("lost", b"1"),
            lambda: fork.write("large", b"1" * BYTES),
            lambda: fork.append("own", b"1"),
            lambda: fork.make_dir("d"),
            lambda: fork.read("own"),
            lambda: fork.read("a"),
            lambda: fork.entries("."),
            lambda: versions.snapshot("s"),
            lambda: versions.fork("of_it"),
            lambda: versions.begin(),
            lambda: versions.merge("main"),
            lambda: versions.compare("main"),
        ):
            with pytest.raises(Closed, match="deleted"):
                await refused()
        await fork.aclose()
        await fs.store.versions.collect(keep_days=0)
        assert await in_database(fs, "SELECT count(*) FROM branch") == 1
        assert (await fs.store.versions.check()).problems == []


@pytest.mark.spec("VOL-7")
async def test_a_transaction_in_a_deleted_fork_is_not_committed(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        fork = StoreDriver(await fs.store.versions.fork("work"))
        draft = await fork.store.versions.begin()
        await StoreDriver(draft.store).write("f", b"1")
        await fs.store.versions.delete_fork("work")
        with pytest.raises(Closed, match="deleted"):
            await draft.commit(Mark())
        await draft.discard()
        await fork.aclose()
        await fs.store.versions.collect(keep_days=0)
        assert await in_database(fs, "SELECT count(*) FROM branch") == 1


@pytest.mark.spec("VOL-7")
async def test_a_lease_in_a_deleted_fork_is_not_given(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        fork = StoreDriver(await fs.store.versions.fork("work"))
        async with fork._held("f", "entry") as entry:
            await fs.store.versions.delete_fork("work")
            with pytest.raises(Closed, match="deleted"):
                await fork.store.versions.lock(entry, 60)
        await fork.aclose()


@pytest.mark.spec("VOL-6")
async def test_a_new_fork_of_the_same_name_is_another(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        old = await deleted_fork(fs)
        new = StoreDriver(await fs.store.versions.fork("work"))
        with pytest.raises(Closed):
            await old.write("f", b"of the old one")
        await new.write("f", b"of the new one")
        assert await tree_of(new.store) == {"f": b"of the new one"}
        await old.aclose()
        await new.aclose()


@pytest.mark.spec("VOL-8")
async def test_whoever_reads_in_a_fork_that_is_deleted_reads_to_the_end(tmp_path):
    data = os.urandom(BYTES)
    async with opened(tmp_path / "v.db") as fs:
        fork = StoreDriver(await fs.store.versions.fork("work"))
        await fork.write("large", data)
        stream = fork.stream("large")
        read = await anext(stream)
        await fs.store.versions.delete_fork("work")
        await fs.store.versions.collect(keep_days=0)
        async for chunk in stream:
            read += chunk
        assert read == data
        await fork.aclose()
        await fs.store.versions.collect(keep_days=0)
        assert await in_database(fs, "SELECT count(*) FROM content") == 0
        assert (await fs.store.versions.check()).problems == []


@pytest.mark.spec("AUDIT-3")
async def test_notes_of_a_deleted_fork_are_kept_until_they_were_taken_over(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        versions = fs.store.versions
        fork = StoreDriver(await versions.fork("work"))
        await by(fork, Mark(note=b"of the fork")).write("f", b"1")
        await fork.aclose()
        await versions.delete_fork("work")
        await versions.collect(keep_days=0)
        assert [each.note for each in await versions.notes()] == [b"of the fork"]
        (note,) = await fs.store.log.notes(0, 10)
        assert note.note == b"of the fork"
        await fs.store.log.drained(note.version)
        await versions.collect(keep_days=0)
        assert await in_database(fs, "SELECT count(*) FROM branch") == 1
        assert await in_database(fs, "SELECT count(*) FROM change") == 0


# --- snapshots ----------------------------------------------------------------------------------


@pytest.mark.spec("VOL-8")
async def test_whoever_reads_a_snapshot_that_is_deleted_reads_to_the_end(tmp_path):
    data = os.urandom(BYTES)
    async with opened(tmp_path / "v.db") as fs:
        versions = fs.store.versions
        await fs.write("large", data)
        await versions.snapshot("s")
        await fs.write("large", b"another")
        await versions.collect(keep_days=0)  # the horizon is past the snapshot
        then = StoreDriver(await versions.as_of("s"))
        stream = then.stream("large")
        read = await anext(stream)
        await versions.delete_snapshot("s")
        assert await versions.snapshots() == []
        assert (await versions.info()).snapshots == 0
        for gone in ("s", *[name for (name,) in await names_of_snapshots(fs)]):
            with pytest.raises(PathNotFound):
                await versions.as_of(gone)
            with pytest.raises(PathNotFound):
                await versions.delete_snapshot(gone)
        await versions.snapshot("s")  # the name is free at once
        await versions.collect(keep_days=0)
        async for chunk in stream:
            read += chunk
        assert read == data
        assert await then.read("large") == data
        await then.aclose()
        await versions.delete_snapshot("s")
        await versions.collect(keep_days=0)
        assert await names_of_snapshots(fs) == []
        assert await in_database(fs, "SELECT count(*) FROM content") == 0
        assert (await versions.check()).problems == []


async def names_of_snapshots(fs):
    async with fs.store.core.looking() as session:
        return await session.rows("SELECT name FROM snapshot")


# --- closing ------------------------------------------------------------------------------------


@pytest.mark.spec("VOL-4")
@pytest.mark.parametrize("what", ["the volume", "a fork"])
async def test_closing_that_is_cancelled_closes_all_the_same(tmp_path, what):
    """Wherever the cancellation comes: what is let go of by half is never closed."""
    for turns in range(12):
        store = VolumeStore.open(str(tmp_path / f"{turns}.db"))
        fork = await store.versions.fork("work")
        file = store.core.database.file
        closing = asyncio.create_task((fork if what == "a fork" else store).aclose())
        for _ in range(turns):
            await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait({closing})
        await fork.aclose()
        await store.aclose()
        assert file.users == 0, turns
