"""`find`, `files` and `glob`: walks that collect what fits, and count what did not fit in."""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import aclosing
from typing import NamedTuple, get_args

import msgspec

from bailiwick.call import Call, Missing
from bailiwick.errors import BailiwickError, NotADirectory, ParseError, PathNotFound
from bailiwick.model import Entry, EntryType, Found
from bailiwick.paths import ScopedPath
from bailiwick.resolution import named
from bailiwick.search.glob import compile_filter, compile_glob
from bailiwick.store import Handle
from bailiwick.verbs.listing import page_size
from bailiwick.verbs.walks.ignore_files import Ignores
from bailiwick.verbs.walks.walk import UNREADABLE, Visit, Walk, entry_of


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
    cursor: str | None


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

    walk = Walk(
        call, ignores, include_ignored=asked.include_ignored, depth=asked.depth,
        after=_names_in(asked.cursor),
    )  # fmt: skip
    return await _collect(call, walk, fits, _Wanted(asked.limit, asked.cursor, asked.empty))


async def files(
    call: Call, ignores: Ignores, limit: int | None, include_ignored: bool, cursor: str | None
) -> Found:
    """Flat: every file beneath the prefix, or the file that it names. A missing prefix holds
    `NOTHING`, which is no error."""
    after = _names_in(cursor)
    walk = Walk(call, ignores, include_ignored=include_ignored, after=after)
    if call.handle.type == "file":
        named_file = await _named(call, ignores)
        return _found(call, walk, [] if after else [named_file], None)
    wanted = _Wanted(limit, cursor, None)
    return await _collect(call, walk, lambda visit: visit.child.type == "file", wanted)


async def _named(call: Call, ignores: Ignores) -> Entry:
    """The file at the call's place as an entry."""
    stat = await call.store.stat(call.handle)
    path = stat.path
    ignored = await ignores.mark(call, path) is not None
    return Entry(
        path.name, path.parent, stat.type, stat.size, stat.mtime_ns, ignored,
        read_only=stat.read_only,
    )  # fmt: skip


def _nothing(call: Call) -> Found:
    return Found(
        base=named(call, call.target), matches=[], truncated=False, omitted=0, visited=0,
        request_id=call.request_id,
    )  # fmt: skip


NOTHING = Missing((PathNotFound,), _nothing)


async def glob(
    call: Call,
    ignores: Ignores,
    pattern: str,
    limit: int | None,
    include_ignored: bool,
    cursor: str | None,
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
        after=_names_in(cursor),
    )
    return await _collect(call, walk, fits, _Wanted(limit, cursor, None))


class _Wanted(NamedTuple):
    """How many matches, after which cursor; empty ones, others, or any."""

    limit: int | None
    cursor: str | None
    empty: bool | None


async def _collect(call: Call, walk: Walk, fits: Callable[[Visit], bool], wanted: _Wanted) -> Found:
    """Keep the first matches and count the rest, so that the answer says how much it leaves out.
    Whoever goes on by cursor was told: then one more is enough to know that there is."""
    if call.handle.type != "directory":
        raise NotADirectory("not a directory", path=call.handle.path)
    limit = wanted.limit
    most = call.limits.glob_default if limit is None else page_size(limit, call.limits.glob_max)
    matches: list[Entry] = []
    omitted = 0
    last: ScopedPath | None = None
    before: ScopedPath | None = None
    async with aclosing(walk.visits(call.handle)) as visits:
        async for visit in visits:
            if omitted == 0:
                last, before = visit.path, last
            if not fits(visit):
                continue
            if wanted.empty is not None and await _is_empty(call, visit) is not wanted.empty:
                continue
            if len(matches) < most:
                matches.append(entry_of(visit))
                continue
            if omitted == 0:
                last = before
            omitted += 1
            if wanted.cursor is not None:
                break
    return _found(call, walk, matches, last, omitted)


def _found(
    call: Call, walk: Walk, matches: list[Entry], last: ScopedPath | None, omitted: int = 0
) -> Found:
    """``last`` is the last place that need not be looked at again."""
    cut = omitted > 0 or walk.stopped
    reason = walk.reason
    if reason is None and omitted:
        reason = f"{omitted} more match: narrow the pattern, raise the limit or go on by the cursor"
    if reason is None and walk.withheld:
        reason = f"policy withholds what lies in {walk.withheld} of the directories"
    base = call.handle.path
    return Found(
        base=base,
        matches=matches,
        truncated=reason is not None,
        omitted=omitted,
        visited=walk.visited,
        request_id=call.request_id,
        reason=reason,
        unreadable=walk.unreadable,
        next_cursor=_cursor_at(last.relative_to(base)) if cut and last is not None else None,
    )


_names = msgspec.json.Decoder(tuple[str, ...])


def _cursor_at(path: ScopedPath) -> str:
    """Where to go on, by name: whatever comes and goes meanwhile, nothing is shown twice, and
    nothing left out that was there all the time."""
    return base64.urlsafe_b64encode(msgspec.json.encode(path.parts)).decode("ascii")


def _names_in(cursor: str | None) -> tuple[str, ...]:
    if cursor is None:
        return ()
    try:
        names = _names.decode(base64.b64decode(cursor, altchars=b"-_", validate=True))
    except (ValueError, msgspec.MsgspecError):
        names = ()
    if not names:
        raise ParseError("the cursor is not one that find, files or glob gave")
    return names


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
