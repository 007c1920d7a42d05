"""The seam for running one command confined: what is run, what it sees, and what came of it.

A sandbox knows nothing of grants, policies or pipelines. It is told exactly what a program may see
(a `View`) and how much it may use (`CommandLimits`), starts it, hands out what it prints, and sees
to it that nothing of it is left. What the program may see was decided before, by others; what it
changed is brought back after, by others.

This module has no power: it holds values and protocols. Implementations are in `sandboxes`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Literal, Protocol

import msgspec

from bailiwick.limits import Amount, Seconds
from bailiwick.model import GiB, MiB, Value

Network = Literal["none", "loopback", "host"]
"""No socket but those between processes of the command; an empty loopback of its own, too; or the
network of the host, as it is."""

SandboxName = Literal["bubblewrap", "landlock", "none"]
"""By falling strength: namespaces and a filter; a wall around files and a filter, on a copy of the
tree; nothing but limits, on a copy."""

Stream = Literal["stdout", "stderr"]
"""Where a piece of output was written. A terminal has one stream: all of it is ``stdout``."""

TouchedKind = Literal[
    "file_created",
    "file_changed",
    "symlink_created",
    "symlink_changed",
    "directory_created",
    "directory_changed",
    "directory_replaced",
    "removed",
    "special_dropped",
    "too_deep",
]
"""What a command left at one name of a tree.

``directory_changed``: it has another mode. ``directory_replaced``: of what was there before nothing
shows through. What a new or replaced directory holds is told, but where ``moved_from`` is set: it
is that directory of the lower tree, of which what was not touched is not told again.
``removed``: whatever was there, a directory with all of it, names included that were masked.
``special_dropped``: a FIFO, socket or device, which is never brought back, and is told so that
somebody can be. ``too_deep``: a directory deeper down than a scope can name, not looked into."""


class CommandLimits(Value, frozen=True, kw_only=True):
    """What one command may use, each with its reason. `Sandbox.missing` tells what cannot be held
    to on this machine."""

    seconds_max: Seconds = 120.0
    """How long it may run: longer than most builds and tests, shorter than a person waits for
    nothing. Zero means as long as it likes."""

    cpu_seconds_max: Amount = 600
    """Processor time of each process: ends what is left spinning in a session without a timeout."""

    memory_bytes_max: Amount = 2 * GiB
    """What each process may have of its own that can be written: enough for a compiler."""

    address_space_bytes_max: Amount = 64 * GiB
    """Address space of each process, shared memory included. Far more than memory: runtimes reserve
    tens of gigabytes that they never touch."""

    processes_max: Annotated[int, msgspec.Meta(ge=2, le=30_000)] = 256
    """Processes and threads at a time: enough for a parallel build, too few to stop a machine."""

    file_bytes_max: Amount = 1 * GiB
    """How large one file may become: the same as through a scope."""

    descriptors_max: Annotated[int, msgspec.Meta(ge=32, le=1_048_576)] = 1_024
    """Open files of each process: what most systems give to anybody."""

    scratch_bytes_max: Amount = 512 * MiB
    """What the private `/tmp`, `/dev/shm` and `HOME` hold together. They lie in memory."""

    output_memory_bytes_max: Amount = 1 * MiB
    """Output that is kept in memory: more than anybody reads; what is over goes to a file."""

    output_bytes_max: Amount = 64 * MiB
    """Output that is kept at all; what is over is thrown away, and said to be."""


class WindowSize(Value, frozen=True):
    """Of a terminal, in characters."""

    rows: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = 24
    columns: Annotated[int, msgspec.Meta(ge=1, le=65_535)] = 80


class Invocation(Value, frozen=True, kw_only=True):
    """What is run. Words and values of the environment may hold any byte but NUL: those that are no
    UTF-8 as `os.fsdecode` gives them."""

    argv: tuple[str, ...]
    """The program and its words. A name without a slash is looked for on ``PATH`` inside."""

    cwd: str = "."
    """Where it starts, relative to the first tree of the view, or to its ``HOME`` without one."""

    env: dict[str, str] = {}
    """The whole of its environment, but for ``PATH``, ``HOME``, ``LANG``, ``TMPDIR`` and ``TERM``,
    which have a value of the sandbox unless they are given here."""

    stdin: bytes | Literal["pipe"] | None = None
    """What it can read, or that more will come by `Process.write`, or nothing."""

    terminal: WindowSize | None = None
    """Its three streams are a terminal of this size, which it controls; ``stdin`` then is
    ``"pipe"`` whatever it says, since a terminal has no end."""

    network: Network = "none"
    limits: CommandLimits = CommandLimits()

    replayable: bool = True
    """Whether its output is kept to be read again. Without it there is one reader, what that one
    has read is forgotten, nothing is thrown away, and a program that prints faster waits."""


class Tree(Value, frozen=True, kw_only=True):
    """One directory of the host as the program sees it."""

    place: str
    """Where it stands inside: an absolute path, of which no two trees share a name on the way but
    ``/work`` and directories above all of them."""

    lower: int | str
    """The directory: a descriptor of it, which is not closed here, or its path on the host. It is
    never written to. Of two names the program sees the one that is there when it looks; what others
    change meanwhile may show or not."""

    upper: str | None = None
    work: str | None = None
    """Where what the program changes is kept: two directories of the host on one filesystem, the
    second empty, both only for this tree. Without them the tree is read-only."""

    lasting: bool = True
    """Whether what the program has flushed outlives the machine, and all of it does when the last
    command has ended. Else it is there for whoever looks, and whoever needs more flushes it: also
    before another command is given the same directories."""

    masked: tuple[str, ...] = ()
    """Names beneath, relative, that are not there for the program: neither to be opened nor listed
    nor looked at. A name that passes through something that is no directory is passed over."""

    searched: bool = False
    """Whether sockets, FIFOs and devices in it are among what is masked; else they are looked for
    before a command is started."""


class HostPath(Value, frozen=True):
    """Something of the host that may be read, at the same place inside."""

    path: str


class View(Value, frozen=True, kw_only=True):
    """All that a program sees besides the directories of the system, which are read-only."""

    trees: tuple[Tree, ...]
    """The command starts in the first. Without any it has no way to a tree, and starts in its
    ``HOME``."""

    home: str | None = None
    """A directory of the host that is its ``HOME`` and may be written; without it an empty one that
    is gone when the command has ended."""

    readable: tuple[HostPath, ...] = ()


ViewMaking = Callable[[], Awaitable[View]]
"""Finds out what a program sees."""


class Piece(Value, frozen=True):
    """Some output, in the order in which it came."""

    seq: int
    """0, 1, 2 … over both streams."""
    stream: Stream
    data: bytes


class Ending(Value, frozen=True, kw_only=True):
    """What became of a command."""

    exit_code: int | None
    """As a shell tells it, 126 and 127 included; None where it was ended by a signal."""
    signal: int | None
    """The signal that ended it. An exit code of 128 and a signal's number is taken for that."""
    timed_out: bool
    duration_seconds: float
    output_dropped_bytes: int
    """What it printed beyond `CommandLimits.output_bytes_max`."""
    sandbox: str
    """`Sandbox.name`: how it was confined."""

    @property
    def truncated(self) -> bool:
        return self.output_dropped_bytes > 0


