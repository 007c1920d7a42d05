"""`find`, `files` and `glob`: walks that collect what fits, and count what did not fit in."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from typing import get_args

import msgspec

from bailiwick.call import Call, Missing
from bailiwick.errors import BailiwickError, NotADirectory, ParseError, PathNotFound
from bailiwick.model import Entry, EntryType, Found
from bailiwick.resolving import named
from bailiwick.search.glob import compile_filter, compile_glob
from bailiwick.store import Handle
from bailiwick.verbs.ignoring import Ignores
from bailiwick.verbs.listing import page_size
from bailiwick.verbs.walking import UNREADABLE, Visit, Walk, entry_of


class FindAsked(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions of one `find`; None means any."""

    pattern: str | None
    type: EntryType | None
    depth: int | None
    empty: bool | None
    size_min: int | None
    size_max: int | None
    modified_after_ns: int | None
    limit: int | None
    include_ignored: bool


async def find(call: Call, ignores: Ignores, asked: FindAsked) -> Found:
    if asked.depth is not None and asked.depth < 1:
        raise ParseError("depth must be at least 1")
    if asked.type not in (None, *get_args(EntryType)):
        raise ParseError(f"type must be one of {', '.join(get_args(EntryType))}")
    base = call.handle.path
    name_filter = None if asked.pattern is None else compile_filter((asked.pattern,))

    def fits(visit: Visit) -> bool:
        child = visit.child
        if asked.type is not None and child.type != asked.type:
            return False
        if asked.size_min is not None and child.size < asked.size_min:
            return False
        if asked.size_max is not None and child.size > asked.size_max:
            return False
        if asked.modified_after_ns is not None and child.mtime_ns <= asked.modified_after_ns:
            return False
        if name_filter is None:
            return True
        return name_filter.matches(visit.path.relative_to(base), child.type == "directory")

    walk = Walk(call, ignores, include_ignored=asked.include_ignored, depth=asked.depth)
    return await _collect(call, walk, fits, asked.limit, asked.empty)


async def files(call: Call, ignores: Ignores, limit: int | None, include_ignored: bool) -> Found:
    """Flat: every file beneath the prefix. A missing prefix holds nothing, which is no error."""

    async def walked(call: Call) -> Found:
        walk = Walk(call, ignores, include_ignored=include_ignored)
        return await _collect(call, walk, lambda visit: visit.child.type == "file", limit, None)

    return await call.pipeline.run(call, walked, _NOTHING)


def _nothing(call: Call) -> Found:
    return Found(
        base=named(call, call.target), matches=[], truncated=False, omitted=0, visited=0,
        request_id=call.request_id,
    )  # fmt: skip


_NOTHING = Missing((PathNotFound,), _nothing)


async def glob(
    call: Call, ignores: Ignores, pattern: str, limit: int | None, include_ignored: bool
) -> Found:
    base = call.handle.path
    compiled = compile_glob(pattern)

    def fits(visit: Visit) -> bool:
        return compiled.matches(visit.path.relative_to(base), visit.child.type == "directory")

    walk = Walk(
        call,
        ignores,
        include_ignored=include_ignored,
        may_enter=lambda path: compiled.may_match_below(path.relative_to(base)),
    )
    return await _collect(call, walk, fits, limit, None)


async def _collect(
    call: Call,
    walk: Walk,
    fits: Callable[[Visit], bool],
    limit: int | None,
    empty: bool | None,
) -> Found:
    """Keep the first matches, count the rest: the answer says how much it leaves out."""
    if call.handle.type != "directory":
        raise NotADirectory("not a directory", path=call.handle.path)
    wanted = call.limits.glob_default if limit is None else page_size(limit, call.limits.glob_max)
    matches: list[Entry] = []
    omitted = 0
    async with aclosing(walk.visits(call.handle)) as visits:
        async for visit in visits:
            if not fits(visit):
                continue
            if empty is not None and await _is_empty(call, visit) is not empty:
                continue
            if len(matches) < wanted:
                matches.append(entry_of(visit))
            else:
                omitted += 1
    return _found(call, matches, walk, omitted)


def _found(call: Call, matches: list[Entry], walk: Walk, omitted: int) -> Found:
    reason = walk.reason
    if reason is None and omitted:
        reason = f"{omitted} more match: narrow the pattern or raise the limit"
    if reason is None and walk.withheld:
        reason = f"policy withholds what lies in {walk.withheld} of the directories"
    return Found(
        base=call.handle.path,
        matches=matches,
        truncated=reason is not None,
        omitted=omitted,
        visited=walk.visited,
        request_id=call.request_id,
        reason=reason,
        unreadable=walk.unreadable,
    )


_NOT_SEEN: tuple[type[BailiwickError], ...] = (PathNotFound, *UNREADABLE)


async def _is_empty(call: Call, visit: Visit) -> bool:
    if visit.child.type != "directory":
        return visit.child.size == 0
    handle: Handle | None = None
    try:
        handle = await call.store.descend(visit.directory, visit.child.name)
        return not (await call.store.children(handle, limit=1)).entries
    except _NOT_SEEN:
        return False
    finally:
        if handle is not None:
            handle.close()
