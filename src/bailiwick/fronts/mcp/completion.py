"""Completing an address while a person types it: the names of roots, and paths in them.

A path is completed by listing one directory, as the agent, through the boundary: so a name that a
list would not show is not shown here, and each completion is on record as the list that it is. A
place that may not be listed, is hidden, lies outside or is not there has no completions, and one
cannot be told from the other. Nobody is asked anything because somebody types.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from bailiwick.errors import (
    ApprovalDenied,
    BailiwickError,
    MissingAccess,
    NotADirectory,
    NotARegularFile,
    ParseError,
    PathNotFound,
    PathOutsideWorkspace,
    PermissionDenied,
    PolicyDenied,
    SymlinkEscape,
    TooManyLinks,
)
from bailiwick.fronts.mcp.addresses import decoded
from bailiwick.scope import Scope
from bailiwick.toolbox import Toolbox

VALUES_MAX: Final = 100
"""Completions in one answer: the protocol allows no more."""

_PAGES_MAX: Final = 5
"""Pages of a directory that are looked at, of 2,000 entries each: somebody types meanwhile."""

_NOTHING_THERE: tuple[type[BailiwickError], ...] = (
    PathNotFound, NotADirectory, NotARegularFile, ParseError, PathOutsideWorkspace, SymlinkEscape,
    TooManyLinks, MissingAccess, PolicyDenied, PermissionDenied, ApprovalDenied,
)  # fmt: skip


def completion(values: list[str], *, looked_at_all: bool = True) -> dict[str, Any]:
    """An answer of the protocol. How many there are is said where it is known."""
    told: dict[str, Any] = {"values": values[:VALUES_MAX]}
    if looked_at_all:
        told["total"] = len(values)
    told["hasMore"] = len(values) > VALUES_MAX or not looked_at_all
    return {"completion": told}


def complete_root(roots: list[str], typed: str) -> dict[str, Any]:
    """Names of roots that begin as typed; as they are, since ``{root}`` escapes what it is given,
    which ``{+path}`` does not."""
    return completion([root for root in roots if root.startswith(typed)])


async def complete_path(box: Toolbox, typed: str) -> dict[str, Any]:
    """Paths that begin as typed, as they stand in an address. Raises the errors of a scope that
    say more than that there is nothing."""
    told = completion([])
    failed: BailiwickError | None = None

    async def look(scope: Scope) -> None:
        nonlocal told, failed
        try:
            directory, slash, begun = decoded(typed).rpartition("/")
            told = await _look(scope, directory if slash else ".", directory + slash, begun)
        except _NOTHING_THERE:
            return
        except BailiwickError as error:
            failed = error

    # As a rehearsal: looking is done in one, but where a person would be asked it ends instead.
    await box.actor.rehearse("completion/complete", look)
    if failed is not None:
        raise failed
    return told


async def _look(scope: Scope, place: str, before: str, begun: str) -> dict[str, Any]:
    """The names in a directory that begin so. They come sorted, so that looking ends with the
    first one behind them."""
    values: list[str] = []
    cursor = None
    ended = False
    for _ in range(_PAGES_MAX):
        page = await scope.list(
            place, cursor=cursor, limit=scope.limits.list_page_max, include_ignored=True
        )
        for entry in page.entries:
            if entry.addressable and entry.name.startswith(begun):
                end = "/" if entry.type == "directory" else ""
                values.append(quote(before + entry.name + end, safe="/"))
        cursor = page.next_cursor
        last = page.entries[-1].name if page.entries else ""
        ended = cursor is None or last[: len(begun)] > begun
        if ended or len(values) > VALUES_MAX:
            break
    return completion(values, looked_at_all=ended)
