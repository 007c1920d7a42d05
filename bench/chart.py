"""One chart for the README: ratios to the plain call, logarithmic, ours highlighted.

Plain SVG text, without a library: it carries its own background and follows the reader's light or
dark setting.
"""

import math
from html import escape
from typing import NamedTuple

from bench.figures import CaseFigures, RunFigures
from bench.timing import TIMES


class Group(NamedTuple):
    """A case in the chart: its heading, what once is, and the rows shown with a word on each."""

    key: str
    heading: str
    baseline: str
    rows: dict[str, tuple[str, str]]


GROUPS = (
    Group(
        "day",
        "An agent's day, file by file",
        "plain open()",
        {
            "Bailiwick": ("Bailiwick", "confined, atomic, hashed"),
            "Bailiwick, governed": ("Bailiwick", "and rules, ledger, feed"),
            "Bailiwick, governed, with history": ("Bailiwick", "and every version kept"),
            "fsspec": ("fsspec", "no confinement, not atomic"),
            "deepagents": ("deepagents", "compares paths, not atomic"),
        },
    ),
    Group(
        "read",
        "Read 1 KiB",
        "open().read()",
        {
            "Bailiwick read_bytes": ("Bailiwick", "confined, recorded"),
            "fsspec cat_file": ("fsspec", "no confinement"),
            "PyFilesystem2 readbytes": ("PyFilesystem2", "follows links out"),
            "deepagents read": ("deepagents", "compares paths"),
            "agentfs-sdk read_file": ("agentfs-sdk", "own database"),
        },
    ),
    Group(
        "write",
        "Write 1 KiB over a file, no fsync",
        "open().write()",
        {
            "Bailiwick write_bytes": ("Bailiwick", "confined, atomic, hashed"),
            "fsspec pipe_file": ("fsspec", "no confinement, not atomic"),
            "PyFilesystem2 writebytes": ("PyFilesystem2", "follows links out, not atomic"),
            "deepagents write": ("deepagents", "compares paths, not atomic"),
            "agentfs-sdk write_file": ("agentfs-sdk", "own database"),
        },
    ),
    Group(
        "list",
        "List 1,000 entries with size and time",
        "os.listdir(), names only",
        {
            "Bailiwick list": ("Bailiwick", "confined, sorted, ignore rules"),
            "os.scandir and stat": ("os.scandir + stat", "nothing else"),
            "fsspec ls": ("fsspec", "no confinement"),
            "PyFilesystem2 scandir": ("PyFilesystem2", "follows links out"),
            "deepagents ls": ("deepagents", "compares paths"),
            "agentfs-sdk readdir and stat": ("agentfs-sdk", "own database"),
        },
    ),
    Group(
        "grep",
        "Search 20,000 files, 227 MB",
        "ripgrep itself",
        {
            "Bailiwick grep, matches": ("Bailiwick", "confined, RE2"),
            "Bailiwick grep, with skipped lists": ("Bailiwick", "and tells what it skipped"),
            "deepagents grep": ("deepagents", "literal text only"),
        },
    ),
)

WIDTH = 880
MARGIN = 28
PLOT_LEFT = 318
PLOT_RIGHT = 812
ROW = 25
BAR = 13
TOP = 92
GROUP_HEAD = 34
GROUP_GAP = 14

_STYLE = """
text { font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
.card { fill: #ffffff; stroke: #d9dee5; }
.title { font-size: 19px; font-weight: 650; fill: #16202c; }
.under { font-size: 13px; fill: #5b6675; }
.head { font-size: 13.5px; font-weight: 650; fill: #16202c; }
.name { font-size: 13px; fill: #2c3846; }
.word { font-size: 11.5px; fill: #7a8594; }
.value { font-size: 12.5px; fill: #4a5563; font-variant-numeric: tabular-nums; }
.tick { font-size: 11px; fill: #7a8594; }
.grid { stroke: #e8ecf1; }
.one { stroke: #8b96a5; stroke-width: 1.5; }
.bar { fill: #c0c8d3; }
.ours { fill: #0d7d72; }
.name.us, .value.us { font-weight: 650; fill: #0b6b62; }
@media (prefers-color-scheme: dark) {
.card { fill: #10161d; stroke: #2b3440; }
.title, .head { fill: #f0f4f8; }
.under { fill: #a3aebb; }
.name { fill: #d5dce4; }
.word, .tick { fill: #8793a1; }
.value { fill: #b9c3ce; }
.grid { stroke: #212a34; }
.one { stroke: #6d7987; }
.bar { fill: #47525f; }
.ours { fill: #2cc5b4; }
.name.us, .value.us { fill: #53dccd; }
}
"""


