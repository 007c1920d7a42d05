"""Random merges against the plainest rule there is: path by path, three ways."""

import random

import pytest

from bailiwick.testing.driver import StoreDriver
from tests.stores.volume.trees import tree_of
from tests.stores.volume.volumes import opened

pytestmark = pytest.mark.both_engines

DIRECTORIES = ("d", "e", "d/f")
NAMES = ("a", "b", "c")
CONTENTS = (b"1", b"2", b"3" * 9_000)


def by_path(base, ours, theirs):
    """What a merge should give; None where both sides changed a path differently."""
    merged = {}
    for path in base.keys() | ours.keys() | theirs.keys():
        was, here, there = (tree.get(path, ...) for tree in (base, ours, theirs))
        if there not in (was, here) and here != was:
            return None
        kept = here if there == was else there
        if kept is not ...:
            merged[path] = kept
    return merged


async def change(fs, rng, steps):
    for _ in range(steps):
        path = f"{rng.choice(DIRECTORIES)}/{rng.choice(NAMES)}"
        there = await tree_of(fs.store)
        if path in there and rng.random() < 0.4:
            await fs.remove(path)
            if rng.random() < 0.3:
                await fs.write(path, rng.choice(CONTENTS))
        else:
            await fs.write(path, rng.choice(CONTENTS))


@pytest.mark.slow
@pytest.mark.spec("VOL-6")
@pytest.mark.parametrize("seed", range(100, 125))
async def test_files_are_merged_path_by_path(tmp_path, seed):
    rng = random.Random(seed)
    async with opened(tmp_path / "v.db") as fs:
        for directory in DIRECTORIES:
            await fs.make_dir(directory, parents=True)
        await change(fs, rng, 6)
        fork = StoreDriver(await fs.store.versions.fork("work"))
        outcomes, base = set(), await tree_of(fs.store)
        for _ in range(6):
            await change(fork, rng, rng.randrange(4))
            await change(fs, rng, rng.randrange(3))
            ours, theirs = await tree_of(fs.store), await tree_of(fork.store)
            expected = by_path(base, ours, theirs)
            merged = await fs.store.versions.merge("work")
            now = await tree_of(fs.store)
            if merged.conflicts:
                # A file that was made anew is another file: more is a conflict, nothing is lost.
                assert now == ours
                for path in theirs.keys() ^ ours.keys():
                    await (fs if path in ours else fork).remove(path)
                for path, content in (await tree_of(fs.store)).items():
                    if content is not None:
                        await fork.write(path, content)
            else:
                assert now == expected
                base = theirs
            outcomes.add(bool(merged.conflicts))
        assert (await fs.store.versions.check()).problems == []
        await fork.aclose()
    assert outcomes
