"""Grants for other sandboxes: arguments for bubblewrap and docker, a rule set for Landlock.

An export never gives more than the grant. What a sandbox cannot express is refused, and the refusal
says which part it is; there is no option to widen. Three things an export does not carry: the rules
of the policy (a sandbox knows no `ask`), quotas, and the grant's end: what was started under it
goes on. The host's own paths appear here and nowhere else, because an operator needs them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import Any, NamedTuple

from bailiwick.errors import PathNotFound, SymlinkEscape, Unsupported
from bailiwick.grant import Grant, StandingGrant
from bailiwick.operations import Access
from bailiwick.paths import ROOT, ScopedPath

LOOKING: frozenset[Access] = frozenset(("read", "list", "metadata"))
CHANGING: frozenset[Access] = frozenset(("write", "delete", "move"))

# From linux/landlock.h, in the order of their bits, as of version 5 of the interface.
LANDLOCK_ABI = 5
LANDLOCK_RIGHTS = (
    "execute", "write_file", "read_file", "read_dir", "remove_dir", "remove_file", "make_char",
    "make_dir", "make_reg", "make_sock", "make_fifo", "make_block", "make_sym", "refer",
    "truncate", "ioctl_dev",
)  # fmt: skip

_LANDLOCK_BY_ACCESS: dict[Access, tuple[str, ...]] = {
    "read": ("read_file",),
    "list": ("read_dir",),
    "write": ("write_file", "truncate", "make_reg", "make_dir", "make_sym"),
    "delete": ("remove_file", "remove_dir"),
    "execute": ("execute",),
}
_LANDLOCK_ON_FILES = frozenset(("execute", "write_file", "read_file", "truncate", "ioctl_dev"))

_PATTERN_CHARACTERS = frozenset("*?[]{}\\")


class ExportedPlace(NamedTuple):
    """One tree that a grant reaches: where it lies on the host, and as what the holder knows it."""

    host: str
    inside: str
    is_directory: bool


class ExportReach(NamedTuple):
    """All that a sandbox needs to know of a grant."""

    access: frozenset[Access]
    places: tuple[ExportedPlace, ...]


def reach_of(
    grant: Grant | StandingGrant, directory: str, mount_point: str, *, trusted: bool
) -> ExportReach:
    """What a grant reaches in the host directory of its root.

    In a root that is not trusted only what looks is left of the access. Raises `Unsupported` for
    globs that name more or less than whole trees, `PathNotFound` where there is nothing yet, and
    `SymlinkEscape` where a link leads out of the root.
    """
    if grant.denied:
        raise Unsupported(
            f"a sandbox cannot leave out what the grant denies: {_listed(grant.denied)}",
            hint="grant the directories one by one instead",
        )
    lists = grant.allowed if isinstance(grant, Grant) else (grant.allowed,)
    paths = _allowed_paths([globs for globs in lists if globs], grant.path)
    places = tuple(_place(directory, path, mount_point) for path in paths)
    access = grant.access if trusted else grant.access - CHANGING - {"execute"}
    return ExportReach(frozenset(access), places)


def _allowed_paths(lists: Sequence[Sequence[str]], sub_path: ScopedPath) -> list[ScopedPath]:
    """The trees that every list of allowed globs lets pass, within the grant's own path."""
    paths = {sub_path}
    for globs in lists:
        trees = [_tree(pattern) for pattern in globs]
        paths = {p if p.lies_in(q) else q for p in paths for q in trees if _nested(p, q)}
    if not paths:
        raise Unsupported("the grant reaches nothing: its globs lie outside its path")
    # A tree within another one is there already.
    return sorted(p for p in paths if not any(p != q and p.lies_in(q) for q in paths))


def _nested(one: ScopedPath, other: ScopedPath) -> bool:
    return one.lies_in(other) or other.lies_in(one)


def _tree(pattern: str) -> ScopedPath:
    path = _literal(pattern)
    if path is None:
        raise Unsupported(
            f"a sandbox cannot express the glob {pattern!r}",
            hint="it takes whole trees: a path with a slash, such as src/app/**",
        )
    return path


def _literal(pattern: str) -> ScopedPath | None:
    """The tree that a glob means, if it means one. Without a slash a glob means a name at any
    depth, which is no tree."""
    if pattern == "**":
        return ROOT
    plain = pattern.removesuffix("/**").removeprefix("./")
    parts = plain.rstrip("/").split("/")
    if _PATTERN_CHARACTERS & set(plain) or "" in parts or "." in parts or ".." in parts:
        return None
    if len(parts) == 1 and plain == pattern:
        return None
    return ScopedPath("/".join(parts))


