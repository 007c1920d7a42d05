"""The store that fails on purpose fails exactly as it was told, and counts honestly."""

import asyncio
import errno

import pytest

from bailiwick.errors import Busy, IoError
from bailiwick.paths import ROOT, ScopedPath
from bailiwick.store import Store
from bailiwick.stores.memory import MemoryStore
from bailiwick.testing import faults
from bailiwick.testing.driver import StoreDriver
from bailiwick.testing.faults import ANY, Fault, FaultyStore, at_every_call
from bailiwick.testing.store_contract import CASES, DIFFERENCES
from tests.waiting import loop_turns


def faulty(*plan):
    store = FaultyStore(MemoryStore(), plan)
    return store, StoreDriver(store)


@pytest.mark.spec("VOL-12")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_without_faults_it_keeps_the_contract_and_every_handle_is_closed(case):
    made = []

    async def make(*, symlinks, plant):
        inner = MemoryStore()
        store = FaultyStore(inner)
        made.append(store)
        if plant is not None:
            await plant(StoreDriver(store))
        inner.symlinks = symlinks
        return StoreDriver(store)

    if case.name not in DIFFERENCES["memory"]:
        await case.run(make)
        assert [store.open_handles for store in made] == [[]]


def test_it_is_a_store():
    assert isinstance(FaultyStore(MemoryStore()), Store)


async def test_a_fault_before_the_effect_leaves_nothing():
    store, fs = faulty(Fault("write", faults.raising(faults.disk_full())))
    with pytest.raises(IoError) as caught:
        await fs.write("f", b"x")
    assert caught.value.errno == errno.ENOSPC
    assert await fs.entries(".") == []
    assert [fault.verb for fault in store.fired] == ["write"]


async def test_a_fault_after_the_effect_leaves_it():
    _, fs = faulty(Fault("write", faults.raising(faults.device_fault()), when="after"))
    with pytest.raises(IoError):
        await fs.write("f", b"x")
    assert await fs.read("f") == b"x"


async def test_the_nth_call_is_counted_by_verb_or_over_all():
    _, fs = faulty(Fault("append", faults.raising(faults.busy()), nth=2))
    await fs.append("f", b"1")
    with pytest.raises(Busy):
        await fs.append("f", b"2")
    await fs.append("f", b"3")
    assert await fs.read("f") == b"13"
    store, fs = faulty(Fault(ANY, faults.raising(faults.too_many_open_files()), nth=3))
    await fs.write("f", b"x")
    with pytest.raises(IoError):
        await fs.read("f")
    assert store.calls == ["resolve", "write", "resolve"]


async def test_a_stream_can_be_short_or_broken():
    _, fs = faulty(Fault("stream", faults.ending(), chunks=1))
    data = b"x" * 1_000_000
    await fs.write("f", data)
    short = b"".join([chunk async for chunk in fs.stream("f")])
    assert 0 < len(short) < len(data)
    _, fs = faulty(Fault("stream", faults.raising(faults.device_fault()), chunks=2))
    await fs.write("f", data)
    stream = fs.stream("f")
    assert len(await anext(stream)) > 0
    assert len(await anext(stream)) > 0
    with pytest.raises(IoError):
        await anext(stream)


async def source(*chunks):
    for chunk in chunks:
        yield chunk


@pytest.mark.spec("WRITE-3")
async def test_a_written_stream_can_break_between_chunks():
    _, fs = faulty(Fault("write_stream", faults.raising(faults.disk_full()), chunks=1))
    with pytest.raises(IoError):
        await fs.write_stream("d/f", source(b"1", b"2"), parents=True)
    assert await fs.entries(".") == []


async def test_a_written_stream_can_be_cut_short():
    _, fs = faulty(Fault("write_stream", faults.ending(), chunks=1))
    await fs.write_stream("f", source(b"1", b"2"))
    assert await fs.read("f") == b"1"


@pytest.mark.spec("LIFE-1")
async def test_a_call_can_be_cancelled_from_within():
    _, fs = faulty(Fault("write", faults.cancelling()))
    task = asyncio.create_task(fs.write("f", b"x"))
    await asyncio.wait([task])
    assert task.cancelled()
    assert await fs.entries(".") == []


async def test_a_call_can_be_held():
    event = asyncio.Event()
    _, fs = faulty(Fault("write", faults.waiting(event)), Fault("read", faults.delaying(0.001)))
    task = asyncio.create_task(fs.write("f", b"x"))
    await loop_turns(20)
    assert not task.done()
    event.set()
    await task
    assert await fs.read("f") == b"x"


async def test_open_handles_are_counted():
    store, fs = faulty()
    await fs.write("f", b"x")
    held = await store.resolve(ScopedPath("f"), "object")
    root = await store.resolve(ROOT, "object")
    child = await store.descend(root, "f")
    assert sorted(store.open_handles) == [".", "f", "f"]
    for handle in (held, root, child):
        handle.close()
    assert store.open_handles == []


async def test_a_lookup_that_fails_after_its_effect_leaks_nothing():
    store, fs = faulty(Fault("resolve", faults.raising(faults.busy()), when="after"))
    with pytest.raises(Busy):
        await fs.entries(".")
    assert store.open_handles == []


async def test_every_call_of_an_operation_can_be_made_to_fail():
    seen = []

    async def make():
        return MemoryStore()

    async def act(store):
        fs = StoreDriver(store)
        await fs.write("a", b"x")
        await fs.move("a", "b")

    async def check(store):
        assert store.open_handles == []
        seen.append(sorted(entry.name for entry in await StoreDriver(store).entries(".")))

    # Two lookups and a write, then two lookups and a move: each before and after its effect.
    tried = await at_every_call(make, act, check, lambda: faults.raising(faults.busy()))
    assert tried == 10
    assert seen == [[], [], ["a"], ["a"], ["a"], [], ["a"], ["a"], ["a"], ["b"]]
    assert await at_every_call(make, act, check, faults.cancelling) == 10


async def test_a_fault_of_the_tested_code_is_not_swallowed():
    async def make():
        return MemoryStore()

    async def act(store):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await at_every_call(make, act, act, faults.cancelling)
