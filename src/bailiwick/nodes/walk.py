"""Where a path leads: the one walk over names and links."""

from __future__ import annotations

from collections import deque
from typing import Generic, NamedTuple, Protocol, TypeVar

from bailiwick.errors import NotADirectory, PathNotFound, SymlinkEscape, TooManyLinks
from bailiwick.model import EntryType, Symlinks
from bailiwick.paths import RESERVED_PREFIX, ScopedPath, from_parts, link_steps

Place = TypeVar("Place")


class Names(Protocol[Place]):
    """What a walk needs of whoever keeps the names."""

    def type_of(self, place: Place) -> EntryType: ...
    async def find(self, directory: Place, name: str) -> Place | None: ...
    async def link_text(self, link: Place) -> str | None: ...


class Reached(NamedTuple, Generic[Place]):
    """Where a walk came to: the place, its canonical path, and the names that were not there."""

    place: Place
    path: ScopedPath
    missing: tuple[str, ...]


async def walk(
    tree: Names[Place], root: Place, path: ScopedPath, *, symlinks: Symlinks, hops_max: int
) -> Reached[Place]:
    """Follow ``path`` from ``root``, links included, as far as it goes.

    ``..`` in a link's text is physical: it leaves the directory that the walk has really come to.
    A name that is missing ends the walk if the caller typed it; one that a link's text demands is
    `PathNotFound`, since nobody asked for it to be made. So is one that is reserved for ourselves:
    no caller could say it.
    """
    trail, names = [root], list[str]()
    ahead = deque((name, True) for name in path.parts)
    here, hops = root, 0
    while ahead:
        if tree.type_of(here) != "directory":
            raise NotADirectory("a part of the path is not a directory", path=path)
        name, typed = ahead.popleft()
        if name == ".":
            continue
        if name == "..":
            if len(trail) == 1:
                raise SymlinkEscape("a link leads outside this root", path=path)
            trail.pop()
            names.pop()
            here = trail[-1]
            continue
        is_hidden = not typed and name.startswith(RESERVED_PREFIX)
        child = None if is_hidden else await tree.find(here, name)
        if child is None:
            if not typed:
                raise PathNotFound("a link leads to nothing", path=path)
            return Reached(here, from_parts(names), (name, *(later for later, _ in ahead)))
        found = tree.type_of(child)
        if found == "symlink":
            hops += 1
            _refuse_hop(path, hops, symlinks=symlinks, hops_max=hops_max)
            text = await tree.link_text(child)
            if text is None:
                raise PathNotFound("a link on the way was removed meanwhile", path=path)
            if text.startswith("/"):
                trail, names, here = [root], [], root
            ahead.extendleft((part, False) for part in reversed(link_steps(text)))
            continue
        names.append(name)
        here = child
        if found == "directory":
            trail.append(child)
    return Reached(here, from_parts(names), ())


def _refuse_hop(path: ScopedPath, hops: int, *, symlinks: Symlinks, hops_max: int) -> None:
    if symlinks == "reject":
        raise SymlinkEscape("links are not followed in this root", path=path)
    if hops > hops_max:
        raise TooManyLinks("too many levels of links", path=path)
