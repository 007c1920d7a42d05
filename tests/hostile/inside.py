"""The child: builds the wall round itself, proves that it holds, then does what it is asked.

The wall is a private mount namespace in which everything is read-only but the *arena*, a fresh
tmpfs, and a private process namespace, so that nothing outside can be signalled and nothing that
is started here outlives it. `/dev` is replaced by a few harmless nodes, since a read-only mount
does not stop a write to a disk's device node. The capabilities to mount are given up at the end,
so that the wall cannot be taken down from inside; only the *operator* keeps them, who starts
sandboxes, and gives them up for whatever is run without one (`without_mounting`). If any probe can
still write outside the arena, the child says so and stops before it has done anything else.

Started by `wall.py`; `apart` starts another interpreter within the same wall.
"""

import contextlib
import ctypes
import errno
import functools
import importlib
import os
import secrets
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

from tests.fronts.mcp import npm
from tests.hostile import kernel, messages
from tests.hostile.messages import Skip

ARENA_VARIABLE = "BAILIWICK_ARENA"
IDENTITY_VARIABLE = "BAILIWICK_IDENTITY"
CANARY_VARIABLE = "BAILIWICK_CANARY"
CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PLAIN_USER = 65534
ARENA_OPTIONS = "size=512m,nr_inodes=400k,mode=0755"
HARMLESS_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
"""The last is the terminal of whoever opens it, and behind the wall nobody has one."""
PROBED = ("/", "/tmp", "/var/tmp", "/etc", "/root", "/home", "/usr", "/opt", "/run", "/sys", "/dev",
          "/dev/shm", "/proc")  # fmt: skip

PREMADE = ("bind", "procfs", "terminal", "full", "room", "inodes", "nofollow")
"""Places in the arena with a mount in them, made while mounting was still possible."""


class CannotBuild(Exception):
    """The machine does not let us build the wall; the text says what would."""


class WallHasAHole(Exception):
    """Something outside the arena can be written."""


def arena() -> str:
    return os.environ[ARENA_VARIABLE]


def identity() -> str:
    return os.environ[IDENTITY_VARIABLE]


# --- /proc, which may be hidden from the code under test ---------------------------------------

PROC_VARIABLE = "BAILIWICK_PROC"


def _hold_proc() -> int:
    """A descriptor of /proc, opened while it was there. Known by the environment, since this
    module is both the program that runs and a module that others import."""
    if PROC_VARIABLE not in os.environ:
        os.environ[PROC_VARIABLE] = str(os.open("/proc", os.O_PATH | os.O_DIRECTORY))
    return int(os.environ[PROC_VARIABLE])


def read_proc(name: str) -> str:
    with open(os.open(name, os.O_RDONLY, dir_fd=_hold_proc())) as file:
        return file.read()


def open_descriptors() -> dict[int, str]:
    """Each open descriptor of this process and what it stands for."""
    listing = os.open("self/fd", os.O_RDONLY | os.O_DIRECTORY, dir_fd=_hold_proc())
    try:
        numbers = [name for name in os.listdir(listing) if int(name) != listing]
        found = {}
        for name in numbers:
            with contextlib.suppress(FileNotFoundError):
                found[int(name)] = os.readlink(name, dir_fd=listing)
    finally:
        os.close(listing)
    return found


# --- building --------------------------------------------------------------------------------


def _enter_namespaces() -> None:
    uid, gid = os.getuid(), os.getgid()
    try:
        if uid == 0:
            kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWPID)
            return
        kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS | kernel.CLONE_NEWPID)
    except OSError as error:
        raise CannotBuild(
            f"hostile tests need a private mount namespace and this machine refused one"
            f" ({os.strerror(error.errno)}): run them as root, or allow unprivileged user"
            f" namespaces (sysctl kernel.unprivileged_userns_clone=1)"
        ) from None
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _cover_devices() -> None:
    """Put a `/dev` of harmless nodes over the real one."""
    held = {name: os.open(f"/dev/{name}", os.O_PATH) for name in HARMLESS_DEVICES}
    kernel.mount("tmpfs", "/dev", "tmpfs", kernel.MS_NOSUID, "mode=0755,size=64k")
    for name, fd in held.items():
        os.close(os.open(f"/dev/{name}", os.O_CREAT | os.O_WRONLY, 0o666))
        kernel.mount(f"/proc/self/fd/{fd}", f"/dev/{name}", None, kernel.MS_BIND)
        os.close(fd)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{number}", f"/dev/{name}")
    kernel.mount_read_only("/dev")


