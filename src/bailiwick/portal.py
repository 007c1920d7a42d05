"""Blocking code's way to a scope: the same verbs, run on one event loop in a thread of its own.

Not a second implementation: every method of `SyncScope` hands the coroutine of the `Scope` verb of
the same name to the portal and waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import sys
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Generator, Mapping
from typing import Any, ClassVar, Concatenate, ParamSpec, Self, TypeVar

from bailiwick.approvals import Asker
from bailiwick.errors import FORKED, BailiwickError, Closed
from bailiwick.first_step import LentLoop
from bailiwick.grant import Grant, Root, Subject
from bailiwick.handed_over import HandedOver
from bailiwick.held_signals import unbroken
from bailiwick.limits import Limits
from bailiwick.model import Change, ChangeResult
from bailiwick.operations import Access
from bailiwick.paths import PathText, ScopedPath
from bailiwick.scope import Lease, Scope
from bailiwick.scope.execution import Execution
from bailiwick.scope.sessions import Session
from bailiwick.sync_execution import SyncExecution
from bailiwick.sync_runs import LooksAtRuns
from bailiwick.sync_session import SyncSession
from bailiwick.sync_work import OpensWork

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Portal:
    """An event loop in a thread, which runs coroutines for threads that have none.

    All blocking scopes of a process share one (`borrow`), so that one can copy from another: a
    store belongs to one loop.
    """

    _shared: ClassVar[Portal | None] = None
    # Taken again by whom they are held: a handler of a signal, or what the collector ends, may call
    # anything.
    _sharing: ClassVar[threading.RLock] = threading.RLock()
    _all: ClassVar[weakref.WeakSet[Portal]] = weakref.WeakSet()

    def __init__(self) -> None:
        self._borrowers = 0
        self._loop = LentLoop()
        self._lock = threading.RLock()
        self._closed = False
        self._forked = False
        self._thread = threading.Thread(target=self._serve, name="bailiwick-portal", daemon=True)
        self._thread.start()
        Portal._all.add(self)

    @classmethod
    def borrow(cls) -> Portal:
        """The portal of this process, made for the first who asks; `give_back` it."""
        with cls._sharing:
            if cls._shared is None:
                cls._shared = Portal()
            cls._shared._borrowers += 1
            return cls._shared

    def give_back(self) -> None:
        """The last to give it back closes it."""
        with Portal._sharing:
            self._borrowers -= 1
            last = self._borrowers == 0
            if last and Portal._shared is self:
                Portal._shared = None
        if last:
            self.close()

    @classmethod
    def forget_after_fork(cls) -> None:
        """A forked child has the portals' memory but not their threads: all are closed there."""
        cls._shared = None
        cls._sharing = threading.RLock()
        for portal in cls._all:
            portal._lock = threading.RLock()  # another thread may have held it
            portal._closed = portal._forked = True

    def run(
        self,
        coroutine: Coroutine[Any, Any, Result],
        *,
        stoppable: bool = True,
        let_go: Callable[[Result], Coroutine[Any, Any, object]] | None = None,
    ) -> Result:
        """Run to the end and return the result.

        What a signal raises here meanwhile asks the coroutine to stop, unless it is not
        ``stoppable``, and comes out when it has ended. What it had returned all the same is given
        to ``let_go``: nobody else will. Raises `RuntimeError` on the portal's own thread, which
        would wait for itself forever.
        """
        if self._loop.is_here:
            coroutine.close()
            raise RuntimeError(
                "a blocking scope was called on its own event loop, which would never end: "
                "call it from another thread"
            )
        if self._forked:
            self._refuse_forked(coroutine)
        work = HandedOver(self._loop, coroutine, submit=self._submit, stoppable=stoppable)
        try:
            return work.wait()
        except BaseException:
            unwanted = work.result
            if let_go is not None and unwanted is not None:
                with contextlib.suppress(BailiwickError):
                    self.run(let_go(unwanted), stoppable=False)
            raise
        finally:
            del work  # it holds what was raised, which holds this frame

    async def run_for(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine for a caller on another event loop, which goes on meanwhile."""
        self._refuse_forked(coroutine)
        return await HandedOver(self._loop, coroutine, submit=self._submit).wait_here()

    def _refuse_forked(self, coroutine: Coroutine[Any, Any, object]) -> None:
        if self._forked:
            coroutine.close()
            raise Closed("this scope is closed", hint=FORKED)

    def _submit(self, call: Callable[[], object]) -> bool:
        with self._lock:
            if self._closed:
                return False
            self._loop.call_soon_threadsafe(call)
            return True

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop on which all of it is run: for whoever has to hand work to it without waiting
        in a thread, such as a library that is told which loop to use."""
        return self._loop

    @property
    def is_here(self) -> bool:
        """Whether the calling thread is the portal's own, or has borrowed its loop."""
        return self._loop.is_here

    def end(self, chunks: AsyncGenerator[Any, None]) -> None:
        """Close a stream that was begun here, from whatever thread lets go of it."""
        if self.is_here:  # as when it is collected there: this thread cannot wait for itself
            self.run_later(_close(chunks))
            return
        with contextlib.suppress(Closed):  # a closed portal has ended the stream already
            self.run(_close(chunks), stoppable=False)

    def run_later(self, coroutine: Coroutine[Any, Any, object]) -> None:
        """Have something run that nobody waits for."""
        if not self._submit(functools.partial(self._loop.create_task, coroutine)):
            coroutine.close()

    def close(self) -> None:
        """Wait for what other threads run here, then end the loop. Closing twice does nothing."""
        with self._lock:
            if not self._closed:
                self._loop.lend_no_more()
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._closed = True
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _serve(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        try:
            self._run_forever()
            while tasks := asyncio.all_tasks(loop):
                loop.run_until_complete(asyncio.wait(tasks))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            loop.close()  # here, as whoever waits for it may be interrupted

    def _run_forever(self) -> None:
        """Until it is stopped: what a task raises is told to whoever waits for that task."""
        while True:
            try:
                self._loop.run_forever()
            except (KeyboardInterrupt, SystemExit):
                continue
            return


os.register_at_fork(after_in_child=Portal.forget_after_fork)


class Stay:
    """A scope on the portal of this process, from its opening to its closing.

    Whatever signals raise meanwhile, it is either not open or can be ended; one that is let go of
    ends by itself."""

    def __init__(self) -> None:
        self._portal: Portal | None = None
        self._scope: Scope | None = None

    def begin(self, opening: Coroutine[Any, Any, Scope]) -> SyncScope:
        """Open it. Raises what opening does."""
        try:
            unbroken(self._borrow)
            assert self._portal is not None
            self._portal.run(self._open(opening))
            assert self._scope is not None
            return SyncScope(self._scope, self._portal, self)
        except BaseException:
            opening.close()
            self.end()
            raise

    def _borrow(self) -> None:
        self._portal = Portal.borrow()

    async def _open(self, opening: Coroutine[Any, Any, Scope]) -> None:
        self._scope = await opening

    def end(self) -> None:
        """Close it. Ending twice does nothing."""
        unbroken(self._end)

    def _end(self) -> None:
        portal, scope = self._portal, self._scope
        self._portal = self._scope = None
        if portal is None:
            return
        if portal.is_here:  # collected there: this thread cannot wait for itself
            portal.run_later(_part(scope, portal))
            return
        try:
            if scope is not None:
                portal.run(scope.aclose(), stoppable=False)
        finally:
            portal.give_back()

    def __del__(self) -> None:
        if not sys.is_finalizing():  # then there is no loop any more that could close it
            with contextlib.suppress(Closed):  # a forked child has nothing to close
                self.end()


async def _part(scope: Scope | None, portal: Portal) -> None:
    try:
        if scope is not None:
            await scope.aclose()
    finally:
        portal.give_back()


def _blocking(
    verb: Callable[Concatenate[Scope, Arguments], Coroutine[Any, Any, Result]],
    let_go: Callable[[Result], Coroutine[Any, Any, object]] | None = None,
) -> Callable[Concatenate[SyncScope, Arguments], Result]:
    """The blocking twin of a verb: same arguments, same result, same errors.

    The verb is looked up by its name: a scope on a server has verbs of its own.
    """
    name = verb.__name__

    @functools.wraps(verb)
    def run(scope: SyncScope, /, *arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        work: Coroutine[Any, Any, Result] = getattr(scope._scope, name)(*arguments, **options)
        return scope._portal.run(work, let_go=let_go)

    run.__qualname__ = f"SyncScope.{name}"
    return run


def _executing(
    verb: Callable[Concatenate[Scope, Arguments], Execution],
) -> Callable[Concatenate[SyncScope, Arguments], SyncExecution]:
    """The blocking twin of a verb that runs a program."""
    name = verb.__name__

    @functools.wraps(verb)
    def run(me: SyncScope, /, *given: Arguments.args, **more: Arguments.kwargs) -> SyncExecution:
        begin = SyncExecution.begin(lambda: getattr(me._scope, name)(*given, **more))
        execution = me._portal.run(begin, let_go=_let_go)
        return SyncExecution(execution, me._portal.run)

    return run


async def _hush(end: Callable[[], None]) -> None:
    """End what nobody got the end of."""
    end()


class SyncScope(OpensWork, LooksAtRuns):
    """A `Scope` for blocking code. See `Scope` for what each verb does."""

    def __init__(self, scope: Scope, portal: Portal, stay: Stay | None = None) -> None:
        """``stay`` ends when nobody has it any more."""
        self._scope = scope
        self._portal: Portal = portal
        self._stay = stay

    def __repr__(self) -> str:
        return f"<SyncScope {self.root} for {self.subject}>"

    @property
    def root(self) -> Root:
        return self._scope.root

    @property
    def subject(self) -> Subject:
        return self._scope.subject

    @property
    def grant(self) -> Grant:
        return self._scope.grant

    @property
    def access(self) -> frozenset[Access]:
        return self._scope.access

    @property
    def limits(self) -> Limits:
        return self._scope.limits

    @property
    def powers(self) -> frozenset[str]:
        return self._scope.powers

    @property
    def description(self) -> dict[str, str]:
        return self._scope.description

    def with_request(self, request_id: str) -> SyncScope:
        """This scope with an id: its results, errors and records carry ``request_id``."""
        return SyncScope(self._scope.with_request(request_id), self._portal, self._stay)

    def with_approval(self, approval_id: str) -> SyncScope:
        """This scope for a call that a person has approved: exactly the call they saw."""
        return SyncScope(self._scope.with_approval(approval_id), self._portal, self._stay)

    def with_caller(
        self, front: str, *, asker: Asker | None = None, wait_s: float | None = None
    ) -> SyncScope:
        """This scope as a front uses it: its name on record, and how its person is asked."""
        scope = self._scope.with_caller(front, asker=asker, wait_s=wait_s)
        return SyncScope(scope, self._portal, self._stay)

    def with_text_max(self, text_bytes: int) -> SyncScope:
        """This scope with text reads that return at most ``text_bytes``."""
        return SyncScope(self._scope.with_text_max(text_bytes), self._portal, self._stay)

    def delegate(
        self,
        subject: Subject,
        *,
        access: Collection[Access] | None = None,
        path: str = ".",
        rebase: bool = False,
        allowed: Collection[str] = (),
        denied: Collection[str] = (),
        expires_in: float | None = None,
        reason: str = "",
    ) -> SyncScope:
        """A scope for another subject, which holds at most what this one does."""
        scope = self._portal.run(
            self._scope.delegate(
                subject, access=access, path=path, rebase=rebase, allowed=allowed, denied=denied,
                expires_in=expires_in, reason=reason,
            ),
            let_go=_let_go,
        )  # fmt: skip
        return SyncScope(scope, self._portal, self._stay)

    def create_temp(self, *, seconds: float | None = None) -> SyncScope:
        """A private root of its own, removed when it is closed, or with this process."""
        scope = self._portal.run(self._scope.create_temp(seconds=seconds), let_go=_let_go)
        return SyncScope(scope, self._portal, self._stay)

    def close(self) -> None:
        """Let go of a scope that was delegated or is temporary; a ``with`` closes its own."""
        self._portal.run(self._scope.aclose(), stoppable=False)

    def watch(
        self, path: PathText = ".", *, since: str | None = None, expand: bool = False
    ) -> Generator[Change, None, None]:
        """Every change at or beneath ``path``: those after the cursor ``since``, then new ones."""
        changes = self._scope.watch(path, since=since, expand=expand)
        try:
            while (change := self._portal.run(_next(changes))) is not None:
                yield change
        finally:
            self._portal.end(changes)

    def stream(
        self,
        path: PathText,
        offset: int = 0,
        length: int | None = None,
        *,
        as_of: str | None = None,
    ) -> Generator[bytes, None, None]:
        """The bytes of a file of any size, chunk by chunk, one chunk in memory."""
        chunks = self._scope.stream(path, offset, length, as_of=as_of)
        try:
            while (chunk := self._portal.run(_next(chunks))) is not None:
                yield chunk
        finally:
            self._portal.end(chunks)

    read_bytes = _blocking(Scope.read_bytes)
    read_text = _blocking(Scope.read_text)
    read_json = _blocking(Scope.read_json)
    write_bytes = _blocking(Scope.write_bytes)
    write_text = _blocking(Scope.write_text)
    write_json = _blocking(Scope.write_json)
    write_stream = _blocking(Scope.write_stream)
    append = _blocking(Scope.append)
    truncate = _blocking(Scope.truncate)
    edit = _blocking(Scope.edit)
    list = _blocking(Scope.list)
    find = _blocking(Scope.find)
    files = _blocking(Scope.files)
    glob = _blocking(Scope.glob)
    grep = _blocking(Scope.grep)
    stat = _blocking(Scope.stat)
    lstat = _blocking(Scope.lstat)
    exists = _blocking(Scope.exists)
    readlink = _blocking(Scope.readlink)
    diff = _blocking(Scope.diff)
    make_dir = _blocking(Scope.make_dir)
    remove = _blocking(Scope.remove)
    move = _blocking(Scope.move)
    copy = _blocking(Scope.copy)
    symlink = _blocking(Scope.symlink)
    set_mode = _blocking(Scope.set_mode)
    set_times = _blocking(Scope.set_times)
    copy_in = _blocking(Scope.copy_in)
    extract_archive = _blocking(Scope.extract_archive)
    create_archive = _blocking(Scope.create_archive)
    on_change = _blocking(Scope.on_change, _hush)
    change_cursor = _blocking(Scope.change_cursor)
    history = _blocking(Scope.history)
    restore = _blocking(Scope.restore)
    undo = _blocking(Scope.undo)
    snapshot = _blocking(Scope.snapshot)
    snapshots = _blocking(Scope.snapshots)
    delete_snapshot = _blocking(Scope.delete_snapshot)
    forks = _blocking(Scope.forks)
    delete_fork = _blocking(Scope.delete_fork)
    compare = _blocking(Scope.compare)
    merge = _blocking(Scope.merge)

    def copy_from(
        self,
        other: SyncScope,
        path: PathText,
        to: PathText,
        *,
        recursive: bool = False,
        parents: bool = False,
        lock_token: int | None = None,
    ) -> ChangeResult:
        """Copy from another scope into this one; the grants and policies of both apply."""
        source = other._scope if isinstance(other, SyncScope) else other
        return self._portal.run(
            self._scope.copy_from(
                source, path, to, recursive=recursive, parents=parents, lock_token=lock_token
            )
        )

    def fork(self, name: str, *, version: str | None = None) -> SyncScope:
        """A branch of its own, as the tree is now or was at a version or snapshot."""
        scope = self._portal.run(self._scope.fork(name, version=version), let_go=_let_go)
        return SyncScope(scope, self._portal, self._stay)

    def open_fork(self, name: str) -> SyncScope:
        """Another branch of the root, to be closed."""
        scope = self._portal.run(self._scope.open_fork(name), let_go=_let_go)
        return SyncScope(scope, self._portal, self._stay)

    @contextlib.contextmanager
    def transaction(self, *, lock_token: int | None = None) -> Generator[SyncScope, None, None]:
        """Many changes that appear at once when the block ends, or not at all."""
        inside = self._scope.transaction(lock_token=lock_token)
        abandoned = asyncio.CancelledError()
        scope = self._portal.run(_enter(inside), let_go=lambda _: _leave(inside, abandoned))
        try:
            yield SyncScope(scope, self._portal)
        except BaseException as error:
            self._portal.run(_leave(inside, error), stoppable=False)
            raise
        self._portal.run(_leave(inside, None))

    def lock(self, path: PathText, *, ttl: float = 60.0) -> SyncLease:
        """A lease on a place and all that lies in it, to be entered or released."""
        lease = self._portal.run(_take(self._scope, path, ttl), let_go=Lease.release)
        return SyncLease(lease, self._portal)

    exec = _executing(Scope.exec)
    work = _blocking(Scope.work)
    changes = _blocking(Scope.changes)
    apply = _blocking(Scope.apply)
    discard = _blocking(Scope.discard)

    def session(
        self,
        *,
        cwd: PathText = ".",
        env: Mapping[str, str] | None = None,
        roots: Collection[str] = (),
    ) -> SyncSession:
        """One working copy for many commands, to be entered or closed: see `Scope.session`."""
        begin = SyncSession.begin(lambda: self._scope.session(cwd=cwd, env=env, roots=roots))
        return SyncSession(self._portal.run(begin, let_go=_let_go), self._portal.run)

    def open_session(self, id: str) -> SyncSession:
        """A session that was left: see `Scope.open_session`."""
        session = self._portal.run(self._scope.open_session(id), let_go=_let_go)
        return SyncSession(session, self._portal.run)


def behind(scope: SyncScope) -> tuple[Scope, Portal]:
    """The scope that a blocking one stands for, and the way to its loop: for fronts, which are
    asynchronous themselves and take either."""
    return scope._scope, scope._portal


class SyncLease:
    """A `Lease` for blocking code: ``with fs.lock("a") as lease``."""

    def __init__(self, lease: Lease, portal: Portal) -> None:
        self._lease = lease
        self._portal = portal

    @property
    def path(self) -> ScopedPath:
        return self._lease.path

    @property
    def token(self) -> int:
        return self._lease.token

    @property
    def expires_ns(self) -> int:
        return self._lease.expires_ns

    def renew(self, ttl: float = 60.0) -> None:
        """Keep it for ``ttl`` seconds from now."""
        self._portal.run(self._lease.renew(ttl))

    def release(self) -> bool:
        """Give it back. Returns whether it was still held."""
        return self._portal.run(self._lease.release(), stoppable=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(BailiwickError):  # it ends by itself
            self.release()


async def _let_go(given: Scope | Execution | Session) -> None:
    """Close what nobody got. By its own method: one on a server is of another class."""
    await given.aclose()


async def _take(scope: Scope, path: PathText, ttl: float) -> Lease:
    return await scope.lock(path, ttl=ttl)


async def _enter(block: contextlib.AbstractAsyncContextManager[Result]) -> Result:
    return await block.__aenter__()


async def _leave(
    block: contextlib.AbstractAsyncContextManager[Any], error: BaseException | None
) -> None:
    try:
        await block.__aexit__(None if error is None else type(error), error, None)
    except BaseException as raised:
        if raised is not error:
            raise


async def _next(values: AsyncGenerator[Result, None]) -> Result | None:
    return await anext(values, None)


async def _close(values: AsyncGenerator[Any, None]) -> None:
    await values.aclose()
