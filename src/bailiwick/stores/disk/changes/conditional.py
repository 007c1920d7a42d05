"""Changes of names and attributes on condition: what stands there must be what the caller expects.

A file is locked by its inode and hashed, as for a conditional write. Then its name is changed, and
what came out must be the very file that was hashed: otherwise a foreign writer was there, the name
is put back and nothing of theirs is lost. Others may see the change for that instant. A directory
or link has no content to be locked or hashed: its version is looked at the instant before.
"""

from __future__ import annotations

import errno
import os
import stat as stat_bits
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from bailiwick.errors import BailiwickError, PathNotFound
from bailiwick.model import Expected
from bailiwick.store import WritePlan
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.changes import attributes, removal, renames
from bailiwick.stores.disk.changes.directories import Flushing
from bailiwick.stores.disk.lookup.handles import (
    Held,
    is_directory,
    lstat_at,
    same_object,
    version_of,
)
from bailiwick.stores.disk.workers import Stop
from bailiwick.stores.disk.writes.current import (
    CurrentFile,
    check_expected,
    current_mismatch,
    mismatch,
    open_current,
)
from bailiwick.stores.disk.writes.publisher import Publisher


@contextmanager
def as_expected(
    publisher: Publisher, held: Held, expected: Expected, stop: Stop
) -> Iterator[CurrentFile | None]:
    """Hold what stands under a name, which is what is expected: a file open, locked and hashed;
    None for anything else, and without a condition."""
    if not expected.conditional:
        yield None
        return
    found = held.refresh()
    if found is None or not stat_bits.S_ISREG(found.st_mode):
        expected.check(held.path, None if found is None else version_of(found), None)
        yield None
        return
    plan = _plan(publisher, expected)
    current = open_current(publisher, held, plan, stop)
    try:
        check_expected(held, current, plan, stop)
        yield current
    finally:
        if current is not None:
            current.close()


def set_attributes_blocking(
    publisher: Publisher, held: Held, change: attributes.Setting, expected: Expected, stop: Stop
) -> None:
    with as_expected(publisher, held, expected, stop):
        change(publisher, held)


def remove_blocking(
    publisher: Publisher, held: Held, recursive: bool, expected: Expected, stop: Stop
) -> int:
    if held.refresh() is None:
        raise PathNotFound("no such file or directory", path=held.path)
    with as_expected(publisher, held, expected, stop) as current:
        if current is None:
            return removal.remove_blocking(publisher, held, recursive, stop)
        publisher.lookup.check_pinned(held)
        hidden = publisher.journal.new_stage_name()
        publisher.journal.staging_in(held.parent_path, held.parent)
        with Flushing(publisher.settings.durable, held.parent):
            stop.commit()
            syscalls.rename_over(held.name, hidden, src_dir_fd=held.parent, dst_dir_fd=held.parent)
            try:
                raced = not _is_under(held.parent, hidden, current, stop)
            except BaseException:
                _put_back(publisher, held, hidden)
                raise
            if raced:
                _put_back(publisher, held, hidden)
                stop.take_back()
                raise current_mismatch(publisher, held, _plan(publisher, expected), stop)
            syscalls.unlink(hidden, dir_fd=held.parent)
    return 1


def _put_back(publisher: Publisher, held: Held, hidden: str) -> None:
    """Give what was taken out by mistake its name again; where the name is taken by now, somebody
    has written over it."""
    try:
        syscalls.rename_new(held.parent, hidden, held.parent, held.name)
    except FileExistsError:
        syscalls.unlink(hidden, dir_fd=held.parent)
    except OSError:
        publisher.journal.keep()
        raise


def move_blocking(
    publisher: Publisher, source: Held, destination: Held, replace: bool, expected: Expected,
    replaced: Expected, stop: Stop,
) -> bool:  # fmt: skip
    found = source.refresh()
    if found is None:
        raise PathNotFound("no such file or directory", path=source.path)
    there = None if destination.missing else lstat_at(destination.parent, destination.name)
    if there is not None and same_object(found, there):
        # One lock is all there is of one file, whichever of its names it is asked for by.
        with as_expected(publisher, source, expected, stop):
            pass
        with as_expected(publisher, destination, replaced, stop):
            return renames.move_blocking(publisher, source, destination, replace, stop)
    first, second = (source, expected), (destination, replaced)
    if destination.path < source.path:  # always in one order, or two could wait for each other
        first, second = second, first
    with (
        as_expected(publisher, *first, stop) as one,
        as_expected(publisher, *second, stop) as two,
    ):
        here, gone = (one, two) if first[0] is source else (two, one)
        plain = not (is_directory(found) or there is None or is_directory(there))
        if replace and plain and _exchange(publisher, (source, here), (destination, gone), stop):
            return True
        if here is None:
            return renames.move_blocking(publisher, source, destination, replace, stop)
        return _move_to_new(publisher, source, destination, replace, here, expected, stop)


