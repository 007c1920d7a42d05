"""A change is made once under a key, and known again by it."""

import asyncio

import pytest

from bailiwick.errors import BailiwickError, IoError
from bailiwick.versions import Mark
from tests.stores.volume.volumes import by, in_database, opened

pytestmark = [pytest.mark.spec("SCALE-3"), pytest.mark.both_engines(lean=True)]

KEY = b"k" * 32


def under(fs, key=KEY, **more):
    return by(fs, Mark(subject="user:ann", request_id="r", key=key, **more))


async def made(fs, key=KEY):
    return await fs.store.log.made_under(key)


async def test_what_was_made_under_a_key_is_told(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        assert await made(fs) is None
        await under(fs).write("d/f", b"one", parents=True)
        found = await made(fs)
        assert [(each.change.kind, each.change.path) for each in found] == [
            ("created", "d"), ("created", "d/f"),
        ]  # fmt: skip
        assert found[-1].written[:3] == (True, 3, found[-1].written.sha256)
        # Whatever came after it, and for other processes too.
        await fs.write("d/f", b"other")
        await fs.move("d", "e")
        async with opened(tmp_path / "v.db") as other:
            assert await made(other) == found
        assert await made(fs, b"another") is None


async def test_under_a_key_nothing_is_done_twice(tmp_path):
    async with opened(tmp_path / "v.db") as fs, opened(tmp_path / "v.db") as other:
        await fs.write("log", b"")
        await under(fs).append("log", b"x")
        with pytest.raises(BailiwickError):
            await under(other).append("log", b"x")
        with pytest.raises(BailiwickError):
            await under(fs).write("f", b"x")
        assert await fs.read("log") == await other.read("log") == b"x"
        assert [each.name for each in await fs.entries(".")] == ["log"]
        await under(fs, b"two").append("log", b"y")
        assert await other.read("log") == b"xy"


async def test_whoever_shares_a_turn_with_what_was_done_is_not_held_up(tmp_path):
    async with opened(tmp_path / "v.db") as fs, opened(tmp_path / "v.db") as other:
        await under(other).write("first", b"x")
        await fs.read("first")
        tried = [under(fs).write("again", b"x"), *(fs.write(f"f{n}", b"x") for n in range(8))]
        told = await asyncio.gather(*tried, return_exceptions=True)
        assert isinstance(told[0], BailiwickError)
        assert [each for each in told[1:] if isinstance(each, BaseException)] == []
        assert len(await other.entries(".")) == 9


async def test_a_key_that_was_damaged_is_found(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await under(fs, note=b"note").write("f", b"x")
        await in_database(fs, "UPDATE change SET key = $1 WHERE key = $2 RETURNING 1", b"o", KEY)
        problems = (await fs.store.versions.check()).problems
        assert any("log says of version" in str(each) for each in problems), problems


async def test_it_can_be_asked_again(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await under(fs).write("f", b"x")
        with pytest.raises(IoError) as refused:
            await under(fs).write("f", b"x")
        assert refused.value.retryable
