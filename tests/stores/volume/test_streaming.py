"""Streams: what runs beside what, how much is on its way at once, and what is never read."""

import asyncio
import hashlib
import os
import subprocess
import sys
import threading

import pytest

from bailiwick.errors import Closed, IoError
from bailiwick.finishing import in_thread
from bailiwick.limits import Limits
from bailiwick.model import KiB, MiB
from bailiwick.stores.volume.content.blobs import FolderBlobs
from bailiwick.stores.volume.threads import RestingPool
from tests.stores.volume.volumes import blob_files, in_database, opened
from tests.waiting import loop_turns, until

pytestmark = pytest.mark.slow

DATA = os.urandom(21 * MiB + 12_345)


class Watched(FolderBlobs):
    """A folder that says what was read, and can be made to wait."""

    def __init__(self, folder):
        super().__init__(folder)
        self.fetched = []
        self.at_once = self.most_at_once = 0
        self.gate = threading.Event()
        self.gate.set()
        self._lock = threading.Lock()

    def put(self, key, parts):
        with self._lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            assert self.gate.wait(120)
            super().put(key, parts)
        finally:
            with self._lock:
                self.at_once -= 1

    def fetch(self, key, into):
        self.fetched.append(key)
        return super().fetch(key, into)


@pytest.fixture
def watched(tmp_path):
    return Watched(str(tmp_path / "w-blobs"))


async def cut(data, *sizes):
    position, number = 0, 0
    while position < len(data):
        size = sizes[number % len(sizes)]
        yield data[position : position + size]
        position, number = position + size, number + 1


@pytest.mark.spec("VOL-2", "WRITE-1")
@pytest.mark.parametrize(
    "sizes", [(len(DATA),), (256 * KiB,), (4 * MiB,), (5 * MiB + 1, 1), (7, 40_000, 3, 1_000_003)]
)
async def test_however_a_stream_is_cut_it_is_the_same_file(tmp_path, sizes):
    async with opened(tmp_path / "v.db") as fs:
        written = await fs.write_stream("f", cut(DATA, *sizes))
        assert (written.size, written.sha256) == (len(DATA), hashlib.sha256(DATA).hexdigest())
        assert await fs.read("f") == DATA
        assert await in_database(fs, "SELECT count(*) FROM chunk") == 6


@pytest.mark.spec("VOL-2")
async def test_bytes_that_the_caller_changes_afterwards_are_those_it_gave(tmp_path):
    async def reusing():
        buffer = bytearray(MiB)
        for number in range(9):
            buffer[:] = bytes([number]) * MiB
            yield buffer

    async with opened(tmp_path / "v.db") as fs:
        await fs.write_stream("f", reusing())
        for number in range(9):
            assert await fs.read("f", number * MiB, MiB) == bytes([number]) * MiB


@pytest.mark.spec("VOL-2", "READ-1")
async def test_a_range_touches_the_chunks_it_lies_in_and_no_others(tmp_path, watched):
    async with opened(tmp_path / "v.db", blobs=watched) as fs:
        await fs.write("f", DATA)
        for offset, length, touched in (
            (0, 1, 1),
            (4 * MiB - 1, 2, 2),
            (9 * MiB, 100, 1),
            (8 * MiB, 4 * MiB, 1),
            (20 * MiB, None, 1),
        ):
            async with opened(tmp_path / "v.db", blobs=watched) as fresh:  # remembers nothing
                for read in (fresh.read, lambda *range_: joined(fresh.stream(*range_))):
                    watched.fetched.clear()
                    end = None if length is None else offset + length
                    assert await read("f", offset, length) == DATA[offset:end]
                    assert len(watched.fetched) <= touched
            assert len(set(watched.fetched)) <= touched


async def joined(stream):
    return b"".join([part async for part in stream])


@pytest.mark.spec("VOL-2", "READ-1")
@pytest.mark.parametrize("step", [1_000, 256 * KiB, 3 * MiB, 50 * MiB])
async def test_no_part_of_a_stream_is_longer_than_was_asked_for(tmp_path, step):
    limits = Limits(stream_chunk_bytes=step)
    async with opened(tmp_path / "v.db", limits=limits) as fs:
        await fs.write("f", DATA[: 9 * MiB])
        await fs.truncate("f", 12 * MiB)
        parts = [part async for part in fs.stream("f", 4 * MiB - 10)]
        assert max(map(len, parts)) <= step
        assert {type(part) for part in parts} == {bytes}
        assert b"".join(parts) == (DATA[: 9 * MiB] + bytes(3 * MiB))[4 * MiB - 10 :]


