"""Whether what is seen under a name is news, and what it is to be called.

A notice of the kernel is a hint that something may have happened to a name. The name is looked at
by the store's own confined lookup, no link followed anywhere on the way, and compared with what is
known of it: what was told before, by whoever made the change or by us, is not told again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, Literal

from bailiwick.errors import (
    BailiwickError,
    Busy,
    NotADirectory,
    PathNotFound,
    SymlinkEscape,
    TooManyLinks,
)
from bailiwick.model import Change, EntryType
from bailiwick.paths import ScopedPath
from bailiwick.store import Noticed, Sighting
from bailiwick.stores.disk import inotify as kernel
from bailiwick.stores.disk.handles import FORMAT_MASK, TYPE_BY_FORMAT, version_of
from bailiwick.stores.disk.known import (
    Entry,
    Known,
    Place,
    is_same,
    is_same_object,
    leaf_of,
    type_of,
    version_known,
)
from bailiwick.stores.disk.lookup import Lookup

_Elsewhere = Literal["elsewhere", "again", "unknown"]
_Outcome = Literal["settled", "again", "unknown"]

ELSEWHERE: Final = (PathNotFound, NotADirectory, SymlinkEscape, TooManyLinks)
"""What a lookup answers where the way to a name is not made of directories any more."""

Key = tuple[Place, str]
"""A name: the directory it stands in, whatever that is called by now, and the name itself."""


def sighting_of(status: os.stat_result) -> Sighting:
    kind: EntryType = TYPE_BY_FORMAT.get(status.st_mode & FORMAT_MASK, "other")
    if kind == "directory":
        owner, mode = (status.st_uid, status.st_gid), status.st_mode & 0o7777
        version = f"{status.st_ino:x}-{mode:x}-{owner[0]:x}-{owner[1]:x}"
    else:
        version = version_of(status)
    return Sighting(kind, version, status.st_ctime_ns)


def look(lookup: Lookup, path: ScopedPath, inode: str = "") -> Sighting | _Elsewhere | None:
    """What stands under a name, no link followed.

    ``elsewhere``: the way to it is not made of directories any more, or they are others than the
    one with the number ``inode``. ``again``: it keeps changing. ``unknown``: may not be examined.
    """
    above = path.parent
    try:
        directory = lookup.find_object(above, True)
    except ELSEWHERE:
        return "elsewhere"
    except Busy:
        return "again"
    except (BailiwickError, OSError, UnicodeError):
        return "unknown"
    try:
        if directory.path != above:
            return "elsewhere"  # a link stands in the way: what it leads to has a name of its own
        if inode and f"{os.fstat(directory.fd).st_ino:x}" != inode:
            return "elsewhere"
        name, status = lookup.look_at(directory, path.name)
    except Busy:
        return "again"
    except (BailiwickError, OSError, UnicodeError):
        return "unknown"
    finally:
        directory.close()
    return None if status is None or name != path.name else sighting_of(status)


def sight(lookup: Lookup, path: ScopedPath) -> Sighting | None:
    """`bailiwick.store.Watches.sight`."""
    seen = look(lookup, path)
    return seen if isinstance(seen, Sighting) else None


class Judge:
    """Judges names against what is known, and keeps that up to date. ``news`` is what it found."""

    def __init__(
        self,
        lookup: Lookup,
        known: Known,
        enter_later: Callable[[Place], None],
        look_again: Callable[[Place, str, int], object],
        is_moving: Callable[[Key], bool],
    ) -> None:
        self._lookup: Final = lookup
        self._known: Final = known
        self._enter_later: Final = enter_later
        self._look_again: Final = look_again
        self._is_moving: Final = is_moving
        self._beneath_max: Final = lookup.settings.limits.feed_subtree_paths_max
        self.news: list[Noticed] = []

    # --- what was told by whoever made it -----------------------------------------------------

    def told(self, change: Change) -> None:
        path, known = change.path, self._known
        if path.is_root or change.kind in ("rescan", "reset"):
            return
        for each in (change.origin, path):
            if each is not None:
                self._catch_up(each)
        self._take_note(change)
        # It may have been undone by others before it could be told, with notices that were judged
        # by what was known then.
        for each in (change.origin, path):
            found = None if each is None else known.seek(each)
            if found is not None:
                self._look_again(*found, 0)

    def _take_note(self, change: Change) -> None:
        path, known = change.path, self._known
        taken = None if change.origin is None else self._take(change, change.origin)
        if change.kind == "deleted":
            found = known.seek(path)
            if found is not None:
                known.drop(*found)
            return
        place, name = known.find(path)
        if change.type == "directory":
            self._told_directory(place, name, change, taken)
        else:
            old = place.entries.get(name)
            if isinstance(old, Place):
                # Someone had taken the directory away before.
                self._gone(place, name, path, old, kernel.DELETE)
            # Without a version it is gone again: that is news, once it is looked at.
            known.keep(place, name, leaf_of(change.type, change.version or ""))

    def _catch_up(self, path: ScopedPath) -> None:
        """Before a change of ours is told: whether the directories above it are the known ones. If
        others put new ones in their place, that is told first."""
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
            self.compare(place, at.name, at, 0, at_once=True)

    def _take(self, change: Change, origin: ScopedPath) -> Entry | None:
        """What is known of what was moved, taken from its old name. Something else may be known
        there, if others put the thing that was moved in its place: then that is gone."""
        found = self._known.seek(origin)
        entry = None if found is None else found[0].entries.get(found[1])
        if found is None or not isinstance(entry, Place):
            return self._known.take(origin)
        number = _number(change.version or "")
        if change.type == "directory" and _number(entry.version) in ("", number):
            return self._known.take(origin)
        self._gone(*found, origin, entry, kernel.DELETE)
        return None

    def _told_directory(self, place: Place, name: str, change: Change, taken: Entry | None) -> None:
        known, version = self._known, change.version or ""
        old = place.entries.get(name)
        if isinstance(taken, Place):
            known.drop(place, name)
            known.hang(taken, place, name)
            taken.version = version or taken.version
            taken.implied = False
            self._enter_unless_entered(taken)
            return
        same = isinstance(old, Place) and (
            old.implied or not version or _number(old.version) in ("", _number(version))
        )
        if isinstance(old, Place) and same and change.kind != "moved":
            old.version, old.implied = version or old.version, False
        else:
            # What was moved here takes the place of all that was told of the name, also where
            # others had moved it away from here before: then what lies in it is told anew.
            if isinstance(old, Place) and not same:
                self._gone(place, name, change.path, old, kernel.DELETE)
            known.drop(place, name)
            old = Place(place, name, version)
            place.entries[name] = old
        if change.kind == "created" and change.subtree:
            old.adopt_ns = change.time_ns
        if not old.entered or change.subtree:
            old.blind = False
            self._enter_later(old)

    # --- what is seen --------------------------------------------------------------------------

    def judge_move(self, key: Key, path: ScopedPath, from_key: Key, origin: ScopedPath) -> bool:
        """Tell a move as one; False where it is not what can be seen any more."""
        (place, name), (from_place, from_name) = key, from_key
        known = self._known
        told = from_place.entries.get(from_name)
        seen = self._look(place, path)
        if told is None or not isinstance(seen, Sighting) or not is_same_object(told, seen):
            return False
        there = place.entries.get(name)
        if there is not None and is_same(there, seen):
            return False  # it was found under its new name before
        was = version_known(told)
        if isinstance(told, Place):
            if place.lies_in(told):
                return False  # others have brought that about, in steps which are not known yet
            # Taken first: what stood there before may be the directory that it comes from.
            del from_place.entries[from_name]
            known.drop(place, name)
            known.hang(told, place, name)
            told.version, told.implied = seen.version, False
            self._enter_unless_entered(told)
            names, truncated = told.names_beneath(self._beneath_max)
            self.report(
                "moved", path, "directory", seen, was, origin=origin, subtree=True,
                beneath=names, beneath_truncated=truncated,
            )  # fmt: skip
        else:
            known.drop(from_place, from_name)
            known.drop(place, name)
            known.keep(place, name, leaf_of(seen.type, seen.version))
            self.report("moved", path, seen.type, seen, was, origin=origin)
        return True

    def _enter_unless_entered(self, moved: Place) -> None:
        """What was moved before it was entered could not be found under its old name."""
        for place in moved.places():
            if not place.entered:
                place.blind = False
                self._enter_later(place)

    def _look(self, place: Place, path: ScopedPath) -> Sighting | _Elsewhere | None:
        return look(self._lookup, path, _number(place.version))

    def compare(
        self, place: Place, name: str, path: ScopedPath, mask: int, *, at_once: bool = False
    ) -> bool:
        """Tell what became of one name, if that is news; False where it is to be seen later."""
        return self._settle(place, name, path, mask, at_once) != "again"

    def _settle(
        self, place: Place, name: str, path: ScopedPath, mask: int, at_once: bool
    ) -> _Outcome:
        if not at_once and self._is_moving((place, name)):
            # What went from here, or came here, is to be looked at as a move first.
            self._look_again(place, name, mask)
            return "again"
        seen = self._look(place, path)
        if seen == "elsewhere":
            # Not the name has changed but a directory above it: that is what is told, once.
            if place.parent is None:
                return "unknown"
            above = self._settle(place.parent, place.name, path.parent, 0, at_once)
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
            self._gone(place, name, path, told, mask)
        elif told is None:
            self._new(place, name, path, seen, mask)
        elif is_same(told, seen):
            if isinstance(told, Place):
                self._confirm(told, seen, path)
        elif is_same_object(told, seen) or "directory" not in (type_of(told), seen.type):
            self._updated(place, name, path, told, seen)
        else:
            self._gone(place, name, path, told, mask)
            self._new(place, name, path, seen, kernel.CREATE)
        return "settled"

    def _gone(
        self, place: Place, name: str, path: ScopedPath, told: Entry | None, mask: int
    ) -> None:
        if told is None:
            left = mask & (kernel.DELETE | kernel.MOVED_FROM)
            if left and not place.complete and not mask & (kernel.CREATE | kernel.MOVED_TO):
                kind: EntryType = "directory" if mask & kernel.IS_DIRECTORY else "file"
                self.report("deleted", path, kind, None)
            return
        names: tuple[str, ...] = ()
        truncated = False
        if isinstance(told, Place):
            names, truncated = told.names_beneath(self._beneath_max)
        self._known.drop(place, name)
        if isinstance(told, Place) and told.implied and not names:
            return  # nobody was told that there was anything
        self.report(
            "deleted", path, type_of(told), None, version_known(told),
            subtree=isinstance(told, Place), beneath=names, beneath_truncated=truncated,
        )  # fmt: skip

    def _new(self, place: Place, name: str, path: ScopedPath, seen: Sighting, mask: int) -> None:
        if seen.type == "directory":
            child = Place(place, name, seen.version)
            place.entries[name] = child
            self._enter_later(child)
        else:
            self._known.keep(place, name, leaf_of(seen.type, seen.version))
        created = place.complete or mask & (kernel.CREATE | kernel.MOVED_TO)
        self.report("created" if created else "updated", path, seen.type, seen)

    def _updated(
        self, place: Place, name: str, path: ScopedPath, told: Entry, seen: Sighting
    ) -> None:
        was = version_known(told)
        if isinstance(told, Place):
            told.version, told.blind = seen.version, False
            if not told.entered:
                self._enter_later(told)
        else:
            self._known.keep(place, name, leaf_of(seen.type, seen.version))
        self.report("updated", path, seen.type, seen, was)

    def _confirm(self, told: Place, seen: Sighting, path: ScopedPath) -> None:
        """A directory that is known is there."""
        told.version = seen.version
        if told.implied:
            told.implied = False
            self.report("created", path, "directory", seen)
        if not told.entered and not told.blind:
            self._enter_later(told)

    def report(
        self,
        kind: Literal["created", "updated", "deleted", "moved", "rescan"],
        path: ScopedPath,
        type: EntryType,
        seen: Sighting | None,
        was: str | None = None,
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
        key = None if path.is_root else self._known.key_of(path)
        self.news.append(Noticed(change, was, 0 if seen is None else seen.changed_ns, key))

    # --- what was not told after all -----------------------------------------------------------

    def doubt(self, noticed: Noticed) -> None:
        """Look at a name anew, and at all beneath it, as if it were another than the known one.
        What was known stays known: should it be gone, that is news."""
        change, key = noticed.change, noticed.key
        if isinstance(key, Place) and key.parent is not None:
            place, name = key.parent, key.name
        elif isinstance(key, tuple):
            place, name = key
        else:
            return
        if self._known.path_of(place) is None:
            return
        entry = place.entries.get(name)
        if isinstance(entry, Place):
            for each in entry.places():
                each.version = f"{_number(each.version)}-" if each.version else ""
                for kept, leaf in each.entries.items():
                    if isinstance(leaf, str):
                        each.entries[kept] = leaf[0]
                self._enter_later(each)
        elif entry is not None or (change.kind == "deleted" and change.type != "directory"):
            self._known.keep(place, name, leaf_of(change.type, "") if entry is None else entry[0])
        self._look_again(place, name, 0)


def _number(version: str) -> str:
    """The inode's number, with which a version begins."""
    return version.partition("-")[0]
