"""Content of every size: in the row, in the database's chunks, in blobs; and damage to it."""

import asyncio
import hashlib
import os

import pytest

from bailiwick.errors import IoError
from bailiwick.model import KiB, MiB
from bailiwick.paths import ScopedPath
from bailiwick.store import WritePlan
from bailiwick.stores.volume import store
from bailiwick.stores.volume.content.blobs import FolderBlobs
from bailiwick.testing.contract import chunks
from tests.stores.volume.volumes import blob_files, in_database, opened

pytestmark = pytest.mark.both_engines

SIZES = (0, 1, 8 * KiB, 8 * KiB + 1, 512 * KiB, 512 * KiB + 1, 1_499_999, 1_500_000, 9 * MiB + 5)


@pytest.mark.spec("VOL-2", "READ-1", "WRITE-1")
@pytest.mark.parametrize("size", SIZES)
async def test_every_size_is_read_as_it_was_written(tmp_path, size):
    data = chunks.pattern(size)
    async with opened(tmp_path / "v.db") as fs:
        written = await fs.write("w", data)
        parts = [data[at : at + 300_000] for at in range(0, size, 300_000)]
        streamed = await fs.write_stream("s", chunks.of(*parts))
        for result in (written, streamed):
            assert (result.size, result.sha256) == (size, hashlib.sha256(data).hexdigest())
        assert bool(blob_files(tmp_path)) == (size >= 1_500_000)
    async with opened(tmp_path / "v.db") as fs:
        for name in ("w", "s"):
            assert await fs.read(name) == data
            assert b"".join([part async for part in fs.stream(name)]) == data
            for offset in (0, size // 3, max(0, size - 10), 524_280):
                assert await fs.read(name, offset, 20) == data[offset : offset + 20]
        assert (await fs.store.versions.check()).problems == []


@pytest.mark.spec("VOL-2")
async def test_equal_chunks_are_stored_once(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        for size, stored in ((8_193, 1), (600_000, 2), (5 * MiB, 2)):
            before = await in_database(fs, "SELECT count(*) FROM chunk")
            blobs = len(blob_files(tmp_path))
            for number in range(3):
                await fs.write(f"f{number}", chunks.pattern(size))
                await fs.write_stream(f"s{number}", chunks.of(chunks.pattern(size)))
            await fs.copy("f0", f"copy{size}")
            assert await in_database(fs, "SELECT count(*) FROM chunk") == before + stored
            await fs.store.versions.collect()
            assert len(blob_files(tmp_path)) - blobs == (2 if size > MiB else 0)
        info = await fs.store.versions.info()
        assert info.dedup_ratio > 1


@pytest.mark.spec("VOL-2")
async def test_small_content_makes_no_chunk(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("f", b"x" * 8_192)
        await fs.append("g", b"x" * 8_191)
        await fs.append("g", b"x")
        assert await in_database(fs, "SELECT count(*) FROM chunk") == 0


@pytest.mark.spec("VOL-2", "WRITE-3")
async def test_what_is_kept_in_chunks_although_it_is_small_grows_and_shrinks(tmp_path, monkeypatch):
    """As an older Bailiwick made it, for which less was small."""
    async with opened(tmp_path / "v.db") as fs:
        with monkeypatch.context() as older:
            older.setattr(store, "INLINE_BYTES_MAX", 4_096)
            for name in ("grown", "cut", "stretched", "over"):
                await fs.write(name, b"x" * 5_000)
        assert await in_database(fs, "SELECT count(*) FROM inode WHERE content IS NOT NULL") == 4
    async with opened(tmp_path / "v.db") as fs:
        await fs.append("grown", b"more")
        await fs.truncate("cut", 4_500)
        await fs.truncate("stretched", 5_001)
        await fs.write("over", b"y" * 5_000)
        assert await fs.read("grown") == b"x" * 5_000 + b"more"
        assert await fs.read("cut") == b"x" * 4_500
        assert await fs.read("stretched") == b"x" * 5_000 + b"\0"
        assert await fs.read("over") == b"y" * 5_000
        assert (await fs.store.versions.check()).problems == []


@pytest.mark.spec("WRITE-3", "VOL-2")
@pytest.mark.sqlite_only("by SQLite's count of rows that were changed")
async def test_an_append_touches_as_many_rows_however_large_the_file(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        costs = []
        for size in (200_000, 20 * MiB):
            await fs.write("f", chunks.pattern(size))
            await fs.append("f", b"first")
            before = fs.store.core.database.file.changes()
            await fs.append("f", b"line\n")
            costs.append(fs.store.core.database.file.changes() - before)
        assert costs[0] == costs[1] < 10


@pytest.mark.spec("WRITE-3")
async def test_many_appends_make_one_file(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        expected = bytearray()
        for number in range(300):
            part = (b"%05d " % number) * (1 + number * 13 % 400)
            written = await fs.append("log", part)
            expected += part
        assert written.sha256 == hashlib.sha256(expected).hexdigest()
        assert await fs.read("log") == expected
        big = chunks.pattern(2 * MiB)
        written = await fs.append("log", big)
        expected += big
        await fs.append("log", b"end")
        expected += b"end"
        assert await fs.read("log") == expected
    async with opened(tmp_path / "v.db") as fs:  # nothing is remembered of its hash
        written = await fs.append("log", b"!")
        assert written.sha256 == hashlib.sha256(expected + b"!").hexdigest()
        await fs.store.versions.collect(keep_days=0)
        assert await fs.read("log") == bytes(expected) + b"!"
        assert (await fs.store.versions.check()).problems == []


@pytest.mark.spec("VOL-2", "WRITE-3")
async def test_a_file_that_grows_by_appends_spills_too(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        part, expected = chunks.pattern(200_000), bytearray()
        for number in range(80):
            written = await fs.append("log", part[number:])
            expected += part[number:]
        assert written.sha256 == hashlib.sha256(expected).hexdigest()
        assert await fs.read("log") == expected
        assert sum(map(os.path.getsize, blob_files(tmp_path))) > 5 * MiB
        await fs.store.versions.collect(keep_days=0)
        rows = "SELECT sum(size) FROM chunk WHERE blob IS NULL"
        assert await in_database(fs, rows) < 11 * MiB
        assert await fs.read("log") == expected
        assert (await fs.store.versions.check()).problems == []


@pytest.mark.spec("TREE-2")
async def test_files_are_cut_and_made_longer(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        for size in (100, 600_000, 6 * MiB):
            data = chunks.pattern(size)
            await fs.write("f", data)
            for new in (size - 1, size // 2, size * 2, 4_000, 5_000, 2 * MiB, 10, 0):
                written = await fs.truncate("f", new)
                data = data[:new].ljust(new, b"\0")
                assert written.sha256 == hashlib.sha256(data).hexdigest(), (size, new)
                assert await fs.read("f") == data
        assert (await fs.store.versions.check()).problems == []


def damage(path):
    with open(path, "r+b") as file:
        file.seek(1000)
        byte = file.read(1)
        file.seek(1000)
        file.write(bytes([byte[0] ^ 1]))


@pytest.mark.spec("VOL-3", "VOL-9")
@pytest.mark.parametrize("harm", [damage, os.unlink, lambda path: os.truncate(path, 7)])
async def test_a_missing_or_wrong_blob_is_an_error_that_names_the_file(tmp_path, harm):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("fine", b"fine")
        await fs.write("d/big", chunks.pattern(5 * MiB), parents=True)
        await fs.write("d/small", chunks.pattern(5 * MiB)[::-1][:10_000])
        largest = max(blob_files(tmp_path), key=os.path.getsize)
        harm(largest)
    async with opened(tmp_path / "v.db") as fs:
        with pytest.raises(IoError) as caught:
            await fs.read("d/big")
        assert caught.value.path == "d/big"
        with pytest.raises(IoError):
            async for _ in fs.stream("d/big"):
                pass
        checked = await fs.store.versions.check()
        assert checked.lost == ["d/big"]
        assert await fs.read("fine") == b"fine"
        assert len(await fs.read("d/small")) == 10_000


@pytest.mark.spec("VOL-3", "VOL-9")
@pytest.mark.parametrize(
    ("sql", "readable"),
    [
        ("UPDATE chunk SET data = (SELECT hash FROM chunk c WHERE c.id = chunk.id)", False),
        ("UPDATE chunk SET data = substr(data, 2)", False),
        ("DELETE FROM chunk", False),
        ("DELETE FROM manifest", False),
        ("DELETE FROM content", False),
        ("UPDATE inode SET sha256 = (SELECT hash FROM chunk LIMIT 1) WHERE size > 0", True),
    ],
)
async def test_flipped_rows_are_found(tmp_path, sql, readable):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("f", chunks.pattern(100_000))
        await in_database(fs, sql)
    async with opened(tmp_path / "v.db") as fs:
        if not readable:
            with pytest.raises(IoError) as caught:
                await fs.read("f")
            assert caught.value.path == "f"
        assert (await fs.store.versions.check()).lost == ["f"]


@pytest.mark.spec("VOL-9")
async def test_small_content_that_was_flipped_is_found(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("f", b"right")
        await in_database(fs, "UPDATE inode SET data = $1 WHERE size = 5", b"wrong")
        assert (await fs.store.versions.check()).lost == ["f"]


@pytest.mark.spec("VOL-9")
async def test_repair_takes_away_what_is_of_nothing(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("f", chunks.pattern(100_000))
        nothing = hashlib.sha256().digest()
        emptied = "content = NULL, data = $1, size = 0, sha256 = $2, guard = NULL"
        await in_database(fs, f"UPDATE inode SET {emptied} WHERE size > 0", b"", nothing)
        await in_database(
            fs,
            "INSERT INTO dentry VALUES (1, 2, 1, 'ghost', 3, 9223372036854775807, 999, 1, NULL)",
        )
    async with opened(tmp_path / "v.db") as fs:
        # The ghost leads to nothing, and no change ever made it.
        assert len((await fs.store.versions.check()).problems) == 3
        repaired = await fs.store.versions.check(repair=True)
        assert all(problem.mended for problem in repaired.problems)
    async with opened(tmp_path / "v.db") as fs:
        assert (await fs.store.versions.check()).problems == []
        assert await in_database(fs, "SELECT count(*) FROM chunk") == 0


class Failing(FolderBlobs):
    """A place for blobs whose disk is full."""

    def put(self, key, data):
        raise IoError("no space", errno=28)


@pytest.mark.spec("VOL-3", "WRITE-3")
async def test_blobs_are_kept_before_the_row_that_names_them(tmp_path):
    async with opened(tmp_path / "v.db", blobs=Failing(str(tmp_path / "b"))) as fs:
        await fs.write("f", b"old")
        with pytest.raises(IoError):
            await fs.write("f", chunks.pattern(2 * MiB))
        with pytest.raises(IoError):
            await fs.append("f", chunks.pattern(2 * MiB))
        assert await fs.read("f") == b"old"


@pytest.mark.spec("LIFE-1", "WRITE-3")
async def test_an_upload_that_is_given_up_leaves_no_blob(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("same", chunks.pattern(4 * MiB))
        before = blob_files(tmp_path)
        for first in (chunks.pattern(9 * MiB), os.urandom(9 * MiB)):
            gate = chunks.Gate(first, b"second")
            writer = asyncio.ensure_future(fs.write_stream("f", gate.chunks()))
            await gate.wait_for(writer)
            writer.cancel()
            await asyncio.wait([writer])
            assert writer.cancelled()
            assert blob_files(tmp_path) == before
        await fs.store.versions.collect(keep_days=0)
        assert await fs.read("same") == chunks.pattern(4 * MiB)


@pytest.mark.spec("VOL-8")
async def test_what_an_upload_uses_again_is_not_collected_under_it(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        same = chunks.pattern(4 * MiB)
        await fs.write("f", same)
        gate = chunks.Gate(same + b"x", b"second")
        writer = asyncio.ensure_future(fs.write_stream("g", gate.chunks()))
        await gate.wait_for(writer)
        await fs.remove("f")
        await fs.store.versions.collect(keep_days=0)
        gate.opened.set()
        await writer
        await fs.store.versions.collect(keep_days=0)
        assert await fs.read("g") == same + b"xsecond"
        assert (await fs.store.versions.check()).problems == []


@pytest.mark.spec("VOL-8", "READ-6")
async def test_a_stream_under_way_survives_collection(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        for name, size in (("f", 1_000_000), ("g", 6 * MiB)):
            data = chunks.pattern(size)
            await fs.write(name, data)
            seen = bytearray()
            async for part in fs.stream(name):
                if not seen:
                    await fs.write(name, b"new")
                    await fs.store.versions.collect(keep_days=0)
                seen += part
            assert seen == data
        held = await fs.store.resolve(ScopedPath("f"), "object")
        held.close()
        await fs.store.versions.collect(keep_days=0)
        assert await in_database(fs, "SELECT count(*) FROM chunk") == 0
        assert blob_files(tmp_path) == []


async def test_a_plan_is_refused_before_anything_is_put(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.make_dir("d")
        entry = await fs.store.resolve(ScopedPath("d"), "entry")
        data = chunks.pattern(2 * MiB)
        with pytest.raises(IsADirectoryError):
            await fs.store.write(entry, data, chunks.sha256_of(data), WritePlan())
        entry.close()
        assert blob_files(tmp_path) == []
