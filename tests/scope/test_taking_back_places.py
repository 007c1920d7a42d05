"""Taking back moves that came one after the other to the same places: all lies where it lay, or
nothing is touched."""

import contextlib

import pytest

from bailiwick import publication
from bailiwick.publication import _Publication
from bailiwick.verbs.runs.moved_back import WHOLE_RUN
from tests.scope.test_review import ids
from tests.scope.test_runs import each_kind, rooted
from tests.scope.volumes import tree

pytestmark = [each_kind, pytest.mark.spec("RUN-3", "REVIEW-1")]

GOES_BACK = {
    "one to where another lay": "one b x, one c b",
    "some, each to where the next lay": "one a x, one b a, one c b",
    "some, each to where the last lay": "one c x, one b c, one a b",
    "over another, and a third to where it lay": "one a b, one c a",
    "over another, and on over a third": "one a b, one b c",
    "over another and on, and a third there": "one a c, one c x, one b c",
    "over another, taken back, and on by others": "one a b, reject, two b c",
    "over another, taken back, and over it again": "one a b, reject, one a b",
    "over another, taken back, and removed": "one a b, reject, two b -",
    "over another, and removed there": "one a c, one c -",
    "over another in a directory that is moved then": "one a d/x, one d e",
    "to where another went, in a directory that is moved then": "one d/x -, one a d/x, one d e",
}

LOSES_A_THIRD = {
    "two over the same": "one a c, one b c",
    "two over the same, by two": "one a c, two b c",
    "two to the same place, from which one is removed": "one a c, one c -, one b c",
}


async def done(person, agent, deeds):
    """Do what is said: who moves what to where, or removes it."""
    for path in ("a", "b", "c", "d/x", "d/y"):
        await person.write_text(path, f"{path} 1\n{path} 2\n", parents=True)
    before, agents = await tree(person), {}
    for deed in deeds.split(", "):
        if deed == "reject":
            await person.review.reject(await ids(person))
            assert await tree(person) == before
            continue
        who, path, to = deed.split()
        one = agents[who] = agents.get(who) or await agent(who)
        await (one.remove(path) if to == "-" else one.move(path, to, replace=True))
    return before


@pytest.mark.parametrize("deeds", GOES_BACK.values(), ids=GOES_BACK)
async def test_all_that_was_moved_goes_back_to_where_it_lay(tmp_path, kind, deeds):
    async with rooted(tmp_path, kind) as (person, agent):
        before = await done(person, agent, deeds)
        assert (await person.review.reject(await ids(person))).conflicts == []
        assert await tree(person) == before
        assert await ids(person) == []


@pytest.mark.parametrize("deeds", LOSES_A_THIRD.values(), ids=LOSES_A_THIRD)
async def test_what_was_moved_there_in_between_is_not_forgotten(tmp_path, kind, deeds):
    """Of what was moved over others, and replaced in its turn, nothing else is told."""
    async with rooted(tmp_path, kind) as (person, agent):
        before = await done(person, agent, deeds)
        then = await tree(person)
        left = await ids(person)
        (conflict,) = (await person.review.reject(left)).conflicts
        assert (conflict.path, conflict.reason) == ("c", WHOLE_RUN)
        assert await tree(person) == then
        assert await ids(person) == left
        for run in await person.runs():
            assert (await run.undo()).conflicts == []
        assert await tree(person) == before
        assert await ids(person) == []


