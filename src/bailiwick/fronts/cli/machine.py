"""What this machine can do for Bailiwick, found out by trying, and what each lack costs.

Each question is tried as it will be used: a kernel may have a call and a container may forbid it.
"""

from __future__ import annotations

import asyncio
import ctypes
import ctypes.util
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from typing import NamedTuple

from bailiwick.build import open as open_place
from bailiwick.build.commands import sandbox_missing
from bailiwick.build.places import embedded_refusal
from bailiwick.errors import BailiwickError
from bailiwick.fronts.cli.exports import LANDLOCK_ABI

_TRY_SECONDS_MAX = 10

# The same numbers on every architecture that took them from the common table.
_LANDLOCK_MACHINES = frozenset(
    ("x86_64", "aarch64", "riscv64", "armv7l", "i686", "ppc64le", "s390x")
)
_SYS_LANDLOCK_CREATE_RULESET, _LANDLOCK_VERSION = 444, 1

_INOTIFY_WATCHES_MIN, _INOTIFY_INSTANCES_MIN = 65_536, 128
"""One watch a directory: a large checkout with its packages has tens of thousands."""

_DESCRIPTORS_MIN = 2_304
"""Two for each of the 1,024 connections of a server, and some for itself."""

_SQLITE_MIN = (3, 46)
"""What `apsw` is asked for."""


class Fact(NamedTuple):
    """One thing the machine can do or not. ``cost`` says what its lack costs, if it lacks."""

    name: str
    works: bool
    found: str
    cost: str


class _Power(NamedTuple):
    name: str
    examine: Callable[[], tuple[bool, str]]
    cost: str


def examine() -> list[Fact]:
    """Try everything, in the order it is shown."""
    facts = []
    for power in _POWERS:
        try:
            works, found = power.examine()
        except Exception as error:  # a doctor does not die of a diagnosis
            works, found = False, f"could not be tried: {type(error).__name__}: {error}"
        facts.append(Fact(power.name, works, found, "" if works else power.cost))
    return facts


def _openat2() -> tuple[bool, str]:
    """Opened as a store opens it, so that what is said here is what happens there."""

    async def try_it(directory: str) -> None:
        place, state = os.path.join(directory, "place"), os.path.join(directory, "state")
        os.mkdir(place, 0o700)
        os.mkdir(state, 0o700)
        async with open_place(place, containment="require-kernel", state_dir=state):
            pass

    with tempfile.TemporaryDirectory(prefix="bailiwick-doctor-") as directory:
        try:
            asyncio.run(try_it(directory))
        except BailiwickError as error:
            return False, error.message
    return True, "the kernel confines every lookup"


def landlock_version() -> int:
    """The version of Landlock's interface; 0 where there is none."""
    if sys.platform != "linux" or os.uname().machine not in _LANDLOCK_MACHINES:
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    answer = libc.syscall(
        ctypes.c_long(_SYS_LANDLOCK_CREATE_RULESET),
        None,
        ctypes.c_size_t(0),
        ctypes.c_uint32(_LANDLOCK_VERSION),
    )
    return max(0, int(answer))


def _landlock() -> tuple[bool, str]:
    version = landlock_version()
    if version < 1:
        return False, "not offered by this kernel"
    older = f", older than the {LANDLOCK_ABI} of exports" if version < LANDLOCK_ABI else ""
    return True, f"version {version} of its interface{older}"


def _bubblewrap() -> tuple[bool, str]:
    program = shutil.which("bwrap")
    if program is None:
        return False, "bwrap is not installed"
    ended, said = _try([program, "--ro-bind", "/", "/", "--unshare-all", "true"])
    if not ended:
        return False, f"bwrap is there and cannot start: {said}"
    _, version = _try([program, "--version"])
    return True, version


def _commands() -> tuple[bool, str]:
    fatal = [each for each in sandbox_missing() if each.fatal]
    if fatal:
        return False, "; ".join(f"{each.what}: {each.remedy}" for each in fatal)
    return True, "a program was run in a sandbox, on a working copy"


def _bounded_commands() -> tuple[bool, str]:
    lesser = [f"{each.what}: {each.remedy}" for each in sandbox_missing()]
    return not lesser, "; ".join(lesser) or "memory and processes of a whole command"


