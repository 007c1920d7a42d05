"""A working copy: what an overlay mount left, and what it lay over.

What a program left there is hostile: it is reached by descriptors, one component at a time, no link
is followed, and nothing but regular files is read.
"""

from __future__ import annotations

import os
import stat as stat_bits
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, aclosing, suppress
from typing import Final, NamedTuple

from bailiwick.commands import DirectorySeen, SessionNote, Visible
from bailiwick.errors import BailiwickError, PathNotFound
from bailiwick.finishing import in_thread
from bailiwick.model import KiB
from bailiwick.paths import NameRule, ScopedPath, parse
from bailiwick.sandbox import Touched, Tree
from bailiwick.working_copies.base_images import BaseImages
from bailiwick.working_copies.folder import Folder, not_read_on, read_on
from bailiwick.working_copies.leavings import SPECIAL_BITS, Leavings, OpenLeft, Source, begun
from bailiwick.working_copies.lower import Lower, ShownTree, by_now, hidden
from bailiwick.working_copies.removals import Removals
from bailiwick.working_copies.survey import CHANGED_SINCE, Survey
from bailiwick.working_copy import Alterations, Base, Dropped, GivingUp, Publishing

ReadUpper = Callable[[int, int], Iterable[Touched]]
"""What an overlay's upper directory tells of what was changed on top of a lower one."""

ParentLeft = Callable[[int, str], AbstractContextManager[tuple[int, str]]]
"""Opens the directory that something stands in that a program left, to change it, whatever the mode
of it and of those around it; and its name there."""

LetThrough = Callable[[int, str, Callable[[str], Iterable[str]]], None]
"""Has a directory that hid the lower one show it again, but for the names that are told of each
directory."""


Gather = Callable[[int, int], None]
"""Moves what a killed process left in a copy of the tree, in the directory of the mount, to the
upper directory."""


class Uppers(NamedTuple):
    """What is known of upper directories."""

    read: ReadUpper
    open_left: OpenLeft
    parent_left: ParentLeft
    let_through: LetThrough
    gather: Gather


_INLINE_BYTES_MAX: Final = 64 * KiB
"""What is read where it is asked for: it was hashed a moment ago, and a thread takes longer."""

_TORN: Final = (
    "the machine ended before this was flushed, and it may not be whole: what is there can be"
    " fetched by hand from the state directory"
)


