"""How much an archive may hold, counted while it is unpacked."""

from __future__ import annotations

import msgspec

from bailiwick.archives.entries import too_much
from bailiwick.errors import FileTooLarge
from bailiwick.limits import Limits
from bailiwick.model import KiB, MiB
from bailiwick.paths import NameRule

RATIO_FROM_BYTES = 1 * MiB
"""Unpacked bytes from which on the ratio counts: a tar of one small file is mostly zeros, and a
bomb that does not unpack to more than this is none."""

OVERHEAD_ENTRY_BYTES = 8 * KiB
"""What an entry may take besides its content: a header, a long name, padding."""

OVERHEAD_BYTES = 1 * MiB
"""What an archive may take besides its entries: tapes were padded to such blocks."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What is accepted of one archive at one place."""

    entries_max: int
    bytes_max: int
    file_bytes_max: int
    ratio_max: int
    depth_max: int
    link_text_bytes_max: int
    links: bool
    names: NameRule

    @classmethod
    def of(cls, limits: Limits, asked: Limits | None, *, links: bool, names: NameRule) -> Bounds:
        """The limits of a scope, narrowed by what the caller ``asked`` for, never widened."""
        both = (limits, limits if asked is None else asked)
        return cls(
            entries_max=min(each.archive_entries_max for each in both),
            bytes_max=min(each.archive_bytes_max for each in both),
            file_bytes_max=min(each.max_file_bytes for each in both),
            ratio_max=min(each.archive_ratio_max for each in both),
            depth_max=min(each.archive_depth_max for each in both),
            link_text_bytes_max=min(each.link_text_bytes_max for each in both),
            links=links,
            names=names,
        )

    @property
    def stream_bytes_max(self) -> int:
        """What a whole tar may unpack to, headers and padding included."""
        return self.bytes_max + self.entries_max * OVERHEAD_ENTRY_BYTES + OVERHEAD_BYTES


class Budget:
    """What was unpacked so far, and from how much."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._packed = 0
        self._unpacked = 0
        self._held = 0

    def unpacked(self, packed: int, unpacked: int) -> None:
        """``unpacked`` more bytes came out of ``packed`` more."""
        self._packed += packed
        self._unpacked += unpacked
        ratio_max = self._bounds.ratio_max
        if self._unpacked > RATIO_FROM_BYTES and self._unpacked > ratio_max * self._packed:
            raise FileTooLarge(
                f"the archive unpacks to more than {ratio_max} times its size",
                details={"limit": ratio_max},
            )
        if self._unpacked > self._bounds.stream_bytes_max:
            raise too_much("bytes", self._bounds.bytes_max)

    def file(self, size: int) -> None:
        """One more file will hold ``size`` bytes: asked before any of them is unpacked."""
        limit = self._bounds.file_bytes_max
        if size > limit:
            raise FileTooLarge(
                f"a file in the archive is larger than {limit} bytes", details={"limit": limit}
            )
        self._held += size
        if self._held > self._bounds.bytes_max:
            raise too_much("bytes", self._bounds.bytes_max)
