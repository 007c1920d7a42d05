"""`python -m bench.commands`: what a sandbox takes to start, over a plain subprocess.

`/bin/true` on a tree of 10,000 files, each way in turn, as whoever runs this. On a busy machine the
figure says how busy it is: a command is five processes, one after the other.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bailiwick.sandbox import Invocation, Tree, View
from bailiwick.sandboxes.bubblewrap import Bubblewrap
from bailiwick.sandboxes.uppers import make_removable, touched

ROUNDS = 30
DIRECTORIES, FILES_EACH = 500, 20
TRUE = Invocation(argv=("/bin/true",))


def plant(directory: Path) -> View:
    for number in range(DIRECTORIES):
        inner = directory / "lower" / f"d{number}"
        inner.mkdir(parents=True)
        for name in range(FILES_EACH):
            (inner / str(name)).touch()
    for name in ("upper", "work"):
        (directory / name).mkdir()
    lower, upper, work = (str(directory / name) for name in ("lower", "upper", "work"))
    return View(trees=(Tree(place="/work", lower=lower, upper=upper, work=work),))


async def finished(starter) -> None:
    process = await starter
    await process.wait()
    await process.close()


def read_back(view: View) -> None:
    fds = [os.open(path, os.O_RDONLY) for path in (view.trees[0].upper, view.trees[0].lower)]
    list(touched(*fds))
    for fd in fds:
        os.close(fd)


async def measure(view: View) -> dict[str, float]:
    sandbox = Bubblewrap()
    lacks = [lack for lack in sandbox.missing() if lack.fatal]
    if lacks:
        sys.exit(f"{lacks[0].what}: {lacks[0].remedy}")
    taken: dict[str, list[float]] = {"plain": [], "sandbox": [], "reading back": []}
    for _ in range(ROUNDS):
        times = [time.perf_counter()]
        subprocess.run(TRUE.argv)
        times.append(time.perf_counter())
        await finished(sandbox.start(TRUE, view))
        times.append(time.perf_counter())
        read_back(view)
        times.append(time.perf_counter())
        for number, name in enumerate(taken):
            taken[name].append((times[number + 1] - times[number]) * 1000)
    return {name: statistics.median(values) for name, values in taken.items()}


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        view = plant(Path(directory))
        for name, milliseconds in asyncio.run(measure(view)).items():
            print(f"{name:14}{milliseconds:8.1f} ms")
        make_removable(view.trees[0].work)


if __name__ == "__main__":
    main()
