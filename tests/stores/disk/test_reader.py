"""Bytes out of files that change, lie about their size, or have other names."""

import asyncio
import errno
import os
import subprocess
import sys
from contextlib import contextmanager, suppress

import pytest

from bailiwick.errors import (
    Closed,
    HardlinkRefused,
    HashMismatch,
    IsADirectory,
    ParseError,
    SymlinkEscape,
)
from bailiwick.limits import Limits
from bailiwick.model import KiB, MiB
from bailiwick.paths import ScopedPath
from bailiwick.stores.disk import reader
from tests.stores.disk.conftest import hold
from tests.waiting import loop_turns


@pytest.mark.spec("READ-1", "READ-7")
async def test_small_and_large_reads_of_every_window(every_place):
    data = os.urandom(3 * MiB + 5)
    (every_place.root / "f").write_bytes(data)
    fs = every_place.open()
    for offset, length in ((0, 10), (5, 300 * KiB), (0, 10 * MiB), (3 * MiB, 99), (4 * MiB, 9)):
        held = await hold(fs, "f")
        content = await fs.store.read(held, offset, length)
        held.close()
        assert content.data == data[offset : offset + length]
        assert content.size == len(data)
    with pytest.raises(ParseError):
        await fs.read("f", -1, 5)


@pytest.mark.spec("READ-6")
async def test_a_file_rewritten_since_the_lookup_is_read_as_it_is_now(every_place):
    file = every_place.root / "f"
    file.write_bytes(b"old")
    fs = every_place.open()
    held = await hold(fs, "f")
    for now in (b"new", b"longer than it was", b"s"):
        file.write_bytes(now)
        content = await fs.store.read(held, 0, 100)
        assert (content.data, content.size) == (now, len(now))
    held.close()


@pytest.mark.spec("READ-6")
async def test_a_file_rewritten_in_place_while_it_is_read_is_a_mismatch(every_place, monkeypatch):
    file = every_place.root / "f"
    file.write_bytes(b"a" * 100)
    fs = every_place.open()
    held = await hold(fs, "f")

    def rewrite():
        with file.open("r+b") as open_file:
            open_file.write(os.urandom(100))

    real = os.pread

    def read_then_rewrite(*args):
        data = real(*args)
        rewrite()
        return data

    monkeypatch.setattr(os, "pread", read_then_rewrite)
    with pytest.raises(HashMismatch) as caught:
        await fs.store.read(held, 0, 200)
    assert caught.value.details["current_version"]
    held.close()


@pytest.mark.spec("READ-6")
async def test_a_file_cut_while_it_is_read_is_a_mismatch(every_place, monkeypatch):
    file = every_place.root / "f"
    file.write_bytes(b"a" * 100)
    fs = every_place.open()
    held = await hold(fs, "f")
    sizes = iter(range(90, 0, -10))
    real = os.pread

    def read_then_cut(*args):
        data = real(*args)
        os.truncate(file, next(sizes))
        return data

    monkeypatch.setattr(os, "pread", read_then_cut)
    with pytest.raises(HashMismatch):
        await fs.store.read(held, 0, 200)
    held.close()


@pytest.mark.spec("READ-6", "READ-7")
async def test_a_file_that_grows_is_read_to_what_was_asked(every_place, monkeypatch):
    file = every_place.root / "f"
    file.write_bytes(b"a" * 100)
    fs = every_place.open()
    held = await hold(fs, "f")
    real = os.pread

    def grow_then_read(*args):
        with file.open("ab") as open_file:
            open_file.write(b"b" * 100)
        return real(*args)

    monkeypatch.setattr(os, "pread", grow_then_read)
    content = await fs.store.read(held, 0, 150)
    assert content.data == b"a" * 100 + b"b" * 50
    held.close()


def moving(monkeypatch, call, moves):
    """Let ``os.<call>`` be followed by one of ``moves`` each time, until there are none left."""
    real, left = getattr(os, call), list(moves)

    def then_move(*args):
        try:
            return real(*args)
        finally:
            if left:
                left.pop(0)()

    monkeypatch.setattr(os, call, then_move)


