"""What an overlay of an authority lies over, until its root is closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from bailiwick.build.commands import open_overlay
from bailiwick.build.homes import Kept
from bailiwick.build.options import Options
from bailiwick.build.root_feeds import RootFeed
from bailiwick.grant import Core, Root
from bailiwick.model import Limits
from bailiwick.pipeline import LowerTree, Pipeline
from bailiwick.store import Store

if TYPE_CHECKING:
    from bailiwick.working_copies.overlay_copy import OverlayCopy


class OverlayBeneath(NamedTuple):
    """The store of an overlay, what was changed in it, and the way to the tree below."""

    store: Store
    copy: OverlayCopy
    beneath: LowerTree

    async def aclose(self) -> None:
        """To be called when the overlay itself is closed."""
        await self.copy.finish()
        self.beneath.pipeline.changes.close()
        await self.beneath.pipeline.aclose()


async def open_beneath(
    root: Root,
    lower: Store,
    options: Options,
    kept: Kept,
    feed_of: Callable[[str, Store, Limits], Awaitable[RootFeed]],
    pipeline: Callable[[Store, RootFeed], Pipeline],
) -> OverlayBeneath:
    """The overlay of a directory. What is applied is a change of the directory, and not of the
    overlay, which shows it already: it is told in a feed of its own, and counts for no quota a
    second time, for which ``pipeline`` is made. It lies with what else is ``kept`` of the
    directory, where whoever opens that finds it."""
    store, copy = await open_overlay(lower, root, Core("host"), options, kept)
    try:
        feed = await feed_of(f"{root}/beneath", lower, options.limits)
    except BaseException:
        copy.let_go()
        raise
    return OverlayBeneath(store, copy, LowerTree(copy, pipeline(lower, feed)))
