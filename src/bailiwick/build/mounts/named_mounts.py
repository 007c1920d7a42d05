"""Which places are joined under one tree, as a program or a configuration names them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl, unquote, urlsplit

from bailiwick.build.commands import path_of
from bailiwick.build.mounts.mounted_scope import ScopeStore
from bailiwick.build.places import MOUNTS, NamedMount, NamedPlace, absolute, on_host, read_place
from bailiwick.config.mounts import MEMORY, OVERLAY, check_points, names_bucket
from bailiwick.config.places import VolumePlace, names_volume, parse_volume
from bailiwick.config.values import MountConfig
from bailiwick.errors import ParseError, Unsupported
from bailiwick.paths import ScopedPath
from bailiwick.portal import SyncScope
from bailiwick.scope import Scope
from bailiwick.store import HostDirectory


def read_mounts(given: object, *, blocking: bool) -> tuple[NamedMount, ...]:
    """The places that are joined under one tree, by their names there. Looks at nothing. A scope is
    of one event loop: for ``blocking`` code it is one of blocking code. Raises as `read_place`."""
    if not isinstance(given, Mapping) or not given:
        raise ParseError(
            "mounts are places by their names in the tree", hint='mounts={"docs": "./docs"}'
        )
    points = check_points(given)
    return _apart([_read_mount(points[name], given[name], blocking) for name in points])


def configured_mounts(mounts: Mapping[str, MountConfig], base: str) -> tuple[NamedMount, ...]:
    """The mounts that a configuration names, whose paths begin at ``base``."""
    points = check_points(mounts)
    return _apart(
        [
            _mounted(points[name], _placed(each.place, base), each.mode)
            for name, each in mounts.items()
        ]
    )


def _mounted(point: ScopedPath, place: NamedPlace, mode: str | None) -> NamedMount:
    if place.bucket is None:
        return NamedMount(point, place, mode == "read-only")
    if mode == "read-write":
        raise Unsupported(
            "a bucket is mounted to be read", path=point, hint='leave out mode, or say "read-only"'
        )
    return NamedMount(point, place, read_only=True)


def _placed(text: str, base: str) -> NamedPlace:
    if text.startswith(OVERLAY):
        return _placed(text.removeprefix(OVERLAY), base)._replace(over=True)
    if names_bucket(text):
        return NamedPlace(bucket=text)
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


def _read_mount(point: ScopedPath, given: object, blocking: bool) -> NamedMount:
    mode = None
    if isinstance(given, Mapping):
        if unknown := sorted(map(str, given.keys() - {"place", "mode"})):
            raise ParseError(f"a mount has a place and a mode, and no {unknown[0]!r}")
        mode, given = given.get("mode", mode), given.get("place")
    if mode not in (None, "read-write", "read-only"):
        raise ParseError(f"the mode of the mount {point} is read-write or read-only")
    if isinstance(given, (Scope, SyncScope)):
        if isinstance(given, SyncScope) is not blocking:
            raise ParseError(
                "a scope of blocking code is mounted by open_sync, another one by open", path=point
            )
        scope = given._scope if isinstance(given, SyncScope) else given
        return _mounted(point, NamedPlace(store=ScopeStore(scope)), mode)
    if given == MOUNTS:
        raise Unsupported("a tree of mounts is not mounted", path=point)
    if isinstance(given, str) and names_bucket(given):
        return _mounted(point, NamedPlace(bucket=given), mode)
    return _mounted(point, read_place(given), mode)


def _refuse_same(one: NamedMount, other: NamedMount) -> None:
    """Nothing is reached by two names: what is refused at one would be had at the other."""
    here, there = one.place, other.place
    same = here.store is not None and here.store is there.store
    if isinstance(here.store, ScopeStore) and isinstance(there.store, ScopeStore):
        tops = here.store.top, there.store.top
        nested = tops[0].lies_in(tops[1]) or tops[1].lies_in(tops[0])
        same = here.store.tree is there.store.tree and nested
    one_path, other_path = _path_of(here), _path_of(there)
    if one_path is not None and other_path is not None and (here.directory or there.directory):
        places = os.path.realpath(one_path), os.path.realpath(other_path)
        same = os.path.commonpath(places) in places
    if here.volume is not None and there.volume is not None:
        same = _branch_of(here.volume) == _branch_of(there.volume)
    if here.bucket is not None and there.bucket is not None:
        same = _nested(_bucket_of(here.bucket), _bucket_of(there.bucket))
    if same:
        raise ParseError(
            f"the mounts {other.point} and {one.point} are, or hold, the same place",
            hint="give each a place of its own",
        )


def _path_of(place: NamedPlace) -> str | None:
    """The directory that a place is, or that a scope is on."""
    store = place.store.tree if isinstance(place.store, ScopeStore) else None
    return path_of(store) if isinstance(store, HostDirectory) else place.directory


def _bucket_of(address: str) -> tuple[str, ...]:
    parts = urlsplit(address)
    endpoint = dict(parse_qsl(parts.query)).get("endpoint", "")
    names = filter(None, unquote(parts.path).split("/"))
    return (parts.scheme, endpoint, parts.netloc, *names)


def _nested(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    least = min(len(one), len(other))
    return one[:least] == other[:least]


def _branch_of(volume: VolumePlace) -> tuple[str, str, str]:
    file = os.path.realpath(volume.file) if volume.in_file else volume.file
    return file, volume.volume, volume.branch
