"""The verbs of a scope that pack and unpack archives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bailiwick import operations
from bailiwick.archives.results import ArchiveResult, ExtractResult
from bailiwick.call import Target
from bailiwick.limits import Limits
from bailiwick.model import WriteMode
from bailiwick.paths import PathText
from bailiwick.scope.content import new
from bailiwick.scope.core import ScopeCore
from bailiwick.verbs.writes import How, plan


class ArchiveVerbs(ScopeCore):
    """Packing and unpacking. What that takes is loaded when it is first done."""

    async def extract_archive(
        self,
        path: PathText,
        destination: PathText,
        *,
        overwrite: bool = False,
        limits: Limits | None = None,
        lock_token: int | None = None,
    ) -> ExtractResult:
        """Unpack a tar (plain, gz, bz2, xz, zst) or zip archive into a directory.

        Everything is checked before the first file appears: names, links, sizes, ratio. Into a new
        directory it is all or nothing; into an existing one an error rolls back, and a crash may
        leave whole files. Names that exist are `FileAlreadyExists` unless ``overwrite``.
        ``limits`` can only be stricter than the scope's own.
        """
        from bailiwick.verbs.archives import extract

        return await self._run(
            operations.ARCHIVE_EXTRACT, "extract_archive", Target(path, "object"),
            lambda call: extract.extract(call, self._ignores, overwrite, limits),
            Target(destination, "entry", creates=True), overwrite=overwrite, lock_token=lock_token,
        )  # fmt: skip

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
        """Pack files and directories into an archive, whose format its name or ``format`` says.

        Links are kept as links, modes and times too, owners are not. What policy hides is left
        out; what it refuses refuses the whole.
        """
        from bailiwick.verbs.archives import create

        listed: list[Any] = list(paths) if isinstance(paths, (list, tuple)) else [paths]
        first, more = (listed[0], listed[1:]) if listed else ("", [])  # of nothing: no path
        how: How = mode, None, None, False, file_mode
        return await self._run(
            operations.ARCHIVE_CREATE, "create_archive", Target(first, "entry"),
            lambda call: create.create(
                call, self._ignores, [Target(each, "entry") for each in more], format,
                include_ignored, plan(self.grant, how),
            ),
            new(to, False), include_ignored=include_ignored, format=format, lock_token=lock_token,
        )  # fmt: skip
