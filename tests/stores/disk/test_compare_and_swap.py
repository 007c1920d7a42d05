"""Compare-and-swap, append and truncate against those who do not ask first."""

import asyncio
import errno
import fcntl
import itertools
import os
import subprocess
import sys
import textwrap
from contextlib import closing

import pytest

from bailiwick.errors import (
    Busy,
    HashMismatch,
    IoError,
    IsADirectory,
    PathNotFound,
    SymlinkEscape,
)
from bailiwick.limits import Limits
from bailiwick.model import KiB, MiB
from bailiwick.paths import parse
from bailiwick.store import WritePlan
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.writes import current
from bailiwick.testing.contract.chunks import of, sha256_of

OLD, NEW, THEIRS, LATER = b"old", b"new", b"theirs", b"later still"


def put(path, content):
    """Replace as other programs do."""
    path.with_name("their-temp").write_bytes(content)
    path.with_name("their-temp").rename(path)


def rewrite(path, content):
    """Rewrite in place, keeping the inode."""
    with path.open("r+b") as file:
        file.write(content)
        file.truncate(len(content))


async def swap(fs, content=NEW, expected=OLD):
    return await fs.write("f", content, expected_sha256=sha256_of(expected))


@pytest.mark.spec("DISK-6", "WRITE-2")
@pytest.mark.parametrize("durability", ["full", "rename"])
async def test_a_swap_replaces_what_was_expected(every_place, durability):
    (every_place.root / "f").write_bytes(OLD)
    fs = every_place.open(durability=durability)
    result = await swap(fs)
    assert (result.created, result.sha256) == (False, sha256_of(NEW))
    assert (await fs.stat("f")).version == result.version
    with pytest.raises(HashMismatch) as caught:
        await swap(fs)
    assert caught.value.details == {
        "current_sha256": sha256_of(NEW),
        "current_version": result.version,
    }
    assert every_place.tree() == {"f": NEW}


@pytest.mark.spec("DISK-6")
@pytest.mark.parametrize("change", [put, rewrite])
@pytest.mark.parametrize("way", ["write", "stream", "version"])
async def test_a_foreign_writer_at_the_last_instant_is_never_clobbered(place, faults, change, way):
    file = place.root / "f"
    file.write_bytes(OLD)
    fs = place.open()
    expected = {"expected_sha256": sha256_of(OLD)}
    if way == "version":
        expected = {"expected_version": (await fs.stat("f")).version}
    faults.on("exchange", lambda *_: change(file, THEIRS))
    write = fs.write_stream if way == "stream" else fs.write
    with pytest.raises(HashMismatch) as caught:
        await write("f", of(NEW) if way == "stream" else NEW, **expected)
    assert caught.value.details["current_sha256"] == sha256_of(THEIRS)
    assert place.tree() == {"f": THEIRS}


@pytest.mark.spec("DISK-6")
async def test_the_newest_of_several_foreign_writers_stays(place, monkeypatch):
    file = place.root / "f"
    file.write_bytes(OLD)
    fs = place.open()
    contents = [b"%d" % number for number in range(12, 0, -1)]
    real = syscalls.exchange

    def disturbed(*args):
        if contents:
            put(file, contents.pop())
        real(*args)

    monkeypatch.setattr(syscalls, "exchange", disturbed)
    with pytest.raises(HashMismatch):
        await swap(fs)
    assert contents == []
    assert place.tree() == {"f": b"12"}
    assert place.litter() == []


@pytest.mark.spec("DISK-6")
async def test_foreign_writers_who_never_stop_keep_what_is_theirs(place, monkeypatch):
    file = place.root / "f"
    file.write_bytes(OLD)
    fs = place.open()
    real, count = syscalls.exchange, itertools.count(1)

    def disturbed(*args):
        put(file, b"%d" % next(count))
        real(*args)

    monkeypatch.setattr(syscalls, "exchange", disturbed)
    with pytest.raises(Busy):
        await swap(fs)
    assert place.tree() == {"f": b"%d" % (next(count) - 1)}
    assert place.litter() == []


@pytest.mark.spec("DISK-6")
async def test_a_foreign_writer_between_the_swap_and_its_undoing_wins(place, faults):
    file = place.root / "f"
    file.write_bytes(OLD)
    fs = place.open()
    faults.on("exchange", lambda *_: put(file, THEIRS))
    second = []

    def once_more(*_args):
        second.append(file.read_bytes())
        put(file, LATER)

    faults.on("exchange", once_more, nth=2)
    with pytest.raises(HashMismatch) as caught:
        await swap(fs)
    assert second == [NEW]
    assert caught.value.details["current_sha256"] == sha256_of(LATER)
    assert place.tree() == {"f": LATER}


