"""``[[root]]``: what is served, from where, and how."""

from __future__ import annotations

from typing import Any, NamedTuple, get_args

import msgspec

from bailiwick.config.mounts import mounts_a_directory, mounts_a_volume, read_mounts
from bailiwick.config.places import VolumePlace, names_volume, parse_volume
from bailiwick.config.programs import read_exec
from bailiwick.config.tables import Table, kind_of
from bailiwick.config.units import parse_duration, parse_size
from bailiwick.config.values import RootConfig
from bailiwick.errors import ParseError
from bailiwick.grant import ROOT_KINDS, Quota, RootKind, parse_root_name
from bailiwick.limits import Limits
from bailiwick.model import Containment, Durability, Hardlinks, NewFileMode, Switch, Symlinks
from bailiwick.paths import NameRule
from bailiwick.policies.nearness import quoted

_OF_DIRECTORIES = ("hardlinks", "cross_mounts", "containment", "durability", "copy_in")
"""What only a root on a directory has."""

_OF_VOLUMES = ("keep_versions_days",)
"""What only a root on a volume has, or one on a directory with history."""

LIMITS_NOT_OF_VOLUMES = ("feed_changes_max", "feed_memory_changes_max", "feed_seconds_max")
"""A volume's own log is its feed, and is kept as long as its versions are."""

DAYS_MAX = 36_500
"""A century."""

_KEYS = (
    "id", "kind", "path", "volume", "memory", "mounts", "mount_point", "trusted", "symlinks",
    "names", "new_file_mode", "history", "ignore_files", "display_name", "labels", "limits",
    "quota", "exec", *_OF_DIRECTORIES, *_OF_VOLUMES,
)  # fmt: skip

_LIMITS = {field.name: field for field in msgspec.structs.fields(Limits)}

LIMITS_ELSEWHERE = {
    "hook_seconds_max": "the hooks of an authority are the same for all roots: 5 seconds each",
    "ask_seconds_max": "how long a question waits is [ask] timeout",
    "asked_root_seconds_max": "people are asked for roots before there is one: a day",
    "asked_roots_max": "people are asked for roots before there is one: 3 within an hour",
    "audit_ring_records": "the ledger is the same for all roots",
    "audit_batch_seconds_max": "the ledger is the same for all roots",
    "feed_memory_changes_max": "the changes of these roots are kept by feed_changes_max",
}
"""Limits that no root of an authority has by itself, and what there is instead."""

_DEFAULTS_WITHIN = (("glob_default", "glob_max"), ("grep_matches_default", "grep_matches_max"))
"""Limits of which the first may not exceed the second."""


_OVERLAY = "overlay:"


def read_root(table: Table) -> RootConfig:
    """One root, with the defaults of its kind."""
    table.only(*_KEYS)
    table.require("kind", "id")
    kind = table.choice("kind", ROOT_KINDS)
    name = table.text("id")
    assert kind is not None
    assert name is not None
    table.checked("id", lambda: parse_root_name(f"{kind}:{name}"))
    if kind == "temp":
        hint = "a temporary root is made by whoever needs it"
        raise table.error("kind", "a root of kind 'temp' is not configured", hint)
    path, volume, memory, over = _read_place(table)
    mounts = read_mounts(table)
    trusted = table.flag("trusted") or False
    on_disk = path is not None or mounts_a_directory(mounts)
    if not on_disk:
        _refuse_others(table, _OF_DIRECTORIES, "a path")
    history = _read_history(table, volume, memory or bool(mounts and not on_disk))
    if volume is None and history == "off" and not mounts_a_volume(mounts):
        _refuse_others(table, _OF_VOLUMES, "a volume, or a path and history")
    limits, given = read_limits(table)
    if volume is not None:
        _refuse_feed_limits(table, given)
    networks, sandbox, limits = read_exec(table, limits, given)
    return RootConfig(
        kind=kind,
        id=name,
        path=path,
        volume=volume,
        memory=memory,
        mounts=mounts,
        over=over,
        mount_point=_read_mount_point(table),
        trusted=trusted,
        symlinks=_read_symlinks(table, kind),
        hardlinks=_read_hardlinks(table, kind, trusted) if on_disk else None,
        cross_mounts=table.flag("cross_mounts") is not False if on_disk else None,
        names=table.choice("names", get_args(NameRule)) or "posix",
        containment=_choose(table, "containment", get_args(Containment)) if on_disk else None,
        durability=_choose(table, "durability", get_args(Durability)) if on_disk else None,
        new_file_mode=_read_new_file_mode(table, kind),
        history=history,
        keep_versions_days=table.integer("keep_versions_days", 0, DAYS_MAX),
        copy_in=table.texts("copy_in") or () if on_disk else (),
        ignore_files=_read_ignore_files(table),
        display_name=table.text("display_name"),
        labels=table.labels("labels"),
        limits=limits,
        networks=networks,
        sandbox=sandbox,
        quota=read_quota(table),
        line=table.line,
    )


def _choose(table: Table, key: str, words: tuple[Any, ...]) -> Any:
    """A word of a list, by default the first."""
    return table.choice(key, words) or words[0]


class _ConfiguredPlace(NamedTuple):
    path: str | None
    volume: VolumePlace | None
    memory: bool
    over: bool


