"""``mounts`` of a ``[[root]]``: places that are joined under one tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, get_args

import msgspec

from bailiwick.config.places import names_volume, parse_volume
from bailiwick.config.tables import Table
from bailiwick.config.values import MountConfig
from bailiwick.errors import ParseError, Unsupported, escape_for_display
from bailiwick.paths import ScopedPath, check_new_name, check_portable, folded, parse

MEMORY: Final = "memory:"

OVERLAY: Final = "overlay:"

_BUCKETS: Final = ("s3://", "gs://", "az://")

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
    points = table.checked("mounts", lambda: check_points(read))
    if table.text("names") == "portable":
        table.checked("mounts", lambda: check_portable_points(points.values()))
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
    if names_bucket(place):
        if mode == "read-write":
            hint = 'leave out mode, or say "read-only"'
            raise mounts.error(name, "a bucket is mounted to be read", hint)
        mode = "read-only"
    return MountConfig(place=place, mode=mode or "read-write")


def _check_place(place: str) -> None:
    below = place.removeprefix(OVERLAY)
    if names_volume(below):
        parse_volume(below)
    elif below.startswith((OVERLAY, "mounts:")):
        raise Unsupported("a tree of mounts, or an overlay of an overlay, is not mounted")
    elif below != place and (not below or names_bucket(below)):
        raise ParseError("an overlay lies over a directory or a volume")


def names_bucket(text: str) -> bool:
    """Whether a text is meant to be the address of a bucket."""
    return text.startswith(_BUCKETS)


def check_points(names: Mapping[str, object]) -> dict[str, ScopedPath]:
    """Where each mount stands, by its name. Raises `ParseError`."""
    points: dict[str, ScopedPath] = {}
    for name in names:
        path = parse(name).path
        if path.is_root:
            raise ParseError("nothing is mounted on the root itself", hint="give the mount a name")
        if str(path) != name.removeprefix("/"):
            raise ParseError(
                f"the name of a mount is a plain path, and {escape_for_display(name)!r} is none",
                hint=f'write "{path}"',
            )
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


def check_portable_points(points: Iterable[ScopedPath]) -> None:
    """Refuse mounts that Windows or macOS would take for one. Raises `ParseError`."""
    spelled: dict[str, str] = {}
    for point in points:
        parts = point.parts
        for levels, part in enumerate(parts, 1):
            check_portable(part)
            here = "/".join(parts[:levels])
            known = spelled.setdefault(folded(here), here)
            if known != here:
                raise ParseError(
                    f"the mounts {known} and {here} differ only in how they are written",
                    hint="give each a name of its own",
                )


def mounts_a_directory(mounts: Mapping[str, MountConfig]) -> bool:
    return any(_is_directory(each.place.removeprefix(OVERLAY)) for each in mounts.values())


def _is_directory(place: str) -> bool:
    return place != MEMORY and not names_volume(place) and not names_bucket(place)


def mounts_a_volume(mounts: Mapping[str, MountConfig]) -> bool:
    return any(names_volume(each.place.removeprefix(OVERLAY)) for each in mounts.values())
