"""The wheel and the source archive, byte for byte the same wherever and whenever they are made.

Hatchling puts names in order and takes times and modes from nowhere but what it is told. The rest
is kept away from it: it sees the files of a commit, in an environment of a few variables.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple


class Surroundings(NamedTuple):
    """What a build must not depend on."""

    zone: str = "UTC"
    language: str = "C.UTF-8"
    umask: int = 0o022
    hash_seed: str = "0"


ELSEWHERE = Surroundings("Pacific/Chatham", "tr_TR.UTF-8", 0o077, "4711")
"""Another machine, as far as one machine can be that."""


class Differs(Exception):
    """Two builds of the same files are not the same."""


def build(tree: Path, destination: Path, seconds: int, around: Surroundings) -> list[Path]:
    """Make both distributions of a tree. ``seconds`` is the time that everything in them bears."""
    destination.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(destination)],
        cwd=tree, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        umask=around.umask,
        env={
            "PATH": "/usr/bin:/bin", "SOURCE_DATE_EPOCH": str(seconds), "TZ": around.zone,
            "LC_ALL": around.language, "PYTHONHASHSEED": around.hash_seed,
        },
    )  # fmt: skip
    return sorted(destination.iterdir())


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def compare(one: list[Path], other: list[Path]) -> None:
    """Raises `Differs` with the name of each file that is not the same in both."""
    first = {path.name: digest(path) for path in one}
    second = {path.name: digest(path) for path in other}
    differing = sorted(
        name for name in first.keys() | second.keys() if first.get(name) != second.get(name)
    )
    if differing:
        raise Differs(f"not the same in two builds: {', '.join(differing)}")
