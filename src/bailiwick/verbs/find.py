"""`find`, `files` and `glob`: walks that collect what fits, and count what did not fit in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import NamedTuple, get_args

import msgspec

from bailiwick.call import Call, Missing
from bailiwick.errors import BailiwickError, NotADirectory, ParseError, PathNotFound
from bailiwick.model import Entry, EntryType, Found
from bailiwick.paths import ScopedPath
from bailiwick.policy import Hide
from bailiwick.resolution import named
from bailiwick.search.glob import Filter, Glob, compile_filter, compile_glob
from bailiwick.store import Child, Handle
from bailiwick.verbs.listing import page_size
from bailiwick.verbs.walks.ignore_files import Ignores
from bailiwick.verbs.walks.path_pages import cursor_at, names_in
from bailiwick.verbs.walks.walk import UNREADABLE, FileRun, Visit, Walk

Fits = Callable[[Child], bool]
"""Whether one entry of a directory is meant."""

Fitting = Callable[[ScopedPath], Fits]
"""The same for any directory."""


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

    def fitting(directory: ScopedPath) -> Fits:
        named_so = None if name_filter is None else _matching(name_filter, base, directory)

        def fits(child: Child) -> bool:
            if asked.type is not None and child.type != asked.type:
                return False
            if asked.size_min is not None and child.size < asked.size_min:
                return False
            if asked.size_max is not None and child.size > asked.size_max:
                return False
            if asked.modified_after_ns is not None and child.mtime_ns <= asked.modified_after_ns:
                return False
            return named_so is None or named_so(child)

        return fits

    walk = Walk(
        call, ignores, include_ignored=asked.include_ignored, depth=asked.depth,
        after=names_in(asked.cursor),
    )  # fmt: skip
    wanted = _Wanted(asked.limit, asked.cursor, asked.empty, asked.include_ignored)
    return await _collect(call, walk, fitting, wanted)


async def files(
    call: Call, ignores: Ignores, limit: int | None, include_ignored: bool, cursor: str | None
) -> Found:
    """Flat: every file beneath the prefix, or the file that it names. A missing prefix holds
    `NOTHING`, which is no error."""
    after = names_in(cursor)
    walk = Walk(call, ignores, include_ignored=include_ignored, after=after)
    if call.handle.type == "file":
        named_file = await _named(call, ignores)
        return _found(call, walk, [] if after else [named_file], None)
    wanted = _Wanted(limit, cursor, None, include_ignored)
    return await _collect(call, walk, lambda _: _is_file, wanted)


def _is_file(child: Child) -> bool:
    return child.type == "file"


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
    walk = Walk(
        call,
        ignores,
        include_ignored=include_ignored,
        may_enter=lambda path: compiled.may_match_below(path.relative_to(base)),
        after=names_in(cursor),
    )
    wanted = _Wanted(limit, cursor, None, include_ignored)
    return await _collect(call, walk, partial(_matching, compiled, base), wanted)


def _matching(pattern: Glob | Filter, base: ScopedPath, directory: ScopedPath) -> Fits:
    """Whether what stands in a directory is named as a pattern says, as seen from ``base``."""
    relative, matches = directory.relative_to(base), pattern.matches
    way = "" if relative == "." else f"{relative}/"
    return lambda child: matches(way + child.name, child.type == "directory")


class _Wanted(NamedTuple):
    """How many matches, after which cursor; empty ones, others, or any; ignored ones as well."""

    limit: int | None
    cursor: str | None
    empty: bool | None
    include_ignored: bool


class _Collection:
    """The first matches, and how many more there are. ``last`` is the last place, by its directory
    and name, that need not be looked at again; ``unseen`` are those that a walk has passed and
    nobody has looked at."""

    def __init__(self, most: int, *, counts: bool) -> None:
        self.matches: list[Entry] = []
        self.omitted = 0
        self.last: tuple[ScopedPath, str] | None = None
        self.unseen = 0
        self._most = most
        self._counts = counts

    def take(
        self, directory: ScopedPath, children: Sequence[Child], fits: Fits, *, ignored: bool
    ) -> bool:
        """Look at what stands in a directory; whether to go on."""
        matches, most = self.matches, self._most
        for at, child in enumerate(children):
            if fits(child):
                if len(matches) >= most:
                    self.omitted += 1
                    if not self._counts:
                        self.unseen = len(children) - at - 1
                        return False
                    continue
                name, kind, size, mtime_ns, addressable, read_only = child
                matches.append(
                    Entry(name, directory, kind, size, mtime_ns, ignored, addressable, read_only)
                )
            if self.omitted == 0:
                self.last = directory, child.name
        return True


async def _collect(call: Call, walk: Walk, fitting: Fitting, wanted: _Wanted) -> Found:
    """Keep the first matches and count the rest, so that the answer says how much it leaves out.
    Whoever goes on by cursor was told: then one more is enough to know that there is."""
    top, limit, empty = call.handle, wanted.limit, wanted.empty
    if top.type != "directory":
        raise NotADirectory("not a directory", path=top.path)
    most = call.limits.glob_default if limit is None else page_size(limit, call.limits.glob_max)
    found = _Collection(most, counts=wanted.cursor is None)
    # Of those that come together nobody has said which are ignored.
    steps = walk.visits(top) if wanted.include_ignored else walk.visits_and_runs(top)
    async with aclosing(steps):
        async for step in steps:
            if isinstance(step, FileRun):
                directory, children, ignored = step.directory, step.children, False
            else:
                directory, children, ignored = step.directory.path, [step.child], step.ignored
            fits = fitting(directory)
            if empty is not None:
                fits = await _fitting_empty(call, step, fits, empty)
            if not found.take(directory, children, fits, ignored=ignored):
                break
    last = None if found.last is None else found.last[0].child(found.last[1])
    return _found(call, walk, found.matches, last, found.omitted, found.unseen)


async def _fitting_empty(call: Call, step: Visit | FileRun, fits: Fits, empty: bool) -> Fits:
    """Those that fit, and are empty or not as is wanted."""
    if isinstance(step, Visit) and step.child.type == "directory":
        is_wanted = fits(step.child) and await _is_empty(call, step) is empty
        return lambda _: is_wanted
    return lambda child: fits(child) and (child.size == 0) is empty


def _is_hidden(call: Call, directory: ScopedPath, child: Child) -> bool:
    path = directory.child(child.name)
    return isinstance(call.decide(path, None, child.type == "directory"), Hide)


def _found(
    call: Call, walk: Walk, matches: list[Entry], last: ScopedPath | None, omitted: int = 0,
    unseen: int = 0,
) -> Found:  # fmt: skip
    cut = omitted > 0 or walk.stopped
    reason = walk.reason
    if reason is None and omitted:
        reason = f"{omitted} more match: narrow the search, or ask for more"
    if reason is None and walk.withheld:
        reason = f"policy withholds what lies in {walk.withheld} of the directories"
    base = call.handle.path
    return Found(
        base=base,
        matches=matches,
        truncated=reason is not None,
        omitted=omitted,
        visited=walk.visited - unseen,
        request_id=call.request_id,
        reason=reason,
        unreadable=[*walk.unreadable, *walk.unnamed],
        next_cursor=cursor_at(last.relative_to(base)) if cut and last is not None else None,
    )


_NOT_SEEN: tuple[type[BailiwickError], ...] = (PathNotFound, *UNREADABLE)


async def _is_empty(call: Call, visit: Visit) -> bool:
    """Whether a directory has nothing in it that shows."""
    handle: Handle | None = None
    decides = call.must_decide_below(visit.path)
    try:
        handle = await call.store.descend(visit.directory, visit.child.name)
        found = await call.store.children(handle, limit=None if decides else 1)
        return all(decides and _is_hidden(call, visit.path, each) for each in found.entries)
    except _NOT_SEEN:
        return False
    finally:
        if handle is not None:
            handle.close()
