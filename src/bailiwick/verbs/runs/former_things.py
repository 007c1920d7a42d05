"""What stood at a place before what was moved away from it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bailiwick.model import EntryType
from bailiwick.paths import ScopedPath
from bailiwick.versions import Version


def before_what_left(path: ScopedPath, versions: Sequence[Version]) -> list[Version]:
    """Of the versions of a place, newest first, those of the last thing there that was not moved
    away: none where there is no such thing."""
    here = [each for each in versions if each.path == path]
    while here and here[0].kind == "moved":
        if len(here) > 1 and here[1].kind == "deleted":
            here = here[1:]  # only the directory left, with whatever had come in it
            break
        came = next((each for each in here[1:] if each.kind in ("created", "moved")), None)
        since = here[1 : 1 if came is None else here.index(came)]
        here = [] if came is None else here[here.index(came) + 1 :]
        if came is None or not here or here[0].kind in ("deleted", "moved"):
            continue
        if _looks(here[0]) in map(_looks, since):
            break  # it came again, and is what left
        here.insert(0, went(came, here[0].type))
    born = next(
        (at for at, each in enumerate(here) if each.kind in ("created", "moved")), len(here)
    )
    return here[: born + 1]


def went(came: Version, type: EntryType) -> Version:
    """That something of a type went because another came."""
    return msgspec.structs.replace(came, kind="deleted", type=type, size=0, sha256=None, mode=None)


def _looks(version: Version) -> tuple[str, str | None]:
    return version.type, version.sha256
