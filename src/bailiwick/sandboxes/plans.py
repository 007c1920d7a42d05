"""What the launcher is told: a command and its view, as a dict of plain values.

Here it is decided what of the machine a command sees besides its trees, and which words bubblewrap
gets. Nothing is started here.
"""

from __future__ import annotations

import contextlib
import os
import resource
import stat
from functools import cache
from typing import Any, NamedTuple

from bailiwick.errors import ParseError
from bailiwick.sandbox import CommandLimits, Invocation, Network, View
from bailiwick.sandboxes import seccomp

HOME = "/home/sandbox"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_STAGE = "/tmp"
"""Where the launcher puts everything together, in a namespace of its own."""

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS = (
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives",
    "/etc/localtime", "/etc/os-release", "/etc/debian_version", "/etc/mime.types", "/etc/magic",
    "/etc/protocols", "/etc/services", "/etc/terminfo", "/etc/inputrc",
    # Certificates of authorities, and nothing else that lies beside them.
    "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ssl/cert.pem", "/etc/ca-certificates",
    "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted",
)  # fmt: skip
"""Of the settings of the machine only what programs need to run at all, none of it secret."""

_ROOM_OF_THE_KERNEL = ("/proc", "/dev", "/sys")
_ROOM_OF_THE_SYSTEM = (*_SYSTEM, "/etc", *_ROOM_OF_THE_KERNEL)
_MEMORY_OF_THE_MACHINE = ("/dev/shm",)
"""Lies among the devices and is a directory like any other: people keep quick trees in it."""

_SCRATCH_FILES_MAX = 100_000
"""Names in the private directories: each takes a kilobyte of the kernel's memory."""

_SAY_READY_THEN_BECOME = 'printf + >&3; exec "$@" 3>&-'
"""The shell tells that all is mounted, closes the pipe it told it through, and tells of a program
that is missing or cannot be run in the way that everybody knows: 127, 126."""


def _is_within(path: str, rooms: tuple[str, ...]) -> bool:
    return any(f"{path}/".startswith(f"{room}/") for room in rooms)


def _checked_place(place: str, rooms: tuple[str, ...]) -> str:
    """Absolute, in its one spelling, in none of ``rooms``, and around none of what is private."""
    if not place.startswith("/") or os.path.normpath(place) != place or "\0" in place:
        raise ParseError("a place in the sandbox is an absolute path without . and ..")
    if _is_within(place, rooms) and not _is_within(os.path.dirname(place), _MEMORY_OF_THE_MACHINE):
        raise ParseError("a place in the sandbox cannot be among the directories of the system")
    if place == "/" or any(_is_within(private, (place,)) for private in ("/tmp", HOME)):
        raise ParseError("a place in the sandbox cannot hold its private directories")
    return place


def _beneath(place: str, relative: str) -> str:
    parts = [part for part in relative.split("/") if part not in ("", ".")]
    if relative.startswith("/") or ".." in parts or "\0" in relative:
        raise ParseError("the directory to start in lies beneath the first tree")
    return "/".join([place, *parts])


def masked_name(relative: str) -> bytes:
    """A masked path in its one spelling. Raises `ParseError`."""
    parts = [part for part in relative.split("/") if part not in ("", ".")]
    if relative.startswith("/") or ".." in parts or "\0" in relative or not parts:
        raise ParseError("what is masked is named relative to its tree")
    return os.fsencode("/".join(parts))


def check_command(command: Invocation, view: View) -> None:
    """Refuse what makes no sense before anything is opened. Raises `ParseError`."""
    if not command.argv or not command.argv[0]:
        raise ParseError("a command has at least the name of a program")
    if any("\0" in word for word in command.argv):
        raise ParseError("a word of a command cannot hold NUL")
    for name, value in command.env.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise ParseError("a name in the environment is not empty and holds neither = nor NUL")
    _beneath(_start(view), command.cwd)


def _start(view: View) -> str:
    return view.trees[0].place if view.trees else HOME


def check_view(view: View) -> None:
    """Refuse a view that makes no sense."""
    places = [_checked_place(tree.place, _ROOM_OF_THE_SYSTEM) for tree in view.trees]
    if len(set(places)) != len(places):
        raise ParseError("two trees cannot stand at one place")
    for tree in view.trees:
        if (tree.upper is None) != (tree.work is None):
            raise ParseError("a tree has an upper and a work directory, or neither")
        for path in tree.masked:
            masked_name(path)
    for each in view.readable:
        _checked_place(each.path, _ROOM_OF_THE_KERNEL)
        if any(_is_within(place, (each.path,)) for place in places):
            raise ParseError("what may be read of the host cannot stand where a tree does")


