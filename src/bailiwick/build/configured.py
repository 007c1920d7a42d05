"""A configuration as it lies on the host: its text, its state, what it lists, and what it serves.

A configuration is known by its absolute path. Those that serve the same directory share its state,
as do those that name one together, and there neither ends what the other lists.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from bailiwick.build.homes import Homes, default_state_dir, is_within, readable_key
from bailiwick.build.mounts.named_mounts import configured_mounts
from bailiwick.build.options import Options
from bailiwick.build.places import NamedPlace, on_host
from bailiwick.config.loader import load
from bailiwick.config.places import VolumePlace
from bailiwick.config.roots import LIMITS_ELSEWHERE
from bailiwick.config.values import Config, GrantConfig
from bailiwick.errors import ParseError, PathNotFound, from_os_error
from bailiwick.grant import StandingGrant
from bailiwick.limits import Limits
from bailiwick.policies.manifest import manifest_grants
from bailiwick.state.grants.book import GrantBook

_log = logging.getLogger("bailiwick.authority")

CONFIG_NAME = "bailiwick.toml"
"""What a configuration is called: the shipped rules protect a file of this name."""

_ORIGIN = "configuration:"
"""Before the path of a configuration, in what the book of grants knows it by."""


class ConfigSource(NamedTuple):
    """A configuration, the file it was read from (None: none), and where relative paths start."""

    config: Config
    file: str | None
    base: str

    @property
    def origin(self) -> str:
        # Servers that share a state share one configuration, wherever each has its copy of it.
        if self.config.state.url is not None:
            return _ORIGIN + "shared"
        return _ORIGIN + (self.file or "none")


def read_source(path: str | None) -> ConfigSource:
    """Read a configuration. Without a path it is empty."""
    if path is None:
        return ConfigSource(load("", source="no configuration"), None, os.getcwd())
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ParseError(f"{path}: a configuration is UTF-8 text") from None
    except FileNotFoundError:
        raise PathNotFound(f"there is no configuration {path}") from None
    except OSError as error:
        failed = from_os_error(error)
        failed.message = f"the configuration {path} cannot be read: {failed.message}"
        raise failed from None
    base = os.path.dirname(os.path.abspath(path))
    return ConfigSource(load(text, source=path), os.path.realpath(path), base)


# --- state -----------------------------------------------------------------------------------


def state_directory(source: ConfigSource, given: str | None) -> str | None:
    """Where the state lies; None: in memory."""
    state = source.config.state
    if given is not None:
        return given
    if state.memory or source.file is None:
        return None
    if state.path is not None:
        return below(source.base, state.path)
    own = os.path.join(default_state_dir(), "authority", readable_key(source.file))
    served = {root.name: below(source.base, root.path) for root in source.config.roots if root.path}
    return directories_state(served, own)


def directories_state(directories: Mapping[str, str], own: str) -> str:
    """The state of directories that are served together, by the names of their roots: they share
    it with whoever else serves them. ``own`` is where it was before directories had a state, and
    is where there are none."""
    there = {name: each for name, each in directories.items() if os.path.isdir(each)}
    return Homes().state(there, own) if there else own


# --- grants ----------------------------------------------------------------------------------


def listed_grants(source: ConfigSource, now: float) -> list[StandingGrant]:
    """What a configuration grants. An entry is known by what it says, not by where it stands: what
    was revoked or used up stays so when other lines change."""
    listed: list[StandingGrant] = []
    seen = Counter[str]()
    for each in source.config.grants:
        name = each.id or _content_id(each, source.origin)
        seen[name] += 1
        listed.append(_standing(each, name if seen[name] == 1 else f"{name}.{seen[name]}", now))
    for extension in source.config.extensions:
        for grant in manifest_grants(extension.id, extension.permissions):
            own_id = f"{grant.id}:{_short(source.origin)}"
            listed.append(msgspec.structs.replace(grant, id=own_id))
    return listed


def _content_id(grant: GrantConfig, origin: str) -> str:
    said = (
        origin, grant.subject, grant.root, sorted(grant.access), str(grant.path), grant.allowed,
        grant.denied, grant.reason, grant.quota, grant.expires_in_s,
    )  # fmt: skip
    return f"grant:{_short(msgspec.json.encode(said).decode())}"


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _standing(config: GrantConfig, grant_id: str, now: float) -> StandingGrant:
    lasts = config.expires_in_s
    return StandingGrant(
        id=grant_id, subject=config.subject, root=config.root, access=config.access,
        path=config.path, allowed=config.allowed, denied=config.denied, reason=config.reason,
        expires_at=None if lasts is None else now + lasts, expires_in=lasts, quota=config.quota,
    )  # fmt: skip


async def synchronise(book: GrantBook, source: ConfigSource, listed: list[StandingGrant]) -> None:
    """Let exactly what the configuration grants stand, and nothing of one that is gone."""
    for origin in filter(_is_gone, book.origins()):
        _log.warning("a configuration is gone: its grants end", extra={"origin": origin})
        await book.sync_configured([], origin=origin)
    done = await book.sync_configured(listed, origin=source.origin)
    for grant_id in done.revoked:
        _log.warning("a configured grant stays revoked", extra={"grant_id": grant_id})


def _is_gone(origin: str) -> bool:
    """Whether an origin is a configuration that nobody will change any more. Else what it granted
    would stand for ever, where it was moved together with its state."""
    file = origin.removeprefix(_ORIGIN)
    return origin.startswith(_ORIGIN) and os.path.isabs(file) and not os.path.lexists(file)


# --- places ----------------------------------------------------------------------------------


class ConfiguredPlaces:
    """Which directories of the host are served, so that none is reached by two names.

    Whoever may read a tree reads all that lies in it. A root within another, the state of the
    authority or its configuration would be reached past the rules that are theirs.
    """

    def __init__(self, state: str, file: str | None) -> None:
        self._state = os.path.realpath(state)
        self._file = file
        self._roots: dict[str, str] = {}
        self._volumes: dict[str, tuple[VolumePlace, str]] = {}

    def take(self, name: str, directory: str, copy_in: Iterable[str] = ()) -> None:
        """Keep a directory for a root. Raises `ParseError` where it is, or holds, another's."""
        place = os.path.realpath(directory)
        for other, taken in self._roots.items():
            if other != name and (is_within(place, taken) or is_within(taken, place)):
                raise ParseError(
                    f"the roots {name} and {other} overlap: one directory lies in the other",
                    hint="give each a directory of its own",
                )
        if is_within(place, self._state) or is_within(self._state, place):
            raise ParseError(
                f"the root {name} and the state of the authority lie in each other",
                hint="keep the state elsewhere: [state] path, or leave it out",
            )
        for source in copy_in:
            if is_within(self._state, os.path.realpath(os.path.expanduser(source))):
                raise ParseError(f"what {name} may copy in holds the state of the authority")
        for other, (volume, _) in self._volumes.items():
            self._refuse_volume_in(other, volume, name, place)
        file = self._file
        if file is not None and is_within(file, place) and os.path.basename(file) != CONFIG_NAME:
            raise ParseError(
                f"the configuration lies in the root {name}",
                hint=f"call it {CONFIG_NAME}, which the shipped rules protect, or move it",
            )
        self._roots[name] = place

    def take_volume(self, name: str, place: VolumePlace, keep_days: float | None) -> None:
        """Keep a branch of a volume for a root. Raises `ParseError` where another root has it, has
        the same volume with other settings, or would reach the volume's file."""
        if place.in_file:
            place = place._replace(file=os.path.realpath(place.file))
        days = "as usual" if keep_days is None else f"{keep_days:g}"
        settings = f"blobs {place.shown_blobs}, keep_versions_days {days}"
        for other, (taken, others) in self._volumes.items():
            if other == name or (taken.file, taken.volume) != (place.file, place.volume):
                continue
            if taken.branch == place.branch:
                raise ParseError(
                    f"the roots {name} and {other} are the same branch of one volume",
                    hint="give each a volume or a branch of its own",
                )
            if others != settings or taken.blobs != place.blobs:
                raise ParseError(
                    f"the roots {name} and {other} open one volume with different settings",
                    hint=f"{name}: {settings}; {other}: {others}",
                )
        for other, directory in self._roots.items():
            self._refuse_volume_in(name, place, other, directory)
        self._volumes[name] = place, settings

    def take_place(self, name: str, place: NamedPlace, options: Options) -> None:
        """Keep what a place is on this machine for a root. Raises as `take` and `take_volume`."""
        if place.directory is not None:
            self.take(name, place.directory, options.copy_in)
        elif place.volume is not None:
            self.take_volume(name, place.volume, options.keep_versions_days)
        for mount in place.mounts or ():
            self.take_place(f"{name}/{mount.point}", mount.place, options)

    def _refuse_volume_in(self, name: str, volume: VolumePlace, other: str, directory: str) -> None:
        """Whoever may write the file of a volume needs no leave to write what is in it."""
        files = [volume.blobs_folder or ""]
        if volume.in_file:
            files = [volume.file, volume.blobs_folder or f"{volume.file}-blobs"]
        if any(each and is_within(os.path.realpath(each), directory) for each in files):
            raise ParseError(
                f"the volume of the root {name} lies in the root {other}",
                hint="keep its file elsewhere",
            )


def places_of(source: ConfigSource, state: str | None) -> ConfiguredPlaces:
    """The places of a configuration, looked at before anything is made: a state that is refused
    must not lie in a root already."""
    places = ConfiguredPlaces(state or default_state_dir(), source.file)
    for root in source.config.roots:
        if root.path is not None:
            copy_in = [below(source.base, each) for each in root.copy_in]
            places.take(root.name, below(source.base, root.path), copy_in)
        elif root.volume is not None:
            place = on_host(root.volume, source.base)
            places.take_volume(root.name, place, root.keep_versions_days)
        elif root.mounts:
            mounts = configured_mounts(root.mounts, source.base)
            options = Options(keep_versions_days=root.keep_versions_days)
            places.take_place(root.name, NamedPlace(mounts=mounts), options)
    return places


def below(base: str, path: str) -> str:
    """A path of the host as a configuration means it."""
    return os.path.join(base, os.path.expanduser(path))


def refuse_elsewhere(limits: Limits) -> None:
    """Refuse limits that a root of an authority does not have by itself."""
    usual = Limits()
    for name, where in LIMITS_ELSEWHERE.items():
        if getattr(limits, name) != getattr(usual, name):
            raise ParseError(f"{name!r} is no limit of a root of an authority", hint=where)
