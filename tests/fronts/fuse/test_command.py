"""`bailiwick mount`, as a process of its own: as whom, what of it, and how it ends."""

import asyncio
import errno
import os
import random
import signal
import subprocess
import sys

import pytest

import bailiwick
from bailiwick.fronts.fuse import device
from tests.fronts.fuse.mounts import command, elsewhere, needs_fuse
from tests.fronts.http.serving import serving
from tests.waiting import PATIENCE_S, until_blocking

pytestmark = [needs_fuse, pytest.mark.spec("FUSE-1")]


@pytest.fixture
def project(tmp_path):
    directory = tmp_path / "project"
    directory.mkdir()
    (directory / "a").write_text("plain")
    (directory / ".env").write_text("SECRET=1")
    return directory


def typed(*words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "bailiwick", *words], stdin=subprocess.DEVNULL, text=True,
        capture_output=True, env={**os.environ, **environment}, timeout=PATIENCE_S, check=False,
    )  # fmt: skip


def test_an_agent_sees_what_an_agent_may(project, tmp_path):
    with command(tmp_path, str(project), "--as", "agent_run:demo/1") as (_, top):
        assert (top / "a").read_text() == "plain"
        with pytest.raises(PermissionError):
            (top / ".env").read_text()
        # When it is opened: a shell does not look at what closing says.
        with pytest.raises(PermissionError):
            os.open(top / ".env", os.O_WRONLY | os.O_TRUNC)
        with pytest.raises(PermissionError):
            os.unlink(top / ".env")
        with pytest.raises(PermissionError):
            os.replace(top / "a", top / ".env")
        with pytest.raises(PermissionError):
            os.open(top / "bailiwick.toml", os.O_WRONLY | os.O_CREAT)
        (top / "b").write_text("written by an agent")
    assert (project / "b").read_text() == "written by an agent"
    assert (project / ".env").read_text() == "SECRET=1"


def test_its_owner_sees_all(project, tmp_path):
    with command(tmp_path, str(project)) as (_, top):
        assert (top / ".env").read_text() == "SECRET=1"


def test_what_another_program_changes_shows_within_a_second(project, tmp_path):
    with command(tmp_path, str(project)) as (_, top):
        assert (top / "a").read_text() == "plain"
        (project / "a").write_text("other")
        until_blocking(lambda: (top / "a").read_text() == "other")
        (project / "new").write_text("")
        until_blocking(lambda: (top / "new").exists())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_saves_what_is_open_and_unmounts(number, project, tmp_path):
    with command(tmp_path, str(project)) as (process, top):
        with pytest.raises(OSError, match="endpoint"), open(top / "open", "wb", 0) as file:  # noqa: PT012
            file.write(b"never closed")
            process.send_signal(number)
            assert process.wait(PATIENCE_S) == 0
        assert device.mounted_at(str(top)) is None
    assert (project / "open").read_text() == "never closed"


def test_unmounting_ends_the_command(project, tmp_path):
    with command(tmp_path, str(project)) as (process, top):
        (top / "b").write_text("saved")
        subprocess.run(["fusermount3", "-u", str(top)], check=True)
        assert process.wait(PATIENCE_S) == 0
    assert (project / "b").read_text() == "saved"


def test_a_killed_mount_is_cleaned_and_nothing_that_was_saved_is_lost(tmp_path):
    place = f"sqlite:{tmp_path}/volume.db"
    assert typed("volume", "create", place).returncode == 0
    with command(tmp_path, place) as (process, top):
        with pytest.raises(OSError, match="endpoint"), open(top / "synced", "wb", 0) as file:  # noqa: PT012
            file.write(b"synced")
            os.fsync(file.fileno())
            (top / "closed").write_text("closed")
            refused = typed("mount", "--clean", str(top), "--json")
            assert refused.returncode == 1
            assert "its process lives" in refused.stderr
            file.write(b" and not")
            process.kill()
            process.wait()
        with pytest.raises(OSError) as raised:  # noqa: PT011 (the number is what is looked at)
            os.listdir(top)
        assert raised.value.errno == errno.ENOTCONN
        assert typed("mount", "--clean", str(top)).returncode == 0
        assert os.listdir(top) == []
    with bailiwick.open_sync(place) as scope:
        assert scope.read_bytes("closed").data == b"closed"
        assert scope.read_bytes("synced").data == b"synced"


