"""A queue of reviews, and what a run changed, by the page: nothing is told twice or left out,
whatever is done in between."""

import base64

import pytest

from bailiwick import AgentRun, ParseError
from tests.scope.test_runs import rooted


@pytest.mark.spec("REVIEW-1")
async def test_a_long_queue_comes_by_the_page(tmp_path):
    async with rooted(tmp_path, "volume") as (person, agent):
        one = await agent("one")
        for number in range(5):
            await one.write_text(f"{number}.txt", "x\n")
        seen, cursor = [], None
        while True:
            page = await person.review.queue(cursor=cursor, limit=2)
            assert page.left == 5
            seen += [str(each.path) for each in page.files]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert seen == [f"{number}.txt" for number in range(5)]


@pytest.mark.spec("REVIEW-1")
async def test_what_is_accepted_between_two_pages_leaves_nothing_out(tmp_path):
    async with rooted(tmp_path, "volume") as (person, agent):
        one = await agent("one")
        for number in range(6):
            await one.write_text(f"{number}.txt", "x\n")
        seen, cursor = [], None
        while True:
            page = await person.review.queue(cursor=cursor, limit=2)
            seen += [str(each.path) for each in page.files]
            await person.review.accept([each.hunks[0].id for each in page.files])
            cursor = page.next_cursor
            if cursor is None:
                break
        assert seen == [f"{number}.txt" for number in range(6)]
        assert (await person.review.queue()).left == 0


FORGED = [
    "x", "", "2", "../..", "W10=", "bnVsbA==", "WzFd", 5, b"WyJhIl0=", "\ud800",
    "W" * 100_000,
]  # fmt: skip


@pytest.mark.spec("REVIEW-1", "RUN-2")
@pytest.mark.parametrize("forged", FORGED, ids=range(len(FORGED)))
async def test_a_forged_cursor_is_refused_and_a_wrong_limit_too(tmp_path, forged):
    async with rooted(tmp_path, "volume") as (person, agent):
        await (await agent("one")).write_text("a.txt", "x\n")
        (run,) = await person.runs()
        for ask in (person.review.queue, run.changes):
            with pytest.raises(ParseError):
                await ask(cursor=forged)
            for limit in (0, -1, True, "1"):
                with pytest.raises(ParseError):
                    await ask(limit=limit)


@pytest.mark.spec("RUN-2", "AUTH-5")
async def test_a_cursor_says_nothing_of_where_a_scope_lies(tmp_path):
    async with rooted(tmp_path, "volume") as (person, _agent):
        await person.make_dir("hidden-name")
        one = await person.delegate(AgentRun("chat", "one"), path="hidden-name", rebase=True)
        for name in "abc":
            await one.write_text(f"{name}.txt", "x\n")
        (run,) = await one.runs()
        first = await run.changes(limit=1)
        rest = await run.changes(limit=9, cursor=first.next_cursor)
        paths = [str(each.path) for page in (first, rest) for each in page.changes]
        assert paths == ["a.txt", "b.txt", "c.txt"]
        shown = base64.urlsafe_b64decode(first.next_cursor)
        assert b"hidden" not in shown
        assert b"hidden" not in first.next_cursor.encode()
