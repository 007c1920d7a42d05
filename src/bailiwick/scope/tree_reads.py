"""The verbs of a scope that look at the tree without changing it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from bailiwick import operations
from bailiwick.call import PastView, Target
from bailiwick.errors import ParseError
from bailiwick.late_module import LateModule
from bailiwick.model import DiffResult, EntryType, Found, Page, Stat
from bailiwick.paths import PathText, parse
from bailiwick.scope.core import ScopeCore
from bailiwick.search.results import GrepResult
from bailiwick.verbs import diff, entries, find, grep, listing
from bailiwick.verbs.arguments import check_all

if TYPE_CHECKING:
    from bailiwick.verbs.working_copies import bring_back
else:
    bring_back = LateModule("bailiwick.verbs.working_copies.bring_back")


class LookingVerbs(ScopeCore):
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
        return await self._run(
            operations.LIST, "list", Target(path, "object"),
            lambda call: listing.list_page(
                call, self._ignores_at(as_of), cursor, limit, include_ignored
            ),
            cursor=cursor, limit=limit, include_ignored=include_ignored, as_of=as_of,
        )  # fmt: skip

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
        """Everything beneath ``path`` that fits all conditions, sorted by path.

        A ``pattern`` without a slash is held against the name at any depth, one with a slash
        against the path from ``path``. ``cursor`` goes on after an answer that was cut.
        """
        asked = find.FindAsked(
            pattern=pattern, type=type, depth=depth, empty=empty, size_min=size_min,
            size_max=size_max, modified_after_ns=modified_after_ns, limit=limit,
            include_ignored=include_ignored, cursor=cursor,
        )  # fmt: skip
        given = msgspec.structs.asdict(asked)
        if pattern is None:
            del given["pattern"]
        return await self._run(
            operations.LIST, "find", Target(path, "object"),
            lambda call: find.find(call, self._ignores_at(as_of), asked), as_of=as_of, **given,
        )  # fmt: skip

    async def files(
        self,
        prefix: PathText = ".",
        *,
        limit: int | None = None,
        cursor: str | None = None,
        include_ignored: bool = False,
        as_of: str | None = None,
    ) -> Found:
        """All files beneath a directory, flat, or the one that is named; nothing where nothing is.

        ``cursor`` goes on after an answer that was cut.
        """
        call = self._call(operations.LIST, "files", Target(prefix, "object"))
        try:
            check_all({"limit": limit, "cursor": cursor, "include_ignored": include_ignored})
        except ParseError as error:
            raise await self._pipeline.failed(call, error) from None
        ignores = self._ignores_at(as_of)
        return await self._carry_out(
            call, lambda call: find.files(call, ignores, limit, include_ignored, cursor), as_of,
            find.NOTHING,
        )  # fmt: skip

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
        """Files and directories whose path from ``base`` matches: ``* ** ? [ab] [!ab] {a,b}``.

        A pattern without a slash matches in ``base`` itself only; ``**`` stands for any number of
        directories, also none. ``cursor`` goes on after an answer that was cut.
        """
        return await self._run(
            operations.LIST, "glob", Target(base, "object"),
            lambda call: find.glob(
                call, self._ignores_at(as_of), pattern, limit, include_ignored, cursor
            ),
            pattern=pattern, limit=limit, cursor=cursor, include_ignored=include_ignored,
            as_of=as_of,
        )  # fmt: skip

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
        """Lines that match an RE2 pattern in a file or beneath a directory.

        ``max_file_bytes`` None lifts the limit of 10 MiB a file. ``report_skipped=False`` leaves
        out the lists of skipped files, which is quicker on a large tree.
        """
        asked = grep.GrepAsked(
            pattern=pattern, literal=literal, ignore_case=ignore_case, word=word,
            include=include, exclude=exclude, max_results=max_results,
            max_file_bytes=max_file_bytes, context=context, include_ignored=include_ignored,
            report_skipped=report_skipped,
        )  # fmt: skip
        return await self._run(
            operations.SEARCH, "grep", Target(path, "object"),
            lambda call: grep.grep(call, self._ignores, asked),
            **msgspec.structs.asdict(asked),
        )  # fmt: skip

    async def stat(self, path: PathText, *, as_of: str | None = None) -> Stat:
        """What is known of the object; a link is followed."""
        return await self._run(
            operations.METADATA, "stat", Target(path, "object"), entries.stat, as_of=as_of
        )

    async def lstat(self, path: PathText, *, as_of: str | None = None) -> Stat:
        """What is known of the entry itself; a link is not followed."""
        return await self._run(
            operations.METADATA, "lstat", Target(path, "entry"), entries.stat, as_of=as_of
        )

    async def exists(self, path: PathText, *, as_of: str | None = None) -> bool:
        """Whether the path leads to something. A path that may not be named still raises."""
        return await self._run(
            operations.METADATA, "exists", Target(path, "object"), entries.exists, as_of=as_of,
            missing=entries.NOT_FOUND,
        )  # fmt: skip

    async def readlink(self, path: PathText, *, as_of: str | None = None) -> str:
        """The text of a link."""
        return await self._run(
            operations.METADATA, "readlink", Target(path, "entry"), entries.readlink, as_of=as_of
        )

    async def diff(
        self,
        path: PathText,
        other: PathText | None = None,
        *,
        text: str | None = None,
        as_of: str | None = None,
        other_as_of: str | None = None,
    ) -> DiffResult:
        """The difference from ``path`` to ``other``, or to the given ``text``, as unified diff.

        ``as_of`` takes ``path``, and ``other_as_of`` the other side, as they were at a version or
        snapshot; without another side, ``path`` itself is compared with what it is now. In an
        overlay a path alone is compared with what it lies over: from there to here.
        """
        alone = all(each is None for each in (other, text, as_of, other_as_of))
        if alone and self._pipeline.beneath is not None:
            return await self._diff_beneath(path)
        between = as_of is not None or other_as_of is not None
        there = path if other is None and text is None and between else other
        call = self._call(
            operations.READ, "diff", Target(path, "object"),
            None if there is None else Target(there, "object"),
        )  # fmt: skip
        call.past = None if as_of is None else PastView(as_of)
        call.past_there = None if other_as_of is None else PastView(other_as_of, "other_as_of")
        work = self._start(call, lambda call: diff.diff(call, text))
        return await self._closing_past(call, work)

    async def _diff_beneath(self, path: PathText) -> DiffResult:
        lower, copy = self._beneath()
        place = parse(path, self.root.mount_point, self.root.names).path.beneath(self.grant.base)
        shown = await lower._run(
            operations.READ, "difference", lower._top,
            lambda call: bring_back.difference(call, copy, place),
        )  # fmt: skip
        return DiffResult(
            a=f"a/{path}", b=f"b/{path}", equal=not shown.text, text=shown.text,
            added_lines=shown.added, removed_lines=shown.removed, truncated=shown.truncated,
            binary=False, request_id=self._request_id or "",
        )  # fmt: skip
