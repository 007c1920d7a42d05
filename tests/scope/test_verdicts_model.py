"""Agents change a tree, or a fork of it, at random, and verdicts are given on that at random:
whoever only said yes has what they left, whoever only said no what was there before."""

import itertools
from contextlib import aclosing

import hypothesis
import pytest
from hypothesis import strategies as st

from bailiwick.errors import BailiwickError, InternalError
from bailiwick.paths import ScopedPath
from bailiwick.verbs.runs.moved_back import HOMELESS, TAKEN, WHOLE_RUN
from bailiwick.working_copy import WorkConflict
from tests.sandboxes.steps import PATHS, TREES
from tests.scope.test_runs import each_kind, rooted
from tests.scope.volumes import volume

_CHANGED = WorkConflict(path=ScopedPath(".")).reason
NUMBERS = st.lists(st.integers(0, 20), min_size=1, max_size=3)
LINES = [f"{number}\n" for number in range(12)]
STEPS = st.one_of(
    st.tuples(st.just("write"), PATHS, st.sampled_from(["1", "22"])),
    st.tuples(st.just("lines"), PATHS, NUMBERS),
    st.tuples(st.sampled_from(["remove", "mkdir", "link"]), PATHS, st.just("a")),
    st.tuples(st.sampled_from(["move", "replace", "copy"]), PATHS, PATHS),
    st.tuples(st.just("chmod"), PATHS, st.sampled_from(["700", "755"])),
)

ENTANGLED = {WHOLE_RUN, TAKEN, HOMELESS}
"""Why some of what an agent did stays, which goes back with all of it."""


async def take(fs, steps):
    """What cannot be done is not."""
    for verb, path, other in steps:
        try:
            if verb == "write":
                await fs.write_text(path, other)
            elif verb == "lines":
                text = "".join("x\n" if number in other else s for number, s in enumerate(LINES))
                await fs.write_text(path, text)
            elif verb == "remove":
                await fs.remove(path, recursive=True)
            elif verb == "mkdir":
                await fs.make_dir(path, parents=True)
            elif verb == "link":
                await fs.symlink(path, other)
            elif verb == "copy":
                await fs.copy(path, other, recursive=True)
            elif verb == "chmod":
                await fs.set_mode(path, int(other, 8))
            else:
                await fs.move(path, other, replace=verb == "replace")
        except InternalError:
            raise
        except BailiwickError:
            continue


async def pictured(fs, path="."):
    found = {}
    for entry in (await fs.list(path)).entries:
        stat = await fs.lstat(entry.path)
        what = stat.type, stat.mode, stat.target
        if stat.type == "file":
            what += ((await fs.read_bytes(entry.path)).data,)
        elif stat.type == "directory":
            found |= await pictured(fs, entry.path)
        found[str(entry.path)] = what
    return found


async def say(review, verdicts, **part):
    """As far as each can be said alone."""
    for accept, numbers in verdicts:
        queue = await review.queue(**part)
        hunks = [hunk.id for file in queue.files for hunk in file.hunks]
        if hunks:
            some = [hunks[number % len(hunks)] for number in numbers]
            await (review.accept if accept else review.reject)(some, **part)


VERDICTS = st.lists(st.tuples(st.booleans(), NUMBERS), max_size=6)


@pytest.mark.slow
@pytest.mark.spec("REVIEW-2")
@hypothesis.settings(max_examples=40)
@hypothesis.given(
    planted=st.lists(STEPS, max_size=4),
    steps=st.lists(STEPS, min_size=1, max_size=6),
    verdicts=VERDICTS,
    accepts=st.booleans(),
)
@hypothesis.example([], [("remove", "a", "a"), ("mkdir", "a", "a")], [], True)
@hypothesis.example([], [("remove", "a/a", "a"), ("mkdir", "a/a", "a")], [], False)
@hypothesis.example(
    [("lines", "a/a", [])], [("lines", "a/a", [1, 10])], [(True, [0]), (False, [0])], False
)
async def test_whatever_is_said_of_a_fork_it_and_its_tree_are_one_in_the_end(
    tmp_path_factory, planted, steps, verdicts, accepts
):
    async with volume(tmp_path_factory.mktemp("model")) as fs:
        await take(fs, [*TREES, *planted])
        before = await pictured(fs)
        async with aclosing(await fs.fork("try")) as fork:
            await take(fork, steps)
            wanted = await pictured(fork)
            await say(fs.review, verdicts, fork="try")
            all_of_it = fs.review.accept if accepts else fs.review.reject
            assert (await all_of_it(fork="try")).conflicts == []
            assert (await fs.review.queue(fork="try")).left == 0
            now = await pictured(fs)
            assert now == await pictured(fork)
            if {accepts, *(accept for accept, _ in verdicts)} == {accepts}:
                assert now == (wanted if accepts else before)


