"""A store that fails on purpose: wrap one, say which call fails and how.

    store = FaultyStore(inner, [Fault("write", raising(disk_full()))])
    store = FaultyStore(inner, [Fault("stream", ending(), chunks=1)])        # a short stream
    store = FaultyStore(inner, [Fault(ANY, raising(device_fault()), nth=3, when="after")])

It also keeps count: ``calls`` are the verbs in the order they came, ``open_handles`` the paths of
handles that nobody has closed.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from bailiwick.errors import BailiwickError, Busy, from_os_error
from bailiwick.model import EntryType
from bailiwick.paths import ScopedPath
from bailiwick.store import Handle, Look, Store, WritePlan, Written
from bailiwick.testing.driver import ended

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

ANY = "*"
"""A fault of this verb counts the calls of all verbs together."""

Action = Callable[[], Awaitable[None]]
"""What happens at a fault: raise, wait, or nothing more."""


@dataclass(frozen=True)
class Fault:
    """What happens at the ``nth`` call of ``verb`` (from 1), before or after its effect.

    ``chunks`` puts it inside a stream, after so many chunks have passed.
    """

    verb: str
    action: Action
    nth: int = 1
    when: Literal["before", "after"] = "before"
    chunks: int | None = None


class _EndOfStream(Exception):
    """Ends a stream early as if it had no more to give."""


def raising(error: BaseException) -> Action:
    """Fail with ``error``."""

    async def act() -> None:
        raise error

    return act


def waiting(event: asyncio.Event) -> Action:
    """Hold the call until ``event`` is set."""

    async def act() -> None:
        await event.wait()

    return act


def delaying(seconds: float) -> Action:
    """Hold the call for a while."""

    async def act() -> None:
        await asyncio.sleep(seconds)

    return act


def cancelling() -> Action:
    """Cancel the task that makes the call, as a client that has gone away does."""

    async def act() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    return act


def ending() -> Action:
    """End a stream early, silently: a source that was cut short."""
    return raising(_EndOfStream())


def _machine_error(number: int) -> BailiwickError:
    return from_os_error(OSError(number, "injected"))


def disk_full() -> BailiwickError:
    return _machine_error(errno.ENOSPC)


def device_fault() -> BailiwickError:
    return _machine_error(errno.EIO)


def too_many_open_files() -> BailiwickError:
    return _machine_error(errno.EMFILE)


def busy() -> BailiwickError:
    return Busy("injected: the lookup kept racing")


class WatchedHandle:
    """A handle of the inner store, with a note of whether it was closed."""

    def __init__(self, inner: Handle) -> None:
        self.inner = inner
        self.is_closed = False

    @property
    def path(self) -> ScopedPath:
        return self.inner.path

    @property
    def type(self) -> EntryType | None:
        return self.inner.type

    @property
    def size(self) -> int:
        return self.inner.size

    def close(self) -> None:
        self.is_closed = True
        self.inner.close()


def _run_by(
    method: Callable[Concatenate[Any, Arguments], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[FaultyStore, Arguments], Coroutine[Any, Any, Result]]:
    """A method that the inner store does, between its faults."""
    name = method.__name__

    @wraps(method)
    async def run(
        store: FaultyStore, /, *given: Arguments.args, **more: Arguments.kwargs
    ) -> Result:
        call = partial(getattr(store.inner, name), *map(_inner, given), **more)
        return await store._run(name, call)

    return run


class FaultyStore:
    """The inner store, except where the plan says otherwise."""

    def __init__(self, inner: Store, plan: Sequence[Fault] = ()) -> None:
        self.inner = inner
        self.plan = list(plan)
        self.calls: list[str] = []
        self.fired: list[Fault] = []
        self._handles: list[WatchedHandle] = []

    @property
    def open_handles(self) -> list[ScopedPath]:
        return [handle.path for handle in self._handles if not handle.is_closed]

    @property
    def powers(self) -> frozenset[str]:
        """None: a power would go round the faults."""
        return frozenset()

    @property
    def description(self) -> dict[str, str]:
        return self.inner.description

    # --- the plan ----------------------------------------------------------------------------

    def _due(self, verb: str) -> list[Fault]:
        """Count a call, and give the faults that it meets."""
        self.calls.append(verb)
        counts = {verb: self.calls.count(verb), ANY: len(self.calls)}
        return [fault for fault in self.plan if counts.get(fault.verb) == fault.nth]

    async def _fire(
        self, due: list[Fault], when: Literal["before", "after"], chunks: int | None = None
    ) -> None:
        for fault in due:
            if fault.chunks == chunks and (chunks is not None or fault.when == when):
                self.fired.append(fault)
                await fault.action()

    async def _run(self, verb: str, call: Callable[[], Awaitable[Result]]) -> Result:
        due = self._due(verb)
        await self._fire(due, "before")
        result = await call()
        await self._fire(due, "after")
        return result

    async def _pass_on(
        self, chunks: AsyncIterator[bytes], due: list[Fault]
    ) -> AsyncIterator[bytes]:
        """Chunks as they come, with the faults that lie between them."""
        try:
            await self._fire(due, "before", 0)
            count = 0
            async for chunk in chunks:
                yield chunk
                count += 1
                await self._fire(due, "before", count)
        except _EndOfStream:
            return

    def _watched(self, handle: Handle) -> Handle:
        watched = WatchedHandle(handle)
        self._handles.append(watched)
        return watched

    # --- the verbs ---------------------------------------------------------------------------

    async def resolve(
        self, path: ScopedPath, look: Look, *, directory: bool = False, parents: bool = False
    ) -> Handle:
        async def call() -> Handle:
            found = await self.inner.resolve(path, look, directory=directory, parents=parents)
            return self._watched(found)

        return await self._holding("resolve", call)

    async def descend(self, directory: Handle, name: str) -> Handle:
        async def call() -> Handle:
            return self._watched(await self.inner.descend(_inner(directory), name))

        return await self._holding("descend", call)

    async def _holding(self, verb: str, call: Callable[[], Awaitable[Handle]]) -> Handle:
        """Run a lookup; if it fails after its effect, the handle it made reaches nobody."""
        due = self._due(verb)
        await self._fire(due, "before")
        handle = await call()
        try:
            await self._fire(due, "after")
        except BaseException:
            handle.close()
            raise
        return handle

    stat = _run_by(Store.stat)
    children = _run_by(Store.children)
    names_beside = _run_by(Store.names_beside)
    read = _run_by(Store.read)

    async def stream(self, file: Handle, offset: int, length: int | None) -> AsyncIterator[bytes]:
        due = self._due("stream")
        await self._fire(due, "before")
        chunks = self.inner.stream(_inner(file), offset, length)
        async with ended(chunks), ended(self._pass_on(chunks, due)) as passed_on:
            async for chunk in passed_on:
                yield chunk
        await self._fire(due, "after")

    write = _run_by(Store.write)

    async def write_stream(
        self, entry: Handle, chunks: AsyncIterator[bytes], plan: WritePlan
    ) -> Written:
        due = self._due("write_stream")
        await self._fire(due, "before")
        async with ended(self._pass_on(chunks, due)) as passed_on:
            written = await self.inner.write_stream(_inner(entry), passed_on, plan)
        await self._fire(due, "after")
        return written

    append = _run_by(Store.append)
    truncate = _run_by(Store.truncate)
    make_dir = _run_by(Store.make_dir)
    remove = _run_by(Store.remove)
    move = _run_by(Store.move)
    copy = _run_by(Store.copy)
    symlink = _run_by(Store.symlink)
    readlink = _run_by(Store.readlink)
    set_mode = _run_by(Store.set_mode)
    set_times = _run_by(Store.set_times)
    aclose = _run_by(Store.aclose)


def _inner(given: Any) -> Any:
    """A handle as the inner store knows it; all else as it is."""
    return given.inner if isinstance(given, WatchedHandle) else given


async def at_every_call(
    make_store: Callable[[], Awaitable[Store]],
    act: Callable[[FaultyStore], Coroutine[None, None, None]],
    check: Callable[[FaultyStore], Awaitable[None]],
    make_action: Callable[[], Action],
) -> int:
    """Run ``act`` once for every store call it makes, with a fault at that call; then ``check``.

    Each run has a fresh store. Returns how many points were tried; a test demands a number, so
    that a change which avoids all calls does not pass unseen.
    """
    tried = 0
    for when in ("before", "after"):
        for nth in itertools.count(1):
            fault = Fault(ANY, make_action(), nth=nth, when=when)
            store = FaultyStore(await make_store(), [fault])
            await _run_to_its_end(act(store))
            fired = bool(store.fired)
            if fired:
                tried += 1
                store.plan.clear()
                await check(store)
            await store.inner.aclose()
            if not fired:
                break
    return tried


async def _run_to_its_end(call: Coroutine[None, None, None]) -> None:
    """Await a call in a task of its own, which a fault may cancel; what it met ends it quietly."""
    task = asyncio.create_task(call)
    await asyncio.wait([task])
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, BailiwickError):
        raise error
