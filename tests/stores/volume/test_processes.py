"""Several processes on one file: nobody's change is lost, and a killed one leaves no damage."""

import asyncio
import os
import random
import signal
import subprocess
import sys

import pytest

from bailiwick.errors import HashMismatch
from tests.stores.volume.trees import tree_of
from tests.stores.volume.volumes import opened
from tests.waiting import let_pass, until

PROCESSES, INCREMENTS = 8, 200

COUNTING = """
import asyncio, sys
from bailiwick.errors import HashMismatch
from bailiwick.stores.volume import VolumeStore
from bailiwick.testing.driver import StoreDriver

async def main(path, times):
    fs = StoreDriver(VolumeStore.open(path))
    done = 0
    while done < times:
        stat = await fs.stat("counter")
        number = int(await fs.read("counter"))
        try:
            await fs.write("counter", b"%d" % (number + 1), expected_version=stat.version)
            done += 1
        except HashMismatch:
            pass
    await fs.aclose()

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""

WRITING = """
import asyncio, os, sys
from bailiwick.stores.volume import VolumeStore
from bailiwick.testing.driver import StoreDriver

async def write(fs, name):
    number = 0
    while True:
        number += 1
        size = (10, 5_000, 600_000)[number % 3] if number % 20 else 1_600_000
        data = b"%d " % number * (size // (len(str(number)) + 1))
        await fs.write(f"{name}/f{number % 5}", data, parents=True)
        if number % 7 == 0:
            await fs.move(f"{name}/f{number % 5}", f"{name}/moved", replace=True)
            os.write(1, b"%s moved %d %d\\n" % (name.encode(), number, len(data)))
        else:
            os.write(1, b"%s f%d %d %d\\n" % (name.encode(), number % 5, number, len(data)))

async def main(path, prefix):
    fs = StoreDriver(VolumeStore.open(path))
    await asyncio.gather(*(write(fs, f"{prefix}{n}") for n in range(8)))

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


def start(source, *arguments, **options):
    return subprocess.Popen([sys.executable, "-c", source, *map(str, arguments)], **options)


@pytest.mark.slow
@pytest.mark.spec("VOL-4", "WRITE-2")
async def test_swaps_of_many_processes_lose_nothing(tmp_path):
    path = tmp_path / "v.db"
    async with opened(path) as fs:
        await fs.write("counter", b"0")
        processes = [start(COUNTING, path, INCREMENTS) for _ in range(PROCESSES)]
        codes = [await asyncio.to_thread(process.wait) for process in processes]
        assert codes == [0] * PROCESSES
        assert await fs.read("counter") == b"%d" % (PROCESSES * INCREMENTS)
        assert (await fs.store.versions.check()).problems == []


def last_acknowledged(said):
    """The newest content of each name that was acknowledged, from what a process printed."""
    newest = {}
    for line in said.decode().splitlines():
        parts = line.split()
        if len(parts) != 4:
            continue  # the kill came in the middle of the line
        name, file, number, size = parts
        newest[name, file] = (int(number), int(size))
    return newest


def is_at_least(data, number, size):
    """Whether a file holds what was acknowledged, or something written after it, whole."""
    found = int(data.split(b" ", 1)[0])
    whole = b"%d " % found
    return (
        found >= number
        and data == whole * (len(data) // len(whole))
        and (found > number or len(data) == size)
    )


@pytest.mark.slow
@pytest.mark.spec("VOL-3", "VOL-4")
async def test_whoever_is_killed_leaves_what_was_acknowledged(tmp_path):
    kills = 0
    seed = random.Random(7)
    while kills < 30:
        path = tmp_path / f"v{kills}.db"
        async with opened(path):
            pass
        files = [open(tmp_path / f"said{number}", "wb") for number in range(2)]  # noqa: SIM115
        processes = [
            start(WRITING, path, f"p{number}", stdout=file) for number, file in enumerate(files)
        ]
        await wait_until_both_write(tmp_path, processes)
        await let_pass(seed.uniform(0.0, 0.3))
        for process in processes:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
        for file in files:
            file.close()
        said = b"".join((tmp_path / f"said{number}").read_bytes() for number in range(2))
        async with opened(path) as fs:
            for (name, file), (number, size) in last_acknowledged(said).items():
                if file == "moved":
                    data = await fs.read(f"{name}/moved")
                    assert is_at_least(data, number, size), (name, file)
            tree = await tree_of(fs.store)
            assert_acknowledged(tree, said)
            checked = await fs.store.versions.check()
            assert checked.problems == []
            await fs.store.versions.collect(keep_days=0)
            assert await tree_of(fs.store) == tree


async def wait_until_both_write(tmp_path, processes):
    def both_write():
        assert all(process.poll() is None for process in processes)
        return all((tmp_path / f"said{number}").stat().st_size >= 200 for number in range(2))

    await until(both_write)


def assert_acknowledged(tree, said):
    """Every acknowledged write is there, unless a later step of the same writer replaced it."""
    steps = {}
    for line in said.decode().splitlines():
        if len(line.split()) == 4:
            name, file, number, size = line.split()
            steps.setdefault(name, []).append((file, int(number), int(size)))
    for name, done in steps.items():
        files = {}
        for file, number, size in done:
            if file == "moved":
                files.pop(f"f{number % 5}", None)
            files[file] = (number, size)
        final = done[-1][1]
        for file, (number, size) in files.items():
            data = tree.get(f"{name}/{file}")
            # One more step may have been committed, and not yet acknowledged.
            replaced = file in (f"f{(final + 1) % 5}", "moved")
            assert (data is None and replaced) or is_at_least(data, number, size), (name, file)


@pytest.mark.spec("VOL-4")
async def test_a_change_of_another_process_is_seen_at_once(tmp_path):
    path = tmp_path / "v.db"
    async with opened(path) as fs:
        await fs.write("counter", b"0")
        await fs.write("d/e/f", b"x", parents=True)
        assert await fs.read("counter") == b"0"
        assert await fs.read("d/e/f") == b"x"
        process = start(COUNTING, path, 3)
        assert await asyncio.to_thread(process.wait) == 0
        assert await fs.read("counter") == b"3"
        with pytest.raises(HashMismatch):
            await fs.write("counter", b"9", expected_sha256="0" * 64)


@pytest.mark.spec("VOL-4")
async def test_two_stores_of_one_process_share_a_writer_and_see_each_other(tmp_path):
    async with opened(tmp_path / "v.db") as one, opened(tmp_path / "v.db") as two:
        assert one.store.core.database.file is two.store.core.database.file
        for number in range(20):
            await one.write("f", b"%d" % number)
            assert await two.read("f") == b"%d" % number
            await two.move("f", "g")
            with pytest.raises(FileNotFoundError):
                await one.read("f")
            await one.move("g", "f")
        await asyncio.gather(*(fs.append("log", b"x") for fs in (one, two) for _ in range(30)))
        assert await one.read("log") == b"x" * 60


@pytest.mark.spec("VOL-4")
async def test_writers_that_wait_together_share_a_commit(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        writer = fs.store.core.database.file.writer
        before = writer.transactions
        await asyncio.gather(*(fs.write(f"f{number}", b"x") for number in range(64)))
        assert writer.transactions - before < 16


async def test_a_forked_child_does_not_touch_what_its_parent_uses(tmp_path):
    script = f"""
import asyncio, os
from bailiwick.errors import Closed
from bailiwick.stores.volume import VolumeStore
from bailiwick.testing.driver import StoreDriver

async def main():
    fs = StoreDriver(VolumeStore.open({str(tmp_path / "v.db")!r}))
    await fs.write("f", b"x")
    child = os.fork()
    if child == 0:
        try:
            await fs.write("f", b"child")
        except Closed:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    await fs.write("f", b"parent")
    assert await fs.read("f") == b"parent"
    await fs.aclose()

asyncio.run(main())
"""
    process = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-W", "ignore", "-c", script], timeout=50
    )
    assert process.returncode == 0


def test_what_is_queued_is_kept_when_a_process_ends_without_closing(tmp_path):
    script = f"""
import asyncio
from bailiwick.stores.volume import VolumeStore
from bailiwick.testing.driver import StoreDriver
fs = StoreDriver(VolumeStore.open({str(tmp_path / "v.db")!r}))
asyncio.run(fs.write("f", b"x"))
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)

    async def look():
        async with opened(tmp_path / "v.db") as fs:
            return await fs.read("f")

    assert asyncio.run(look()) == b"x"
