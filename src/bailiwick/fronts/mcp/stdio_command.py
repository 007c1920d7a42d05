"""`bailiwick mcp`: trees to a model, over stdin and stdout."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, NoReturn

from bailiwick.build.served import OWN, named_places, open_served, state_for
from bailiwick.config.units import parse_duration
from bailiwick.ending_signals import ending_signals
from bailiwick.errors import BailiwickError, ParseError, escape_for_display
from bailiwick.first_step import SelectorLoop
from bailiwick.fronts.mcp.conversation import Conversation
from bailiwick.fronts.mcp.pipes import Inlet, LongLine, Outlet
from bailiwick.fronts.mcp.service import Service, server_info
from bailiwick.fronts.mcp.workspaces import (
    LOOKING,
    WantedService,
    agent_of,
    new_session,
    open_service,
)
from bailiwick.grant import AgentRun, User
from bailiwick.model import MiB
from bailiwick.operations import ALL_ACCESS
from bailiwick.toolbox import ALL_OPERATIONS

if TYPE_CHECKING:
    from bailiwick.build.governed import Authority

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2

PERSON = User("local")
"""Whose places are served: the person who configured the client."""

MESSAGE_BYTES_MAX: Final = 32 * MiB
"""One message: what a text write takes at most, every character of it escaped."""

_ANSWERS_BYTES_MAX: Final = 16 * MiB
"""Answers that wait for a client to read them, before nothing more is taken from it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until the client goes; the answer is the exit code."""
    options = _options(sys.argv[1:] if argv is None else list(argv))
    try:
        with asyncio.Runner(loop_factory=SelectorLoop) as runner:
            return runner.run(_serve(options))
    except BailiwickError as error:
        sys.stderr.write(f"{error.kind}: {escape_for_display(error.message)}\n")
        if error.hint:
            sys.stderr.write(f"hint: {error.hint}\n")
        return EXIT_FAILED


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = _McpParser(
        prog="bailiwick mcp",
        description="Serve trees to a model over MCP, on stdin and stdout. Without a ROOT it is a"
        " workspace in the user's data directory.",
        epilog="example: bailiwick mcp ./project --read-only",
        allow_abbrev=False,
    )
    parser.add_argument(
        "roots", nargs="*", metavar="ROOT",
        help="a directory, sqlite:FILE?volume=NAME, or memory:; NAME=ROOT to name it. With"
        " --config also a root of it, such as workspace:demo",
    )  # fmt: skip
    parser.add_argument("--config", metavar="FILE", help="a bailiwick.toml, for all of it")
    parser.add_argument("--state", metavar="DIR", help="where the authority keeps its state")
    parser.add_argument("--read-only", action="store_true", help="change nothing")
    parser.add_argument(
        "--tools", type=_tools, metavar="NAMES", help="only these tools, separated by commas"
    )
    parser.add_argument(
        "--no-history", action="store_true", help="keep no versions of directories: no undo"
    )
    parser.add_argument(
        "--structured", action="store_true",
        help="every answer with its object as well, for clients that are programs",
    )  # fmt: skip
    parser.add_argument(
        "--wait", type=_seconds, default=0.0, metavar="TIME",
        help="how long a call waits for a person, such as 10min: as well where no client asks them",
    )  # fmt: skip
    parser.add_argument(
        "--session", default=None, metavar="NAME", help="what this agent is called on record"
    )
    return parser.parse_args(arguments)


class _McpParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Wrong usage: exit code 2. What was typed is shown without what could repaint a screen."""
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {escape_for_display(message)}\n")


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except ParseError as error:
        raise argparse.ArgumentTypeError(f"{error.message}; {error.hint}") from None


def _tools(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    unknown = [name for name in names if name not in ALL_OPERATIONS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"the tools are {', '.join(ALL_OPERATIONS)}")
    return names


# --- what is served ------------------------------------------------------------------------------


@asynccontextmanager
async def _opened(options: argparse.Namespace) -> AsyncIterator[Service]:
    given: list[str] = list(options.roots)
    listed = [each for each in given if options.config and _is_listed(each)]
    places = named_places(each for each in given if each not in listed)
    if not given and options.config is None:
        places = named_places([OWN])
    state = options.state
    if state is None and options.config is None:
        state = state_for(places)
    async with open_served(
        places, options.config, state, history="off" if options.no_history else "on"
    ) as authority:
        wanted = _wanted(options, authority, (*listed, *places))
        async with open_service(authority, wanted) as service:
            yield service


def _is_listed(text: str) -> bool:
    """Whether a name can only be that of a root in the configuration."""
    kind, colon, _ = text.partition(":")
    return bool(colon) and kind not in ("sqlite", "postgres", "postgresql", "memory")


def _wanted(
    options: argparse.Namespace, authority: Authority, named: tuple[str, ...]
) -> WantedService:
    """As whom, and what. A configuration says what agents may do: what it grants to them is what
    they get. What the person names on the command line they pass on themselves, unless the
    configuration has grants for agents there."""
    session = options.session or new_session()
    agent = agent_of(session)
    most = LOOKING if options.read_only else ALL_ACCESS
    subject: User | AgentRun = PERSON
    chosen = named
    granted = [
        str(root)
        for root in authority.roots()
        if (not named or str(root) in named) and authority.holdings(agent, str(root))
    ]
    if options.config is not None and (granted or not named):
        if named and set(granted) != set(named):
            raise ParseError(
                "of these roots some are granted to agents and some are not",
                hint="serve them by two commands, or grant the others too",
            )
        chosen, subject = tuple(granted), agent
    return WantedService(
        subject, session, most, options.tools, chosen,
        structured=options.structured, wait_s=options.wait,
    )  # fmt: skip


# --- serving -------------------------------------------------------------------------------------


async def _serve(options: argparse.Namespace) -> int:
    with _StandardStreams() as (source, sink):
        async with _opened(options) as service:
            await _converse(service, source, sink)
    return EXIT_OK


async def _converse(service: Service, source: int, sink: int) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def take(line: bytes | LongLine) -> None:
        conversation.receive(line)
        if outlet.full:
            inlet.pause()

    inlet = Inlet(source, MESSAGE_BYTES_MAX, take, ended.set)
    outlet = Outlet(sink, _ANSWERS_BYTES_MAX, inlet.resume, ended.set)
    conversation = Conversation(service, outlet.write, server_info())
    for number in ending_signals():
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, ended.set)
    inlet.start()
    try:
        await ended.wait()
    finally:
        await inlet.aclose()
        await conversation.aclose()
        with suppress(TimeoutError):
            await asyncio.wait_for(outlet.flushed(), 5.0)
        outlet.close()


class _StandardStreams:
    """The pipes to the client, out of reach of anything else: what is printed by accident goes to
    stderr, and whoever reads stdin finds nothing."""

    def __enter__(self) -> tuple[int, int]:
        sys.stdout.flush()
        self._source, self._sink = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        return self._source, self._sink

    def __exit__(self, *raised: object) -> None:
        os.dup2(self._source, 0)
        os.dup2(self._sink, 1)
        os.close(self._source)
        os.close(self._sink)
