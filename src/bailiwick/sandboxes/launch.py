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
from typing import Any, Final

from bailiwick.errors import BailiwickError, Busy, IoError, ParseError, PathNotFound, Unsupported
from bailiwick.model import MiB
from bailiwick.sandbox import CommandLimits, Invocation, Network, Stream, Tree, View
from bailiwick.sandboxes import plans
from bailiwick.sandboxes.processes import StartedProcess, set_window
from bailiwick.sandboxes.specials import specials

_RUN = "import sys; sys.path.append(sys.argv[1]); import launcher; launcher.main(int(sys.argv[2]))"
"""As a module, so that its compiled form is kept."""

READY = b"+"

_ours_alone: set[int] = set()
"""By the end of these a launcher knows that we are gone."""


def _let_go() -> None:
    """A process that we forked would hold them when we are."""
    while _ours_alone:
        os.close(_ours_alone.pop())


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
        _ours_alone.difference_update(self._ours)
        self.close_theirs()
        while self._ours:
            os.close(self._ours.pop())

    def send_plan(self, plan: dict[str, Any]) -> None:
        self._ours.remove(self.plan_write)
        _ours_alone.discard(self.plan_write)
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
        self.procs = str(self._path / "cgroup.procs")
        """Where a process writes that goes into it."""
        make_cgroup(self._path)
        try:
            (self._path / "memory.max").write_text(str(limits.memory_bytes_max))
            (self._path / "pids.max").write_text(str(limits.processes_max + 3))
            with contextlib.suppress(FileNotFoundError):  # a machine that has no swap
                (self._path / "memory.swap.max").write_text("0")
        except BaseException:
            self._path.rmdir()
            raise

    def remove(self) -> None:
        """When nobody is in it any more; a while later where the kernel is not done with them."""
        with contextlib.suppress(OSError):
            self._path.rmdir()


class Launched:
    """A launcher at work, before it is known whether it will succeed."""

    def __init__(self, started: StartedProcess, report: int, held: contextlib.ExitStack) -> None:
        """``held`` is needed until it is known."""
        self.started = started
        self._report = report
        self._held = held

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
        self._held.close()

    def abandon(self) -> None:
        self.close()
        self.started.abandon()


# --- a view ----------------------------------------------------------------------------------


