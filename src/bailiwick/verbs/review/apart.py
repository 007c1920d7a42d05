"""What was changed apart from a tree, in a working copy or a fork, told as what would become of the
tree if it were applied: path by path, in hunks.

Of each path three states are known: what it was when both were one, what it is apart, and what
stands in the tree. Where others have changed that since, texts are joined line by line; what cannot
be joined is told with what stands against it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import msgspec

from bailiwick.errors import HashMismatch, ParseError
from bailiwick.model import EntryType
from bailiwick.paths import ScopedPath
from bailiwick.reviews import NoteHolder, ReviewFile, ReviewHunk, ReviewSides
from bailiwick.text.merge import differing_pieces, joined_pieces, merged
from bailiwick.text.reviewed import ReviewedText, ReviewHunkLines
from bailiwick.verbs.review.names import HunkName, NamesByBeginning, given_names, not_left
from bailiwick.verbs.runs.path_stories import (
    ModeChange,
    hunk_header,
    hunk_id,
    hunk_lines,
    kind_between,
    whole_texts,
)
from bailiwick.verbs.runs.story_contents import StoryContent, is_text, text_at
from bailiwick.versions import ChangeKind

AGAINST: Final = "it was changed in the tree, too, and the two cannot be joined"

_BY_PATH: Final = re.compile(r"(?::(?P<path>.+?))?(?:@(?P<version>[0-9a-f]{32}))?", re.DOTALL)
"""What follows on the name of a working copy or a fork where not a hunk is meant."""

_APART: Final = "apart"
_VERSION_DIGITS: Final = 32
"""128 bits of either side: an agent that could make two states of one name would have one of them
looked at, and the other one applied."""


class ApartPath(NamedTuple):
    """One path: what it is apart (``theirs``), what stands in the tree, and what both were before:
    ``base`` has no data where that is not known. ``as_it_was`` is whether nobody has changed what
    stands in the tree since. ``whose`` says whose doing it is. A directory that was moved with all
    that lies in it ``came`` from where it lay, and ``along`` are all paths of either. What was
    ``carried`` came or went with the directory of that name, and comes with all of that only."""

    path: ScopedPath
    theirs: StoryContent | None
    now: StoryContent | None
    base: StoryContent | None
    as_it_was: bool
    whose: NoteHolder = NoteHolder("")
    came: ApartPath | None = None
    along: frozenset[ScopedPath] = frozenset()
    carried: ScopedPath | None = None


class ApartHunk(NamedTuple):
    """Some of what would become of a path: lines, its ``modes``, or with neither all of it."""

    id: str
    lines: ReviewHunkLines | None = None
    modes: ModeChange | None = None


class ApartChange:
    """What would become of a path. One that was moved has come from ``gone``."""

    def __init__(
        self,
        name: str,
        each: ApartPath,
        becomes: StoryContent | None,
        against: str | None = None,
        gone: ApartPath | None = None,
    ) -> None:
        self.each = each
        self.gone = gone
        self.path = each.path
        self.now = each.now if gone is None else gone.now
        self.becomes = becomes
        self.against = against
        self._text: ReviewedText | None = None
        if gone is None and is_text(each.now) and is_text(becomes):
            self._text = ReviewedText(text_at(each.now))
            self._text.write(_APART, text_at(becomes))
        self._pieces = [] if self._text is None else self._text.hunks()
        self.hunks = self._hunks(name)
        self.apart = _digest(each.theirs)
        self.version = f"{self.apart}.{_digest(self.now)}"

    def _hunks(self, name: str) -> list[ApartHunk]:
        whole = ApartHunk(hunk_id(name, self.path, *whole_texts(self.now, self.becomes)))
        if self.against is not None or (self._text is None and not self._is_mode_alone):
            return [whole]
        seen: dict[str, int] = {}
        found = []
        for piece in self._pieces:
            digest = hunk_id(name, self.path, *piece.texts)
            number = seen[digest] = seen.get(digest, 0) + 1
            id = digest if number == 1 else hunk_id(name, self.path, digest, str(number))
            found.append(ApartHunk(id, piece))
        now, becomes = self.now, self.becomes
        if now is not None and becomes is not None and now.mode != becomes.mode:
            modes = ModeChange(now.mode, becomes.mode)
            found.append(ApartHunk(modes.id(name, self.path), modes=modes))
        return found or [whole]

    @property
    def _is_mode_alone(self) -> bool:
        return (
            self.gone is None
            and self.now is not None
            and self.becomes is not None
            and is_alike(self.now, self.becomes._replace(mode=self.now.mode))
        )

    @property
    def kind(self) -> ChangeKind:
        return kind_between(self.now, self.becomes) or "updated"

    @property
    def type(self) -> EntryType:
        stood = self.becomes or self.now
        assert stood is not None
        return stood.type

    @property
    def is_in_pieces(self) -> bool:
        """Whether some of it can be taken without the rest."""
        return (
            self.against is None
            and self.now is not None
            and self.becomes is not None
            and self.becomes.type == "file"
            and any(each.lines is not None or each.modes is not None for each in self.hunks)
        )

    def equals(self, hunk: ApartHunk) -> set[str]:
        """The ids of those that do the same as a hunk, itself among them."""
        if hunk.lines is None:
            return {hunk.id}
        return self._alike[hunk.lines.texts]

    @cached_property
    def _alike(self) -> dict[tuple[str, str], set[str]]:
        alike: dict[tuple[str, str], set[str]] = {}
        for each in self.hunks:
            if each.lines is not None:
                alike.setdefault(each.lines.texts, set()).add(each.id)
        return alike

    def with_only(self, hunks: Collection[ApartHunk]) -> tuple[bytes, int]:
        """What stands in the tree with some hunks, and the mode that it has then."""
        chosen = {each.id for each in hunks}
        return self._without([each for each in self.hunks if each.id not in chosen])

    def theirs_without(self, hunks: Collection[ApartHunk]) -> tuple[bytes, int] | None:
        """What it is apart with some hunks given up there; None where others changed lines that
        touch those."""
        theirs, becomes = self.each.theirs, self.becomes
        assert theirs is not None
        assert becomes is not None
        data, _ = self._without(hunks)
        if becomes.data != theirs.data:
            back = merged(text_at(becomes), data, text_at(theirs))
            if back is None:
                return None
            data = back
        gives_mode = any(each.modes for each in hunks) and self.each.base is not None
        return data, self.each.base.mode if gives_mode and self.each.base else theirs.mode

    def _without(self, hunks: Collection[ApartHunk]) -> tuple[bytes, int]:
        assert self.now is not None
        assert self.becomes is not None
        lines = [each.lines for each in hunks if each.lines is not None]
        data = text_at(self.becomes) if self._text is None else self._text.without(lines)
        mode = self.now.mode if any(each.modes for each in hunks) else self.becomes.mode
        return data, mode

    # --- showing -------------------------------------------------------------------------------

    def shown(self, hunks: Collection[ApartHunk], *, sides: bool = False) -> ReviewFile:
        """For people; with ``sides`` also what it is on either side, where that has to be
        settled."""
        told = [self._shown(each) for each in hunks]
        settled = list(self._sides()) if sides and self.against is not None else []
        return msgspec.structs.replace(self.brief(hunks), hunks=told, sides=settled)

    def brief(self, hunks: Collection[ApartHunk]) -> ReviewFile:
        """Without its lines."""
        pieces = [piece for each in hunks for piece in self._pieces_of(each)]
        return ReviewFile(
            path=self.path, kind=self.kind, type=self.type, version=self.version,
            origin=None if self.gone is None else self.gone.path, against=self.against,
            carried=self.each.carried, hunk_count=len(hunks),
            added=sum(len(each.added) for each in pieces),
            removed=sum(len(each.removed) for each in pieces),
        )  # fmt: skip

    def _pieces_of(self, hunk: ApartHunk) -> list[ReviewHunkLines]:
        if self.against is not None:
            return self._pieces
        return [] if hunk.lines is None else [hunk.lines]

    def _sides(self) -> Iterator[ReviewSides]:
        """All lines, of what is text on either side to the last byte: whoever settles it gives back
        a text."""
        tree, apart = self.now, self.each.theirs
        if (tree is None and apart is None) or not is_text(tree) or not is_text(apart):
            return
        base = self.each.base
        known = base is not None and base.data is not None
        texts = [text_at(tree), text_at(apart), text_at(base)]
        try:
            for each in texts:
                each.decode()
        except UnicodeDecodeError:
            return
        ours, theirs, before = texts
        pieces = joined_pieces(before, ours, theirs) if known else differing_pieces(ours, theirs)
        for piece in pieces:
            if piece.text is not None:
                yield ReviewSides(text=piece.text.decode())
            else:
                yield ReviewSides(
                    tree=piece.ours.decode(), apart=piece.theirs.decode(),
                    base=piece.base.decode() if known else None,
                )  # fmt: skip

    def _shown(self, hunk: ApartHunk) -> ReviewHunk:
        pieces = self._pieces_of(hunk)
        header = f"{self.kind} {self.type}"
        if self.against is None and hunk.lines is not None:
            header = hunk_header(hunk.lines)
        elif self.against is None and hunk.modes is not None:
            header = hunk.modes.header
        return ReviewHunk(
            id=hunk.id, run="", subject=self.each.whose.subject, header=header,
            lines=[line for each in pieces for line in hunk_lines(each)],
            added=sum(len(each.added) for each in pieces),
            removed=sum(len(each.removed) for each in pieces),
        )  # fmt: skip

    def said_lines(self, hunk: ApartHunk) -> list[str]:
        """What whoever did it is shown again: its lines, without those around them."""
        return [each for each in self._shown(hunk).lines if not each.startswith(" ")]


def is_alike(a: StoryContent | None, b: StoryContent | None) -> bool:
    """Whether two are the same, wherever they lie."""
    if a is None or b is None:
        return a is b
    if (a.type, a.sha256, a.target) != (b.type, b.sha256, b.target):
        return False
    return a.type == "symlink" or a.mode == b.mode


def _digest(stood: StoryContent | None) -> str:
    seen = "" if stood is None else f"{stood.type} {stood.sha256} {stood.target} {stood.mode:o}"
    return hashlib.sha256(seen.encode("utf-8", "surrogateescape")).hexdigest()[:_VERSION_DIGITS]


def _joined(each: ApartPath) -> StoryContent | None:
    """What both have made of a path; None where that cannot be said."""
    base, theirs, now = each.base, each.theirs, each.now
    if base is None or theirs is None or now is None:
        return None
    if base.data is None or theirs.data is None or now.data is None:
        return None
    data = merged(base.data, theirs.data, now.data)
    if data is None:
        return None
    sha256 = hashlib.sha256(data).hexdigest()
    mode = now.mode if theirs.mode == base.mode else theirs.mode
    return now._replace(data=data, sha256=sha256, size=len(data), mode=mode)


class ApartChanges:
    """All that was changed apart under a ``name``, by path. Directories that come or go with what
    lies in them are not told by themselves."""

    def __init__(
        self,
        name: str,
        found: Iterable[ApartPath],
        contents: Mapping[str, bytes],
        *,
        truncated: bool = False,
        as_of: str | None = None,
        moved: Mapping[ScopedPath, ScopedPath] = {},
    ) -> None:
        """``contents`` is what was read, by its hash, ``as_of`` the version of a fork that was
        looked at, and ``moved`` are directories, with where they lay."""
        self.name = name
        self._moved = moved
        self.contents = contents
        self.truncated = truncated
        self.as_of = as_of
        differing = [each for each in found if not is_alike(each.theirs, each.now)]
        gone, origins = _moves(differing)
        origins |= {each.path: each.came for each in differing if each.came is not None}
        changes = []
        for each in differing:
            if each.path in gone:
                continue
            change = self._change(each, origins.get(each.path))
            if change is not None:
                changes.append(change)
        comes = {each.path for each in changes if each.kind in ("created", "moved")}
        goes = {each.path for each in changes if each.kind == "deleted"}
        goes |= {each.path for each in origins.values()}
        self._made = _around(changes, "created", comes)
        self._removed = _around(changes, "deleted", goes)
        around = {each.path for each in (*self._made, *self._removed)}
        self.changes = sorted(
            (each for each in changes if each.path not in around),
            key=lambda each: each.path.order,
        )

    def _change(self, each: ApartPath, gone: ApartPath | None) -> ApartChange | None:
        becomes, against = each.theirs, None
        if not each.as_it_was:
            joined = _joined(each)
            becomes, against = (each.theirs, AGAINST) if joined is None else (joined, None)
            if is_alike(becomes, each.now):
                return None
        return ApartChange(self.name, each, becomes, against, gone)

    @property
    def left(self) -> int:
        return sum(len(each.hunks) for each in self.changes)

    @property
    def version(self) -> str:
        """Says what all of it is: what each path is apart, and the hunks that lead there."""
        seen = hashlib.sha256()
        for each in (*self.changes, *self._made, *self._removed):
            parts = (str(each.path), each.apart, *(hunk.id for hunk in each.hunks))
            for part in parts:
                seen.update(f"{len(part)} {part}".encode("utf-8", "surrogateescape"))
        return seen.hexdigest()[:_VERSION_DIGITS]

    # --- what is meant -------------------------------------------------------------------------

    def chosen(self, ids: Sequence[str], paths: Sequence[ScopedPath]) -> ApartChoice:
        """What is named: hunks by their ids, or beginnings of them; a path with what lies beneath
        it, and with where it lay if it was moved, as ``NAME:PATH``, all of it as ``NAME``; and
        either with ``@VERSION`` as all of it was shown. Raises `PathNotFound`, `ParseError`, and
        `HashMismatch` for what is not as it was shown."""
        names = given_names(ids)
        self._refuse_unseen(names)
        self._refuse_two_meanings(names)
        by_part = [(each, part) for each in names if (part := self._part(each)) is not None]
        by_id = NamesByBeginning(each for each in names if self._part(each) is None)
        every = NamesByBeginning(names)
        met: dict[str, set[str]] = {each.text: set() for each in names}
        found: ApartChoice = []
        for change in self.changes:
            if paths and not self._lies_in(change, paths):
                continue
            some = []
            around = [
                each
                for each, (path, _) in by_part
                if path is None or self._lies_in(change, (ScopedPath(path),))
            ]
            for hunk in change.hunks:
                fits = [*around, *by_id.of(hunk.id)]
                for each in fits:
                    met[each.text].add("" if each.text.startswith(self.name) else hunk.id)
                if fits or not names:
                    some.append(hunk)
            if some:
                _refuse_unclear(change, some, every)
                found.append((change, some))
        for text, several in met.items():
            if not several:
                raise not_left(text)
            if len(several) > 1:
                raise ParseError(
                    f"{len(several)} ids begin with {text[:80]!r}", hint="give more of the id"
                )
        return found

    def _refuse_unseen(self, names: Sequence[HunkName]) -> None:
        parts = [part for each in names if (part := self._part(each)) is not None]
        if any(version not in (None, self.version) for _, version in parts):
            raise HashMismatch(
                "what was shown is not what would become of it now", hint="look at it again"
            )

    def _refuse_two_meanings(self, names: Sequence[HunkName]) -> None:
        """Whoever made a fork chose its name, and may have chosen one that an id begins with."""
        ids = [hunk.id for change in self.changes for hunk in change.hunks]
        for each in names:
            if each.text == self.name and any(map(each.begins, ids)):
                raise ParseError(
                    f"{each.text!r} is the name of all of it, and an id begins with it as well",
                    hint="give more of the id, or NAME@VERSION",
                )

    def _part(self, name: HunkName) -> tuple[str | None, str | None] | None:
        """The path that is meant, None for all, and the version that it was shown with, by a name
        that is no hunk's."""
        found = None
        if name.text.startswith(self.name):
            found = _BY_PATH.fullmatch(name.text, len(self.name))
        return None if found is None else (found["path"], found["version"])

    def _lies_in(self, change: ApartChange, paths: Iterable[ScopedPath]) -> bool:
        """Whoever means a directory that was moved means it gone from where it lay, too."""
        meant, before = set(paths), -1
        while len(meant) != before:
            before = len(meant)
            meant |= {was for to, was in self._moved.items() if any(map(to.lies_in, meant))}
        return any(map(change.path.lies_in, meant))

    def settled(self, ids: Sequence[str], half: ScopedPath | None = None) -> ApartChange:
        """The one file that somebody settles, whose hunk is named as it was shown; where ``half``
        of it was done, and what is apart is what they settled, the file at that path. Raises
        `ParseError`, and `HashMismatch` where either side is another by now."""
        names = given_names(ids)
        found = [
            each
            for each in self.changes
            if each.path == half or any(name.begins(x.id) for name in names for x in each.hunks)
        ]
        if len(names) != 1 or names[0].version is None or len(found) > 1:
            raise ParseError("one file is settled at a time", hint="name its hunk as ID@VERSION")
        _, _, tree = names[0].version.partition(".")
        if half is not None and found and found[0].version.partition(".")[2] == tree:
            return found[0]
        if not found or found[0].against is None or names[0].version != found[0].version:
            raise HashMismatch(
                "what was shown is not what stands on both sides now", hint="look at it again"
            )
        return found[0]

    def is_all(self, chosen: ApartChoice) -> bool:
        return not self.truncated and sum(len(some) for _, some in chosen) == self.left

    def with_directories(self, paths: Collection[ScopedPath], *, applied: bool) -> _Around:
        """The directories that come or go with some paths, if those are applied; or that stay with
        them, if they are given up."""
        needed, emptied = (self._made, self._removed) if applied else (self._removed, self._made)
        inside = {each: set(_inside(each, self.changes)) for each in (*needed, *emptied)}
        around = [each for each in needed if inside[each] & set(paths)]
        return [*around, *(each for each in emptied if inside[each] <= set(paths))]


