"""A working copy: what an overlay mount left, and what it lay over.

What a program left there is hostile: it is reached by descriptors, one component at a time, no link
is followed, and nothing but regular files is read.
"""

from __future__ import annotations

import hashlib
import os
import stat as stat_bits
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, aclosing, contextmanager, suppress
from typing import Final, NamedTuple

from bailiwick.changes_made import MOUNTED_SINCE
from bailiwick.commands import DirectorySeen, SessionNote, Visible
from bailiwick.errors import BailiwickError, PathNotFound, escape_for_display
from bailiwick.finishing import in_thread
from bailiwick.model import KiB
from bailiwick.paths import RESERVED_PREFIX, NameRule, ScopedPath, parse
from bailiwick.sandbox import Touched, TouchedKind, Tree
from bailiwick.working_copies.base_images import BaseImages
from bailiwick.working_copies.folder import CHUNK_BYTES, Folder, not_read_on, read_on
from bailiwick.working_copies.lower import Lower, ShownTree, by_now, hidden
from bailiwick.working_copies.removals import Removals
from bailiwick.working_copies.survey import CHANGED_SINCE, MOUNTED, Survey
from bailiwick.working_copy import Alterations, Altered, Base, Dropped, GivingUp, Publishing

ReadUpper = Callable[[int, int], Iterable[Touched]]
"""What an overlay's upper directory tells of what was changed on top of a lower one."""

OpenLeft = Callable[[int, str], int]
"""Opens a file that a program left, whatever its mode and that of the directories around it."""

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


_SPECIAL_BITS: Final = 0o7000
_DIRECTORY_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Source(NamedTuple):
    """Where the content of a path is: in the upper directory, or where it lay below before the
    directory around it was moved."""

    top: int
    path: str
    open: OpenLeft


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
        reading = _Reading(
            self._base, upper, lower, self._names, self._uppers.open_left, self._bytes_max,
            mounts,
        )  # fmt: skip
        reading.all(self._uppers.read(upper, lower))
        self._sources = reading.sources
        changed = [x for x in reading.altered.values() if x.type == "file"]
        self._bases.keep(self._shown, ((x.path, x.base) for x in changed if x.base is not None))
        self._save_looked_up()
        self._sizes = {path: each.size for path, each in reading.altered.items()}
        self._gone = {path for path, each in reading.altered.items() if each.type is None}
        altered = sorted(reading.altered.values(), key=lambda each: each.path.order)
        if self._folder.is_torn:
            torn = [Dropped(str(each.path), _TORN) for each in altered]
            return Alterations([], [*torn, *reading.unfit], reading.dropped)
        return Alterations(altered, reading.unfit, reading.dropped, reading.moved, mounts)

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
        return _begun(source)

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
            staged = self._folder.stage(data, stat_bits.S_IMODE(was.st_mode) & ~_SPECIAL_BITS)
            os.rename(staged, name, dst_dir_fd=directory)

    async def discard(self, seen: Alterations | None = None) -> None:
        if self._folder.is_removed:
            return
        if self._is_of_one_command:
            aside = await in_thread(self._folder.put_aside, let_go=self._removals.begin_with)
            self._removals.begin(aside)
        else:
            await in_thread(self._folder.remove)


