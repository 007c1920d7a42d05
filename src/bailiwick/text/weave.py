"""Whose lines are whose: a text with everything that was ever in it, and who put and took what.

Each line that was there at some time is a `Strand`; what stands there now are the strands that
nobody has taken out. So what one author did in all can be told apart from what others did in
between, and taken back without touching theirs. All of it is over bytes, each a character
(`latin-1`), so that nothing is lost in decoding.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain
from typing import Final, Literal

from bailiwick.text.diff import Block, hunks_between

_AS_IT_IS: Final = "latin-1"

CONTEXT: Final = 3
"""Unchanged lines that are shown on either side of a hunk."""

Mine = Callable[[str], bool]
"""Whether an author is the one that is asked about."""

HunkState = Literal["stands", "undone", "changed"]
"""Whether a hunk is as its author left it; gone, with what stood there before back in its place; or
changed by others since, so that it cannot be told apart from theirs."""


class Strand:
    """One line, with its end; who wrote it, and who took it out again.

    ``crowded`` is one whose place others have used since it was taken out, ``replaced`` one that
    others have put something else in the place of. ``late`` came after what is asked about.
    """

    __slots__ = ("by", "crowded", "gone_by", "late", "replaced", "text")

    def __init__(self, text: str, by: str, *, late: bool = False) -> None:
        self.text = text
        self.by = by
        self.gone_by: str | None = None
        self.crowded = False
        self.replaced = False
        self.late = late

    @property
    def stands(self) -> bool:
        return self.gone_by is None


class WovenHunk:
    """What an author took out and put in at one place, and where: line numbers from one, before
    and after; ``above`` and ``below`` are lines around it that are not the author's doing."""

    __slots__ = ("above", "added", "below", "new_line", "old_line", "removed")

    def __init__(self, removed: list[Strand], added: list[Strand]) -> None:
        self.removed = removed
        self.added = added
        self.old_line = self.new_line = 0
        self.above: list[str] = []
        self.below: list[str] = []

    @property
    def is_entangled(self) -> bool:
        """Whether others have changed what it left, or used the place of what it took."""
        return any(each.crowded for each in self.removed) or any(
            each.replaced for each in self.added
        )


class Weave:
    """A text, from its first version on. Versions are given one after the other by `write`."""

    def __init__(self, data: bytes, by: str) -> None:
        self._strands = [Strand(each, by) for each in lines_of(data)]
        self._late = False
        self._standing_lines: _StandingLines | None = None

    @property
    def data(self) -> bytes:
        """What stands there now."""
        return joined(each.text for each in self._strands if each.stands)

    def write(self, by: str, data: bytes) -> None:
        """What ``by`` made of it: the whole text afterwards."""
        self._strands = _Rewriting(self._strands, by, late=self._late).all(lines_of(data))
        self._standing_lines = None

    # --- one author ----------------------------------------------------------------------------

    def settle(self, mine: Mine) -> list[WovenHunk]:
        """What the authors that are ``mine`` did in all until now, in order. What is written from
        now on is of others, and shows in `state`."""
        settled: list[Strand] = []
        hunks: list[WovenHunk] = []
        group: list[Strand] = []

        def close() -> None:
            found, strands = _net(group, mine)
            hunks.extend(found)
            settled.extend(strands)
            group.clear()

        for strand in self._strands:
            if strand.stands and not mine(strand.by):
                if group:
                    close()
                settled.append(strand)
            else:
                group.append(strand)
        close()
        self._strands = settled
        self._standing_lines = None
        self._late = True
        self._place(hunks)
        return hunks

    def _place(self, hunks: Sequence[WovenHunk]) -> None:
        """Tell hunks their line numbers and what stands around them."""
        first = {id((each.removed or each.added)[0]): each for each in hunks}
        part_of = {id(strand): each for each in hunks for strand in (*each.removed, *each.added)}
        old_line = new_line = 1
        shared: list[str] = []
        last: WovenHunk | None = None
        for strand in self._strands:
            hunk = part_of.get(id(strand))
            if hunk is None:
                if not strand.stands:
                    continue
                old_line, new_line = old_line + 1, new_line + 1
                if last is not None and len(last.below) < CONTEXT:
                    last.below.append(strand.text)
                shared = [*shared[1 - CONTEXT :], strand.text]
                continue
            if id(strand) in first:
                hunk.old_line, hunk.new_line, hunk.above = old_line, new_line, shared
                old_line, new_line = old_line + len(hunk.removed), new_line + len(hunk.added)
                shared, last = [], hunk

    def state(self, hunk: WovenHunk) -> HunkState:
        """What became of a hunk since `settle`."""
        back = sum(each.stands for each in hunk.removed)
        if back == len(hunk.removed) and not any(each.stands for each in hunk.added):
            return "undone"
        if hunk.is_entangled and self._is_back(hunk):
            return "undone"
        return "changed" if back or hunk.is_entangled else "stands"

    def _is_back(self, hunk: WovenHunk) -> bool:
        """Whether nothing that the hunk put there stands, and others have put there again what it
        took out."""
        if any(each.stands for each in hunk.added):
            return False
        if self._standing_lines is None:
            self._standing_lines = _StandingLines(self._strands)
        return self._standing_lines.stands_around((*hunk.removed, *hunk.added), hunk.removed)

    def without(self, hunks: Collection[WovenHunk]) -> bytes:
        """What stands there now with some hunks taken back, none of which is ``changed``."""
        goes = {id(strand) for each in hunks for strand in each.added}
        comes = {
            id(strand) for each in hunks if self.state(each) == "stands" for strand in each.removed
        }
        return joined(
            each.text
            for each in self._strands
            if (each.stands and id(each) not in goes) or id(each) in comes
        )


