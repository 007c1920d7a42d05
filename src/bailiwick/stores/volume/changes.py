"""The changes of a tree, each inside one transaction: check what stands there, then change it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

from bailiwick.errors import (
    DirectoryNotEmpty,
    FileAlreadyExists,
    IsADirectory,
    NotADirectory,
    ParseError,
    PathNotFound,
)
from bailiwick.model import Expected
from bailiwick.paths import DEPTH_MAX, ROOT, ScopedPath, tree_too_deep
from bailiwick.store import WritePlan, Written
from bailiwick.stores.volume.content.chunks import Stored
from bailiwick.stores.volume.content.uploads import Prepared
from bailiwick.stores.volume.core import ChangeTurn
from bailiwick.stores.volume.leases import check_lease
from bailiwick.stores.volume.lookup.paths import (
    Spot,
    VolumeHandle,
    current_inode,
    stand,
    stand_existing,
)
from bailiwick.stores.volume.refusals import (
    check_expected,
    check_size,
    no_such,
    not_through_a_link,
    root_stays,
)
from bailiwick.stores.volume.rows.mutation import Attributes, Mutation, attributes_of
from bailiwick.stores.volume.rows.records import (
    DIRECTORY,
    FILE,
    LINK,
    LINK_MODE,
    PERMISSION_BITS,
    BoundName,
    Inode,
    RowPlace,
)
from bailiwick.stores.volume.rows.tree import RowTree
from bailiwick.versions import Mark


class FreshContent(NamedTuple):
    """Content to be published, and how it is stored once there is a turn."""

    size: int
    sha256: bytes
    store: Callable[[], Awaitable[Stored]]


async def admit(tree: RowTree, held: VolumeHandle, plan: WritePlan) -> tuple[Spot, Inode | None]:
    """Check that the plan fits what stands there now; return the file, if there is one."""
    spot = await stand(tree, held, parents=plan.parents)
    path, bound = held.path, spot.bound
    if plan.mode == "create" and bound is not None:
        raise FileAlreadyExists("already exists", path=path)
    if plan.mode == "replace" and bound is None:
        raise PathNotFound("there is nothing to replace", path=path)
    old: Inode | None = None
    if bound is not None:
        if bound.kind == DIRECTORY:
            raise IsADirectory("is a directory", path=path)
        if bound.kind == LINK:
            raise not_through_a_link(path)
        old = await tree.inode(bound.node)
        if old is None:
            raise no_such(path)
    check_expected(path, old, plan.expected)
    return spot, old


async def publish(
    turn: ChangeTurn, held: VolumeHandle, spot: Spot, old: Inode | None, fresh: FreshContent,
    plan: WritePlan, mark: Mark, verb: str = "write",
) -> Written:  # fmt: skip
    """Give the name new content. What stood there was admitted in this same turn."""
    check_size(held.path, fresh.size, plan)
    await check_lease(turn, *_first_made(held, spot), mark)
    mode = plan.file_mode
    if mode is None:
        mode = turn.core.modes.file if old is None else old.mode
    mode &= PERMISSION_BITS
    mutation = turn.mutation(verb, mark)
    stored = await fresh.store()
    attributes = Attributes(
        FILE,
        mode,
        fresh.size,
        mutation.now_ns,
        None,
        fresh.sha256,
        stored.content,
        stored.data,
        None if old is None else old.created_ns,
    )
    if old is not None:
        inode = turn.written = await mutation.set_inode(old.id, attributes)
    else:
        directory = await _make_missing(turn, mutation, spot)
        inode = await mutation.new_node(RowPlace(directory, held.path.name), attributes)
        await mutation.touch_directories()
    if held.missing:
        held.made = _missing_above(held, spot)
    before = None if old is None else old.size
    return Written(old is None, fresh.size, fresh.sha256.hex(), inode.version, mode, before)


async def publish_prepared(
    held: VolumeHandle, plan: WritePlan, prepared: Prepared, mark: Mark, turn: ChangeTurn
) -> Written:
    """Publish content whose pieces are stored already."""
    spot, old = await admit(turn.tree, held, plan)
    store = partial(prepared.store, turn.transaction, turn.tree.view.volume)
    fresh = FreshContent(prepared.size, prepared.sha256, store)
    return await publish(turn, held, spot, old, fresh, plan, mark)


def _first_made(held: VolumeHandle, spot: Spot) -> RowPlace:
    """The place nearest to the root that is made or changed: nothing can be locked beneath it that
    is not there yet."""
    return RowPlace(spot.directory, spot.missing[0] if spot.missing else held.path.name)


def _missing_above(held: VolumeHandle, spot: Spot) -> tuple[ScopedPath, ...]:
    """The directories that are missing now, of those that were when the handle was found."""
    return tuple(held.path.parents[: len(spot.missing)][::-1])


async def _make_missing(turn: ChangeTurn, mutation: Mutation, spot: Spot) -> int:
    """The directory of the entry's name, once those that are missing were made."""
    directory = spot.directory
    for name in spot.missing:
        made = await _new_directory(mutation, RowPlace(directory, name), turn.core.modes.directory)
        directory = made.id
    return directory


