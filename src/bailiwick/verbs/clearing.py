"""What a change shows before it is published: to the person who is asked, and to the ledger.

A verb clears its call once it knows all that it will do. What a person saw is what will happen: the
bytes are bound by their hash, and what they replace must still be what the person saw replaced.
A person takes their time, so what the call acts on is looked at again when they have answered: see
`bailiwick.verbs.meanwhile`.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, aclosing, closing
from typing import TypeVar

import msgspec

from bailiwick.approvals import Preview
from bailiwick.call import Call
from bailiwick.errors import BailiwickError
from bailiwick.paths import ScopedPath
from bailiwick.policy import Allow, Ask
from bailiwick.store import Handle, WritePlan
from bailiwick.text.codec import decode
from bailiwick.text.diff import Diff, unified_diff
from bailiwick.verbs.binding import Carried, Listing, Load
from bailiwick.verbs.hashing import content_hash, hash_of_words, hashed, sha256_of
from bailiwick.verbs.ignoring import Ignores
from bailiwick.verbs.meanwhile import changed_meanwhile, refuse_unasked, standing_at

Found = TypeVar("Found")


async def clear_write(call: Call, data: bytes, sha256: str, plan: WritePlan) -> WritePlan:
    """Clear the writing of a whole file; returns the plan to publish by."""
    old = await _standing_content(call)
    if old is not None:
        call.sha256_before = await sha256_of(old)
    if call.questions is None:
        await call.clear()
        return plan
    _tell_plan(call, plan)
    diff = _difference(call, old if call.handle.type == "file" else b"", data)
    with closing(await standing_at(call.store, call.handle)) as standing:
        before = call.sha256_before or await content_hash(call.store, call.handle)
        await call.clear(
            Preview(
                sha256=sha256, sha256_before=before, size=len(data),
                diff=None if diff is None else diff.text,
                diff_truncated=diff is not None and diff.truncated,
            )
        )  # fmt: skip
    if plan.expected_sha256 is None and call.sha256_before is not None and plan.mode != "create":
        return msgspec.structs.replace(plan, expected_sha256=call.sha256_before)
    return _only_over(standing.version, plan)


async def clear_addition(call: Call, data: bytes, plan: WritePlan) -> WritePlan:
    """Clear what is added to the end of a file; returns the plan to publish by."""
    if call.questions is None:
        await call.clear()
        return plan
    _tell_plan(call, plan)
    diff = _difference(call, b"", data)
    access = call.ruled_at(call.target)
    ruled = isinstance(call.decide(call.handle.path, access), Ask)
    with closing(await standing_at(call.store, call.handle)) as standing:
        await call.clear(
            Preview(
                sha256=await sha256_of(data), size=len(data),
                sha256_before=await content_hash(call.store, call.handle),
                diff=None if diff is None else diff.text,
                diff_truncated=diff is not None and diff.truncated,
            )
        )  # fmt: skip
    if ruled and isinstance(call.decide(call.handle.path, access), Allow):
        return plan  # answered for longer: others may add to it too, and nothing is lost
    return _only_over(standing.version, plan)


async def clear_cut(call: Call, words: str, plan: WritePlan) -> WritePlan:
    """Clear the cutting or extending of a file; returns the plan to publish by."""
    if call.questions is None:
        await call.clear()
        return plan
    with closing(await standing_at(call.store, call.handle)) as standing:
        before = await content_hash(call.store, call.handle)
        await call.clear(Preview(sha256=hash_of_words(words), sha256_before=before, diff=words))
    return _only_over(standing.version, plan)


async def clear_words(call: Call, words: str) -> None:
    """Clear a change that a few words describe, and bind the answer to them."""
    if call.questions is None:
        await call.clear()
        return
    with closing(await standing_at(call.store, call.handle)) as standing:
        await call.clear(Preview(sha256=hash_of_words(words), diff=words))
        await standing.require()


async def plan_for_stream(call: Call, plan: WritePlan) -> WritePlan:
    """How a stream is published about which a person will be asked: over what stands there now."""
    if call.questions is None:
        return plan
    with closing(await standing_at(call.store, call.handle)) as standing:
        return _only_over(standing.version, plan)


async def clear_stream(
    call: Call,
    chunks: AsyncGenerator[bytes, None],
    place: Handle,
    plan: WritePlan,
    holds: Listing | None = None,
) -> AsyncGenerator[bytes, None]:
    """The same chunks; after the last, when all is staged and nothing is published, clear it.
    ``holds`` is what they are found to hold on the way."""
    digest, size = hashlib.sha256(), 0
    async with aclosing(chunks):
        async for chunk in chunks:
            digest.update(chunk)
            size += len(chunk)
            yield chunk
    if call.questions is None:
        await call.clear()
        return
    _tell_plan(call, plan)
    with closing(await standing_at(call.store, place)) as standing:
        before = await content_hash(call.store, place)
        await call.clear(
            Preview(
                sha256=digest.hexdigest(), sha256_before=before, size=size,
                diff=None if holds is None else holds.text,
                diff_truncated=holds is not None and holds.cut,
            )
        )  # fmt: skip
        await standing.require()


async def clear_removal(
    call: Call, found: Found, survey_again: Callable[[], Awaitable[Found]]
) -> Found:
    """Clear the removal of what a survey found; returns what is found at last.

    Where a person is asked, the content of a single file is bound too, and a tree is judged anew
    when they have answered: what they did not see is not what they agreed to.
    """
    asked = call.questions
    if asked is None:
        await call.clear()
        return found
    source = call.handle
    before = await content_hash(call.store, source)
    size = source.size if source.type == "file" else None
    with closing(await standing_at(call.store, source)) as standing:
        await call.clear(Preview(sha256_before=before, size=size))
        await standing.require()
    if await content_hash(call.store, source) != before:
        raise changed_meanwhile(source.path)
    found = await survey_again()
    refuse_unasked(call, asked)
    return found


async def clear_transfer(
    call: Call,
    ignores: Ignores,
    found: Found,
    survey_again: Callable[[], Awaitable[Found]],
) -> tuple[Found, Load | None]:
    """The same for a move or copy: it returns what a person agreed to as well, where one was asked,
    to be required right before the act."""
    asked = call.questions
    if asked is None:
        await call.clear()
        return found, None
    source, destination = call.handle, call.destination_handle
    places = frozenset(each.path for each in asked)
    load = Load(call, ignores, destination.path, places, places)
    carried = await load.look()
    replaced, old = await hashed(call.store, destination, call.limits.diff_bytes_max)
    old = old if destination.type == "file" else b""
    _tell_mode(call, carried)
    arrives = destination.path in places
    preview = _arriving(call, carried, old, destination.path, arrives=arrives)
    with ExitStack() as held:
        standing = [
            held.enter_context(closing(await standing_at(call.store, place)))
            for place in (source, destination)
        ]
        await call.clear(msgspec.structs.replace(preview, sha256_before=replaced))
        for each in standing:
            await each.require()
    found = await survey_again()
    refuse_unasked(call, asked)
    return found, load


async def clear_between(
    here: Call,
    there: Call,
    ignores: Ignores,
    found: Found,
    survey_again: Callable[[], Awaitable[Found]],
) -> tuple[Found, Load | None]:
    """The same for a copy between two roots, where the people of both may be asked."""
    asked_here, asked_there = here.questions, there.questions
    if asked_here is None and asked_there is None:
        if there.must_clear:
            await there.clear()
        return found, None
    load = Load(
        here, ignores, there.handle.path,
        frozenset(each.path for each in asked_here or ()),
        frozenset(each.path for each in asked_there or ()),
    )  # fmt: skip
    carried = await load.look()
    _tell_mode(here, carried)
    _tell_mode(there, carried)
    preview = _arriving(here, carried, b"", there.handle.path, arrives=asked_there is not None)
    with (
        closing(await standing_at(here.store, here.handle)) as source,
        closing(await standing_at(there.store, there.handle)) as place,
    ):
        if asked_here is not None:
            await here.clear(preview)
        await there.clear(preview)
        await source.require()
        await place.require()
    # What lies in an approved directory may be read; whether it was there when asked is another
    # question.
    approved, here.approved = here.approved, ()
    found = await survey_again()
    here.approved = approved
    refuse_unasked(here, asked_here or [])
    refuse_unasked(there, asked_there or [])
    return found, load


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


def _only_over(version: str | None, plan: WritePlan) -> WritePlan:
    """Publish only over what stood there; None: nothing did."""
    if version is None:
        return msgspec.structs.replace(plan, mode="create")
    if plan.mode == "create" or plan.expected_version is not None:
        return plan
    return msgspec.structs.replace(plan, expected_version=version)


async def _standing_content(call: Call) -> bytes | None:
    """What a write replaces, where that is small enough to hash and compare in passing."""
    handle, limit = call.handle, call.limits.text_write_bytes_max
    if handle.type != "file" or handle.size > limit:
        return None
    try:
        content = await call.store.read(handle, 0, limit + 1)
    except BailiwickError:
        return None  # whether it may be replaced is for the write itself to say
    return content.data if len(content.data) <= limit else None


def _difference(
    call: Call, old: bytes | None, new: bytes, path: ScopedPath | None = None
) -> Diff | None:
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
