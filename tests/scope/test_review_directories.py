"""Reviewing directories that agents made, removed or moved: what lies in them comes and goes."""

import pytest

from bailiwick import MissingAccess, User
from bailiwick.verbs.runs.moved_back import TAKEN
from tests.scope.test_review import ids, left
from tests.scope.test_runs import each_kind, rooted, text
from tests.scope.volumes import tree

pytestmark = [pytest.mark.spec("REVIEW-1"), each_kind]


async def planted(person):
    await person.write_text("d/inner/a", "a\n", parents=True)
    await person.write_text("d/b", "b\n")
    await person.write_text("other/c", "c\n", parents=True)
    return await tree(person)


async def test_a_directory_goes_back_out_of_one_that_is_new(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        before = await planted(person)
        one = await agent("one")
        await one.make_dir("new")
        await one.move("d", "new/d")
        done = await person.review.reject(paths=["."])
        assert (done.conflicts, done.left) == ([], 0)
        assert await tree(person) == before
        assert not await person.exists("new")
        assert await ids(person) == []
        # It is one change, which can be undone.
        await person.undo(done.request_id)
        assert await text(person, "new/d/inner/a") == "a\n"


async def test_what_was_changed_in_it_is_taken_back_or_goes_along(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        before = await planted(person)
        one = await agent("one")
        await one.move("d", "moved")
        await one.write_text("moved/b", "changed\n")
        await one.write_text("moved/new", "new\n")
        moved, *changed = await ids(person)
        done = await person.review.reject(moved)
        assert (done.rejected, done.conflicts) == ([moved], [])
        assert await tree(person) == before | {"d/b": "changed\n", "d/new": "new\n"}
        done = await person.review.reject(await ids(person))
        assert (done.conflicts, len(done.rejected)) == ([], len(changed))
        assert await tree(person) == before


async def test_it_stays_where_something_else_has_its_place(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await planted(person)
        await (await agent("one")).move("d", "moved")
        await person.write_text("d", "a file\n")
        before = await tree(person)
        done = await person.review.reject(await ids(person))
        assert [(each.path, each.reason) for each in done.conflicts] == [("moved", TAKEN)]
        assert await tree(person) == before


async def test_what_is_out_of_reach_in_it_holds_all_of_it(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await planted(person)
        await (await agent("one")).move("d", "moved")
        before, moved = await tree(person), await ids(person)
        for denied in ("moved/inner/a", "d/inner/a"):
            other = await person.delegate(User("bob"), denied=[denied])
            with pytest.raises(MissingAccess):
                await other.review.reject(moved)
            assert await tree(person) == before


async def test_a_file_comes_back_with_the_directories_that_went_around_it(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.write_text("d/e/f", "f\n", parents=True)
        await person.write_text("d/g", "g\n")
        await person.set_mode("d/e", 0o750)
        await (await agent("one")).remove("d", recursive=True)
        queue = await person.review.queue()
        found = {str(each.path): each.hunks[0].id for each in queue.files}
        outer, inner, file, other = (found[path] for path in ("d", "d/e", "d/e/f", "d/g"))
        done = await person.review.reject(file)
        assert (set(done.rejected), done.conflicts) == ({inner, outer, file}, [])
        assert await text(person, "d/e/f") == "f\n"
        assert (await person.stat("d/e")).mode == 0o750
        assert await ids(person) == [other]
        # Who has agreed that a directory went has it made anew for what is to lie in it.
        await person.remove("d", recursive=True)
        await person.review.reject(other)
        assert await text(person, "d/g") == "g\n"
        assert await ids(person) == []


@pytest.mark.parametrize("verdict", ["accept", "reject", None])
async def test_what_a_person_removed_or_made_anew_is_agreed_to(tmp_path, kind, verdict):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.write_text("d/f", "f\n", parents=True)
        await (await agent("one")).write_text("d/f", "g\n")
        if verdict is not None:
            await getattr(person.review, verdict)(await ids(person))
        await person.remove("d", recursive=True)
        assert await ids(person) == []
        await person.write_text("d/f", "f\n", parents=True)
        await (await agent("two")).remove("d", recursive=True)
        await person.write_text("d/f", "h\n", parents=True)
        assert [path for path, *_ in await left(person) if path == "d/f"] == []
        await person.remove("d", recursive=True)
        assert await ids(person) == []


async def test_a_new_directory_does_not_go_without_what_lies_in_it(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await (await agent("one")).write_text("d/f", "f\n", parents=True)
        directory = next(
            file.hunks[0].id for file in (await person.review.queue()).files if file.path == "d"
        )
        done = await person.review.reject(directory)
        assert [(each.path, each.reason) for each in done.conflicts] == [
            ("d", "something lies in it that does not go with it")
        ]
        assert await text(person, "d/f") == "f\n"


@pytest.mark.spec("REVIEW-1", "RUN-3")
@pytest.mark.parametrize("against", ["d/x", "d/z", "gone"])
async def test_what_stands_where_a_directory_lay_is_said_and_can_be_settled(
    tmp_path, kind, against
):
    """A person made another directory there, with a name that both have, or another; or removed
    the one that it lay in."""
    async with rooted(tmp_path, kind) as (person, agent):
        home = "d" if against != "gone" else "above/d"
        await person.write_text(f"{home}/x", "x\n", parents=True)
        await (await agent("one")).move(home, "e")
        if against == "gone":
            await person.remove("above")
        else:
            await person.write_text(against, "mine\n", parents=True)
        (run,) = await person.runs()
        told = [
            *(await person.review.reject(paths=["e"])).conflicts, *(await run.undo()).conflicts
        ]  # fmt: skip
        wanted = "the directory that it lay in is gone: make that again first"
        if against != "gone":
            wanted = "something else stands where it lay: move that away first"
        assert {(str(each.path), each.reason.partition(",")[0]) for each in told} == {("e", wanted)}
        if against == "gone":
            await person.make_dir("above")
        else:
            await person.move("d", "mine")
        assert (await person.review.reject(paths=["e"])).conflicts == []
        assert (await person.read_text(f"{home}/x")).text == "x\n"
        assert not await person.exists("e")
        assert (await person.review.queue()).files == []
