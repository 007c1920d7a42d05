"""The verbs of a remote scope that make, move, copy, remove, pack and unpack."""

from __future__ import annotations

from typing import Any

from bailiwick.client.core import RemoteCore, bound, remote, unserved
from bailiwick.errors import ParseError, Unsupported
from bailiwick.model import ChangeResult
from bailiwick.paths import PathText
from bailiwick.scope import Scope
from bailiwick.wire import verbs


def _several(scope: object, said: dict[str, Any]) -> None:
    """One path is a list of one."""
    paths = said["paths"]
    said["paths"] = paths if isinstance(paths, (list, tuple)) else [paths]
    if not said["paths"]:
        raise ParseError("an archive is made of at least one path")


async def _not_served(scope: object, said: object) -> ChangeResult:
    """Nobody copies from the host of a server over HTTP."""
    raise Unsupported(
        "copy_in is not served over HTTP",
        hint="copy_from a root of the server, or write_stream from here",
    )


class RemoteShaping(RemoteCore):
    """Making, moving, copying, removing, packing and unpacking."""

    make_dir = remote(Scope.make_dir, verbs.MAKE_DIR)
    remove = remote(Scope.remove, verbs.REMOVE)
    move = remote(Scope.move, verbs.MOVE)
    copy = remote(Scope.copy, verbs.COPY)

    async def copy_from(
        self,
        other: RemoteCore,
        path: PathText,
        to: PathText,
        *,
        recursive: bool = False,
        parents: bool = False,
        lock_token: int | None = None,
    ) -> ChangeResult:
        """Copy from another root of the same server into this one, without the bytes coming here.

        What lies elsewhere is read and written: ``write_stream(to, other.stream(path))``.
        """
        if not isinstance(other, RemoteCore) or (
            other._session.transport is not self._session.transport
        ):
            raise Unsupported(
                "a server copies between its own roots, for one and the same caller",
                hint="read there and write here: write_stream(to, other.stream(path))",
            )
        if other._session.fork is not None:
            raise Unsupported("a server copies from a root, not from a fork of it")
        other._refuse_closed()
        return await self._done(verbs.COPY, locals(), {"fromRoot": str(other.root)})

    copy_in = bound(Scope.copy_in, _not_served)
    symlink = remote(Scope.symlink, verbs.SYMLINK)
    set_mode = remote(Scope.set_mode, verbs.SET_MODE)
    set_times = remote(Scope.set_times, verbs.SET_TIMES)
    extract_archive = remote(
        Scope.extract_archive, verbs.EXTRACT_ARCHIVE,
        first=unserved("limits", "limits of its own are not served over HTTP"),
    )  # fmt: skip
    create_archive = remote(Scope.create_archive, verbs.CREATE_ARCHIVE, first=_several)