def _move_to_new(
    publisher: Publisher, source: Held, destination: Held, replace: bool, here: CurrentFile,
    expected: Expected, stop: Stop,
) -> bool:  # fmt: skip
    """Move what was looked at, and take it back if it was another file by then."""
    moved = renames.move_blocking(publisher, source, destination, replace, stop)
    if moved and not _is_under(destination.parent, destination.name, here, stop):
        syscalls.rename_new(destination.parent, destination.name, source.parent, source.name)
        raise current_mismatch(publisher, source, _plan(publisher, expected), stop)
    return moved


Side = tuple[Held, CurrentFile | None]


def _exchange(publisher: Publisher, source: Side, destination: Side, stop: Stop) -> bool:
    """Let two files change places, then take away the one that is replaced: what stands under each
    name is looked at before anything is gone. False where that cannot be done here."""
    (held, _), (to, gone) = source, destination
    publisher.lookup.check_pinned(held)
    publisher.lookup.check_pinned(to)
    publisher.journal.staging_in(held.parent_path, held.parent)
    with Flushing(publisher.settings.durable, held.parent, to.parent):
        stop.commit()
        replaced = lstat_at(to.parent, to.name)
        try:
            syscalls.exchange(held.parent, held.name, to.parent, to.name)
        except OSError as error:
            vanished = error.errno == errno.ENOENT and gone is None
            if vanished or error.errno in (*syscalls.NO_SUCH_RENAME, *_ELSEWHERE):
                stop.take_back()
                return False
            raise
        try:
            _check_exchanged(source, destination, stop)
            _take_away(publisher, held, replaced)
        except BaseException:
            with suppress(FileNotFoundError):
                syscalls.exchange(held.parent, held.name, to.parent, to.name)
            raise
    return True


def _take_away(publisher: Publisher, held: Held, replaced: os.stat_result | None) -> None:
    """Remove what was replaced from the name of what was moved, under one that nobody else uses.
    Another file that somebody has put there since then is theirs, and stays."""
    hidden = publisher.journal.new_stage_name()
    try:
        syscalls.rename_over(held.name, hidden, src_dir_fd=held.parent, dst_dir_fd=held.parent)
    except FileNotFoundError:
        return  # somebody else has removed it
    try:
        now = lstat_at(held.parent, hidden)
        if now is not None and replaced is not None and same_object(now, replaced):
            syscalls.unlink(hidden, dir_fd=held.parent)
        else:
            _put_back(publisher, held, hidden)
    except BaseException:
        with suppress(FileNotFoundError):
            _put_back(publisher, held, hidden)
        raise


_ELSEWHERE = (errno.EXDEV,)
"""Another filesystem, which the plain move refuses in its own words."""


def _check_exchanged(source: Side, destination: Side, stop: Stop) -> None:
    (held, here), (to, gone) = source, destination
    if here is not None and not _is_under(to.parent, to.name, here, stop):
        raise _changed(held, to)
    if gone is not None and not _is_under(held.parent, held.name, gone, stop):
        raise _changed(to, held)


def _changed(expected: Held, found: Held) -> BailiwickError:
    """The error about a place whose file stands under another name for the moment."""
    status = lstat_at(found.parent, found.name)
    return mismatch(expected.path, None, None if status is None else version_of(status))


def _is_under(directory: int, name: str, current: CurrentFile, stop: Stop) -> bool:
    """Whether a name stands for the file that was locked, and that has its content still."""
    now = lstat_at(directory, name)
    return now is not None and same_object(now, current.status) and current.is_unchanged(stop)


def _plan(publisher: Publisher, expected: Expected) -> WritePlan:
    return WritePlan(
        expected_version=expected.version, expected_sha256=expected.sha256,
        size_max=publisher.settings.limits.max_file_bytes,
    )  # fmt: skip
