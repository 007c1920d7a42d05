"""What whoever calls may know of a working copy: a program that takes away a directory, or moves
it, takes along what it was never shown."""

from __future__ import annotations

from bailiwick.call import Call
from bailiwick.errors import PolicyDenied
from bailiwick.operations import METADATA, READ, Operation
from bailiwick.paths import ScopedPath
from bailiwick.policy import permits
from bailiwick.working_copy import Alterations, Altered, Wanted, refuse_unchanged


def may(call: Call, path: ScopedPath, operation: Operation) -> bool:
    """Whether whoever calls may do that there, going by the rules."""
    return permits(call.decide(path, operation.ruled))


def may_with(call: Call, altered: Altered, operation: Operation) -> bool:
    """Whether whoever calls may do that with what lies in a working copy: what came along with a
    directory is still what lay where it came from."""
    return may(call, altered.path, operation) and (
        altered.origin is None or may(call, altered.origin, operation)
    )


class KnownPlaces:
    """Tells what a program made, and what its caller may see, from what only went or came with
    something around it: that is not named."""

    def __init__(self, call: Call, found: Alterations) -> None:
        self._call, self._found = call, found
        unknown = {
            each.path
            for each in found.altered
            if each.origin is not None and not may(call, each.origin, METADATA)
        }
        self._unknown = unknown
        self._may_be_seen: dict[ScopedPath, bool] = {}
        self._made = {each.path for each in found.altered if each.type is not None} - unknown

    def has(self, path: ScopedPath) -> bool:
        return path in self._made or self.sees(path)

    def made(self, path: ScopedPath) -> bool:
        """Whether a program left something there."""
        return path in self._made

    def sees(self, path: ScopedPath) -> bool:
        """Whether what stands there in the tree, and came there in the copy, is no secret."""
        if path not in self._may_be_seen:
            known = path not in self._unknown and may(self._call, path, METADATA)
            self._may_be_seen[path] = known
        return self._may_be_seen[path]

    def nearest(self, path: ScopedPath) -> ScopedPath:
        """What to name for a place: itself, or what lies around it."""
        while not path.is_root and not self.has(path):
            path = path.parent
        return path

    def among(self, wanted: Wanted) -> Wanted:
        """What is wanted of them. Raises `PathNotFound` where nothing was changed that may be known
        of, and `PolicyDenied` for hunks that would be compared with what may not be read, whatever
        that is."""
        if wanted.only is None:
            return wanted
        meant = (each.path for each in self._found.altered if wanted.covers(each.path))
        dropped = (each.path for each in (*self._found.unfit, *self._found.dropped))
        refuse_unchanged(wanted.only, filter(self.has, meant), dropped)
        only = frozenset(filter(self.has, wanted.only))
        hunks = {path: each for path, each in wanted.hunks.items() if path in only}
        for path in hunks:
            if not may(self._call, path, READ):
                raise PolicyDenied("what stands there may not be read", path=path)
        return wanted._replace(only=only, hunks=hunks)
