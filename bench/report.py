"""The figures as a table for a terminal and as `bench/RESULTS.md`."""

from typing import Any

from bench.figures import CaseFigures, Row, RunFigures, Verdict
from bench.timing import TIMES
from bench.trials import TRIALS

_HEAD = """# Results

Measured by `make bench`, which writes this file. Everyone is measured in one run on one machine, in
turns; what counts are the ratios, since times differ from machine to machine and hour to hour.
Whether the processor has instructions for SHA-256 changes ratios too: what is written is hashed.

"""

_METHOD = """
## How it is measured

- The contenders of a case take turns, A B C, A B C, … A turn is a block of calls of about 0.7 ms
  (one call where a call takes longer), after one that is not timed. Each round gives one ratio to
  the baseline's turn of the same round. The tables show the median of these ratios, the range of
  the middle half of them, and as "quiet" the ratio of times in the quietest tenth of the rounds.
- Asynchronous calls are awaited one after the other in one running event loop, so that nobody pays
  for starting a loop or a task; blocking ones are called where no loop is to be seen.
- What is done to many different files, and the agent's day, is told by the time of the processor
  in all threads: others at work on the machine do not change it. What waits for a disk is told by
  the clock.
- An answer is checked before anything is timed: who returns other bytes, entries or matches is not
  measured.
- Files lie on {places}. Bailiwick is measured as shipped: grant, lookup
  by descriptor, policy, SHA-256, audit record.
- `make bench` installs the peers in an environment of its own, by the hashes in
  `bench/requirements-peers.txt`. `python -m bench --only read write` runs single cases and writes
  nothing; so does `--quick`, which takes a minute.

## Who is measured

| | version | |
|---|---|---|
"""


def as_text(case: CaseFigures) -> str:
    """A case for the terminal."""
    lines = [f"\n{case['title']}  [{case['key']}]"]
    for row in case["rows"]:
        mark = "▸" if row["ours"] else " "
        if row["ratio"] is None:
            lines.append(f"  {mark} {row['name']:<46} {_failure(row)}")
        else:
            spread = f"({_times(row['low'])} to {_times(row['high'])})"
            lines.append(
                f"  {mark} {row['name']:<46} {_times(row['ratio']):>8} {spread:<20} "
                f"{_times(row['best']):>8} quiet {_duration(row['us']):>10}"
            )
    lines += [f"    {_mark(bar)} {bar['text']}: {_value(bar)}" for bar in case["bars"]]
    return "\n".join(lines)


def as_markdown(run: RunFigures) -> str:
    """The whole of `bench/RESULTS.md`."""
    parts = [
        _HEAD,
        f"{run['date']} · {run['machine']}\n",
        _bars(run),
        *(_section(case) for case in run["cases"] if case["rows"]),
        _trials(),
        _METHOD.format(places=run["places"]),
    ]
    parts += [
        f"| {peer['name']} | {peer['version']} | {peer['missing'] or peer['remark']} |\n"
        for peer in run["peers"]
    ]
    return "".join(parts)


def _bars(run: RunFigures) -> str:
    lines = ["\n## What was to be reached\n\n", "| | figure | measured | |\n|---|---|---|---|\n"]
    judged = [(case["title"], bar) for case in run["cases"] for bar in case["bars"]]
    judged += [(trial.title, bar) for trial in TRIALS for bar in trial.verdicts()]
    lines += [
        f"| {title} | {bar['text']} | {_value(bar)} | {_mark(bar)} |\n" for title, bar in judged
    ]
    return "".join(lines)


def _section(case: CaseFigures) -> str:
    lines = [f"\n## {case['title']}\n\n{case['rounds']} rounds."]
    lines.append(f" {case['note']}\n\n" if case["note"] else "\n\n")
    lines.append("| | ratio | middle half | quiet | time |\n|---|--:|--:|--:|--:|\n")
    for row in case["rows"]:
        name = f"**{row['name']}**" if row["ours"] else row["name"]
        if row["ratio"] is None:
            lines.append(f"| {name} | - | - | - | {_failure(row)} |\n")
            continue
        ratio = f"**{_times(row['ratio'])}**" if row["ours"] else _times(row["ratio"])
        spread = f"{_times(row['low'])} to {_times(row['high'])}"
        lines.append(
            f"| {name} | {ratio} | {spread} | {_times(row['best'])} | {_duration(row['us'])} |\n"
        )
    return "".join(lines)


def _trials() -> str:
    """The figures of what is run by itself, where it was run and they were kept."""
    parts = []
    for trial in TRIALS:
        found = trial.figures()
        if found is not None:
            shown = f"From `make {trial.target}`.\n\n{_as_table(found)}"
            parts.append(f"\n## {trial.title}\n\n{shown}")
    return "".join(parts)


def _as_table(found: dict[str, Any]) -> str:
    """Numbers first (an empty list is 0); each mapping or list of rows beneath as its own table."""
    single = {
        key: len(value) if isinstance(value, list) else value
        for key, value in found.items()
        if not isinstance(value, dict) and not (isinstance(value, list) and value)
    }
    parts = ["| | |\n|---|--:|\n"] if single else []
    parts += [f"| {_words(k)} | {_shown(v)} |\n" for k, v in single.items()]
    for key, value in found.items():
        rows = value if isinstance(value, list) else _rows(value) if isinstance(value, dict) else []
        rows = [row for row in rows if isinstance(row, dict)]
        if rows:
            heads = list(dict.fromkeys(head for row in rows for head in row))
            parts.append(f"\n{_words(key).capitalize()}:\n\n")
            parts.append(f"| {' | '.join(map(_words, heads))} |\n|{'---|' * len(heads)}\n")
            parts += [f"| {' | '.join(_shown(row.get(h)) for h in heads)} |\n" for row in rows]
    return "".join(parts)


def _rows(mapping: dict[str, Any]) -> list[dict[str, Any]]:
    if all(isinstance(value, dict) for value in mapping.values()):
        return [{"": key, **value} for key, value in mapping.items()]
    return [{"": key, "count": value} for key, value in mapping.items()]


def _words(key: str) -> str:
    return key.replace("_", " ")


def _shown(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else str(value).replace("|", "\\|")


def _failure(row: Row) -> str:
    return f"failed: {row['failure']}" if row["failure"] else "not measured"


def _mark(bar: Verdict) -> str:
    if bar["reached"] is None:
        return "not measured"
    return "reached" if bar["reached"] else "**missed**"


def _value(bar: Verdict) -> str:
    if bar["value"] is None:
        return "-"
    if not bar["unit"]:
        return f"{bar['value']:.3g}"
    return _times(bar["value"]) if bar["unit"] == TIMES else f"{bar['value']:.1f}{bar['unit']}"


def _times(ratio: float | None) -> str:
    if ratio is None:
        return "-"
    digits = 0 if ratio >= 19.95 else 1 if ratio >= 9.95 else 2
    return f"{ratio:.{digits}f}{TIMES}"


def _duration(us: float | None) -> str:
    if us is None:
        return "-"
    if us >= 1e6:
        return f"{us / 1e6:.2f} s"
    return f"{us / 1000:.1f} ms" if us >= 1000 else f"{us:.1f} µs"
