"""The directories that lie around a change which is taken back, and by which modes they may be
opened for that: such as the very change has made, opened or shut, and only while they have the mode
that it left. What others have shut is theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from bailiwick.changes_made import ALL_OF_OWNER
from bailiwick.errors import PermissionDenied
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.store import HostDirectory, Store
from bailiwick.stores.history.capture import Elsewhere, Looker
from bailiwick.stores.history.ledger import HistoryEntry, HistoryLedger, effect_of
from bailiwick.stores.history.states import WENT, PlaceState, is_directory

_PASS: Final = 0o100
_EFFECTS_AT: Final = """
SELECT entry.id, entry.subject, entry.request, e.path, e.before, e.after, e.kind, e.other
FROM effect e JOIN entry ON entry.id = e.entry WHERE e.path = ?
ORDER BY e.entry DESC, e.seq DESC
"""


class Around(NamedTuple):
    """A directory that is gone through for a change: where it is before anything is done, what it
    was called when it was changed, and what its mode must allow."""

    path: ScopedPath
    named: ScopedPath
    needed: int


def heeds_modes(store: Store) -> bool:
    """Whether the modes of directories keep us out of them."""
    return isinstance(store, HostDirectory) and store.heeds_modes()


def places_around(
    path: ScopedPath, now: PlaceState | None, then: PlaceState | None, *, moved: bool = False
) -> Iterator[tuple[ScopedPath, int]]:
    """Directories that are gone through for a change of a place, with what their modes must allow
    for it."""
    was, is_one = is_directory(now), is_directory(then)
    if was and (moved or not is_one):
        yield path, ALL_OF_OWNER
    yield path.parent, _PASS if was and is_one and not moved else ALL_OF_OWNER
    for above in (*path.parent.parents, ROOT):
        yield above, _PASS


class OwnDirectories:
    """The directories that some changes have made, opened or shut, also by what else was done under
    the same request."""

    def __init__(self, ledger: HistoryLedger, entries: Iterable[HistoryEntry]) -> None:
        self._ledger = ledger
        self._entries: set[int] = set()
        self._requests: set[tuple[str, str]] = set()
        for entry in entries:
            self._entries.add(entry.id)
            if entry.request:
                self._requests.add((entry.subject, entry.request))
        self._known: dict[ScopedPath, int | None] = {}

    def mode(self, path: ScopedPath) -> int | None:
        """The mode that the last of them left a directory with, or found it with when it was moved
        from there. Of one that they took away: that with which it came again since."""
        if path not in self._known:
            self._known[path] = self._mode(self._ledger.rows(_EFFECTS_AT, str(path)))
        return self._known[path]

    def _mode(self, rows: Sequence[Any]) -> int | None:
        """``rows`` are given newest first."""
        newest: PlaceState | None = None
        for number, (entry, subject, request, *row) in enumerate(rows):
            effect = effect_of(row)
            state = effect.before if effect.kind == WENT else effect.after
            newest = state if number == 0 else newest
            if entry in self._entries or (subject, request) in self._requests:
                state = newest if state is None else state
                return state.mode if state is not None and is_directory(state) else None
        return None


class HiddenPlaces:
    """Places that cannot be looked at while the directories that they lie in are shut."""

    def __init__(self, looker: Looker, own: OwnDirectories) -> None:
        self._looker = looker
        self._own = own

    async def why_not(self, ways: Iterable[Around]) -> str | None:
        """Why one of those directories cannot be opened; None where they can, as far as is seen."""
        for each in sorted(ways, key=lambda each: each.path.order):
            try:
                state = await self._looker.now(each.path)
            except (Elsewhere, PermissionDenied):
                return None
            if state is None or state.type != "directory":
                return None
            if state.mode & each.needed != each.needed and (
                state.mode != self._own.mode(each.named)
            ):
                return told_shut(each.path, state.mode)
        return None


def told_shut(path: ScopedPath, mode: int) -> str:
    place = "the root" if path.is_root else path
    return f"{place} is shut (mode {mode:04o}), and not by what would be taken back"