async def test_two_that_would_come_to_one_place_are_a_conflict(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        for path in "abc":
            await person.write_text(path, f"{path}\n")
        await (await agent("one")).move("a", "b", replace=True)
        await person.write_text("b", "mine\n")
        await (await agent("two")).move("b", "c", replace=True)
        (conflict,) = (await person.review.reject(await ids(person))).conflicts
        assert (conflict.path, conflict.reason) == ("b", WHOLE_RUN)
        assert await tree(person) == {"c": "mine\n"}
        assert (await person.review.reject(paths=["c"])).conflicts == []
        assert await tree(person) == {"b": "mine\n", "c": "c\n"}


async def test_what_was_replaced_comes_to_where_its_directory_lies(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        before = await done(person, agent, "one a d/x")
        await person.move("d", "e")
        assert (await person.review.reject(paths=["e/x"])).conflicts == []
        assert await tree(person) == {path.replace("d/", "e/"): before[path] for path in before}
        assert await ids(person) == []


async def test_what_was_agreed_to_is_not_told_as_over_another_any_more(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await done(person, agent, "one a b")
        (file,) = (await person.review.queue()).files
        assert file.replaces
        await person.review.accept(await ids(person))
        await (await agent("one")).write_text("b", "a 1\nmore\n")
        (file,) = (await person.review.queue()).files
        assert (file.kind, file.replaces) == ("updated", False)
        assert (await person.review.reject(await ids(person))).conflicts == []
        assert (await tree(person))["b"] == "a 1\na 2\n"


async def test_what_changed_places_goes_back_with_all_of_its_run(tmp_path, kind):
    """Whichever came first would be nowhere for a moment."""
    async with rooted(tmp_path, kind) as (person, agent):
        before = await done(person, agent, "one a x, one b a, one c b, one x c")
        then = await tree(person)
        conflicts = (await person.review.reject(await ids(person))).conflicts
        assert {each.reason for each in conflicts} == {WHOLE_RUN}
        assert await tree(person) == then
        (run,) = await person.runs()
        assert (await run.undo()).conflicts == []
        assert await tree(person) == before


@pytest.mark.parametrize("has_versions", [True, False])
@pytest.mark.parametrize("left_to", ["a", "c"])
async def test_what_went_is_told_when_what_came_there_has_left(
    tmp_path, kind, has_versions, left_to
):
    async with rooted(tmp_path, kind) as (person, agent):
        for path in "ab":
            if has_versions or kind == "volume":
                await person.write_text(path, f"{path}\n")
            else:
                (tmp_path / "tree" / path).write_text(f"{path}\n")
        await (await agent("one")).move("a", "b", replace=True)
        await person.move("b", left_to)
        (file,) = (await person.review.queue()).files
        assert (file.path, file.kind) == ("b", "deleted")
        (run,) = await person.runs()
        told = (await run.changes()).changes
        assert [(str(each.path), each.kind, each.origin) for each in told] == sorted([
            (left_to, "moved", "a"), ("b", "deleted", None),
        ])  # fmt: skip
        assert [each.path for each in (await run.changes(brief=True)).changes] == [
            each.path for each in told
        ]
        (gone,) = (hunk.id for each in told if each.path == "b" for hunk in each.hunks)
        assert (await run.undo(hunks=[gone])).conflicts == []
        assert await tree(person) == {"b": "b\n", left_to: "a\n"}
        assert await ids(person) == []


@pytest.mark.parametrize("has_versions", [True, False])
@pytest.mark.parametrize("edited", [None, "e/x", "e/y", "e/z"])
async def test_nothing_is_left_of_a_whole_run_that_was_undone(tmp_path, kind, edited, has_versions):
    async with rooted(tmp_path, kind) as (person, agent):
        for path in ("d/x", "d/y", "e/x", "e/z"):
            if has_versions or kind == "volume":
                await person.write_text(path, f"{path}\n", parents=True)
            else:
                (tmp_path / "tree" / path).parent.mkdir(exist_ok=True)
                (tmp_path / "tree" / path).write_text(f"{path}\n")
        before, one = await tree(person), await agent("one")
        await one.remove("e", recursive=True)
        await one.move("d", "e")
        if edited is not None:
            await one.write_text(edited, "other\n")
        (run,) = await person.runs()
        assert (await run.undo()).conflicts == []
        assert await tree(person) == before
        assert (await person.review.queue()).files == []


class Killed(BaseException):
    """The process ends here: it takes nothing back, and says nothing of it."""


KILLED_IN = {
    "over another": "one a b",
    "over another before it": "one b a",
    "one to where another lay": "one b x, one c b",
    "some, each to where the next lay": "one a x, one b a, one c b",
    "some, each to where the last lay": "one c x, one b c, one a b",
    "over another, and on over a third": "one a b, one b c",
    "over another in a directory": "one a d/x",
}


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("deeds", KILLED_IN.values(), ids=KILLED_IN)
async def test_who_is_killed_while_it_goes_back_loses_nothing_and_goes_on(
    tmp_path, kind, deeds, steps, monkeypatch
):
    async with rooted(tmp_path, kind) as (person, agent):
        before = await done(person, agent, deeds)
        then, left = await tree(person), await ids(person)
        do, made = _Publication._do, []

        async def until_killed(self, touch):
            if len(made) == steps:
                raise Killed
            made.append(touch)
            await do(self, touch)

        async def dead(*_):
            pass

        with monkeypatch.context() as patch:
            patch.setattr(_Publication, "_do", until_killed)
            patch.setattr(publication, "_undo", dead)
            with contextlib.suppress(Killed):
                await person.review.reject(left)
        assert len(made) == steps
        now = await tree(person)
        if now != before:
            assert set(then.values()) <= set(now.values())
            assert kind == "directory" or now == then
            assert (await person.review.reject(await ids(person))).conflicts == []
        assert await tree(person) == before
        assert await ids(person) == []
