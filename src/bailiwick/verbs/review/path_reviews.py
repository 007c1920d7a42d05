"""What agents made of one path since people agreed to it, told by its versions and by what people
said at which of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from bailiwick.grant import subject_stands_above
from bailiwick.model import EntryType
from bailiwick.paths import ScopedPath
from bailiwick.reviews import HunkVerdict, ReviewFile, ReviewHunk
from bailiwick.runs import RunRow
from bailiwick.text.reviewed import ReviewedText, ReviewHunkLines
from bailiwick.text.weave import lines_of, shown
from bailiwick.verbs.review.names import HunkName
from bailiwick.verbs.runs.displaced_things import Displaced
from bailiwick.verbs.runs.moved_back import WHOLE_RUN
from bailiwick.verbs.runs.path_stories import (
    OVER_ANOTHER,
    ModeChange,
    Stories,
    hunk_header,
    hunk_id,
    hunk_lines,
    is_unlisted,
    kind_between,
    whole_texts,
)
from bailiwick.verbs.runs.planned_return import (
    PlannedReturn,
    return_text,
    return_whole,
)
from bailiwick.verbs.runs.story_contents import StoryContent, differs, is_text, text_at
from bailiwick.verbs.text_work import worked_out
from bailiwick.versions import Conflict, Version

RunOf = Callable[[Version], str | None]
"""Which run a version is of; None for what a person did, or a program that nobody here knows."""


def is_agents(version: Version) -> bool:
    return bool(version.subject) and not subject_stands_above(version.subject)


class HunksAsked(NamedTuple):
    """What has to be known of earlier looks: what was shown at some versions; and whether to keep
    all places that a hunk had, for hunks that are named without a version."""

    versions: frozenset[str] = frozenset()
    places: bool = False

    @classmethod
    def by(cls, names: Collection[HunkName]) -> HunksAsked:
        versions = frozenset(each.version.partition(".")[0] for each in names if each.version)
        return cls(versions, any(each.version is None for each in names))


class LeftHunk(NamedTuple):
    """A hunk that is left, by its id; ``lines`` is None where all of the path is meant, or its
    ``modes``: that which was agreed to, and that which it has."""

    id: str
    run: str
    runs: tuple[str, ...]
    lines: ReviewHunkLines | None
    modes: ModeChange | None = None


class PathReview:
    """A path, from what people agreed to on: versions and verdicts come one after the other.
    ``path`` is that of its last version, ``place`` where it lies; ``replaced`` is what stood where
    an agent has moved it to. ``unlisted`` is the last version of the whole tree that
    changed more than is told by path. ``seen`` says what was looked at: its version, and what
    others have made of it without one, ``first`` is the first version that is told."""

    def __init__(self, agreed: StoryContent | None, path: ScopedPath) -> None:
        self.path = self.place = path
        self.first = self.version = self.seen = ""
        self.replaced: Displaced | None = None
        self.unlisted = ""
        self.type: EntryType = "file" if agreed is None else agreed.type
        self.agreed = agreed
        self.now = agreed
        self._text = ReviewedText(text_at(agreed)) if is_text(agreed) else None
        self._runs: dict[str, int] = {}  # when each touched it last
        self._steps = 0
        self._lost_by: str | None = None  # whose doing is lost, until something is known again
        self._used: dict[str, set[int]] = {}
        self._shown: dict[tuple[str, str], ReviewHunkLines] = {}
        self._shown_alike: dict[tuple[str, str], list[tuple[str, str]]] = {}
        self._places: dict[str, list[ReviewHunkLines]] = {}

    def step(self, run: str | None, stood: StoryContent | None) -> None:
        """What a run, or with None a person, made of it."""
        self._steps += 1
        before, self.now = self.now, stood
        if stood is not None:
            self.type, self.path = stood.type, stood.path
        self.place = self.path
        if stood is not None and stood.is_lost and self._text is not None:
            self._pass_over(run, before, stood)
            return
        if run is None and stood is not None:
            run = self._lost_by
        self._lost_by = None
        fits = is_text(self.agreed) and is_text(stood)
        if run is None:
            self._take_of_person(before, stood, fits)
            return
        self._runs[run] = self._steps
        if fits:
            if self._text is None:
                self._text = ReviewedText(text_at(self.agreed))
            self._text.write(run, text_at(stood))
        elif self._text is not None:
            self._keep_agreed(self._text.agreed)
            self._text = None

    def _take_of_person(
        self, before: StoryContent | None, stood: StoryContent | None, fits: bool
    ) -> None:
        """What a person writes is agreed to; ``fits`` says that it can be told line by line."""
        if before is None or stood is None:  # who makes or removes all of it agrees to all
            self._text = ReviewedText(text_at(stood)) if is_text(stood) else None
            self.agreed = stood
            return
        if self.agreed is not None and _mode(before) == _mode(stood):
            stood = stood._replace(mode=self.agreed.mode)  # it has that which an agent set
        if self.agreed is not None and _goes_on(before, stood):
            stood = stood._replace(path=self.agreed.path)  # it lies where an agent moved it
        if fits and self._text is not None:
            self._text.write(None, text_at(stood))
        elif not differs(before, stood):
            # Who moves it has not written what is in it.
            if self.agreed is not None and self.agreed.path == before.path:
                self.agreed = self.agreed._replace(path=stood.path)
            return
        else:
            self._text = ReviewedText(text_at(stood)) if is_text(stood) else None
        self.agreed = stood

    def _pass_over(self, run: str | None, before: StoryContent | None, stood: StoryContent) -> None:
        """A step that left what is lost. Where it was an agent's, what differs in the end may be
        its doing: nobody takes that for agreed to."""
        if run is not None:
            self._lost_by = run
            self._runs[run] = self._steps
        elif self.agreed is not None and before is not None:
            if self.agreed.path == before.path:
                self.agreed = self.agreed._replace(path=stood.path)
            if _mode(before) != _mode(stood):
                self.agreed = self.agreed._replace(mode=stood.mode)

    @property
    def size(self) -> int:
        """Of the texts that it is told by."""
        return len(text_at(self.agreed)) + len(text_at(self.now))

    def carry(self, place: ScopedPath) -> None:
        """It lies elsewhere, with a directory above it, whose move is told of that. Its hunks are
        called as they were."""
        if place == self.path:
            return
        if self.agreed is not None and self.agreed.path == self.path:
            self.agreed = self.agreed._replace(path=place)
        if self.now is not None:
            self.now = self.now._replace(path=place)
        self.place = place

    def agree_to_place(self) -> None:
        """It stays where it lies: a person has something else lie where it came from."""
        if self.agreed is not None and self.now is not None:
            self.agreed = self.agreed._replace(path=self.now.path)

    def _keep_agreed(self, data: bytes) -> None:
        if self.agreed is not None and data != self.agreed.data:
            sha256 = hashlib.sha256(data).hexdigest()
            self.agreed = self.agreed._replace(data=data, sha256=sha256, size=len(data))

    # --- what is left --------------------------------------------------------------------------

    def hunks(self) -> list[LeftHunk]:
        pieces = [] if self._text is None else self._text.hunks()
        if not pieces and self._is_other():
            return [self._whole()]
        numbers: dict[str, int] = {}
        left = []
        for piece in pieces:
            runs = sorted(piece.runs, key=lambda run: self._runs.get(run, 0))
            run = runs[-1] if runs else ""
            digest = hunk_id(run, self.path, *piece.texts)
            number = numbers.get(digest, 0) + 1
            while number in self._used.get(digest, ()):
                number += 1
            numbers[digest] = number
            id = digest if number == 1 else hunk_id(run, self.path, digest, str(number))
            left.append(LeftHunk(id, run, tuple(runs), piece))
        return [*left, *self._mode()]

    @property
    def home(self) -> ScopedPath | None:
        """Where it comes back to if it is taken back, if that is not where it stands."""
        if self.agreed is None or (self.now is not None and self.now.path == self.agreed.path):
            return None
        return self.agreed.path

    @property
    def is_lost_directory(self) -> bool:
        return self.now is None and self.agreed is not None and self.agreed.type == "directory"

    def _is_other(self) -> bool:
        """Whether it is another thing than was agreed to, whatever its lines are."""
        agreed, now = self.agreed, self.now
        if agreed is None or now is None:
            return agreed is not now
        if self.unlisted:
            return True
        if agreed.path != now.path:
            return True
        return self._text is None and differs(agreed, now)

    def _mode(self) -> list[LeftHunk]:
        agreed, now = self.agreed, self.now
        if agreed is None or now is None or agreed.mode == now.mode or agreed.type != now.type:
            return []
        run = max(self._runs, key=self._runs.__getitem__, default="")
        modes = ModeChange(agreed.mode, now.mode)
        return [LeftHunk(modes.id(run, self.path), run, (run,), None, modes)]

    def _whole(self) -> LeftHunk:
        runs = sorted(self._runs, key=self._runs.__getitem__)
        run = runs[-1] if runs else ""
        old, new = whole_texts(self.agreed, self.now)
        id = hunk_id(run, self.path, old, f"{new} {self.unlisted}" if self.unlisted else new)
        return LeftHunk(id, run, (run,), None)

    # --- which one is meant --------------------------------------------------------------------

    def remember(self, asked: HunksAsked) -> None:
        """Keep what is shown now, where it will be asked for."""
        if not asked.places and self.version not in asked.versions:
            return
        for hunk in self.hunks():
            if hunk.lines is None:
                continue
            if (called := (self.seen, hunk.id)) not in self._shown:
                self._shown[called] = hunk.lines
                self._shown_alike.setdefault(hunk.lines.texts, []).append(called)
            places = self._places.setdefault(self._digest(hunk), [])
            if not any(each.is_at(hunk.lines) for each in places):
                places.append(hunk.lines)

    def is_shown(self, name: HunkName, hunk: LeftHunk) -> bool:
        """Whether a hunk is the one that had a name at a version: the same lines at the same
        place, whatever it is called by now."""
        if hunk.lines is None:
            return name.begins(hunk.id)  # that says all of it
        return any(
            version == name.version and name.begins(id) for version, id in self.shown_as(hunk)
        )

    def shown_as(self, hunk: LeftHunk) -> list[tuple[str, str]]:
        """At which versions a hunk that has lines was shown, and what it was called then."""
        assert hunk.lines is not None
        alike = self._shown_alike.get(hunk.lines.texts, ())
        return [called for called in alike if self._shown[called].is_at(hunk.lines)]

    def is_unclear(self, hunk: LeftHunk, chosen: Collection[str]) -> bool:
        """Whether the id of a hunk does not say which one is meant: others do the same elsewhere,
        or did, since somebody has last said something of it."""
        if hunk.lines is None:
            return False
        digest = self._digest(hunk)
        alike = [each for each in self.hunks() if each.lines and self._digest(each) == digest]
        left_out = any(each.id not in chosen for each in alike)
        return left_out or len(self._places.get(digest, ())) > len(alike)

    def _digest(self, hunk: LeftHunk) -> str:
        assert hunk.lines is not None
        return hunk_id(hunk.run, self.path, *hunk.lines.texts)

    # --- what people say -----------------------------------------------------------------------

    def say(self, hunks: Collection[str], *, accepted: bool) -> None:
        """Take what was said of hunks, as far as they are left."""
        left = self.hunks()
        chosen = [each for each in left if each.id in hunks]
        if not chosen:
            return
        for each in chosen:
            if each.lines is not None:
                self._places.pop(self._digest(each), None)
        lines = [each.lines for each in chosen if each.lines is not None]
        if self._text is not None:
            (self._text.accept if accepted else self._text.take_back)(lines)
        if not accepted:
            return
        for each in chosen:
            self._use(each)
        if self.now is not None and self.now.is_lost and lines:
            self._agree_to_lines(self.now, any(each.modes for each in chosen))
        elif len(chosen) == len(left):
            self.unlisted = ""
            self.agreed = self.now
            self._text = ReviewedText(text_at(self.now)) if is_text(self.now) else None
            self._runs.clear()
        elif self.agreed is None:
            self.agreed = self.now
        elif self.now is not None and any(each.modes for each in chosen):
            self.agreed = self.agreed._replace(mode=self.now.mode)

    def _agree_to_lines(self, now: StoryContent, with_mode: bool) -> None:
        """Of a version that is lost there was more when a person said that: no more is agreed to
        than the lines that are known still."""
        assert self._text is not None, "it has lines"
        agreed = self.agreed or now._replace(data=None, is_lost=False)
        self.agreed = agreed._replace(mode=now.mode) if with_mode else agreed
        self._keep_agreed(self._text.agreed)

    def _use(self, hunk: LeftHunk) -> None:
        """Of hunks that do the same, each has its own number for as long as the path is told."""
        if hunk.lines is None:
            return
        digest = self._digest(hunk)
        used = self._used.setdefault(digest, set())
        number = 1
        while hunk.id != (
            digest if number == 1 else hunk_id(hunk.run, self.path, digest, str(number))
        ):
            number += 1
        used.add(number)

    def take_back(
        self, planned: PlannedReturn, hunks: Collection[str], contents: Mapping[str, bytes]
    ) -> None:
        """Add what becomes of it when hunks are taken back."""
        left = self.hunks()
        chosen = [each for each in left if each.id in hunks]
        lines = [each.lines for each in chosen if each.lines is not None]
        agreed, now = self.agreed, self.now
        is_whole = len(chosen) == len(left)
        if self.unlisted:
            # More than is told here would have to come back.
            planned.conflicts.append(Conflict(self.place, WHOLE_RUN))
            return
        planned.tell_of(self.first, self.version)
        if is_whole and self.home is not None:
            planned.come_again(self.replaced, contents)
        if self._text is None:
            return_whole(planned, self.place, agreed, now, contents)
            return
        data = self._text.without(lines)
        home = agreed.path if is_whole and agreed is not None else self.place
        gives_mode = agreed is not None and (is_whole or any(each.modes for each in chosen))
        mode = agreed.mode if gives_mode and agreed is not None else None
        return_text(planned, home, agreed, now, data if data or not is_whole else None, mode)

    # --- showing -------------------------------------------------------------------------------

    def shown(self, rows: Mapping[str, RunRow]) -> ReviewFile | None:
        """What is left, for people; None where nothing is."""
        left = self.hunks()
        if not left:
            return None
        kind = kind_between(self.agreed, self.now) or "updated"
        otherwise = f"{kind} {self.type}" + (OVER_ANOTHER if self.replaced else "")
        if self.unlisted:
            otherwise = "more was changed at once than is told by path"
        hunks = [_shown(each, otherwise, rows) for each in left]
        return ReviewFile(
            path=self.place, kind=kind, type=self.type, version=self.seen,
            origin=None if self.home == self.place else self.home,
            replaces=self.replaced is not None,
            added=sum(each.added for each in hunks), removed=sum(each.removed for each in hunks),
            hunks=hunks,
        )  # fmt: skip

    def lines_of(self, hunk: LeftHunk, run: str) -> list[str]:
        """The lines of a hunk that are a run's doing."""
        if hunk.lines is None:
            return []
        return [
            f"{sign}{shown(line.text)}"
            for sign, side in (("-", hunk.lines.removed), ("+", hunk.lines.added))
            for line in side
            if line.runs and line.runs[-1] == run
        ]


