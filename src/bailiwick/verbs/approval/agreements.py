"""What a person is shown of each change, and what their answer is bound to.

What a person saw is what will happen: the bytes are bound by their hash, and what they replace must
still be what the person saw replaced. A person takes their time, so what the call acts on is looked
at again when they have answered: see `bailiwick.unchanged`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import ExitStack, closing
from typing import Any, Generic, TypeVar

import msgspec

from bailiwick.acts import Act, Append, Move, Truncate, Write, hash_of_words
from bailiwick.approvals import Preview
from bailiwick.call import Asked, Call
from bailiwick.errors import BailiwickError
from bailiwick.paths import ScopedPath
from bailiwick.policy import Allow, Ask
from bailiwick.store import Handle, WritePlan
from bailiwick.text.codec import decode
from bailiwick.text.diff import UnifiedDiff, unified_diff
from bailiwick.unchanged import SeenState, changed_meanwhile, refuse_unasked, standing_at
from bailiwick.verbs.approval.inventory import Carried, Load, ShownListing
from bailiwick.verbs.checksum import content_hash, hashed, sha256_of
from bailiwick.verbs.walks.ignore_files import Ignores

Found = TypeVar("Found")


class _HeldAgreement:
    """Holds what stands at places while a person is asked."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._stack = ExitStack()

    async def _hold(self, call: Call, place: Handle) -> SeenState:
        return self._stack.enter_context(closing(await standing_at(call.store, place)))

    def close(self) -> None:
        self._stack.close()


# --- content --------------------------------------------------------------------------------------


class Overwriting(_HeldAgreement):
    """About a whole file in place of what stands there, of which ``old`` is the content where that
    is known. ``asked`` is how it is to be published, as the caller said it."""

    def __init__(self, call: Call, write: Write, asked: WritePlan, old: bytes | None) -> None:
        super().__init__(call)
        self._asked = asked
        self._write = write
        self._old = old
        self._over: str | None = None

    async def show(self) -> Preview:
        call, write = self._call, self._write
        _tell_plan(call, self._asked)
        diff = _difference(call, self._old if call.handle.type == "file" else b"", write.data)
        self._over = (await self._hold(call, call.handle)).version
        before = call.sha256_before or await content_hash(call.store, call.handle)
        return Preview(
            sha256=write.sha256, sha256_before=before, size=len(write.data),
            diff=None if diff is None else diff.text,
            diff_truncated=diff is not None and diff.truncated,
        )  # fmt: skip

    async def agreed(self, act: Act[Any]) -> Act[Any]:
        plan, before = self._write.plan, self._call.sha256_before
        if plan.expected_sha256 is None and before is not None and plan.mode != "create":
            plan = msgspec.structs.replace(plan, expected_sha256=before)
        else:
            plan = only_over(self._over, plan)
        return msgspec.structs.replace(self._write, plan=plan)


class Appending(_HeldAgreement):
    """About what is added to the end of a file."""

    def __init__(self, call: Call, addition: Append, asked: WritePlan) -> None:
        super().__init__(call)
        self._asked = asked
        self._addition = addition
        self._over: str | None = None
        self._ruled = False

    async def show(self) -> Preview:
        call, data = self._call, self._addition.data
        _tell_plan(call, self._asked)
        diff = _difference(call, b"", data)
        self._ruled = isinstance(self._decision(), Ask)
        self._over = (await self._hold(call, call.handle)).version
        return Preview(
            sha256=await sha256_of(data), size=len(data),
            sha256_before=await content_hash(call.store, call.handle),
            diff=None if diff is None else diff.text,
            diff_truncated=diff is not None and diff.truncated,
        )  # fmt: skip

    async def agreed(self, act: Act[Any]) -> Act[Any]:
        if self._ruled and isinstance(self._decision(), Allow):
            return act  # answered for longer: others may add to it too, and nothing is lost
        plan = only_over(self._over, self._addition.plan)
        return msgspec.structs.replace(self._addition, plan=plan)

    def _decision(self) -> object:
        call = self._call
        return call.decide(call.handle.path, call.ruled_at(call.target))


class Cutting(_HeldAgreement):
    """About cutting or extending a file."""

    def __init__(self, call: Call, cut: Truncate) -> None:
        super().__init__(call)
        self._cut = cut
        self._over: str | None = None

    async def show(self) -> Preview:
        call, words = self._call, self._cut.words
        self._over = (await self._hold(call, call.handle)).version
        before = await content_hash(call.store, call.handle)
        return Preview(sha256=hash_of_words(words), sha256_before=before, diff=words)

    async def agreed(self, act: Act[Any]) -> Act[Any]:
        return msgspec.structs.replace(self._cut, plan=only_over(self._over, self._cut.plan))


