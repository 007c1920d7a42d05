"""Whose lines are whose: a text with everything that was ever in it, and who put and took what.

Each line that was there at some time is a `Strand`; what stands there now are the strands that
nobody has taken out. So what one author did in all can be told apart from what others did in
between, and taken back without touching theirs. All of it is over bytes, each a character
(`latin-1`), so that nothing is lost in decoding.
"""

from __future__ import annotations

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

    @property
    def data(self) -> bytes:
        """What stands there now."""
        return joined(each.text for each in self._strands if each.stands)

    def write(self, by: str, data: bytes) -> None:
        """What ``by`` made of it: the whole text afterwards."""
        new = lines_of(data)
        standing = [place for place, each in enumerate(self._strands) if each.stands]
        old = [self._strands[place].text for place in standing]
        crowds = _Crowds(self._strands)
        for block in reversed(blocks_between(old, new)):
            taken = standing[block.a_low : block.a_high]
            if self._put_again(standing, block, new[block.b_low : block.b_high], by, crowds):
                continue
            put = [Strand(each, by, late=self._late) for each in new[block.b_low : block.b_high]]
            place = taken[-1] + 1 if taken else self._gap(standing, block.a_low, by)
            self._take(taken, by, crowds, replacing=bool(put))
            self._strands[place:place] = put
            crowds.stand_until(place + len(put))

    def _put_again(
        self, standing: Sequence[int], block: Block, lines: Sequence[str], by: str, crowds: _Crowds
    ) -> bool:
        """Whether lines are only put back that were taken out there, whoever does that: then they
        are those of whoever wrote them first."""
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
        self._take(standing[block.a_low : block.a_high], by, crowds, replacing=True)
        for place in back:
            strand = self._strands[place]
            strand.gone_by, strand.replaced, strand.crowded = None, False, False
        for place in range(low, high):
            self._strands[place].crowded = False
        crowds.stand_until(high)
        return True

    def _gap(self, standing: Sequence[int], number: int, by: str) -> int:
        """Where something comes between two lines. What was taken out between them may belong
        before or after it: that is known only where its author put something in its place."""
        first = standing[number - 1] + 1 if number else 0
        last = standing[number] if number < len(standing) else len(self._strands)
        follows = self._strands[last].by if last < len(self._strands) else None
        gone = [each for each in self._strands[first:last] if each.gone_by != by]
        if gone and follows is not None and all(each.gone_by == follows for each in gone):
            return first
        for each in gone:
            each.crowded = True
        return last

    def _take(self, places: Sequence[int], by: str, crowds: _Crowds, *, replacing: bool) -> None:
        for place in places:
            strand = self._strands[place]
            strand.gone_by = by
            if strand.by != by:
                strand.replaced = replacing
                crowds.gather_around(place, strand.by)

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
        now, wanted = self._stands_instead(hunk), [each.text for each in hunk.removed]
        return any(now[at : at + len(wanted)] == wanted for at in range(len(now) - len(wanted) + 1))

    def _stands_instead(self, hunk: WovenHunk) -> list[str]:
        """The lines that others have put where the hunk is."""
        parts = {id(each) for each in (*hunk.removed, *hunk.added)}
        places = [place for place, each in enumerate(self._strands) if id(each) in parts]
        low, high = places[0], places[-1] + 1
        while low > 0 and (self._strands[low - 1].late or not self._strands[low - 1].stands):
            low -= 1
        while high < len(self._strands) and (
            self._strands[high].late or not self._strands[high].stands
        ):
            high += 1
        return [each.text for each in self._strands[low:high] if each.stands]

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


class _Crowds:
    """Finds in one writing, which goes from the end to the beginning, what cannot come back by
    itself. What was passed is not gone through again: of each author it is known which strands
    before the last place were, by their numbers, and which behind it, counted from the end."""

    def __init__(self, strands: list[Strand]) -> None:
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