@pytest.mark.spec("READ-6")
async def test_an_append_whose_time_moves_before_its_size_is_no_rewrite(every_place, monkeypatch):
    file = every_place.root / "f"
    file.write_bytes(b"a" * 100)
    fs = every_place.open()
    held = await hold(fs, "f")

    def time_moves():
        os.utime(file)

    def size_moves():
        with file.open("ab") as open_file:
            open_file.write(b"b" * 10)

    for moves in (
        [time_moves], [time_moves, time_moves], [time_moves, time_moves, size_moves],
        [size_moves, time_moves], [time_moves, size_moves, time_moves, size_moves],
    ):  # fmt: skip
        with monkeypatch.context() as patch:
            moving(patch, "pread", moves)
            content = await fs.store.read(held, 0, 400)
        assert content.data == file.read_bytes()
        assert content.size == len(content.data)
        assert content.version == (await fs.store.stat(held)).version
    held.close()


@pytest.mark.spec("READ-6")
async def test_bytes_that_come_back_by_being_written_again_are_a_rewrite(every_place, monkeypatch):
    file = every_place.root / "f"
    file.write_bytes(b"a" * 100)
    fs = every_place.open()
    held = await hold(fs, "f")

    def rewrite():
        with file.open("r+b") as open_file:
            open_file.write(b"a" * 100)

    moving(monkeypatch, "pread", [rewrite] * 20)
    with pytest.raises(HashMismatch):
        await fs.store.read(held, 0, 200)
    held.close()


@pytest.mark.spec("READ-6")
async def test_a_stream_waits_for_the_append_that_is_under_way_at_its_end(every_place, monkeypatch):
    file = every_place.root / "f"
    file.write_bytes(b"a" * MiB)
    fs = every_place.open()
    held = await hold(fs, "f")

    def size_moves():
        with file.open("ab") as open_file:
            open_file.write(b"b" * 10)

    got = 0
    with monkeypatch.context() as patch:
        moving(patch, "lseek", [size_moves])
        async for chunk in fs.store.stream(held, 0, MiB):
            got += len(chunk)
            os.utime(file)
    assert got == MiB
    held.close()


APPENDS = """
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
os.write(1, b"!")
while os.fstat(fd).st_size < 8 << 20:
    os.write(fd, b"x" * 8192)
os.read(0, 1)
"""

REWRITES = """
import os, select, sys
fd = os.open(sys.argv[1], os.O_WRONLY)
os.write(1, b"!")
while not select.select([0], [], [], 0)[0]:
    for letter in b"ab":
        os.pwrite(fd, bytes([letter]) * (4 << 20), 0)
"""


