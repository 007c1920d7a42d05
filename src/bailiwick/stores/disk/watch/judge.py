"""Whether what is seen under a name is news, and what it is to be called.

A notice of the kernel is a hint that something may have happened to a name. The name is looked at
by the store's own confined lookup, no link followed anywhere on the way, and compared with what is
known of it: what was told before, by whoever made the change or by us, is not told again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from bailiwick.model import Change, EntryType
from bailiwick.paths import ScopedPath
from bailiwick.store import Noticed, Sighting
from bailiwick.stores.disk.lookup.beneath import Lookup
from bailiwick.stores.disk.watch import inotify as kernel
from bailiwick.stores.disk.watch.known import (
    NO_DIRECTORY,
    Entry,
    Known,
    WatchedDirectory,
    is_same,
    is_same_object,
    leaf_of,
    type_of,
)
from bailiwick.stores.disk.watch.sightings import Elsewhere, look

_Outcome = Literal["settled", "again", "unknown"]

_MASKS: Final = {"created": kernel.CREATE, "moved": kernel.MOVED_TO, "deleted": kernel.DELETE}

Key = tuple[WatchedDirectory, str]
"""A name: the directory it stands in, whatever that is called by now, and the name itself."""


class Judge:
    """Judges names against what was told. ``news`` is what it found: once that is told, it is what
    is known."""

    def __init__(
        self,
        lookup: Lookup,
        known: Known,
        enter_later: Callable[[WatchedDirectory], None],
        look_again: Callable[[WatchedDirectory, str, int], object],
        is_moving: Callable[[Key], bool],
    ) -> None:
        self._lookup: Final = lookup
        self._known: Final = known
        self._enter_later: Final = enter_later
        self._look_again: Final = look_again
        self._is_moving: Final = is_moving
        self._beneath_max: Final = lookup.settings.limits.feed_subtree_paths_max
        self.news: list[Noticed] = []

    # --- what was told --------------------------------------------------------------------------

    def told(self, change: Change) -> None:
        """Take a change for known, as anyone does who is told of it and cannot look: nothing else
        changes what is known. Whether it is true is looked at afterwards."""
        if change.path.is_root or change.kind in ("rescan", "reset"):
            return
        if change.kind == "deleted":
            found = self._known.seek(change.path)
            if found is not None:
                self._known.drop(*found)
        else:
            taken = None if change.origin is None else self._known.take(change.origin)
            place, name = self._known.find(change.path)
            if change.origin is not None:
                self._known.drop(place, name)
                if isinstance(taken, WatchedDirectory):
                    self._known.hang(taken, place, name)
            if change.type == "directory":
                self._told_directory(place, name, change)
            else:
                self._told_leaf(place, name, change)
        for each in (change.origin, change.path):
            found = None if each is None else self._known.seek(each)
            if found is not None:
                self._look_again(*found, 0)

    def _told_directory(self, place: WatchedDirectory, name: str, change: Change) -> None:
        known, version = place.entries.get(name), change.version or ""
        if not isinstance(known, WatchedDirectory):
            self._known.drop(place, name)
            known = place.entries[name] = WatchedDirectory(place, name, version)
        elif _number(known.version) != _number(version):
            # What was told to lie in it was not told to be gone: it is compared with what does.
            known.entered = False
        known.version, known.implied = version, False
        if change.kind == "created" and change.subtree:
            known.adopt_ns, known.entered = change.time_ns, False
        for each in known.places():
            if not each.entered:
                each.blind = False
                self._enter_later(each)

    def _told_leaf(self, place: WatchedDirectory, name: str, change: Change) -> None:
        known = place.entries.get(name)
        if isinstance(known, WatchedDirectory) and known.entries:
            # What was told to lie in it was not told to be gone.
            known.version, known.implied = NO_DIRECTORY, False
        else:
            # Without a version it is gone again: that is news, once it is looked at.
            self._known.drop(place, name)
            self._known.keep(place, name, leaf_of(change.type, change.version or ""))

    def catch_up(self, path: ScopedPath) -> None:
        """Before a change of ours is told: whether the directories above it are the known ones. If
        others put new ones in their place, that is told first."""
        if path.is_root:
            return
        above, at = self._known.deepest(path)
        while not above.version and above.parent is not None:
            above, at = above.parent, at.parent
        doubtful = (above, at) if self._look(above, at) == "elsewhere" else None
        while above.parent is not None:
            at = at.parent
            if self._is_moving((above.parent, above.name)):
                doubtful = above.parent, at
            above = above.parent
        if doubtful is not None:
            place, at = doubtful
            self.compare(place, at.name, at, 0, immediately=True)

    # --- what is seen --------------------------------------------------------------------------

    def judge_move(self, key: Key, path: ScopedPath, from_key: Key, origin: ScopedPath) -> bool:
        """Tell a move as one; False where it is not what can be seen any more."""
        (place, name), (from_place, from_name) = key, from_key
        told = from_place.entries.get(from_name)
        seen = self._look(place, path)
        if told is None or not isinstance(seen, Sighting) or not is_same_object(told, seen):
            return False
        there = place.entries.get(name)
        if there is not None and is_same(there, seen):
            return False  # it was found under its new name before
        if not isinstance(told, WatchedDirectory):
            self.report("moved", path, seen.type, seen, origin=origin)
        elif place.lies_in(told):
            return False  # others have brought that about, in steps which are not known yet
        else:
            names, truncated = told.names_beneath(self._beneath_max)
            self.report(
                "moved", path, "directory", seen, origin=origin, subtree=True,
                beneath=names, beneath_truncated=truncated,
            )  # fmt: skip
        return True

    def _look(self, place: WatchedDirectory, path: ScopedPath) -> Sighting | Elsewhere | None:
        return look(self._lookup, path, _number(place.version))

    def compare(
        self,
        place: WatchedDirectory,
        name: str,
        path: ScopedPath,
        mask: int,
        *,
        immediately: bool = False,
    ) -> bool:
        """Tell what became of one name, if that is news; False where it is to be seen later."""
        return self._settle(place, name, path, mask, immediately) != "again"

    def _settle(
        self, place: WatchedDirectory, name: str, path: ScopedPath, mask: int, immediately: bool
    ) -> _Outcome:
        if not immediately and self._is_moving((place, name)):
            # What went from here, or came here, is to be looked at as a move first.
            self._look_again(place, name, mask)
            return "again"
        seen = self._look(place, path)
        if seen == "elsewhere":
            # Not the name has changed but a directory above it: that is what is told, once.
            if place.parent is None:
                return "unknown"
            above = self._settle(place.parent, place.name, path.parent, 0, immediately)
            if above == "unknown" or self._known.path_of(place) is None:
                return above
        if seen in ("elsewhere", "again"):
            # Also where the directory was away for an instant only, and is back.
            self._look_again(place, name, mask)
            return "again"
        if seen == "unknown":
            return "unknown"
        told = place.entries.get(name)
        if not isinstance(seen, Sighting):
            self._gone(place, path, told, mask)
        elif told is None:
            self._new(place, path, seen, mask)
        elif is_same(told, seen):
            if isinstance(told, WatchedDirectory):
                self._confirm(told, seen, path)
        elif is_same_object(told, seen) or "directory" not in (type_of(told), seen.type):
            self.report("updated", path, seen.type, seen)
        else:
            self._gone(place, path, told, mask)
            self._new(place, path, seen, kernel.CREATE)
        return "settled"

    def _gone(
        self, place: WatchedDirectory, path: ScopedPath, told: Entry | None, mask: int
    ) -> None:
        if told is None:
            left = mask & (kernel.DELETE | kernel.MOVED_FROM)
            if left and not place.complete and not mask & (kernel.CREATE | kernel.MOVED_TO):
                kind: EntryType = "directory" if mask & kernel.IS_DIRECTORY else "file"
                self.report("deleted", path, kind, None)
            return
        names: tuple[str, ...] = ()
        truncated = False
        if isinstance(told, WatchedDirectory):
            names, truncated = told.names_beneath(self._beneath_max)
            if told.implied and not names:
                self._known.drop(place, path.name)
                return  # nobody was told that there was anything
        self.report(
            "deleted", path, type_of(told), None, subtree=isinstance(told, WatchedDirectory),
            beneath=names, beneath_truncated=truncated,
        )  # fmt: skip

    def _new(self, place: WatchedDirectory, path: ScopedPath, seen: Sighting, mask: int) -> None:
        created = place.complete or mask & (kernel.CREATE | kernel.MOVED_TO)
        self.report("created" if created else "updated", path, seen.type, seen)

    def _confirm(self, told: WatchedDirectory, seen: Sighting, path: ScopedPath) -> None:
        """A directory that is known is there."""
        told.version = seen.version
        if told.implied:
            self.report("created", path, "directory", seen)
        if not told.entered and not told.blind:
            self._enter_later(told)

    def report(
        self,
        kind: Literal["created", "updated", "deleted", "moved", "rescan"],
        path: ScopedPath,
        type: EntryType,
        seen: Sighting | None,
        *,
        origin: ScopedPath | None = None,
        subtree: bool = False,
        beneath: tuple[str, ...] = (),
        beneath_truncated: bool = False,
    ) -> None:
        change = Change(
            kind=kind, path=path, type=type, subject="", request_id="",
            version=None if seen is None else seen.version, origin=origin, subtree=subtree,
            beneath=beneath, beneath_truncated=beneath_truncated,
        )  # fmt: skip
        names = [each for each in (origin, path) if each is not None and not each.is_root]
        self.news.append(Noticed(change, tuple(map(self._known.seek, names))))

    # --- what was not told after all -----------------------------------------------------------

    def look_anew(self, noticed: Noticed) -> None:
        change = noticed.change
        mask = _MASKS.get(change.kind, 0)
        if change.type == "directory":
            mask |= kernel.IS_DIRECTORY
        for key in noticed.keys:
            if key is not None:
                place, name = key
                self._look_again(place, name, mask)


def _number(version: str) -> str:
    """The inode's number, with which a version begins."""
    return version.partition("-")[0]
