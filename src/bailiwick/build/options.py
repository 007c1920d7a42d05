"""How a place is opened: options, checked strictly."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any, TypedDict

import msgspec

from bailiwick.errors import ParseError, Unsupported
from bailiwick.model import Containment, Durability, Hardlinks, Limits, NewFileMode, Symlinks
from bailiwick.operations import ALL_ACCESS, Access
from bailiwick.paths import NameRule
from bailiwick.verbs.ignoring import IGNORE_FILE_NAMES


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


_DISK_ONLY = ("hardlinks", "cross_mounts", "containment", "durability", "copy_in", "state_dir")

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
    if options.state_dir == "" or "" in options.copy_in:
        raise ParseError("a directory of the host has a name")


def place_text(place: object) -> str:
    text = os.fspath(place) if isinstance(place, (str, os.PathLike)) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise ParseError("a place is a directory such as ./project, or memory:")
    return text


def host_directory(place: str) -> str:
    if _SCHEME(place) and not os.path.lexists(place):
        raise ParseError(
            "no such kind of place", hint='give a directory such as "./project", or "memory:"'
        )
    return os.path.abspath(os.path.expanduser(place))


def refuse_disk_options(options: Options) -> None:
    default = Options()
    for name in _DISK_ONLY:
        if getattr(options, name) != getattr(default, name):
            raise Unsupported(f"the option {name!r} is for directories, not for memory")
