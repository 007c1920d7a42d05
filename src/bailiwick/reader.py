"""A store as a verb has it while it prepares: there is nothing in it that changes anything."""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, cast

from bailiwick.store import HostDirectory, Narrows, Reader, Store

_READING: Final = (
    "children", "descend", "description", "is_missing", "link_top", "names_beside",
    "nominate", "powers", "read", "readlink", "resolve", "stat", "stream", "survey",
)  # fmt: skip
"""What only looks, of `bailiwick.store.Reader` and of the powers."""

_LOOKING_BACK: Final = (
    "as_of", "beneath", "beside", "branch", "compare", "counts_apart", "forks", "history",
    "origin", "plan_merge", "plan_restore", "plan_undo", "snapshots",
)  # fmt: skip
"""What only looks, of `bailiwick.versions.Past` and `bailiwick.versions.Lines`."""


def reader_of(store: Store) -> Reader:
    """The reading half of a store, with those of its powers that only look."""
    names = tuple(name for name in _READING if hasattr(store, name))
    return cast(Reader, _half(names)(store))


def same_tree(one: Reader, other: Reader) -> bool:
    """Whether two readers look at the very same tree."""
    here, there = cast(_Half, one)._whole, cast(_Half, other)._whole
    return here is there or any(
        isinstance(each, Narrows) and each.shares_tree(their)
        for each, their in ((here, there), (there, here))
    )


def mounts_seen(reader: Reader) -> frozenset[str] | None:
    """The directories that other filesystems are mounted on; None where that is not known."""
    whole = cast(_Half, reader)._whole
    return whole.mounts() if isinstance(whole, HostDirectory) else None


class _Half:
    """Some methods of another object, and no others."""

    def __init__(self, whole: Any) -> None:
        self._whole = whole

    @property
    def versions(self) -> _Half:
        whole = self._whole.versions
        return _half(tuple(name for name in _LOOKING_BACK if hasattr(whole, name)))(whole)


@lru_cache(maxsize=64)
def _half(names: tuple[str, ...]) -> type[_Half]:
    """A class for each set of powers, so that it is seen which of them a reader has."""
    return type("_Half", (_Half,), {name: property(attrgetter(f"_whole.{name}")) for name in names})