def test_a_past_version_and_a_fork_are_mounted(tmp_path):
    place = f"sqlite:{tmp_path}/volume.db"
    with bailiwick.open_sync(place) as scope:
        scope.write_bytes("a", b"then")
        scope.snapshot("before")
        scope.fork("attempt").close()
        scope.write_bytes("a", b"now")
    with command(tmp_path, place, "--as-of", "before") as (_, top):
        assert (top / "a").read_text() == "then"
        with pytest.raises(OSError, match="Read-only"):
            (top / "a").write_text("x")
    with command(tmp_path, place, "--fork", "attempt") as (_, top):
        (top / "a").write_text("tried")
    with bailiwick.open_sync(place) as scope:
        assert scope.read_bytes("a").data == b"now"
        with pytest.raises(bailiwick.PathNotFound):
            scope.history("b")
    with bailiwick.open_sync(f"{place}?branch=attempt") as scope:
        assert scope.read_bytes("a").data == b"tried"


def test_what_cannot_be_mounted_is_refused_in_words(project, tmp_path):
    def refused(*words):
        done = typed("mount", *words, XDG_STATE_HOME=str(tmp_path / "xdg"))
        assert done.returncode == 1, done
        return done.stderr

    (project / "inside").mkdir()
    assert "inside of itself" in refused(str(project), str(project / "inside"))
    assert "empty directory" in refused(f"sqlite:{_volume(tmp_path)}", str(project))
    assert "no such directory" in refused(f"sqlite:{_volume(tmp_path)}", str(tmp_path / "none"))
    assert "no such volume" in refused(f"sqlite:{tmp_path}/none.db", str(project / "inside"))
    assert "nothing of Bailiwick" in refused("--clean", str(project))
    assert typed("mount", str(project)).returncode == 2
    assert typed("mount", "--clean", "x", "y").returncode == 2


def _volume(tmp_path):
    path = tmp_path / "volume.db"
    if not path.exists():
        assert typed("volume", "create", f"sqlite:{path}").returncode == 0
    return path


def test_unmounting_ends_the_command_also_where_a_sandbox_has_taken_over_the_mount(
    project, tmp_path
):
    with command(tmp_path, str(project)) as (process, top), elsewhere():
        (top / "b").write_text("saved")
        subprocess.run(["fusermount3", "-u", str(top)], check=True)
        assert process.wait(PATIENCE_S) == 0
    assert (project / "b").read_text() == "saved"


async def test_a_tree_on_a_server_is_mounted_too(tmp_path):
    def work(house):
        with command(tmp_path, house.url, "--token", house.token) as (_, top):
            (top / "d").mkdir()
            (top / "d" / "a").write_text("one")
            with open(top / "d" / "a", "a") as file:
                file.write(" two")
            (top / "d" / "b").write_bytes(b"x" * 5_000_000)
            os.replace(top / "d" / "a", top / "c")
            assert (top / "c").read_text() == "one two"
            assert sorted(os.listdir(top / "d")) == ["b"]
            with pytest.raises(FileNotFoundError):
                (top / "none").read_text()

    async with serving(tmp_path) as house:
        await asyncio.to_thread(work, house)
        assert (tmp_path / "tree" / "c").read_text() == "one two"
        assert (tmp_path / "tree" / "d" / "b").stat().st_size == 5_000_000


WRITER = """
import itertools, os, sys
for number in itertools.count():
    with open(f"part-{number}", "wb", buffering=0) as file:
        file.write(b"%d" % number)
        file.write(b"x" * (number * 977 % 20_000))
    if number % 3 == 0:
        os.replace(f"part-{number}", f"whole-{number}")
    print(number, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["volume", "directory"])
def test_a_kill_at_any_instant_loses_nothing_that_was_closed(kind, seed, project, tmp_path):
    place = str(project) if kind == "directory" else f"sqlite:{_volume(tmp_path)}"
    chance = random.Random(seed)
    with command(tmp_path, place) as (process, top):
        writer = subprocess.Popen(
            ["sh", "-c", 'cd "$1" && exec "$2" -c "$3"', "sh", top, sys.executable, WRITER],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        with writer:
            done = [int(writer.stdout.readline()) for _ in range(chance.randrange(1, 80))]
            process.kill()
            done += [int(line) for line in writer.stdout]
        process.wait()
        assert typed("mount", "--clean", str(top)).returncode == 0
    # Opened as it was, so that what was begun is finished or taken back.
    state = {"state_dir": str(tmp_path / "xdg-state" / "bailiwick")} if kind == "directory" else {}
    with bailiwick.open_sync(place, **state) as scope:
        for number in done:
            name = f"whole-{number}" if number % 3 == 0 else f"part-{number}"
            expected = b"%d" % number + b"x" * (number * 977 % 20_000)
            assert scope.read_bytes(name).data == expected
