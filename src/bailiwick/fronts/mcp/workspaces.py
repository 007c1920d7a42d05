"""From an authority to the workspaces of one agent.

What a person owns is passed on to the agent, so that the rules for agents hold. What an agent was
granted it has as it is. Nobody gets a root by naming it alone, but the person at the machine.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from bailiwick.errors import MissingAccess, RootNotFound
from bailiwick.fronts.mcp.service import Service, box_name, names_of
from bailiwick.grant import AgentRun, Core, StandingGrant, Subject, User
from bailiwick.operations import ALL_ACCESS, FILE_ACCESS, Access
from bailiwick.scope import Scope
from bailiwick.toolbox import ALL_OPERATIONS, Toolbox, ToolConfig
from bailiwick.toolbox.tool import OPERATIONS

if TYPE_CHECKING:
    from bailiwick.build.governed import Authority
    from bailiwick.build.shared_grants import SharedGrants

FRONT = "mcp"

LOOKING: frozenset[Access] = frozenset(("read", "list", "metadata", "watch"))
"""What is left where nothing is to be changed."""

ASK_WAIT_SECONDS = 30.0
"""How long a call waits at most for a person, where the client asks them, or says that it waits for
whoever looks at the console: clients give up after a minute."""

WAIT_KEY = "bailiwick/wait"
"""Where a call says in its ``_meta`` for how many seconds it waits for a person."""

_REASON = "tools over MCP"
_NONCE_BYTES = 8
_SESSION_BYTES = 4


class WantedService(NamedTuple):
    """For whom, and what of it. ``most`` is what may be done at most, ``tools`` which tools there
    are (None: all), ``roots`` which roots (None: all that the subject has). With ``structured``
    every answer comes with its object. ``wait_s`` is how long each call waits for a person where
    the client cannot ask them. ``shared`` are grants that other processes have, too."""

    subject: Subject
    session: str
    most: frozenset[Access] = ALL_ACCESS
    tools: tuple[str, ...] | None = None
    roots: tuple[str, ...] | None = None
    grant_id: str | None = None
    structured: bool = False
    wait_s: float = 0.0
    shared: SharedGrants | None = None


def wait_of(meta: Any) -> float:
    """How long a call says that it waits for a person, in seconds: not at all, where it says
    nothing of it."""
    asked = meta.get(WAIT_KEY) if isinstance(meta, dict) else None
    if isinstance(asked, bool) or not isinstance(asked, (int, float)) or not asked > 0:
        return 0.0
    return min(float(asked), ASK_WAIT_SECONDS)


def new_session() -> str:
    """A name for one run of an agent."""
    return secrets.token_hex(_SESSION_BYTES)


def _new_nonce() -> str:
    return secrets.token_hex(_NONCE_BYTES)


@asynccontextmanager
async def open_service(authority: Authority, wanted: WantedService) -> AsyncIterator[Service]:
    """The workspaces that a subject has, open until this is left. Raises `MissingAccess`."""
    async with AsyncExitStack() as stack:
        scopes: dict[str, Scope] = {}
        async for root, scope in _scopes(authority, wanted):
            stack.push_async_callback(scope.aclose)
            scopes[root] = scope
        if not scopes:
            raise MissingAccess(
                f"nothing here was granted to {wanted.subject}",
                hint="grant something: bailiwick grant add, or [[grant]] in bailiwick.toml",
            )
        config = ToolConfig(operations=_operations(wanted), structured=wanted.structured)
        boxes = {
            name: Toolbox(
                scopes[root], box_name(name), config, prefix="", front=FRONT,
                session=wanted.session, new_nonce=_new_nonce,
            )
            for root, name in names_of(list(scopes)).items()
        }  # fmt: skip
        follow = partial(authority.notices.follow, runs=False)
        service = Service(boxes, wanted.wait_s, follow)
        stack.push_async_callback(service.aclose)
        yield service


def _operations(wanted: WantedService) -> tuple[str, ...]:
    # All by name: whether programs are run is for grants to say here, and they have (`_given`).
    chosen = wanted.tools or ALL_OPERATIONS
    if "write" in wanted.most:
        return chosen
    return tuple(each for each in chosen if OPERATIONS[each].read_only)


async def _scopes(authority: Authority, wanted: WantedService) -> AsyncIterator[tuple[str, Scope]]:
    if wanted.grant_id is not None:
        scope = await authority.resume(wanted.grant_id, front=FRONT)
        if wanted.most != ALL_ACCESS:
            scope = await scope.delegate(scope.subject, access=scope.access & wanted.most)
        yield str(scope.root), scope.with_caller(FRONT, wait_s=ASK_WAIT_SECONDS)
        return
    for root in _roots(authority, wanted.roots):
        scope_or_none = await _scope(authority, wanted, root)
        if scope_or_none is not None:
            yield root, scope_or_none


def _roots(authority: Authority, named: Collection[str] | None) -> Iterable[str]:
    known = [str(root) for root in authority.roots()]
    for name in named or ():
        if name not in known:
            raise RootNotFound(f"there is no root {name!r}", hint=", ".join(known) or None)
    return known if named is None else named


async def _scope(authority: Authority, wanted: WantedService, root: str) -> Scope | None:
    """A scope under the widest grant that the subject holds; None where it holds none."""
    held = authority.holdings(wanted.subject, root)
    fitting = [grant for grant in held if _given(grant, wanted)]
    if not fitting:
        return None
    widest = max(fitting, key=lambda grant: len(_given(grant, wanted)))
    try:
        if wanted.shared is not None:
            return await wanted.shared.scope(
                authority, wanted.subject, root, widest, _given(widest, wanted), _REASON,
                front=FRONT, wait_s=ASK_WAIT_SECONDS,
            )  # fmt: skip
        return await authority.request_root(
            wanted.subject, root, _given(widest, wanted), _REASON, path=str(widest.path),
            front=FRONT, wait_s=ASK_WAIT_SECONDS,
        )  # fmt: skip
    except MissingAccess:
        # People and the host hold everything, but for roots that want a grant by name.
        if isinstance(wanted.subject, (User, Core)):
            return None
        raise


def _given(grant: StandingGrant, wanted: WantedService) -> frozenset[Access]:
    """What a model gets of a grant. What people may do without anybody's grant is theirs, and
    programs are run for a model only where somebody granted that."""
    most = wanted.most if grant.id else wanted.most & FILE_ACCESS
    return grant.access & most


def agent_of(session: str) -> AgentRun:
    return AgentRun(FRONT, session)