@contextmanager
def at_work(script, file):
    """Another process that works on the file until it is told to stop."""
    with subprocess.Popen(
        [sys.executable, "-c", script, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout.read(1) == b"!"
            yield
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.spec("READ-6")
async def test_a_process_that_appends_is_never_in_the_way(both_places):
    file = both_places.root / "f"
    file.write_bytes(b"x" * 4096)
    fs = both_places.open()
    with at_work(APPENDS, file):
        for _ in range(150):
            assert set(await fs.read("f", 0, 64 * KiB)) == {ord("x")}
            async for chunk in fs.stream("f", 0, 128 * KiB):
                assert set(chunk) == {ord("x")}
        await fs.copy("f", "copy")
    assert set((both_places.root / "copy").read_bytes()) == {ord("x")}


@pytest.mark.spec("READ-6")
async def test_a_process_that_rewrites_is_told_of(both_places):
    """Reads long enough that a turn of the other process falls into one of them."""
    file = both_places.root / "f"
    file.write_bytes(b"a" * (4 * MiB))
    fs = both_places.open()
    told = False
    with at_work(REWRITES, file):
        for _ in range(5_000):
            try:
                assert len(await fs.read("f", 0, 4 * MiB)) == 4 * MiB
            except HashMismatch:
                told = True
                break
    assert told


@pytest.mark.spec("READ-6")
async def test_a_file_replaced_while_it_is_read_gives_the_old_bytes_whole(both_places, monkeypatch):
    file = both_places.root / "f"
    file.write_bytes(b"old" * 100)
    fs = both_places.open()
    held = await hold(fs, "f")
    other = both_places.root / "other"
    other.write_bytes(b"new" * 100)
    real = os.pread

    def replace_then_read(*args):
        if other.exists():
            other.rename(file)
        return real(*args)

    monkeypatch.setattr(os, "pread", replace_then_read)
    assert (await fs.store.read(held, 0, 1000)).data == b"old" * 100
    held.close()
    assert await fs.read("f") == b"new" * 100


@pytest.mark.spec("READ-7")
async def test_a_vast_sparse_file_costs_only_what_is_asked(every_place):
    with (every_place.root / "sparse").open("wb") as file:
        file.truncate(1 << 42)
    fs = every_place.open()
    assert await fs.read("sparse", 1 << 41, 1000) == bytes(1000)
    streamed = 0
    async for chunk in fs.stream("sparse"):
        streamed += len(chunk)
        if streamed >= MiB:
            break


@pytest.mark.spec("LINK-4")
async def test_a_file_with_other_names_is_refused_where_that_is_set(every_place):
    (every_place.root / "f").write_bytes(b"x")
    os.link(every_place.root / "f", every_place.outside / "other-name")
    fs = every_place.open(hardlinks="reject")
    calls = {
        "read": fs.read("f"),
        "write": fs.write("f", b"y"),
        "append": fs.append("f", b"y"),
        "truncate": fs.truncate("f", 0),
        "copy": fs.copy("f", "g"),
        "set_mode": fs.set_mode("f", 0o777),
        "set_times": fs.set_times("f", 1),
    }
    for call in calls.values():
        with pytest.raises(HardlinkRefused):
            await call
    with pytest.raises(HardlinkRefused):
        async for _ in fs.stream("f"):
            pass
    assert every_place.tree() == {"f": b"x"}
    assert (every_place.outside / "other-name").stat().st_mode & 0o777 != 0o777


@pytest.mark.spec("LINK-4")
async def test_replacing_never_writes_through_another_name(every_place):
    (every_place.root / "f").write_bytes(b"x")
    other = every_place.outside / "other-name"
    os.link(every_place.root / "f", other)
    fs = every_place.open(hardlinks="allow")
    assert await fs.read("f") == b"x"
    await fs.append("f", b"y")
    await fs.write("f", b"z")
    await fs.truncate("f", 0)
    assert other.read_bytes() == b"x"


@pytest.mark.spec("READ-6", "LIFE-2")
async def test_a_stream_notices_what_a_read_notices_and_lets_go(every_place):
    file = every_place.root / "f"
    file.write_bytes(b"a" * (2 * MiB))
    fs = every_place.open()
    held = await hold(fs, "f")
    before = len(os.listdir("/proc/self/fd"))
    stream = fs.store.stream(held, 0, None)
    await anext(stream)
    with file.open("r+b") as open_file:
        open_file.write(b"b")
    with pytest.raises(HashMismatch):
        async for _ in stream:
            pass
    unfinished = fs.store.stream(held, 0, None)
    await anext(unfinished)
    await unfinished.aclose()
    assert len(os.listdir("/proc/self/fd")) == before
    held.close()


@pytest.mark.spec("READ-6")
async def test_a_stream_may_be_appended_to_while_it_is_read(every_place):
    file = every_place.root / "f"
    file.write_bytes(b"a" * MiB)
    fs = every_place.open()
    pieces = []
    async for piece in fs.stream("f"):
        if not pieces:
            with file.open("ab") as open_file:
                open_file.write(b"b" * 10)
        pieces.append(piece)
    assert b"".join(pieces) == b"a" * MiB + b"b" * 10


async def test_one_chunk_of_a_stream_is_in_memory(every_place):
    (every_place.root / "f").write_bytes(bytes(100 * KiB))
    fs = every_place.open(limits=Limits(stream_chunk_bytes=KiB))
    assert {len(chunk) async for chunk in fs.stream("f", 10, 50 * KiB)} == {KiB}


@pytest.mark.spec("LIFE-1")
async def test_a_cancelled_large_read_waits_for_its_thread_and_leaves_nothing(place, monkeypatch):
    (place.root / "f").write_bytes(bytes(8 * MiB))
    fs = place.open()
    loop, started, release = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    real = reader.os.pread
    reads = []

    def slow(*args):
        reads.append(args)
        loop.call_soon_threadsafe(started.set)
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result(120)
        return real(*args)

    monkeypatch.setattr(os, "pread", slow)
    before = len(os.listdir("/proc/self/fd"))
    task = asyncio.create_task(fs.read("f"))
    await started.wait()
    task.cancel()
    await loop_turns(20)
    assert not task.done()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(reads) == 1
    assert len(os.listdir("/proc/self/fd")) == before


async def test_a_directory_is_not_read(every_place):
    (every_place.root / "d").mkdir()
    fs = every_place.open()
    with pytest.raises(IsADirectory):
        await fs.read("d")
    with pytest.raises(IsADirectory):
        await fs.read(".")


@pytest.mark.spec("LIFE-2")
async def test_closing_ends_a_stream_with_a_clear_error(place):
    (place.root / "f").write_bytes(bytes(MiB))
    fs = place.open()
    held = await hold(fs, "f")
    stream = fs.store.stream(held, 0, None)
    await anext(stream)
    await fs.aclose()
    with pytest.raises(Closed):
        await anext(stream)
    held.close()


@pytest.mark.spec("READ-6")
async def test_an_entry_that_was_replaced_is_read_as_it_stands_now(every_place):
    """An entry is its name: that another file took it since the lookup is no error."""
    (every_place.root / "f").write_bytes(b"old")
    fs = every_place.open()
    held = await fs.store.resolve(ScopedPath("f"), "entry")
    (every_place.root / "other").write_bytes(b"newer")
    os.replace(every_place.root / "other", every_place.root / "f")
    assert (await fs.store.read(held, 0, 100)).data == b"newer"
    os.unlink(every_place.root / "f")
    (every_place.root / "f").symlink_to("elsewhere")
    with pytest.raises(SymlinkEscape):
        await fs.store.read(held, 0, 100)
    held.close()


@pytest.mark.spec("READ-7")
@pytest.mark.parametrize("kernel", ["has some of it", "has none of it", "cannot tell"])
async def test_a_stream_is_the_same_however_much_of_it_the_kernel_has_at_hand(
    kernel, place, monkeypatch
):
    data = os.urandom(3 * MiB + 5)
    (place.root / "f").write_bytes(data)
    asked = []

    def at_hand(fd, buffer, offset):
        asked.append(offset)
        if kernel == "cannot tell":
            raise OSError(errno.EOPNOTSUPP, "")
        if kernel == "has none of it" or len(asked) % 3 == 0:
            return None
        return os.preadv(fd, [buffer[: len(buffer) // 2 + 1]], offset)

    monkeypatch.setattr(reader.syscalls, "read_at_hand", at_hand)
    monkeypatch.setattr(reader.syscalls, "TMPFS", -1)
    fs = place.open()
    assert b"".join([chunk async for chunk in fs.stream("f")]) == data
    assert b"".join([chunk async for chunk in fs.stream("f", 7, MiB)]) == data[7 : MiB + 7]
    assert len(asked) == 2 if kernel == "cannot tell" else len(asked) > 10


async def test_others_get_their_turn_while_a_stream_is_read_in_place(place):
    (place.root / "f").write_bytes(bytes(8 * MiB))
    fs = place.open()
    turns = 0

    async def take_turns():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(take_turns())
    async for _ in fs.stream("f"):
        pass
    other.cancel()
    with suppress(asyncio.CancelledError):
        await other
    assert turns >= 4
