"""What a run came to is worked out once, and is always what it would be if worked out anew."""

import random

import pytest

from bailiwick import AgentRun, BailiwickError
from bailiwick.policy import permits
from bailiwick.verbs.runs import run_digests
from bailiwick.verbs.runs.path_stories import Stories
from tests.scope.test_runs import each_kind, rooted

pytestmark = pytest.mark.slow


@pytest.fixture
def looks(monkeypatch):
    """The paths whose versions are looked at."""
    seen = []
    look = Stories._look

    async def counted(self, store, path, known=None):
        seen.append(str(path))
        return await look(self, store, path, known)

    monkeypatch.setattr(Stories, "_look", counted)
    return seen


@pytest.mark.spec("REVIEW-6", "RUN-1")
@each_kind
async def test_who_looks_again_looks_only_at_what_was_touched_since(tmp_path, kind, looks):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.write_text("kept.txt", "1\n")
        one = await agent("one")
        for number in range(30):
            await one.write_text(f"made/{number}.txt", f"{number}\nmore\n", parents=True)
        await one.write_text("kept.txt", "2\n")
        (run,) = await person.runs()
        assert (run.created, run.changed, run.added, run.hunks) == (30, 1, 61, 32)
        looks.clear()
        assert (await person.runs())[0].info == run.info
        assert (await person.run_info(run.id)).info == run.info
        assert looks == []
        await one.write_text("made/3.txt", "3\n")
        await one.write_text("new.txt", "n\n")
        (again,) = await person.runs()
        assert (again.created, again.added) == (31, 61)
        assert set(looks) == {"made/3.txt", "new.txt"}
        looks.clear()
        (change,) = (await run.changes(paths=["made/7.txt"])).changes
        assert [line for hunk in change.hunks for line in hunk.lines] == ["+7", "+more"]
        assert set(looks) == {"made/7.txt"}


@pytest.mark.spec("REVIEW-6", "RUN-1")
@each_kind
async def test_of_a_run_that_only_looked_nothing_is_looked_for(tmp_path, kind, monkeypatch):
    scans, whole = [], run_digests._Digesting.whole

    def counted(self):
        scans.append(self)
        return whole(self)

    monkeypatch.setattr(run_digests._Digesting, "whole", counted)
    async with rooted(tmp_path, kind) as (person, agent):
        await person.write_text("a.txt", "1\n")
        one = await agent("one")
        await one.read_text("a.txt")
        with pytest.raises(BailiwickError):
            await one.read_text("missing")
        (run,) = await person.runs()
        assert (run.calls, run.created, run.added, run.hunks, run.reviewed) == (2, 0, 0, 0, 0)
        assert (await run.changes()).changes == []
        assert scans == []
        await one.write_text("b.txt", "b\n")
        assert [each.created for each in await person.runs()] == [1]
        assert len(scans) == 1


@pytest.mark.spec("REVIEW-6", "RUN-2")
@each_kind
async def test_what_a_run_changed_is_told_by_pages_and_without_its_lines(tmp_path, kind, looks):
    async with rooted(tmp_path, kind) as (person, agent):
        one = await agent("one")
        for number in range(25):
            await one.write_text(f"{number:02}.txt", f"{number}\n")
        (run,) = await person.runs()
        looks.clear()
        told, cursor, pages = [], None, 0
        while True:
            page = await run.changes(brief=True, cursor=cursor, limit=10)
            told, cursor, pages = [*told, *page.changes], page.next_cursor, pages + 1
            if cursor is None:
                break
        assert pages == 3
        assert looks == []
        assert [str(each.path) for each in told] == [f"{number:02}.txt" for number in range(25)]
        assert {(each.added, each.hunk_count, len(each.hunks)) for each in told} == {(1, 1, 0)}
        first = await run.changes(brief=True, limit=10)
        full = await run.changes(cursor=first.next_cursor, limit=2)
        assert [str(each.path) for each in full.changes] == ["10.txt", "11.txt"]
        assert [each.hunk_count for each in full.changes] == [1, 1]
        rest = await run.changes(brief=True, cursor=full.next_cursor)
        assert [str(each.path) for each in rest.changes] == [f"{at}.txt" for at in range(12, 25)]
        (hunk,) = full.changes[0].hunks
        await person.review.accept([hunk.id])
        await person.review.reject([full.changes[1].hunks[0].id])
        counted = (await run.changes(brief=True)).changes
        assert [str(each.path) for each in counted if each.reviewed_count] == ["10.txt", "11.txt"]
        await one.write_text("11.txt", "11\n")
        counted = (await run.changes(brief=True)).changes
        assert [str(each.path) for each in counted if each.reviewed_count] == ["10.txt"]


