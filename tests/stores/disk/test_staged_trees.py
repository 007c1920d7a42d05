"""Staged trees on a real disk: calls that fail one by one, others who interfere, and kill -9."""

import errno
import os
import shutil
import signal
import subprocess
import sys

import pytest

from bailiwick.errors import BailiwickError, Busy, FileAlreadyExists, SymlinkEscape
from bailiwick.paths import ScopedPath
from bailiwick.store import Staged
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.writes import publisher, staged_trees, tree_merge
from tests.stores.disk.conftest import hold

pytestmark = pytest.mark.spec("ARCH-1", "DISK-4")


def new_file(text, **fields):
    return Staged(ScopedPath(text), "file", **fields)


STEPS = [
    Staged(ScopedPath("d"), "directory", 0o500, 10**18), new_file("d/a", file_mode=0o640), b"one",
    new_file("b"), b"two", new_file("n/m/c"), b"three", Staged(ScopedPath("l"), "symlink",
    target="b"), Staged(ScopedPath("copy"), "copy", target="b"),
]  # fmt: skip

MADE = {
    "d": None, "d/a": b"one", "b": b"two", "n": None, "n/m": None, "n/m/c": b"three", "l": "b",
    "copy": b"two",
}  # fmt: skip


async def publish(fs, replace=None, meanwhile=lambda: None):
    """Stage `STEPS`, and publish them as ``out`` or merge them into it."""
    entry = await hold(fs, "out", "entry")
    try:
        stage = await fs.store.stage(entry, size_max=100)
        try:
            await stage.add(STEPS)
            meanwhile()
            if replace is None:
                await stage.publish()
            else:
                await stage.merge(replace=replace)
        finally:
            await stage.discard()
    finally:
        entry.close()


def standing(place):
    """A directory with some of the names in it."""
    out = place.root / "out"
    (out / "n").mkdir(parents=True)
    (out / "b").write_bytes(b"old b")
    (out / "n" / "kept").write_bytes(b"kept")


CALLS = ("mkdir", "open_at", "write", "rename_new", "exchange", "flush", "flush_all", "unlink")


@pytest.mark.parametrize("durability", ["rename", "full"])
@pytest.mark.parametrize("merges", [False, True])
@pytest.mark.parametrize("name", CALLS)
async def test_any_call_that_fails_leaves_the_tree_as_it_was(
    place, name, merges, durability, monkeypatch
):
    """Each call in turn: the tree is then as it was, or complete; nothing lies about."""
    monkeypatch.setattr(staged_trees, "FLUSHED_SINGLY_MAX", 2)
    module = publisher.syscalls
    for nth in range(1, 40):
        shutil.rmtree(place.root / "out", ignore_errors=True)
        if merges:
            standing(place)
        before = place.tree()
        fs = place.open(durability=durability)
        with pytest.MonkeyPatch.context() as patch:
            count = 0
            real = getattr(module, name)

            def failing(*args, real=real, nth=nth, **kwargs):
                nonlocal count
                count += 1
                if count == nth:
                    raise OSError(errno.EIO, "injected")
                return real(*args, **kwargs)

            patch.setattr(module, name, failing)
            try:
                await publish(fs, replace=True if merges else None)
                failed = False
            except BailiwickError:
                failed = True
        await fs.store.aclose()
        place._stores.clear()
        if failed:
            # What could not be cleared is cleared by the next start.
            again = place.open()
            await again.store.aclose()
            place._stores.clear()
            assert place.tree() == before, f"{name} {nth}"
        else:
            assert {f"out/{path}" for path in MADE} <= set(place.tree())
        assert place.litter() == [] or not failed
        if count < nth:
            return
    pytest.fail("there is no end to these calls")


@pytest.mark.parametrize("merges", [False, True])
@pytest.mark.parametrize("at_once", [False, True])
async def test_everything_is_durable_before_it_appears(place, monkeypatch, merges, at_once):
    """Many files are flushed together, where that can be done, and before they get their names."""
    calls = []

    def watch(name):
        real = getattr(syscalls, name)

        def call(*args, **kwargs):
            calls.append(name)
            return real(*args, **kwargs)

        monkeypatch.setattr(syscalls, name, call)

    monkeypatch.setattr(syscalls, "CAN_FLUSH_ALL", at_once)
    for name in ("flush", "flush_all", "rename_new"):
        watch(name)
    if merges:
        (place.root / "out").mkdir()
    fs = place.open(durability="full")
    entry = await hold(fs, "out", "entry")
    stage = await fs.store.stage(entry, size_max=100)
    count = 100
    await stage.add([new_file(f"f{number}") for number in range(count)])
    await (stage.merge(replace=False) if merges else stage.publish())
    await stage.discard()
    entry.close()
    before = calls[: calls.index("rename_new")]
    singly, together = before.count("flush"), before.count("flush_all")
    assert (together == 1 and singly < count) if at_once else (together == 0 and singly >= count)
    assert calls[-1] == "flush", "the names are durable too"


async def test_where_names_cannot_be_exchanged(every_place, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EINVAL, "no such rename")

    monkeypatch.setattr(syscalls, "exchange", refuse)
    monkeypatch.setattr(syscalls, "rename_new", refuse)
    standing(every_place)
    fs = every_place.open()
    await publish(fs, replace=True)
    found = {path: content for path, content in every_place.tree().items() if path != "out"}
    assert found == {f"out/{path}": content for path, content in MADE.items()} | {
        "out/n/kept": b"kept"
    }
    assert every_place.litter() == []


async def test_undone_where_names_cannot_be_exchanged(place, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EINVAL, "no such rename")

    monkeypatch.setattr(syscalls, "exchange", refuse)
    monkeypatch.setattr(syscalls, "rename_new", refuse)
    standing(place)
    (place.root / "out" / "l").write_bytes(b"in the way of a link")
    before = place.tree()
    fs = place.open()
    with pytest.raises(FileAlreadyExists):
        await publish(fs, replace=True)
    assert place.tree() == before


