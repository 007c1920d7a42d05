"""Unified diffs whose time and memory stay bounded, whatever the two texts are.

Lines end at a line feed; a carriage return is part of its line and shown as it stands. What the
texts share at both ends is cut off first, then lines that only one side has; the rest is compared
by Myers' algorithm ("An O(ND) Difference Algorithm", 1986) within a fixed amount of work. Where
that does not suffice the differing middle is shown as replaced: a longer diff, still a right one.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from math import isqrt

from bailiwick.errors import escape_for_display
from bailiwick.limits import Limits
from bailiwick.model import MiB, Value
from bailiwick.text.agreement import common_prefix, common_suffix

LINES_MAX = Limits().diff_lines_max

# A diff is an answer to read: what exceeds this is summarised, like one of too many lines.
CHARACTERS_MAX = 1 * MiB

# Steps of the comparison: about half a second at worst, and 16 MiB for the way back.
WORK_MAX = 2_000_000

NO_NEWLINE = "\\ No newline at end of file"


class UnifiedDiff(Value, frozen=True):
    """A unified diff, "" for equal texts.

    Unless ``truncated``, applying ``text`` to the first text gives the second exactly. When
    truncated, ``text`` has the hunks that fit, whole, and ends with a line that says what is left
    out; ``added`` and ``removed`` count all lines either way.
    """

    text: str
    truncated: bool
    added: int
    removed: int


class Block(Value, frozen=True):
    """Lines ``a_low:a_high`` of one side are replaced by ``b_low:b_high`` of the other."""

    a_low: int
    a_high: int
    b_low: int
    b_high: int


def unified_diff(
    a: str,
    b: str,
    a_name: str,
    b_name: str,
    *,
    context: int = 3,
    lines_max: int = LINES_MAX,
    characters_max: int = CHARACTERS_MAX,
    work_max: int = WORK_MAX,
    same: tuple[int, int] = (0, 0),
) -> UnifiedDiff:
    """Return what leads from ``a`` to ``b``, of which so many characters at the beginning and at
    the end are known to be the ``same``.

    Never fails: a diff of more than ``lines_max`` lines or ``characters_max`` characters is cut
    after a whole hunk and says so. Control characters in the names are escaped.
    """
    if a == b:
        return UnifiedDiff(text="", truncated=False, added=0, removed=0)
    part = _differing_part(a, b, same)
    header = f"--- {_header_name(a_name)}\n+++ {_header_name(b_name)}\n"
    found = _in_one_place(a, b, part, context)
    if found is not None:
        hunk_text, added, removed = found
        lines, text = 5 + 2 * context + added + removed, header + hunk_text
        if lines <= lines_max and len(text) <= characters_max:
            return UnifiedDiff(text, False, added, removed)
    start, a_end, b_end = _with_context(a, part, context)
    a_lines = _DiffLines(a, start, a_end)
    b_lines = _DiffLines(b, start, b_end)
    blocks = _blocks(*_changed_lines(a_lines, b_lines, work_max))
    writer = _Writer(a_lines, b_lines, a.count("\n", 0, start), context)
    pieces = [header]
    lines, characters, shown, hunks = 2, len(header), 0, 0
    cut = False
    for hunk in _hunks(blocks, context):
        hunks += 1
        if cut or lines + writer.lines_in(hunk) > lines_max:
            cut = True
            continue
        text = writer.written(hunk)
        if characters + len(text) > characters_max:
            cut = True
            continue
        pieces.append(text)
        lines += writer.lines_in(hunk)
        characters += len(text)
        shown += 1
    added = sum(block.b_high - block.b_low for block in blocks)
    removed = sum(block.a_high - block.a_low for block in blocks)
    if cut:
        pieces.append(
            f"# The diff is too large to show: {shown} of {hunks} hunks are above;"
            f" {added} lines added, {removed} removed in all.\n"
        )
    return UnifiedDiff(text="".join(pieces), truncated=cut, added=added, removed=removed)


def hunks_between(a: str, b: str, *, context: int = 3) -> list[list[Block]]:
    """The hunks of the unified diff from ``a`` to ``b``, in its order, by line numbers from zero:
    each is made of the blocks that differ in it."""
    if a == b:
        return []
    start, a_end, b_end = _with_context(a, _differing_part(a, b, (0, 0)), context)
    before = a.count("\n", 0, start)
    a_lines, b_lines = _DiffLines(a, start, a_end), _DiffLines(b, start, b_end)
    blocks = [
        Block(each.a_low + before, each.a_high + before, each.b_low + before, each.b_high + before)
        for each in _blocks(*_changed_lines(a_lines, b_lines, WORK_MAX))
    ]
    return list(_hunks(blocks, context))


def _header_name(name: str) -> str:
    # As git does: a tab tells readers of the header where a name with spaces ends.
    shown = escape_for_display(name)
    return f"{shown}\t" if " " in shown else shown


class _DiffLines:
    """The lines of a part of a text, which begins at a line and ends after one."""

    __slots__ = ("lines", "unterminated")

    def __init__(self, text: str, start: int, end: int) -> None:
        self.lines = text[start:end].split("\n")
        # What follows the last line feed is a line only if there is something.
        self.unterminated = self.lines[-1] != ""
        if not self.unterminated:
            self.lines.pop()

    def numbered(self, numbers: dict[str, int]) -> array[int]:
        """Return each line as a number, equal lines the same; adds new lines to ``numbers``."""
        result = array("Q", (numbers.setdefault(line, len(numbers)) for line in self.lines))
        if self.unterminated:
            # A line without a line feed equals only another one without.
            unterminated = numbers.setdefault(f"{self.lines[-1]}\n", len(numbers))
            result[-1] = unterminated
        return result


_Part = tuple[int, int, int]
"""Where a part of two texts begins, which is the same in both, and where it ends in each."""


def _differing_part(a: str, b: str, same: tuple[int, int]) -> _Part:
    """Return where the lines are that differ, all of them."""
    start = a.rfind("\n", 0, common_prefix(a, b, same[0])) + 1
    shared = common_suffix(a, b, min(len(a), len(b)) - start, same[1])
    a_end, b_end = len(a) - shared, len(b) - shared
    if not (_begins_line(a, a_end) and _begins_line(b, b_end)):
        feed = a.find("\n", a_end)
        shared = len(a) - feed - 1 if feed >= 0 else 0
        a_end, b_end = len(a) - shared, len(b) - shared
    return start, a_end, b_end


def _in_one_place(a: str, b: str, part: _Part, context: int) -> tuple[str, int, int] | None:
    """The one hunk of texts that differ in one place, and how many lines it adds and removes, where
    that is seen without comparing lines: most edits. None where it takes a closer look."""
    start, a_end, b_end = part
    removed, added = a[start:a_end], b[start:b_end]
    gone, new = removed.count("\n"), added.count("\n")
    if (gone and new and not gone == new == 1) or not (
        (removed == "" or removed[-1] == "\n") and (added == "" or added[-1] == "\n")
    ):
        return None
    above, below = start, a_end
    for _ in range(context):
        above = a.rfind("\n", 0, max(above - 1, 0)) + 1
        feed = a.find("\n", below)
        if feed >= 0:
            below = feed + 1
        elif below < len(a):
            return None  # the last line does not end
    before, after = a[above:start], a[a_end:below]
    shown, first = before.count("\n") + after.count("\n"), a.count("\n", 0, above)
    text = (
        f"@@ -{_range(first, shown + gone)} +{_range(first, shown + new)} @@\n"
        f"{_signed(' ', before)}{_signed('-', removed)}{_signed('+', added)}{_signed(' ', after)}"
    )
    return text, new, gone


def _signed(sign: str, lines: str) -> str:
    """Whole lines, each with a sign before it."""
    return sign + lines[:-1].replace("\n", f"\n{sign}") + "\n" if lines else ""


def _range(before: int, count: int) -> str:
    """A range after so many lines, as the format wants it: an empty one names the line before."""
    start = before + (1 if count else 0)
    return str(start) if count == 1 else f"{start},{count}"


def _with_context(a: str, part: _Part, context: int) -> _Part:
    """A part with so many equal lines more on either side, as far as there are any."""
    start, a_end, b_end = part
    for _ in range(context):
        start = a.rfind("\n", 0, max(start - 1, 0)) + 1
        feed = a.find("\n", a_end)
        step = (feed + 1 if feed >= 0 else len(a)) - a_end
        a_end, b_end = a_end + step, b_end + step
    return start, a_end, b_end


def _begins_line(text: str, index: int) -> bool:
    return index == 0 or text[index - 1] == "\n"


def _changed_lines(a: _DiffLines, b: _DiffLines, work_max: int) -> tuple[bytearray, bytearray]:
    """Return for each line of either side 1 if it is not shared with the other."""
    if not (a.unterminated or b.unterminated):
        before, after = _shared_ends(a.lines, b.lines)
        a_middle, b_middle = (len(each.lines) - before - after for each in (a, b))
        if min(a_middle, b_middle) == 0 or a_middle == b_middle == 1:
            return (
                bytearray(before) + b"\1" * a_middle + bytearray(after),
                bytearray(before) + b"\1" * b_middle + bytearray(after),
            )
    numbers: dict[str, int] = {}
    a_numbers, b_numbers = a.numbered(numbers), b.numbered(numbers)
    in_a, in_b = bytearray(len(numbers)), bytearray(len(numbers))
    for number in a_numbers:
        in_a[number] = 1
    for number in b_numbers:
        in_b[number] = 1
    # Lines that the other side does not have at all are changed whatever the rest is.
    a_kept = array("Q", (i for i, number in enumerate(a_numbers) if in_b[number]))
    b_kept = array("Q", (i for i, number in enumerate(b_numbers) if in_a[number]))
    a_changed, b_changed = bytearray(b"\1") * len(a_numbers), bytearray(b"\1") * len(b_numbers)
    runs = _shared_runs(
        array("Q", map(a_numbers.__getitem__, a_kept)),
        array("Q", map(b_numbers.__getitem__, b_kept)),
        work_max,
    )
    for a_start, b_start, length in runs:
        for index in a_kept[a_start : a_start + length]:
            a_changed[index] = 0
        for index in b_kept[b_start : b_start + length]:
            b_changed[index] = 0
    return a_changed, b_changed


def _shared_ends(a: list[str], b: list[str]) -> tuple[int, int]:
    """How many lines are the same at the beginning, and then at the end. What is compared has a few
    lines more than differ."""
    most = min(len(a), len(b))
    before = next((n for n in range(most) if a[n] != b[n]), most)
    most -= before
    after = next((n for n in range(most) if a[-1 - n] != b[-1 - n]), most)
    return before, after


def _shared_runs(a: array[int], b: array[int], work_max: int) -> list[tuple[int, int, int]]:
    """Return runs ``(start in a, start in b, length)`` of a common subsequence, in any order."""
    prefix = common_prefix(a, b)
    suffix = common_suffix(a, b, min(len(a), len(b)) - prefix)
    runs = [(0, 0, prefix), (len(a) - suffix, len(b) - suffix, suffix)]
    a, b = a[prefix : len(a) - suffix], b[prefix : len(b) - suffix]
    rounds = _furthest_points(a.tolist(), b.tolist(), work_max)
    if rounds is not None:
        middle = _runs_back(rounds, len(a), len(b))
        runs += [(x + prefix, y + prefix, length) for x, y, length in middle]
    return runs


class _Round(Value, frozen=True):
    """How far in the first text each diagonal, ``low`` and every second after it, got."""

    low: int
    reached: array[int]

    def entry(self, diagonal: int) -> tuple[int, bool]:
        """Where the next round enters a diagonal: how far, and whether by an added line."""
        below = (diagonal - 1 - self.low) // 2
        right = self.reached[below] + 1 if below >= 0 else 0
        down = self.reached[below + 1] if below + 1 < len(self.reached) else -1
        return (down, True) if down >= right else (right, False)


def _furthest_points(a: list[int], b: list[int], work_max: int) -> list[_Round] | None:
    """Myers' greedy search: one round for each number of changes, until the end is reached.

    None when ``work_max`` steps do not get there. All rounds are kept to find the way back; a round
    of d changes keeps d entries and costs d steps, so that the work bounds the memory too.
    """
    n, m = len(a), len(b)
    changes_max = min(n + m, isqrt(2 * work_max) + 1)
    # The point each diagonal has reached; the middle of the list is diagonal 0.
    middle = changes_max + 1
    front = [-1] * (2 * middle + 1)
    front[middle + 1] = 0
    rounds = [_Round(1, array("Q", (0,)))]
    work = 0
    for changes in range(changes_max + 1):
        # Diagonals beyond either text lead nowhere.
        low = -changes + 2 * max(0, changes - m)
        high = changes - 2 * max(0, changes - n)
        for at in range(middle + low, middle + high + 1, 2):
            x, right = front[at + 1], front[at - 1] + 1
            if right > x:
                x = right
            start = x
            y = x - at + middle
            while x < n and y < m and a[x] == b[y]:
                x += 1
                y += 1
            front[at] = x
            work += x - start + 1
            if work > work_max:
                return None
        rounds.append(_Round(low, array("Q", front[middle + low : middle + high + 1 : 2])))
        if low <= n - m <= high and front[middle + n - m] >= n:
            return rounds
    return None


def _runs_back(rounds: list[_Round], n: int, m: int) -> Iterator[tuple[int, int, int]]:
    """Follow the rounds from the end to the beginning and yield the runs on the way."""
    x, diagonal = n, n - m
    for before in reversed(rounds[:-1]):
        entered, by_added = before.entry(diagonal)
        yield entered, entered - diagonal, x - entered
        if by_added:
            x, diagonal = entered, diagonal + 1
        else:
            x, diagonal = entered - 1, diagonal - 1


def _blocks(a_changed: bytearray, b_changed: bytearray) -> list[Block]:
    """Pair the changed stretches of both sides; what lies between them is equal."""
    blocks: list[Block] = []
    i = j = 0
    next_a, next_b = _next(a_changed, 1, 0), _next(b_changed, 1, 0)
    while True:
        equal = min(next_a - i, next_b - j)
        i, j = i + equal, j + equal
        if i == len(a_changed) and j == len(b_changed):
            return blocks
        a_high = _next(a_changed, 0, i) if next_a == i else i
        b_high = _next(b_changed, 0, j) if next_b == j else j
        blocks.append(Block(i, a_high, j, b_high))
        if next_a == i:
            next_a = _next(a_changed, 1, a_high)
        if next_b == j:
            next_b = _next(b_changed, 1, b_high)
        i, j = a_high, b_high


def _next(flags: bytearray, flag: int, start: int) -> int:
    found = flags.find(flag, start)
    return found if found >= 0 else len(flags)


def _hunks(blocks: list[Block], context: int) -> Iterator[list[Block]]:
    """Group blocks whose context touches."""
    hunk: list[Block] = []
    for block in blocks:
        if hunk and block.a_low - hunk[-1].a_high > 2 * context:
            yield hunk
            hunk = []
        hunk.append(block)
    yield hunk


class _Writer:
    """Writes hunks of one diff."""

    __slots__ = ("_a", "_b", "_context", "_lines_before")

    def __init__(self, a: _DiffLines, b: _DiffLines, lines_before: int, context: int) -> None:
        self._a = a
        self._b = b
        self._lines_before = lines_before
        self._context = context

    def lines_in(self, hunk: list[Block]) -> int:
        """How many lines the hunk takes at most, its header and the marks at the end included."""
        first, last = hunk[0], hunk[-1]
        added = sum(block.b_high - block.b_low for block in hunk)
        return 3 + 2 * self._context + last.a_high - first.a_low + added

    def written(self, hunk: list[Block]) -> str:
        first, last = hunk[0], hunk[-1]
        before = min(self._context, first.a_low)
        after = min(self._context, len(self._a.lines) - last.a_high)
        a_low, b_low = first.a_low - before, first.b_low - before
        a_range = _range(self._lines_before + a_low, last.a_high + after - a_low)
        b_range = _range(self._lines_before + b_low, last.b_high + after - b_low)
        pieces = [f"@@ -{a_range} +{b_range} @@\n"]
        at = a_low
        for block in hunk:
            self._append(pieces, " ", self._a, at, block.a_low)
            self._append(pieces, "-", self._a, block.a_low, block.a_high)
            self._append(pieces, "+", self._b, block.b_low, block.b_high)
            at = block.a_high
        self._append(pieces, " ", self._a, at, last.a_high + after)
        return "".join(pieces)

    def _append(self, pieces: list[str], sign: str, side: _DiffLines, low: int, high: int) -> None:
        pieces += [f"{sign}{line}\n" for line in side.lines[low:high]]
        if side.unterminated and low < high == len(side.lines):
            pieces.append(f"{NO_NEWLINE}\n")