def _user_namespaces() -> tuple[bool, str]:
    code = (
        "import ctypes, os, sys; libc = ctypes.CDLL(None, use_errno=True);"
        "failed = libc.unshare(0x10000000);"
        "sys.exit(os.strerror(ctypes.get_errno()) if failed else 0)"
    )
    if sys.platform != "linux":
        return False, "not a Linux"
    ended, said = _try([sys.executable, "-I", "-c", code])
    return ended, "can be made" if ended else f"refused: {said}"


def _fuse() -> tuple[bool, str]:
    lacks = []
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        lacks.append("/dev/fuse cannot be opened")
    if shutil.which("fusermount3") is None:
        lacks.append("fusermount3 is not installed")
    return not lacks, "; ".join(lacks) or "fusermount3 and /dev/fuse"


def _inotify() -> tuple[bool, str]:
    limits = {}
    for name in ("max_user_watches", "max_user_instances"):
        with open(f"/proc/sys/fs/inotify/{name}", encoding="ascii") as file:
            limits[name] = int(file.read())
    watches, instances = limits["max_user_watches"], limits["max_user_instances"]
    enough = watches >= _INOTIFY_WATCHES_MIN and instances >= _INOTIFY_INSTANCES_MIN
    return enough, f"{watches} watches, {instances} instances"


def _descriptors() -> tuple[bool, str]:
    """By the hard limit, up to which a server raises its own."""
    import resource

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most == resource.RLIM_INFINITY:
        return True, "no bound"
    return most >= _DESCRIPTORS_MIN, f"a process may have {most} open"


def _sqlite() -> tuple[bool, str]:
    import apsw

    version = apsw.sqlite_lib_version()
    numbers = tuple(int(part) for part in version.split(".")[:2])
    return numbers >= _SQLITE_MIN, f"SQLite {version}, apsw {apsw.apsw_version()}"


def _ripgrep() -> tuple[bool, str]:
    bundled = os.path.join(sysconfig.get_path("scripts"), "rg")
    program = bundled if os.access(bundled, os.X_OK) else shutil.which("rg")
    if program is None:
        return False, "rg is not installed"
    ended, said = _try([program, "--version"])
    return ended, said.splitlines()[0] if said else "rg says nothing"


def _data_directory() -> tuple[bool, str]:
    refusal = embedded_refusal()
    return refusal is None, str(refusal or "nobody else may write where the user's volume is kept")


def _zstd() -> tuple[bool, str]:
    if importlib.util.find_spec("zstandard") is None:
        return False, "the package zstandard is not installed"
    return True, "zstandard"


def _try(command: list[str]) -> tuple[bool, str]:
    """Whether a command ends well, and the first words it said."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_TRY_SECONDS_MAX,
        check=False,
    )
    return done.returncode == 0, (done.stdout or done.stderr).strip()[:200]


_POWERS = (
    _Power(
        "openat2",
        _openat2,
        "paths are walked name by name with held descriptors: confined as well, several times"
        ' slower; a root with containment = "require-kernel" is refused',
    ),
    _Power(
        "landlock",
        _landlock,
        "grep does not use ripgrep, which may only run behind that wall; an exported Landlock rule"
        " set cannot be applied here",
    ),
    _Power("ripgrep", _ripgrep, "grep searches large trees in process: the same answer, slower"),
    _Power(
        "bubblewrap", _bubblewrap, "what `grant show --format bwrap` prints cannot be used here"
    ),
    _Power("commands", _commands, "`bailiwick exec` and `scope.exec` are unsupported"),
    _Power(
        "bounded commands",
        _bounded_commands,
        "a command with many processes can use more memory than one may",
    ),
    _Power(
        "user namespaces",
        _user_namespaces,
        "bubblewrap works for root only, or where it is installed setuid",
    ),
    _Power(
        "inotify",
        _inotify,
        "changes that other programs make in a large tree are noticed late or not at all; raise"
        f" fs.inotify.max_user_watches to {_INOTIFY_WATCHES_MIN}",
    ),
    _Power(
        "descriptors",
        _descriptors,
        "a server takes fewer than 1,024 connections at a time; let it have more (ulimit -Hn)",
    ),
    _Power("sqlite", _sqlite, "an authority cannot keep its state; install a newer apsw"),
    _Power(
        "zstd",
        _zstd,
        "archives compressed with zstd are refused; install bailiwick[zstd]",
    ),
    _Power(
        "data directory",
        _data_directory,
        "`bailiwick.open()` without a place is refused: whoever may write there could put another"
        " volume in its place",
    ),
    _Power(
        "fuse",
        _fuse,
        "`bailiwick mount` mounts nothing; install fuse3, and give a container /dev/fuse",
    ),
)
