"""`bailiwick bench`: how fast small files are on this machine, plain and through Bailiwick.

A quick look for a person, not a measurement to quote: each thing is done for a fraction of a second
by turns, and the best of several turns counts, since everything else only makes it slower.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bailiwick.fronts.cli import EXIT_OK
from bailiwick.fronts.cli.arguments import Parser, takes_json
from bailiwick.fronts.cli.authority_session import Options, guarded
from bailiwick.fronts.cli.output import line, print_json, print_table
from bailiwick.fronts.cli.progress import Bar

if TYPE_CHECKING:
    from bailiwick.scope import Scope

_CONTENT = b"bailiwick\n" * 102 + b"1234"  # 1 KiB
_ENTRIES = 200
_TURNS = 5

Job = Callable[[int], Awaitable[None]]


class BenchWay(NamedTuple):
    """One way to do one thing."""

    thing: str
    how: str
    job: Job


def run(arguments: list[str]) -> int:
    parser = Parser(
        "bailiwick bench",
        "Read, write and list small files on this machine, plainly and through Bailiwick, and show"
        " how many times longer it takes. Works in a temporary directory, which it takes away.",
        examples=("bailiwick bench", "bailiwick bench --dir /srv --seconds 10"),
    )
    parser.add_argument(
        "--dir", metavar="DIR", help="on the disk of this directory (default: for temporary files)"
    )
    parser.add_argument(
        "--seconds", type=float, default=5.0, metavar="N", help="for about so long (default: 5)"
    )
    takes_json(parser)
    options = parser.parse_args(arguments)
    if not 0.1 <= options.seconds <= 600:
        parser.error("--seconds is from 0.1 to 600")
    import asyncio

    return guarded(lambda: asyncio.run(_bench(options)), as_json=options.json)


async def _bench(options: Options) -> int:
    from bailiwick.build import open as open_scope

    with tempfile.TemporaryDirectory(prefix="bailiwick-bench-", dir=options.dir) as place:
        tree, state = _prepare(place)
        async with (
            open_scope(tree, state_dir=state) as durable,
            open_scope(tree, durability="rename", state_dir=state) as quick,
            open_scope(f"sqlite:{Path(place, 'volume.db')}") as volume,
        ):
            for number in range(_ENTRIES):
                await volume.write_bytes(f"{number:03}", _CONTENT)
            ways = _ways(tree, quick, durable, volume)
            best = await _measure(ways, options)
    rows = _rows(ways, best)
    if options.json:
        print_json({"kind": "bench", "results": rows})
    else:
        _print(rows)
    return EXIT_OK


def _prepare(place: str) -> tuple[Path, str]:
    """A directory with files in it, and one beside it for what Bailiwick notes."""
    tree, state = Path(place, "tree"), Path(place, "state")
    tree.mkdir()
    state.mkdir()
    for number in range(_ENTRIES):
        (tree / f"{number:03}").write_bytes(_CONTENT)
    return tree, str(state)


def _ways(tree: Path, quick: Scope, durable: Scope, volume: Scope) -> list[BenchWay]:
    names = [f"{number:03}" for number in range(_ENTRIES)]

    def of(job: Callable[[str], Any]) -> Job:
        async def plain(turn: int) -> None:
            job(names[turn % _ENTRIES])

        return plain

    def verb(act: Callable[[str], Awaitable[object]]) -> Job:
        async def through(turn: int) -> None:
            await act(names[turn % _ENTRIES])

        return through

    return [
        BenchWay("read 1 KiB", "plain", of(lambda name: (tree / name).read_bytes())),
        BenchWay("read 1 KiB", "directory", verb(quick.read_bytes)),
        BenchWay("read 1 KiB", "volume", verb(volume.read_bytes)),
        BenchWay("write 1 KiB", "plain", of(lambda name: (tree / name).write_bytes(_CONTENT))),
        BenchWay("write 1 KiB", "directory", verb(lambda n: quick.write_bytes(n, _CONTENT))),
        BenchWay("write 1 KiB, durable", "plain", of(lambda name: _write_durably(tree, name))),
        BenchWay(
            "write 1 KiB, durable", "directory", verb(lambda n: durable.write_bytes(n, _CONTENT))
        ),
        BenchWay("write 1 KiB, durable", "volume", verb(lambda n: volume.write_bytes(n, _CONTENT))),
        BenchWay(f"list {_ENTRIES}", "plain", of(lambda _: _list_plainly(tree))),
        BenchWay(f"list {_ENTRIES}", "directory", verb(lambda _: quick.list("."))),
        BenchWay(f"list {_ENTRIES}", "volume", verb(lambda _: volume.list("."))),
    ]


def _write_durably(tree: Path, name: str) -> None:
    """What a careful program does by hand: a new file, synced, renamed, the directory synced."""
    fresh = tree / f"{name}.new"
    with fresh.open("wb") as file:
        file.write(_CONTENT)
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(tree / name)
    directory = os.open(tree, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _list_plainly(tree: Path) -> list[os.stat_result]:
    with os.scandir(tree) as entries:
        return [entry.stat(follow_symlinks=False) for entry in entries]


async def _measure(ways: list[BenchWay], options: Options) -> list[float]:
    """The seconds that one go takes, for each way: the best of several turns."""
    turns = len(ways) * _TURNS
    slice_s = options.seconds / turns
    best = [float("inf")] * len(ways)
    with Bar("measuring", quiet=options.json) as bar:
        for turn in range(turns):
            number = turn % len(ways)
            bar.show(turn, turns, f"{ways[number].thing}, {ways[number].how}")
            best[number] = min(best[number], await _once(ways[number].job, slice_s))
    return best


async def _once(job: Job, seconds: float) -> float:
    count, began = 0, time.perf_counter()
    while True:
        for _ in range(8):
            await job(count)
            count += 1
        took = time.perf_counter() - began
        if took >= seconds:
            return took / count


def _rows(ways: list[BenchWay], best: list[float]) -> list[dict[str, object]]:
    plain = {way.thing: took for way, took in zip(ways, best, strict=True) if way.how == "plain"}
    return [
        {
            "what": way.thing, "how": way.how, "microseconds": round(took * 1e6, 2),
            "timesPlain": round(took / plain[way.thing], 2),
        }
        for way, took in zip(ways, best, strict=True)
    ]  # fmt: skip


def _print(rows: list[dict[str, object]]) -> None:
    print_table(
        ("WHAT", "HOW", "µs", "TIMES PLAIN"),
        [
            (str(row["what"]), str(row["how"]), str(row["microseconds"]), str(row["timesPlain"]))
            for row in rows
        ],
    )
    line()
    line("directory: confined, checked, recorded; volume: versioned as well, always durable")
