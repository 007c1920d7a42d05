"""What is run by itself and keeps its figures in a file, with what each has to reach."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.environment import ROOT
from bench.figures import Verdict
from bench.timing import TIMES

Figures = dict[str, Any]
"""What a trial has found, as its file has it."""

BENCH = ROOT / "bench"
ATTACK_TRIES = 1_000_000
KILLS = 1_000
PEAK_MIB_MAX = 64


@dataclass(frozen=True)
class Figure:
    """A figure to reach."""

    text: str
    found: Callable[[Figures], float | None]
    """None where it was not measured in full."""
    at_most: float | None = None
    at_least: float | None = None
    unit: str = ""

    def verdict(self, found: Figures) -> Verdict:
        try:
            value = self.found(found)
        except KeyError:  # figures from before this was measured
            value = None
        return Verdict(
            text=self.text,
            value=value,
            unit=self.unit,
            reached=None if value is None else self._reached(value),
        )

    def _reached(self, value: float) -> bool:
        enough = self.at_least is None or value >= self.at_least
        return enough and (self.at_most is None or value <= self.at_most)


@dataclass(frozen=True)
class Trial:
    name: str
    """Of its file, without `.json`."""
    target: str
    """What `make` runs for it."""
    title: str
    bars: tuple[Figure, ...] = ()

    def figures(self, folder: Path = BENCH) -> Figures | None:
        """What was found, where it was run and that was kept."""
        file = folder / f"{self.name}.json"
        if not file.exists():
            return None
        found: Figures = json.loads(file.read_text(encoding="utf-8"))
        return found

    def verdicts(self, folder: Path = BENCH) -> Iterator[Verdict]:
        found = self.figures(folder) or {}
        for bar in self.bars:
            yield bar.verdict(found)


def _peak(way: str) -> Figure:
    return Figure(
        f"{way} of 1 GiB: < {PEAK_MIB_MAX} MiB above idle",
        lambda found: found[f"{way}_of_1_GiB_extra_MiB"],
        at_most=PEAK_MIB_MAX,
        unit=" MiB",
    )


def _of_reference(verb: str, what: str, at_most: float) -> Figure:
    shown = "faster than" if at_most == 1 else f"≤ {at_most:g}{TIMES}"
    if what == "processor":
        shown = f"≤ {at_most:g}{TIMES} the processor of"
    return Figure(
        f"{verb} of different files, {what}: {shown} the reference server",
        lambda found: found["different_files"][verb][f"{what} of reference"],
        at_most=at_most,
        unit=TIMES,
    )


def _of_reference_day(verb: str) -> Figure:
    return Figure(
        f"the agent's day, {verb}, p50: ≤ 0.8{TIMES} the reference server",
        lambda found: found["day_file_by_file"][verb]["p50 of reference"],
        at_most=0.8,
        unit=TIMES,
    )


def _no_faults(store: str, part: Callable[[Figures], Figures]) -> Figure:
    """Nothing torn, empty or lost: each of them is a fault."""

    def found(figures: Figures) -> float | None:
        killed = part(figures)
        return len(killed["faults"]) if killed["kills"] >= KILLS else None

    return Figure(f"{store}: 0 faults in {KILLS:,} kills", found, at_most=0)


TRIALS = (
    Trial(
        "http",
        "bench-fronts",
        "Small reads and writes over HTTP, and 1 GiB in and out",
        (
            Figure(
                "GET /file: ≥ 0.9 of bare Starlette's requests",
                lambda found: found["of_bare_starlette"],
                at_least=0.9,
            ),
            Figure(
                "POST /file/write, by the server's processor: ≥ 0.2 of Starlette's writes",
                lambda found: 1 / found["write_cpu_times_starlette"],
                at_least=0.2,
            ),
            _peak("upload"),
            _peak("download"),
        ),
    ),
    Trial(
        "mcp",
        "bench-fronts",
        "Small files over MCP, beside the reference server",
        (
            _of_reference("read", "p50", 0.8),
            _of_reference("write", "p50", 1),
            _of_reference("overwrite", "p50", 1),
            _of_reference("write", "processor", 1),
            _of_reference("overwrite", "processor", 1),
            *map(_of_reference_day, ("read", "window", "edit", "create", "stat", "move")),
            Figure(
                f"the agent's day with its searching: ≤ 0.4{TIMES} the reference server",
                lambda found: found["day_with_searching_of_reference"],
                at_most=0.4,
                unit=TIMES,
            ),
        ),
    ),
    Trial("tokens", "bench-tokens", "What tools cost a model, in tokens"),
    Trial("scale", "bench-scale", "As there is more of everything"),
    Trial(
        "programs",
        "bench-programs",
        "Programs in the sandbox, and in a mounted tree",
        (
            Figure(
                "/bin/true on a directory of 10,000 files: ≤ 40 ms over a plain subprocess",
                lambda found: found["untouched_ms_over_plain"],
                at_most=40,
                unit=" ms",
            ),
            Figure(
                "with changes brought back: ≤ 60 ms over a plain subprocess",
                lambda found: found["changing_ms_over_plain"],
                at_most=60,
                unit=" ms",
            ),
        ),
    ),
    Trial(
        "postgres",
        "scale",
        "Small writes in PostgreSQL",
        (
            Figure(
                "one writer: ≤ 3 trips' time a write",
                lambda found: found["write_in_trips"],
                at_most=3,
            ),
            Figure(
                "64 writers: ≥ 20 times one writer's rate",
                lambda found: found["rate_of_64_writers"],
                at_least=20,
            ),
        ),
    ),
    Trial("soak", "soak", "A crowd at a server"),
    Trial(
        "console",
        "bench-console",
        "A large run in the console",
        (
            Figure(
                "10,000 files, 5 MB of lines, 50,000 places: the page never blocked for > 100 ms",
                lambda found: found["longest_block_ms"],
                at_most=100,
                unit=" ms",
            ),
        ),
    ),
    Trial(
        "attack",
        "attack",
        "Under a live attacker",
        (
            Figure(
                f"0 escapes in {ATTACK_TRIES:,} tries",
                lambda found: found["escapes"] if found["tries"] >= ATTACK_TRIES else None,
                at_most=0,
            ),
        ),
    ),
    Trial(
        "crash",
        "crash",
        "Under kill -9",
        (
            _no_faults("a directory", lambda found: found),
            _no_faults("a volume", lambda found: found["volume"]),
        ),
    ),
    Trial("matrix", "matrix", "On each version of Python"),
    Trial("coverage", "coverage", "What the fast part of the tests runs of the package"),
    Trial("mutation", "mutation", "The core made wrong in one place at a time"),
)
