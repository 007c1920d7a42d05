"""Places that a person names when they start a server: under which names, and with which state.

Whatever serves the same places (over HTTP, over MCP) has one state for them: a question that an
agent raised here is seen, and answered, at the console there.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from bailiwick.build.configured import directories_state
from bailiwick.build.homes import Homes, default_state_dir, readable_key
from bailiwick.build.places import EMBEDDED, NamedPlace, read_place
from bailiwick.errors import BailiwickError, ParseError

if TYPE_CHECKING:
    from bailiwick.build.governed import Authority
    from bailiwick.config.values import Surface
    from bailiwick.model import Switch

OWN = ""
"""The place that is served where none is named: the volume in the user's data directory."""

MEMORY = "memory:"

_ABSOLUTE = ("sqlite:/", "postgres:", "postgresql:", MEMORY)

_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,63})=(.+)", re.DOTALL).fullmatch
_VOLUME = re.compile(r"[?&]volume=([^&]+)").search


def named_places(given: Iterable[str]) -> dict[str, str]:
    """Places by the names of their roots: as told (``NAME=PLACE``), or by what they are called.

    Two that are called the same are numbered; two that were told the same name are a mistake.
    """
    places: dict[str, str] = {}
    told: set[str] = set()
    for each in given:
        named = _NAMED(each)
        if named is not None and not os.path.lexists(each):
            name, place = named[1], named[2]
            if name in told:
                raise ParseError(
                    f"two roots are to be called {name!r}", hint="give each a name of its own"
                )
            told.add(name)
        else:
            name, place = _called(each), each
        first, number = name, 2
        while f"workspace:{name}" in places:
            name, number = f"{first}-{number}", number + 1
        places[f"workspace:{name}"] = place
    return places


def _called(place: str) -> str:
    if place in (OWN, MEMORY):
        return "memory" if place else "main"
    volume = _VOLUME(place)
    text = volume[1] if volume else os.path.basename(os.path.abspath(place.partition("?")[0]))
    if os.path.isdir(os.path.expanduser(place)):
        directory = os.path.realpath(os.path.expanduser(place))
        known = Homes().name_of(directory) or ""
        if known.startswith("workspace:"):
            return known.removeprefix("workspace:")
        # However it is spelled: two who open it first, at the same time, call it the same.
        text = os.path.basename(directory)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip(".-")[:64] or "root"


def state_for(places: Mapping[str, str]) -> str | None:
    """Where the state of these places lies: in the user's state directory, by what they are. What
    is only in memory needs none that lasts."""
    if set(places.values()) == {MEMORY}:
        return None
    named = {name: read_place(place or EMBEDDED) for name, place in places.items()}
    spelled = [
        place if not place or ":" in place else os.path.realpath(os.path.expanduser(place))
        for place in places.values()
    ]
    own = _served_state(spelled)
    if not all(place.startswith(_ABSOLUTE) or ":" not in place for place in spelled) or (
        not os.path.isdir(own)
    ):
        # Not by how it was spelled: that may mean another file from another directory.
        own = _served_state(list(map(_known_by, named.values())))
    directories = {name: each.directory for name, each in named.items() if each.directory}
    return directories_state(directories, own)


def _served_state(known: list[str]) -> str:
    return os.path.join(default_state_dir(), "serve", readable_key("/".join(known) + "/."))


def _known_by(place: NamedPlace) -> str:
    """What a place is known by, wherever it was spelled from."""
    if place.volume is not None:
        return f"{os.path.realpath(place.volume.file)}?{place.volume.volume}"
    return MEMORY if place.directory is None else os.path.realpath(place.directory)


@asynccontextmanager
async def open_served(
    places: Mapping[str, str],
    config: str | None,
    state_dir: str | None,
    *,
    synchronise: bool = True,
    history: Switch = "off",
    surface: Surface = "console",
    noted: bool = True,
    **options: Any,
) -> AsyncIterator[Authority]:
    """The authority of a configuration, or of none, with the named places as further roots.

    Their owner chose them, so they are trusted. ``history`` is for directories among them: volumes
    keep their versions in any case. Questions go to the ``surface`` where a front cannot ask. That
    they are served is ``noted``, unless it is only for one command. Further options are for all.
    """
    from bailiwick.build.governed import Authority

    if config is None:
        opening = Authority.open(state_dir=state_dir, surface=surface)
    else:
        opening = Authority.from_config(config, state_dir, synchronise=synchronise, surface=surface)
    async with opening as authority:
        for name, place in places.items():
            own: dict[str, Any] = {"trusted": True, **options}
            if history == "on" and place and read_place(place).directory is not None:
                own["history"] = history
            with about(name, place):
                await authority.take_root(name, place or EMBEDDED, noted=noted, **own)
        yield authority


@contextmanager
def about(root: str, place: str | None = None) -> Iterator[None]:
    """Have an error say which of the roots it is about, and what can be done."""
    try:
        yield
    except BailiwickError as error:
        error.message = f"{root}: {error.message}"
        if place == OWN:
            error.hint = "name a place to serve, or a directory for it in $XDG_DATA_HOME"
        elif error.kind == "root_not_found":
            error.hint = error.hint or "make it, or check how it is written"
        raise
