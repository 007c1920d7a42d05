"""The verbs of a remote scope that look at the tree without changing it."""

from __future__ import annotations

from collections.abc import Sequence

from bailiwick.client.core import RemoteCore
from bailiwick.client.failures import no_answer
from bailiwick.client.values import path_text, rebuilt
from bailiwick.errors import NotADirectory, PathNotFound, Unsupported
from bailiwick.model import DiffResult, EntryType, Found, GrepResult, Page, Stat
from bailiwick.paths import PathText
from bailiwick.verbs.arguments import check_all


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
        check_all({"cursor": cursor, "limit": limit, "include_ignored": include_ignored})
        given = {
            "path": path_text(path), "cursor": cursor, "limit": limit,
            "includeIgnored": include_ignored, "asOf": as_of,
        }  # fmt: skip
        return rebuilt(Page, await self._get("list", "/list", given))

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
        asked = {
            "type": type, "depth": depth, "empty": empty, "size_min": size_min,
            "size_max": size_max, "modified_after_ns": modified_after_ns, "limit": limit,
            "cursor": cursor, "include_ignored": include_ignored,
        }  # fmt: skip
        check_all(asked if pattern is None else {"pattern": pattern, **asked})
        given = {
            "path": path_text(path), "pattern": pattern, "type": type, "depth": depth,
            "empty": empty, "sizeMin": size_min, "sizeMax": size_max,
            "modifiedAfterNs": modified_after_ns, "limit": limit, "cursor": cursor,
            "includeIgnored": include_ignored, "asOf": as_of,
        }  # fmt: skip
        return rebuilt(Found, await self._get("find", "/find", given))

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
        check_all({"limit": limit, "cursor": cursor, "include_ignored": include_ignored})
        given = {
            "path": path_text(prefix), "limit": limit, "cursor": cursor,
            "includeIgnored": include_ignored, "asOf": as_of,
        }  # fmt: skip
        return rebuilt(Found, await self._get("files", "/files", given))

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
        asked = {"pattern": pattern, "limit": limit, "cursor": cursor}
        check_all({**asked, "include_ignored": include_ignored})
        given = {
            **asked, "path": path_text(base), "entries": True,
            "includeIgnored": include_ignored, "asOf": as_of,
        }  # fmt: skip
        document = await self._get("glob", "/glob", given)
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
        asked = {
            "pattern": pattern, "literal": literal, "ignore_case": ignore_case, "word": word,
            "include": include, "exclude": exclude, "max_results": max_results,
            "max_file_bytes": max_file_bytes, "context": context,
            "include_ignored": include_ignored, "report_skipped": report_skipped,
        }  # fmt: skip
        check_all(asked)
        given = {
            "pattern": pattern, "path": path_text(path), "literal": literal,
            "ignoreCase": ignore_case, "word": word, "include": one_glob(include),
            "exclude": one_glob(exclude), "limit": max_results,
            "maxFileBytes": _file_bytes(max_file_bytes), "context": context,
            "includeIgnored": include_ignored, "reportSkipped": report_skipped,
        }  # fmt: skip
        return rebuilt(GrepResult, await self._get("grep", "/grep", given))

    async def stat(self, path: PathText, *, as_of: str | None = None) -> Stat:
        """What is known of the object; a link is followed."""
        return await self._stat(path, as_of, follow=True)

    async def lstat(self, path: PathText, *, as_of: str | None = None) -> Stat:
        """What is known of the entry itself; a link is not followed."""
        return await self._stat(path, as_of, follow=False)

    async def _stat(self, path: PathText, as_of: str | None, *, follow: bool) -> Stat:
        given = {"path": path_text(path), "follow": follow, "asOf": as_of}
        return rebuilt(Stat, await self._get("stat", "/stat", given))

    async def exists(self, path: PathText, *, as_of: str | None = None) -> bool:
        """Whether the path leads to something. A path that may not be named still raises."""
        try:
            await self.stat(path, as_of=as_of)
        except (PathNotFound, NotADirectory):
            return False
        return True

    async def readlink(self, path: PathText, *, as_of: str | None = None) -> str:
        """The text of a link."""
        document = await self._get("link", "/readlink", {"path": path_text(path), "asOf": as_of})
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
        given = {
            "path": path_text(path), "other": None if other is None else path_text(other),
            "asOf": as_of, "otherAsOf": other_as_of,
        }  # fmt: skip
        return rebuilt(DiffResult, await self._get("diff", "/diff", given))


def _file_bytes(most: int | None) -> int | None:
    """How the wire says it: nothing for the usual limit, zero for none at all."""
    if most is None:
        return 0
    return None if most == -1 else most


def one_glob(globs: str | Sequence[str] | None) -> str | None:
    """Several globs as one: the wire takes each parameter once."""
    if globs is None or isinstance(globs, str):
        return globs
    if len(globs) == 1:
        return globs[0]
    return "{" + ",".join(_as_alternative(each) for each in globs) + "}"


def _as_alternative(glob: str) -> str:
    """A glob as it is written between the commas of others: its own are escaped, save those that
    stand in braces or brackets of its own."""
    written, depth, escaped, bracket = "", 0, False, False
    for character in glob:
        if character == "," and not (depth or escaped or bracket):
            written += "\\"
        written += character
        if escaped or character == "\\":
            escaped = not escaped
        elif bracket:
            bracket = character != "]"
        else:
            bracket = character == "["
            depth += (character == "{") - (character == "}")
    return written
