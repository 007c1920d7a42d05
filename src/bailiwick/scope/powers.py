"""What a store can do beyond the common verbs, by names that callers know."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

NAMES: Final = {
    "Branches": "forks",
    "Leases": "locks",
    "Logs": "change_log",
    "Marks": "attribution",
    "Narrows": "narrowing",
    "Nominates": "indexed_search",
    "Prompt": "prompt_reads",
    "Remembers": "history",
    "Stages": "staging",
    "Watches": "foreign_changes",
    "WritesPromptly": "prompt_writes",
}
"""By the protocol that a store has. ``forks`` are snapshots, merges and transactions too. What is
not listed is a power of somebody's own store, and keeps its name."""


class Powers(frozenset[str]):
    """Names of powers. Asked for one by the name of its protocol, it knows that too."""

    __slots__ = ()

    @classmethod
    def of(cls, names: Iterable[str]) -> Powers:
        return cls(NAMES.get(name, name) for name in names)

    def __contains__(self, name: object) -> bool:
        return super().__contains__(NAMES.get(name, name) if isinstance(name, str) else name)
