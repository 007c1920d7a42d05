"""Long looks, on connections beside the one of the event loop, which are kept for the next."""

import asyncio

import apsw
import pytest

from bailiwick.errors import InternalError, IoError
from tests.stores.volume.volumes import opened
from tests.waiting import loop_turns


def _numbers(connection):
    return connection.execute("SELECT last FROM volume").get


@pytest.mark.spec("VOL-4")
async def test_a_look_is_at_one_state_and_the_next_sees_what_came_since(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        file = fs.store.core.database.file
        with file.aside() as first:
            before = _numbers(first)
            await fs.write("a", b"1")
            assert _numbers(first) == before
            with file.aside() as second:
                assert second is not first
                assert _numbers(second) > before
        with file.aside() as again:
            assert again in (first, second)
            assert _numbers(again) > before


async def test_nothing_can_be_changed_in_a_look(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        file = fs.store.core.database.file
        with pytest.raises(IoError), file.aside() as connection:
            connection.execute("UPDATE volume SET last = 0")
        assert await fs.write("a", b"1")


async def test_a_connection_whose_look_failed_is_not_used_again(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        file = fs.store.core.database.file
        with pytest.raises(ValueError, match="given up"), file.aside() as failed:
            raise ValueError("given up")
        with pytest.raises(apsw.ConnectionClosedError):
            _numbers(failed)
        with file.aside() as other:
            assert _numbers(other)


async def test_a_look_that_outlives_the_store_leaves_nothing_open(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        file = fs.store.core.database.file
        late = file.aside()
        late_one = late.__enter__()
        with file.aside() as kept:
            pass
    with pytest.raises(apsw.ConnectionClosedError):
        _numbers(kept)
    assert _numbers(late_one)
    late.__exit__(None, None, None)
    with pytest.raises(apsw.ConnectionClosedError):
        _numbers(late_one)


@pytest.mark.spec("VOL-4")
async def test_a_short_look_is_by_the_connection_that_writes_where_nobody_uses_it(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        file = fs.store.core.database.file
        with file.at_hand() as first, file.at_hand() as second:
            before = _numbers(first)
            assert second.pragma("query_only"), "the other one is in use"
            writing = asyncio.ensure_future(fs.write("a", b"1"))
            await loop_turns(20)
            assert not writing.done(), "it waits until the look is over"
            assert _numbers(first) == _numbers(second) == before
        await writing
        with file.at_hand() as again:
            assert again is first
            assert _numbers(again) > before


async def test_a_short_look_that_fails_keeps_nobody_from_writing(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        file = fs.store.core.database.file
        with pytest.raises(ValueError, match="given up"), file.at_hand():
            raise ValueError("given up")
        with pytest.raises(InternalError), file.at_hand() as connection:
            connection.execute("SELECT no_such_column FROM volume")
        assert not connection.in_transaction
        assert await fs.write("a", b"1")