def _place(directory: str, path: ScopedPath, mount_point: str) -> ExportedPlace:
    """Where a path really lies: links are followed now, so that a sandbox need not."""
    root = os.path.realpath(directory)
    try:
        host = os.path.realpath(os.path.join(root, *path.parts), strict=True)
        mode = os.stat(host).st_mode
    except OSError:
        raise PathNotFound("there is nothing to export yet", path=path) from None
    if host != root and not host.startswith(root.rstrip("/") + "/"):
        raise SymlinkEscape("a link leads out of the root", path=path)
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        raise Unsupported("only files and directories are exported", path=path)
    inside = "/".join((mount_point.rstrip("/"), *path.parts))
    return ExportedPlace(host, inside or "/", stat.S_ISDIR(mode))


# --- bubblewrap and docker: mounts -----------------------------------------------------------


def bubblewrap_arguments(reach: ExportReach) -> list[str]:
    """``--ro-bind`` or ``--bind`` for each tree, and nothing else."""
    option = "--bind" if _is_writable(reach, "a bind mount") else "--ro-bind"
    _refuse_mounting_on_root(reach)
    arguments: list[str] = []
    for place in reach.places:
        arguments += (option, place.host, place.inside)
    return arguments


def docker_arguments(reach: ExportReach) -> list[str]:
    """``--mount type=bind,…`` for each tree."""
    writable = _is_writable(reach, "a bind mount")
    _refuse_mounting_on_root(reach)
    arguments: list[str] = []
    for place in reach.places:
        fields = ["type=bind", f"src={place.host}", f"dst={place.inside}"]
        if not writable:
            fields.append("readonly")
        arguments += ("--mount", ",".join(map(_csv_field, fields)))
    return arguments


def _is_writable(reach: ExportReach, what: str) -> bool:
    """Whether a mount must be writable. It gives all of reading, or all of reading and changing."""
    missing = LOOKING - reach.access
    if missing:
        raise Unsupported(f"{what} cannot withhold {_listed(sorted(missing))}")
    changing = reach.access & CHANGING
    if changing and changing != CHANGING:
        raise Unsupported(
            f"{what} cannot allow {_listed(sorted(changing))} without"
            f" {_listed(sorted(CHANGING - changing))}",
            hint="use --read-only, or --format landlock, which can",
        )
    return bool(changing)


def _refuse_mounting_on_root(reach: ExportReach) -> None:
    if any(place.inside == "/" for place in reach.places):
        raise Unsupported(
            "the root's mount point is /, where a sandbox has its own tree",
            hint='set mount_point, such as "/workspace"',
        )


def _csv_field(field: str) -> str:
    """Docker reads the value of ``--mount`` as one line of CSV."""
    if "\n" in field or "\r" in field:
        raise Unsupported("docker takes no path with a line break")
    if "," in field or '"' in field:
        return '"' + field.replace('"', '""') + '"'
    return field


# --- Landlock: rights ------------------------------------------------------------------------


def landlock_ruleset(reach: ExportReach) -> tuple[dict[str, Any], list[str]]:
    """A rule set in the JSON format of Landlock's own configuration library, and notes on it.

    Everything that can be handled is handled, so that all is refused that no rule allows.
    """
    rights = {right for access in reach.access for right in _LANDLOCK_BY_ACCESS.get(access, ())}
    notes = ["Landlock does not restrict metadata: names outside can be looked at, not opened"]
    if "move" in reach.access:
        if {"write", "delete"} <= reach.access:
            rights.add("refer")
        else:
            notes.append("move is left out: in Landlock it needs the rights of write and delete")
    beneath = []
    for place in reach.places:
        if "${" in place.host:
            raise Unsupported("a Landlock configuration takes ${ in a path for a variable")
        on = rights if place.is_directory else rights & _LANDLOCK_ON_FILES
        allowed = [right for right in LANDLOCK_RIGHTS if right in on]
        if allowed:
            beneath.append({"allowedAccess": allowed, "parent": [place.host]})
    document: dict[str, Any] = {
        "abi": LANDLOCK_ABI,
        "ruleset": [{"handledAccessFs": list(LANDLOCK_RIGHTS)}],
    }
    if beneath:
        document["pathBeneath"] = beneath
    return document, notes


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
