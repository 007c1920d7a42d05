"""Taking runs back, whole and by path, where directories went, and came in the place of others."""

import itertools

import pytest

from bailiwick.verbs.runs.moved_back import WHOLE_RUN
from tests.scope.test_review import ids
from tests.scope.test_runs import each_kind, rooted
from tests.scope.test_verdicts_model import pictured
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


@pytest.mark.spec("RUN-3", "REVIEW-1")
@pytest.mark.parametrize("there", ["a b", "a/x b/x", "a/x b/y"])
async def test_what_was_removed_to_make_room_is_told(tmp_path, kind, there):
    """It was not: whoever looked at the run, or rejected all of it, saw a move and nothing else."""
    async with rooted(tmp_path, kind) as (person, agent):
        for path in there.split():
            await person.write_text(path, f"{path}\n", parents=True)
        before = await tree(person)
        one = await agent("one")
        await one.write_text("own", "o\n")
        await one.remove("own")
        await one.write_text("other", "o\n")
        await one.move("other", "own")
        await one.remove("a", recursive=True)
        if there == "a b":
            await one.write_text("b", "b\nb\n")
            await one.write_text("b", "b\n")
        await one.move("b", "a")
        (run,) = await person.runs()
        told = {str(each.path): each for each in (await run.changes()).changes}
        assert told["a"].hunks[0].header.endswith(" over another")
        assert (told["a"].replaces, told["own"].replaces) == (True, False)
        (brief,) = [each for each in (await run.changes(brief=True)).changes if each.path == "a"]
        assert brief.replaces
        if there == "a/x b/y":
            assert told["a/x"].kind == "deleted"
        queued = {str(each.path): each for each in (await person.review.queue()).files}
        assert queued["a"].hunks[0].header.endswith(" over another")
        assert queued["a"].replaces
        after = await tree(person)
        for looked in (
            await run.undo(["a"], preview=True),
            await person.review.reject(paths=["a"], preview=True),
        ):
            assert looked.conflicts == []
        assert await tree(person) == after
        assert (await run.undo()).conflicts == []
        assert await tree(person) == before


MADE_ROOM = [
    *itertools.product(
        ("plain", "edited", "moved on", "removed", "twice"), ("text", "bytes", "link", "directory")
    ),
    *(("replaced at once", what) for what in ("text", "bytes", "link")),
]


async def _in_place_of(one, case):
    """Something else comes to where `a` stood; `b` is what it was before."""
    if case != "replaced at once":
        await one.remove("a", recursive=True)
    await one.move("b", "a", replace=case == "replaced at once")
    if case == "edited":
        await one.write_text("a", "b\nmore\n")
    elif case == "moved on":
        await one.move("a", "c/d")
    elif case == "removed":
        await one.remove("a")
    elif case == "twice":
        await one.remove("c/x")
        await one.move("a", "c/x")


@pytest.mark.spec("RUN-3", "REVIEW-1")
@pytest.mark.parametrize("by", ["run", "path", "review"])
@pytest.mark.parametrize(("case", "what"), MADE_ROOM)
async def test_what_was_removed_to_make_room_comes_back_with_the_move(
    tmp_path, kind, by, case, what
):
    """Also after other pieces of the run were taken back, when there is no whole run any more."""
    async with rooted(tmp_path, kind) as (person, agent):
        await person.write_text("b", "b\n")
        await person.write_text("c/x", "x\n", parents=True)
        if what == "text":
            await person.write_text("a", "a\n")
        elif what == "bytes":
            await person.write_bytes("a", b"\0a")
        elif what == "link":
            await person.symlink("a", "c/x")
        else:
            await person.write_text("a/in/it", "a\n", parents=True)
        await person.write_text("other", "1\n")
        before = await pictured(person)
        one = await agent("one")
        await one.write_text("other", "2\n")
        await _in_place_of(one, case)
        (run,) = await person.runs()
        assert (await run.undo(["other"])).conflicts == []
        if by == "run":
            assert (await run.undo()).conflicts == []
        elif by == "path":
            paths = [each.path for each in (await run.changes()).changes]
            assert (await run.undo(paths)).conflicts == []
        else:
            assert (await person.review.reject(paths=["."])).conflicts == []
        assert await pictured(person) == before
        assert await ids(person) == []
        states = [hunk.state for each in (await run.changes()).changes for hunk in each.hunks]
        assert set(states) == {"undone"}


