"""The tree that a working copy lies over: what stands in it, and a directory of the host that shows
it to a program.

A directory of the host is bound as it is. What is kept elsewhere is written out first
(`bailiwick.working_copies.materialised`).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, runtime_checkable

import msgspec

from bailiwick.commands import DirectorySeen, Visible
from bailiwick.finishing import in_thread
from bailiwick.model import EntryType
from bailiwick.paths import ScopedPath
from bailiwick.store import Handle, HostDirectory, Reader
from bailiwick.working_copies.survey import (
    CHANGED_SINCE,
    Survey,
    VersionOf,
    base_of,
    look,
    status_at,
)
from bailiwick.working_copies.tree_names import (
    NamesLister,
    TreeNames,
    can_be_named,
    clock_ns,
    decoded,
)
from bailiwick.working_copy import Base

_STEP_S: Final = 0.001
"""Between two looks at a clock that goes by 1 to 10 ms."""

_UNTIL_STAGED_S: Final = (0.05, 0.2)
"""Where something lies under a name of our own, which is for an instant as a rule: what is mounted
for others would end by it."""


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

    def recall(self, found: bytes, since: Mapping[str, Base | None]) -> Survey:
        """A survey that was kept with a working copy, as it was encoded. Raises what such bytes
        raise that say nothing."""
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

    def mounts(self) -> Collection[str]:
        """Directories in it that other filesystems are mounted on by now. Blocks."""
        ...


def hidden(lower: Lower, survey: Survey, masked: tuple[str, ...]) -> tuple[str, ...]:
    """What has to be masked of a tree that is shown."""
    return (*masked, *(survey.doors or ())) if lower.masks else ()


async def by_now(lower: Lower, survey: Survey, shown: Visible) -> Visible | None:
    """What shows by now of a tree that was ``shown`` as it was surveyed: where that is the tree
    itself, others may have made something in it since. None where that is for no program."""
    if not lower.masks:
        return shown
    hidden = survey.doors or ()
    now = await lower.survey()
    for pause_s in _UNTIL_STAGED_S:
        if all(can_be_named(each) for each in now.doors_beside(hidden)):
            break
        await asyncio.sleep(pause_s)
        now = await lower.survey()
    if now.shows_what(survey):
        return shown
    return None if now.doors_beside(hidden) else now


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


class DirectorySurvey(Survey):
    """What stood in a directory of this machine when a program was first shown it. Of a file that
    is looked up later its times tell whether it was changed after that: then it has nobody's
    version, whatever stands there."""

    def __init__(
        self, directory: HostDirectory, names: TreeNames, *, began_ns: int = 0,
        shown: ShownAt | None = None, since: Mapping[str, Base | None] | None = None,
    ) -> None:  # fmt: skip
        self._names = names
        self._directory = directory
        self._began_ns = began_ns
        self._shown = shown
        super().__init__({}, since)

    async def show(self) -> None:
        """It is shown from here on. What was changed before this survey began is older than the
        time that is told for that: the clock of files has come past it."""
        while (now_ns := clock_ns()) <= self._began_ns:  # noqa: ASYNC110 (it tells nobody)
            await asyncio.sleep(_STEP_S)
        self._shown = ShownAt(now_ns, _clock_set_ns())
        self.doors = self._names.doors

    def _found_at(self, path: str) -> Base | None:
        found = self._names.at(path)
        if isinstance(found, str):
            found = self._since[path] = self._looked_up(path, found)
            self.has_looked_up = True
        return found

    def _looked_up(self, path: str, kind: EntryType) -> Base:
        assert self._shown is not None, "it was not shown to anybody"
        top = self._directory.open_directory()
        try:
            status = status_at(top, path, self._is_same)
        finally:
            os.close(top)
        if status is None:
            return Base(kind, CHANGED_SINCE, 0, 0)
        base = base_of(status, self._directory.version_of)
        if base.type == kind and status.st_ctime_ns < self._shown.by_the_clock_of_now:
            return base
        return base._replace(type=kind, version=CHANGED_SINCE)

    def _is_same(self, path: str, status: os.stat_result) -> bool:
        listed = self._names.listed.get(path)
        return listed is not None and listed.identity == (status.st_dev, status.st_ino)

    def _was_found(self, path: str) -> bool:
        return self._names.at(path) is not None

    def _found_beneath(self, path: str) -> Iterator[str]:
        return (each for each, _ in self._names.beneath(path))

    def seen(self) -> Iterator[DirectorySeen]:
        return self._names.seen()

    def shows_what(self, other: Survey) -> bool:
        return isinstance(other, DirectorySurvey) and other._names is self._names

    def doors_beside(self, hidden: Collection[str]) -> Collection[str]:
        return set(self._names.lasting_doors).difference(hidden)

    def encoded(self) -> bytes:
        return msgspec.msgpack.encode((self._shown, msgspec.Raw(self._names.encoded)))


class ShownAt(NamedTuple):
    """When something was shown, and what the clock was set to then, against one that nobody
    sets."""

    clock_ns: int
    set_ns: int

    @property
    def by_the_clock_of_now(self) -> int:
        """A clock that was set back since calls earlier what came later."""
        return self.clock_ns - max(0, self.set_ns - _clock_set_ns())


def _clock_set_ns() -> int:
    return time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class DirectoryLower:
    """A directory of this machine: programs see it itself, beneath their changes."""

    masks = True

    def __init__(self, directory: HostDirectory, *, entries_max: int) -> None:
        self._directory = directory
        self._lister = NamesLister(directory, entries_max)

    async def survey(self) -> Survey:
        return await in_thread(self._survey)

    def _survey(self) -> Survey:
        began_ns = time.time_ns()
        return DirectorySurvey(self._directory, self._lister.names(), began_ns=began_ns)

    def recall(self, found: bytes, since: Mapping[str, Base | None]) -> Survey:
        shown, names = msgspec.msgpack.decode(found, type=tuple[ShownAt, msgspec.Raw])
        return DirectorySurvey(self._directory, decoded(names), shown=shown, since=since)

    def _bound(self) -> BoundDirectory:
        return BoundDirectory(self._directory.open_directory(), self._directory.version_of)

    async def show(self, survey: Survey, masked: Sequence[str]) -> ShownTree:
        assert isinstance(survey, DirectorySurvey)
        await survey.show()
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

    def mounts(self) -> Collection[str]:
        return self._directory.mounts()
