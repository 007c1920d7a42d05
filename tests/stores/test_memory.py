"""What only the store in memory does; all else is in the contract."""

import asyncio
import itertools

import pytest

from bailiwick.errors import (
    Closed,
    InternalError,
    NotADirectory,
    PathNotFound,
    SymlinkEscape,
    TooManyLinks,
)
from bailiwick.limits import Limits
from bailiwick.nodes import ROOT_ID
from bailiwick.paths import ROOT, ScopedPath, parse
from bailiwick.store import Store, WritePlan
from bailiwick.stores.memory import MemoryStore
from bailiwick.testing.driver import StoreDriver


def at(text):
    return parse(text).path


def test_it_is_a_store_and_says_so():
    store = MemoryStore()
    assert isinstance(store, Store)
    assert store.description == {"kind": "memory", "symlinks": "in-root", "durability": "none"}
    assert store.powers == {"Stages", "Narrows"}


async def test_times_come_from_the_clock_it_was_given():
    clock = itertools.count(1_000)
    fs = StoreDriver(MemoryStore(clock_ns=lambda: next(clock)))
    await fs.write("f", b"one")
    first = await fs.stat("f")
    await fs.write("f", b"two")
    second = await fs.stat("f")
    assert 1_000 <= first.mtime_ns < second.mtime_ns


@pytest.mark.spec("DISK-5")
@pytest.mark.parametrize(
    ("setting", "file_mode", "directory_mode"),
    [("private", 0o600, 0o700), ("umask", 0o644, 0o755), (0o640, 0o640, 0o750), (0, 0, 0o700)],
)
async def test_new_modes_are_a_setting(setting, file_mode, directory_mode):
    fs = StoreDriver(MemoryStore(new_file_mode=setting))
    await fs.write("d/f", b"x", parents=True)
    assert (await fs.stat("d/f")).mode == file_mode
    assert (await fs.stat("d")).mode == directory_mode


@pytest.mark.spec("LINK-2")
async def test_the_number_of_hops_is_a_limit():
    fs = StoreDriver(MemoryStore(limits=Limits(link_hops_max=1)))
    await fs.write("f", b"x")
    await fs.symlink("one", "f")
    await fs.symlink("two", "one")
    assert await fs.read("one") == b"x"
    with pytest.raises(TooManyLinks):
        await fs.read("two")


@pytest.mark.spec("READ-1")
async def test_streams_come_in_chunks_of_the_limit():
    fs = StoreDriver(MemoryStore(limits=Limits(stream_chunk_bytes=4)))
    await fs.write("f", b"0123456789")
    assert [chunk async for chunk in fs.stream("f", 1)] == [b"1234", b"5678", b"9"]


@pytest.mark.spec("LIFE-1")
async def test_reading_a_stream_can_be_cancelled_between_chunks():
    fs = StoreDriver(MemoryStore(limits=Limits(stream_chunk_bytes=1)))
    await fs.write("f", b"x" * 1_000)
    seen = 0

    async def read_all():
        nonlocal seen
        async for _ in fs.stream("f"):
            seen += 1

    task = asyncio.create_task(read_all())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert 0 < seen < 1_000


@pytest.mark.spec("LINK-1")
async def test_links_can_be_rejected_later():
    store = MemoryStore()
    fs = StoreDriver(store)
    await fs.symlink("l", "..")
    store.symlinks = "reject"
    with pytest.raises(SymlinkEscape):
        await fs.read("l")
    assert store.description["symlinks"] == "reject"


@pytest.mark.spec("LINK-2")
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("/../x", SymlinkEscape),
        ("/", None),
        ("/d/..", None),
        ("d/../..", SymlinkEscape),
        ("d/../../d", SymlinkEscape),
        ("missing/../..", PathNotFound),
        ("f/..", NotADirectory),
        ("f/.", NotADirectory),
        ("f/", NotADirectory),
        ("d//./", None),
    ],
)
async def test_link_texts_are_followed_step_by_step(text, kind):
    fs = StoreDriver(MemoryStore())
    await fs.make_dir("d")
    await fs.write("f", b"x")
    await fs.symlink("l", text)
    if kind is None:
        assert (await fs.stat("l")).type == "directory"
    else:
        with pytest.raises(kind):
            await fs.stat("l")


async def test_a_handle_of_another_store_is_a_fault():
    one, other = MemoryStore(), MemoryStore()
    handle = await one.resolve(ROOT, "object")
    with pytest.raises(InternalError):
        await other.stat(handle)


async def test_a_change_by_an_object_is_a_fault():
    """A changing verb acts on a parent and a name: an object has lost both on a real disk."""
    store = MemoryStore()
    await StoreDriver(store).write("f", b"x")
    held = await store.resolve(at("f"), "object")
    for call in (
        store.remove(held, recursive=False),
        store.append(held, b"y", WritePlan()),
        store.symlink(held, "g"),
    ):
        with pytest.raises(InternalError):
            await call


@pytest.mark.spec("READ-6")
async def test_a_file_is_never_written_in_place():
    store = MemoryStore()
    fs = StoreDriver(store)
    await fs.write("f", b"old")
    held = await store.resolve(at("f"), "object")
    before = await store.stat(held)
    await fs.append("f", b"er")
    await fs.truncate("f", 1)
    assert await store.stat(held) == before
    assert (await store.read(held, 0, 9)).data == b"old"


async def test_a_removed_tree_is_taken_apart_for_those_who_hold_it():
    store = MemoryStore()
    fs = StoreDriver(store)
    await fs.write("d/e/f", b"x", parents=True)
    held = [await store.resolve(at(text), "object") for text in ("d", "d/e")]
    file = await store.resolve(at("d/e/f"), "object")
    assert await fs.remove("d", recursive=True) == 3
    for directory in held:
        with pytest.raises(PathNotFound):
            await store.children(directory)
        with pytest.raises(PathNotFound):
            await store.descend(directory, "f")
    assert (await store.read(file, 0, 9)).data == b"x"


async def test_versions_are_never_used_again():
    fs = StoreDriver(MemoryStore())
    seen = set()
    for content in (b"one", b"two", b"one", b"one"):
        seen.add((await fs.write("f", content)).version)
    await fs.remove("f")
    seen.add((await fs.write("f", b"one")).version)
    assert len(seen) == 5


@pytest.mark.spec("LIFE-2")
async def test_closing_lets_go_of_the_content():
    store = MemoryStore()
    await StoreDriver(store).write("f", b"x")
    await store.aclose()
    with pytest.raises(Closed):
        await store.resolve(ScopedPath("f"), "object")
    assert not any(await store.list_nodes(ROOT_ID))


@pytest.mark.spec("LIFE-2")
async def test_closing_ends_an_upload_that_has_no_end():
    store = MemoryStore()
    given = 0

    async def endless():
        nonlocal given
        while True:
            given += 1
            if given == 3:
                await store.aclose()
            assert given < 10
            yield b"x"

    with pytest.raises(Closed):
        await StoreDriver(store).write_stream("f", endless())


@pytest.mark.spec("TREE-2")
async def test_what_is_written_over_keeps_the_time_it_was_made():
    times = itertools.count(1)
    fs = StoreDriver(MemoryStore(clock_ns=lambda: next(times)))
    await fs.write("f", b"1")
    made = (await fs.stat("f")).created_ns
    await fs.write("f", b"22")
    await fs.move("f", "g")
    stat = await fs.stat("g")
    assert stat.created_ns == made < stat.mtime_ns
    await fs.copy("g", "h")
    assert (await fs.stat("h")).created_ns > made  # a copy is another file
    await fs.aclose()
