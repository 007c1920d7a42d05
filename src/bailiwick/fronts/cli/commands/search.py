"""`bailiwick find` and `grep`: looking for names and for text."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bailiwick.errors import escape_for_display
from bailiwick.fronts.cli import EXIT_OK, documents
from bailiwick.fronts.cli.arguments import (
    Parser,
    duration,
    size,
    whole_number,
)
from bailiwick.fronts.cli.authority_session import Options
from bailiwick.fronts.cli.commands.listing import as_of, takes_as_of
from bailiwick.fronts.cli.output import line, paint, print_json, print_names, safe_lines
from bailiwick.fronts.cli.place import in_place
from bailiwick.search.context_lines import in_context
from bailiwick.search.results import GrepMatch, GrepResult

if TYPE_CHECKING:
    from bailiwick.scope import Scope

# --- find --------------------------------------------------------------------------------------


def find(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick find",
        "Find files and directories beneath PATH that fit all conditions. What ignore files name"
        " is left out unless --all.",
        examples=("bailiwick find src --name '*.py' --newer 1h", "bailiwick find --larger 10MiB"),
    )
    parser.add_argument("path", nargs="?", default=".", metavar="PATH", help="(default: the top)")
    parser.add_argument("--name", metavar="GLOB", help="a pattern for names; with a slash: paths")
    parser.add_argument("--type", choices=("file", "directory", "symlink", "other"))
    parser.add_argument("--depth", type=whole_number, metavar="N", help="so many levels only")
    parser.add_argument("--empty", action="store_true", help="empty files and directories")
    parser.add_argument("--larger", type=size, metavar="SIZE", help="of at least this size")
    parser.add_argument("--smaller", type=size, metavar="SIZE", help="of at most this size")
    parser.add_argument("--newer", type=duration, metavar="TIME", help="changed in this time: 2h")
    parser.add_argument("--limit", type=whole_number, metavar="N", help="at most so many")
    parser.add_argument("--cursor", metavar="CURSOR", help="go on where an earlier answer ended")
    parser.add_argument("-a", "--all", action="store_true", help="what is ignored, too")
    parser.add_argument("-0", "--null", action="store_true", help="raw paths, each ended by NUL")
    takes_as_of(parser)
    return in_place(parser, arguments, _find, pages=True)


async def _find(scope: Scope, options: Options) -> int:
    since = None if options.newer is None else time.time_ns() - int(options.newer * 1e9)
    found = await scope.find(
        options.path, options.name, type=options.type, depth=options.depth,
        empty=True if options.empty else None, size_min=options.larger, size_max=options.smaller,
        modified_after_ns=since, limit=options.limit, cursor=options.cursor,
        include_ignored=options.all, **as_of(options),
    )  # fmt: skip
    if options.json:
        print_json(documents.found_document(found))
        return EXIT_OK
    if options.null:
        print_names(found.paths)
    else:
        for path in found.paths:
            line(escape_for_display(path))
    if found.truncated:
        why = f" ({escape_for_display(found.reason)})" if found.reason else ""
        how = f"; go on with --cursor {found.next_cursor}" if found.next_cursor else ""
        sys.stderr.write(f"note: there may be more{why}{how}\n")
    for path in found.unreadable:
        sys.stderr.write(f"note: {escape_for_display(path)} could not be looked into\n")
    return EXIT_OK


# --- grep --------------------------------------------------------------------------------------


def grep(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick grep",
        "Find lines that match a pattern (RE2 syntax) in a file or beneath a directory. What"
        " ignore files name is left out unless --all.",
        examples=("bailiwick grep 'def \\w+' src", "bailiwick grep -F 'a[0]' --include '*.py'"),
    )
    parser.add_argument("pattern", metavar="PATTERN")
    parser.add_argument("path", nargs="?", default=".", metavar="PATH", help="(default: the top)")
    parser.add_argument("-F", "--literal", action="store_true", help="the very text")
    parser.add_argument("-i", "--ignore-case", action="store_true")
    parser.add_argument("-w", "--word", action="store_true", help="whole words only")
    parser.add_argument("-C", "--context", type=whole_number, default=0, metavar="N",
                        help="so many lines around each match")  # fmt: skip
    parser.add_argument("--include", action="append", metavar="GLOB", help="only these files")
    parser.add_argument("--exclude", action="append", metavar="GLOB", help="not these files")
    parser.add_argument("--limit", type=whole_number, metavar="N", help="at most so many matches")
    parser.add_argument("-l", "--files", action="store_true", help="only the names of files")
    parser.add_argument("-a", "--all", action="store_true", help="what is ignored, too")
    return in_place(parser, arguments, _grep, pages=True)


async def _grep(scope: Scope, options: Options) -> int:
    found = await scope.grep(
        options.pattern, options.path, literal=options.literal, ignore_case=options.ignore_case,
        word=options.word, include=options.include, exclude=options.exclude,
        max_results=options.limit, context=options.context, include_ignored=options.all,
    )  # fmt: skip
    if options.json:
        print_json(documents.document("grep", found, pattern=options.pattern, path=options.path))
    elif options.files:
        for path in dict.fromkeys(match.path for match in found.matches):
            line(escape_for_display(path))
    else:
        _print_matches(found.matches, apart=options.context > 0)
        _note_in_part(found)
    if not options.json:
        _note_left_out(found)
    return EXIT_OK


def _print_matches(matches: Sequence[GrepMatch], *, apart: bool) -> None:
    for match, before, after, follows in in_context(matches):
        name = paint(escape_for_display(match.path), "blue")
        if apart and not follows:
            line("--")
        for number, text in before:
            line(f"{name}-{number}-{safe_lines(text)}")
        line(f"{name}:{paint(str(match.line), 'green')}:{safe_lines(match.text)}")
        for number, text in after:
            line(f"{name}-{number}-{safe_lines(text)}")


def _note_in_part(found: GrepResult) -> None:
    for match in found.matches:
        if match.line_truncated:
            name = escape_for_display(match.path)
            sys.stderr.write(f"note: {name}:{match.line}: a long line, shown in part\n")


def _note_left_out(found: GrepResult) -> None:
    """Nothing is cut or left out in silence."""
    if found.truncated:
        why = f" ({escape_for_display(found.reason)})" if found.reason else ""
        sys.stderr.write(f"note: there may be more{why}; --limit raises the limit\n")
    for paths, why in (
        (found.skipped_paths, "too large to be searched"),
        (found.unreadable, "could not be read"),
        (found.withheld, "withheld by a rule"),
    ):
        for path in paths:
            sys.stderr.write(f"note: {escape_for_display(path)}: {why}\n")
    if found.skipped_binary_paths:
        count = len(found.skipped_binary_paths)
        sys.stderr.write(f"note: binary files not searched: {count}\n")
