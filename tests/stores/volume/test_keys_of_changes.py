"""A change is made once under a key, and known again by it."""

import asyncio
import secrets
from contextlib import closing

import pytest

from bailiwick.errors import BailiwickError, FileAlreadyExists, IoError, LockHeld, PathNotFound
from bailiwick.paths import ScopedPath
from bailiwick.testing.driver import StoreDriver
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


async def test_what_is_no_change_of_the_tree_is_made_once_as_well(tmp_path):
    """Whoever comes again, and to whichever process, is told what the first was told."""
    async with opened(tmp_path / "v.db") as fs, opened(tmp_path / "v.db") as other:
        await fs.write("f", b"x")

        async def lock(at, key):
            marked = under(at, key)
            with closing(await marked.store.resolve(ScopedPath("f"), "entry")) as entry:
                return await marked.store.versions.lock(entry, 60.0)

        async def fork(at, key):
            branch = await under(at, key).store.versions.fork("line")
            await branch.aclose()
            return branch.core.view.branch

        for verb in (
            lock, fork,
            lambda at, key: under(at, key).store.versions.snapshot("kept"),
            lambda at, key: under(at, key).store.versions.delete_snapshot("kept"),
            lambda at, key: under(at, key).store.versions.delete_fork("line"),
        ):  # fmt: skip
            key = secrets.token_bytes(32)
            first = await verb(fs, key)
            last = await fs.store.core.database.last()
            assert [await verb(at, key) for at in (fs, other, other)] == [first] * 3
            with pytest.raises((LockHeld, FileAlreadyExists, PathNotFound)):
                await verb(fs, secrets.token_bytes(32))
            assert await other.store.core.database.last() == last
        checked = await fs.store.versions.check()
        assert checked.is_clean, checked.problems


async def test_a_lock_that_has_gone_is_not_taken_anew_for_who_asks_again(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("f", b"x")
        mine = under(fs)
        with closing(await mine.store.resolve(ScopedPath("f"), "entry")) as entry:
            lease = await mine.store.versions.lock(entry, 60.0)
            assert await mine.store.versions.release(lease)
            with pytest.raises(LockHeld) as refused:
                await mine.store.versions.lock(entry, 60.0)
            assert refused.value.details == {"stale": True}
        await fs.write("f", b"y")


async def test_branches_on_which_things_were_kept_and_locked_are_merged(tmp_path):
    """A version that touches nothing stands against nobody's."""
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("f", b"x")
        line = await fs.store.versions.fork("line")
        for store in (fs.store, line):
            mark = Mark(key=secrets.token_bytes(32))
            await store.marked(mark).versions.snapshot(f"of_{await store.versions.branch()}")
        await StoreDriver(line).write("g", b"y")
        assert [each.path for each in await fs.store.versions.compare("line")] == ["g"]
        await line.aclose()
        await fs.store.versions.merge("line")
        assert await fs.read("g") == b"y"
        checked = await fs.store.versions.check()
        assert checked.is_clean, checked.problems