async def _new_directory(mutation: Mutation, place: RowPlace, mode: int) -> Inode:
    attributes = Attributes(DIRECTORY, mode, 0, mutation.now_ns, None, None, None, None)
    return await mutation.new_node(place, attributes)


async def make_dir(
    turn: ChangeTurn, held: VolumeHandle, file_mode: int | None, mark: Mark, *, parents: bool
) -> bool:
    spot = await stand(turn.tree, held, parents=parents)
    if spot.bound is not None:
        if parents and spot.bound.kind == DIRECTORY:
            return False
        raise FileAlreadyExists("already exists", path=held.path)
    await check_lease(turn, *_first_made(held, spot), mark)
    mode = turn.core.modes.directory if file_mode is None else file_mode & PERMISSION_BITS
    mutation = turn.mutation("make_dir", mark)
    directory = await _make_missing(turn, mutation, spot)
    await _new_directory(mutation, RowPlace(directory, held.path.name), mode)
    await mutation.touch_directories()
    held.made = (*_missing_above(held, spot), held.path)
    return True


async def symlink(turn: ChangeTurn, held: VolumeHandle, text: bytes, mark: Mark) -> None:
    spot = await stand(turn.tree, held)
    if spot.bound is not None:
        raise FileAlreadyExists("already exists", path=held.path)
    await check_lease(turn, spot.directory, held.path.name, mark)
    mutation = turn.mutation("symlink", mark)
    attributes = Attributes(LINK, LINK_MODE, len(text), mutation.now_ns, None, None, None, text)
    await mutation.new_node(RowPlace(spot.directory, held.path.name), attributes)
    await mutation.touch_directories()


class Removed(NamedTuple):
    """``beneath`` says how many names went with it, where that was told at once, and at most one
    more than are told."""

    bound: BoundName
    version: int
    beneath: int | None


async def remove(
    turn: ChangeTurn, held: VolumeHandle, mark: Mark, *, recursive: bool, expected: Expected
) -> Removed:
    """Take the name and end the node: as many rows as for one file, whatever lies beneath."""
    spot, bound = await stand_existing(turn.tree, held)
    if bound.node == turn.tree.view.root:
        raise root_stays()
    await _check_bound(turn.tree, held.path, bound, expected)
    if bound.kind == DIRECTORY and not recursive and not await turn.tree.is_empty(bound.node):
        raise DirectoryNotEmpty("directory is not empty", path=held.path)
    await check_lease(turn, spot.directory, held.path.name, mark, beneath=bound)
    limit = turn.core.limits.removed_counted_max + 1
    beneath = await turn.tree.count_beneath(bound.node, limit) if bound.kind == DIRECTORY else 0
    mutation = turn.mutation("remove", mark)
    await mutation.set_name(RowPlace(spot.directory, held.path.name), None)
    await mutation.end_inode(bound)
    await mutation.touch_directories()
    return Removed(bound, mutation.version, beneath)


async def _check_bound(
    tree: RowTree, path: ScopedPath, bound: BoundName | None, expected: Expected
) -> None:
    if expected.conditional:
        check_expected(path, None if bound is None else await tree.inode(bound.node), expected)


async def move(
    turn: ChangeTurn, source: VolumeHandle, destination: VolumeHandle, mark: Mark, *, replace: bool,
    expected: Expected, replaced: Expected,
) -> bool:  # fmt: skip
    tree = turn.tree
    if ROOT in (source.path, destination.path):
        raise root_stays()
    here, moved = await stand_existing(tree, source)
    there = await stand(tree, destination)
    await _check_bound(tree, source.path, moved, expected)
    await _check_bound(tree, destination.path, there.bound, replaced)
    if there.bound is not None and there.bound.node == moved.node:
        return False
    way = await tree.way_up(there.directory) or ()
    if moved.node in {node for node, _ in way}:
        raise ParseError("a directory cannot be moved into itself", path=destination.path)
    if len(way) > len(await tree.way_up(here.directory) or ()):
        await _check_depth(tree, destination.path, moved, len(way))
    if there.bound is not None:
        if not replace:
            raise FileAlreadyExists("already exists", path=destination.path)
        await _check_replaceable(tree, destination.path, moved, there.bound, here.directory)
    await check_lease(turn, here.directory, source.path.name, mark, beneath=moved)
    await check_lease(turn, there.directory, destination.path.name, mark)
    mutation = turn.mutation("move", mark)
    await mutation.set_name(RowPlace(here.directory, source.path.name), None)
    await mutation.set_name(RowPlace(there.directory, destination.path.name), moved)
    if there.bound is not None:
        await mutation.end_inode(there.bound)
    await mutation.touch_directories()
    return True


