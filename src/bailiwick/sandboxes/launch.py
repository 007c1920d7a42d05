"""Starting the launcher: pipes, descriptors, the cgroup, and the words of what went wrong."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import marshal
import os
import pty
import secrets
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bailiwick.errors import BailiwickError, Busy, IoError, ParseError, PathNotFound, Unsupported
from bailiwick.sandbox import CommandLimits, Invocation, Network, Stream, Tree, View
from bailiwick.sandboxes import plans
from bailiwick.sandboxes.processes import StartedProcess, set_window
from bailiwick.sandboxes.specials import specials

_RUN = "import sys; sys.path.append(sys.argv[1]); import launcher; launcher.main(int(sys.argv[2]))"
"""As a module, so that its compiled form is kept."""

READY = b"+"

_lifelines: set[int] = set()


def _let_go() -> None:
    """A process that we forked would hold them when we are gone."""
    while _lifelines:
        os.close(_lifelines.pop())


os.register_at_fork(after_in_child=_let_go)

INSTALL = "install bubblewrap (on Debian or Ubuntu: apt install bubblewrap)"
ALLOW_NAMESPACES = (
    "run as root, or let plain users have user namespaces (sysctl user.max_user_namespaces,"
    " kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0); let a"
    " container mount (--privileged, or --cap-add SYS_ADMIN --security-opt seccomp=unconfined"
    " --security-opt systempaths=unconfined)"
)
ALLOW_LANDLOCK = "use the sandbox bubblewrap, or a machine whose kernel has Landlock (Linux 6.12)"
ANOTHER_DISK = (
    "keep working copies on a filesystem that overlayfs can write to (ext4, xfs, btrfs, tmpfs; not"
    " the root of a container nor a network filesystem), on Linux 5.12 or newer"
)


class Ends:
    """Both ends of all pipes to one command. Those of the child are closed when it has them."""

    def __init__(self, command: Invocation | None) -> None:
        self._theirs: list[int] = []
        self._ours: list[int] = []
        self.outputs: dict[int, Stream] = {}
        self.input_fd: int | None = None
        try:
            self.plan_read, self.plan_write = self._pipe(ours=1)
            self.lifeline_read, self.lifeline = self._pipe(ours=1)
            self.report, self.report_write = self._pipe(ours=0)
            self._open_streams(command)
        except BaseException:
            self.close_all()
            raise

    def _pipe(self, *, ours: int) -> tuple[int, int]:
        ends = os.pipe()
        self._ours.append(ends[ours])
        self._theirs.append(ends[1 - ours])
        return ends

    def _open_streams(self, command: Invocation | None) -> None:
        if command is None:
            self.stdin = self.stdout = self.stderr = subprocess.DEVNULL
            return
        if command.terminal is not None:
            master, slave = pty.openpty()
            self._ours.append(master)
            self._theirs.append(slave)
            set_window(master, command.terminal)
            self.stdin = self.stdout = self.stderr = slave
            self.input_fd, self.outputs = master, {master: "stdout"}
            return
        if command.stdin is None:
            self.stdin = subprocess.DEVNULL
        else:
            self.stdin, self.input_fd = self._pipe(ours=1)
        out, self.stdout = self._pipe(ours=0)
        err, self.stderr = self._pipe(ours=0)
        self.outputs = {out: "stdout", err: "stderr"}

    def close_theirs(self) -> None:
        while self._theirs:
            os.close(self._theirs.pop())

    def close_all(self) -> None:
        self.close_theirs()
        while self._ours:
            os.close(self._ours.pop())

    def send_plan(self, plan: dict[str, Any]) -> None:
        self._ours.remove(self.plan_write)
        # One that has died already says so by what it reported.
        with contextlib.suppress(BrokenPipeError), open(self.plan_write, "wb") as pipe:
            pipe.write(marshal.dumps(plan))


def make_cgroup(path: Path) -> None:
    """The kernel puts into the directory what is written to next."""
    path.mkdir()


class Group:
    """A cgroup for one command."""

    def __init__(self, parent: Path, limits: CommandLimits) -> None:
        self._path = parent / f"command-{secrets.token_hex(8)}"
        make_cgroup(self._path)
        try:
            (self._path / "memory.max").write_text(str(limits.memory_bytes_max))
            (self._path / "pids.max").write_text(str(limits.processes_max + 3))
            with contextlib.suppress(FileNotFoundError):  # a machine that has no swap
                (self._path / "memory.swap.max").write_text("0")
            self.procs = os.open(self._path / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
        except BaseException:
            self._path.rmdir()
            raise

    def remove(self) -> None:
        """When nobody is in it any more; a while later where the kernel is not done with them."""
        with contextlib.suppress(OSError):
            self._path.rmdir()


class Launched:
    """A launcher at work, before it is known whether it will succeed."""

    def __init__(self, started: StartedProcess, report: int) -> None:
        self.started = started
        self._report = report

    def report_blocking(self) -> bytes:
        """What it says when it is ready, or what went wrong; nothing where bubblewrap failed."""
        said = b""
        while said != READY and (more := os.read(self._report, 256)):
            said += more
        return said

    async def report(self) -> bytes:
        """Wait for what the launcher says, on the event loop."""
        loop = asyncio.get_running_loop()
        said: asyncio.Future[None] = loop.create_future()
        text = b""

        def read() -> None:
            nonlocal text
            more = os.read(self._report, 256)
            text += more
            if (not more or text == READY) and not said.done():
                said.set_result(None)

        loop.add_reader(self._report, read)
        try:
            await said
        finally:
            loop.remove_reader(self._report)
        return text

    def close(self) -> None:
        os.close(self._report)

    def abandon(self) -> None:
        self.close()
        self.started.abandon()


# --- a view ----------------------------------------------------------------------------------


def _open_tree(tree: Tree, opened: contextlib.ExitStack) -> int:
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    try:
        if isinstance(tree.lower, int):
            # One of our own, so that whoever gave it may close it meanwhile.
            fd = os.open(".", flags, dir_fd=tree.lower)
        else:
            fd = os.open(tree.lower, flags)
    except OSError as error:
        raise PathNotFound("a tree of the view cannot be opened") from error
    opened.callback(os.close, fd)
    return fd


def _lock(tree: Tree, opened: contextlib.ExitStack) -> list[int]:
    """Two overlays over one upper directory would each not know what the other does."""
    if tree.upper is None:
        return []
    try:
        fd = os.open(tree.upper, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise PathNotFound("an upper directory cannot be opened") from error
    opened.callback(os.close, fd)
    lock_upper(fd)
    return [fd]


def lock_upper(upper: int) -> None:
    """Raises `Busy` while another command has it."""
    try:
        fcntl.flock(upper, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Busy("another command is at work on what was changed here") from None


def _specials_of_home(view: View) -> list[bytes]:
    if view.home is None:
        return []
    try:
        fd = os.open(view.home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise PathNotFound("the home directory of a command cannot be opened") from error
    try:
        return list(specials(fd))
    finally:
        os.close(fd)


def _prepare(view: View, opened: contextlib.ExitStack) -> plans.PreparedView:
    return plans.PreparedView(
        lowers=[_open_tree(tree, opened) for tree in view.trees],
        masked=[[plans.masked_name(path) for path in tree.masked] for tree in view.trees],
        home_masked=[],
        locks=[fd for tree in view.trees for fd in _lock(tree, opened)],
    )


def _look_through(view: View, prepared: plans.PreparedView) -> None:
    for tree, paths, fd in zip(view.trees, prepared.masked, prepared.lowers, strict=True):
        if not tree.searched:
            paths += specials(fd)
    prepared.home_masked.extend(_specials_of_home(view))


# --- starting ----------------------------------------------------------------------------------


def launch_room(view: View, limits: CommandLimits, network: Network) -> Launched:
    """Start a process that has everything of a view mounted. Blocking, as `launch`."""
    with contextlib.ExitStack() as opened:
        prepared = _prepare(view, opened)

        def told() -> dict[str, Any]:
            _look_through(view, prepared)
            return {**plans.of_view(view, limits, network, prepared), "room": None, "cgroup": None}

        return _run(None, None, [*prepared.lowers, *prepared.locks], told)


def launch(
    program: str, cgroup: Path | None, command: Invocation, view: View, room: int | None = None
) -> Launched:
    """Start a command, in a room where one is given by the handle of its process, else in a view of
    its own. Blocking. Raises OSError and `BailiwickError`."""
    with contextlib.ExitStack() as opened:
        group = Group(cgroup, command.limits) if cgroup is not None else None
        passed = []
        if group is not None:
            opened.callback(os.close, group.procs)
            passed.append(group.procs)
        prepared = _prepare(view, opened) if room is None else None
        passed += [room] if room is not None else []
        passed += [*prepared.lowers, *prepared.locks] if prepared is not None else []

        def told() -> dict[str, Any]:
            plan: dict[str, Any] = plans.of_command(command, view, program)
            if prepared is not None:
                _look_through(view, prepared)
                seen = plans.of_view(view, command.limits, command.network, prepared)
                plan = {**plan, **seen, "command": plan["command"]}
            procs = group.procs if group is not None else None
            return {**plan, "room": room, "cgroup": procs}

        try:
            return _run(command, group, passed, told)
        except BaseException:
            if group is not None:
                group.remove()
            raise


def launch_on_copy(command: Invocation, plan: dict[str, Any]) -> Launched:
    """Start a command without anything mounted. Blocking, as `launch`."""
    return _run(command, None, [], lambda: plan, depth=1)


def _run(
    command: Invocation | None,
    group: Group | None,
    passed: list[int],
    told: Callable[[], dict[str, Any]],
    depth: int = 3,
) -> Launched:
    """``depth``: how far below the monitor the command is, each time the first child."""
    ends = Ends(command)
    theirs = {"lifeline": ends.lifeline_read, "report": ends.report_write}
    try:
        popen = subprocess.Popen(
            # Neither an environment nor a directory of ours, and no package but its own.
            [sys.executable, "-I", "-S", "-c", _RUN, os.path.dirname(__file__),
             str(ends.plan_read)],
            stdin=ends.stdin, stdout=ends.stdout, stderr=ends.stderr,
            pass_fds=[ends.plan_read, *theirs.values(), *passed],
            env={}, cwd="/", start_new_session=True,
        )  # fmt: skip
    except BaseException:
        ends.close_all()
        raise
    ends.close_theirs()
    try:
        # The interpreter starts while the trees are looked through.
        ends.send_plan({**told(), **theirs})
    except BaseException:
        popen.kill()
        popen.wait()
        ends.close_all()
        raise
    terminal = command is not None and command.terminal is not None
    return Launched(_started(popen, ends, group, depth, terminal=terminal), ends.report)


def _started(
    popen: subprocess.Popen[bytes], ends: Ends, group: Group | None, depth: int, *, terminal: bool
) -> StartedProcess:
    lifeline = ends.lifeline
    _lifelines.add(lifeline)
    ended = False

    def end() -> None:
        nonlocal ended
        if not ended:
            ended = True
            # A child of ours has none of them any more.
            if lifeline in _lifelines:
                _lifelines.remove(lifeline)
                os.close(lifeline)

    def gone() -> None:
        end()
        if group is not None:
            group.remove()

    return StartedProcess(
        popen,
        end=end,
        gone=gone,
        send=lambda number: _send_signal(popen.pid, depth, number),
        outputs=ends.outputs,
        input_fd=ends.input_fd,
        terminal=terminal,
    )


def _first_child(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            children = file.read().split()
    except OSError:
        return None
    return int(children[0]) if children else None


def _send_signal(monitor: int, depth: int, number: int) -> None:
    """To the group of the command: in bubblewrap the first child of its own first process."""
    pid: int | None = monitor
    for _ in range(depth):
        pid = _first_child(pid) if pid is not None else None
    if pid is None:
        return
    with contextlib.suppress(ProcessLookupError):
        group = os.getpgid(pid)
        if group == os.getpgid(monitor):  # it has made none of its own yet
            os.kill(pid, number)
        else:
            os.killpg(group, number)


# --- what went wrong -------------------------------------------------------------------------


def failure(said: bytes, complaint: bytes) -> BailiwickError:
    """What to raise for a launcher that is not ready: ``said`` by it, or bubblewrap's words."""
    if said.startswith(b"!"):
        step, _, number = said[1:].decode("ascii", "replace").partition(" ")
        code = int(number) if number.isdecimal() else errno.EIO
        return _failed_step(step, code)
    words = complaint.decode("utf-8", "replace").strip().splitlines()
    last = words[-1] if words else "it said nothing"
    if "Can't chdir" in last:
        return PathNotFound("the directory to start in is not there")
    return Unsupported(f"bubblewrap cannot run here: {last[:200]}", hint=ALLOW_NAMESPACES)


def _failed_step(step: str, code: int) -> BailiwickError:
    reason = os.strerror(code)
    if step == "namespaces":
        return Unsupported(f"no namespaces for a sandbox: {reason}", hint=ALLOW_NAMESPACES)
    if step == "cwd":
        return PathNotFound("the directory to start in is not there")
    if step == "confine":
        return Unsupported(f"Landlock cannot be used here: {reason}", hint=ALLOW_LANDLOCK)
    if step == "proc":
        return Unsupported(f"no /proc for a sandbox: {reason}", hint=ALLOW_NAMESPACES)
    if step == "overlay":
        return Unsupported(f"a tree cannot be overlaid: {reason}", hint=ANOTHER_DISK)
    if step == "open" and code in (errno.ENOENT, errno.ESTALE):
        return PathNotFound("something that a command was to see is not there")
    if step == "readable":
        return ParseError("only files and directories of the host can be given to be read")
    if code == errno.E2BIG:
        return ParseError("the words and the environment of a command are too long")
    return IoError(f"a sandbox could not be made ({step}): {reason}")
