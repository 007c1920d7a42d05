"""Links as text: made, read and judged. Following one is the business of a lookup alone."""

from __future__ import annotations

import errno
import os

from bailiwick.errors import ParseError, PathNotFound, SymlinkEscape
from bailiwick.paths import ScopedPath, check_stays_inside
from bailiwick.stores.disk.changes.directories import Flushing
from bailiwick.stores.disk.lookup.handles import Held, check_free
from bailiwick.stores.disk.workers import Stop
from bailiwick.stores.disk.writes.publisher import Publisher


def symlink_blocking(publisher: Publisher, held: Held, target: str, stop: Stop) -> None:
    """Make a link that stays inside, where links may be made at all."""
    check_link_text(target, held.path, publisher.settings.limits.link_text_bytes_max)
    check_links_made(held.path, publisher.settings.symlinks)
    check_free(held)
    check_stays_inside(target, held.path)
    publisher.lookup.check_pinned(held)
    with Flushing(publisher.settings.durable, held.parent):
        stop.commit()
        os.symlink(target, held.name, dir_fd=held.parent)


def check_link_text(target: str, path: ScopedPath, bytes_max: int) -> None:
    if not target.strip() or "\0" in target:
        raise ParseError("the text of a link may not be blank or hold a NUL", path=path)
    try:
        size = len(target.encode())
    except UnicodeEncodeError:
        raise ParseError("the text of a link must be valid text", path=path) from None
    if size > bytes_max:
        raise ParseError("the text of a link is too long", path=path, details={"limit": bytes_max})


def check_links_made(path: ScopedPath, symlinks: str) -> None:
    """Refuse to make a link where none are followed."""
    if symlinks == "reject":
        raise SymlinkEscape("links are not made in this root", path=path)


def readlink(held: Held) -> str:
    """The text of a link, if it stays inside."""
    if held.refresh() is None:
        raise PathNotFound("no such file or directory", path=held.path)
    try:
        if held.fd >= 0:
            text = os.readlink("", dir_fd=held.fd)
        else:
            text = os.readlink(held.name, dir_fd=held.parent)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            raise ParseError("is not a link", path=held.path) from None
        raise
    check_stays_inside(text, held.path)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ParseError("the text of the link is not valid text", path=held.path) from None
    return text
