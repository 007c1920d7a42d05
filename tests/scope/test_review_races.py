"""A person decides while an agent goes on writing: what came meanwhile is nobody else's."""

import itertools

import pytest

from bailiwick.verbs.runs.path_stories import Stories
from tests.scope.test_runs import each_kind, rooted

LOOKS = ({1}, {2}, {3}, {4}, {9}, range(1, 1000))
"""At which looks at what stands in a place the agent writes: at one of the first, at one that is
made no more, and at all of them."""


@pytest.mark.spec("REVIEW-1")
@pytest.mark.parametrize("written", LOOKS, ids=str)
@each_kind
async def test_what_an_agent_writes_meanwhile_is_taken_back_or_told(
    tmp_path, kind, written, monkeypatch
):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.write_text("f", "theirs\n")
        one = await agent("one")
        await one.write_text("f", "first\n")
        looks, now = itertools.count(1), Stories.now

        async def after_a_write(self, path):
            if (number := next(looks)) in written:
                await one.write_text("f", f"{number}\n")
            return await now(self, path)

        monkeypatch.setattr(Stories, "now", after_a_write)
        done = await person.review.reject(paths=["f"], insist=True)
        monkeypatch.undo()
        stands = (await person.read_text("f")).text
        if done.conflicts:
            assert [str(each.path) for each in done.conflicts] == ["f"]
            assert done.undone == []
        else:
            assert (stands, [str(each) for each in done.undone]) == ("theirs\n", ["f"])
