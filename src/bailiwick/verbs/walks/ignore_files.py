"""Which paths ignore files mark, kept in step with the ignore files themselves.

Listings and searches look at the ignore files every time. The mark on a single read or write may
lag behind a foreign change of an ignore file by a quarter of a second: it is only a mark, and two
lookups a level on every small read would cost more than the read.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bailiwick.call import Call
from bailiwick.errors import BailiwickError
from bailiwick.model import EntryType, MatchedIgnore
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.policy import Hide
from bailiwick.search.ignore import IgnoreLevel, compile_rules, is_compiled
from bailiwick.store import Child, Handle, Reader

IGNORE_FILE_NAMES = (".gitignore", ".bailiwickignore")

_MARK_FRESH_NS = 250_000_000
_CACHE_ENTRIES_MAX = 4_096
_IGNORE_FILE_BYTES_MAX = 1024 * 1024
"""An ignore file larger than this is not one a person wrote; the rest of it is not looked at."""

_INLINE_CHARACTERS_MAX = 16 * 1024
"""Some thousand rules, at ten microseconds each: a longer ignore file is compiled off the loop."""


_UNMARKED = (None,)

_NO_RULES = IgnoreLevel.top()
"""At the top of a tree without ignore files: one for all, so that what was made of it holds."""


class _Known(NamedTuple):
    checked_ns: int
    above: IgnoreLevel | None
    texts: dict[str, str]
    level: IgnoreLevel


class _InForce(NamedTuple):
    """The rules in force in a directory and right above it, the ignore files that they rest on, and
    when the first of them was looked at: what was known before is no fresher than that."""

    checked_ns: int
    above: IgnoreLevel | None
    level: IgnoreLevel
    rests_on: tuple[ScopedPath, ...]


class Ignores:
    """The ignore rules of one root."""

    def __init__(
        self, *, names: tuple[str, ...] = IGNORE_FILE_NAMES, monotonic_ns: Callable[[], int]
    ) -> None:
        self.names = names
        self._monotonic_ns = monotonic_ns
        self._levels: dict[ScopedPath, _Known] = {}
        self._in_force: dict[str, _InForce] = {}
        self._times_forgotten = 0

    def anew(self) -> Ignores:
        """Ignore rules for another tree: nothing of this one is remembered."""
        return Ignores(names=self.names, monotonic_ns=self._monotonic_ns)

    def forget(self, path: ScopedPath, type_: EntryType | None = "file") -> None:
        """Our own changes show at once: drop what may depend on what stood or stands at ``path``.
        A file has a part in the rules by its name only; with a directory its ignore files come and
        go."""
        if type_ not in ("file", None) or (path.endswith(self.names) and path.name in self.names):
            self.forget_all()

    def forget_all(self) -> None:
        """Much was changed, and nobody asks what."""
        self._levels.clear()
        self._in_force.clear()
        self._times_forgotten += 1  # what is being looked up meanwhile is not kept

    def known_mark(self, call: Call, path: ScopedPath) -> tuple[MatchedIgnore | None] | None:
        """What `mark` would answer, if that is known: most often it is, and nobody need wait."""
        directory, _, name = path.rpartition("/")
        known = self._in_force.get(directory)
        if known is None or self._monotonic_ns() - known.checked_ns >= _MARK_FRESH_NS:
            known = self._inherited(call, directory)
        if known is None or (known.rests_on and _hides_any(call, known.rests_on)):
            return None
        level = known.level
        if level.silent and name != ".git":
            return _UNMARKED
        return (_mark_of(level, name),)

    def _inherited(self, call: Call, directory: str) -> _InForce | None:
        """The rules of a directory without ignore files of its own, where those above it are known
        or there are none either: one question tells."""
        is_missing = getattr(call.store, "is_missing", None)
        if is_missing is None or call.past is not None:
            return None
        now, in_force, here = self._monotonic_ns(), self._in_force, directory
        unsure: list[tuple[str, str, _InForce | None]] = []
        while True:
            above = in_force.get(here)
            if above is not None and now - above.checked_ns < _MARK_FRESH_NS:
                break
            parent, _, name = here.rpartition("/")
            unsure.append((here, name, above))
            if not here:
                above = None
                break
            here = parent
        names = [f"{here}/{name}" if here else name for here, *_ in unsure for name in self.names]
        if not is_missing(*map(ScopedPath, names)):
            return None
        _bound(in_force)
        for here, name, known in reversed(unsure):
            if above is None:
                above = _InForce(now, None, _NO_RULES, ())
            elif known is None or (known.above, known.rests_on) != (above.level, above.rests_on):
                level = above.level.enter(name)
                above = _InForce(above.checked_ns, above.level, level, above.rests_on)
            else:
                above = _InForce(above.checked_ns, known.above, known.level, known.rests_on)
            in_force[here] = above
        return above

    async def mark(self, call: Call, path: ScopedPath) -> MatchedIgnore | None:
        """How ignore rules mark a file: by itself, by a directory above it, or not at all."""
        known = self.known_mark(call, path)
        if known is not None:
            return known[0]
        forgotten = self._times_forgotten
        level = await self._look_up(call.store, path.parent, fresh=False, call=call)
        if forgotten == self._times_forgotten:
            self._keep(call, path.parent)
        return _mark_of(level, path.name)

    def _keep(self, call: Call, directory: ScopedPath) -> None:
        """Keep the rules in a directory and above it for whoever may see all that they rest on.
        What is hidden from this caller has no part in their marks, but in those of others."""
        above: _InForce | None = None
        here = ROOT
        _bound(self._in_force)
        for name in ("", *directory.parts):
            here = here.child(name) if name else here
            known = self._levels.get(here)
            level = None if above is None else above.level
            if known is None or known.above is not level:
                return  # dropped meanwhile
            checked_ns, rests_on = known.checked_ns, tuple(map(here.child, known.texts))
            if above is not None:
                checked_ns = min(checked_ns, above.checked_ns)
                rests_on = above.rests_on + rests_on
            if _hides_any(call, rests_on):
                return
            above = _InForce(checked_ns, level, known.level, rests_on)
            self._in_force[here if name else ""] = above

    async def level_of(
        self, store: Reader, directory: ScopedPath, *, call: Call | None = None
    ) -> IgnoreLevel:
        """The rules in force in ``directory``: those of every directory from the root to it.

        For a ``call``, without the ignore files that policy hides from it.
        """
        return await self._look_up(store, directory, fresh=True, call=call)

    async def _look_up(
        self, store: Reader, directory: ScopedPath, *, fresh: bool, call: Call | None
    ) -> IgnoreLevel:
        """The rules in force in a directory, level by level."""
        now, forgotten = self._monotonic_ns(), self._times_forgotten
        is_missing = None
        if call is not None and call.store is store and call.past is None:
            is_missing = getattr(store, "is_missing", None)
        level: IgnoreLevel | None = None
        shown: IgnoreLevel | None = None
        here = ROOT
        for name in ("", *directory.parts):
            here = here.child(name) if name else here
            above, known = level, self._levels.get(here)
            if known is None or fresh or now - known.checked_ns >= _MARK_FRESH_NS:
                texts = await self._texts_at(store, here, is_missing)
                if known is None or known.texts != texts or known.above is not level:
                    await _compile_large(texts)
                    known = _Known(now, level, texts, _enter(level, name, texts))
                else:
                    known = known._replace(checked_ns=now)
                if forgotten == self._times_forgotten:
                    _bound(self._levels)
                    self._levels[here] = known
            elif known.above is not level:
                known = known._replace(above=level, level=_enter(level, name, known.texts))
                self._levels[here] = known
            level = known.level
            seen = known.texts if call is None else _seen(call, here, known.texts)
            same = shown is above and seen is known.texts
            shown = level if same else _enter(shown, name, seen)
        assert shown is not None
        return shown

    async def texts_among(
        self, call: Call, directory: Handle, entries: list[Child]
    ) -> dict[str, str]:
        """The ignore files of a directory that was just listed: no lookup where there are none."""
        texts: dict[str, str] = {}
        for name in self.names:
            at = bisect_left(entries, (name,))  # they are sorted by name
            if at < len(entries) and entries[at].name == name and entries[at].type == "file":
                try:
                    handle = await call.store.descend(directory, name)
                except BailiwickError:
                    continue
                texts.update(await _text_of(call.store, handle, name))
        await _compile_large(texts)
        return _seen(call, directory.path, texts)

    async def _texts_at(
        self, store: Reader, directory: ScopedPath, is_missing: Callable[..., bool] | None
    ) -> dict[str, str]:
        """The ignore files of a directory: most often there are none, which ``is_missing`` may say
        sooner than a lookup."""
        texts: dict[str, str] = {}
        for name in self.names:
            path = directory.child(name)
            try:
                if is_missing is not None and is_missing(path):
                    continue
                handle = await store.resolve(path, "entry")
            except BailiwickError:
                continue
            texts.update(await _text_of(store, handle, name))
        return texts


async def _compile_large(texts: dict[str, str]) -> None:
    """Have what takes long to compile done in a thread: entering the level then finds it done."""
    for text in texts.values():
        if len(text) > _INLINE_CHARACTERS_MAX and not is_compiled(text):
            await asyncio.to_thread(compile_rules, text)


def _mark_of(level: IgnoreLevel, name: str) -> MatchedIgnore | None:
    if level.ignored:
        return "directory"
    return "file" if level.is_ignored(name, False) else None


def _enter(above: IgnoreLevel | None, name: str, texts: dict[str, str]) -> IgnoreLevel:
    return IgnoreLevel.top(texts) if above is None else above.enter(name, texts)


def _seen(call: Call, directory: ScopedPath, texts: dict[str, str]) -> dict[str, str]:
    """Those of the ignore files that policy does not hide: what they ignore would give them away.

    The grant plays no part: rules from above the part that it reaches hold in it too.
    """
    hidden = [name for name in texts if _hides_any(call, (directory.child(name),))]
    if not hidden:
        return texts
    return {name: text for name, text in texts.items() if name not in hidden}


def _hides_any(call: Call, files: Sequence[ScopedPath]) -> bool:
    """Whether policy hides one of these files from the caller."""
    stages, access = call.pipeline, call.operation.access
    return stages.discreet and any(
        isinstance(stages.judge(call, file, access), Hide) for file in files
    )


async def _text_of(store: Reader, handle: Handle, name: str) -> dict[str, str]:
    """One ignore file's text; like git, one that is no readable file ignores nothing."""
    try:
        if handle.type != "file":
            return {}
        content = await store.read(handle, 0, _IGNORE_FILE_BYTES_MAX)
        return {name: content.data.decode("utf-8", "surrogateescape")}
    except BailiwickError:
        return {}
    finally:
        handle.close()


def _bound(cache: dict[ScopedPath, _Known] | dict[str, _InForce]) -> None:
    if len(cache) >= _CACHE_ENTRIES_MAX:
        cache.clear()
