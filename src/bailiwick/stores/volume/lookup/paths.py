"""From a path to what it names, and the handles it gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bailiwick.errors import InternalError, NotADirectory, PathNotFound
from bailiwick.model import EntryType, Symlinks
from bailiwick.nodes.walk import Reached, walk
from bailiwick.paths import ROOT, ScopedPath, from_parts
from bailiwick.stores.volume.refusals import no_such, not_on_the_way, not_through_a_link, nowhere
from bailiwick.stores.volume.rows.records import (
    DIRECTORY,
    LINK,
    TYPES,
    BoundName,
    Inode,
    RowPlace,
)
from bailiwick.stores.volume.rows.tree import RowTree

if TYPE_CHECKING:
    from bailiwick.stores.volume.core import VolumeCore
    from bailiwick.stores.volume.lookup.cache import Cache


class VolumeHandle:
    """A node that was found, a place for one (``parent``, ``missing``, the path's name), or both.

    Reading verbs use the node where there is one, as it was when it was found: a file that is
    replaced or removed is still read whole. Changing verbs use the place, and what has the name in
    it at that instant.
    """

    __slots__ = ("core", "inode", "is_closed", "made", "missing", "parent", "path", "size", "type")

    made: tuple[ScopedPath, ...]
    """Set by what makes directories on the way: see `bailiwick.store.made_for`."""

    def __init__(
        self,
        core: VolumeCore,
        path: ScopedPath,
        inode: Inode | None,
        parent: int | None = None,
        missing: tuple[str, ...] = (),
        *,
        is_entry: bool = False,
    ) -> None:
        """An entry is looked up again by every verb: ``inode`` is only what was there then."""
        self.core = core
        self.path = path
        self.inode = None if is_entry else inode
        self.parent = parent
        self.missing = missing
        self.is_closed = False
        self.type: EntryType | None = None if inode is None else TYPES[inode.kind]
        self.size = 0 if inode is None else inode.size
        if not is_entry and inode is not None and inode.content is not None:
            core.hold(self)

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.core.let_go(self)


def recall(core: VolumeCore, path: ScopedPath, *, is_entry: bool) -> VolumeHandle | None:
    """What a path names, where no link lies on the way: most lookups, by one statement for each
    step that is not remembered. None where it has to be looked up."""
    cache, is_current = core.cache, False
    while True:
        seen, end = cache.seen, _known_end(cache, core.view.root, path.parts)
        if end is None:
            return None
        parent, inode, unknown = end
        if unknown is not None or not is_current:
            if core.remembered(unknown) is None:
                return None
            is_current = cache.seen == seen
        if unknown is None and is_current:
            break
    if is_entry and path.parts:
        return VolumeHandle(core, path, inode, parent, is_entry=True)
    return None if inode is None else VolumeHandle(core, path, inode)


def _known_end(
    cache: Cache, root: int, parts: tuple[str, ...]
) -> tuple[int, Inode | None, RowPlace | None] | None:
    """What is remembered of the end of a path: its directory and its node, which may be missing, or
    the first step that is not known. None where something else than directories is on the way."""
    names, parent, node, kind = cache.names, root, root, DIRECTORY
    for count, name in enumerate(parts, start=1):
        if kind != DIRECTORY:
            return None
        parent, place = node, (node, name)
        bound = names.get(place)
        if bound is None:
            if place not in names:
                return parent, None, RowPlace(parent, name)
            return (parent, None, None) if count == len(parts) else None
        node, kind = bound
    inode = cache.inodes.get(node)
    if kind == LINK or (inode is None and (node in cache.inodes or not parts)):
        return None
    return parent, inode, None if inode is not None else RowPlace(parent, parts[-1])


def recall_inode(core: VolumeCore, held: VolumeHandle) -> Inode | None:
    """What has the name of an entry now, where that is remembered."""
    if held.parent is None or held.missing:
        return None
    cache = core.remembered()
    if cache is None or not cache.leads_up(held.parent, core.view.root):
        return None
    bound = cache.names.get((held.parent, held.path.name))
    return None if bound is None else cache.inodes.get(bound.node)


def are_known_missing(core: VolumeCore, paths: tuple[ScopedPath, ...]) -> bool:
    """Whether it is remembered that nothing has any of these names. Others are asked for their
    changes once for all of them, and only where it is."""

    def are_missing_in(cache: Cache) -> bool:
        root = core.view.root
        return all(_is_missing_in(cache, root, path.parts) for path in paths)

    known, seen = core.cache, core.cache.seen
    if not are_missing_in(known):
        return False
    cache = core.remembered()
    return cache is not None and (cache.seen == seen or are_missing_in(cache))


def _is_missing_in(cache: Cache, node: int, parts: tuple[str, ...]) -> bool:
    known = cache.names
    for name in parts:
        if (node, name) not in known:
            return False
        bound = known[node, name]
        if bound is None:
            return True
        node = bound.node
    return False


async def follow(
    tree: RowTree, path: ScopedPath, *, symlinks: Symlinks, hops_max: int
) -> Reached[BoundName]:
    """Follow ``path`` from the root. As long as no link is met, which is most of the time, each
    name leads straight to the next."""
    node, kind = root = BoundName(tree.view.root, DIRECTORY)
    for count, name in enumerate(path.parts):
        if kind != DIRECTORY:
            raise not_on_the_way(path)
        key, names = (node, name), tree.cache.names
        bound = names[key] if key in names else await tree.name(node, name)
        if bound is None:
            parts = path.parts
            return Reached(BoundName(node, kind), from_parts(parts[:count]), parts[count:])
        if bound.kind == LINK:
            return await walk(BoundNames(tree), root, path, symlinks=symlinks, hops_max=hops_max)
        node, kind = bound
    return Reached(BoundName(node, kind), path, ())


class BoundNames:
    """The names of a volume, for a walk over them."""

    def __init__(self, tree: RowTree) -> None:
        self._tree = tree

    def type_of(self, place: BoundName) -> EntryType:
        return TYPES[place.kind]

    async def find(self, directory: BoundName, name: str) -> BoundName | None:
        return await self._tree.name(directory.node, name)

    async def link_text(self, link: BoundName) -> str | None:
        inode = await self._tree.inode(link.node)
        return None if inode is None or inode.data is None else inode.data.decode()


async def find_object(
    core: VolumeCore, tree: RowTree, path: ScopedPath, symlinks: Symlinks
) -> VolumeHandle:
    reached = await follow(tree, path, symlinks=symlinks, hops_max=core.limits.link_hops_max)
    if reached.missing:
        raise no_such(path)
    inode = await tree.inode(reached.place.node)
    if inode is None:
        raise no_such(path)
    return VolumeHandle(core, reached.path, inode)


async def find_entry(
    core: VolumeCore, tree: RowTree, path: ScopedPath, symlinks: Symlinks, *, parents: bool
) -> VolumeHandle:
    parent = path.parent
    reached = await follow(tree, parent, symlinks=symlinks, hops_max=core.limits.link_hops_max)
    if reached.place.kind != DIRECTORY:
        raise not_on_the_way(path)
    if reached.missing and not parents:
        raise nowhere(path)
    if reached.missing:
        place = reached.path
        for name in (*reached.missing, path.name):
            place = place.child(name)
        return VolumeHandle(core, place, None, reached.place.node, reached.missing)
    place = path if reached.path == parent else reached.path.child(path.name)
    bound = await tree.name(reached.place.node, path.name)
    seen = None if bound is None else await tree.inode(bound.node)
    return VolumeHandle(core, place, seen, reached.place.node, is_entry=True)


class Spot(NamedTuple):
    """Where an entry's name belongs at this instant: the deepest directory there is, those still
    missing, and the node that has the name."""

    directory: int
    missing: tuple[str, ...]
    bound: BoundName | None


async def stand(tree: RowTree, held: VolumeHandle, *, parents: bool = False) -> Spot:
    """What has the entry's name, in the directory that was held.

    Directories missing above it are `PathNotFound`, unless ``parents`` allows to make them; so is
    a directory that was removed, itself or together with one that it lies in.
    """
    if held.parent is None:
        if held.path == ROOT:
            return Spot(tree.view.root, (), BoundName(tree.view.root, DIRECTORY))
        raise InternalError("a change needs a handle on an entry", path=held.path)
    directory, missing = held.parent, held.missing
    while missing:
        child = await tree.name(directory, missing[0])
        if child is None:
            break
        if child.kind == LINK:
            raise not_through_a_link(held.path)
        if child.kind != DIRECTORY:
            raise not_on_the_way(held.path)
        directory, missing = child.node, missing[1:]
    if (missing and not parents) or await tree.way_up(directory) is None:
        raise nowhere(held.path)
    return Spot(directory, missing, None if missing else await tree.name(directory, held.path.name))


async def stand_existing(tree: RowTree, held: VolumeHandle) -> tuple[Spot, BoundName]:
    spot = await stand(tree, held)
    if spot.bound is None:
        raise no_such(held.path)
    return spot, spot.bound


async def current_inode(tree: RowTree, held: VolumeHandle) -> Inode:
    """The node that was found, as it was then; for a mere place, what has the name now. A
    directory is always as it is now."""
    seen = held.inode
    if seen is not None and seen.kind != DIRECTORY:
        return seen
    if seen is None:
        _, bound = await stand_existing(tree, held)
        inode = await tree.inode(bound.node)
    else:
        inode = await tree.inode(seen.id)
    if inode is None:
        raise no_such(held.path)
    return inode


async def current_directory(tree: RowTree, held: VolumeHandle) -> int:
    inode = await current_inode(tree, held)
    if inode.kind != DIRECTORY:
        raise NotADirectory("not a directory", path=held.path)
    if await tree.way_up(inode.id) is None:
        raise PathNotFound("the directory was removed meanwhile", path=held.path)
    return inode.id
