"""The agent's day over MCP, beside the reference server: the trace of `bench.day`, in turns.

The reference server has no tool that removes: those steps are left out for both. It has none that
searches in files either: there a client reads all of them, many in one call.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from typing import Any

from bench.day import STEPS, Step, source_files, trace
from bench.mcp_servers import Call, Server
from bench.scratch import Sizes

AT_ONCE = sum(STEPS.values())
"""Steps in one turn."""


def measure_day(running: dict[str, Server], sizes: Sizes) -> dict[str, Any]:
    """Each verb's time and that of the whole day, of the reference server's."""
    files = source_files(sizes.sources)
    for server in running.values():
        for path, data in files.items():
            place = server.dialect.root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
    paths = list(files)
    searching = _live(running, paths, list(trace(paths, sizes.searched_days, searching=True)))
    # The days go on with files that the searching ones have left alone.
    left = [path for path in paths if _untouched(running, path)]
    plain = _live(running, left, list(trace(left, sizes.days, searching=False)))
    return {
        "day_file_by_file": {verb: _row(times) for verb, times in plain.items()},
        "day_of_reference": _whole(plain),
        "day_with_searching": {verb: _row(times) for verb, times in searching.items()},
        "day_with_searching_of_reference": _whole(searching),
    }


Taken = dict[str, dict[str, list[float]]]
"""Seconds of each step, by its verb and by who took them."""


def _live(running: dict[str, Server], paths: list[str], steps: list[Step]) -> Taken:
    taken: Taken = defaultdict(lambda: {name: [] for name in running})
    rest = iter([step for step in steps if step[0] != "remove"])
    while turn := list(islice(rest, AT_ONCE)):
        for name, server in running.items():
            for verb, arguments in turn:
                calls = _calls(server, paths, verb, arguments)
                taken[verb][name].append(sum(server.call(*call) for call in calls))
    return dict(taken)


def _calls(
    server: Server, paths: list[str], verb: str, arguments: tuple[Any, ...]
) -> Iterator[Call]:
    if verb == "grep":
        (word,) = arguments
        yield from server.dialect.grep(word, paths)
    elif verb == "create":
        path, data = arguments
        yield from server.dialect.create(path, data.decode())
    else:
        yield getattr(server.dialect, verb)(*arguments)


def _untouched(running: dict[str, Server], path: str) -> bool:
    found = [(server.dialect.root / path) for server in running.values()]
    return all(place.exists() and b"'alpha'" in place.read_bytes() for place in found)


def _row(times: dict[str, list[float]]) -> dict[str, float]:
    p50 = {name: statistics.median(each) * 1e3 for name, each in times.items()}
    return {
        "p50 ms": round(p50["bailiwick"], 3),
        "p50 of reference": round(p50["bailiwick"] / p50["reference"], 2),
    }


def _whole(taken: Taken) -> float:
    ours, theirs = (
        sum(sum(times[name]) for times in taken.values()) for name in ("bailiwick", "reference")
    )
    return round(ours / theirs, 2)
