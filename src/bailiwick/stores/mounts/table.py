"""Which mount a path lies in, and what stands above the mounts."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from bailiwick.errors import BailiwickError, ParseError, PermissionDenied
from bailiwick.model import EntryType
from bailiwick.paths import ROOT, ScopedPath, from_parts
from bailiwick.store import Handle, Store, made_for


class MountedStore(NamedTuple):
    """A store with its place in the tree."""

    point: ScopedPath
    store: Store
    read_only: bool = False

    def outside(self, path: ScopedPath) -> ScopedPath:
        """A path of the store, as it is called in the whole tree."""
        return path.beneath(self.point)

    def inside(self, path: ScopedPath) -> ScopedPath:
        """A path of the whole tree, as the store calls it."""
        return path.relative_to(self.point)

    @contextmanager
    def told(self, passing: list[BaseException] | None = None) -> Iterator[None]:
        """Errors of the store name their place in the whole tree. Those in ``passing`` only come
        through it, and name their own already."""
        try:
            yield
        except BailiwickError as error:
            if error.path is not None and not any(error is each for each in passing or ()):
                error.path = self.outside(ScopedPath(error.path))
                if isinstance(error, OSError):
                    error.filename = error.path
            raise


class MountTable:
    """The mounts of one tree. None lies in another (`ParseError`)."""

    def __init__(self, mounts: Mapping[ScopedPath, MountedStore]) -> None:
        self.mounts: Final = dict(mounts)
        self.above: Final = _names_above(self.mounts)

    def mount_of(self, path: ScopedPath) -> MountedStore | None:
        """The mount in which a path lies, its point included."""
        parts = path.parts
        for levels in range(1, len(parts) + 1):
            mount = self.mounts.get(from_parts(parts[:levels]))
            if mount is not None:
                return mount
        return None


def _names_above(mounts: Mapping[ScopedPath, MountedStore]) -> dict[ScopedPath, list[str]]:
    """The directories above the mounts, each with the names in it, sorted."""
    above: dict[ScopedPath, set[str]] = {ROOT: set()}
    for point in mounts:
        if point.is_root:
            raise ParseError("nothing is mounted on the root itself", hint="give the mount a name")
        parts = point.parts
        for levels in range(len(parts)):
            here = from_parts(parts[:levels])
            if here in mounts:
                raise ParseError(
                    f"the mount {point} lies in the mount {here}",
                    hint="mounts lie beside each other",
                )
            above.setdefault(here, set()).add(parts[levels])
    return {path: sorted(names) for path, names in above.items()}


class MountHandle:
    """What was found: in a mount by its store, or above all of them (``held`` is None)."""

    __slots__ = ("_kind", "held", "mount", "path")

    def __init__(
        self,
        path: ScopedPath,
        mount: MountedStore | None,
        held: Handle | None,
        *,
        kind: EntryType | None = None,
    ) -> None:
        self.path: Final = path
        self.mount: Final = mount
        self.held: Final = held
        self._kind: Final = kind

    @property
    def type(self) -> EntryType | None:
        return self._kind if self.held is None else self.held.type

    @property
    def size(self) -> int:
        return 0 if self.held is None else self.held.size

    @property
    def is_point(self) -> bool:
        """Whether it is the place where something is mounted."""
        return self.mount is not None and self.path == self.mount.point

    @property
    def made(self) -> tuple[ScopedPath, ...] | None:
        made = made_for(self.held)
        if made is None or self.mount is None:
            return made
        return tuple(self.mount.outside(each) for each in made)

    def close(self) -> None:
        if self.held is not None:
            self.held.close()


def point_stays(path: ScopedPath) -> PermissionDenied:
    """The refusal of a change of a mount point, or of a directory above one."""
    return PermissionDenied(
        "something is mounted there, or beneath it", path=path, errno=errno.EBUSY,
        hint="mounts are named where the root is opened",
    )  # fmt: skip
