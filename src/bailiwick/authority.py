"""The authority: which roots there are, who may ask for them, and what is handed out.

A caller never holds a host path: it asks for a root by name, with the access it needs and why, and
gets a `Scope` under a grant that holds exactly that. A grant can be narrowed and passed on, ended
at any moment in every process, and never widened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from bailiwick.approvals import Asker
from bailiwick.audit import AuthorityRecord, shown
from bailiwick.call import Caller, Machine
from bailiwick.errors import (
    BailiwickError,
    Busy,
    Closed,
    MissingAccess,
    ParseError,
    RootNotFound,
)
from bailiwick.finishing import to_the_end
from bailiwick.grant import (
    Core,
    Grant,
    GrantSource,
    Narrowing,
    Root,
    StandingGrant,
    Subject,
    User,
    check_access,
    check_globs,
    check_reason,
    check_subject,
    covering,
    narrowed,
    parse_root_name,
    parse_subject,
)
from bailiwick.hook import Hooks
from bailiwick.limits import Limits
from bailiwick.operations import ALL_ACCESS, FILE_ACCESS, OPERATIONS, Access, Command
from bailiwick.paths import parse
from bailiwick.patience import waiting
from bailiwick.periodic_task import PeriodicTask
from bailiwick.policies.explanation import Explanation
from bailiwick.policies.manifest import manifest_grants
from bailiwick.policies.rule import check_root_pattern, check_subject_pattern
from bailiwick.policies.rules import RulePolicy
from bailiwick.root_plans import OpenedRoot, RootPlan, close_root, opened_for_all
from bailiwick.root_questions import RootRequest, ask_for_root, root_request
from bailiwick.scope import Delegation, Lent, Scope
from bailiwick.state.approvals.desk import ApprovalDesk
from bailiwick.state.approvals.rules import RuleBook
from bailiwick.state.faults import FaultBook
from bailiwick.state.grants.book import GrantBook, new_id
from bailiwick.state.grants.rows import GrantEntry
from bailiwick.state.grants.trust import TrustBook
from bailiwick.state.ledger.durable import DurableLedger
from bailiwick.store import Store
from bailiwick.subject_roots import SubjectRoots

_SECONDS_MAX = 100 * 365.25 * 24 * 3600
"""A century: whatever is to end later does not end."""

_HOUSEKEEPING_SECONDS = 900.0
"""How often what is over is cleared away: temporary roots, old records, ended grants."""


_NOBODY = Core("nobody")
"""Who is on record for a request in the name of something that is no subject."""

_THE_HOST = StandingGrant(id="", subject="*", root="*", access=ALL_ACCESS)
_THE_HOST_ELSEWHERE = msgspec.structs.replace(_THE_HOST, access=FILE_ACCESS)
"""What the host itself and the person at it can ask for without anybody's grant: in a workspace,
and in any other root."""


class Books(msgspec.Struct, frozen=True, kw_only=True):
    """What an authority remembers, each kept in its state."""

    ledger: DurableLedger
    grants: GrantBook
    trust: TrustBook
    rules: RuleBook
    approvals: ApprovalDesk
    faults: FaultBook


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """The power that the composition root lends to an authority."""

    machine: Machine
    hooks: Hooks
    plan_root: Callable[[str, str | Store, dict[str, Any]], RootPlan]
    plan_temp: Callable[[Subject, float, str | None, int], Awaitable[RootPlan]]
    keep_house: Callable[[], Awaitable[None]]
    close: Callable[[], Awaitable[None]]


class CoreAuthority:
    """Roots, grants and policy of one host, and the only way to a scope on them."""

    def __init__(self, books: Books, policy: RulePolicy, services: Services) -> None:
        self._books = books
        self._services = services
        self._plans: dict[str, RootPlan] = {}
        self._opened: dict[str, asyncio.Future[OpenedRoot]] = {}
        self._temps: dict[str, tuple[OpenedRoot, Grant]] = {}
        self._closed = False
        self._limits = Limits()
        self._granting = asyncio.Lock()
        self.ask_roots = False
        """Whether a person is asked for a root that nobody granted."""
        self._housekeeping = PeriodicTask(
            self._keep_house, name="housekeeping", every_s=_HOUSEKEEPING_SECONDS
        )
        self._housekeeping.begin()
        self.hooks = services.hooks
        self.policy = policy
        self.ledger = books.ledger
        self.approvals = books.approvals
        self.rules = books.rules
        self.faults = books.faults

    # --- roots -----------------------------------------------------------------------------

    def roots(self) -> list[Root]:
        """Every root, with the trust it has now, by name."""
        return [self.root(name) for name in sorted(self._plans)]

    def root(self, name: str) -> Root:
        """One root. Raises `RootNotFound`."""
        root = self._plan(name).root
        trusted = self._books.trust.is_trusted(name, root.trusted)
        return root if trusted == root.trusted else msgspec.structs.replace(root, trusted=trusted)

    def host_path(self, name: str) -> str | None:
        """Where a root lies on the host, a directory or the file of a volume: for its operator,
        never for a caller."""
        return self._plan(name).host_path

    async def add_root(self, name: str, place: str | Store, **options: Any) -> Root:
        """Register a root under a name such as ``workspace:demo``: a directory, ``memory:``, a
        volume, or a store of your own, which is closed with the authority once it was used.

        Options are those of `bailiwick.open`, and ``labels``, ``display_name``, ``quota``. It is
        not trusted, so it can only be read, unless ``trusted=True``.
        """
        self._refuse_closed()
        parse_root_name(name)
        if name in self._plans:
            raise ParseError(f"there is a root {name!r} already")
        plan = self._services.plan_root(name, place, options)
        self.register(plan)
        await self._note(Core("authority"), "root", root=name, details={"act": "registered"})
        return plan.root

    def register(self, plan: RootPlan) -> None:
        """Take up a root that whoever composed this authority has planned."""
        self._plans[str(plan.root)] = plan

    async def set_trust(
        self, root: str, trusted: bool, *, by: Subject, front: str = "python"
    ) -> None:
        """Trust a root, or no more: at the next operation, in scopes handed out already."""
        self._plan(root)
        await self._books.trust.set_trust(root, trusted, by=str(by), front=front)

    # --- grants ----------------------------------------------------------------------------

    async def request_root(
        self,
        subject: Subject | str,
        root: str,
        access: Collection[Access],
        reason: str,
        *,
        path: str = ".",
        policy: Narrowing | None = None,
        expires_in: float | None = None,
        front: str = "python",
        asker: Asker | None = None,
        wait_s: float | None = None,
    ) -> Scope:
        """A scope on ``root`` for ``subject``, which holds exactly ``access``.

        ``reason`` is shown to policy, people and the ledger. ``policy`` gives up more: links,
        sizes, globs. Asking for more than was granted is `MissingAccess`, here and now; where
        people are asked for roots (``[ask] roots``), their yes grants it for a time instead.
        """
        self._refuse_closed()
        who: Subject = _NOBODY
        caller = Caller(front=front, asker=asker, wait_s=wait_s)
        try:
            who = parse_subject(subject) if isinstance(subject, str) else check_subject(subject)
            wanted = check_access(access)
            found = partial(self._grant_for, who, root, wanted, reason, path, policy, expires_in)
            try:
                grant = found()
            except (MissingAccess, RootNotFound):
                if not self.asks_for_roots(who, caller):
                    raise
                asked = root_request(
                    who, root, wanted, path, expires_in, reason, front, self._limits
                )
                grant = await self._asked_for(asked, caller, found)
            grant = await self._books.grants.hand_out(grant, front=front)
        except BailiwickError as error:
            await self._note(
                who, "grant", root=shown(root), front=front, reason=shown(reason), error=error,
                details={"access": shown(access)},
            )  # fmt: skip
            raise
        return Scope(await self._lend(grant, caller))

    def asks_for_roots(self, subject: Subject, caller: Caller) -> bool:
        """Whether what nobody granted to a subject becomes a question to a person."""
        if not self.ask_roots or isinstance(subject, (Core, User)):
            return False
        return caller.asker is not None or self.approvals.interactive(caller.front)

    async def _asked_for(
        self, asked: RootRequest, caller: Caller, found: Callable[[], Grant]
    ) -> Grant:
        """What a person grants when they are asked: to this subject alone, and with an end."""
        verdict = await ask_for_root(
            self.approvals, asked, self._services.machine.new_request_id(),
            asker=caller.asker, wait_s=caller.wait_s,
        )  # fmt: skip
        self._plan(asked.root)  # only now is it told that there is none
        async with self._granting:
            with suppress(MissingAccess):
                return found()  # another call that asked the same was first
            await self.add_grant(
                subject=str(asked.subject), root=asked.root, access=asked.access,
                path=str(asked.path), expires_in=asked.seconds, reason=asked.reason,
                by=parse_subject(verdict.by), front=asked.front,
            )  # fmt: skip
        return found()

    def for_subject(self, subject: Subject) -> SubjectRoots:
        """The roots of one subject, by what they are for."""
        return SubjectRoots(self, subject)

    async def add_grant(
        self,
        *,
        subject: str,
        root: str,
        access: Collection[Access],
        path: str = ".",
        allowed: Collection[str] = (),
        denied: Collection[str] = (),
        expires_in: float | None = None,
        reason: str = "",
        by: Subject,
        front: str = "python",
    ) -> StandingGrant:
        """Let a subject, or a pattern such as ``agent_run:*``, ask for a root from now on.

        ``path`` is relative to the root: a pattern has no mount point.
        """
        check_subject_pattern(subject)
        check_root_pattern(root)
        check_subject(by)
        place = parse(path).path
        if str(path).startswith("/"):
            raise ParseError("the path of a grant is relative to its root")
        source: GrantSource = "user-approval" if isinstance(by, User) else "core"
        grant = StandingGrant(
            id=new_id(), subject=subject, root=root, access=check_access(access), path=place,
            allowed=check_globs(allowed, "allowed"), denied=check_globs(denied, "denied"),
            reason=check_reason(reason), source=source, expires_at=self._expiry(expires_in),
        )  # fmt: skip
        kept = await self._books.grants.add(grant, by=str(by), front=front)
        return msgspec.structs.replace(grant, id=kept)

    async def apply_manifest(
        self, extension_id: str, permissions: Collection[str]
    ) -> list[StandingGrant]:
        """Let an extension ask for what its manifest declares, and for nothing it no longer does.

        Raises `ParseError` for a permission that is not known.
        """
        grants = manifest_grants(extension_id, permissions)
        await self._books.grants.sync_configured(grants, origin=f"manifest:{extension_id}")
        return grants

    def grants(self) -> list[GrantEntry]:
        """What was granted and still holds, standing and handed out, oldest first."""
        entries: list[GrantEntry] = []
        cursor: str | None = None
        while True:
            page = self._books.grants.entries(cursor=cursor)
            entries.extend(page.entries)
            cursor = page.next_cursor
            if cursor is None:
                return entries[::-1]

    def grant(self, grant_id: str) -> GrantEntry | None:
        return self._books.grants.find(grant_id)

    async def revoke(
        self, grant_id: str, *, by: Subject, front: str = "python", reason: str = ""
    ) -> int:
        """End a grant and all that descends from it, in every process; returns how many ended."""
        return await self._books.grants.revoke(grant_id, by=str(by), front=front, reason=reason)

    def explain(
        self,
        subject: Subject | str,
        root: str,
        operation: str,
        path: str,
        *,
        command: Command | None = None,
    ) -> Explanation:
        """Which rule decides, and which others would have matched. ``command`` is what the
        operation ``exec`` would run at ``path``."""
        who = parse_subject(subject) if isinstance(subject, str) else subject
        known = self.root(root)
        if operation not in OPERATIONS:
            raise ParseError(f"there is no operation {operation!r}")
        place = parse(path, known.mount_point).path
        candidates = self._candidates(who, known)
        return self.policy.explain(
            who, known, OPERATIONS[operation], place,
            held=candidates[0].access if candidates else frozenset(),
            explicit=bool(candidates) and candidates[0].explicit,
            command=None if command is None else msgspec.structs.replace(command, cwd=place),
        )  # fmt: skip

    # --- what scopes are lent ---------------------------------------------------------------

    async def delegate(self, parent: Grant, asked: Delegation, front: str) -> Lent:
        """A narrower grant, from the holder of another. Called through `Scope.delegate`."""
        self._refuse_closed()
        try:
            grant = self._delegated(parent, asked)
            grant = await self._books.grants.hand_out(grant, front=front, by=str(parent.subject))
        except BailiwickError as error:
            await self._note(
                parent.subject, "delegate", root=str(parent.root), front=front,
                reason=shown(asked.reason), error=error, details={"to": shown(str(asked.subject))},
            )  # fmt: skip
            raise
        return await self._lend(grant, Caller(front=front))

    def _delegated(self, parent: Grant, asked: Delegation) -> Grant:
        asked.refuse_wider(parent)
        root = parent.root
        asked_path = parse(asked.path, root.mount_point, root.names).path
        return narrowed(
            parent, id=new_id(), subject=asked.subject, access=asked.access,
            # The top is as much of it as the parent has, which may be less.
            path=None if asked_path.is_root else asked_path.beneath(parent.base),
            rebase=asked.rebase,
            narrowing=Narrowing(allowed=asked.allowed, denied=asked.denied),
            expires_at=self._expiry(asked.expires_in), reason=asked.reason,
        )  # fmt: skip

    async def create_temp(self, parent: Grant, seconds: float | None, front: str) -> Lent:
        """A private root. Called through `Scope.create_temp`."""
        if "write" not in parent.access:
            raise MissingAccess(
                "the grant does not hold: write", hint="a temporary root is written"
            )
        return await self._make_temp(
            parent.subject, parent.reason, parent.id, seconds, front, parent.limits
        )

    async def beside(self, grant: Grant, root: str, front: str) -> Lent:
        """Another root for the same subject, to be read by a command."""
        access: tuple[Access, ...] = ("read", "list", "metadata")
        found = await self.request_root(grant.subject, root, access, grant.reason, front=front)
        return found._lent

    async def request_temp(
        self, subject: Subject, reason: str, *, seconds: float | None = None, front: str = "python"
    ) -> Scope:
        """A private root for a subject that need not have another one."""
        return Scope(await self._make_temp(subject, reason, None, seconds, front))

    async def _make_temp(
        self,
        subject: Subject,
        reason: str,
        parent: str | None,
        seconds: float | None,
        front: str,
        limits: Limits | None = None,
    ) -> Lent:
        self._refuse_closed()
        check_subject(subject)
        check_reason(reason)
        most = limits or Limits()
        seconds = most.temp_seconds_max if seconds is None else seconds
        ends = self._expiry(seconds)
        if seconds > most.temp_seconds_max:
            raise ParseError(f"a temporary root lives at most {most.temp_seconds_max:g} seconds")
        await self._close_old_temps()
        plan = await self._services.plan_temp(subject, seconds, parent, most.temp_roots_max)
        opened = await plan.open()
        grant = Grant(
            id=new_id(), subject=subject, root=plan.root, reason=reason,
            parent=parent, explicit=True, limits=limits or plan.limits, expires_at=ends,
        )  # fmt: skip
        try:
            grant = await self._books.grants.hand_out(grant, front=front)
        except BaseException:
            await opened.close()
            raise
        name = str(plan.root)
        self._temps[name] = opened, grant
        close = partial(self._close_temp, name)
        lent = self._lent(opened, grant, Caller(front=front), closing=close)
        return msgspec.structs.replace(lent, owns_root=True)

    async def _close_temp(self, name: str) -> None:
        opened, grant = self._temps.pop(name, (None, None))
        if opened is not None and grant is not None:
            await opened.close()
            await self._release(grant.id)

    async def _close_old_temps(self) -> None:
        """Let go of temporary roots whose time is up: nobody may have closed them."""
        now = self._services.machine.time_ns() / 1e9
        for name, (_, grant) in list(self._temps.items()):
            if grant.expires_at is not None and grant.expires_at <= now:
                await self._close_temp(name)

    async def _lend(self, grant: Grant, caller: Caller) -> Lent:
        name = str(grant.root)
        try:
            opened = await self._open(name)
        except BaseException:
            await to_the_end(self._release(grant.id))
            raise
        return self._lent(opened, grant, caller, closing=partial(self._release, grant.id))

    async def _release(self, grant_id: str) -> None:
        """A closed scope has no more use for its grant, unless it was passed on."""
        if not self._closed:
            await self._books.grants.release(grant_id)

    def _lent(
        self,
        opened: OpenedRoot,
        grant: Grant,
        caller: Caller,
        closing: Callable[[], Awaitable[None]] | None = None,
    ) -> Lent:
        return Lent(
            pipeline=opened.pipeline_for(grant), grant=grant, ignores=opened.ignores,
            caller=caller, delegates=self, copy_in=opened.copy_in, closing=closing,
        )  # fmt: skip

    # --- closing -----------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Close every root, waiting for work under way, and let go of the state."""
        if self._closed:
            return
        self._closed = True
        await self._housekeeping.aclose()
        try:
            while self._temps:
                await close_root(self._temps.popitem()[1][0])
            for opening in list(self._opened.values()):
                await asyncio.wait((opening,))
                if not opening.cancelled() and opening.exception() is None:
                    await close_root(opening.result())
        finally:
            await self._services.close()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise Closed("this authority is closed")

    async def _keep_house(self) -> None:
        await self._close_old_temps()
        await self._services.keep_house()

    # --- deciding who may ask for what ---------------------------------------------------------

    def _plan(self, name: str) -> RootPlan:
        parse_root_name(name)
        plan = self._plans.get(name)
        if plan is None:
            raise RootNotFound(f"there is no root {name!r}")
        return plan

    async def _open(self, name: str) -> OpenedRoot:
        """Open a root for the first who asks; others wait for the same opening."""
        if name in self._temps:
            return self._temps[name][0]
        opening = self._opened.get(name)
        if opening is None:
            opening = self._opened[name] = asyncio.ensure_future(opened_for_all(self._plan(name)))
            opening.add_done_callback(partial(self._forget_failed, name))
        with waiting() as seconds:
            await asyncio.wait((opening,), timeout=seconds)
            if not opening.done():
                raise Busy(
                    "the root is still being opened", hint="try again in a moment",
                    details={"retry_after_s": 1.0},
                )  # fmt: skip
            return opening.result()

    def _forget_failed(self, name: str, opening: asyncio.Future[OpenedRoot]) -> None:
        """The next who asks tries again."""
        if opening.cancelled() or opening.exception() is not None:
            self._opened.pop(name, None)

    def _grant_for(
        self,
        subject: Subject,
        root_name: str,
        access: frozenset[Access],
        reason: str,
        path: str,
        narrowing: Narrowing | None,
        expires_in: float | None,
    ) -> Grant:
        plan = self._plan(root_name)
        root = self.root(root_name)
        place = parse(path, root.mount_point, root.names).path
        candidates = self._candidates(subject, root)
        standing = covering(candidates, access, place)
        whole = Grant(
            id=standing.id, subject=subject, root=root, access=standing.access, path=standing.path,
            allowed=(standing.allowed,) if standing.allowed else (), denied=standing.denied,
            expires_at=standing.expires_at, explicit=standing.explicit,
            limits=plan.limits,
        )  # fmt: skip
        grant = narrowed(
            whole, id=new_id(), subject=subject, access=access,
            path=None if place.is_root else place, narrowing=narrowing,
            expires_at=self._expiry(expires_in), reason=reason, source=standing.source,
        )  # fmt: skip
        return grant if standing.id else msgspec.structs.replace(grant, parent=None)

    def _candidates(self, subject: Subject, root: Root) -> list[StandingGrant]:
        """What stands for a subject on a root, what names both before what is a pattern. The host
        itself and the person at it need no grant to ask; what they may do is for policy to say."""
        found = [each for each in self._books.grants.standing() if each.is_for(subject, root)]
        found.sort(key=lambda each: not each.explicit)
        if isinstance(subject, (Core, User)):
            found.append(_THE_HOST if root.kind == "workspace" else _THE_HOST_ELSEWHERE)
        return found

    def _expiry(self, expires_in: float | None) -> float | None:
        if expires_in is None:
            return None
        if not isinstance(expires_in, (int, float)) or not 0 < expires_in <= _SECONDS_MAX:
            raise ParseError("expires_in is a number of seconds, more than none")
        return self._services.machine.time_ns() / 1e9 + expires_in

    async def _note(
        self,
        subject: Subject,
        act: Any,
        *,
        root: str,
        front: str = "python",
        reason: str = "",
        error: BailiwickError | None = None,
        details: dict[str, str] | None = None,
    ) -> None:
        await self._books.ledger.append_authority(
            AuthorityRecord(
                time_ns=self._services.machine.time_ns(),
                request_id=self._services.machine.new_request_id(), subject=str(subject), act=act,
                root=root, outcome="success" if error is None else "denied",
                error_kind=None if error is None else error.kind, reason=reason, front=front,
                details=details or {},
            )
        )  # fmt: skip
