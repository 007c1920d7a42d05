"""Working in a place: open it, act as the person who typed the command, report, close.

A place is a directory, a volume or a running server. Commands use the verbs of a scope and nothing
else, so that where they act is decided in one function: `open_place`.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, cast

from bailiwick.errors import RootNotFound, Unsupported
from bailiwick.fronts.cli.arguments import Parser, takes_pages, takes_place
from bailiwick.fronts.cli.authority_session import Options, guarded
from bailiwick.fronts.cli.directories import Purpose, open_directory, unhurried
from bailiwick.fronts.cli.pager import run_paged

if TYPE_CHECKING:
    # Loading it takes longer than the help of a command should.
    from bailiwick.commands import HostShare
    from bailiwick.config.places import VolumePlace
    from bailiwick.scope import Scope

PLACE_VARIABLE = "BAILIWICK_PLACE"
TOKEN_VARIABLE = "BAILIWICK_TOKEN"

_OVERLAY = "overlay:"

Action = Callable[["Scope", Options], Awaitable[int]]


def in_place(
    parser: Parser,
    arguments: list[str],
    action: Action,
    *,
    needs: Purpose = "looking",
    pages: bool = False,
) -> int:
    """Act in the place that the arguments of a command name."""
    takes_place(parser)
    if pages:
        takes_pages(parser)
    return with_scope(parser.parse_args(arguments), action, needs=needs)


def with_scope(options: Options, action: Action, *, needs: Purpose = "looking") -> int:
    """Open the place that the options name, act in it, and close it. Where a version is asked for
    it is opened with its past."""
    import asyncio

    if any(getattr(options, name, None) is not None for name in ("as_of", "other_as_of")):
        needs = "versions"

    async def act() -> int:
        async with scope_for(options, needs) as scope:
            return await action(scope, options)

    wanted = not options.json and not getattr(options, "no_pager", True)
    return run_paged(
        lambda: guarded(lambda: asyncio.run(act()), as_json=options.json), wanted=wanted
    )


@asynccontextmanager
async def scope_for(
    options: Options, needs: Purpose, share: HostShare | None = None
) -> AsyncIterator[Scope]:
    """The scope of whoever acts: the person at the terminal, or whom they act as. ``share`` is what
    programs may have of this machine, for as long as they like."""
    from bailiwick.fronts.cli.prompts import terminal_asker
    from bailiwick.grant import parse_subject

    place = place_of(options)
    if is_server(place) and options.subject is not None:
        raise Unsupported(
            "a server knows by the token who you are", hint="use a token of that subject"
        )
    async with open_place(place, needs=needs, token=token_of(options), share=share) as own:
        if is_server(place):
            yield own
            return
        scope = own
        if options.subject is not None:
            # All that the person has, to run programs too: rules are what stands between.
            scope = await own.delegate(
                parse_subject(options.subject), access=own.access, reason="typed at a terminal"
            )
        yield scope.with_caller("cli", asker=terminal_asker())


def place_of(options: Options) -> str:
    """Where a command acts: as it says, as the environment says, or here."""
    return options.place or os.environ.get(PLACE_VARIABLE) or "."


def token_of(options: Options) -> str | None:
    return options.token or os.environ.get(TOKEN_VARIABLE) or None


def is_server(place: str) -> bool:
    return place.startswith(("http://", "https://"))


def local_place(options: Options) -> str:
    """The place of a command that needs the state kept of it, which is on this machine. Raises
    `Unsupported` for a server, `RootNotFound` for what is not there."""
    from bailiwick.build.places import read_place

    place = place_of(options)
    if is_server(place):
        raise Unsupported(
            "what a server keeps is looked at where it runs",
            hint="name the directory or volume there with -p, or use its console",
        )
    _refuse_memory(place)
    found = read_place(place)
    if found.volume is not None:
        _refuse_missing(place, found.volume)
    elif found.directory is not None and not os.path.isdir(found.directory):
        raise RootNotFound("there is no such directory", hint="check how it is written")
    return found.directory or place.removeprefix(_OVERLAY)


def _refuse_memory(place: str) -> None:
    if place.removeprefix(_OVERLAY).startswith("memory:"):
        raise Unsupported(
            "what is in memory is gone when the command ends",
            hint="name a directory or a volume: -p sqlite:agent.db",
        )


def open_place(
    place: str,
    *,
    needs: Purpose = "looking",
    token: str | None = None,
    share: HostShare | None = None,
) -> AbstractAsyncContextManager[Scope]:
    """The one door: whatever a place is, what comes out has the verbs of a scope."""
    _refuse_memory(place)
    if is_server(place) and share is None:
        return _connect(place, token)
    if is_server(place):
        raise Unsupported("programs are run on this machine", hint="name a directory of it")
    from bailiwick.build import open as open_scope
    from bailiwick.build.places import read_place

    found = read_place(place)
    if found.directory is not None:
        return open_directory(found.directory, needs, share, over=found.over)
    if found.volume is not None:
        _refuse_missing(place, found.volume)
    if share is None:
        return open_scope(place)
    return open_scope(place, commands=share, limits=unhurried())


def _refuse_missing(place: str, volume: VolumePlace) -> None:
    """A volume that is not there is a name mistyped: opening it would make an empty one."""
    from bailiwick.build.care import has_volume

    if not has_volume(volume):
        place = place.removeprefix(_OVERLAY)
        # Somebody may have written a secret into the address of an object store.
        is_plain = volume.blobs is None or volume.blobs_folder is not None
        shown = shlex.quote(place if is_plain else place.partition("blobs=")[0] + "blobs=…")
        raise RootNotFound(
            "there is no such volume", hint=f"make it first: bailiwick volume create {shown}"
        )


def _connect(address: str, token: str | None) -> AbstractAsyncContextManager[Scope]:
    """It has the verbs of a scope, which is all that a command uses."""
    from bailiwick.client import connect

    return cast("AbstractAsyncContextManager[Scope]", connect(address, token=token))
