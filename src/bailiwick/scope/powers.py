"""What a store can do beyond the common verbs, by names that callers know."""

from __future__ import annotations

from collections.abc import Iterable

from bailiwick.versions import POWER_NAMES


class Powers(frozenset[str]):
    """Names of powers. Asked for one by the name of its protocol, it knows that too."""

    __slots__ = ()

    @classmethod
    def of(cls, names: Iterable[str]) -> Powers:
        return cls(POWER_NAMES.get(name, name) for name in names)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(POWER_NAMES.get(name, name) if isinstance(name, str) else name)
