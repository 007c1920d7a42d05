"""Others who change the same directory meanwhile: with a history, and without one."""

import asyncio
import itertools
import subprocess
import sys
import threading

import pytest

from bailiwick.errors import BailiwickError, Closed, IoError, PathNotFound
from bailiwick.limits import Limits
from bailiwick.paths import ScopedPath
from bailiwick.store import Narrows, Nominates, Stages, Watches
from bailiwick.stores.history.auto_collection import HistoryAutoCollection
from bailiwick.stores.history.garbage import collect
from bailiwick.testing.faults import Fault, FaultyStore, disk_full, raising
from bailiwick.versions import Marks, Undoing
from tests.laws.citations import ROOT
from tests.stores.history.places import by, open_place, opened
from tests.stores.history.test_undo import everything
from tests.waiting import until

pytestmark = pytest.mark.spec("DISK-8")

APPENDING = """
import asyncio, sys
from pathlib import Path
from tests.stores.history.places import by, open_place
from bailiwick.testing.driver import StoreDriver

async def main(place, name):
    fs = StoreDriver(open_place(Path(place)))
    for number in range(15):
        line = f"{name}{number}\\n".encode()
        await by(fs, f"agent:{name}", f"{name}-{number}").append("log", line)
        await by(fs, f"agent:{name}", f"own-{name}").write(f"own-{name}", str(number).encode())
    await fs.aclose()

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


@pytest.mark.slow
async def test_processes_that_share_a_history(tmp_path):
    names = ("a", "b", "c")
    (tmp_path / "tree").mkdir()
    (tmp_path / "state").mkdir()
    running = [
        subprocess.Popen([sys.executable, "-c", APPENDING, str(tmp_path), name], cwd=ROOT)
        for name in names
    ]
    assert [process.wait(timeout=120) for process in running] == [0, 0, 0]
    async with opened(tmp_path) as fs:
        log = (tmp_path / "tree/log").read_text().splitlines()
        assert sorted(log) == sorted(f"{name}{number}" for name in names for number in range(15))
        told = (await fs.store.versions.history(ScopedPath("log"), limit=1000)).versions
        # Every change is there once, each on what the one before it left: nothing is foreign.
        assert len(told) == len(log)
        assert all(each.subject for each in told)
        assert [each.size for each in told] == sorted((each.size for each in told), reverse=True)
        done = await fs.store.versions.undo(Undoing(request_id="own-b"))
        assert done.plan.conflicts == ()
        assert sorted(everything(tmp_path / "tree")) == ["log", "own-a", "own-c"]


async def test_a_foreign_writer_is_never_lost(tmp_path):
    """Whatever another program writes between two of our changes is in the history."""
    tree = tmp_path / "tree"
    path, stop, written = tree / "a", threading.Event(), set()
    async with opened(tmp_path) as fs:
        path.write_bytes(b"foreign-0")

        def write_on():
            for number in itertools.count(1):
                if stop.is_set() or number > 5_000:
                    return
                staged = tree / "staged"
                staged.write_bytes(f"foreign-{number}".encode())
                staged.rename(path)
                written.add(number)
                stop.wait(0.001)

        other = threading.Thread(target=write_on)
        other.start()
        try:
            for number in range(60):
                await by(fs, "agent:run", f"r{number}").write("a", f"ours-{number}".encode())
        finally:
            stop.set()
            other.join()
        told = (await fs.store.versions.history(ScopedPath("a"), limit=1000)).versions
        foreign = [each for each in told if not each.subject]
        assert len(foreign) > 1
        assert len([each for each in told if each.subject]) == 60
        # What each of our changes replaced can be read, and is what one of the two has written.
        for each in foreign:
            past = await fs.store.versions.as_of(each.version)
            handle = await past.resolve(ScopedPath("a"), "object")
            content = (await past.read(handle, 0, 100)).data
            assert content.startswith(b"foreign-"), content


async def test_parallel_changes_in_one_process(tmp_path):
    async with opened(tmp_path) as fs:
        agents = [by(fs, "agent:run", f"r{number}") for number in range(40)]
        await asyncio.gather(
            *(each.append("log", b"x") for each in agents),
            *(each.write(f"d/{n}/f", b"x", parents=True) for n, each in enumerate(agents)),
        )
        assert (tmp_path / "tree/log").read_bytes() == b"x" * 40
        told = (await fs.store.versions.history(ScopedPath("log"))).versions
        assert [each.size for each in told] == list(range(40, 0, -1))
        for number in range(39, -1, -1):
            done = await fs.store.versions.undo(Undoing(request_id=f"r{number}"))
            assert [each for each in done.plan.conflicts if each.path != "log"] == []


async def test_nothing_is_changed_that_cannot_be_written_down(tmp_path):
    """The volume that keeps large content is full: the change fails before it is made."""
    tree = tmp_path / "tree"
    store = open_place(tmp_path)
    contents = store._core.contents
    try:
        (tree / "large").write_bytes(b"x" * 100_000)
        contents._keeper = FaultyStore(
            contents._keeper, [Fault("write_stream", raising(disk_full()))]
        )
        handle = await store.resolve(ScopedPath("large"), "entry")
        with pytest.raises(IoError):
            await store.remove(handle, recursive=False)
        handle.close()
        assert everything(tree) == {"large": b"x" * 100_000}
        assert store._core.ledger.entries("") == []
    finally:
        await store.aclose()


async def test_a_failed_change_is_settled_by_looking(tmp_path):
    """An error of the wrapped store after it has changed something: what stands there counts."""
    tree = tmp_path / "tree"
    store = open_place(tmp_path)
    inner = store._inner
    for when in ("before", "after"):
        (tree / "a").write_bytes(b"one")
        faulty = FaultyStore(inner, [Fault("remove", raising(disk_full()), when=when)])
        store._inner = faulty  # only the act itself goes through the fault
        try:
            handle = await inner.resolve(ScopedPath("a"), "entry")
            with pytest.raises((IoError, BailiwickError)):
                await store.remove(handle, recursive=False)
            handle.close()
        finally:
            store._inner = inner
        entries = store._core.ledger.entries("")
        assert (len(entries) == 1) == (when == "after") == (not (tree / "a").exists())
    await store.aclose()


async def test_retention_forgets_entries_and_content(tmp_path):
    tree = tmp_path / "tree"
    async with opened(tmp_path) as fs:
        for number in range(5):
            await by(fs, "agent:run", f"r{number}").write("a", bytes([number]) * 100_000)
        await fs.write("small", b"1")
        await fs.write("small", b"2")
        core = fs.store._core
        (newest, *older) = (await fs.store.versions.history(ScopedPath("a"))).versions
        assert await fs.store.versions.collect(keep_days=1) == (0, 0)
        collected = await collect(core, 0, spared_ns=-(10**12))
        assert collected.entries == 7
        assert collected.contents == len(
            {bytes([number]) * 100_000 for number in range(4)} | {b"1", b"2"}
        )
        assert core.ledger.rows("SELECT count(*) FROM content")[0][0] == 0
        assert everything(tree)["a"] == b"\x04" * 100_000
        info = await core.keeper.versions.info()
        assert (info.files, info.stored_bytes) == (0, 0)
        for version in (newest.version, older[0].version):
            with pytest.raises(PathNotFound):
                await fs.store.versions.as_of(version)
        with pytest.raises(PathNotFound):
            await fs.store.versions.undo(Undoing(request_id="r1"))
        # And it goes on from here: numbers are not given twice.
        await fs.write("a", b"again")
        found = (await fs.store.versions.history(ScopedPath("a"))).versions
        assert int(found[0].version) > int(newest.version)
        assert [each.size for each in found] == [5, 100_000]


async def test_it_forgets_by_itself(tmp_path):
    async with opened(tmp_path) as fs:
        await fs.write("a", b"1")
        keeping = HistoryAutoCollection(fs.store, 0.0, first_s=0.0, every_s=0.001)
        keeping.begin()
        await until(lambda: not fs.store._core.ledger.entries(""))
        await keeping.aclose()
        await keeping.aclose()
        assert fs.store._core.ledger.entries("") == []


async def test_powers_are_the_wrapped_stores_and_those_of_a_history(tmp_path):
    async with opened(tmp_path) as fs:
        store = fs.store
        wrapped = store._inner.powers
        assert store.powers == wrapped | {"Marks", "Remembers"}
        for power in (Nominates, Watches, Stages, Narrows, Marks):
            assert isinstance(store, power) == (power.__name__ in store.powers), power
        assert store.description["history"] == "on"
        # A look costs nothing more: it is the wrapped store's own.
        assert store.read == store._inner.read
        assert store.resolve == store._inner.resolve
        view = store.narrowed(symlinks="reject")
        assert view.shares_tree(store)
        await by(fs, "a", "r").write("x", b"1")
        narrowed = view.marked(by(fs, "b", "q").store._mark)
        handle = await narrowed.resolve(ScopedPath("x"), "entry")
        await narrowed.remove(handle, recursive=False)
        handle.close()
        assert [e.subject for e in (await view.versions.history(ScopedPath("x"))).versions] == [
            "b", "a",
        ]  # fmt: skip
        await view.aclose()
        with pytest.raises(Closed):
            await view.versions.history(ScopedPath("x"))
        await fs.write("y", b"still open")


async def test_large_content_is_not_read_again_while_it_stands(tmp_path):
    """An unchanged file is kept once, however often it is dressed, moved over and appended to."""
    async with opened(tmp_path, limits=Limits(history_bytes_max=250_000)) as fs:
        (tmp_path / "tree/a").write_bytes(b"x" * 100_000)
        for _ in range(3):
            await fs.write("a", b"y" * 100_000)
        (count,) = fs.store._core.ledger.rows("SELECT count(*) FROM content")[0]
        assert count == 2