def _blocking_ancestor(tree: str) -> str | None:
    """The first directory on the way to ``tree`` that others may not pass."""
    here = ""
    for name in tree.strip("/").split("/"):
        here = f"{here}/{name}"
        if not os.stat(here).st_mode & 0o001:
            return here
    return None


def _open_the_way(place: str) -> None:
    """Let the plain user reach the interpreter and the checkout wherever they are installed.

    A directory on the way that is closed to others (often root's home) is covered by an empty
    one, in this namespace only, in which nothing but those trees stands at its old place.
    """
    trees = {sys.base_prefix, sys.prefix, CHECKOUT, place, str(npm.folder())}
    for ancestor in {_blocking_ancestor(tree) for tree in trees} - {None}:
        beneath = sorted(
            tree for tree in trees if tree == ancestor or f"{tree}/".startswith(f"{ancestor}/")
        )
        held = {tree: os.open(tree, os.O_PATH | os.O_DIRECTORY) for tree in beneath}
        kernel.mount("tmpfs", ancestor, "tmpfs", kernel.MS_NOSUID, "mode=0755,size=64k")
        for tree, fd in held.items():
            os.makedirs(tree, exist_ok=True)
            kernel.mount(f"/proc/self/fd/{fd}", tree, None, kernel.MS_BIND | kernel.MS_REC)
            os.close(fd)
        kernel.mount_read_only(ancestor)


def _build(place: str, who: str) -> None:
    try:
        kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
        kernel.mount_read_only("/")
        shut = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
        # A plain user cannot write the settings in it, and could not get one for a sandbox where
        # there is none but read-only.
        shut |= kernel.MS_RDONLY if who != "user" else 0
        kernel.mount("proc", "/proc", "proc", shut)
        _cover_devices()
        if os.getuid() == 0:
            _open_the_way(place)
        # Every read leaves its mark: the time of access is how an outside file tells on us.
        flags = kernel.MS_NOSUID | kernel.MS_STRICTATIME
        kernel.mount("tmpfs", place, "tmpfs", flags, ARENA_OPTIONS)
    except OSError as error:
        raise CannotBuild(
            f"hostile tests remount everything read-only and this machine refused"
            f" ({os.strerror(error.errno)}): run them as root on Linux 5.12 or newer"
        ) from None


def _premake(place: str) -> None:
    for name in PREMADE:
        os.makedirs(f"{place}/{name}/root")
        os.mkdir(f"{place}/{name}/outside")
    quiet = kernel.MS_NOSUID | kernel.MS_STRICTATIME
    shut = kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
    for inner in ("bind/root/sub/m", "procfs/root/proc", "terminal/root/pts"):
        os.makedirs(f"{place}/{inner}")
    kernel.mount(f"{place}/bind/outside", f"{place}/bind/root/sub/m", None, kernel.MS_BIND)
    kernel.mount("proc", f"{place}/procfs/root/proc", "proc", shut)
    terminals = f"{place}/terminal/root/pts"
    kernel.mount("devpts", terminals, "devpts", kernel.MS_NOSUID, "newinstance,ptmxmode=0666")
    kernel.mount("tmpfs", f"{place}/full/root", "tmpfs", quiet, "size=1m,mode=0755")
    kernel.mount("tmpfs", f"{place}/room/root", "tmpfs", quiet, "size=16m,mode=0755")
    kernel.mount("tmpfs", f"{place}/inodes/root", "tmpfs", quiet, "nr_inodes=24,mode=0755")
    flags = quiet | kernel.MS_NOSYMFOLLOW
    kernel.mount("tmpfs", f"{place}/nofollow/root", "tmpfs", flags, "mode=0755")


