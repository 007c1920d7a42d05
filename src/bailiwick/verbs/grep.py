"""`grep`: lines that match, and everything that was not looked into.

Matches and skips are decided here, from the bytes of each file. Where the store can nominate the
files in which a match is possible, the others need not be read; the answer is the same either way.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import NamedTuple

import msgspec

from bailiwick.call import Call
from bailiwick.errors import (
    BailiwickError,
    NotARegularFile,
    ParseError,
    PathNotFound,
    escape_for_display,
)
from bailiwick.paths import ScopedPath
from bailiwick.search.glob import Filter, compile_filter
from bailiwick.search.grep import Query, compile_query
from bailiwick.search.ignore import IgnoreLevel
from bailiwick.search.results import GrepMatch, GrepResult
from bailiwick.search.searcher import LineMatch, Searcher
from bailiwick.store import Child, Handle, Nominates, Surveyed, Surveys
from bailiwick.text.sniff import is_binary_search
from bailiwick.unfollowed import unfollowed
from bailiwick.verbs.listing import page_size
from bailiwick.verbs.walks.ignore_files import Ignores
from bailiwick.verbs.walks.survey import FilesInRow, Rules, files_in_order
from bailiwick.verbs.walks.walk import FileRun, Visit, Walk

_log = logging.getLogger("bailiwick.search")

DEFAULT_FILE_BYTES_MAX = -1
"""Stands for the limit's own default, since None means no limit at all."""

_INLINE_BYTES_MAX = 1024 * 1024
_INLINE_NS_MAX = 10_000_000
"""What cannot take longer than this is searched on the loop; the rest in a thread."""

_FILES_BETWEEN_PAUSES = 64
_NS_BETWEEN_PAUSES = 5_000_000
"""After so many files, or so long, other tasks get their turn."""

_VISITS_BETWEEN_LOOKS = 256
"""A walk looks at the clock after so many entries."""


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


class _Candidate(msgspec.Struct, frozen=True, gc=False):
    path: ScopedPath
    size: int
    is_binary: bool = False


class _GrepRow(NamedTuple):
    """Files in the order of paths: how many, and by their number those to look into or to skip."""

    files: int
    marked: Iterable[tuple[int, _Candidate]]


class _Files:
    """Files that a walk came by, in its order: directories, as often as it came back to one."""

    def __init__(self) -> None:
        self.by_directory: list[tuple[ScopedPath, list[Child]]] = []
        self.count = 0

    def add(self, directory: ScopedPath, children: list[Child]) -> None:
        if self.by_directory and self.by_directory[-1][0] == directory:
            self.by_directory[-1][1].extend(children)
        else:
            self.by_directory.append((directory, children))
        self.count += len(children)


def _by_directory(paths: set[ScopedPath]) -> dict[str, set[str]]:
    """Names by the directory they are in, so that the paths of others need not be put together."""
    names: dict[str, set[str]] = {}
    for path in paths:
        directory, _, name = path.rpartition("/")
        names.setdefault(directory or ".", set()).add(name)
    return names


async def grep(call: Call, ignores: Ignores, asked: GrepAsked) -> GrepResult:
    if not 0 <= asked.context <= call.limits.grep_context_max:
        raise ParseError(f"context must be from 0 to {call.limits.grep_context_max}")
    search = _GrepSearch(call, ignores, asked)
    try:
        if call.handle.type == "directory":
            await search.tree(call.handle)
        elif call.handle.type == "file":
            await search.file(call.handle)
        else:
            raise NotARegularFile("neither file nor directory", path=call.handle.path)
    finally:
        search.close()
    return search.result()


def _filter(given: str | Sequence[str] | None, what: str) -> Filter | None:
    if given is None:
        return None
    patterns = (given,) if isinstance(given, str) else given
    if not isinstance(patterns, Sequence) or not all(isinstance(each, str) for each in patterns):
        raise ParseError(f"{what} must be a pattern or a list of them")
    return compile_filter(tuple(patterns)) if patterns else None


