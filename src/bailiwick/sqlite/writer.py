"""The one thread that writes: whatever waits when it comes round shares one transaction.

A commit that is to survive a power cut costs a sync of the disk, whatever is in it. So tasks that
arrive while a commit is under way are done together in the next one (group commit). Each has its
own savepoint: one that raises is undone alone.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast

import apsw

from bailiwick.errors import FORKED, Busy, Closed, IoError
from bailiwick.finishing import CLOSED, cancel_at_next_await, wait_through_cancellation
from bailiwick.patience import level, never_begun
from bailiwick.sqlite.failures import from_sqlite
from bailiwick.sqlite.fork_safety import wait_for_at_fork
from bailiwick.sqlite.pace import CommitPace
from bailiwick.sqlite.tasks import Task, TaskDone, Watched

_log = logging.getLogger("bailiwick.sqlite")

Result = TypeVar("Result")

_NO_TURN = nullcontext()

_GROUP_TASKS_MAX = 1_024
"""Tasks of one transaction: it keeps other processes waiting, and readers of a private memory."""

_MOMENT_S = 0.000_5
"""So long an event loop may stand still for a commit that is expected to be quick. Waiting for it
in place takes 10 to 20 microseconds more than the commit, being called back by it 30 to 60; a disk
that has become slow is then waited for like anything else."""


_Tried = tuple[Task, TaskDone]


class Frame:
    """What its owner does around every transaction, on the writer's thread. This one does nothing.

    What `begin` and `committing` raise undoes the transaction.
    """

    def begin(self) -> None:
        """The transaction has begun: nobody else can write until it ends."""

    def end_by(self, until: float) -> None:
        """After `begin`: when the patience of those ends who share the transaction, by the
        monotonic clock."""

    def committing(self, *, control: bool) -> AbstractContextManager[None] | None:
        """What surrounds the commit, if anything; ``control`` says that a task in it was marked
        so."""
        return None

    def undone(self) -> None:
        """The whole transaction was undone, or not even begun."""

    def wait(self, patiently: bool) -> None:
        """Whether the connection waits from now on when another process holds the lock. At first
        it does."""


class WriterThread:
    """Runs tasks on its own thread, in the order they were put, several in a transaction."""

    def __init__(
        self,
        connection: apsw.Connection,
        *,
        whose: str,
        frame: Frame,
        turn: AbstractContextManager[Any] | None = None,
        inline_s: float = 0.0,
        never_waits: bool = False,
        here_s: float = 0.0,
    ) -> None:
        """``whose`` database it is, for errors and the thread's name. ``turn`` is held during a
        transaction: readers of the same connection take it too.

        While transactions take less than ``inline_s``, the caller of a task that comes alone
        stands still for a moment until it is done. Where the database ``never_waits`` for a disk,
        being kept in memory, such a task is done on the thread it comes from, without the ``turn``.

        While commits take less than ``here_s``, `run_here` works on the thread that it is called
        on, in the ``turn``: for what is so small that to go to another thread and back takes
        several times as long, with company or without.
        """
        self.transactions = 0
        self.failures = 0
        self.broken = False
        self.last_error: str | None = None
        self.last_errno: int | None = None
        self._connection = connection
        # Kept: to make a cursor for every statement takes as long as some of them.
        self._execute = connection.cursor().execute
        self._whose = whose
        self._frame = frame
        self._turn = turn
        self._queue: SimpleQueue[Task | None] = SimpleQueue()
        self._putting = threading.Lock()
        self._closed = False
        self._hint: str | None = None
        self._running: TaskDone | None = None
        self.busy = threading.Lock()
        """Held by whoever uses the connection: who takes it may ask something in between."""
        self._pace = CommitPace(inline_s, here_s)
        self._never_waits = never_waits
        self._patient = True
        self._thread = threading.Thread(target=self._serve, name=f"bailiwick-{whose}", daemon=True)
        self._thread.start()
        wait_for_at_fork(self)

    @property
    def is_here(self) -> bool:
        return threading.current_thread() is self._thread

    @property
    def is_closing(self) -> bool:
        return self._closed

    def put(self, task: Task) -> None:
        """Queue a task. Raises `Closed`."""
        with self._putting:
            if self._closed:
                raise Closed(f"the {self._whose} is closed", hint=self._hint)
            self._queue.put(task)

    async def run(
        self,
        job: Callable[[apsw.Connection], Result],
        *,
        control: bool = False,
        begun_within_s: float | None = None,
    ) -> Result:
        """Run ``job`` in a transaction, and return what it returned: durable when this returns.

        Cancelled before its turn the job never runs; later it is carried to its end, and the
        cancellation is delivered at the next await. Raises `Busy` where its turn does not come
        within ``begun_within_s`` seconds, and then it never runs either, `Closed`, and what the job
        raised.
        """
        alone = self._pace.goes_on() or await self._pace.is_alone()
        inline = alone and self._never_waits and self._queue.empty()
        done = self._run_inline(job, control=control) if inline else None
        if done is not None:
            return cast(Result, done.unwrap())
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Result] = loop.create_future()
        until = None if begun_within_s is None else time.monotonic() + begun_within_s
        task = Task(job, partial(_settle, waiting), loop, control=control, until=until)
        if alone and not self._never_waits:
            done = self._run_watched(task)
            if done is not None:
                return cast(Result, done.unwrap())
        if task.watched is None:
            self.put(task)
        try:
            with _withdrawn_after(begun_within_s, task, waiting):
                return await waiting
        except CLOSED:
            if not task.claim():
                self._pass()
            raise
        except asyncio.CancelledError:
            if task.claim():
                raise  # its turn had not come: it never will
            if waiting.cancelled():
                # What it comes to is told on this thread, so nothing can come in between; it may
                # have been told already, to one who no longer listened.
                waiting = loop.create_future()
                task.ended = partial(_settle, waiting)
                if task.outcome is not None:
                    _end(task, task.outcome)
                await wait_through_cancellation(waiting)
            if waiting.exception() is not None:
                raise  # nothing was changed
            cancel_at_next_await()
            return waiting.result()

    def run_here(
        self,
        job: Callable[[apsw.Connection], Any],
        ended: Callable[[BaseException | None], None] | None = None,
    ) -> TaskDone | None:
        """Run a small ``job`` on the caller's thread while commits are quick, before what is
        queued; None where it has to be awaited, and nothing was done. ``ended`` is told how it went
        before anybody else writes."""
        if not self._pace.is_quick:
            return None
        return self._run_here(job, turn=self._turn, ended=ended)

    def run_inline(self, job: Callable[[apsw.Connection], Any]) -> TaskDone | None:
        """Run ``job`` on the caller's thread, without anything to await; None where it has to be
        awaited, and nothing was done. What it raises is found in what is returned."""
        if self._never_waits and self._pace.goes_on() and self._queue.empty():
            return self._run_inline(job, control=False)
        return None

    def _run_inline(
        self, job: Callable[[apsw.Connection], Any], *, control: bool
    ) -> TaskDone | None:
        begun = time.perf_counter()
        done = self._run_here(job, control=control)
        if done is not None:
            self._pace.took(time.perf_counter() - begun)
        return done

    def _run_watched(self, task: Task) -> TaskDone | None:
        """Have a task done, and stand still for a moment until it is. None where it takes longer,
        or others are before it."""
        if not self._queue.empty() or self.busy.locked():
            return None
        task.watched = Watched()
        self.put(task)
        return task.watched.wait(_MOMENT_S)

    def run_blocking(
        self, job: Callable[[apsw.Connection], Result], *, control: bool = False
    ) -> Result:
        """Run ``job`` in a transaction for a thread without an event loop, which waits for it."""
        waiting: concurrent.futures.Future[Result] = concurrent.futures.Future()
        self.put(Task(job, partial(_settle, waiting), None, control=control))
        return waiting.result()

    def _pass(self) -> None:
        """Wait until whatever was put before has been done. Blocks."""
        try:
            self.run_blocking(lambda _: None)
        except Closed:
            self._thread.join()

    def on_commit(self, action: Callable[[], None]) -> None:
        """For use inside a task: run ``action`` on this thread once the task is committed."""
        if self._running is None:
            raise RuntimeError("there is no task under way on this thread")
        self._running.committed.append(action)

    def close(self) -> None:
        """Do what is queued, then end the thread. Closing twice does nothing."""
        with self._putting:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        if not self.is_here:
            self._thread.join()
            with self.busy:
                pass  # a task that is done elsewhere has come to its end

    def abandon(self) -> None:
        """Be closed from now on, in a forked child that does not have the thread."""
        self._putting = threading.Lock()  # another thread may have held it
        self.busy = threading.Lock()
        self._closed = True
        self._hint = FORKED

    # --- on the thread ---------------------------------------------------------------------

    def _serve(self) -> None:
        open_ = True
        while open_:
            tasks, open_ = self._gather()
            if open_ and all(task.still_due is not None for task in tasks):
                tasks = [task for task in tasks if self._is_due(task)]
            for together in _of_one_patience(tasks):
                self._do([task for task in together if task.claim()])

    def _do(self, mine: list[Task]) -> None:
        if not mine:
            return
        with self.busy:
            begun = time.perf_counter()
            tried = self._run_together(mine)
        if len(mine) == 1:
            self._pace.took(time.perf_counter() - begun)
        self._deliver(tried)

    def _gather(self) -> tuple[list[Task], bool]:
        """What is to be done next, and whether more can come. Waits until the first is due."""
        queue, tasks = self._queue, list[Task]()
        due = float("inf")
        while len(tasks) < _GROUP_TASKS_MAX:
            wait_s = due - time.monotonic() if due else 0.0
            try:
                if not tasks or not queue.empty():
                    task = queue.get()  # nobody else takes anything out of it
                elif wait_s > 0.0:
                    task = queue.get(timeout=wait_s)
                else:
                    break
            except Empty:
                break
            if task is None:
                return tasks, False
            tasks.append(task)
            due = min(due, task.due)
        return tasks, True

    def _is_due(self, task: Task) -> bool:
        """Whether a task that nothing else is done with has to be done now. One that has not is
        put back, or given up where there is nothing left for it to do."""
        due = None if task.still_due is None else task.still_due()
        if due is None:
            return False
        task.due = due
        if due <= time.monotonic():
            return True
        try:
            self.put(task)
        except Closed:
            return True
        return False

    def _run_here(
        self,
        job: Callable[[apsw.Connection], Any],
        *,
        control: bool = False,
        turn: AbstractContextManager[Any] | None = None,
        ended: Callable[[BaseException | None], None] | None = None,
    ) -> TaskDone | None:
        """Do a job on the caller's thread. None where it has to be queued after all."""
        if not self.busy.acquire(blocking=False):
            return None
        done = TaskDone()
        try:
            if self._closed:
                return None
            if turn is None:
                self._transaction_of_one(job, control, done, patiently=False)
            else:
                with turn:
                    self._transaction_of_one(job, control, done, patiently=False)
        except BaseException as error:
            self._frame.undone()
            if not done.is_begun:
                return None  # another process has its turn
            self._note_failure(error)
            done.error = done.error or error
        finally:
            if ended is not None and done.is_begun:
                _run_guarded(ended, None if done.is_kept else done.error)
            self.busy.release()
        if done.error is not None or done.committed:
            self._finish(done)
        return done

    def _wait(self, *, patiently: bool) -> None:
        """Nearly all transactions in a row are begun on one thread, so it is said seldom. In the
        turn: nothing of a connection may be used while another thread reads on it."""
        self._patient = patiently
        self._frame.wait(patiently)

    def _run_together(self, tasks: list[Task]) -> list[_Tried]:
        """Do all tasks, in one transaction unless SQLite undoes one of its own accord."""
        waiting = deque(tasks)
        tried: list[_Tried] = []
        while waiting:
            group: list[TaskDone] = []
            together = list(waiting)
            try:
                with self._turn or _NO_TURN:
                    if len(waiting) == 1:
                        task = waiting.popleft()
                        group.append(TaskDone())
                        self._transaction_of_one(task.job, task.control, group[0], until=task.until)
                    else:
                        self._transaction(waiting, group)
            except BaseException as error:
                # Nothing of this transaction is kept. What failed by itself says why.
                self._frame.undone()
                self._note_failure(error)
                if not group:  # not even begun: whoever waits would fare no better
                    group += [TaskDone(error) for _ in together]
                    waiting.clear()
                for each in group:
                    each.error = each.error or error
            tried += zip(together, group, strict=False)
        return tried

    def _transaction(self, waiting: deque[Task], group: list[TaskDone]) -> None:
        """Do what waits and commit it; ``group`` gets what was tried."""
        connection, control = self._connection, False
        if not self._patient:
            self._wait(patiently=True)
        changes = connection.total_changes()
        untils = [task.until for task in waiting if task.until is not None]
        self._execute("BEGIN IMMEDIATE")
        try:
            self._frame.begin()
            if untils:
                self._frame.end_by(min(untils))
            while waiting:
                task = waiting.popleft()
                self._try(task.job, group)
                control = control or (task.control and group[-1].error is None)
            self._commit(control=control)
        except BaseException:
            if connection.in_transaction:
                self._execute("ROLLBACK")
            raise
        if connection.total_changes() != changes:
            self.transactions += 1
            self.broken = False

    def _transaction_of_one(
        self,
        job: Callable[[apsw.Connection], Any],
        control: bool,
        attempt: TaskDone,
        *,
        patiently: bool = True,
        until: float | None = None,
    ) -> None:
        """One job as a transaction, without a savepoint: what is to be undone is all there is."""
        connection, execute = self._connection, self._execute
        if self._patient != patiently:
            self._wait(patiently=patiently)
        changes = connection.total_changes()
        execute("BEGIN IMMEDIATE")
        try:
            self._frame.begin()
            if until is not None:
                self._frame.end_by(until)
            self._running = attempt
            attempt.is_begun = True
            try:
                attempt.result = job(connection)
            except BaseException as error:
                attempt.error = error
                self._note_failure(error)
                if connection.total_changes() != changes or not connection.in_transaction:
                    raise
            finally:
                self._running = None
            self._commit(control=control and attempt.error is None)
            attempt.is_kept = attempt.error is None
        except BaseException:
            if connection.in_transaction:
                execute("ROLLBACK")
            raise
        if connection.total_changes() != changes:
            self.transactions += 1
            self.broken = False

    def _commit(self, *, control: bool) -> None:
        around = self._frame.committing(control=control)
        begun = time.perf_counter()
        if around is None:
            self._execute("COMMIT")
        else:
            with around:
                self._execute("COMMIT")
        self._pace.committed(time.perf_counter() - begun)

    def _try(self, job: Callable[[apsw.Connection], Any], group: list[TaskDone]) -> None:
        connection, execute = self._connection, self._execute
        attempt = TaskDone()
        group.append(attempt)
        execute("SAVEPOINT task")
        self._running = attempt
        try:
            attempt.result = job(connection)
        except BaseException as error:
            attempt.error = error
            self._note_failure(error)
            # After a full disk, say, SQLite may have undone everything, the others' work too.
            if not connection.in_transaction:
                raise
            execute("ROLLBACK TO task")
        finally:
            self._running = None
        execute("RELEASE task")

    def _note_failure(self, error: BaseException) -> None:
        """Remember a failure of the machine; that a task refused its caller is none, also where it
        told them to come again. A database that is busy has an error of its own as the cause."""
        told_to_come_again = isinstance(error, Busy) and error.__cause__ is None
        if isinstance(error, apsw.Error):
            error = from_sqlite(error, self._whose)
        if isinstance(error, IoError | Busy) and not told_to_come_again:
            self.broken = True
            self.last_error, self.last_errno = str(error), error.errno

    def _finish(self, done: TaskDone) -> None:
        """Put an error of SQLite in our words, and do what was to be done after the commit."""
        if isinstance(done.error, apsw.Error):
            cause = done.error
            done.error = from_sqlite(cause, self._whose)
            done.error.__cause__ = cause
        if done.error is None:
            for action in done.committed:
                _run_guarded(action)

    def _deliver(self, tried: list[_Tried]) -> None:
        """Tell everybody, those of one event loop in one go."""
        by_loop: dict[asyncio.AbstractEventLoop, list[_Tried]] = {}
        for task, done in tried:
            self._finish(done)
            watched = task.watched
            if watched is not None and watched.answer(done):
                continue
            if task.loop is None:
                _end(task, done)
            else:
                by_loop.setdefault(task.loop, []).append((task, done))
        for loop, ended in by_loop.items():
            try:
                loop.call_soon_threadsafe(_end_all, ended)
            except RuntimeError:
                _log.debug("an event loop was closed before its writes were acknowledged")


