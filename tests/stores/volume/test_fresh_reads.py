"""What is remembered of a volume is never of an earlier state."""

import asyncio
import sys

import pytest

from bailiwick.errors import PathNotFound
from bailiwick.testing.driver import StoreDriver
from tests.stores.volume.volumes import opened

ELSEWHERE = """
import asyncio, sys
from bailiwick.stores.volume import VolumeStore
from bailiwick.testing.driver import StoreDriver

async def main():
    fs = StoreDriver(VolumeStore.open(sys.argv[1]))
    await fs.write("d/f", b"of another process")
    await fs.remove("d/gone")
    await fs.aclose()

asyncio.run(main())
"""


@pytest.mark.spec("READ-1", "VOL-6")
async def test_what_another_process_changed_is_seen_at_once(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("d/f", b"first", parents=True)
        await fs.write("d/gone", b"first")
        assert (await fs.read("d/f"), await fs.read("d/gone")) == (b"first", b"first")
        changing = await asyncio.create_subprocess_exec(
            sys.executable, "-c", ELSEWHERE, str(tmp_path / "v.db")
        )
        assert await changing.wait() == 0
        assert await fs.read("d/f") == b"of another process"
        with pytest.raises(PathNotFound):
            await fs.read("d/gone")


@pytest.mark.spec("READ-1", "VOL-4", "VOL-5")
async def test_forks_and_earlier_versions_answer_for_themselves(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("f", b"first")
        version = (await fs.stat("f")).version
        fork = StoreDriver(await fs.store.versions.fork("work"))
        assert await fork.read("f") == b"first"
        await fs.write("f", b"second")
        past = await fs.store.versions.as_of(version)
        for _ in range(2):  # looked up, then remembered
            assert await fs.read("f") == b"second"
            assert await fork.read("f") == await StoreDriver(past).read("f") == b"first"
        await fork.write("f", b"of the fork")
        assert (await fork.read("f"), await fs.read("f")) == (b"of the fork", b"second")
        await past.aclose()
        await fork.aclose()


@pytest.mark.spec("READ-1", "VOL-5")
async def test_a_path_of_which_nothing_is_known_is_found_as_it_was_at_each_version(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("a/b/f", b"first", parents=True)
        first = (await fs.stat("a/b/f")).version
        await fs.remove("a/b/f")
        await fs.write("a/b/f", b"second")
        second = (await fs.stat("a/b/f")).version
        await fs.remove("a/b/f")
    for version, held in ((first, b"first"), (second, b"second"), (None, None)):
        async with opened(tmp_path / "v.db") as fs:
            store = fs.store if version is None else await fs.store.versions.as_of(version)
            if held is not None:
                assert await StoreDriver(store).read("a/b/f") == held
                await store.aclose()
            else:
                with pytest.raises(PathNotFound):
                    await fs.read("a/b/f")


@pytest.mark.spec("READ-1", "VOL-4")
async def test_of_all_that_a_fork_stands_on_the_nearest_that_knows_a_name_decides(tmp_path):
    """Each fork is looked at with nothing remembered, name by name."""
    names = ("kept", "hidden", "again", "changed", "mode", "left", "new", "later", "far/f")
    async with opened(tmp_path / "v.db") as main:
        for name in names[:6]:
            await main.write(f"d/{name}", b"main", parents=True)
        await main.write("d/far/f", b"main", parents=True)
        one = StoreDriver(await main.store.versions.fork("one"))
        for name in ("hidden", "again"):
            await one.remove(f"d/{name}")
        await one.write("d/changed", b"one")
        await one.write("d/new", b"one")
        await one.move("d/left", "d/arrived")
        two = StoreDriver(await one.store.versions.fork("two"))
        await two.write("d/again", b"two")
        await two.set_mode("d/mode", 0o640)
        await two.remove("d/far", recursive=True)
        await two.make_dir("d/far")
        for where in (main, one):  # after what was forked from it: seen by none above
            await where.write("d/later", b"later")
            await where.write("d/kept", b"later")
        for fork in (two, one):
            await fork.aclose()
    gone = None
    expected = {
        "one": [b"later", gone, gone, b"one", b"main", gone, b"one", b"later", b"main"],
        "two": [b"main", gone, b"two", b"one", b"main", gone, b"one", gone, gone],
    }
    for fork, held in expected.items():
        for name, data in zip(names, held, strict=True):
            async with opened(tmp_path / "v.db") as fs:
                store = await fs.store.versions.open_fork(fork)
                seen = StoreDriver(store)
                await seen.stat(".")  # comes to know how far the volume is
                if data is None:
                    with pytest.raises(PathNotFound):
                        await seen.read(f"d/{name}")
                else:
                    assert await seen.read(f"d/{name}") == data, (fork, name)
                if name == "mode":
                    found = await seen.stat("d/mode")
                    assert (found.mode & 0o777 == 0o640) == (fork == "two")
                await store.aclose()
