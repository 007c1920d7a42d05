"""A volume in another database: the same answers to whatever is asked, versions and all."""

import asyncio
import contextlib
import os
import random
import subprocess
import sys
import threading
import tracemalloc

import pytest

from bailiwick.build.care import (
    copy_volume,
    create_volume,
    discard_copies,
    open_care,
    read_volume,
)
from bailiwick.build.options import Options
from bailiwick.build.places import blobs_of, volume_store
from bailiwick.errors import Busy, FileAlreadyExists, IoError, ParseError, RootNotFound
from bailiwick.paths import ROOT
from bailiwick.stores.volume import volume_copy
from bailiwick.stores.volume.content.blobs import FolderBlobs
from bailiwick.testing.driver import StoreDriver
from bailiwick.versions import Mark
from tests.stores.volume.volumes import by, in_database

pytestmark = [pytest.mark.spec("SCALE-2"), pytest.mark.slow]

NAMES = ["a", "b", "d/a", "d/b", "d/e/a", "f"]


@contextlib.asynccontextmanager
async def opened(place):
    fs = StoreDriver(volume_store(read_volume(place), Options()))
    try:
        yield fs
    finally:
        await fs.aclose()


def places(tmp_path, postgres, *kinds):
    """Addresses, of a file or of the server."""
    for number, kind in enumerate(kinds):
        folder = tmp_path / f"place{number}"
        folder.mkdir()
        if kind == "sqlite":
            yield f"sqlite:{folder}/v.db?volume=main"
        else:
            name = f"v{abs(hash((tmp_path, number)))}"
            yield f"{postgres.dsn}?volume={name}&blobs={folder}/blobs"


async def lived_in(place, seed, steps=40):
    """A volume with a past: branches, snapshots, transactions, and files of all sizes."""
    chance = random.Random(seed)
    async with opened(place) as main:
        branches = [main]
        try:
            for number in range(steps):
                fs = by(chance.choice(branches), Mark(subject="s", request_id=f"r{number}"))
                with contextlib.suppress(OSError):
                    await _step(chance, fs, branches, number)
        finally:
            for fork in branches[1:]:
                await fork.aclose()


async def _step(chance, fs, branches, number):
    name, other = chance.choice(NAMES), chance.choice(NAMES)
    match chance.randrange(10):
        case 0 | 1 | 2:
            size = chance.choice((3, 3, 5_000, 600_000, 1_600_000))
            await fs.write(name, chance.randbytes(size), parents=True)
        case 3:
            await fs.append(name, chance.randbytes(chance.choice((5, 5_000))))
        case 4:
            await fs.remove(name, recursive=True)
        case 5:
            await fs.move(name, other, replace=True)
        case 6:
            await fs.set_mode(name, chance.choice((0o600, 0o640)))
            await fs.symlink(f"link{number}", "a")
        case 7:
            await fs.store.versions.snapshot(f"s{number}")
        case 8 if len(branches) < 4:
            branches.append(StoreDriver(await fs.store.versions.fork(f"f{number}")))
        case _:
            draft = await fs.store.versions.begin()
            await StoreDriver(draft.store).write(name, b"in a draft", parents=True)
            await draft.commit(Mark())
            await draft.discard()