@pytest.mark.spec("DISK-6")
async def test_a_directory_or_link_put_there_at_the_last_instant_stays(place, faults):
    file = place.root / "f"
    fs = place.open()
    for make in (file.mkdir, lambda: file.symlink_to("../outside/secret")):
        file.write_bytes(OLD)

        def put_there(*_args, make=make):
            file.unlink()
            make()

        faults.calls.clear()
        faults.on("exchange", put_there)
        with pytest.raises((IsADirectory, SymlinkEscape)):
            await swap(fs)
        assert place.tree() in ({"f": None}, {"f": "../outside/secret"})
        os.rmdir(file) if file.is_dir() and not file.is_symlink() else file.unlink()
    assert (place.outside / "secret").read_bytes() == b"secret"


@pytest.mark.spec("DISK-6")
async def test_a_file_removed_at_the_last_instant_is_missed(place, faults):
    file = place.root / "f"
    file.write_bytes(OLD)
    fs = place.open()
    faults.on("exchange", lambda *_: file.unlink())
    with pytest.raises(HashMismatch) as caught:
        await swap(fs)
    assert caught.value.details == {"current_sha256": None, "current_version": None}
    assert place.tree() == {}


async def test_what_was_taken_out_goes_back_where_the_name_is_gone(place, faults):
    file = place.root / "f"
    file.write_bytes(OLD)
    fs = place.open()
    faults.on("exchange", lambda *_: put(file, THEIRS))
    faults.on("exchange", lambda *_: file.unlink(), nth=2)
    with pytest.raises(HashMismatch):
        await swap(fs)
    assert place.tree() == {"f": THEIRS}


async def test_a_fault_while_verifying_undoes_the_swap(place, monkeypatch):
    (place.root / "f").write_bytes(OLD)
    fs = place.open()
    real = os.pread
    reads = []

    def failing(*args):
        reads.append(args)
        if len(reads) == 2:  # the old content before the exchange, then once more after it
            raise OSError(errno.EIO, "")
        return real(*args)

    monkeypatch.setattr(current.os, "pread", failing)
    with pytest.raises(IoError):
        await swap(fs)
    monkeypatch.undo()
    assert place.tree() == {"f": OLD}


@pytest.mark.spec("DISK-6")
@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS])
async def test_without_exchange_the_look_comes_right_before_the_rename(place, faults, number):
    (place.root / "f").write_bytes(OLD)
    faults.fail_always("exchange", number)
    fs = place.open()
    assert fs.store.description["compare_and_swap"] == "exchange"
    await swap(fs)
    assert fs.store.description["compare_and_swap"] == "check-then-rename"
    with pytest.raises(HashMismatch):
        await swap(fs)
    await fs.append("f", b"!")
    assert place.tree() == {"f": NEW + b"!"}


@pytest.mark.spec("WRITE-3")
@pytest.mark.parametrize("change", [put, rewrite])
async def test_append_and_truncate_start_over_on_foreign_content(place, faults, change):
    file = place.root / "f"
    file.write_bytes(OLD)
    fs = place.open()
    faults.on("exchange", lambda *_: change(file, THEIRS))
    assert (await fs.append("f", b"!")).sha256 == sha256_of(THEIRS + b"!")
    assert place.tree() == {"f": THEIRS + b"!"}
    faults.calls.clear()
    await fs.truncate("f", 4)
    assert place.tree() == {"f": THEIRS[:4]}


async def test_an_append_that_never_gets_through_is_busy(place, monkeypatch):
    file = place.root / "f"
    file.write_bytes(OLD)
    fs = place.open(limits=Limits(busy_retries_max=5))
    real = syscalls.exchange
    count = iter(range(10**6))

    def disturbed(directory, source, to, target):
        if source.startswith(".bailiwick~") and not next(count) % 2:
            put(file, os.urandom(8))
        real(directory, source, to, target)

    monkeypatch.setattr(syscalls, "exchange", disturbed)
    with pytest.raises(Busy):
        await fs.append("f", b"!")
    assert place.litter() == []


async def test_an_append_to_a_file_made_meanwhile_is_an_append(place, faults):
    fs = place.open()
    faults.on("rename_new", lambda *_: (place.root / "f").write_bytes(THEIRS) and None)
    assert not (await fs.append("f", b"!")).created
    assert place.tree() == {"f": THEIRS + b"!"}


@pytest.mark.spec("DISK-6")
async def test_a_lock_held_by_another_process_is_waited_for_and_then_busy(place):
    (place.root / "f").write_bytes(OLD)
    fs = place.open(limits=Limits(lock_wait_seconds_max=0.05))
    with (place.root / "f").open() as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        with pytest.raises(Busy):
            await swap(fs)
        # What expects nothing waits for nobody.
        await fs.write("f", b"plain")
    await swap(fs, expected=b"plain")
    assert place.tree() == {"f": NEW}


@pytest.mark.spec("LIFE-1")
async def test_waiting_for_a_lock_can_be_cancelled(place):
    (place.root / "f").write_bytes(OLD)
    fs = place.open()
    with (place.root / "f").open() as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await swap(fs)
    assert place.tree() == {"f": OLD}


