"""Which files the guard looks at, and their bytes: bounded, without following links in circles."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from typing import NamedTuple

FILE_BYTES_MAX = 8 * 1024 * 1024
"""The parser needs about a hundred times the size of a file; no hand wrote a larger one."""

_SUFFIXES = (".py", ".pyw")

_OTHERS_CODE = frozenset(("__pycache__", "__pypackages__", "node_modules", "site-packages"))
_MADE_CODE = frozenset(("build", "dist"))


class Candidate(NamedTuple):
    """A file to look at; ``trouble`` says why it cannot be."""

    path: str
    trouble: str | None = None


def candidates(paths: Sequence[str]) -> Iterator[Candidate]:
    """Every Python file at or beneath the paths, sorted, each once. A file that was named is one
    whatever it is called."""
    seen: set[tuple[int, int]] = set()
    for path in paths:
        try:
            is_directory = stat.S_ISDIR(os.stat(path).st_mode)
        except (OSError, ValueError) as error:
            yield Candidate(path, _why(error))
            continue
        found = _beneath(path) if is_directory else iter((Candidate(path),))
        for candidate in found:
            identity = _identity(candidate.path) if candidate.trouble is None else None
            if identity is not None and identity in seen:
                continue
            if identity is not None:
                seen.add(identity)
            yield candidate


def _beneath(directory: str) -> Iterator[Candidate]:
    """Links to directories are not followed: what they lead to is looked at where it lies."""
    troubles: list[Candidate] = []

    def refused(error: OSError) -> None:
        troubles.append(Candidate(str(error.filename), _why(error)))

    for place, directories, names in os.walk(directory, onerror=refused):
        directories[:] = sorted(name for name in directories if not _is_passed_over(place, name))
        for name in sorted(names):
            if name.endswith(_SUFFIXES):
                yield Candidate(os.path.normpath(os.path.join(place, name)))
    yield from troubles


def _is_passed_over(place: str, name: str) -> bool:
    """Whether a directory holds other people's code, or copies of what lies elsewhere. One that is
    named on the command line is looked at all the same."""
    if name.startswith(".") or name in _OTHERS_CODE:
        return True
    inside = os.path.join(place, name)
    if name in _MADE_CODE:
        # A package may be called so too.
        return not os.path.exists(os.path.join(inside, "__init__.py"))
    return os.path.exists(os.path.join(inside, "pyvenv.cfg"))


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class UnreadableFile(Exception):
    """A file that cannot be looked at; the text says why."""


def read(path: str) -> bytes:
    """The bytes of a regular file. Never waits for a pipe, never reads more than the bound."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UnreadableFile(_why(error)) from None
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise UnreadableFile("it is not a regular file")
        try:
            content = file.read(FILE_BYTES_MAX + 1)
        except OSError as error:
            raise UnreadableFile(_why(error)) from None
    if len(content) > FILE_BYTES_MAX:
        raise UnreadableFile(f"it is larger than {FILE_BYTES_MAX // 2**20} MiB")
    return content


def _why(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
