"""The program that stands between us and bubblewrap: makes the namespaces, mounts, and lets go.

Run by an interpreter of its own, without site-packages, without an environment and without the rest
of the package, which is why it imports nothing of it. It is told what to do through a pipe, by a
dict that `plans.py` makes.

    we ── lifeline ──▶ monitor ──▶ bubblewrap ──▶ its own first process ──▶ the command
                       this file   first process of a namespace

The *monitor* does nothing but wait: for bubblewrap to end, or for the lifeline to, whose other end
only our process holds. However that process goes, by SIGKILL too, the kernel closes its end, the
monitor kills the first process of the namespace, and with it the kernel kills all others. When the
monitor has ended, nothing of the command is left.

A *room* is the same without a command: what is mounted for several of them, one after the other or
at a time, by a process that waits for its lifeline. Each command is then started by a launcher of
its own that goes into the room first.

The overlay and all other mounts are made in the namespace and are gone with it. What is hidden is
hidden by a layer of whiteouts between what was changed and the tree: the name is not there.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import marshal
import os
import resource
import select
import stat
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_SLAVE = 2, 4, 8, 4096, 16384, 1 << 19
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38
TIOCSCTTY = 0x540E
LOCK_EX, LOCK_NB = 2, 4
# The same on every architecture, as all that came after 423.
SYS_CLOSE_RANGE, SYS_MOUNT_SETATTR = 436, 442
SYS_LANDLOCK_CREATE, SYS_LANDLOCK_ADD_RULE, SYS_LANDLOCK_RESTRICT = 444, 445, 446
DESCRIPTOR_LAST = 0x7FFFFFFF
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV = 1, 2, 4
LANDLOCK_SCOPES_SINCE, LANDLOCK_SCOPES = 6, 0b11
# linux/landlock.h, by the order of its bits; neither devices nor sockets are made.
RIGHTS_HANDLED, RIGHTS_READ = 0xFFFF, 0b1101
RIGHTS_ALL = RIGHTS_HANDLED & ~(1 << 6 | 1 << 9 | 1 << 11)
RIGHTS_OF_FILES = 0b111 | 1 << 14 | 1 << 15
PR_CAPBSET_DROP, PR_SET_SECUREBITS, PR_SET_SECCOMP = 24, 28, 22
SECURE_NOROOT, CAPABILITIES_3 = 0b11, 0x20080522

STAGE = "/tmp"
"""Covered by a tmpfs of ours in the namespace. Bubblewrap itself needs this directory to be there;
whatever lies beneath on the host was opened before, and is reached by its descriptor."""

PID_MAX_PER_NAMESPACE_SINCE = (6, 14)
PIDS_RESERVED = 300
"""Once numbers have gone round, those below are not given out again (kernel/pid.c)."""

READY = b"+"
REPORT = 3
"""The descriptor through which the shell that becomes the command says that it has come so far."""

SIGINT, SIGKILL, SIGPIPE, SIGXFSZ, SIG_DFL, SIG_SETMASK = 2, 9, 13, 25, 0, 2
"""The module that has them by name takes as long to import as all the rest, and so do `typing` and
`contextlib`: half of the time in which a command is started is spent on imports."""

if TYPE_CHECKING:
    Plan = dict[str, Any]
    """What it holds is said by `plans.py`, which makes it."""

_libc = ctypes.CDLL(None, use_errno=True)


class Failure(Exception):
    """A step that did not work, by name, with the error of the kernel."""

    def __init__(self, step: str, error: OSError) -> None:
        super().__init__(step, error.errno)
        self.step = step
        self.number = error.errno or errno.EIO


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    what = os.fsencode(source), os.fsencode(target), kind.encode() if kind else None
    _checked(_libc.mount(*what, ctypes.c_ulong(flags), os.fsencode(data) if data else None))


def _bind_read_only(fd: int, target: str) -> None:
    """With everything that is mounted beneath: what was locked together cannot be taken apart."""
    _mount(f"/proc/self/fd/{fd}", target, None, MS_BIND | MS_REC)
    flags = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV
    attributes = struct.pack("=QQQQ", flags, 0, 0, 0)
    where = ctypes.c_int(AT_FDCWD), os.fsencode(target), ctypes.c_uint(AT_RECURSIVE)
    _called(SYS_MOUNT_SETATTR, *where, attributes, ctypes.c_size_t(len(attributes)))


# --- namespaces ------------------------------------------------------------------------------


def enter_namespaces(kinds: int) -> bool:
    """Get mounts of our own, and what else is asked for. Says whether we needed to become a user
    apart for it."""
    try:
        _checked(_libc.unshare(kinds))
    except PermissionError:
        pass
    else:
        return False
    uid, gid = os.getuid(), os.getgid()
    _checked(_libc.unshare(CLONE_NEWUSER | kinds))
    maps = {"setgroups": "deny", "uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"}
    for name, text in maps.items():
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    return True


def enter_room(room: int) -> bool:
    """Go where the process of that handle is, and have processes of our own there. The mounts are
    copied, so that ours do not show in the room; what is mounted is the same."""
    apart = True
    try:
        _checked(_libc.setns(room, CLONE_NEWUSER | CLONE_NEWNS))
    except OSError as error:
        if error.errno != errno.EINVAL:  # it is in ours already
            raise
        apart = False
        _checked(_libc.setns(room, CLONE_NEWNS))
    _checked(_libc.unshare(CLONE_NEWNS | CLONE_NEWPID))
    return apart


def _mount_proc() -> None:
    """Of this namespace: bubblewrap looks for its own processes there, by their numbers here."""
    _mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)


def _limit_process_numbers(processes_max: int) -> None:
    """RLIMIT_NPROC does not hold for root. Numbers of processes are given out by namespace in newer
    kernels; in older ones the setting is the whole machine's, and is left alone."""
    release = tuple(int(part) for part in os.uname().release.split(".")[:2])
    if release < PID_MAX_PER_NAMESPACE_SINCE or os.getpid() != 1:
        return
    with open("/proc/sys/kernel/pid_max", "w", encoding="ascii") as file:
        file.write(str(PIDS_RESERVED + processes_max + 3))