async def everything(fs):
    """All that a volume answers."""
    versions = fs.store.versions
    told = {"snapshots": await versions.snapshots(), "forks": await versions.forks()}
    for branch in ["main", *(each.name for each in told["forks"] if each.name != "main")]:
        store = await versions.open_fork(branch)
        try:
            told[branch] = await _tree(StoreDriver(store))
            told[branch, "log"] = await store.versions.beneath(ROOT, cursor=None, limit=10_000)
            for path in NAMES:
                with contextlib.suppress(FileNotFoundError):
                    place = (await StoreDriver(store).stat(path)).path
                    told[branch, path] = await store.versions.history(place, limit=1_000)
            log = told[branch, "log"].versions
            for version in {each.version for each in log[:: max(1, len(log) // 5)]}:
                then = await store.versions.as_of(version)
                told[branch, version] = await _tree(StoreDriver(then))
                await then.aclose()
        finally:
            await store.aclose()
    return told


async def _tree(fs):
    found, waiting = {}, ["."]
    while waiting:
        directory = waiting.pop()
        for entry in await fs.entries(directory):
            path = entry.name if directory == "." else f"{directory}/{entry.name}"
            if entry.type == "symlink":
                found[path] = await fs.readlink(path)
                continue
            stat = await fs.stat(path)
            data = await fs.read(path) if entry.type == "file" else None
            found[path] = (data, stat.mode, stat.mtime_ns, stat.version, stat.created_ns)
            if entry.type == "directory":
                waiting.append(path)
    return found


async def assert_same(source, target):
    async with opened(source) as here, opened(target) as there:
        assert await everything(here) == await everything(there)
        checked = await there.store.versions.check()
        assert checked.is_clean, checked.problems
        before = await there.read("a") if "a" in await _tree(there) else None
        await there.write("only/there", b"x", parents=True)  # and it goes on by itself
        await here.write("a", b"only here")
        if before is not None:
            assert await there.read("a") == before


KINDS = [("sqlite", "postgres"), ("postgres", "sqlite"), ("sqlite", "sqlite")]


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
@pytest.mark.parametrize("seed", range(3))
async def test_a_copy_gives_the_same_answers(postgres, tmp_path, kinds, seed):
    source, target = places(tmp_path, postgres, *kinds)
    await lived_in(source, seed)
    done = await copy_volume(source, target)
    assert (done.resumed, done.was_whole) == (False, False)
    again = await copy_volume(source, target)
    assert (again.rows, again.was_whole) == (0, True)
    await assert_same(source, target)
    with pytest.raises(FileAlreadyExists):
        await copy_volume(source, target)


@pytest.mark.parametrize("kinds", [("sqlite", "postgres"), ("postgres", "sqlite")], ids="-".join)
async def test_a_copy_that_is_killed_goes_on(postgres, tmp_path, kinds):
    """At instants here and there, each time a little later, until one has come to its end."""
    source, target = places(tmp_path, postgres, *kinds)
    await lived_in(source, 7)
    chance, killed, instant = random.Random(7), 0, 1
    while True:
        command = [sys.executable, "-m", "tests.stores.volume.copied", source, target, str(instant)]
        ended = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=False)
        if ended.returncode == 0:
            break
        assert ended.returncode == -9, ended.stderr.decode()
        killed += 1
        instant = 1 + int(instant * chance.uniform(1.2, 2.2))
    assert killed >= 4
    await assert_same(source, target)


async def test_what_is_changed_meanwhile_is_in_the_copy_or_is_not(postgres, tmp_path, monkeypatch):
    """As much as was there at one moment, whole."""
    source, target = places(tmp_path, postgres, "sqlite", "postgres")
    monkeypatch.setattr(volume_copy, "PAGE_ROWS", 8)
    async with opened(source) as fs:
        for number in range(30):
            await fs.write(f"d/{number:04}", b"x", parents=True)
        made = 30

        def told(*_):
            nonlocal made
            if made < 60:
                waiting.append(asyncio.ensure_future(fs.write(f"d/{made:04}", b"y")))
                waiting.append(asyncio.ensure_future(fs.move("d/0000", "d/0000")))
                made += 1

        waiting = []
        await copy_volume(source, target, told=told)
        await asyncio.gather(*waiting)
    async with opened(target) as there:
        names = [entry.name for entry in await there.entries("d")]
        assert names == [f"{number:04}" for number in range(len(names))]
        assert len(names) > 30
        assert (await there.store.versions.check()).is_clean


async def test_another_volume_is_not_written_over(postgres, tmp_path):
    source, target, other = places(tmp_path, postgres, "sqlite", "postgres", "sqlite")
    await lived_in(source, 1, steps=5)
    await lived_in(other, 2, steps=5)
    await create_volume(target)
    for from_, to, refusal in (
        (source, target, FileAlreadyExists),
        (source, other, FileAlreadyExists),
        (source, source, ParseError),
        (f"{source}&branch=try", target, ParseError),
        (source.replace("volume=main", "volume=none"), target, RootNotFound),
    ):
        with pytest.raises(refusal):
            await copy_volume(from_, to)
    async with opened(target) as fs:
        assert await fs.entries(".") == []


async def test_a_copy_that_was_begun_of_another_is_not_gone_on_with(tmp_path, monkeypatch):
    one, two, target = places(tmp_path, None, "sqlite", "sqlite", "sqlite")
    await lived_in(one, 1, steps=10)
    await lived_in(two, 2, steps=10)

    async def end(*_):
        raise IoError("the power went")

    monkeypatch.setattr(volume_copy.VolumeCopy, "_end", end)
    with pytest.raises(IoError):
        await copy_volume(one, target)
    monkeypatch.undo()
    with pytest.raises(RootNotFound):  # nobody opens what is not whole
        async with open_care(target):
            pass
    with pytest.raises(FileAlreadyExists, match="another volume"):
        await copy_volume(two, target)
    assert (await copy_volume(one, target)).resumed
    await assert_same(one, target)


@pytest.mark.parametrize("size", [3, 9_000])
async def test_what_is_damaged_is_not_copied(tmp_path, size):
    source, target = places(tmp_path, None, "sqlite", "sqlite")
    async with opened(source) as fs:
        await fs.write("a", bytes(size))
        table = "inode" if size < 9_000 else "chunk"
        value = b"\x01" * size
        await in_database(fs, f"UPDATE {table} SET data = $1 WHERE length(data) = $2", value, size)
    with pytest.raises(IoError):
        await copy_volume(source, target)
    with pytest.raises(RootNotFound):
        async with open_care(target):
            pass


async def test_large_content_is_copied_in_pieces(tmp_path):
    source, target = places(tmp_path, None, "sqlite", "sqlite")
    size = 64 * 1024 * 1024

    async def chunks():
        chance = random.Random(1)
        for _ in range(16):
            yield chance.randbytes(size // 16)

    async with opened(source) as fs:
        await fs.write_stream("large", chunks())
    tracemalloc.start()
    try:
        done = await copy_volume(source, target)
        assert tracemalloc.get_traced_memory()[1] < size // 2
    finally:
        tracemalloc.stop()
    assert done.bytes == size
    await assert_same(source, target)


def in_s3(s3, tmp_path, place):
    """The same place, its blobs in a bucket."""
    s3.make_bucket("copies")
    blobs = s3.url("copies", tmp_path.name).replace("?", "%3F").replace("&", "%26")
    return f"{place.partition('&blobs')[0]}&blobs={blobs}"


@pytest.mark.parametrize("kinds", [("sqlite", "sqlite"), ("sqlite", "postgres")], ids="-".join)
async def test_a_copy_has_its_blobs_in_an_object_store(s3, postgres, tmp_path, kinds):
    source, target = places(tmp_path, postgres, *kinds)
    target = in_s3(s3, tmp_path, target)
    await lived_in(source, 3)
    done = await copy_volume(source, target)
    assert done.bytes > 1_000_000
    await assert_same(source, target)
    # And back, from the object store alone.
    third = f"sqlite:{tmp_path}/third.db?volume=main"
    await copy_volume(target, third)
    await assert_same(target, third)


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "s3"])
async def test_a_copy_that_was_left_is_let_go_of(request, postgres, tmp_path, kind):
    source, target = places(tmp_path, postgres, "sqlite", "sqlite" if kind == "s3" else kind)
    if kind == "s3":
        target = in_s3(request.getfixturevalue("s3"), tmp_path, target)
    await lived_in(source, 3)
    other = f"sqlite:{tmp_path}/other.db?volume=main"
    await lived_in(other, 4)
    with pytest.raises(RootNotFound):
        await discard_copies(target)
    command = [sys.executable, "-m", "tests.stores.volume.copied", source, target, "40"]
    ended = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=False)
    assert ended.returncode == -9, ended.stderr.decode()
    with pytest.raises(FileAlreadyExists) as refused:
        await copy_volume(other, target)
    assert "discard-copy" in refused.value.hint
    done = await discard_copies(target)
    assert (done.copies, done.rows > 0) == (1, True)
    with pytest.raises(RootNotFound):
        await discard_copies(target)
    # Nothing of it is left, and the place is free.
    assert blob_keys(target) == []
    await copy_volume(other, target)
    await assert_same(other, target)
    with pytest.raises(RootNotFound):
        await discard_copies(target)  # what is whole is left alone


