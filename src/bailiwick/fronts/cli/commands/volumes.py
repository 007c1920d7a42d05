"""`bailiwick volume`: making volumes, and looking after them."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from bailiwick.errors import escape_for_display
from bailiwick.fronts.cli import EXIT_FAILED, EXIT_OK
from bailiwick.fronts.cli.arguments import Parser, takes_json
from bailiwick.fronts.cli.authority_session import Options, guarded
from bailiwick.fronts.cli.commands.listing import readable_size
from bailiwick.fronts.cli.output import line, paint, print_fields, print_json
from bailiwick.fronts.cli.progress import Bar

if TYPE_CHECKING:
    from bailiwick.build.care import Care

_PLACE_HELP = "such as sqlite:agent.db, or sqlite:agent.db?volume=demo"


def run(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick volume", "Volumes: versioned files in one SQLite file, and their care."
    )
    actions = parser.actions()
    for name, what, example in (
        ("create", "Make a volume, and its file if there is none.", "create sqlite:agent.db"),
        ("info", "Show how much a volume holds.", "info 'sqlite:agent.db?volume=main'"),
        ("check", "Verify every row, chunk and hash. Exit code 1 when something is wrong.",
         "check sqlite:agent.db"),
        ("repair", "Check, mend what can be mended, and say what is lost.",
         "repair sqlite:agent.db"),
        ("gc", "Let go of old versions that nothing stands on.",
         "gc sqlite:agent.db --keep-days 7"),
        ("compact", "Give what is free in the file back to the disk.", "compact sqlite:agent.db"),
    ):  # fmt: skip
        each = actions.add(name, what, f"bailiwick volume {example}")
        each.add_argument("volume", metavar="VOLUME", help=_PLACE_HELP)
        if name == "check":
            each.add_argument("--repair", action="store_true", help="as `bailiwick volume repair`")
        if name == "gc":
            each.add_argument(
                "--keep-days", type=_days, default=30.0, metavar="N",
                help="keep versions this long (default: 30)",
            )  # fmt: skip
        takes_json(each)
    copy = actions.add(
        "copy", "Copy a volume to another database, with all versions; killed, it goes on.",
        "bailiwick volume copy sqlite:agent.db 'postgres://db/agents?volume=main&blobs=s3://b/a'",
    )  # fmt: skip
    copy.add_argument("volume", metavar="FROM", help=_PLACE_HELP)
    copy.add_argument("target", metavar="TO", help="a place that has no volume of this name")
    takes_json(copy)
    discard = actions.add(
        "discard-copy", "Let go of a copy that was begun and is not to be gone on with.",
        "bailiwick volume discard-copy 'postgres://db/agents?volume=main&blobs=s3://b/a'",
    )  # fmt: skip
    discard.add_argument("volume", metavar="TO", help="the place that was copied to")
    takes_json(discard)
    options = parser.parse_args(arguments)
    import asyncio

    own = {"create": _create, "copy": _copy, "discard-copy": _discard_copy}
    act = own.get(options.action, _look_after)
    return guarded(lambda: asyncio.run(act(options)), as_json=options.json)


def _days(text: str) -> float:
    days = float(text)
    if not 0 <= days <= 36_500:
        raise ValueError(text)
    return days


async def _create(options: Options) -> int:
    from bailiwick.build.care import create_volume

    place = await create_volume(options.volume)
    if options.json:
        print_json({"kind": "volume", "volume": place.volume, "created": True})
    else:
        line(f"made the volume {place.volume}: use it with -p {escape_for_display(options.volume)}")
    return EXIT_OK


async def _copy(options: Options) -> int:
    from bailiwick.build.care import copy_volume

    with Bar("copying", quiet=options.json) as bar:
        done = await copy_volume(options.volume, options.target, told=bar.show)
    if options.json:
        print_json({
            "kind": "volume_copy", "rows": done.rows, "bytes": done.bytes,
            "resumed": done.resumed, "wasWhole": done.was_whole,
        })  # fmt: skip
    elif done.was_whole:
        line("the copy is there already, and whole")
    else:
        went_on = ", after what was there already" if done.resumed else ""
        line(f"copied and verified: {done.rows} rows, {readable_size(done.bytes)} of content"
             f" beside them{went_on}")  # fmt: skip
    return EXIT_OK


async def _discard_copy(options: Options) -> int:
    from bailiwick.build.care import discard_copies

    with Bar("discarding", quiet=options.json) as bar:
        done = await discard_copies(options.volume, told=bar.show)
    if options.json:
        print_json({"kind": "volume_copy_discarded", **done._asdict()})
    else:
        line(f"let go of {done.rows} rows and {done.blobs} blobs that were copied")
    return EXIT_OK


async def _look_after(options: Options) -> int:
    from bailiwick.build.care import open_care

    async with open_care(options.volume) as care:
        return await _ACTIONS[options.action](care, options)


async def _info(care: Care, options: Options) -> int:
    found = await care.info()
    if options.json:
        print_json({
            "kind": "volume_info", "volume": care.place.volume, "branch": care.place.branch,
            "files": found.files, "directories": found.directories, "links": found.links,
            "bytes": found.bytes, "storedBytes": found.stored_bytes,
            "blobBytes": found.blob_bytes, "dedupRatio": round(found.dedup_ratio, 3),
            "versions": found.versions, "branches": found.branches, "snapshots": found.snapshots,
        })  # fmt: skip
        return EXIT_OK
    print_fields((
        ("volume", care.place.volume),
        ("branch", care.place.branch),
        ("files", str(found.files)),
        ("directories", str(found.directories)),
        ("links", str(found.links)),
        ("bytes", f"{found.bytes} ({readable_size(found.bytes)})"),
        ("stored", f"{found.stored_bytes} ({readable_size(found.stored_bytes)})"),
        ("of that in blobs", f"{found.blob_bytes} ({readable_size(found.blob_bytes)})"),
        ("bytes for each one stored", f"{found.dedup_ratio:.2f}"),
        ("versions", str(found.versions)),
        ("branches", str(found.branches)),
        ("snapshots", str(found.snapshots)),
    ))  # fmt: skip
    return EXIT_OK


async def _check(care: Care, options: Options) -> int:
    repair = options.action == "repair" or options.repair
    with Bar("repairing" if repair else "checking", quiet=options.json) as bar:
        found = await care.check(repair=repair, told=bar.show)
    left = [problem for problem in found.problems if not problem.mended]
    if options.json:
        print_json({
            "kind": "volume_check", "volume": care.place.volume, "clean": found.is_clean,
            "nodes": found.nodes, "names": found.names, "chunks": found.chunks,
            "problems": [problem._asdict() for problem in found.problems], "lost": found.lost,
        })  # fmt: skip
        return EXIT_FAILED if left else EXIT_OK
    for problem in found.problems:
        where = f"{escape_for_display(problem.path)}: " if problem.path else ""
        mark = paint("mended", "green") if problem.mended else paint("wrong", "red")
        line(f"{mark}: {where}{escape_for_display(problem.what)}")
    for path in found.lost:
        line(f"{paint('lost', 'red')}: {escape_for_display(path)}")
    line(f"{found.nodes} nodes, {found.names} names, {found.chunks} chunks:"
         f" {'all is well' if found.is_clean else f'{len(found.problems)} problems'}")  # fmt: skip
    if left:
        sys.stderr.write(_hint(bool(found.lost), repair, options.volume))
    return EXIT_FAILED if left else EXIT_OK


def _hint(lost: bool, repaired: bool, volume: str) -> str:
    if not repaired:
        shown = escape_for_display(volume)
        return f"hint: bailiwick volume repair {shown} mends what can be mended\n"
    if lost:
        return "hint: what is lost may be in an earlier version (bailiwick history), or a backup\n"
    return "hint: what is left cannot be mended here: restore the file from a backup\n"


async def _gc(care: Care, options: Options) -> int:
    with Bar("collecting", quiet=options.json) as bar:
        done = await care.collect(keep_days=options.keep_days, told=bar.show)
    if options.json:
        print_json({"kind": "volume_gc", "volume": care.place.volume, **done._asdict()})
    else:
        line(f"let go of {done.names} names, {done.nodes} nodes, {done.contents} contents,"
             f" {done.chunks} chunks, {done.blobs} blobs; oldest version kept:"
             f" {done.horizon}")  # fmt: skip
    return EXIT_OK


async def _compact(care: Care, options: Options) -> int:
    done = await care.compact()
    if options.json:
        print_json({
            "kind": "volume_compact", "volume": care.place.volume,
            "bytesBefore": done.bytes_before, "bytesAfter": done.bytes_after,
        })  # fmt: skip
    else:
        line(f"{readable_size(done.bytes_before)} → {readable_size(done.bytes_after)}")
    return EXIT_OK


_ACTIONS: dict[str, Callable[[Care, Options], Awaitable[int]]] = {
    "info": _info, "check": _check, "repair": _check, "gc": _gc, "compact": _compact,
}  # fmt: skip
