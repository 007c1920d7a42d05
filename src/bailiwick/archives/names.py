"""What an entry of an archive may be called, and where a link in one may lead.

An archive is someone else's text. A name that would have to be interpreted (``..``, a backslash, a
drive letter, an empty component) is refused instead: programs that interpret such names do it in
different ways. One leading ``./`` is taken off, since that is what archiving a directory by the
name ``.`` writes before every name.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from bailiwick.archives.entries import refused
from bailiwick.errors import ParseError, PathOutsideWorkspace, SymlinkEscape
from bailiwick.paths import (
    NAME_BYTES_MAX,
    PATH_BYTES_MAX,
    RESERVED_PREFIX,
    check_new_name,
    check_portable,
)

_DRIVE = re.compile(r"[A-Za-z]:").match


class EntryName(NamedTuple):
    """A checked name. ``path`` is ``.`` for the directory that was archived itself."""

    path: str
    is_directory: bool


def decoded(raw: bytes, number: int) -> str:
    """A name as text. Names in other encodings cannot be told apart from damage."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        shown = raw.decode(errors="replace")
        raise refused(ParseError, number, shown, "has a name that is not UTF-8") from None


def entry_name(text: str, number: int, *, depth_max: int, portable: bool) -> EntryName:
    """Check the name of an entry. A trailing slash says that it is a directory."""
    if not text:
        raise refused(ParseError, number, text, "has no name")
    if text[0] == "/" or "\\" in text or _DRIVE(text):
        why = "has an absolute name, a drive letter or a backslash"
        raise refused(PathOutsideWorkspace, number, text, why)
    name, is_directory = (text[:-1], True) if text.endswith("/") else (text, False)
    if name == ".":
        return EntryName(".", True)
    parts = name.removeprefix("./").split("/")
    for part in parts:
        _check_part(part, text, number, portable)
    path = "/".join(parts)
    if len(path.encode()) > PATH_BYTES_MAX:
        raise refused(ParseError, number, text, f"has a name over {PATH_BYTES_MAX} bytes")
    if len(parts) - 1 > depth_max:
        raise refused(ParseError, number, text, f"lies deeper than {depth_max} directories")
    return EntryName(path, is_directory)


def _check_part(part: str, text: str, number: int, portable: bool) -> None:
    if part == "..":
        raise refused(PathOutsideWorkspace, number, text, "has a name that climbs up")
    if part in ("", "."):
        raise refused(ParseError, number, text, "has a name with an empty or idle component")
    try:
        size = len(part.encode())
    except UnicodeEncodeError:
        raise refused(ParseError, number, text, "has a name that is not valid text") from None
    if size > NAME_BYTES_MAX:
        raise refused(ParseError, number, text, f"has a component over {NAME_BYTES_MAX} bytes")
    if part.startswith(RESERVED_PREFIX):
        raise refused(ParseError, number, text, "has a reserved name")
    try:
        check_new_name(part)
        if portable:
            check_portable(part)
    except ParseError as error:
        raise refused(ParseError, number, text, f"cannot be made: {error.message}") from None


def check_link(path: str, target: str, number: int, text_bytes_max: int) -> None:
    """Refuse the text of a link unless it stays where the archive is unpacked.

    ``..`` may stand at the beginning only. From where the link stands, which is reached without any
    link, those lead up real directories; what follows leads down, perhaps through other links of
    the archive, of which the same is true. A ``..`` after a name could come after a link, and then
    leads somewhere that no look at the text tells.
    """
    if not target.strip() or len(target.encode()) > text_bytes_max:
        raise refused(ParseError, number, path, "is a link whose text is blank or too long")
    if target[0] == "/" or "\\" in target or _DRIVE(target):
        raise refused(SymlinkEscape, number, path, "is a link to an absolute place")
    try:
        check_new_name(target)
    except ParseError:
        raise refused(ParseError, number, path, "is a link with control characters") from None
    depth, went_down = path.count("/"), False
    for part in target.split("/"):
        if part in ("", "."):
            continue
        if part != "..":
            went_down = True
            continue
        depth -= 1
        if went_down or depth < 0:
            raise refused(SymlinkEscape, number, path, "is a link that leads out of the archive")
