"""`grep`: lines that match, and everything that was not looked into.

Matches and skips are decided here, from the bytes of each file. Where the store can nominate the
files in which a match is possible, the others need not be read; the answer is the same either way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing

import msgspec

from bailiwick.errors import (
    BailiwickError,
    NotARegularFile,
    ParseError,
    PathNotFound,
    escape_for_display,
)
from bailiwick.model import GrepMatch, GrepResult
from bailiwick.paths import ScopedPath
from bailiwick.pipeline import Call
from bailiwick.search.glob import Filter, compile_filter
from bailiwick.search.grep import Query, compile_query
from bailiwick.search.ignore import IgnoreLevel
from bailiwick.search.searcher import LineMatch
from bailiwick.store import Handle, Nominates
from bailiwick.text.sniff import is_binary_search
from bailiwick.verbs.ignoring import Ignores
from bailiwick.verbs.listing import page_size
from bailiwick.verbs.walking import Walk

_log = logging.getLogger("bailiwick.search")

DEFAULT_FILE_BYTES_MAX = -1
"""Stands for the limit's own default, since None means no limit at all."""

_INLINE_BYTES_MAX = 1024 * 1024
"""Searching this much takes about a millisecond; more is done off the loop."""

_FILES_BETWEEN_PAUSES = 64
"""After so many files the deadline is looked at and other tasks get their turn."""


class GrepAsked(msgspec.Struct, frozen=True, kw_only=True):
    """What one `grep` asks for."""

    pattern: str
    literal: bool
    ignore_case: bool
    word: bool
    include: str | Sequence[str] | None
    exclude: str | Sequence[str] | None
    max_results: int | None
    max_file_bytes: int | None
    context: int
    include_ignored: bool
    report_skipped: bool


class _Candidate(msgspec.Struct, frozen=True):
    path: ScopedPath
    size: int


async def grep(call: Call, ignores: Ignores, asked: GrepAsked) -> GrepResult:
    if not 0 <= asked.context <= call.limits.grep_context_max:
        raise ParseError(f"context must be from 0 to {call.limits.grep_context_max}")
    search = _Search(call, ignores, asked)
    if call.handle.type == "directory":
        await search.tree(call.handle)
    elif call.handle.type == "file":
        await search.file(call.handle)
    else:
        raise NotARegularFile("neither file nor directory", path=call.handle.path)
    return search.result()


def _filter(given: str | Sequence[str] | None, what: str) -> Filter | None:
    if given is None:
        return None
    patterns = (given,) if isinstance(given, str) else given
    if not isinstance(patterns, Sequence) or not all(isinstance(each, str) for each in patterns):
        raise ParseError(f"{what} must be a pattern or a list of them")
    return compile_filter(tuple(patterns)) if patterns else None


