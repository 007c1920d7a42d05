"""`bailiwick acp -- AGENT …`: between any editor and any agent that speak the protocol.

The editor starts this in the place of the agent, and talks to it over its standard streams; this
starts the agent. The agent's file calls are answered here, from a scope.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import IO, TYPE_CHECKING, NoReturn, TextIO

from bailiwick.ending_signals import ending_signals
from bailiwick.errors import BailiwickError, ParseError, escape_for_display
from bailiwick.fronts.acp.served_root import Opened, opened

if TYPE_CHECKING:
    from bailiwick.fronts.acp.agent import AgentProcess
    from bailiwick.fronts.acp.relay import Relay

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2

_STREAM_BYTES = 64 * 1024
_GRACE_SECONDS = 3.0
"""How long an agent whose editor has gone may take to finish, and what it said to arrive."""

_COMPLAINTS_MAX = 100
"""What is told of an agent that misbehaves; the editor's log is not for it to fill."""


def main(argv: Sequence[str] | None = None) -> int:
    """Stand between until one of them ends; the answer is the exit code."""
    options = _options(sys.argv[1:] if argv is None else list(argv))
    try:
        return asyncio.run(_run(options))
    except BailiwickError as error:
        sys.stderr.write(f"{error.kind}: {escape_for_display(error.message)}\n")
        if error.hint:
            sys.stderr.write(f"hint: {escape_for_display(error.hint)}\n")
    except Exception as error:
        sys.stderr.write(f"internal_error: {type(error).__name__}: {error}\n")
    return EXIT_FAILED


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = _AcpParser(
        prog="bailiwick acp",
        usage="bailiwick acp [--root PLACE | --config FILE [--root KIND:ID]]"
        " [--read-only | --terminals]"
        " -- AGENT [ARGUMENTS…]",
        description="Stand between an editor and an agent that speak the Agent Client Protocol."
        " The agent's file calls go through Bailiwick; everything else passes unchanged.",
        epilog="example: bailiwick acp --root ./project -- my-agent",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--root", metavar="PLACE",
        help="a directory or sqlite:FILE?volume=NAME (the directory it is started in); with"
        " --config the name of a root, such as workspace:demo (the first)",
    )  # fmt: skip
    parser.add_argument("--config", metavar="FILE", help="a bailiwick.toml: roots, grants, rules")
    parser.add_argument("--state", metavar="DIR", help="where the authority keeps its state")
    less = parser.add_mutually_exclusive_group()
    less.add_argument("--read-only", action="store_true", help="the agent changes nothing")
    less.add_argument(
        "--terminals", action="store_true",
        help="run the agent's commands (terminal/*) here, in a sandbox; without it the editor does",
    )  # fmt: skip
    parser.add_argument(
        "--no-history", action="store_true",
        help="do not keep what is changed in a directory, so that it cannot be undone",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("agent", nargs="+", metavar="AGENT", help="the agent and its arguments")
    if "--" not in arguments:
        if not {"-h", "--help"} & set(arguments):
            parser.error("name the agent after --")
        return parser.parse_args(arguments)
    end = arguments.index("--")
    if not arguments[end + 1 :]:
        parser.error("name the agent after --")
    options = parser.parse_args([*arguments[:end], "agent"])
    if options.agent != ["agent"]:
        parser.error("name the agent after --")
    options.agent = arguments[end + 1 :]
    return options


class _AcpParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Wrong usage: exit code 2. What was typed is shown without what could repaint a screen."""
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {escape_for_display(message)}\n")


async def _run(options: argparse.Namespace) -> int:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in ending_signals():
        loop.add_signal_handler(number, stopped.set)
    async with opened(options) as place, _standard_streams() as editor:
        return await _stand_between(place, editor, options.agent, stopped)


async def _stand_between(
    place: Opened,
    editor: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    command: Sequence[str],
    stopped: asyncio.Event,
) -> int:
    from bailiwick.fronts.acp.agent import AgentProcess, ending_of
    from bailiwick.fronts.acp.relay import Relay

    agent = await AgentProcess.start(command, _STREAM_BYTES)
    say = _Complaints()
    relay = Relay(
        editor=editor, agent=agent.streams, files=place.files, places=place.places,
        serves=place.serves, say=say, terminals=place.terminals,
    )  # fmt: skip
    code: int | None = None
    try:
        by_itself = await _until_one_ends(relay, agent, editor[1], stopped)
    finally:
        await relay.aclose()
        code = await agent.end()
    if by_itself and code != 0:
        say(f"the agent ended {ending_of(code)}")
        return EXIT_FAILED
    return EXIT_OK


async def _until_one_ends(
    relay: Relay, agent: AgentProcess, editor: asyncio.StreamWriter, stopped: asyncio.Event
) -> bool:
    """Pass on until one side has gone or this was told to stop; whether it was the agent, by
    itself. The other side is then given a moment to finish what it says."""
    up = asyncio.ensure_future(relay.editor_to_agent())
    down = asyncio.ensure_future(relay.agent_to_editor())
    exited = asyncio.ensure_future(agent.wait())
    editor_lost = asyncio.ensure_future(_lost(editor))
    told = asyncio.ensure_future(stopped.wait())
    watched = (up, down, exited, editor_lost, told)
    try:
        await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        if told.done() or editor_lost.done():
            return False
        by_itself = not up.done() or _failed(up)
        if not by_itself:
            agent.hang_up()
        # What an agent has said before it ended arrives; what it left behind is not waited for.
        rest = asyncio.ensure_future(asyncio.wait((down, exited)))
        await asyncio.wait(
            (rest, editor_lost, told),
            timeout=_GRACE_SECONDS, return_when=asyncio.FIRST_COMPLETED,
        )  # fmt: skip
        rest.cancel()
        return by_itself and not (down.done() and _failed(down))
    finally:
        for each in watched:
            each.cancel()
        await asyncio.wait(watched)
        for each in (up, down):
            if not each.cancelled():
                _raise_fault(each)


def _failed(direction: asyncio.Future[None]) -> bool:
    """Whether it ended because its destination takes no more."""
    return not direction.cancelled() and direction.exception() is not None


def _raise_fault(direction: asyncio.Future[None]) -> None:
    from bailiwick.fronts.acp.relay import PeerGone

    error = direction.exception()
    if error is not None and not isinstance(error, (PeerGone, OSError)):
        raise error


async def _lost(writer: asyncio.StreamWriter) -> None:
    """Wait until the other end does not take anything any more."""
    with suppress(OSError):
        # Whoever stops waiting must not cancel what the stream itself waits for.
        await asyncio.shield(writer.wait_closed())


class _Complaints:
    """Tells a person what went wrong, and stops where there is no end to it."""

    def __init__(self) -> None:
        self._told = 0

    def __call__(self, text: str) -> None:
        self._told += 1
        if self._told > _COMPLAINTS_MAX:
            return
        more = " (and no more of this is told)" if self._told == _COMPLAINTS_MAX else ""
        with suppress(OSError, ValueError):
            sys.stderr.write(f"bailiwick acp: {text}{more}\n")
            sys.stderr.flush()


@asynccontextmanager
async def _standard_streams() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """The editor's end: what it says comes in here, what it hears goes out."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_STREAM_BYTES)
    if not all(map(_can_be_waited_for, (sys.stdin, sys.stdout))):
        raise _no_pipes()
    try:
        source, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), _duplicate(sys.stdin, "rb")
        )
        sink, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()),
            _duplicate(sys.stdout, "wb"),
        )
    except ValueError:
        raise _no_pipes() from None
    writer = asyncio.StreamWriter(sink, protocol, None, loop)
    try:
        yield reader, writer
    finally:
        source.close()
        writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_GRACE_SECONDS):
                await writer.wait_closed()


def _can_be_waited_for(stream: TextIO) -> bool:
    """Whether the kernel tells when there is something to be read: of a file, or of nothing at all
    (/dev/null), it does not."""
    mode = os.fstat(stream.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stream.isatty()


def _no_pipes() -> ParseError:
    return ParseError(
        "the standard streams are no pipes", hint="an editor starts this, and talks to it"
    )


def _duplicate(stream: TextIO, mode: str) -> IO[bytes]:
    """A copy of a stream for the event loop to close: the interpreter's own stays as it is."""
    return os.fdopen(os.dup(stream.fileno()), mode, buffering=0)