@pytest.mark.slow
@pytest.mark.spec("REVIEW-2")
@each_kind
@hypothesis.settings(max_examples=20)
@hypothesis.given(
    planted=st.lists(STEPS, max_size=4),
    steps=st.lists(STEPS, min_size=1, max_size=6),
    verdicts=VERDICTS,
    accepts=st.booleans(),
)
@hypothesis.example([], [("remove", "a", "")], [(True, [0, 2]), (False, [0])], False)
@hypothesis.example([], [("remove", "b", ""), ("link", "b", "b/a")], [(False, [0, 1])], False)
@hypothesis.example([], [("remove", "a", ""), ("write", "a", "1")], [(True, [0])], False)
@hypothesis.example([], [("move", "c/b", "a/c"), ("chmod", "a/c", "755")], [], False)
@hypothesis.example([], [("move", "c/b/c", "a/c"), ("chmod", "a/c", "700")], [(False, [0])], False)
async def test_whatever_is_said_of_what_an_agent_did_the_rest_can_be_said_too(
    tmp_path_factory, kind, planted, steps, verdicts, accepts
):
    async with rooted(tmp_path_factory.mktemp("model"), kind) as (person, agent):
        await take(person, [*TREES, *planted])
        before = await pictured(person)
        await take(await agent("one"), steps)
        wanted = await pictured(person)
        await say(person.review, verdicts)
        all_of_it = person.review.accept if accepts else person.review.reject
        done = await all_of_it(paths=["."])
        # A directory that was moved over another, or has moved about, goes back with its run; and
        # what lay where something else was agreed to stays away.
        reasons = {each.reason for each in done.conflicts}
        agreed = {_CHANGED} if any(accept for accept, _ in verdicts) else set()
        assert reasons <= (set() if accepts else {*ENTANGLED, *agreed})
        assert (await person.review.queue()).left == (done.left if reasons else 0)
        if not reasons and {accepts, *(accept for accept, _ in verdicts)} == {accepts}:
            assert await pictured(person) == (wanted if accepts else before)


@pytest.mark.slow
@pytest.mark.spec("RUN-3")
@each_kind
@hypothesis.settings(max_examples=30)
@hypothesis.given(
    planted=st.lists(STEPS, max_size=4),
    steps=st.lists(STEPS, min_size=1, max_size=6),
    numbers=NUMBERS,
    by_hunk=st.booleans(),
)
@hypothesis.example([], [("chmod", "a/a", "755"), ("lines", "a/a", [1])], [0], True)
@hypothesis.example([("move", "a", "c/c")], [("write", "a", "1"), ("remove", "c", "")], [0], False)
@hypothesis.example([], [("move", "c/b/c", "a/c"), ("chmod", "a/c", "700")], [0], True)
@hypothesis.example([], [("move", "c/b/c", "a/c"), ("chmod", "a/c", "700")], [1], True)
@hypothesis.example(
    [], [("move", "c/b/c", "a/c"), ("lines", "a/c", [1]), ("chmod", "a/c", "700")], [0], True
)
@hypothesis.example([], [("move", "c/b", "a/c"), ("chmod", "a/c", "755")], [0], False)
async def test_a_run_is_taken_back_piece_by_piece(
    tmp_path_factory, kind, planted, steps, numbers, by_hunk
):
    async with rooted(tmp_path_factory.mktemp("model"), kind) as (person, agent):
        await take(person, [*TREES, *planted])
        before = await pictured(person)
        await take(await agent("one"), steps)
        runs = await person.runs()
        if not runs or not (await runs[0].changes()).changes:
            return
        (run,) = runs
        refused = set()
        for number in itertools.islice(itertools.cycle(numbers), 60):
            left = [
                (each.path, hunk.id)
                for each in (await run.changes()).changes
                for hunk in each.hunks
                if hunk.state == "stands" and hunk.id not in refused
            ]
            if not left:
                break
            path, hunk = left[number % len(left)]
            told = await run.undo([path], hunks=[hunk] if by_hunk else None)
            refused |= {hunk} if told.conflicts else set()
        # What lies in something, or where something lay, has to go first: all together it can.
        reasons = {each.reason for each in (await run.undo()).conflicts}
        assert reasons <= ENTANGLED
        if not reasons:
            assert await pictured(person) == before
