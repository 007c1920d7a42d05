"""A server on a shared state that is killed while a person takes something back there: the others
find out what has come to pass of it, and the agent is told, once."""

import asyncio
import signal
import sys

import pytest

from bailiwick import AgentRun, Authority, User
from tests.fronts.http.test_lost_governing import in_postgres
from tests.scope.test_runs import ACCESS
from tests.scope.volumes import tree
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.spec("REVIEW-3", "SCALE-5")]

INSTANTS = {
    "before it is announced": False, "before it is done": False, "before it is kept": True,
}  # fmt: skip
"""When it is killed, and whether it was taken back by then."""


async def reject_and_die(config, instant):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.state.rejecting_worker", str(config), instant,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, said = await process.communicate()
    assert process.returncode == -signal.SIGKILL, said.decode()


async def forgotten(person):
    """Whether nothing is announced any more, once somebody has looked."""
    await person.review.queue()
    return not announced(person)


def announced(person):
    return person._pipeline.runs.reviews._database.read("SELECT request FROM review_announced")


@pytest.mark.parametrize("instant", INSTANTS)
async def test_a_verdict_of_a_server_that_is_killed(tmp_path, postgres, instant):
    with postgres.fresh_database() as dsn:
        config = tmp_path / "bailiwick.toml"
        config.write_text(in_postgres(dsn, tmp_path))
        async with Authority.from_config(config) as authority:
            person = await authority.request_root(User("ann"), "workspace:demo", ACCESS, "to look")
            agent = await person.delegate(AgentRun("chat", "one"))
            for name in "ab":
                await person.write_text(name, "1\n2\n")
                await agent.write_text(name, f"1\n{name}\n")
            await reject_and_die(config, instant)
            assert bool(announced(person)) == (instant != "before it is announced")
            if not INSTANTS[instant]:
                assert await tree(person) == {"a": "1\na\n", "b": "1\nb\n"}
                assert (await person.review.queue()).left == 2
                # What was only announced is forgotten, and told to nobody.
                await until(lambda: forgotten(person))
                assert await agent.review.notes() == []
                ids = [each.hunks[0].id for each in (await person.review.queue()).files]
                await person.review.reject(ids, note="no")
            assert await tree(person) == {"a": "1\n2\n", "b": "1\n2\n"}
            assert (await person.review.queue()).left == 0

            async def told():
                await person.review.queue()
                return await agent.review.notes()

            notes = await until(told)
            assert sorted((str(each.path), each.lines, each.note) for each in notes) == [
                ("a", ["-2", "+a"], "no"), ("b", ["-2", "+b"], "no"),
            ]  # fmt: skip
            await person.review.queue()
            assert await agent.review.notes() == []
            assert (await authority.ledger.verify()).ok
