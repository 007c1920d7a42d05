"""Giving an entry another name, in one step."""

from __future__ import annotations

import errno
import os

from bailiwick.errors import FileAlreadyExists, ParseError, PathNotFound, Unsupported
from bailiwick.stores.disk import syscalls
from bailiwick.stores.disk.changes.depths import check_depth
from bailiwick.stores.disk.changes.directories import Flushing
from bailiwick.stores.disk.lookup.handles import (
    Held,
    is_directory,
    lstat_at,
    root_itself,
    same_object,
)
from bailiwick.stores.disk.lookup.mounts import is_mount_point, mounted, refuse_mounts
from bailiwick.stores.disk.workers import Stop
from bailiwick.stores.disk.writes.publisher import Publisher, rename_new


def move_blocking(
    publisher: Publisher, source: Held, destination: Held, replace: bool, stop: Stop
) -> bool:
    """Give an entry another name; whether anything changed."""
    for held in (source, destination):
        if held.path == ".":
            raise root_itself(held.path)
    found = source.refresh()
    if found is None:
        raise PathNotFound("no such file or directory", path=source.path)
    if source.path == destination.path:
        return False
    if destination.missing:
        raise PathNotFound("no such file or directory", path=destination.path)
    if is_directory(found) and destination.path.lies_in(source.path):
        raise ParseError("a directory cannot be moved into itself", path=destination.path)
    if is_directory(found):
        refuse_mounts(source)
    if destination.path.levels > source.path.levels:
        check_depth(source, destination.path, stop)
    publisher.lookup.check_pinned(source)
    publisher.lookup.check_pinned(destination)
    with Flushing(publisher.settings.durable, source.parent, destination.parent):
        stop.commit()
        _rename(source, found, destination, replace)
    return True


def _rename(source: Held, found: os.stat_result, destination: Held, replace: bool) -> None:
    there = lstat_at(destination.parent, destination.name)
    try:
        if there is not None and same_object(there, found):
            _rename_alias(source, found, destination, replace)
        elif replace:
            syscalls.rename_over(
                source.name,
                destination.name,
                src_dir_fd=source.parent,
                dst_dir_fd=destination.parent,
            )
        else:
            rename_new(
                source.parent,
                source.name,
                destination.parent,
                destination.name,
                destination.path,
            )
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise Unsupported(
                "a move between two filesystems is not one step",
                path=destination.path,
                hint="copy, then remove",
            ) from None
        if error.errno == errno.EBUSY:
            for held in (source, destination):
                if is_mount_point(held.parent, held.name):
                    raise mounted(held.path) from None
        raise


def _rename_alias(source: Held, found: os.stat_result, destination: Held, replace: bool) -> None:
    """Source and destination are one object: two names of it, or two spellings of one name.

    rename(2) does nothing for two names of one file, so the source's name is taken away, which
    leaves what a rename would. Two spellings are a rename that changes the case.
    """
    if found.st_nlink > 1 and not is_directory(found):
        if not replace:
            raise FileAlreadyExists("already exists", path=destination.path)
        syscalls.unlink(source.name, dir_fd=source.parent)
        return
    syscalls.rename_over(
        source.name, destination.name, src_dir_fd=source.parent, dst_dir_fd=destination.parent
    )
