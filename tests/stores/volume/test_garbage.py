"""What gc takes away, what it spares, and in what steps."""

import asyncio
import os
import time

import pytest

from bailiwick.errors import PathNotFound
from bailiwick.model import MiB
from bailiwick.paths import ScopedPath
from bailiwick.stores.volume.content.blobs import FolderBlobs, new_key
from bailiwick.stores.volume.retention import garbage
from bailiwick.testing.contract import chunks
from bailiwick.testing.driver import StoreDriver
from bailiwick.versions import Undoing
from tests.stores.volume.trees import tree_of
from tests.stores.volume.volumes import blob_files, in_database, opened

pytestmark = pytest.mark.both_engines

DAY_NS = 24 * 3600 * 10**9


async def rows_of(fs):
    """How many rows each table has that grows with the history."""
    tables = ("dentry", "inode", "content", "manifest", "chunk", "fallen", "upload", "doomed")
    return {table: await in_database(fs, f"SELECT count(*) FROM {table}") for table in tables}


@pytest.mark.spec("VOL-8")
@pytest.mark.slow
async def test_a_file_rewritten_a_hundred_times_leaves_three_mebibytes_at_most(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        for size in (MiB, 2 * MiB):
            for number in range(100 if size == MiB else 20):
                await fs.write("f", number.to_bytes(4, "big") * (size // 4))
            await fs.store.versions.collect(keep_days=0)
            stored = await in_database(fs, "SELECT sum(size) FROM chunk")
            assert stored <= 3 * MiB
            assert sum(map(os.path.getsize, blob_files(tmp_path))) <= 3 * MiB
        assert await fs.read("f") == (19).to_bytes(4, "big") * (MiB // 2)


@pytest.mark.spec("VOL-8", "VOL-5")
async def test_what_is_younger_than_the_retention_is_kept(tmp_path):
    now = [100 * DAY_NS]
    async with opened(tmp_path / "v.db", clock_ns=lambda: now[0]) as fs:
        versions = fs.store.versions
        first = await fs.write("f", b"first")
        await fs.write("f", b"second")
        await versions.collect(keep_days=30)
        now[0] += 29 * DAY_NS
        third = await fs.write("f", b"third")
        await versions.collect(keep_days=30)
        then = StoreDriver(await versions.as_of(first.version))
        assert await then.read("f") == b"first"
        await then.aclose()
        now[0] += 2 * DAY_NS
        await fs.write("f", b"fourth")
        collected = await versions.collect(keep_days=30)
        assert collected.nodes == 1
        with pytest.raises(PathNotFound, match="no longer kept"):
            await versions.as_of(first.version)
        with pytest.raises(PathNotFound, match="no longer kept"):
            await versions.undo(Undoing(first=first.version, last=first.version))
        with pytest.raises(PathNotFound, match="no longer kept"):
            await versions.fork("old", version=first.version)
        then = StoreDriver(await versions.as_of(third.version))
        assert await then.read("f") == b"third"
        await then.aclose()


@pytest.mark.spec("VOL-8")
async def test_snapshots_forks_and_views_are_roots(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        versions, seen = fs.store.versions, {}
        for name in ("snapshot", "fork", "view"):
            await fs.write("d/f", chunks.pattern(10_000) + name.encode(), parents=True)
            await fs.write(f"d/{name}", name.encode())
            seen[name] = await tree_of(fs.store)
            if name == "snapshot":
                await versions.snapshot("kept")
            elif name == "fork":
                fork = await versions.fork("work")
            else:
                view = await versions.as_of((await fs.stat("d/view")).version)
        await fs.remove("d", recursive=True)
        for _ in range(2):
            await versions.collect(keep_days=0)
            snapshot = await versions.as_of("kept")
            for name, store in (("snapshot", snapshot), ("fork", fork), ("view", view)):
                assert await tree_of(store) == seen[name], name
            await snapshot.aclose()
        await view.aclose()
        await fork.aclose()
        await versions.delete_fork("work")
        await versions.delete_snapshot("kept")
        await versions.collect(keep_days=0)
        await versions.collect(keep_days=0)
        rows = await rows_of(fs)
        assert rows.pop("inode") == 1  # the root
        assert set(rows.values()) == {0}


@pytest.mark.spec("VOL-8", "TREE-4")
async def test_collecting_goes_in_small_steps_and_writers_come_between(tmp_path, monkeypatch):
    monkeypatch.setattr(garbage, "STEP_ROWS", 16)
    async with opened(tmp_path / "v.db") as fs:
        for number in range(120):
            await fs.write(f"d/e{number % 3}/f{number}", b"x", parents=True)
        await fs.remove("d", recursive=True)
        collecting_now = asyncio.ensure_future(fs.store.versions.collect(keep_days=0))
        written = 0
        while not collecting_now.done():
            await fs.write("w", b"%d" % written)
            written += 1
        collected = await collecting_now
        assert collected.steps > 30
        assert written > 10
        await fs.store.versions.collect(keep_days=0)
        rows = await rows_of(fs)
        assert (rows["dentry"], rows["inode"], rows["fallen"]) == (1, 2, 0)


@pytest.mark.spec("VOL-3", "VOL-8")
async def test_blobs_that_no_row_ever_named_are_found_once_they_are_old(tmp_path):
    now = [time.time_ns()]
    async with opened(tmp_path / "v.db", clock_ns=lambda: now[0]) as fs:
        await fs.write("f", chunks.pattern(2 * MiB))
        kept = blob_files(tmp_path)
        uid = fs.store.core.identity.uid
        blobs = FolderBlobs(str(tmp_path / "v.db-blobs"))
        blobs.put(new_key(uid, bytes(32)), [b"left by the dead"])
        await fs.store.versions.collect(keep_days=0)
        assert len(blob_files(tmp_path)) == len(kept) + 1
        now[0] += 2 * DAY_NS
        await fs.store.versions.collect(keep_days=0)
        assert blob_files(tmp_path) == kept
        assert await fs.read("f") == chunks.pattern(2 * MiB)


@pytest.mark.spec("VOL-8")
async def test_a_stage_that_was_left_is_taken_away(tmp_path):
    from bailiwick.store import Staged

    async with opened(tmp_path / "v.db") as fs:
        await fs.write("kept", b"x")
        entry = await fs.store.resolve(ScopedPath("out"), "entry")
        stage = await fs.store.stage(entry, size_max=10**6)
        await stage.add([Staged(ScopedPath("a/b"), "file"), b"x" * 10_000])
        await stage.add([Staged(ScopedPath("c"), "file")])
        await fs.store.versions.collect(keep_days=0)
        assert await in_database(fs, "SELECT count(*) FROM chunk") == 1, "it is still in use"
    async with opened(tmp_path / "v.db") as fs:
        for _ in range(2):
            await fs.store.versions.collect(keep_days=0)
        rows = await rows_of(fs)
        assert (rows["dentry"], rows["inode"], rows["chunk"], rows["fallen"]) == (1, 2, 0, 0)
        assert await tree_of(fs.store) == {"kept": b"x"}


@pytest.mark.spec("VOL-8")
async def test_readers_of_other_processes_hold_it_back(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        first = await fs.write("f", b"first")
        await in_database(
            fs, f"INSERT INTO pin VALUES (1, 'another', {first.version}, {time.time_ns()})"
        )
        await fs.write("f", b"second")
        collected = await fs.store.versions.collect(keep_days=0)
        assert collected.horizon == first.version
        await in_database(fs, "UPDATE pin SET expires_ms = 0 WHERE session = 'another'")
        collected = await fs.store.versions.collect(keep_days=0)
        assert collected.nodes == 1


@pytest.mark.spec("VOL-9")
async def test_info_counts(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("d/a", b"x" * 100, parents=True)
        await fs.write("d/b", chunks.pattern(10_000))
        await fs.copy("d/b", "c")
        await fs.symlink("l", "c")
        await fs.store.versions.snapshot("s")
        info = await fs.store.versions.info()
        assert (info.files, info.directories, info.links, info.bytes) == (3, 1, 1, 20_100)
        assert (info.snapshots, info.branches, info.versions) == (1, 1, 4)
        assert info.stored_bytes == 10_000 + 100 + 1