def _scope_with_landlock() -> bool:
    """Neither sockets without a file nor processes outside can be reached, also where the network
    is shared. Landlock that says nothing of files does not stand in the way of mounts. Tells
    whether the kernel could do it."""
    offered = _libc.syscall(
        ctypes.c_long(SYS_LANDLOCK_CREATE), None, ctypes.c_size_t(0), ctypes.c_uint32(1)
    )
    if offered < LANDLOCK_SCOPES_SINCE:
        return False
    _restrict(0, 0, [])
    return True


def _restrict(files: int, tcp: int, rules: list[tuple[bytes, int]]) -> None:
    """Have the kernel refuse those rights, but for what the ``rules`` allow beneath some paths, and
    all that the scopes are about."""
    attributes = struct.pack("=QQQ", files, tcp, LANDLOCK_SCOPES)
    ruleset = _called(SYS_LANDLOCK_CREATE, attributes, ctypes.c_size_t(len(attributes)), 0)
    for path, rights in rules:
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # nothing is there to be allowed
        rights &= RIGHTS_ALL if _is_directory(fd) else RIGHTS_OF_FILES
        _called(SYS_LANDLOCK_ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, fd), 0)
        os.close(fd)
    _called(SYS_LANDLOCK_RESTRICT, ruleset, 0)
    os.close(ruleset)


def _called(number: int, *arguments: object) -> int:
    return _checked(_libc.syscall(ctypes.c_long(number), *arguments))


