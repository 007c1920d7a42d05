"""What a release is made of: the files of one commit, and never what else lies in the checkout."""

from __future__ import annotations

import io
import subprocess
import tarfile
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Commit(NamedTuple):
    """A commit by its hash, with the hash of its files and the second it was made in."""

    id: str
    tree: str
    seconds: int


class NotCommitted(Exception):
    """The checkout holds changes that no commit has."""


def git(*arguments: str) -> bytes:
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], check=True, stdout=subprocess.PIPE
    ).stdout


def commit(name: str = "HEAD") -> Commit:
    told = git("show", "--no-patch", "--format=%H %T %ct", name).decode().split()
    return Commit(told[0], told[1], int(told[2]))


def refuse_changes() -> None:
    """A release is of a commit. Raises `NotCommitted` where files differ from it or are new."""
    changed = git("status", "--porcelain").decode()
    if changed:
        raise NotCommitted(f"commit or remove these first:\n{changed}")


def export(wanted: Commit, destination: Path) -> Path:
    """Write the files of a commit into a directory, which is then returned."""
    archive = git("archive", "--format=tar", wanted.id)
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        members.extractall(destination, filter="data")
    return destination


def version(tree: Path = ROOT) -> str:
    project = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])
