"""Commands in bubblewrap: namespaces of their own, an overlay over each tree, a filter of calls.

`plans.py` says what is seen, `launching.py` starts `launcher.py`, which mounts it and watches,
`seccomp.py` filters, `processes.py` carries input and output.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from bailiwick.errors import BailiwickError, Closed, IoError, Unsupported
from bailiwick.finishing import to_the_end
from bailiwick.sandbox import CommandLimits, Invocation, Network, Shortfall, Tree, View, ViewMaking
from bailiwick.sandboxes import launch, plans, seccomp
from bailiwick.sandboxes.processes import RunningProcess, StartedProcess
from bailiwick.sandboxes.readiness import in_a_thread, running
from bailiwick.sandboxes.uppers import make_removable

_PROCESSES_OF_ROOT_SINCE = (6, 14)
"""Linux that gives out numbers of processes by namespace: RLIMIT_NPROC does not hold for root."""


class Bubblewrap:
    """Runs commands in bubblewrap, as root and as a plain user."""

    name = "bubblewrap"

    def __init__(self, *, program: str | None = None, cgroup: Path | None = None) -> None:
        """``program``: bubblewrap, looked for on the PATH unless given. ``cgroup``: a directory of
        cgroup v2 that is ours, with the controllers memory and pids for those beneath."""
        self._program = program or shutil.which("bwrap")
        self._cgroup = cgroup

    # --- what holds --------------------------------------------------------------------------

    def missing(self) -> tuple[Shortfall, ...]:
        fatal = self._without_trying or self._tried
        return (fatal,) if fatal is not None else tuple(self._lesser())

    @cached_property
    def _without_trying(self) -> Shortfall | None:
        if sys.platform != "linux":
            return Shortfall(what="bubblewrap needs Linux", remedy="run on Linux", fatal=True)
        if os.uname().machine not in seccomp.ARCHITECTURES:
            return Shortfall(
                what="the filter of system calls is not known for this processor",
                remedy=f"run on one of {', '.join(sorted(seccomp.ARCHITECTURES))}",
                fatal=True,
            )
        if self._program is None:
            return Shortfall(what="bubblewrap is not installed", remedy=launch.INSTALL, fatal=True)
        return None

    @cached_property
    def _tried(self) -> Shortfall | None:
        """Run a command that does nothing, on a tree that holds nothing."""
        with tempfile.TemporaryDirectory(prefix="bailiwick-sandbox-") as directory:
            lower, upper, work = (f"{directory}/{name}" for name in ("lower", "upper", "work"))
            for path in (lower, upper, work):
                os.mkdir(path)
            tree = Tree(place="/work", lower=lower, upper=upper, work=work)
            try:
                failure = self._try(Invocation(argv=("true",)), View(trees=(tree,)))
            except OSError as error:
                failure = IoError(f"a sandbox could not be started: {error.strerror or error}")
            except BailiwickError as error:
                failure = error
            make_removable(work)
        if failure is None:
            return None
        remedy = failure.hint or launch.INSTALL
        return Shortfall(what=failure.message, remedy=remedy, fatal=True)

    def _try(self, command: Invocation, view: View) -> BailiwickError | None:
        launcher = launch.Launcher(command)
        launched = launcher.start(self._program or "", self._cgroup, view)
        try:
            said = launched.report_blocking()
            if said == launch.READY:
                return None
            errors = next(fd for fd, name in launched.started.outputs.items() if name == "stderr")
            launched.started.popen.wait()
            return launch.failure(said, os.read(errors, 4096), command.limits)
        finally:
            launched.abandon()

    def _lesser(self) -> Iterator[Shortfall]:
        if self._cgroup is not None:
            return
        yield Shortfall(
            what="the memory of all processes of a command together is not limited, only that of"
            " each",
            remedy="give the service a cgroup (v2) with the controllers memory and pids"
            " (Delegate=yes in its systemd unit)",
            fatal=False,
        )
        release = tuple(int(part) for part in os.uname().release.split(".")[:2])
        if os.getuid() == 0 and release < _PROCESSES_OF_ROOT_SINCE:
            yield Shortfall(
                what="how many processes a command has is not limited for root",
                remedy="run as a plain user, give a cgroup, or use Linux 6.14 or newer",
                fatal=False,
            )

    # --- starting ----------------------------------------------------------------------------

    async def start(self, command: Invocation, view: View | ViewMaking) -> RunningProcess:
        self._refuse_what_cannot_be()
        return await self._start(command, view, None)

    async def open(
        self, view: View, *, limits: CommandLimits | None = None, network: Network = "none"
    ) -> BubblewrapRoom:
        plans.check_view(view)
        self._refuse_what_cannot_be()
        limits = limits or CommandLimits()
        launcher = await in_a_thread(launch.Launcher, None)
        launched = await in_a_thread(launcher.make_room, view, limits, network)
        try:
            said = await launched.report()
            if said != launch.READY:
                raise launch.failure(said, b"", limits)
        except BaseException:
            launched.started.end()
            await asyncio.shield(asyncio.to_thread(launched.abandon))
            raise
        launched.close()
        return BubblewrapRoom(self, view, launched.started)

    def _refuse_what_cannot_be(self) -> None:
        if self._without_trying is not None:
            raise Unsupported(self._without_trying.what, hint=self._without_trying.remedy)

    async def _start(
        self, command: Invocation, view: View | ViewMaking, room: int | None
    ) -> RunningProcess:
        """The interpreter of the launcher starts while the view is made."""
        launching = asyncio.ensure_future(in_a_thread(launch.Launcher, command, room=room))
        try:
            seen = view if isinstance(view, View) else await view()
            plans.check_view(seen)
            plans.check_command(command, seen)
            launcher = await asyncio.shield(launching)
        except BaseException:
            await to_the_end(_given_up(launching))
            raise
        launched = await in_a_thread(launcher.start, self._program or "", self._cgroup, seen)
        return await running(launched, command, self.name)


async def _given_up(launching: asyncio.Future[launch.Launcher]) -> None:
    with contextlib.suppress(BailiwickError):
        launcher = await launching
        await asyncio.to_thread(launcher.abandon)


class BubblewrapRoom:
    """What is mounted for several commands, as long as its process stands."""

    def __init__(self, sandbox: Bubblewrap, view: View, started: StartedProcess) -> None:
        self._sandbox = sandbox
        self._view = view
        self._started = started
        self._handle: int | None = os.pidfd_open(started.popen.pid)
        self._running: set[RunningProcess] = set()

    async def start(self, command: Invocation) -> RunningProcess:
        if self._handle is None:
            raise Closed("the room was closed")
        process = await self._sandbox._start(command, self._view, self._handle)
        self._running = {each for each in self._running if not each.ended} | {process}
        if self._is_closed():
            await process.close()
            raise Closed("the room was closed")
        return process

    def _is_closed(self) -> bool:
        return self._handle is None

    async def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is None:
            return
        os.close(handle)
        try:
            for process in self._running:
                await process.kill()
        finally:
            self._started.end()
            await asyncio.shield(asyncio.to_thread(self._started.abandon))
