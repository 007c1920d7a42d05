"""Walks beneath a held directory: by descriptors, sorted, budgeted, cancellable.

Entries come in the order of their paths compared component by component: a directory, then what
lies in it, then its next sibling. A link is an entry like any other and never descended. What
policy hides is not seen at all; what it refuses is seen, marked, and not entered.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import NamedTuple

from bailiwick.errors import (
    BailiwickError,
    DirectoryNotEmpty,
    HardlinkRefused,
    NotADirectory,
    NotARegularFile,
    ParseError,
    PathNotFound,
    PermissionDenied,
    PolicyDenied,
    SymlinkEscape,
)
from bailiwick.model import Entry
from bailiwick.operations import Access
from bailiwick.paths import ScopedPath
from bailiwick.pipeline import Call
from bailiwick.policy import Decision, Hide, permits
from bailiwick.search.ignore import IgnoreLevel
from bailiwick.store import Child, Handle
from bailiwick.verbs.ignoring import Ignores

_CHILDREN_AT_ONCE = 50_000
"""Entries of one directory held at a time: a directory of a million stays bounded."""

_ENTRIES_BETWEEN_PAUSES = 512
"""After so many entries other tasks get their turn; about a millisecond of work."""


UNREADABLE: tuple[type[BailiwickError], ...] = (
    HardlinkRefused, NotADirectory, NotARegularFile, ParseError, PermissionDenied, SymlinkEscape,
)  # fmt: skip
"""What one entry on a walk may be, while the rest is still a true answer. Anything else (closed,
busy, a failing disk) says nothing of the entry and ends the walk."""


class Visit(NamedTuple):
    """One entry on a walk, and the held directory it is in."""

    path: ScopedPath
    child: Child
    directory: Handle
    ignored: bool
    refused: bool


class _Level(NamedTuple):
    handle: Handle
    rules: IgnoreLevel
    entries: list[Child]


class Walk:
    """One walk. After `visits` has ended, ``reason`` says why it stopped early, if it did.

    ``visited`` counts what was shown: what policy hides is not in any number.
    """

    def __init__(
        self,
        call: Call,
        ignores: Ignores,
        *,
        include_ignored: bool,
        depth: int | None = None,
        may_enter: Callable[[ScopedPath], bool] | None = None,
        judge: Callable[[ScopedPath], Decision] | None = None,
    ) -> None:
        self._call = call
        self._ignores = ignores
        self._include_ignored = include_ignored
        self._depth_max = min(depth or call.limits.depth_max, call.limits.depth_max)
        self._depth_asked = depth is not None and depth <= call.limits.depth_max
        self._may_enter = may_enter
        self._judge = judge or call.decide
        self._decides = judge is not None
        self._examined = 0
        self.visited = 0
        self.withheld = 0
        self.reason: str | None = None
        self.unreadable: list[ScopedPath] = []

    async def visits(self, top: Handle) -> AsyncGenerator[Visit, None]:
        """Everything beneath ``top``, which stays the caller's to close."""
        if top.type != "directory":
            raise NotADirectory("not a directory", path=top.path)
        self._decides = self._decides or self._call.must_decide_below(top.path)
        rules = await self.rules_at(top.path)
        budget = self._call.limits.walk_entries_max
        stack = [await self._open_level(top, rules)]
        try:
            while stack:
                level = stack[-1]
                if not level.entries:
                    stack.pop()
                    if level.handle is not top:
                        level.handle.close()
                    continue
                child = level.entries.pop()
                self._examined += 1
                if self._examined % _ENTRIES_BETWEEN_PAUSES == 0:
                    await asyncio.sleep(0)
                visit = self._visit(level, child)
                if self._examined > budget:
                    self.reason = f"the walk stopped after {budget} entries"
                    return
                if visit is None:
                    continue
                yield visit
                if child.type != "directory":
                    continue
                below = await self._descend(level, visit, len(stack))
                if below is not None:
                    stack.append(below)
        finally:
            for level in stack:
                if level.handle is not top:
                    level.handle.close()

    async def rules_at(self, top: ScopedPath) -> IgnoreLevel:
        """The rules a walk starts with: a base named inside an ignored directory is walked."""
        level = await self._ignores.level_of(self._call.store, top, call=self._call)
        return level.named()

    def _visit(self, level: _Level, child: Child) -> Visit | None:
        rules, name = level.rules, child.name
        if rules.silent:
            ignored = name == ".git"
        else:
            ignored = rules.is_ignored(name, child.type == "directory")
        if ignored and not self._include_ignored:
            return None
        path = level.handle.path.child(name)
        refused = False
        if self._decides:
            decision = self._judge(path)
            if isinstance(decision, Hide):
                return None
            refused = not permits(decision)
        self.visited += 1
        return Visit(path, child, level.handle, ignored, refused)

    async def _descend(self, level: _Level, visit: Visit, depth: int) -> _Level | None:
        if not visit.child.addressable:
            return None
        if self._may_enter is not None and not self._may_enter(visit.path):
            return None
        if visit.refused:
            self.withheld += 1
            return None
        if depth >= self._depth_max:
            if not self._depth_asked:
                self.reason = f"the walk does not go deeper than {self._depth_max} levels"
            return None
        try:
            handle = await self._call.store.descend(visit.directory, visit.child.name)
        except PathNotFound:
            return None
        except UNREADABLE:
            self.unreadable.append(visit.path)
            return None
        try:
            return await self._open_level(handle, level.rules, visit.child.name)
        except BaseException as error:
            handle.close()
            if isinstance(error, UNREADABLE):
                self.unreadable.append(visit.path)
            elif not isinstance(error, PathNotFound):
                raise
            return None

    async def _open_level(
        self, handle: Handle, rules: IgnoreLevel, name: str | None = None
    ) -> _Level:
        """List a held directory. ``name`` None: the rules are already those in force there."""
        entries: list[Child] = []
        after: str | None = None
        store = self._call.store
        while True:
            page = await store.children(handle, after=after, limit=_CHILDREN_AT_ONCE)
            entries.extend(page.entries)
            if not page.more or len(entries) > self._call.limits.walk_entries_max:
                break
            after = entries[-1].name if entries else None
        if name is not None:
            texts = await self._ignores.texts_among(self._call, handle, entries)
            rules = rules.enter(name, texts)
        entries.reverse()
        return _Level(handle, rules, entries)