# --- the machine -----------------------------------------------------------------------------


@cache
def _system() -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Which directories and settings are there: to be bound, and to be linked."""
    bound, linked = [], []
    for path in (*_SYSTEM, *_SETTINGS):
        with contextlib.suppress(OSError):
            if path in _SYSTEM and stat.S_ISLNK(os.lstat(path).st_mode):
                linked.append((path, os.readlink(path)))
            elif os.path.exists(path):
                bound.append(path)
    return tuple(bound), tuple(linked)


@cache
def _shut_in_proc() -> tuple[str, ...]:
    """What tells of the whole machine and is meant for root, not for whatever runs as root."""
    found = [path for path in ("/proc/keys", "/proc/sched_debug") if os.path.exists(path)]
    with os.scandir("/proc") as entries:
        for entry in entries:
            if not entry.name.isdecimal():
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISREG(mode) and not mode & stat.S_IROTH:
                    found.append(entry.path)
    return tuple(sorted(found))


def _settings(network: Network) -> list[tuple[str, bytes]]:
    uid, gid = os.getuid(), os.getgid()
    name = "root" if uid == 0 else "agent"
    people = [f"{name}:x:{uid}:{gid}:{name}:{HOME}:/bin/sh"]
    groups = [f"{name}:x:{gid}:"]
    if uid != 65534:
        people.append("nobody:x:65534:65534:nobody:/:/usr/sbin/nologin")
        groups.append("nogroup:x:65534:")
    files = {
        "passwd": "\n".join(people),
        "group": "\n".join(groups),
        "hosts": "127.0.0.1 localhost sandbox\n::1 localhost",
        "hostname": "sandbox",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns",
    }
    found = [(f"/etc/{each}", f"{text}\n".encode()) for each, text in files.items()]
    if network == "host":
        with contextlib.suppress(OSError), open("/etc/resolv.conf", "rb") as file:
            found.append(("/etc/resolv.conf", file.read()))
    return found


def _limits(command: Invocation) -> list[tuple[int, int]]:
    limits = command.limits
    return [
        (resource.RLIMIT_CPU, limits.cpu_seconds_max),
        (resource.RLIMIT_DATA, limits.memory_bytes_max),
        (resource.RLIMIT_AS, limits.address_space_bytes_max),
        (resource.RLIMIT_FSIZE, limits.file_bytes_max),
        (resource.RLIMIT_NOFILE, limits.descriptors_max),
        (resource.RLIMIT_CORE, 0),
    ]


# --- bubblewrap's words ----------------------------------------------------------------------


def _namespaces(command: Invocation) -> list[str]:
    """Users apart are bubblewrap's own affair: without the power of root it takes them."""
    kinds = ["ipc", "pid", "uts", "cgroup-try"]
    if command.network != "host":
        kinds.append("net")
    words = [f"--unshare-{kind}" for kind in kinds]
    words += ["--die-with-parent", "--hostname", "sandbox", "--cap-drop", "ALL"]
    # A terminal is the controlling one of a session that the command makes itself.
    return words if command.terminal else [*words, "--new-session"]


def _mounts(view: View) -> list[str]:
    words = ["--ro-bind", f"{_STAGE}/root", "/"]
    words += ["--proc", "/proc", "--remount-ro", "/proc"]
    for path in _shut_in_proc():
        words += ["--ro-bind", "/dev/null", path]
    words += ["--dev", "/dev", "--bind", f"{_STAGE}/scratch/shm", "/dev/shm"]
    words += ["--remount-ro", "/dev"]
    words += ["--bind", f"{_STAGE}/scratch/tmp", "/tmp"]
    words += ["--bind", f"{_STAGE}/scratch/home", HOME]
    # Outermost first, so that none covers another.
    readable = sorted((each.path, number) for number, each in enumerate(view.readable))
    for path, number in readable:
        words += ["--ro-bind", f"{_STAGE}/readable{number}", path]
    trees = sorted((tree.place, number) for number, tree in enumerate(view.trees))
    for place, number in trees:
        how = "--bind" if view.trees[number].upper is not None else "--ro-bind"
        words += [how, f"{_STAGE}/tree{number}", place]
    return words


def _environment(command: Invocation, home: str) -> dict[str, str]:
    own = {"PATH": PATH, "HOME": home, "LANG": "C.UTF-8", "TMPDIR": "/tmp"}
    if command.terminal:
        own["TERM"] = "xterm-256color"
    return {**own, **command.env}


