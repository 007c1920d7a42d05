"""The keys under which somebody decided about a working copy, and it was done: an empty file for
each, beside the folders of the root, where it stays when a folder is gone."""

from __future__ import annotations

import os
import time
from typing import Final

_PLACE: Final = "done"

_KEPT_S: Final = 7 * 86_400
"""Longer than anybody remembers a key: see `Limits.idempotency_seconds`."""


def note_done(folders: str, key: bytes) -> None:
    """Durable when it returns. Those that nobody asks for any more are taken away."""
    place = os.path.join(folders, _PLACE)
    os.makedirs(place, mode=0o700, exist_ok=True)
    directory = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        oldest = time.time() - _KEPT_S
        for name in os.listdir(directory):
            if os.stat(name, dir_fd=directory, follow_symlinks=False).st_mtime < oldest:
                os.unlink(name, dir_fd=directory)
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(key.hex(), flags, 0o600, dir_fd=directory))
        os.fsync(directory)
    finally:
        os.close(directory)


def was_done(folders: str, key: bytes) -> bool:
    return os.path.exists(os.path.join(folders, _PLACE, key.hex()))
