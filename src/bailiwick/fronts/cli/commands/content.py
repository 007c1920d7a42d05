"""`bailiwick cat`, `diff`, `write` and `edit`: what files hold."""

from __future__ import annotations

import codecs
import sys
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from bailiwick.errors import BinaryFile, escape_for_display
from bailiwick.fronts.cli import EXIT_OK, documents
from bailiwick.fronts.cli.arguments import (
    Parser,
    mode_bits,
    sha256,
    takes_pages,
    takes_place,
    whole_number,
)
from bailiwick.fronts.cli.authority_session import Options
from bailiwick.fronts.cli.commands.listing import as_of, readable_size, takes_as_of
from bailiwick.fronts.cli.output import line, paint, print_bytes, print_json, safe_lines
from bailiwick.fronts.cli.place import with_scope
from bailiwick.fronts.cli.typed import input_chunks, whole_input
from bailiwick.model import Edit

if TYPE_CHECKING:
    from bailiwick.scope import Scope

# --- cat ---------------------------------------------------------------------------------------


def cat(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick cat",
        "Print what files hold. A pipe or a file gets the very bytes; a terminal is shown control"
        " characters as escapes, so that a file cannot control it.",
        examples=(
            "bailiwick cat README.md",
            "bailiwick cat app.log --tail 50",
            "bailiwick -p sqlite:agent.db cat report.pdf > report.pdf",
        ),
    )
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument("--line", type=whole_number, metavar="N", help="from this line on")
    parser.add_argument("--limit", type=whole_number, metavar="N", help="so many lines")
    parser.add_argument("--tail", type=whole_number, metavar="N", help="the last so many lines")
    takes_as_of(parser)
    takes_place(parser)
    takes_pages(parser)
    options = parser.parse_args(arguments)
    if options.tail is not None and (options.line or options.limit):
        parser.error("--tail stands alone")
    return with_scope(options, _cat)


async def _cat(scope: Scope, options: Options) -> int:
    by_lines = options.line or options.limit or options.tail
    for path in options.paths:
        if options.json:
            read = await scope.read_text(
                path, line=options.line, limit=options.limit, tail=options.tail, **as_of(options)
            )
            print_json(documents.text_document(read))
        elif by_lines:
            await _print_lines(scope, path, options)
        else:
            await _stream(scope, path, as_of(options))
    return EXIT_OK


async def _print_lines(scope: Scope, path: str, options: Options) -> None:
    read = await scope.read_text(
        path, line=options.line, limit=options.limit, tail=options.tail, **as_of(options)
    )
    _print_text(read.text)
    if read.next_cursor is not None:
        sys.stderr.write("note: the file goes on\n")


async def _stream(scope: Scope, path: str, more: dict[str, Any]) -> None:
    """The whole file, chunk by chunk, whatever its size and content."""
    shows, held = sys.stdout.isatty(), ""
    # Escapes what is not UTF-8, and waits for the rest of a character that a chunk's end cuts.
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    chunks = scope.stream(path, **more)
    try:
        async for chunk in chunks:
            if not shows:
                print_bytes(chunk)
                continue
            text = held + decoder.decode(chunk)
            held = "\r" if text.endswith("\r") else ""  # its newline may follow
            sys.stdout.write(safe_lines(text.removesuffix("\r")))
        if shows:
            sys.stdout.write(safe_lines(held + decoder.decode(b"", final=True)))
    finally:
        await chunks.aclose()


def _print_text(text: str) -> None:
    if sys.stdout.isatty():
        text = safe_lines(text)
    sys.stdout.write(text if text.endswith("\n") or not text else text + "\n")


# --- diff --------------------------------------------------------------------------------------


def diff(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick diff",
        "Show what differs from one file to another, to a text on the input (-), or from a version"
        " of a file to another or to what it is now.",
        examples=(
            "bailiwick diff a.py b.py",
            "bailiwick -p sqlite:agent.db diff a.py --as-of 41",
            "generate | bailiwick diff a.py -",
        ),
    )
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("other", nargs="?", metavar="OTHER", help="another file, or - for stdin")
    takes_as_of(parser)
    parser.add_argument(
        "--other-as-of", metavar="VERSION", help="the version on the other side (default: now)"
    )
    takes_place(parser)
    takes_pages(parser)
    options = parser.parse_args(arguments)
    if options.other is None and options.as_of is None:
        parser.error("two things are compared: name OTHER, or a version with --as-of")
    return with_scope(options, _diff)


