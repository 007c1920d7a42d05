"""What is told of the roots of an authority."""

from __future__ import annotations

from collections.abc import Sequence

from bailiwick.audit import LedgerRecord
from bailiwick.build.log_feed import StoreFeed
from bailiwick.change_log import Logs
from bailiwick.model import Change
from bailiwick.paths import ScopedPath
from bailiwick.state.feed import DurableFeed
from bailiwick.store import Store

RootFeed = DurableFeed | StoreFeed


def feed_of_branch(store: Store) -> StoreFeed:
    assert isinstance(store, Logs)
    return StoreFeed(store.log)


def tell_interrupted(feed: DurableFeed, root: str, interrupted: Sequence[LedgerRecord]) -> None:
    """What a process had begun to change when it died may have been changed or not."""
    for record in interrupted:
        if record.root != root or record.path is None:
            continue
        for path in filter(None, (record.path, record.destination)):
            feed.publish(
                [
                    Change(
                        kind="rescan", path=ScopedPath(path), type="other",
                        subject=record.subject, request_id=record.request_id,
                    )
                ]
            )  # fmt: skip
