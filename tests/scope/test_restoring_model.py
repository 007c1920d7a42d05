"""A tree is changed at random; whichever place is restored to whichever version becomes what it was
then, whatever came and went there since."""

import hypothesis
import pytest
from hypothesis import strategies as st

from bailiwick.errors import NotADirectory, PathNotFound, SymlinkEscape
from tests.sandboxes.steps import PATHS, TREES
from tests.scope.test_runs import each_kind, rooted
from tests.scope.test_verdicts_model import STEPS, pictured, take


def at(picture, path):
    """What a picture shows of a place and all beneath it."""
    inside = f"{path}/"
    return {each: what for each, what in picture.items() if each == path or each.startswith(inside)}


async def newest(fs):
    return (await fs.history(".", limit=1)).versions[0].version


@pytest.mark.slow
@pytest.mark.spec("VOL-5", "DISK-8")
@each_kind
@hypothesis.settings(max_examples=40)
@hypothesis.given(
    steps=st.lists(STEPS, min_size=1, max_size=8),
    wanted=st.lists(st.tuples(PATHS, st.integers(0, 8)), min_size=1, max_size=3),
)
@hypothesis.example([("remove", "a", ""), ("move", "b", "a")], [("a", 0)])
@hypothesis.example([("remove", "a", ""), ("move", "b", "a")], [("a/a", 0), ("a/b/c", 0)])
async def test_a_place_becomes_what_it_was(tmp_path_factory, kind, steps, wanted):
    async with rooted(tmp_path_factory.mktemp("model"), kind) as (fs, _):
        await take(fs, TREES)
        versions = [(await newest(fs), await pictured(fs))]
        for step in steps:
            await take(fs, [step])
            versions.append((await newest(fs), await pictured(fs)))
        for path, number in wanted:
            version, then = versions[number % len(versions)]
            now = await pictured(fs)
            try:
                await fs.restore(path, version)
            except PathNotFound:
                # It was not there then, nor now; or what it lay in is no directory by now.
                assert (
                    not at(then, path) or now.get(path.rpartition("/")[0], ("",))[0] != "directory"
                )
                assert await pictured(fs) == now
                continue
            except (NotADirectory, SymlinkEscape):
                assert await pictured(fs) == now
                continue
            assert at(await pictured(fs), path) == at(then, path)
