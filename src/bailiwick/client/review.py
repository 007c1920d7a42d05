"""The verbs of a remote scope about reviews."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bailiwick.client.runs import RemoteRuns
from bailiwick.client.values import path_text, rebuilt
from bailiwick.errors import ParseError, Unsupported
from bailiwick.paths import PathText
from bailiwick.reviews import ReviewNote, ReviewQueue, ReviewResult


class RemoteReview:
    """What agents did on a server that nobody has agreed to yet, and what a person says of it."""

    def __init__(self, scope: RemoteReviewing) -> None:
        self._scope = scope

    async def queue(
        self,
        *,
        run: str | None = None,
        paths: Sequence[PathText] = (),
        cursor: str | None = None,
        limit: int | None = None,
    ) -> ReviewQueue:
        """What is left, by path, in hunks."""
        wanted = [path_text(each) for each in paths]
        if len(wanted) > 1:
            raise ParseError("over HTTP one path is asked for at a time")
        query: dict[str, object] = {
            "run": run, "path": wanted[0] if wanted else None, "cursor": cursor, "limit": limit,
        }  # fmt: skip
        told = await self._scope._ask("review", "GET", "/review", query=query, asks=False)
        return rebuilt(ReviewQueue, told)

    async def accept(
        self,
        ids: Collection[str] | str = (),
        *,
        run: str | None = None,
        paths: Sequence[PathText] = (),
    ) -> ReviewResult:
        """Agree to hunks as they are now."""
        return await self._say({"accept": _names(ids, run, paths)})

    async def reject(
        self,
        ids: Collection[str] | str = (),
        *,
        run: str | None = None,
        paths: Sequence[PathText] = (),
        note: str | None = None,
        preview: bool = False,
        insist: bool = False,
    ) -> ReviewResult:
        """Take hunks back, and tell the agent."""
        named = _names(ids, run, paths)
        return await self._say(
            {"reject": named, "note": note, "preview": preview, "insist": insist}
        )

    async def notes(self) -> list[ReviewNote]:
        """What people took back of what the holder did, as answers have told it until now."""
        return await self._scope._review_notes()

    async def _say(self, body: dict[str, object]) -> ReviewResult:
        return rebuilt(
            ReviewResult, await self._scope._ask("review_result", "POST", "/review", body=body)
        )


def _names(ids: Collection[str] | str, run: str | None, paths: Sequence[PathText]) -> list[str]:
    """What is meant, in the names of the wire."""
    named = [ids] if isinstance(ids, str) else list(ids)
    if run is None:
        if paths:
            raise Unsupported("over HTTP paths are reviewed by the run that changed them")
        return named
    if named:
        raise ParseError("over HTTP hunks are named, or a run, not both")
    return [f"{run}:{path_text(each)}" for each in paths] or [run]


class RemoteReviewing(RemoteRuns):
    """What people say of what agents did on a server."""

    @property
    def review(self) -> RemoteReview:
        """The queue of what agents did that nobody has agreed to, and verdicts on it."""
        return RemoteReview(self)

    def _has_review_notes(self) -> bool:
        return bool(self._life.notes)

    async def _review_notes(self) -> list[ReviewNote]:
        notes, self._life.notes = self._life.notes, []
        return notes
