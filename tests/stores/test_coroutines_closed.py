"""A coroutine that is closed instead of awaited to its end: `close()`, or a loop that has gone.

It is closed at every one of its suspension points in turn. Nothing may be at work when `close`
returns: whatever the coroutine held is let go of then, and a thread would act on what has the same
numbers next.
"""

import asyncio
import contextlib
import gc
import hashlib
import os
import threading

import pytest

import bailiwick
from bailiwick.sqlite.writer import Frame, Writer
from bailiwick.stores.disk.workers import Workers

OLD, NEW = b"old " * 100_000, b"new " * 100_000
OLD_SHA256 = hashlib.sha256(OLD).hexdigest()


VERBS = {
    "write": lambda fs: fs.write_bytes("f", NEW),
    "replace": lambda fs: fs.write_bytes("f", NEW, mode="replace", expected_sha256=OLD_SHA256),
    "append": lambda fs: fs.append("f", b"more"),
    "truncate": lambda fs: fs.truncate("f", 4),
    "edit": lambda fs: fs.edit("t", old="old", new="new"),
    "copy": lambda fs: fs.copy("f", "g"),
    "copy a tree": lambda fs: fs.copy("d", "e", recursive=True),
    "move": lambda fs: fs.move("d", "e"),
    "remove": lambda fs: fs.remove("d", recursive=True),
    "make_dir": lambda fs: fs.make_dir("a/b/c", parents=True),
    "symlink": lambda fs: fs.symlink("s", "f"),
    "read": lambda fs: fs.read_bytes("f"),
}

CASES = [
    (verb, kind)
    for verb in VERBS
    for kind in ("disk", "history", "volume")
    # There the coroutine waits inside an asynchronous generator. Python 3.11 does not close one
    # whose reader is closed, and nobody else can.
    if kind != "history" or verb not in ("write", "replace", "append", "truncate")
]


async def _closed_after(coroutine, steps):
    """Step a coroutine so often, waiting for what it waits for, and close it where it then waits.
    Whether it had ended before."""
    for left in range(steps, -1, -1):
        try:
            waited_for = coroutine.send(None)
        except StopIteration:
            return True
        if not left:
            break
        if waited_for is None:
            await asyncio.sleep(0)
        else:
            waited_for._asyncio_future_blocking = False
            await asyncio.wait((waited_for,))
    coroutine.close()
    return False


async def _planted(fs):
    await fs.write_bytes("f", OLD)
    await fs.write_text("t", "an old text\n")
    for number in range(3):
        await fs.write_text(f"d/{number}", "inner", parents=True)


async def _content(fs):
    """All that is there, as the scope shows it."""
    found = {}
    for entry in (await fs.find(include_ignored=True)).matches:
        data = (await fs.read_bytes(entry.path)).data if entry.type == "file" else b""
        found[entry.path] = entry.type, hashlib.sha256(data).hexdigest()
    return found


def _place(kind, directory):
    directory.mkdir(parents=True)
    if kind == "volume":
        return f"sqlite:{directory}/v.db", {}
    (directory / "tree").mkdir()
    history = "on" if kind == "history" else "off"
    return str(directory / "tree"), {"state_dir": str(directory / "state"), "history": history}


@pytest.mark.spec("LINE-5", "LIFE-2")
@pytest.mark.parametrize(("verb", "kind"), CASES)
async def test_nothing_goes_on_when_a_coroutine_is_closed(tmp_path, verb, kind):
    decoy = tmp_path / "decoy"
    decoy.mkdir()
    before = await _before_and_after(tmp_path / "whole", kind, verb)
    ended, steps = False, 0
    while not ended:
        place, options = _place(kind, tmp_path / str(steps))
        with contextlib.ExitStack() as decoys:
            async with bailiwick.open(place, **options) as fs:
                await _planted(fs)
                ended = await _closed_after(VERBS[verb](fs), steps)
                gc.collect()
                for _ in range(30):  # these get the numbers that were let go of
                    fd = os.open(decoy, os.O_RDONLY)
                    decoys.callback(os.close, fd)
                left = await _content(fs)
            async with bailiwick.open(place, **options) as fs:
                assert await _content(fs) == left, f"something went on after step {steps}"
        assert not os.listdir(decoy)
        if verb not in ("copy a tree", "remove"):  # which are done file by file
            assert left in before, f"neither old nor new after step {steps}"
        steps += 1


async def _before_and_after(directory, kind, verb):
    place, options = _place(kind, directory)
    async with bailiwick.open(place, **options) as fs:
        await _planted(fs)
        before = await _content(fs)
        await VERBS[verb](fs)
        return [before, await _content(fs)]


class _Job:
    """Work for a thread, which ends when it is told to."""

    def __init__(self):
        self.begun, self.may_end, self.ended = threading.Event(), threading.Event(), False

    def __call__(self, *_):
        self.begun.set()
        self.may_end.wait(30)
        self.ended = True


@pytest.mark.spec("LINE-5")
@pytest.mark.parametrize("whose", ["disk", "writer"])
async def test_closing_waits_for_the_thread(tmp_path, whose):
    import apsw

    job = _Job()
    connection = apsw.Connection(":memory:")
    writer = Writer(connection, whose="test", frame=Frame())
    workers = Workers(None)
    coroutine = workers.run(job) if whose == "disk" else writer.run(job)
    while (waited_for := coroutine.send(None)) is None:
        await asyncio.sleep(0)
    waited_for._asyncio_future_blocking = False
    job.begun.wait(30)
    threading.Timer(0.05, job.may_end.set).start()
    coroutine.close()
    assert job.ended
    await workers.aclose()
    writer.close()
    connection.close()
