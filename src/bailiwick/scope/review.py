"""The verbs of a scope about reviews: what is left to look at of what agents did, and verdicts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from bailiwick import operations
from bailiwick.call import Call
from bailiwick.finishing import to_the_end
from bailiwick.paths import PathText
from bailiwick.proposal import Proposal
from bailiwick.reviews import ReviewNote, ReviewQueue, ReviewResult, check_note
from bailiwick.scope.core import seen_from
from bailiwick.scope.runs import RunVerbs
from bailiwick.verbs.review import queue as review_verbs
from bailiwick.verbs.review.queue import ReviewSpoken


class Review:
    """What agents did that nobody has agreed to yet, and what a person says of it.

    Hunks and runs are named by their ids, or beginnings of them, and a file of a run by
    ``RUN:PATH``. ``run`` and ``paths`` mean what is left of a run, or lies in some paths.
    """

    def __init__(self, scope: ReviewVerbs) -> None:
        self._scope = scope

    async def queue(
        self,
        *,
        run: str | None = None,
        paths: Sequence[PathText] = (),
        cursor: str | None = None,
        limit: int | None = None,
    ) -> ReviewQueue:
        """What is left, by path, in hunks: ``limit`` files of it, from a ``cursor`` on."""
        return await self._scope._review_queue(run, paths, cursor, limit)

    async def accept(
        self,
        ids: Collection[str] | str = (),
        *,
        run: str | None = None,
        paths: Sequence[PathText] = (),
    ) -> ReviewResult:
        """Agree to hunks as they are now. A later change of the same lines is another hunk, and
        what restores what was agreed to is none."""
        return await self._scope._review_accept(ids, run, paths)

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
        """Take hunks back, by what stands there now, and tell the agent, with a ``note``. Where
        anything stands against it, that is told and nothing is changed. While the agent is in the
        middle of a call or a command it is `Busy`, unless the person does ``insist``."""
        return await self._scope._review_reject(ids, run, paths, note, preview, insist)

    async def notes(self) -> list[ReviewNote]:
        """What people took back of what the holder of this scope did, and why; each is told
        once. Fronts tell it with the next result."""
        return await self._scope._review_notes()


class ReviewVerbs(RunVerbs):
    """What people say of what agents did here."""

    @property
    def review(self) -> Review:
        """The queue of what agents did that nobody has agreed to, and verdicts on it."""
        return Review(self)

    async def _review_queue(
        self,
        run: str | None,
        paths: Sequence[PathText],
        cursor: str | None,
        limit: int | None,
    ) -> ReviewQueue:
        part = review_verbs.part_of((), run, self._places_of(paths))
        return await self._run(
            operations.READ, "review", self._top,
            lambda call: review_verbs.queue(call, self._pipeline.runs, part, cursor, limit),
            cursor=cursor, limit=limit,
        )  # fmt: skip

    async def _review_accept(
        self, ids: Collection[str] | str, run: str | None, paths: Sequence[PathText]
    ) -> ReviewResult:
        part = review_verbs.part_of(ids, run, self._places_of(paths))
        return await self._spoken(
            "accept", part, lambda call: review_verbs.accept(call, self._pipeline.runs, part)
        )

    async def _review_reject(
        self,
        ids: Collection[str] | str,
        run: str | None,
        paths: Sequence[PathText],
        note: str | None,
        preview: bool,
        insist: bool,
    ) -> ReviewResult:
        part = review_verbs.part_of(ids, run, self._places_of(paths))
        words = check_note(note)

        def rejected(call: Call) -> Any:
            return review_verbs.reject(
                call, self._ignores, self._pipeline.runs, part, words, preview=preview,
                insist=insist is True,
            )  # fmt: skip

        return await self._spoken("reject", part, rejected, preview)

    async def _spoken(
        self, verb: str, part: review_verbs.ReviewPart, prepare: Any, preview: bool = False
    ) -> ReviewResult:
        """A verdict: on record as the call that it is, and then kept."""
        review_verbs.refuse_nothing(part)
        done: ReviewSpoken | None = None

        async def noted(call: Call) -> Proposal[ReviewResult]:
            proposal: Proposal[ReviewSpoken] = await prepare(call)
            result = proposal.result

            def spoken(outcome: Any) -> ReviewResult:
                nonlocal done
                done = result(outcome)
                return done.result

            return review_verbs.then(proposal, spoken)

        result: ReviewResult = await self._run(
            operations.VERSION, verb, self._top, noted, preview=preview
        )
        if done is not None and done.said is not None:
            _, book = review_verbs.required(self._pipeline.runs)
            await to_the_end(book.keep(done.said))
        return result

    def _has_review_notes(self) -> bool:
        """For `front_access`, as is what follows it."""
        runs = self._pipeline.runs
        if runs is None or runs.reviews is None:
            return False
        return runs.reviews.has_notes(str(self.root), str(self.subject))

    async def _review_notes(self) -> list[ReviewNote]:
        runs = self._pipeline.runs
        if runs is None or runs.reviews is None:
            return []
        grant = self.grant
        notes = await runs.reviews.take_notes(
            str(self.root), str(self.subject),
            lambda path: path.lies_in(grant.base) and grant.reaches(path, False),
        )  # fmt: skip
        return [seen_from(each, self.grant.base) for each in notes]
