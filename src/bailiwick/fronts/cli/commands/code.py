"""`bailiwick code`: Python in a sandbox, on a tree that it reaches by calls alone."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from bailiwick.errors import BailiwickError, IoError, escape_for_display
from bailiwick.fronts.cli import EXIT_FAILED, EXIT_OK, EXIT_REFUSED, documents
from bailiwick.fronts.cli.arguments import Parser, takes_place
from bailiwick.fronts.cli.authority_session import Options
from bailiwick.fronts.cli.commands.programs import EXIT_TIMED_OUT
from bailiwick.fronts.cli.output import print_error, print_json
from bailiwick.fronts.cli.place import scope_for

if TYPE_CHECKING:
    from typing import TextIO

    from bailiwick.code import CodeResult


def run(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick code",
        "Run Python in a sandbox that shows nothing of the tree: its way there is `state`, which"
        " has every verb as a call. What it changes is one request to undo.",
        examples=(
            "bailiwick code tidy.py",
            "echo 'state.summarize_tree()[\"files\"]' | bailiwick code -",
            "bailiwick -p sqlite:agent.db code --transactional migrate.py",
        ),
        epilog="What it prints goes to stdout, then its value, as JSON, where it has one. The exit"
        " code is 1 where the code raised, 124 out of time, 125 refused or failed by Bailiwick.",
    )
    parser.add_argument("file", metavar="FILE", help="the source; - is stdin")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="60 unless told")
    parser.add_argument("--calls-max", type=int, metavar="NUMBER", help="10000 unless told")
    parser.add_argument("--memory-bytes-max", type=int, metavar="BYTES", help="512 MiB unless told")
    parser.add_argument("--output-bytes-max", type=int, metavar="BYTES", help="256 KiB unless told")
    parser.add_argument(
        "--transactional", action="store_true", help="all of its changes, or none of them"
    )
    takes_place(parser)
    options = parser.parse_args(arguments)
    try:
        result, keeps_versions = asyncio.run(_run(options, _source(options.file)))
    except BailiwickError as error:
        print_error(error, as_json=options.json)
        return EXIT_REFUSED
    if options.json:
        print_json({"ok": result.ok, **documents.fields(result)})
    else:
        _print(result)
        if result.changes and keeps_versions:
            changed = len({each.path for each in result.changes})
            paths = "1 path" if changed == 1 else f"{changed} paths"
            sys.stderr.write(f"changed {paths}: bailiwick undo {result.request_id}\n")
    if result.timed_out:
        return EXIT_TIMED_OUT
    return EXIT_OK if result.ok else EXIT_FAILED


def _source(name: str) -> str:
    try:
        if name == "-":
            return sys.stdin.buffer.read().decode("utf-8")
        with open(name, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        hint = "name a file of Python, or - for stdin"
        raise IoError(f"the source cannot be read: {reason}", hint=hint) from None


async def _run(options: Options, source: str) -> tuple[CodeResult, bool]:
    from bailiwick import code

    async with scope_for(options, "versions") as scope:
        result = await code.run(
            scope, source, timeout=options.timeout, calls_max=options.calls_max,
            memory_bytes_max=options.memory_bytes_max, output_bytes_max=options.output_bytes_max,
            transactional=options.transactional,
        )  # fmt: skip
        return result, "history" in scope.powers


def _print(result: CodeResult) -> None:
    _write(sys.stdout, result.output)
    if result.value is not None:
        if result.output and not result.output.endswith("\n"):
            _write(sys.stdout, "\n")
        print_json(result.value)
    if result.error is not None:
        text = result.error.traceback or f"{result.error.type}: {result.error.message}"
        _write(sys.stderr, text if text.endswith("\n") else f"{text}\n")


def _write(stream: TextIO, text: str) -> None:
    """What code printed could repaint a terminal; a pipe gets it as it is."""
    if stream.isatty():
        lines = text.split("\n")
        text = "\n".join(escape_for_display(each.replace("\t", "    ")) for each in lines)
    stream.write(text)