def _confine(plan: Plan) -> None:
    """The walls that need no namespace, around this process and all that it starts."""
    if plan["seccomp"] is None:
        return
    _checked(_libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0))
    if plan["rules"] is not None:
        number = 0
        while _libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(number), 0, 0, 0) == 0:
            number += 1
        _libc.prctl(PR_SET_SECUREBITS, ctypes.c_ulong(SECURE_NOROOT), 0, 0, 0)
        _checked(_libc.capset(struct.pack("=II", CAPABILITIES_3, 0), bytes(24)))
        rules = [(path, RIGHTS_ALL if writes else RIGHTS_READ) for path, writes in plan["rules"]]
        _restrict(RIGHTS_HANDLED, 0 if plan["tcp"] else 0b11, rules)
    program = ctypes.create_string_buffer(plan["seccomp"], len(plan["seccomp"]))
    filtered = struct.pack("@HP", len(plan["seccomp"]) // 8, ctypes.addressof(program))
    _checked(_libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(2), filtered, 0, 0))


# --- what is hidden --------------------------------------------------------------------------


class Mask:
    """A layer that holds nothing but whiteouts, and the directories on the way to them."""

    def __init__(self, layer: str, lower: int) -> None:
        self._layer = layer
        self._opened: dict[bytes, int | None] = {b"": lower}
        self._made: list[tuple[str, os.stat_result]] = []
        os.mkdir(layer)
        self._made.append((layer, os.stat(lower)))

    def hide(self, path: bytes) -> None:
        parent = path.rpartition(b"/")[0]
        if self._directory(parent) is None:
            return
        at = os.fsencode(self._layer) + b"/" + path
        try:
            os.mknod(at, stat.S_IFCHR | 0o000, os.makedev(0, 0))
        except FileExistsError:
            # What is beneath was hidden before: all of it is now.
            if os.path.isdir(at):
                self._clear(at)
                os.mknod(at, stat.S_IFCHR | 0o000, os.makedev(0, 0))

    def _clear(self, directory: bytes) -> None:
        self._made = [
            (made, status)
            for made, status in self._made
            if not (os.fsencode(made) + b"/").startswith(directory + b"/")
        ]
        for name in os.listdir(directory):
            inner = directory + b"/" + name
            if os.path.isdir(inner):
                self._clear(inner)
            else:
                os.unlink(inner)
        os.rmdir(directory)

    def _directory(self, path: bytes) -> int | None:
        """A descriptor of that directory in the tree, and a directory like it in the layer."""
        if path in self._opened:
            return self._opened[path]
        parent, _, name = path.rpartition(b"/")
        above = self._directory(parent)
        found = None
        if above is not None:
            flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                found = os.open(name, flags, dir_fd=above)
                at = os.fsdecode(os.fsencode(self._layer) + b"/" + path)
                os.mkdir(at)
                self._made.append((at, os.stat(found)))
            except OSError:
                # Not there, no directory, or hidden itself.
                found = None
        self._opened[path] = found
        return found

    def finish(self) -> None:
        """The layer is on top: its directories are what the program sees of theirs."""
        for made, status in reversed(self._made):
            try:  # noqa: SIM105 (see SIGKILL)
                os.chown(made, status.st_uid, status.st_gid)
            except OSError:
                pass  # not ours to give: shown as ours, it opens nothing
            os.chmod(made, stat.S_IMODE(status.st_mode))
            os.utime(made, ns=(status.st_atime_ns, status.st_mtime_ns))
        for fd in list(self._opened.values())[1:]:
            if fd is not None:
                os.close(fd)


def _mount_tree(name: str, tree: Plan, apart: bool) -> None:
    layer, target = f"{STAGE}/{name}.mask", f"{STAGE}/{name}"
    os.mkdir(target)
    mask = Mask(layer, tree["lower"])
    for path in tree["masked"]:
        mask.hide(path)
    mask.finish()
    options = [f"lowerdir={layer}:/proc/self/fd/{tree['lower']}"]
    if tree["upper"] is not None:
        options.append(f"upperdir=/proc/self/fd/{tree['upper']}")
        options.append(f"workdir=/proc/self/fd/{tree['work']}")
        _drop_mark(tree["work"])
        if not tree["lasting"]:
            # Else each file that is touched first is flushed, and at the end all that anybody has
            # written to the filesystem.
            options.append("volatile")
    # Without the power of root the layers are marked by attributes of files, where the kernel
    # allows no directory to be moved by reference; `mv` then copies.
    options.append("userxattr" if apart else "redirect_dir=on,metacopy=off,index=off")
    try:
        _mount("overlay", target, "overlay", MS_NOSUID | MS_NODEV, ",".join(options))
    except OSError as error:
        raise Failure("overlay", error) from None


