"""What became of a path, version by version, and what one run had in it.

Everything here goes by the versions that a store keeps and who made each. A version that nobody
here made (another program's, on a directory of the host) is of somebody else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from itertools import zip_longest
from typing import Final, NamedTuple, Protocol

from bailiwick.call import Call
from bailiwick.errors import BailiwickError, PathNotFound, PermissionDenied
from bailiwick.model import EntryType
from bailiwick.paths import ScopedPath
from bailiwick.runs import Hunk, OthersHunk, RunChange, mode_header
from bailiwick.store import Reader
from bailiwick.text.diff import NO_NEWLINE
from bailiwick.text.weave import HunkState, Weave, WovenHunk, shown
from bailiwick.unfollowed import unfollowed
from bailiwick.verbs.runs.displaced_things import Displaced, DisplacedThings, IsOurs
from bailiwick.verbs.runs.former_things import before_what_left, went
from bailiwick.verbs.runs.story_contents import (
    StoryContent,
    differs,
    is_left_by,
    look_at,
    text_at,
)
from bailiwick.versions import ChangeKind, Past, Version, past

OURS: Final = "\0run"
"""The author of what the run did, which no subject is called."""

_LOST: Final = "?"
"""In the place of a hash: what stood there is not kept any more."""

_PAGE: Final = 500

_ID_DIGITS: Final = 32
"""Who writes the lines can try as many as they like: nobody finds two changes with the same id, so
that what a person agrees to is what they were shown."""

OVER_ANOTHER: Final = " over another"
"""What is said of something that was moved to where something else stood."""


class StoryStep(NamedTuple):
    """One version: who made it (`OURS` for the run), and what stood there then; None: nothing."""

    by: str
    stood: StoryContent | None

    @property
    def is_lost(self) -> bool:
        return self.stood is not None and self.stood.is_lost


class ModeChange(NamedTuple):
    """What a mode was, and what it became."""

    before: int
    after: int

    def id(self, run: str, path: ScopedPath) -> str:
        """The name of such a change, which is a hunk by itself."""
        return hunk_id(run, path, f"mode {self.before:o}", f"mode {self.after:o}")

    @property
    def header(self) -> str:
        return mode_header(self.before, self.after)


class PathStory(NamedTuple):
    """What became of one place. ``before`` is what the run found when it touched it first, and
    where others have moved that meanwhile, if the run itself did not: it ``was_at`` another place
    then. ``during`` are all versions until it touched it last, ``since`` those after that, up to
    now, and ``version`` is the last of them. ``replaced`` is what stood where the run has moved it
    to, if it was not moved on; ``is_back`` says that what it moved lies where it lay before.
    ``first`` is the version by which it touched it first."""

    path: ScopedPath
    type: EntryType
    before: StoryContent | None
    during: list[StoryStep]
    since: list[StoryStep]
    version: str = ""
    replaced: Displaced | None = None
    was_at: ScopedPath | None = None
    is_back: bool = False
    first: str = ""

    @property
    def after(self) -> StoryContent | None:
        return self.during[-1].stood

    @property
    def now(self) -> StoryContent | None:
        return (self.since or self.during)[-1].stood

    @property
    def home(self) -> ScopedPath:
        """Where it lay before the run, or lies where it was not there yet."""
        return self.path if self.before is None else self.before.path

    @property
    def is_moved(self) -> bool:
        """Whether the run had it lie elsewhere in the end, or removed it from elsewhere."""
        left = self.path if self.after is None else self.after.path
        return self.before is not None and self.before.path != left

    @property
    def modes(self) -> ModeChange | None:
        """What the run made of its mode, where it was one thing before and after."""
        before, after = self.before, self.after
        if before is None or after is None or before.sha256 == _LOST or before.type != after.type:
            return None
        mode, found, left = before.mode, before.mode, None
        for by, stood in self.during:
            if stood is not None and stood.mode != mode:
                if by == OURS:
                    found, left = mode if left is None else found, stood.mode
                mode = stood.mode
        if left is None or left == found or after.type == "symlink":
            return None
        return ModeChange(found, left)

    def mode_state(self, modes: ModeChange) -> HunkState:
        """Whether what the run made of its mode still stands."""
        if self.is_back and (self.now is None or self.now.path != self.home):
            return "undone"  # it was put there anew, as it was
        now = None if self.now is None else self.now.mode
        return "undone" if now == modes.before else "stands" if now == modes.after else "changed"

    @property
    def is_mixed(self) -> bool:
        """Whether others had something else there in between, of which the run made what it
        left."""
        stood = self.before
        for by, each in self.during:
            if by != OURS and each and differs(each, stood) and differs(each, self.before):
                return True
            stood = each
        return False

    @property
    def is_text(self) -> bool:
        """Whether all of it is files that hold text, or nothing."""
        return all(each is None or each.data is not None for each in self._stood)

    @property
    def size(self) -> int:
        """Of all texts that it is told by."""
        return sum(len(text_at(each)) for each in self._stood)

    @property
    def _stood(self) -> list[StoryContent | None]:
        return [self.before, *(each.stood for each in (*self.during, *self.since))]


def ours_by(requests: Mapping[str, str | None], subject: str, step: str | None = None) -> IsOurs:
    """Whether a version is of a run, or of one step of it."""
    wanted = {each for each, of in requests.items() if step is None or of == step}
    return lambda version: version.subject == subject and version.request_id in wanted


def is_unlisted(version: Version) -> bool:
    """Whether a version changed so much at once that it is told of the whole tree, and not by
    path."""
    return version.path.is_root and version.kind == "updated" and version.type == "directory"


def _without_lost(steps: Sequence[StoryStep]) -> list[StoryStep]:
    """Steps without what others left that is lost, and what others made of it: both are told as
    the doing of the latter."""
    return [
        step
        for step, then in zip_longest(steps, steps[1:])
        if step.by == OURS or not step.is_lost or then is None or then.by == OURS
    ]


def _nothing(_: Version) -> bool:
    return False


class Stories:
    """Tells the stories of paths, with each version opened once."""

    def __init__(self, call: Call, is_ours: IsOurs) -> None:
        self._call = call
        self._looking: Past = past(call.store)
        self._is_ours = is_ours
        self.contents: dict[str, bytes] = {}
        """What was read, by its hash: files that are no text, too."""
        self.knows_all = "Watches" not in call.store.powers
        """Whether there is a version of every change: no programs that nobody here knows make
        any."""

    async def of(self, path: ScopedPath) -> tuple[PathStory | None, set[tuple[str, ScopedPath]]]:
        """The story of what stands, or stood, at a path; and which versions it covers."""
        versions = await self.versions(path)
        return await self.by(path, versions), {(each.version, each.path) for each in versions}

    async def by(self, path: ScopedPath, versions: Sequence[Version]) -> PathStory | None:
        """The story of a path whose versions are known, oldest first: from its creation on, or from
        before the run touched it."""
        places = [place for place, each in enumerate(versions) if self._is_ours(each)]
        if not places:
            return None
        first, last = places[0], places[-1]
        now = await self.now(path)
        before = await self.before(versions, first)
        steps = [await self._step(each, now) for each in versions[first:]]
        during, since = steps[: last + 1 - first], steps[last + 1 - first :]
        last_stood = (since or during)[-1].stood
        # It may have been carried with a directory above it, too, or another program set its mode.
        if differs(now, last_stood) or (
            now and last_stood and (now.path, now.mode) != (last_stood.path, last_stood.mode)
        ):
            since.append(StoryStep("", now))
        during, since = _without_lost(during), _without_lost(since)
        moves = [versions[place] for place in places if versions[place].kind == "moved"]
        is_last = moves and moves[-1].path == versions[-1].path
        replaced = await self.replaced_by(moves[-1], path) if is_last else None
        newest, was_at = versions[-1].version, None if before is None else before.path
        theirs = [each for each in versions[first:last] if each.kind == "moved"]
        if before is not None and theirs and not moves:
            before = before._replace(path=theirs[-1].path)
        is_back = False
        if moves and before is not None:
            again = None if replaced is None else replaced.stood
            is_left = before.path == path or not differs(now, again)
            is_back = is_left and not differs(await self.now(before.path), before)
        return PathStory(
            path, versions[last].type, before, during, since, newest, replaced, was_at, is_back,
            versions[first].version,
        )  # fmt: skip

    async def before(self, versions: Sequence[Version], place: int) -> StoryContent | None:
        """What stood there before one of some versions, which are all that there are."""
        if place:
            stood, following = await self.stood(versions[place - 1]), versions[place]
            if stood is None:
                return None
            lay: ScopedPath | None = following.path
            if following.kind == "moved":
                lay = await self._looking.origin(following.path, following.version)
            # It may have come elsewhere with its directory since.
            return stood._replace(path=lay or stood.path)
        first = versions[0]
        if first.kind == "moved":
            # Where it came from is not kept any more: it was something, and not nothing.
            return StoryContent(first.type, first.path, sha256=_LOST)
        return None if first.kind == "created" else await self.stood_before(first)

    async def versions(self, path: ScopedPath) -> list[Version]:
        """Oldest first, of what stands there or stood there last. What was moved away is told where
        it went, and not of what was made in its place since, nor of what stood there before."""
        found = await self._all(path, own=True) or await self._all(path, own=False)
        if found and found[0].kind == "moved" and not await self.stands(path):
            every = await self._all(path, own=False)
            before = before_what_left(path, every) or await self._went_for_it(path, every)
            found = before or found
        for place in range(1, len(found)):
            if found[place].kind == "moved" and found[place - 1].kind == "created":
                del found[place:]
                break
        return found[::-1]

    async def _went_for_it(self, path: ScopedPath, versions: Sequence[Version]) -> list[Version]:
        """What stood at a path, where something came that was moved away again since: of what
        nobody had ever changed nothing else is told."""
        here = [each for each in versions if each.path == path][:2]
        if [each.kind for each in here] != ["moved", "moved"]:
            return []
        came = here[1]
        stood = await self.stood_before(came)
        return [] if stood is None else [went(came, stood.type)]

    async def _all(self, path: ScopedPath, *, own: bool) -> list[Version]:
        found: list[Version] = []
        before: str | None = None
        with suppress(PathNotFound):
            while True:
                page = await self._looking.history(path, before=before, limit=_PAGE, own=own)
                found += page.versions
                if not page.more or not page.versions:
                    break
                before = page.versions[-1].version
        return found

    async def _step(self, version: Version, now: StoryContent | None) -> StoryStep:
        by = OURS if self._is_ours(version) else version.subject
        return StoryStep(by, await self.left_by(version, now))

    async def left_by(self, version: Version, now: StoryContent | None) -> StoryContent | None:
        """What a version left, where ``now`` is what stands there: mostly that, to the byte."""
        if not is_left_by(version, now):
            return await self.stood(version)
        return now if now is None or version.mode is None else now._replace(mode=version.mode)

    async def stood(self, version: Version) -> StoryContent | None:
        if version.kind == "deleted":
            return None
        known = None if version.sha256 is None else self.contents.get(version.sha256)
        store = await self._looking.as_of(version.version)
        try:
            return await self._look(store, version.path, known)
        finally:
            await store.aclose()

    async def stood_before(self, version: Version) -> StoryContent | None:
        """What stood at the path of a version just before it."""
        try:
            store = await self._looking.as_of(str(int(version.version) - 1))
        except (PathNotFound, ValueError):
            return None
        try:
            return await self._look(store, version.path)
        finally:
            await store.aclose()

    async def replaced_by(
        self, move: Version, place: ScopedPath, is_agreed: IsOurs = _nothing
    ) -> Displaced | None:
        """What of others went because a thing was moved to where it lay, which lies at a ``place``
        by now. What people have agreed to is of others."""

        def is_ours(version: Version) -> bool:
            return self._is_ours(version) and not is_agreed(version)

        most = self._call.limits.run_paths_max
        return await DisplacedThings(self, self._looking, is_ours, most).by(move, place)

    async def has_come(self, path: ScopedPath, since: str, until: str) -> bool:
        """Whether others had anything come to a place after one version, until another."""
        return any(
            int(since) < int(each.version) <= int(until) and each.kind != "deleted"
            for each in await self._all(path, own=False)
            if not self._is_ours(each)
        )

    async def now(self, path: ScopedPath) -> StoryContent | None:
        """What stands there; where the machine lets nobody look, what was left there last."""
        found = await self._look(self._call.store, path)
        if found is None and await self._is_hidden(path):
            for newest in (await self._looking.history(path, limit=1)).versions:
                return await self.stood(newest)
        return found

    async def _is_hidden(self, path: ScopedPath) -> bool:
        try:
            (await unfollowed(self._call.store, path)).close()
        except PermissionDenied:
            return True
        except BailiwickError:
            return False
        return False

    async def stands(self, path: ScopedPath) -> bool:
        try:
            entry = await unfollowed(self._call.store, path)
        except BailiwickError:
            return False
        with closing(entry):
            return entry.type is not None

    async def _look(
        self, store: Reader, path: ScopedPath, known: bytes | None = None
    ) -> StoryContent | None:
        return await look_at(store, path, self._call.limits.diff_bytes_max, self.contents, known)


# --- what the run had in it --------------------------------------------------------------------


class WovenStory:
    """The text of a place, with whose lines are whose; and the hunks of the run in it."""

    def __init__(self, run: str, story: PathStory) -> None:
        before = story.before
        self.weave = Weave((before.data or b"") if before else b"", "")
        self.others: list[OthersHunk] = []
        for step in story.during:
            self.weave.write(step.by, text_at(step.stood))
        self.hunks = self.weave.settle(lambda by: by == OURS)
        for step in story.since:
            self.weave.write(step.by or "\0other", text_at(step.stood))
        self.ids = _ids(run, story.path, self.hunks)

    def by_id(self) -> dict[str, WovenHunk]:
        return dict(zip(self.ids, self.hunks, strict=True))


def _ids(run: str, path: ScopedPath, hunks: list[WovenHunk]) -> list[str]:
    """Names of hunks, by what they do; of two that do the same the second has another."""
    seen: dict[str, int] = {}
    ids = []
    for hunk in hunks:
        texts = ("".join(each.text for each in side) for side in (hunk.removed, hunk.added))
        digest = hunk_id(run, path, *texts)
        number = seen[digest] = seen.get(digest, 0) + 1
        ids.append(digest if number == 1 else hunk_id(run, path, digest, str(number)))
    return ids


def hunk_id(run: str, path: ScopedPath, removed: str, added: str) -> str:
    seed = "".join(f"{len(each)} {each}" for each in (run, str(path), removed, added))
    return hashlib.sha256(seed.encode("utf-8", "surrogateescape")).hexdigest()[:_ID_DIGITS]


def whole_id(run: str, story: PathStory) -> str:
    """The name of a change of something that holds no text, which is one hunk."""
    return hunk_id(run, story.path, *whole_texts(story.before, story.after))


def whole_texts(before: StoryContent | None, after: StoryContent | None) -> tuple[str, str]:
    """What such a change is known by."""
    old, new = (
        "" if each is None else f"{each.type} {each.path} {each.sha256} {each.target}"
        for each in (before, after)
    )
    return old, new


def change_of(run: str, story: PathStory) -> RunChange | None:
    """What a run made of a place in all; None where that is nothing."""
    kind = kind_between(story.before, story.after)
    if kind is None:
        return None
    origin = story.home if story.is_moved else None
    if not story.is_text:
        return _whole_change(run, story, kind, origin)
    woven = WovenStory(run, story)
    hunks = [
        Hunk(
            id=id, header=hunk_header(hunk), lines=hunk_lines(hunk), added=len(hunk.added),
            removed=len(hunk.removed),
            state="undone" if story.is_back else woven.weave.state(hunk),
        )
        for id, hunk in zip(woven.ids, woven.hunks, strict=True)
    ]  # fmt: skip
    if not hunks and kind != "updated":
        hunks = [_whole_hunk(run, story)]
    hunks += _mode_hunk(run, story)
    if not hunks:
        return None
    return RunChange(
        path=story.path, kind=kind, type=story.type, origin=origin, version=story.version,
        replaces=story.replaced is not None,
        hunks=hunks,
        added=sum(each.added for each in hunks), removed=sum(each.removed for each in hunks),
        others=_of_others(story), hunk_count=len(hunks),
    )  # fmt: skip


def _whole_change(
    run: str,
    story: PathStory,
    kind: ChangeKind,
    origin: ScopedPath | None,
) -> RunChange | None:
    hunks = [_whole_hunk(run, story)]
    if kind == "updated" and not differs(story.before, story.after):
        hunks = _mode_hunk(run, story)
    if not hunks:
        return None
    return RunChange(
        path=story.path, kind=kind, type=story.type, origin=origin, version=story.version,
        replaces=story.replaced is not None,
        hunks=hunks, hunk_count=len(hunks),
    )  # fmt: skip


def _mode_hunk(run: str, story: PathStory) -> list[Hunk]:
    modes = story.modes
    if modes is None:
        return []
    id, state = modes.id(run, story.path), story.mode_state(modes)
    return [Hunk(id=id, header=modes.header, lines=[], added=0, removed=0, state=state)]


def _whole_hunk(run: str, story: PathStory) -> Hunk:
    id = whole_id(run, story)
    state = "undone" if story.is_back else "stands"
    if not story.is_back and differs(story.now, story.after):
        state = "changed" if differs(story.now, story.before) else "undone"
    header = f"{kind_between(story.before, story.after)} {story.type}"
    if story.replaced:
        header += OVER_ANOTHER
    return Hunk(id=id, header=header, lines=[], added=0, removed=0, state=state)


def kind_between(before: StoryContent | None, after: StoryContent | None) -> ChangeKind | None:
    """What became of a place."""
    if before is None or after is None:
        if before is after:
            return None
        return "created" if before is None else "deleted"
    return "moved" if before.path != after.path else "updated"


def _of_others(story: PathStory) -> list[OthersHunk]:
    """What others made of it while the run went on."""
    found: list[OthersHunk] = []
    for author in sorted({each.by for each in story.during} - {OURS}):
        weave = Weave(text_at(story.before), "\0before")
        for step in story.during:
            weave.write(step.by, text_at(step.stood))
        found += [
            OthersHunk(subject=author, header=hunk_header(each), lines=hunk_lines(each))
            for each in weave.settle(lambda by, author=author: by == author)  # type: ignore[misc]
        ]
    return found


class ShownHunk(Protocol):
    """Lines that were changed at one place, and those around them."""

    above: list[str]
    below: list[str]
    old_line: int
    new_line: int

    @property
    def removed(self) -> Sequence[HasText]: ...
    @property
    def added(self) -> Sequence[HasText]: ...


class HasText(Protocol):
    text: str


def hunk_header(hunk: ShownHunk) -> str:
    above = len(hunk.above)
    shared = above + len(hunk.below)
    old, new = (
        (line - above if count + shared else line - 1, count + shared)
        for line, count in (
            (hunk.old_line, len(hunk.removed)),
            (hunk.new_line, len(hunk.added)),
        )
    )
    return f"@@ -{old[0]},{old[1]} +{new[0]},{new[1]} @@"


def hunk_lines(hunk: ShownHunk) -> list[str]:
    """As in a unified difference, also where only the end of the last line differs."""
    lines = [f" {shown(each)}" for each in hunk.above]
    is_ended = [side[-1].text.endswith("\n") for side in (hunk.removed, hunk.added) if side]
    for sign, side in (("-", hunk.removed), ("+", hunk.added)):
        lines += [f"{sign}{shown(each.text)}" for each in side]
        if side and len(set(is_ended)) > 1 and not side[-1].text.endswith("\n"):
            lines.append(NO_NEWLINE)
    return [*lines, *(f" {shown(each)}" for each in hunk.below)]