async def test_a_link_that_takes_a_name_in_the_last_instant_is_put_back(place, monkeypatch):
    """Exchanged first, looked at then: what came out was no file, so all is undone."""
    standing(place)
    out, secret = place.root / "out", place.outside / "secret"
    real = syscalls.exchange

    def swap_in_a_link(*args):
        if not (out / "b").is_symlink():
            (out / "b").unlink()
            (out / "b").symlink_to(secret)
        return real(*args)

    monkeypatch.setattr(syscalls, "exchange", swap_in_a_link)
    fs = place.open()
    with pytest.raises(SymlinkEscape):
        await publish(fs, replace=True)
    assert (out / "b").is_symlink()
    assert secret.read_bytes() == b"secret"
    assert place.litter() == []


async def test_what_others_put_there_meanwhile_is_theirs(place, monkeypatch):
    """Undoing takes back what the merge made, and nothing else."""
    standing(place)
    out = place.root / "out"
    (out / "l").write_bytes(b"in the way of a link")
    real = tree_merge.TreeMerge._undo

    def interfere_then_undo(merge):
        (out / "d" / "a").unlink()
        (out / "d" / "a").write_bytes(b"theirs")
        (out / "n" / "m" / "more").write_bytes(b"theirs too")
        (out / "b").unlink()
        (out / "b").write_bytes(b"their b")
        real(merge)

    monkeypatch.setattr(tree_merge.TreeMerge, "_undo", interfere_then_undo)
    fs = place.open()
    with pytest.raises(FileAlreadyExists):
        await publish(fs, replace=True)
    assert (out / "d" / "a").read_bytes() == b"theirs"
    assert (out / "n" / "m" / "more").read_bytes() == b"theirs too"
    assert (out / "b").read_bytes() == b"their b"
    assert not (out / "n" / "m" / "c").exists()
    assert place.litter() == []


@pytest.mark.parametrize("merges", [False, True])
async def test_a_directory_that_was_moved_away_is_not_changed(both_places, merges):
    place = both_places
    (place.root / "d" / "out").mkdir(parents=True)
    fs = place.open()
    entry = await hold(fs, "d/out" if merges else "d/new", "entry")
    stage = await fs.store.stage(entry, size_max=100)
    await stage.add(STEPS)
    os.rename(place.root / "d", place.outside / "moved")
    with pytest.raises(Busy):
        await (stage.merge(replace=True) if merges else stage.publish())
    await stage.discard()
    entry.close()
    assert sorted(os.listdir(place.outside / "moved")) == ["out"]
    assert os.listdir(place.outside / "moved" / "out") == []


async def test_a_directory_swapped_for_a_link_in_the_stage_is_not_followed(place):
    fs = place.open()
    entry = await hold(fs, "out", "entry")
    stage = await fs.store.stage(entry, size_max=100)
    await stage.add([new_file("d/a"), b"x", new_file("b"), b"y"])
    (name,) = place.litter()[:1]
    top = place.root / name.split("/")[0]
    os.rename(top / "d", top / "old")
    os.symlink(place.outside, top / "d")
    # The way back into it leads over its name, which is a link by now.
    with pytest.raises(BailiwickError):
        await stage.add([new_file("d/evil"), b"x"])
    await stage.discard()
    entry.close()
    assert sorted(os.listdir(place.outside)) == ["secret"]
    assert (place.outside / "secret").stat().st_mode & 0o777 != 0o700
    assert place.litter() == []


KILLED = """
import asyncio, os, signal, sys
from bailiwick.paths import ScopedPath
from bailiwick.store import Staged
from bailiwick.stores.disk import DiskStore, syscalls

root, state, call, nth, merges = sys.argv[1:]
real, count = getattr(syscalls, call), 0

def die(*args, **kwargs):
    global count
    count += 1
    if count == int(nth):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **kwargs)

setattr(syscalls, call, die)

async def main():
    store = DiskStore.open(root, state_dir=state, durability="rename")
    entry = await store.resolve(ScopedPath("out"), "entry")
    stage = await store.stage(entry, size_max=100)
    for name in ("b", "d/a", "n/m/c"):
        await stage.add([Staged(ScopedPath(name), "file"), b"new " + name.encode()])
    await (stage.merge(replace=True) if merges == "merge" else stage.publish())
    await stage.discard()
    entry.close()
    await store.aclose()

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [pytest.param("new", marks=pytest.mark.slow), "merge"])
@pytest.mark.parametrize(
    ("call", "nths"),
    [("mkdir", (1, 2, 4, 6)), ("write", (1, 3)), ("rename_new", (1, 2)), ("exchange", (1,))],
)
def test_killed_at_any_step(place, how, call, nths):
    """A new directory is there or not; merged files are whole; the next start clears the rest."""
    for nth in nths:
        shutil.rmtree(place.root / "out", ignore_errors=True)
        if how == "merge":
            standing(place)
        before = place.tree()
        command = [sys.executable, "-c", KILLED, str(place.root), str(place.state), call, str(nth)]
        ended = subprocess.run([*command, how], check=False, capture_output=True, text=True)
        assert ended.returncode in (-signal.SIGKILL, 0), ended.stderr
        place.open()
        after = place.tree()
        assert place.litter() == []
        if how == "new":
            assert after == before or ended.returncode == 0
            continue
        assert after["out/b"] in (b"old b", b"new b")
        assert after.get("out/d/a", b"new d/a") == b"new d/a"
        assert after.get("out/n/m/c", b"new n/m/c") == b"new n/m/c"
        assert after["out/n/kept"] == b"kept"