async def _diff(scope: Scope, options: Options) -> int:
    more = as_of(options)
    if options.other_as_of is not None:
        more["other_as_of"] = options.other_as_of
    if options.other == "-":
        found = await scope.diff(options.path, text=_text_of(await whole_input()), **more)
    else:
        found = await scope.diff(options.path, options.other, **more)
    if options.json:
        print_json(documents.document("diff", found))
    else:
        print_diff(found.text)
    if found.truncated and not options.json:
        sys.stderr.write("note: the difference is too large to be shown whole\n")
    return EXIT_OK


def _text_of(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise BinaryFile(
            "what was piped in is no UTF-8 text", hint="write it to a file of the place first"
        ) from None


def print_diff(text: str) -> None:
    """As it is for a pipe, which may be a patch; escaped and coloured for a terminal."""
    if not sys.stdout.isatty():
        print_bytes(text.encode("utf-8", "surrogateescape"))
        return
    for each in text.removesuffix("\n").split("\n"):
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(each[:1])
        line(paint(safe_lines(each), colour) if colour else safe_lines(each))


# --- write -------------------------------------------------------------------------------------


def write(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick write",
        "Write a whole file from the input, or from --text. All of it appears at once or nothing.",
        examples=(
            "bailiwick write notes.md --text 'remember the milk'",
            "curl -s https://example.org | bailiwick -p sqlite:agent.db write page.html",
        ),
    )
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("--text", metavar="TEXT", help="the content")
    parser.add_argument("--append", action="store_true", help="add to the end of the file")
    parser.add_argument(
        "--mode", choices=("create", "overwrite", "replace"), default="overwrite",
        help="create: only a new file; replace: only the one that --expect names",
    )  # fmt: skip
    parser.add_argument("--expect", type=sha256, metavar="HASH", help="only over this content")
    parser.add_argument("--parents", action="store_true", help="make missing directories")
    parser.add_argument("--file-mode", type=mode_bits, metavar="644", help="permission bits")
    takes_place(parser)
    options = parser.parse_args(arguments)
    if options.append and options.mode != "overwrite":
        parser.error("--append and --mode are two ways")
    return with_scope(options, _write, needs="versions")


async def _write(scope: Scope, options: Options) -> int:
    how: dict[str, Any] = {
        "expected_sha256": options.expect, "parents": options.parents,
        "file_mode": options.file_mode,
    }  # fmt: skip
    text = options.text
    if options.append:
        data = await whole_input() if text is None else text
        done = await scope.append(options.path, data, **how)
    elif text is not None:
        done = await scope.write_text(options.path, text, mode=options.mode, **how)
    else:
        async with aclosing(input_chunks()) as chunks:
            done = await scope.write_stream(options.path, chunks, mode=options.mode, **how)
    if options.json:
        print_json(documents.document("file_append" if options.append else "file_write", done))
    else:
        word = "created" if done.created else "wrote"
        path, size = escape_for_display(done.path), readable_size(done.size)
        line(f"{word} {path} ({size}), request {done.request_id}")
    return EXIT_OK


# --- edit --------------------------------------------------------------------------------------


def edit(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick edit",
        "Replace text in a file. The old text must stand there exactly once, unless --all. Several"
        " pairs of --old and --new land together or not at all.",
        examples=("bailiwick edit config.py --old 'DEBUG = True' --new 'DEBUG = False'",),
    )
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("--old", action="append", required=True, metavar="TEXT")
    parser.add_argument("--new", action="append", required=True, metavar="TEXT")
    parser.add_argument("--all", action="store_true", help="everywhere, however often")
    parser.add_argument("--expect", type=sha256, metavar="HASH", help="only in this content")
    parser.add_argument("--dry-run", action="store_true", help="only show what would change")
    takes_place(parser)
    options = parser.parse_args(arguments)
    if len(options.old) != len(options.new):
        parser.error("each --old has its --new")
    return with_scope(options, _edit, needs="versions")


async def _edit(scope: Scope, options: Options) -> int:
    pairs = zip(options.old, options.new, strict=True)
    edits = [Edit(old, new, options.all) for old, new in pairs]
    done = await scope.edit(
        options.path, edits, expected_sha256=options.expect, dry_run=options.dry_run
    )
    if options.json:
        print_json(documents.document("file_edit", done))
    else:
        print_diff(done.diff)
    return EXIT_OK
