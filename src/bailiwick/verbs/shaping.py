"""The verbs that look at or change names rather than content."""

from __future__ import annotations

from bailiwick.errors import (
    FileAlreadyExists,
    NotADirectory,
    ParseError,
    PathNotFound,
    PermissionDenied,
)
from bailiwick.model import ChangeResult, EntryType, Stat
from bailiwick.operations import Access
from bailiwick.paths import ScopedPath
from bailiwick.pipeline import Call, Missing, Pipeline
from bailiwick.store import Handle
from bailiwick.verbs.ignoring import Ignores
from bailiwick.verbs.walking import refuse_protected_below

_DELETE: frozenset[Access] = frozenset(("delete",))
_MOVE: frozenset[Access] = frozenset(("move",))

_EPERM = 1

_TIME_NS_MAX = 2**63 - 1
"""Beyond this filesystems keep another time than the one that was set, without a word."""


async def stat(call: Call) -> Stat:
    existing(call.handle)
    return await call.store.stat(call.handle)


async def exists(pipeline: Pipeline, call: Call) -> bool:
    """A missing object is an answer here, not a failure; a refused path is still refused."""
    return await pipeline.run(call, _found, _NOT_FOUND)


async def _found(call: Call) -> bool:
    return True


_NOT_FOUND = Missing((PathNotFound, NotADirectory), lambda call: False)


async def readlink(call: Call) -> str:
    existing(call.handle)
    return await call.store.readlink(call.handle)


async def make_dir(call: Call, parents: bool, file_mode: int | None) -> ChangeResult:
    check_mode(file_mode)
    handle = call.handle
    if handle.type is not None and not (parents and handle.type == "directory"):
        raise FileAlreadyExists("already exists", path=handle.path)
    made = await call.store.make_dir(handle, file_mode=file_mode, parents=parents)
    if made:
        call.changed("created", handle.path, "directory")
    return _result(call, made)


async def remove(call: Call, ignores: Ignores, recursive: bool, missing_ok: bool) -> ChangeResult:
    handle = call.handle
    if handle.type is None:
        if missing_ok:
            return _result(call, False, count=0)
        raise PathNotFound("no such file or directory", path=handle.path)
    _refuse_root(handle.path)
    if recursive:
        await refuse_protected_below(call, ignores, handle, _DELETE)
    count = await call.store.remove(handle, recursive=recursive)
    ignores.forget_all()
    call.changed("deleted", handle.path, handle.type, subtree=handle.type == "directory")
    return _result(call, True, count=count)


async def move(call: Call, ignores: Ignores, replace: bool) -> ChangeResult:
    source, destination = call.handle, call.destination_handle
    kind = existing(source)
    _refuse_root(source.path)
    _refuse_root(destination.path)
    if destination.type is not None and destination.path != source.path:
        if not replace:
            raise FileAlreadyExists("already exists", path=destination.path)
        call.require(destination.path, _DELETE)
    await refuse_protected_below(call, ignores, source, _MOVE, (call, destination.path))
    changed = await call.store.move(source, destination, replace=replace)
    if changed:
        ignores.forget_all()
        call.changed(
            "moved", destination.path, kind, origin=source.path, subtree=kind == "directory"
        )
    return _result(call, changed, destination=destination.path)


async def symlink(call: Call, target: str) -> ChangeResult:
    if call.handle.type is not None:
        raise FileAlreadyExists("already exists", path=call.handle.path)
    if call.target.directory:
        raise NotADirectory("the trailing slash demands a directory", path=call.handle.path)
    check_link_text(target, call.limits.link_text_bytes_max)
    await call.store.symlink(call.handle, target)
    call.changed("created", call.handle.path, "symlink")
    return _result(call, True)


async def set_mode(call: Call, file_mode: int) -> ChangeResult:
    check_mode(file_mode)
    kind = existing(call.handle)
    await call.store.set_mode(call.handle, file_mode)
    call.changed("updated", call.handle.path, kind)
    return _result(call, True)


async def set_times(call: Call, mtime_ns: int, atime_ns: int | None) -> ChangeResult:
    for time_ns in (mtime_ns, 0 if atime_ns is None else atime_ns):
        if not isinstance(time_ns, int) or not -_TIME_NS_MAX <= time_ns <= _TIME_NS_MAX:
            raise ParseError("a time is in nanoseconds since 1970, from 1678 to 2262")
    kind = existing(call.handle)
    await call.store.set_times(call.handle, mtime_ns, atime_ns)
    call.changed("updated", call.handle.path, kind)
    return _result(call, True)


def existing(handle: Handle) -> EntryType:
    """What stands there, which must be something."""
    if handle.type is None:
        raise PathNotFound("no such file or directory", path=handle.path)
    return handle.type


def check_mode(file_mode: int | None) -> None:
    """Permission bits only: setuid, setgid and sticky never pass this boundary."""
    if file_mode is not None and not 0 <= file_mode <= 0o777:
        raise ParseError(
            "file_mode must be permission bits from 0o000 to 0o777",
            hint="setuid, setgid and sticky are refused",
        )


def check_link_text(target: str, bytes_max: int) -> None:
    try:
        size = len(target.encode())
    except UnicodeEncodeError:
        raise ParseError("the text of a link must be valid text") from None
    if not target.strip() or "\0" in target or size > bytes_max:
        raise ParseError(
            f"the text of a link is 1 to {bytes_max} bytes, not blank and without NUL",
            details={"limit": bytes_max},
        )


def _refuse_root(path: ScopedPath) -> None:
    if path.is_root:
        raise PermissionDenied(
            "the root itself can be neither removed nor moved", path=path, errno=_EPERM
        )


def _result(
    call: Call, changed: bool, *, destination: ScopedPath | None = None, count: int = 1
) -> ChangeResult:
    return ChangeResult(
        path=call.handle.path,
        changed=changed,
        request_id=call.request_id,
        destination=destination,
        count=count,
    )
