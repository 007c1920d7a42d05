"""What goes from a tree and could not be made anew: a link that leads out of it, a FIFO, a socket.

Until all of a plan is done it lies in the tree under a reserved name, which nobody is shown and no
sweep of staged names takes away. From there it comes back by its own inode: nothing is made, and
nothing is followed. The names are known before anything lies there, and go by the plan: whoever
finds the plan half done finds what lies aside.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from typing import Final, NamedTuple

from bailiwick.errors import (
    BailiwickError,
    FileAlreadyExists,
    PathNotFound,
    escape_for_display,
)
from bailiwick.model import Expected
from bailiwick.paths import RESERVED_PREFIX, ROOT, ScopedPath
from bailiwick.store import Handle, Store
from bailiwick.unfollowed import unfollowed
from bailiwick.versions import Touch

_log = logging.getLogger("bailiwick.working_copies")

_TOLD_MAX: Final = 3
"""Of the places that could not be put back, those that are told in words."""

_NAME_DIGITS: Final = 32
"""128 bits: nobody who has not seen the plan knows the name."""


def places_aside(
    store: Store, touches: Iterable[Touch], plan_id: str
) -> dict[ScopedPath, ScopedPath]:
    """Where that lies meanwhile which goes, and could not be made anew: in the innermost directory
    around it that stays where it is, which is on the same filesystem and can be written to."""
    if "Branches" in store.powers:
        return {}
    touches = list(touches)
    no_links = store.description.get("symlinks") == "reject"
    leaving = {each.origin or each.path for each in touches if each.kind in ("deleted", "moved")}
    found: dict[ScopedPath, ScopedPath] = {}
    for each in touches:
        if each.kind != "deleted" or not _is_irreplaceable(each, no_links):
            continue
        stays = each.path.parent
        while stays in leaving:
            stays = stays.parent
        digest = hashlib.sha256(f"{plan_id}\0{each.path}".encode()).hexdigest()
        found[each.path] = stays.child(f"{RESERVED_PREFIX}aside-{digest[:_NAME_DIGITS]}")
    return found


def _is_irreplaceable(touch: Touch, no_links: bool) -> bool:
    """Of a link that leads out, or whose text is none, the text is not told."""
    if touch.type == "symlink":
        return no_links or touch.target is None or not touch.target.strip()
    return touch.type == "other"


async def lay_aside(store: Store, entry: Handle, aside: ScopedPath, expected: Expected) -> None:
    with closing(await unfollowed(store, aside)) as free:
        await store.move(entry, free, replace=False, expected=expected)


class _Lying(NamedTuple):
    """Where something stands by rights, where it lies, and whether others have moved both."""

    path: ScopedPath
    aside: ScopedPath
    is_moved: bool


async def bring_all_back(
    store: Store,
    asides: Mapping[ScopedPath, ScopedPath],
    laid: Collection[ScopedPath],
) -> tuple[list[ScopedPath], list[ScopedPath]]:
    """Have all that lies aside stand where it stood, or where others have moved that meanwhile.
    Returns what came back to its place, and what came nowhere: where others have put something in
    its place that stays, else it is left where it lies. All of what is ``laid`` does."""
    back: list[ScopedPath] = []
    left: list[ScopedPath] = []
    for path, found in (await _found(store, asides, laid)).items():
        try:
            with closing(await unfollowed(store, found.aside)) as lying:
                if lying.type is None:
                    if path in laid:
                        raise PathNotFound("others have taken it away", path=found.aside)
                    continue
                await _bring_back(store, lying, found.path)
            if not found.is_moved:
                back.append(path)
        except BailiwickError as error:
            left.append(path)
            _warn("%s could not be put back (%s); it lay at %s", path, error.kind, found.aside)
    return back, left


async def _found(
    store: Store, asides: Mapping[ScopedPath, ScopedPath], laid: Collection[ScopedPath]
) -> dict[ScopedPath, _Lying]:
    """Others may move a directory in which something lies aside. Then it is looked for everywhere:
    else it would lie there for ever, and nobody be told."""
    found = {path: _Lying(path, aside, False) for path, aside in asides.items()}
    astray = {path: asides[path] for path in laid if not await _lies(store, asides[path])}
    if astray:
        names = {aside.parent: aside.name for aside in astray.values()}
        now = await _directories_now(store, names)
        for path, aside in astray.items():
            if (there := now.get(aside.parent)) is not None:
                stood = path.relative_to(aside.parent).beneath(there)
                found[path] = _Lying(stood, there.child(aside.name), True)
    return found


async def _directories_now(
    store: Store, names: Mapping[ScopedPath, str]
) -> dict[ScopedPath, ScopedPath]:
    """Where directories are by now, each of which is known by a name in it that is nowhere else."""
    found: dict[ScopedPath, ScopedPath] = {}
    waiting = [ROOT]
    while waiting and len(found) < len(names):
        directory = waiting.pop()
        for was, name in names.items():
            if was not in found and await _lies(store, directory.child(name)):
                found[was] = directory
        with suppress(BailiwickError), closing(await unfollowed(store, directory)) as entry:
            inner = (await store.children(entry)).entries
            waiting += [directory.child(each.name) for each in inner if each.type == "directory"]
    return found


async def _lies(store: Store, aside: ScopedPath) -> bool:
    try:
        with closing(await unfollowed(store, aside)) as lying:
            return lying.type is not None
    except BailiwickError:
        return False


async def _bring_back(store: Store, lying: Handle, path: ScopedPath) -> None:
    try:
        with closing(await unfollowed(store, path)) as entry:
            await store.move(lying, entry, replace=False)
    except FileAlreadyExists:
        await store.remove(lying, recursive=False)
        raise


async def forget_all(
    store: Store,
    asides: Mapping[ScopedPath, ScopedPath],
    laid: Collection[ScopedPath] = (),
) -> None:
    """All is done: what lies aside has gone."""
    for path, found in (await _found(store, asides, laid)).items():
        try:
            with closing(await unfollowed(store, found.aside)) as lying:
                if lying.type is not None:
                    await store.remove(lying, recursive=False)
        except PathNotFound:
            continue
        except BailiwickError as error:
            _warn("%s is removed (%s); it lies at %s still", path, error.kind, found.aside)


def tell_left(error: BailiwickError, left: Sequence[ScopedPath]) -> None:
    """That something is not as it was stands in what is said of a failure."""
    if left:
        shown = ", ".join(escape_for_display(each) for each in left[:_TOLD_MAX])
        more = f" and {len(left) - _TOLD_MAX} more" if len(left) > _TOLD_MAX else ""
        error.message += f"; what was done is taken back, but not what stood at {shown}{more}"
        error.details = {**error.details, "not_put_back": [str(each) for each in left]}


def _warn(text: str, *told: str) -> None:
    _log.warning(text, *map(escape_for_display, told))
