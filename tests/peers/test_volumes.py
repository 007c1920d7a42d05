"""Faults of other filesystems in databases, none of them ours.

Each test is one fault that was seen in the wild; its docstring says what happens there.
"""

import asyncio
import contextlib
import os
import subprocess
import sys

import pytest

import bailiwick
from bailiwick.errors import HashMismatch, IoError
from tests.stores.volume.volumes import blob_files, in_database, opened

LARGE = 2_000_000


@contextlib.asynccontextmanager
async def counted(fs):
    """How many commits were made meanwhile."""
    writer = fs.store.core.database.file.writer
    before, seen = writer.transactions, []
    yield seen
    seen.append(writer.transactions - before)


@pytest.mark.spec("VOL-3")
async def test_a_missing_spilled_object_is_not_an_empty_file(tmp_path):
    """There it reads as "" while its size is still told."""
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("d/large", b"x" * LARGE, parents=True)
        for blob in blob_files(tmp_path):
            os.unlink(blob)
    async with opened(tmp_path / "v.db") as fs:
        assert (await fs.stat("d/large")).size == LARGE
        with pytest.raises(IoError) as failed:
            await fs.read("d/large")
        assert failed.value.path == "d/large"
        with pytest.raises(IoError):
            async for _ in fs.stream("d/large"):
                pass


@pytest.mark.spec("VOL-3")
async def test_the_old_object_stays_until_the_new_row_is_committed(tmp_path):
    """There it is deleted first, and a write that fails then has destroyed the file."""
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("large", b"x" * LARGE)
        with pytest.raises(HashMismatch):
            await fs.write("large", b"y" * LARGE, expected_sha256="0" * 64)
        assert await fs.read("large") == b"x" * LARGE
        await fs.write("large", b"z")
        assert len(blob_files(tmp_path)) == 1, "what is replaced is kept for its version"


@pytest.mark.spec("VOL-2")
async def test_what_is_appended_spills_as_well(tmp_path):
    """There a file that grew by appending stays in one row however large it is."""
    async with opened(tmp_path / "v.db") as fs:
        for _ in range(110):
            await fs.append("log", os.urandom(60_000))
        assert (await fs.stat("log")).size == 6_600_000
        assert blob_files(tmp_path), "nothing has gone to the blob store"


