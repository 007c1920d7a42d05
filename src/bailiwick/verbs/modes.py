"""Which permission bits pass: none beyond the usual nine, and in a secret root the owner's only."""

from __future__ import annotations

from bailiwick.errors import ParseError
from bailiwick.grant import Root
from bailiwick.model import EntryType

_FILE, _DIRECTORY = 0o600, 0o700
"""What files and directories of a secret root have."""


def check_mode(file_mode: int | None) -> None:
    """Permission bits only: setuid, setgid and sticky never pass this boundary."""
    if file_mode is not None and not 0 <= file_mode <= 0o777:
        raise ParseError(
            "file_mode must be permission bits from 0o000 to 0o777",
            hint="setuid, setgid and sticky are refused",
        )


def check_mode_in(root: Root, file_mode: int | None, kind: EntryType = "file") -> None:
    """Permission bits only, and in a root of secrets no more than the owner's."""
    check_mode(file_mode)
    if root.kind != "secret" or file_mode is None:
        return
    most = _DIRECTORY if kind == "directory" else _FILE
    if file_mode & ~most:
        raise ParseError(
            f"what lies in a root of kind 'secret' has at most the mode {most:04o}",
            hint="leave file_mode out",
        )


def mode_in(root: Root, file_mode: int, kind: EntryType) -> int:
    """The mode that what comes from elsewhere has in a root."""
    if root.kind != "secret":
        return file_mode
    return _DIRECTORY if kind == "directory" else _FILE
