"""`bailiwick watch`: changes as they are made, whoever makes them."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from bailiwick.errors import escape_for_display
from bailiwick.fronts.cli import EXIT_OK, documents
from bailiwick.fronts.cli.arguments import Parser, whole_number
from bailiwick.fronts.cli.authority_session import Options
from bailiwick.fronts.cli.output import line, moment, paint, print_json_line
from bailiwick.fronts.cli.place import in_place
from bailiwick.model import Change

if TYPE_CHECKING:
    from bailiwick.scope import Scope

_COLOURS = {
    "created": "green", "updated": "yellow", "deleted": "red", "moved": "cyan", "rescan": "dim",
    "reset": "dim",
}  # fmt: skip


def run(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick watch",
        "Follow the changes at or beneath a path until Ctrl-C, those of other programs too."
        " --json prints one document on each line.",
        examples=("bailiwick watch src", "bailiwick watch --json --count 1"),
    )
    parser.add_argument("path", nargs="?", default=".", metavar="PATH", help="(default: the top)")
    parser.add_argument("--since", metavar="CURSOR", help="first those after this cursor")
    parser.add_argument("--expand", action="store_true", help="what lay in a moved directory too")
    parser.add_argument("--count", type=whole_number, metavar="N", help="end after so many")
    return in_place(parser, arguments, _watch)


async def _watch(scope: Scope, options: Options) -> int:
    left = options.count
    changes = scope.watch(options.path, since=options.since, expand=options.expand)
    async with contextlib.aclosing(changes):
        async for change in changes:
            _show(change, as_json=options.json)
            left = None if left is None else left - 1
            if left == 0:
                break
    return EXIT_OK


def _show(change: Change, *, as_json: bool) -> None:
    if as_json:
        print_json_line(documents.fields(change))
    else:
        origin = f"{escape_for_display(change.origin)} → " if change.origin else ""
        who = f"  by {escape_for_display(change.subject)}" if change.subject else ""
        when = moment(change.time_ns / 1e9) if change.time_ns else ""
        path = escape_for_display(change.path)
        kind = paint(f"{change.kind:<7}", _COLOURS[change.kind])
        line(f"{when:<20}  {kind}  {origin}{path}{who}")
    sys.stdout.flush()  # a reader of the pipe waits for it
