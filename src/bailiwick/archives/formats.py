"""Which formats there are, by what a file holds and by what a new one is called."""

from __future__ import annotations

from typing import Final, Literal, get_args

from bailiwick.archives.streams import Packing
from bailiwick.errors import ParseError

ArchiveFormat = Literal["tar", "tar.gz", "tar.bz2", "tar.xz", "tar.zst", "zip"]

FORMATS: Final[tuple[ArchiveFormat, ...]] = get_args(ArchiveFormat)

_BY_EXTENSION: Final[dict[str, ArchiveFormat]] = {
    **{f".{name}": name for name in FORMATS},
    ".tgz": "tar.gz", ".tbz2": "tar.bz2", ".txz": "tar.xz", ".tzst": "tar.zst",
}  # fmt: skip

_PACKINGS: Final[dict[ArchiveFormat, Packing]] = {
    "tar.gz": "gz", "tar.bz2": "bz2", "tar.xz": "xz", "tar.zst": "zst",
}  # fmt: skip

_MAGIC: Final[tuple[tuple[bytes, Packing], ...]] = (
    (b"\x1f\x8b\x08", "gz"),
    (b"BZh", "bz2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zst"),
)

_ZIP_BEGINS: Final = (b"PK\3\4", b"PK\5\6")

_ZSTD_SKIPPABLE: Final = b"\x2a\x4d\x18"


def format_for(name: str, asked: str | None) -> ArchiveFormat:
    """The format a new archive gets: the one asked for, else by the end of its name."""
    if asked is not None:
        if asked not in FORMATS:
            raise ParseError(f"format must be one of {', '.join(FORMATS)}")
        return next(known for known in FORMATS if known == asked)
    lowered = name.lower()
    for extension, known in _BY_EXTENSION.items():
        if lowered.endswith(extension) and lowered != extension:
            return known
    raise ParseError(
        "the name does not say which kind of archive it shall be",
        hint=f"end it in one of {', '.join(_BY_EXTENSION)}, or pass format",
    )


def packing_of(known: ArchiveFormat) -> Packing | None:
    return _PACKINGS.get(known)


def is_zip(head: bytes) -> bool:
    return head.startswith(_ZIP_BEGINS)


def packing_at(head: bytes) -> Packing | None:
    """How the file that begins so is packed, if it is."""
    for magic, packing in _MAGIC:
        if head.startswith(magic):
            return packing
    if len(head) >= 4 and head[1:4] == _ZSTD_SKIPPABLE and head[0] & 0xF0 == 0x50:
        return "zst"
    return None
