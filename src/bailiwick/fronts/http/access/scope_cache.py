"""The scopes that callers use, requested once and kept for as long as they hold.

What a subject may do on a root may come from several grants, each for other access or another part
of the tree. Each is requested from the authority when it is first needed; the one that answers a
request is the first that holds the access and reaches the path.
"""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING

from bailiwick.build.shared_grants import SharedGrants
from bailiwick.call import Caller
from bailiwick.errors import (
    BailiwickError,
    Busy,
    Closed,
    GrantExpired,
    GrantRevoked,
    MissingAccess,
    RootNotFound,
    Unsupported,
)
from bailiwick.fronts.http.access.callers import ANONYMOUS, HttpCaller
from bailiwick.grant import StandingGrant, Subject
from bailiwick.operations import Access
from bailiwick.paths import ScopedPath, parse
from bailiwick.patience import AT_ONCE_S, waiting
from bailiwick.scope import Scope

if TYPE_CHECKING:
    from bailiwick.build.governed import Authority
    from bailiwick.fronts.http.settings import ServerSettings

FRONT = "http"

_REASON = "requests over HTTP"
_LOOKING: frozenset[Access] = frozenset(("read", "list", "metadata", "watch"))
_READING: frozenset[Access] = frozenset(("read", "list", "metadata"))

_FORKS_KEPT = 64
"""Of one subject, by whichever tokens it calls: each has descriptors of its own."""

_ForkKey = tuple[str, str, str]
"""Of a root, of the fork, and of the grant by which it is seen."""


