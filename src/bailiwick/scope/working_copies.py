"""The verbs of a scope about working copies: what commands changed and is not in the tree."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from bailiwick import operations
from bailiwick.call import Call
from bailiwick.commands import PlacedCopy, WorkInfo, Workplace
from bailiwick.errors import (
    Busy,
    FileAlreadyExists,
    FileTooLarge,
    HardlinkRefused,
    MissingAccess,
    NotARegularFile,
    ParseError,
    PathNotFound,
    PermissionDenied,
    PolicyDenied,
    SymlinkEscape,
    Unsupported,
)
from bailiwick.grant import Core, User
from bailiwick.late_module import LateModule
from bailiwick.operations import Command
from bailiwick.paths import PathText, ScopedPath, parse
from bailiwick.proposal import Proposal
from bailiwick.scope.core import ScopeCore
from bailiwick.text.diff import UnifiedDiff
from bailiwick.working_copy import (
    Alterations,
    Publish,
    Published,
    Wanted,
    Withheld,
    WorkChanges,
    WorkingCopy,
)

if TYPE_CHECKING:
    from bailiwick.verbs.working_copies import bring_back
else:
    bring_back = LateModule("bailiwick.verbs.working_copies.bring_back")

_OF_ONE_PATH = (
    FileAlreadyExists, FileTooLarge, HardlinkRefused, NotARegularFile, ParseError, PermissionDenied,
    PolicyDenied, SymlinkEscape, Unsupported,
)  # fmt: skip
"""What is wrong with one path, found when it was tried, and says nothing about the others."""

Hunks = Mapping[PathText, Collection[int]]
"""Hunks of single files, by their numbers in the difference, from one on."""

_REFUSALS_MAX = 64
"""Times that what the store itself refuses is left out and the rest tried again."""


class WorkVerbs(ScopeCore):
    """What was changed apart, and is looked at, brought back or given up."""

    async def changes(self) -> WorkChanges:
        """What was changed in this overlay, as far as it is not in the tree that it lies over: what
        applying it would do there now. Raises `Unsupported` where this is no overlay."""
        lower, copy = self._beneath()
        return await lower._changes_of(copy, shared=True)

    async def apply(
        self,
        paths: Iterable[PathText] | None = None,
        *,
        publish: Publish = "atomic",
        merge: bool = True,
        hunks: Hunks | None = None,
        seen: str | None = None,
    ) -> Published:
        """Bring what was changed in this overlay into the tree that it lies over: all of it, these
        paths with what lies beneath them, or ``hunks`` of single files, by their numbers in `diff`,
        from one on.

        It is one change of that tree: judged path by path, recorded, undone by one request. What
        others have changed there since it was touched first is joined where lines allow it, unless
        ``merge`` is False; else it is a conflict, and theirs stays. With ``publish`` "atomic"
        nothing is brought then, with "partial" all the rest. Only a person applies: what an agent
        has changed is looked at first. With ``seen``, the ``version`` that `changes` told before
        they looked, it is `HashMismatch` where anything was changed since, here or in what it is
        compared with. Raises `MissingAccess`, and `Unsupported` where this is no overlay.
        """
        lower, copy = self._beneath()
        self._refuse_agents()
        return await lower._bring_back(
            copy, publish, lower._places(paths), merge=merge, hunks=hunks, seen=seen
        )

    async def discard(
        self,
        paths: Iterable[PathText] | None = None,
        *,
        hunks: Hunks | None = None,
        seen: str | None = None,
    ) -> list[ScopedPath]:
        """Give up what was changed in this overlay: all of it, these paths with what lies beneath
        them, or ``hunks`` of single files. There it is what it is beneath again. As `apply` it is
        for people: others may have changed it, too, which ``seen`` is held against."""
        lower, copy = self._beneath()
        self._refuse_agents()
        wanted = lower._asked("partial", lower._places(paths), hunks, seen)
        return await lower._give_up(copy, wanted)

    def _refuse_agents(self) -> None:
        if not isinstance(self.subject, (Core, User)):
            raise MissingAccess(
                "what was changed in an overlay is applied or given up by a person",
                hint="have them look at it: `changes`, `diff`, `bailiwick work show`",
            )

    async def work(self) -> list[WorkInfo]:
        """The working copies of this root that hold changes, oldest first: those of this subject,
        and to a person or the host all of them. Those of an overlay come first, and then those of
        what it lies over, of which one is the overlay itself."""
        found = await self._known_work()
        if self._pipeline.beneath is not None:
            _, overlay = self._beneath()
            if not (await overlay.alterations()).any_left:
                return [each for each in found if each.id != overlay.id]
        return found

    async def _known_work(self) -> list[WorkInfo]:
        """Also an overlay in which nothing was changed yet."""
        own = await self._own_work()
        below = [] if self._pipeline.beneath is None else await self._beneath()[0].work()
        return [*own, *below]

    async def _own_work(self) -> list[WorkInfo]:
        async def found(call: Call) -> list[WorkInfo]:
            return [each for each in await self._workplace().all() if self._may_have(each)]

        return await self._run(operations.READ, "work", self._top, found)

    async def open_work(self, id: str) -> OpenWork:
        """A working copy that was left. Raises `PathNotFound`, and `Busy` where a command is run in
        it."""
        if self._pipeline.beneath is None or id in {each.id for each in await self._own_work()}:
            return OpenWork(self, await self._copy_left(id))
        lower, copy = self._beneath()
        if id != copy.id:
            return await lower.open_work(id)
        self._refuse_agents()
        return OpenWork(lower, copy)

    async def _copy_left(self, id: str) -> PlacedCopy:
        known = {each.id for each in await self._own_work()}
        if id not in known:
            raise PathNotFound("there is no such working copy", hint="`bailiwick work list`")
        return await self._workplace().open(id)

    async def _let_go_if_empty(self, id: str) -> None:
        """For `lost_answers`, as is what follows it: a process that ended may have left a copy of
        which nothing is left to decide."""
        with suppress(Busy, PathNotFound):
            async with await self.open_work(id) as work:
                _, copy = work.parts()
                left = await copy.alterations()
                if not left.any_left:
                    await copy.discard(left)

    async def _was_decided(self, key: bytes) -> bool:
        """Whether what was decided under a key about a working copy of this
        root, or about the overlay that it is, was done."""
        if self._pipeline.beneath is not None and await self._beneath()[0]._was_decided(key):
            return True
        return self._pipeline.commands is not None and await self._workplace().was_done(key)

    def _workplace(self) -> Workplace:
        lends = self._pipeline.commands
        if lends is None:
            raise Unsupported(
                "this root has no working copies",
                hint="they are of commands, which are run where the state is one machine's own",
            )
        return lends().workplace

    def _may_have(self, each: WorkInfo) -> bool:
        if self.grant.via == () and isinstance(self.subject, (Core, User)):
            return True
        return (each.subject, each.via) == (str(self.subject), self.grant.via)

    async def _bring_back(
        self,
        copy: WorkingCopy,
        publish: Publish,
        only: frozenset[ScopedPath] | None = None,
        command: Command | None = None,
        *,
        merge: bool = False,
        hunks: Hunks | None = None,
        seen: str | None = None,
    ) -> Published:
        """Publish what was changed in a working copy, by ``command`` where it was one alone. What
        the store itself refuses is withheld as what rules refuse is."""
        asked = self._asked(publish, only, hunks, seen)._replace(merge=merge)
        refused: dict[ScopedPath, Withheld] = {}
        while True:
            try:
                wanted = asked._replace(refused=dict(refused))
                return await self._publish_work(copy, wanted, command)
            except _OF_ONE_PATH as error:
                path = None if error.path is None else ScopedPath(error.path)
                if path is None or path in refused or len(refused) >= _REFUSALS_MAX:
                    raise
                refused[path] = bring_back.withheld_for(error, path)

    def _bring_back_from(
        self, copy: WorkingCopy, publish: Publish, command: Command
    ) -> Coroutine[Any, Any, Published]:
        # What approved the command says nothing of what it has changed.
        return self._as_called(approval=None)._bring_back(copy, publish, command=command)

    async def _publish_work(
        self, copy: WorkingCopy, wanted: Wanted, command: Command | None
    ) -> Published:
        async def prepare(call: Call) -> Proposal[Published]:
            proposal = await bring_back.bring_back(call, self._ignores, copy, wanted)
            return self._foretelling("publish", proposal)

        return await self._run(operations.VERSION, "publish", self._top, prepare, command=command)

    async def _changes_of(self, copy: WorkingCopy, *, shared: bool = False) -> WorkChanges:
        return await self._run(
            operations.READ, "changes", self._top,
            lambda call: bring_back.changes(call, copy, shared=shared),
        )  # fmt: skip

    async def _difference_in(
        self,
        copy: WorkingCopy,
        path: ScopedPath,
        alterations: Callable[[], Awaitable[Alterations]] | None = None,
    ) -> UnifiedDiff:
        return await self._run(
            operations.READ, "difference", self._top,
            lambda call: bring_back.difference(call, copy, path, alterations),
        )  # fmt: skip

    async def _give_up(self, copy: WorkingCopy, wanted: Wanted) -> list[ScopedPath]:
        async def prepare(call: Call) -> Proposal[list[ScopedPath]]:
            return self._foretelling("discard", await bring_back.discard(call, copy, wanted))

        return await self._run(operations.VERSION, "discard", self._top, prepare)

    def _asked(
        self,
        publish: Publish,
        only: frozenset[ScopedPath] | None,
        hunks: Hunks | None,
        seen: str | None = None,
    ) -> Wanted:
        """What is meant by paths, and by hunks of single files."""
        if publish not in ("atomic", "partial"):
            raise ParseError("publish is atomic or partial")
        if seen is not None and not isinstance(seen, str):
            raise ParseError("what was seen is told by the version of the changes")
        if hunks is None:
            return Wanted(publish, only, seen=seen)
        chosen: dict[ScopedPath, frozenset[int]] = {}
        for path, numbers in hunks.items():
            if isinstance(numbers, (str, bytes)) or not isinstance(numbers, Collection):
                raise ParseError("hunks are given by a list of numbers for each path")
            if not numbers or not all(type(each) is int for each in numbers):
                raise ParseError("hunks are given by their numbers, from one on", path=str(path))
            chosen[self._place(path)] = frozenset(numbers)
        return Wanted(publish, frozenset((*(only or ()), *chosen)), hunks=chosen, seen=seen)

    def _places(self, paths: Iterable[PathText] | None) -> frozenset[ScopedPath] | None:
        return None if paths is None else frozenset(map(self._place, paths))

    def _place(self, path: PathText) -> ScopedPath:
        root = self.root
        return parse(path, root.mount_point, root.names).path.beneath(self.grant.base)


class OpenWork:
    """A working copy, opened. To be closed, or left as a context manager."""

    def __init__(self, scope: WorkVerbs, copy: PlacedCopy) -> None:
        self._scope = scope
        self._copy = copy
        self._found: Alterations | None = None

    @property
    def id(self) -> str:
        return self._copy.id

    def parts(self) -> tuple[WorkVerbs, PlacedCopy]:
        """The scope that it is applied by, and what was changed: for reviews."""
        return self._scope, self._copy

    async def changes(self) -> WorkChanges:
        """What it would do to the tree as it stands now."""
        self._found = None
        return await self._scope._changes_of(self._copy)

    async def diff(self, path: PathText) -> UnifiedDiff:
        """From what stands in the tree to what stands in the copy."""
        place = self._scope._place(path)
        return await self._scope._difference_in(self._copy, place, self._alterations)

    async def _alterations(self) -> Alterations:
        """Looked for once by whoever goes through all differences: it takes a look at all of it,
        which nobody else changes while it is open here."""
        if self._found is None:
            self._found = await self._copy.alterations()
        return self._found

    async def apply(
        self,
        paths: Iterable[PathText] | None = None,
        *,
        publish: Publish = "atomic",
        merge: bool = False,
        hunks: Hunks | None = None,
        seen: str | None = None,
    ) -> Published:
        """Bring it back into the tree: all of it, or these paths with what lies beneath them.

        With ``merge`` a text that others have changed meanwhile is joined with theirs, where no
        lines were changed by both; the rest stays a conflict. ``hunks`` are those of single files
        that alone are brought back, by their numbers in `diff`, from one on:
        ``hunks={"a.py": [1, 3]}``. With ``seen``, the ``version`` that `changes` told before
        somebody looked, it is `HashMismatch` where anything was changed since, in the copy or in
        what it is compared with.
        """
        scope = self._scope
        try:
            published = await scope._bring_back(
                self._copy, publish, scope._places(paths), merge=merge, hunks=hunks, seen=seen
            )
        finally:
            self._found = None
        left = await self._copy.alterations()
        if not left.any_left:
            await self._copy.discard(left)
        return published

    async def discard(
        self,
        paths: Iterable[PathText] | None = None,
        *,
        hunks: Hunks | None = None,
        seen: str | None = None,
    ) -> list[ScopedPath]:
        """Give up what was changed: all of it, these paths with what lies beneath them, or
        ``hunks`` of single files; as it was ``seen``, as in `apply`."""
        wanted = self._scope._asked("partial", self._scope._places(paths), hunks, seen)
        try:
            return await self._scope._give_up(self._copy, wanted)
        finally:
            self._found = None

    def close(self) -> None:
        self._copy.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close()
