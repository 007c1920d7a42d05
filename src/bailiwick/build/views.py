"""The ways in which grants see one root: some more strictly than it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bailiwick.build.places import Background
from bailiwick.build.root_feeds import RootFeed
from bailiwick.errors import Unsupported
from bailiwick.grant import Grant
from bailiwick.pipeline import Pipeline
from bailiwick.store import Narrows, Store


class Views:
    """The pipelines of one root: one for each way in which grants see its links."""

    def __init__(
        self,
        pipeline: Callable[[Store, RootFeed], Pipeline],
        store: Store,
        feed: RootFeed,
        beside: Sequence[Background],
    ) -> None:
        self._make = pipeline
        self._beside = beside
        self._store = store
        self._feed = feed
        self._pipelines = {(None, None): pipeline(store, feed)}

    def pipeline_for(self, grant: Grant) -> Pipeline:
        view: tuple[Any, Any] = grant.symlinks, grant.hardlinks
        pipeline = self._pipelines.get(view)
        if pipeline is None:
            if not isinstance(self._store, Narrows):
                raise Unsupported("this root cannot be seen more strictly than it is")
            store = self._store.narrowed(symlinks=grant.symlinks, hardlinks=grant.hardlinks)
            pipeline = self._pipelines[view] = self._make(store, self._feed)
        return pipeline

    async def aclose(self) -> None:
        for pipeline in self._pipelines.values():
            await pipeline.drain()
        for each in self._beside:
            await each.aclose()
        for pipeline in reversed(self._pipelines.values()):
            await pipeline.aclose()