class _Fed(NamedTuple):
    """What some bytes gave, and whether the time was over before all were searched."""

    found: list[LineMatch]
    late: bool


class _Thread:
    """A thread for one search, made when first needed. No job outlives the call that waits."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self.given_up = False

    async def run(self, job: Callable[[], _Fed]) -> _Fed:
        """``job`` looks at ``given_up`` now and then: a cancelled call waits until it has."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="bailiwick-grep")
        job_done = asyncio.wrap_future(self._executor.submit(job))
        try:
            return await asyncio.shield(job_done)
        except asyncio.CancelledError:
            self.given_up = True
            while not job_done.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait((job_done,))
            raise

    def close(self) -> None:
        if self._executor is not None:
            self._executor.shutdown()  # it is idle: this is the end of a thread, not of a job


class _GrepSearch:
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
        self._thread = _Thread()
        self._paused_ns = 0
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
        async with aclosing(self._candidates(top)) as candidates:
            async for candidate in candidates:
                seen += 1
                await self._pause(seen)
                if self._reason is not None or self._is_late():
                    return
                if candidate.is_binary:
                    self._skip(self._binary, candidate.path)
                elif not self._is_too_large(candidate.path, candidate.size):
                    await self._named_file(candidate.path)

    async def _pause(self, seen: int) -> None:
        """Give other tasks their turn, when it is time."""
        now = self._monotonic_ns()
        if seen % _FILES_BETWEEN_PAUSES == 0 or now - self._paused_ns >= _NS_BETWEEN_PAUSES:
            await asyncio.sleep(0)
            self._paused_ns = self._monotonic_ns()

    def _is_late(self) -> bool:
        """Whether the time is over, which then is the reason to stop."""
        if self._monotonic_ns() < self._ends_ns:
            return False
        self._reason = (
            f"the search stopped after {self._call.limits.grep_seconds_max} seconds: "
            "name a smaller directory"
        )
        return True

    async def _candidates(self, top: Handle) -> AsyncGenerator[_Candidate, None]:
        """The files to look into, in the order of paths."""
        if not self._asked.report_skipped and await self._is_large(top):
            nominated = await self._nominate(top, await self._ignored_children(top))
            if nominated is not None:
                for path in sorted(nominated, key=lambda path: path.order):
                    if self._is_wanted(path, top.path) and not await self._is_ignored(path, top):
                        yield _Candidate(path, 0)
                return
        async with aclosing(self._rows(top)) as rows:
            async for row in rows:
                passed = 0
                for index, candidate in row.marked:
                    if self._reason is not None:
                        return
                    self._files += index - passed
                    passed = index + 1
                    yield candidate
                if self._reason is not None:
                    return
                self._files += row.files - passed

    async def _rows(self, top: Handle) -> AsyncGenerator[_GrepRow, None]:
        """All files, from a survey of the store's where there is one, else from a walk."""
        surveyed = await self._survey(top)
        if surveyed is not None:
            rules = Rules(self._ignores.names, self._level)
            ruled = None if self._asked.include_ignored else rules
            async with aclosing(files_in_order(surveyed, top.path, ruled)) as in_order:
                async for files in in_order:
                    yield self._surveyed_row(files, top.path)
            return
        nominations: list[asyncio.Task[set[ScopedPath] | None]] = []
        try:
            walked = await self._walk(
                top, lambda: nominations.append(asyncio.create_task(self._nominate_beside(top)))
            )
            nominated = await nominations[0] if nominations else None
        finally:
            for nomination in nominations:
                if not nomination.done():
                    nomination.cancel()
                    await asyncio.wait((nomination,))
        named = None if nominated is None else _by_directory(nominated)
        for directory, children in walked.by_directory:
            yield _GrepRow(len(children), self._worth_a_look(directory, children, named))

    def _worth_a_look(
        self, directory: ScopedPath, children: list[Child], named: dict[str, set[str]] | None
    ) -> Iterator[tuple[int, _Candidate]]:
        """Which files of a directory: those that may match, and those that are skipped."""
        here = () if named is None else named.get(directory, ())
        largest = math.inf if self._file_bytes_max is None else self._file_bytes_max
        for index, (name, _, size, _, _, _) in enumerate(children):
            if named is None or size > largest or name in here:
                yield index, _Candidate(directory.child(name), size)

    def _surveyed_row(self, files: FilesInRow, base: ScopedPath) -> _GrepRow:
        directory, names, (_, _, large, binary, worth) = files
        if self._include is not None or self._exclude is not None:
            names = [name for name in names if self._is_wanted(directory.child(name), base)]
        marked: list[tuple[int, _Candidate]] = []
        for index, name in enumerate(names):
            is_worth = name in worth
            if is_worth or name in binary or name in large:
                # What is worth a look may be damaged: only the rest is binary for certain.
                is_binary = not is_worth and name in binary
                size = large.get(name, 0)
                marked.append((index, _Candidate(directory.child(name), size, is_binary)))
        return _GrepRow(len(names), marked)

    async def _is_large(self, top: Handle) -> bool:
        """Whether asking a helper first pays, and policy lets its word stand for a walk."""
        if self._call.must_decide_below(top.path) or not isinstance(self._call.store, Nominates):
            return False
        seen, enough = 0, self._call.limits.grep_nominate_files_min
        walk = Walk(self._call, self._ignores, include_ignored=self._asked.include_ignored)
        async with aclosing(walk.visits_and_runs(top)) as steps:
            async for step in steps:
                if isinstance(step, FileRun):
                    seen += sum(child.type == "file" for child in step.children)
                if seen >= enough:
                    return True
        return False

    async def _walk(self, top: Handle, many: Callable[[], None]) -> _Files:
        """All files that are wanted; calls ``many`` once there are so many that help pays."""
        walk = Walk(self._call, self._ignores, include_ignored=self._asked.include_ignored)
        files = _Files()
        until_many = self._call.limits.grep_nominate_files_min
        look_at = 0
        async with aclosing(walk.visits_and_runs(top)) as steps:
            async for step in steps:
                before = files.count
                if isinstance(step, FileRun):
                    self._take_run(files, step, top.path)
                else:
                    self._take_visit(files, step, top.path)
                if before < until_many <= files.count:
                    many()
                if walk.visited >= look_at:
                    look_at = walk.visited + _VISITS_BETWEEN_LOOKS
                    if self._is_late():
                        break
        self._unreadable += [*walk.unreadable, *walk.unnamed]
        self._unwalked = walk.reason
        return files

    def _take_run(self, files: _Files, run: FileRun, base: ScopedPath) -> None:
        directory, children = run
        filtered = self._include is not None or self._exclude is not None
        readable: list[Child] = []
        for child in children:
            _, kind, _, _, addressable, _ = child
            if kind != "file" or (
                filtered and not self._is_wanted(directory.child(child.name), base)
            ):
                continue
            if addressable:
                readable.append(child)
            else:
                self._unreadable.append(directory.child(child.name))
        files.add(directory, readable)

    def _take_visit(self, files: _Files, visit: Visit, base: ScopedPath) -> None:
        path, child, directory, _, refused = visit
        if child.type == "file" and self._is_wanted(path, base):
            if refused:
                self._withheld.append(path)
            elif not child.addressable:
                self._unreadable.append(path)
            else:
                files.add(directory.path, [child])
        elif refused and child.type == "directory":
            self._withheld.append(path)

    async def _nominate_beside(self, top: Handle) -> set[ScopedPath] | None:
        """The helper's word while a walk is under way, which does not enter what is ignored."""
        return await self._nominate(top, await self._ignored_children(top))

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

    async def _survey(self, top: Handle) -> dict[ScopedPath, Surveyed] | None:
        """All directories beneath ``top`` at once; None where only a walk can tell."""
        store, asked, limits = self._call.store, self._asked, self._call.limits
        if not isinstance(store, Surveys) or not await self._is_large(top):
            return None
        return await store.survey(
            top, asked.pattern, literal=asked.literal, ignore_case=asked.ignore_case,
            word=asked.word, leave_out=await self._ignored_children(top),
            file_bytes_max=self._file_bytes_max, entries_max=limits.walk_entries_max,
            depth_max=limits.depth_max, deadline_s=limits.grep_seconds_max,
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
            rules = await self._ignores.level_of(self._call.store, directory, call=self._call)
            level = self._levels[directory] = rules.named()
        return level

    def _is_wanted(self, path: ScopedPath, base: ScopedPath) -> bool:
        if self._include is None and self._exclude is None:
            return True
        relative = path.relative_to(base)
        if self._include is not None and not self._include.matches(relative, False):
            return False
        return self._exclude is None or not self._exclude.covers(relative, False)

    async def _named_file(self, path: ScopedPath) -> None:
        """Look into one file, found again by its canonical name and never through a link."""
        try:
            handle = await unfollowed(self._call.store, path)
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
        elif self._is_quick(content.data):
            self._add(handle.path, self._search_bytes(content.data))
        else:
            searcher = self._searcher()
            await self._feed(handle.path, searcher, content.data)
            await self._feed(handle.path, searcher, None)

    def _is_quick(self, data: bytes) -> bool:
        """Whether a search cannot hold up the loop, whatever the pattern and the bytes are."""
        if len(data) > _INLINE_BYTES_MAX:
            return False
        lines = data.count(b"\n") + 1
        longest = self._query.ns_max(len(data), lines, self._room + 1, self._asked.context)
        return longest <= _INLINE_NS_MAX

    def _search_bytes(self, data: bytes) -> list[LineMatch]:
        return self._query.search(
            data, context=self._asked.context, matches_left=self._room + 1,
            line_characters_max=self._call.limits.grep_line_characters_max,
        )  # fmt: skip

    def _searcher(self) -> Searcher:
        return self._query.searcher(
            context=self._asked.context, matches_left=self._room + 1,
            line_characters_max=self._call.limits.grep_line_characters_max,
        )  # fmt: skip

    async def _search_stream(self, handle: Handle) -> None:
        """A file that is too large to hold, chunk by chunk."""
        searcher = self._searcher()
        async with aclosing(self._call.store.stream(handle, 0, None)) as chunks:
            async for chunk in chunks:
                await self._feed(handle.path, searcher, chunk)
                if self._reason is not None or searcher.done:
                    return
        await self._feed(handle.path, searcher, None)

    async def _feed(self, path: ScopedPath, searcher: Searcher, data: bytes | None) -> None:
        """Search more of a file in the thread; None is the end of it."""
        if self._reason is not None:
            return
        fed = await self._thread.run(lambda: self._feed_blocking(searcher, data))
        if fed.late:
            self._is_late()
        self._add(path, fed.found)

    def _feed_blocking(self, searcher: Searcher, data: bytes | None) -> _Fed:
        if data is None:
            return _Fed(searcher.finish(), False)
        found: list[LineMatch] = []
        for step in self._query.steps(data):
            if self._thread.given_up or self._monotonic_ns() >= self._ends_ns:
                return _Fed(found + searcher.stop(), True)
            found += searcher.feed(step)
            if searcher.done:
                break
        return _Fed(found, False)

    def close(self) -> None:
        self._thread.close()

    @property
    def _room(self) -> int:
        return self._results_max - len(self._matches)

    def _add(self, path: ScopedPath, found: list[LineMatch]) -> None:
        room = self._room
        if len(found) > room:
            self._reason = (
                f"there are more than {self._results_max} matches: narrow the search, or ask for"
                " more"
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
