"""`bailiwick runs`: what agents did, run by run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from bailiwick.errors import escape_for_display
from bailiwick.fronts.cli import EXIT_OK, documents
from bailiwick.fronts.cli.arguments import Parser, point_in_time, whole_number
from bailiwick.fronts.cli.authority_session import Options
from bailiwick.fronts.cli.hunks import show_hunk
from bailiwick.fronts.cli.output import line, moment, paint, print_fields, print_json, print_table
from bailiwick.fronts.cli.seats import found_run, say_unapplied, seated, takes_seat

if TYPE_CHECKING:
    from bailiwick.runs import RunChange, RunInfo
    from bailiwick.scope import Scope
    from bailiwick.scope.runs import Run, RunPage

_COLOURS = {"created": "green", "deleted": "red", "updated": "yellow", "moved": "cyan"}


def run(arguments: list[str]) -> int:
    if arguments[:1] == ["show"]:
        return _show_command(arguments[1:])
    parser = Parser(
        "bailiwick runs",
        "What agents did here, run by run, what was seen last first. `bailiwick runs show RUN`"
        " shows one with its changes.",
        examples=("bailiwick runs", "bailiwick runs --since 2h", "bailiwick runs show 4f1c"),
    )
    parser.add_argument(
        "--since", type=point_in_time, metavar="TIME", help="only what was seen from then on: 2h"
    )
    parser.add_argument(
        "--limit", type=whole_number, default=20, metavar="N", help="so many at most (default: 20)"
    )
    parser.add_argument("--cursor", help="go on where an earlier answer ended")
    takes_seat(parser)
    return seated(parser.parse_args(arguments), _list)


def _show_command(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick runs show",
        "One run, and what it changed in all: from before it touched a file first to after it"
        " touched it last. What others changed in between is not shown as its doing.",
        examples=("bailiwick runs show 4f1c", "bailiwick undo --run 4f1c --preview"),
    )
    parser.add_argument("run", metavar="RUN", help="its id, or the beginning of it")
    takes_seat(parser)
    return seated(parser.parse_args(arguments), _show)


async def _list(scopes: dict[str, Scope], options: Options) -> int:
    since, limit, cursor = options.since, options.limit, options.cursor
    pages = [
        await scope.runs(since_ns=since, limit=limit, cursor=cursor) for scope in scopes.values()
    ]
    found, following = _joined(pages, limit)
    if options.json:
        told = [documents.fields(each) for each in found]
        truncated = following is not None
        print_json({
            "kind": "runs", "runs": told, "truncated": truncated, "nextCursor": following,
        })  # fmt: skip
    elif not found and cursor is not None:
        line("there are no older runs")
    elif not found:
        line(f"no agent has done anything here {'yet' if since is None else 'since then'}")
    else:
        several = len(scopes) > 1
        print_table(
            ("RUN", *(("ROOT",) if several else ()), "SEEN", "WHO", "FRONT", "FILES", "LINES",
             "TITLE"),
            [
                (each.id, *((each.root,) if several else ()), moment(each.seen_ns / 1e9),
                 each.subject, each.front, _files(each), _lines(each), each.title or "")
                for each in found
            ],
        )  # fmt: skip
    if following is not None:
        sys.stderr.write(f"note: there are older runs: --cursor {following}, or another --limit\n")
    if not options.json:
        await say_unapplied(scopes)
    return EXIT_OK


def _joined(pages: list[RunPage[Run]], limit: int) -> tuple[list[RunInfo], str | None]:
    """What was seen last in any root, and where to go on in all of them."""
    infos = [each.info for page in pages for each in page]
    if len(pages) == 1:
        return infos, pages[0].next_cursor
    infos.sort(key=lambda each: each.place, reverse=True)
    is_cut = len(infos) > limit or any(page.truncated for page in pages)
    shown = infos[:limit]
    return shown, shown[-1].place.cursor if is_cut else None


def _files(run: RunInfo) -> str:
    counted = (("+", run.created), ("~", run.changed), (">", run.moved), ("-", run.removed))
    return " ".join(f"{sign}{count}" for sign, count in counted if count) or "0"


def _lines(run: RunInfo) -> str:
    return "" if run.added is None else f"+{run.added} -{run.removed_lines}"


async def _show(scopes: dict[str, Scope], options: Options) -> int:
    _, found = await found_run(scopes, options.run)
    told = await found.changes()
    info: RunInfo = found.info
    if options.json:
        shown: dict[str, Any] = documents.document("run", info)
        shown["changes"] = [documents.fields(each) for each in told.changes]
        shown["truncated"] = told.truncated
        print_json(shown)
        return EXIT_OK
    print_fields((
        ("run", info.id), ("title", info.title), ("who", info.subject), ("front", info.front),
        ("root", info.root), ("begun", moment(info.begun_ns / 1e9)),
        ("seen", moment(info.seen_ns / 1e9)), ("state", "active" if info.active else "ended"),
        ("files", _files(info)), ("lines", _lines(info)), ("commands", info.commands or None),
        ("questions", info.questions or None), ("refusals", info.refusals or None),
        ("steps", " · ".join(each.name for each in info.steps)),
    ))  # fmt: skip
    for change in told.changes:
        line()
        show_change(change)
    if told.truncated:
        sys.stderr.write("note: the run changed more than is shown\n")
    return EXIT_OK


def show_change(change: RunChange) -> None:
    """One path with its hunks, as a unified difference shows them."""
    origin = "" if change.origin is None else f"{escape_for_display(change.origin)} → "
    kind = paint(f"{change.kind:<8}", _COLOURS[change.kind])
    over = "  over something else that is gone" if change.replaces else ""
    lines = f"+{change.added} -{change.removed}"
    line(f"{kind}  {origin}{escape_for_display(change.path)}  {lines}{over}")
    for hunk in change.hunks:
        said = "" if hunk.reviewed is None else f" {hunk.reviewed}"
        state = "" if hunk.state == "stands" else f" {hunk.state}"
        line(paint(f"{hunk.header} {hunk.id}{said}{state}", "cyan"))
        for each in show_hunk(hunk.lines):
            line(each)
    for other in change.others:
        whose = escape_for_display(other.subject) or "another program"
        line(paint(f"{other.header} by {whose}, not by this run", "dim"))