class Streaming(_HeldAgreement):
    """About content that came as a stream to ``place`` and is staged, of which the pipeline knows
    hash and size. ``holds`` is what it is found to hold on the way."""

    def __init__(
        self, call: Call, place: Handle, plan: WritePlan, holds: ShownListing | None = None
    ) -> None:
        super().__init__(call)
        self._place = place
        self._plan = plan
        self._holds = holds
        self._standing: SeenState | None = None

    async def show(self) -> Preview:
        call, holds = self._call, self._holds
        _tell_plan(call, self._plan)
        self._standing = await self._hold(call, self._place)
        return Preview(
            sha256_before=await content_hash(call.store, self._place),
            diff=None if holds is None else holds.text,
            diff_truncated=holds is not None and holds.cut,
        )  # fmt: skip

    async def agreed(self, act: Act[Any]) -> Act[Any]:
        assert self._standing is not None
        await self._standing.require()
        return act


async def plan_for_stream(call: Call, plan: WritePlan) -> WritePlan:
    """How a stream is published about which a person will be asked: over what stands there now."""
    if call.questions is None:
        return plan
    with closing(await standing_at(call.store, call.handle)) as standing:
        return only_over(standing.version, plan)


def only_over(version: str | None, plan: WritePlan) -> WritePlan:
    """Publish only over what stood there; None: nothing did."""
    if version is None:
        return msgspec.structs.replace(plan, mode="create")
    if plan.mode == "create" or plan.expected_version is not None:
        return plan
    return msgspec.structs.replace(plan, expected_version=version)


# --- names ----------------------------------------------------------------------------------------


class Going(_HeldAgreement, Generic[Found]):
    """About the removal of what a survey ``found``.

    The content of a single file is bound too, and a tree is judged anew when the person has
    answered: what they did not see is not what they agreed to.
    """

    def __init__(
        self, call: Call, found: Found, survey_again: Callable[[], Awaitable[Found]]
    ) -> None:
        super().__init__(call)
        self.found = found
        self._survey_again = survey_again
        self._asked: list[Asked] = []
        self._before: str | None = None
        self._standing: SeenState | None = None

    async def show(self) -> Preview:
        call, source = self._call, self._call.handle
        self._asked = list(call.questions or ())
        self._before = await content_hash(call.store, source)
        self._standing = await self._hold(call, source)
        size = source.size if source.type == "file" else None
        return Preview(sha256_before=self._before, size=size)

    async def agreed(self, act: Act[Any]) -> Act[Any]:
        call = self._call
        assert self._standing is not None
        await self._standing.require()
        if await content_hash(call.store, call.handle) != self._before:
            raise changed_meanwhile(call.handle.path)
        self.found = await self._survey_again()
        refuse_unasked(call, self._asked)
        return act


class Carrying(_HeldAgreement, Generic[Found]):
    """About a move or copy of what a survey ``found``, and of all that it carries there: see
    `bailiwick.verbs.approval.inventory`."""

    def __init__(
        self,
        call: Call,
        ignores: Ignores,
        found: Found,
        survey_again: Callable[[], Awaitable[Found]],
    ) -> None:
        super().__init__(call)
        self.found = found
        self._ignores = ignores
        self._survey_again = survey_again
        self._asked: list[Asked] = []
        self._load: Load | None = None
        self._standing: list[SeenState] = []

    async def show(self) -> Preview:
        call = self._call
        source, destination = call.handle, call.destination_handle
        self._asked = list(call.questions or ())
        places = frozenset(each.path for each in self._asked)
        self._load = Load(call, self._ignores, destination.path, places, places)
        carried = await self._load.look()
        replaced, old = await hashed(call.store, destination, call.limits.diff_bytes_max)
        old = old if destination.type == "file" else b""
        _tell_mode(call, carried)
        arrives = destination.path in places
        preview = _arriving(call, carried, old, destination.path, arrives=arrives)
        self._standing = [await self._hold(call, place) for place in (source, destination)]
        return msgspec.structs.replace(preview, sha256_before=replaced)

    async def agreed(self, act: Act[Any]) -> Act[Any]:
        for each in self._standing:
            await each.require()
        self.found = await self._survey_again()
        refuse_unasked(self._call, self._asked)
        source, destination = self._call.handle, self._call.destination_handle
        if isinstance(act, Move) and (destination.type is None or destination.path == source.path):
            return msgspec.structs.replace(act, replace=False)  # nothing was seen to be replaced
        return act

    async def require(self) -> None:
        """Refuse unless what is carried is still what a person saw, where one was asked."""
        if self._load is not None:
            await self._load.require()


