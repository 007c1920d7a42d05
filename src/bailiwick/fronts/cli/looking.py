"""`bailiwick ls`, `tree` and `stat`: what there is."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from bailiwick.errors import escape_for_display
from bailiwick.fronts.cli import EXIT_OK, documents
from bailiwick.fronts.cli.arguments import Parser, takes_pages, takes_place, whole_number
from bailiwick.fronts.cli.directories import Purpose
from bailiwick.fronts.cli.output import (
    line,
    moment,
    paint,
    print_fields,
    print_json,
    print_names,
)
from bailiwick.fronts.cli.place import with_scope
from bailiwick.fronts.cli.running import Options
from bailiwick.model import Entry

if TYPE_CHECKING:
    from bailiwick.scope import Scope

_COLOURS = {"directory": "blue", "symlink": "cyan", "other": "yellow"}
_LETTERS = {"file": "-", "directory": "d", "symlink": "l", "other": "?"}
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

TREE_ENTRIES_MAX = 10_000
"""What a person may still scroll through; more is cut, and said so."""


def takes_as_of(parser: Parser) -> None:
    parser.add_argument(
        "--as-of", metavar="VERSION", help="as it was at a version or snapshot, where kept"
    )


def as_of(options: Options) -> dict[str, Any]:
    """The version that was asked for, as verbs take it."""
    return {} if options.as_of is None else {"as_of": options.as_of}


def purpose(options: Options) -> Purpose:
    """What a place is opened for by who looks: where a version is asked for, its past too."""
    return "looking" if options.as_of is None else "versions"


def readable_size(count: int) -> str:
    """A size in the largest unit that leaves a number above one."""
    amount, unit = float(count), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{count} B" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"


# --- ls ----------------------------------------------------------------------------------------


def list_directory(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick ls",
        "List a directory. Everything in it is shown; what ignore files name is dimmed.",
        examples=("bailiwick ls src", "bailiwick -p sqlite:agent.db ls -l"),
    )
    parser.add_argument("path", nargs="?", default=".", metavar="PATH", help="(default: the top)")
    parser.add_argument("-l", "--long", action="store_true", help="type, size and time too")
    parser.add_argument("-0", "--null", action="store_true", help="raw names, each ended by NUL")
    takes_as_of(parser)
    takes_place(parser)
    takes_pages(parser)
    options = parser.parse_args(arguments)
    return with_scope(options, _list, needs=purpose(options))


async def _list(scope: Scope, options: Options) -> int:
    entries = [entry async for entry in children(scope, options.path, **as_of(options))]
    if options.json:
        print_json(documents.listing(options.path, entries))
    elif options.null:
        print_names(entry.name for entry in entries)
    elif options.long:
        width = max((len(readable_size(entry.size)) for entry in entries), default=0)
        for entry in entries:
            size = readable_size(entry.size) if entry.type == "file" else ""
            when = moment(entry.mtime_ns / 1e9)
            line(f"{_LETTERS[entry.type]}  {size:>{width}}  {when}  {shown(entry)}")
    else:
        for entry in entries:
            line(shown(entry))
    return EXIT_OK


async def children(scope: Scope, path: str, **more: Any) -> AsyncGenerator[Entry, None]:
    """Everything in a directory, page after page."""
    cursor = None
    while True:
        page = await scope.list(path, cursor=cursor, include_ignored=True, **more)
        for entry in page.entries:
            yield entry
        cursor = page.next_cursor
        if cursor is None:
            return


def shown(entry: Entry) -> str:
    """A name as a person sees it: escaped, coloured by what it is, marked where a mark helps."""
    mark = {"directory": "/", "symlink": "@", "other": "?"}.get(entry.type, "")
    name = escape_for_display(entry.name) + mark
    colour = "dim" if entry.ignored else _COLOURS.get(entry.type)
    return paint(name, colour) if colour else name


# --- tree --------------------------------------------------------------------------------------


def tree(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick tree",
        "Show a directory and all beneath it. What ignore files name is left out unless --all.",
        examples=("bailiwick tree --depth 2", "bailiwick -p sqlite:agent.db tree src"),
    )
    parser.add_argument("path", nargs="?", default=".", metavar="PATH", help="(default: the top)")
    parser.add_argument("--depth", type=whole_number, metavar="N", help="so many levels only")
    parser.add_argument("-a", "--all", action="store_true", help="what is ignored, too")
    parser.add_argument(
        "--limit", type=whole_number, default=TREE_ENTRIES_MAX, metavar="N",
        help=f"at most so many entries (default: {TREE_ENTRIES_MAX})",
    )  # fmt: skip
    takes_as_of(parser)
    takes_place(parser)
    takes_pages(parser)
    options = parser.parse_args(arguments)
    return with_scope(options, _tree, needs=purpose(options))


async def _tree(scope: Scope, options: Options) -> int:
    drawing = _Tree(scope, options)
    rows = await drawing.rows(options.path, options.depth)
    if options.json:
        print_json({
            "kind": "tree", "path": options.path, "entries": rows, "truncated": drawing.cut,
            "directories": drawing.directories, "files": drawing.files,
        })  # fmt: skip
        return EXIT_OK
    line(paint(escape_for_display(options.path), "blue"))
    _draw(rows, "")
    line()
    line(f"{drawing.directories} directories, {drawing.files} files")
    if drawing.cut:
        sys.stderr.write(f"note: cut after {options.limit} entries; --limit or --depth\n")
    return EXIT_OK


class _Tree:
    """Reads a tree directory by directory, until there are as many entries as were asked for."""

    def __init__(self, scope: Scope, options: Options) -> None:
        self._scope = scope
        self._all = options.all
        self._left = options.limit
        self._more = as_of(options)
        self.files = self.directories = 0
        self.cut = False

    async def rows(self, path: str, depth: int | None) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        async with aclosing(children(self._scope, path, **self._more)) as entries:
            async for entry in entries:
                if entry.ignored and not self._all:
                    continue
                if self._left == 0:
                    self.cut = True
                    break
                self._left -= 1
                rows.append(await self._row(entry, depth))
        return rows

    async def _row(self, entry: Entry, depth: int | None) -> dict[str, Any]:
        row = documents.entry(entry)
        if entry.type != "directory":
            self.files += 1
            return row
        self.directories += 1
        if entry.addressable and depth != 1:
            row["entries"] = await self.rows(entry.path, None if depth is None else depth - 1)
        return row


def _draw(rows: list[dict[str, Any]], before: str) -> None:
    for row in rows:
        last = row is rows[-1]
        colour = "dim" if row["ignored"] else _COLOURS.get(row["kind"])
        name = escape_for_display(row["name"])
        line(f"{before}{'└── ' if last else '├── '}{paint(name, colour) if colour else name}")
        _draw(row.get("entries", []), before + ("    " if last else "│   "))


# --- stat --------------------------------------------------------------------------------------


def stat(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick stat",
        "Show what is known of a file or directory.",
        examples=("bailiwick stat README.md",),
    )
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("--no-follow", action="store_true", help="of a link itself")
    takes_as_of(parser)
    takes_place(parser)
    options = parser.parse_args(arguments)
    return with_scope(options, _stat, needs=purpose(options))


async def _stat(scope: Scope, options: Options) -> int:
    look = scope.lstat if options.no_follow else scope.stat
    found = await look(options.path, **as_of(options))
    if options.json:
        print_json(documents.stat_document(found))
        return EXIT_OK
    print_fields((
        ("path", found.path),
        ("type", found.type),
        ("size", f"{found.size} bytes" if found.type == "file" else None),
        ("mode", f"{found.mode:04o}"),
        ("modified", moment(found.mtime_ns / 1e9)),
        ("created", moment(None if found.created_ns is None else found.created_ns / 1e9)),
        ("target", found.target),
        ("media type", getattr(found, "mime", None)),
        ("version", found.version),
    ))  # fmt: skip
    return EXIT_OK
