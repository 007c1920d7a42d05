"""``mounts`` of a ``[[root]]``: places that are joined under one tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

import msgspec

from bailiwick.config.places import names_volume, parse_volume
from bailiwick.config.tables import Table
from bailiwick.config.values import MountConfig
from bailiwick.errors import ParseError, Unsupported
from bailiwick.paths import ScopedPath, check_new_name, parse

MEMORY: Final = "memory:"

_MODES: Final = get_args(msgspec.structs.fields(MountConfig)[1].type)


def read_mounts(table: Table) -> dict[str, MountConfig]:
    """The mounts by their names in the tree; none where the root has another place."""
    mounts = table.table("mounts")
    if mounts is None:
        return {}
    for key in ("exec", "copy_in"):
        if table.has(key):
            raise table.error(key, f"'{key}' is not for a root with mounts", "leave it out")
    if not mounts.names():
        raise table.error("mounts", "a tree of mounts has some", 'mounts = {docs = "./docs"}')
    read = {name: _read_mount(mounts, name) for name in mounts.names()}
    table.checked("mounts", lambda: check_points(read))
    return read


def _read_mount(mounts: Table, name: str) -> MountConfig:
    if isinstance(mounts.anything(name), str):
        place, mode = mounts.text(name), None
    else:
        own = mounts.table(name)
        assert own is not None
        own.only("place", "mode")
        own.require("place")
        place, mode = own.text("place"), own.choice("mode", _MODES)
    assert place is not None
    mounts.checked(name, lambda: _check_place(place))
    return MountConfig(place=place, mode=mode or "read-write")


def _check_place(place: str) -> None:
    if names_volume(place):
        parse_volume(place)
    elif place.startswith(("overlay:", "mounts:")):
        raise Unsupported("an overlay or another tree of mounts is not mounted")


def check_points(names: Mapping[str, object]) -> dict[str, ScopedPath]:
    """Where each mount stands, by its name. Raises `ParseError`."""
    points: dict[str, ScopedPath] = {}
    for name in names:
        path = parse(name).path
        if path.is_root:
            raise ParseError("nothing is mounted on the root itself", hint="give the mount a name")
        for part in path.parts:
            check_new_name(part)
        for other in points.values():
            if path.lies_in(other) or other.lies_in(path):
                raise ParseError(
                    f"the mounts {other} and {path} lie in each other",
                    hint="mounts lie beside each other",
                )
        points[name] = path
    return points


def mounts_a_directory(mounts: Mapping[str, MountConfig]) -> bool:
    return any(each.place != MEMORY and not names_volume(each.place) for each in mounts.values())


def mounts_a_volume(mounts: Mapping[str, MountConfig]) -> bool:
    return any(names_volume(each.place) for each in mounts.values())
