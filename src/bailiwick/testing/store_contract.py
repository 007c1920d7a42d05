"""The contract of every store, as a list of small named cases.

A store is proved by running all of them, each on a fresh tree:

    async def make(*, symlinks, plant):
        store = MyStore(symlinks="in-root")
        if plant is not None:
            await plant(StoreDriver(store))
        …  # open it again with `symlinks`, if that differs
        return StoreDriver(store)

    await run_contract(make, differences=DIFFERENCES["my-kind"])

Where stores may differ is written in one list, `DIFFERENCES`. A case that is declared as different
must really fail: a difference that has gone is taken off the list.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from bailiwick.testing.contract import (
    closed_stores,
    directories,
    handles,
    links,
    moves,
    names,
    reads,
    streams,
    writes,
)
from bailiwick.testing.contract.case import Case
from bailiwick.testing.driver import Driver, MakeDriver, Plant, StoreDriver

__all__ = [
    "CASES",
    "DIFFERENCES",
    "PATH_CASES",
    "Case",
    "ContractBroken",
    "Driver",
    "MakeDriver",
    "Plant",
    "StoreDriver",
    "failure_of",
    "run_contract",
]

_ROOMS = (names, links, reads, writes, streams, directories, moves, handles, closed_stores)

CASES: tuple[Case, ...] = tuple(case for room in _ROOMS for case in room.ROOM.cases)
"""Every case, by topic."""

PATH_CASES: tuple[Case, ...] = tuple(case for case in CASES if case.level == "path")
"""The cases that speak of paths only: what a scope is held to as well."""

DIFFERENCES: dict[str, dict[str, str]] = {
    "memory": {
        "an absolute link is not made": "links are data: one begins at the mount point",
        "a link that leads outside is not made": "links are data: one is refused when followed",
    },
    "volume": {
        "an absolute link is not made": "links are data: one begins at the mount point",
        "a link that leads outside is not made": "links are data: one is refused when followed",
    },
    "disk": {
        "an absolute link starts at the mount point": (
            "other programs see the same link, and for them it leads out of the root"
        ),
        "a link that leads outside is made and never followed": (
            "other programs would follow it, so it is not made"
        ),
    },
    "mounts": {
        "the root itself stays": "a mount point is busy, as one of the host is",
    },
}
"""The kind of a store → the cases it does not keep, each with the reason."""


class ContractBroken(AssertionError):
    """One or more cases failed; ``failures`` has the error of each by name."""

    def __init__(self, failures: Mapping[str, Exception]) -> None:
        self.failures = dict(failures)
        lines = [f"  {name}: {type(error).__name__}: {error}" for name, error in failures.items()]
        super().__init__("\n".join([f"{len(lines)} cases of the contract failed:", *lines]))


async def run_contract(
    make: MakeDriver,
    *,
    cases: Collection[Case] = CASES,
    differences: Collection[str] = frozenset(),
) -> None:
    """Run all cases and raise `ContractBroken` with everything that failed."""
    failures: dict[str, Exception] = {}
    unknown = set(differences) - {case.name for case in CASES}
    for name in sorted(unknown):
        failures[name] = AssertionError("declared as different, but no case has this name")
    for case in cases:
        error = await failure_of(case, make)
        if case.name in differences:
            if error is None:
                failures[case.name] = AssertionError("declared as different, but it holds")
        elif error is not None:
            failures[case.name] = error
    if failures:
        raise ContractBroken(failures)


async def failure_of(case: Case, make: MakeDriver) -> Exception | None:
    """How a case fails, be it by what it says or by a fault of the store; None where it holds."""
    try:
        await case.run(make)
    except Exception as error:
        return error
    return None
