"""Opening a directory of this machine, also one that holds Bailiwick's own state: a home does.

Whoever may change a directory could forge what is noted there about unfinished changes, so a store
refuses to keep its notes inside its own tree. Who only looks makes no notes: they get an empty
place for them elsewhere, and a scope that cannot change anything.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bailiwick.errors import Unsupported
from bailiwick.fronts.cli.authority_session import at_terminal

if TYPE_CHECKING:
    from bailiwick.build.options import OpenOptions
    from bailiwick.commands import HostShare
    from bailiwick.limits import Limits
    from bailiwick.scope import Scope

Purpose = Literal["looking", "changing", "versions"]
"""What a directory is opened for. Its past is kept, and looked at, only where that is needed: who
looks does not wait for it, and what is brought in or out is not remembered twice."""


@asynccontextmanager
async def open_directory(
    directory: str, purpose: Purpose, share: HostShare | None = None, *, over: bool = False
) -> AsyncIterator[Scope]:
    """A scope on a directory. Links between files inside are as they are for their owner. Where
    a person shares what the machine has with a program, it may run for as long as it likes: they
    sit before it."""
    from bailiwick.build import open as open_scope
    from bailiwick.build.homes import default_state_dir
    from bailiwick.commands import HostShare
    from bailiwick.limits import Limits

    with ExitStack() as stack:
        state = default_state_dir()
        if _holds(directory, state):
            state = stack.enter_context(tempfile.TemporaryDirectory(prefix="bailiwick-"))
            if purpose != "looking" or _holds(directory, state):
                raise Unsupported(
                    "this directory holds the state of Bailiwick itself",
                    hint="set $XDG_STATE_HOME to a directory outside of it, or name a part with -p",
                )
        options: OpenOptions = {
            "trusted": purpose != "looking",
            "hardlinks": "allow",
            "state_dir": state,
            "limits": Limits() if share is None else unhurried(),
        }
        opening: AbstractAsyncContextManager[Scope]
        if over:
            options["commands"] = share or HostShare()
            options["history"] = "on" if purpose == "versions" else "off"
            opening = open_scope(f"overlay:{directory}", **options)
        elif purpose == "versions" and _is_there(directory):
            opening = _with_past(directory, share)
        else:
            options["commands"] = share or HostShare()
            # A path object is a directory, whatever its name looks like.
            opening = open_scope(Path(directory), **options)
        async with opening as scope:
            yield scope


def unhurried() -> Limits:
    """For programs that may run as long as they like: a person sits before them."""
    from bailiwick.limits import Limits

    return Limits(session_seconds_max=0)


@asynccontextmanager
async def _with_past(directory: str, share: HostShare | None) -> AsyncIterator[Scope]:
    """A directory with the state that all who work in it share, for the person who typed this."""
    from bailiwick.build.served import named_places, open_served, state_for
    from bailiwick.commands import HostShare
    from bailiwick.limits import Limits
    from bailiwick.operations import ALL_ACCESS

    places = named_places([directory])
    async with open_served(
        places, None, state_for(places), history="on", surface="none", noted=False,
        commands=share or HostShare(),
        limits=Limits() if share is None else unhurried(),
    ) as authority:  # fmt: skip
        scope = await authority.request_root(
            at_terminal(), next(iter(places)), ALL_ACCESS, "typed at a terminal", front="cli"
        )
        try:
            yield scope
        finally:
            await scope.aclose()


def _is_there(directory: str) -> bool:
    return os.path.isdir(directory)


def _holds(directory: str, inner: str) -> bool:
    outer, inner = os.path.realpath(directory), os.path.realpath(inner)
    return os.path.commonpath((outer, inner)) == outer