class _Search:
    """One search under way."""

    def __init__(self, call: Call, ignores: Ignores, asked: GrepAsked) -> None:
        limits = call.limits
        self._call = call
        self._ignores = ignores
        self._asked = asked
        self._query: Query = compile_query(
            asked.pattern, literal=asked.literal, ignore_case=asked.ignore_case, word=asked.word
        )
        self._include = _filter(asked.include, "include")
        self._exclude = _filter(asked.exclude, "exclude")
        self._results_max = (
            limits.grep_matches_default
            if asked.max_results is None
            else page_size(asked.max_results, limits.grep_matches_max)
        )
        self._file_bytes_max = (
            limits.grep_file_bytes_default
            if asked.max_file_bytes == DEFAULT_FILE_BYTES_MAX
            else asked.max_file_bytes
        )
        if self._file_bytes_max is not None and self._file_bytes_max < 0:
            raise ParseError("max_file_bytes must not be negative")
        self._monotonic_ns = call.pipeline.machine.monotonic_ns
        self._ends_ns = self._monotonic_ns() + int(limits.grep_seconds_max * 1e9)
        self._matches: list[GrepMatch] = []
        self._too_large: list[ScopedPath] = []
        self._binary: list[ScopedPath] = []
        self._unreadable: list[ScopedPath] = []
        self._withheld: list[ScopedPath] = []
        self._levels: dict[ScopedPath, IgnoreLevel] = {}
        self._files = 0
        self._reason: str | None = None
        self._unwalked: str | None = None

    def result(self) -> GrepResult:
        reason = self._reason or self._unwalked
        for paths, why in ((self._too_large, "too large"), (self._binary, "binary")):
            for path in paths:
                _log.warning("not searched: %s (%s)", escape_for_display(path), why)
        return GrepResult(
            matches=self._matches, skipped_paths=self._too_large,
            skipped_binary_paths=self._binary, unreadable=self._unreadable,
            withheld=self._withheld, truncated=reason is not None,
            files_searched=self._files, skips_reported=self._asked.report_skipped,
            request_id=self._call.request_id, reason=reason,
        )  # fmt: skip

    async def tree(self, top: Handle) -> None:
        """Everything beneath a directory, in the order of paths."""
        seen = 0
        async for candidate in self._candidates(top):
            if self._reason is not None:
                return
            seen += 1
            if seen % _FILES_BETWEEN_PAUSES == 0:
                await asyncio.sleep(0)
                if self._monotonic_ns() >= self._ends_ns:
                    self._stop_late()
                    return
            if self._is_too_large(candidate.path, candidate.size):
                continue
            await self._named_file(candidate.path)

    async def _candidates(self, top: Handle) -> AsyncIterator[_Candidate]:
        """The files to look into, in the order of paths."""
        if not self._asked.report_skipped and await self._is_large(top):
            nominated = await self._nominate(top, await self._ignored_children(top))
            if nominated is not None:
                for path in sorted(nominated, key=lambda path: path.parts):
                    if self._is_wanted(path, top.path) and not await self._is_ignored(path, top):
                        yield _Candidate(path, 0)
                return
        nominations: list[asyncio.Task[set[ScopedPath] | None]] = []
        try:
            files = await self._walk(
                top, lambda: nominations.append(asyncio.create_task(self._nominate(top, ())))
            )
            nominated = await nominations[0] if nominations else None
        finally:
            for nomination in nominations:
                if not nomination.done():
                    nomination.cancel()
                    await asyncio.wait((nomination,))
        for file in files:
            if self._reason is not None:
                return
            if nominated is None or file.path in nominated or self._exceeds(file.size):
                yield file
            else:
                self._files += 1

    async def _is_large(self, top: Handle) -> bool:
        """Whether asking a helper first pays, and policy lets its word stand for a walk."""
        if self._call.must_decide_below(top.path) or not isinstance(self._call.store, Nominates):
            return False
        seen, enough = 0, self._call.limits.grep_nominate_files_min
        walk = Walk(self._call, self._ignores, include_ignored=self._asked.include_ignored)
        async with aclosing(walk.visits(top)) as visits:
            async for visit in visits:
                seen += visit.child.type == "file"
                if seen >= enough:
                    return True
        return False

    async def _walk(self, top: Handle, many: Callable[[], None]) -> list[_Candidate]:
        """All files that are wanted; calls ``many`` once there are so many that help pays."""
        walk = Walk(self._call, self._ignores, include_ignored=self._asked.include_ignored)
        files: list[_Candidate] = []
        until_many = self._call.limits.grep_nominate_files_min
        async with aclosing(walk.visits(top)) as visits:
            async for visit in visits:
                child = visit.child
                if child.type != "file" or not self._is_wanted(visit.path, top.path):
                    if visit.refused and child.type == "directory":
                        self._withheld.append(visit.path)
                elif visit.refused:
                    self._withheld.append(visit.path)
                elif not child.addressable:
                    self._unreadable.append(visit.path)
                else:
                    files.append(_Candidate(visit.path, child.size))
                    if len(files) == until_many:
                        many()
                if walk.visited % 4_096 == 0 and self._monotonic_ns() >= self._ends_ns:
                    self._stop_late()
                    break
        self._unreadable.extend(walk.unreadable)
        self._unwalked = walk.reason
        return files

    async def _nominate(self, top: Handle, leave_out: tuple[str, ...]) -> set[ScopedPath] | None:
        store, asked = self._call.store, self._asked
        if not isinstance(store, Nominates):
            return None
        return await store.nominate(
            top, asked.pattern, literal=asked.literal, ignore_case=asked.ignore_case,
            word=asked.word, binaries=asked.report_skipped, leave_out=leave_out,
            file_bytes_max=self._file_bytes_max,
            deadline_s=self._call.limits.grep_seconds_max,
        )  # fmt: skip

    async def _ignored_children(self, top: Handle) -> tuple[str, ...]:
        """Directories right beneath ``top`` that need not be entered: mostly dependencies."""
        if self._asked.include_ignored:
            return ()
        rules = await self._level(top.path)
        children = await self._call.store.children(top)
        return tuple(
            child.name
            for child in children.entries
            if child.type == "directory" and rules.is_ignored(child.name, True)
        )

    async def _is_ignored(self, path: ScopedPath, top: Handle) -> bool:
        """Whether rules leave a nominated file out: the question a walk answers on its way."""
        if self._asked.include_ignored:
            return False
        *directories, name = path.relative_to(top.path).parts
        here = top.path
        for directory in directories:
            if (await self._level(here)).is_ignored(directory, True):
                return True
            here = here.child(directory)
        return (await self._level(here)).is_ignored(name, False)

    async def _level(self, directory: ScopedPath) -> IgnoreLevel:
        """The rules in a directory that the search enters, looked up once."""
        level = self._levels.get(directory)
        if level is None:
            level = (await self._ignores.level_of(self._call.store, directory)).named()
            self._levels[directory] = level
        return level

    def _is_wanted(self, path: ScopedPath, base: ScopedPath) -> bool:
        relative = path.relative_to(base)
        if self._include is not None and not self._include.matches(relative, False):
            return False
        return self._exclude is None or not self._exclude.covers(relative, False)

    async def _named_file(self, path: ScopedPath) -> None:
        """Look into one file, found again by its canonical name and never through a link."""
        try:
            handle = await self._call.store.resolve(path, "entry")
        except PathNotFound:
            return
        except BailiwickError:
            self._unreadable.append(path)
            return
        try:
            if handle.type == "file":
                await self.file(handle)
        finally:
            handle.close()

    async def file(self, handle: Handle) -> None:
        try:
            await self._search_file(handle)
        except PathNotFound:
            return
        except BailiwickError as error:
            if handle is self._call.handle:
                raise
            _log.warning("not searched: %s (%s)", escape_for_display(handle.path), error.kind)
            self._unreadable.append(handle.path)

    async def _search_file(self, handle: Handle) -> None:
        """One file's bytes: too large, binary, or searched."""
        if self._is_too_large(handle.path, handle.size):
            return
        whole_max = self._call.limits.grep_file_bytes_default
        content = await self._call.store.read(handle, 0, whole_max + 1)
        if self._is_too_large(handle.path, len(content.data)):
            return
        if is_binary_search(content.data):
            self._skip(self._binary, handle.path)
            return
        self._files += 1
        if len(content.data) > whole_max:
            await self._search_stream(handle)
        elif len(content.data) <= _INLINE_BYTES_MAX:
            self._add(handle.path, self._search_bytes(content.data))
        else:
            self._add(handle.path, await asyncio.to_thread(self._search_bytes, content.data))

    def _search_bytes(self, data: bytes) -> list[LineMatch]:
        return self._query.search(
            data, context=self._asked.context, matches_left=self._room + 1,
            line_characters_max=self._call.limits.grep_line_characters_max,
        )  # fmt: skip

    async def _search_stream(self, handle: Handle) -> None:
        """A file that is too large to hold: chunk by chunk, the deadline looked at in between."""
        searcher = self._query.searcher(
            context=self._asked.context, matches_left=self._room + 1,
            line_characters_max=self._call.limits.grep_line_characters_max,
        )  # fmt: skip
        async with aclosing(self._call.store.stream(handle, 0, None)) as chunks:
            async for chunk in chunks:
                self._add(handle.path, await asyncio.to_thread(searcher.feed, chunk))
                if self._reason is not None or searcher.done:
                    return
                if self._monotonic_ns() >= self._ends_ns:
                    self._stop_late()
                    break
        self._add(handle.path, searcher.finish())

    @property
    def _room(self) -> int:
        return self._results_max - len(self._matches)

    def _add(self, path: ScopedPath, found: list[LineMatch]) -> None:
        room = self._room
        if len(found) > room:
            self._reason = (
                f"there are more than {self._results_max} matches: narrow the search or raise "
                "max_results"
            )
        for match in found[:room]:
            self._matches.append(
                GrepMatch(
                    path=path,
                    line=match.line,
                    column=match.column,
                    text=match.text,
                    before=match.before,
                    after=match.after,
                    line_truncated=match.line_truncated,
                    undecodable=match.undecodable,
                )
            )

    def _exceeds(self, size: int) -> bool:
        return self._file_bytes_max is not None and size > self._file_bytes_max

    def _is_too_large(self, path: ScopedPath, size: int) -> bool:
        if not self._exceeds(size):
            return False
        self._skip(self._too_large, path)
        return True

    def _skip(self, skipped: list[ScopedPath], path: ScopedPath) -> None:
        if self._asked.report_skipped or path == self._call.handle.path:
            skipped.append(path)

    def _stop_late(self) -> None:
        self._reason = (
            f"the search stopped after {self._call.limits.grep_seconds_max} seconds: "
            "name a smaller directory"
        )
