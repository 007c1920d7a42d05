"""What stood at a place, as far as it has to be known to put it back."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from bailiwick.model import EntryType, Stat
from bailiwick.paths import ScopedPath


class PlaceState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A file, link or directory at one moment. The order of the fields is that of the rows.

    ``version`` is the wrapped store's. ``sha256`` is None where the content was not read;
    ``lost`` says why what stood there could not be kept, where it could not.
    """

    type: EntryType
    mode: int
    size: int
    mtime_ns: int
    version: str = ""
    sha256: str | None = None
    target: str | None = None
    lost: str = ""


UNKNOWN: Final = PlaceState("other", 0, 0, 0, lost="it is not known what was left there")
"""What a change left that was interrupted, or is still under way."""

SET: Final = 0
WENT: Final = 1
CAME: Final = 2
OPENED: Final = 3
"""A directory that is open while something is taken back: its mode before that, and after it."""

OPENING: Final = "open"
"""What an entry is called that tells of such: none of the places becomes another by it."""


class Effect(NamedTuple):
    """What a change did to one place. One that was moved has two: where it went from (`WENT`),
    where it came to (`CAME`); ``other`` is the other end."""

    path: ScopedPath
    before: PlaceState | None
    after: PlaceState | None
    kind: int = SET
    other: ScopedPath = ScopedPath(".")


def seen(stat: Stat, sha256: str | None = None, lost: str = "") -> PlaceState:
    """What a store tells of an object."""
    target = stat.target
    if target is not None and not is_text(target):
        target, lost = None, "it was a link whose text is not valid text"
    return PlaceState(
        stat.type, stat.mode & 0o777, stat.size, stat.mtime_ns, stat.version, sha256, target, lost
    )


def foretold(sha256: str, size: int, file_mode: int | None) -> PlaceState:
    """A file as a change is to leave it. Without a mode it gets that which it gets by itself."""
    return PlaceState("file", (file_mode or 0) & 0o777, size, 0, "", sha256)


def is_text(text: str) -> bool:
    """Whether a text can be written down: what stands for bytes that are no text cannot."""
    return text.isascii() or not any("\ud800" <= each <= "\udfff" for each in text)


def is_same(a: PlaceState | None, b: PlaceState | None) -> bool:
    """Whether two looks found the same: the very version, or else the same content and mode.

    Times do not count: nobody loses anything by them, and programs set them as they like.
    """
    if a is None or b is None:
        return a is b
    if a.type != b.type or a is UNKNOWN or b is UNKNOWN:
        return False
    if a.type == "directory":
        return a.mode == b.mode
    if a.version and a.version == b.version:
        return True
    if a.type == "symlink":
        return a.target is not None and a.target == b.target
    return a.mode == b.mode and a.sha256 is not None and a.sha256 == b.sha256


def is_directory(state: PlaceState | None) -> bool:
    return state is not None and state.type == "directory"


def with_content(state: PlaceState, known: PlaceState | None) -> PlaceState:
    """A state whose content was not read, with the content of one that was: they are known to be
    of the same file, and nothing has written it in between."""
    if state.sha256 is not None or known is None or known.sha256 is None:
        return state
    return msgspec.structs.replace(state, sha256=known.sha256)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PlaceState).decode


def packed(state: PlaceState | None) -> bytes | None:
    """A state as a row has it: NULL for nothing, empty for what is not known."""
    if state is None:
        return None
    return b"" if state is UNKNOWN else _encode(state)


def unpacked(row: bytes | None) -> PlaceState | None:
    if row is None:
        return None
    return _decode(row) if row else UNKNOWN


def content_of(state: PlaceState | None) -> bytes | None:
    """The hash of a state's content, as rows refer to it."""
    return None if state is None or state.sha256 is None else bytes.fromhex(state.sha256)