def _shown(hunk: LeftHunk, otherwise: str, rows: Mapping[str, RunRow]) -> ReviewHunk:
    row, lines = rows.get(hunk.run), hunk.lines
    return ReviewHunk(
        id=hunk.id, run=hunk.run, subject="" if row is None else row.subject,
        title=None if row is None else row.title, runs=list(hunk.runs),
        header=_header(hunk, otherwise),
        lines=[] if lines is None else hunk_lines(lines),
        added=0 if lines is None else len(lines.added),
        removed=0 if lines is None else len(lines.removed),
    )  # fmt: skip


def _header(hunk: LeftHunk, otherwise: str) -> str:
    if hunk.modes is not None:
        return hunk.modes.header
    return otherwise if hunk.lines is None else hunk_header(hunk.lines)


def _goes_on(before: StoryContent, stood: StoryContent) -> bool:
    """Whether it is the same text at the same place, with some lines written anew."""
    if before.path != stood.path or before.data is None or stood.data is None:
        return False
    return not set(lines_of(before.data)).isdisjoint(lines_of(stood.data))


def _mode(stood: StoryContent | None) -> int | None:
    return None if stood is None else stood.mode


# --- telling it from versions -----------------------------------------------------------------


async def path_review(
    telling: Stories,
    versions: Sequence[Version],
    run_of: RunOf,
    said: Sequence[HunkVerdict],
    settled_through: int,
    place: ScopedPath,
    now: StoryContent | None,
    asked: HunksAsked = HunksAsked(),  # noqa: B008
) -> PathReview | None:
    """What is left of what lies at a place, of which all versions are given, oldest first, and what
    stands there; None where no agent did anything since it was agreed to."""
    at = {(each.version, str(each.path)): place for place, each in enumerate(versions)}
    settled = [place for place, each in enumerate(versions) if int(each.version) <= settled_through]
    settled += [at[each.version, each.path] for each in said if each.settles and _key(each) in at]
    since = max(settled) + 1 if settled else 0
    first = next((p for p in range(since, len(versions)) if is_agents(versions[p])), None)
    if first is None:
        return None
    agreed = {_key(each) for each in said if each.accepted and each.settles}

    def is_agreed(version: Version) -> bool:
        key = version.version, str(version.path)
        return int(version.version) <= settled_through or key in agreed

    review = PathReview(await telling.before(versions, first), versions[first].path)
    review.first = moved = versions[first].version
    for version in versions[first:]:
        stood = await telling.left_by(version, now)
        size = review.size + len(text_at(stood))
        home = review.home
        await worked_out(size, review.step, run_of(version), stood)
        if version.kind == "moved":
            moved = version.version
        elif (
            home is not None
            and not is_agents(version)
            and await telling.has_come(home, moved, version.version)
        ):
            review.agree_to_place()
        review.path, review.version = version.path, version.version
        review.seen = version.version
        if is_unlisted(version) and is_agents(version):
            review.unlisted = version.version
        await worked_out(size, review.remember, asked)
        if version.kind == "moved":
            is_left = is_agents(version) and not is_agreed(version)
            left = telling.replaced_by(version, place, is_agreed) if is_left else None
            review.replaced = None if left is None else await left
        for hunks, accepted in _together(said, version):
            await worked_out(size, partial(review.say, accepted=accepted), hunks)
            await worked_out(size, review.remember, asked)
        if review.agreed is not None and review.agreed.path == version.path:
            review.replaced = None  # that it lies there is agreed to
    review.carry(place)
    if differs(now, review.now):
        size = review.size + len(text_at(now))
        await worked_out(size, review.step, None, now)
        review.path, review.place = versions[-1].path, place
        review.seen = f"{review.version}.{_mark(now)}"
        await worked_out(size, review.remember, asked)
    return review


def _mark(stood: StoryContent | None) -> str:
    told = "" if stood is None else f"{stood.type} {stood.sha256} {stood.target}"
    return hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _key(said: HunkVerdict) -> tuple[str, str]:
    return said.version, said.path


def _together(said: Sequence[HunkVerdict], version: Version) -> Iterator[tuple[set[str], bool]]:
    """What was said at a version, in order, with what was said alike."""
    hunks: set[str] = set()
    accepted = True
    for each in said:
        if _key(each) != (version.version, str(version.path)):
            continue
        if hunks and each.accepted != accepted:
            yield hunks, accepted
            hunks = set()
        hunks.add(each.hunk)
        accepted = each.accepted
    if hunks:
        yield hunks, accepted
