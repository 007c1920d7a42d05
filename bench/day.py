"""The agent's day: one seeded trace over 2,000 source-like files in 120 directories.

Of 116 steps 60 are reads and windows, 25 edits, 15 files made with the directories above them, 10
looks at a file, 4 moves and 2 removals; each file is touched mostly once. `SEARCHING` adds a
listing of the tree, lists, globs and twelve searches.

Every hand lives its day in a fresh process (`python -m bench.day HAND`), which says how long it
took by the clock and by the processor; the days of all hands take turns.
"""

import argparse
import asyncio
import itertools
import json
import logging
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from bench import scratch
from bench.environment import ROOT
from bench.hands import (
    AWAITED,
    BLOCKING,
    GOVERNED,
    GOVERNED_HISTORY,
    HANDS,
    HTTP,
    PLAIN,
    VOLUME,
    Hand,
    HttpHand,
)
from bench.timing import Bar, Case, Timed

DIRECTORIES = 120

STEPS = {"read": 40, "window": 20, "edit": 25, "create": 15, "stat": 10, "move": 4, "remove": 2}
SEARCHES = {"tree": 1, "list": 8, "glob": 4, "grep": 12}
ROUNDS, SEARCHED_ROUNDS = 9, 5

DAY, SEARCHING = "day", "day-search"

Step = tuple[str, tuple[Any, ...]]


def source_files(count: int) -> dict[str, bytes]:
    """Text like a program's, 1 to 8 KB each, with a word to edit in the middle."""
    rng = random.Random(11)
    words = ["return", "self", "import", "value", "if", "else", "None", "def", "class", "raise"]
    pool = ["    " * rng.randrange(4) + " ".join(rng.choices(words, k=8)) for _ in range(2_000)]
    found = {}
    for n in range(count):
        lines = rng.choices(pool, k=rng.randrange(25, 180))
        lines.insert(len(lines) // 2, f"    marker_{n:04} = 'alpha'")
        path = f"src/pkg_{n % 12:02}/mod_{n % DIRECTORIES:03}/file_{n:04}.py"
        found[path] = ("\n".join(lines) + "\n").encode()
    return found


def trace(paths: list[str], days: int, *, searching: bool) -> Iterator[Step]:
    """What is done, the same in every run and for every hand."""
    rng = random.Random(12)
    left = rng.sample(paths, len(paths))
    new = itertools.count()
    text = scratch.SMALL
    for _ in range(days):
        kinds = [kind for kind, times in STEPS.items() for _ in range(times)]
        if searching:
            kinds += [kind for kind, times in SEARCHES.items() for _ in range(times)]
        rng.shuffle(kinds)
        for kind in kinds:
            if kind == "create":
                number = next(new)
                yield "create", (f"made/{number % 40:02}/part/new_{number:04}.py", text)
            elif kind in SEARCHES:
                yield kind, _searched(kind, len(paths), rng)
            else:
                path = left.pop() if left else rng.choice(paths[:10])
                yield kind, _arguments(kind, path)


def _arguments(kind: str, path: str) -> tuple[Any, ...]:
    more: dict[str, tuple[Any, ...]] = {
        "window": (10, 20),
        "edit": (f"marker_{path[-7:-3]} = 'alpha'", f"marker_{path[-7:-3]} = 'omega'"),
        "move": (path.replace("/file_", "/moved_"),),
    }
    return path, *more.get(kind, ())


def _searched(kind: str, files: int, rng: random.Random) -> tuple[Any, ...]:
    package = f"src/pkg_{rng.randrange(12):02}"
    return {
        "tree": (),
        "list": (package,),
        "glob": (f"{package}/**/*.py",),
        "grep": (f"marker_{rng.randrange(files):04}",),
    }[kind]


async def live(
    kind: type[Hand], place: pathlib.Path, sizes: scratch.Sizes, *, searching: bool
) -> dict[str, float]:
    """One hand's days: seconds by the clock and by the processor, and how many steps they had."""
    hand = kind(place / "files", place / "state")
    hand.place.mkdir(parents=True)
    files = source_files(sizes.sources)
    days = sizes.searched_days if searching else sizes.days
    steps = list(trace(list(files), days, searching=searching))
    await hand.open()
    try:
        await hand.fill(files)
        loop = asyncio._get_running_loop()
        if not hand.awaits:  # blocking code has no running loop
            asyncio._set_running_loop(None)
        wall, processor = time.perf_counter(), hand.processor_s()
        if hand.awaits:
            for verb, arguments in steps:
                await getattr(hand, verb)(*arguments)
        else:
            for verb, arguments in steps:
                getattr(hand, verb)(*arguments)
        took, used = time.perf_counter() - wall, hand.processor_s() - processor
        asyncio._set_running_loop(loop)
        return {"wall": took, "cpu": used, "steps": len(steps)}
    finally:
        await hand.close()


_KINDS: tuple[type[Hand], ...] = (*HANDS, HttpHand)
DAILY = {kind.name: kind for kind in _KINDS if kind.edits}


def day_case(key: str) -> Case:
    """What is shown of the days, without contenders: those run in processes of their own."""
    bars = {
        DAY: {AWAITED: 3.8, BLOCKING: 4.5, GOVERNED: 7, GOVERNED_HISTORY: 12, VOLUME: 8, HTTP: 35},
        SEARCHING: {AWAITED: 0.9, GOVERNED_HISTORY: 1.1, VOLUME: 1.1},
    }[key]
    return Case(
        key,
        "The agent's day, file by file" if key == DAY else "The agent's day, with its searching",
        [],
        [Bar(name, PLAIN, times) for name, times in bars.items()],
        note="Each in a fresh process; by the time of the processor, that of ripgrep and of the"
        " server included.",
    )


def measure_days(key: str, *, quick: bool) -> list[Timed]:
    """The days of every hand, in turns: µs a step, by round."""
    timed = {name: Timed(name, kind.ours) for name, kind in DAILY.items()}
    rounds = ROUNDS if key == DAY else SEARCHED_ROUNDS
    for number in range(2 if quick else rounds):
        for name, times in timed.items():
            if times.failure is None and (key == DAY or name != HTTP):
                _take(key, name, number, times)
    return [times for times in timed.values() if times.rounds or times.failure]


def _take(key: str, name: str, number: int, times: Timed) -> None:
    command = [sys.executable, "-m", "bench.day", name, *(["--search"] * (key == SEARCHING))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        times.failure = (done.stderr.strip().splitlines() or ["no word"])[-1]
        return
    took = json.loads(done.stdout)
    times.rounds[number] = took["cpu"] / took["steps"] * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("hand", choices=list(DAILY))
    parser.add_argument("--search", action="store_true")
    asked = parser.parse_args()
    logging.getLogger("bailiwick").addHandler(logging.NullHandler())
    logging.getLogger("bailiwick").propagate = False
    os.environ["PATH"] = os.pathsep.join((str(pathlib.Path(sys.executable).parent), os.defpath))
    place = scratch.on_memory()
    try:
        lived = live(DAILY[asked.hand], place, scratch.AS_MEASURED, searching=asked.search)
        took = asyncio.run(lived)
    finally:
        shutil.rmtree(place)
    print(json.dumps(took))


if __name__ == "__main__":
    main()
