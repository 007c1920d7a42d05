"""`python -m bench.mcp`: files over MCP, beside the reference server, in one run: one small file
read over and over; different files made, read, edited, written over, looked at and moved; and the
agent's day.

Both are processes of their own, spoken to over pipes by the same plain client, in turns, so that
what else the machine does falls on both alike. Each also says how long it takes to start, up to the
end of the handshake. The reference server is a package of npm; it is installed once into a folder
of its own, in the user's cache.
"""

import argparse
import contextlib
import json
import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.mcp_day import measure_day
from bench.mcp_servers import CONTENT, Dialect, ReferenceDialect, Server, reference
from bench.scratch import AS_MEASURED, Sizes, on_memory
from bench.servers import python

FILES = 1_000
AT_ONCE = 100
WARM = 200


@contextlib.contextmanager
def servers() -> Iterator[dict[str, Server]]:
    place = on_memory()
    try:
        with contextlib.ExitStack() as stack:
            running: dict[str, Server] = {}
            for name in ("bailiwick", "reference"):
                root = planted(place / name)
                if name == "bailiwick":
                    running[name] = own_server(root, place / "state")
                else:
                    command = ["node", str(reference()), str(root)]
                    running[name] = Server(command, ReferenceDialect(root))
                stack.callback(running[name].close)
            yield running
    finally:
        shutil.rmtree(place)


def planted(root: Path) -> Path:
    for number in range(20):
        (root / f"d{number:02}").mkdir(parents=True)
    (root / "a.txt").write_text(CONTENT)
    return root


def own_server(root: Path, state: Path) -> Server:
    """`bailiwick mcp` on a directory, as it is shipped."""
    command = [python(), "-m", "bailiwick", "mcp", str(root), "--state", str(state)]
    return Server(command, Dialect(root))


def measure(running: dict[str, Server], reads: int, files: int, sizes: Sizes) -> dict[str, Any]:
    """Medians in milliseconds, and how many times the reference server's speed it is."""
    times: dict[str, list[float]] = {name: [] for name in running}
    for _ in range(WARM + reads):
        for name, server in running.items():
            times[name].append(server.call(*server.dialect.read("a.txt")))
    medians = {name: statistics.median(each[WARM:]) * 1e3 for name, each in times.items()}
    return {
        **{f"{name}_ms": round(median, 3) for name, median in medians.items()},
        **{f"{name}_start_s": round(each.started_s, 3) for name, each in running.items()},
        "times_as_fast": round(medians["reference"] / medians["bailiwick"], 3),
        "different_files": measure_verbs(running, files),
        **measure_day(running, sizes),
    }


def measure_verbs(running: dict[str, Server], files: int) -> dict[str, dict[str, float]]:
    """Every verb on different files, in turns of a hundred: of the reference server's time, and of
    the processor that it takes."""
    found = {}
    for verb in ("write", "read", "edit", "stat", "overwrite", "move"):
        took: dict[str, list[float]] = {name: [] for name in running}
        used: dict[str, list[float]] = {name: [] for name in running}
        for begin in range(0, files, AT_ONCE):
            for name, server in running.items():
                ask = getattr(server.dialect, "write" if verb == "overwrite" else verb)
                before = server.processor_s()
                for number in range(begin, min(begin + AT_ONCE, files)):
                    took[name].append(server.call(*ask(f"d{number % 20:02}/{number:04}.txt")))
                used[name].append(server.processor_s() - before)
        p50 = {name: statistics.median(each) * 1e3 for name, each in took.items()}
        p99 = {name: statistics.quantiles(each, n=100)[-1] for name, each in took.items()}
        cpu = [a / b for a, b in zip(used["bailiwick"], used["reference"], strict=True)]
        found[verb] = {
            "p50 ms": round(p50["bailiwick"], 3),
            "p50 of reference": round(p50["bailiwick"] / p50["reference"], 2),
            "p99 of reference": round(p99["bailiwick"] / p99["reference"], 2),
            "processor ms": round(statistics.median(used["bailiwick"]) * 10, 3),
            "processor of reference": round(statistics.median(cpu), 2),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reads", type=int, default=2_000)
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    with servers() as running:
        found = measure(running, options.reads, FILES, AS_MEASURED)
    for name, value in found.items():
        print(f"{name:<20} {value}")
    if options.json is not None:
        Path(options.json).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
