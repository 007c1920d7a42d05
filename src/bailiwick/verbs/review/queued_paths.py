"""Whether what was worked out of a path still holds, so that a queue is taken up from there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

from bailiwick.errors import BailiwickError
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.reviews import QueuedPath
from bailiwick.store import Reader
from bailiwick.unfollowed import unfollowed
from bailiwick.verbs.review.path_reviews import PathReview
from bailiwick.verbs.runs.story_contents import StoryContent
from bailiwick.versions import Version


def queued_path(
    review: PathReview | None, place: ScopedPath, versions: Sequence[Version], stands: str
) -> QueuedPath:
    """What is kept of a path."""
    left = [] if review is None else review.hunks()
    hunks = tuple((each.id, each.runs) for each in left)
    return QueuedPath(
        place if review is None else review.place, hunks, tuple(versions), stands
    )  # fmt: skip


def stands_as(now: StoryContent | None) -> str:
    """What `standing` says of what was looked at."""
    return "" if now is None else f"{now.type} {now.version}"


async def standing(store: Reader, path: ScopedPath) -> str:
    """What stands at a place, by which it is known whether somebody has changed it."""
    try:
        entry = await unfollowed(store, path)
    except BailiwickError:
        return ""
    with closing(entry):
        return "" if entry.type is None else f"{entry.type} {(await store.stat(entry)).version}"


class KeyMaker:
    """Says by what a path is known to be what it was when it was worked out: by its versions, who
    made them, what was said of it, and that nothing was moved or went with a directory since, which
    may tell its story at another place."""

    def __init__(
        self,
        versions: Sequence[Version],
        settled: int,
        run_of: Callable[[Version], str | None],
        said: Mapping[str, int],
    ) -> None:
        self._settled = settled
        self._run_of = run_of
        self._said = said
        self._newest: dict[ScopedPath, str] = {}
        self._upheaval = ""
        for each in reversed(versions):
            self._newest[each.path] = each.version
            is_around = each.type == "directory" and each.kind in ("deleted", "moved")
            if each.kind == "moved" or is_around or each.path == ROOT:
                self._upheaval = each.version

    def key(self, candidate: Sequence[Version]) -> object:
        path = candidate[0].path
        made = tuple((each.version, each.time_ns, self._run_of(each)) for each in candidate)
        said = self._said.get(str(path), 0)
        return made, self._newest.get(path), said, self._settled, self._upheaval