class Touched(Value, frozen=True, kw_only=True):
    """One name that a command has touched, relative to its tree."""

    path: str
    """As `os.fsdecode` gives it: a program may leave any bytes as a name."""
    kind: TouchedKind
    mode: int = 0
    """The permission bits that were left, setuid, setgid and sticky with them."""
    size: int = 0
    """Of a file."""
    target: str | None = None
    """Of a link, as it was left: it may lead anywhere."""
    moved_from: str | None = None
    """Where a directory was in the lower tree, when it is known to have been moved."""
    attributes: bool = False
    """Whether it was given extended attributes (``user.``) that it had not."""
    acls: bool = False
    """Whether it was given access control lists that it had not, and not by the tree itself."""


class Shortfall(Value, frozen=True, kw_only=True):
    """Something that a sandbox cannot hold to on this machine, in words for a person."""

    what: str
    remedy: str
    """What to install or allow."""
    fatal: bool
    """Nothing can be run at all."""


class Process(Protocol):
    """A command under way, and its output afterwards."""

    def pieces(self, since: int = 0) -> AsyncIterator[Piece]:
        """The output from a sequence number on, to its end. Several may read, each at its own pace,
        also after the command has ended and until `close`."""
        ...

    async def write(self, data: bytes) -> None:
        """Hand ``data`` to its input, and wait until it was taken. Raises `Closed` where there is
        no input, or nobody to read it any more."""
        ...

    async def close_input(self) -> None:
        """Its input ends. On a terminal that is the character for it."""
        ...

    def resize(self, rows: int, columns: int) -> None:
        """Its terminal has another size. Without a terminal nothing happens."""
        ...

    def send_signal(self, signal: int) -> None:
        """To the command and whatever it started in its own group; nothing where it has ended."""
        ...

    async def wait(self) -> Ending:
        """Wait until it has ended, with everything it started, and all its output is here."""
        ...

    async def kill(self) -> Ending:
        """End it now, with everything it started, however it resists, and wait for that."""
        ...

    def forget_output(self) -> None:
        """Let go of what it printed, where it has ended."""
        ...

    async def close(self) -> None:
        """`kill`, and give up the output. May be called twice."""
        ...


class Room(Protocol):
    """A view that is kept for several commands, one after the other or at a time: what one changes
    the others see, and the private directories stay."""

    async def start(self, command: Invocation) -> Process:
        """As `Sandbox.start`, on the view of the room. Raises `Closed` too."""
        ...

    async def close(self) -> None:
        """End every command that was started here, and give up the view. May be called twice."""
        ...


class Sandbox(Protocol):
    """A way to run commands confined."""

    @property
    def name(self) -> str:
        """What every record calls it: a `SandboxName`."""
        ...

    def missing(self) -> tuple[Shortfall, ...]:
        """What does not hold on this machine: empty where all does. Looks by trying, once."""
        ...

    async def start(self, command: Invocation, view: View | ViewMaking) -> Process:
        """Run ``command``. Where the ``view`` is still to be made, what does not need it is done
        meanwhile; what that raises is raised. Raises `Unsupported`, with the words of `missing`, on
        a machine that cannot, `ParseError` for a command or view that makes no sense, `IoError`
        where it failed.

        A cancelled start leaves nothing behind. An upper directory serves one command at a time:
        `Busy` while another one, or a room, has it.
        """
        ...

    async def open(
        self, view: View, *, limits: CommandLimits | None = None, network: Network = "none"
    ) -> Room:
        """A room for several commands. ``limits`` are for what they share, the private directories;
        ``network`` is the most that one of them will ask for. Raises as `start` does."""
        ...
