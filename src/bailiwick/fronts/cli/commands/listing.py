"""`bailiwick ls`, `tree` and `stat`: what there is."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, cast

from bailiwick.errors import (
    NotADirectory,
    PathNotFound,
    PermissionDenied,
    PolicyDenied,
    SymlinkEscape,
    escape_for_display,
)
from bailiwick.fronts.cli import EXIT_OK, documents
from bailiwick.fronts.cli.arguments import Parser, whole_number
from bailiwick.fronts.cli.authority_session import Options
from bailiwick.fronts.cli.output import (
    line,
    moment,
    paint,
    print_fields,
    print_json,
    print_names,
    print_plain_json,
)
from bailiwick.fronts.cli.place import in_place
from bailiwick.model import Entry
from bailiwick.paths import DEPTH_MAX

if TYPE_CHECKING:
    from bailiwick.scope import Scope

_COLOURS = {"directory": "blue", "symlink": "cyan", "other": "yellow"}
_LETTERS = {"file": "-", "directory": "d", "symlink": "l", "other": "?"}
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

_UNREADABLE = (NotADirectory, PathNotFound, PermissionDenied, PolicyDenied, SymlinkEscape)
"""What a directory beneath may be, also one that is gone by now, while the rest of a tree is still
a true answer."""

TREE_ENTRIES_MAX = 10_000
"""What a person may still scroll through; more is cut, and said so."""


def takes_as_of(parser: Parser) -> None:
    parser.add_argument(
        "--as-of", metavar="VERSION", help="as it was at a version or snapshot, where kept"
    )


def as_of(options: Options) -> dict[str, Any]:
    """The version that was asked for, as verbs take it."""
    return {} if options.as_of is None else {"as_of": options.as_of}


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
    return in_place(parser, arguments, _list, pages=True)


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
    return in_place(parser, arguments, _tree, pages=True)


async def _tree(scope: Scope, options: Options) -> int:
    drawing = _Tree(scope, options)
    rows = await drawing.rows(options.path, options.depth)
    if options.json:
        print_plain_json({
            "kind": "tree", "path": options.path, "entries": rows,
            "truncated": drawing.cut is not None,
            "directories": drawing.directories, "files": drawing.files,
            "unreadable": drawing.unreadable,
        })  # fmt: skip
        return EXIT_OK
    line(paint(escape_for_display(options.path), "blue"))
    _draw(rows)
    line()
    line(f"{drawing.directories} directories, {drawing.files} files")
    if drawing.cut:
        sys.stderr.write(f"note: {drawing.cut}\n")
    for path in drawing.unreadable:
        sys.stderr.write(f"note: {escape_for_display(path)} could not be looked into\n")
    return EXIT_OK


class _Tree:
    """Reads a tree directory by directory, until there are as many entries as were asked for."""

    def __init__(self, scope: Scope, options: Options) -> None:
        self._scope = scope
        self._all = options.all
        self._left = self._shown_max = options.limit
        self._more = as_of(options)
        self.files = self.directories = 0
        self.unreadable: list[str] = []
        """Directories that are shown, and not what lies in them."""
        self._cut_after = self._too_deep = False

    async def rows(self, path: str, depth: int | None) -> list[dict[str, Any]]:
        """What lies beneath a path, depth first, as far as that many entries go."""
        top: list[dict[str, Any]] = []
        levels = [(path, children(self._scope, path, **self._more), top)]
        try:
            while levels and not self._cut_after:
                directory, entries, rows = levels[-1]
                try:
                    entry = await anext(entries, None)
                except _UNREADABLE:
                    if len(levels) == 1:
                        raise
                    self.unreadable.append(directory)
                    entry = None
                if entry is None:
                    levels.pop()
                elif self._all or not entry.ignored:
                    below = self._add(entry, rows, depth is None or len(levels) < depth)
                    if below is not None:
                        beneath = children(self._scope, entry.path, **self._more)
                        levels.append((entry.path, beneath, below))
        finally:
            for _, entries, _ in levels:
                await entries.aclose()
        return top

    def _add(
        self, entry: Entry, rows: list[dict[str, Any]], goes_on: bool
    ) -> list[dict[str, Any]] | None:
        """Show an entry; returns where to put what lies in it, if that is shown."""
        if self._left == 0:
            self._cut_after = True
            return None
        self._left -= 1
        row = documents.entry(entry)
        rows.append(row)
        if entry.type != "directory":
            self.files += 1
            return None
        self.directories += 1
        if not goes_on:
            return None
        if not entry.addressable:
            self.unreadable.append(entry.path)
            return None
        if entry.path.levels >= DEPTH_MAX:
            self._too_deep = True
            return None
        row["entries"] = []
        return cast("list[dict[str, Any]]", row["entries"])

    @property
    def cut(self) -> str | None:
        """Why something is not shown that should be."""
        if self._cut_after:
            return f"cut after {self._shown_max} entries; --limit or --depth"
        return f"nothing deeper than {DEPTH_MAX} levels is shown" if self._too_deep else None


def _draw(rows: list[dict[str, Any]]) -> None:
    waiting = [("", rows, 0)]
    while waiting:
        before, rows, at = waiting.pop()
        if at == len(rows):
            continue
        row, last = rows[at], at + 1 == len(rows)
        waiting.append((before, rows, at + 1))
        colour = "dim" if row["ignored"] else _COLOURS.get(row["kind"])
        name = escape_for_display(row["name"])
        line(f"{before}{'└── ' if last else '├── '}{paint(name, colour) if colour else name}")
        waiting.append((before + ("    " if last else "│   "), row.get("entries", []), 0))


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
    return in_place(parser, arguments, _stat)


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
