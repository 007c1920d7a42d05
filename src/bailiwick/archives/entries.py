"""What the readers and writers of archives speak in: entries, bytes, and wishes for bytes."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Literal, NamedTuple, TypeVar

from bailiwick.errors import (
    BailiwickError,
    FileTooLarge,
    ParseError,
    PathOutsideWorkspace,
    escape_for_display,
)

EntryKind = Literal["file", "directory", "symlink", "copy"]
"""A ``copy`` is a hard link to an earlier file of the archive, which becomes a file of its own."""


class ArchiveEntry(NamedTuple):
    """One entry, checked: its path is relative and made of plain names.

    ``size`` is what the file will hold. ``target`` is the text of a link, or the path of the
    earlier entry that a ``copy`` is made from. ``mode`` and ``mtime_ns`` are None where the archive
    does not tell.
    """

    path: str
    kind: EntryKind
    size: int = 0
    mode: int | None = None
    mtime_ns: int | None = None
    target: str = ""


class Need(NamedTuple):
    """A reader's wish for bytes of the archive: to be sent to it, fewer only at the end."""

    offset: int
    length: int


Event = Need | ArchiveEntry | bytes
"""What a reader yields. Bytes are content of the file whose entry came last."""

Result = TypeVar("Result")

Steps = Generator[Event, bytes, Result]
"""A reader under way. To a `Need` it wants the bytes sent, to anything else nothing (``b""``).

Each step is small, whatever the archive holds: at most about `STEP_BYTES` are made in it."""

STEP_BYTES = 256 * 1024
"""Bytes read or unpacked between two steps: a millisecond or two of work."""

_NAME_SHOWN_CHARACTERS = 120


def damaged(why: str) -> ParseError:
    """The archive is not what its format says; 422, since it is the content that is wrong."""
    return ParseError(f"the archive is damaged: {why}", status=422)


def refused(kind: type[BailiwickError], number: int, name: str, why: str) -> BailiwickError:
    """An entry that may not be made. It is named so that a person finds it, cut and escaped; not
    where its name leads outside, which no message repeats."""
    details: dict[str, Any] = {"entry": number}
    if issubclass(kind, PathOutsideWorkspace):
        return kind(f"entry {number} of the archive {why}", details=details)
    details["name"] = shown = escape_for_display(name[:_NAME_SHOWN_CHARACTERS])
    return kind(f"entry {number} of the archive ({shown}) {why}", details=details)


def too_much(what: str, limit: int) -> FileTooLarge:
    return FileTooLarge(f"the archive holds more than {limit} {what}", details={"limit": limit})