def _in_a_shell(*words: str) -> list[bytes]:
    command = ["/bin/sh", "-c", _SAY_READY_THEN_BECOME, "sh", *words]
    return [os.fsencode(word) for word in command]


class OpenedTree(NamedTuple):
    """The directory beneath a tree, which is held here, and found by the launcher."""

    fd: int
    path: str
    identity: tuple[int, int]


class PreparedView(NamedTuple):
    """What was opened for a view, and found there."""

    lowers: list[OpenedTree]
    masked: list[list[bytes]]
    """Of each tree, what was told and what was found."""
    home_masked: list[bytes]


def of_view(
    view: View, limits: CommandLimits, network: Network, prepared: PreparedView
) -> dict[str, Any]:
    """What the launcher has to know to mount everything."""
    bound, linked = _system()
    return {
        "scratch_bytes_max": limits.scratch_bytes_max,
        "scratch_files_max": _SCRATCH_FILES_MAX,
        "directories": [
            "/proc", "/dev", "/tmp", "/run", "/var", HOME, *(tree.place for tree in view.trees),
        ],
        "links": [*linked, ("/var/tmp", "/tmp"), ("/var/run", "/run")],
        "files": _settings(network),
        "system": list(bound),
        "readable": [each.path for each in view.readable],
        "trees": [
            {"lower": lower.path, "identity": lower.identity, "upper": tree.upper,
             "work": tree.work, "masked": hidden, "lasting": tree.lasting}
            for tree, lower, hidden in zip(
                view.trees, prepared.lowers, prepared.masked, strict=True
            )
        ],
        "home": view.home,
        "home_masked": prepared.home_masked,
        "command": None,
    }  # fmt: skip


def of_command(command: Invocation, view: View, bwrap: str) -> dict[str, Any]:
    """What the launcher has to know to start bubblewrap on what was mounted."""
    options = [*_namespaces(command), *_mounts(view), "--clearenv"]
    for name, value in _environment(command, HOME).items():
        options += ["--setenv", name, value]
    options += ["--chdir", _beneath(_start(view), command.cwd)]
    machine = os.uname().machine
    # Makes a session of its own, whose terminal the descriptor of its input is.
    with_terminal = ["/usr/bin/setsid", "--ctty", "--"] if command.terminal else []
    return {
        "bwrap": bwrap,
        "options": [os.fsencode(word) for word in options],
        "command": _in_a_shell(*with_terminal, *command.argv),
        "seccomp": seccomp.program(machine, command.network),
        # Where the network is the host's and Landlock does not keep its sockets without a file
        # out of reach, there are none but in pairs.
        "seccomp_unscoped": seccomp.program(
            machine, command.network, unix=command.network != "host"
        ),
        # Bubblewrap's own two are counted with them.
        "limits": [*_limits(command), (resource.RLIMIT_NPROC, command.limits.processes_max + 2)],
        "processes_max": command.limits.processes_max,
    }


HARMLESS_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_PEOPLE = ("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts")
"""Where nothing can be put in their place: everybody on the machine may read them."""


def readable_system(network: Network) -> tuple[str, ...]:
    """What of the machine may be read where it lies."""
    bound, _ = _system()
    names = ("/etc/resolv.conf",) if network == "host" else ()
    return (*bound, *_PEOPLE, *names)


def _processes_max(command: Invocation) -> int:
    """Without a namespace all that the user runs on this machine is counted with them."""
    found, uid = 0, os.getuid()
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == uid:
                    found += len(os.listdir(f"/proc/{name}/task"))
    return found + command.limits.processes_max + 2


def on_copy(
    command: Invocation, view: View, copy: str, rules: list[tuple[bytes, bool]] | None
) -> dict[str, Any]:
    """What the launcher has to know to start a command on a copy of its tree. ``rules`` are the
    paths that it may read, and whether it may write there as well; None for all there are."""
    own = {"TMPDIR": f"{copy}/tmp", **command.env}
    environment = _environment(command, view.home or f"{copy}/home") | own
    filtered = rules is not None or command.network != "host"
    machine = os.uname().machine
    return {
        "bwrap": None,
        "command": _in_a_shell(*command.argv),
        "cwd": _beneath(f"{copy}/tree", command.cwd),
        "env": {os.fsencode(name): os.fsencode(text) for name, text in environment.items()},
        "limits": [*_limits(command), (resource.RLIMIT_NPROC, _processes_max(command))],
        "terminal": command.terminal is not None,
        "rules": rules,
        "tcp": command.network == "host",
        # A socket that is a file is opened past Landlock: so there are none but in pairs.
        "seccomp": seccomp.program(machine, command.network, unix=False) if filtered else None,
    }
