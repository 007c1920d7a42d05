"""How a place is opened: options, checked strictly."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

import msgspec

from bailiwick.commands import HostShare
from bailiwick.errors import ParseError, Unsupported
from bailiwick.limits import Limits
from bailiwick.model import Containment, Durability, Hardlinks, NewFileMode, Switch, Symlinks
from bailiwick.operations import ALL_ACCESS, Access
from bailiwick.paths import NameRule
from bailiwick.verbs.walks.ignore_files import IGNORE_FILE_NAMES


class OpenOptions(TypedDict, total=False):
    """The options of `open` and `open_sync`, for type checkers; `Options` has the defaults."""

    trusted: bool
    access: Iterable[Access]
    mount_point: str
    names: NameRule
    limits: Limits
    symlinks: Symlinks
    hardlinks: Hardlinks
    cross_mounts: bool
    containment: Containment
    durability: Durability
    new_file_mode: NewFileMode
    copy_in: Iterable[str]
    ignore_files: Iterable[str]
    state_dir: str
    history: Switch
    keep_versions_days: float
    commands: HostShare


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a place is opened. None means the place's own default."""

    trusted: bool = True
    access: frozenset[Access] = ALL_ACCESS
    mount_point: str | None = None
    names: NameRule = "posix"
    limits: Limits = Limits()
    symlinks: Symlinks = "in-root"
    hardlinks: Hardlinks | None = None
    cross_mounts: bool | None = None
    containment: Containment | None = None
    durability: Durability | None = None
    new_file_mode: NewFileMode = "private"
    copy_in: tuple[str, ...] = ()
    ignore_files: tuple[str, ...] = IGNORE_FILE_NAMES
    state_dir: str | None = None
    history: Switch = "off"
    keep_versions_days: float | None = None
    commands: HostShare | None = None


_DISK_ONLY = ("hardlinks", "cross_mounts", "containment", "durability", "copy_in", "history")

_VOLUME_ONLY = ("keep_versions_days",)
"""What is for volumes, and for directories with a history."""

_LIMITS_OF_LEDGERS = ("audit_batch_seconds_max",)
"""Limits of a ledger that is kept: a place that someone opens for themselves has none."""

_LIMITS_OF_FEEDS = ("feed_changes_max", "feed_memory_changes_max", "feed_seconds_max")
"""Limits of a feed that is kept beside the tree: a volume's own log is its feed."""

_DAYS_MAX = 36_500.0

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:").match


def read_options(given: dict[str, Any]) -> Options:
    """Check options strictly: an option that is not enforced is refused, not ignored."""
    known = {field.name for field in msgspec.structs.fields(Options)}
    for name in given:
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, n=1)
            raise ParseError(
                f"there is no option {name!r}", hint=f"did you mean {near[0]!r}?" if near else None
            )
    wanted = dict(given)
    for name, collection in (("access", frozenset), ("copy_in", tuple), ("ignore_files", tuple)):
        if name in wanted:
            # A text is a collection too, of its letters: the one that is meant is a list of one.
            if isinstance(wanted[name], (str, bytes)) or not isinstance(wanted[name], Iterable):
                raise ParseError(f"the option {name!r} takes a list")
            wanted[name] = collection(wanted[name])
    options = Options(**wanted)
    try:
        msgspec.convert(msgspec.to_builtins(options), Options)
    except (msgspec.ValidationError, TypeError) as error:
        raise ParseError(f"an option is wrong: {error}") from None
    _check_values(options)
    return options


def _check_values(options: Options) -> None:
    """What the types alone do not say."""
    if not isinstance(options.limits, Limits):
        raise ParseError("the option 'limits' takes a bailiwick.Limits")
    for default, largest in (
        ("glob_default", "glob_max"), ("grep_matches_default", "grep_matches_max"),
    ):  # fmt: skip
        if getattr(options.limits, default) > getattr(options.limits, largest):
            raise ParseError(f"the limit {default!r} is larger than {largest!r}")
    if not isinstance(options.commands, HostShare | None):
        raise ParseError("the option 'commands' takes a bailiwick.HostShare")
    mode = options.new_file_mode
    if isinstance(mode, int) and (isinstance(mode, bool) or not 0 <= mode <= 0o777):
        raise ParseError("the option 'new_file_mode' takes permission bits from 0 to 0o777")
    mount_point = options.mount_point
    if mount_point is not None:
        parts = mount_point.split("/")
        if not mount_point.startswith("/") or ".." in parts or "." in parts:
            raise ParseError("the option 'mount_point' takes an absolute path, such as /workspace")
    if any(not name or "/" in name for name in options.ignore_files):
        raise ParseError("the option 'ignore_files' takes names of files")
    days = options.keep_versions_days
    if days is not None and not 0 <= days <= _DAYS_MAX:
        raise ParseError("the option 'keep_versions_days' takes days, from none to a century")
    if options.state_dir == "" or "" in options.copy_in:
        raise ParseError("a directory of the host has a name")


def host_directory(place: str) -> str:
    if _SCHEME(place) and not os.path.lexists(place):
        raise ParseError(
            "no such kind of place",
            hint='"./project" is a directory, "memory:" is memory, "sqlite:agent.db" is a volume',
        )
    return os.path.abspath(os.path.expanduser(place))


def refuse_options(options: Options, whose: str, *, directory: bool, volume: bool) -> None:
    """Refuse what was said of a place of another kind than ``whose``."""
    for names, fits, others in (
        (_DISK_ONLY, directory, "directories"),
        (_VOLUME_ONLY, volume or (directory and options.history == "on"), "volumes"),
    ):  # fmt: skip
        for name in () if fits else names:
            if getattr(options, name) != getattr(_USUAL, name):
                raise Unsupported(f"the option {name!r} is for {others}, not for {whose}")
    if volume:
        _refuse_limits(
            options.limits, _LIMITS_OF_FEEDS, "is no limit of a volume",
            "its changes are kept as long as its versions: keep_versions_days",
        )  # fmt: skip


def refuse_for_mounts(options: Options, *, directory: bool, volume: bool) -> None:
    """Refuse what none of the mounts of a tree could enforce: they have a ``directory`` among them,
    or a ``volume``."""
    refuse_options(options, "these mounts", directory=directory, volume=volume)
    for name in ("commands", "copy_in"):
        if getattr(options, name):
            raise Unsupported(f"the option {name!r} is not for a tree of mounts")


def refuse_for_store(options: Options, description: Mapping[str, str]) -> None:
    """Refuse what only a store itself can be told when it is made."""
    if options.new_file_mode != _USUAL.new_file_mode:
        raise Unsupported("the option 'new_file_mode' is said to the store itself")
    if options.symlinks == "reject" and description.get("symlinks") != "reject":
        raise Unsupported(
            "this place follows no links, and the store does",
            hint="say to the store itself that it rejects them, and have its description say so",
        )


def refuse_ledger_limits(options: Options) -> None:
    """Refuse limits of a ledger, where there is none."""
    _refuse_limits(
        options.limits, _LIMITS_OF_LEDGERS, "is a limit of a ledger, and there is none here",
        "an authority has a ledger",
    )  # fmt: skip


def _refuse_limits(limits: Limits, names: tuple[str, ...], why: str, hint: str) -> None:
    for name in names:
        if getattr(limits, name) != getattr(_USUAL.limits, name):
            raise ParseError(f"the limit {name!r} {why}", hint=hint)


_USUAL = Options()
