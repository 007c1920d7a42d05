"""What results and bodies have in common on the wire: camelCase, hashes with their name, times in
milliseconds, and a ``kind`` that says what a document is."""

from __future__ import annotations

from typing import Annotated, Any, Protocol

import msgspec

from bailiwick.errors import ParseError
from bailiwick.fronts.http.requests import sha256_of
from bailiwick.fronts.http.table import OCTAL
from bailiwick.wire.values import alias_of

PathField = Annotated[str, msgspec.Meta(min_length=1, description="Where, relative to the root.")]
Natural = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
FileMode = Annotated[
    Annotated[str, msgspec.Meta(pattern=OCTAL)] | Annotated[int, msgspec.Meta(ge=0, le=0o7777)],
    msgspec.Meta(description='Permission bits: octal text ("0644"), or a number.'),
]

NEEDED = "x-needed"
"""What marks a field without which a body makes no sense, under whichever of its names."""


Destination = Annotated[
    PathField | None,
    msgspec.Meta(
        description="Where it goes, relative to the root.", extra_json_schema={NEEDED: True}
    ),
]
DestinationAlias = Annotated[PathField | None, alias_of("destination")]
Sha256Alias = Annotated[str | None, alias_of("expectedHash")]


class Body(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The body of a request: what is not known in it is refused."""


class Change(Body, frozen=True, kw_only=True):
    """The body of a request that changes something."""

    approval: str | None = None
    lock_token: Natural | None = None


class ConditionalChange(Change, frozen=True, kw_only=True):
    """The body of a request that changes what stands at a place, if it is what is expected."""

    expected_hash: str | None = None
    expected_sha256: Sha256Alias = None
    expected_version: str | None = None


def expected(given: str | None, alias: str | None) -> str | None:
    """The hash that a client expects, under either of its names."""
    first, second = sha256_of(given), sha256_of(alias)
    if first is not None and second is not None and first != second:
        raise ParseError("expectedHash and expectedSha256 say two different things")
    return first or second


class Placed(Protocol):
    """A body that says where something goes, under either of two names."""

    @property
    def destination(self) -> str | None: ...
    @property
    def to(self) -> str | None: ...


def place_of(body: Placed) -> str:
    """Where something goes. Raises `ParseError` where that is not said, or said twice."""
    if body.destination is not None and body.to is not None:
        raise ParseError("destination and to are two names of one thing: give one of them")
    place = body.destination or body.to
    if place is None:
        raise ParseError("the body is wrong: it has no destination")
    return place


def mode_bits(given: str | int | None) -> int | None:
    """Permission bits as a client wrote them."""
    return int(given, 8) if isinstance(given, str) else given


def at_destination(version: str | None, hash: str | None) -> dict[str, Any]:
    """The arguments of a verb that say what is to be replaced; none where nothing is expected."""
    return _given(expected_destination_version=version, expected_destination_sha256=sha256_of(hash))


def _given(**arguments: str | None) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


def locked(token: int | None) -> dict[str, Any]:
    """The argument of a verb that acts under a lock; nothing where there is none."""
    return {} if token is None else {"lock_token": token}


def as_of(version: str | None) -> dict[str, Any]:
    """The argument of a verb that looks at an earlier version; nothing where there is none."""
    return {} if version is None else {"as_of": version}
