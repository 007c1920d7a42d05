"""`python -m bench.commands`: what a sandbox takes to start, over a plain subprocess.

`/bin/true` on a tree of 10,000 files, each way in turn, as whoever runs this: the sandbox alone, as
a command of a scope, and with a change that is brought back. On a busy machine the clock says how
busy it is, since a command is five processes, one after the other: the second figure is what all of
them took of the processor.
"""

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import bailiwick
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


def processor_s() -> float:
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(each.ru_utime + each.ru_stime for each in map(resource.getrusage, whose))


async def measure(view: View, state_dir: str) -> dict[str, tuple[float, float]]:
    sandbox = Bubblewrap()
    lacks = [lack for lack in sandbox.missing() if lack.fatal]
    if lacks:
        sys.exit(f"{lacks[0].what}: {lacks[0].remedy}")
    async with bailiwick.open(str(view.trees[0].lower), state_dir=state_dir) as scope:

        async def plain() -> None:
            subprocess.run(TRUE.argv)

        async def changing() -> None:
            result = await scope.exec(shell="echo x >> d3/4").result()
            assert len(result.changes) == 1

        async def reading() -> None:
            read_back(view)

        ways: dict[str, Callable[[], Awaitable[object]]] = {
            "plain": plain,
            "sandbox": lambda: finished(sandbox.start(TRUE, view)),
            "reading back": reading,
            "command": lambda: scope.exec(TRUE.argv).result(),
            "with a change": changing,
        }
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, way in ways.items():
                clock, processor = time.perf_counter(), processor_s()
                await way()
                taken[name].append((time.perf_counter() - clock, processor_s() - processor))
    return {
        name: tuple(statistics.median(each) * 1000 for each in zip(*pairs, strict=True))
        for name, pairs in taken.items()
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        view = plant(Path(directory))
        found = asyncio.run(measure(view, f"{directory}/state"))
        for name, (clock, processor) in found.items():
            print(f"{name:14}{clock:8.1f} ms{processor:8.1f} ms of the processor")
        make_removable(view.trees[0].work)


if __name__ == "__main__":
    main()
