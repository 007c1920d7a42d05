"""What can be done to a store, as values.

A verb works out an act and hands it over; the pipeline has it done once all is decided, asked, on
record and charged. What a person is shown is told by the act itself, and it names the handles that
it is done to, which must be those that the call was admitted with: so nothing is done that was not
shown, and nothing anywhere else.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, closing, suppress
from typing import Any, ClassVar, Final, Generic, TypeVar

import msgspec

from bailiwick.errors import (
    BailiwickError,
    HashMismatch,
    PathNotFound,
    PolicyDenied,
    escape_for_display,
)
from bailiwick.finishing import to_the_end
from bailiwick.model import Expected, Stat
from bailiwick.paths import ScopedPath
from bailiwick.store import Handle, Look, Staged, Stages, Store, WritePlan, Written
from bailiwick.versions import Mark, Marks, Stale, branches

Outcome = TypeVar("Outcome")


class Act(msgspec.Struct, Generic[Outcome], frozen=True, eq=False):
    """One change of a store. ``entry`` is what it is done to."""

    entry: Handle
    asks: ClassVar[bool] = True
    """Whether a person is asked about it where rules say so."""
    whole: ClassVar[object] = None
    """What is to be judged beyond its places, all of it, before it is done: what lies in a
    directory, or all that a plan touches. None where there is nothing."""

    @property
    def words(self) -> str:
        """What it does, for a person who is asked."""
        raise NotImplementedError

    @property
    def places(self) -> tuple[Handle, ...]:
        """What it is done to."""
        return (self.entry,)

    async def fingerprint(self) -> str | None:
        """What a preview of it has as its hash; None where only its places are bound, and what
        stands there."""
        return hash_of_words(self.words)

    def is_at_most(self, other: Act[Any]) -> bool:
        """Whether it does what the ``other`` does, or that on more conditions."""
        return type(self) is type(other) and all(
            mine is theirs or _is_stricter(mine, theirs)
            for mine, theirs in (
                (getattr(self, name), getattr(other, name)) for name in self.__struct_fields__
            )
        )

    def on(self, store: Store) -> Awaitable[Outcome]:
        """Do it, once it is awaited."""
        raise NotImplementedError


class ActOfPlaces(Act[Outcome], frozen=True, eq=False):
    """One that is bound by its places alone, and by what stands there."""

    async def fingerprint(self) -> None:
        return None


class _Between(ActOfPlaces[Outcome], frozen=True, eq=False):
    """One that takes something from its ``entry`` to a ``destination``."""

    destination: Handle

    @property
    def places(self) -> tuple[Handle, ...]:
        return self.entry, self.destination


def _is_stricter(mine: object, theirs: object) -> bool:
    """Whether how something is done lets less be done: only over what is known, or over nothing."""
    if isinstance(mine, WritePlan) and isinstance(theirs, WritePlan):
        known = theirs.expected_sha256 in (None, mine.expected_sha256) and (
            theirs.expected_version in (None, mine.expected_version)
        )
        rest = [(each.file_mode, each.parents, each.size_max) for each in (mine, theirs)]
        return known and mine.mode in (theirs.mode, "create") and rest[0] == rest[1]
    return mine is False and theirs is True


def hash_of_words(words: str) -> str:
    """The hash of a change that a few words describe."""
    return hashlib.sha256(words.encode(errors="surrogatepass")).hexdigest()


async def _hash_of(data: bytes) -> str:
    if type(data) is not bytes:  # could be changed between what is shown and what is done
        raise TypeError("content is bytes")
    if len(data) <= _INLINE_BYTES_MAX:
        return hashlib.sha256(data).hexdigest()
    return await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())


_INLINE_BYTES_MAX: Final = 256 * 1024
"""About 0.2 ms of hashing: longer would hold up every other call on the loop."""


# --- what a file holds ----------------------------------------------------------------------------


class Write(Act[Written], frozen=True, eq=False):
    data: bytes
    sha256: str
    plan: WritePlan

    async def fingerprint(self) -> str:
        return await _hash_of(self.data)

    def on(self, store: Store) -> Awaitable[Written]:
        return store.write(self.entry, self.data, self.sha256, self.plan)


class Append(Act[Written], frozen=True, eq=False):
    data: bytes
    plan: WritePlan

    async def fingerprint(self) -> str:
        return await _hash_of(self.data)

    def on(self, store: Store) -> Awaitable[Written]:
        return store.append(self.entry, self.data, self.plan)


class Truncate(Act[Written], frozen=True, eq=False):
    size: int
    plan: WritePlan

    @property
    def words(self) -> str:
        return f"cut or extend to {self.size} bytes"

    def on(self, store: Store) -> Awaitable[Written]:
        return store.truncate(self.entry, self.size, self.plan)


class WriteStream(ActOfPlaces[Written], frozen=True, eq=False):
    """Content that is staged as it comes, and published after its last chunk."""

    chunks: AsyncGenerator[bytes, None]
    plan: WritePlan

    async def on(self, store: Store) -> Written:
        async with aclosing(self.chunks):
            return await store.write_stream(self.entry, self.chunks, self.plan)


# --- names ----------------------------------------------------------------------------------------


class MakeDir(Act[bool], frozen=True, eq=False):
    file_mode: int | None
    parents: bool

    @property
    def words(self) -> str:
        return f"make a directory ({_shown_mode(self.file_mode)})"

    def on(self, store: Store) -> Awaitable[bool]:
        return store.make_dir(self.entry, file_mode=self.file_mode, parents=self.parents)


class Symlink(Act[None], frozen=True, eq=False):
    target: str

    @property
    def words(self) -> str:
        return f"make a link to {escape_for_display(self.target)}"

    def on(self, store: Store) -> Awaitable[None]:
        return store.symlink(self.entry, self.target)


class Remove(ActOfPlaces[int], frozen=True, eq=False):
    recursive: bool
    expected: Expected

    @property
    def whole(self) -> object:  # type: ignore[override]
        return self.entry if self.recursive and self.entry.type == "directory" else None

    def on(self, store: Store) -> Awaitable[int]:
        return store.remove(self.entry, recursive=self.recursive, **on_condition(self.expected))


class Move(_Between[bool], frozen=True, eq=False):
    replace: bool
    expected: Expected
    replaced: Expected

    @property
    def whole(self) -> object:  # type: ignore[override]
        return self.entry if self.entry.type == "directory" else None

    def on(self, store: Store) -> Awaitable[bool]:
        return store.move(
            self.entry, self.destination, replace=self.replace, **on_condition(self.expected),
            **({"replaced": self.replaced} if self.replaced.conditional else {}),
        )  # fmt: skip


class Copy(_Between[int], frozen=True, eq=False):
    recursive: bool

    @property
    def whole(self) -> object:  # type: ignore[override]
        return self.entry if self.entry.type == "directory" else None

    def on(self, store: Store) -> Awaitable[int]:
        return store.copy(self.entry, self.destination, recursive=self.recursive)


class CopyOver(_Between[int], frozen=True, eq=False):
    """Write a file over another, as a write on condition is published, and give it the time of what
    it was copied from, as long as it is still that."""

    plan: WritePlan
    mtime_ns: int
    mark: Mark | None = None

    async def on(self, store: Store) -> int:
        async with aclosing(store.stream(self.entry, 0, None)) as chunks:
            written = await store.write_stream(self.destination, chunks, self.plan)
        still = Expected(written.version, written.sha256)
        if self.mark is not None and isinstance(store, Marks):
            # One version is made under a key: that in which it has the content.
            store = store.marked(msgspec.structs.replace(self.mark, key=None))
        with suppress(HashMismatch, PathNotFound):
            await store.set_times(self.destination, self.mtime_ns, None, expected=still)
        return 1


class Unpack(_Between[None], frozen=True, eq=False):
    """Make what an archive holds out of sight, and have it appear at its ``destination`` at once,
    or merge it into the directory there so that an error undoes all of it. ``settle`` is awaited
    right before that."""

    parts: Callable[[], AsyncGenerator[list[Staged | bytes], None]]
    size_max: int
    replace: bool
    settle: Callable[[], Awaitable[None]]

    async def on(self, store: Store) -> None:
        assert isinstance(store, Stages)
        stage = await store.stage(self.destination, size_max=self.size_max)
        try:
            async with aclosing(self.parts()) as batches:
                async for batch in batches:
                    await stage.add(batch)
            await self.settle()
            if self.destination.type is None:
                await stage.publish()
            else:
                await stage.merge(replace=self.replace)
        except BailiwickError as error:
            error.path = error.path or self.entry.path
            raise
        finally:
            await to_the_end(stage.discard())


class Within:
    """A store for what is made at one place: nothing is changed anywhere else but that directories
    which are missing above it are made, and nothing when it is over."""

    def __init__(self, store: Store, top: ScopedPath, *, is_draft: bool = False) -> None:
        """Handles of another store are good for nothing in a draft: there each is resolved."""
        self.is_draft = is_draft
        self._store = store
        self._top = top
        self._made_above: set[ScopedPath] = set()
        self._over = False

    def close(self) -> None:
        self._over = True

    def resolve(self, path: ScopedPath, look: Look, *, parents: bool = False) -> Awaitable[Handle]:
        return self._store.resolve(path, look, parents=parents)

    def stat(self, handle: Handle) -> Awaitable[Stat]:
        return self._store.stat(handle)

    async def make_dir(self, entry: Handle) -> None:
        above = self._top != entry.path and self._top.lies_in(entry.path)
        store = self._changing(entry, above=above)
        await store.make_dir(entry, file_mode=None, parents=False)
        if above:
            self._made_above.add(entry.path)

    def write_stream(
        self, entry: Handle, chunks: AsyncGenerator[bytes, None], plan: WritePlan
    ) -> Awaitable[Written]:
        return self._changing(entry).write_stream(entry, chunks, plan)

    def symlink(self, entry: Handle, target: str) -> Awaitable[None]:
        return self._changing(entry).symlink(entry, target)

    def set_mode(self, entry: Handle, file_mode: int) -> Awaitable[None]:
        return self._changing(entry).set_mode(entry, file_mode)

    def set_times(self, entry: Handle, mtime_ns: int) -> Awaitable[None]:
        return self._changing(entry).set_times(entry, mtime_ns, None)

    def remove(self, entry: Handle) -> Awaitable[int]:
        above = entry.path in self._made_above
        return self._changing(entry, above=above).remove(entry, recursive=False)

    def _changing(self, entry: Handle, *, above: bool = False) -> Store:
        if self._over or not (above or entry.path.lies_in(self._top)):
            raise PolicyDenied("this is not what was decided on", path=entry.path)
        return self._store


class CopyIn(ActOfPlaces[int], frozen=True, eq=False):
    """Make a copy of what another root holds; ``make`` does it, at this place. It appears at once,
    in one version with its mark, where the store has transactions."""

    make: Callable[[Within], Awaitable[int]]
    mark: Mark | None = None

    async def on(self, store: Store) -> int:
        if self.mark is None or "Branches" not in store.powers:
            return await self._made(store, is_draft=False)
        draft = await branches(store).begin()
        try:
            count = await self._made(draft.store, is_draft=True)
            done = await draft.commit(self.mark)
            if done.conflicts:
                raise Stale
            return count
        finally:
            await to_the_end(draft.discard())

    async def _made(self, store: Store, *, is_draft: bool) -> int:
        with closing(Within(store, self.entry.path, is_draft=is_draft)) as within:
            return await self.make(within)


class SetMode(Act[None], frozen=True, eq=False):
    file_mode: int
    expected: Expected

    @property
    def words(self) -> str:
        return f"set the mode to {_shown_mode(self.file_mode)}"

    def on(self, store: Store) -> Awaitable[None]:
        return store.set_mode(self.entry, self.file_mode, **on_condition(self.expected))


class SetTimes(Act[None], frozen=True, eq=False):
    mtime_ns: int
    atime_ns: int | None
    expected: Expected

    @property
    def words(self) -> str:
        return f"set the times to {self.mtime_ns} and {self.atime_ns}"

    def on(self, store: Store) -> Awaitable[None]:
        return store.set_times(
            self.entry, self.mtime_ns, self.atime_ns, **on_condition(self.expected)
        )


def on_condition(expected: Expected) -> dict[str, Expected]:
    """The argument of a store for a change on condition; none where there is no condition: a store
    may know of none."""
    return {"expected": expected} if expected.conditional else {}


def _shown_mode(file_mode: int | None) -> str:
    return "the usual mode" if file_mode is None else f"mode {file_mode:04o}"