def _drop_mark(work: int) -> None:
    """Overlayfs mounts nothing over what was changed without being flushed, unless it is told that
    somebody has seen to that: whoever keeps it has."""
    mark = f"/proc/self/fd/{work}/work/incompat/volatile"
    if os.path.exists(mark):
        os.unlink(f"{mark}/dirty")
        os.rmdir(mark)


def _mount_readable(name: str, fd: int, apart: bool) -> None:
    """A directory as a tree without changes: a socket that is seen through overlayfs leads nowhere,
    as one that is bound would not."""
    if _is_directory(fd):
        tree = {"lower": fd, "upper": None, "work": None, "masked": (), "lasting": True}
        _mount_tree(name, tree, apart)
    elif stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(os.open(f"{STAGE}/{name}", os.O_CREAT | os.O_WRONLY, 0o644))
        _bind_read_only(fd, f"{STAGE}/{name}")
    else:
        raise Failure("readable", OSError(errno.EINVAL, ""))


def _mount_home(fd: int, masked: list[bytes]) -> None:
    """Bound, since it is written to itself: over each of the doors in it lies an empty file."""
    home, empty = f"{STAGE}/scratch/home", f"{STAGE}/empty"
    os.close(os.open(empty, os.O_CREAT | os.O_WRONLY, 0o444))
    _mount(f"/proc/self/fd/{fd}", home, None, MS_BIND)
    top = _opened(home)
    for path in masked:
        found = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
        if not _is_directory(found):
            _mount(empty, f"/proc/self/fd/{found}", None, MS_BIND)
        os.close(found)
    os.close(top)


# --- the root --------------------------------------------------------------------------------


def _make_point(place: str, is_directory: bool) -> str:
    """Before anything is mounted: whatever is made here is made in our own tmpfs."""
    target = f"{STAGE}/root{place}"
    os.makedirs(target if is_directory else os.path.dirname(target), exist_ok=True)
    if not is_directory:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    return target


def _opened(path: str) -> int:
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def _opened_lower(path: str, identity: tuple[int, int]) -> int:
    """The directory itself, in this namespace: what was opened outside cannot be mounted here."""
    found = _opened(path)
    status = os.fstat(found)
    if (status.st_dev, status.st_ino) != identity:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
    return found


def _is_directory(fd: int) -> bool:
    return stat.S_ISDIR(os.fstat(fd).st_mode)


def lock_uppers(plan: Plan) -> None:
    """Two overlays over one upper directory would each not know what the other does: it is locked
    as long as something is mounted."""
    uppers = [tree["upper"] for tree in plan.get("trees", ()) if tree["upper"] is not None]
    plan["locks"] = [os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in uppers]
    for fd in plan["locks"]:
        _checked(_libc.flock(fd, LOCK_EX | LOCK_NB))


def open_cgroup(plan: Plan) -> None:
    if plan["cgroup"] is not None:
        plan["cgroup"] = os.open(plan["cgroup"], os.O_WRONLY)


def open_all(plan: Plan) -> None:
    """Put descriptors in the place of paths, before anything is mounted over them."""
    plan["system"] = [(_opened(path), path) for path in plan["system"]]
    plan["readable"] = [(_opened(path), path) for path in plan["readable"]]
    for tree in plan["trees"]:
        tree["lower"] = _opened_lower(tree["lower"], tree["identity"])
        for part in ("upper", "work"):
            if tree[part] is not None:
                tree[part] = _opened(tree[part])
    if plan["home"] is not None:
        plan["home"] = _opened(plan["home"])


