"""The verbs of a remote scope that look at the tree without changing it."""

from __future__ import annotations

from collections.abc import Sequence

from bailiwick.client.core import RemoteCore
from bailiwick.client.failures import no_answer
from bailiwick.client.values import rebuilt
from bailiwick.errors import NotADirectory, PathNotFound, Unsupported
from bailiwick.model import DiffResult, EntryType, Found, GrepResult, Page, Stat
from bailiwick.paths import PathText
from bailiwick.wire import verbs


class RemoteLooking(RemoteCore):
    """Listing, finding, searching, comparing."""

    async def list(
        self,
        path: PathText = ".",
        *,
        cursor: str | None = None,
        limit: int | None = None,
        include_ignored: bool = False,
        as_of: str | None = None,
    ) -> Page:
        """One page of a directory, sorted by name; at most 2,000 entries."""
        return await self._done(verbs.LIST, locals())

    async def find(
        self,
        path: PathText = ".",
        pattern: str | None = None,
        *,
        type: EntryType | None = None,
        depth: int | None = None,
        empty: bool | None = None,
        size_min: int | None = None,
        size_max: int | None = None,
        modified_after_ns: int | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        include_ignored: bool = False,
        as_of: str | None = None,
    ) -> Found:
        """Everything beneath ``path`` that fits all conditions, sorted by path."""
        given = dict(locals())
        if pattern is None:
            del given["pattern"]
        return await self._done(verbs.FIND, given)

    async def files(
        self,
        prefix: PathText = ".",
        *,
        limit: int | None = None,
        cursor: str | None = None,
        include_ignored: bool = False,
        as_of: str | None = None,
    ) -> Found:
        """All files beneath a directory, flat; nothing where the directory is missing."""
        return await self._done(verbs.FILES, locals())

    async def glob(
        self,
        pattern: str,
        base: PathText = ".",
        *,
        limit: int | None = None,
        cursor: str | None = None,
        include_ignored: bool = False,
        as_of: str | None = None,
    ) -> Found:
        """Files and directories whose path from ``base`` matches."""
        document = await self._told(verbs.GLOB, locals(), {"entries": True})
        return rebuilt(Found, {**document, "path": document.get("cwd")})

    async def grep(
        self,
        pattern: str,
        path: PathText = ".",
        *,
        literal: bool = False,
        ignore_case: bool = False,
        word: bool = False,
        include: str | Sequence[str] | None = None,
        exclude: str | Sequence[str] | None = None,
        max_results: int | None = None,
        max_file_bytes: int | None = -1,
        context: int = 0,
        include_ignored: bool = False,
        report_skipped: bool = True,
    ) -> GrepResult:
        """Lines that match an RE2 pattern in a file or beneath a directory."""
        return await self._done(verbs.GREP, locals())

    async def stat(self, path: PathText, *, as_of: str | None = None) -> Stat:
        """What is known of the object; a link is followed."""
        return await self._done(verbs.STAT, locals(), {"follow": True})

    async def lstat(self, path: PathText, *, as_of: str | None = None) -> Stat:
        """What is known of the entry itself; a link is not followed."""
        return await self._done(verbs.STAT, locals(), {"follow": False})

    async def exists(self, path: PathText, *, as_of: str | None = None) -> bool:
        """Whether the path leads to something. A path that may not be named still raises."""
        try:
            await self.stat(path, as_of=as_of)
        except (PathNotFound, NotADirectory):
            return False
        return True

    async def readlink(self, path: PathText, *, as_of: str | None = None) -> str:
        """The text of a link."""
        document = await self._told(verbs.READLINK, locals())
        target = document.get("target")
        if not isinstance(target, str):
            raise no_answer("a link has no text")
        return target

    async def diff(
        self,
        path: PathText,
        other: PathText | None = None,
        *,
        text: str | None = None,
        as_of: str | None = None,
        other_as_of: str | None = None,
    ) -> DiffResult:
        """The difference from ``path`` to ``other``, or between versions, as unified diff."""
        if text is not None:
            raise Unsupported(
                "a server compares what it has, not a text that is given",
                hint="read the file and compare here",
            )
        return await self._done(verbs.DIFF, locals())
