"""Where a durable change is made: in a thread, until the disk has shown that it is quick."""

import threading
import types

import pytest

from bailiwick.stores.disk import flush_pace, syscalls

pytestmark = pytest.mark.spec("DISK-4")

QUICK, SLOW = 0.000_01, 0.005


class Disk:
    """A disk that takes so long, by a clock of its own, and notes who waited for it."""

    def __init__(self, monkeypatch):
        self.takes_s = SLOW
        self.waited = []
        self._now = 0.0
        clock = types.SimpleNamespace(perf_counter=lambda: self._now)
        monkeypatch.setattr(flush_pace, "time", clock)
        monkeypatch.setattr(syscalls, "flush", self.flush)

    def flush(self, fd):
        self._now += self.takes_s
        self.waited.append(threading.current_thread() is threading.main_thread())

    def was_waited_for_here(self):
        """Whether the event loop stood still for the last change."""
        here, self.waited = set(self.waited), []
        assert len(here) == 1, "every durable change is flushed, in one place"
        return here == {True}


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


async def changes(fs):
    """One of each kind, on ever the same names."""
    yield await fs.write("new", b"1")
    yield await fs.write("new", b"2")
    yield await fs.write("new", b"3", mode="replace")
    yield await fs.move("new", "old")
    yield await fs.remove("old")


async def test_a_slow_disk_is_waited_for_in_a_thread(place, disk):
    fs = place.open(durability="full")
    for _ in range(3):
        async for _ in changes(fs):
            assert not disk.was_waited_for_here()


async def test_a_quick_disk_has_to_show_it_first(place, disk):
    fs = place.open(durability="full")
    disk.takes_s = QUICK
    here = []
    for _ in range(3):
        here += [disk.was_waited_for_here() async for _ in changes(fs)]
    assert here == [False] * 3 + [True] * 12


async def test_a_disk_that_becomes_slow_is_found_out_by_the_third(place, disk):
    fs = place.open(durability="full")
    disk.takes_s = QUICK
    async for _ in changes(fs):
        pass
    disk.waited.clear()
    disk.takes_s = SLOW
    here = []
    for _ in range(2):
        here += [disk.was_waited_for_here() async for _ in changes(fs)]
    assert here == [True] * 3 + [False] * 7


async def test_without_syncs_nothing_is_flushed(place, disk):
    fs = place.open(durability="rename")
    async for _ in changes(fs):
        assert disk.waited == []
