"""What a file becomes that is brought back neither as it stands in the tree nor as in the copy:
joined with what others have made of it, or by some of its hunks."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import aclosing, closing
from functools import partial

from bailiwick.call import Call
from bailiwick.errors import (
    FileTooLarge,
    HashMismatch,
    ParseError,
    PathNotFound,
    PermissionDenied,
    PolicyDenied,
)
from bailiwick.finishing import in_thread
from bailiwick.operations import READ
from bailiwick.paths import ScopedPath
from bailiwick.store import Handle
from bailiwick.text.merge import merged, with_hunks
from bailiwick.unfollowed import unfollowed
from bailiwick.verbs.checksum import content_hash, sha256_of
from bailiwick.verbs.working_copies.known_places import may_with
from bailiwick.working_copy import Altered, WorkingCopy


async def content_in(copy: WorkingCopy, altered: Altered, limit: int) -> bytes:
    """What a file of the copy holds, if it is small enough to be compared. Raises `HashMismatch`
    where that is not what was altered any more: others work in it."""
    if altered.size > limit:
        raise FileTooLarge("too large to be compared", path=altered.path, details={"limit": limit})
    async with aclosing(copy.content(altered.path)) as chunks:
        data = b"".join([chunk async for chunk in chunks])
    if altered.sha256 not in (None, await sha256_of(data)):
        raise HashMismatch("it is being changed in the working copy", path=altered.path)
    return data


async def content_at(call: Call, path: ScopedPath) -> bytes:
    """What a file of the tree holds; nothing where there is none."""
    limit = call.limits.diff_bytes_max
    try:
        entry = await unfollowed(call.store, path)
    except PathNotFound:
        return b""
    with closing(entry):
        return await _small(call, entry, limit) if entry.type == "file" else b""


async def hash_at(call: Call, path: ScopedPath) -> str | None:
    """By what it is known whether a file of the tree holds the same as another."""
    with closing(await unfollowed(call.store, path)) as entry:
        return await content_hash(call.store, entry)


async def version_at(call: Call, path: ScopedPath) -> str:
    """By what it is known whether something else stands at a place of the tree."""
    try:
        entry = await unfollowed(call.store, path)
    except (PathNotFound, PermissionDenied):
        return ""
    with closing(entry):
        if entry.type in (None, "directory"):  # what lies in one is no part of it
            return entry.type or ""
        return (await call.store.stat(entry)).version


async def _small(call: Call, entry: Handle, limit: int) -> bytes:
    found = await call.store.read(entry, 0, limit)
    if found.size > limit:
        raise FileTooLarge("too large to be compared", path=entry.path, details={"limit": limit})
    return found.data


async def joined(call: Call, copy: WorkingCopy, altered: Altered, entry: Handle) -> bytes | None:
    """What the copy and others have made of one file; None where that cannot be said: the same
    lines were changed, it is no text, what it was before is not known, or may not be read."""
    path = altered.path
    limit = call.limits.diff_bytes_max
    if not may_with(call, altered, READ) or max(altered.size, entry.size) > limit:
        return None
    base = await copy.base_image(path)
    if base is None:
        return None
    ours = await content_in(copy, altered, limit)
    theirs = await _small(call, entry, limit)
    return await in_thread(merged, base, ours, theirs)


async def with_some_hunks(
    call: Call, copy: WorkingCopy, altered: Altered, chosen: Collection[int], *, others: bool
) -> bytes:
    """What the tree has, with the chosen hunks of what leads from there to the copy; or with all
    ``others``. Raises `ParseError` for a hunk that there is not, or where there can be none."""
    path = altered.path
    if altered.type != "file":
        raise ParseError("only a file that holds text has hunks", path=path)
    if not may_with(call, altered, READ):
        raise PolicyDenied("what stands there may not be read", path=path)
    old = await content_at(call, path)
    new = await content_in(copy, altered, call.limits.diff_bytes_max)
    if 0 in old or 0 in new:
        raise ParseError("only a file that holds text has hunks", path=path)
    try:
        return await in_thread(partial(with_hunks, old, new, frozenset(chosen), others=others))
    except IndexError as error:
        raise ParseError(
            "there is no such hunk", path=path, details={"hunks": error.args[0]}
        ) from None
