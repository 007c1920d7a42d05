"""`python -m bench.commands`: what a sandbox takes to start, over a plain subprocess.

`/bin/true` on a tree of 10,000 files, each way in turn, as whoever runs this: the sandbox alone, as
a command of a scope, and with a change that is brought back. On a busy machine the clock says how
busy it is, since a command is five processes, one after the other: the second figure is what all of
them took of the processor.
"""

import asyncio
import dataclasses
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
from bailiwick.sandbox import Invocation, Process, Tree, View
from bailiwick.sandboxes.bubblewrap import Bubblewrap
from bailiwick.sandboxes.uppers import make_removable, touched

ROUNDS = 30
DIRECTORIES, FILES_EACH = 500, 20
TRUE = Invocation(argv=("/bin/true",))


@dataclasses.dataclass(frozen=True)
class Planted:
    """A tree of many files, and where what a program changes in it is kept."""

    lower: str
    upper: str
    work: str

    @property
    def view(self) -> View:
        tree = Tree(place="/work", lower=self.lower, upper=self.upper, work=self.work)
        return View(trees=(tree,))


def plant(directory: Path) -> Planted:
    for number in range(DIRECTORIES):
        inner = directory / "lower" / f"d{number}"
        inner.mkdir(parents=True)
        for file in range(FILES_EACH):
            (inner / str(file)).touch()
    for name in ("upper", "work"):
        (directory / name).mkdir()
    return Planted(*(str(directory / name) for name in ("lower", "upper", "work")))


async def finished(starter: Awaitable[Process]) -> None:
    process = await starter
    await process.wait()
    await process.close()


def read_back(planted: Planted) -> None:
    upper, lower = (os.open(path, os.O_RDONLY) for path in (planted.upper, planted.lower))
    list(touched(upper, lower))
    os.close(upper)
    os.close(lower)


def processor_s() -> float:
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(each.ru_utime + each.ru_stime for each in map(resource.getrusage, whose))


async def measure(planted: Planted, state_dir: str) -> dict[str, tuple[float, float]]:
    sandbox = Bubblewrap()
    lacks = [lack for lack in sandbox.missing() if lack.fatal]
    if lacks:
        sys.exit(f"{lacks[0].what}: {lacks[0].remedy}")
    async with bailiwick.open(planted.lower, state_dir=state_dir) as scope:

        async def plain() -> None:
            subprocess.run(TRUE.argv)

        async def changing() -> None:
            result = await scope.exec(shell="echo x >> d3/4").result()
            assert len(result.changes) == 1

        async def reading() -> None:
            read_back(planted)

        ways: dict[str, Callable[[], Awaitable[object]]] = {
            "plain": plain,
            "sandbox": lambda: finished(sandbox.start(TRUE, planted.view)),
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
    return {name: (_median_ms(pairs, 0), _median_ms(pairs, 1)) for name, pairs in taken.items()}


def _median_ms(pairs: list[tuple[float, float]], which: int) -> float:
    return statistics.median(pair[which] for pair in pairs) * 1000


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        planted = plant(Path(directory))
        found = asyncio.run(measure(planted, f"{directory}/state"))
        for name, (clock, processor) in found.items():
            print(f"{name:14}{clock:8.1f} ms{processor:8.1f} ms of the processor")
        make_removable(planted.work)


if __name__ == "__main__":
    main()
