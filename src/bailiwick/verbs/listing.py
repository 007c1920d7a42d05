"""`list`: one page of a directory, sorted by name."""

from __future__ import annotations

import asyncio
import base64
import binascii
from bisect import bisect_left

from bailiwick.call import Call
from bailiwick.errors import NotADirectory, ParseError
from bailiwick.model import Entry, Page
from bailiwick.paths import ScopedPath
from bailiwick.policy import Hide
from bailiwick.search.ignore import IgnoreLevel
from bailiwick.store import Child
from bailiwick.verbs.walks.ignore_files import Ignores

_CHILDREN_AT_ONCE = 50_000
"""Entries of one directory held at a time, where most are left out: as many as a walk holds."""

_ENTRIES_BETWEEN_PAUSES = 2_000
"""After so many entries other tasks get their turn: a page, or a few milliseconds of work."""


async def list_page(
    call: Call, ignores: Ignores, cursor: str | None, limit: int | None, include_ignored: bool
) -> Page:
    """Entries after the cursor until the page is full; what is left out does not count."""
    directory = call.handle
    if directory.type != "directory":
        raise NotADirectory("not a directory", path=directory.path)
    wanted = page_size(limit, call.limits.list_page_max)
    after = None if cursor is None else _name_in(cursor)
    rules = (await ignores.level_of(call.store, directory.path, call=call)).named()
    decides = call.must_decide_below(directory.path)
    # What is hidden may neither end a page nor stand in its cursor: that there is more is known by
    # one more that shows.
    enough = wanted + decides
    entries: list[Entry] = []
    more, asked = True, enough
    while more and len(entries) < enough:
        page = await call.store.children(directory, after=after, limit=asked)
        room = enough - len(entries)
        shown: list[Entry] = []
        for start in range(0, len(page.entries), _ENTRIES_BETWEEN_PAUSES):
            if start:
                await asyncio.sleep(0)
            some = page.entries[start : start + _ENTRIES_BETWEEN_PAUSES]
            shown += _shown(call, some, rules, include_ignored, decides)
            if len(shown) > room:
                break
        more = page.more or len(shown) > room
        if len(shown) > room:
            after = shown[room - 1].name
        elif page.entries:
            after = page.entries[-1].name
        entries += shown[:room]
        # Where much is left out, reading the directory anew for each gap would take long.
        asked = min(asked * 4, max(enough, _CHILDREN_AT_ONCE))
    if len(entries) > wanted:
        entries, more = entries[:wanted], True
        after = entries[-1].name
    return Page(
        path=directory.path,
        entries=entries,
        truncated=more,
        next_cursor=_cursor_at(after) if more and after is not None else None,
        request_id=call.request_id,
    )


def _shown(
    call: Call,
    children: list[Child],
    rules: IgnoreLevel,
    include_ignored: bool,
    decides: bool,
) -> list[Entry]:
    parent: ScopedPath = call.handle.path
    if rules.silent and not decides and not _holds_git(children):
        # The usual directory, where nothing need be asked about an entry.
        return [
            Entry(name, parent, kind, size, mtime_ns, False, addressable, read_only)
            for name, kind, size, mtime_ns, addressable, read_only in children
        ]
    is_ignored = rules.is_ignored
    entries: list[Entry] = []
    for name, kind, size, mtime_ns, addressable, read_only in children:
        ignored = is_ignored(name, kind == "directory")
        if ignored and not include_ignored:
            continue
        if decides and isinstance(call.decide(parent.child(name), None, kind == "directory"), Hide):
            continue
        entries.append(Entry(name, parent, kind, size, mtime_ns, ignored, addressable, read_only))
    return entries


def _holds_git(children: list[Child]) -> bool:
    """Whether one of the children, which are sorted by name, is called ``.git``."""
    at = bisect_left(children, (".git",))
    return at < len(children) and children[at].name == ".git"


def page_size(asked: int | None, largest: int) -> int:
    """How many to return: an explicit wish beyond the limit is refused, not quietly cut."""
    if asked is None:
        return largest
    if not 1 <= asked <= largest:
        raise ParseError(f"limit must be from 1 to {largest}", details={"limit": largest})
    return asked


def _cursor_at(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode("ascii")


def _name_in(cursor: str) -> str:
    try:
        return base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError):
        raise ParseError("the cursor is not one that a listing gave") from None
