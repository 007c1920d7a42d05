"""Mounts for tests: in the test's own directory, and gone when it ends, whatever happened."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

import bailiwick
from bailiwick.fronts.fuse import FuseMount, device, lacks
from tests.waiting import PATIENCE_S, until_blocking

KINDS = ("memory", "volume", "directory")

needs_fuse = pytest.mark.skipif(lacks() is not None, reason=f"nothing can be mounted: {lacks()}")


def place_of(kind, tmp_path):
    """A place of a kind, and the options to open it with."""
    if kind == "memory":
        return "memory:", {}
    if kind == "volume":
        return f"sqlite:{tmp_path}/volume.db", {}
    directory = tmp_path / "project"
    directory.mkdir(exist_ok=True)
    return str(directory), {"history": "on", "state_dir": str(tmp_path / "state")}


@contextlib.contextmanager
def mounted(scope, directory, **options):
    """A scope, mounted in this process, whose threads answer: what holds all of them up, such as
    memory that is mapped from a file, is for another process (`run`)."""
    directory.mkdir(exist_ok=True)
    try:
        with FuseMount(scope, str(directory), **options):
            yield directory
    finally:
        taken_away(directory)


def taken_away(directory):
    """Whatever is mounted there still is so no more."""
    if device.mounted_at(str(directory)) is not None:
        subprocess.run(["fusermount3", "-uz", "--", str(directory)], timeout=30, check=False)


@contextlib.contextmanager
def opened(kind, tmp_path, **more):
    place, options = place_of(kind, tmp_path)
    with bailiwick.open_sync(place, **options, **more) as scope:
        yield scope


@contextlib.contextmanager
def tree(kind, tmp_path):
    """A scope and the directory it is mounted on."""
    with opened(kind, tmp_path) as scope, mounted(scope, tmp_path / "mnt") as directory:
        yield scope, directory


@contextlib.contextmanager
def command(tmp_path, place, *arguments):
    """`bailiwick mount` as a process of its own: the process, and where it mounted."""
    directory = tmp_path / "mnt"
    directory.mkdir(exist_ok=True)
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "xdg-state")}
    process = subprocess.Popen(
        [sys.executable, "-m", "bailiwick", "mount", place, str(directory), *arguments],
        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    try:
        until_blocking(lambda: device.mounted_at(str(directory)) or process.poll() is not None)
        if process.poll() is not None:
            pytest.fail(f"it was not mounted: {process.stderr.read()}")
        yield process, directory
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        process.stderr.close()
        taken_away(directory)


def run(directory, script, **environment):
    """A shell script in a mount; what it printed. It goes there by itself: a process that is being
    started holds up the threads of this one, and those answer for the mount."""
    done = subprocess.run(
        ["bash", "-euc", f'cd "$1"; {script}', "bash", str(directory)],
        env={**os.environ, **environment}, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextlib.contextmanager
def elsewhere():
    """A namespace in which everything is mounted that is so here now, as a sandbox has one: what is
    unmounted here is still there."""
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", "echo there; exec cat"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with process:
        if not process.stdout.readline():
            pytest.skip("no mount namespace can be made here: run as root")
        try:
            yield
        finally:
            process.stdin.close()
