"""Waiting for a launcher on the event loop, until its command runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from bailiwick.errors import BailiwickError, IoError
from bailiwick.sandbox import Invocation
from bailiwick.sandboxes import launch as launch_module
from bailiwick.sandboxes.processes import RunningProcess

P = ParamSpec("P")
Begun = TypeVar("Begun", launch_module.Launcher, launch_module.Launched)


async def in_a_thread(launch: Callable[P, Begun], *arguments: P.args, **named: P.kwargs) -> Begun:
    """Whoever is cancelled meanwhile leaves nothing behind."""
    thread = asyncio.ensure_future(asyncio.to_thread(launch, *arguments, **named))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        with contextlib.suppress(BailiwickError, OSError):
            (await thread).abandon()
        raise
    except OSError as error:
        if isinstance(error, BailiwickError):
            raise
        raise IoError(f"a sandbox could not be started: {error.strerror or error}") from error


async def running(
    launched: launch_module.Launched,
    command: Invocation,
    sandbox: str,
    after: Callable[[], None] | None = None,
) -> RunningProcess:
    """The process, when its command has started, or its time was up before that. Raises what else
    kept it from starting. ``after`` it has ended something blocking is done before anybody is
    told."""
    process = RunningProcess(launched.started, command, sandbox, after)
    try:
        said = await launched.report()
        if said == launch_module.READY:
            process.begun()
        elif not (await process.wait()).timed_out:
            complaint = b"".join([piece.data async for piece in process.pieces()])
            raise launch_module.failure(said, complaint, command.limits)
    except BaseException:
        await process.close()
        raise
    finally:
        launched.close()
    return process
