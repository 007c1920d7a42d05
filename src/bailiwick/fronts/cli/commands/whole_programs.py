"""`bailiwick run`: a program whole, such as a coding agent, loose on a working copy.

What it may have of the machine besides is said by the person who types the command, and by nobody
else.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import msgspec

from bailiwick.ending_signals import ending_signals
from bailiwick.errors import BailiwickError, PathNotFound, escape_for_display
from bailiwick.fronts.cli import EXIT_REFUSED, documents
from bailiwick.fronts.cli.arguments import Parser, takes_place
from bailiwick.fronts.cli.authority_session import Options
from bailiwick.fronts.cli.commands.programs import (
    TIME_WAS_UP,
    changed,
    conflict,
    environment,
    exit_code,
    hand_on_input,
    partial,
    print_line,
    print_pieces,
    told_in_words,
    withheld,
)
from bailiwick.fronts.cli.output import print_error
from bailiwick.fronts.cli.place import place_of, scope_for

if TYPE_CHECKING:
    from bailiwick.commands import ExecResult, HostShare
    from bailiwick.scope import Scope
    from bailiwick.scope.execution import Execution
    from bailiwick.scope.sessions import Session
    from bailiwick.working_copy import Published, WorkChange, WorkChanges

_SHOWN_MAX: Final = 20
"""Changes that are listed when a program has ended; `bailiwick work show` has all of them."""


def run(arguments: list[str]) -> int:
    parser = _parser()
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:end])
    words = arguments[end + 1 :]
    if not words:
        parser.error("the program stands after --")
    if options.root is not None:
        if options.place is not None:
            parser.error("the directory is named once: ROOT, or --place")
        options.place = options.root
    if options.partial and not options.apply:
        parser.error("--partial goes with --apply")
    try:
        return asyncio.run(_run(options, words))
    except BailiwickError as error:
        print_error(error, as_json=options.json)
        return EXIT_REFUSED


def _parser() -> Parser:
    parser = Parser(
        "bailiwick run",
        "Run a program whole, with its own tools, its shell and its editors, on a working copy of"
        " the directory. The terminal is handed through. When it has ended, what it changed is"
        " shown, and nothing of it is in the directory before you apply it.",
        examples=(
            "bailiwick run -- bash",
            "bailiwick run ./project --network host --home ~/agent --env API_KEY -- my-agent",
            "bailiwick run --apply -- make format",
        ),
        epilog="The exit code is the program's; 125 refused or failed by Bailiwick, 126 and 127 as"
        " in a shell.",
        usage="bailiwick run [ROOT] [OPTIONS] -- PROGRAM [ARGUMENTS…]",
    )
    parser.add_argument("root", nargs="?", metavar="ROOT", help="the directory (default: this one)")
    parser.add_argument(
        "--network", choices=("none", "loopback", "host"), default="none",
        help="what it may reach: nothing, itself, or what this machine reaches",
    )  # fmt: skip
    parser.add_argument(
        "--apply", action="store_true", help="bring what it changed back when it has ended"
    )
    parser.add_argument(
        "--partial", action="store_true", help="… leaving out what is refused or in conflict"
    )
    parser.add_argument(
        "--allow-read", action="append", default=[], metavar="PATH",
        help="a file or directory of this machine that it sees, and cannot change",
    )  # fmt: skip
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME[=VALUE]",
        help="a variable for it; without a value, the one that is set here",
    )  # fmt: skip
    parser.add_argument(
        "--home", metavar="DIR",
        help="its home, which it changes without a working copy: for what it is to remember",
    )  # fmt: skip
    parser.add_argument(
        "--timeout", type=float, default=0.0, metavar="SECONDS", help="as long as it likes, else"
    )
    takes_place(parser)
    return parser


async def _run(options: Options, words: Sequence[str]) -> int:
    async with scope_for(options, "versions", _shared(options)) as scope:
        session = scope.session(env=environment(options.env))
        try:
            async with session:
                result = await _ended(session, options, words)
                found: Published | WorkChanges
                if options.apply:
                    found = await session.publish("partial" if options.partial else "atomic")
                else:
                    found = await session.changes()
        except BaseException:
            await _say_what_is_kept(scope, session, options)
            raise
        result = msgspec.structs.replace(
            result, changes=found.changes, withheld=found.withheld, conflicts=found.conflicts,
            work_id=await _left_in(scope, session),
        )  # fmt: skip
    if options.json:
        with told_in_words(lambda: _say(result, options)):
            print_line({"result": documents.fields(result), "applied": options.apply})
    else:
        _say(result, options)
    return exit_code(result)


async def _say_what_is_kept(scope: Scope, session: Session, options: Options) -> None:
    """Where it ends before all is told: nobody reads the output, its disk is full, bringing back
    was refused. What kept it from ending well is what is raised, whatever happens here."""
    with suppress(BailiwickError, OSError):
        kept = await _left_in(scope, session)
        if kept is not None:
            _write_lines(_where_kept(kept, options))


def _shared(options: Options) -> HostShare:
    from bailiwick.commands import HostShare

    def on_host(option: str, path: str) -> str:
        full = os.path.abspath(os.path.expanduser(path))
        if not os.path.exists(full):
            shown = escape_for_display(path)
            raise PathNotFound(f"{option} {shown}: there is no such thing", hint="make it first")
        return full

    return HostShare(
        networks=frozenset(("none", options.network)),
        readable=tuple(on_host("--allow-read", each) for each in options.allow_read),
        home=None if options.home is None else on_host("--home", options.home),
    )


async def _left_in(scope: Scope, session: Session) -> str | None:
    """Whether a working copy is left now that the session is closed."""
    return session.id if session.id in {each.id for each in await scope.work()} else None


# --- while it runs -------------------------------------------------------------------------------


async def _ended(session: Session, options: Options, words: Sequence[str]) -> ExecResult:
    from bailiwick.fronts.cli import terminal_passthrough

    terminal = terminal_passthrough.window() if _is_at_terminal(options) else None
    if terminal is not None and "TERM" in os.environ:
        session.env.setdefault("TERM", os.environ["TERM"])
    reads = terminal is not None or not (sys.stdin is None or sys.stdin.isatty())
    execution = session.exec(
        words, network=options.network, timeout=options.timeout, terminal=terminal,
        stdin="pipe" if reads else None, replayable=False,
    )  # fmt: skip
    async with execution:
        with _signals(execution):
            if terminal is not None:
                await terminal_passthrough.hand_through(execution)
            else:
                if reads:
                    hand_on_input(execution)
                await (print_pieces if options.json else terminal_passthrough.pass_on)(execution)
            return await execution.result()


def _is_at_terminal(options: Options) -> bool:
    from bailiwick.fronts.cli.terminal_passthrough import has_terminal

    return has_terminal() and not options.json


@contextmanager
def _signals(execution: Execution) -> Iterator[None]:
    """An interrupt is for the program. What is to end us ends it first, and what it changed is kept
    and told."""
    loop = asyncio.get_running_loop()
    under_way: set[asyncio.Task[None]] = set()

    def begin(number: signal.Signals) -> None:
        is_interrupt = number == signal.SIGINT
        work = execution.send_signal(number) if is_interrupt else execution.aclose()
        task = loop.create_task(work)
        under_way.add(task)
        task.add_done_callback(under_way.discard)

    numbers = ending_signals()
    for number in numbers:
        loop.add_signal_handler(number, begin, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


# --- afterwards ----------------------------------------------------------------------------------


def _outermost(changes: list[WorkChange]) -> Iterator[WorkChange]:
    """A directory that came or went as a whole stands for what lies in it."""
    kinds = {each.path: each.kind for each in changes if each.type == "directory"}
    for each in changes:
        if each.kind == "updated" or kinds.get(each.path.parent) != each.kind:
            yield each


def _say(result: ExecResult, options: Options) -> None:
    """On stderr: what goes through is the program's."""
    lines = list(map(changed, _outermost(result.changes)))
    more = len(lines) - _SHOWN_MAX
    lines[_SHOWN_MAX:] = [f"… and {more} more"] if more > 0 else []
    lines += [*map(withheld, result.withheld), *map(conflict, result.conflicts)]
    if result.timed_out:
        lines.append(TIME_WAS_UP)
    if result.work_id is not None:
        lines += _where_kept(result.work_id, options, partial(result))
    elif not result.changes:
        lines.append("note: it changed nothing")
    _write_lines(lines)


def _where_kept(work_id: str, options: Options, partial: str = "") -> list[str]:
    place = place_of(options)
    command = "bailiwick" if place == "." else f"bailiwick -p {shlex.quote(place)}"
    what = "not brought back" if options.apply else "nothing of this is in the directory yet"
    return [
        f"note: {what}: it is kept as {work_id}",
        f"  {command} review {work_id}",
        f"  {command} work apply {work_id}{partial}",
        f"  {command} work discard {work_id}",
    ]


def _write_lines(lines: list[str]) -> None:
    sys.stderr.write("".join(f"{line}\n" for line in lines))
