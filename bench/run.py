"""One run: open everyone, measure every case, and hand the figures to the report."""

import argparse
import asyncio
import contextlib
import datetime as dt
import json
import logging
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator

from bench import chart, day, machine, many, report, scratch
from bench.cases import all_cases
from bench.environment import ROOT
from bench.figures import (
    CaseFigures,
    PeerFigures,
    RunFigures,
    Verdict,
    crashed,
    failed,
    of_case,
)
from bench.hands import HANDS, Hand
from bench.peers import PEERS, Peer
from bench.peers.peer import Places
from bench.timing import Case, measure
from bench.trials import PEAK_MIB_MAX

FIGURES = ROOT / "bench" / "results.json"
PEAK = "memory-peak"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="CASE", help="these cases; writes nothing")
    parser.add_argument("--quick", action="store_true", help="few rounds; writes nothing")
    parser.add_argument(
        "--renew", action="store_true", help="put the cases of --only into the last full run's"
    )
    parser.add_argument(
        "--report", action="store_true", help="write the report anew, from the last full run"
    )
    return parser.parse_args()


def main() -> int:
    asked = parse_arguments()
    if asked.report:
        _write(json.loads(FIGURES.read_text(encoding="utf-8")))
        return 0
    # deepagents and Bailiwick look for ripgrep on PATH; it came with the environment.
    os.environ["PATH"] = os.pathsep.join((str(pathlib.Path(sys.executable).parent), os.defpath))
    # A search names each binary file it skipped in the log; a terminal is no part of the measure.
    logging.getLogger("bailiwick").addHandler(logging.NullHandler())
    logging.getLogger("bailiwick").propagate = False
    places = Places(scratch.on_memory(), scratch.on_disk(ROOT), scratch.on_memory())
    try:
        figures = asyncio.run(_run(places, asked.only, quick=asked.quick))
    finally:
        for place in (places.memory, places.disk, places.state):
            shutil.rmtree(place)
    if unknown := unmeasured(asked.only, figures["cases"]):
        print(f"there is no case {', '.join(unknown)}", file=sys.stderr)
        return 2
    if asked.only and asked.renew:
        figures = _renewed(json.loads(FIGURES.read_text(encoding="utf-8")), figures)
    if (not asked.only or asked.renew) and not asked.quick:
        FIGURES.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")
        _write(figures)
    return 1 if any(map(crashed, figures["cases"])) else 0


def unmeasured(only: list[str] | None, cases: list[CaseFigures]) -> list[str]:
    """Of the cases that were asked for, those that nobody has measured."""
    return [key for key in only or () if key not in {case["key"] for case in cases}]


def _renewed(last: RunFigures, figures: RunFigures) -> RunFigures:
    """The last run with these cases before all others, and with the day of each: on the same
    machine, of which the newer knows more."""
    found = {case["key"]: case for case in figures["cases"]}
    cases = [case for case in last["cases"] if case["key"] not in found]
    date = f"{last['date']}; {', '.join(found)}: {figures['date']}" if found else last["date"]
    cases = [*found.values(), *cases]
    return {**last, "date": date, "machine": figures["machine"], "cases": cases}


def _write(figures: RunFigures) -> None:
    (ROOT / "bench" / "RESULTS.md").write_text(report.as_markdown(figures), encoding="utf-8")
    picture = ROOT / "docs" / "images" / "bench.svg"
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_text(chart.as_svg(figures), encoding="utf-8")
    print("\nwritten: bench/RESULTS.md, docs/images/bench.svg")


