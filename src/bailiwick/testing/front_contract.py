"""One story, told through every front: write, list, conflict, denied, limit, ask, undo.

A front adds nothing to what a scope does and takes nothing away. The story is told once, in the
verbs of `FrontDriver`; each front brings a driver that speaks its own language and turns what it is
answered back into values and into the errors of `bailiwick.errors`, so that a kind that is lost on
the way shows. ::

    async with story_house(directory) as house, my_driver(house) as front:
        await tell(front, house)

With pytest, parametrise over `CASES`.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple, Protocol

import msgspec

from bailiwick.approvals import Answer
from bailiwick.build.governed import Authority
from bailiwick.errors import BailiwickError
from bailiwick.grant import AgentRun, User
from bailiwick.model import MiB

SUBJECT = AgentRun("story", "1")
"""Who acts in the story: an agent, so that every rule is for it."""

ROOT = "workspace:story"

CONFIG = """\
[state]
path = "state"

[ask]
surface = "console"

[[root]]
id = "story"
kind = "workspace"
volume = "sqlite:story.db?volume=story"
trusted = true
limits = { max_file_bytes = "5MiB" }

[[grant]]
subject = "agent_run:*"
root = "workspace:story"
access = ["read", "list", "metadata", "write", "delete", "move"]

[[rule]]
id = "private"
path = ["private/**"]
effect = "deny"
reason = "this is nobody's business"

[[rule]]
id = "reviewed"
access = ["write"]
path = ["reviewed/**"]
effect = "ask"
reason = "this is looked at first"
"""

"""The largest file is as large as the largest text, so that a front that writes bytes meets the
same limit as one that writes text."""


class Wrote(NamedTuple):
    """What a front says of a write."""

    sha256: str | None
    request_id: str | None


class FrontDriver(Protocol):
    """One front, in the hands of `SUBJECT`. Raises the errors of `bailiwick.errors`."""

    async def write(self, path: str, text: str, *, expected_sha256: str | None = None) -> Wrote: ...

    async def read(self, path: str) -> str: ...

    async def names(self, path: str) -> list[str]:
        """The names in a directory, sorted."""
        ...

    async def edit(self, path: str, old: str, new: str) -> None: ...

    async def remove(self, path: str) -> None: ...

    async def undo(self, request_id: str) -> list[str]:
        """Take back what a request changed; the paths that were."""
        ...


class StoryHouse(msgspec.Struct, frozen=True):
    """Where the story takes place: an authority, and the configuration that describes it."""

    authority: Authority
    config: str

    async def answer(self, answer: Answer) -> str:
        """Answer the next question that is put, as the person at the console; its prompt."""
        desk = self.authority.approvals
        for _ in range(500):
            for approval in desk.pending():
                await desk.answer(approval.id, answer, by=str(User("local")), front="test")
                return approval.question.prompt
            await asyncio.sleep(0.02)
        raise AssertionError("nobody was asked")

    async def refused_on_record(self, *kinds: str) -> None:
        """Wait until the ledger holds refusals of these kinds: where the front is another process,
        what it refused is on record here a moment later."""
        found: set[str | None] = set()
        for _ in range(500):
            records = await self.authority.ledger.tail(20)
            found = {record.error_kind for record in records if record.outcome == "denied"}
            if found >= set(kinds):
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"only these refusals are on record: {sorted(map(str, found))}")


@asynccontextmanager
async def story_house(directory: str, config: str = CONFIG) -> AsyncIterator[StoryHouse]:
    """An authority for the story, in an empty directory of the host. Another ``config`` keeps the
    same root, grants and rules elsewhere."""
    file = _configuration_in(directory, config)
    async with Authority.from_config(file) as authority:
        yield StoryHouse(authority, file)


def _configuration_in(directory: str, config: str) -> str:
    file = os.path.join(directory, "bailiwick.toml")
    with open(file, "w", encoding="utf-8") as written:
        written.write(config)
    return file


async def refusal(call: Awaitable[object]) -> BailiwickError:
    """The error that a call ends with."""
    try:
        await call
    except BailiwickError as error:
        return error
    raise AssertionError("this was to be refused")


# --- the story ---------------------------------------------------------------------------------


async def what_is_written_is_read(front: FrontDriver, house: StoryHouse) -> None:
    wrote = await front.write("notes/one.md", "first\nsecond\n")
    assert wrote.sha256 in (None, hashlib.sha256(b"first\nsecond\n").hexdigest())
    assert await front.read("notes/one.md") == "first\nsecond\n"
    await front.edit("notes/one.md", "second", "zweite")
    assert await front.read("notes/one.md") == "first\nzweite\n"
    assert (await refusal(front.read("notes/none.md"))).kind == "path_not_found"


async def what_is_there_is_listed(front: FrontDriver, house: StoryHouse) -> None:
    for name in ("b", "a", "c"):
        await front.write(f"listed/{name}", name)
    assert await front.names("listed") == ["a", "b", "c"]
    await front.remove("listed/b")
    assert await front.names("listed") == ["a", "c"]


async def a_stale_write_is_a_conflict(front: FrontDriver, house: StoryHouse) -> None:
    await front.write("shared", "one")
    old = hashlib.sha256(b"one").hexdigest()
    await front.write("shared", "two", expected_sha256=old)
    error = await refusal(front.write("shared", "three", expected_sha256=old))
    assert error.kind == "hash_mismatch"
    assert error.retryable
    assert await front.read("shared") == "two"
    assert (await refusal(front.edit("shared", "one", "1"))).kind == "text_not_found"


async def a_rule_refuses_and_says_so(front: FrontDriver, house: StoryHouse) -> None:
    error = await refusal(front.write("private/diary", "x"))
    assert (error.kind, error.category) == ("policy_denied", "policy")
    assert error.decided_by == "private"
    assert (await refusal(front.read("../outside"))).kind == "path_outside_workspace"
    await house.refused_on_record("policy_denied", "path_outside_workspace")


async def a_limit_is_kept(front: FrontDriver, house: StoryHouse) -> None:
    error = await refusal(front.write("large", "x" * (5 * MiB + 1)))
    assert error.kind == "file_too_large"
    assert (await refusal(front.read("large"))).kind == "path_not_found"


async def a_person_is_asked(front: FrontDriver, house: StoryHouse) -> None:
    for answer in ("once", "no"):
        call = asyncio.ensure_future(front.write(f"reviewed/{answer}", "please"))
        await house.answer("once" if answer == "once" else "no")
        if answer == "once":
            await call
            assert await front.read("reviewed/once") == "please"
        else:
            assert (await refusal(call)).kind == "approval_denied"
    assert (await refusal(front.read("reviewed/no"))).kind == "path_not_found"


async def what_was_done_is_undone(front: FrontDriver, house: StoryHouse) -> None:
    await front.write("undone", "before")
    wrote = await front.write("undone", "after")
    assert wrote.request_id is not None
    assert await front.undo(wrote.request_id) == ["undone"]
    assert await front.read("undone") == "before"


Case = Callable[[FrontDriver, StoryHouse], Awaitable[None]]

CASES: tuple[Case, ...] = (
    what_is_written_is_read,
    what_is_there_is_listed,
    a_stale_write_is_a_conflict,
    a_rule_refuses_and_says_so,
    a_limit_is_kept,
    a_person_is_asked,
    what_was_done_is_undone,
)


async def tell(front: FrontDriver, house: StoryHouse) -> None:
    """The whole story, in one place."""
    for case in CASES:
        await case(front, house)