async def _check_depth(tree: RowTree, path: ScopedPath, bound: BoundName, levels: int) -> None:
    """Refuse to put something so many levels deep that no path names all that lies beneath."""
    if await tree.is_deeper(bound, DEPTH_MAX - levels):
        raise tree_too_deep(path)


async def _ids_above(tree: RowTree, directory: int) -> set[int]:
    return {node for node, _ in await tree.way_up(directory) or ()}


async def _check_replaceable(
    tree: RowTree, path: ScopedPath, moved: BoundName, old: BoundName, origin: int
) -> None:
    """Whether a move of something from the directory ``origin`` may put it in place of ``old``."""
    if old.kind == DIRECTORY and old.node in await _ids_above(tree, origin):
        raise DirectoryNotEmpty("the directory holds what is moved", path=path)
    if moved.kind == DIRECTORY and old.kind != DIRECTORY:
        raise NotADirectory("a directory cannot replace something else", path=path)
    if old.kind == DIRECTORY:
        if moved.kind != DIRECTORY:
            raise IsADirectory("only a directory can replace a directory", path=path)
        if not await tree.is_empty(old.node):
            raise DirectoryNotEmpty("directory is not empty", path=path)


async def copy(
    turn: ChangeTurn,
    source: VolumeHandle,
    destination: VolumeHandle,
    mark: Mark,
    *,
    recursive: bool,
) -> int:
    tree = turn.tree
    original = await current_inode(tree, source)
    there = await stand(tree, destination)
    if original.kind == DIRECTORY and not recursive:
        raise IsADirectory("is a directory", path=source.path)
    is_root = there.bound is not None and there.bound.node == tree.view.root
    way = await tree.way_up(there.directory) or ()
    if not is_root and original.id in {node for node, _ in way}:
        raise ParseError("a directory cannot be copied into itself", path=destination.path)
    if there.bound is not None:
        raise FileAlreadyExists("already exists", path=destination.path)
    await check_lease(turn, there.directory, destination.path.name, mark)
    await _check_depth(tree, destination.path, BoundName(original.id, original.kind), len(way))
    mutation = turn.mutation("copy", mark)
    place = RowPlace(there.directory, destination.path.name)
    count = await copy_node(mutation, tree, original, place, anew=True)
    # Only the directory that got the copy: those that were copied keep their times.
    mutation.touched = {there.directory}
    await mutation.touch_directories()
    return count


async def copy_node(
    mutation: Mutation, seen_in: RowTree, original: Inode, place: RowPlace, *, anew: bool
) -> int:
    """A node and all beneath it, as ``seen_in`` some view, under new ids; content is shared. What
    is not made ``anew`` comes back, and was made when it was."""
    waiting, count = [(original, place)], 0
    while waiting:
        inode, to = waiting.pop()
        attributes = attributes_of(inode, edition=None)
        if anew:
            attributes = attributes._replace(created_ns=None)
        made = await mutation.new_node(to, attributes)
        count += 1
        if inode.kind != DIRECTORY:
            continue
        for name, bound in await seen_in.children(inode.id):
            child = await seen_in.inode(bound.node)
            if child is not None:
                waiting.append((child, RowPlace(made.id, name)))
    return count


async def set_attributes(
    turn: ChangeTurn, held: VolumeHandle, verb: str, mark: Mark, expected: Expected, *,
    file_mode: int | None = None, mtime_ns: int | None = None,
) -> None:  # fmt: skip
    """Set the mode or the time. No content is changed, so its edition stays."""
    tree = turn.tree
    if held.inode is None:
        _, bound = await stand_existing(tree, held)
        node = bound.node
    else:
        node = held.inode.id
    inode, way = await tree.inode(node), await tree.way_up(node)
    if inode is None or way is None:
        raise no_such(held.path)
    if inode.kind == LINK:
        raise not_through_a_link(held.path)
    check_expected(held.path, inode, expected)
    place = RowPlace(way[1][0], way[0][1]) if len(way) > 1 else RowPlace(node, ROOT.name)
    await check_lease(turn, *place, mark)
    mutation = turn.mutation(verb, mark)
    changed = attributes_of(inode)
    if file_mode is not None:
        changed = changed._replace(mode=file_mode & PERMISSION_BITS)
    if mtime_ns is not None:
        changed = changed._replace(mtime_ns=mtime_ns)
    await mutation.set_inode(node, changed)
