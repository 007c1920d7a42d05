"""The weaker sandboxes: a copy of the tree, what becomes of it, and what they cannot hold to."""

import os
import signal
import subprocess
import sys
import tempfile

import pytest

from bailiwick.errors import Busy, ParseError, PathNotFound, Unsupported
from bailiwick.sandbox import CommandLimits, HostPath, Invocation, Tree, View, WindowSize
from bailiwick.sandboxes import on_copies
from bailiwick.sandboxes.on_copies import Landlock, Unconfined
from bailiwick.sandboxes.private_copies import gather
from bailiwick.working_copies.removal import remove_tree
from tests.sandboxes.test_ending import STUBBORN
from tests.sandboxes.workshop import LONG, Workshop, launchers_at_work, opened, sleepers
from tests.waiting import until

pytestmark = pytest.mark.spec("EXEC-5")

KINDS = {"landlock": Landlock, "none": Unconfined}


@pytest.fixture(params=KINDS)
def workshop(request, tmp_path):
    sandbox = KINDS[request.param](remove=remove_tree)
    for lack in sandbox.missing():
        if lack.fatal:
            pytest.skip(f"{lack.what}: {lack.remedy}")
    made = Workshop(tmp_path, sandbox)
    yield made
    made.clear()


FILES = {"a": "a", "gone": "gone", "d/b": "b", "d/c": "c", "old/x": "x", "kept/y": "y"}

SCRIPT = """
test "$(cat a d/b)" = "$(printf 'a\\nb' | tr -d '\\n')" || exit 3
echo new > a; rm gone; echo n > d/new; mkdir -p made/in; echo z > made/in/z; mv old moved
chmod 700 kept; ln -s d/b link; rm d/c; mkdir d/c; echo in > d/c/in; mkfifo fifo
touch -d @1 d/b; echo "$HOME $TMPDIR"; echo t > "$TMPDIR/t"; echo h > "$HOME/h"
"""


async def test_limits_that_leave_no_room_to_start_are_told_as_such(workshop):
    with pytest.raises(ParseError, match="no room for it to start: memory_bytes_max 1 "):
        await workshop.start("true", limits=CommandLimits(memory_bytes_max=1))


async def test_what_was_changed_in_the_copy_is_told_as_from_an_overlay(workshop):
    workshop.plant(FILES)
    os.chmod(workshop.lower / "kept", 0o755)
    said = await workshop.shell(SCRIPT)
    assert said.code == 0, said.err
    assert said.ending.sandbox == workshop.sandbox.name
    kinds = {change.path: change.kind for change in workshop.changes()}
    assert kinds.pop("d/c") in ("removed", "directory_created")  # it is both
    assert kinds == {
        "a": "file_changed", "gone": "removed", "d/new": "file_created", "d/b": "file_changed",
        "d/c/in": "file_created", "made": "directory_created", "made/in": "directory_created",
        "made/in/z": "file_created", "old": "removed", "moved": "directory_created",
        "moved/x": "file_created", "kept": "directory_changed", "link": "symlink_created",
        "fifo": "special_dropped",
    }  # fmt: skip
    assert (workshop.lower / "a").read_text() == "a"
    assert os.listdir(workshop.work) == []
    home = said.out.split()[0]
    assert home.startswith(str(workshop.work))


async def test_what_was_not_touched_leaves_nothing(workshop):
    workshop.plant(FILES)
    (workshop.lower / "link").symlink_to("a")
    said = await workshop.shell("cat a d/* >/dev/null; ls -R >/dev/null; stat link; exit 4")
    assert (said.code, workshop.changes(), os.listdir(workshop.upper)) == (4, [], [])


