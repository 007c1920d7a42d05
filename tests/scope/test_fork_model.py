"""A fork is changed at random and verdicts are given on it at random: in the end it and its tree
are one, and whoever only said yes, or only said no, has the fork's tree, or the one before."""

from contextlib import aclosing

import hypothesis
import pytest
from hypothesis import strategies as st

from bailiwick.errors import BailiwickError, InternalError
from tests.sandboxes.steps import PATHS, TREES
from tests.scope.volumes import volume

NUMBERS = st.lists(st.integers(0, 20), min_size=1, max_size=3)
LINES = [f"{number}\n" for number in range(12)]
STEPS = st.one_of(
    st.tuples(st.just("write"), PATHS, st.sampled_from(["1", "22"])),
    st.tuples(st.just("lines"), PATHS, NUMBERS),
    st.tuples(st.sampled_from(["remove", "mkdir", "link"]), PATHS, st.just("a")),
    st.tuples(st.sampled_from(["move", "replace", "copy"]), PATHS, PATHS),
    st.tuples(st.just("chmod"), PATHS, st.sampled_from(["700", "755"])),
)


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


@pytest.mark.slow
@pytest.mark.spec("REVIEW-2")
@hypothesis.settings(max_examples=40)
@hypothesis.given(
    planted=st.lists(STEPS, max_size=4),
    steps=st.lists(STEPS, min_size=1, max_size=6),
    verdicts=st.lists(st.tuples(st.booleans(), NUMBERS), max_size=6),
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
            for accept, numbers in verdicts:
                queue = await fs.review.queue(fork="try")
                hunks = [hunk.id for file in queue.files for hunk in file.hunks]
                if hunks:
                    some = [hunks[number % len(hunks)] for number in numbers]
                    say = fs.review.accept if accept else fs.review.reject
                    await say(some, fork="try")  # or it is refused, as half of something may be
            say = fs.review.accept if accepts else fs.review.reject
            assert (await say(fork="try")).conflicts == []
            assert (await fs.review.queue(fork="try")).left == 0
            now = await pictured(fs)
            assert now == await pictured(fork)
            if {accepts, *(accept for accept, _ in verdicts)} == {accepts}:
                assert now == (wanted if accepts else before)
