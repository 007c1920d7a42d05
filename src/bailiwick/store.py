"""The seam between Bailiwick and whatever keeps names and bytes.

A store knows nobody: it is told paths, content and preconditions, never who asks. Every verb acts
on a `Handle` that `resolve` returned, never again on the text of a path, so that what was checked
is what is acted on. `bailiwick.testing.store_contract` proves an implementation.

Every method may raise: `PathNotFound`, `NotADirectory`, `IsADirectory`, `SymlinkEscape`,
`TooManyLinks`, `PermissionDenied`, `ReadOnly`, `Busy`, `IoError`, `Closed`. What a method raises
besides stands in its docstring. Nothing else may escape: an `OSError` that is no `BailiwickError`
is a fault of the store.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

from bailiwick.limits import Limits
from bailiwick.model import (
    ANYTHING,
    Change,
    EntryType,
    Expected,
    Hardlinks,
    Stat,
    Symlinks,
    WriteMode,
)
from bailiwick.paths import ScopedPath

Look = Literal["object", "entry"]
"""What a lookup is for: ``object`` follows a final link to what it leads to, which must exist;
``entry`` is a parent and one name, links in the parent followed, the name itself never, and
nothing need stand there."""


class Handle(Protocol):
    """What a lookup found, held open until `close`.

    ``path`` is canonical: the name of what was really opened (an ``object``), or the parent's
    canonical name and the last component (an ``entry``). ``type`` and ``size`` are what stood
    there at that instant; ``type`` is None where nothing did.
    """

    @property
    def path(self) -> ScopedPath: ...
    @property
    def type(self) -> EntryType | None: ...
    @property
    def size(self) -> int: ...
    def close(self) -> None:
        """Let go. Closing twice does nothing."""
        ...


def made_for(handle: Handle | None) -> tuple[ScopedPath, ...] | None:
    """The directories that were really made on the way to an entry, itself among them where it is
    one, as ``made`` of its handle says once a verb has made it: several who find the same ones
    missing do not all make them. None where a store does not say."""
    made: tuple[ScopedPath, ...] | None = getattr(handle, "made", None)
    return made


class Content(NamedTuple):
    """Bytes read in one go, with the size and version of the file they are from."""

    data: bytes
    size: int
    version: str


class Child(NamedTuple):
    """One name in a directory. ``addressable`` is False where the name is not valid text: then
    ``name`` is escaped and cannot be used to reach it. ``read_only`` is True where the store can
    tell that nobody changes it."""

    name: str
    type: EntryType
    size: int
    mtime_ns: int
    addressable: bool = True
    read_only: bool = False


class Children(NamedTuple):
    """Some names of a directory, sorted by name; ``more`` says that others follow."""

    entries: list[Child]
    more: bool


class WritePlan(msgspec.Struct, frozen=True, kw_only=True):
    """How content is to be published.

    ``mode`` and the expected hash and version are checked before anything is staged, and again at
    the instant of publishing. ``file_mode`` None keeps the mode of what is replaced, or gives a
    new file the store's default. ``parents`` lets missing directories be made, at publishing only.
    ``expected_content`` is what ``expected_sha256`` is the hash of, from whoever has it at hand: a
    store that has to look may compare it, which is quicker than to hash what it finds.
    """

    mode: WriteMode = "overwrite"
    expected_sha256: str | None = None
    expected_version: str | None = None
    file_mode: int | None = None
    parents: bool = False
    size_max: int = Limits().max_file_bytes
    expected_content: bytes | None = None

    @property
    def expected(self) -> Expected:
        return Expected(self.expected_version, self.expected_sha256)

    @property
    def conditional(self) -> bool:
        return self.expected_sha256 is not None or self.expected_version is not None


class Written(NamedTuple):
    """What was published. ``size_before`` is how much the file held that was replaced, as it was at
    the instant of publishing; None where nothing stood, or where a store cannot tell."""

    created: bool
    size: int
    sha256: str
    version: str
    file_mode: int
    size_before: int | None = None


@runtime_checkable
class Reader(Protocol):
    """Names and bytes, to be looked at: the half of a store that a verb has while it prepares."""

    @property
    def powers(self) -> frozenset[str]:
        """The optional protocols below that this store has, by name."""
        ...

    @property
    def description(self) -> dict[str, str]:
        """How the store works here, for people: kind, containment, durability …"""
        ...

    async def resolve(
        self, path: ScopedPath, look: Look, *, directory: bool = False, parents: bool = False
    ) -> Handle:
        """Find ``path`` and hold it.

        ``directory`` demands one (`NotADirectory`); for an ``entry`` it only refuses something
        else that stands there. ``parents`` accepts an ``entry`` whose parents are missing: the
        handle then stands on the deepest one there is. The root itself is an ``object`` always;
        as an ``entry`` it resolves too, with type ``directory`` and the name ``""``: verbs refuse
        what may not be done to it.
        """
        ...

    async def descend(self, directory: Handle, name: str) -> Handle:
        """Hold the child ``name`` of a held directory, never following a link.

        For walks: costs one component, and cannot leave the directory that was checked.
        """
        ...

    async def stat(self, handle: Handle) -> Stat:
        """What is known of the object, or of the entry itself (a link is not followed)."""
        ...

    async def children(
        self, directory: Handle, *, after: str | None = None, limit: int | None = None
    ) -> Children:
        """The names in a directory, sorted by name, those after ``after``, at most ``limit``.

        Reserved staging names are left out. An entry that vanishes or cannot be examined while
        listing never fails the rest: it is left out if gone, else given with type ``other``.
        """
        ...

    async def names_beside(self, entry: Handle) -> list[str]:
        """All names in the parent directory of an ``entry``; none where that is still missing."""
        ...

    async def read(self, file: Handle, offset: int, length: int) -> Content:
        """At most ``length`` bytes from ``offset``; fewer only at the end of the file.

        Takes an ``object``, or an ``entry`` under whose name a file stands (never a link).
        The bytes are of one version of the file. Raises `NotARegularFile` and `HardlinkRefused`,
        and `HashMismatch` when the file was seen to be rewritten in place meanwhile.
        """
        ...

    def stream(self, file: Handle, offset: int, length: int | None) -> AsyncGenerator[bytes, None]:
        """The bytes of a range in chunks, one in memory at a time. Raises as `read`, at any."""
        ...

    async def readlink(self, entry: Handle) -> str:
        """The text of a link. Raises `ParseError` where there is none, `SymlinkEscape` where it
        leads outside a real directory."""
        ...


@runtime_checkable
class Writer(Protocol):
    """The half that changes them, and that only the pipeline has."""

    async def write(self, entry: Handle, data: bytes, sha256: str, plan: WritePlan) -> Written:
        """Publish ``data``, whose hash is ``sha256``, under the entry's name: whole or not at all.

        Raises `FileAlreadyExists` (mode ``create``), `PathNotFound` (mode ``replace``, or a
        missing parent), `HashMismatch`, `FileTooLarge`, `NotARegularFile`, and `SymlinkEscape`
        when the name is a link.
        """
        ...

    async def write_stream(
        self, entry: Handle, chunks: AsyncIterator[bytes], plan: WritePlan
    ) -> Written:
        """Publish what ``chunks`` give, as `write`. What they raise is raised; nothing is left."""
        ...

    async def append(self, entry: Handle, data: bytes, plan: WritePlan) -> Written:
        """Add ``data`` at the end, all or nothing; parallel appends lose nothing."""
        ...

    async def truncate(self, entry: Handle, size: int, plan: WritePlan) -> Written:
        """Cut or extend (with zeros) to ``size``, all or nothing."""
        ...

    async def make_dir(self, entry: Handle, *, file_mode: int | None, parents: bool) -> bool:
        """Make a directory; with ``parents`` also those above it, and an existing one is fine.

        Returns whether anything was made. Raises `FileAlreadyExists`.
        """
        ...

    async def remove(self, entry: Handle, *, recursive: bool, expected: Expected = ANYTHING) -> int:
        """Remove the entry itself: a link, not what it leads to. Returns how many objects went,
        `MoreThan` so many where it takes a directory whole and does not count all of it.

        Raises `DirectoryNotEmpty` without ``recursive``, `HashMismatch` where that is not what is
        ``expected``. Never descends through a link.
        """
        ...

    async def move(
        self, source: Handle, destination: Handle, *, replace: bool,
        expected: Expected = ANYTHING, replaced: Expected = ANYTHING,
    ) -> bool:  # fmt: skip
        """Give the object another name, atomically. Returns whether anything changed.

        ``expected`` is what must be moved and ``replaced`` what it must take the place of, else it
        is `HashMismatch`.

        Moving a thing onto itself changes nothing. ``replace`` replaces a file, a link or an
        empty directory. Raises `FileAlreadyExists`, `DirectoryNotEmpty`, `ParseError` (a
        directory into itself), `Unsupported` (across filesystems).
        """
        ...

    async def copy(self, source: Handle, destination: Handle, *, recursive: bool) -> int:
        """Copy a file, a link as a link, or with ``recursive`` a directory, to a new name.

        Keeps links, modes and times; appears whole or not at all. Returns how many objects were
        made. Raises `FileAlreadyExists`, `IsADirectory`, `ParseError` (into itself).
        """
        ...

    async def symlink(self, entry: Handle, target: str) -> None:
        """Make a link. On disk one that points outside is `SymlinkEscape`."""
        ...

    async def set_mode(
        self, entry: Handle, file_mode: int, *, expected: Expected = ANYTHING
    ) -> None:
        """Set permission bits; setuid and the like are refused before. Raises `HashMismatch`."""
        ...

    async def set_times(
        self, entry: Handle, mtime_ns: int, atime_ns: int | None, *, expected: Expected = ANYTHING
    ) -> None:
        """Set the times of a file or directory. Raises `HashMismatch`."""
        ...


@runtime_checkable
class Store(Reader, Writer, Protocol):
    """Names and bytes. Its methods may be called from one event loop only."""

    async def aclose(self) -> None:
        """Wait for work under way, then let go of everything. Closing twice does nothing."""
        ...


@runtime_checkable
class LinksWithin(Protocol):
    """Having parts that no link leads out of, as a tree of mounts has. It changes no answer, so
    `Store.powers` does not name it."""

    def link_top(self, path: ScopedPath) -> ScopedPath:
        """Where absolute links at ``path`` begin, and what none of them leaves."""
        ...


@runtime_checkable
class KnowsMissing(Protocol):
    """A power: telling that nothing stands somewhere, quicker than a lookup that fails."""

    def is_missing(self, *paths: ScopedPath) -> bool:
        """Whether nothing stands at any of them; False where that takes a lookup."""
        ...


@runtime_checkable
class Nominates(Protocol):
    """A power: naming the files in which a pattern may match, faster than reading them all."""

    async def nominate(
        self,
        directory: Handle,
        pattern: str,
        *,
        literal: bool,
        ignore_case: bool,
        word: bool,
        binaries: bool,
        leave_out: tuple[str, ...],
        file_bytes_max: int | None,
        deadline_s: float,
    ) -> set[ScopedPath] | None:
        """A superset of the files beneath ``directory`` with a match; None where it cannot tell.

        Paths are canonical, from the root. With ``binaries`` files that hold a NUL byte are named
        too, so that they can be told apart. ``leave_out`` are directories, relative to
        ``directory``, not worth entering. Files over ``file_bytes_max`` need not be named.
        """
        ...


class Surveyed(NamedTuple):
    """One directory of a survey. Of the files those are ``worth`` a look in which a match may be;
    the ``large`` were not looked into, with their sizes, and the ``binary`` hold a NUL byte where a
    search looks for one. ``files`` and ``directories`` are in no order."""

    files: list[str]
    directories: list[str]
    large: dict[str, int]
    binary: set[str]
    worth: set[str]


@runtime_checkable
class Surveys(Protocol):
    """A walk and a nomination in one, where both would read the same rows. It changes no answer, so
    `Store.powers` does not name it."""

    async def survey(
        self,
        directory: Handle,
        pattern: str,
        *,
        literal: bool,
        ignore_case: bool,
        word: bool,
        leave_out: tuple[str, ...],
        file_bytes_max: int | None,
        entries_max: int,
        depth_max: int,
        deadline_s: float,
    ) -> dict[ScopedPath, Surveyed] | None:
        """``directory`` and all directories beneath it; None where it cannot tell.

        The terms are those of `Nominates.nominate`. It cannot tell what a walk would not have shown
        in full either: a tree with more entries, or deeper, than is said here.
        """
        ...


class Sighting(NamedTuple):
    """What stands under a name at this moment, and when it was last changed.

    The version of a file or link is that of `Stat`. A directory's stands for the directory itself
    and its permissions only, since its times change with every name in it.
    """

    type: EntryType
    version: str
    changed_ns: int


class Noticed(NamedTuple):
    """A change that was not made through this store, as its traces were found.

    ``change`` names no subject, request or time. ``keys`` are how the watcher finds the names again
    that it is about, wherever they are by then.
    """

    change: Change
    keys: tuple[Any, ...] = ()


class Changing(Protocol):
    """Which places are being changed through this process just now.

    What a watcher sees there is only judged once the change is over and was told.
    """

    @property
    def ended(self) -> int:
        """How many changes have ended: while it stays the same, none has."""
        ...

    def covers(self, path: ScopedPath) -> bool:
        """Whether ``path``, or a directory that it lies in, is being changed."""
        ...

    def leads_through(self, path: ScopedPath) -> bool:
        """Whether ``path`` is a directory that a change may be making on its way."""
        ...


class Watcher(Protocol):
    """Looks for changes made by others, from `Watches.watch_tree` until `close`."""

    @property
    def sees_all(self) -> bool:
        """False where a part of the tree could not be watched, for want of watches or rights."""
        ...

    async def ready(self) -> None:
        """Wait until the whole tree is watched: what changes from then on is noticed."""
        ...

    def told(self, change: Change) -> None:
        """A change was told in the feed, by whoever made or noticed it. What the watcher compares
        with is what was told so, in that order, and nothing else."""
        ...

    def catch_up(self, path: ScopedPath) -> None:
        """A change made through this process is about to be told: if the directories above it are
        not those that were told, that is noticed first."""
        ...

    def look_anew(self, noticed: Noticed) -> None:
        """What was noticed was not told: what stands there by now is."""
        ...

    def close(self) -> None:
        """Stop. Closing twice does nothing."""
        ...


@runtime_checkable
class Watches(Protocol):
    """A power: noticing what other programs change in the tree."""

    def sight(self, path: ScopedPath) -> Sighting | None:
        """What stands under a name, links neither followed on the way nor at the end; None for
        nothing, and for what cannot be examined."""
        ...

    def watch_tree(self, tell: Callable[[Sequence[Noticed]], None], changing: Changing) -> Watcher:
        """Begin to watch, on the running event loop; ``tell`` is called there with what is found:
        what others change, by its traces. Of what came and went between two looks nothing is told,
        where traces were lost a change of kind ``rescan`` is. Raises `Unsupported`."""
        ...


@runtime_checkable
class HostDirectory(Protocol):
    """Being a directory of this machine, in which programs can work: no power, for it changes no
    answer. ``open_directory`` gives a descriptor, closed by whoever asked, ``version_of`` the
    version of an `os.stat_result`, as `Stat` has it. Of an open directory, ``tells_times`` says if
    what changes in it gets a time that no earlier look at `CLOCK_REALTIME_COARSE` is past.
    ``mounts`` are the paths in it that something is mounted on. ``heeds_modes`` says whether modes
    keep this process out of its directories, as they do not keep out root."""

    def open_directory(self) -> int: ...
    def version_of(self, status: Any) -> str: ...
    def tells_times(self, directory: int) -> bool: ...
    def mounts(self) -> frozenset[str]: ...
    def heeds_modes(self) -> bool: ...


class Staged(NamedTuple):
    """One object to be made in a staged tree, by its path in that tree.

    Directories on the way that nobody made are made too. A ``copy`` is a file with the content of
    an earlier one, whose path is ``target``; a ``symlink`` has ``target`` as its text.
    ``file_mode`` and ``mtime_ns`` None mean what a new object has by itself.
    """

    path: ScopedPath
    type: Literal["file", "directory", "symlink", "copy"]
    file_mode: int | None = None
    mtime_ns: int | None = None
    target: str = ""


class Stage(Protocol):
    """A tree being made where no verb sees it, to appear at once or not at all."""

    async def add(self, steps: Sequence[Staged | bytes]) -> None:
        """Make some more objects. Bytes are content of the file that was added last.

        Nothing is made twice (`FileAlreadyExists`) and nothing through a link.
        """
        ...

    async def publish(self) -> None:
        """Give the whole tree the name it was staged for, in one step, durably.

        Raises `FileAlreadyExists` when something took that name meanwhile.
        """
        ...

    async def merge(self, *, replace: bool) -> None:
        """Move everything into the existing directory that it was staged for.

        Directories that exist are entered, never through a link. A name that is taken is
        `FileAlreadyExists`; with ``replace`` a file takes the place of a file. An error undoes all
        of it, and nothing else: what was replaced is kept until the end. In a real directory a
        reader may see some of the files before others, and a crash may leave some of them, whole.
        """
        ...

    async def discard(self) -> None:
        """Take away whatever is staged. To be called at the end in any case."""
        ...


@runtime_checkable
class Stages(Protocol):
    """A power: making a tree out of sight."""

    async def stage(self, place: Handle, *, size_max: int) -> Stage:
        """Begin a tree for ``place``: an entry where nothing stands, or an existing directory.

        No file in it may be larger than ``size_max``. A stage that a killed process left behind is
        taken away when the place is opened next.
        """
        ...


class StagedRemoval(NamedTuple):
    """Something that goes when a staged tree comes: a file or link that is what is ``expected``, or
    a directory in which nothing is left by then."""

    path: ScopedPath
    type: EntryType
    expected: Expected = ANYTHING


class SwapStage(Stage, Protocol):
    """A stage for much that comes, becomes another and goes at once, each on a condition."""

    async def swap(
        self, over: Mapping[ScopedPath, Expected], gone: Sequence[StagedRemoval]
    ) -> None:
        """Take away what is ``gone``, in that order, then move everything that was staged into the
        existing directory that it was staged for, by paths in that.

        What was staged takes the place of a file where ``over`` says what that must be; any other
        name must be free. Directories on the way that nobody staged must be there. Raises
        `HashMismatch`, `FileAlreadyExists`, `PathNotFound`, `NotADirectory`, `DirectoryNotEmpty`
        where others were quicker, `Unsupported` across filesystems. An error undoes all of it, and
        nothing else, as of `merge`.
        """
        ...


@runtime_checkable
class Swaps(Protocol):
    """Changing much at once, where one by one each change would be waited for. It changes no
    answer, so `Store.powers` does not name it."""

    async def stage_swap(self, place: Handle, *, size_max: int) -> SwapStage:
        """Begin to change what lies in an existing directory. Raises `Unsupported`."""
        ...


@runtime_checkable
class Narrows(Protocol):
    """A power: another, stricter view of the same tree."""

    def narrowed(
        self, *, symlinks: Symlinks | None = None, hardlinks: Hardlinks | None = None
    ) -> Store:
        """This tree under stricter settings: asking for looser ones keeps the stricter.

        What writes in one view and in the other never collides more than within one view. Closing
        it closes the view alone; closing the store it was made from closes both.
        """
        ...

    def shares_tree(self, other: Store) -> bool:
        """Whether ``other`` is a view of the very same tree."""
        ...
