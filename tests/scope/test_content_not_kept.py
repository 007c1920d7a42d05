"""What a directory held for a while and nobody kept: other programs wrote over it at once. Nothing
that an agent did is taken for agreed to by that."""

import pytest

from bailiwick.model import Edit, KiB
from tests.scope.test_review import ids
from tests.scope.test_runs import rooted, text

LINES = [f"line {number}" for number in range(40)]
LONG = [f"{line:<{KiB}}" for line in LINES]
"""More than is kept of what is written, at once."""


def content(lines):
    return "".join(f"{line}\n" for line in lines)


def changed(lines, *places):
    return [f"agent {at}" if at in places else line for at, line in enumerate(lines)]


async def shown(person):
    """What is left, line by line."""
    found = await person.review.queue()
    return [
        line
        for file in found.files
        for hunk in file.hunks
        for line in hunk.lines
        if not line.startswith(" ")
    ]


@pytest.mark.spec("REVIEW-1", "RUN-2", "RUN-3")
async def test_what_is_left_beside_a_rejection_stays_when_an_editor_saves_the_file(tmp_path):
    async with rooted(tmp_path, "directory") as (person, agent):
        await person.write_text("a.txt", content(LINES))
        await (await agent("one")).write_text("a.txt", content(changed(LINES, 5, 20, 35)))
        first, *others = await ids(person)
        await person.review.reject([first], note="no")
        (tmp_path / "tree/a.txt").write_text(content([*changed(LINES, 20, 35), "mine"]))
        assert await ids(person) == others
        assert await shown(person) == [
            "-line 20", "+agent 20", "-line 35", "+agent 35",
        ]  # fmt: skip
        (run,) = await person.runs()
        (change,) = (await run.changes()).changes
        assert [hunk.state for hunk in change.hunks] == ["undone", "stands", "stands"]
        assert (await run.undo(hunks=[change.hunks[1].id])).conflicts == []
        assert (await person.review.reject([others[1]])).conflicts == []
        assert await text(person, "a.txt") == content([*LINES, "mine"])
        assert await ids(person) == []


@pytest.mark.spec("REVIEW-1")
async def test_of_a_long_file_that_an_editor_saved_all_that_differs_is_left(tmp_path):
    """Whose lines are whose cannot be told any more: a person looks at all of them."""
    async with rooted(tmp_path, "directory") as (person, agent):
        await person.write_text("a.txt", content(LONG))
        await (await agent("one")).write_text("a.txt", content(changed(LONG, 5, 20)))
        assert len(await ids(person)) == 2
        (tmp_path / "tree/a.txt").write_text(content([*changed(LONG, 5, 20), "mine"]))
        left = await shown(person)
        assert [line.strip() for line in left] == [
            "-line 5", "+agent 5", "-line 20", "+agent 20", "+mine",
        ]  # fmt: skip
        await (await agent("two")).edit("a.txt", [Edit("mine", "yours")])
        assert (await shown(person))[-1] == "+yours"
        await person.review.accept(await ids(person))
        assert await ids(person) == []


@pytest.mark.spec("REVIEW-1")
async def test_of_a_long_file_that_is_as_it_was_agreed_to_nothing_is_left(tmp_path):
    async with rooted(tmp_path, "directory") as (person, agent):
        await person.write_text("a.txt", content(LONG))
        await (await agent("one")).write_text("a.txt", content(changed(LONG, 5, 20)))
        (tmp_path / "tree/a.txt").write_text(content(LONG))
        assert await ids(person) == []


@pytest.mark.spec("REVIEW-1")
async def test_where_a_person_moved_it_before_that_is_no_doing_of_the_agent(tmp_path):
    async with rooted(tmp_path, "directory") as (person, agent):
        await person.write_text("a.txt", content(LONG))
        await (await agent("one")).write_text("a.txt", content(changed(LONG, 5)))
        await person.move("a.txt", "b.txt")
        (tmp_path / "tree/b.txt").write_text(content([*changed(LONG, 5), "mine"]))
        (file,) = (await person.review.queue()).files
        assert (file.path, file.kind, file.origin) == ("b.txt", "updated", None)
        left = await shown(person)
        assert [line.strip() for line in left] == ["-line 5", "+agent 5", "+mine"]


@pytest.mark.spec("REVIEW-1")
async def test_what_was_left_when_some_was_accepted_is_left_after_an_editor_saved_it(tmp_path):
    """No more was accepted than the lines that were, and the others are told line by line."""
    async with rooted(tmp_path, "directory") as (person, agent):
        one = await agent("one")
        await person.write_text("a.txt", content(LONG))
        await one.write_text("a.txt", content(changed(LONG, 5)))
        await one.write_text("a.txt", content(changed(LONG, 5, 20)))
        first, _ = await ids(person)
        await person.review.accept([first])
        (tmp_path / "tree/a.txt").write_text(content([*changed(LONG, 5, 20), "mine"]))
        left = await shown(person)
        assert [line.strip() for line in left] == ["-line 20", "+agent 20", "+mine"]
        assert (await person.review.reject(await ids(person))).conflicts == []
        assert await text(person, "a.txt") == content(changed(LONG, 5))
        assert await ids(person) == []


async def by_stream(agent, lines):
    async def chunks():
        yield content(lines).encode()

    await agent.write_stream("a.txt", chunks())


async def by_append(agent, lines):
    await agent.append("a.txt", content(lines[len(LINES) :]).encode())


@pytest.mark.spec("REVIEW-1")
@pytest.mark.parametrize("way", [by_stream, by_append])
async def test_whose_lines_are_whose_is_known_however_an_agent_brought_them(tmp_path, way):
    """What is small is kept as it comes, and an editor may save the file at once."""
    brought = [*LINES, "agent"]
    async with rooted(tmp_path, "directory") as (person, agent):
        await person.write_text("a.txt", content(LINES))
        await way(await agent("one"), brought)
        (tmp_path / "tree/a.txt").write_text(content(["mine", *brought]))
        found = await person.review.queue()
        (file,) = [each for each in found.files if each.path == "a.txt"]
        assert [line for hunk in file.hunks for line in hunk.lines if line[0] != " "] == ["+agent"]
        assert (await person.review.reject([hunk.id for hunk in file.hunks])).conflicts == []
        assert await text(person, "a.txt") == content(["mine", *LINES])