ApartChoice = list[tuple[ApartChange, list[ApartHunk]]]
_Around = list[ApartChange]


def places_of(chosen: Iterable[tuple[ApartChange, object]]) -> set[ScopedPath]:
    """All paths that some changes are about."""
    changes = [change for change, _ in chosen]
    gone = {each.gone.path for each in changes if each.gone is not None}
    along = {path for each in changes for path in each.each.along}
    return gone | along | {each.path for each in changes}


def _refuse_unclear(
    change: ApartChange, some: Sequence[ApartHunk], names: NamesByBeginning
) -> None:
    """What is apart has to be what somebody looked at, and of hunks that do the same in several
    places it has to be known which one that was."""
    ids = {each.id for each in some}
    for hunk in some:
        seen = [each.version for each in names.of(hunk.id)]
        unclear = bool(seen) and not change.equals(hunk) <= ids
        if any(
            each is not None
            and (each != change.version if unclear else each.partition(".")[0] != change.apart)
            for each in seen
        ):
            raise HashMismatch(
                "what was shown is not what would become of it now", path=change.path,
                hint="look at it again",
            )  # fmt: skip
        if unclear and None in seen:
            raise ParseError(
                "several changes of this file are the same", path=change.path,
                hint="say which version of it you saw: ID@VERSION",
            )  # fmt: skip


