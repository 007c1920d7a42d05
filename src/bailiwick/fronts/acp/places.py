"""Where the editor's paths lie in the scope.

The protocol speaks in absolute paths of the editor's machine. Those beneath the root's mount point
mean what they say. An editor may also work in a directory under another spelling (through a link),
or on files that exist only in a volume: then the directory it names when it opens a session stands
for the place in the scope that it is. Nothing here confines: the scope does that, with whatever
path comes out.
"""

from __future__ import annotations

import os

_DIRECTORIES_MAX = 64
"""Working directories remembered: an editor has a few, and may be told to have no end of them."""


class Places:
    """From the editor's paths to those of a scope, and back.

    ``directory`` is the host directory of the root, where it is one; else the editor's working
    directory stands for the whole of it.
    """

    def __init__(self, mount_point: str, directory: str | None) -> None:
        self._mount_point = mount_point.rstrip("/")
        self._directory = None if directory is None else os.path.realpath(directory)
        self._known: dict[str, str] = {}

    def opened_in(self, directory: object) -> bool:
        """The editor works in this directory. Whether the scope reaches it."""
        if not isinstance(directory, str) or not directory.startswith("/"):
            return False
        directory = os.path.normpath(directory)
        if self._mount_point and _beneath(directory, self._mount_point) is not None:
            return True
        place = ""
        if self._directory is not None:
            found = _beneath(os.path.realpath(directory), self._directory)
            if found is None:
                return False
            place = found
        if directory in self._known or len(self._known) < _DIRECTORIES_MAX:
            self._known[directory] = place
            return True
        return False

    def place_of(self, path: str) -> str:
        """The path as the scope knows it. One that lies nowhere is left for the scope to refuse."""
        for directory, place in sorted(self._known.items(), key=lambda known: -len(known[0])):
            rest = _beneath(path, directory)
            if rest is not None:
                # Climbing out is seen by the scope, which judges what is written here.
                return "/".join(part for part in (place, rest) if part) or "."
        return path

    def shown(self, path: str) -> str:
        """A place of the scope by a name that the editor knows."""
        inside = "" if path == "." else path
        for directory, place in self._known.items():
            rest = _beneath(f"/{inside}", f"/{place}" if place else "")
            if rest is not None:
                return f"{directory}/{rest}" if rest else directory
        return f"{self._mount_point}/{inside}" if inside else self._mount_point or "/"


def _beneath(path: str, directory: str) -> str | None:
    """The path from a directory on, compared by components; None where it does not lie in it."""
    if path == directory:
        return ""
    return path[len(directory) + 1 :] if path.startswith(f"{directory}/") else None
