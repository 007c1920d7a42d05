"""Which place a caller means: a directory, memory, a branch of a volume, or a store of their own.

A text that begins like the name of a volume is one, or a mistake; a path object is always a
directory, whatever it is called.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from bailiwick.build.homes import user_directory
from bailiwick.build.options import (
    Options,
    host_directory,
    refuse_for_mounts,
    refuse_for_store,
    refuse_options,
)
from bailiwick.build.stores import let_go
from bailiwick.errors import (
    BailiwickError,
    IsADirectory,
    ParseError,
    RootNotFound,
    Unsupported,
    from_os_error,
)
from bailiwick.finishing import in_thread
from bailiwick.paths import ScopedPath
from bailiwick.store import Store

if TYPE_CHECKING:
    from bailiwick.config.places import VolumePlace

EMBEDDED: Final[Any] = object()
"""What `bailiwick.open` opens when nothing is named: see `embedded_volume`."""

_OVERLAY: Final = "overlay:"

MOUNTS: Final = "mounts:"
"""A tree of mounts, which are said besides."""

_SCHEMES: Final = ("sqlite:", "postgres:", "postgresql:")


class NamedPlace(NamedTuple):
    """A place of one kind: exactly one of these is given, or none for memory."""

    directory: str | None = None
    volume: VolumePlace | None = None
    store: Store | None = None
    over: bool = False
    """Whether it is an overlay: what is changed stays apart from the directory or volume until it
    is applied."""
    mounts: tuple[NamedMount, ...] | None = None
    """What is joined under one tree, where it is that."""
    bucket: str | None = None
    """The address of a bucket, which can be mounted and nothing else."""

    @property
    def host_paths(self) -> tuple[str | None, ...]:
        """What it is on this machine, where it is anything."""
        if self.mounts is not None:
            return tuple(each for mount in self.mounts for each in mount.place.host_paths)
        if self.volume is None:
            return (self.directory,)
        return (self.volume.file, self.volume.blobs_folder)

    @property
    def in_memory(self) -> bool:
        named = (self.directory, self.volume, self.store, self.mounts, self.bucket)
        return all(each is None for each in named)

    def refuse_unfit(self, options: Options) -> None:
        """Refuse options that such a place could not enforce."""
        if self.mounts is not None:
            refuse_for_mounts(
                options,
                directory=any(each.place.directory is not None for each in self.mounts),
                volume=any(each.place.volume is not None for each in self.mounts),
            )
            for each in self.mounts:
                if each.place.store is not None:
                    refuse_for_store(options, each.place.store.description)
            if options.names == "portable":
                from bailiwick.config.mounts import check_portable_points

                check_portable_points([each.point for each in self.mounts])
        elif self.volume is not None:
            refuse_options(options, "a volume", directory=False, volume=True)
        elif self.store is not None:
            refuse_options(options, "a store", directory=False, volume=False)
            refuse_for_store(options, self.store.description)
        elif self.in_memory:
            refuse_options(options, "memory", directory=False, volume=False)
        else:
            refuse_options(options, "a directory", directory=True, volume=False)


class NamedMount(NamedTuple):
    """A place, and where it is joined to a tree."""

    point: ScopedPath
    place: NamedPlace
    read_only: bool = False


def read_place(given: object) -> NamedPlace:
    """The place that is meant. Looks at nothing. Raises `ParseError`, and `Unsupported` for what
    is known and not built."""
    if given is EMBEDDED:
        return NamedPlace(volume=embedded_volume())
    if isinstance(given, Store):
        return NamedPlace(store=given)
    if isinstance(given, os.PathLike):
        text = os.fspath(given)
        if isinstance(text, str) and text and "\0" not in text:
            return NamedPlace(directory=os.path.abspath(os.path.expanduser(text)))
    if not isinstance(given, str) or not given or "\0" in given:
        raise ParseError(
            "a place is a directory such as ./project, memory:, a volume, an overlay, or a store",
            hint='"./project", "memory:" or "sqlite:agent.db?volume=main"',
        )
    if given.startswith(_SCHEMES):
        from bailiwick.config.places import parse_volume

        return NamedPlace(volume=on_host(parse_volume(given), os.getcwd()))
    if given.startswith(_OVERLAY):
        inner = read_place(given.removeprefix(_OVERLAY) or ".")
        if inner.over:
            raise Unsupported(
                "an overlay lies over a directory or a volume", hint='write "overlay:./project"'
            )
        return inner._replace(over=True)
    if given.startswith("memory:"):
        if given != "memory:":
            raise ParseError("a memory place has no name", hint='write "memory:"')
        return NamedPlace()
    return NamedPlace(directory=host_directory(given))


def read_opened(given: object, mounts: object, *, blocking: bool) -> NamedPlace:
    """The place that is meant, where ``mounts`` may be said besides. Raises as `read_place`."""
    if mounts is None and given != MOUNTS:
        return read_place(given)
    if given != MOUNTS:
        raise ParseError("only a tree of mounts has mounts", hint='open "mounts:"')
    from bailiwick.build.mounts.named_mounts import read_mounts

    return NamedPlace(mounts=read_mounts(mounts, blocking=blocking))


def on_host(place: VolumePlace, base: str) -> VolumePlace:
    """A volume's place with absolute paths, from the directory ``base``."""
    folder = place.blobs_folder
    return place._replace(
        file=absolute(base, place.file) if place.in_file else place.file,
        blobs=place.blobs if folder is None else absolute(base, folder),
    )