async def _run(places: Places, only: list[str] | None, *, quick: bool) -> RunFigures:
    fill(places, only)
    peers, described = await _opened(places)
    figures = RunFigures(
        date=dt.date.today().isoformat(),
        machine=machine.described(),
        places=f"{scratch.kind_of(places.memory)}; durable writes: {scratch.kind_of(places.disk)}",
        peers=described,
        cases=[],
    )
    for word in described:
        print(f"{word['name']} {word['version']}: {word['missing'] or word['remark']}")

    async def take(case: Case) -> None:
        if only is None or case.key in only:
            rounds = max(case.rounds // 5, 1) if quick else case.rounds
            measured = of_case(case, await measure(case, rounds))
            figures["cases"].append(measured)
            print(report.as_text(measured), flush=True)

    try:
        if only is None or any(key.startswith("many") for key in only):
            async with contextlib.AsyncExitStack() as stack:
                for case in await many_cases(places, HANDS, stack):
                    await take(case)
        for case in all_cases(peers, places.sizes):
            await take(case)
    finally:
        for peer in peers:
            await peer.close()
    for key in (day.DAY, day.SEARCHING):
        if only is None or key in only:
            measured = of_case(day.day_case(key), day.measure_days(key, quick=quick))
            figures["cases"].insert(0, measured)
            print(report.as_text(measured), flush=True)
    if only is None or PEAK in only:
        figures["cases"].append(memory_peak(places, mib=64 if quick else 1024))
        print(report.as_text(figures["cases"][-1]), flush=True)
    return figures


def fill(places: Places, only: list[str] | None = None) -> None:
    """What these cases find, or all of them."""
    sizes = places.sizes
    for place in (places.memory, places.disk):
        scratch.fill(place, sizes.listed)
    wanted = only is None or any(key in only for key in ("grep", "grep-pattern"))
    scratch.fill_tree(places.tree, sizes.searched_many if wanted else 0)
    wanted = only is None or "grep-few" in only
    scratch.fill_tree(places.few, sizes.searched_few if wanted else 0)
    if only is None or "stream-out" in only:
        scratch.fill_large(places.memory, sizes.large_chunks)


async def many_cases(
    places: Places, kinds: Iterable[type[Hand]], stack: contextlib.AsyncExitStack
) -> Iterator[Case]:
    """The cases of many files, with these hands and those that write durably."""
    memory, disk, sizes = places.memory, places.disk, places.sizes
    hands = await many.opened(kinds, memory, places.state, stack, sizes)
    durable = [kind for kind, _ in many.DURABLE_HANDS]
    durably = await many.opened(durable, disk, disk / "state", stack, sizes)
    return many.many_cases(hands, durably, disk, sizes)


async def _opened(places: Places) -> tuple[list[Peer], list[PeerFigures]]:
    """Those that could be opened, and a word on each, also on those that could not. Our own can."""
    peers, described = [], []
    for kind in PEERS:
        peer, missing = kind(places), None
        try:
            await peer.open()
            peers.append(peer)
        except Exception as error:
            if kind.own:
                raise
            missing = f"not measured ({type(error).__name__}: {error})"
        described.append(
            PeerFigures(
                name=kind.name,
                version="" if missing else peer.version(),
                remark=kind.remark,
                missing=missing,
            )
        )
    return peers, described


def memory_peak(places: Places, *, mib: int) -> CaseFigures:
    """The peak of a process that streams a gibibyte in and out."""
    chunks = mib * scratch.MiB // len(scratch.CHUNK)
    command = [sys.executable, "-m", "bench.memory_peak"]
    command += [str(places.memory), str(places.state), str(chunks)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    rose: dict[str, int] = json.loads(done.stdout) if done.returncode == 0 else {}
    rows = []
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        rows.append(failed("Bailiwick", (done.stderr.splitlines() or ["no word"])[-1]))
    bars = []
    for way in ("in", "out"):
        peak = rose[way] / scratch.MiB if way in rose else None
        bars.append(
            Verdict(
                text=f"streaming {mib / 1024:g} GiB {way}: < {PEAK_MIB_MAX} MiB above idle",
                value=peak,
                unit=" MiB",
                reached=None if peak is None else peak < PEAK_MIB_MAX,
            )
        )
    return CaseFigures(
        key=PEAK, title="Peak memory while streaming", note="", rounds=1, rows=rows, bars=bars
    )


if __name__ == "__main__":
    sys.exit(main())
