"""A disk that gets full while a person takes back what an agent did.

Everything here runs behind the wall. With each amount of room that is left, from none to enough: it
is done, or the answer says that the disk is full; each file is as it was or as it is to be; nothing
of anybody is lost; queue and ledger tell the truth; and once there is room, to say it again does
the rest.
"""

import asyncio
import errno
import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from bailiwick import AgentRun, Authority, Edit, Scope, User
from bailiwick.errors import BailiwickError
from bailiwick.state.ledger.query import LedgerFilter
from tests.hostile import inside
from tests.hostile.layouts import empty
from tests.scope.test_out_of_room import neither
from tests.scope.test_runs import ACCESS

LINES = 400
MANY = 20
FILLER = "filler"
PATHS = ("edited", "removed", "replaced", "made", "over", "many", "gone")


class Place(NamedTuple):
    """Where the tree lies and where the state does; and the small disk, on which one of them is, or
    both."""

    kind: str
    tree: str
    state: str
    small: str

    @property
    def _filler(self) -> str:
        return f"{self.small}/{FILLER}"

    def fill(self, pages: int) -> None:
        """Leave so many pages of room."""
        left = os.statvfs(self.small)
        with open(self._filler, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, (left.f_bavail - pages) * left.f_bsize)
        assert os.statvfs(self.small).f_bavail == pages

    def make_room(self) -> None:
        os.unlink(self._filler)


def _fresh(kind: str, full: str) -> Place:
    small, large = f"{inside.arena()}/room/root", f"{inside.arena()}/large"
    os.makedirs(large, exist_ok=True)
    for directory in (small, large):
        empty(directory)
    tree = f"{large if full == 'state' else small}/tree"
    state = f"{large if full == 'tree' else small}/state"
    os.mkdir(tree)
    return Place(kind, tree, state, small)


@asynccontextmanager
async def _opened(place: Place) -> AsyncIterator[tuple[Authority, Scope]]:
    where, options = f"sqlite:{place.tree}/v.db", {}
    if place.kind == "directory":
        where, options = place.tree, {"history": "on"}
    async with Authority.open(state_dir=place.state) as authority:
        await authority.add_root("workspace:w", where, trusted=True, **options)
        yield authority, await authority.request_root(User("ann"), "workspace:w", ACCESS, "look")


def _lines(name: str, count: int = LINES) -> str:
    rest = "of a text that takes some room"
    return "".join(f"{name} line {number} {rest}\n" for number in range(count))


async def _done(person: Scope) -> tuple[dict[str, str], dict[str, str]]:
    """What an agent does, and a person beside it. Returns all that stands there, and all that is to
    stand there when what the agent did is taken back."""
    for name in ("edited", "removed", "replaced", "moved", "over"):
        await person.write_text(name, _lines(name))
    for number in range(MANY):
        await person.write_text(f"many/{number}", _lines(f"many {number}", 30), parents=True)
        await person.write_text(f"gone/{number}", _lines(f"gone {number}", 30), parents=True)
    agent = await person.delegate(AgentRun("chat", "one"))
    await agent.edit("edited", [Edit("edited line 7 of", "agents line 7 of")])
    await agent.remove("removed")
    await agent.write_text("replaced", _lines("agents", 200))
    await agent.write_text("made", _lines("made"))
    await agent.move("moved", "over", replace=True)
    for number in range(MANY):
        old = _lines(f"many {number}", 30)
        await agent.write_text(f"many/{number}", old + "agents\n")
    await agent.remove("gone", recursive=True)
    wanted = {name: _lines(name) for name in ("edited", "removed", "replaced", "moved", "over")}
    for number in range(MANY):
        wanted[f"many/{number}"] = _lines(f"many {number}", 30)
        wanted[f"gone/{number}"] = _lines(f"gone {number}", 30)
    await agent.aclose()
    return await _tree(person), wanted


async def _meanwhile(person: Scope) -> None:
    """A person's own line, in a file that the agent has changed too."""
    await person.edit("edited", [Edit("edited line 300 of", "a person's line 300 of")])


async def _tree(scope: Scope) -> dict[str, str]:
    found = {}
    for path in (await scope.files(include_ignored=True)).paths:
        if str(path) != FILLER:
            found[str(path)] = (await scope.read_bytes(path)).data.decode()
    return found


async def _rejected(person: Scope, ids: list[str]) -> Any:
    return await person.review.reject(ids, note="no")


async def _undone(person: Scope, _: list[str]) -> Any:
    (run,) = await person.runs()
    return await run.undo()


