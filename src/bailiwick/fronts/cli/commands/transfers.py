"""`bailiwick import` and `bailiwick export`: trees in and out, with a bar and without surprises.

Both ends are scopes, the directory of the host too: what confines an agent confines us here, so a
link that somebody laid into either tree leads nowhere.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bailiwick.errors import FileAlreadyExists, escape_for_display, from_os_error
from bailiwick.fronts.cli import EXIT_FAILED, EXIT_OK, documents
from bailiwick.fronts.cli.arguments import Parser, takes_json
from bailiwick.fronts.cli.authority_session import Options, guarded
from bailiwick.fronts.cli.commands.listing import readable_size
from bailiwick.fronts.cli.directories import open_directory
from bailiwick.fronts.cli.output import line, print_json
from bailiwick.fronts.cli.place import is_server, open_place, token_of
from bailiwick.fronts.cli.progress import Bar

if TYPE_CHECKING:
    from bailiwick.scope import Scope
    from bailiwick.transfer import Progress, Transferred

_SPECIAL = "not_a_regular_file"
"""Sockets, pipes and devices are no files: leaving them out is no failure."""


def bring_in(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick import",
        "Bring a directory into a volume or another place. Modes, times and links are kept. It can"
        " be interrupted and begun again: files appear whole, and what is the same already is"
        " passed over. A volume that does not exist is made.",
        examples=(
            "bailiwick import ./project sqlite:agent.db",
            "bailiwick import ./docs 'sqlite:agent.db?volume=main' --to docs --ignore",
        ),
    )
    parser.add_argument("directory", metavar="DIR", help="the directory to bring in")
    parser.add_argument("place", metavar="PLACE", help="where to: sqlite:agent.db, a directory …")
    parser.add_argument("--to", default=".", metavar="PATH", help="beneath this path (the top)")
    _takes_ways(parser)
    options = parser.parse_args(arguments)
    return _run(options, _import)


def take_out(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick export",
        "Take a tree out of a volume or another place into a directory, which is made if missing."
        " Modes, times and links are kept; nothing is written through a link. It can be"
        " interrupted and begun again.",
        examples=(
            "bailiwick export sqlite:agent.db ./copy",
            "bailiwick export 'sqlite:agent.db?branch=attempt' ./src --from src",
        ),
    )
    parser.add_argument("place", metavar="PLACE", help="where from: sqlite:agent.db …")
    parser.add_argument("directory", metavar="DIR", help="the directory to write to")
    parser.add_argument(
        "--from", dest="path", default=".", metavar="PATH", help="only this part (the top)"
    )
    _takes_ways(parser)
    options = parser.parse_args(arguments)
    return _run(options, _export)


def _takes_ways(parser: Parser) -> None:
    parser.add_argument(
        "--compare", choices=("times", "content", "never"), default="times",
        help="what is the same already: by size and time (default), by content, or nothing is",
    )  # fmt: skip
    parser.add_argument(
        "--ignore", action="store_true", help="leave out what ignore files (.gitignore …) name"
    )
    parser.add_argument("--token", metavar="TOKEN", help="for a server (default: $BAILIWICK_TOKEN)")
    takes_json(parser)


def _run(options: Options, action: Any) -> int:
    import asyncio

    return guarded(lambda: asyncio.run(action(options)), as_json=options.json)


async def _import(options: Options) -> int:
    from bailiwick.config.places import names_volume

    token = token_of(options)
    async with open_directory(options.directory, "looking") as source:
        if names_volume(options.place):
            await _make_missing(options.place)
        async with open_place(options.place, needs="changing", token=token) as target:
            way = TransferWay(".", options.to, _beneath(options.directory, _lies_at(options.place)))
            done = await _transfer(options, source, target, way, "importing")
    return _report(options, "import", done)


async def _export(options: Options) -> int:
    async with open_place(options.place, token=token_of(options)) as source:
        path = (await source.stat(options.path)).path  # before a directory is made for nothing
        _make_directory(options.directory)
        tops = _lies_at(options.place)
        way = TransferWay(path, ".", _beneath(tops[0], [options.directory]) if tops else [])
        async with open_directory(options.directory, "changing") as target:
            done = await _transfer(options, source, target, way, "exporting")
    return _report(options, "export", done)


class TransferWay(NamedTuple):
    """From which path to which, and what is left alone on the way: the target itself, where it
    lies in its own source."""

    path: str
    to: str
    without: list[str]


def _lies_at(place: str) -> list[str]:
    """Where a place itself is on this machine: a directory, or a volume's files; else nowhere."""
    from bailiwick.build.places import read_place

    if is_server(place):
        return []
    found = read_place(place)
    if found.volume is None:
        return [] if found.directory is None else [found.directory]
    if not found.volume.in_file:
        return [found.volume.blobs_folder] if found.volume.blobs_folder else []
    file = found.volume.file
    blobs = found.volume.blobs_folder or f"{file}-blobs"
    return [file, f"{file}-wal", f"{file}-shm", blobs]


def _beneath(top: str, places: Sequence[str]) -> list[str]:
    """Those places that lie in the directory, as its scope names them."""
    outer = os.path.realpath(top)
    named = (os.path.relpath(os.path.realpath(place), outer) for place in places)
    return [path for path in named if path != "." and path.partition("/")[0] != ".."]


async def _make_missing(place: str) -> None:
    from bailiwick.build.care import create_volume

    try:
        await create_volume(place)
    except FileAlreadyExists:
        return


def _make_directory(directory: str) -> None:
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        raise from_os_error(error, directory) from error


async def _transfer(
    options: Options, source: Scope, target: Scope, way: TransferWay, what: str
) -> Transferred:
    from bailiwick.transfer import measure, transfer

    with Bar(what, quiet=options.json) as bar:
        total = 0
        if bar.visible:
            extent = await measure(source, way.path, include_ignored=not options.ignore)
            total = extent.bytes + extent.files

        def told(progress: Progress) -> None:
            bar.show(progress.bytes + progress.files, total, progress.path)

        return await transfer(
            source, target, way.path, way.to, compare=options.compare,
            include_ignored=not options.ignore, without=way.without, told=told,
        )  # fmt: skip


def _report(options: Options, kind: str, done: Transferred) -> int:
    if options.json:
        print_json(documents.document(kind, done))
    else:
        for each in done.left_out:
            path, reason = map(escape_for_display, (each.path, each.reason))
            sys.stderr.write(f"left out: {path}: {reason} ({each.error_kind})\n")
        line(
            f"{done.files} files ({readable_size(done.bytes)}), {done.directories} directories,"
            f" {done.links} links; {done.unchanged} unchanged, {len(done.left_out)} left out"
        )
    failed = any(each.error_kind != _SPECIAL for each in done.left_out)
    return EXIT_FAILED if failed else EXIT_OK
