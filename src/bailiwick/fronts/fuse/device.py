"""Mounting and unmounting, by `fusermount3`: as root and as any user alike.

What is mounted is known by the kernel's own table. It is read and never a path looked up: to look
at a mount whose process is gone or stuck may fail or wait.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import sys
from typing import Final, NamedTuple, TextIO

from bailiwick.errors import (
    DirectoryNotEmpty,
    IoError,
    NotADirectory,
    PathNotFound,
    Unsupported,
    escape_for_display,
)

TYPE: Final = "fuse.bailiwick"
"""What the kernel's table calls a mount of ours."""

_PROGRAM: Final = "fusermount3"
_SECONDS_MAX: Final = 10.0
"""How long the program, or a look at a mount, may take: a hundred times what it does."""


def lacks() -> str | None:
    """What this machine lacks to mount anything, in words to act on; None where it has all."""
    if sys.platform != "linux":
        return "mounting needs Linux"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse cannot be opened: load the module fuse, or give it to the container"
    if shutil.which(_PROGRAM) is None:
        return f"{_PROGRAM} is not installed: apt install fuse3"
    return None


def attach(directory: str, *, read_only: bool) -> int:
    """Mount on a directory; the descriptor is what the kernel speaks through.

    Raises `Unsupported`, `NotADirectory`, `PathNotFound`, `DirectoryNotEmpty`, `IoError`.
    """
    missing = lacks()
    if missing is not None:
        raise Unsupported("nothing can be mounted here", hint=missing)
    _refuse_unfit(directory)
    # `default_permissions`: the kernel holds programs to the modes that are shown.
    options = f"{'ro' if read_only else 'rw'},nosuid,nodev,default_permissions"
    options += ",fsname=bailiwick,subtype=bailiwick"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        done = subprocess.run(
            [_PROGRAM, "-o", options, "--", directory],
            env={**os.environ, "_FUSE_COMMFD": str(theirs.fileno())},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS_MAX,
            check=False,
        )
        if done.returncode != 0:
            raise IoError(f"{_PROGRAM} refused", hint=_said(done))
        _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
    if not descriptors:
        raise IoError(f"{_PROGRAM} mounted nothing", hint=_said(done))
    return descriptors[0]


def _refuse_unfit(directory: str) -> None:
    try:
        with os.scandir(directory) as entries:
            if next(entries, None) is not None:
                raise DirectoryNotEmpty(
                    "what is in it could not be seen while something is mounted there",
                    hint="mount on an empty directory",
                )
    except FileNotFoundError:
        raise PathNotFound("there is no such directory", hint="make it first: mkdir") from None
    except NotADirectoryError:
        raise NotADirectory("a tree is mounted on a directory") from None
    except OSError as error:
        if error.errno == errno.ENOTCONN:
            raise IoError(
                "the process of what is mounted there is gone",
                hint=f"bailiwick mount --clean {escape_for_display(directory)}",
            ) from None
        raise


def detach(directory: str) -> None:
    """Take it out of the tree at once; for whoever still uses it, it is there until they end."""
    why = _unmounted(directory, "-uz")
    if why is not None and mounted_at(directory) is not None:
        raise IoError(f"{_PROGRAM} could not unmount it", hint=why)


def _unmounted(directory: str, how: str) -> str | None:
    """Try it; why it was refused."""
    done = subprocess.run(
        [_PROGRAM, how, "--", directory],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_SECONDS_MAX,
        check=False,
    )
    return None if done.returncode == 0 else _said(done)


def _said(done: subprocess.CompletedProcess[str]) -> str:
    return escape_for_display((done.stderr or done.stdout).strip()[:200]) or "it said nothing"


class MountedDevice(NamedTuple):
    """A row of the kernel's table."""

    directory: str
    type: str


def open_table() -> TextIO:
    """The kernel's table, which can also be waited on: it tells when it changes."""
    return open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape")


def mounted_at(directory: str) -> MountedDevice | None:
    """What is mounted on a directory, the topmost; None where nothing is."""
    wanted = _without_looking(directory)
    found = None
    with open_table() as table:
        for row in table:
            place, _, rest = row.partition(" - ")
            where = _unescaped(place.split(" ")[4])
            if where == wanted:
                found = MountedDevice(where, rest.split(" ")[0])
    return found


def _without_looking(directory: str) -> str:
    """The absolute path, links above it followed; the directory itself may not answer."""
    parent, name = os.path.split(os.path.abspath(directory))
    return os.path.join(os.path.realpath(parent), name)


def _unescaped(text: str) -> str:
    for code in ("\\040", "\\011", "\\012", "\\134"):
        text = text.replace(code, chr(int(code[1:], 8)))
    return text


def clean(directory: str) -> None:
    """Take away a mount of ours whose process is gone. Nothing that lives is touched.

    Raises `PathNotFound` where nothing of ours is mounted, `Unsupported` where it lives.
    """
    found = mounted_at(directory)
    if found is None or found.type != TYPE:
        raise PathNotFound(
            "nothing of Bailiwick is mounted there", hint="then there is nothing to clean"
        )
    if _answers(found.directory):
        raise Unsupported(
            "what is mounted there is in use: its process lives",
            hint="end that process (Ctrl-C, or SIGTERM), which saves and unmounts",
        )
    why = _unmounted(found.directory, "-uz")
    if why is not None:
        raise IoError(f"{_PROGRAM} could not unmount it", hint=why)


def _answers(directory: str) -> bool:
    """Whether somebody answers for a mount. Looked at by a process that can be ended: a look at one
    that is stuck does not come back."""
    look = "import os, sys; os.statvfs(sys.argv[1])"
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", look, directory],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode == 0 or b"Errno %d]" % errno.ENOTCONN not in done.stderr
