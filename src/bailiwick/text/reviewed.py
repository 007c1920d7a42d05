"""What of a text people have agreed to, and what agents made of it since.

Each line is known with two things: whether it stands in what people agreed to, and whether it
stands there now. What an agent writes changes only what stands now; what a person writes is agreed
to as it is written. So what is left to look at is what differs between the two, and a line that is
back as it was agreed to is none. Bytes are characters here (`latin-1`), as in `weave`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import takewhile

from bailiwick.text.diff import Block
from bailiwick.text.weave import CONTEXT, blocks_between, joined, lines_of


class ReviewedLine:
    """One line, with its end. ``runs`` are those of agents that had to do with it: the last put it
    there or took it out, the others what it came instead of."""

    __slots__ = ("agreed", "runs", "stands", "text")

    def __init__(self, text: str, *, agreed: bool, runs: tuple[str, ...] = ()) -> None:
        self.text = text
        self.agreed = agreed
        self.stands = True
        self.runs = runs

    @property
    def is_settled(self) -> bool:
        return self.agreed and self.stands


class ReviewHunkLines:
    """Lines that agents took out and put in at one place: line numbers from one, of what was agreed
    to and of what stands now; ``above`` and ``below`` are settled lines around it, ``behind`` is
    the last of those before it."""

    __slots__ = ("above", "added", "behind", "below", "new_line", "old_line", "removed")

    def __init__(
        self,
        removed: list[ReviewedLine],
        added: list[ReviewedLine],
        behind: ReviewedLine | None = None,
    ) -> None:
        self.removed = removed
        self.added = added
        self.behind = behind
        self.old_line = self.new_line = 0
        self.above: list[str] = []
        self.below: list[str] = []

    @property
    def runs(self) -> set[str]:
        """Whose doing it is."""
        return {each.runs[-1] for each in (*self.removed, *self.added) if each.runs}

    def is_at(self, other: ReviewHunkLines) -> bool:
        """Whether both do the same at the same place, be it at different times."""
        if self.texts != other.texts:
            return False
        if not self.removed:
            return self.behind is other.behind
        return all(a is b for a, b in zip(self.removed, other.removed, strict=True))

    @property
    def texts(self) -> tuple[str, str]:
        """What it took out, and what it put in."""
        old, new = ("".join(each.text for each in side) for side in (self.removed, self.added))
        return old, new


class ReviewedText:
    """A text, from what people agreed to on. Versions are given one after the other."""

    def __init__(self, data: bytes) -> None:
        self._lines = [ReviewedLine(each, agreed=True) for each in lines_of(data)]

    @property
    def data(self) -> bytes:
        """What stands there now."""
        return joined(each.text for each in self._lines if each.stands)

    @property
    def agreed(self) -> bytes:
        """What people agreed to, where nothing of it was changed."""
        return joined(each.text for each in self._lines if each.agreed)

    # --- versions ------------------------------------------------------------------------------

    def write(self, run: str | None, data: bytes) -> None:
        """What a run of an agent made of it, or with None a person: the whole text afterwards."""
        if data == self.agreed:
            # Of lines that are alike a comparison may take the wrong ones: here it need not guess.
            back = list(_settled([each for each in self._lines if each.agreed]))
            new = lines_of(data)
            is_same = [each.text for each in back] == new
            self._lines = back if is_same else [ReviewedLine(each, agreed=True) for each in new]
            return
        new = lines_of(data)
        if not self._lines:
            runs = _runs_of((), run)
            self._lines = [ReviewedLine(each, agreed=run is None, runs=runs) for each in new]
            return
        standing = [place for place, each in enumerate(self._lines) if each.stands]
        old = [self._lines[place].text for place in standing]
        for block in reversed(blocks_between(old, new)):
            low = standing[block.a_low - 1] + 1 if block.a_low else 0
            high = standing[block.a_high] if block.a_high < len(standing) else len(self._lines)
            taken = [self._lines[place] for place in standing[block.a_low : block.a_high]]
            if run is None:
                self._settle_around(low, high, taken, new[block.b_low : block.b_high])
            runs = _runs_of(taken, run)
            for line in taken:
                line.stands = False
                line.agreed = line.agreed and run is not None
                line.runs = runs
            self._put(low, high, new[block.b_low : block.b_high], runs, run is None)
        self._lines = list(self._tidied())

    def _settle_around(
        self, low: int, high: int, taken: Sequence[ReviewedLine], put: Sequence[str]
    ) -> None:
        """A person who writes something else for all that an agent put somewhere has looked at what
        the agent took out there, too. The lines that stand before and behind tell whether that was
        all."""
        if not put or not any(not each.agreed for each in taken):
            return
        around = self._lines[max(low - 1, 0) : high + 1]
        gone = {id(each) for each in taken}
        if any(each.stands and not each.agreed and id(each) not in gone for each in around):
            return
        back = [each for each in around if each.agreed and not each.stands]
        kept = _paired([each.text for each in back], put)
        for place, each in enumerate(back):
            if place not in kept:
                each.agreed = False

    def _put(
        self, low: int, high: int, texts: Sequence[str], runs: tuple[str, ...], agreed: bool
    ) -> None:
        """Put lines between two that stand. Those that were agreed to and are out there come back;
        the others come in their order around them."""
        around = self._lines[low:high]
        out = [each for each in around if each.agreed and not each.stands]
        again = _paired([each.text for each in out], texts)
        comes = {place: out[number] for number, place in again.items()}
        new: list[ReviewedLine] = []
        waiting: list[ReviewedLine] = []
        rest = iter(around)
        for place, text in enumerate(texts):
            back = comes.get(place)
            if back is None:
                waiting.append(ReviewedLine(text, agreed=agreed, runs=runs))
                continue
            new += takewhile(lambda each, back=back: each is not back, rest)  # type: ignore[misc]
            new += (*waiting, back)
            back.stands, back.runs, waiting = True, (), []
        new += (*rest, *waiting)
        self._lines[low:high] = new

    # --- what is left --------------------------------------------------------------------------

    def hunks(self) -> list[ReviewHunkLines]:
        """What agents did that nobody has agreed to, in order."""
        hunks: list[ReviewHunkLines] = []
        old_line = new_line = 1
        shared: list[str] = []
        behind: ReviewedLine | None = None
        for part in self._parts():
            if isinstance(part, ReviewedLine):
                behind = part
                old_line, new_line = old_line + 1, new_line + 1
                if hunks and len(hunks[-1].below) < CONTEXT:
                    hunks[-1].below.append(part.text)
                shared = [*shared[1 - CONTEXT :], part.text]
                continue
            hunk = ReviewHunkLines(*_sides(part), behind)
            hunk.old_line, hunk.new_line, hunk.above = old_line, new_line, shared
            old_line, new_line = old_line + len(hunk.removed), new_line + len(hunk.added)
            shared = []
            hunks.append(hunk)
        return hunks

    def _tidied(self) -> Iterator[ReviewedLine]:
        """All lines, without those that neither stand nor were agreed to, and with those settled
        that came back as they were."""
        for part in self._parts():
            if isinstance(part, ReviewedLine):
                yield part
                continue
            removed, added = _sides(part)
            done = 0
            for block in _blocks(removed, added):
                yield from _settled(removed[done : block.a_low])
                yield from removed[block.a_low : block.a_high]
                yield from added[block.b_low : block.b_high]
                done = block.a_high
            yield from _settled(removed[done:])

    def _parts(self) -> Iterator[ReviewedLine | list[ReviewedLine]]:
        """Settled lines, and what lies between them, by runs that have nothing to do with each
        other."""
        group: list[ReviewedLine] = []
        for line in self._lines:
            if line.is_settled:
                if group:
                    yield from _apart(group)
                    group = []
                yield line
            else:
                group.append(line)
        yield from _apart(group)

    def accept(self, hunks: Collection[ReviewHunkLines]) -> None:
        """A person agrees to hunks as they are."""
        for hunk in hunks:
            for line in (*hunk.removed, *hunk.added):
                line.agreed = line.stands
        self._lines = list(self._tidied())

    def take_back(self, hunks: Collection[ReviewHunkLines]) -> None:
        """A person has hunks taken back: `without` is what stands there then."""
        for hunk in hunks:
            for line in (*hunk.removed, *hunk.added):
                line.stands = line.agreed
        self._lines = list(self._tidied())

    def without(self, hunks: Collection[ReviewHunkLines]) -> bytes:
        """What stands there now with some hunks taken back."""
        turned = {id(line) for each in hunks for line in (*each.removed, *each.added)}
        return joined(
            each.text
            for each in self._lines
            if (each.agreed if id(each) in turned else each.stands)
        )


def _paired(old: Sequence[str], new: Sequence[str]) -> dict[int, int]:
    """Which of some lines are which of others, in order."""
    pairs: dict[int, int] = {}
    a = b = 0
    for block in (*blocks_between(old, new), None):
        a_end = len(old) if block is None else block.a_low
        while a < a_end:
            pairs[a] = b
            a, b = a + 1, b + 1
        if block is not None:
            a, b = block.a_high, block.b_high
    return pairs


def _apart(group: list[ReviewedLine]) -> Iterator[list[ReviewedLine]]:
    """Cut where what lies before and what lies behind is the doing of different runs."""
    if group and all(line.runs == group[0].runs for line in group):
        yield group
        return
    last = {run: place for place, line in enumerate(group) for run in line.runs}
    begun, until = 0, -1
    for place, line in enumerate(group):
        if place > until >= 0 and line.runs:
            yield group[begun:place]
            begun = place
        until = max([until, *(last[run] for run in line.runs)])
    if group[begun:]:
        yield group[begun:]


def _runs_of(taken: Sequence[ReviewedLine], run: str | None) -> tuple[str, ...]:
    """Whose doing it is what becomes of lines: what comes instead of what nobody has agreed to yet
    is the doing of those, too, whom that was of."""
    if run is None:
        return ()
    before = dict.fromkeys(each for line in taken if not line.agreed for each in line.runs)
    return (*(each for each in before if each != run), run)


def _sides(part: Sequence[ReviewedLine]) -> tuple[list[ReviewedLine], list[ReviewedLine]]:
    """What was taken out, and what was put in."""
    removed = [each for each in part if each.agreed and not each.stands]
    return removed, [each for each in part if each.stands and not each.agreed]


def _blocks(removed: Sequence[ReviewedLine], added: Sequence[ReviewedLine]) -> list[Block]:
    return blocks_between([each.text for each in removed], [each.text for each in added])


def _settled(lines: Sequence[ReviewedLine]) -> Sequence[ReviewedLine]:
    for each in lines:
        each.stands, each.runs = True, ()
    return lines
