"""What the proxy serves: a place that its caller names, or a root of an authority."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from bailiwick.errors import MissingAccess, RootNotFound, Unsupported
from bailiwick.fronts.acp import extension
from bailiwick.fronts.acp.extension import Served
from bailiwick.fronts.acp.files import FileCalls
from bailiwick.fronts.acp.places import Places
from bailiwick.fronts.acp.terminals import Terminals
from bailiwick.grant import AgentRun, StandingGrant, User
from bailiwick.operations import Access

if TYPE_CHECKING:
    from bailiwick.build.governed import Authority
    from bailiwick.model import Switch
    from bailiwick.scope import Scope

_READING: frozenset[Access] = frozenset(("read", "list", "metadata"))
_CHANGING: frozenset[Access] = _READING | {"write", "delete"}


class Opened(NamedTuple):
    """What is served, and which calls of it."""

    files: FileCalls
    places: Places
    serves: Served
    terminals: Terminals | None


def opened(options: argparse.Namespace) -> AbstractAsyncContextManager[Opened]:
    """Open what the options name, until the agent has ended."""
    return _opened(options)


@asynccontextmanager
async def _opened(options: argparse.Namespace) -> AsyncIterator[Opened]:
    session = secrets.token_hex(4)
    wanted = _READING if options.read_only else _CHANGING
    if options.terminals:
        wanted |= {"execute"}
    opening = (
        _place(options, wanted)
        if options.config is None
        else _configured_root(options, wanted, session)
    )
    async with opening as (scope, directory):
        places = Places(scope.root.mount_point, directory)
        files = FileCalls(
            scope, session=session, place_of=places.place_of, shown=places.shown,
            passes_execute=options.terminals,
        )  # fmt: skip
        if options.terminals and not files.runs_commands:
            raise Unsupported(
                "no commands are run here, so that there are no terminals",
                hint="it takes a directory, bubblewrap, and a grant that holds execute",
            )
        serves = Served(
            read="read" in scope.access,
            write="write" in scope.access and scope.root.trusted,
            more=extension.served(scope.access, scope.powers, trusted=scope.root.trusted),
            terminal=options.terminals,
        )
        try:
            yield Opened(files, places, serves, Terminals(files) if options.terminals else None)
        finally:
            await files.aclose()


@asynccontextmanager
async def _place(
    options: argparse.Namespace, wanted: frozenset[Access]
) -> AsyncIterator[tuple[Scope, str | None]]:
    """A place that the person who set up the editor has named: they trust it."""
    from bailiwick.build.places import read_place
    from bailiwick.build.served import named_places, open_served, state_for

    place = options.root or "."
    named = read_place(place)
    directory = named.directory
    places = named_places([place if directory is None or named.over else directory])
    keeps: Switch = "off" if options.no_history or options.read_only else "on"
    state = state_for(places) if options.state is None else options.state
    async with open_served(
        places, None, state, history=keeps, surface="none", noted=False
    ) as authority:
        scope = await authority.request_root(
            User("local"), next(iter(places)), wanted, "calls over ACP", front="acp"
        )
        try:
            yield scope, directory
        finally:
            await scope.aclose()


@asynccontextmanager
async def _configured_root(
    options: argparse.Namespace, wanted: frozenset[Access], session: str
) -> AsyncIterator[tuple[Scope, str | None]]:
    """A root of an authority, under the grants that agents have there."""
    from bailiwick.build.governed import Authority

    async with Authority.from_config(options.config, state_dir=options.state) as authority:
        root = options.root or authority.first_root
        if root is None:
            raise RootNotFound("the configuration has no root", hint="add a [[root]]")
        subject = AgentRun("acp", session)
        grant = _widest(authority, subject, root, wanted)
        scope = await authority.request_root(
            subject, root, grant.access & wanted, "calls over ACP", path=str(grant.path),
            front="acp",
        )  # fmt: skip
        try:
            # A volume lies in a file of the host, which is no place that an editor works in.
            is_directory = scope.description["kind"] == "disk"
            yield scope, authority.host_path(root) if is_directory else None
        finally:
            await scope.aclose()


def _widest(
    authority: Authority, subject: AgentRun, root: str, wanted: frozenset[Access]
) -> StandingGrant:
    """The grant that holds most of what is wanted; of equals, the first."""
    held = authority.holdings(subject, root)
    if not held:
        raise MissingAccess(
            f"nobody granted {subject} anything in {root}",
            hint='grant it to subject = "agent_run:acp/*" or "agent_run:*"',
        )
    return max(held, key=lambda grant: len(grant.access & wanted))