def build(plan: Plan, apart: bool) -> None:
    """Mount all that the command will see beneath the stage, from where bubblewrap takes it."""
    _mount("none", "/", None, MS_REC | MS_SLAVE)
    scratch = f"mode=0755,size={plan['scratch_bytes_max']},nr_inodes={plan['scratch_files_max']}"
    _mount("tmpfs", STAGE, "tmpfs", MS_NOSUID | MS_NODEV, scratch)
    for name, mode in (("tmp", 0o1777), ("shm", 0o1777), ("home", 0o700)):
        os.makedirs(f"{STAGE}/scratch/{name}")
        os.chmod(f"{STAGE}/scratch/{name}", mode)
    for place in plan["directories"]:
        os.makedirs(f"{STAGE}/root{place}", exist_ok=True)
    for place, target in plan["links"]:
        os.symlink(target, f"{STAGE}/root{place}")
    for place, content in plan["files"]:
        with open(_make_point(place, False), "wb") as file:
            file.write(content)
    system = [(_make_point(place, _is_directory(fd)), fd) for fd, place in plan["system"]]
    for fd, place in plan["readable"]:
        _make_point(place, _is_directory(fd))
    for target, fd in system:
        _bind_read_only(fd, target)
    for number, (fd, _) in enumerate(plan["readable"]):
        _mount_readable(f"readable{number}", fd, apart)
    for number, tree in enumerate(plan["trees"]):
        _mount_tree(f"tree{number}", tree, apart)
    if plan["home"] is not None:
        _mount_home(plan["home"], plan["home_masked"])


def _close_all_but(kept: list[int]) -> None:
    """Up to the last one there can be: limits say nothing of those that were open before."""
    edges = [-1, *sorted(kept), DESCRIPTOR_LAST + 1]
    for low, high in itertools.pairwise(edges):
        if low + 1 < high:
            _called(SYS_CLOSE_RANGE, *map(ctypes.c_uint, (low + 1, high - 1, 0)))


def _limit(limits: list[tuple[int, int]]) -> None:
    for number, most in limits:
        _, hard = resource.getrlimit(number)
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        over = 5 if number == resource.RLIMIT_CPU and hard == resource.RLIM_INFINITY else 0
        resource.setrlimit(number, (most, most + over))


def _as_a_shell_would_be() -> None:
    """Without what an interpreter ignores, and what those who started it may have blocked."""
    os.umask(0o022)
    for number in (SIGPIPE, SIGINT, SIGXFSZ):
        _libc.signal(number, ctypes.c_void_p(SIG_DFL))
    _checked(_libc.sigprocmask(SIG_SETMASK, bytes(128), None))


def _to_bubblewrap(plan: Plan) -> None:
    """Become bubblewrap, with nothing open and nothing known but what it needs."""
    _checked(_libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0))
    filtered = plan["seccomp" if _scope_with_landlock() else "seccomp_unscoped"]
    os.dup2(plan["report"], REPORT, inheritable=True)
    plan["report"] = REPORT
    _close_all_but([0, 1, 2, REPORT])
    options = list(plan["options"])
    program = os.memfd_create("seccomp", 0)
    os.write(program, filtered)
    os.lseek(program, 0, os.SEEK_SET)
    options += [b"--seccomp", str(program).encode()]
    words = os.memfd_create("options", 0)
    with open(os.dup(words), "wb") as file:
        file.write(b"\0".join(options) + b"\0")
    os.lseek(words, 0, os.SEEK_SET)
    _limit(plan["limits"])
    _as_a_shell_would_be()
    os.execve(plan["bwrap"], [b"bwrap", b"--args", str(words).encode(), *plan["command"]], {})


# --- the two processes -----------------------------------------------------------------------


def _in_steps(plan: Plan, steps: Mapping[str, Callable[[], object]]) -> None:
    """Do one after the other; whatever fails is reported by name, and ends us."""
    for name, step in steps.items():
        try:
            step()
        except OSError as error:
            os.write(plan["report"], f"!{name} {error.errno}".encode())
            os._exit(125)
        except Failure as failure:
            os.write(plan["report"], f"!{failure.step} {failure.number}".encode())
            os._exit(125)


