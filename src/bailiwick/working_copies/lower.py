"""The tree that a working copy lies over: what stands in it, and a directory of the host that shows
it to a program.

A directory of the host is bound as it is. What is kept elsewhere is written out first
(`bailiwick.working_copies.materialised`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from bailiwick.finishing import in_thread
from bailiwick.paths import ScopedPath
from bailiwick.store import Handle, HostDirectory, Reader
from bailiwick.working_copies.survey import Survey, VersionOf, look, survey
from bailiwick.working_copy import Base


class ShownTree(Protocol):
    """What a program sees beneath its changes, held until it is let go of."""

    @property
    def directory(self) -> int:
        """A descriptor of the directory."""
        ...

    @property
    def name(self) -> str:
        """By which it is found again, for a working copy that was left; empty where none is
        needed."""
        ...

    @property
    def changed(self) -> frozenset[str]:
        """What had another version by the time it was written out."""
        ...

    def is_of(self, status: os.stat_result, version: str) -> bool:
        """Whether a file in it that looks like this holds what that version held."""
        ...

    def close(self) -> None: ...


class Lower(Protocol):
    """A tree to lie over."""

    @property
    def masks(self) -> bool:
        """Whether what is hidden has to be masked, since what is shown is the tree itself."""
        ...

    async def survey(self) -> Survey:
        """All that stands in it now. Raises `Unsupported` where that is too much."""
        ...

    async def show(self, survey: Survey, masked: Sequence[str]) -> ShownTree:
        """What the survey found, without what is masked and all beneath that."""
        ...

    async def show_again(self, name: str) -> ShownTree:
        """What was shown to a working copy that was left. Raises `PathNotFound` where it is gone.
        Without a name it is for looking only, before anything was shown."""
        ...

    async def look(self, paths: Collection[ScopedPath]) -> dict[ScopedPath, Base | None]:
        """What stands at some paths by now."""
        ...


class Below(NamedTuple):
    """A directory of this machine that shows through a store: its ``path`` there, which was just
    looked up, what stands in it that was ``touched``, and which other names show."""

    path: ScopedPath
    directory: HostDirectory
    touched: tuple[str, ...]
    shows: Callable[[str], bool]


@runtime_checkable
class ShowsBelow(Protocol):
    """A store most of which is a directory of this machine as it stands: that is looked through by
    the directory, and read from where it lies."""

    @property
    def lower(self) -> Reader: ...

    async def below(self, directory: Handle) -> Below | None: ...


class BoundDirectory:
    """A directory of the host, shown as it is."""

    name = ""
    changed: frozenset[str] = frozenset()

    def __init__(self, directory: int, version_of: VersionOf) -> None:
        self.directory = directory
        self._version_of = version_of

    def is_of(self, status: os.stat_result, version: str) -> bool:
        return self._version_of(status) == version

    def close(self) -> None:
        directory, self.directory = self.directory, -1
        if directory >= 0:
            os.close(directory)


class DirectoryLower:
    """A directory of this machine: programs see it itself, beneath their changes."""

    masks = True

    def __init__(self, directory: HostDirectory, *, entries_max: int) -> None:
        self._directory = directory
        self._entries_max = entries_max

    async def survey(self) -> Survey:
        return await in_thread(self._survey)

    def _survey(self) -> Survey:
        top = self._directory.open_directory()
        try:
            return survey(
                top, self._directory.version_of, since_ns=time.time_ns(),
                entries_max=self._entries_max,
            )  # fmt: skip
        finally:
            os.close(top)

    def _bound(self) -> BoundDirectory:
        return BoundDirectory(self._directory.open_directory(), self._directory.version_of)

    async def show(self, survey: Survey, masked: Sequence[str]) -> ShownTree:
        return self._bound()

    async def show_again(self, name: str) -> ShownTree:
        return self._bound()

    async def look(self, paths: Collection[ScopedPath]) -> dict[ScopedPath, Base | None]:
        return await in_thread(self._look, paths)

    def _look(self, paths: Collection[ScopedPath]) -> dict[ScopedPath, Base | None]:
        top = self._directory.open_directory()
        try:
            return {path: look(top, path, self._directory.version_of) for path in paths}
        finally:
            os.close(top)
