"""Taking runs back, whole and by path, where directories went, and came in the place of others."""

import itertools

import pytest

from tests.scope.test_review import ids
from tests.scope.test_runs import each_kind, rooted
from tests.scope.volumes import tree

pytestmark = each_kind

PAIRS = list(itertools.permutations(["b", "b/c", "b/c/a", "b/d"], 2))


async def planted(person):
    await person.write_text("b/c/a", "one\n", parents=True)
    await person.write_text("b/c/a", "two\n")
    await person.write_text("b/d", "d\n")
    return await tree(person)


@pytest.mark.spec("VOL-5")
async def test_what_went_with_its_directory_has_its_history_and_comes_back(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, _):
        before = await planted(person)
        await person.remove("b", recursive=True)
        await person.make_dir("b/c", parents=True)
        versions = (await person.history("b/c/a")).versions
        assert [(each.kind, str(each.path)) for each in versions] == [
            ("deleted", "b/c/a"), ("updated", "b/c/a"), ("created", "b/c/a"),
        ]  # fmt: skip
        await person.restore("b/c/a", versions[1].version)
        assert await tree(person) == {"b/c/a": before["b/c/a"]}


@pytest.mark.spec("RUN-3")
@pytest.mark.parametrize("order", PAIRS)
async def test_some_of_what_went_with_a_directory_is_taken_back(tmp_path, kind, order):
    async with rooted(tmp_path, kind) as (person, agent):
        before = await planted(person)
        await (await agent("one")).remove("b", recursive=True)
        (run,) = await person.runs()
        changes = (await person.run_changes(run.id)).changes
        assert [str(each.path) for each in changes] == ["b", "b/c", "b/c/a", "b/d"]
        for path in order:
            assert (await run.undo([path])).conflicts == []
        assert (await tree(person)).items() <= before.items()
        assert (await run.undo()).conflicts == []
        assert await tree(person) == before
        assert await ids(person) == []


@pytest.mark.spec("RUN-3")
async def test_what_was_made_and_went_with_a_directory_does_not_come_back(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        before = await planted(person)
        one = await agent("one")
        await one.make_dir("b/c/new")
        await one.write_text("b/c/new/f", "f\n")
        await one.remove("b", recursive=True)
        assert (await person.undo(subject=str(one.subject))).conflicts == []
        assert await tree(person) == before
        assert not await person.exists("b/c/new")
        assert await ids(person) == []


@pytest.mark.spec("RUN-3")
async def test_what_was_moved_to_where_something_was_removed_goes_back(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await planted(person)
        await person.write_text("f", "f\n")
        await person.remove("b", recursive=True)
        await (await agent("one")).move("f", "b")
        (run,) = await person.runs()
        (change,) = (await person.run_changes(run.id)).changes
        assert (str(change.path), change.kind, str(change.origin)) == ("b", "moved", "f")
        for _ in range(2):
            assert (await run.undo(["b"])).conflicts == []
            assert await tree(person) == {"f": "f\n"}