async def test_a_filesystem_without_locks_still_swaps(place, faults):
    (place.root / "f").write_bytes(OLD)
    fs = place.open()
    await fs.write("warm", b"")
    faults.fail_always("try_lock", errno.ENOLCK)
    await swap(fs)
    assert place.tree() == {"f": NEW, "warm": b""}


async def test_large_files_are_appended_to_and_cut(place):
    data = os.urandom(3 * MiB + 1)
    fs = place.open()
    await fs.write("f", data)
    assert (await fs.append("f", b"end")).sha256 == sha256_of(data + b"end")
    assert (await fs.truncate("f", 2 * MiB)).sha256 == sha256_of(data[: 2 * MiB])
    extended = data[: 2 * MiB] + bytes(2 * MiB)
    assert (await fs.truncate("f", 4 * MiB)).sha256 == sha256_of(extended)
    with pytest.raises(PathNotFound):
        await fs.truncate("nothing", 4)


@pytest.mark.spec("WRITE-6")
async def test_writers_of_one_path_take_turns_and_others_do_not_wait(place, monkeypatch):
    fs = place.open(durability="full")
    await fs.write("f", OLD)
    loop, gate, reached = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
    real, seen = syscalls.flush, []

    def waits(fd):
        seen.append(fd)
        first = len(seen) == 1
        loop.call_soon_threadsafe(reached.set)  # from here on others come
        if first:
            asyncio.run_coroutine_threadsafe(gate.wait(), loop).result(120)
        return real(fd)

    monkeypatch.setattr(syscalls, "flush", waits)
    first = asyncio.create_task(fs.write("f", b"1" * KiB))
    await reached.wait()
    second = asyncio.create_task(fs.write("f", b"2" * KiB))
    await fs.write("g", b"not in the way")
    assert not first.done()
    assert not second.done()
    gate.set()
    await asyncio.gather(first, second)
    assert place.tree()["f"] == b"2" * KiB


async def test_a_small_swap_waits_for_no_thread_unless_another_holds_the_lock(place):
    fs = place.open()
    await fs.write("f", OLD)
    handle = await fs.store.resolve(parse("f").path, "entry")
    plan = WritePlan(mode="replace", expected_sha256=sha256_of(OLD))
    with closing(handle), pytest.raises(StopIteration) as ended:
        fs.store.write(handle, NEW, sha256_of(NEW), plan).send(None)
    assert ended.value.value.sha256 == sha256_of(NEW)
    assert place.tree() == {"f": NEW}

    holder = os.open(place.root / "f", os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    swapping = asyncio.create_task(fs.write("f", OLD, expected_sha256=sha256_of(NEW)))
    await fs.write("g", b"the loop does not stand still")
    assert not swapping.done()
    os.close(holder)
    await swapping
    assert place.tree()["f"] == OLD


# --- processes -------------------------------------------------------------------------------

WORKER = textwrap.dedent(
    """
    import asyncio, sys
    from bailiwick.errors import Busy, HashMismatch
    from bailiwick.stores.disk import DiskStore
    from bailiwick.testing.contract.chunks import sha256_of
    from bailiwick.testing.driver import StoreDriver

    root, state, task, number, rounds = sys.argv[1:]

    async def increment(fs):
        while True:
            content = await fs.read("counter")
            try:
                await fs.write(
                    "counter", str(int(content) + 1).encode(), expected_sha256=sha256_of(content)
                )
                return
            except (HashMismatch, Busy):
                continue

    async def append(fs, turn):
        while True:
            try:
                await fs.append("log", f"{number}:{turn}\\n".encode())
                return
            except Busy:
                continue

    async def main():
        fs = StoreDriver(DiskStore.open(root, state_dir=state, durability="rename"))
        for turn in range(int(rounds)):
            await (increment(fs) if task == "increment" else append(fs, turn))
        await fs.aclose()

    asyncio.run(main())
    """
)


def run_processes(place, task, count, rounds):
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, place.root, place.state, task, str(n), str(rounds)],
            stderr=subprocess.PIPE,
        )
        for n in range(count)
    ]
    for worker in workers:
        _, errors = worker.communicate(timeout=120)
        assert worker.returncode == 0, errors.decode()


@pytest.mark.slow
@pytest.mark.spec("DISK-6")
def test_no_increment_is_lost_among_eight_processes(place):
    (place.root / "counter").write_bytes(b"0")
    run_processes(place, "increment", 8, 50)
    assert place.tree() == {"counter": b"400"}
    assert place.journals() == []


@pytest.mark.slow
@pytest.mark.spec("WRITE-3", "DISK-6")
def test_no_append_is_lost_among_eight_processes(place):
    run_processes(place, "append", 8, 30)
    lines = place.tree()["log"].decode().splitlines()
    assert sorted(lines) == sorted(f"{n}:{turn}" for n in range(8) for turn in range(30))
    assert place.litter() == []