def _give_up_power(place: str, who: str) -> None:
    """Become who the tests run as, with nothing that could take the wall down."""
    if who == "bare":
        _hide_proc()
    if who == "operator":
        kept = kernel.CAPABILITIES_KEPT | kernel.CAPABILITIES_OF_OPERATOR
        kernel.keep_capabilities(set(kept.values()))
    elif who in ("root", "bare"):
        without_mounting()
    else:
        if os.getuid() == 0:
            _give_to_user(place)
            os.setgroups([])
            os.setresgid(PLAIN_USER, PLAIN_USER, PLAIN_USER)
            os.setresuid(PLAIN_USER, PLAIN_USER, PLAIN_USER)
        else:
            kernel.keep_capabilities(set())
        if not os.access(os.path.dirname(__file__), os.R_OK | os.X_OK):
            raise CannotBuild(
                "hostile tests also run as a plain user, who cannot read this checkout: let others"
                " read it and pass through the directories above it (chmod o+rX)"
            )
    kernel.own_proc_entry()
    kernel.gain_no_privileges()
    kernel.die_with_parent(signal.SIGKILL)
    os.umask(0o077)


def without_mounting() -> None:
    """Keep what rows need as root, and nothing that could take the wall down."""
    kernel.keep_capabilities(set(kernel.CAPABILITIES_KEPT.values()))


def _hide_proc() -> None:
    """As in a small container: nothing at /proc. We keep a descriptor of what was there."""
    _hold_proc()
    shut = kernel.MS_RDONLY | kernel.MS_NOSUID
    kernel.mount("tmpfs", "/proc", "tmpfs", shut, "size=4k,mode=0555")


def _give_to_user(place: str) -> None:
    for name in (".", "home", "tmp", *PREMADE):
        os.chown(f"{place}/{name}", PLAIN_USER, PLAIN_USER)
    for name in PREMADE:
        for side in ("root", "outside"):
            os.chown(f"{place}/{name}/{side}", PLAIN_USER, PLAIN_USER)
    os.chown(f"{place}/bind/root/sub", PLAIN_USER, PLAIN_USER)


# --- proving ---------------------------------------------------------------------------------


def _writable_mounts(place: str) -> list[str]:
    found = []
    for line in read_proc("self/mountinfo").splitlines():
        fields = line.split(" ")
        point = fields[4].encode().decode("unicode_escape")
        inside = point == place or point.startswith(f"{place}/")
        if point == "/proc" and identity() == "user":
            continue  # of what is in it the user's own files can be written, as everywhere
        if not inside and "ro" not in fields[5].split(","):
            found.append(point)
    return found


def _can_create_in(directory: str) -> bool:
    """Try it. What was made by mistake is taken away again."""
    probe = os.path.join(directory, f".wall-probe-{secrets.token_hex(8)}")
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        refusals = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR}
        return error.errno not in refusals
    os.unlink(probe)
    return True


def _can_write_settings() -> bool:
    try:
        os.close(os.open("sys/kernel/hostname", os.O_WRONLY, dir_fd=_hold_proc()))
    except OSError as error:
        return error.errno not in {errno.EROFS, errno.EACCES, errno.ENOENT}
    return True


def _can_mount(place: str) -> bool:
    try:
        kernel.mount("tmpfs", f"{place}/home", "tmpfs", 0, "size=4k")
    except OSError:
        return False
    return True


def prove_the_wall(place: str, *, final: bool) -> None:
    """Raise `WallHasAHole` unless nothing outside ``place`` can be written.

    ``final``: also that the capabilities to take the wall down are gone.
    """
    if sys.platform != "linux" or not os.path.ismount(place):
        raise WallHasAHole(f"{place} is not a mount of its own")
    holes = [f"{point} is mounted writable" for point in _writable_mounts(place)]
    places = {*PROBED, CHECKOUT, sys.prefix, os.path.dirname(place), os.path.expanduser("~root")}
    holes += [f"a file could be made in {where}" for where in places if _can_create_in(where)]
    if (final or identity() != "user") and _can_write_settings():
        holes.append("the kernel's settings could be written")
    if final and identity() != "operator" and _can_mount(place):
        holes.append("the capability to mount is still there")
    with contextlib.suppress(FileNotFoundError):
        blocks = [entry for entry in os.scandir("/dev") if not entry.is_symlink()]
        holes += [f"/dev/{e.name} is there" for e in blocks if e.name not in HARMLESS_DEVICES]
    if holes:
        raise WallHasAHole("; ".join(holes))


