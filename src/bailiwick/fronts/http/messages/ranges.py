"""Ranges and entity tags of `GET /file/raw`, as RFC 9110 has them."""

from __future__ import annotations

import re
from typing import NamedTuple

from bailiwick.errors import HashMismatch, ParseError, RangeNotSatisfiable

_RANGE = re.compile(r"bytes=\s*([0-9]{0,18})-([0-9]{0,18})\s*").fullmatch

_TAG_MAX = 256
"""Characters of an entity tag: several times what the longest version of a store of ours has."""

_TAG = re.compile(r'(W/)?"([\x21\x23-\x7e]*)"').fullmatch


class Range(NamedTuple):
    """A part of a file: from ``first`` for ``length`` bytes; None for as far as it goes."""

    first: int
    length: int | None


def parse_range(header: str | None) -> tuple[int | None, int | None] | None:
    """First and last byte as asked: without a first, the last so many. None where the whole is
    meant: more than one range, or what is no range, may be ignored."""
    found = None if header is None else _RANGE(header)
    if found is None or (not found[1] and not found[2]):
        return None
    first = int(found[1]) if found[1] else None
    last = int(found[2]) if found[2] else None
    if first is not None and last is not None and last < first:
        return None
    return first, last


def within(asked: tuple[int | None, int | None], size: int) -> Range:
    """What is asked of a file of so many bytes. Raises `RangeNotSatisfiable`."""
    first, last = asked
    if first is None:
        wanted = min(last or 0, size)
        if wanted == 0:
            raise unsatisfiable(size)
        return Range(size - wanted, wanted)
    if first >= size:
        raise unsatisfiable(size)
    end = size - 1 if last is None else min(last, size - 1)
    return Range(first, end - first + 1)


def unsatisfiable(size: int) -> RangeNotSatisfiable:
    return RangeNotSatisfiable("the range lies outside the file", details={"size": size})


def tag_of(version: str) -> bytes | None:
    """The entity tag of a version; None for one that does not fit into a header."""
    if not version or not (version.isascii() and version.isprintable()) or len(version) > _TAG_MAX:
        return None
    return None if '"' in version or " " in version else b'"%b"' % version.encode()


def names(header: str | None, version: str) -> bool:
    """Whether a list of entity tags names this version; weak ones count, as for If-None-Match."""
    if header is None:
        return False
    if header.strip() == "*":
        return True
    return any(
        found is not None and found[2] == version
        for found in (_TAG(part.strip()) for part in header.split(","))
    )


def names_strongly(header: str, version: str) -> bool:
    """Whether a list of entity tags names this version; weak ones never do, as for If-Match."""
    if header.strip() == "*":
        return True
    found = [_TAG(part.strip()) for part in header.split(",")]
    return any(each is not None and not each[1] and each[2] == version for each in found)


def condition(header: str | None) -> tuple[str | None, str | None]:
    """The hash and the version that If-Match names, one of which is None. Raises `ParseError`."""
    if header is None:
        return None, None
    found = _TAG(header.strip())
    if found is None:
        raise ParseError("If-Match names one entity tag here", hint="send the ETag, in quotes")
    if found[1]:
        raise HashMismatch("a weak entity tag never matches", status=412)
    tag = found[2]
    if tag.startswith("sha256:"):
        return tag.removeprefix("sha256:"), None
    return None, tag