class CarryingBetween(Generic[Found]):
    """About a copy between two roots, where the people of both may be asked. What is shown is held
    until the copy is over."""

    def __init__(
        self,
        here: Call,
        there: Call,
        ignores: Ignores,
        found: Found,
        survey_again: Callable[[], Awaitable[Found]],
    ) -> None:
        self.found = found
        self.load: Load | None = None
        self._here = here
        self._there = there
        self._ignores = ignores
        self._survey_again = survey_again
        self._asked_here = list(here.questions or ())
        self._asked_there = list(there.questions or ())
        self._preview = Preview()
        self._standing: list[SeenState] = []

    async def ask_here(self) -> None:
        """Look at what is carried, where anybody is to be asked about it, and ask those of the root
        that it is read from."""
        here, there = self._here, self._there
        if not self._asked_here and not self._asked_there:
            return
        self.load = Load(
            here, self._ignores, there.handle.path,
            frozenset(each.path for each in self._asked_here),
            frozenset(each.path for each in self._asked_there),
        )  # fmt: skip
        carried = await self.load.look()
        _tell_mode(here, carried)
        _tell_mode(there, carried)
        self._preview = _arriving(
            here, carried, b"", there.handle.path, arrives=bool(self._asked_there)
        )
        for call in (here, there):
            standing = await standing_at(call.store, call.handle)
            there.hold().callback(standing.close)
            self._standing.append(standing)
        if self._asked_here:
            await here.pipeline.ask(here, self._preview)

    async def show(self) -> Preview:
        return self._preview

    async def agreed(self, act: Act[Any]) -> Act[Any]:
        return act

    def close(self) -> None:
        """What is held is let go of with the call."""

    async def require(self) -> None:
        """Refuse unless what is carried is still what people saw, where any were asked."""
        if self.load is None:
            return
        here = self._here
        for each in self._standing:
            await each.require()
        # What lies in an approved directory may be read; whether it was there when asked is another
        # question.
        approved, here.approved = here.approved, ()
        self.found = await self._survey_again()
        here.approved = approved
        refuse_unasked(here, self._asked_here)
        refuse_unasked(self._there, self._asked_there)
        await self.load.require()


def _arriving(
    call: Call, carried: Carried, old: bytes | None, to: ScopedPath, *, arrives: bool
) -> Preview:
    """What a person sees of a move or copy: of a file, the change that it makes where it arrives,
    as a write would. What the caller may not read is shown only for the sake of a place where it
    ``arrives`` that is asked about: the question may be whether it may be read at all."""
    words, cut = carried.words, carried.cut
    if words is None and carried.sha256 is not None:
        words = f"{carried.size} bytes, sha256 {carried.sha256}"
        if carried.data is not None and (arrives or call.pipeline.reveals(call, call.handle.path)):
            diff = _difference(call, old, carried.data, to)
            if diff is not None and diff.text:
                words, cut = diff.text, diff.truncated
    return Preview(sha256=carried.sha256, size=carried.size, diff=words, diff_truncated=cut)


def _tell_mode(call: Call, carried: Carried) -> None:
    """The mode of a file goes with it, and may make a program of a text."""
    if carried.mode is not None:
        call.given = {**(call.given or {}), "file_mode": carried.mode}


def _tell_plan(call: Call, plan: WritePlan) -> None:
    """How content is published is part of what a person agrees to."""
    call.given = {
        **(call.given or {}),
        "mode": plan.mode, "file_mode": plan.file_mode, "parents": plan.parents,
    }  # fmt: skip


def _difference(
    call: Call, old: bytes | None, new: bytes, path: ScopedPath | None = None
) -> UnifiedDiff | None:
    """A unified diff of two texts; None where either is no text, or too large to show."""
    limit = call.limits.diff_bytes_max
    if old is None or len(old) > limit or len(new) > limit:
        return None
    try:
        before, after = decode(old).text, decode(new).text
    except BailiwickError:
        return None
    path = path or call.handle.path
    return unified_diff(
        before, after, f"a/{path}", f"b/{path}", lines_max=call.limits.ask_diff_lines_max
    )
