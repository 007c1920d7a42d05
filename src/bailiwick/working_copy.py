"""What was changed on top of a tree and is not in it yet: by a command, by an agent that is run
whole, or through a root that lies over another.

A working copy knows of every path that was touched what stood below it when it was touched first.
So what others change meanwhile is found, and never overwritten. Bringing it back is a verb like any
other: `bailiwick.verbs.working_copies` works out a plan, and the pipeline carries it out.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, Protocol

from bailiwick.errors import PathNotFound
from bailiwick.model import EntryType, Value
from bailiwick.paths import ScopedPath
from bailiwick.versions import ChangeKind, Mark, Plan


class Base(NamedTuple):
    """What stood at a place of the lower tree when the working copy began."""

    type: EntryType
    version: str
    size: int
    mode: int


class Altered(NamedTuple):
    """One path that is not what it was. ``type`` is None for what was taken away, ``base`` for what
    was not there before. Of a file the hash is told, of a link its text. ``origin`` is where it lay
    if it came along with a directory, and was not touched. By its ``mark`` a copy in which
    others work meanwhile knows whether it is still that."""

    path: ScopedPath
    type: EntryType | None
    base: Base | None
    mode: int = 0
    size: int = 0
    sha256: str | None = None
    target: str | None = None
    origin: ScopedPath | None = None
    mark: str | None = None


class Dropped(NamedTuple):
    """What was left in a working copy and is nothing that a root can hold, as far as it can be
    named, and why. Of a file it is told what it holds, without the hash where that is too much to
    be looked at; of one that came along with a directory, and was not touched, where it lay."""

    path: str
    reason: str
    size: int = 0
    sha256: str | None = None
    origin: str | None = None


class Alterations(NamedTuple):
    """All that was changed, directories before what lies in them. What is ``unfit`` has a name or a
    text that no root can hold, and is withheld. What is ``dropped`` never comes back: sockets and
    the like, and bits such as setuid. ``moved`` are directories, with where they lay: of what came
    along with them nothing lies in the copy, so they come with all of it, or stay. ``mounts`` are
    the directories of the tree that other filesystems were mounted on then, where that is known."""

    altered: list[Altered]
    unfit: list[Dropped]
    dropped: list[Dropped]
    moved: Mapping[ScopedPath, ScopedPath] = {}
    mounts: frozenset[str] | None = None

    def origins(self) -> dict[ScopedPath, ScopedPath]:
        """Where all lay that came along with a directory."""
        return {each.path: each.origin for each in self.altered if each.origin is not None}

    def moves(self) -> list[set[ScopedPath]]:
        """What comes with a directory that was moved, and goes from where it lay, each time all of
        it: together with what went the other way."""
        if not self.moved:
            return []
        # Each move, by where it went, leads to another one that it belongs together with.
        joined = {path: path for path in self.moved}

        def first(move: ScopedPath) -> ScopedPath:
            while joined[move] != move:
                joined[move] = move = joined[joined[move]]
            return move

        ends = {was: path for path, was in self.moved.items()} | {path: path for path in self.moved}
        for path, was in self.moved.items():
            joined[first(ends[was])] = first(path)
        groups: dict[ScopedPath, set[ScopedPath]] = {}
        for each in self.altered:
            moves = [ends[end] for end in around(each.path) if end in ends]
            for move in moves[1:]:
                joined[first(move)] = first(moves[0])
            if moves:
                groups.setdefault(moves[0], set()).add(each.path)
        found: dict[ScopedPath, set[ScopedPath]] = {}
        for move, group in groups.items():
            found.setdefault(first(move), set()).update(group)
        return list(found.values())

    def with_moves(self, wanted: Wanted) -> Wanted:
        """Whoever wants a directory that was moved wants it gone from where it lay."""
        if wanted.only is None:
            return wanted
        # Where those lay that are in a directory by now, whatever their depth.
        lay: dict[ScopedPath, list[ScopedPath]] = {}
        for path, was in self.moved.items():
            for each in around(path):
                lay.setdefault(each, []).append(was)
        only, new = set(wanted.only), list(wanted.only)
        while new:
            more = set(lay.pop(new.pop(), ())) - only
            only |= more
            new += more
        return wanted._replace(only=frozenset(only))

    def with_directories(self, wanted: Wanted) -> Wanted:
        """Whoever wants a file brought wants the new directories made that it lies in."""
        if wanted.only is None:
            return wanted
        made = {
            each.path
            for each in self.altered
            if each.type == "directory" and (each.base is None or each.base.type != "directory")
        }
        exactly = {each.path for each in self.altered if wanted.covers(each.path)}
        for each in self.altered:
            above = each.path.parent
            while each.path in exactly and above in made and above not in exactly:
                exactly.add(above)
                above = above.parent
        return wanted._replace(exactly=frozenset(exactly))

    @property
    def any_left(self) -> bool:
        """Whether the working copy holds anything that is kept: what is dropped is not."""
        return bool(self.altered or self.unfit)

    def is_all_in(self, settled: Collection[ScopedPath]) -> bool:
        """Whether nothing is left of it where those have been brought back."""
        return not self.unfit and all(each.path in settled for each in self.altered)


def around(path: ScopedPath) -> Iterator[ScopedPath]:
    """A path, and every directory that it lies in."""
    while not path.is_root:
        yield path
        path = path.parent
    yield path


class Publishing(NamedTuple):
    """What is being brought back, kept with the working copy until all of it was: for whoever finds
    it when the process was killed in between. ``over`` is the version of what is replaced, removed
    or moved, by path. ``merged`` is what files become that are neither what stands in the tree nor
    what stands in the copy; those of them that are ``partly`` brought stay changes of the copy, and
    so do those that are ``kept``, which go on being compared with what they were. Where
    ``taken_back`` is a number, it failed, and so many of the changes are being taken back. Names of
    one file or link change their version with each other: they are ``held`` by the hash of what it
    contains, or ``leading`` as `leads_to` says. ``shut`` are directories of the tree whose mode, as
    told, keeps out what comes into them and in what goes from there: they are open meanwhile.
    Where others than those ``mounts`` are there by then, nothing is done in them. What goes and
    could not be made anew lies ``aside`` until all is done, under a name that no caller can say."""

    plan: Plan
    over: Mapping[ScopedPath, str]
    mark: Mark
    size_max: int
    merged: Mapping[ScopedPath, bytes] = {}
    partly: frozenset[ScopedPath] = frozenset()
    taken_back: int | None = None
    kept: frozenset[ScopedPath] = frozenset()
    held: Mapping[ScopedPath, str] = {}
    leading: Mapping[ScopedPath, str] = {}
    shut: Mapping[ScopedPath, int] = {}
    mounts: frozenset[str] | None = None
    aside: Mapping[ScopedPath, ScopedPath] = {}


class GivingUp(NamedTuple):
    """What is being given up under a ``key``, kept with the working copy until all of it was:
    ``paths``, some of what is in the files that are ``rewritten``, or with ``whole`` the copy
    itself. ``marks`` are those of all of them, as somebody has seen them."""

    key: bytes
    whole: bool
    paths: frozenset[ScopedPath]
    rewritten: Mapping[ScopedPath, bytes]
    marks: Mapping[ScopedPath, str | None]

    @property
    def seen(self) -> Alterations:
        return Alterations(
            [Altered(path, None, None, mark=x) for path, x in self.marks.items()], [], []
        )


class CopyContents(Protocol):
    """The bytes that a plan brings, and room for those that it replaces until all of it is done."""

    def content(self, path: ScopedPath) -> AsyncGenerator[bytes, None]:
        """What stands at ``path`` in the working copy."""
        ...

    async def keep(self, path: ScopedPath, chunks: AsyncGenerator[bytes, None]) -> None:
        """Put aside what stands there now."""
        ...

    async def keep_all(self, contents: Mapping[ScopedPath, bytes]) -> None:
        """Put aside what stands in many places, each of it small."""
        ...

    def kept(self, path: ScopedPath) -> AsyncGenerator[bytes, None]:
        """What was put aside."""
        ...


class WorkingCopy(CopyContents, Protocol):
    """One working copy of one root."""

    @property
    def id(self) -> str: ...

    async def alterations(self) -> Alterations:
        """What was changed until now."""
        ...

    async def base_image(self, path: ScopedPath) -> bytes | None:
        """What a file held that was changed, when it was touched first; None where that is not
        known, or is more than is ever compared."""
        ...

    async def publishing(self, what: Publishing | None) -> None:
        """Have it on record that this is being brought back, or that nothing is any more."""
        ...

    async def giving_up(self, what: GivingUp | None) -> None:
        """Have it on record that this is being given up, or that nothing is any more."""
        ...

    async def note_done(self, key: bytes) -> None:
        """Have it known that what somebody decided under a key was done, also when the copy is
        gone."""
        ...

    async def settle(self, published: Collection[ScopedPath], seen: Alterations) -> None:
        """Those are in the tree by now, and are no changes any more; but what was changed again
        since it was ``seen`` is."""
        ...

    async def rebase(self, path: ScopedPath, image: bytes) -> None:
        """A file that was brought back in part: what it is compared with is what stands in the tree
        by now, which holds ``image``."""
        ...

    async def rewrite(self, path: ScopedPath, data: bytes, seen: Alterations) -> None:
        """Give a file that was changed another content in the copy. Raises `Stale` where it was
        changed again since it was ``seen``."""
        ...

    async def restored(self, paths: Collection[ScopedPath]) -> None:
        """What stands there is what stood there before, which was brought back in vain: it has
        another version by now, and nobody else has changed it."""
        ...

    async def discard(self, seen: Alterations | None = None) -> None:
        """Take it away, with all that was changed in it; one in which others work meanwhile stays,
        with what was changed since it was ``seen``."""
        ...


# --- what callers are told ------------------------------------------------------------------------


class WorkChange(Value, frozen=True, kw_only=True):
    """One path that was changed. A directory that moved is one, whatever lies in it. Where what
    stands there gets another mode ``mode_before`` and ``mode`` say which."""

    path: ScopedPath
    kind: ChangeKind
    type: EntryType
    origin: ScopedPath | None = None
    mode_before: int | None = None
    mode: int | None = None


class Withheld(Value, frozen=True, kw_only=True):
    """What was not brought back because something refuses it: by the error that says so, and what
    decided. ``path`` is escaped where it is no valid one."""

    path: str
    error_kind: str
    reason: str = ""
    decided_by: str | None = None


class WorkConflict(Value, frozen=True, kw_only=True):
    """A path that was changed in the working copy, and by others in the tree: theirs stays."""

    path: ScopedPath
    error_kind: str = "hash_mismatch"
    reason: str = "others have changed it meanwhile"


class WorkChanges(Value, frozen=True, kw_only=True):
    """What a working copy would do to the tree as it stands now: its changes, what something would
    refuse of it, and what others have changed meanwhile. By its ``version`` it is known whether
    that is so still: whoever looked at it gives it as ``seen``."""

    changes: list[WorkChange]
    withheld: list[Withheld]
    conflicts: list[WorkConflict]
    version: str | None = None


class Published(Value, frozen=True, kw_only=True):
    """What became of the changes of a working copy: what is in the tree now, what was refused, and
    what others have changed meanwhile, whose state stays. What was not published is kept."""

    changes: list[WorkChange]
    withheld: list[Withheld]
    conflicts: list[WorkConflict]
    version: str | None = None
    request_id: str = ""


# --- what is to be brought back ------------------------------------------------------------

Publish = Literal["atomic", "partial"]
"""Whether anything that is refused or in conflict keeps all the rest back."""


class ChosenText(NamedTuple):
    """What a file is to become in the tree, where the version ``over`` stands, or with None
    nothing. Where it is only ``partly`` what stands in the copy, the rest stays there."""

    over: str | None
    data: bytes
    mode: int
    partly: bool = False


class Wanted(NamedTuple):
    """What is to be published: ``only`` these paths and what lies beneath them, None for all; or
    ``exactly`` these. ``refused`` is what was refused when it was tried, by path. With ``merge``
    what others have changed too is joined with that, where lines allow it. ``hunks`` are those of
    single files that alone are meant, by number; ``texts`` what files are to become. What is to
    stand ``over`` what others have made of a place, of which that is the version (None where they
    removed it), is no conflict. ``seen`` is the version of all that somebody has looked at, and
    ``leaves`` what will have been moved away before."""

    publish: Publish
    only: frozenset[ScopedPath] | None = None
    refused: Mapping[ScopedPath, Withheld] = {}
    merge: bool = False
    hunks: Mapping[ScopedPath, frozenset[int]] = {}
    exactly: frozenset[ScopedPath] | None = None
    texts: Mapping[ScopedPath, ChosenText] = {}
    over: Mapping[ScopedPath, str | None] = {}
    seen: str | None = None
    leaves: frozenset[ScopedPath] = frozenset()

    def covers(self, path: ScopedPath) -> bool:
        if self.exactly is not None:
            return path in self.exactly
        if self.only is None:
            return True
        while path not in self.only:
            if path.is_root:
                return False
            path = path.parent
        return True

    def covers_name(self, name: str) -> bool:
        """Whether something is meant that may be no path: by what it lies in."""
        if self.only is None:
            return self.exactly is None
        return any(lies_in(name, each) for each in self.only)


def lies_in(name: str, path: ScopedPath) -> bool:
    """Whether what may be no path lies in one."""
    return path.is_root or f"{name}/".startswith(f"{path}/")


def refuse_unchanged(
    only: frozenset[ScopedPath] | None,
    changed: Iterable[ScopedPath] = (),
    dropped: Iterable[str] = (),
) -> None:
    """Raise `PathNotFound` for a place that was named and in which nothing was changed: it would be
    said to be done. All of a copy can be named whatever there is."""
    missing = {each for each in only or () if not each.is_root}
    for path in changed:
        missing.difference_update(around(path))
    for name in dropped:
        missing = {each for each in missing if not lies_in(name, each)}
    if missing:
        raise PathNotFound(
            "nothing was changed there in this working copy", path=min(missing),
            hint="`changes` and `bailiwick work show` tell what was changed",
        )  # fmt: skip
