"""Pages of what is told path by path. They go on after a path, so that whatever comes and goes
meanwhile, nothing is told twice, and nothing left out that was there all the time."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from bailiwick.errors import ParseError
from bailiwick.paths import ScopedPath, from_parts

_names = msgspec.json.Decoder(tuple[str, ...])


class HasPath(Protocol):
    """What is told of one path."""

    @property
    def path(self) -> ScopedPath: ...


Item = TypeVar("Item", bound=HasPath)


class PathPage(NamedTuple):
    """So many, or all, after a path as whoever asks sees it."""

    after: ScopedPath | None
    limit: int | None

    def of(self, items: Sequence[Item], base: ScopedPath) -> tuple[Sequence[Item], str | None]:
        """Some of what is sorted by path, seen from ``base``, and the cursor of what follows."""
        if self.after is not None:
            after = self.after.beneath(base).order
            items = [each for each in items if each.path.order > after]
        some = items if self.limit is None else items[: self.limit]
        if len(some) == len(items):
            return some, None
        return some, cursor_at(some[-1].path.relative_to(base))


def path_page(cursor: str | None, limit: int | None) -> PathPage:
    """The page that a caller asks for. Raises `ParseError`."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise ParseError("limit is a positive number")
    names = names_in(cursor)
    return PathPage(from_parts(names) if names else None, limit)


def cursor_at(path: ScopedPath) -> str:
    """Where to go on."""
    return base64.urlsafe_b64encode(msgspec.json.encode(path.parts)).decode("ascii")


def names_in(cursor: str | None) -> tuple[str, ...]:
    """The parts of the path that a cursor goes on after, none without one. Raises `ParseError`."""
    if cursor is None:
        return ()
    names: tuple[str, ...] = ()
    if isinstance(cursor, str):
        with suppress(ValueError, msgspec.MsgspecError):
            names = _names.decode(base64.b64decode(cursor, altchars=b"-_", validate=True))
    if not names:
        raise ParseError("the cursor is none that was given for paths")
    return names
