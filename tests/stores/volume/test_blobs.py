"""Blobs in a folder: durable before they are named, and what a failing disk or a kill leaves."""

import errno
import os
import signal
import subprocess
import sys
import time

import pytest

from bailiwick.errors import IoError
from bailiwick.model import MiB
from bailiwick.stores.volume.content import blobs as blobs_room
from bailiwick.stores.volume.content.blobs import FolderBlobs, new_key
from bailiwick.testing.contract import chunks
from tests.stores.volume.volumes import blob_files, opened

DAY_NS = 24 * 3600 * 10**9
UID = "0123456789abcdef"
BIG = os.urandom(5 * MiB)


def content(blobs, key, size=64):
    into = bytearray(size)
    return bytes(into[: blobs.fetch(key, memoryview(into))])


# --- the place itself ------------------------------------------------------------------------


@pytest.mark.spec("VOL-2")
def test_a_blob_is_what_was_put_until_it_is_deleted(tmp_path):
    blobs = FolderBlobs(str(tmp_path / "b"))
    key = new_key(UID, bytes(32))
    blobs.put(key, [b"one ", bytearray(b""), memoryview(b"blob")])
    assert content(blobs, key) == b"one blob"
    assert blobs.fetch(key, memoryview(bytearray(3))) == 8, "what does not fit is told"
    (found,) = blobs.all(UID)
    assert (found.key, found.size) == (key, 8)
    assert list(blobs.all("another")) == []
    for _ in range(2):
        blobs.delete(key)
    assert blobs.fetch(key, memoryview(bytearray(3))) == 0
    assert list(blobs.all(UID)) == []


@pytest.mark.spec("VOL-2")
def test_two_volumes_and_two_uploads_never_have_the_same_key():
    digest = bytes(32)
    keys = {new_key(uid, digest) for uid in (UID, "fedcba9876543210") for _ in range(50)}
    assert len(keys) == 100


@pytest.mark.spec("VOL-3")
@pytest.mark.parametrize("key", ["../out", "u/../../out", "/etc/x"])
def test_a_damaged_key_leads_nowhere(tmp_path, key):
    (tmp_path / "out").write_bytes(b"secret")
    blobs = FolderBlobs(str(tmp_path / "b"))
    for call in (
        lambda: blobs.put(key, [b"x"]),
        lambda: content(blobs, key),
        lambda: blobs.delete(key),
        lambda: list(blobs.all(key)),
    ):
        with pytest.raises(IoError):
            call()
    assert (tmp_path / "out").read_bytes() == b"secret"


class Calls:
    """The operating system, watched or failing in one of its calls."""

    def __init__(self, **instead):
        self.made = []
        self._instead = instead

    def __getattr__(self, name):
        found = self._instead.get(name, getattr(os, name))
        if name not in ("open", "writev", "fsync", "rename", "mkdir", "close"):
            return found

        def call(*arguments, **named):
            self.made.append(name)
            return found(*arguments, **named)

        return call


@pytest.mark.spec("VOL-3")
def test_a_blob_and_its_name_are_on_disk_when_put_returns(tmp_path, monkeypatch):
    calls = Calls()
    monkeypatch.setattr(blobs_room, "os", calls)
    blobs = FolderBlobs(str(tmp_path / "b"))
    key = new_key(UID, bytes(32))
    blobs.put(key, [b"x"])
    assert [name for name in calls.made if name not in ("open", "close")] == [
        *["mkdir", "fsync"] * 3,  # each folder on the way, and the one that it stands in
        *["writev", "fsync", "rename", "fsync"],
    ]
    calls.made.clear()
    blobs.put(new_key(UID, bytes(32)), [b"x"])
    assert calls.made.count("fsync") == 2
    calls.made.clear()
    FolderBlobs(str(tmp_path / "b")).put(new_key(UID, bytes(32)), [b"x"])
    assert calls.made.count("fsync") == 3, "who made the folder may have died before it was synced"


