"""Walks beneath a held directory: by descriptors, sorted, budgeted, cancellable.

Entries come in the order of their paths compared component by component: a directory, then what
lies in it, then its next sibling. A link is an entry like any other and never descended. What
policy hides is not seen at all; what it refuses is seen, marked, and not entered.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import NamedTuple, cast

from bailiwick.call import Call
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
    Unsupported,
)
from bailiwick.operations import Access
from bailiwick.paths import DEPTH_MAX, ScopedPath, tree_too_deep
from bailiwick.policy import Allow, Decision, Hide, permits
from bailiwick.search.ignore import IgnoreLevel
from bailiwick.store import Child, Handle
from bailiwick.verbs.walks.ignore_files import IGNORE_FILE_NAMES, Ignores

_CHILDREN_AT_ONCE = 50_000
"""Entries of one directory held at a time: a directory of a million stays bounded."""

_ENTRIES_BETWEEN_PAUSES = 512
"""After so many entries, the most of one run, other tasks get their turn; about a millisecond of
work."""


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


class FileRun(NamedTuple):
    """Entries of one directory in a row, of which a walk has nothing more to say: none is another
    directory, and none is for policy to judge. Given together they cost a third."""

    directory: ScopedPath
    children: list[Child]


class _WalkedLevel(NamedTuple):
    """A directory under way. Where a walk goes on, ``after`` leads from it to where it ended: the
    first name is of an entry that was shown, and in which there may be more."""

    handle: Handle
    rules: IgnoreLevel
    entries: list[Child]
    after: tuple[str, ...]


class Walk:
    """One walk. After `visits` has ended, ``reason`` says why not everything was shown, if it was
    not, and ``stopped`` that it ended early: from there one can go on.

    ``visited`` counts what was shown: what policy hides is not in any number. ``after`` are the
    names that lead from the top to an entry, which need not be there any more: only what comes
    after it in the order is shown.
    """

    def __init__(
        self,
        call: Call,
        ignores: Ignores,
        *,
        include_ignored: bool,
        depth: int | None = None,
        may_enter: Callable[[ScopedPath], bool] | None = None,
        judge: Callable[[ScopedPath, bool], Decision] | None = None,
        after: tuple[str, ...] = (),
    ) -> None:
        self._call = call
        self._after = after
        self._ignores = ignores
        self._include_ignored = include_ignored
        self._depth_max = min(depth or call.limits.depth_max, call.limits.depth_max)
        self._depth_asked = depth is not None and depth <= call.limits.depth_max
        self._may_enter = may_enter
        self._judge = judge or (lambda path, is_directory: call.decide(path, None, is_directory))
        self._decides = judge is not None
        self._examined = 0
        self.visited = 0
        self.withheld = 0
        self.reason: str | None = None
        self.too_deep: ScopedPath | None = None
        self._refusal: BailiwickError | None = None
        self.stopped = False
        self.unreadable: list[ScopedPath] = []
        self.unnamed: list[ScopedPath] = []
        """Directories whose names are no text: nobody can name what lies in them."""

    def visits(self, top: Handle) -> AsyncGenerator[Visit, None]:
        """Everything beneath ``top``, which stays the caller's to close."""
        steps = self._steps(top, in_runs=False)
        return cast("AsyncGenerator[Visit, None]", steps)  # there are no runs among them

    def visits_and_runs(self, top: Handle) -> AsyncGenerator[Visit | FileRun, None]:
        """Everything beneath ``top`` in few steps: entries with no more to say come together."""
        return self._steps(top, in_runs=True)

    async def _steps(self, top: Handle, *, in_runs: bool) -> AsyncGenerator[Visit | FileRun, None]:
        budget, pause_at = self._call.limits.walk_entries_max, _ENTRIES_BETWEEN_PAUSES
        stack = [await self._open_top(top)]
        in_runs = in_runs and not self._decides
        try:
            while stack:
                level = stack[-1]
                if not level.entries:
                    stack.pop()
                    if level.handle is not top:
                        level.handle.close()
                    continue
                if self._examined >= pause_at:
                    pause_at = self._examined + _ENTRIES_BETWEEN_PAUSES
                    await asyncio.sleep(0)
                if in_runs and level.entries[-1].type != "directory" and self._examined < budget:
                    yield FileRun(level.handle.path, self._take_run(level, budget))
                    continue
                child = level.entries.pop()
                self._examined += 1
                visit = self._visit(level, child)
                if self._examined > budget:
                    self.reason = f"the walk stopped after {budget} entries"
                    self.stopped = True
                    return
                if visit is None:
                    continue
                if not _is_passed(level, child):
                    self.visited += 1
                    yield visit
                if child.type != "directory":
                    continue
                below = await self._descend(level, visit, len(stack))
                if below is not None:
                    stack.append(below)
        finally:
            _close_all(stack, top)

    async def _open_top(self, top: Handle) -> _WalkedLevel:
        if top.type != "directory":
            raise NotADirectory("not a directory", path=top.path)
        self._decides = self._decides or self._call.must_decide_below(top.path)
        return await self._open_level(top, await self.rules_at(top.path), after=self._after)

    def _take_run(self, level: _WalkedLevel, budget: int) -> list[Child]:
        """What comes next in a directory, up to another directory or the end of the budget."""
        entries, rules = level.entries, level.rules
        most = min(_ENTRIES_BETWEEN_PAUSES, budget - self._examined)
        run = entries[: -most - 1 : -1]  # the next one stands last
        for count, (_, kind, _, _, _, _) in enumerate(run):
            if kind == "directory":
                del run[count:]
                break
        del entries[-len(run) :]
        self._examined += len(run)
        if not self._include_ignored:
            if rules.silent:
                run = [child for child in run if child.name != ".git"]
            else:
                run = [child for child in run if not rules.is_ignored(child.name, False)]
        self.visited += len(run)
        return run

    def refuse_partial(self) -> None:
        """Raise, for a verb that needs all of a tree, where the walk has not seen all of it. None
        of it is `busy`: the next try would see no more."""
        if self.too_deep is not None:
            raise tree_too_deep(self.too_deep)
        if self.reason is not None:
            raise Unsupported(
                f"not everything could be read: {self.reason}",
                hint="take a part of the tree at a time",
            )
        if self._refusal is not None:
            raise self._refusal

    async def rules_at(self, top: ScopedPath) -> IgnoreLevel:
        """The rules a walk starts with: a base named inside an ignored directory is walked."""
        level = await self._ignores.level_of(self._call.store, top, call=self._call)
        return level.named()

    def _visit(self, level: _WalkedLevel, child: Child) -> Visit | None:
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
            decision = self._judge(path, child.type == "directory")
            if isinstance(decision, Hide):
                return None
            refused = not permits(decision)
        return Visit(path, child, level.handle, ignored, refused)

    async def _descend(self, level: _WalkedLevel, visit: Visit, depth: int) -> _WalkedLevel | None:
        if self._may_enter is not None and not self._may_enter(visit.path):
            return None
        if visit.refused:
            self.withheld += 1
            return None
        if depth >= self._depth_max:
            if not self._depth_asked:
                self.reason = f"the walk does not go deeper than {self._depth_max} levels"
                self.too_deep = visit.path
            return None
        if not visit.child.addressable:
            self.unnamed.append(visit.path)
            return None
        try:
            handle = await self._call.store.descend(visit.directory, visit.child.name)
        except PathNotFound:
            return None
        except UNREADABLE as error:
            self._leave_out(visit.path, error)
            return None
        try:
            name = visit.child.name
            after = level.after[1:] if _is_passed(level, visit.child) else ()
            return await self._open_level(handle, level.rules, name, after=after)
        except BaseException as error:
            handle.close()
            if isinstance(error, UNREADABLE):
                self._leave_out(visit.path, error)
            elif not isinstance(error, PathNotFound):
                raise
            return None

    def _leave_out(self, path: ScopedPath, error: BailiwickError) -> None:
        self.unreadable.append(path)
        self._refusal = self._refusal or error

    async def _open_level(
        self,
        handle: Handle,
        rules: IgnoreLevel,
        name: str | None = None,
        *,
        after: tuple[str, ...] = (),
    ) -> _WalkedLevel:
        """List a held directory. ``name`` None: the rules are already those in force there."""
        entries: list[Child] = []
        ignore_files: list[Child] = []
        last: str | None = None
        store = self._call.store
        while True:
            page = await store.children(handle, after=last, limit=_CHILDREN_AT_ONCE)
            some = page.entries
            if after:
                passed = bisect_left(some, (after[0],))  # they are sorted by name
                ignore_files += [each for each in some[:passed] if each.name in IGNORE_FILE_NAMES]
                some = some[passed:]
            entries.extend(some)
            if not page.more or len(entries) > self._call.limits.walk_entries_max:
                break
            last = page.entries[-1].name if page.entries else None
        if name is not None:
            texts = await self._ignores.texts_among(self._call, handle, ignore_files + entries)
            rules = rules.enter(name, texts)
        if after and entries and entries[0].name == after[0] and entries[0].type != "directory":
            del entries[0]
        entries.reverse()
        return _WalkedLevel(handle, rules, entries, after)


