"""The desk where questions lie until a person answers them, or their time is up.

A question is one row, so it survives a restart and can be answered from any process that shares the
state. Each step is a compare-and-swap on the row's state, in one transaction with the rule and the
record that go with it:

    pending ── answer ──▶ granted ── the call goes on ──▶ used
       │  └─── answer ──▶ denied
       └────── time up ─▶ expired
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Literal, NamedTuple, get_args

from bailiwick.approvals import (
    ALLOWING,
    Answer,
    Approval,
    ApprovalState,
    Asker,
    Question,
    Verdict,
)
from bailiwick.audit import AuthorityRecord
from bailiwick.errors import (
    ApprovalDenied,
    ApprovalTimeout,
    ParseError,
    PathNotFound,
)
from bailiwick.grant import Core, User, parse_subject
from bailiwick.limits import Limits
from bailiwick.root_questions import ASKED_VERB
from bailiwick.state.approvals.questions import (
    BRIEF_COLUMNS,
    COLUMNS,
    SHOWN_STATE,
    accountable_in,
    approval_of,
    binding_of,
    find_in,
    insert_in,
    open_in,
    refuse_another,
    roots_asked_in,
    rule_of,
    settle_in,
    shown,
    speaks_for_all,
    use_in,
)
from bailiwick.state.approvals.rules import RuleBook
from bailiwick.state.database import Connection, Database
from bailiwick.state.epoch import current_epoch
from bailiwick.state.grants.book import DAY_NS, Chain, check_limit, new_id, row_of, select
from bailiwick.state.made_once import once
from bailiwick.state.notices.book import NoticeBook

_log = logging.getLogger("bailiwick.approvals")

Surface = Literal["console", "cli", "none"]
"""Where a person can be asked when the front itself cannot ask."""

ANSWERS: tuple[Answer, ...] = get_args(Answer)
STATES: tuple[ApprovalState, ...] = get_args(ApprovalState)

POLL_S = 0.1
"""How soon a waiting call notices what was answered in another process."""

PENDING_MAX = 100
"""Open questions of one subject, and of those it has passed grants on to: more than that nobody
reads, and each may hold a diff."""

KEPT_DAYS = 30
"""How long a settled question stays, to be looked at."""

_LETTING_GO_S = 5.0
"""How long a front may take to withdraw a question that was answered elsewhere."""

HOUR_NS = 3_600 * 1_000_000_000

_PRUNE_EVERY = 64
_PRUNE_ROWS_MAX = 1_000


class ApprovalPage(NamedTuple):
    approvals: list[Approval]
    next_cursor: str | None


class ApprovalDesk:
    """Puts questions to people and remembers what they said.

    ``surface`` names where people look for questions besides the front that asks.
    """

    def __init__(
        self,
        database: Database,
        chain: Chain,
        rules: RuleBook,
        notices: NoticeBook,
        *,
        time_ns: Callable[[], int],
        surface: Surface = "none",
        seconds: float = 300.0,
        poll_s: float = POLL_S,
    ) -> None:
        self._database = database
        self._epoch = database.epoch
        self._chain = chain
        self._rules = rules
        self.notices = notices
        self._time_ns = time_ns
        self._surface = surface
        self._lasts_ns = int(seconds * 1e9)
        self._poll_s = poll_s
        self._put = 0
        self._turn = threading.Lock()
        self.announce: Callable[[Approval], None] = _nobody_else_is_told
        """Called with each question that is put from here, on the writer's thread."""
        self._waiting: dict[str, list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {}

    # --- looking ---------------------------------------------------------------------------

    def interactive(self, front: str) -> bool:
        return self._surface != "none"

    def get(self, approval_id: str, *, brief: bool = False) -> Approval | None:
        """One question; a ``brief`` one without what would be changed."""
        sql = f"SELECT {BRIEF_COLUMNS if brief else COLUMNS} FROM approvals WHERE id = ?"
        rows = self._database.read(sql, (approval_id,))
        return shown(approval_of(rows[0]), self._time_ns()) if rows else None

    def pending(self, *, brief: bool = False) -> list[Approval]:
        """The questions that wait for an answer, oldest first."""
        rows = self._database.read(
            f"SELECT {BRIEF_COLUMNS if brief else COLUMNS} FROM approvals"
            " WHERE state = 'pending' AND expires_ns > ? ORDER BY seq",
            (self._time_ns(),),
        )
        return [approval_of(row) for row in rows]

    def list(
        self, *, state: ApprovalState | None = None, limit: int = 100, cursor: str | None = None
    ) -> ApprovalPage:
        """A page of all questions, newest first."""
        check_limit(limit)
        now = self._time_ns()
        where, given = ["1 = 1"], list[object]()
        if state is not None:
            if state not in STATES:
                raise ParseError(f"an approval is one of {', '.join(STATES)}")
            where.append(f"{SHOWN_STATE} = ?")
            given += (now, state)
        if cursor is not None:
            where.append("seq < ?")
            given.append(row_of(cursor))
        rows = self._database.read(
            f"SELECT {COLUMNS} FROM approvals WHERE {' AND '.join(where)}"
            " ORDER BY seq DESC LIMIT ?",
            (*given, limit + 1),
        )
        page = rows[:limit]
        cursor = str(page[-1][-1]) if len(rows) > limit else None
        return ApprovalPage([shown(approval_of(row), now) for row in page], cursor)

    def next_expiry(self) -> int | None:
        """When the time of the next open question is up."""
        sql = "SELECT min(expires_ns) FROM approvals WHERE state = 'pending'"
        found: int | None = self._database.read(sql)[0][0]
        return found

    # --- asking ----------------------------------------------------------------------------

    async def ask(
        self, question: Question, *, asker: Asker | None, wait_s: float | None
    ) -> Verdict:
        """See `bailiwick.approvals.Approvals`.

        The same question of the same grant, put again while it is open, joins the open one: a
        person is asked once. An answer that was given while nobody waited is used up by the next
        call that asks the same. Cancelled, the question stays open until its time is up.
        """
        if asker is None and not self.interactive(question.front):
            return _by_default(question, None)
        opened = await self._open(question)
        if isinstance(opened, Verdict):
            return opened
        with self._listening(opened.id) as wake:
            asking = None
            if asker is not None:
                asking = asyncio.create_task(self._put_to_front(asker, opened, question.front))
                asking.add_done_callback(lambda _: wake.set())
            try:
                return await self._wait(opened, question, wait_s, wake, asking)
            finally:
                if asking is not None:
                    await _let_go(asking)

    async def redeem(self, approval_id: str, question: Question) -> Verdict:
        def job(connection: Connection) -> Verdict:
            now = self._time_ns()
            approval = find_in(connection, approval_id)
            if approval is None:
                raise ApprovalDenied("there is no such approval")
            # First of all: whoever asks for something else learns nothing about this one.
            refuse_another(approval.question, question)
            if approval.state == "pending" and now < approval.expires_ns:
                raise _still_open(approval)
            if approval.state in {"pending", "expired"} or (
                approval.state == "granted" and now >= approval.expires_ns
            ):
                raise ApprovalTimeout("the time of this approval is up", hint="ask again")
            if approval.state == "denied":
                raise ApprovalDenied("this was refused", decided_by=approval.answered_by)
            if not use_in(connection, approval.id):
                raise _used_already()
            return _verdict(approval, allowed=True)

        return await self._database.write(job)

    async def answer(
        self, approval_id: str, answer: Answer, *, by: str, front: str, request_id: str = ""
    ) -> Approval:
        """Answer a question, for good: of several answers the first counts.

        Raises `PathNotFound` for an unknown id, `ApprovalDenied` where it is answered already or
        ``by`` is not a person or the host, `ApprovalTimeout` where its time is up.
        """
        if answer not in ANSWERS:
            raise ParseError(f"an answer is one of {', '.join(ANSWERS)}")
        # An agent that could reach this must not wave its own questions through.
        if not isinstance(parse_subject(by), User | Core):
            raise ApprovalDenied("only a person or the host can answer")

        answered: Approval | None = None

        def job(connection: Connection) -> None:
            nonlocal answered
            approval = find_in(connection, approval_id)
            now = self._time_ns()
            _refuse_settled(approval, now)
            assert approval is not None
            _refuse_lasting(approval, answer)
            state = "granted" if answer in ALLOWING else "denied"
            # Who was told to come back gets the time to do so, even after a late answer.
            expires_ns = max(approval.expires_ns, now + self._lasts_ns)
            settle_in(connection, approval_id, state)
            connection.execute(
                "UPDATE approvals SET answer = ?, answered_by = ?, answered_ns = ?, expires_ns = ?"
                " WHERE id = ?",
                (answer, by, now, expires_ns, approval_id),
            )
            request = request_id or new_id()
            self._record_in(connection, approval, answer, by, front, request)
            rule = rule_of(approval, answer, by, now)
            if rule is not None:
                self._rules.add_in(connection, rule, front=front, request_id=request)
            self.notices.approval_in(connection, "answered", approval_id)
            self._database.on_commit(lambda: self._wake(approval_id))
            answered = find_in(connection, approval_id)

        await self._database.write_control(once(f"answer {approval_id}", job))
        answered = answered or self.get(approval_id)
        if answered is None:  # it was answered before under the same key, long ago
            raise PathNotFound("there is no such approval")
        return answered

    async def prune(self) -> None:
        """Settle what nobody answered in time, and clear away what was settled long ago."""

        await self._database.write_control(self._prune_in)

    # --- waiting ---------------------------------------------------------------------------

    async def _open(self, question: Question) -> Approval | Verdict:
        """The open question to wait for, or a verdict where it was answered before."""
        self._put += 1
        clear = self._put % _PRUNE_EVERY == 1

        def job(connection: Connection) -> Approval | Verdict:
            now = self._time_ns()
            if clear:
                self._prune_in(connection)
            binding = binding_of(question)
            rows = select(
                connection,
                f"SELECT {COLUMNS} FROM approvals WHERE binding = ? AND grant_id = ?"
                " AND state IN ('pending', 'granted') AND expires_ns > ?"
                " ORDER BY state = 'pending', seq LIMIT 1",
                binding, question.grant_id, now,
            )  # fmt: skip
            if not rows:
                return self._insert_in(connection, question, now)
            approval = approval_of(rows[0])
            if approval.state == "pending":
                return approval
            use_in(connection, approval.id)
            return _verdict(approval, allowed=True)

        return await self._database.write_control(job)

    async def _wait(
        self,
        approval: Approval,
        question: Question,
        wait_s: float | None,
        wake: asyncio.Event,
        asking: asyncio.Task[None] | None,
    ) -> Verdict:
        loop = asyncio.get_running_loop()
        until = None if wait_s is None else loop.time() + wait_s
        looked_under: bytes | None = None
        while True:
            wake.clear()
            seen = current_epoch(self._epoch)
            left_s = (approval.expires_ns - self._time_ns()) / 1e9
            alone = asking is not None and asking.done() and self._nobody_else(approval.id)
            if seen != looked_under or left_s <= 0 or alone:
                looked_under = seen if self._epoch.is_steady(seen) else None
                verdict = await self._take(approval.id, question, give_up=alone)
                if verdict is not None:
                    return verdict
            if until is not None:
                left_s = min(left_s, until - loop.time())
                if loop.time() >= until:
                    raise _still_open(approval)
            timer = loop.call_later(min(self._poll_s, max(left_s, 0)), wake.set)
            try:
                await wake.wait()
            finally:
                timer.cancel()

    async def _take(self, approval_id: str, question: Question, *, give_up: bool) -> Verdict | None:
        """The verdict of a question that is settled, or is so now; None while it is open. The
        default is that of the call at hand: the one it joined may have come by another rule."""
        rows = self._database.read(
            "SELECT state, expires_ns FROM approvals WHERE id = ?", (approval_id,)
        )
        now = self._time_ns()
        if rows and rows[0][0] == "pending" and now < rows[0][1] and not give_up:
            return None

        def job(connection: Connection) -> Verdict | None:
            approval = find_in(connection, approval_id)
            if approval is None:
                raise ApprovalTimeout("the question was cleared away", hint="ask again")
            if approval.state == "pending":
                if not give_up and self._time_ns() < approval.expires_ns:
                    return None
                self._expire_in(connection, approval)
                return _by_default(question, approval.id)
            if approval.state == "expired":
                return _by_default(question, approval.id)
            if approval.state == "denied":
                return _verdict(approval, allowed=False)
            if not use_in(connection, approval.id) and not speaks_for_all(approval):
                raise _used_already()
            return _verdict(approval, allowed=True)

        if rows and rows[0][0] == "pending":
            return await self._database.write_control(job)
        return await self._database.write(job)  # others need not look: it is settled for them

    async def _put_to_front(self, asker: Asker, approval: Approval, front: str) -> None:
        try:
            answer = await asker(approval)
            if answer is not None:
                with suppress(ApprovalDenied, ApprovalTimeout):  # someone was faster
                    await self.answer(approval.id, answer, by=f"user:{front}", front=front)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # out of a task what ends a process would end the event loop
            _log.warning("a front could not ask", extra={"front": front}, exc_info=error)

    def _nobody_else(self, approval_id: str) -> bool:
        """Whether a question is lost once the front that put it has given up."""
        return self._surface == "none" and len(self._waiting.get(approval_id, ())) < 2

    @contextmanager
    def _listening(self, approval_id: str) -> Iterator[asyncio.Event]:
        """An event that is set when the question is answered in this process."""
        mine = (asyncio.get_running_loop(), asyncio.Event())
        with self._turn:
            self._waiting.setdefault(approval_id, []).append(mine)
        try:
            yield mine[1]
        finally:
            with self._turn:
                others = self._waiting[approval_id]
                others.remove(mine)
                if not others:
                    del self._waiting[approval_id]

    def _wake(self, approval_id: str) -> None:
        with self._turn:
            waiting = list(self._waiting.get(approval_id, ()))
        for loop, event in waiting:
            with suppress(RuntimeError):  # a loop that was closed waits for nothing
                loop.call_soon_threadsafe(event.set)

    # --- within a transaction --------------------------------------------------------------

    def _insert_in(self, connection: Connection, question: Question, now_ns: int) -> Approval:
        counts_for = accountable_in(connection, question)
        if open_in(connection, counts_for, now_ns) >= PENDING_MAX:
            raise ApprovalDenied(
                f"{PENDING_MAX} questions of this subject are open already",
                hint="wait until they are answered",
                details={"limit": PENDING_MAX},
            )
        if question.verb == ASKED_VERB:
            self._refuse_more_roots(connection, counts_for, now_ns)
        put = insert_in(connection, question, counts_for, now_ns, now_ns + self._lasts_ns)
        self.notices.approval_in(connection, "asked", put.id)
        self._database.on_commit(lambda: self.announce(put))
        return put

    def _refuse_more_roots(self, connection: Connection, counts_for: str, now_ns: int) -> None:
        limits = Limits()  # there is no root yet that could have its own
        most = limits.asked_roots_max
        if roots_asked_in(connection, counts_for, now_ns - HOUR_NS) >= most:
            raise ApprovalDenied(
                f"this subject has asked for {most} roots within the hour already",
                hint="ask later, or have somebody grant it",
                details={"limit": most},
            )

    def _expire_in(self, connection: Connection, approval: Approval) -> None:
        settle_in(connection, approval.id, "expired")
        self.notices.approval_in(connection, "expired", approval.id)
        front = approval.question.front
        self._record_in(connection, approval, "none", "default", front, new_id())
        self._database.on_commit(lambda: self._wake(approval.id))

    def _prune_in(self, connection: Connection) -> None:
        now = self._time_ns()
        for row in select(
            connection,
            f"SELECT {COLUMNS} FROM approvals WHERE state = 'pending' AND expires_ns <= ?",
            now,
        ):
            self._expire_in(connection, approval_of(row))
        connection.execute(
            "DELETE FROM approvals WHERE seq IN (SELECT seq FROM approvals"
            f" WHERE state <> 'pending' AND expires_ns < ? LIMIT {_PRUNE_ROWS_MAX})",
            (now - KEPT_DAYS * DAY_NS,),
        )
        self._rules.prune_in(connection)

    def _record_in(
        self,
        connection: Connection,
        approval: Approval,
        answer: str,
        by: str,
        front: str,
        request_id: str,
    ) -> None:
        question = approval.question
        record = AuthorityRecord(
            time_ns=self._time_ns(), request_id=request_id, subject=by, act="approve",
            root=question.root, grant_id=question.grant_id, front=front, reason=question.reason,
            details={
                "approval": approval.id, "answer": answer, "asked_by": str(question.subject),
                "operation": question.operation, "verb": question.verb,
                "path_count": str(question.paths_total), "default": question.default,
                "request": question.request_id,
            },
        )  # fmt: skip
        self._chain(connection, record)


def _nobody_else_is_told(approval: Approval) -> None:
    pass


# --- verdicts and refusals ---------------------------------------------------------------------


def _by_default(question: Question, approval_id: str | None) -> Verdict:
    return Verdict(allowed=question.default == "allow", approval_id=approval_id, by="default")


def _verdict(approval: Approval, *, allowed: bool) -> Verdict:
    return Verdict(allowed=allowed, approval_id=approval.id, by=approval.answered_by or "default")


def _still_open(approval: Approval) -> ApprovalTimeout:
    return ApprovalTimeout(
        "nobody has answered yet",
        hint=f"send the same request with the approval {approval.id} once it is granted",
        details={
            "approval_id": approval.id, "expires_ns": approval.expires_ns, "pending": True,
        },
    )  # fmt: skip


def _used_already() -> ApprovalDenied:
    return ApprovalDenied("this approval was used by another call already", hint="ask again")


def _refuse_settled(approval: Approval | None, now_ns: int) -> None:
    if approval is None:
        raise PathNotFound("no approval has this id")
    if approval.answer is not None:
        raise ApprovalDenied(f"already answered by {approval.answered_by}: {approval.answer}")
    if approval.state != "pending" or now_ns >= approval.expires_ns:
        raise ApprovalTimeout("the time of this question is up")


def _refuse_lasting(approval: Approval, answer: Answer) -> None:
    """A root is granted with an end, which stands in the question."""
    if approval.question.verb == ASKED_VERB and answer not in ("once", "no"):
        raise ParseError(
            f"a root is not granted {answer!r} by an answer",
            hint="answer once, which grants it for the time that is asked for, or no",
        )


async def _let_go(asking: asyncio.Task[None]) -> None:
    asking.cancel()
    _, still = await asyncio.wait([asking], timeout=_LETTING_GO_S)
    if still:
        _log.warning("a front does not withdraw its question")
