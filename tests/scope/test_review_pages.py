"""A queue of reviews, and what a run changed, by the page: nothing is told twice or left out,
whatever is done in between."""

import base64

import pytest

from bailiwick import AgentRun, Authority, ParseError, PathNotFound, User
from bailiwick.verbs.review import review_look
from tests.scope.test_runs import ACCESS, rooted


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


@pytest.fixture
def worked_out(monkeypatch):
    """How often a path was told by its versions since this was last asked."""
    count = 0
    told = review_look.path_review

    def counted(*args):
        nonlocal count
        count += 1
        return told(*args)

    monkeypatch.setattr(review_look, "path_review", counted)

    def since():
        nonlocal count
        seen, count = count, 0
        return seen

    return since


@pytest.mark.spec("REVIEW-6")
@pytest.mark.parametrize("kind", ["volume", "directory"])
async def test_what_was_worked_out_of_a_queue_is_taken_up_from_there(tmp_path, kind, worked_out):
    async with rooted(tmp_path, kind) as (person, agent):
        one = await agent("one")
        for number in range(20):
            await one.write_text(f"{number:02}.txt", "x\n")
        assert (await person.review.queue(limit=2)).left == 20
        worked_out()
        page = await person.review.queue(limit=2)
        assert (page.left, worked_out()) == (20, 2)
        await one.write_text("05.txt", "y\n")
        assert (await person.review.queue(limit=2)).left == 20
        assert worked_out() == 3
        (file,) = (await person.review.queue(paths=["05.txt"])).files
        assert (file.hunks[0].lines, worked_out()) == (["+y"], 1)
        await person.review.accept(f"{file.hunks[0].id}@{file.version}")
        assert worked_out() == 1
        assert (await person.review.queue(limit=1)).left == 19
        assert worked_out() == 2
        await person.write_text("06.txt", "mine\n")
        assert (await person.review.queue(limit=1)).left == 18
        if kind == "directory":
            (tmp_path / "tree" / "07.txt").write_text("by a program that nobody knows\n")
            assert (await person.review.queue(limit=1)).left == 17
        await person.make_dir("d")
        await person.move("08.txt", "d/08.txt")
        await person.move("d", "e")
        left = await person.review.queue(paths=["e"])
        assert [str(each.path) for each in left.files] == ["e/08.txt"]
        await person.review.accept([run.info.id for run in await person.runs()])
        assert (await person.review.queue()).left == 0


@pytest.mark.spec("REVIEW-6")
async def test_what_another_process_said_is_known_in_a_queue_that_was_worked_out(tmp_path):
    async with rooted(tmp_path, "volume") as (person, agent):
        await (await agent("one")).write_text("a.txt", "x\n")
        await (await agent("one")).write_text("b.txt", "x\n")
        assert (await person.review.queue()).left == 2
        async with Authority.open(state_dir=str(tmp_path / "state")) as authority:
            await authority.add_root("workspace:w", f"sqlite:{tmp_path}/v.db", trusted=True)
            other = await authority.request_root(User("bob"), "workspace:w", ACCESS, "to look")
            assert (await other.review.accept(paths=["a.txt"])).left == 1
        assert [str(each.path) for each in (await person.review.queue()).files] == ["b.txt"]


@pytest.mark.spec("REVIEW-6")
async def test_the_next_page_costs_a_page_and_is_told_by_what_stands_there(tmp_path, monkeypatch):
    """Others may change a directory at any time: where they did is looked at with the first."""
    looked, told = [], []
    real_standing, real_told = review_look.standing, review_look._Looking._told

    def standing(store, path):
        looked.append(path)
        return real_standing(store, path)

    def one_told(self, place, *more):
        told.append(place)
        return real_told(self, place, *more)

    monkeypatch.setattr(review_look, "standing", standing)
    monkeypatch.setattr(review_look._Looking, "_told", one_told)
    async with rooted(tmp_path, "directory") as (person, agent):
        one = await agent("one")
        for number in range(12):
            await one.write_text(f"{number:02}", "one\n")
        page = await person.review.queue(limit=3)
        (tmp_path / "tree" / "04").write_text("one\ntheirs\n")
        (tmp_path / "tree" / "05").unlink()
        looked.clear()
        told.clear()
        page = await person.review.queue(limit=3, cursor=page.next_cursor)
        assert (looked, len(told)) == ([], 3)
        assert [(str(each.path), each.added) for each in page.files] == [("03", 1), ("04", 1)]
        page = await person.review.queue(limit=3, cursor=page.next_cursor)
        assert [str(each.path) for each in page.files] == ["06", "07", "08"]
        assert looked == []
        assert (await person.review.queue()).left == 11
        assert len(set(looked)) == 12


def counts(file):
    return (
        file.path, file.kind, file.type, file.version, file.origin, file.against, file.carried,
        file.replaces, file.added, file.removed, file.hunk_count,
    )  # fmt: skip


async def check_brief(queue):
    """A brief list says all that the full one does, but for the hunks."""
    full, brief = await queue(), await queue(brief=True)
    assert [counts(each) for each in brief.files] == [counts(each) for each in full.files]
    assert [each.hunk_count for each in full.files] == [len(each.hunks) for each in full.files]
    assert all(not each.hunks and not each.sides for each in brief.files)
    assert (brief.left, brief.version) == (full.left, full.version)
    first = await queue(brief=True, limit=2)
    rest = await queue(brief=True, cursor=first.next_cursor)
    assert (first.left, rest.left) == (full.left, full.left)
    assert [*first.files, *rest.files] == brief.files
    return brief


@pytest.mark.spec("REVIEW-6")
async def test_a_brief_queue_counts_what_it_does_not_show(tmp_path):
    async with rooted(tmp_path, "volume") as (person, agent):
        one = await agent("one")
        await person.write_text("a.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
        await person.write_text("old.txt", "old\n")
        await one.write_text("a.txt", "one\n2\n3\n4\n5\n6\n7\n8\nnine\n")
        await one.move("old.txt", "new.txt")
        await one.write_bytes("bytes", b"\0")
        a, *_ = (await check_brief(person.review.queue)).files
        assert (a.path, a.hunk_count, a.added, a.removed) == ("a.txt", 2, 2, 2)


@pytest.mark.spec("REVIEW-1")
async def test_too_short_a_beginning_of_an_id_is_told_as_such(tmp_path):
    async with rooted(tmp_path, "volume") as (person, agent):
        await (await agent("one")).write_text("a.txt", "x\n")
        (file,) = (await person.review.queue()).files
        await (await person.fork("try")).write_text("b.txt", "x\n")
        for where in ({}, {"fork": "try"}):
            for name, hint in ((file.hunks[0].id[:3], "at least 4"), ("ffffffff", "has another")):
                with pytest.raises(PathNotFound) as refused:
                    await person.review.accept(name, **where)
                assert hint in refused.value.hint