class _Reading:
    """What an upper directory tells, turned into what became of each path."""

    def __init__(
        self, survey: Survey, upper: int, lower: int, names: NameRule, open_left: OpenLeft,
        bytes_max: int, mounts: Collection[str],
    ) -> None:  # fmt: skip
        """``mounts`` are the directories that other filesystems are mounted on by now."""
        self._survey = survey
        self._upper = upper
        self._lower = lower
        self._names = names
        self._open_left = open_left
        self._bytes_left = bytes_max
        self._mounts = mounts
        self._covered: set[str] = set()
        self.altered: dict[ScopedPath, Altered] = {}
        self.sources: dict[ScopedPath, Source] = {}
        self.unfit: list[Dropped] = []
        self.dropped: list[Dropped] = []
        self.moved: dict[ScopedPath, ScopedPath] = {}

    def all(self, found: Iterable[Touched]) -> None:
        told = list(found)
        for touched in told:
            self._add(touched)
        kinds = {each.path: each.kind for each in told}  # of two the later, which stands there
        for touched in told:
            if touched.kind == "directory_replaced":
                self._gone_beneath(touched.path, kinds)
        for touched in told:
            if touched.moved_from is not None:
                self._came_along(touched.path, touched.moved_from, kinds)

    def _add(self, touched: Touched) -> None:
        base = self._survey.get(touched.path)
        self._drop_beside_mode(touched)
        was = None if base is None else (base.type, base.mode)
        if touched.kind == "directory_changed" and was == ("directory", touched.mode):
            return  # it was compared with what stands there by now
        path = self._path(touched.path)
        if path is None:
            return
        match touched.kind:
            case "removed":
                if base is not None:
                    self.altered[path] = Altered(path, None, base)
                    self._gone_beneath(touched.path, {})
            case "special_dropped":
                self._drop(touched.path, "only files, directories and links are brought back")
            case "too_deep":
                self.unfit.append(Dropped(escape_for_display(touched.path), "it lies too deep"))
            case "symlink_created" | "symlink_changed":
                self._add_link(path, touched, base)
            case "file_created" | "file_changed":
                self._add_file(
                    path, touched, base, Source(self._upper, touched.path, self._open_left)
                )
            case _ if base is not None and base.version == MOUNTED:
                pass  # its mode is not the one that the program saw
            case _ if base is None or base.type != "directory" or base.mode != touched.mode:
                mode = self._mode(touched)
                self.altered[path] = Altered(path, "directory", base, mode)
            case _:
                self.altered.pop(path, None)  # as it was; what is in it is told by itself

    def _path(self, text: str) -> ScopedPath | None:
        try:
            path = parse(text, "/", self._names).path
        except BailiwickError as error:
            self.unfit.append(Dropped(escape_for_display(text), error.message))
            return None
        if any(part.startswith(RESERVED_PREFIX) for part in path.parts):
            self.unfit.append(Dropped(path, "this name is reserved"))
            return None
        return None if self._mounts and self._is_mounted_over(text) else path

    def _is_mounted_over(self, text: str) -> bool:
        """Whether what the program saw there lies beneath a filesystem that was mounted since: what
        stands there now is something else."""
        if text not in self._covered:
            for mount in self._mounts:
                if text == mount or text.startswith(f"{mount}/"):
                    base = self._survey.get(mount)
                    is_new = base is None or base.version != MOUNTED
                    if is_new or (text != mount and self._survey.get(text) is not None):
                        self.unfit.append(Dropped(escape_for_display(text), MOUNTED_SINCE))
                        self._covered.add(text)
                        break
        return text in self._covered

    def _drop(self, text: str, reason: str) -> None:
        self.dropped.append(Dropped(escape_for_display(text), reason))

    def _drop_beside_mode(self, touched: Touched) -> None:
        if touched.attributes:
            self._drop(touched.path, "extended attributes are not kept")
        if touched.acls:
            self._drop(touched.path, "access control lists are not kept")

    def _mode(self, touched: Touched) -> int:
        if touched.mode & _SPECIAL_BITS:
            self._drop(touched.path, "setuid, setgid and sticky are not kept")
        return touched.mode & ~_SPECIAL_BITS

    def _add_link(self, path: ScopedPath, touched: Touched, base: Base | None) -> None:
        text = touched.target or ""
        try:
            text.encode()
        except UnicodeEncodeError:
            self.unfit.append(Dropped(path, "the text of the link is not valid text"))
            self.altered.pop(path, None)
            return
        self.altered[path] = Altered(path, "symlink", base, size=len(text), target=text)

    def _add_file(
        self, path: ScopedPath, touched: Touched, base: Base | None, source: Source
    ) -> None:
        self.sources[path] = source
        try:
            size, sha256 = _hashed(source, self._bytes_left)
        except _TooMuch:
            self.unfit.append(Dropped(path, "there is more than is brought back of one command"))
            self.altered.pop(path, None)
            return
        except (FileNotFoundError, NotADirectoryError):
            return  # a command that is under way has taken it away since
        self._bytes_left -= size
        mode = self._mode(touched)
        self.altered[path] = Altered(path, "file", base, mode, size, sha256)

    def _gone_beneath(self, directory: str, kinds: Mapping[str, TouchedKind]) -> None:
        """What lay in a directory that was taken away or replaced, and did not come again."""
        for text in self._survey.beneath(directory):
            is_told = kinds.get(text, "special_dropped") != "special_dropped"
            if not is_told and (path := self._path(text)) is not None:
                self.altered[path] = Altered(path, None, self._survey.get(text))

    def _came_along(self, directory: str, origin: str, kinds: Mapping[str, TouchedKind]) -> None:
        """What lies in a directory that was moved, and was not touched there."""
        if (top := self._path(directory)) is not None:
            self.moved[top] = ScopedPath(origin)
        for text in self._survey.beneath(origin):
            there = directory + text.removeprefix(origin)
            was, base = self._survey.get(text), self._survey.get(there)
            if was is None or _is_covered(there, directory, kinds):
                continue
            if (path := self._path(there)) is None or self._path(text) is None:
                continue
            if was.type == "file":
                touched = Touched(path=there, kind="file_created", mode=was.mode)
                self._add_file(path, touched, base, Source(self._lower, text, _open_beneath))
            elif was.type == "symlink":
                with suppress(OSError):  # others have put something else there since
                    target = _link_text(self._lower, text)
                    touched = Touched(path=there, kind="symlink_created", target=target)
                    self._add_link(path, touched, base)
            elif was.type == "directory":
                self._add(Touched(path=there, kind="directory_created", mode=was.mode))
            if (came := self.altered.get(path)) is not None and came.type is not None:
                self.altered[path] = came._replace(origin=ScopedPath(text))


