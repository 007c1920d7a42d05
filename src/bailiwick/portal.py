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
from collections.abc import Callable, Coroutine, Generator
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from bailiwick.errors import FORKED, BailiwickError, Closed
from bailiwick.finishing import running_loop
from bailiwick.first_step import LentLoop
from bailiwick.grant import Grant, Root, Subject
from bailiwick.handed_over import HandedOver
from bailiwick.held_signals import unbroken
from bailiwick.limits import Limits
from bailiwick.model import Change, ChangeResult
from bailiwick.operations import Access
from bailiwick.paths import PathText
from bailiwick.scope import Scope
from bailiwick.sync_twins import (
    LooksAtRuns,
    SyncExecution,
    SyncLease,
    SyncSession,
    SyncWork,
    blocking,
    close,
    giving,
    next_of,
    returning,
)

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

    def end(self, ending: Coroutine[Any, Any, object]) -> None:
        """End something that was begun here, from whatever thread lets go of it."""
        if self.is_here:  # as when it is collected there: this thread cannot wait for itself
            self.run_later(ending)
            return
        with contextlib.suppress(Closed):  # a closed portal has ended it already
            self.run(ending, stoppable=False)

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


class Closes(Protocol):
    """What is closed when it was used."""

    async def aclose(self) -> None: ...


Opened = TypeVar("Opened", bound=Closes)


class Opening(Generic[Opened]):
    """What is about to be opened: ``async with bailiwick.open(…) as fs``."""

    def __init__(self, opens: Callable[[], Coroutine[Any, Any, Opened]]) -> None:
        self._opens = opens
        self._opened: Opened | None = None

    async def __aenter__(self) -> Opened:
        self._opened = opened = await self._opens()
        return opened

    async def __aexit__(self, *error: object) -> None:
        if self._opened is not None:
            await self._opened.aclose()


class SyncOpening:
    """A scope about to be opened for blocking code: ``with bailiwick.open_sync(…) as fs``."""

    def __init__(self, opens: Callable[[], Coroutine[Any, Any, Scope]]) -> None:
        self._opens = opens
        self._stay = Stay()

    def __enter__(self) -> SyncScope:
        return self._stay.begin(self._opens())

    def __exit__(self, *error: object) -> None:
        self._stay.end()


async def _part(scope: Scope | None, portal: Portal) -> None:
    try:
        if scope is not None:
            await scope.aclose()
    finally:
        portal.give_back()


def _scoped(
    verb: Callable[Concatenate[Scope, Arguments], Scope | Coroutine[Any, Any, Scope]],
) -> Callable[Concatenate[SyncScope, Arguments], SyncScope]:
    """The blocking twin of a verb that gives another scope."""
    name = verb.__name__

    @functools.wraps(verb)
    def run(me: SyncScope, /, *given: Arguments.args, **more: Arguments.kwargs) -> SyncScope:
        scope: Scope | Coroutine[Any, Any, Scope] = getattr(me._scope, name)(*given, **more)
        if isinstance(scope, Coroutine):
            scope = me._portal.run(scope, let_go=_let_go)
        return SyncScope(scope, me._portal, me._stay)

    return returning(run, "SyncScope")


async def _hush(end: Callable[[], None]) -> None:
    """Call back no more. On the loop that calls: its lookout has a timer there."""
    end()


