"""Reviews, for blocking code."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from bailiwick.paths import PathText
from bailiwick.reviews import ReviewNote, ReviewQueue, ReviewResult
from bailiwick.scope.review import Review


class SyncReview:
    """A `Review` for blocking code."""

    def __init__(self, review: Review, finish: Callable[..., Any]) -> None:
        """``finish`` has a coroutine run to its end where the scope belongs: `Portal.run`."""
        self._review = review
        self._finish = finish

    def queue(
        self,
        *,
        run: str | None = None,
        paths: Sequence[PathText] = (),
        cursor: str | None = None,
        limit: int | None = None,
    ) -> ReviewQueue:
        """What is left, by path, in hunks: see `Review.queue`."""
        found: ReviewQueue = self._finish(
            self._review.queue(run=run, paths=paths, cursor=cursor, limit=limit)
        )
        return found

    def notes(self) -> list[ReviewNote]:
        """What people took back of what the holder did: see `Review.notes`."""
        found: list[ReviewNote] = self._finish(self._review.notes())
        return found

    def accept(
        self,
        ids: Collection[str] | str = (),
        *,
        run: str | None = None,
        paths: Sequence[PathText] = (),
    ) -> ReviewResult:
        """Agree to hunks as they are now: see `Review.accept`."""
        done: ReviewResult = self._finish(self._review.accept(ids, run=run, paths=paths))
        return done

    def reject(
        self,
        ids: Collection[str] | str = (),
        *,
        run: str | None = None,
        paths: Sequence[PathText] = (),
        note: str | None = None,
        preview: bool = False,
        insist: bool = False,
    ) -> ReviewResult:
        """Take hunks back, and tell the agent: see `Review.reject`."""
        done: ReviewResult = self._finish(
            self._review.reject(
                ids, run=run, paths=paths, note=note, preview=preview, insist=insist
            )
        )
        return done
