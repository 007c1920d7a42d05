"""`If-Match` and `If-None-Match` of what changes one file.

They say in headers what a body or a query says by `expectedHash`, `expectedVersion` and `mode`; or
by `expectedDestinationHash` and `expectedDestinationVersion`, where it is what is replaced that can
be expected. A route that has those takes the headers by itself; on any other that changes something
they are refused, since a condition that nobody looks at is worse than none.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from bailiwick.errors import (
    BailiwickError,
    FileAlreadyExists,
    HashMismatch,
    ParseError,
    PathNotFound,
)
from bailiwick.fronts.http.messages import ranges
from bailiwick.fronts.http.messages.requests import Request
from bailiwick.fronts.http.table import Route
from bailiwick.fronts.http.verbs import place_of
from bailiwick.paths import parse

_MODE = "mode"
_ENTRIES = frozenset(("move", "remove"))
"""Verbs that act on a link itself, not on what it leads to."""


class Terms(NamedTuple):
    """What the conditions of a request can be said by; None for what the route has not."""

    hash: str | None = None
    version: str | None = None
    mode: str | None = None

    @property
    def of_destination(self) -> bool:
        """Whether they are about what is replaced, not about what is named first."""
        return self.version is not None and self.version.startswith("expected_destination")


def terms_of(route: Route) -> Terms:
    if not route.changes:
        return Terms()
    known = {each.name for each in route.parameters}
    if route.body is not None:
        known.update(field.name for field in msgspec.structs.fields(route.body))
    hashes = ("expected_hash", "expected_destination_hash")
    versions = ("expected_version", "expected_destination_version")
    return Terms(
        hash=next((each for each in hashes if each in known), None),
        version=next((each for each in versions if each in known), None),
        mode=_MODE if _MODE in known else None,
    )


def takes_if_match(terms: Terms) -> bool:
    return terms.version is not None


async def apply(request: Request) -> None:
    """Have a request say in its own terms what its headers say. Raises `ParseError`, and
    `HashMismatch` where that does not hold already."""
    terms = terms_of(request.route)
    if_match, if_none_match = request.header(b"if-match"), request.header(b"if-none-match")
    if if_match is not None:
        await _apply_match(request, terms, if_match)
    if if_none_match is not None:
        if terms.mode is None:
            raise ParseError("this route takes no If-None-Match")
        if if_none_match.strip() != "*":
            raise ParseError("If-None-Match is * here: write only where nothing stands")
        if if_match is not None:
            raise ParseError("If-Match and If-None-Match cannot both hold")
        _set(request, **{_MODE: "create"})
    request.conditional = True


async def _apply_match(request: Request, terms: Terms, header: str) -> None:
    if terms.version is None:
        raise ParseError("this route takes no If-Match")
    named = (terms.hash, terms.version, "expected_sha256")
    if any(each is not None and _given(request, each) is not None for each in named):
        raise ParseError("expect something by If-Match or by a parameter, not by both")
    if header.strip() != "*":
        sha256, version = ranges.condition(header)
        if sha256 is None:
            _set(request, **{terms.version: version})
        elif terms.hash is None:
            raise ParseError("this route cannot expect a hash")
        else:
            _set(request, **{terms.hash: sha256})
    else:
        if _given(request, _MODE) == "create":
            raise ParseError("what must exist cannot be created")
        path = _path_of(request)
        scope = await request.scoped(path)
        look = scope.lstat if request.route.verb in _ENTRIES else scope.stat
        try:
            _set(request, **{terms.version: (await look(path)).version})
        except PathNotFound as error:
            raise _missing(path) from error


def judged(request: Request, error: BailiwickError) -> BailiwickError:
    """An error of a request with conditions: one that says that a condition does not hold has the
    status for that, and nothing at all is not what If-Match names."""
    if isinstance(error, (HashMismatch, FileAlreadyExists)):
        error.status = 412
    elif isinstance(error, PathNotFound) and b"if-match" in request.headers:
        path = _path_of(request)
        if error.path is not None and str(error.path) == _canonical(path):
            missing = _missing(path)
            missing.request_id = error.request_id
            return missing
    return error


def _canonical(path: str) -> str | None:
    """A path as errors name it, as far as its text says."""
    try:
        return str(parse(path).path)
    except BailiwickError:
        return None


def _missing(path: str) -> HashMismatch:
    return HashMismatch("nothing stands there, and If-Match names something", status=412, path=path)


def _path_of(request: Request) -> str:
    """The file that conditions are about."""
    if request.body is None:
        path: str = request.query["path"]
    elif terms_of(request.route).of_destination:
        path = place_of(request.body)
    else:
        path = request.body.path
    return path


def _given(request: Request, term: str) -> Any:
    if request.body is None:
        return request.query.get(term)
    return getattr(request.body, term, None)


def _set(request: Request, **terms: Any) -> None:
    if request.body is None:
        request.query = {**request.query, **terms}
    else:
        request.body = msgspec.structs.replace(request.body, **terms)
