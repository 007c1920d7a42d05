"""Taking back what a run did at single places, by what stands there now.

What is to come of each place is worked out first, and brought into the tree as the changes of a
working copy are: judged path by path, on the condition that nobody has changed it meanwhile, as one
change that can itself be undone.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from typing import Final

from bailiwick.call import Call
from bailiwick.paths import ScopedPath
from bailiwick.proposal import Proposal
from bailiwick.verbs.bulk_changes import Work, look, propose, sorted_conflicts, touched_paths
from bailiwick.verbs.runs.moved_back import MoveBack, moved_back
from bailiwick.verbs.runs.path_stories import (
    Displaced,
    ModeChange,
    PathStory,
    StoryContent,
    WovenStory,
    differs,
    whole_id,
)
from bailiwick.verbs.walks.ignore_files import Ignores
from bailiwick.verbs.working_copies.bring_back import with_their_directories
from bailiwick.verbs.working_copies.plan import draw
from bailiwick.version_acts import BringBack
from bailiwick.versions import Conflict, Done, Mark, Plan, Touch, UndoResult
from bailiwick.working_copy import Alterations, Altered, Base, GivingUp, Publishing, Wanted

_CHANGED = "others have changed it since"
_MOVED_ON = "others have moved it on since, or removed it"
_PLACES_IN_TURN_MAX: Final = 100
"""Moves to where others lay that are taken back one after the other."""

WHOLE_RUN = "this can only be put back with all of the run"


class PlannedReturn:
    """What is to come of places, with the bytes of files; directories that go back to where they
    lay, with all that lies in them; and what stands against it."""

    def __init__(self) -> None:
        self.altered: list[Altered] = []
        self.contents: dict[ScopedPath, bytes] = {}
        self.moves: list[MoveBack] = []
        self.conflicts: list[Conflict] = []
        self.after: dict[ScopedPath, int] = {}
        """How many others have to be in their places before one comes where another stands."""
        self._again: dict[ScopedPath, Altered] = {}
        self._homes: dict[ScopedPath, ScopedPath] = {}

    def goes_home(self, now: StoryContent, home: ScopedPath | None) -> None:
        """Have something leave where it stands: it comes to its ``home``, if it has one."""
        self.altered.append(Altered(now.path, None, base_of(now)))
        if home is not None:
            self._homes[now.path] = home

    def come_again(self, replaced: Displaced | None, contents: Mapping[str, bytes]) -> None:
        """Have that stand again which went where something was moved to, which now leaves."""
        if replaced is None:
            return
        path, stood = replaced
        data = None if stood is None or stood.sha256 is None else contents.get(stood.sha256)
        if stood is None or (stood.type == "file" and data is None):
            self.conflicts.append(Conflict(path, WHOLE_RUN))
            return
        self._again[path] = _coming(path, stood, data)
        if data is not None:
            self.contents.setdefault(path, data)

    def settle(self) -> None:
        """Put it in order: of a place at which something goes and something comes one thing is
        told."""
        settled: dict[ScopedPath, Altered] = {}
        for each in (*self.altered, *self._again.values()):
            other = settled.setdefault(each.path, each)
            if other is each:
                continue
            comes, goes = (each, other) if other.type is None else (other, each)
            if comes.type is None or goes.type is not None or comes.base is not None:
                self.conflicts.append(Conflict(each.path, WHOLE_RUN))
            settled[each.path] = comes._replace(base=goes.base)
            self.after[each.path] = 0
        for path in self.after:
            self.after[path] = self._awaited(path)
        ends = {end for move in self.moves for end in move.ends}
        self.conflicts += [Conflict(path, WHOLE_RUN) for path in self._again.keys() & ends]
        self.altered = sorted(settled.values(), key=lambda each: each.path.order)

    def _awaited(self, path: ScopedPath) -> int:
        """How many places have to be changed first, one after the other, so that what leaves one is
        always somewhere. Where that goes round nothing can be first."""
        home, count = self._homes.get(path), 0
        while home in self.after:
            home, count = self._homes.get(home), count + 1
            if home == path or count > _PLACES_IN_TURN_MAX:
                self.conflicts.append(Conflict(path, WHOLE_RUN))
                break
        return count

    @property
    def anew(self) -> dict[ScopedPath, None]:
        """What comes where nothing stands: also where its directory has gone."""
        comes = (each for each in self.altered if each.base is None and each.type is not None)
        return {each.path: None for each in comes}


class ReturningCopy:
    """What is to come of places, in the form of a working copy: in memory, for one call."""

    id = "undo"

    def __init__(self, planned: PlannedReturn) -> None:
        self._planned = planned
        self._kept: dict[ScopedPath, bytes] = {}

    async def alterations(self) -> Alterations:
        return Alterations(self._planned.altered, [], [])

    async def content(self, path: ScopedPath) -> AsyncGenerator[bytes, None]:
        yield self._planned.contents[path]

    async def keep(self, path: ScopedPath, chunks: AsyncGenerator[bytes, None]) -> None:
        self._kept[path] = b"".join([chunk async for chunk in chunks])

    async def keep_all(self, contents: Mapping[ScopedPath, bytes]) -> None:
        self._kept.update(contents)

    async def kept(self, path: ScopedPath) -> AsyncGenerator[bytes, None]:
        yield self._kept[path]

    async def base_image(self, path: ScopedPath) -> bytes | None:
        return None

    async def publishing(self, what: Publishing | None) -> None:
        """Each change is in the history by itself, under the request: nothing else is needed."""

    async def giving_up(self, what: GivingUp | None) -> None:
        """Nothing is given up."""

    async def note_done(self, key: bytes) -> None:
        """The history knows the key."""

    async def settle(self, published: Collection[ScopedPath], seen: Alterations) -> None:
        """There is nothing that would be left."""

    async def rebase(self, path: ScopedPath, image: bytes) -> None:
        """Nothing is brought in part."""

    async def rewrite(self, path: ScopedPath, data: bytes, seen: Alterations) -> None:
        """Nothing is given up."""

    async def restored(self, paths: Collection[ScopedPath]) -> None:
        """It is not tried again."""

    async def discard(self, seen: Alterations | None = None) -> None:
        """It is gone with the call."""


def plan_return(
    run: str,
    stories: Sequence[PathStory],
    contents: Mapping[str, bytes],
    hunks: Collection[str] | None,
) -> PlannedReturn:
    """What becomes of the places of a run when it is taken back: all of it, or some ``hunks``."""
    planned = PlannedReturn()
    for story in stories:
        if story.is_back:
            _add_mode(planned, run, story, contents, hunks)
        elif story.is_text:
            _add_text(planned, run, story, contents, hunks)
        else:
            _add_whole(planned, run, story, contents, hunks)
    planned.settle()
    return planned


def _add_text(
    planned: PlannedReturn,
    run: str,
    story: PathStory,
    contents: Mapping[str, bytes],
    hunks: Collection[str] | None,
) -> None:
    woven = WovenStory(run, story)
    named = woven.by_id()
    chosen = [each for id, each in named.items() if hunks is None or id in hunks]
    modes = _chosen_modes(run, story, hunks)
    if not (chosen or modes) and not (hunks is None or whole_id(run, story) in hunks):
        return
    states = [woven.weave.state(each) for each in chosen]
    if "changed" in states or (modes and story.mode_state(modes) == "changed"):
        planned.conflicts.append(Conflict(story.path, _CHANGED))
        return
    before, after, now = story.before, story.after, story.now
    data = woven.weave.without(chosen)
    is_whole = len(chosen) == len(named)
    is_home = now is not None and now.path == story.home
    goes_back = story.is_moved and is_whole and not is_home
    if goes_back and after is not None and (now is None or now.path != after.path):
        planned.conflicts.append(Conflict(story.path, _MOVED_ON))
        return
    home = story.home if goes_back else story.path
    if now is None and (not chosen or "stands" not in states):
        return  # gone already
    kept = data if data or not is_whole else None
    mode = _mode_again(story, now) if goes_back and now is not None else modes and modes.before
    return_text(planned, home, before, now, kept, mode)
    if goes_back:
        planned.come_again(story.replaced, contents)


def _add_mode(
    planned: PlannedReturn,
    run: str,
    story: PathStory,
    contents: Mapping[str, bytes],
    hunks: Collection[str] | None,
) -> None:
    """What lies where it lay has the mode that it had; what others have made of it since stays."""
    modes, now = _chosen_modes(run, story, hunks), story.now
    if modes is None or now is None or now.path != story.home:
        return
    if story.mode_state(modes) == "changed":
        planned.conflicts.append(Conflict(story.path, _CHANGED))
        return
    return_whole(planned, story.path, now._replace(mode=modes.before), now, contents)


def _chosen_modes(run: str, story: PathStory, hunks: Collection[str] | None) -> ModeChange | None:
    """What is to be taken back of the mode that the run left."""
    modes = story.modes
    if modes is None or not (hunks is None or modes.id(run, story.path) in hunks):
        return None
    return None if story.mode_state(modes) == "undone" else modes


def return_text(
    planned: PlannedReturn,
    home: ScopedPath,
    before: StoryContent | None,
    now: StoryContent | None,
    data: bytes | None,
    mode: int | None = None,
) -> None:
    """Have a text stand at ``home``, where ``before`` stood: None is none of its lines, which is no
    file where there was none. It has the ``mode`` that is given, or the one that it has now."""
    gone, data = before is None and data is None, data or b""
    if now is None:
        if before is not None:
            come(planned, home, before.mode, data)
    elif gone:
        planned.goes_home(now, None)
    elif home != now.path:
        planned.goes_home(now, home)
        come(planned, home, now.mode if mode is None else mode, data)
    elif data != now.data or mode not in (None, now.mode):
        come(planned, now.path, now.mode if mode is None else mode, data, base_of(now))


def _add_whole(
    planned: PlannedReturn,
    run: str,
    story: PathStory,
    contents: Mapping[str, bytes],
    hunks: Collection[str] | None,
) -> None:
    """Something that holds no text, or whose text is too large: it is what it was, or not."""
    modes = _chosen_modes(run, story, hunks)
    if not modes and hunks is not None and whole_id(run, story) not in hunks:
        return
    before, after, now = story.before, story.after, story.now
    if modes and story.mode_state(modes) == "changed":
        planned.conflicts.append(Conflict(story.path, _CHANGED))
        return
    if modes and before and now and now.path == before.path and not differs(before, after):
        _add_mode(planned, run, story, contents, hunks)
        return
    if is_same(now, before):
        return
    if not is_same(now, after):
        planned.conflicts.append(Conflict(story.path, _CHANGED))
        return
    if before is not None and now is not None and before.type == now.type:
        before = before._replace(mode=_mode_again(story, now))
    return_whole(planned, story.path, before, now, contents)
    if story.is_moved:
        planned.come_again(story.replaced, contents)


def _mode_again(story: PathStory, now: StoryContent) -> int:
    """The mode of what is put back: that from before the run, unless others have set it since."""
    modes = story.modes
    is_left = modes is not None and story.mode_state(modes) == "stands"
    return modes.before if modes is not None and is_left else now.mode


def return_whole(
    planned: PlannedReturn,
    path: ScopedPath,
    before: StoryContent | None,
    now: StoryContent | None,
    contents: Mapping[str, bytes],
) -> None:
    """Have what stood there before stand there again."""
    data = None if before is None or before.sha256 is None else contents.get(before.sha256)
    unfit = before is not None and before.type == "file" and data is None
    moved = before is not None and now is not None and before.path != now.path
    if unfit:
        planned.conflicts.append(Conflict(path, WHOLE_RUN))
        return
    if before is not None and now is not None and moved and before.type == "directory":
        planned.moves.append(MoveBack(now.path, before.path, before.mode))
        return
    base = None if now is None else base_of(now)
    if now is not None and (before is None or moved):
        planned.goes_home(now, None if before is None else before.path)
        base = None
    if before is None:
        return
    if data is not None:
        come(planned, before.path, before.mode, data, base)
    else:
        planned.altered.append(
            Altered(before.path, before.type, base, before.mode, target=before.target)
        )


def come(
    planned: PlannedReturn, path: ScopedPath, mode: int, data: bytes, base: Base | None = None
) -> None:
    digest = hashlib.sha256(data).hexdigest()
    planned.contents[path] = data
    planned.altered.append(Altered(path, "file", base, mode, len(data), digest))


def _coming(path: ScopedPath, stood: StoryContent, data: bytes | None) -> Altered:
    """What stood somewhere, as something that comes there."""
    size = 0 if data is None else len(data)
    return Altered(path, stood.type, None, stood.mode, size, stood.sha256, stood.target)


def base_of(now: StoryContent) -> Base:
    return Base(now.type, now.version, now.size, now.mode)


def is_same(a: StoryContent | None, b: StoryContent | None) -> bool:
    if a is None or b is None:
        return a is b
    return (a.type, a.path, a.sha256, a.target) == (b.type, b.path, b.sha256, b.target)


def _safest_first(touches: Sequence[Touch], after: Mapping[ScopedPath, int]) -> list[Touch]:
    """Changes in an order in which nothing that stands is nowhere at any time: what comes anew
    first, then what takes the place of something ``after`` others, and last what goes, unless it
    makes way."""
    comes = {each.path: each.type for each in touches if each.kind != "deleted"}
    above = {place for path in comes for place in path.parents}

    def rank(touch: Touch) -> tuple[int, int]:
        path = touch.path
        if touch.kind == "deleted":
            inside = any(comes.get(each, "directory") != "directory" for each in path.parents)
            return (0 if inside or path in comes or path in above else 3), 0
        return (2 if touch.kind == "updated" and touch.type == "file" else 1), after.get(path, 0)

    return sorted(touches, key=rank)


async def bring(
    call: Call,
    ignores: Ignores,
    planned: PlannedReturn,
    preview: bool,
    over: Mapping[ScopedPath, str | None] = {},
) -> Proposal[UndoResult]:
    """Have it come to pass: all of it, or nothing where anything stands against it. What is to
    stand ``over`` what was seen does so, as in `Wanted`."""
    copy = ReturningCopy(planned)
    found = Alterations(planned.altered, [], [])
    moved = await moved_back(call, planned.moves, planned.altered)
    leaves = frozenset(each.origin for each in moved.early if each.origin is not None)
    drawn = await draw(call, copy, found, Wanted("atomic", over=over, leaves=leaves))
    conflicts = [*planned.conflicts, *(Conflict(c.path, c.reason) for c in drawn.conflicts)]
    conflicts += [Conflict(each, WHOLE_RUN) for each in moved.blocked]
    touches = [*moved.early, *_safest_first(drawn.touches, planned.after), *moved.late]
    touches = [] if conflicts else with_their_directories(touches)
    plan = Plan(touches, conflicts)

    async def plan_it() -> Plan:
        return plan

    def undone(done: Done) -> UndoResult:
        return UndoResult(
            version=done.version, undone=touched_paths(done.plan),
            conflicts=sorted_conflicts(plan), preview=preview, request_id=call.request_id,
        )  # fmt: skip

    def act(plan: Plan) -> BringBack:
        mark = call.mark or Mark(str(call.grant.subject), call.request_id)
        what = Publishing(plan, drawn.over, mark, call.limits.max_file_bytes, mounts=found.mounts)
        settled = frozenset(drawn.settled)
        return BringBack(call.handle, plan, copy, what, settled, found, named=ScopedPath)

    work = Work(plan_it, act)
    return await (look if preview else propose)(call, ignores, work, undone)
