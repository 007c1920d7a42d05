"""However a command ends, or is ended, nothing of it is left."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys

import pytest

from bailiwick.errors import Closed
from bailiwick.sandbox import CommandLimits
from tests.sandboxes.workshop import LONG, launchers_at_work, sleepers
from tests.waiting import loop_turns, until, until_blocking

STUBBORN = (
    "trap '' TERM INT HUP; (trap '' TERM HUP; setsid sh -c 'exec sleep {0}' &);"
    " (setsid sh -c 'sleep {0} & sleep {0}' &) ; echo up; sleep {0}"
)
"""Ignores what can be ignored, and leaves processes that have left its group and session."""


def mounts_of_this_namespace():
    """But for those of FUSE, which come and go by others on the machine: a sandbox makes none."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return [line for line in file if " - fuse" not in line]


async def stubborn(workshop, **limits):
    process = await workshop.start(
        "sh", "-c", STUBBORN.format(LONG), limits=CommandLimits(**limits)
    )
    assert (await anext(process.pieces())).data == b"up\n"
    await until(lambda: len(sleepers()) == 4)
    return process


@pytest.mark.spec("EXEC-5")
async def test_out_of_time_the_whole_tree_is_gone(workshop):
    before = mounts_of_this_namespace()
    process = await stubborn(workshop, seconds_max=3)
    ending = await process.wait()
    assert (ending.timed_out, ending.signal) == (True, signal.SIGKILL)
    assert sleepers() == []
    assert mounts_of_this_namespace() == before
    await process.close()


@pytest.mark.spec("EXEC-3", "EXEC-5")
async def test_whose_time_is_up_before_it_begins_is_out_of_time(workshop):
    said = await workshop.shell("echo begun > begun", limits=CommandLimits(seconds_max=1e-6))
    assert (said.ending.timed_out, said.ending.signal) == (True, signal.SIGKILL)
    assert workshop.changes() == []
    assert launchers_at_work() == 0


@pytest.mark.spec("EXEC-5")
@pytest.mark.parametrize("how", ["kill", "close"])
async def test_killed_or_closed_the_whole_tree_is_gone(workshop, how):
    process = await stubborn(workshop)
    await getattr(process, how)()
    assert sleepers() == []
    await process.close()
    await process.close()


@pytest.mark.spec("EXEC-5")
async def test_when_the_command_ends_what_it_left_running_is_gone(workshop):
    said = await workshop.shell(f"(setsid sleep {LONG} &) ; (sleep {LONG} &) ; echo over")
    assert said.out == "over\n"
    assert sleepers() == []


@pytest.mark.spec("EXEC-5")
@pytest.mark.slow
async def test_cancelled_while_it_starts_nothing_is_left(workshop):
    for turns in range(12):
        task = asyncio.create_task(workshop.start("sleep", str(LONG)))
        await loop_turns(turns * 4)
        if turns > 8:  # far enough for the launcher to be at work
            await until(lambda: launchers_at_work() > 0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await task).close()
    assert sleepers() == []
    assert launchers_at_work() == 0


OWNER = """
import asyncio, os, signal, sys
from bailiwick.sandbox import CommandLimits, Invocation, Tree, View
from bailiwick.sandboxes.bubblewrap import Bubblewrap
async def main():
    lower, upper, work, script = sys.argv[1:]
    tree = Tree(place="/work/x", lower=lower, upper=upper, work=work)
    command = Invocation(argv=("sh", "-c", script), limits=CommandLimits(seconds_max=0))
    process = await Bubblewrap().start(command, View(trees=(tree,)))
    if os.environ.get("FORKED") and not (child := os.fork()):
        signal.pause()
    async for piece in process.pieces():
        print("up", child if os.environ.get("FORKED") else "", flush=True)
asyncio.run(main())
"""


@pytest.mark.spec("EXEC-5")
def test_when_our_process_is_killed_the_whole_tree_is_gone(workshop):
    before = mounts_of_this_namespace()
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, workshop.lower, workshop.upper,
         workshop.work, STUBBORN.format(LONG)],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    with owner:
        assert owner.stdout.readline() == b"up \n"
        until_blocking(lambda: len(sleepers()) == 4)
        owner.kill()
    until_blocking(lambda: not sleepers())
    assert mounts_of_this_namespace() == before


@pytest.mark.spec("EXEC-5")
def test_when_our_process_is_killed_its_forked_children_keep_nothing_alive(workshop):
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, workshop.lower, workshop.upper, workshop.work,
         f"echo up; sleep {LONG}"],
        stdout=subprocess.PIPE, env={**os.environ, "FORKED": "yes"},
    )  # fmt: skip
    with owner:
        child = int(owner.stdout.readline().split()[1])
        until_blocking(lambda: sleepers())
        owner.kill()
        try:
            until_blocking(lambda: not sleepers())
            assert is_alive(child)
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.spec("EXEC-5")
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_killed_at_any_instant_nothing_is_left(workshop, seed):
    """The instant is another one each time: while it starts, mounts, or runs."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, workshop.lower, workshop.upper,
         workshop.work, f"echo up; sleep {LONG}"],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    with owner:
        if seed < 6:
            until_blocking(lambda: descendants(owner.pid) >= seed or owner.poll() is not None)
        else:
            assert owner.stdout.readline() == b"up \n"
        family = tree_of(owner.pid)
        owner.kill()
    until_blocking(lambda: not any(map(is_alive, family)) and not sleepers())


def tree_of(pid):
    found = []
    for name in os.listdir(f"/proc/{pid}/task"):
        path = f"/proc/{pid}/task/{name}/children"
        with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
            for child in map(int, file.read().split()):
                found += [child, *tree_of(child)]
    return found


def descendants(pid):
    try:
        return len(tree_of(pid))
    except OSError:
        return 0


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.spec("EXEC-5")
async def test_a_signal_reaches_the_command_and_its_group(workshop):
    process = await workshop.start(
        "sh", "-c", "trap 'echo caught; exit 3' TERM; echo up; while :; do sleep 0.01; done"
    )
    pieces = process.pieces()
    assert (await anext(pieces)).data == b"up\n"
    process.send_signal(signal.SIGTERM)
    # What ran in its foreground is told of, too, if it was there at that instant.
    assert b"caught" in b"".join([piece.data async for piece in pieces])
    assert (await process.wait()).exit_code == 3
    process.send_signal(signal.SIGTERM)
    await process.close()


async def test_who_writes_to_what_has_ended_is_told(workshop):
    process = await workshop.start("true", stdin="pipe")
    await process.wait()
    with pytest.raises(Closed):
        await process.write(b"x")
    await process.close_input()
    await process.close()


async def test_who_writes_to_what_does_not_read_is_told_when_it_ends(workshop):
    process = await workshop.start("sleep", str(LONG), stdin="pipe")
    writer = asyncio.create_task(process.write(b"x" * 1_000_000))
    await until(lambda: len(sleepers()) == 1)
    await process.kill()
    with pytest.raises(Closed):
        await writer
    await process.close()


@pytest.mark.spec("EXEC-5")
async def test_work_directories_can_be_removed_afterwards(workshop):
    await workshop.shell("echo x > f; mkdir d; rm -r d")
    workshop.clear()
    assert not workshop.work.exists()
    for path in (workshop.lower, workshop.upper, workshop.work):
        path.mkdir()