async def test_a_tree_to_be_read_changes_nowhere(workshop, tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    workshop.plant(FILES)
    view = workshop.view(writable=False)
    said = await workshop.shell("cat a; echo x > a; rm d/b; echo x > new; ls", view=view)
    assert said.out.startswith("a")
    assert (workshop.lower / "a").read_text() == "a"
    assert (workshop.lower / "d" / "b").exists()
    assert os.listdir(workshop.upper) == []
    assert os.listdir(tmp_path / "temporary") == []


async def test_what_is_masked_is_not_copied(workshop):
    workshop.plant({"a": "a", ".env": "secret", "conf/key": "secret", "conf/x": "x"})
    os.mkfifo(workshop.lower / "pipe")
    view = workshop.view(masked=(".env", "conf/key"))
    said = await workshop.shell("ls -A . conf; rm -r conf", view=view)
    assert said.out.split() == [".:", "a", "conf", "conf:", "x"]
    assert [(each.path, each.kind) for each in workshop.changes()] == [("conf", "removed")]


async def test_it_runs_as_it_was_asked_to(workshop, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_SERVER", "canary")
    (workshop.lower / "sub").mkdir()
    limits = CommandLimits(descriptors_max=77, seconds_max=60)
    said = await workshop.shell(
        "basename $(pwd); cat; echo $X; env; ulimit -n", cwd="sub", stdin=b"in\n", env={"X": "y"},
        limits=limits,
    )  # fmt: skip
    assert said.out.startswith("sub\nin\ny\n")
    assert said.out.endswith("77\n")
    assert "canary" not in said.out
    assert (await workshop.shell("stty size", terminal=WindowSize(9, 99))).out == "9 99\r\n"
    assert (await workshop.shell("kill -9 $$")).ending.signal == 9
    assert (await workshop.run("no-such-program")).code == 127
    with pytest.raises(PathNotFound):
        await workshop.shell("true", cwd="no/where")


async def test_the_network_is_that_which_was_asked_for(workshop):
    program = "import socket; socket.socket(); print('made')"
    words = ("python3", "-c", program)
    assert (await workshop.run(*words)).out == ""
    assert (await workshop.run(*words, network="host")).out == "made\n"
    with pytest.raises(Unsupported):
        await workshop.run(*words, network="loopback")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["timeout", "close", "end"])
async def test_whatever_it_started_ends_with_it(workshop, how):
    script = STUBBORN.format(LONG) + ("" if how != "end" else " & exit")
    limits = CommandLimits(seconds_max=3 if how == "timeout" else 0)
    process = await workshop.start("sh", "-c", script, limits=limits)
    if how == "close":
        await until(lambda: len(sleepers()) == 4)
        await process.close()
    ending = await process.wait()
    assert ending.timed_out == (how == "timeout")
    assert sleepers() == []
    await process.close()
    assert launchers_at_work() == 0


async def test_whose_time_is_up_before_it_begins_is_out_of_time(workshop):
    said = await workshop.shell("echo begun > begun", limits=CommandLimits(seconds_max=1e-6))
    assert (said.ending.timed_out, said.ending.signal) == (True, signal.SIGKILL)
    assert workshop.changes() == []
    assert launchers_at_work() == 0


DYING = """
import asyncio, os, sys
from bailiwick.sandbox import CommandLimits, Invocation, Tree, View
from bailiwick.sandboxes.on_copies import Landlock, Unconfined
kind, lower, upper, work, seconds = sys.argv[1:]
async def main():
    sandbox = {"landlock": Landlock, "none": Unconfined}[kind]()
    tree = Tree(place="/work/p", lower=lower, upper=upper, work=work)
    script = f"echo new > a; rm gone; setsid sleep {seconds} & sleep {seconds}"
    command = Invocation(argv=("sh", "-c", script), limits=CommandLimits(seconds_max=0))
    await sandbox.start(command, View(trees=(tree,)))
    print("begun", flush=True)
    await asyncio.get_running_loop().create_future()
asyncio.run(main())
"""


@pytest.mark.spec("EXEC-8")
async def test_a_killed_process_leaves_no_other_and_what_was_changed_is_found(workshop):
    workshop.plant(FILES)
    places = (workshop.lower, workshop.upper, workshop.work)
    words = [sys.executable, "-c", DYING, workshop.sandbox.name, *map(str, places), str(LONG)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"begun\n"
        await until(lambda: len(sleepers()) == 2)
        process.send_signal(signal.SIGKILL)
    await until(lambda: sleepers() == [])
    assert workshop.changes() == []
    with opened(workshop.upper) as upper, opened(workshop.work) as work:
        gather(upper, work, remove_tree)
        gather(upper, work, remove_tree)
    kinds = {change.path: change.kind for change in workshop.changes()}
    assert kinds == {"a": "file_changed", "gone": "removed"}


@pytest.mark.slow
async def test_whoever_is_killed_while_changes_are_gathered_goes_on(workshop, monkeypatch):
    """At each step in turn: nothing is lost, and nothing is taken for removed that was moved."""
    workshop.plant(FILES)
    first = None
    for nth in range(1, 40):
        with monkeypatch.context() as patch:
            patch.setattr(on_copies, "gather", lambda *_: None)
            assert (await workshop.shell(SCRIPT)).code == 0
        count = 0

        class Killed(BaseException):
            pass

        def counted(real, nth=nth, killed=Killed):
            def call(*args, **how):
                nonlocal count
                count += 1
                if count == nth:
                    raise killed
                return real(*args, **how)

            return call

        with (
            opened(workshop.upper) as upper,
            opened(workshop.work) as work,
            monkeypatch.context() as patch,
        ):
            for name in ("rename", "mknod", "mkdir", "rmdir", "fchmod", "unlink"):
                patch.setattr(os, name, counted(getattr(os, name)))
            try:
                gather(upper, work, remove_tree)
                ended = True
            except Killed:
                ended = False
            patch.undo()
            gather(upper, work, remove_tree)
        found = {(change.path, change.kind, change.mode) for change in workshop.changes()}
        for place in (workshop.upper, workshop.work):
            remove_tree_in(place)
        first = first or found
        assert found == first
        assert len(found) == 16
        if ended:
            return
    pytest.fail("there is no end to these steps")


def remove_tree_in(place):
    with opened(place.parent) as parent:
        remove_tree(parent, place.name)
    place.mkdir()


async def test_what_is_too_much_to_be_copied_is_refused(tmp_path):
    workshop = Workshop(tmp_path, Unconfined(bytes_max=10, remove=remove_tree))
    workshop.plant({"a": "x" * 6, "b": "x" * 6})
    with pytest.raises(Unsupported, match="more in this root"):
        await workshop.shell("true")
    workshop.clear()


async def test_what_they_cannot_hold_to_is_refused(workshop):
    tree, other = workshop.tree(), Tree(place="/other", lower=str(workshop.lower))
    command = Invocation(argv=("true",))
    for view in (View(trees=()), View(trees=(tree, other))):
        with pytest.raises(Unsupported):
            await workshop.sandbox.start(command, view)
    with pytest.raises(Unsupported, match="sessions"):
        await workshop.sandbox.open(workshop.view())
    process = await workshop.start("sleep", "60")
    with pytest.raises(Busy):
        await workshop.start("true")
    await process.close()
    assert all(not lack.fatal for lack in workshop.sandbox.missing())


async def test_landlock_lets_read_what_was_shared_and_nothing_else(tmp_path):
    workshop = Workshop(tmp_path, Landlock(remove=remove_tree))
    for lack in workshop.sandbox.missing():
        if lack.fatal:
            pytest.skip(f"{lack.what}: {lack.remedy}")
    for name in ("shared", "home", "secret"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(name)
    view = workshop.view(
        readable=(HostPath(str(tmp_path / "shared")),), home=str(tmp_path / "home")
    )
    script = f"cd {tmp_path}; cat shared/f secret/f; echo x > shared/f; echo $HOME > home/f"
    said = await workshop.shell(script, view=view)
    assert said.out == "shared"
    assert "Permission denied" in said.err
    assert (tmp_path / "shared" / "f").read_text() == "shared"
    assert (tmp_path / "home" / "f").read_text() == f"{tmp_path}/home\n"
    workshop.clear()


@pytest.mark.parametrize("offered", [-1, 0, 5])
async def test_a_kernel_without_landlock_is_told_in_words(tmp_path, monkeypatch, offered):
    monkeypatch.setattr(on_copies, "landlock_offered", lambda: offered)
    sandbox = Landlock()
    (lack,) = sandbox.missing()
    assert lack.fatal
    assert "Landlock" in lack.what
    assert "bubblewrap" in lack.remedy
    with pytest.raises(Unsupported) as refused:
        await Workshop(tmp_path, sandbox).shell("true")
    assert refused.value.hint == lack.remedy