@pytest.mark.spec("REVIEW-1")
async def test_what_was_agreed_to_go_is_no_longer_told(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.write_text("a", "a\n")
        await person.write_text("b", "b\n")
        one = await agent("one")
        await one.remove("a")
        assert (await person.review.accept(paths=["a"])).conflicts == []
        await one.move("b", "a")
        (file,) = (await person.review.queue()).files
        assert [each.header for each in file.hunks] == ["moved file"]
        assert (await person.review.reject(paths=["a"])).conflicts == []
        assert await tree(person) == {"b": "b\n"}


@pytest.mark.spec("VOL-5", "DISK-8")
@pytest.mark.parametrize("inside", ["", "/x"], ids=["file", "directory"])
async def test_a_place_has_the_past_of_what_stood_there_before(tmp_path, kind, inside):
    """A directory's history forgot it, and to restore it removed what stands there now."""
    async with rooted(tmp_path, kind) as (person, _):
        await person.write_text(f"a{inside}", "a\n", parents=True)
        await person.write_text(f"b{inside}", "b\n", parents=True)
        await person.remove("a", recursive=True)
        await person.move("b", "a")
        versions = (await person.history(f"a{inside}")).versions
        here = [each for each in versions if each.path == f"a{inside}"]
        assert [each.kind for each in here if each.kind != "moved"] == ["deleted", "created"]
        for place in ("a", f"a{inside}"):
            await person.restore(place, here[-1].version)
            assert (await tree(person))[f"a{inside}"] == "a\n"
        await person.restore("a", here[-2].version)
        assert await tree(person) == {}


@pytest.mark.spec("RUN-3")
@pytest.mark.parametrize("goes", ["d", "d/g"])
async def test_what_was_moved_and_then_removed_comes_back_to_where_it_lay(tmp_path, kind, goes):
    async with rooted(tmp_path, kind) as (person, agent):
        await person.write_text("f", "f\n")
        await person.write_text("d/e", "e\n", parents=True)
        before = await tree(person)
        one = await agent("one")
        await one.move("f", "d/g")
        await one.remove(goes, recursive=True)
        (run,) = await person.runs()
        change = (await run.changes()).changes[-1]
        assert (str(change.path), change.kind, str(change.origin)) == ("d/g", "deleted", "f")
        origins = {str(each.path): each.origin for each in (await person.review.queue()).files}
        assert origins.pop("d/g") == "f"
        assert set(origins.values()) <= {None}
        for _ in range(2):
            assert (await run.undo(["f"])).conflicts == []
            assert await tree(person) == (before if goes == "d/g" else {"f": "f\n"})
        assert (await run.undo()).conflicts == []
        assert await tree(person) == before


@pytest.mark.spec("RUN-3")
async def test_directories_come_back_with_their_modes(tmp_path, kind):
    async with rooted(tmp_path, kind) as (person, agent):
        await planted(person)
        await person.set_mode("b", 0o700)
        await person.set_mode("b/c", 0o750)
        await (await agent("one")).remove("b", recursive=True)
        (run,) = await person.runs()
        assert (await run.undo(["b/c/a"])).conflicts == []
        modes = [(await person.stat(path)).mode & 0o777 for path in ("b", "b/c")]
        assert modes == [0o700, 0o750]


@pytest.mark.spec("RUN-3", "REVIEW-1")
async def test_a_mode_that_a_run_set_is_told_and_taken_back(tmp_path, kind):
    """It was told by no run, and stayed when its path was taken back."""
    async with rooted(tmp_path, kind) as (person, agent):

        async def modes():
            return [(await person.stat(path)).mode & 0o777 for path in ("a", "d", "t")]

        for path in "at":
            await person.write_text(path, "1\n")
            await person.set_mode(path, 0o640)
        await person.make_dir("d")
        await person.set_mode("d", 0o750)
        one = await agent("one")
        for path in "adt":
            await one.set_mode(path, 0o700)
        await one.write_text("t", "1\n2\n")
        (run,) = await person.runs()
        told = {str(each.path): each for each in (await run.changes()).changes}
        assert {path: [each.header for each in told[path].hunks] for path in told} == {
            "a": ["mode 640 to 700"], "d": ["mode 750 to 700"],
            "t": ["@@ -1,1 +1,2 @@", "mode 640 to 700"],
        }  # fmt: skip
        queue = await person.review.queue()
        queued = {hunk.id for each in queue.files for hunk in each.hunks}
        assert queued == {hunk.id for each in told.values() for hunk in each.hunks}
        await person.review.accept([told["d"].hunks[0].id])
        (change,) = (await person.run_changes(run.id, paths=["d"])).changes
        assert change.hunks[0].reviewed == "accepted"
        assert (await run.undo(["t"], hunks=[told["t"].hunks[1].id])).conflicts == []
        assert await modes() == [0o700, 0o700, 0o640]
        assert await tree(person) == {"a": "1\n", "t": "1\n2\n"}
        assert (await run.undo(["d"])).conflicts == []
        await person.set_mode("a", 0o600)
        (conflict,) = (await run.undo(["a"])).conflicts
        assert conflict.reason == "others have changed it since"
        assert await modes() == [0o600, 0o750, 0o640]
        states = [hunk.state for each in (await run.changes()).changes for hunk in each.hunks]
        assert states == ["changed", "undone", "stands", "undone"]


@pytest.mark.spec("RUN-3", "REVIEW-1")
@pytest.mark.parametrize("by", ["run", "path", "review"])
@pytest.mark.parametrize("how", ["move", "remove", "edit and move", "move twice"])
async def test_what_others_had_moved_with_its_directory_goes_back_there(tmp_path, kind, by, how):
    """And not to where it was made."""
    async with rooted(tmp_path, kind) as (person, agent):
        for path in ("d/f", "other"):
            await person.write_text(path, "1\n", parents=True)
        await person.move("d", "e")
        before = await pictured(person)
        one = await agent("one")
        await one.write_text("other", "2\n")
        if how == "edit and move":
            await one.write_text("e/f", "1\n2\n")
        if how == "remove":
            await one.remove("e/f")
        else:
            await one.move("e/f", "z")
        if how == "move twice":
            await one.move("z", "e/y")
        (run,) = await person.runs()
        moved = next(each for each in (await run.changes()).changes if each.path != "other")
        assert moved.origin == (None if how == "remove" else "e/f")
        await run.undo(["other"])
        if by == "run":
            done = await run.undo()
        else:
            done = await (run.undo if by == "path" else person.review.reject)(paths=[moved.path])
        assert done.conflicts == []
        assert await pictured(person) == before
        assert await ids(person) == []


SAME_NAMES = "one with the same names"
OVER = {
    "a file": "a b/x",
    "an empty one": "a/ b/x",
    "one with other names": "a/w b/x",
    SAME_NAMES: "a/x b/x b/y",
    "one with directories of the same names": "a/in/x a/in/w a/in/deep/v b/in/x b/in/deep/",
    "one with a file of the name of a directory": "a/in b/in/x",
    "one with a directory of the name of a file": "a/in/x b/in",
}
PARTS = ("path", "origin", "step", "hunk", "rejected path", "rejected hunk", "all rejected")


async def _part_taken_back(person, run, part):
    if part == "path":
        return await run.undo(["a"])
    if part == "origin":
        return await run.undo(["b"])
    if part == "step":
        return await run.undo(step="over")
    if part == "rejected path":
        return await person.review.reject(paths=["a"])
    if part == "all rejected":
        return await person.review.reject(paths=["."])
    if part == "hunk":
        (change,) = (each for each in (await run.changes()).changes if each.path == "a")
        return await run.undo(["a"], hunks=[change.hunks[0].id])
    (file,) = (each for each in (await person.review.queue()).files if each.path == "a")
    return await person.review.reject([file.hunks[0].id])


@pytest.mark.spec("RUN-3", "REVIEW-1")
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    "there",
    [
        pytest.param(paths, id=name, marks=[] if name == SAME_NAMES else [pytest.mark.slow])
        for name, paths in OVER.items()
    ],
)
@pytest.mark.parametrize("changed", [False, True], ids=["as they were", "changed before"])
async def test_a_directory_moved_over_another_goes_back_by_itself(
    tmp_path, kind, there, part, changed
):
    """It could only with all of its run, and not at all once some other part was taken back."""
    async with rooted(tmp_path, kind) as (person, agent):
        for path in there.split():
            if path.endswith("/"):
                await person.make_dir(path[:-1], parents=True)
            else:
                await person.write_text(path, f"{path}\n", parents=True)
        await person.set_mode("a", 0o700)
        await person.write_text("other", "1\n")
        before = await pictured(person)
        one = (await agent("one")).with_run(step="before")
        await one.write_text("other", "2\n")
        one = one.with_run(step="over")
        if changed:
            for path in [
                each for each in before if each.startswith("a/") and len(before[each]) > 3
            ]:
                await one.write_text(path, "of the agent\n")
        await one.remove("a", recursive=True)
        await one.move("b", "a")
        (run,) = await person.runs()
        assert (await run.undo(["other"])).conflicts == []
        assert (await _part_taken_back(person, run, part)).conflicts == []
        now = await pictured(person)
        assert now.items() <= before.items()
        assert {each for each in before if each.startswith("b")} <= now.keys()
        assert now["a"] == before["a"]
        # What went from the other and is told by itself is left, or came along.
        assert (await run.undo()).conflicts == []
        assert await pictured(person) == before
        assert await ids(person) == []
        states = [hunk.state for each in (await run.changes()).changes for hunk in each.hunks]
        assert set(states) == {"undone"}


