"""A merge in which what becomes of a directory hangs on hundreds of others, each on the next."""

import pytest

from bailiwick.paths import ScopedPath
from bailiwick.testing.driver import StoreDriver
from bailiwick.versions import Mark, Undoing
from tests.stores.volume.trees import tree_of
from tests.stores.volume.volumes import opened

pytestmark = [
    pytest.mark.slow, pytest.mark.spec("VOL-6", "TREE-10"), pytest.mark.both_engines,
]  # fmt: skip

SIBLINGS = 400


async def put_into_each_other(fs, *, ring):
    """Each sibling goes into a new directory that has the name of the next one."""
    if ring:
        await fs.move("d0", "aside")
        await fs.make_dir("d0")
    else:
        await fs.make_dir("new")
    into = "d0" if ring else "new"
    for number in range(SIBLINGS - 1, int(ring) - 1, -1):
        await fs.move(f"d{number}", f"{into}/moved")
        await fs.make_dir(f"d{number}")
        into = f"d{number}"
    if ring:
        await fs.move("aside", f"{into}/moved")


@pytest.mark.parametrize("ring", [False, True], ids=["a chain", "a ring"])
async def test_siblings_that_went_into_each_others_places_are_merged(tmp_path, ring):
    async with opened(tmp_path / "v.db") as fs:
        for number in range(SIBLINGS):
            await fs.make_dir(f"d{number}")
        await fs.write("d7/f", b"x")
        before, versions = await tree_of(fs.store), fs.store.versions
        snapshot = await versions.snapshot("before")
        fork = StoreDriver(await versions.fork("work"))
        await put_into_each_other(fork, ring=ring)
        wanted = await tree_of(fork.store)
        await fork.aclose()

        changed = await versions.compare("work")
        assert sum(each.kind == "moved" for each in changed) == SIBLINGS

        merging = fs.store.marked(Mark(subject="s", request_id="r")).versions
        merged = await merging.merge("work")
        assert merged.conflicts == []
        assert await tree_of(fs.store) == wanted
        assert await versions.compare("work") == []

        undone = await merging.undo(Undoing(request_id="r"))
        assert undone.conflicts == []
        assert await tree_of(fs.store) == before
        await versions.restore(ScopedPath("."), merged.version)
        assert await tree_of(fs.store) == wanted
        await versions.restore(ScopedPath("."), snapshot.version)
        assert await tree_of(fs.store) == before
