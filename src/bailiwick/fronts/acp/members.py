"""The members of a JSON object, as far as every reader would agree on them.

Of two equal names one reader takes the first and another the last; some do not tell ``Method`` from
``method``. An object that would be read in two ways is therefore not read at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from msgspec import Raw

MEMBERS_MAX = 64
"""No object of the protocol that is looked into has nearly as many."""

Names = Mapping[str, str]
"""The names that mean something, each by how it reads without regard to upper and lower case."""


class Malformed(Exception):
    """This is no message of the protocol."""


def known_names(*names: str) -> Names:
    return {name.casefold(): name for name in names}


decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
"""The members of an object, of two equal ones the last: see `check_members`."""

_decode_name = msgspec.json.Decoder(str).decode

_opening = re.compile(rb"[ \t\r\n]*\{").match
_name = re.compile(
    rb'[ \t\r\n]*("[^"\\]*+(?:\\.[^"\\]*+)*+")[ \t\r\n]*:[ \t\r\n]*', re.DOTALL
).match  # fmt: skip
_separator = re.compile(rb"[ \t\r\n]*([,}])").match


def check_members(text: bytes, members: Mapping[str, Raw], names: Names) -> None:
    """Raise `Malformed` where readers could differ on these members, which were read from
    ``text``: one stands there twice, or is one of ``names`` but for upper and lower case."""
    if len(members) > MEMBERS_MAX:
        raise Malformed(f"an object of it has more than {MEMBERS_MAX} members")
    for name in members:
        if names.get(name.casefold(), name) != name:
            raise Malformed("a member differs from one of the protocol only in its case")
    if not _stand_once(text, members):
        raise Malformed("a member stands in it twice")


def _stand_once(text: bytes, members: Mapping[str, Raw]) -> bool:
    """Whether the members, one after the other, are all that stands in the object. Where one was
    replaced by a later one, either its value is not what stands there or something is left over.
    This looks at names and compares values whole, so it is fast whatever is in them."""
    opened = _opening(text)
    assert opened is not None, "the text was read as an object"
    at, ending = opened.end(), b"}"
    for name, value in members.items():
        named = _name(text, at)
        if named is None or _decode_name(named[1]) != name:
            return False
        stands = bytes(value)
        if not text.startswith(stands, named.end()):
            return False
        separated = _separator(text, named.end() + len(stands))
        if separated is None:
            return False
        at, ending = separated.end(), separated[1]
    return ending == b"}"


def members_inside(value: Raw | None, names: Names) -> Mapping[str, Raw]:
    """The members of a value inside a message that was read; none where it is a plain value.

    Raises `Malformed` where readers could differ on them, and for a list: some readers take one for
    an object, its members by their order.
    """
    text = b"" if value is None else bytes(value)
    if text.startswith(b"["):
        raise Malformed("a list stands where the protocol has an object")
    if not text.startswith(b"{"):
        return {}
    members = decode_members(text)
    check_members(text, members, names)
    return members
