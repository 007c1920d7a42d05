"""Which places are joined under one tree, as a program or a configuration names them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from bailiwick.build.places import NamedMount, NamedPlace, absolute, on_host, read_place
from bailiwick.config.mounts import MEMORY, check_points
from bailiwick.config.places import VolumePlace, names_volume, parse_volume
from bailiwick.config.values import MountConfig
from bailiwick.errors import ParseError, Unsupported
from bailiwick.paths import ScopedPath
from bailiwick.portal import SyncScope
from bailiwick.scope import Scope


def read_mounts(given: object) -> tuple[NamedMount, ...]:
    """The places that are joined under one tree, by their names there. Looks at nothing. Raises as
    `read_place`."""
    if not isinstance(given, Mapping) or not given:
        raise ParseError(
            "mounts are places by their names in the tree", hint='mounts={"docs": "./docs"}'
        )
    points = check_points(given)
    return _apart([_read_mount(points[name], given[name]) for name in points])


def configured_mounts(mounts: Mapping[str, MountConfig], base: str) -> tuple[NamedMount, ...]:
    """The mounts that a configuration names, whose paths begin at ``base``."""
    points = check_points(mounts)
    return _apart(
        [
            NamedMount(points[name], _placed(each.place, base), each.mode == "read-only")
            for name, each in mounts.items()
        ]
    )


def _placed(text: str, base: str) -> NamedPlace:
    if text == MEMORY:
        return NamedPlace()
    if names_volume(text):
        return NamedPlace(volume=on_host(parse_volume(text), base))
    return NamedPlace(directory=absolute(base, text))


def _apart(named: Sequence[NamedMount]) -> tuple[NamedMount, ...]:
    for number, one in enumerate(named):
        for other in named[:number]:
            _refuse_same(one, other)
    return tuple(named)


def _read_mount(point: ScopedPath, given: object) -> NamedMount:
    mode = "read-write"
    if isinstance(given, Mapping):
        if unknown := sorted(map(str, given.keys() - {"place", "mode"})):
            raise ParseError(f"a mount has a place and a mode, and no {unknown[0]!r}")
        mode, given = given.get("mode", mode), given.get("place")
    if mode not in ("read-write", "read-only"):
        raise ParseError(f"the mode of the mount {point} is read-write or read-only")
    if isinstance(given, (Scope, SyncScope)):
        raise Unsupported(
            "a scope is not mounted: its grant and rules would have to be asked for every lookup",
            path=point, hint="mount the place that it was opened on",
        )  # fmt: skip
    place = read_place(given)
    if place.over:
        raise Unsupported("an overlay is not mounted", path=point)
    return NamedMount(point, place, mode == "read-only")


def _refuse_same(one: NamedMount, other: NamedMount) -> None:
    """Nothing is reached by two names: what is refused at one would be had at the other."""
    here, there = one.place, other.place
    same = here.store is not None and here.store is there.store
    if here.directory is not None and there.directory is not None:
        places = os.path.realpath(here.directory), os.path.realpath(there.directory)
        same = os.path.commonpath(places) in places
    if here.volume is not None and there.volume is not None:
        same = _branch_of(here.volume) == _branch_of(there.volume)
    if same:
        raise ParseError(
            f"the mounts {other.point} and {one.point} are, or hold, the same place",
            hint="give each a place of its own",
        )


def _branch_of(volume: VolumePlace) -> tuple[str, str, str]:
    file = os.path.realpath(volume.file) if volume.in_file else volume.file
    return file, volume.volume, volume.branch
