"""The verbs of a remote scope that make, move, copy, remove, pack and unpack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bailiwick.client.core import RemoteCore
from bailiwick.client.values import path_text
from bailiwick.errors import ParseError, Unsupported
from bailiwick.model import ArchiveResult, ChangeResult, ExtractResult, Limits, WriteMode
from bailiwick.paths import PathText


class RemoteShaping(RemoteCore):
    """Making, moving, copying, removing, packing and unpacking."""

    async def _changed(self, route: str, body: dict[str, object]) -> ChangeResult:
        return await self._done(ChangeResult, "change", route, body)

    async def make_dir(
        self,
        path: PathText,
        *,
        parents: bool = False,
        file_mode: int | None = None,
        lock_token: int | None = None,
    ) -> ChangeResult:
        """Make a directory; with ``parents`` also those above it, and an existing one is fine."""
        return await self._changed(
            "/dir",
            {
                "path": path_text(path), "parents": parents, "fileMode": file_mode,
                "lockToken": lock_token,
            },
        )  # fmt: skip

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
        return await self._changed(
            "/remove",
            {
                "path": path_text(path), "recursive": recursive, "missingOk": missing_ok,
                "expectedHash": expected_sha256, "expectedVersion": expected_version,
                "lockToken": lock_token,
            },
        )  # fmt: skip

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
        return await self._changed(
            "/move",
            {
                "path": path_text(path), "destination": path_text(to), "replace": replace,
                "expectedHash": expected_sha256, "expectedVersion": expected_version,
                "expectedDestinationHash": expected_destination_sha256,
                "expectedDestinationVersion": expected_destination_version,
                "lockToken": lock_token,
            },
        )  # fmt: skip

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
        return await self._changed(
            "/copy",
            {
                "path": path_text(path), "destination": path_text(to), "recursive": recursive,
                "expectedDestinationHash": expected_destination_sha256,
                "expectedDestinationVersion": expected_destination_version,
                "lockToken": lock_token,
            },
        )  # fmt: skip

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
        return await self._changed(
            "/copy",
            {
                "path": path_text(path), "destination": path_text(to), "recursive": recursive,
                "fromRoot": str(other.root), "parents": parents, "lockToken": lock_token,
            },
        )  # fmt: skip

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
        return await self._changed(
            "/symlink", {"path": path_text(path), "target": target, "lockToken": lock_token}
        )

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
        return await self._changed(
            "/mode",
            {
                "path": path_text(path), "fileMode": file_mode,
                "expectedHash": expected_sha256, "expectedVersion": expected_version,
                "lockToken": lock_token,
            },
        )  # fmt: skip

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
        return await self._changed(
            "/times",
            {
                "path": path_text(path), "modifiedNs": mtime_ns, "accessedNs": atime_ns,
                "expectedHash": expected_sha256, "expectedVersion": expected_version,
                "lockToken": lock_token,
            },
        )  # fmt: skip

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
        body = {
            "path": path_text(path), "destination": path_text(destination),
            "overwrite": overwrite, "lockToken": lock_token,
        }  # fmt: skip
        return await self._done(ExtractResult, "archive_extract", "/archive/extract", body)

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
        listed: list[Any] = list(paths) if isinstance(paths, (list, tuple)) else [paths]
        if not listed:
            raise ParseError("an archive is made of at least one path")
        body = {
            "paths": [path_text(each) for each in listed], "destination": path_text(to),
            "format": format, "includeIgnored": include_ignored, "mode": mode,
            "fileMode": file_mode, "lockToken": lock_token,
        }  # fmt: skip
        return await self._done(ArchiveResult, "archive_create", "/archive/create", body)