def _of_one_patience(tasks: list[Task]) -> list[list[Task]]:
    """Those who share a transaction, in their order: where somebody's patience may end before it,
    only those who are about as patient. The most patient come first, and with them what nobody
    waits for: whoever waits after that goes by it."""
    if all(task.until is None for task in tasks):
        return [tasks]
    now = time.monotonic()
    by_level: dict[int, list[Task]] = {}
    for task in tasks:
        by_level.setdefault(level(task.until, now), []).append(task)
    return [by_level[each] for each in sorted(by_level, reverse=True)]


def _end_all(tried: list[_Tried]) -> None:
    for task, done in tried:
        _end(task, done)


def _end(task: Task, done: TaskDone) -> None:
    task.outcome = done
    _run_guarded(task.ended, done.result, done.error)


def _run_guarded(action: Callable[..., None], *given: object) -> None:
    """What others asked to be called must not end the writer's thread."""
    try:
        action(*given)
    except Exception as error:
        _log.error("a callback of a writer failed", exc_info=error)


def _withdrawn_after(
    seconds: float | None, task: Task, waiting: asyncio.Future[Any]
) -> AbstractContextManager[None]:
    """Have a task never run whose turn does not come while it is waited for so long."""
    return _NO_TURN if seconds is None else _withdrawing(seconds, task, waiting)


@contextmanager
def _withdrawing(seconds: float, task: Task, waiting: asyncio.Future[Any]) -> Iterator[None]:
    def withdraw() -> None:
        if not waiting.done() and task.claim():
            waiting.set_exception(never_begun())

    timer = waiting.get_loop().call_later(seconds, withdraw)
    try:
        yield
    finally:
        timer.cancel()


def _settle(
    waiting: asyncio.Future[Result] | concurrent.futures.Future[Result],
    result: Result,
    error: BaseException | None,
) -> None:
    if waiting.cancelled():
        return
    if error is None:
        waiting.set_result(result)
    else:
        waiting.set_exception(error)