class _StandingLines:
    """Which lines stand where, for as long as nobody writes: to be asked about each of many hunks
    without going through all of the text."""

    def __init__(self, strands: Sequence[Strand]) -> None:
        self._place = {id(each): place for place, each in enumerate(strands)}
        self._lines = [each.text for each in strands if each.stands]
        self._numbers: dict[str, list[int]] = {}
        for number, line in enumerate(self._lines):
            self._numbers.setdefault(line, []).append(number)
        self._standing, self._begins = [0], [0]
        for place, each in enumerate(strands, 1):
            self._standing.append(self._standing[-1] + each.stands)
            self._begins.append(self._begins[-1] if _is_loose(each) else place)
        self._ends = [len(strands)]
        for place in range(len(strands) - 1, -1, -1):
            self._ends.append(self._ends[-1] if _is_loose(strands[place]) else place)
        self._ends.reverse()

    def stands_around(self, parts: Collection[Strand], wanted: Sequence[Strand]) -> bool:
        """Whether lines stand, one after the other, where ``parts`` are, among what was put there
        late: that goes from the last line before them to the first one behind."""
        places = [self._place[id(each)] for each in parts]
        low = self._standing[self._begins[min(places)]]
        high = self._standing[self._ends[max(places) + 1]]
        texts = [each.text for each in wanted]
        if not texts:
            return True
        numbers, offset = min(
            ((self._numbers.get(text, []), at) for at, text in enumerate(texts)),
            key=lambda each: len(each[0]),
        )
        first = bisect_left(numbers, low + offset)
        last = bisect_left(numbers, high - len(texts) + offset + 1)
        starts = (number - offset for number in numbers[first:last])
        return any(self._lines[start : start + len(texts)] == texts for start in starts)


def _is_loose(strand: Strand) -> bool:
    return strand.late or not strand.stands


class _Rewriting:
    """What one author makes of a text. It goes from the end to the beginning, so that what was
    passed lies behind and what is still to come has its old place."""

    def __init__(self, strands: list[Strand], by: str, *, late: bool) -> None:
        self._standing = [place for place, each in enumerate(strands) if each.stands]
        self._strands = _Passage(strands)
        self._crowds = _Crowds(self._strands)
        self._by = by
        self._late = late

    def all(self, new: Sequence[str]) -> list[Strand]:
        """The strands, once these lines are what stands there."""
        standing = self._standing
        old = [self._strands[place].text for place in standing]
        for block in reversed(blocks_between(old, new)):
            taken = standing[block.a_low : block.a_high]
            if self._put_again(block, new[block.b_low : block.b_high]):
                continue
            put = [
                Strand(each, self._by, late=self._late) for each in new[block.b_low : block.b_high]
            ]
            place = taken[-1] + 1 if taken else self._gap(block.a_low)
            self._take(taken, replacing=bool(put))
            self._strands.put(place, put)
            self._crowds.stand_until(place + len(put))
        return self._strands.whole()

    def _put_again(self, block: Block, lines: Sequence[str]) -> bool:
        """Whether lines are only put back that were taken out there, whoever does that: then they
        are those of whoever wrote them first."""
        standing = self._standing
        low = standing[block.a_low - 1] + 1 if block.a_low else 0
        high = standing[block.a_high] if block.a_high < len(standing) else len(self._strands)
        wanted, back = list(reversed(lines)), list[int]()
        for place in range(low, high):
            strand = self._strands[place]
            if wanted and not strand.stands and strand.text == wanted[-1]:
                back.append(place)
                wanted.pop()
        if wanted or not back:
            return False
        self._take(standing[block.a_low : block.a_high], replacing=True)
        for place in back:
            strand = self._strands[place]
            strand.gone_by, strand.replaced, strand.crowded = None, False, False
        for place in range(low, high):
            self._strands[place].crowded = False
        self._crowds.stand_until(high)
        return True

    def _gap(self, number: int) -> int:
        """Where something comes between two lines. What was taken out between them may belong
        before or after it: that is known only where its author put something in its place."""
        standing = self._standing
        first = standing[number - 1] + 1 if number else 0
        last = standing[number] if number < len(standing) else len(self._strands)
        follows = self._strands[last].by if last < len(self._strands) else None
        between = (self._strands[place] for place in range(first, last))
        gone = [each for each in between if each.gone_by != self._by]
        if gone and follows is not None and all(each.gone_by == follows for each in gone):
            return first
        for each in gone:
            each.crowded = True
        return last

    def _take(self, places: Sequence[int], *, replacing: bool) -> None:
        for place in places:
            strand = self._strands[place]
            strand.gone_by = self._by
            if strand.by != self._by:
                strand.replaced = replacing
                self._crowds.gather_around(place, strand.by)