@pytest.mark.parametrize("tenth", range(11))
async def test_who_makes_a_copy_that_is_let_go_of_meanwhile_is_told_so_and_leaves_nothing(
    tmp_path, monkeypatch, tenth
):
    source, target, undisturbed = places(tmp_path, None, "sqlite", "sqlite", "sqlite")
    await lived_in(source, 4)
    counted, discarded = [], []
    await copy_volume(source, undisturbed, told=lambda step, _: counted.append(step))

    def let_go():
        other = threading.Thread(
            target=lambda: discarded.append(asyncio.run(discard_copies(target)).copies)
        )
        other.start()
        other.join()

    def told(step, _):
        if step == 1 + len(counted) * tenth // 10:
            let_go()

    if tenth == 10:  # no step is told between the last look and the end
        real = volume_copy.VolumeCopy._end

        async def ended(copy, *names):
            let_go()
            await real(copy, *names)

        monkeypatch.setattr(volume_copy.VolumeCopy, "_end", ended)
    with pytest.raises(Busy, match="let go of"):
        await copy_volume(source, target, told=told)
    assert discarded == [1]
    assert blob_keys(target) == []
    monkeypatch.undo()
    await copy_volume(source, target)
    await assert_same(source, target)


def blob_keys(target):
    blobs = blobs_of(read_volume(target))
    if blobs is None:
        blobs = FolderBlobs(f"{read_volume(target).file}-blobs")
    if isinstance(blobs, FolderBlobs):
        folder = blobs.description.removeprefix("folder:")
        return [name for _, _, names in os.walk(folder) for name in names]
    with contextlib.closing(blobs):
        import obstore

        return [each for page in obstore.list(blobs.store) for each in page]
