"""Commands without a sandbox, for whoever has decided so.

They run as the user who runs us, on the tree itself, with limits, and end with all they started.
Nothing keeps them from anything else, so everything a view can ask for beyond that is refused
rather than passed over.
"""

from __future__ import annotations

import sys

from bailiwick.errors import Closed, Unsupported
from bailiwick.sandbox import CommandLimits, Invocation, Network, Shortfall, View
from bailiwick.sandboxes import launch, plans
from bailiwick.sandboxes.processes import RunningProcess
from bailiwick.sandboxes.readiness import in_a_thread, running


class Unconfined:
    """Runs commands as they are."""

    name = "none"

    def missing(self) -> tuple[Shortfall, ...]:
        if sys.platform != "linux":
            what = "processes that a command leaves behind are found on Linux only"
            return (Shortfall(what=what, remedy="run on Linux", fatal=True),)
        what = "commands are not confined: they can do what the user can who runs this"
        return (Shortfall(what=what, remedy="use the sandbox bubblewrap", fatal=False),)

    async def start(self, command: Invocation, view: View) -> RunningProcess:
        """The first tree is written in place: give it a copy where that is not wanted."""
        self._check(view)
        plans.check_command(command, view)
        if command.network != "host":
            raise Unsupported("without a sandbox a command has the network of the host")
        launched = await in_a_thread(launch.launch_unconfined, command, view)
        return await running(launched, command, self.name)

    async def open(
        self, view: View, *, limits: CommandLimits | None = None, network: Network = "none"
    ) -> UnconfinedRoom:
        self._check(view)
        return UnconfinedRoom(self, view)

    def _check(self, view: View) -> None:
        plans.check_view(view)
        if self.missing()[0].fatal:
            raise Unsupported(self.missing()[0].what)
        if len(view.trees) != 1:
            raise Unsupported("without a sandbox a command sees one tree: nothing is kept from it")
        tree = view.trees[0]
        if tree.upper is not None or tree.lower != tree.place:
            raise Unsupported("without a sandbox a command sees its tree where it is, as it is")
        if tree.masked:
            raise Unsupported("without a sandbox nothing can be masked")


class UnconfinedRoom:
    """Remembers what was started, to end it."""

    def __init__(self, sandbox: Unconfined, view: View) -> None:
        self._sandbox = sandbox
        self._view = view
        self._closed = False
        self._running: set[RunningProcess] = set()

    async def start(self, command: Invocation) -> RunningProcess:
        if self._closed:
            raise Closed("the room was closed")
        process = await self._sandbox.start(command, self._view)
        self._running = {each for each in self._running if not each.ended} | {process}
        return process

    async def close(self) -> None:
        self._closed = True
        for process in self._running:
            await process.kill()