def _is_covered(path: str, directory: str, kinds: Mapping[str, TouchedKind]) -> bool:
    """Whether what stands at a path in a directory that was moved is told by itself, or did not
    come along with it."""
    if path in kinds:
        return True
    while (path := path.rpartition("/")[0]) != directory:
        if kinds.get(path, "directory_changed") != "directory_changed":
            return True
    return False


# --- by descriptors ---------------------------------------------------------------------------


@contextmanager
def _parent(top: int, path: str) -> Iterator[tuple[int, str]]:
    """The directory that a path stands in, opened one component at a time, and its name there."""
    *above, name = path.split("/")
    directory = os.open(".", _DIRECTORY_FLAGS, dir_fd=top)
    try:
        for part in above:
            below = os.open(part, _DIRECTORY_FLAGS, dir_fd=directory)
            os.close(directory)
            directory = below
        yield directory, name
    finally:
        os.close(directory)


def _opened(source: Source) -> int:
    return source.open(source.top, source.path)


def _begun(source: Source) -> tuple[bytes, int | None]:
    """The first of a file, and its descriptor where there is more."""
    file = _opened(source)
    more = False
    try:
        data = os.read(file, CHUNK_BYTES)
        more = len(data) < os.fstat(file).st_size
    finally:
        if not more:
            os.close(file)
    return data, file if more else None


def _open_beneath(top: int, path: str) -> int:
    """A regular file of the tree below, to be read. Raises OSError, and `FileNotFoundError` where
    something else stands there by now."""
    with _parent(top, path) as (directory, name):
        if not stat_bits.S_ISREG(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            raise FileNotFoundError(path)
        file = os.open(name, _FILE_FLAGS, dir_fd=directory)
    if not stat_bits.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise FileNotFoundError(path)
    return file


class _TooMuch(Exception):
    """More than is looked at."""


def _hashed(source: Source, bytes_max: int) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    file = _opened(source)
    try:
        if os.fstat(file).st_size > bytes_max:
            raise _TooMuch
        while chunk := os.read(file, CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
            if size > bytes_max:
                raise _TooMuch
    finally:
        os.close(file)
    return size, digest.hexdigest()


def _link_text(top: int, path: str) -> str:
    with _parent(top, path) as (directory, name):
        return os.readlink(name, dir_fd=directory)