@pytest.mark.spec("RUN-3", "REVIEW-1")
@pytest.mark.parametrize("by", ["run", "review"])
async def test_what_others_made_in_a_directory_goes_back_with_it(tmp_path, kind, by):
    async with rooted(tmp_path, kind) as (person, agent):
        for path in ("a/x", "a/y", "b/x"):
            await person.write_text(path, f"{path}\n", parents=True)
        one = await agent("one")
        await one.remove("a", recursive=True)
        await one.move("b", "a")
        await person.write_text("a/x", "mine\n")
        await person.write_text("a/new", "mine too\n")
        (run,) = await person.runs()
        undo = run.undo if by == "run" else person.review.reject
        assert (await undo(paths=["a"])).conflicts == []
        mine = {"b/x": "mine\n", "b/new": "mine too\n"}
        assert await tree(person) == {"a/x": "a/x\n", "a/y": "a/y\n", **mine}
        assert await ids(person) == []


@pytest.mark.spec("RUN-3", "REVIEW-1")
@pytest.mark.parametrize("part", PARTS)
async def test_a_directory_with_files_that_have_no_versions_goes_back_too(tmp_path, kind, part):
    """Other programs made them before anybody looked."""
    async with rooted(tmp_path, kind) as (person, agent):
        for path in ("a/x", "a/w", "b/x"):
            if kind == "directory":
                (tmp_path / "tree" / path).parent.mkdir(exist_ok=True)
                (tmp_path / "tree" / path).write_text(f"{path}\n")
            else:
                await person.write_text(path, f"{path}\n", parents=True)
        before = await pictured(person)
        one = (await agent("one")).with_run(step="over")
        await one.remove("a", recursive=True)
        await one.move("b", "a")
        (run,) = await person.runs()
        assert (await _part_taken_back(person, run, part)).conflicts == []
        now = await pictured(person)
        assert now.items() <= before.items()
        assert before.keys() - now.keys() <= {"a/w"}


