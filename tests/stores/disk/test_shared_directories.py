"""Who has a directory open is known to all who ask, and forgotten with whoever is gone."""

import os
import subprocess
import sys
from contextlib import closing

import pytest

from bailiwick.changes_made import OpenedAround
from bailiwick.paths import ScopedPath
from bailiwick.stores.disk import DiskStore, syscalls
from bailiwick.unfollowed import unfollowed

pytestmark = pytest.mark.spec("EXEC-8")

HOLDING = """
import asyncio, sys
from bailiwick.paths import ScopedPath
from bailiwick.stores.disk import DiskStore

async def main():
    store = DiskStore.open(sys.argv[1], state_dir=sys.argv[2])
    share = store.share_directory(await store.resolve(ScopedPath("d"), "entry"))
    share.join(0o311)
    print(share.others(), flush=True)
    sys.stdin.read()

asyncio.run(main())
"""


@pytest.fixture
def opened(tmp_path):
    (tmp_path / "root" / "d").mkdir(parents=True)
    (tmp_path / "root" / "f").write_text("")
    os.symlink("d", tmp_path / "root" / "l")
    return lambda: DiskStore.open(tmp_path / "root", state_dir=str(tmp_path / "state"))


async def share_in(store, path="d"):
    with closing(await unfollowed(store, ScopedPath(path))) as entry:
        return store.share_directory(entry)


async def test_each_knows_the_mode_that_others_tell(opened):
    one, two = opened(), opened()
    first, second = await share_in(one), await share_in(two)
    assert first.key == second.key
    assert (first.others(), second.others()) == (None, None)
    first.join(0o555)
    assert (first.others(), second.others()) == (None, 0o555)
    second.join(0)
    assert (first.others(), second.others()) == (0, 0o555)
    first.close()
    first.close()
    assert second.others() is None
    second.close()
    await one.aclose()
    await two.aclose()


async def test_one_has_a_turn_at_a_time(opened):
    store = opened()
    first, second = await share_in(store), await share_in(store)
    second.join(0o555)
    assert first.try_turn()
    assert not second.try_turn()
    first.end_turn()
    assert second.try_turn()
    first.close()
    second.close()
    await store.aclose()


async def test_who_is_killed_has_it_open_no_more(opened, tmp_path):
    store = opened()
    share = await share_in(store)
    words = [sys.executable, "-c", HOLDING, str(tmp_path / "root"), str(tmp_path / "state")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"None\n"
        assert share.others() == 0o311
        process.kill()
    assert share.others() is None
    share.close()
    await store.aclose()


async def test_what_a_child_inherited_holds_nothing(opened):
    """Between fork and exec it has all that is open."""
    store = opened()
    first, second = await share_in(store), await share_in(store)
    first.join(0o555)
    kept = os.dup(first._file.fd)
    first.close()
    assert second.others() is None
    os.close(kept)
    second.close()
    await store.aclose()


async def test_many_take_one_descriptor(opened, tmp_path):
    """A process may have 1,024 of them."""
    for number in range(20):
        (tmp_path / "root" / f"d{number}").mkdir(mode=0o555)
    store, shut = opened(), {ScopedPath(f"d{number}"): 0o555 for number in range(20)}
    others = [await share_in(store, path) for path in shut]
    around, before = OpenedAround(store), len(os.listdir("/proc/self/fd"))
    await around.open(shut)
    assert len(os.listdir("/proc/self/fd")) <= before + 1
    assert [each.others() for each in others] == [0o555] * 20
    await around.close({ScopedPath("d0"): 0o555})
    assert [each.others() for each in others] == [None] * 20
    for each in others:
        each.close()
    assert len(os.listdir("/proc/self/fd")) <= before
    await store.aclose()


async def test_to_let_go_of_one_keeps_those_beside_it(opened, tmp_path):
    (tmp_path / "root" / "e").mkdir()
    store = opened()
    one, other = await share_in(store, "d"), await share_in(store, "e")
    with closing(await unfollowed(store, ScopedPath("d"))) as entry:
        first = store.share_directory(entry)
    with closing(await unfollowed(store, ScopedPath("e"))) as entry:
        second = store.share_directory(entry, first)
    first.join(0o555)
    second.join(0o500)
    assert (first.others(), second.others()) == (None, None)
    first.close()
    first.close()
    assert (one.others(), other.others()) == (None, 0o500)
    second.close()
    assert other.others() is None
    one.close()
    other.close()
    await store.aclose()


async def test_nobody_shares_what_is_no_directory(opened):
    store = opened()
    assert await share_in(store, "f") is None
    assert await share_in(store, "l") is None
    await store.aclose()


async def test_without_such_locks_nobody_can_tell(opened, monkeypatch):
    monkeypatch.setattr(syscalls, "CAN_LOCK_BYTES", False)
    store = opened()
    assert await share_in(store) is None
    await store.aclose()


async def test_nobody_else_can_say_that_it_was_shut(opened, tmp_path):
    """A lock on the directory itself says nothing, and the file is the owner's alone."""
    store = opened()
    share = await share_in(store)
    assert share.others() is None
    assert share.try_turn()
    [file] = (tmp_path / "state").rglob("opened")
    assert file.stat().st_mode & 0o777 == 0o600
    directory = os.open(tmp_path / "root" / "d", os.O_RDONLY)
    syscalls.share_byte(directory, 0o555)
    syscalls.try_lock(directory)
    assert share.others() is None
    os.close(directory)
    share.close()
    await store.aclose()
