"""What happened in a tree since some moment, by path: read at once, and not path by path."""

from __future__ import annotations

from bailiwick.paths import ROOT, ScopedPath
from bailiwick.runs import TreeMoment
from bailiwick.versions import Version


class ScannedVersions:
    """Versions of each path, newest first, back to some moment; and the newest moment of all.

    ``moved`` says that something was; ``carried`` that a directory was, or that too much happened
    at once to be told by path, so that paths before and after mean other things; ``cleared`` are
    directories that went with what lay in them, ``partial`` paths of which more may have happened
    than was scanned. With ``others`` that may be so of any that was touched again: what those made
    in between is only known to who asks for the history of the path.
    """

    def __init__(self, *, others: bool) -> None:
        self.versions: dict[ScopedPath, list[Version]] = {}
        self.newest: TreeMoment | None = None
        self.carried = self.moved = False
        self.cleared: set[ScopedPath] = set()
        self.partial: set[ScopedPath] = set()
        self._others = others

    def add(self, version: Version) -> None:
        self.versions.setdefault(version.path, []).append(version)
        if version.type == "directory" and version.kind == "deleted":
            self.cleared.add(version.path)
        self.carried |= version.path == ROOT
        self.carried |= version.type == "directory" and version.kind == "moved"
        self.moved |= version.kind == "moved"

    def is_plain(self, path: ScopedPath) -> bool:
        """Whether what was scanned of a path is all that happened to it."""
        if self.carried or path in self.partial:
            return False
        *newer, oldest = self.versions[path]
        if newer and self._others:
            return False
        # What was moved away is told where it went: what is made anew in its place follows on that.
        if oldest.kind == "moved" or any(each.kind in ("moved", "created") for each in newer):
            return False
        while path != ROOT and self.cleared:
            if path in self.cleared:
                return False
            path = path.parent
        return True


def one_of(version: Version) -> object:
    """What a version is known by among all: at a place one thing goes while another comes."""
    return version.version, version.path, version.kind
