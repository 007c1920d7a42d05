"""Reviews, for blocking code."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from bailiwick.scope.review import Review

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _blocking(
    method: Callable[Concatenate[Review, Arguments], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[SyncReview, Arguments], Result]:
    @wraps(method)
    def done(self: SyncReview, *args: Arguments.args, **more: Arguments.kwargs) -> Result:
        result: Result = self._finish(method(self._review, *args, **more))
        return result

    return cast("Callable[Concatenate[SyncReview, Arguments], Result]", done)


class SyncReview:
    """A `Review` for blocking code: what it has takes and returns the same."""

    def __init__(self, review: Review, finish: Callable[..., Any]) -> None:
        """``finish`` has a coroutine run to its end where the scope belongs: `Portal.run`."""
        self._review = review
        self._finish = finish

    queue = _blocking(Review.queue)
    accept = _blocking(Review.accept)
    reject = _blocking(Review.reject)
    notes = _blocking(Review.notes)
