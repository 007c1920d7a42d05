"""The figures of a run as plain data, so that the report can be written anew without measuring."""

import statistics
from typing import TypedDict

from bench.timing import TIMES, Bar, Case, Timed


class Row(TypedDict):
    """One contender of a case.

    ``ratio`` is the median, ``low`` and ``high`` hold the middle half, ``best`` compares the times
    of the quietest tenth of the rounds.
    """

    name: str
    ours: bool
    ratio: float | None
    low: float | None
    high: float | None
    best: float | None
    us: float | None
    failure: str | None


class Verdict(TypedDict):
    """A bar, and whether it was reached; ``value`` is None where it could not be measured."""

    text: str
    value: float | None
    unit: str
    reached: bool | None


class CaseFigures(TypedDict):
    key: str
    title: str
    note: str
    rounds: int
    rows: list[Row]
    bars: list[Verdict]


class PeerFigures(TypedDict):
    name: str
    version: str
    remark: str
    missing: str | None


class RunFigures(TypedDict):
    date: str
    machine: str
    places: str
    peers: list[PeerFigures]
    cases: list[CaseFigures]


def of_case(case: Case, timed: list[Timed]) -> CaseFigures:
    """What was measured in one case, next to what was to be reached."""
    return CaseFigures(
        key=case.key,
        title=case.title,
        note=case.note,
        rounds=max(len(times.rounds) for times in timed),
        rows=[_row(times, timed[0]) for times in timed],
        bars=[_verdict(bar, {times.name: times for times in timed}) for bar in case.bars],
    )


def _row(times: Timed, baseline: Timed) -> Row:
    row = Row(
        name=times.name, ours=times.ours, ratio=None, low=None, high=None, best=None, us=None,
        failure=times.failure,
    )  # fmt: skip
    if times.rounds:
        row["us"] = times.median_us
    ratios = times.ratios(baseline)
    if ratios:
        quarter = len(ratios) // 4
        row["ratio"] = statistics.median(ratios)
        row["low"], row["high"] = ratios[quarter], ratios[-1 - quarter]
        row["best"] = times.quiet_us / baseline.quiet_us
    return row


def _verdict(bar: Bar, timed: dict[str, Timed]) -> Verdict:
    ours, other = timed.get(bar.contender), timed.get(bar.against)
    value = None
    if ours is not None and other is not None and ours.rounds and other.rounds:
        value = {
            "ratio": lambda: statistics.median(ours.ratios(other)),
            "extra_ms": lambda: ours.extra_ms(other),
            "ms": lambda: ours.median_us / 1000,
        }[bar.kind]()
    return Verdict(
        text=bar.text,
        value=value,
        unit=TIMES if bar.kind == "ratio" else " ms",
        reached=None if value is None else value <= bar.at_most,
    )


def failed(name: str, failure: str) -> Row:
    """A contender of ours of which nothing could be measured."""
    return Row(
        name=name, ours=True, ratio=None, low=None, high=None, best=None, us=None, failure=failure
    )


def crashed(case: CaseFigures) -> bool:
    return any(row["failure"] for row in case["rows"])
