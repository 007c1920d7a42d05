"""A command under way: its output as it comes, and what became of it.

It is started when it is first awaited or read from. From then on it goes on by itself: when it has
ended, what it changed is brought back whether anybody listens or not.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, Self

from bailiwick.commands import ExecResult
from bailiwick.errors import BailiwickError, Closed, ParseError
from bailiwick.finishing import closes_anywhere, look_at, to_the_end
from bailiwick.late_module import LateModule
from bailiwick.operations import Command
from bailiwick.sandbox import Ending, Piece, WindowSize
from bailiwick.working_copy import Publish, Published, WorkingCopy

if TYPE_CHECKING:
    from bailiwick.verbs.commands import Started
    from bailiwick.verbs.working_copies import bring_back
else:
    bring_back = LateModule("bailiwick.verbs.working_copies.bring_back")

PublishWhen = Literal["atomic", "partial", "manual"]

BringBack = Callable[[WorkingCopy, Publish, Command], Coroutine[Any, Any, Published]]

_BASES_PAUSE_S: Final = 0.5
_BASES_SHARE: Final = 20
"""A twentieth of the time at most is spent on looking at what a command has touched until now."""

NOTHING: Final = Published(changes=[], withheld=[], conflicts=[])

_SIGNAL_LAST: Final = 64

_LOOK_SECONDS: Final = 1.0
"""How often it is looked whether the grant of a command still holds: whoever takes one back does
not watch its programs go on."""


class SettledWork(NamedTuple):
    """What became of the changes of a command, and the working copy that holds what is left."""

    published: Published
    work_id: str | None


class Settlement(Protocol):
    """Does with what a command has changed what is to be done when it has ended."""

    async def settle(
        self, started: Started, publish: PublishWhen, refused: BailiwickError | None = None
    ) -> SettledWork:
        """``refused`` is why it was ended, where that withholds what it has changed."""
        ...

    def hurry(self) -> None:
        """Wait for nobody any more: what a person would have to agree to is kept."""
        ...


class OwnCopy:
    """What becomes of a working copy that one command had to itself."""

    def __init__(self, bring_back: BringBack) -> None:
        self._bring_back = bring_back
        self._bringing: asyncio.Task[Published] | None = None

    async def settle(
        self, started: Started, publish: PublishWhen, refused: BailiwickError | None = None
    ) -> SettledWork:
        copy = started.copy
        try:
            published = NOTHING
            if started.writable and publish != "manual":
                if refused is None:
                    published = await self._brought_back(started, publish)
                else:
                    published = await _withheld(started, refused)
            if started.writable and (await copy.alterations()).any_left:
                await copy.leave()
                return SettledWork(published, copy.id)
            await copy.discard()
            return SettledWork(published, None)
        finally:
            copy.close()
            for each in started.beside:
                await to_the_end(each.aclose())

    def hurry(self) -> None:
        if self._bringing is not None:
            self._bringing.cancel()

    async def _brought_back(self, started: Started, publish: Publish) -> Published:
        """What refuses all of it withholds each path: the program has run, and that is told."""
        self._bringing = asyncio.ensure_future(
            self._bring_back(started.copy, publish, started.command)
        )
        await asyncio.wait([self._bringing])
        try:
            return self._bringing.result()
        except BailiwickError as error:
            refused: BailiwickError = error
        except asyncio.CancelledError:
            refused = Closed("it was closed before a person had answered")
        return await _withheld(started, refused)


async def _withheld(started: Started, refused: BailiwickError) -> Published:
    found = await started.copy.alterations()
    withheld = [bring_back.withheld_for(refused, each.path) for each in found.altered]
    return Published(changes=[], withheld=withheld, conflicts=[])


class Execution:
    """A command, its output, and its result.

    An asynchronous iterator of `bailiwick.Piece`, of one reader or several; `output` begins at any
    sequence number, also when the command has ended long ago. Leaving it as a context manager ends
    the command, if it goes on, with everything that it started.
    """

    def __init__(
        self,
        start: Callable[[], Awaitable[Started]],
        settlement: Settlement,
        publish: PublishWhen,
        request_id: str,
        followed: Callable[[Execution], None],
        holds: Callable[[], object] = lambda: None,
    ) -> None:
        """``holds`` raises where its grant does not hold any more: it is ended then, and what it
        changed is withheld."""
        self._start = start
        self._settlement = settlement
        self._publish = publish
        self._followed = followed
        self._holds = holds
        self.request_id = request_id
        self._starting: asyncio.Task[Started] | None = None
        self._ending: asyncio.Task[ExecResult] | None = None
        self._started: Started | None = None
        self._ended: list[Callable[[], object]] = []
        self._refused: BailiwickError | None = None

    def __await__(self) -> Generator[Any, Any, Self]:
        return self._begun().__await__()

    async def __aenter__(self) -> Self:
        return await self._begun()

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def __aiter__(self) -> AsyncIterator[Piece]:
        return self.output()

    async def output(self, since: int = 0) -> AsyncGenerator[Piece, None]:
        """What it prints, from a sequence number on, to its end."""
        started = await self._process()
        async for piece in started.process.pieces(since):
            yield piece

    async def result(self) -> ExecResult:
        """Wait until it has ended and what it changed was brought back."""
        await self._begun()
        assert self._ending is not None
        return await asyncio.shield(self._ending)

    async def write(self, data: bytes) -> None:
        """Hand ``data`` to its input. Raises `Closed` where it has none."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise ParseError(f"data must be bytes, not {type(data).__name__}")
        await (await self._process()).process.write(data)

    async def close_input(self) -> None:
        await (await self._process()).process.close_input()

    async def send_signal(self, signal: int) -> None:
        """To the command, and to what it started in its own group."""
        if not isinstance(signal, int) or not 0 < signal <= _SIGNAL_LAST:
            raise ParseError("a signal is one of the numbers that there are")
        (await self._process()).process.send_signal(signal)

    async def resize(self, rows: int, columns: int) -> None:
        """Its terminal has another size; without a terminal nothing happens."""
        size = WindowSize(rows, columns)
        (await self._process()).process.resize(size.rows, size.columns)

    @closes_anywhere
    async def aclose(self) -> None:
        """End it, with everything it started; what it changed until then is not brought back."""
        if self._starting is not None:
            await to_the_end(self._end(self._starting))

    async def _end(self, starting: asyncio.Future[Started]) -> None:
        if not starting.done():
            starting.cancel()  # it may wait for a person who will never be there
        await asyncio.wait([starting])
        started = self._started
        if started is None:
            return
        if self._ending is not None and not self._ending.done():
            self._publish = "manual"
            await to_the_end(started.process.kill())
            self._settlement.hurry()
            await asyncio.wait([self._ending])
        await to_the_end(started.process.close())

    def on_end(self, tell: Callable[[], object]) -> None:
        """Have ``tell`` called when all of it is over."""
        self._ended.append(tell)

    async def _process(self) -> Started:
        await self._begun()
        assert self._started is not None
        return self._started

    async def _begun(self) -> Self:
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._take_off())
            self._starting.add_done_callback(look_at)
            self._followed(self)
        try:
            await asyncio.shield(self._starting)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._starting.cancelled() or (task is not None and task.cancelling()):
                raise
            if self._started is None:  # else it was closed when it had just begun
                raise Closed("it was closed before it had begun") from None
        return self

    async def _take_off(self) -> Started:
        """Start it, and have it followed to its end whoever waits for that."""
        try:
            self._started = started = await self._start()
        except BaseException:
            self._tell_the_end()
            raise
        # What it printed can be read for as long as somebody has this.
        weakref.finalize(self, started.process.forget_output)
        self._ending = asyncio.ensure_future(self._to_its_end(started))
        self._ending.add_done_callback(look_at)
        return started

    async def _to_its_end(self, started: Started) -> ExecResult:
        try:
            keeping = asyncio.ensure_future(_keep_bases(started))
            try:
                ending = await self._to_the_end_of(started)
            finally:
                started.give_back()
                keeping.cancel()
                await asyncio.wait([keeping])
            settled = await self._settlement.settle(started, self._publish, self._refused)
            return self._result(ending, settled)
        finally:
            self._tell_the_end()

    def _tell_the_end(self) -> None:
        for tell in self._ended:
            tell()

    async def _to_the_end_of(self, started: Started) -> Ending:
        ending = asyncio.ensure_future(started.process.wait())
        try:
            while not (await asyncio.wait([ending], timeout=_LOOK_SECONDS))[0]:
                try:
                    self._holds()
                    self._check_beside(started)
                except BailiwickError:
                    await started.process.kill()
        finally:
            ending.cancel()
        with suppress(BailiwickError):
            self._check_beside(started)  # it may have ended before the next look
        return ending.result()

    def _check_beside(self, started: Started) -> None:
        """What a program wrote that could read what it may not any more is withheld."""
        for each in started.beside:
            try:
                each.check_holds()
            except BailiwickError as error:
                self._refused = error
                raise

    def _result(self, ending: Ending, settled: SettledWork) -> ExecResult:
        published = settled.published
        return ExecResult(
            exit_code=ending.exit_code, signal=ending.signal, timed_out=ending.timed_out,
            duration_ms=round(ending.duration_seconds * 1000, 3), request_id=self.request_id,
            sandbox=ending.sandbox, changes=published.changes, withheld=published.withheld,
            conflicts=published.conflicts, truncated=ending.truncated,
            work_id=settled.work_id,
        )  # fmt: skip


async def _keep_bases(started: Started) -> None:
    """While it runs: what it has covered is kept before others change it, so that both can be
    joined. Where there is much to look at, that is done less often."""
    loop = asyncio.get_running_loop()
    pause = _BASES_PAUSE_S
    while started.writable:
        await asyncio.sleep(pause)
        began = loop.time()
        try:
            await started.copy.keep_bases()
        except (BailiwickError, OSError):
            return  # it can do without: what is not known is not joined
        pause = max(_BASES_PAUSE_S, (loop.time() - began) * _BASES_SHARE)
