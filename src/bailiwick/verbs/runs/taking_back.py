"""Taking back what a run did at single places, by what stands there now.

What is to come of each place is worked out first, and brought into the tree as the changes of a
working copy are: judged path by path, on the condition that nobody has changed it meanwhile, as one
change that can itself be undone.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from typing import NamedTuple

from bailiwick.call import Call
from bailiwick.paths import ScopedPath
from bailiwick.proposal import Proposal
from bailiwick.reader import mounts_seen
from bailiwick.verbs.bulk_changes import Work, look, propose, sorted_conflicts, touched_paths
from bailiwick.verbs.runs.moved_back import MovedBack, moved_back
from bailiwick.verbs.runs.path_stories import ModeChange, PathStory, WovenStory, whole_id
from bailiwick.verbs.runs.planned_return import PlannedReturn, return_text, return_whole
from bailiwick.verbs.runs.story_contents import StoryContent, differs
from bailiwick.verbs.walks.ignore_files import Ignores
from bailiwick.verbs.working_copies.bring_back import with_their_directories
from bailiwick.verbs.working_copies.plan import Drawn, draw
from bailiwick.version_acts import BringBack
from bailiwick.versions import Conflict, Done, Mark, Plan, Touch, UndoResult
from bailiwick.working_copy import Alterations, GivingUp, Publishing, Wanted

_CHANGED = "others have changed it since"
_MIXED = "others had something else there in between: undo request by request, the last first"
_HIDDEN = "the directory that it lies in is shut, so that nobody can look: undo the whole run"
_MOVED_ON = "others have moved it on since, or removed it"


class ReturningCopy:
    """What is to come of places, in the form of a working copy: in memory, for one call."""

    id = "undo"

    def __init__(self, planned: PlannedReturn) -> None:
        self._planned = planned
        self._kept: dict[ScopedPath, bytes] = {}

    async def alterations(self) -> Alterations:
        return Alterations([*self._planned.altered, *self._planned.afterwards], [], [])

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
    returning = _Returning(planned, run, contents, hunks)
    # What lay in a directory to whose place another came comes again with that.
    inside = {each.path for story in stories if story.replaced for each in story.replaced.inside}
    for story in stories:
        if story.path in inside and story.after is None:
            continue
        planned.tell_of(story.first, story.version)
        returning.add(story)
    planned.settle()
    return planned


class _Returning(NamedTuple):
    """Plans what becomes of places of a ``run``: of some of its ``hunks``, or of all."""

    planned: PlannedReturn
    run: str
    contents: Mapping[str, bytes]
    hunks: Collection[str] | None

    def add(self, story: PathStory) -> None:
        if story.is_back:
            self._add_mode(story)
        elif story.is_text:
            self._add_text(story)
        else:
            self._add_whole(story)

    def _is_meant(self, id: str) -> bool:
        return self.hunks is None or id in self.hunks

    def _refuse(self, story: PathStory, reason: str) -> None:
        self.planned.conflicts.append(Conflict(story.path, reason))

    def _add_text(self, story: PathStory) -> None:
        woven = WovenStory(self.run, story)
        named = woven.by_id()
        chosen = [each for id, each in named.items() if self._is_meant(id)]
        modes = self._chosen_modes(story)
        if not (chosen or modes) and not self._is_meant(whole_id(self.run, story)):
            return
        states = [woven.weave.state(each) for each in chosen]
        if "changed" in states or (modes and story.mode_state(modes) == "changed"):
            self._refuse(story, _CHANGED)
            return
        before, after, now = story.before, story.after, story.now
        data = woven.weave.without(chosen)
        is_whole = len(chosen) == len(named)
        is_home = now is not None and now.path == story.home
        goes_back = story.is_moved and is_whole and not is_home
        if goes_back and after is not None and (now is None or now.path != after.path):
            self._refuse(story, _MOVED_ON)
            return
        home = story.home if goes_back else story.path
        if now is None and (not chosen or "stands" not in states):
            return  # gone already
        kept = data if data or not is_whole else None
        mode = _mode_again(story, now) if goes_back and now is not None else modes and modes.before
        return_text(self.planned, home, before, now, kept, mode)
        if goes_back:
            self.planned.come_again(story.replaced, self.contents)

    def _add_mode(self, story: PathStory) -> None:
        """What lies where it lay has the mode that it had; what others have made of it since
        stays."""
        modes, now = self._chosen_modes(story), story.now
        if modes is None or now is None or now.path != story.home:
            return
        if story.mode_state(modes) == "changed":
            self._refuse(story, _CHANGED)
            return
        before = now._replace(mode=modes.before)
        return_whole(self.planned, story.path, before, now, self.contents)

    def _chosen_modes(self, story: PathStory) -> ModeChange | None:
        """What is to be taken back of the mode that the run left."""
        modes = story.modes
        if modes is None or not self._is_meant(modes.id(self.run, story.path)):
            return None
        return None if story.mode_state(modes) == "undone" else modes

    def _add_whole(self, story: PathStory) -> None:
        """Something that holds no text, or whose text is too large: it is what it was, or not."""
        modes = self._chosen_modes(story)
        if not modes and not self._is_meant(whole_id(self.run, story)):
            return
        before, after, now = story.before, story.after, story.now
        if modes and story.mode_state(modes) == "changed":
            self._refuse(story, _CHANGED)
            return
        if modes and before and now and now.path == before.path and not differs(before, after):
            self._add_mode(story)
            return
        if is_same(now, before):
            return
        if not is_same(now, after):
            self._refuse(story, _CHANGED)
            return
        if story.is_mixed:  # theirs would go with what the run made of it
            self._refuse(story, _MIXED)
            return
        if before is not None and now is not None and before.type == now.type:
            before = before._replace(mode=_mode_again(story, now))
        return_whole(self.planned, story.path, before, now, self.contents)
        if story.is_moved:
            self.planned.come_again(story.replaced, self.contents)


def _mode_again(story: PathStory, now: StoryContent) -> int:
    """The mode of what is put back: that from before the run, unless others have set it since."""
    modes = story.modes
    is_left = modes is not None and story.mode_state(modes) == "stands"
    return modes.before if modes is not None and is_left else now.mode


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


async def _afterwards(
    call: Call, copy: ReturningCopy, planned: PlannedReturn, moved: MovedBack
) -> Drawn:
    """What comes where directories have left by then, with all that lay in them."""
    leaves = (each.origin for each in (*moved.early, *moved.late) if each.origin is not None)
    over = {each.path: None for each in planned.afterwards}
    wanted = Wanted("atomic", over=over, leaves=frozenset(leaves))
    return await draw(call, copy, Alterations(planned.afterwards, [], []), wanted)


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
    found = Alterations(planned.altered, [], [], mounts=mounts_seen(call.store))
    moved = await moved_back(call, planned.moves, planned.altered)
    leaves = frozenset(each.origin for each in moved.early if each.origin is not None)
    drawn = await draw(call, copy, found, Wanted("atomic", over=over, leaves=leaves))
    then = await _afterwards(call, copy, planned, moved)
    against = (*drawn.conflicts, *then.conflicts)
    conflicts = [*planned.conflicts, *(Conflict(c.path, c.reason) for c in against)]
    conflicts += moved.against
    conflicts += [Conflict(each, _HIDDEN) for each in (*drawn.shut, *then.shut)]
    touches = [*moved.early, *_safest_first(drawn.touches, planned.after), *moved.late]
    touches += then.touches
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
        size_max = call.limits.max_file_bytes
        what = Publishing(plan, drawn.over, mark, size_max, mounts=found.mounts)
        settled = frozenset(drawn.settled)
        return BringBack(call.handle, plan, copy, what, settled, found, named=ScopedPath)

    work = Work(plan_it, act)
    return await (look if preview else propose)(call, ignores, work, undone)