@pytest.mark.spec("RUN-3", "REVIEW-1")
@pytest.mark.parametrize("by", ["run", "review"])
async def test_what_stands_twice_at_one_place_goes_back_request_by_request(tmp_path, kind, by):
    """Lines of the directory that came, and a file of the one that went, under one name."""
    async with rooted(tmp_path, kind) as (person, agent):
        for path in ("a/x", "b/x"):
            await person.write_text(path, f"{path}\n", parents=True)
        before = await tree(person)
        one = await agent("one")
        await one.remove("a", recursive=True)
        await one.move("b", "a")
        await one.write_text("a/x", "of the agent\n")
        then, (run,) = await tree(person), await person.runs()
        undo = run.undo if by == "run" else person.review.reject
        (conflict,) = (await undo(paths=["a"])).conflicts
        assert (conflict.path, conflict.reason) == ("a/x", WHOLE_RUN)
        assert await tree(person) == then
        versions = (await person.history(".")).versions
        for request in dict.fromkeys(each.request_id for each in versions if "one" in each.subject):
            assert (await person.undo(request)).conflicts == []
        assert await tree(person) == before


@pytest.mark.spec("RUN-3")
@pytest.mark.parametrize("before", ["directory", "link", "bytes"])
async def test_what_others_had_at_a_place_in_between_does_not_go_with_the_run(
    tmp_path, kind, before
):
    async with rooted(tmp_path, kind) as (person, agent):
        if before == "directory":
            await person.make_dir("c")
            await person.write_text("c/x", "in it\n")
        elif before == "link":
            await person.symlink("c", "elsewhere")
        else:
            await person.write_bytes("c", b"\0first")
        one = await agent("one")
        await one.remove("c", recursive=True)
        theirs = b"\0theirs" if before == "bytes" else b"1\ntheirs\n"
        await person.write_bytes("c", theirs)
        await one.write_bytes("c", theirs + b"and of the agent\n")
        then, (run,) = await pictured(person), await person.runs()
        for paths in ([], ["c"]):
            told = await run.undo(paths)
            assert "in between" in str(told.conflicts)
            assert await pictured(person) == then
        versions = (await person.history("c")).versions
        request = next(each.request_id for each in versions if "one" in each.subject)
        assert (await person.undo(request)).conflicts == []
        assert (await person.read_bytes("c")).data == theirs