def _read_place(table: Table) -> _ConfiguredPlace:
    path, text = table.text("path"), table.text("volume")
    memory = table.flag("memory")
    given = [key for key in ("path", "volume", "memory", "mounts") if table.has(key)]
    if len(given) > 1:
        message = f"a root has one place: {' and '.join(map(quoted, given))} are two"
        raise table.error(given[1], message, "keep one of them")
    if not given:
        message = "the root has no place"
        raise table.error(None, message, "give it path, volume, mounts or memory = true")
    if memory is False:
        raise table.error("memory", "'memory' is true or left out", "give it path or volume")
    over = (path or text or "").startswith(_OVERLAY)
    if path is not None:
        path = path.removeprefix(_OVERLAY)
        if over and (not path or names_volume(path)):
            hint = 'path = "overlay:./project", or volume = "overlay:sqlite:agent.db"'
            raise table.error("path", "an overlay lies over a directory or a volume", hint)
    volume = None
    if text is not None:
        named = text.removeprefix(_OVERLAY)
        volume = table.checked("volume", lambda: parse_volume(named))
    return _ConfiguredPlace(path, volume, memory is True, over)


def _refuse_others(table: Table, keys: tuple[str, ...], whose: str) -> None:
    for key in keys:
        if table.has(key):
            raise table.error(key, f"{quoted(key)} is for roots with {whose}", "leave it out")


def _refuse_feed_limits(table: Table, given: frozenset[str]) -> None:
    for key in LIMITS_NOT_OF_VOLUMES:
        if key in given:
            hint = "the changes of a volume are kept as long as its versions: keep_versions_days"
            raise table.error("limits", f"{quoted(key)} is no limit of a root on a volume", hint)


def _read_history(table: Table, volume: VolumePlace | None, memory: bool) -> Switch:
    history: Switch | None = table.choice("history", ("on", "off"))
    if memory and history == "on":
        raise table.error("history", "a root in memory has no history", "use a volume")
    if volume is not None and history is not None:
        raise table.error("history", "a volume always has its history", "leave it out")
    return history or "off"


def _read_mount_point(table: Table) -> str | None:
    mount_point = table.text("mount_point")
    if mount_point is None:
        return None
    parts = mount_point.split("/")
    if not mount_point.startswith("/") or mount_point.startswith("//") or {".", ".."} & {*parts}:
        hint = 'for example "/workspace"'
        raise table.error("mount_point", "a mount point is an absolute, plain path", hint)
    return mount_point


def _read_symlinks(table: Table, kind: RootKind) -> Symlinks:
    default: Symlinks = "in-root" if kind == "workspace" else "reject"
    return table.choice("symlinks", get_args(Symlinks)) or default


def _read_hardlinks(table: Table, kind: RootKind, trusted: bool) -> Hardlinks:
    default: Hardlinks = "allow" if kind == "workspace" and trusted else "reject"
    return table.choice("hardlinks", get_args(Hardlinks)) or default


def _read_new_file_mode(table: Table, kind: RootKind) -> NewFileMode:
    mode = table.anything("new_file_mode")
    if mode is None:
        return "private"
    if kind == "secret" and mode != "private":
        message = "new files of a root of kind 'secret' are always private"
        raise table.error("new_file_mode", message, "leave it out")
    if mode == "private" or mode == "umask":
        return "private" if mode == "private" else "umask"
    if isinstance(mode, int) and not isinstance(mode, bool) and 0 <= mode <= 0o777:
        return mode
    hint = '"private", "umask", or permission bits such as 0o640'
    raise table.error("new_file_mode", "this is no mode of new files", hint)


def _read_ignore_files(table: Table) -> tuple[str, ...] | None:
    names = table.texts("ignore_files")
    for number, name in enumerate(names or ()):
        if "/" in name or name in (".", ".."):
            message = f"{quoted(name)} is no name of a file"
            raise table.error("ignore_files", message, "a name, without directories", at=number)
    return names


def read_quota(table: Table) -> Quota | None:
    quota = table.table("quota")
    if quota is None:
        return None
    quota.only("bytes", "files", "operations_per_minute")
    return Quota(
        bytes=quota.size("bytes"),
        files=quota.integer("files", 1),
        operations_per_minute=quota.integer("operations_per_minute", 1),
    )


# --- limits ----------------------------------------------------------------------------------


def read_limits(table: Table) -> tuple[Limits, frozenset[str]]:
    """Limits by their names. A size or a duration may have its unit; seconds may be a number."""
    limits = table.table("limits")
    if limits is None:
        return Limits(), frozenset()
    limits.only(*_LIMITS)
    given: dict[str, Any] = {}
    for key in _LIMITS:
        value = limits.anything(key)
        if value is not None and key in LIMITS_ELSEWHERE:
            message = f"{quoted(key)} is no limit of a root"
            raise limits.error(key, message, LIMITS_ELSEWHERE[key])
        if value is not None:
            given[key] = _limit(limits, key, value)
    made = Limits(**given)
    for default, largest in _DEFAULTS_WITHIN:
        if getattr(made, default) > getattr(made, largest):
            key = default if default in given else largest
            raise limits.error(key, f"{quoted(default)} is larger than {quoted(largest)}")
    return made, frozenset(given)


def _limit(table: Table, key: str, value: Any) -> Any:
    if isinstance(value, str):
        value = table.checked(key, lambda: _with_unit(key, value))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise table.error(key, f"{quoted(key)} takes a number, not {kind_of(value)}")
    try:
        return msgspec.convert(value, _LIMITS[key].type)
    except (msgspec.ValidationError, OverflowError) as error:
        raise table.error(key, f"{quoted(key)} is out of range: {error}") from None


def _with_unit(key: str, text: str) -> float:
    if "seconds" in key:
        return parse_duration(text)
    if "bytes" in key:
        return parse_size(text)
    raise ParseError(f"{quoted(key)} takes a whole number, not text")
