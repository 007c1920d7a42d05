"""What a session was to be told that has ended: the next one of its front hears it."""

from contextlib import asynccontextmanager

import pytest

from bailiwick import AgentRun, Authority, User
from bailiwick.runs import RUN_IDLE_S
from tests import clocks
from tests.scope.test_runs import ACCESS

pytestmark = pytest.mark.spec("REVIEW-3")


@pytest.fixture
def clock(monkeypatch):
    return clocks.put_in_place(monkeypatch)


@pytest.fixture(params=["sqlite", "postgres"])
def rejected(request, tmp_path):
    """What makes sessions of a root, and one of them of whose work a person took something back."""
    if request.param == "sqlite":
        opening = Authority.open(state_dir=str(tmp_path / "state"))
        yield rejecting(opening, f"sqlite:{tmp_path}/{{}}.db")
        return
    with request.getfixturevalue("postgres").fresh_database() as dsn:
        config = tmp_path / "bailiwick.toml"
        (tmp_path / "beside").mkdir(0o700)
        config.write_text(f'[state]\nurl = "{dsn}"\npath = "beside"\n')
        yield rejecting(Authority.from_config(config), f"{dsn}?volume={{}}&blobs={tmp_path}/blobs")


@asynccontextmanager
async def rejecting(opening, place):
    async with opening as authority:
        for root in "vw":
            await authority.add_root(f"workspace:{root}", place.format(root), trusted=True)
        await authority.add_grant(
            subject="agent_run:*", root="workspace:*", access=ACCESS, by=User("ann")
        )
        person = await authority.request_root(User("ann"), "workspace:w", ACCESS, "to look")

        async def session(name, *, front="mcp", called="mcp", root="workspace:w"):
            return await authority.request_root(
                AgentRun(called, name), root, ACCESS, "to work", front=front
            )

        first = await session("first")
        await first.write_text("a.txt", "a\n")
        await person.review.reject(paths=["a.txt"], note="no")
        yield session, first


async def heard(scope):
    return [each.note for each in await scope.review.notes()]


async def test_a_session_that_goes_on_hears_it_itself(rejected):
    async with rejected as (session, first):
        assert await heard(await session("second")) == []
        assert await heard(first) == ["no"]


async def test_when_it_has_ended_the_next_one_hears_it_once(rejected):
    async with rejected as (session, first):
        await first.aclose()
        second, third = await session("second"), await session("third")
        assert await heard(second) == ["no"]
        assert await heard(second) == await heard(third) == []


async def test_when_it_was_killed_the_next_one_hears_it_after_a_while(clock, rejected):
    async with rejected as (session, _):
        second = await session("second")
        clock.advance(RUN_IDLE_S - 60)
        assert await heard(second) == []
        clock.advance(120)
        assert await heard(second) == ["no"]


async def test_nobody_else_hears_it(rejected):
    """Who is called like a session, but is none; sessions of another front, in another root, and
    those to whom an agent gave the name."""
    async with rejected as (session, first):
        await first.aclose()
        others = [
            await session("second", front="python"),
            await session("second", front="acp", called="acp"),
            await session("second", root="workspace:v"),
            await (await session("x", called="chat")).delegate(AgentRun("mcp", "second")),
        ]
        assert [await heard(each) for each in others] == [[]] * len(others)
        assert await heard(await session("second")) == ["no"]