@pytest.mark.spec("VOL-2")
async def test_hashing_goes_on_while_blobs_are_put_and_only_a_few_are_at_once(tmp_path, watched):
    taken = 0

    async def source():
        nonlocal taken
        for at in range(0, len(DATA), MiB):
            taken = at
            yield DATA[at : at + MiB]

    async with opened(tmp_path / "v.db", blobs=watched) as fs:
        watched.gate.clear()
        writer = asyncio.ensure_future(fs.write_stream("f", source()))
        try:
            await until(lambda: watched.at_once >= 4 and taken >= 15 * MiB)
            await loop_turns(20)
            assert taken <= 20 * MiB, "more is taken meanwhile, and not without end"
        finally:
            watched.gate.set()
        assert (await writer).sha256 == hashlib.sha256(DATA).hexdigest()
        assert watched.most_at_once <= 5


@pytest.mark.spec("VOL-2")
async def test_equal_chunks_of_one_stream_are_put_once(tmp_path, watched):
    async with opened(tmp_path / "v.db", blobs=watched) as fs:
        await fs.write_stream("f", cut(bytes(40 * MiB), MiB))
        assert len(blob_files(tmp_path)) == 1
        await fs.store.versions.collect(keep_days=0)
        assert await fs.read("f") == bytes(40 * MiB)
        assert (await fs.store.versions.check()).problems == []


@pytest.mark.spec("VOL-3", "READ-1")
async def test_streams_beside_each_other_never_show_each_others_bytes(tmp_path):
    files = {f"f{number}": os.urandom(9 * MiB + number) for number in range(4)}
    async with opened(tmp_path / "v.db") as fs:
        for name, data in files.items():
            await fs.write(name, data)

        async def read(name, leave_after):
            position = 0
            async for part in fs.stream(name):
                assert part == files[name][position : position + len(part)]
                position += len(part)
                if position > leave_after:
                    return
                await asyncio.sleep(0)
            assert position == len(files[name])

        await asyncio.gather(
            *[read(name, limit) for name in files for limit in (MiB, 5 * MiB, 100 * MiB)]
        )


@pytest.mark.spec("LIFE-1", "READ-1")
async def test_a_stream_ends_when_its_store_is_closed(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("f", DATA)
        stream = fs.stream("f")
        await anext(stream)
    with pytest.raises(Closed):
        await anext(stream)


@pytest.mark.spec("VOL-3")
async def test_a_part_that_is_missing_in_the_middle_is_missed(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("f", DATA)
        await in_database(fs, "DELETE FROM manifest WHERE start = $1", 8 * MiB)
    async with opened(tmp_path / "v.db") as fs:
        given = []
        with pytest.raises(IoError) as caught:
            await collect(fs.stream("f"), given)
        assert caught.value.path == "f"
        assert b"".join(given) == DATA[: 8 * MiB]


@pytest.mark.spec("VOL-3")
@pytest.mark.parametrize("wrong", ["size = 1 << 50", "packed = 1 << 50", "size = -1"])
async def test_a_damaged_row_does_not_ask_for_all_the_memory_there_is(tmp_path, wrong):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("f", DATA)
        await in_database(fs, f"UPDATE chunk SET {wrong}")
    async with opened(tmp_path / "v.db") as fs:
        with pytest.raises(IoError) as caught:
            await fs.read("f")
        assert caught.value.path == "f"


@pytest.mark.spec("VOL-2")
async def test_threads_that_rest_come_back_and_finish_what_they_were_given():
    pool, gate = RestingPool(1, "resting"), threading.Event()
    first, second = pool.submit(gate.wait, 30), pool.submit(int, "7")
    pool.rest()
    third = asyncio.ensure_future(in_thread(int, "8", pool=pool))
    assert await third == 8
    gate.set()
    assert (await asyncio.wrap_future(first), await asyncio.wrap_future(second)) == (True, 7)
    pool.rest()
    pool.rest()


async def collect(stream, into):
    async for part in stream:
        into.append(part)


MEASURING = """
import asyncio, sys
from bailiwick.finishing import in_thread
from bailiwick.stores.volume import VolumeStore
from bailiwick.testing.driver import StoreDriver

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

async def source(count):
    for number in range(count):
        yield number.to_bytes(8, "big") * 131072

async def main(path, mebibytes):
    fs = StoreDriver(VolumeStore.open(path))
    await fs.write("warm", b"x" * 600_000)
    before = peak()
    await fs.write_stream("f", source(int(mebibytes)))
    written = peak()
    async for _ in fs.stream("f"):
        pass
    print(written - before, peak() - before)
    await fs.aclose()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.spec("VOL-2")
def test_a_quarter_of_a_gibibyte_takes_little_memory(tmp_path):
    command = [sys.executable, "-c", MEASURING, str(tmp_path / "v.db"), "256"]
    ended = subprocess.run(command, timeout=120, capture_output=True, check=True, text=True)
    assert max(map(int, ended.stdout.split())) < 64 * 1024
