"""The verbs of a scope about reviews: what is left to look at of what agents did, and verdicts."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import msgspec

from bailiwick import operations
from bailiwick.call import Call
from bailiwick.commands import PlacedCopy
from bailiwick.errors import FileTooLarge, IoError, ParseError, PathNotFound
from bailiwick.finishing import in_thread, to_the_end
from bailiwick.grant import subject_stands_above
from bailiwick.late_module import LateModule
from bailiwick.paths import PathText, ScopedPath
from bailiwick.proposal import Proposal
from bailiwick.reviews import (
    NoteHolder,
    QueuePage,
    ReviewBook,
    ReviewNote,
    ReviewQueue,
    ReviewResult,
    check_note,
)
from bailiwick.scope.core import seen_from
from bailiwick.scope.runs import RunVerbs
from bailiwick.scope.working_copies import WorkVerbs
from bailiwick.versions import recalls

if TYPE_CHECKING:
    from bailiwick.verbs.review import queue as review_verbs
    from bailiwick.verbs.review import unapplied
    from bailiwick.verbs.review.apart import ApartChanges
    from bailiwick.verbs.review.queue import ReviewPart, ReviewSpoken
    from bailiwick.verbs.runs.story_contents import StoryContent
    from bailiwick.verbs.working_copies import bring_back

    Prepared = Callable[[Call], Awaitable[Proposal[ReviewSpoken]]]
else:
    review_verbs = LateModule("bailiwick.verbs.review.queue")
    unapplied = LateModule("bailiwick.verbs.review.unapplied")
    bring_back = LateModule("bailiwick.verbs.working_copies.bring_back")


class ReviewedPart(NamedTuple):
    """What somebody looks at, or says something of: of what agents did in the tree, or of what a
    working copy or a fork would do to it."""

    ids: Collection[str] | str = ()
    run: str | None = None
    paths: Sequence[PathText] = ()
    work: str | None = None
    fork: str | None = None


class Review:
    """What agents did that nobody has agreed to yet, and what a person says of it.

    Hunks and runs are named by their ids, or beginnings of them, and a file of a run by
    ``RUN:PATH``. ``run`` and ``paths`` mean what is left of a run, or lies in some paths. A hunk
    that is named as ``ID@VERSION`` is the one that was shown with that version of its file.

    With ``work`` or ``fork`` it is what is not in the tree yet, of a working copy or a fork: what
    is accepted is applied or merged, what is rejected is given up there. Without ids and paths all
    of it is meant.
    """

    def __init__(self, scope: Reviews) -> None:
        self._scope = scope

    async def queue(
        self,
        *,
        run: str | None = None,
        paths: Sequence[PathText] = (),
        cursor: str | None = None,
        limit: int | None = None,
        work: str | None = None,
        fork: str | None = None,
        brief: bool = False,
    ) -> ReviewQueue:
        """What is left, by path, in hunks: ``limit`` files of it, from a ``cursor`` on. ``brief``
        counts hunks and does not show them."""
        part = ReviewedPart((), run, paths, work, fork)
        return await self._scope._review_queue(part, QueuePage(cursor, limit, bool(brief)))

    async def accept(
        self,
        ids: Collection[str] | str = (),
        *,
        run: str | None = None,
        paths: Sequence[PathText] = (),
        work: str | None = None,
        fork: str | None = None,
        text: str | None = None,
        over: bool = False,
    ) -> ReviewResult:
        """Agree to hunks as they are now. A later change of the same lines is another hunk, and
        what restores what was agreed to is none. Of a working copy or a fork they come into the
        tree: where anything stands against it, that is told and nothing is changed.

        One file of those that was changed in the tree, too, is settled by a ``text`` that it
        becomes, or, with ``over``, by what it is there, whatever stands in the tree. Its hunk is
        named as ``ID@VERSION``; raises `HashMismatch` where either side is another by now."""
        part = ReviewedPart(ids, run, paths, work, fork)
        return await self._scope._review_accept(part, text, over)

    async def reject(
        self,
        ids: Collection[str] | str = (),
        *,
        run: str | None = None,
        paths: Sequence[PathText] = (),
        note: str | None = None,
        preview: bool = False,
        insist: bool = False,
        work: str | None = None,
        fork: str | None = None,
    ) -> ReviewResult:
        """Take hunks back, by what stands there now, and tell the agent, with a ``note``. Where
        anything stands against it, that is told and nothing is changed. While the agent is in the
        middle of a call or a command it is `Busy`, unless the person does ``insist``."""
        part = ReviewedPart(ids, run, paths, work, fork)
        return await self._scope._review_reject(part, note, preview, insist)

    async def notes(self) -> list[ReviewNote]:
        """What people took back of what the holder of this scope did, and why; each is told
        once. Fronts tell it with the next result."""
        return await self._scope._review_notes()


class Reviews(Protocol):
    """A scope, here or on a server, as far as reviews ask it."""

    async def _review_queue(self, part: ReviewedPart, page: QueuePage) -> ReviewQueue: ...

    async def _review_accept(
        self, part: ReviewedPart, text: str | None, over: bool
    ) -> ReviewResult: ...

    async def _review_reject(
        self, part: ReviewedPart, note: str | None, preview: bool, insist: bool
    ) -> ReviewResult: ...

    async def _review_notes(self) -> list[ReviewNote]: ...


class ReviewVerbs(RunVerbs, WorkVerbs):
    """What people say of what agents did here."""

    @property
    def review(self) -> Review:
        """The queue of what agents did that nobody has agreed to, and verdicts on it."""
        return Review(self)

    def _part(self, part: ReviewedPart) -> ReviewPart:
        meant = [part.run, part.work, part.fork]
        if sum(each is not None for each in meant) > 1:
            raise ParseError("what is reviewed is a run, a working copy or a fork: one of them")
        if not all(each is None or (isinstance(each, str) and each) for each in meant):
            raise ParseError("runs, working copies and forks are named by text")
        return review_verbs.part_of(part.ids, part.run, self._places_of(part.paths))

    async def _review_queue(self, part: ReviewedPart, page: QueuePage) -> ReviewQueue:
        meant = self._part(part)

        async def of_fork(call: Call) -> ReviewQueue:
            assert part.fork is not None
            changes = await unapplied.of_fork(call, part.fork, self._pipeline.runs)
            return await unapplied.shown(call, changes, meant, page)

        def asked(scope: Self, prepare: Callable[[Call], Awaitable[ReviewQueue]]) -> Any:
            return scope._run(
                operations.READ, "review", scope._top, prepare, cursor=page.cursor, limit=page.limit
            )

        if part.work is not None:
            async with self._work_of(part.work) as (scope, copy, whose):

                async def of_copy(call: Call) -> ReviewQueue:
                    seen = await unapplied.of_copy(call, copy, whose, scope._pipeline.runs)
                    return await unapplied.shown(call, seen.changes, meant, page)

                found: ReviewQueue = await asked(scope, of_copy)
        elif part.fork is not None:
            found = await asked(self, of_fork)
        else:
            found = await asked(
                self, lambda call: review_verbs.queue(call, self._pipeline.runs, meant, page)
            )
        return found

    async def _review_accept(
        self, part: ReviewedPart, text: str | None, over: bool
    ) -> ReviewResult:
        meant, settling = self._part(part), self._settling(part, text, over)
        if part.work is not None:
            async with self._work_of(part.work) as (scope, copy, whose):
                done = await scope._spoken(
                    "accept",
                    lambda call: unapplied.accept_copy(
                        call, scope._ignores, copy, whose, scope._pipeline.runs, meant, settling
                    ),
                )
                await scope._let_go_if_settled(copy, done)
                return done
        if part.fork is not None and settling is not None:
            return await self._settle_fork(part.fork, meant, settling)
        if part.fork is not None:
            name = part.fork
            return await self._spoken(
                "accept",
                lambda call: unapplied.accept_fork(
                    call,
                    self._ignores,
                    name,
                    meant,
                    self._pipeline.runs,
                    is_own=name == self._lent.own_branch,
                ),
            )
        review_verbs.refuse_nothing(meant)
        return await self._spoken(
            "accept", lambda call: review_verbs.accept(call, self._pipeline.runs, meant)
        )

    def _settling(
        self, part: ReviewedPart, text: str | None, over: bool
    ) -> unapplied.Settling | None:
        if text is None and not over:
            return None
        if text is not None and (over or not isinstance(text, str)):
            raise ParseError("a file is settled by a text, or by what it is apart: one of them")
        if part.work is None and part.fork is None:
            raise ParseError("what is in the tree already is not settled", hint="work= or fork=")
        try:
            data = None if text is None else text.encode()
        except UnicodeEncodeError:
            raise ParseError("a text has to be one that UTF-8 can hold") from None
        if data is not None and len(data) > self.limits.text_write_bytes_max:
            raise FileTooLarge(
                "the text is too long", details={"limit": self.limits.text_write_bytes_max}
            )
        return unapplied.Settling(data)

    async def _settle_fork(
        self, name: str, meant: ReviewPart, settling: unapplied.Settling
    ) -> ReviewResult:
        """A text comes into the fork as well, and there first: what both hold is settled. Where a
        server has ended between the two, the tree is what is left."""
        changes = await self._looked_at(
            lambda call: unapplied.of_fork(call, name, self._pipeline.runs)
        )
        key = self._caller.key
        in_fork = None if key is None else hashlib.sha256(key + b"fork").digest()
        half = None if in_fork is None else await self._written_under(in_fork)
        change = changes.settled(meant.ids, half)

        def settled(scope: Self, stands: StoryContent | None) -> Awaitable[ReviewResult]:
            return scope._spoken(
                "accept",
                lambda call: unapplied.settle_fork(
                    call, scope._ignores, changes, change, settling, stands
                ),
            )

        if settling.text is not None and half is None:
            fork = await self.open_fork(name)
            try:
                under = fork._as_called(key=in_fork, foretell=None)
                done = await settled(under, change.each.theirs)
            finally:
                await to_the_end(fork.aclose())
            if done.conflicts:
                return done
        return await settled(self, change.now)

    async def _written_under(self, key: bytes) -> ScopedPath | None:
        """The file that was written under a key, where one was."""
        log = recalls(self._pipeline.store)
        made = None if log is None else await log.made_under(key)
        return next((each.change.path for each in made or () if each.written), None)

    async def _review_reject(
        self, part: ReviewedPart, note: str | None, preview: bool, insist: bool
    ) -> ReviewResult:
        meant, words = self._part(part), check_note(note, self.limits.review_note_characters_max)
        if part.work is not None:
            async with self._work_of(part.work) as (scope, copy, whose):
                runs = scope._pipeline.runs

                async def look(call: Call) -> ApartChanges:
                    return (await unapplied.of_copy(call, copy, whose, runs)).changes

                await scope._wait_for_all(meant, look, preview or insist is True)
                done = await scope._spoken(
                    "reject",
                    lambda call: unapplied.reject_copy(
                        call, copy, whose, runs, meant, words, preview=preview
                    ),
                    preview,
                )
                await scope._let_go_if_settled(copy, done)
                return done
        if part.fork is not None:
            return await self._reject_in_fork(part.fork, meant, words, preview, insist is True)
        review_verbs.refuse_nothing(meant)
        return await self._spoken(
            "reject",
            lambda call: review_verbs.reject(
                call, self._ignores, self._pipeline.runs, meant, words, preview=preview,
                insist=insist is True,
            ),
            preview,
        )  # fmt: skip

    async def _reject_in_fork(
        self, name: str, meant: ReviewPart, note: str, preview: bool, insist: bool
    ) -> ReviewResult:
        runs = self._pipeline.runs
        changes = await self._wait_for_all(
            meant, lambda call: unapplied.of_fork(call, name, runs), preview or insist
        )
        fork = await self.open_fork(name)
        try:
            return await fork._spoken(
                "reject",
                lambda call: unapplied.reject_fork(
                    call, fork._ignores, changes, meant, note, preview=preview
                ),
                preview,
            )
        finally:
            await to_the_end(fork.aclose())

    @asynccontextmanager
    async def _work_of(self, id: str) -> AsyncGenerator[tuple[Self, PlacedCopy, NoteHolder], None]:
        """A working copy, the scope that it is applied by, and whose doing it is."""

        async def refused(call: Call) -> None:
            review_verbs.refuse_agents(call)

        if not subject_stands_above(str(self.subject)):
            await self._run(operations.READ, "review", self._top, refused)
        known = {each.id: NoteHolder(each.subject, each.via) for each in await self._known_work()}
        if id not in known:
            raise PathNotFound("there is no such working copy", hint="`bailiwick work list`")
        async with await self.open_work(id) as work:
            scope, copy = work.parts()
            assert isinstance(scope, type(self))
            yield scope, copy, known[id]
            left = await copy.alterations()
            if not left.any_left:
                await copy.discard(left)

    async def _let_go_if_settled(self, copy: PlacedCopy, done: ReviewResult) -> None:
        """Where everything was spoken of, what may be left was only touched: it is in the tree just
        so, and nobody has to decide about it."""
        if done.left or done.preview:
            return
        left = await copy.alterations()
        settled = await self._run(
            operations.READ, "review", self._top,
            lambda call: bring_back.is_settled(call, copy, left),
        )  # fmt: skip
        if settled:
            await copy.discard(left)

    async def _wait_for_all(
        self, meant: ReviewPart, look: Callable[[Call], Awaitable[ApartChanges]], insist: bool
    ) -> ApartChanges:
        """What is meant, once those whose doing it is have ended what they are in the middle of:
        they are let finish it, for a moment."""

        changes = await self._looked_at(look)
        await in_thread(changes.chosen, meant.ids, meant.paths)
        runs, wait_s = self._pipeline.runs, self.limits.review_wait_seconds_max
        subjects = {change.each.whose.subject for change in changes.changes} - {""}
        if subjects and not insist and runs is not None:
            await review_verbs.refuse_at_work(runs, subjects, str(self.root), wait_s)
        return changes

    async def _looked_at(self, look: Callable[[Call], Awaitable[ApartChanges]]) -> ApartChanges:
        async def looked_at(call: Call) -> ApartChanges:
            review_verbs.refuse_agents(call)
            return await look(call)

        return await self._run(operations.READ, "review", self._top, looked_at)

    async def _spoken(self, verb: str, prepare: Prepared, preview: bool = False) -> ReviewResult:
        """A verdict: on record as the call that it is, and then kept, also where whoever said it is
        gone by then: what it changed is changed, and the agent has to be told."""
        done: ReviewSpoken | None = None
        begun: set[str] = set()

        async def noted(call: Call) -> Proposal[ReviewResult]:
            proposal = self._foretelling(verb, self._announcing(await prepare(call), begun))

            def spoken(told: ReviewSpoken) -> ReviewResult:
                nonlocal done
                done = told
                return told.result

            return review_verbs.then(proposal, spoken)

        try:
            result: ReviewResult = await self._run(
                operations.VERSION, verb, self._top, noted, preview=preview
            )
        finally:
            try:
                if done is not None:
                    await to_the_end(self._keep_verdict(done))
            finally:
                for request in begun:
                    self._reviews.over(request)
        return result

    def _announcing(
        self, proposal: Proposal[ReviewSpoken], begun: set[str]
    ) -> Proposal[ReviewSpoken]:
        """A verdict that takes something back, put down before: what has come to pass of it is kept
        by whoever looks next, should that not be kept here."""
        foretold, look = proposal.foretold, proposal.last_look
        said = None if foretold is None else foretold().said
        if said is None or said.branch is None:
            return proposal

        async def last_look() -> None:
            if look is not None:
                await look()
            await self._reviews.announce(said)
            begun.add(said.request_id)

        return msgspec.structs.replace(proposal, last_look=last_look)

    @property
    def _reviews(self) -> ReviewBook:
        return review_verbs.required(self._pipeline.runs)[1]

    async def _keep_verdict(self, done: ReviewSpoken) -> None:
        """For `lost_answers`, too: what nobody has kept yet."""
        runs = self._pipeline.runs
        if done.said is None or runs is None or runs.reviews is None:
            return
        try:
            await runs.reviews.keep(done.said, done.result)
        except IoError as error:
            if done.said.branch is None:
                raise
            raise _not_kept_yet(error, done.said.request_id) from error

    def _has_review_notes(self) -> bool:
        """For `front_access`, as is what follows it."""
        runs = self._pipeline.runs
        if runs is None or runs.reviews is None:
            return False
        return runs.reviews.has_notes(str(self.root), self._note_holder)

    async def _review_notes(self) -> list[ReviewNote]:
        return await self._notes(taken=True)

    async def _waiting_review_notes(self) -> list[ReviewNote]:
        return await self._notes(taken=False)

    @property
    def _note_holder(self) -> NoteHolder:
        return NoteHolder.of(self.grant, self._caller.front)

    async def _notes(self, *, taken: bool) -> list[ReviewNote]:
        runs = self._pipeline.runs
        if runs is None or runs.reviews is None:
            return []
        book, grant = runs.reviews, self.grant
        notes = await (book.take_notes if taken else book.waiting_notes)(
            str(self.root), self._note_holder,
            lambda path: path.lies_in(grant.base) and grant.reaches(path, False),
            self.limits.review_notes_told_max,
        )  # fmt: skip
        return [seen_from(each, grant.base) for each in notes]


def _not_kept_yet(error: IoError, request: str) -> IoError:
    said = IoError(
        f"it was taken back, but that it was said could not be kept: {error.message}",
        errno=error.errno, hint="the next look at the queue makes up for it",
    )  # fmt: skip
    said.request_id = request
    return said
