"""The verbs of a remote scope about reviews."""

from __future__ import annotations

from collections.abc import Mapping

from bailiwick.client.runs import RemoteRuns
from bailiwick.client.values import path_text, rebuilt
from bailiwick.errors import ParseError, Unsupported
from bailiwick.reviews import QueuePage, ReviewNote, ReviewQueue, ReviewResult
from bailiwick.scope.review import Review, ReviewedPart


class RemoteReviewing(RemoteRuns):
    """What people say of what agents did on a server."""

    @property
    def review(self) -> Review:
        """The queue of what agents did that nobody has agreed to, and verdicts on it."""
        return Review(self)

    async def _review_queue(self, part: ReviewedPart, page: QueuePage) -> ReviewQueue:
        wanted = [path_text(each) for each in part.paths]
        if len(wanted) > 1:
            raise ParseError("over HTTP one path is asked for at a time")
        query: dict[str, object] = {
            "run": part.run, "path": wanted[0] if wanted else None, "cursor": page.cursor,
            "limit": page.limit, "work": part.work, "ofFork": part.fork,
            "brief": page.brief or None,
        }  # fmt: skip
        told = await self._ask("review", "GET", "/review", query=query, asks=False)
        return rebuilt(ReviewQueue, told)

    async def _review_accept(
        self, part: ReviewedPart, text: str | None, over: bool
    ) -> ReviewResult:
        return await self._said(part, {"accept": _names(part), "text": text, "over": over})

    async def _review_reject(
        self, part: ReviewedPart, note: str | None, preview: bool, insist: bool
    ) -> ReviewResult:
        said = {"reject": _names(part), "note": note, "preview": preview, "insist": insist}
        return await self._said(part, said)

    async def _said(self, part: ReviewedPart, said: Mapping[str, object]) -> ReviewResult:
        body = {**said, "work": part.work, "ofFork": part.fork}
        return rebuilt(ReviewResult, await self._ask("review_result", "POST", "/review", body=body))

    def _has_review_notes(self) -> bool:
        return bool(self._life.notes)

    async def _waiting_review_notes(self) -> list[ReviewNote]:
        return list(self._life.notes)

    async def _review_notes(self) -> list[ReviewNote]:
        """As answers have told them until now."""
        notes, self._life.notes = self._life.notes, []
        return notes


def _names(part: ReviewedPart) -> list[str]:
    """What is meant, in the names of the wire."""
    named = [part.ids] if isinstance(part.ids, str) else list(part.ids)
    of = part.run or part.work or part.fork
    if of is None:
        if part.paths:
            raise Unsupported("over HTTP paths are reviewed by the run that changed them")
        return named
    if named and (part.run is not None or part.paths):
        raise ParseError("over HTTP hunks are named, or a run or paths, not both")
    return named or [f"{of}:{path_text(each)}" for each in part.paths] or [of]
