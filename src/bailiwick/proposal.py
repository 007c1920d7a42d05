"""What a verb would change, worked out and not done: what `prepare` of a verb that changes returns.

The pipeline goes on alone with it: a person is shown what the act is and what it would do, the
intent is put on record, quotas are charged, and only then is the act done. What a person's answer
is bound to is an `Agreement`: it shows, and when they have answered it says what may be done after
all, since they take their time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from bailiwick.acts import Act, hash_of_words
from bailiwick.approvals import Preview
from bailiwick.call import Call
from bailiwick.errors import BailiwickError
from bailiwick.paths import ScopedPath
from bailiwick.unchanged import SeenState, standing_at

Result = TypeVar("Result")

Prepare = Callable[[Call], Awaitable["Result | Proposal[Result]"]]
"""A verb on its call: it answers, or proposes what it would change."""


class Agreement(Protocol):
    """What a person is asked about, and what their answer is bound to. To be closed."""

    async def show(self) -> Preview:
        """What they see. What is shown is held on to from here."""
        ...

    async def agreed(self, act: Act[Any]) -> Act[Any]:
        """What may be done now that they have agreed: nothing else than they saw, to nothing else
        than they saw. Raises where it is another by now."""
        ...

    def close(self) -> None: ...


class Counting(Protocol):
    """Charges quotas for a stream while it comes. It is told sizes, and never has the bytes."""

    async def begin(self) -> None: ...
    async def add(self, size: int) -> None: ...

    async def end(self) -> None:
        """All of it is staged, and about to be published."""
        ...


class Proposal(msgspec.Struct, Generic[Result]):
    """An act, and what goes with it. ``act`` None: there is nothing to be done, which may tell
    something all the same, so that a person is asked first where one is to be asked.

    ``result`` is called with what the act returned: what was done is done, and it may neither wait
    nor fail. ``cost`` charges quotas, where there are some; for a stream ``counting`` does, as it
    comes. ``last_look`` is awaited right before the act, ``afterwards`` after it. ``touches`` are
    places beyond those of the call that it will change. ``foretold`` is what the result will be, as
    far as that is known before the act is done.
    """

    act: Act[Any] | None
    result: Callable[[Any], Result]
    agreement: Agreement | None = None
    cost: Callable[[], Awaitable[None]] | None = None
    counting: Counting | None = None
    last_look: Callable[[], Awaitable[None]] | None = None
    afterwards: Callable[[], Awaitable[None]] | None = None
    touches: tuple[ScopedPath, ...] = ()
    foretold: Callable[[], Result] | None = None


class Came:
    """What a stream turned out to be."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.size = 0

    def add(self, chunk: bytes) -> None:
        self._digest.update(chunk)
        self.size += len(chunk)

    @property
    def hexdigest(self) -> str:
        return self._digest.hexdigest()


def refusal(error: BailiwickError) -> Proposal[Any]:
    """For what cannot be done, where to say why tells what a person is to be asked about first."""

    def refuse(_: None) -> None:
        raise error

    return Proposal(None, refuse, agreement=Shown(Preview()))


def as_it_is(outcome: Result) -> Result:
    """For a verb that returns what its act returns."""
    return outcome


class Shown:
    """About a change that is itself bound to what was seen: it is done to nothing else."""

    def __init__(self, preview: Preview) -> None:
        self._preview = preview

    async def show(self) -> Preview:
        return self._preview

    async def agreed(self, act: Act[Any]) -> Act[Any]:
        return act

    def close(self) -> None:
        """Nothing is held."""


class InWords:
    """About a change that a few words describe, to what stands at the call's place."""

    def __init__(self, call: Call, words: str) -> None:
        self._call = call
        self._words = words
        self._standing: SeenState | None = None

    async def show(self) -> Preview:
        self._standing = await standing_at(self._call.store, self._call.handle)
        return Preview(sha256=hash_of_words(self._words), diff=self._words)

    async def agreed(self, act: Act[Any]) -> Act[Any]:
        assert self._standing is not None
        await self._standing.require()
        return act

    def close(self) -> None:
        if self._standing is not None:
            self._standing.close()