def absolute(base: str, path: str) -> str:
    return os.path.abspath(os.path.join(base, os.path.expanduser(path)))


def embedded_volume() -> VolumePlace:
    """The volume ``main`` in the user's data directory, which is made if missing: private. Raises
    `RootNotFound` where nobody knows of such a directory."""
    from bailiwick.config.places import VolumePlace

    file = _embedded_file()
    if file is None:
        raise RootNotFound(
            "this user has no home to keep a workspace in",
            hint="set $HOME or $XDG_DATA_HOME, or name a place",
        )
    return VolumePlace(file)


def _embedded_file() -> str | None:
    own = user_directory("XDG_DATA_HOME", ".local/share")
    return None if own is None else os.path.join(own, "bailiwick", "workspace.db")


def embedded_refusal() -> BailiwickError | None:
    """Why the user's own volume would be refused as things are, be it there or not."""
    from bailiwick.stores.volume.fsck.ownership import refuse_foreign_folder, refuse_strangers

    try:
        file = embedded_volume().file
        refuse_strangers(file)
        refuse_foreign_folder(f"{file}-blobs")
    except BailiwickError as error:
        return error
    return None


def volume_store(place: VolumePlace, options: Options) -> Store:
    """The store on a branch of a volume; file and volume are made if missing. Blocks."""
    from bailiwick.stores.volume import VolumeStore

    if place.in_file:
        check_file(place)
    return VolumeStore.open(
        place.file,
        volume=place.volume,
        branch=place.branch,
        symlinks=options.symlinks,
        limits=options.limits,
        new_file_mode=options.new_file_mode,
        blobs=blobs_of(place),
        compression=place.compression,
    )


def check_file(place: VolumePlace) -> None:
    """Refuse a place where no file of a volume can be; the directory of the user's own volume is
    made. Blocks."""
    if os.path.isdir(place.file):
        raise IsADirectory(
            "the file of the volume is a directory", hint='name a file: "sqlite:agent.db"'
        )
    if place.file == _embedded_file():
        _make_private(os.path.dirname(place.file))
    elif not os.path.isdir(os.path.dirname(place.file)):
        raise RootNotFound("the directory of the volume's file does not exist", hint="make it")


def _make_private(directory: str) -> None:
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
    except OSError as error:
        failed = from_os_error(error)
        failed.hint = 'name a file instead: bailiwick.open("sqlite:agent.db")'
        raise failed from error


def blobs_of(place: VolumePlace) -> Any:
    """Where large content goes; None: a folder beside the file."""
    if place.blobs is None:
        return None
    if place.blobs_folder is not None:
        from bailiwick.stores.volume.content.blobs import FolderBlobs

        return FolderBlobs(place.blobs)
    from bailiwick.stores.volume.content.object_store import open_blobs

    return open_blobs(place.blobs)


class Background(Protocol):
    """What goes on beside an open place, until it is closed."""

    async def aclose(self) -> None: ...


def keep(store: Store, place: VolumePlace, options: Options) -> Background:
    """Have a volume collect by itself, from now on. Raises `ParseError` where this process has it
    open with another retention."""
    from bailiwick.stores.volume import VolumeStore
    from bailiwick.stores.volume.retention.auto_collection import VolumeAutoCollection

    assert isinstance(store, VolumeStore)
    keeping = VolumeAutoCollection(store, place.volume, options.keep_versions_days)
    keeping.begin()
    return keeping


async def open_volume(place: VolumePlace, options: Options) -> tuple[Store, Background]:
    """The store on a branch of a volume, and what keeps it."""
    store = await in_thread(volume_store, place, options, let_go=let_go)
    try:
        return store, keep(store, place, options)
    except BaseException:
        await store.aclose()
        raise