def _moves(
    differing: Sequence[ApartPath],
) -> tuple[set[ScopedPath], dict[ScopedPath, ApartPath]]:
    """What has gone from one place and come to another, to the last byte."""
    goes: dict[tuple[object, ...], list[ApartPath]] = {}
    for each in differing:
        if each.theirs is None and each.as_it_was and each.now is not None and _is_much(each.now):
            goes.setdefault(looks_of(each.now), []).append(each)
    gone: set[ScopedPath] = set()
    moved: dict[ScopedPath, ApartPath] = {}
    for each in differing:
        if each.now is not None or each.theirs is None or not each.as_it_was:
            continue
        waiting = goes.get(looks_of(each.theirs))
        if waiting:
            moved[each.path] = waiting.pop(0)
            gone.add(moved[each.path].path)
    return gone, moved


def _is_much(stood: StoryContent) -> bool:
    return stood.type == "symlink" or (stood.type == "file" and stood.size > 0)


def looks_of(stood: StoryContent) -> tuple[object, ...]:
    """What something is, wherever it lies."""
    return stood.type, stood.sha256, stood.target, stood.mode


def _around(
    changes: Sequence[ApartChange], kind: ChangeKind, paths: Collection[ScopedPath]
) -> list[ApartChange]:
    """Directories that come, or go, with something in them that does."""
    above = {each for path in paths for each in path.parents}
    return [
        each
        for each in changes
        if each.kind == kind and each.type == "directory" and each.path in above
        and each.against is None
    ]  # fmt: skip


def _inside(directory: ApartChange, changes: Sequence[ApartChange]) -> Iterable[ScopedPath]:
    for path in places_of((each, None) for each in changes):
        if path.lies_in(directory.path):
            yield path