def _first_process(plan: Plan, apart: bool) -> None:
    steps: dict[str, Callable[[], object]] = {
        "parent": lambda: _checked(_libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(SIGKILL), 0, 0, 0))
    }
    if plan["cgroup"] is not None:
        steps["cgroup"] = lambda: os.write(plan["cgroup"], b"0")
    if plan["room"] is None:
        steps["open"] = lambda: open_all(plan)
        steps["mount"] = lambda: build(plan, apart)
    steps["proc"] = _mount_proc
    if not apart:
        steps["numbers"] = lambda: _limit_process_numbers(plan["processes_max"])
    steps["start"] = lambda: _to_bubblewrap(plan)
    _in_steps(plan, steps)


def _watch(child: int, lifeline: int) -> int:
    """Wait for the end of the child, and bring it about when our own process has gone."""
    handle = os.pidfd_open(child)
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    poll.register(handle, select.POLLIN)
    if any(fd == lifeline for fd, _ in poll.poll()):
        os.kill(child, SIGKILL)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _be_without_namespaces(plan: Plan) -> None:
    """Start a command where it is, and see to it that whatever it starts ends with it: its orphans
    become ours, whichever session they are in."""
    _in_steps(plan, {"reaper": lambda: _checked(_libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))})
    child = os.fork()
    if child == 0:
        steps: dict[str, Callable[[], object]] = {
            "cwd": lambda: os.chdir(plan["cwd"]),
            "ready": lambda: _get_ready(plan),
            "confine": lambda: _confine(plan),
            "start": lambda: os.execve("/bin/sh", plan["command"], plan["env"]),
        }
        _in_steps(plan, steps)
    _close_all_but([plan["lifeline"]])
    code = _watch(child, plan["lifeline"])
    while True:
        for orphan in _children():
            os.kill(orphan, SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            os._exit(code)


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return [int(number) for number in file.read().split()]


def _get_ready(plan: Plan) -> None:
    os.setsid()
    if plan["terminal"]:
        _checked(_libc.ioctl(0, ctypes.c_ulong(TIOCSCTTY), 0))
    _limit(plan["limits"])
    os.dup2(plan["report"], REPORT, inheritable=True)
    plan["report"] = REPORT
    _close_all_but([0, 1, 2, REPORT])
    _as_a_shell_would_be()


def _be_a_room(plan: Plan) -> None:
    apart = []
    steps: dict[str, Callable[[], object]] = {
        "lock": lambda: lock_uppers(plan),
        "namespaces": lambda: apart.append(enter_namespaces(CLONE_NEWNS)),
        "open": lambda: open_all(plan),
        "mount": lambda: build(plan, apart[0]),
    }
    _in_steps(plan, steps)
    os.write(plan["report"], READY)
    _close_all_but([plan["lifeline"], *plan["locks"]])
    os.read(plan["lifeline"], 1)
    os._exit(0)


def main(plan_fd: int) -> None:
    with open(plan_fd, "rb") as file:
        plan = marshal.load(file)
    if plan["command"] is None:
        _be_a_room(plan)
    if plan["bwrap"] is None:
        _be_without_namespaces(plan)
    _in_steps(plan, {"lock": lambda: lock_uppers(plan), "cgroup": lambda: open_cgroup(plan)})
    try:
        if plan["room"] is None:
            apart = enter_namespaces(CLONE_NEWNS | CLONE_NEWPID)
        else:
            apart = enter_room(plan["room"])
        child = os.fork()
    except OSError as error:
        os.write(plan["report"], f"!namespaces {error.errno}".encode())
        os._exit(125)
    if child == 0:
        _first_process(plan, apart)
    _close_all_but([plan["lifeline"], *plan["locks"]])
    os._exit(_watch(child, plan["lifeline"]))
