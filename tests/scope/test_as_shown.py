"""A person's yes to all of something is to what they were shown: what was written since is not
agreed to, applied, merged or given up with it."""

import pytest

from bailiwick import HashMismatch
from tests.authority.support import EVERYTHING
from tests.scope.test_review_apart import LINES, overlaid, overlay_of, rooted, text

pytestmark = pytest.mark.spec("REVIEW-1", "REVIEW-2")

UNSEEN = "import os; os.remove('all')\n"


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text(LINES)
    return root


@pytest.mark.parametrize("written", ["a.txt", "b.txt", "c.txt"])
async def test_all_of_an_overlay(tmp_path, project, written):
    async with overlaid(tmp_path, project) as home:
        agent, person = await home.scope(), await home.scope(EVERYTHING, subject="user:local")
        await agent.write_text("a.txt", LINES.replace("2\n", "two\n"))
        await agent.write_text("b.txt", "b\n")
        work = await overlay_of(person)
        shown = f"{work}@{(await person.review.queue(work=work, limit=1)).version}"
        await agent.write_text(written, UNSEEN)
        for verdict in (person.review.accept, person.review.reject):
            with pytest.raises(HashMismatch, match="what was shown"):
                await verdict(shown, work=work)
        assert {each.name for each in project.iterdir()} == {"a.txt"}
        assert (project / "a.txt").read_text() == LINES
        assert await text(agent, written) == UNSEEN
        again = f"{work}@{(await person.review.queue(work=work)).version}"
        # What others change in the tree elsewhere is another matter: the pieces are as they were.
        (project / "d.txt").write_text("by a person\n")
        done = await person.review.accept(again, work=work)
        assert (done.left, (project / written).read_text()) == (0, UNSEEN)


async def test_all_of_a_fork(tmp_path):
    async with rooted(tmp_path, "volume") as (person, agents):
        agent = await agents("one")
        await person.write_text("a.txt", LINES)
        fork = await agent.fork("attempt")
        await fork.write_text("a.txt", LINES.replace("2\n", "two\n"))
        shown = f"attempt@{(await person.review.queue(fork='attempt')).version}"
        await fork.write_text("b.txt", UNSEEN)
        for verdict in (person.review.accept, person.review.reject):
            with pytest.raises(HashMismatch, match="what was shown"):
                await verdict(shown, fork="attempt")
        assert await text(agent, "a.txt") == LINES
        assert await text(fork, "b.txt") == UNSEEN
        again = f"attempt@{(await person.review.queue(fork='attempt')).version}"
        assert (await person.review.accept(again, fork="attempt")).left == 0
        assert await text(agent, "b.txt") == UNSEEN
        await fork.aclose()


@pytest.mark.parametrize("another", [False, True], ids=["itself", "another agent"])
async def test_all_of_a_run(tmp_path, another):
    async with rooted(tmp_path, "volume") as (person, agents):
        agent = await agents("one")
        await agent.write_text("a.txt", LINES)
        (run,) = await person.runs()
        shown = f"{run.id}@{run.version}"
        writer = await agents("two") if another else agent
        await writer.write_text("a.txt", UNSEEN)
        for verdict in (person.review.accept, person.review.reject):
            with pytest.raises(HashMismatch, match="since it was shown"):
                await verdict(shown)
        assert await text(agent, "a.txt") == UNSEEN
        assert (await person.review.queue()).left
        run = next(each for each in await person.runs() if each.id == run.id)
        done = await person.review.accept(f"{run.id}@{run.version}")
        assert (done.left, done.conflicts) == (int(another), [])  # that is of the other one alone
