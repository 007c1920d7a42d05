"""Other roots of the same subject that a command sees beside its own: to be read, and only that."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from bailiwick import operations
from bailiwick.call import Call
from bailiwick.commands import LookedAt
from bailiwick.errors import MissingAccess, ParseError, RootNotFound, Unsupported
from bailiwick.finishing import to_the_end
from bailiwick.late_module import LateModule
from bailiwick.sandbox import Tree
from bailiwick.scope.core import ScopeCore

if TYPE_CHECKING:
    from bailiwick.verbs import commands
else:
    commands = LateModule("bailiwick.verbs.commands")


class BesideTree(NamedTuple):
    """What a command sees of another root, held as long as it runs."""

    tree: Tree
    looked_at: LookedAt
    scope: ScopeCore
    sight: commands.Sight

    def check_holds(self) -> None:
        """Raise where the grant that it is shown under has ended."""
        self.scope._refuse_closed()
        self.scope._pipeline.standing.holds(self.scope.grant, operations.READ)

    async def aclose(self) -> None:
        self.looked_at.close()
        await self.scope.aclose()


class RootsBeside:
    """The roots that a command asks for by name, each under the grant that its subject has."""

    def __init__(self, scope: ScopeCore, names: Collection[str]) -> None:
        """Raises `ParseError`."""
        if isinstance(names, (str, bytes)) or not isinstance(names, Collection):
            raise ParseError("roots takes a list of names", hint='["knowledge:notes"]')
        if len(set(names)) != len(names):
            raise ParseError("a root is named once")
        self._scope = scope
        self._names = tuple(names)
        self._scopes: list[ScopeCore] = []

    async def find(self) -> None:
        """Raises `RootNotFound` for one that is not there, and for one that the subject holds no
        grant on alike."""
        try:
            for name in self._names:
                self._scopes.append(await self._beside(name))
        except BaseException:
            await to_the_end(self.aclose())
            raise

    async def _beside(self, name: str) -> ScopeCore:
        lent = self._scope._lent
        try:
            if lent.delegates is None or not isinstance(name, str):
                raise RootNotFound("there is none")
            found = await lent.delegates.beside(lent.grant, name, lent.caller.front)
        except (MissingAccess, ParseError, RootNotFound):
            raise RootNotFound("there is no such root", hint="`roots` names others") from None
        return type(self._scope)(found)

    async def shown(self) -> tuple[BesideTree, ...]:
        """All of them, ready to be seen; to be closed one by one."""
        found: list[BesideTree] = []
        try:
            while self._scopes:
                found.append(await _shown(self._scopes[0]))
                self._scopes.pop(0)
        except BaseException:
            for each in found:
                await to_the_end(each.aclose())
            await to_the_end(self.aclose())
            raise
        return tuple(found)

    async def are_as(self, shown: Sequence[BesideTree]) -> bool:
        """Whether those that were found, under the grants that hold now, show what was shown."""
        for scope, each in zip(self._scopes, shown, strict=True):
            if not await _still_shows(scope, each):
                return False
        return True

    async def aclose(self) -> None:
        """Let go of those that were found and not shown."""
        while self._scopes:
            await self._scopes.pop().aclose()


async def _still_shows(scope: ScopeCore, shown: BesideTree) -> bool:
    async def look(call: Call) -> bool:
        return await commands.still_shows(call, shown.looked_at, shown.sight)

    return await scope._run(operations.READ, "exec", scope._top, look)


async def _shown(scope: ScopeCore) -> BesideTree:
    lends = scope._pipeline.commands
    if lends is None:
        raise Unsupported("what is in this root cannot be shown to a command")
    root = scope.root

    async def look(call: Call) -> BesideTree:
        looked_at = lends().workplace.look()
        try:
            await looked_at.survey()
            sight = await commands.sight_of(call, looked_at)
            await looked_at.show(sight.masked)
            tree = looked_at.tree(f"/roots/{root.kind}/{root.id}", sight.masked)
        except BaseException:
            looked_at.close()
            raise
        return BesideTree(tree, looked_at, scope, sight)

    return await scope._run(operations.READ, "exec", scope._top, look)