def entry_of(visit: Visit) -> Entry:
    child = visit.child
    return Entry(
        child.name, visit.directory.path, child.type, child.size, child.mtime_ns, visit.ignored,
        child.addressable,
    )  # fmt: skip


async def refuse_protected_below(
    call: Call,
    ignores: Ignores,
    handle: Handle,
    access: frozenset[Access],
    twin: tuple[Call, ScopedPath] | None = None,
) -> None:
    """Refuse a bulk change as a whole when policy protects anything beneath ``handle``.

    ``twin`` says where everything beneath will stand afterwards, and whose call makes it: what
    would arrive at a protected path there is refused as well. Where no rule can match, nothing is
    visited. A hidden path makes the directory look as if it held something that is not shown: it
    is not empty, and that is all that is said.
    """
    if handle.type != "directory":
        return
    if not call.must_decide_below(handle.path) and (
        twin is None or not twin[0].must_decide_below(twin[1])
    ):
        return

    def judge(path: ScopedPath) -> Decision:
        decision = call.decide(path, access)
        if isinstance(decision, Hide):
            call.policy_source = decision.source
            raise DirectoryNotEmpty("directory is not empty", path=handle.path)
        if not permits(decision):
            call.pipeline.obey(call, decision, call.target, path)
        if twin is not None:
            there, top = twin
            place = path.relative_to(handle.path).beneath(top)
            arriving = there.decide(place, there.access_there)
            if not permits(arriving):
                there.pipeline.obey(there, arriving, there.destination or there.target, place)
        return decision

    walk = Walk(call, ignores, include_ignored=True, judge=judge)
    top = await call.store.resolve(handle.path, "object")
    try:
        async with aclosing(walk.visits(top)) as visits:
            async for _ in visits:
                pass
    finally:
        top.close()
    if walk.unreadable:
        why, at = "what lies beneath cannot be checked", walk.unreadable[0]
        raise PolicyDenied(why, path=at, decided_by="policy")
    if walk.reason is not None:
        why = f"not everything could be checked: {walk.reason}"
        raise PolicyDenied(why, path=handle.path, decided_by="policy")
