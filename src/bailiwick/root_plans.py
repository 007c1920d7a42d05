"""Roots that can be opened, and what they are while they are open."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import msgspec

from bailiwick.grant import Grant, Root
from bailiwick.limits import Limits
from bailiwick.patience import for_nobody
from bailiwick.pipeline import Pipeline
from bailiwick.scope import Scope
from bailiwick.verbs.walks.ignore_files import Ignores

_log = logging.getLogger("bailiwick.authority")


class OpenedRoot(msgspec.Struct, frozen=True, kw_only=True):
    """A root that is open: what its scopes are made of.

    ``pipeline_for`` gives the pipeline for a grant, which may see links more strictly than others.
    """

    pipeline_for: Callable[[Grant], Pipeline]
    ignores: Ignores
    copy_in: tuple[Scope, ...] = ()
    close: Callable[[], Awaitable[None]]


class RootPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A root that can be opened. ``host_path`` is for operators, never for callers."""

    root: Root
    host_path: str | None
    limits: Limits
    open: Callable[[], Awaitable[OpenedRoot]]


async def opened_for_all(plan: RootPlan) -> OpenedRoot:
    """A root that many wait for, each as long as it can: who comes first does not decide for how
    long it is tried."""
    for_nobody()
    return await plan.open()


async def close_root(opened: OpenedRoot) -> None:
    """What one root has to say against being closed must not keep the others open."""
    try:
        await opened.close()
    except Exception as error:
        _log.warning("a root could not be closed properly", exc_info=error)
