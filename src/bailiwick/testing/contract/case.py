"""A case of the contract: a name, the rules it proves, and what it does with a fresh tree."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from bailiwick.errors import BailiwickError
from bailiwick.model import Symlinks
from bailiwick.store import Store
from bailiwick.testing.driver import Driver, MakeDriver, Plant, StoreDriver

if not __debug__:
    # Every case would hold, whatever the store does.
    raise ImportError("the contract speaks in assertions: run it without -O")

Level = Literal["path", "handle"]
"""Whether a case speaks of paths, to any `Driver`, or of handles, to a store only."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One small fact about every store."""

    name: str
    rules: tuple[str, ...]
    level: Level
    symlinks: Symlinks
    plant: Plant | None
    body: Callable[[Any], Awaitable[None]]

    @property
    def id(self) -> str:
        return self.name.replace(" ", "-")

    async def run(self, make: MakeDriver) -> None:
        """Prove the case on a fresh tree; an `AssertionError` or a wrong error disproves it."""
        driver = await make(symlinks=self.symlinks, plant=self.plant)
        try:
            await self.body(_subject(driver, self.level))
        finally:
            await driver.aclose()


def _subject(driver: Driver, level: Level) -> Driver | Store:
    if level == "path":
        return driver
    if not isinstance(driver, StoreDriver):
        raise TypeError("a case about handles needs a store")
    return driver.store


class CaseRoom:
    """The cases of one topic, in the order they are written."""

    def __init__(self) -> None:
        self.cases: list[Case] = []

    def case(
        self,
        name: str,
        *,
        rules: tuple[str, ...] = (),
        symlinks: Symlinks = "in-root",
        plant: Plant | None = None,
    ) -> Callable[[Callable[[Driver], Awaitable[None]]], Case]:
        """A case that speaks of paths."""
        return lambda body: self._add(
            Case(name=name, rules=rules, level="path", symlinks=symlinks, plant=plant, body=body)
        )

    def handle_case(
        self, name: str, *, rules: tuple[str, ...] = ()
    ) -> Callable[[Callable[[Store], Awaitable[None]]], Case]:
        """A case that speaks of handles."""
        return lambda body: self._add(
            Case(name=name, rules=rules, level="handle", symlinks="in-root", plant=None, body=body)
        )

    def _add(self, case: Case) -> Case:
        self.cases.append(case)
        return case


class Refusal:
    """The error that a block raised, once it has."""

    error: BailiwickError


@contextmanager
def refuses(*kinds: type[BailiwickError], what: str = "") -> Iterator[Refusal]:
    """Demand that the block raises one of ``kinds``, exactly: neither a parent class nor a twin."""
    refusal = Refusal()
    wanted = " or ".join(kind.kind for kind in kinds)
    try:
        yield refusal
    except BailiwickError as error:
        if type(error) not in kinds:
            raise AssertionError(f"{what} raised {error.kind} ({error}), not {wanted}") from error
        refusal.error = error
    else:
        raise AssertionError(f"{what or 'the call'} succeeded, and should have been {wanted}")


async def names(fs: Driver, path: str = ".") -> list[str]:
    return [entry.name for entry in await fs.entries(path)]


async def tree(fs: Driver, path: str = ".") -> dict[str, bytes | str | None]:
    """Everything beneath ``path``: bytes of files, text of links as str, None for directories."""
    found: dict[str, bytes | str | None] = {}
    waiting = [path]
    while waiting:
        directory = waiting.pop()
        for entry in await fs.entries(directory):
            child = entry.name if directory == "." else f"{directory}/{entry.name}"
            if entry.type == "directory":
                found[child] = None
                waiting.append(child)
            elif entry.type == "symlink":
                found[child] = await fs.readlink(child)
            else:
                found[child] = await fs.read(child)
    return found
