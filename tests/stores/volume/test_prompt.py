"""What is answered at once, without being awaited, is never of an earlier state."""

import asyncio
import sys

import pytest

from bailiwick.errors import Closed, ParseError, PathNotFound
from bailiwick.paths import parse
from bailiwick.store import Prompt
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


def now(store, path):
    """What a file holds, looked up and read without an await; None where it is not at hand."""
    handle = store.resolve_now(parse(path).path, "object", False, False)
    try:
        content = store.read_now(handle, 0, 1_000)
        return None if content is None else content.data
    finally:
        handle.close()


@pytest.mark.spec("READ-1", "VOL-6")
async def test_what_another_process_changed_is_seen_at_once(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        assert isinstance(fs.store, Prompt)
        await fs.write("d/f", b"first", parents=True)
        await fs.write("d/gone", b"first")
        assert (now(fs.store, "d/f"), now(fs.store, "d/gone")) == (b"first", b"first")
        changing = await asyncio.create_subprocess_exec(
            sys.executable, "-c", ELSEWHERE, str(tmp_path / "v.db")
        )
        assert await changing.wait() == 0
        assert now(fs.store, "d/f") == b"of another process"
        with pytest.raises(PathNotFound):
            now(fs.store, "d/gone")


@pytest.mark.spec("READ-1", "VOL-4", "VOL-5")
async def test_forks_and_earlier_versions_answer_for_themselves(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("f", b"first")
        version = (await fs.stat("f")).version
        fork = StoreDriver(await fs.store.versions.fork("work"))
        assert now(fork.store, "f") == b"first"
        await fs.write("f", b"second")
        past = await fs.store.versions.as_of(version)
        for _ in range(2):  # looked up, then remembered
            assert now(fs.store, "f") == b"second"
            assert now(fork.store, "f") == now(past, "f") == b"first"
        await fork.write("f", b"of the fork")
        assert (now(fork.store, "f"), now(fs.store, "f")) == (b"of the fork", b"second")
        await past.aclose()
        await fork.aclose()


@pytest.mark.spec("READ-1")
async def test_what_is_not_at_hand_is_left_to_be_awaited(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("large", b"x" * 9_000)
        await fs.symlink("link", "small")
        await fs.write("small", b"small")
        assert now(fs.store, "large") is None
        assert await fs.read("large") == b"x" * 9_000
        for _ in range(2):
            assert now(fs.store, "link") == b"small"
        handle = fs.store.resolve_now(parse("small").path, "entry", False, False)
        assert fs.store.read_now(handle, 0, 9) is None  # its name may be another's by now
        with pytest.raises(ParseError):
            fs.store.read_now(handle, -1, 9)
        handle.close()
        with pytest.raises(Closed):
            fs.store.read_now(handle, 0, 9)
