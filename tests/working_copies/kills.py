"""Killing a process at any instant of running a command, bringing back, applying and undoing, and
looking at what is left. `python -m tests.working_copies.kills 500` does it that often."""

import asyncio
import collections
import contextlib
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import uuid

import bailiwick
from tests.killing import killed_at_work
from tests.waiting import until_blocking

FILES = 8 + 8 + 20
PLACES = {
    "directory": "{directory}",
    "volume": "sqlite:{folder}/agent.db",
    "overlay": "overlay:{directory}",
}


def kill_once(folder, kind, seed):
    """Kill at an instant that the seed says, and look. Tells what was found."""
    chance = random.Random(seed)
    directory, state = folder / "place", folder / "state"
    directory.mkdir()
    place = PLACES[kind].format(directory=directory, folder=folder)
    token, mounts = uuid.uuid4().hex, _mounts()
    words = [sys.executable, "-m", "tests.working_copies.program", place, str(state), token]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        said = killed_at_work(process, chance.randint(2, 7), chance.uniform(0, 0.4))
    until_blocking(lambda: not _running(token))
    assert _mounts() == mounts, "a mount is left"
    told = list(zip(said[::2], map(int, said[1::2]), strict=True))
    acknowledged = next((value for word, value in reversed(told) if word == "done"), 0)
    wanted = {acknowledged, told[-1][1]}
    # A directory has no transactions: an undo that was interrupted is repeated.
    undoing = told[-1][0].partition("undo:")[2] if kind == "directory" else ""
    found, left = asyncio.run(_settled(place, state, undoing))
    assert not list(directory.rglob(".bailiwick~*")), "something staged is left"
    assert not list(state.glob("work/*/*.gone")), "something that was being removed is left"
    values = set(found.values())
    assert len(values) <= 1, f"half of it: {found}"
    assert len(found) in (0, FILES), f"not all of it: {found}"
    assert (values.pop() if values else 0) in wanted, f"lost: {found} of {told}"
    return ("found again" if left else "whole") if found else "untouched"


async def _settled(place, state, undoing):
    """What stands there once the root was opened again, and the working copies that were left."""
    options = {} if place.startswith("sqlite:") else {"history": "on"}
    async with bailiwick.open(place, state_dir=str(state), **options) as fs:
        if undoing:
            with contextlib.suppress(bailiwick.PathNotFound):  # all of it was undone
                await fs.undo(undoing)  # what was undone already is told as a conflict
        left = await _left(fs)
        for each in left:
            async with await fs.open_work(each.id) as work:
                await work.changes()
                await work.discard()
        assert await _left(fs) == []
        files = [each for each in (await fs.find(".")).matches if each.type == "file"]
        found = {str(each.path): int((await fs.read_text(each.path)).text) for each in files}
        after = await fs.exec(["true"]).result()
        assert after.exit_code == 0
        return found, left


async def _left(fs):
    """The working copies of commands: what was changed in an overlay is another one."""
    return [each for each in await fs.work() if each.command != ("overlay:",)]


def _running(token):
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                if token in pathlib.Path(f"/proc/{name}/cmdline").read_text(errors="replace"):
                    return True
            except OSError:
                continue
    return False


def _mounts():
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return [line for line in file if " - fuse" not in line]


def main(times, first=0):
    counts, failures = collections.Counter(), 0
    for seed in range(first, first + times):
        kind = [*PLACES][seed % len(PLACES)]
        with tempfile.TemporaryDirectory(prefix="bailiwick-kills-") as folder:
            try:
                counts[kind, kill_once(pathlib.Path(folder), kind, seed)] += 1
            except AssertionError as failure:
                failures += 1
                print(f"seed {seed}, {kind}: {str(failure)[:600]}", flush=True)
    print(f"{times} kills, {failures} failures: {dict(counts)}", flush=True)
    return failures


if __name__ == "__main__":
    raise SystemExit(bool(main(*map(int, sys.argv[1:]))))