@pytest.mark.spec("REVIEW-6")
@each_kind
async def test_whoever_asks_for_one_path_has_only_that_judged(tmp_path, kind, monkeypatch):
    judged = []

    def counted(decision):
        judged.append(decision)
        return permits(decision)

    monkeypatch.setattr(run_digests, "permits", counted)
    async with rooted(tmp_path, kind) as (person, agent):
        one = await agent("one")
        for number in range(40):
            await one.write_text(f"made/{number}.txt", f"{number}\n", parents=True)
        (run,) = await person.runs()
        judged.clear()
        (change,) = (await run.changes(paths=["made/7.txt"])).changes
        assert (str(change.path), len(judged)) == ("made/7.txt", 1)
        assert len((await run.changes(paths=["made"])).changes) == 41


@pytest.mark.spec("RUN-1", "RUN-2")
async def test_what_a_program_wrote_between_two_changes_of_a_run_is_not_counted_as_its_own(
    tmp_path,
):
    async with rooted(tmp_path, "directory") as (person, agent):
        one = await agent("one")
        await person.write_text("a.txt", "1\n2\n3\n4\n5\n")
        await one.write_text("a.txt", "one\n2\n3\n4\n5\n")
        (tmp_path / "tree" / "a.txt").write_text("one\n2\nby nobody\n4\n5\n")
        await one.write_text("a.txt", "one\n2\nby nobody\n4\nfive\n")
        (run,) = await person.runs()
        assert (run.hunks, run.added, run.removed_lines) == (2, 2, 2)
        (change,) = (await run.changes()).changes
        assert [each.id for each in change.hunks] == [
            each.id for file in (await person.review.queue()).files for each in file.hunks
        ]
        await person.undo(run=run.id, hunks=[change.hunks[1].id])
        assert (tmp_path / "tree" / "a.txt").read_text() == "one\n2\nby nobody\n4\n5\n"


PATHS = ("a.txt", "b.txt", "d/a.txt", "d/b.txt", "e/a.txt", "d/deep/a.txt")


async def act(dice, scope):
    """Something that anybody might do."""
    path, other = dice.choice(PATHS), dice.choice(PATHS)
    what = dice.randrange(7)
    if what <= 2:
        lines = [f"line {number} {dice.randrange(3)}\n" for number in range(dice.randrange(8))]
        await scope.write_text(path, "".join(lines), parents=True)
    elif what == 3:
        await scope.remove(path)
    elif what == 4:
        await scope.move(path, other, replace=dice.random() < 0.5)
    elif what == 5:
        await scope.write_bytes(path, bytes(range(dice.randrange(4))), parents=True)
    elif dice.random() < 0.5:
        await scope.remove(dice.choice(("d", "e")), recursive=True)
    else:
        await scope.move(dice.choice(("d", "d/deep")), dice.choice(("e", "f", "e/h")))


@pytest.mark.spec("RUN-1", "RUN-2")
@each_kind
@pytest.mark.parametrize("seed", range(12))
async def test_what_is_remembered_is_what_would_be_worked_out_anew(tmp_path, kind, seed):
    dice = random.Random(seed)
    async with rooted(tmp_path, kind) as (person, agent):
        one, two = await agent("one"), await agent("two")
        shelf = person._pipeline.runs.digests
        for _ in range(12):
            for _ in range(dice.randrange(1, 5)):
                try:
                    await act(dice, dice.choice((one, one, two, person)))
                except BailiwickError:
                    continue
            runs = await person.runs()
            remembered = [each.info for each in runs]
            briefs = [(await each.changes(brief=True)).changes for each in runs]
            fulls = [(await each.changes()).changes for each in runs]
            kept, shelf._kept = shelf._kept, {}
            assert [each.info for each in await person.runs()] == remembered
            shelf._kept = kept
            for brief, full in zip(briefs, fulls, strict=True):
                assert [_counts(each) for each in full] == [_counts(each) for each in brief]


def _counts(change):
    return (
        change.path, change.kind, change.type, change.origin, change.added, change.removed,
        change.hunk_count,
    )  # fmt: skip


@pytest.mark.spec("RUN-1")
async def test_what_one_caller_has_seen_is_not_told_to_another(tmp_path):
    async with rooted(tmp_path, "volume") as (person, agent):
        await person.write_text("shut/b.txt", "b\n", parents=True)
        await person.make_dir("open")
        one = await agent("one")
        await one.write_text("open/a.txt", "a\n")
        await one.write_text("shut/c.txt", "c\n")
        await one.move("shut/b.txt", "open/d.txt")
        assert (await person.runs())[0].hunks == 3
        narrow = await person.delegate(AgentRun("chat", "one"), path="open")
        (run,) = await narrow.runs()
        assert (run.created, run.hunks) == (1, 1)
        assert [str(each.path) for each in (await run.changes()).changes] == ["open/a.txt"]