class SyncScope(LooksAtRuns):
    """A `Scope` for blocking code. See `Scope` for what each verb does."""

    def __init__(self, scope: Scope, portal: Portal, stay: Stay | None = None) -> None:
        """``stay`` ends when nobody has it any more."""
        super().__init__(scope, portal.run)
        self._scope = scope
        self._portal = portal
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

    with_request = _scoped(Scope.with_request)
    with_approval = _scoped(Scope.with_approval)
    with_caller = _scoped(Scope.with_caller)
    with_run = _scoped(Scope.with_run)
    with_text_max = _scoped(Scope.with_text_max)
    delegate = _scoped(Scope.delegate)
    create_temp = _scoped(Scope.create_temp)

    def close(self) -> None:
        """Let go of a scope that was delegated or is temporary; a ``with`` closes its own."""
        self._portal.run(self._scope.aclose(), stoppable=False)

    def watch(
        self, path: PathText = ".", *, since: str | None = None, expand: bool = False
    ) -> Generator[Change, None, None]:
        """Every change at or beneath ``path``: those after the cursor ``since``, then new ones."""
        changes = self._scope.watch(path, since=since, expand=expand)
        try:
            while (change := self._portal.run(next_of(changes))) is not None:
                yield change
        finally:
            self._portal.end(close(changes))

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
            while (chunk := self._portal.run(next_of(chunks))) is not None:
                yield chunk
        finally:
            self._portal.end(close(chunks))

    @functools.wraps(Scope.on_change)
    def on_change(
        self, callback: Callable[[Change], None], path: PathText = "."
    ) -> Callable[[], None]:
        portal = self._portal
        end = portal.run(self._scope.on_change(callback, path), let_go=_hush)

        def end_there() -> None:
            if running_loop() is portal.loop:  # by what is called back itself
                end()
            else:
                portal.end(_hush(end))

        return end_there

    read_bytes = blocking(Scope.read_bytes)
    read_text = blocking(Scope.read_text)
    read_json = blocking(Scope.read_json)
    write_bytes = blocking(Scope.write_bytes)
    write_text = blocking(Scope.write_text)
    write_json = blocking(Scope.write_json)
    write_stream = blocking(Scope.write_stream)
    append = blocking(Scope.append)
    truncate = blocking(Scope.truncate)
    edit = blocking(Scope.edit)
    list = blocking(Scope.list)
    find = blocking(Scope.find)
    files = blocking(Scope.files)
    glob = blocking(Scope.glob)
    grep = blocking(Scope.grep)
    stat = blocking(Scope.stat)
    lstat = blocking(Scope.lstat)
    exists = blocking(Scope.exists)
    readlink = blocking(Scope.readlink)
    diff = blocking(Scope.diff)
    make_dir = blocking(Scope.make_dir)
    remove = blocking(Scope.remove)
    move = blocking(Scope.move)
    copy = blocking(Scope.copy)
    symlink = blocking(Scope.symlink)
    set_mode = blocking(Scope.set_mode)
    set_times = blocking(Scope.set_times)
    copy_in = blocking(Scope.copy_in)
    extract_archive = blocking(Scope.extract_archive)
    create_archive = blocking(Scope.create_archive)
    change_cursor = blocking(Scope.change_cursor)
    history = blocking(Scope.history)
    restore = blocking(Scope.restore)
    undo = blocking(Scope.undo)
    snapshot = blocking(Scope.snapshot)
    snapshots = blocking(Scope.snapshots)
    delete_snapshot = blocking(Scope.delete_snapshot)
    forks = blocking(Scope.forks)
    delete_fork = blocking(Scope.delete_fork)
    compare = blocking(Scope.compare)
    merge = blocking(Scope.merge)

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

    fork = _scoped(Scope.fork)
    open_fork = _scoped(Scope.open_fork)

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

    lock = giving(Scope.lock, SyncLease)
    exec = giving(Scope.exec, SyncExecution)
    session = giving(Scope.session, SyncSession)
    open_session = giving(Scope.open_session, SyncSession)
    work = blocking(Scope.work)
    open_work = giving(Scope.open_work, SyncWork)
    changes = blocking(Scope.changes)
    apply = blocking(Scope.apply)
    discard = blocking(Scope.discard)


def behind(scope: SyncScope) -> tuple[Scope, Portal]:
    """The scope that a blocking one stands for, and the way to its loop: for fronts, which are
    asynchronous themselves and take either."""
    return scope._scope, scope._portal


async def _let_go(scope: Scope) -> None:
    """Close what nobody got. By its own method: one on a server is of another class."""
    await scope.aclose()


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
