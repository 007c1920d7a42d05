"""Finishing what a killed process had begun to bring back, to take back, or to give up.

All of it was decided, asked, on record and charged for before the first change was made, and what
it brings still lies in the working copy. So what is missing is done now, each change on its old
condition; what others have changed since is left, and stays in the copy. Where it had failed, and
was being taken back, that is what is finished: what was replaced lies beside the copy.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress

from bailiwick.changes_made import (
    OpenedAround,
    finish_move,
    open_directories,
    opened_for_all,
    shut_directories,
    stands,
)
from bailiwick.errors import BailiwickError, Busy, PathNotFound
from bailiwick.finishing import in_thread
from bailiwick.lying_aside import forget_all
from bailiwick.publication import paths_of, publish, take_back
from bailiwick.store import Store
from bailiwick.versions import Marks, Plan, Stale, Touch, recalls
from bailiwick.working_copies.directory import DirectoryCopy
from bailiwick.working_copies.overlay_copy import OverlayCopy
from bailiwick.working_copies.workplace import DirectoryWorkplace
from bailiwick.working_copy import Alterations, GivingUp, Publishing, WorkingCopy

_log = logging.getLogger("bailiwick.working_copies")


async def finish_all(workplace: DirectoryWorkplace, store: Store) -> None:
    """Look for what was left half done, and finish it."""
    for id in await in_thread(workplace.unfinished):
        try:
            copy = await workplace.open(id)
        except (Busy, PathNotFound):
            continue  # its process lives, or another was quicker
        except BailiwickError:
            _log.warning("what was being brought back could not be opened", exc_info=True)
            continue
        try:
            await _finish(copy, store)
        except (BailiwickError, OSError):
            _log.warning("what was being brought back could not be finished", exc_info=True)
        finally:
            copy.close()


async def _finish(copy: DirectoryCopy | OverlayCopy, store: Store) -> None:
    given_up, what = copy.folder.load_giving_up(), copy.folder.load_publishing()
    if given_up is not None:
        await _give_up(copy, given_up)
    elif what is not None:
        await _bring_back(copy, store, what)


async def _give_up(copy: DirectoryCopy | OverlayCopy, what: GivingUp) -> None:
    for path, data in what.rewritten.items():
        with suppress(Stale):  # it was rewritten, or others have changed it since
            await copy.rewrite(path, data, what.seen)
    await copy.settle(what.paths, what.seen)
    await copy.note_done(what.key)
    left = await copy.alterations()
    if not (left.altered if what.whole else left.any_left):
        await copy.discard(left)
    await copy.giving_up(None)


async def _bring_back(copy: DirectoryCopy | OverlayCopy, store: Store, what: Publishing) -> None:
    found = await copy.alterations()
    if "Marks" in store.powers and isinstance(store, Marks):
        store = store.marked(what.mark)
    if what.taken_back is not None:
        await take_back(store, what, copy)
        await copy.publishing(None)
        return
    done = await _done(store, what, copy)
    brought = paths_of(Plan(done))
    if what.mark.key is not None and len(done) == len(what.plan.touches):
        await copy.note_done(what.mark.key)
    for path in what.partly & brought:
        await copy.rebase(path, what.merged[path])
    were_done = frozenset(done)
    undone = [each for each in what.plan.touches if each not in were_done]
    if _lies_nowhere_else(undone, found):
        _log.warning("some of what was being brought back is kept in %s", copy.folder.path)
        await copy.publishing(what._replace(plan=Plan(undone)))
        return
    await copy.settle(brought - what.partly - what.kept, found)
    await copy.publishing(None)
    left = await copy.alterations()
    if not left.any_left:
        await copy.discard(left)


def _lies_nowhere_else(undone: Sequence[Touch], found: Alterations) -> bool:
    """Whether something could not be brought back that came along with a directory which was moved:
    it is gone from where it lay, and was only put aside."""
    there = {each.path for each in found.altered}
    return any(
        each.type == "file" and each.kind == "created" and each.path not in there for each in undone
    )


async def _done(store: Store, what: Publishing, copy: WorkingCopy) -> Sequence[Touch]:
    """What stands in the tree by then: of a store with transactions all of it, or nothing."""
    touches = what.plan.touches
    if "Branches" not in store.powers:
        around = OpenedAround(store)
        try:
            await around.open(what.shut)
            await open_directories(store, touches)
            each_alone = what._replace(shut={})
            done = [each for each in touches if await _is_done(store, each, each_alone, copy)]
            await forget_all(store, what.aside)
            await shut_directories(store, touches)
            await around.close(what.shut, done)
        finally:
            around.release()
        return done
    log, key = recalls(store), what.mark.key
    if log is not None and key is not None and await log.made_under(key) is not None:
        return touches
    for each in touches:
        if not await stands(store, each):
            try:
                await publish(store, what, copy)
            except (BailiwickError, Stale):
                return ()
            break
    return touches


async def _is_done(store: Store, touch: Touch, what: Publishing, copy: WorkingCopy) -> bool:
    """Do one change, unless it was done already."""
    touch = opened_for_all(touch)
    try:
        await finish_move(store, touch)
        if await stands(store, touch):
            return True
        await publish(store, what._replace(plan=Plan([touch._replace(beneath=False)])), copy)
    except (BailiwickError, Stale):
        return False
    return True
