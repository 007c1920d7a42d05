"""`bailiwick mkdir`, `rm`, `mv` and `cp`: the shape of a tree."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from bailiwick.errors import FileAlreadyExists, escape_for_display
from bailiwick.fronts.cli import EXIT_OK, documents
from bailiwick.fronts.cli.arguments import Parser, mode_bits, sha256, takes_place
from bailiwick.fronts.cli.authority_session import Options
from bailiwick.fronts.cli.output import line, print_json
from bailiwick.fronts.cli.place import in_place, with_scope
from bailiwick.model import ChangeResult

if TYPE_CHECKING:
    from bailiwick.scope import Scope

_INTO = "end the destination with / to put it into that directory"


def mkdir(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick mkdir",
        "Make directories.",
        examples=("bailiwick mkdir --parents docs/images",),
        usage_hint="-p names the place; missing parents are made with --parents",
    )
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument("--parents", action="store_true", help="those above too; exists is fine")
    parser.add_argument("--file-mode", type=mode_bits, metavar="755", help="permission bits")
    return in_place(parser, arguments, _mkdir, needs="versions")


async def _mkdir(scope: Scope, options: Options) -> int:
    scope = _as_one(scope)
    done = [
        await scope.make_dir(path, parents=options.parents, file_mode=options.file_mode)
        for path in options.paths
    ]
    return _report(options, done, "made")


def rm(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick rm",
        "Remove files, links (never what they lead to) and directories.",
        examples=("bailiwick rm -r build", "bailiwick -p sqlite:agent.db rm draft.md"),
    )
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument("-r", "--recursive", action="store_true", help="with all that lies in it")
    parser.add_argument("-f", "--force", action="store_true", help="what is missing is fine")
    parser.add_argument("--expect", type=sha256, metavar="HASH", help="only this content")
    takes_place(parser)
    options = parser.parse_args(arguments)
    if options.expect is not None and len(options.paths) > 1:
        parser.error("--expect is about one file")
    return with_scope(options, _rm, needs="versions")


async def _rm(scope: Scope, options: Options) -> int:
    scope = _as_one(scope)
    done = [
        await scope.remove(
            path, recursive=options.recursive, missing_ok=options.force,
            expected_sha256=options.expect,
        )
        for path in options.paths
    ]  # fmt: skip
    return _report(options, done, "removed")


def mv(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick mv",
        "Give a file, link or directory another name, in one step. A destination that ends with /"
        " is the directory it is put into.",
        examples=("bailiwick mv notes.md archive/", "bailiwick mv old.py new.py"),
    )
    parser.add_argument("path", metavar="FROM")
    parser.add_argument("to", metavar="TO")
    parser.add_argument("--replace", action="store_true", help="take the place of what is there")
    parser.add_argument("--expect", type=sha256, metavar="HASH", help="only this content")
    return in_place(parser, arguments, _mv, needs="versions")


async def _mv(scope: Scope, options: Options) -> int:
    try:
        done = await scope.move(
            options.path, _destination(options), replace=options.replace,
            expected_sha256=options.expect,
        )  # fmt: skip
    except FileAlreadyExists as error:
        error.hint = error.hint or f"--replace takes the place of a file; {_INTO}"
        raise
    return _report(options, [done], "moved")


def cp(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick cp",
        "Copy a file, a link as a link, or with -r a directory, to a new name. A destination that"
        " ends with / is the directory it is put into. Between places: bailiwick import, export.",
        examples=("bailiwick cp -r templates site",),
    )
    parser.add_argument("path", metavar="FROM")
    parser.add_argument("to", metavar="TO")
    parser.add_argument("-r", "--recursive", action="store_true", help="directories too")
    return in_place(parser, arguments, _cp, needs="versions")


async def _cp(scope: Scope, options: Options) -> int:
    try:
        done = await scope.copy(options.path, _destination(options), recursive=options.recursive)
    except FileAlreadyExists as error:
        error.hint = error.hint or f"choose a name that is free; {_INTO}"
        raise
    return _report(options, [done], "copied")


def _as_one(scope: Scope) -> Scope:
    """The scope for all that one command does: one request, which one `undo` takes back."""
    return scope.with_request(secrets.token_hex(8))


def _destination(options: Options) -> str:
    """Where it goes. Into a directory only where that was said: what a name means must not depend
    on what happens to stand there."""
    to: str = options.to
    if not to.endswith("/"):
        return to
    name: str = options.path.rstrip("/").rpartition("/")[2]
    return to + name


def _report(options: Options, done: list[ChangeResult], word: str) -> int:
    if options.json:
        told = [documents.document("change", each) for each in done]
        print_json(told[0] if len(told) == 1 else told)
        return EXIT_OK
    for each in done:
        to = f" → {escape_for_display(each.destination)}" if each.destination else ""
        more = "more than " if each.count_truncated else ""
        many = f" ({more}{each.count} objects)" if each.count > 1 or more else ""
        nothing = "" if each.changed else " (nothing to do)"
        path = escape_for_display(each.path)
        line(f"{word} {path}{to}{many}{nothing}, request {each.request_id}")
    return EXIT_OK
