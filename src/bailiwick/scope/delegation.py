"""The verbs of a scope that follow what changes, and that pass on a part of its power."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Collection
from typing import TYPE_CHECKING, Self

from bailiwick import operations
from bailiwick.call import Target
from bailiwick.grant import Subject, check_access, check_globs
from bailiwick.late_module import LateModule
from bailiwick.model import Change
from bailiwick.operations import Access
from bailiwick.paths import PathText, ScopedPath
from bailiwick.scope.core import Delegates, Delegation, ScopeCore, seen_from

if TYPE_CHECKING:
    from bailiwick.verbs import watch
else:
    watch = LateModule("bailiwick.verbs.watch")


class GoverningVerbs(ScopeCore):
    """Watching, delegation, temporary roots."""

    def watch(
        self, path: PathText = ".", *, since: str | None = None, expand: bool = False
    ) -> AsyncGenerator[Change, None]:
        """Every change at or beneath ``path``: those after the cursor ``since``, then new ones.

        Each change has a ``cursor`` to go on from. ``expand`` tells what lay in a directory that
        was moved or removed whole. A change of kind ``reset`` says that the cursor is too old,
        ``rescan`` that something may have gone unnoticed. Close the iterator if you stop early.
        """
        call = self._call(operations.WATCH, "watch", Target(path, "object"))
        changes = watch.watch(call, self._pipeline.changes, since, expand, self._holds)
        return changes if self.grant.base == "." else self._rebased_all(changes)

    async def change_cursor(self, path: PathText = ".") -> str:
        """The cursor of this moment: what changes at or beneath ``path`` from here on is told by
        `watch` with it, whenever that begins."""
        return await self._run(
            operations.WATCH, "watch", Target(path, "object"),
            lambda call: self._pipeline.changes.cursor(),
        )  # fmt: skip

    async def on_change(
        self, callback: Callable[[Change], None], path: PathText = "."
    ) -> Callable[[], None]:
        """Call ``callback`` with every change at or beneath ``path`` from now on, on the event
        loop. Returns what ends it, which may be called twice. What the callback raises is logged
        and reaches nobody."""
        base = self.grant.base
        heard = callback if base == "." else (lambda change: callback(seen_from(change, base)))
        return await self._run(
            operations.WATCH, "on_change", Target(path, "object"),
            lambda call: watch.listen(call, self._pipeline.changes, heard, self._holds),
        )  # fmt: skip

    def _holds(self) -> None:
        self._refuse_closed()
        self._pipeline.standing.holds(self.grant, operations.WATCH)

    async def delegate(
        self,
        subject: Subject,
        *,
        access: Collection[Access] | None = None,
        path: str = ".",
        rebase: bool = False,
        allowed: Collection[str] = (),
        denied: Collection[str] = (),
        expires_in: float | None = None,
        reason: str = "",
    ) -> Self:
        """A scope for another subject, which holds at most what this one does.

        ``access`` and ``path`` narrow it; so do ``allowed`` and ``denied`` globs, and
        ``expires_in`` seconds. With ``rebase`` the path is what the new scope sees as ``.``. What
        this grant does not hold is `MissingAccess`. It ends when this grant does.
        """
        self._refuse_closed()
        wanted = None if access is None else check_access(access)
        check_globs(allowed, "allowed")
        check_globs(denied, "denied")
        asked = Delegation(
            subject=subject, access=wanted, path=path, rebase=rebase,
            allowed=_from_base(allowed, self.grant.base),
            denied=_from_base(denied, self.grant.base, refuse=True), expires_in=expires_in,
            reason=reason,
        )  # fmt: skip
        lent = await self._delegates().delegate(self.grant, asked, self._caller.front)
        return type(self)(lent)

    async def create_temp(self, *, seconds: float | None = None) -> Self:
        """A private root of its own, removed when it is closed, when this process ends, or after
        ``seconds`` (a day, unless told)."""
        self._refuse_closed()
        lent = await self._delegates().create_temp(self.grant, seconds, self._caller.front)
        return type(self)(lent)

    def _delegates(self) -> Delegates:
        delegates = self._lent.delegates
        assert delegates is not None, "whoever composes a scope lends it the power to delegate"
        return delegates


_special = re.compile(r"([\\*?\[\]{},!^-])").sub


def _from_base(
    globs: Collection[str], base: ScopedPath, *, refuse: bool = False
) -> tuple[str, ...]:
    """Globs as their author means them, who sees ``base`` as the top, seen from the root.

    One without a slash means a name at any depth, here and there. Braces may hold both sorts: then
    what refuses is taken in both ways, since it must not come to refuse less.
    """
    if base.is_root or not all(isinstance(glob, str) for glob in globs):
        return tuple(globs)
    top = _special(r"\\\1", base)
    seen: list[str] = []
    for glob in globs:
        is_name = "/" not in glob.rstrip("/")
        if is_name or glob.startswith("/") or (refuse and "{" in glob):
            seen.append(glob)
        if not is_name and not glob.startswith("/"):
            seen.append(f"{top}/{glob}")
    return tuple(seen)
