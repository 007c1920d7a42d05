"""Opening a directory of this machine, also one that holds Bailiwick's own state: a home does.

Whoever may change a directory could forge what is noted there about unfinished changes, so a store
refuses to keep its notes inside its own tree. Who only looks makes no notes: they get an empty
place for them elsewhere, and a scope that cannot change anything.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bailiwick.errors import Unsupported

if TYPE_CHECKING:
    from bailiwick.commands import HostShare
    from bailiwick.model import Limits
    from bailiwick.scope import Scope

Purpose = Literal["looking", "changing", "versions"]
"""What a directory is opened for. Its past is kept, and looked at, only where that is needed: who
looks does not wait for it, and what is brought in or out is not remembered twice."""


@asynccontextmanager
async def open_directory(
    directory: str, purpose: Purpose, share: HostShare | None = None
) -> AsyncIterator[Scope]:
    """A scope on a directory. Links between files inside are as they are for their owner. Where
    a person shares what the machine has with a program, it may run for as long as it likes: they
    sit before it."""
    from bailiwick.build import open as open_scope
    from bailiwick.build.stores import default_state_dir
    from bailiwick.commands import HostShare
    from bailiwick.model import Limits

    place = Path(directory)  # a path object is a directory, whatever its name looks like
    with ExitStack() as stack:
        state = default_state_dir()
        if _holds(directory, state):
            state = stack.enter_context(tempfile.TemporaryDirectory(prefix="bailiwick-"))
            if purpose != "looking" or _holds(directory, state):
                raise Unsupported(
                    "this directory holds the state of Bailiwick itself",
                    hint="set $XDG_STATE_HOME to a directory outside of it, or name a part with -p",
                )
        async with open_scope(
            place,
            trusted=purpose != "looking",
            hardlinks="allow",
            state_dir=state,
            history="on" if purpose == "versions" else "off",
            commands=share or HostShare(),
            limits=Limits() if share is None else unhurried(),
        ) as scope:
            yield scope


def unhurried() -> Limits:
    """For programs that may run as long as they like: a person sits before them."""
    from bailiwick.model import Limits

    return Limits(session_seconds_max=0)


def _holds(directory: str, inner: str) -> bool:
    outer, inner = os.path.realpath(directory), os.path.realpath(inner)
    return os.path.commonpath((outer, inner)) == outer
