"""Whether somebody else on this machine could put their own bytes in the place of a volume.

Whoever can write the file of a volume, or swap it, needs no leave to write what is in it: they can
plant a log beside it that SQLite would take over, or a link where blobs are kept. So, as ssh does
with its keys, what another user controls is refused. Root may do all of that anyway, and whom the
administrator has put into a group with the right to write is meant to write.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bailiwick.errors import BailiwickError, PermissionDenied, from_os_error

_BESIDE: Final = ("-wal", "-shm", "-journal")
"""What SQLite takes for a part of the database when it stands beside it."""

_LINKS_MAX: Final = 40
"""As many links as the kernel follows."""


_UNMAPPED: Final = 65_534
"""How the kernel shows the owner of what lies outside a container without its own root: of a shared
directory for temporary files that is the machine's root."""


def refuse_strangers(file: str) -> bool:
    """Refuse the file of a volume, there or still to be made, that another user controls.

    Returns whether it was there: what was seen to be ours stays where it is. What was not there
    may be anything in the next moment, where others may make files too. Raises `PermissionDenied`.
    """
    is_there = True
    with _in_our_words():
        for path in _way_to(file):
            _check_directories(os.path.dirname(path))
            is_there = _check("file of the volume", path) and is_there
            for end in _BESIDE:
                _check("file of the volume", path + end)
    return is_there


def refuse_foreign_folder(folder: str) -> bool:
    """Refuse a folder of blobs, there or still to be made, that another user controls.

    Returns whether it was there, as `refuse_strangers` does. Raises `PermissionDenied`.
    """
    is_there = True
    with _in_our_words():
        for path in _way_to(folder):
            _check_directories(os.path.dirname(path))
            is_there = _check("folder of the blobs", path) and is_there
    return is_there


@contextmanager
def _in_our_words() -> Iterator[None]:
    try:
        yield
    except BailiwickError:
        raise
    except OSError as error:
        raise from_os_error(error) from error


def _way_to(path: str) -> Iterator[str]:
    """The path, and where it leads if it is a link: each must be nobody else's."""
    path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    for _ in range(_LINKS_MAX):
        yield path
        try:
            target = os.readlink(path)
        except OSError:
            return  # no link, or nothing there
        path = os.path.join(os.path.dirname(path), target)
        path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def _check(what: str, path: str) -> bool:
    """Whether something is there, which is ours."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return False
    _check_owner(what, status)
    is_link = stat.S_ISLNK(status.st_mode)  # whose bits say nothing
    if not is_link and status.st_mode & stat.S_IWOTH:
        raise PermissionDenied(
            f"everybody may write the {what}", hint="make it private (chmod o-w), then check it"
        )
    if is_link and not path.endswith(_BESIDE):
        return True
    if is_link or not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise PermissionDenied(f"the {what}, or what lies beside it, is no plain file")
    return True


def _check_directories(directory: str) -> None:
    """The directory must be ours, and nobody else may put another in its place. One that is still
    to be made will be; those above it are there."""
    while not os.path.isdir(directory) and directory != os.path.dirname(directory):
        directory = os.path.dirname(directory)
    status = os.stat(directory)
    if not (status.st_mode & stat.S_ISVTX and status.st_uid == _UNMAPPED):
        _check_owner("directory of the volume", status)
    while True:
        if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
            raise PermissionDenied(
                "everybody may write a directory in which the volume lies",
                hint="keep the volume in a directory of your own, or chmod o-w",
            )
        above = os.path.dirname(directory)
        if above == directory:
            return
        directory, status = above, os.stat(above)


def _check_owner(what: str, status: os.stat_result) -> None:
    if status.st_uid not in (os.geteuid(), 0):
        raise PermissionDenied(
            f"the {what} belongs to another user",
            details={"uid": status.st_uid},
            hint=f"run as its owner (uid {status.st_uid}), or make it your own (chown)",
        )