def _open_tree(tree: Tree, held: contextlib.ExitStack) -> plans.OpenedTree:
    """The directory by its name, and as what it is known there: held until it was looked up, so
    that no other can have come to be known as that."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    try:
        if isinstance(tree.lower, int):
            # One of our own, so that whoever gave it may close it meanwhile.
            fd = os.open(".", flags, dir_fd=tree.lower)
        else:
            fd = os.open(tree.lower, flags)
    except OSError as error:
        raise PathNotFound("a tree of the view cannot be opened") from error
    held.callback(os.close, fd)
    status = os.fstat(fd)
    return plans.OpenedTree(fd, os.readlink(f"/proc/self/fd/{fd}"), (status.st_dev, status.st_ino))


def lock_upper(upper: int) -> None:
    """Raises `Busy` while another command has it."""
    try:
        fcntl.flock(upper, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _busy() from None


def _busy() -> Busy:
    return Busy("another command is at work on what was changed here")


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


def _prepare(view: View, held: contextlib.ExitStack) -> plans.PreparedView:
    """What the launcher has to be told of a view. Blocking: trees are looked through."""
    lowers = [_open_tree(tree, held) for tree in view.trees]
    masked = [[plans.masked_name(path) for path in tree.masked] for tree in view.trees]
    for tree, paths, lower in zip(view.trees, masked, lowers, strict=True):
        if not tree.searched:
            paths += specials(lower.fd)
    return plans.PreparedView(lowers, masked, _specials_of_home(view))


# --- starting ----------------------------------------------------------------------------------


class Launcher:
    """An interpreter that starts, and waits to be told what to do: that takes as long as finding
    out what."""

    def __init__(
        self, command: Invocation | None, *, room: int | None = None, depth: int = 3
    ) -> None:
        """Blocking. ``command`` is None for a room; one that is started in a room is given the
        handle of its process. ``depth``: how far below the monitor the command is, each time the
        first child. Raises OSError."""
        self._command = command
        self._room = room
        self._depth = depth
        self._ends = ends = Ends(command)
        self._theirs = {"lifeline": ends.lifeline_read, "report": ends.report_write}
        passed = [ends.plan_read, *self._theirs.values(), *([] if room is None else [room])]
        try:
            self._popen = subprocess.Popen(
                # Neither an environment nor a directory of ours, and no package but its own.
                [sys.executable, "-I", "-S", "-c", _RUN, os.path.dirname(__file__),
                 str(ends.plan_read)],
                stdin=ends.stdin, stdout=ends.stdout, stderr=ends.stderr, pass_fds=passed,
                env={}, cwd="/", start_new_session=True,
            )  # fmt: skip
        except BaseException:
            ends.close_all()
            raise
        _ours_alone.update((ends.plan_write, ends.lifeline))
        ends.close_theirs()

    def make_room(self, view: View, limits: CommandLimits, network: Network) -> Launched:
        """Have everything of a view mounted. Blocking, as `start`."""
        return self._told(lambda held: plans.of_view(view, limits, network, _prepare(view, held)))

    def start(self, program: str, cgroup: Path | None, view: View) -> Launched:
        """Start the command, in its room where it has one, else in a view of its own. Blocking.
        Raises OSError and `BailiwickError`; then it is gone."""
        assert self._command is not None
        command = self._command

        def plan(held: contextlib.ExitStack) -> dict[str, Any]:
            started = plans.of_command(command, view, program)
            if self._room is not None:
                return started
            seen = plans.of_view(view, command.limits, command.network, _prepare(view, held))
            return {**seen, **started}

        return self._told(plan, cgroup)

    def start_on_copy(self, plan: dict[str, Any]) -> Launched:
        """Start the command without anything mounted. Blocking, as `start`."""
        return self._told(lambda _: plan)

    def _told(
        self, make: Callable[[contextlib.ExitStack], dict[str, Any]], cgroup: Path | None = None
    ) -> Launched:
        group = None
        with contextlib.ExitStack() as undo:
            undo.callback(self.abandon)
            if cgroup is not None and self._command is not None:
                group = Group(cgroup, self._command.limits)
                undo.callback(group.remove)
            held = undo.enter_context(contextlib.ExitStack())
            procs = None if group is None else group.procs
            plan = {**make(held), **self._theirs, "room": self._room, "cgroup": procs}
            self._ends.send_plan(plan)
            kept = held.pop_all()
            undo.pop_all()
        terminal = self._command is not None and self._command.terminal is not None
        started = _started(self._popen, self._ends, group, self._depth, terminal=terminal)
        return Launched(started, self._ends.report, kept)

    def abandon(self) -> None:
        """It was told nothing, and is not needed."""
        self._popen.kill()
        self._popen.wait()
        self._ends.close_all()


def _started(
    popen: subprocess.Popen[bytes], ends: Ends, group: Group | None, depth: int, *, terminal: bool
) -> StartedProcess:
    lifeline = ends.lifeline
    ended = False

    def end() -> None:
        nonlocal ended
        if not ended:
            ended = True
            # A child of ours has none of them any more.
            if lifeline in _ours_alone:
                _ours_alone.remove(lifeline)
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


_ENOUGH_TO_START: Final = CommandLimits(
    memory_bytes_max=16 * MiB, address_space_bytes_max=256 * MiB, processes_max=2,
    descriptors_max=32, scratch_bytes_max=1 * MiB,
)  # fmt: skip
"""Several times of what bubblewrap and a shell take. Less is not refused before it was tried: what
they need is another on each machine, and the command may be content with it."""

_HOLD_FROM_THE_START: Final = (
    "memory_bytes_max", "address_space_bytes_max", "processes_max", "descriptors_max",
    "scratch_bytes_max",
)  # fmt: skip


def failure(said: bytes, complaint: bytes, limits: CommandLimits) -> BailiwickError:
    """What to raise for a launcher that is not ready: ``said`` by it, or bubblewrap's words.
    ``limits`` are those that it was started under."""
    if said.startswith(b"!"):
        step, _, number = said[1:].decode("ascii", "replace").partition(" ")
        code = int(number) if number.isdecimal() else errno.EIO
        if step == "mount" and code == errno.ENOSPC:
            return _without_room(limits) or _failed_step(step, code)
        return _failed_step(step, code)
    words = complaint.decode("utf-8", "replace").strip().splitlines()
    last = words[-1] if words else "it said nothing"
    if "Can't chdir" in last:
        return PathNotFound("the directory to start in is not there")
    return _without_room(limits) or Unsupported(
        f"bubblewrap cannot run here: {last[:200]}", hint=ALLOW_NAMESPACES
    )


def _without_room(limits: CommandLimits) -> ParseError | None:
    """Where limits are so small that nothing can be started under them."""
    enough = {
        name: getattr(_ENOUGH_TO_START, name)
        for name in _HOLD_FROM_THE_START
        if getattr(limits, name) < getattr(_ENOUGH_TO_START, name)
    }
    if not enough:
        return None
    words = ", ".join(f"{name} {getattr(limits, name)}" for name in enough)
    return ParseError(
        f"the limits of the command leave no room for it to start: {words}",
        details={"enough": enough},
        hint="enough is " + ", ".join(f"{name} {least}" for name, least in enough.items()),
    )


def _failed_step(step: str, code: int) -> BailiwickError:
    reason = os.strerror(code)
    if step == "namespaces":
        return Unsupported(f"no namespaces for a sandbox: {reason}", hint=ALLOW_NAMESPACES)
    if step == "lock":
        if code == errno.EAGAIN:
            return _busy()
        return PathNotFound("an upper directory cannot be opened")
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