@pytest.mark.spec("VOL-3")
def test_short_writes_are_gone_on_with(tmp_path, monkeypatch):
    def short(descriptor, views):
        data = b"".join(views)
        return os.write(descriptor, data[: max(1, len(data) // 3)])

    monkeypatch.setattr(blobs_room, "os", Calls(writev=short))
    blobs = FolderBlobs(str(tmp_path / "b"))
    parts = [b"a" * 1000, b"", b"b", b"c" * 70_000, b"d" * 3]
    blobs.put("u/k", parts)
    assert content(blobs, "u/k", 100_000) == b"".join(parts)


@pytest.mark.spec("VOL-3")
def test_many_small_parts_are_one_blob(tmp_path):
    blobs = FolderBlobs(str(tmp_path / "b"))
    parts = [b"%d," % number for number in range(3_000)]
    blobs.put("u/k", parts)
    assert content(blobs, "u/k", 100_000) == b"".join(parts)


@pytest.mark.spec("VOL-8")
def test_a_folder_that_cannot_be_listed_is_not_an_empty_one(tmp_path, monkeypatch):
    def walk(top, onerror):
        onerror(PermissionError(errno.EACCES, "no"))
        yield from ()

    monkeypatch.setattr(blobs_room, "os", Calls(walk=walk))
    with pytest.raises(IoError):
        list(FolderBlobs(str(tmp_path)).all(UID))


# --- a disk that fails -------------------------------------------------------------------------


def failing(code, after=0):
    left = [after]

    def fail(*arguments, **named):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(code, os.strerror(code))
        return os.fsync(*arguments, **named)

    return fail


@pytest.mark.spec("VOL-3", "WRITE-3")
@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("writev", errno.ENOSPC),
        ("writev", errno.EDQUOT),
        ("fsync", errno.EIO),
        ("fsync", errno.ENOSPC),
        ("rename", errno.EROFS),
        ("mkdir", errno.ENOSPC),
    ],
)
async def test_a_disk_that_fails_leaves_the_old_content_and_no_litter(
    tmp_path, monkeypatch, call, code
):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("d/f", b"old", parents=True)
        with monkeypatch.context() as patch:
            patch.setattr(blobs_room, "os", Calls(**{call: failing(code)}))
            for write in (fs.write, fs.append):
                with pytest.raises(IoError) as caught:
                    await write("d/f", BIG)
                assert caught.value.path == "d/f"
                assert str(tmp_path) not in str(caught.value)
            if code == errno.ENOSPC:
                assert "full" in caught.value.hint
        assert await fs.read("d/f") == b"old"
        assert blob_files(tmp_path) == []
        await fs.write("d/f", BIG)
        assert await fs.read("d/f") == BIG
        assert (await fs.store.versions.check()).problems == []


@pytest.mark.spec("VOL-3", "WRITE-3")
async def test_a_disk_that_fails_late_leaves_no_litter_either(tmp_path, monkeypatch):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("f", b"old")
        with monkeypatch.context() as patch:
            patch.setattr(blobs_room, "os", Calls(fsync=failing(errno.ENOSPC, after=20)))
            with pytest.raises(IoError):
                await fs.write_stream("f", chunks.of(*[os.urandom(MiB) for _ in range(40)]))
        assert await fs.read("f") == b"old"
        assert blob_files(tmp_path) == []


class Unwilling(FolderBlobs):
    """Deletes nothing, and says how often it was asked."""

    asked = 0

    def put(self, key, parts):
        if len(list(self.all(key.partition("/")[0]))) > 2:
            raise IoError("no space")
        super().put(key, parts)

    def delete(self, key):
        self.asked += 1
        raise IoError("gone away")


@pytest.mark.spec("VOL-3", "VOL-8")
async def test_a_place_that_is_gone_is_not_asked_again_and_again(tmp_path):
    now = [time.time_ns()]
    blobs = Unwilling(str(tmp_path / "x-blobs"))
    async with opened(tmp_path / "v.db", blobs=blobs, clock_ns=lambda: now[0]) as fs:
        with pytest.raises(IoError, match="no space"):
            await fs.write_stream("f", chunks.of(*[os.urandom(4 * MiB) for _ in range(8)]))
        assert blobs.asked == 1
    assert blob_files(tmp_path) != []
    blobs = FolderBlobs(str(tmp_path / "x-blobs"))
    async with opened(tmp_path / "v.db", blobs=blobs, clock_ns=lambda: now[0]) as fs:
        now[0] += 2 * DAY_NS
        await fs.store.versions.collect()
        assert blob_files(tmp_path) == []


# --- a process that dies -----------------------------------------------------------------------

DYING = """
import asyncio, os, signal, sys
from bailiwick.stores.volume import VolumeStore, core
from bailiwick.stores.volume.content import blobs
from bailiwick.testing.driver import StoreDriver

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

async def main(path, moment):
    fs = StoreDriver(VolumeStore.open(path))
    if moment == "before the row":
        core.VolumeCore.change = die
    else:
        kept = os.rename
        done = [0]
        def rename(*names):
            done[0] += 1
            if done[0] == 2:
                if moment == "after the name":
                    kept(*names)
                die()
            kept(*names)
        blobs.os.rename = rename
    await fs.write("f", os.urandom(9 << 20))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.spec("VOL-3", "VOL-8")
@pytest.mark.parametrize("moment", ["before the name", "after the name", "before the row"])
async def test_a_kill_between_blob_and_row_leaves_the_old_file(tmp_path, moment):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("f", b"old")
        await fs.write("big", chunks.pattern(2 * MiB))
    kept = blob_files(tmp_path)
    command = [sys.executable, "-c", DYING, str(tmp_path / "v.db"), moment]
    ended = subprocess.run(command, timeout=120, capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    left = blob_files(tmp_path)
    assert len(left) > len(kept), "there is something to find"
    now = [time.time_ns()]
    async with opened(tmp_path / "v.db", clock_ns=lambda: now[0]) as fs:
        assert await fs.read("f") == b"old"
        assert (await fs.store.versions.check()).problems == []
        await fs.store.versions.collect(keep_days=0)
        assert blob_files(tmp_path) == left, "an upload may be under way"
        now[0] += 2 * DAY_NS
        await fs.store.versions.collect(keep_days=0)
        assert blob_files(tmp_path) == kept
        assert await fs.read("big") == chunks.pattern(2 * MiB)
