"""Whatever programs do to a tree comes back: beside the same done without any boundary."""

import json
import shutil
import subprocess

import hypothesis
import pytest
from hypothesis import strategies as st

import bailiwick
from tests.sandboxes.steps import PATHS, PROGRAM, STEPS, TREES, pictured, taken

pytestmark = pytest.mark.usefixtures("needs_bubblewrap")

MOVES = st.tuples(st.sampled_from(["move", "replace"]), PATHS, PATHS)


SCRIPTS = [
    "rm -r b; mv a b",
    "mv a b/new; mv b a",
    "mv a x; mv b a; mv x b",
    "mv a x; mv b a; rm -r x",
    "mv a x; rm -r x/b",
    "mv a x; rm -r x/b; mkdir x/b; echo n > x/b/n",
    "mv a x; mkdir a; echo n > a/a",
    "mv a x; mv x a",
    "mv a/b x; rm -r a; mv x a",
    "mv a/b x; rm -r a; mkdir a; mv x a/b",
    "rm -r b/a; mv c/b b/a",
    "rm -r b; mv a b; rm -r b/b; mv c/b b/b; echo n > b/b/n",
    "cp -a a x; mv a y",
    "cp -a a y; mv a x",
    "mv b c/b/a/b; mkdir -p b/c; cp -a a b/c/c; rm -r a",
]


@pytest.mark.spec("EXEC-7", "EXEC-9")
@pytest.mark.parametrize("script", SCRIPTS)
async def test_directories_that_were_moved_are_where_the_program_left_them(tmp_path, script):
    project, seen = tmp_path / "project", tmp_path / "seen"
    project.mkdir()
    taken(TREES, project)
    shutil.copytree(project, seen, symlinks=True)
    before = pictured(project)
    subprocess.run(["/bin/sh", "-ec", script], cwd=seen, check=True, umask=0o022)
    state = str(tmp_path / "state")
    async with bailiwick.open(project, state_dir=state, history="on") as fs:
        result = await fs.exec(shell=script).result()
        assert (result.exit_code, result.withheld, result.conflicts) == (0, [], [])
        assert result.work_id is None
        assert pictured(project) == pictured(seen)
        if result.changes:
            assert (await fs.undo(result.request_id)).conflicts == []
    assert pictured(project) == before


@pytest.mark.spec("EXEC-8")
async def test_a_part_of_a_directory_that_was_moved_neither_comes_nor_goes_alone(tmp_path):
    project, state = tmp_path / "project", str(tmp_path / "state")
    project.mkdir()
    taken(TREES, project)
    before = pictured(project)
    async with bailiwick.open(project, state_dir=state) as fs, fs.session() as session:
        await session.exec(shell="rm -r b; mv a b; echo n > n").result()
        for part in ("b/a", "b/b/c", "a", "a/b"):
            published = await session.publish("partial", paths=[part])
            assert published.changes == []
            assert published.withheld or published.conflicts
            with pytest.raises(bailiwick.Unsupported, match="given up as a whole"):
                await session.discard([part])
        assert pictured(project) == before
        await session.publish("partial", paths=["b"])
        assert [str(each.path) for each in (await session.changes()).changes] == ["n"]
        await session.discard()
    untouched = {path for path in before if path.partition("/")[0] == "c"}
    assert pictured(project).keys() == {"b", "b/a", "b/b", "b/b/c", *untouched}


async def run(session, steps):
    program = ["/usr/bin/python3", "-I", "-S", "-c", PROGRAM]
    execution = session.exec(program, stdin=json.dumps(steps).encode())
    said = b"".join([each.data async for each in execution])
    assert (said, (await execution.result()).exit_code) == (b"", 0)


def chosen(changes, numbers):
    return [changes[number % len(changes)].path for number in numbers] if changes else []


@pytest.mark.slow
@pytest.mark.spec("EXEC-8", "EXEC-9")
@hypothesis.settings(max_examples=40)
@hypothesis.given(
    planted=st.lists(STEPS, max_size=4),
    commands=st.lists(st.lists(MOVES | STEPS, min_size=1, max_size=8), min_size=1, max_size=3),
    numbers=st.lists(st.integers(0, 20), max_size=3),
)
async def test_a_session_leaves_the_tree_that_its_programs_saw(
    tmp_path_factory, planted, commands, numbers
):
    """Some of it is brought back first, as far as that goes without the rest."""
    directory = tmp_path_factory.mktemp("model")
    project, seen = directory / "project", directory / "seen"
    project.mkdir()
    taken([*TREES, *planted], project)
    shutil.copytree(project, seen, symlinks=True)
    state = str(directory / "state")
    async with bailiwick.open(project, state_dir=state) as fs, fs.session() as session:
        for steps in commands:
            taken(steps, seen)
            await run(session, steps)
            changes = (await session.changes()).changes
            if paths := chosen(changes, numbers):
                await session.publish("partial", paths=paths)
        published = await session.publish()
        assert (published.withheld, published.conflicts) == ([], [])
        assert pictured(project) == pictured(seen)
        await session.discard()
    shutil.rmtree(directory)


@pytest.mark.slow
@pytest.mark.spec("REVIEW-2")
@hypothesis.settings(max_examples=25)
@hypothesis.given(
    planted=st.lists(STEPS, max_size=4),
    steps=st.lists(MOVES | STEPS, min_size=1, max_size=6),
    verdicts=st.lists(
        st.tuples(st.booleans(), st.lists(st.integers(0, 20), min_size=1, max_size=3)), max_size=4
    ),
    accepts=st.booleans(),
)
@hypothesis.example(planted=[], steps=[("replace", "b", "c")], verdicts=[], accepts=True)
async def test_whatever_is_said_of_what_a_program_left_the_rest_can_be_said_too(
    tmp_path_factory, planted, steps, verdicts, accepts
):
    directory = tmp_path_factory.mktemp("model")
    project, seen = directory / "project", directory / "seen"
    project.mkdir()
    taken([*TREES, *planted], project)
    before = pictured(project)
    shutil.copytree(project, seen, symlinks=True)
    taken(steps, seen)
    async with bailiwick.open(project, state_dir=str(directory / "state")) as fs:
        async with fs.session() as session:
            await run(session, steps)
        for accept, numbers in verdicts:
            if not await fs.work():
                break
            queue = await fs.review.queue(work=session.id)
            hunks = [hunk.id for file in queue.files for hunk in file.hunks]
            if hunks:
                some = [hunks[number % len(hunks)] for number in numbers]
                say = fs.review.accept if accept else fs.review.reject
                await say(some, work=session.id)  # or it is refused, as a part of a move is
        if await fs.work():
            say = fs.review.accept if accepts else fs.review.reject
            assert (await say(work=session.id)).conflicts == []
        assert await fs.work() == []
    said = {accepts, *(accept for accept, _ in verdicts)}
    if len(said) == 1:
        assert pictured(project) == (pictured(seen) if accepts else before)
    shutil.rmtree(directory)