async def _undone_by_paths(person: Scope, _: list[str]) -> Any:
    (run,) = await person.runs()
    return await run.undo(PATHS)


ACTS = {"reject": _rejected, "undo": _undone, "undo paths": _undone_by_paths}


async def _ids(person: Scope) -> list[str]:
    queue = await person.review.queue(limit=1_000)
    return [hunk.id for file in queue.files for hunk in file.hunks]


async def _tried(kind: str, full: str, act: str, pages: int) -> tuple[list[str], bool]:
    """What went wrong with so many pages of room, and whether that was enough."""
    place = _fresh(kind, full)
    faults: list[str] = []
    error: BailiwickError | None = None
    async with _opened(place) as (authority, person):
        before, wanted = await _done(person)
        if act != "undo":
            await _meanwhile(person)
            line = ("edited line 300 of", "a person's line 300 of")
            before["edited"] = before["edited"].replace(*line)
            wanted["edited"] = wanted["edited"].replace(*line)
        ids = await _ids(person)
        place.fill(pages)
        try:
            result = await ACTS[act](person, ids)
            if result.conflicts:
                faults.append(f"conflicts: {result.conflicts}")
        except BailiwickError as caught:
            error = caught
            if (error.kind, error.errno) != ("io_error", errno.ENOSPC):
                faults.append(f"{error.kind} {errno.errorcode.get(error.errno)}: {error}")
        now = await _tree(person)
        faults += _compared(before, wanted, now, error)
        place.make_room()
        faults += await _finished(authority, person, act, wanted, error, now)
    return [f"{kind}, {full}, {act}, {pages}: {each}" for each in faults], error is None


def _compared(
    before: dict[str, str], wanted: dict[str, str], now: dict[str, str], error: Exception | None
) -> list[str]:
    """Whether it is as the answer says."""
    if error is None:
        return [] if now == wanted else [f"not all of it was done: {_difference(wanted, now)}"]
    if now == before:
        return []
    faults = [
        f"{path} is neither as it was nor as it is to be: {now.get(path, 'nothing')[:50]!r}"
        for path in neither(before, wanted, now)
    ]
    if now == wanted:
        told = str(error).startswith("it was taken back, but")
    else:
        told = " changes were made, then: " in str(error)
    return faults if told else [*faults, f"{error}: {_difference(before, now)} are others"]


def _difference(one: dict[str, str], other: dict[str, str]) -> list[str]:
    return [path for path in one | other if one.get(path) != other.get(path)]


async def _finished(
    authority: Authority,
    person: Scope,
    act: str,
    wanted: dict[str, str],
    error: BailiwickError | None,
    now: dict[str, str],
) -> list[str]:
    """Whether all is well once there is room, and it is said again."""
    faults = []
    left = await _ids(person)
    if bool(left) != (now != wanted):
        faults.append(f"{len(left)} are left, and that is not so")
    if left:
        try:
            again = await ACTS[act](person, left)
            if again.conflicts:
                faults.append(f"again: {again.conflicts}")
        except BailiwickError as caught:
            faults.append(f"again: {caught!r} {caught.hint}")
    then = await _tree(person)
    if then != wanted:
        faults.append(f"then: {_difference(wanted, then)}")
    if await _ids(person):
        faults.append("something is left after all")
    agent = await person.delegate(AgentRun("chat", "one"))
    if act == "reject" and not await agent.review.notes():
        faults.append("the agent was not told")
    await agent.aclose()
    if not (await authority.ledger.verify()).ok:
        faults.append("the ledger does not verify")
    if error is not None:
        found = await authority.ledger.query(LedgerFilter(request_id=error.request_id))
        outcomes = [each.outcome for each in found.records]
        if "failed" not in outcomes and now != wanted:
            faults.append(f"on record it is {outcomes}")
    return faults


async def _swept(kind: str, full: str, act: str, step: int) -> tuple[list[str], int]:
    faults: list[str] = []
    for tries in itertools.count(1):
        found, is_enough = await _tried(kind, full, act, (tries - 1) * step)
        faults += found
        if is_enough:
            break
    return faults, tries


def swept(kind: str, full: str, act: str, step: int) -> tuple[list[str], int]:
    """What went wrong with any amount of room, by so many pages, and how many were tried."""
    try:
        return asyncio.run(_swept(kind, full, act, step))
    finally:
        empty(f"{inside.arena()}/room/root")
        empty(f"{inside.arena()}/large")
