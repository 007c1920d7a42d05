"""The verbs of a remote scope that look at the tree without changing it."""

from __future__ import annotations

from typing import Any

from bailiwick.client.core import RemoteCore, remote, unserved
from bailiwick.client.failures import no_answer
from bailiwick.client.values import rebuilt
from bailiwick.errors import NotADirectory, PathNotFound
from bailiwick.model import Found
from bailiwick.paths import PathText
from bailiwick.scope import Scope
from bailiwick.wire import verbs


def _found(document: dict[str, Any]) -> Found:
    return rebuilt(Found, {**document, "path": document.get("cwd")})


def _target(document: dict[str, Any]) -> str:
    target = document.get("target")
    if not isinstance(target, str):
        raise no_answer("a link has no text")
    return target


class RemoteLooking(RemoteCore):
    """Listing, finding, searching, comparing."""

    list = remote(Scope.list, verbs.LIST)
    find = remote(Scope.find, verbs.FIND)
    files = remote(Scope.files, verbs.FILES)
    glob = remote(Scope.glob, verbs.GLOB, read=_found, entries=True)
    grep = remote(Scope.grep, verbs.GREP)
    stat = remote(Scope.stat, verbs.STAT, follow=True)
    lstat = remote(Scope.lstat, verbs.STAT, follow=False)

    async def exists(self, path: PathText, *, as_of: str | None = None) -> bool:
        """Whether the path leads to something. A path that may not be named still raises."""
        try:
            await self.stat(path, as_of=as_of)
        except (PathNotFound, NotADirectory):
            return False
        return True

    readlink = remote(Scope.readlink, verbs.READLINK, read=_target)
    diff = remote(
        Scope.diff, verbs.DIFF,
        first=unserved(
            "text", "a server compares what it has, not a text that is given",
            "read the file and compare here",
        ),
    )  # fmt: skip
