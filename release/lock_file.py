"""The lock as values: what is installed, at which version, with which hashes, and for whom."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

_ENTRY = re.compile(r"^(?P<name>[A-Za-z0-9][\w.-]*)(?:\[[^]]*\])?==(?P<version>[^ ;\\]+)")
_MARKER = re.compile(r"^[^ ]+ ; (?P<marker>.*?) \\$", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_PROJECT = re.compile(r"bailiwick \(pyproject\.toml(?P<group>:[\w-]+)?\)")


class Locked(NamedTuple):
    """One requirement of the lock."""

    name: str
    version: str
    marker: str
    """Where it is installed at all; empty where it is everywhere."""
    hashes: tuple[str, ...]
    wanted_by: frozenset[str]
    """The packages that require it, by name."""
    wanted_here: bool
    """The project itself or one of its extras requires it."""


def read(path: Path) -> list[Locked]:
    """The requirements of a lock that uv wrote, in their order."""
    return [_locked(entry) for entry in re.split(r"\n(?=[a-zA-Z0-9])", path.read_text("utf-8"))]


def _locked(entry: str) -> Locked:
    found = _ENTRY.match(entry)
    if found is None:
        raise ValueError(f"no requirement with a version: {entry.splitlines()[0]}")
    marker = _MARKER.search(entry)
    wishes = _wishes(entry)
    ours = [wish for each in wishes if (wish := _PROJECT.fullmatch(each))]
    return Locked(
        canonical(found["name"]), found["version"], "" if marker is None else marker["marker"],
        tuple(sorted(_HASH.findall(entry))),
        frozenset(canonical(each) for each in wishes if not _PROJECT.fullmatch(each)),
        any(wish["group"] is None for wish in ours),
    )  # fmt: skip


def _wishes(entry: str) -> list[str]:
    """Who is named in the note below a requirement: in its line, or in the lines after it."""
    lines = [line.strip().lstrip("#").strip() for line in entry.splitlines() if "    #" in line]
    return [line.removeprefix("via").strip() for line in lines if line not in ("", "via")]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def closure(locked: list[Locked], named: set[str]) -> set[str]:
    """The names given, and all that they need, directly and through others."""
    reached = {each.name for each in locked if each.name in named}
    while True:
        more = {each.name for each in locked if each.wanted_by & reached} - reached
        if not more:
            return reached
        reached |= more
