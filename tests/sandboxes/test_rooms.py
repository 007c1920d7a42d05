"""Several commands on one view: they see what each other does, and all end with the room."""

import asyncio

import pytest

from bailiwick.errors import Busy, Closed, ParseError
from bailiwick.sandbox import CommandLimits, HostPath, Invocation, View
from tests.sandboxes.test_ending import mounts_of_this_namespace
from tests.sandboxes.workshop import LONG, launchers_at_work, sleepers
from tests.waiting import until


async def said_by(room, script, **options):
    process = await room.start(Invocation(argv=("sh", "-c", script), **options))
    try:
        await process.wait()
        return b"".join([piece.data async for piece in process.pieces()]).decode()
    finally:
        await process.close()


@pytest.mark.spec("EXEC-4")
async def test_commands_of_a_room_see_what_each_other_does(workshop):
    workshop.plant({"f": "old\n", ".env": "secret"})
    before = mounts_of_this_namespace()
    room = await workshop.sandbox.open(workshop.view(masked=(".env",)))
    behind = await room.start(
        Invocation(argv=("sh", "-c", "read x; cat f; echo y > g; read x"), stdin="pipe")
    )
    assert await said_by(room, "echo new > f; echo t > /tmp/t; echo h > ~/h; ls -A") == "f\n"
    await behind.write(b"\n")
    pieces = behind.pieces()
    assert (await anext(pieces)).data == b"new\n"
    assert (
        await said_by(room, "until test -s g; do :; done; cat g f /tmp/t ~/h") == "y\nnew\nt\nh\n"
    )
    assert await said_by(room, "echo $X; pwd", env={"X": "1"}, cwd=".") == "1\n/work/project\n"
    await behind.close()
    await room.close()
    await room.close()
    assert {change.path for change in workshop.changes()} == {"f", "g"}
    assert mounts_of_this_namespace() == before
    assert launchers_at_work() == 0


@pytest.mark.spec("EXEC-5")
async def test_all_commands_end_with_their_room(workshop):
    room = await workshop.sandbox.open(workshop.view())
    running = [await room.start(Invocation(argv=("sleep", str(LONG)))) for _ in range(3)]
    await until(lambda: len(sleepers()) == 3)
    await room.close()
    assert sleepers() == []
    assert [(await process.wait()).signal for process in running] == [9, 9, 9]
    with pytest.raises(Closed):
        await room.start(Invocation(argv=("true",)))
    for process in running:
        await process.close()


@pytest.mark.spec("EXEC-5")
async def test_processes_of_one_command_are_not_seen_by_another(workshop):
    room = await workshop.sandbox.open(workshop.view())
    other = await room.start(Invocation(argv=("sleep", str(LONG))))
    await until(lambda: sleepers())
    seen = await said_by(room, "cat /proc/[0-9]*/comm; kill -9 -1")
    assert "sleep" not in seen
    assert sleepers()
    await other.close()
    await room.close()


@pytest.mark.spec("EXEC-4")
async def test_an_upper_directory_serves_one_at_a_time(workshop):
    """Two overlays over one directory would not see what the other does, and lose changes."""
    room = await workshop.sandbox.open(workshop.view())
    for start in (
        lambda: workshop.start("true"),
        lambda: workshop.sandbox.open(workshop.view()),
    ):
        with pytest.raises(Busy):
            await start()
    reading = View(trees=(workshop.tree(writable=False),))
    assert (await workshop.run("true", view=reading)).code == 0
    await room.close()
    assert (await workshop.run("true")).code == 0


@pytest.mark.spec("EXEC-4")
@pytest.mark.parametrize(
    "path", ["/", "/proc", "/proc/1", "/dev", "/sys/kernel", "/tmp", "/home", "/work", "/a/../b"]
)
async def test_what_may_be_read_does_not_stand_where_a_command_has_its_own(workshop, path):
    with pytest.raises(ParseError):
        await workshop.sandbox.open(workshop.view(readable=(HostPath(path),)))


async def test_what_cannot_be_is_refused_and_leaves_nothing(workshop):
    with pytest.raises(ParseError):
        await workshop.sandbox.open(View(trees=(workshop.tree(), workshop.tree())))
    with pytest.raises(FileNotFoundError):
        await workshop.sandbox.open(workshop.view(readable=(HostPath("/no/where"),)))
    task = asyncio.create_task(workshop.sandbox.open(workshop.view()))
    await until(lambda: launchers_at_work() > 0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    limits = CommandLimits(scratch_bytes_max=2**20)
    room = await workshop.sandbox.open(workshop.view(), limits=limits)
    script = "exec 2>&1; head -c 2000000 /dev/zero > /tmp/x"
    assert "No space" in await said_by(room, script)
    await room.close()
    assert launchers_at_work() == 0
