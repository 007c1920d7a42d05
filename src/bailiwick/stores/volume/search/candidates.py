"""Which files beneath a directory may hold a match: one pass over the rows of a whole tree.

Reading each file by itself costs more than searching it. Here files come by the page (`pages`), and
two threads fetch and sift them (`sieve`), each with a connection of its own: what one has fetched
stays near its processor until it is searched. Both look at one state of the tree. The answer only
names candidates. Whatever is not plainly at hand (a file of several pieces, in a blob, damaged,
slow to search) is named without a look.

Loaded only when something is searched.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Final, NamedTuple

from bailiwick.finishing import wait_through_cancellation
from bailiwick.paths import ScopedPath
from bailiwick.search.grep import Query
from bailiwick.store import Surveyed
from bailiwick.stores.volume.core import VolumeCore
from bailiwick.stores.volume.rows.database import AnswersAtOnce
from bailiwick.stores.volume.search.pages import (
    ALONE,
    DIRECTORY,
    LARGE,
    NAMED,
    OTHER,
    WITH_CONTENT,
    ContentPage,
    Pages,
    Span,
    Unclear,
)
from bailiwick.stores.volume.search.sieve import Sieve

_THREADS: Final = 2
"""With a third the lock that Python's threads share would be the limit."""

_SIZE_MAX: Final = 2**63 - 1

_LAST: Final = "SELECT last FROM volume WHERE id = ?1"


class WantedContent(NamedTuple):
    """What is looked for, and where not; the terms are those of `Surveys.survey`."""

    query: Query
    binaries: bool
    leave_out: frozenset[str]
    file_bytes_max: int | None
    entries_max: int = _SIZE_MAX
    depth_max: int = _SIZE_MAX


class _Stop(Exception):
    """There is no time left, nobody waits any more, or there is more than was to be looked at."""


class _PagePart(NamedTuple):
    """A page that is to be fetched: of which directory, how deep that is, and where in it."""

    path: ScopedPath
    depth: int
    surveyed: Surveyed
    span: Span


class _Parts:
    """What is still to be done, for all threads; it ends when nobody can add to it any more."""

    def __init__(self) -> None:
        self._waiting: list[_PagePart] = []
        self._at_work = 0
        self._changed = threading.Condition()

    def add(self, part: _PagePart) -> None:
        with self._changed:
            self._waiting.append(part)
            self._changed.notify()

    def __iter__(self) -> Iterator[_PagePart]:
        """Part by part; who asks for the next is done with the one before."""
        while True:
            with self._changed:
                while not self._waiting and self._at_work:
                    self._changed.wait()
                if not self._waiting:
                    return
                part = self._waiting.pop()
                self._at_work += 1
            try:
                yield part
            finally:
                with self._changed:
                    self._at_work -= 1
                    self._changed.notify_all()


