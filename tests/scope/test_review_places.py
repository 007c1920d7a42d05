"""The id of a hunk says nothing of its place: what is accepted or rejected is what somebody saw."""

import asyncio
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bailiwick import Authority, ParseError, PathNotFound, User
from bailiwick.grant import AgentRun
from bailiwick.text.reviewed import ReviewHunkLines
from tests.scope.test_review import ids
from tests.scope.test_runs import ACCESS, each_kind, rooted, text

pytestmark = [pytest.mark.spec("REVIEW-1"), pytest.mark.slow]

SLOTS = 4


def content(changed):
    """Equal lines, each between lines of its own, so that nobody takes one for another; those in
    some slots were changed."""
    lines = (f"-{n}\n{'new' if n in changed else 'old'}\n{n}-\n" for n in range(SLOTS))
    return "".join(lines)


@each_kind
async def test_the_same_change_elsewhere_is_not_what_was_shown(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.write_text("a.txt", content(()))
        one = await agent("one")
        await one.write_text("a.txt", content({0}))
        (file,) = (await person.review.queue()).files
        shown = f"{file.hunks[0].id}@{file.version}"
        await one.write_text("a.txt", content({2}))
        assert await ids(person) == [file.hunks[0].id]
        for said in (person.review.accept, person.review.reject):
            with pytest.raises(PathNotFound):
                await said(shown)
            with pytest.raises(ParseError, match="several places"):
                await said(file.hunks[0].id)
        assert await text(person, "a.txt") == content({2})
        (file,) = (await person.review.queue()).files
        done = await person.review.accept(f"{file.hunks[0].id}@{file.version}")
        assert done.left == 0


@each_kind
async def test_of_equal_changes_the_one_that_was_shown_is_meant(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.write_text("a.txt", content(()))
        one = await agent("one")
        await one.write_text("a.txt", content({0, 1, 3}))
        (file,) = (await person.review.queue()).files
        names = [f"{hunk.id}@{file.version}" for hunk in file.hunks]
        with pytest.raises(ParseError, match="several places"):
            await person.review.reject(file.hunks[1].id)
        await one.write_text("a.txt", content({1, 3}))  # so that they are counted otherwise
        done = await person.review.reject(names[1])
        assert (done.undone, await text(person, "a.txt")) == (["a.txt"], content({3}))
        done = await person.review.accept(names[2])
        assert (done.left, await text(person, "a.txt")) == (0, content({3}))


@each_kind
async def test_all_of_equal_changes_are_clear_without_a_version(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.write_text("a.txt", content(()))
        await (await agent("one")).write_text("a.txt", content({0, 2}))
        assert (await person.review.accept(await ids(person))).left == 0


deeds = st.one_of(
    st.tuples(st.just("write"), st.integers(0, SLOTS - 1)),
    st.tuples(st.sampled_from(["accept", "reject"]), st.integers(0, 99)),
    st.tuples(st.just("bare"), st.integers(0, 99)),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(deeds, min_size=3, max_size=12))
def test_a_verdict_is_of_what_was_shown_or_of_nothing(deeds):
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(played(deeds, f"sqlite:{directory}/v.db"))


async def played(deeds, place):
    """An agent changes slots at random; every hunk that was ever shown may be named."""
    agreed, now = set(), set()
    shown = []  # what was shown: its name, and the slot that it was in
    async with Authority.open() as authority:
        await authority.add_root("workspace:w", place, trusted=True)
        person = await authority.request_root(User("ann"), "workspace:w", ACCESS, "to look")
        agent = await person.delegate(AgentRun("chat", "one"))
        await person.write_text("a", content(()))
        for what, which in deeds:
            if what == "write":
                now = now ^ {which}
                await agent.write_text("a", content(now))
                for file in (await person.review.queue()).files:
                    shown += [(hunk.id, file.version, slot_of(hunk)) for hunk in file.hunks]
                continue
            if not shown:
                continue
            id, version, slot = shown[which % len(shown)]
            name = id if what == "bare" else f"{id}@{version}"
            say = person.review.reject if what == "reject" else person.review.accept
            try:
                done = await say(name)
            except (ParseError, PathNotFound):
                continue
            assert done.conflicts == []
            left = {slot_of(h) for file in (await person.review.queue()).files for h in file.hunks}
            if what == "bare" and done.accepted:
                (slot,) = (now ^ agreed) - left  # one, wherever that is by now
            if done.accepted or done.rejected:
                assert slot in now ^ agreed
                agreed, now = (agreed ^ {slot}, now) if done.accepted else (agreed, now ^ {slot})
            assert await text(person, "a") == content(now)
            assert left == now ^ agreed


def slot_of(hunk):
    """The slot that a hunk is in: by the line behind it."""
    signs = [line[0] for line in hunk.lines]
    last = max(place for place, sign in enumerate(signs) if sign in "+-")
    return int(hunk.lines[last + 1].strip(" -"))


@pytest.mark.parametrize("kind", ["volume", "directory"])
async def test_what_a_person_moved_twice_is_left_to_review_where_it_lies(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await (await agent("one")).write_text("a.txt", "x\n")
        await person.make_dir("d")
        await person.move("a.txt", "d/a.txt")
        await person.move("d", "e")
        (file,) = (await person.review.queue()).files
        assert (str(file.path), file.hunks[0].lines) == ("e/a.txt", ["+x"])
        told = [str(each.path) for each in (await person.history("e/a.txt")).versions]
        assert told == ["d/a.txt", "a.txt"]


@pytest.mark.spec("REVIEW-6", "REVIEW-1")
async def test_many_pieces_of_one_file_are_not_each_compared_with_each_other(tmp_path, monkeypatch):
    compared, is_at = [], ReviewHunkLines.is_at

    def counted(self, other):
        compared.append(self)
        return is_at(self, other)

    monkeypatch.setattr(ReviewHunkLines, "is_at", counted)
    lines = [f"line {number}" for number in range(120)]
    async with rooted(tmp_path, "volume") as (person, agent):
        await person.write_text("a.txt", "\n".join(lines))
        lines[::2] = [f"other {number}" for number in range(60)]
        await (await agent("one")).write_text("a.txt", "\n".join(lines))
        (file,) = (await person.review.queue()).files
        done = await person.review.accept([f"{each.id}@{file.version}" for each in file.hunks])
        assert (len(done.accepted), done.left) == (60, 0)
    assert 0 < len(compared) < 60 * 10


@pytest.mark.parametrize("kind", ["volume", "directory", "editor"])
async def test_who_writes_in_a_file_has_not_agreed_to_where_an_agent_moved_it(tmp_path, kind):
    becomes = "1\n2\nthree\n"
    async with rooted(tmp_path, kind.replace("editor", "directory")) as (person, agent):
        await person.write_text("old.txt", "1\n2\n3\n")
        await (await agent("one")).move("old.txt", "new.txt")
        if kind == "editor":
            (tmp_path / "tree" / "new.txt").write_text(becomes)
        else:
            await person.write_text("new.txt", becomes)
        (file,) = (await person.review.queue()).files
        assert (file.kind, str(file.origin), file.added) == ("moved", "old.txt", 0)
        done = await person.review.reject([hunk.id for hunk in file.hunks])
        assert (done.conflicts, done.left) == ([], 0)
        assert await text(person, "old.txt") == becomes
        assert not await person.exists("new.txt")


@each_kind
async def test_what_lines_share_with_what_comes_back_does_not_keep_a_move(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        for path in "abc":
            await person.write_text(path, f"shared\n{path}\n")
        one = await agent("one")
        await one.move("b", "x")
        await one.move("c", "b")
        await one.move("a", "c")
        assert (await person.review.reject(await ids(person))).conflicts == []
        assert [await text(person, path) for path in "abc"] == [
            "shared\na\n", "shared\nb\n", "shared\nc\n",
        ]  # fmt: skip
        assert await ids(person) == []
