"""Running a command: what the program sees follows from grant and policy, as reading would.

The question and the record are about the command, the rules about its words. What it changes is
judged when it is brought back (`bailiwick.verbs.working_copies`), path by path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, Literal, NamedTuple, Protocol

import msgspec

from bailiwick import sandbox
from bailiwick.call import Call
from bailiwick.commands import Commands, DirectorySeen, InSight, LendsCommands, PlacedCopy, Visible
from bailiwick.errors import NotADirectory, Unsupported
from bailiwick.finishing import to_the_end
from bailiwick.grant import Root
from bailiwick.operations import Access, Command
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.proposal import Proposal, as_it_is
from bailiwick.sandbox import CommandLimits, HostPath, Process, Tree, View, WindowSize
from bailiwick.version_acts import RunCommand

_READ: Final[frozenset[Access]] = frozenset(("read",))
_SEE: Final[frozenset[Access]] = frozenset(("metadata",))

_PATHS_BETWEEN_PAUSES: Final = 4_096
"""After so many paths judged, others get their turn."""

_SYSTEM_PLACES: Final = (
    "bin", "boot", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "proc", "root", "run",
    "sbin", "srv", "sys", "tmp", "usr", "var",
)  # fmt: skip
"""Where a root cannot stand inside: a program looks there for the system."""


GiveBack = Callable[[], None]


class How(NamedTuple):
    """How a command is run, beyond its words."""

    stdin: bytes | Literal["pipe"] | None
    limits: CommandLimits
    terminal: WindowSize | None = None
    replayable: bool = True


class Started(NamedTuple):
    """A command under way, and what it changes."""

    command: Command
    process: Process
    copy: PlacedCopy
    writable: bool
    give_back: GiveBack
    """To be called when it has ended: others may have its turn."""
    beside: tuple[ReadableBeside, ...] = ()


class Sight(NamedTuple):
    """What of the tree a program is to see, and whether it may change it."""

    place: str
    masked: tuple[str, ...]
    writable: bool


class Workroom(Protocol):
    """Where a command is started: in a working copy of its own, or in that of its session."""

    async def start(
        self, call: Call, commands: Commands, command: Command, how: How
    ) -> Started: ...

    async def give_up(self, started: Started) -> None:
        """End a command that nobody has a use for, as if it had not been started."""
        ...


async def run_command(
    call: Call, lends: LendsCommands | None, command: Command, how: How, room: Workroom
) -> Proposal[Started]:
    """Start ``command`` in a workroom."""
    if lends is None:
        raise Unsupported(
            "no commands are run in this root",
            hint="they are run where bubblewrap is installed, and the state is one machine's own",
        )
    if call.target.look == "object" and call.handle.type != "directory":
        raise NotADirectory("a command is run in a directory", path=call.handle.path)
    commands = lends()
    if command.network not in commands.share.networks:
        raise Unsupported(
            f"the network {command.network!r} is not let through here",
            details={"networks": sorted(commands.share.networks)},
            hint="whoever opens the root lets networks through: commands=HostShare(networks=…)",
        )
    _check_machine(commands)
    command = msgspec.structs.replace(command, sandbox=commands.sandbox.name)
    commands.slots.refuse_full(call.grant)  # nobody is asked about what cannot be begun
    call.command = command

    def start() -> Awaitable[Started]:
        return room.start(call, commands, command, how)

    return Proposal(RunCommand(call.handle, command.text, start), as_it_is)


def _check_machine(commands: Commands) -> None:
    for each in commands.sandbox.missing():
        if each.fatal:
            raise Unsupported(each.what, hint=each.remedy)


class ReadableBeside(Protocol):
    """A tree of another root that a command can read."""

    @property
    def tree(self) -> Tree: ...

    def check_holds(self) -> None:
        """Raise where it is not to be read any more."""
        ...

    async def aclose(self) -> None: ...


class OwnRoom:
    """For one command: a new working copy, and nobody else in it. ``beside`` shows what it can read
    of other roots."""

    def __init__(
        self, beside: Callable[[], Awaitable[Sequence[ReadableBeside]]] | None = None
    ) -> None:
        self._beside = beside

    async def start(self, call: Call, commands: Commands, command: Command, how: How) -> Started:
        give_back = commands.slots.take(call.grant)
        beside: Sequence[ReadableBeside] = ()
        try:
            beside = () if self._beside is None else await self._beside()
            trees = [each.tree for each in beside]
            # Begun, it is begun: whoever is cancelled meanwhile gives it up then.
            started = await to_the_end(
                self._started(call, commands, command, how, trees, give_back)
            )
        except BaseException:
            give_back()
            for each in beside:
                await to_the_end(each.aclose())
            raise
        return started._replace(beside=tuple(beside))

    async def _started(
        self,
        call: Call,
        commands: Commands,
        command: Command,
        how: How,
        others: Sequence[Tree],
        give_back: GiveBack,
    ) -> Started:
        own = _OwnCopy(call, commands, command, others)
        try:
            process = await commands.sandbox.start(for_sandbox(command, how), own.view)
        except BaseException:
            if own.copy is not None:
                await to_the_end(give_up(own.copy))
            raise
        assert own.copy is not None
        return Started(command, process, own.copy, own.writable, give_back)

    async def give_up(self, started: Started) -> None:
        try:
            await started.process.close()
        finally:
            started.give_back()
            for each in started.beside:
                await each.aclose()
        await give_up(started.copy)


class _OwnCopy:
    """The working copy of one command, made while its sandbox gets ready."""

    def __init__(
        self, call: Call, commands: Commands, command: Command, others: Sequence[Tree]
    ) -> None:
        self._call = call
        self._commands = commands
        self._command = command
        self._others = others
        self.copy: PlacedCopy | None = None
        self.writable = False

    async def view(self) -> View:
        self.copy = copy = await make_copy(self._call, self._commands, self._command, None)
        await copy.survey()
        sight = await sight_of(self._call, copy)
        self.writable = sight.writable
        await copy.show(sight.masked)
        return view_of(self._commands, copy, sight, self._others, lasting=False)


async def make_copy(call: Call, commands: Commands, command: Command, id: str | None) -> PlacedCopy:
    grant = call.grant
    return await commands.workplace.make(
        subject=str(grant.subject), request_id=call.request_id, command=command.argv,
        via=grant.via, id=id,
    )  # fmt: skip


async def give_up(copy: PlacedCopy) -> None:
    await copy.discard()
    copy.close()


async def sight_of(call: Call, copy: Visible) -> Sight:
    """What whoever calls lets a program see of what the survey has found."""
    writable = "write" in call.grant.access and call.grant.root.trusted
    return Sight(place_of(call.grant.root), await _masked(call, copy), writable)


async def still_shows(call: Call, shown: InSight, sight: Sight) -> bool:
    """Whether whoever calls may see by now what they were shown then: as much of it, and all that
    others have made or moved in it since. The tree is judged once, as it is now: a command of a
    session waits for that."""
    now = await shown.by_now()
    if now is None:
        return False
    by_now = await sight_of(call, now)
    if now is shown or by_now._replace(masked=sight.masked) != sight:
        return by_now == sight
    hidden = set(sight.masked)
    return hidden.issuperset(by_now.masked) and not _are_any_in(now, hidden - {*by_now.masked})


def _are_any_in(tree: Visible, paths: AbstractSet[str]) -> bool:
    """Whether any of what was masked, and would not be now, is there still."""
    return bool(paths) and any(
        each.path in paths or not paths.isdisjoint(each.files) for each in tree.seen()
    )


def view_of(
    commands: Commands, copy: PlacedCopy, sight: Sight, others: Sequence[Tree] = (), *,
    lasting: bool,
) -> View:  # fmt: skip
    """``lasting``: see `bailiwick.sandbox.Tree`."""
    share = commands.share
    own = copy.tree(sight.place, sight.masked, writable=sight.writable, lasting=lasting)
    return View(
        trees=(own, *others), home=share.home,
        readable=tuple(map(HostPath, share.readable)),
    )  # fmt: skip


def for_sandbox(command: Command, how: How) -> sandbox.Invocation:
    return sandbox.Invocation(
        argv=command.argv, cwd=command.cwd,
        env=dict(each.split("=", 1) for each in command.environment),
        stdin=how.stdin, terminal=how.terminal, network=command.network, limits=how.limits,
        replayable=how.replayable,
    )  # fmt: skip


def place_of(root: Root) -> str:
    """Where a root stands inside: at its mount point, unless the system is there."""
    first = root.mount_point.strip("/").partition("/")[0]
    if not first or first in _SYSTEM_PLACES:
        name = "".join(each if each.isalnum() or each in "-_." else "-" for each in root.id)
        return f"/work/{name.strip('.') or 'root'}"
    return root.mount_point.rstrip("/")


# --- what is kept from it ---------------------------------------------------------------------


async def _masked(call: Call, copy: Visible) -> tuple[str, ...]:
    """What the subject may not read, or would have to ask for: it is not there for a program."""
    if not call.must_decide_below(ROOT, _READ):
        return ()
    masks = _Masks(call)
    some: list[DirectorySeen] = []
    count = 0
    for each in copy.seen():
        some.append(each)
        count += 1 + len(each.files)
        if count >= _PATHS_BETWEEN_PAUSES:
            masks.judge(some)
            some, count = [], 0
            await asyncio.sleep(0)
    masks.judge(some)
    return tuple(masks.found)


class _Masks:
    """What a program is not to see, the outermost of it."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._covered: set[str] = set()
        """Directories that are masked, or lie in one that is."""
        self.found: list[str] = []

    def judge(self, directories: Sequence[DirectorySeen]) -> None:
        """What they lie in was judged before, or is among them."""
        self._judge_directories(directories)
        files: list[ScopedPath] = []
        for each in directories:
            if each.path not in self._covered:
                files += each.files
                self.found += each.unnamed  # of which nobody can say what may be done with it
        self.found += sorted(self._call.left_out(files, _READ, is_directory=False))

    def _judge_directories(self, directories: Sequence[DirectorySeen]) -> None:
        top = self._call.grant.path
        # What leads to what the grant reaches is seen.
        named = [each.place for each in directories if each.path and each.place is not None]
        places = [place for place in named if place == top or not top.lies_in(place)]
        left_out = self._call.left_out(places, _SEE, is_directory=True)
        for path, place, _, _ in directories:
            if path and path.rpartition("/")[0] in self._covered:
                self._covered.add(path)
            elif place is None or place in left_out:
                self._covered.add(path)
                self.found.append(path)
