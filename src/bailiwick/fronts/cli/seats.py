"""Where a person sits who looks at what agents did: the roots of an authority, or of a server."""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from bailiwick.errors import ParseError, PathNotFound, RootNotFound, Unsupported, escape_for_display
from bailiwick.fronts.cli.arguments import takes_authority
from bailiwick.fronts.cli.authority_session import Options, at_terminal, guarded, with_authority
from bailiwick.fronts.cli.place import is_server, open_place, place_of, token_of
from bailiwick.fronts.cli.prompts import terminal_asker

if TYPE_CHECKING:
    from bailiwick.build.governed import Authority
    from bailiwick.commands import WorkInfo
    from bailiwick.scope import Scope
    from bailiwick.scope.runs import Run

Seated = Callable[[dict[str, "Scope"], Options], Awaitable[int]]
"""What is done in the roots, by their names."""

_SHOWN_MAX: Final = 5
"""Of what is only mentioned: more would be in the way of what was asked for."""

_COMMAND_MAX: Final = 60
"""So much of a command, for the same reason."""


def takes_seat(parser: argparse.ArgumentParser) -> None:
    """The options of every command for whoever looks at what agents did."""
    takes_authority(parser)
    parser.add_argument("--token", metavar="TOKEN", help="for a server (default: $BAILIWICK_TOKEN)")
    parser.add_argument("--root", metavar="ROOT", help="only this root, such as workspace:demo")


def seated(options: Options, action: Seated) -> int:
    """Open the roots that the options mean, act in them, and close them."""
    import asyncio

    if options.config is None and is_server(place_of(options)):
        return guarded(lambda: asyncio.run(_on_server(options, action)), as_json=options.json)
    return with_authority(options, partial(_in_authority, action), looking=True)


async def _on_server(options: Options, action: Seated) -> int:
    async with open_place(place_of(options), token=token_of(options)) as scope:
        if options.root not in (None, str(scope.root)):
            raise ParseError("a server's root is named in its address", hint="-p http://…/ROOT")
        return await action({str(scope.root): scope}, options)


async def _in_authority(action: Seated, authority: Authority, options: Options) -> int:
    async with _roots(authority, options.root) as scopes:
        return await action(scopes, options)


@asynccontextmanager
async def _roots(authority: Authority, only: str | None) -> AsyncIterator[dict[str, Scope]]:
    from bailiwick.operations import FILE_ACCESS

    names = [str(each) for each in authority.roots() if only in (None, str(each), each.id)]
    if not names:
        known = " or ".join(map(str, authority.roots()))
        raise RootNotFound(f"there is no root {only!r}", hint=f"--root {known}" if known else None)
    scopes: dict[str, Scope] = {}
    async with AsyncExitStack() as stack:
        for name in names:
            scope = await authority.request_root(
                at_terminal(), name, FILE_ACCESS, "typed at a terminal", front="cli",
                asker=terminal_asker(),
            )  # fmt: skip
            stack.push_async_callback(scope.aclose)
            scopes[name] = scope
        yield scopes


async def found_run(scopes: dict[str, Scope], name: str) -> tuple[Scope, Run]:
    """The run that a text names, in whichever root it is. Raises `PathNotFound`."""
    for scope in scopes.values():
        try:
            return scope, await scope.run_info(name)
        except PathNotFound:
            continue
    raise PathNotFound(f"there is no run {name[:40]!r}", hint="`bailiwick runs` lists them")


async def say_unapplied(scopes: dict[str, Scope]) -> None:
    """On stderr: which working copies nobody has decided about. Looking at a tree one does not see
    them."""
    unapplied: list[WorkInfo] = []
    for scope in scopes.values():
        with suppress(Unsupported):
            unapplied += await scope.work()
    for each in unapplied[:_SHOWN_MAX]:
        what = escape_for_display(" ".join(each.command)[:_COMMAND_MAX] or each.subject)
        sys.stderr.write(f"note: not applied yet: bailiwick review {each.id}  # {what}\n")
    if len(unapplied) > _SHOWN_MAX:
        sys.stderr.write(f"note: {len(unapplied) - _SHOWN_MAX} more: bailiwick work list\n")
