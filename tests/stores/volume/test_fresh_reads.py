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
