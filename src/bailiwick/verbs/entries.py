"""The verbs that look at or change names rather than content."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from bailiwick.acts import MakeDir, Move, Remove, SetMode, SetTimes, Symlink
from bailiwick.call import Call, Missing
from bailiwick.errors import (
    BailiwickError,
    FileAlreadyExists,
    NotADirectory,
    ParseError,
    PathNotFound,
    PermissionDenied,
    SymlinkEscape,
)
from bailiwick.model import ChangeResult, EntryType, Expected, MoreThan, Stat
from bailiwick.operations import Access
from bailiwick.paths import ScopedPath
from bailiwick.proposal import Proposal
from bailiwick.resolution import shows_the_way
from bailiwick.store import Handle, made_for
from bailiwick.text.mime import PROBE_BYTES, by_content, by_name
from bailiwick.verbs.approval.agreements import Carrying, Going
from bailiwick.verbs.modes import check_mode, check_mode_in
from bailiwick.verbs.quota_charges import count_move, count_removal
from bailiwick.verbs.walks.ignore_files import Ignores
from bailiwick.verbs.walks.walk import Beneath, survey

_DELETE: frozenset[Access] = frozenset(("delete",))

_EPERM = 1

_TIME_NS_MAX = 2**63 - 1
"""Beyond this filesystems keep another time than the one that was set, without a word."""


async def stat(call: Call) -> Stat:
    existing(call.handle)
    stat = await call.store.stat(call.handle)
    if stat.target is not None and not await shows_the_way(call, call.handle.path):
        return structs.replace(stat, target=None)
    if stat.type == "file" and stat.mime is None:
        return structs.replace(stat, mime=by_name(stat.name) or await _sniffed(call))
    return stat


async def _sniffed(call: Call) -> str | None:
    """What the first bytes of a file say that it is. None for who may not read them, since that is
    something of what it holds, and where they cannot be read."""
    if not call.pipeline.reveals(call, call.handle.path):
        return None
    try:
        content = await call.store.read(call.handle, 0, PROBE_BYTES)
    except BailiwickError:
        return None
    return by_content(content.data)


async def exists(call: Call) -> bool:
    """It was found: where it is not, `NOT_FOUND` is the answer."""
    return True


NOT_FOUND = Missing((PathNotFound, NotADirectory), lambda call: False)


async def readlink(call: Call) -> str:
    existing(call.handle)
    text = await call.store.readlink(call.handle)
    if not await shows_the_way(call, call.handle.path):
        raise SymlinkEscape("the link leads to nothing that is shown", path=call.handle.path)
    return text


async def make_dir(call: Call, parents: bool, file_mode: int | None) -> Proposal[ChangeResult]:
    check_mode_in(call.grant.root, file_mode, "directory")
    handle = call.handle
    if handle.type is not None and not (parents and handle.type == "directory"):
        raise FileAlreadyExists("already exists", path=handle.path)

    def made(anything: bool) -> ChangeResult:
        really = made_for(handle)
        if anything and (really is None or handle.path in really):
            call.changed("created", handle.path, "directory")
        elif anything:
            call.made_parents()
        return _result(call, anything)

    return Proposal(MakeDir(handle, file_mode, parents), made)


async def remove(
    call: Call, ignores: Ignores, recursive: bool, missing_ok: bool, expected: Expected
) -> Proposal[ChangeResult]:
    handle = call.handle
    if handle.type is None:
        if missing_ok:
            call.questions = None  # about what is not there
            return Proposal(None, lambda _: _result(call, False, count=0))
        raise PathNotFound("no such file or directory", path=handle.path)
    _refuse_root(handle.path)
    kind = handle.type
    tree = recursive and kind == "directory"

    async def find() -> Beneath:
        return await survey(call, ignores, handle, _DELETE) if tree or call.metered else Beneath()

    going = Going(call, await find(), find)

    def removed(count: int) -> ChangeResult:
        ignores.forget(handle.path, kind)
        call.changed(
            "deleted", handle.path, kind, subtree=kind == "directory",
            beneath=going.found.names, beneath_truncated=going.found.truncated,
        )  # fmt: skip
        return _result(call, True, count=count)

    return Proposal(
        Remove(handle, recursive, expected), removed, agreement=going,
        cost=lambda: count_removal(call, handle),
    )  # fmt: skip


async def move(
    call: Call, ignores: Ignores, replace: bool, expected: Expected, replaced: Expected
) -> Proposal[ChangeResult]:
    source, destination = call.handle, call.destination_handle
    kind = existing(source)
    _refuse_root(source.path)
    _refuse_root(destination.path)
    if replaced.conditional and replace is not True:
        raise ParseError("what is expected at the destination is said with replace=True")
    replaces = destination.type is not None and destination.path != source.path
    if replaces and not replace:
        raise FileAlreadyExists("already exists", path=destination.path)

    async def find() -> Beneath:
        if replaces:
            call.require(destination.path, _DELETE)
        twin = call, destination.path
        return await survey(call, ignores, source, call.operation.ruled, twin)

    carrying = Carrying(call, ignores, await find(), find)
    overwritten = destination.type
    if replace and call.destination is not None and call.must_be_new(call.destination):
        replace = False

    def moved(changed: bool) -> ChangeResult:
        if not changed:
            call.added = None
        else:
            ignores.forget(source.path, kind)
            ignores.forget(destination.path, overwritten)
            call.changed(
                "moved", destination.path, kind, origin=source.path, subtree=kind == "directory",
                beneath=carrying.found.names, beneath_truncated=carrying.found.truncated,
            )  # fmt: skip
        return _result(call, changed, destination=destination.path)

    async def count() -> None:
        if destination.path != source.path:
            await count_move(call, source, destination)

    return Proposal(
        Move(source, destination, replace, expected, replaced), moved, agreement=carrying,
        cost=count, last_look=carrying.require,
    )  # fmt: skip


async def symlink(call: Call, target: str) -> Proposal[ChangeResult]:
    handle = call.handle
    if handle.type is not None:
        raise FileAlreadyExists("already exists", path=handle.path)
    if call.target.directory:
        raise NotADirectory("the trailing slash demands a directory", path=handle.path)
    check_link_text(target, call.limits.link_text_bytes_max)

    def made(_: None) -> ChangeResult:
        call.changed("created", handle.path, "symlink")
        return _result(call, True)

    return Proposal(Symlink(handle, target), made)


async def set_mode(call: Call, file_mode: int, expected: Expected) -> Proposal[ChangeResult]:
    check_mode(file_mode)
    kind = existing(call.handle)
    check_mode_in(call.grant.root, file_mode, kind)
    return Proposal(SetMode(call.handle, file_mode, expected), _updated(call, kind))


async def set_times(
    call: Call, mtime_ns: int, atime_ns: int | None, expected: Expected
) -> Proposal[ChangeResult]:
    for time_ns in (mtime_ns, 0 if atime_ns is None else atime_ns):
        if not isinstance(time_ns, int) or not -_TIME_NS_MAX <= time_ns <= _TIME_NS_MAX:
            raise ParseError("a time is in nanoseconds since 1970, from 1678 to 2262")
    kind = existing(call.handle)
    return Proposal(SetTimes(call.handle, mtime_ns, atime_ns, expected), _updated(call, kind))


def _updated(call: Call, kind: EntryType) -> Callable[[None], ChangeResult]:
    def updated(_: None) -> ChangeResult:
        call.changed("updated", call.handle.path, kind)
        return _result(call, True)

    return updated


def existing(handle: Handle) -> EntryType:
    """What stands there, which must be something."""
    if handle.type is None:
        raise PathNotFound("no such file or directory", path=handle.path)
    return handle.type


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
        count=int(count),
        count_truncated=isinstance(count, MoreThan),
    )