class DirectoryCopy:
    """What was changed on top of one directory, kept in a folder of its own."""

    is_overlay: Final = False

    def __init__(
        self, folder: Folder, lower: Lower, shown: ShownTree, uppers: Uppers, names: NameRule,
        bytes_max: int, removals: Removals,
    ) -> None:  # fmt: skip
        """``shown`` is what programs saw beneath their changes, owned from here on. ``removals``:
        what nobody waits for when a command has ended."""
        self._folder = folder
        self._lower = lower
        self._shown = shown
        self._uppers = uppers
        self._names = names
        self._bytes_max = bytes_max
        self._removals = removals
        self._closed = False
        self._sources: dict[ScopedPath, Source] = {}
        self._sizes: dict[ScopedPath, int] = {}
        self._gone: set[ScopedPath] = set()
        self._base = Survey({})
        self._bases = BaseImages(folder)
        self._has_base = False
        self._is_of_one_command = False

    @property
    def id(self) -> str:
        return self._folder.id

    @property
    def folder(self) -> Folder:
        return self._folder

    def load(self) -> None:
        """Take up what was found when it began. A process that was killed has flushed nothing."""
        self._folder.note_unflushed_upper()
        self._folder.gather(self._uppers.gather)
        self._base, self._has_base = self._folder.load_survey(self._lower.recall), True

    def close(self) -> None:
        """Let go of it; what was changed stays."""
        if not self._closed:
            self._closed = True
            self._shown.close()
            self._folder.close()

    # --- for a command ------------------------------------------------------------------------

    async def survey(self) -> None:
        now = await self._lower.survey()
        await in_thread(self._begin_from, now)

    def _begin_from(self, now: Survey) -> None:
        """What was touched already keeps the base that it had then. In a new copy nothing was: what
        is there by now was changed by a program that has begun meanwhile."""
        if self._has_base:
            for touched in self._uppers.read(self._folder.upper, self._shown.directory):
                now.put(touched.path, self._base.get(touched.path))
                for beneath in self._base.beneath(touched.path):
                    now.put(beneath, self._base.get(beneath))
        self._base, self._has_base = now, True

    async def show(self, masked: tuple[str, ...]) -> None:
        shown, before = await self._lower.show(self._base, masked), self._shown
        self._shown = shown
        before.close()
        await in_thread(self._note_shown, shown)

    def _note_shown(self, shown: ShownTree) -> None:
        """Whoever opens the copy again finds what it lies over, and it stays until then."""
        if shown.name:
            self._folder.save_lower(shown.name)
        for path in shown.changed:
            if (base := self._base.get(path)) is not None:
                self._base.put(path, base._replace(version=CHANGED_SINCE))
        self._folder.save_survey(self._base)

    def seen(self) -> Iterator[DirectorySeen]:
        """Directories come before what lies in them."""
        return self._base.seen()

    async def by_now(self) -> Visible | None:
        return await by_now(self._lower, self._base, self)

    def tree(self, place: str, masked: tuple[str, ...], *, writable: bool, lasting: bool) -> Tree:
        folder = self._folder
        self._is_of_one_command = not lasting
        if writable and not lasting:
            folder.note_volatile_upper()
        return Tree(
            place=place, lower=self._shown.directory,
            masked=hidden(self._lower, self._base, masked),
            searched=self._base.doors is not None,
            upper=folder.upper_path if writable else None,
            work=folder.overlay_path if writable else None, lasting=lasting,
        )  # fmt: skip

    async def note_session(self, note: SessionNote) -> None:
        await in_thread(self._folder.save_session, note)

    async def session_note(self) -> SessionNote | None:
        return await in_thread(self._folder.load_session)

    # --- what was changed ---------------------------------------------------------------------

    async def alterations(self) -> Alterations:
        if self._folder.is_removed:
            return Alterations([], [], [])
        return await in_thread(self._alterations)

    def _alterations(self) -> Alterations:
        upper = self._folder.upper
        lower, mounts = self._shown.directory, frozenset(self._lower.mounts())
        left = Leavings(
            self._base, upper, lower, self._names, self._uppers.open_left, self._bytes_max,
            mounts,
        )  # fmt: skip
        left.all(self._uppers.read(upper, lower))
        self._sources = left.sources
        changed = [x for x in left.altered.values() if x.type == "file"]
        self._bases.keep(self._shown, ((x.path, x.base) for x in changed if x.base is not None))
        self._save_looked_up()
        self._sizes = {path: each.size for path, each in left.altered.items()}
        self._gone = {path for path, each in left.altered.items() if each.type is None}
        altered = sorted(left.altered.values(), key=lambda each: each.path.order)
        if self._folder.is_torn:
            torn = [Dropped(str(each.path), _TORN) for each in altered]
            return Alterations([], [*torn, *left.unfit], left.dropped)
        return Alterations(altered, left.unfit, left.dropped, left.moved, mounts)

    # --- content ------------------------------------------------------------------------------

    async def content(self, path: ScopedPath) -> AsyncGenerator[bytes, None]:
        source = self._sources.get(path)
        if source is None:
            raise PathNotFound("is not among what was changed", path=path)
        if self._sizes.get(path, _INLINE_BYTES_MAX + 1) <= _INLINE_BYTES_MAX:
            data, file = self._begin(source)
        else:
            data, file = await in_thread(self._begin, source, let_go=not_read_on)
        async with aclosing(read_on(data, file)) as chunks:
            async for chunk in chunks:
                yield chunk

    def _begin(self, source: Source) -> tuple[bytes, int | None]:
        """What came along with its directory may be gone from where it lay by now, or something
        else stands there: then it was put aside."""
        path = ScopedPath(source.path)
        if source.top == self._shown.directory and self._folder.has_kept(path):
            return self._folder.open_kept(path)
        return begun(source)

    async def keep(self, path: ScopedPath, chunks: AsyncGenerator[bytes, None]) -> None:
        await self._folder.keep(path, chunks)

    async def keep_all(self, contents: Mapping[ScopedPath, bytes]) -> None:
        await in_thread(self._folder.keep_all, contents)

    async def kept(self, path: ScopedPath) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._folder.kept(path)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def base_image(self, path: ScopedPath) -> bytes | None:
        return await in_thread(self._folder.load_base, path)

    async def keep_bases(self) -> None:
        await in_thread(self._keep_bases)

    def _keep_bases(self) -> None:
        self._bases.keep(self._shown, self._bases_touched())
        self._save_looked_up()

    def _bases_touched(self) -> Iterator[tuple[ScopedPath, Base]]:
        for touched in self._uppers.read(self._folder.upper, self._shown.directory):
            base = self._base.get(touched.path)
            if touched.kind == "file_changed" and base is not None:
                with suppress(BailiwickError):
                    yield parse(touched.path, "/", self._names).path, base

    def _save_looked_up(self) -> None:
        """What was looked up is what it was: whoever takes the copy up again compares with that."""
        if self._base.has_looked_up:
            self._folder.save_since(self._base)

    async def leave(self) -> None:
        await in_thread(self._folder.flush)

    # --- what became of it --------------------------------------------------------------------

    async def publishing(self, what: Publishing | None) -> None:
        if not self._folder.is_removed:
            await in_thread(self._folder.note_publishing, what)

    async def giving_up(self, what: GivingUp | None) -> None:
        await in_thread(self._folder.note_giving_up, what)

    async def note_done(self, key: bytes) -> None:
        await in_thread(self._folder.note_done, key)

    async def settle(self, published: Collection[ScopedPath], seen: Alterations) -> None:
        if self._is_of_one_command and seen.is_all_in(published):
            # It is gone at once: whoever is killed before finds that it was being brought back.
            await self.discard()
            return
        await in_thread(self._settle, await self._lower.look(published))

    def _settle(self, now: Mapping[ScopedPath, Base | None]) -> None:
        for path in sorted(now, key=lambda each: each.order, reverse=True):
            self._take_away(path)
        self._folder.forget_bases(now)
        self._show_again(now)
        self._put_all(now)

    def _take_away(self, path: ScopedPath) -> None:
        """One name of the upper directory; a directory only if nothing is left in it."""
        parent_left = self._uppers.parent_left(self._folder.upper, path)
        with suppress(FileNotFoundError, NotADirectoryError), parent_left as (directory, name):
            try:
                os.unlink(name, dir_fd=directory)
            except IsADirectoryError:
                with suppress(OSError):
                    os.rmdir(name, dir_fd=directory)

    def _put_all(self, now: Mapping[ScopedPath, Base | None]) -> None:
        for path, base in now.items():
            self._base.put(str(path), base)
        self._folder.save_since(self._base)

    def _show_again(self, settled: Collection[ScopedPath]) -> None:
        """A directory that a program made anew hides all that lies below: what has come into the
        tree by now would count as removed. So it hides only what the program took away."""
        directories: set[ScopedPath] = set()
        for path in settled:
            above = path.parent
            while not above.is_root and above not in directories:
                directories.add(above)
                above = above.parent
        removed: dict[str, list[str]] = defaultdict(list)
        for path in self._gone.difference(settled):
            removed[str(path.parent)].append(path.name)
        for each in sorted(directories, key=lambda each: each.order):
            self._uppers.let_through(self._folder.upper, str(each), lambda at: removed[at])

    async def rebase(self, path: ScopedPath, image: bytes) -> None:
        await in_thread(self._folder.save_base, path, image)
        await self.restored((path,))

    async def restored(self, paths: Collection[ScopedPath]) -> None:
        await in_thread(self._put_all, await self._lower.look(paths))

    async def rewrite(self, path: ScopedPath, data: bytes, seen: Alterations) -> None:
        await in_thread(self._rewrite, path, data)

    def _rewrite(self, path: ScopedPath, data: bytes) -> None:
        with self._uppers.parent_left(self._folder.upper, path) as (directory, name):
            was = os.stat(name, dir_fd=directory, follow_symlinks=False)
            staged = self._folder.stage(data, stat_bits.S_IMODE(was.st_mode) & ~SPECIAL_BITS)
            os.rename(staged, name, dst_dir_fd=directory)

    async def discard(self, seen: Alterations | None = None) -> None:
        if self._folder.is_removed:
            return
        if self._is_of_one_command:
            aside = await in_thread(self._folder.put_aside, let_go=self._removals.begin_with)
            self._removals.begin(aside)
        else:
            await in_thread(self._folder.remove)
