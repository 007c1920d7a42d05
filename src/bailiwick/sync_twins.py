"""What a scope gives, for blocking code: the same methods, each made of the one that it waits for.

Not a second implementation: a method hands the coroutine of its namesake to the portal.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from bailiwick.paths import PathText, ScopedPath
from bailiwick.runs import RunInfo
from bailiwick.sandbox import Piece
from bailiwick.scope import Lease, Scope
from bailiwick.scope.execution import Execution
from bailiwick.scope.review import Review
from bailiwick.scope.runs import Run, RunPage
from bailiwick.scope.sessions import Session
from bailiwick.scope.working_copies import OpenWork

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Behind = TypeVar("Behind")
Twin = TypeVar("Twin", bound="SyncTwin[Any]")


class SyncTwin(Generic[Behind]):
    """Stands for something asynchronous in blocking code."""

    def __init__(self, behind: Behind, run: Callable[..., Any]) -> None:
        """``run`` has a coroutine run to its end where ``behind`` belongs: `Portal.run`."""
        self._behind = behind
        self._run = run


def blocking(
    method: Callable[Concatenate[Any, Arguments], Coroutine[Any, Any, Result]],
    let_go: Callable[[Result], Coroutine[Any, Any, object]] | None = None,
) -> Callable[Concatenate[Any, Arguments], Result]:
    """The blocking twin of a method: same arguments, same result, same errors.

    The method is looked up by its name: what a server has has methods of its own.
    """
    name = method.__name__
    more: dict[str, Any] = {} if let_go is None else {"let_go": let_go}

    @functools.wraps(method)
    def run(me: SyncTwin[Any], /, *given: Arguments.args, **options: Arguments.kwargs) -> Result:
        result: Result = me._run(getattr(me._behind, name)(*given, **options), **more)
        return result

    return run


def giving(
    method: Callable[Concatenate[Any, Arguments], Any], twin: type[Twin]
) -> Callable[Concatenate[Any, Arguments], Twin]:
    """The blocking twin of a method that gives something asynchronous: the ``twin`` of that, which
    has begun."""
    name = method.__name__

    @functools.wraps(method)
    def run(me: SyncTwin[Any], /, *given: Arguments.args, **more: Arguments.kwargs) -> Twin:
        begun = me._run(_begin(lambda: getattr(me._behind, name)(*given, **more)), let_go=_let_go)
        return twin(begun, me._run)

    return returning(run, twin.__name__)


def returning(run: Callable[Arguments, Result], what: str) -> Callable[Arguments, Result]:
    """A function that is said to return something else than the one it was made of."""
    signature = inspect.signature(run).replace(return_annotation=what)
    run.__signature__ = signature  # type: ignore[attr-defined]
    return run


async def _begin(make: Callable[[], Any]) -> Any:
    """Make it on the loop that it is to belong to, and await or enter it. On a server it is opened
    by this."""
    made = make()
    return await (made if inspect.isawaitable(made) else made.__aenter__())


async def _let_go(given: Any) -> None:
    """Leave what nobody got. By its own method: one on a server is of another class."""
    await given.__aexit__(None, None, None)


async def next_of(values: AsyncGenerator[Result, None]) -> Result | None:
    return await anext(values, None)


async def close(values: AsyncGenerator[Any, None]) -> None:
    await values.aclose()


class Entered(SyncTwin[Behind]):
    """What is left, once, by a ``with`` or otherwise."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._run(_let_go(self._behind), stoppable=False)


class SyncExecution(Entered[Execution]):
    """An `Execution` for blocking code, started already: iterate over its output, then ask for its
    result."""

    @property
    def request_id(self) -> str:
        return self._behind.request_id

    def __iter__(self) -> Iterator[Piece]:
        return self.output()

    def output(self, since: int = 0) -> Iterator[Piece]:
        """What it prints, from a sequence number on, to its end."""
        pieces = self._behind.output(since)
        try:
            while (piece := self._run(next_of(pieces))) is not None:
                yield piece
        finally:
            self._run(close(pieces), stoppable=False)

    result = blocking(Execution.result)
    write = blocking(Execution.write)
    close_input = blocking(Execution.close_input)
    send_signal = blocking(Execution.send_signal)
    resize = blocking(Execution.resize)

    def close(self) -> None:
        """End it, with everything it started; what it changed until then is not brought back."""
        self.__exit__()


class SyncSession(Entered[Session]):
    """A `Session` for blocking code, to be entered or closed."""

    @property
    def id(self) -> str:
        return self._behind.id

    @property
    def lost(self) -> tuple[str, ...]:
        return self._behind.lost

    @property
    def env(self) -> dict[str, str]:
        return self._behind.env

    @property
    def cwd(self) -> PathText:
        return self._behind.cwd

    @cwd.setter
    def cwd(self, cwd: PathText) -> None:
        self._behind.cwd = cwd

    exec = giving(Session.exec, SyncExecution)
    publish = blocking(Session.publish)
    discard = blocking(Session.discard)
    changes = blocking(Session.changes)
    diff = blocking(Session.diff)

    def close(self) -> None:
        """End every command that is under way, and keep what was not published."""
        self.__exit__()


class SyncWork(Entered[OpenWork]):
    """An `OpenWork` for blocking code, to be entered or closed."""

    @property
    def id(self) -> str:
        return self._behind.id

    changes = blocking(OpenWork.changes)
    diff = blocking(OpenWork.diff)
    apply = blocking(OpenWork.apply)
    discard = blocking(OpenWork.discard)

    def close(self) -> None:
        self.__exit__()


class SyncLease(Entered[Lease]):
    """A `Lease` for blocking code: ``with fs.lock("a") as lease``."""

    @property
    def path(self) -> ScopedPath:
        return self._behind.path

    @property
    def token(self) -> int:
        return self._behind.token

    @property
    def expires_ns(self) -> int:
        return self._behind.expires_ns

    renew = blocking(Lease.renew)

    def release(self) -> bool:
        """Give it back. Returns whether it was still held."""
        held: bool = self._run(self._behind.release(), stoppable=False)
        return held


class SyncRun(SyncTwin[Run]):
    """A `Run` for blocking code."""

    @property
    def info(self) -> RunInfo:
        return self._behind.info

    def __getattr__(self, name: str) -> Any:
        return getattr(self.info, name)

    def __repr__(self) -> str:
        return repr(self._behind)

    changes = blocking(Run.changes)
    undo = blocking(Run.undo)


class SyncReview(SyncTwin[Review]):
    """A `Review` for blocking code."""

    queue = blocking(Review.queue)
    accept = blocking(Review.accept)
    reject = blocking(Review.reject)
    notes = blocking(Review.notes)


class LooksAtRuns(SyncTwin[Scope]):
    """The verbs of a scope about runs, for blocking code."""

    def runs(
        self,
        *,
        since_ns: int | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        brief: bool = False,
    ) -> RunPage[SyncRun]:
        """What agents did here, run by run: see `Scope.runs`."""
        asked = self._behind.runs(since_ns=since_ns, limit=limit, cursor=cursor, brief=brief)
        found = self._run(asked)
        return RunPage([SyncRun(each, self._run) for each in found], found.next_cursor)

    def run_info(self, run: str) -> SyncRun:
        """One run: see `Scope.run_info`."""
        return SyncRun(self._run(self._behind.run_info(run)), self._run)

    run_changes = blocking(Scope.run_changes)

    @property
    def review(self) -> SyncReview:
        """What is left to look at of what agents did, and verdicts on it: see `Scope.review`."""
        return SyncReview(self._behind.review, self._run)
