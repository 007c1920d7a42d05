"""Directories that were moved in a working copy. Of what came along nothing lies in the copy: it is
brought with all of it, or not at all, and what is said of it is said of the whole."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence

from bailiwick.errors import escape_for_display
from bailiwick.paths import ScopedPath
from bailiwick.verbs.review.apart import ApartPath, looks_of
from bailiwick.versions import Conflict
from bailiwick.working_copy import Alterations, around


def folded(found: Sequence[ApartPath], seen: Alterations) -> list[ApartPath]:
    """What was changed, with each directory that was moved and is as it was told as one change; of
    others it is said what was ``carried`` with them."""
    by_path = {each.path: each for each in found}
    for group in seen.moves():
        to = _moved_in(group, seen)
        moved = _as_it_was(to, seen.moved[to], group, by_path)
        if moved is not None:
            for path in group:
                by_path.pop(path, None)
            by_path[to] = moved
        else:
            carried = group & by_path.keys()
            by_path |= {each: by_path[each]._replace(carried=to) for each in carried}
    return sorted(by_path.values(), key=lambda each: each.path.order)


def _moved_in(group: Collection[ScopedPath], seen: Alterations) -> ScopedPath:
    """The directory whose move a group of paths is about, or one of those."""
    return min(to for path in group for to in around(path) if to in seen.moved)


def _as_it_was(
    to: ScopedPath, was: ScopedPath, group: set[ScopedPath], found: Mapping[ScopedPath, ApartPath]
) -> ApartPath | None:
    """The move, where all that is different is where things lie; None else."""
    if to not in group or not group <= found.keys():
        return None  # it came where another was, or some of it is hidden
    pairs = []
    for path in sorted(group, key=lambda each: each.order):
        each = found[path]
        if not path.lies_in(to):
            if not path.lies_in(was) or each.theirs is not None:
                return None
            continue
        inside = path.relative_to(to)
        gone = found.get(was if path == to else ScopedPath(f"{was}/{inside}"))
        if gone is None or each.now is not None or not (each.as_it_was and gone.as_it_was):
            return None
        if each.theirs is None or gone.now is None or looks_of(each.theirs) != looks_of(gone.now):
            return None
        pairs.append((str(inside), looks_of(gone.now)))
    if 2 * len(pairs) != len(group):
        return None
    top, gone = found[to], found[was]
    assert top.theirs is not None
    assert gone.now is not None
    # It is known by all that lies in it: whoever agrees to the move has been told of that.
    sha256 = hashlib.sha256(repr(pairs).encode("utf-8", "surrogateescape")).hexdigest()
    return top._replace(
        theirs=top.theirs._replace(sha256=sha256),
        came=gone._replace(now=gone.now._replace(sha256=sha256)),
        along=frozenset(group),
    )


def torn(
    name: str, seen: Alterations, paths: Collection[ScopedPath], partly: Collection[ScopedPath]
) -> list[Conflict]:
    """What stands against saying something of some paths, of which some are meant ``partly``: it
    would be half a move."""
    found = []
    for group in seen.moves():
        meant = group.intersection(paths)
        if meant and (meant != group or not group.isdisjoint(partly)):
            to = _moved_in(group, seen)
            was, here = map(escape_for_display, (seen.moved[to], to))
            found.append(
                Conflict(
                    min(meant),
                    f"it came or went with the directory {here}, which was {was}: that is accepted"
                    f" or rejected as a whole, as {name}:{here}",
                )
            )
    return found