@pytest.mark.spec("VOL-8")
async def test_rewriting_does_not_keep_everything_for_ever(tmp_path):
    """There 100 rewrites of 1 MiB keep 100 MiB: the collector is never called."""
    async with opened(tmp_path / "v.db") as fs:
        for number in range(30):
            await fs.write("f", b"%02d" % number * (LARGE // 2))
        await fs.store.versions.collect(keep_days=0)
        assert sum(os.path.getsize(blob) for blob in blob_files(tmp_path)) <= 3 * LARGE


@pytest.mark.spec("VOL-8")
async def test_collecting_while_a_stream_is_open_does_not_break_it(tmp_path):
    """There the stream fails in the middle."""
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("f", b"x" * LARGE * 3)
        async with contextlib.aclosing(fs.stream("f")) as chunks:
            parts = [await anext(chunks)]
            await fs.write("f", b"y")
            await fs.store.versions.collect(keep_days=0)
            parts += [chunk async for chunk in chunks]
        assert b"".join(parts) == b"x" * LARGE * 3


@pytest.mark.spec("VOL-8")
async def test_tombstones_are_pruned(tmp_path):
    """There each removed file leaves a row for ever."""
    async with opened(tmp_path / "v.db") as fs:
        for number in range(50):
            await fs.write(f"d/f{number}", b"x", parents=True)
        await fs.remove("d", recursive=True)
        await fs.store.versions.collect(keep_days=0)
        await fs.store.versions.collect(keep_days=0)
        assert await in_database(fs, "SELECT count(*) FROM dentry") == 0
        assert await in_database(fs, "SELECT count(*) FROM inode") == 1


@pytest.mark.spec("VOL-3", "VOL-4")
async def test_a_new_file_with_its_directories_is_one_commit(tmp_path):
    """There it is three, and a crash in between leaves an empty file or none of its content."""
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("first", b"x")
        async with counted(fs) as commits:
            await fs.write("a/b/c/new", b"x" * 10_000, parents=True)
        assert commits == [1]


@pytest.mark.spec("VOL-3", "TREE-3")
async def test_moving_over_a_file_is_one_commit(tmp_path):
    """There the target is removed in a commit before."""
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("new", b"new")
        await fs.write("old", b"old")
        async with counted(fs) as commits:
            await fs.move("new", "old", replace=True)
        assert commits == [1]
        assert await fs.read("old") == b"new"


@pytest.mark.spec("VOL-4")
async def test_reading_commits_nothing(tmp_path):
    """There every read commits a time of access."""
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("d/f", b"x", parents=True)
        await fs.read("d/f")
        file = fs.store.core.database.file
        before = file.changes()
        for _ in range(20):
            await fs.read("d/f")
            await fs.stat("d")
            await fs.entries("d")
        assert file.changes() == before


@pytest.mark.spec("VOL-4")
async def test_a_volume_in_use_is_not_locked_for_others(tmp_path):
    """There a mounted database cannot be opened by anybody else."""
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("f", b"mine")
        script = (
            "import asyncio, sys, bailiwick\n"
            "async def main():\n"
            "    async with bailiwick.open(sys.argv[1]) as fs:\n"
            "        assert (await fs.read_bytes('f')).data == b'mine'\n"
            "        await fs.write_bytes('f', b'theirs')\n"
            "asyncio.run(main())\n"
        )
        command = [sys.executable, "-c", script, f"sqlite:{tmp_path}/v.db"]
        done = await asyncio.to_thread(subprocess.run, command, timeout=120)
        assert done.returncode == 0
        assert await fs.read("f") == b"theirs"


@pytest.mark.spec("VOL-4")
async def test_every_commit_is_synced(tmp_path):
    """There durability is off but for an explicit call."""
    async with opened(tmp_path / "v.db") as fs:
        connection = fs.store.core.database.file._connection
        assert connection.pragma("synchronous") == 2
        assert connection.pragma("journal_mode") == "wal"


@pytest.mark.spec("VOL-5", "VOL-6", "VOL-7")
async def test_there_are_versions_forks_transactions_and_swaps(tmp_path):
    """There is none of them."""
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db") as fs:
        first = await fs.write_text("f", "one")
        await fs.snapshot("before")
        work = await fs.fork("work")
        await work.write_text("f", "of the fork")
        await work.aclose()
        async with fs.transaction() as both:
            await both.write_text("f", "two", expected_sha256=first.sha256)
            await both.write_text("g", "two")
        with pytest.raises(HashMismatch):
            await fs.write_text("f", "three", expected_sha256=first.sha256)
        assert (await fs.read_text("f", as_of="before")).text == "one"
        assert (await fs.read_text("f")).text == (await fs.read_text("g")).text == "two"
        merged = await fs.merge("work", preview=True)
        assert [conflict.path for conflict in merged.conflicts] == ["f"], "never guessed"


@pytest.mark.spec("EVENT-1")
async def test_removing_a_tree_tells_what_went_if_asked(tmp_path):
    """There only the root of what was removed is told, and a late listener is told nothing."""
    async with bailiwick.open(f"sqlite:{tmp_path}/v.db") as fs:
        await fs.write_text("d/e/f", "x", parents=True)
        async with contextlib.aclosing(fs.watch(expand=True)) as changes:
            following = asyncio.ensure_future(anext(changes))
            await asyncio.sleep(0)
            await fs.remove("d", recursive=True)
            told = [await following]
            while len(told) < 3:
                told.append(await asyncio.wait_for(anext(changes), 120))
        assert {str(each.path) for each in told} == {"d", "d/e", "d/e/f"}
        assert {each.kind for each in told} == {"deleted"}
