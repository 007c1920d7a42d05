"""Sockets, FIFOs and devices that lie in a tree: doors to whoever else has them open.

A program that sees a socket of the host can speak to what listens there. So they are found before
a command is started, and masked. Only names and kinds are read, as the directories hold them: no
file is looked at, none is opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PATH_BYTES_MAX = 3_500
"""Paths that a mask can still be laid over; the kernel takes 4,095 bytes."""


def specials(root_fd: int) -> Iterator[bytes]:
    """The path of each, relative to the directory of ``root_fd``.

    Directories too, that cannot be looked into: whoever knows a name in one might still open it.
    """
    waiting = ["."]
    while waiting:
        path = waiting.pop()
        try:
            fd = os.open(path, _DIRECTORY, dir_fd=root_fd)
        except (FileNotFoundError, NotADirectoryError):
            continue  # gone meanwhile, or a link by now
        except OSError:
            yield os.fsencode(path)
            continue
        prefix = "" if path == "." else f"{path}/"
        try:
            yield from _in_directory(fd, prefix, waiting)
        finally:
            os.close(fd)


def _in_directory(fd: int, prefix: str, waiting: list[str]) -> Iterator[bytes]:
    with os.scandir(fd) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                continue
            path = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                if len(os.fsencode(path)) < _PATH_BYTES_MAX:
                    waiting.append(path)
                else:
                    yield os.fsencode(path)
            elif not entry.is_symlink():
                yield os.fsencode(path)