# --- serving ---------------------------------------------------------------------------------


def _resolve(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    return functools.reduce(getattr, function.split("."), importlib.import_module(module))


def _answer(request: dict[str, Any]) -> tuple[str, Any]:
    try:
        return ("done", _resolve(request["function"])(*request["args"], **request["kwargs"]))
    except Skip as skip:
        return ("skipped", str(skip))
    except AssertionError as error:
        # A judged case explains itself; the frames that judged it say nothing more.
        return ("failed", str(error) or traceback.format_exc())
    except BaseException:
        return ("failed", traceback.format_exc())


_answers = -1


def progress(text: str) -> None:
    """Tell the test process how far a long call has come."""
    if _answers >= 0:
        messages.send(_answers, ("progress", text))


def serve(requests: int, answers: int) -> None:
    global _answers
    _answers = answers
    messages.send(answers, ("ready", None))
    while True:
        try:
            request = messages.receive(requests)
        except messages.Gone:
            return
        messages.send(answers, _answer(request))


def apart(function: Callable[..., Any], *args: Any, timeout_s: float = 600, **kwargs: Any) -> Any:
    """Call ``function`` in a fresh interpreter within the same wall, for what taints a process."""
    name = f"{function.__module__}:{function.__qualname__}"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.hostile.inside", "apart"],
        env={name: value for name, value in os.environ.items() if name != PROC_VARIABLE},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        messages.receive(process.stdout.fileno(), timeout_s)
        request = {"function": name, "args": args, "kwargs": kwargs}
        messages.send(process.stdin.fileno(), request)
        while True:
            verdict, value = messages.receive(process.stdout.fileno(), timeout_s)
            if verdict != "progress":
                break
            progress(value)
    except messages.Silence:
        raise AssertionError(f"{name} did not come back in {timeout_s} s") from None
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
    if verdict == "skipped":
        raise Skip(value)
    assert verdict == "done", value
    return value


def _take_pipes(place: str) -> tuple[int, int]:
    """Keep the pipes to ourselves, so that whatever is printed cannot fall into them."""
    requests, answers = os.dup(0), os.dup(1)
    null = os.open("/dev/null", os.O_RDONLY)
    log = os.open(f"{place}/log", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(null)
    os.close(log)
    return requests, answers


def _wait_for_child(child: int) -> None:
    """The outer half: only waits, so that the inner half is the first of its process namespace."""
    for fd in (0, 1):
        os.close(fd)
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0x7F)


def main(place: str, who: str) -> None:
    kernel.die_with_parent(signal.SIGKILL)
    try:
        if sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "unshare"):
            raise CannotBuild("hostile tests need Linux namespaces: run them on Linux")
        if who != "user" and os.getuid() != 0:
            raise CannotBuild("the rows for root need root: run the tests as root")
        _enter_namespaces()
        child = os.fork()
        if child:
            _wait_for_child(child)
        kernel.die_with_parent(signal.SIGKILL)
        # The leader of a session without a terminal: opening one the wrong way would acquire it.
        os.setsid()
        _build(place, who)
        prove_the_wall(place, final=False)
        for name in ("home", "tmp"):
            os.mkdir(f"{place}/{name}")
        _premake(place)
        _give_up_power(place, who)
        os.chdir(place)
        prove_the_wall(place, final=True)
    except CannotBuild as reason:
        messages.send(1, ("unavailable", str(reason)))
        return
    except WallHasAHole as hole:
        messages.send(1, ("hole", str(hole)))
        return
    except BaseException:
        messages.send(1, ("hole", traceback.format_exc()))
        return
    serve(*_take_pipes(place))


def main_apart() -> None:
    kernel.die_with_parent(signal.SIGKILL)
    prove_the_wall(arena(), final=True)
    serve(*_take_pipes(arena()))


if __name__ == "__main__":
    if sys.argv[1:] == ["apart"]:
        main_apart()
    else:
        main(*sys.argv[1:])
