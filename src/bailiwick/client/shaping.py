"""The verbs of a remote scope that make, move, copy, remove, pack and unpack."""

from __future__ import annotations

from collections.abc import Sequence

from bailiwick.client.core import RemoteCore
from bailiwick.errors import ParseError, Unsupported
from bailiwick.model import ArchiveResult, ChangeResult, ExtractResult, Limits, WriteMode
from bailiwick.paths import PathText
from bailiwick.wire import verbs


class RemoteShaping(RemoteCore):
    """Making, moving, copying, removing, packing and unpacking."""

    async def make_dir(
        self,
        path: PathText,
        *,
        parents: bool = False,
        file_mode: int | None = None,
        lock_token: int | None = None,
    ) -> ChangeResult:
        """Make a directory; with ``parents`` also those above it, and an existing one is fine."""
        return await self._done(verbs.MAKE_DIR, locals())

    async def remove(
        self,
        path: PathText,
        *,
        recursive: bool = False,
        missing_ok: bool = False,
        expected_sha256: str | None = None,
        expected_version: str | None = None,
        lock_token: int | None = None,
    ) -> ChangeResult:
        """Remove a file, a link itself, or a directory (a full one only with ``recursive``)."""
        return await self._done(verbs.REMOVE, locals())

    async def move(
        self,
        path: PathText,
        to: PathText,
        *,
        replace: bool = False,
        expected_sha256: str | None = None,
        expected_version: str | None = None,
        expected_destination_sha256: str | None = None,
        expected_destination_version: str | None = None,
        lock_token: int | None = None,
    ) -> ChangeResult:
        """Give a file, link or directory another name, atomically."""
        return await self._done(verbs.MOVE, locals())

    async def copy(
        self,
        path: PathText,
        to: PathText,
        *,
        recursive: bool = False,
        expected_destination_sha256: str | None = None,
        expected_destination_version: str | None = None,
        lock_token: int | None = None,
    ) -> ChangeResult:
        """Copy a file or link, or with ``recursive`` a directory, to a new name."""
        return await self._done(verbs.COPY, locals())

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

    async def copy_in(
        self,
        host_path: str,
        to: PathText,
        *,
        recursive: bool = False,
        parents: bool = False,
        lock_token: int | None = None,
    ) -> ChangeResult:
        """`Unsupported`: nobody copies from the host of a server over HTTP."""
        raise Unsupported(
            "copy_in is not served over HTTP",
            hint="copy_from a root of the server, or write_stream from here",
        )

    async def symlink(
        self, path: PathText, target: str, *, lock_token: int | None = None
    ) -> ChangeResult:
        """Make a link at ``path`` whose text is ``target``, relative to the link's directory."""
        return await self._done(verbs.SYMLINK, locals())

    async def set_mode(
        self,
        path: PathText,
        file_mode: int,
        *,
        expected_sha256: str | None = None,
        expected_version: str | None = None,
        lock_token: int | None = None,
    ) -> ChangeResult:
        """Set the permission bits of a file or directory."""
        return await self._done(verbs.SET_MODE, locals())

    async def set_times(
        self,
        path: PathText,
        mtime_ns: int,
        *,
        atime_ns: int | None = None,
        expected_sha256: str | None = None,
        expected_version: str | None = None,
        lock_token: int | None = None,
    ) -> ChangeResult:
        """Set the times of a file or directory."""
        return await self._done(verbs.SET_TIMES, locals())

    async def extract_archive(
        self,
        path: PathText,
        destination: PathText,
        *,
        overwrite: bool = False,
        limits: Limits | None = None,
        lock_token: int | None = None,
    ) -> ExtractResult:
        """Unpack a tar or zip archive into a directory, within the limits of the server."""
        if limits is not None:
            raise Unsupported("limits of its own are not served over HTTP")
        return await self._done(verbs.EXTRACT_ARCHIVE, locals())

    async def create_archive(
        self,
        paths: PathText | Sequence[PathText],
        to: PathText,
        *,
        format: str | None = None,
        include_ignored: bool = True,
        mode: WriteMode = "create",
        file_mode: int | None = None,
        lock_token: int | None = None,
    ) -> ArchiveResult:
        """Pack files and directories into an archive, whose format its name or ``format`` says."""
        several = paths if isinstance(paths, (list, tuple)) else [paths]
        if not several:
            raise ParseError("an archive is made of at least one path")
        return await self._done(verbs.CREATE_ARCHIVE, {**locals(), "paths": several})
