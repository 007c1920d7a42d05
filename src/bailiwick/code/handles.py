"""What stays open between two calls of code: scopes, transactions, streams, sinks and leases.

Each is known to the code by a number, and has calls of its own, by name.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, ClassVar, NamedTuple

import msgspec

from bailiwick.code.vocabulary import WireBytes
from bailiwick.errors import BailiwickError, Closed
from bailiwick.finishing import to_the_end
from bailiwick.model import WriteResult
from bailiwick.scope import Lease, Scope


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """No arguments."""


class SentPiece(msgspec.Struct, forbid_unknown_fields=True):
    """Some bytes of what is written."""

    data: WireBytes


class Ttl(msgspec.Struct, forbid_unknown_fields=True):
    """For how long a lock is to be held from now on."""

    ttl: float


class Leaving(msgspec.Struct, forbid_unknown_fields=True):
    """How a transaction ends."""

    commit: bool


class HandleCall(NamedTuple):
    """One call of something that is open. One that ``ends`` it gives its number free."""

    arguments: type[msgspec.Struct]
    make: Callable[[Any, Any], Awaitable[Any]]
    ends: bool = False


class CodeHandle:
    """Something that is open for the code."""

    calls: ClassVar[dict[str, HandleCall]] = {}
    of: int = 0
    """The number of the scope that it was opened from."""

    async def close(self) -> None:
        """Let go of it: what was not finished comes to nothing. May be called twice."""


class OpenScope(CodeHandle):
    """A fork or a temporary root, which is closed with the run."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    async def close(self) -> None:
        await to_the_end(self.scope.aclose())

    calls = {"close": HandleCall(Nothing, lambda me, _: me.close(), ends=True)}


class OpenTransaction(CodeHandle):
    """Changes that are not made yet."""

    def __init__(self, block: AbstractAsyncContextManager[Scope], scope: Scope) -> None:
        self.scope = scope
        self._block = block
        self._left = False

    async def leave(self, asked: Leaving) -> None:
        self._left = True
        if asked.commit:
            await self._block.__aexit__(None, None, None)
        else:
            await to_the_end(self._abandon())

    async def close(self) -> None:
        if not self._left:
            self._left = True
            await to_the_end(self._abandon())

    async def _abandon(self) -> None:
        error = asyncio.CancelledError()
        with suppress(asyncio.CancelledError):
            await self._block.__aexit__(type(error), error, None)

    calls = {"leave": HandleCall(Leaving, lambda me, asked: me.leave(asked), ends=True)}


class OpenStream(CodeHandle):
    """Values as they come."""

    def __init__(self, values: AsyncGenerator[Any, None]) -> None:
        self._values = values

    async def next(self) -> list[Any] | None:
        async for value in self._values:
            return [value]
        return None

    async def close(self) -> None:
        await to_the_end(_aclosed(self._values))

    calls = {
        "next": HandleCall(Nothing, lambda me, _: me.next()),
        "close": HandleCall(Nothing, lambda me, _: me.close(), ends=True),
    }


class OpenSink(CodeHandle):
    """A file that is written piece by piece, and is there when all of it has come."""

    def __init__(self, begin: Callable[[AsyncGenerator[bytes, None]], Awaitable[Any]]) -> None:
        self._given: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=1)
        self._writing: asyncio.Future[WriteResult] = asyncio.ensure_future(begin(self._chunks()))

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        while (chunk := await self._given.get()) is not None:
            yield chunk

    async def send(self, asked: SentPiece) -> None:
        await self._hand_over(asked.data.data)

    async def finish(self) -> WriteResult:
        await self._hand_over(None)
        return await self._writing

    async def _hand_over(self, chunk: bytes | None) -> None:
        """Until the piece was taken, or nobody takes any more because writing has failed."""
        giving = asyncio.ensure_future(self._given.put(chunk))
        try:
            await asyncio.wait((giving, self._writing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            giving.cancel()
        if self._writing.done():
            self._writing.result()
            if chunk is not None:
                raise Closed("what was written has ended already")

    async def close(self) -> None:
        self._writing.cancel()
        await to_the_end(_ended(self._writing))

    calls = {
        "send": HandleCall(SentPiece, lambda me, asked: me.send(asked)),
        "finish": HandleCall(Nothing, lambda me, _: me.finish(), ends=True),
        "close": HandleCall(Nothing, lambda me, _: me.close(), ends=True),
    }


class OpenLease(CodeHandle):
    """A lock that is held."""

    def __init__(self, lease: Lease) -> None:
        self.lease = lease

    async def close(self) -> None:
        with suppress(BailiwickError):  # it ends by itself
            await to_the_end(self._released())

    async def _released(self) -> None:
        await self.lease.release()

    calls = {
        "renew": HandleCall(Ttl, lambda me, asked: me.lease.renew(asked.ttl)),
        "release": HandleCall(Nothing, lambda me, _: me.lease.release(), ends=True),
    }


async def _aclosed(values: AsyncGenerator[Any, None]) -> None:
    await values.aclose()


async def _ended(work: asyncio.Future[Any]) -> None:
    await asyncio.wait((work,))
    if not work.cancelled():
        work.exception()
