"""Without a sandbox: said so on every ending, and what cannot be held to is refused."""

import os

import pytest

from bailiwick.errors import Closed, Unsupported
from bailiwick.sandbox import CommandLimits, Invocation, Tree, View, WindowSize
from bailiwick.sandboxes.unconfined import Unconfined
from tests.sandboxes.test_ending import STUBBORN
from tests.sandboxes.workshop import LONG, launchers_at_work, sleepers
from tests.waiting import until


@pytest.fixture
def here(tmp_path):
    (tmp_path / "sub").mkdir()
    return View(trees=(Tree(place=str(tmp_path), lower=str(tmp_path)),))


async def said_by(view, script, **options):
    command = Invocation(argv=("sh", "-c", script), network="host", **options)
    process = await Unconfined().start(command, view)
    ending = await process.wait()
    text = b"".join([piece.data async for piece in process.pieces()]).decode()
    await process.close()
    return text, ending


async def test_it_runs_in_the_tree_itself_and_every_ending_says_so(here, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_SERVER", "canary")
    script = "pwd; cat; echo $X; echo x > f; env; ls /proc/self/fd; ulimit -n; exit 4"
    limits = CommandLimits(descriptors_max=77)
    text, ending = await said_by(
        here, script, cwd="sub", stdin=b"in\n", env={"X": "y"}, limits=limits
    )
    assert text.startswith(f"{tmp_path}/sub\nin\ny\n")
    assert "canary" not in text
    assert text.endswith("0\n1\n2\n3\n77\n")  # the last but one is the listing itself
    assert (ending.exit_code, ending.sandbox) == (4, "none")
    assert (tmp_path / "sub/f").exists()
    assert (await said_by(here, "stty size", terminal=WindowSize(9, 99)))[0] == "9 99\r\n"
    assert (await said_by(here, "kill -9 $$"))[1].signal == 9


@pytest.mark.parametrize("how", ["timeout", "close", "end"])
async def test_whatever_it_started_ends_with_it(here, how):
    script = STUBBORN.format(LONG) + ("" if how != "end" else " & exit")
    command = Invocation(
        argv=("sh", "-c", script),
        network="host",
        limits=CommandLimits(seconds_max=3 if how == "timeout" else 0),
    )
    process = await Unconfined().start(command, here)
    if how == "close":
        await until(lambda: len(sleepers()) == 4)
        await process.close()
    ending = await process.wait()
    assert ending.timed_out == (how == "timeout")
    assert sleepers() == []
    await process.close()
    assert launchers_at_work() == 0


async def test_a_room_ends_what_was_started_in_it(here):
    room = await Unconfined().open(here)
    process = await room.start(Invocation(argv=("sleep", str(LONG)), network="host"))
    await until(lambda: sleepers())
    await room.close()
    assert sleepers() == []
    with pytest.raises(Closed):
        await room.start(Invocation(argv=("true",), network="host"))
    await process.close()


async def test_what_it_cannot_hold_to_is_refused(here, tmp_path):
    command = Invocation(argv=("true",), network="host")
    place = str(tmp_path)
    tree = here.trees[0]
    refused = [
        (Invocation(argv=("true",)), here),
        (Invocation(argv=("true",), network="loopback"), here),
        (command, View(trees=())),
        (command, View(trees=(tree, Tree(place="/other", lower=place)))),
        (command, View(trees=(Tree(place="/other", lower=place),))),
        (command, View(trees=(Tree(place=place, lower=place, masked=("x",)),))),
        (command, View(trees=(Tree(place=place, lower=place, upper=place, work=place),))),
    ]
    for each, view in refused:
        with pytest.raises(Unsupported):
            await Unconfined().start(each, view)
    with pytest.raises(FileNotFoundError):
        await said_by(here, "true", cwd="no/where")
    (lack,) = Unconfined().missing()
    assert "not confined" in lack.what
    assert not os.listdir(tmp_path / "sub")
