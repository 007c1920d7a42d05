"""What an overlay lies over, and what was changed on top, until it is closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from bailiwick.build.commands import finish_publishing, kept_of, passing_place, workplace_of
from bailiwick.build.homes import Kept
from bailiwick.build.options import Options
from bailiwick.finishing import in_thread
from bailiwick.grant import Core, Root, Subject
from bailiwick.limits import Limits
from bailiwick.pipeline import LowerTree, Pipeline
from bailiwick.store import Store

if TYPE_CHECKING:
    from bailiwick.build.root_feeds import RootFeed
    from bailiwick.working_copies.overlay_copy import OverlayCopy
    from bailiwick.working_copies.overlay_store import OverlayStore
    from bailiwick.working_copies.temporary_place import TemporaryPlace


class OpenedOverlay(NamedTuple):
    """An overlay that is open: its store, what was changed in it, and where that is kept."""

    store: OverlayStore
    copy: OverlayCopy
    kept: Kept
    passing: TemporaryPlace | None
    """The room that it has on disk, where what it lies over is gone with the process."""

    @property
    def kept_over(self) -> Kept:
        """Where the working copies of the overlay lie: they are of what it shows, and not of the
        tree below, in which they would mean something else."""
        return Kept(self.kept.folder, f"{self.kept.key}.over")

    def joined_to(self, lower: Pipeline) -> OverlayBeneath:
        """With the way to the tree below, whose calls pass through ``lower``."""
        return OverlayBeneath(self, LowerTree(self.copy, lower))

    async def aclose(self) -> None:
        """To be called when its store is closed."""
        try:
            await self.copy.finish()
        finally:
            await _clear(self.passing)


async def open_overlay(
    lower: Store, root: Root, subject: Subject, options: Options, kept: Kept | None = None
) -> OpenedOverlay:
    """What was changed on top of a tree, as it was left; a new one where nothing was. It lies with
    what else is ``kept`` of that tree, by default where whoever opens it looks. Raises `Busy` where
    another process has it open."""
    kept = kept or kept_of(lower, options.state_dir, making=True)
    passing = None
    if kept is None:
        passing = await in_thread(passing_place, options.state_dir, let_go=_clear)
        kept = Kept(passing.path, "memory")
    try:
        workplace = workplace_of(lower, kept, str(root), root.names, options.limits)
        store, copy = await workplace.open_overlay(
            subject=str(subject), symlinks=options.symlinks, limits=options.limits,
            new_file_mode=options.new_file_mode,
        )  # fmt: skip
    except BaseException:
        await _clear(passing)
        raise
    opened = OpenedOverlay(store, copy, kept, passing)
    try:
        if options.trusted:
            await finish_publishing(
                store, root.names, options.limits, options.state_dir, opened.kept_over
            )
    except BaseException:
        copy.let_go()
        await _clear(passing)
        raise
    return opened


async def _clear(place: TemporaryPlace | None) -> None:
    if place is not None:
        await in_thread(place.remove)


class OverlayBeneath(NamedTuple):
    """An overlay, and the way to the tree below."""

    opened: OpenedOverlay
    beneath: LowerTree

    async def aclose(self) -> None:
        """To be called when the overlay itself is closed."""
        await self.opened.aclose()
        self.beneath.pipeline.changes.close()
        await self.beneath.pipeline.aclose()


async def open_beneath(
    root: Root,
    lower: Store,
    options: Options,
    kept: Kept | None,
    feed_of: Callable[[str, Store, Limits], Awaitable[RootFeed]],
    pipeline: Callable[[Store, RootFeed], Pipeline],
) -> OverlayBeneath:
    """The overlay of a tree. What is applied is a change of the tree, and not of the overlay, which
    shows it already: it is told in a feed of its own, and counts for no quota a second time, for
    which ``pipeline`` is made. It lies with what else is ``kept`` of a directory, where whoever
    opens that finds it."""
    opened = await open_overlay(lower, root, Core("host"), options, kept)
    try:
        feed = await feed_of(f"{root}/beneath", lower, options.limits)
    except BaseException:
        opened.copy.let_go()
        await _clear(opened.passing)
        raise
    return opened.joined_to(pipeline(lower, feed))