def as_svg(run: RunFigures) -> str:
    """The chart of one run; a row that was not measured is left out."""
    cases = {case["key"]: case for case in run["cases"]}
    groups = [(group, _ratios(group, cases.get(group.key))) for group in GROUPS]
    groups = [(group, ratios) for group, ratios in groups if ratios]
    largest = max((ratio for _, ratios in groups for _, ratio in ratios), default=10)
    axis = _Axis(largest)
    body: list[str] = []
    y = TOP
    for group, ratios in groups:
        top = y + GROUP_HEAD
        bottom = top + ROW * len(ratios)
        body += axis.lines(top, bottom)
        body += _heading(group, y + 20)
        for n, (name, ratio) in enumerate(ratios):
            body += _row(group, name, ratio, top + ROW * n, axis)
        y = bottom + GROUP_GAP
    body += axis.labels(y + 4)
    return _document(body, y + 34)


class _Axis:
    """A logarithmic axis from one to a round number above the largest ratio."""

    def __init__(self, largest: float) -> None:
        decades = math.ceil(math.log10(max(largest, 2)) * 4) / 4
        self._decades = max(decades, 1)
        self.ticks = [
            step * 10**power
            for power in range(math.ceil(self._decades) + 1)
            for step in (1, 2, 5)
            if math.log10(step * 10**power) <= self._decades + 1e-9
        ]

    def x(self, ratio: float) -> float:
        share = math.log10(max(ratio, 1)) / self._decades
        return PLOT_LEFT + share * (PLOT_RIGHT - PLOT_LEFT)

    def lines(self, top: float, bottom: float) -> list[str]:
        return [
            f'<line class="{"one" if tick == 1 else "grid"}" x1="{self.x(tick):.1f}" '
            f'x2="{self.x(tick):.1f}" y1="{top}" y2="{bottom}"/>'
            for tick in self.ticks
        ]

    def labels(self, y: float) -> list[str]:
        return [
            f'<text class="tick" x="{self.x(tick):.1f}" y="{y}" text-anchor="middle">'
            f"{tick:,}{TIMES}</text>"
            for tick in self.ticks
            if tick < 100 or math.log10(tick).is_integer()  # the others would touch
        ]


def _ratios(group: Group, case: CaseFigures | None) -> list[tuple[str, float]]:
    """The rows of a group, the quickest first."""
    rows = case["rows"] if case else []
    found = [
        (row["name"], row["ratio"])
        for row in rows
        if row["name"] in group.rows and row["ratio"] is not None
    ]
    return sorted(found, key=lambda pair: pair[1])


def _heading(group: Group, y: float) -> list[str]:
    baseline = f"1{TIMES} = {escape(group.baseline)}"
    return [
        f'<text class="head" x="{MARGIN}" y="{y}">{escape(group.heading)}</text>',
        f'<text class="word" x="{PLOT_LEFT}" y="{y}">{baseline}</text>',
    ]


def _row(group: Group, name: str, ratio: float, top: float, axis: _Axis) -> list[str]:
    label, word = group.rows[name]
    us = " us" if label == "Bailiwick" else ""
    text_y = top + ROW / 2 + 4.5
    width = max(axis.x(ratio) - PLOT_LEFT, 2)
    digits = 1 if ratio < 19.95 else 0
    return [
        (
            f'<text x="{MARGIN}" y="{text_y}"><tspan class="name{us}">{escape(label)}</tspan>'
            f'<tspan class="word" dx="7">{escape(word)}</tspan></text>'
        ),
        (
            f'<rect class="{"ours" if us else "bar"}" x="{PLOT_LEFT}" y="{top + (ROW - BAR) / 2}" '
            f'width="{width:.1f}" height="{BAR}" rx="2"/>'
        ),
        (
            f'<text class="value{us}" x="{PLOT_LEFT + width + 7:.1f}" y="{text_y}">'
            f"{ratio:,.{digits}f}{TIMES}</text>"
        ),
    ]


def _document(body: list[str], height: float) -> str:
    title = "How many times as long as the plain call?"
    under = "All in one run, in turns; medians of the ratios. Logarithmic: shorter is quicker."
    return "\n".join(
        [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
                f'width="{WIDTH}" height="{height}" role="img" aria-labelledby="title">'
            ),
            f'<title id="title">{escape(title)}</title>',
            f"<style>{_STYLE}</style>",
            (
                f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" '
                'rx="10"/>'
            ),
            f'<text class="title" x="{MARGIN}" y="42">{escape(title)}</text>',
            f'<text class="under" x="{MARGIN}" y="65">{escape(under)}</text>',
            *body,
            "</svg>\n",
        ]
    )