class Holding:
    """The scopes of one caller."""

    def __init__(self, authority: Authority, caller: HttpCaller, settings: ServerSettings) -> None:
        self._authority = authority
        self._subject: Subject = caller.subject
        self._grant_id = caller.grant_id
        self.most: frozenset[Access] | None = None
        if caller.subject is ANONYMOUS:
            self.most = _READING
        elif settings.read_only:
            self.most = _LOOKING
        self._wait_s = settings.ask_wait_s
        self._shared = SharedGrants(settings.lock_key) if settings.several else None
        self._state: object = None
        self._choices: dict[tuple[str, frozenset[Access]], list[StandingGrant]] = {}
        self._opening: dict[tuple[str, StandingGrant | None], asyncio.Task[Scope]] = {}
        self._open: dict[tuple[str, StandingGrant | None], Scope] = {}
        self._forks: dict[_ForkKey, Scope] = {}
        self._kept = caller.budget.forks
        self._parting: set[asyncio.Task[None]] = set()
        self.temps: dict[str, Scope] = {}

    async def scope(
        self, root: str, needs: frozenset[Access], path: str | None, fork: str | None = None
    ) -> Scope:
        """The scope that answers a call. Raises `MissingAccess`, `RootNotFound`, `GrantRevoked`."""
        if fork is not None:
            return await self._fork(root, needs, path, fork)
        scope = self.opened(root, needs, path)
        if scope is not None:
            return scope
        if self._grant_id is not None:
            return await self._granted(root)
        try:
            standing = self._standing(root, needs, path)
        except (MissingAccess, RootNotFound):
            if not self._asks():
                raise
            standing = await self._asked_for(root, needs, path)
        return await self._request(root, standing)

    def opened(self, root: str, needs: frozenset[Access], path: str | None) -> Scope | None:
        """The scope that answers a call in no fork, if it is open already. Raises
        `MissingAccess`."""
        if root in self.temps:
            return self.temps[root]
        if self._grant_id is not None:
            return self._open.get((root, None))
        try:
            return self._open.get((root, self._standing(root, needs, path)))
        except (MissingAccess, RootNotFound):
            if self._asks():
                return None
            raise

    def _asks(self) -> bool:
        return self._authority.asks_for_roots(self._subject, Caller(front=FRONT))

    async def _asked_for(
        self, root: str, needs: frozenset[Access], path: str | None
    ) -> StandingGrant:
        """The grant that a person gives when they are asked: for what the call needs, and to look
        round, so that they are not asked once more for each kind of look."""
        scope = await self._authority.request_root(
            self._subject, root, needs | _READING, _REASON, front=FRONT, wait_s=self._wait_s
        )
        await scope.aclose()
        return self._standing(root, needs, path)

    def _standing(self, root: str, needs: frozenset[Access], path: str | None) -> StandingGrant:
        """The grant by which a call is answered."""
        state = self._authority.standing_state
        if state is not self._state:
            self._choices.clear()
            self._state = state
        choices = self._choices.get((root, needs))
        if choices is None:
            choices = self._choices[root, needs] = self._choose(root, needs)
        return choices[0] if len(choices) == 1 else _reaching(choices, path)

    def _choose(self, root: str, needs: frozenset[Access]) -> list[StandingGrant]:
        """The grants that hold the access; all of them where none does, so that what is missing is
        refused by the verb, and is on record."""
        held = self._authority.holdings(self._subject, root)
        fitting = [each for each in held if needs <= each.access]
        if not held:
            raise MissingAccess("nobody granted this subject anything here")
        return fitting or held

    async def _request(self, root: str, standing: StandingGrant | None) -> Scope:
        """Request a scope for the first who needs it; others wait for the same request. Where the
        first could not wait as long as they, one of them is the next."""
        key = root, standing
        while (opening := self._opening.get(key)) is not None:
            with waiting() as seconds:
                try:
                    scope = await asyncio.shield(opening)
                except Busy:
                    if seconds is not None and seconds <= AT_ONCE_S:
                        raise
                    self._end_opening(key, opening)
                    continue
            self._open[key] = scope
            return scope
        opening = self._opening[key] = asyncio.ensure_future(self._requested(root, standing))
        opening.add_done_callback(functools.partial(self._end_opening, key))
        scope = await asyncio.shield(opening)
        self._open[key] = scope
        return scope

    def _end_opening(
        self, key: tuple[str, StandingGrant | None], opening: asyncio.Task[Scope]
    ) -> None:
        if self._opening.get(key) is opening:
            del self._opening[key]

    async def _requested(self, root: str, standing: StandingGrant | None) -> Scope:
        if standing is None:
            assert self._grant_id is not None
            scope = await self._authority.resume(self._grant_id, front=FRONT)
            return scope.with_caller(FRONT, wait_s=self._wait_s)
        access = standing.access if self.most is None else standing.access & self.most
        if self._shared is not None:
            return await self._shared.scope(
                self._authority, self._subject, root, standing, access, _REASON, front=FRONT,
                wait_s=self._wait_s,
            )  # fmt: skip
        return await self._authority.request_root(
            self._subject, root, access, _REASON, path=str(standing.path), front=FRONT,
            wait_s=self._wait_s,
        )  # fmt: skip

    async def _granted(self, root: str) -> Scope:
        """The scope of a token that is for one grant."""
        scope = await self._request(root, None)
        if str(scope.root) != root:
            del self._open[root, None]
            raise RootNotFound(f"there is no root {root!r} for this token")
        return scope

    async def _fork(
        self, root: str, needs: frozenset[Access], path: str | None, fork: str
    ) -> Scope:
        # A fork is seen through the grant that reaches the path, as the root itself is.
        base = await self.scope(root, needs, path)
        key = root, fork, base.grant.id
        scope = self._forks.get(key)
        if scope is None:
            scope = await base.open_fork(fork)
            scope = scope.with_caller(FRONT, wait_s=self._wait_s)
            self._drop_fork(key)
            while len(self._kept) >= _FORKS_KEPT:
                next(iter(self._kept.values()))()
            self._forks[key] = scope
            self._kept[scope] = functools.partial(self._drop_fork, key)
        return scope

    def _drop_fork(self, key: _ForkKey) -> None:
        if key in self._forks:
            self._part(self._taken_out(key))

    def _taken_out(self, key: _ForkKey) -> Scope:
        scope = self._forks.pop(key)
        self._kept.pop(scope, None)
        return scope

    async def close_forks(self, root: str, fork: str) -> None:
        """Let go of a fork that is about to go."""
        for key in [key for key in self._forks if key[:2] == (root, fork)]:
            await self._taken_out(key).aclose()

    def _part(self, scope: Scope) -> None:
        """Close a scope once its work under way is done; nobody waits for that."""
        task = asyncio.ensure_future(scope.aclose())
        self._parting.add(task)
        task.add_done_callback(self._parting.discard)

    async def held(self, grant_id: str) -> Scope | None:
        """A scope under a grant of this caller, wherever it was requested: another process may have
        done so. Whoever has the token of one grant has that one only."""
        for scope in (*self._open.values(), *self.temps.values()):
            if scope.grant.id == grant_id:
                return scope
        entry = self._authority.grant(grant_id)
        if entry is None or entry.kind != "held" or str(entry.grant.subject) != str(self._subject):
            return None
        if self._grant_id not in (None, grant_id):
            return None
        return await self._authority.resume(grant_id, front=FRONT)

    def forget(self, scope: Scope, error: BailiwickError) -> None:
        """Let go of a scope whose grant has ended, where another may be had; and of a fork that is
        gone, since there may be another of its name.

        One that was revoked is not requested again behind the back of whoever revoked it, unless
        no grant was needed for it: people are who hands them out.
        """
        if not isinstance(error, (Closed, GrantExpired, GrantRevoked)):
            return
        self.temps.pop(str(scope.root), None)
        for name, fork in list(self._forks.items()):
            if fork is scope:
                self._drop_fork(name)
        for key, held in list(self._open.items()):
            if held.grant.id != scope.grant.id:
                continue
            hosts = key[1] is not None and not key[1].id
            if isinstance(error, GrantExpired) or (isinstance(error, GrantRevoked) and hosts):
                del self._open[key]

    async def make_temp(self, scope: Scope, seconds: float | None, several: bool) -> Scope:
        """A private root, which this caller alone knows."""
        if several:
            raise Unsupported(
                "a temporary root lives in one process, and this server has several",
                hint="make a directory in a root, and remove it in the end",
            )
        temp = await scope.create_temp(seconds=seconds)
        self.temps[str(temp.root)] = temp
        return temp

    async def aclose(self) -> None:
        for key in list(self._forks):
            await self._taken_out(key).aclose()
        if self._parting:
            await asyncio.wait(self._parting)
        for temp in list(self.temps.values()):
            await temp.aclose()
        for scope in list(self._open.values()):
            await scope.aclose()


def _reaching(choices: list[StandingGrant], path: str | None) -> StandingGrant:
    """The first grant that reaches a path; the first of all where none does, to refuse it."""
    if path is not None:
        place = _place(path)
        for each in choices:
            if place is not None and place.lies_in(each.path):
                return each
    return choices[0]


def _place(path: str) -> ScopedPath | None:
    """Where a path leads as far as its text says; the verb itself says what is wrong with it."""
    try:
        return parse(path).path
    except BailiwickError:
        return None