def _close_all(levels: list[_WalkedLevel], top: Handle) -> None:
    for level in levels:
        if level.handle is not top:
            level.handle.close()


def _is_passed(level: _WalkedLevel, child: Child) -> bool:
    """Whether an entry was shown before, by the walk that this one goes on with."""
    return bool(level.after) and child.name == level.after[0]


class Beneath(NamedTuple):
    """What a bulk change finds beneath a directory: names relative to it for the feed, those of
    directories with a slash, the first ones where there are many; and how much it holds."""

    names: tuple[str, ...] = ()
    truncated: bool = False
    size: int = 0
    files: int = 0


async def survey(
    call: Call,
    ignores: Ignores,
    handle: Handle,
    access: frozenset[Access],
    twin: tuple[Call, ScopedPath] | None = None,
    *,
    measures: bool = False,
) -> Beneath:
    """Look at everything beneath ``handle`` before it is changed as a whole.

    The change is refused as a whole when policy protects anything there; what a rule would have
    asked is added to the questions of the call. ``twin`` says where everything beneath will stand
    afterwards, and whose call makes it: what would arrive at a protected path there is refused as
    well. Where no rule can match, and nobody counts or listens, nothing is visited. A hidden path
    makes the directory look as if it held something that is not shown: it is not empty, and that
    is all that is said. With ``measures`` all is visited in any case, and refused where it would be
    too deep at its ``twin``.
    """
    call.judged = handle
    metered = call.metered or (twin is not None and twin[0].metered)
    if handle.type != "directory":
        return Beneath(size=handle.size, files=1) if handle.type == "file" else Beneath()
    judges = call.must_decide_below(handle.path, access) or (
        twin is not None and twin[0].must_decide_below(twin[1], twin[0].access_there)
    )
    if not (judges or metered or measures or call.pipeline.tells_changes):
        return Beneath()
    judge = _protecting(call, handle, access, twin)
    walk = Walk(call, ignores, include_ignored=True, judge=judge)
    names: list[str] = []
    found = size = files = 0
    left = DEPTH_MAX if twin is None or not measures else DEPTH_MAX - twin[1].levels
    top = await call.store.resolve(handle.path, "object")
    try:
        async with aclosing(walk.visits(top)) as visits:
            async for visit in visits:
                found += 1
                if measures and visit.path.levels - handle.path.levels > left:
                    raise tree_too_deep(None if twin is None else twin[1])
                if found <= call.limits.feed_subtree_paths_max:
                    slash = "/" if visit.child.type == "directory" else ""
                    names.append(visit.path.relative_to(handle.path) + slash)
                if visit.child.type == "file":
                    size, files = size + visit.child.size, files + 1
    finally:
        top.close()
    if measures and walk.too_deep is not None:
        walk.refuse_partial()
    if judges and walk.unreadable:
        why, at = "what lies beneath cannot be checked", walk.unreadable[0]
        raise PolicyDenied(why, path=at, decided_by="policy")
    if judges and walk.reason is not None:
        why = f"not everything could be checked: {walk.reason}"
        raise PolicyDenied(why, path=handle.path, decided_by="policy")
    partial = found > len(names) or walk.reason is not None or bool(walk.unreadable)
    return Beneath(tuple(names), partial, size, files)


def _protecting(
    call: Call,
    handle: Handle,
    access: frozenset[Access],
    twin: tuple[Call, ScopedPath] | None,
) -> Callable[[ScopedPath, bool], Decision]:
    """Judges what a bulk change finds: refuses at once, and keeps what is to be asked."""

    def judge(path: ScopedPath, is_directory: bool) -> Decision:
        decision = call.decide(path, access, is_directory)
        if isinstance(decision, Hide):
            call.policy_source = decision.source
            raise DirectoryNotEmpty("directory is not empty", path=handle.path)
        if not isinstance(decision, Allow):
            call.pipeline.obey(call, decision, call.target, path)
        if twin is not None:
            there, top = twin
            place = path.relative_to(handle.path).beneath(top)
            arriving = there.decide(place, there.access_there, is_directory)
            if not isinstance(arriving, Allow):
                there.pipeline.obey(there, arriving, there.destination or there.target, place)
        return _ASKED_OR_ALLOWED

    return judge


_ASKED_OR_ALLOWED = Allow("survey")
"""What is asked about is walked into all the same: the question lists all there is to ask."""