class _Passage:
    """Strands with a gap where something was put last: what is put nearby moves few of them."""

    def __init__(self, strands: list[Strand]) -> None:
        self._before = strands
        self._behind: list[Strand] = []  # the last one first

    def __len__(self) -> int:
        return len(self._before) + len(self._behind)

    def __getitem__(self, place: int) -> Strand:
        behind = place - len(self._before)
        return self._before[place] if behind < 0 else self._behind[-1 - behind]

    def put(self, place: int, strands: Sequence[Strand]) -> None:
        while len(self._before) > place:
            self._behind.append(self._before.pop())
        while len(self._before) < place:
            self._before.append(self._behind.pop())
        self._before += strands

    def whole(self) -> list[Strand]:
        return self._before + self._behind[::-1]


class _Crowds:
    """Finds in one writing, which goes from the end to the beginning, what cannot come back by
    itself. What was passed is not gone through again: of each author it is known which strands
    before the last place were, by their numbers, and which behind it, counted from the end."""

    def __init__(self, strands: _Passage) -> None:
        self._strands = strands
        self._before: dict[str, tuple[int, int]] = {}
        self._behind: dict[str, tuple[int, int]] = {}

    def gather_around(self, place: int, author: str) -> None:
        """What an author took out cannot come back by itself where others have taken out what the
        author put there instead."""
        low, high = self._before.get(author, (0, 0))
        at = place - 1
        while at >= 0:
            if low <= at < high:
                at = low - 1
            elif self._pass(self._strands[at], author):
                at -= 1
            else:
                break
        self._before[author] = at + 1, place
        count = len(self._strands)
        low, high = (count - each for each in self._behind.get(author, (0, 0)))
        at = place + 1
        while at < count:
            if low <= at < high:
                at = high
            elif self._pass(self._strands[at], author):
                at += 1
            else:
                break
        self._behind[author] = count - place - 1, count - at

    def _pass(self, strand: Strand, author: str) -> bool:
        """Whether what lies beyond a strand is at the same place."""
        if strand.stands and strand.by != author:
            return False
        if strand.gone_by == author:
            strand.crowded = True
        return True

    def stand_until(self, place: int) -> None:
        """Something stands before a place that did not: that is looked at again."""
        left = len(self._strands) - place
        self._behind = {by: (min(low, left), high) for by, (low, high) in self._behind.items()}


def lines_of(data: bytes) -> list[str]:
    """The lines of a text with their ends: a last line without one equals only another without."""
    *whole, last = data.decode(_AS_IT_IS).split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])


def shown(line: str) -> str:
    """A line as people read it, without its end."""
    return line.removesuffix("\n").encode(_AS_IT_IS).decode("utf-8", "replace")


def joined(lines: Iterator[str]) -> bytes:
    """Lines as one text: one that had no end gets one where another follows."""
    texts = list(lines)
    return "".join(
        each if each.endswith("\n") or number == len(texts) else f"{each}\n"
        for number, each in enumerate(texts, 1)
    ).encode(_AS_IT_IS)


def blocks_between(old: Sequence[str], new: Sequence[str]) -> list[Block]:
    """What differs between lines, any of which may lack its end: it is marked, by what no text
    holds."""
    if not old or not new:
        return [Block(0, len(old), 0, len(new))] if old or new else []
    if len(old) == len(new) == 1:  # as most are, and a long text has many
        return [] if old[0] == new[0] else [Block(0, 1, 0, 1)]
    a, b = (
        "".join(each if each.endswith("\n") else f"{each}\0\n" for each in side)
        for side in (old, new)
    )
    return list(chain.from_iterable(hunks_between(a, b, context=0)))


def _net(group: Sequence[Strand], mine: Mine) -> tuple[list[WovenHunk], list[Strand]]:
    """What is left of changes that touch each other once what was put back is left out, and the
    strands in an order in which each line that was taken out stands before what came instead."""
    removed = [
        each
        for each in group
        if not mine(each.by) and each.gone_by is not None and mine(each.gone_by)
    ]
    added = [each for each in group if mine(each.by) and each.stands]
    if not removed and not added:
        return [], list(group)
    old, new = ([each.text for each in side] for side in (removed, added))
    hunks: list[WovenHunk] = []
    strands: list[Strand] = []
    done = 0
    for block in blocks_between(old, new):
        strands += _put_back(removed[done : block.a_low])
        hunk = WovenHunk(removed[block.a_low : block.a_high], added[block.b_low : block.b_high])
        strands += (*hunk.removed, *hunk.added)
        hunks.append(hunk)
        done = block.a_high
    strands += _put_back(removed[done:])
    return hunks, strands


def _put_back(strands: Sequence[Strand]) -> Sequence[Strand]:
    """Lines that were taken out and put back as they were: they stand, and were never touched."""
    for each in strands:
        each.gone_by = None
        each.crowded = False
    return strands