class _Scan:
    """One pass under way."""

    def __init__(
        self,
        core: VolumeCore,
        database: AnswersAtOnce,
        top: ScopedPath,
        wanted: WantedContent,
        deadline_s: float,
    ) -> None:
        self.is_given_up = False
        self._core = core
        self._database = database
        self._top = top
        self._wanted = wanted
        self._until = time.monotonic() + deadline_s
        self._sieve = Sieve(wanted.query, wanted.binaries, self._look)
        self._parts = _Parts()
        self._counting = threading.Lock()
        self._entries = 0
        self._surveyed: dict[ScopedPath, Surveyed] = {}

    def run_blocking(self, node: int) -> dict[ScopedPath, Surveyed] | None:
        try:
            with ExitStack() as stack:
                own, *others = self._sources(stack)
                self._enter(node, self._top, 0)
                helpers = stack.enter_context(ThreadPoolExecutor(_THREADS, "bailiwick-nominating"))
                helping = [helpers.submit(self._work, each) for each in others]
                self._work(own)
                for each in helping:
                    each.result()
        except (_Stop, Unclear):
            return None
        return self._surveyed

    def _sources(self, stack: ExitStack) -> list[Pages]:
        """A source of pages for each thread, all of one state of the volume. Where somebody changes
        it while they are opened there is only one."""
        largest = self._wanted.file_bytes_max
        largest = _SIZE_MAX if largest is None else min(largest, _SIZE_MAX)
        view, levels = self._core.view, self._core.levels
        sources: list[Pages] = []
        states: set[int] = set()
        for _ in range(_THREADS):
            connection = stack.enter_context(self._database.aside())
            states.update(last for (last,) in connection.execute(_LAST, (view.volume,)))
            sources.append(Pages(connection, view, levels, largest))
        return sources if len(states) == 1 else sources[:1]

    def _work(self, pages: Pages) -> None:
        """Fetch and sift, part by part. Called on each thread."""
        try:
            for part in self._parts:
                self._look()
                self._do(pages, part)
        except BaseException:
            self.is_given_up = True  # so that the others end as well
            raise

    def _do(self, pages: Pages, part: _PagePart) -> None:
        page = self._fetch(pages, part)
        if page is None:
            return
        for name, node in self._take(page, part.surveyed):
            child = part.path.child(name)
            if child.relative_to(self._top) not in self._wanted.leave_out:
                self._enter(node, child, part.depth + 1)
        for each in self._contents(pages, page, part.surveyed):
            worth, binary = self._sieve.sift(each)
            part.surveyed.worth.update(each.names[index] for index in worth)
            part.surveyed.binary.update(each.names[index] for index in binary)

    def _fetch(self, pages: Pages, part: _PagePart) -> ContentPage | None:
        upto, following = pages.bounds(part.span)
        if following is not None:  # for who has nothing to do
            self._parts.add(part._replace(span=following))
        return None if upto is None else pages.page(part.span, upto)

    def _enter(self, node: int, path: ScopedPath, depth: int) -> None:
        if depth >= self._wanted.depth_max:
            raise _Stop
        surveyed = self._surveyed[path] = Surveyed([], [], {}, set(), set())
        self._parts.add(_PagePart(path, depth, surveyed, Span(node)))

    def _take(self, page: ContentPage, surveyed: Surveyed) -> list[tuple[str, int]]:
        """Note what is on a page; the directories on it, with their nodes."""
        with self._counting:
            self._entries += len(page.names)
        if self._entries > self._wanted.entries_max:
            raise _Stop
        if not page.hows.strip(WITH_CONTENT):
            surveyed.files.extend(page.names)
            return []
        directories: list[tuple[str, int]] = []
        for index, (how, name) in enumerate(zip(page.hows, page.names, strict=True)):
            if how == DIRECTORY:
                surveyed.directories.append(name)
                directories.append((name, page.number(index)))
            elif how != OTHER:
                surveyed.files.append(name)
                if how == NAMED:
                    surveyed.worth.add(name)
                elif how == LARGE:
                    surveyed.large[name] = page.size(index)
        return directories

    def _contents(
        self, pages: Pages, page: ContentPage, surveyed: Surveyed
    ) -> Iterator[ContentPage]:
        """A page, and what has to be fetched besides."""
        yield page
        if ALONE not in page.hows:
            return
        for index, how in enumerate(page.hows):
            if how == ALONE:
                self._look()
                alone = pages.alone(page.names[index], page.number(index))
                if alone is None:
                    surveyed.worth.add(page.names[index])
                else:
                    yield alone

    def _look(self) -> None:
        if self.is_given_up or self._core.is_closed or time.monotonic() > self._until:
            raise _Stop


async def survey(
    core: VolumeCore, top: int, path: ScopedPath, wanted: WantedContent, deadline_s: float
) -> dict[ScopedPath, Surveyed] | None:
    """The directory ``top``, whose path is ``path``, and those beneath it.

    None where there was no time to see all, or the rows are not at hand. Cancelled, it ends before
    this does.
    """
    if core.at_once is None:
        return None
    scan = _Scan(core, core.at_once, path, wanted, deadline_s)
    running = asyncio.get_running_loop().run_in_executor(None, scan.run_blocking, top)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        scan.is_given_up = True
        await wait_through_cancellation(running)
        if not running.cancelled():
            running.exception()  # looked at: nobody else will
        raise


def nominated(surveyed: dict[ScopedPath, Surveyed] | None) -> set[ScopedPath] | None:
    """The paths of all files that are worth a look."""
    if surveyed is None:
        return None
    return {
        directory.child(name)
        for directory, (_, _, _, binary, worth) in surveyed.items()
        for name in worth | binary
    }
