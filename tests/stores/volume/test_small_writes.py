"""The usual write in one piece leaves what it would leave in steps, and is left where it is not
usual."""

import asyncio
import contextlib
import hashlib
import itertools
import sys

import apsw
import hypothesis
import pytest
from hypothesis import strategies as st

from bailiwick.errors import BailiwickError, Closed, HashMismatch, IoError, LockHeld
from bailiwick.paths import ScopedPath
from bailiwick.store import WritePlan
from bailiwick.stores.volume import VolumeStore
from bailiwick.stores.volume.content.small_writes import SmallWrite
from bailiwick.stores.volume.rows import sqlite_file
from bailiwick.stores.volume.uptime import Uptime
from bailiwick.testing.driver import StoreDriver
from bailiwick.versions import Mark
from tests.stores.volume.volumes import by, in_database, opened

PATHS = ("f", "d/f", "d/e/f", "link/f", "d/link")


@pytest.fixture
def in_memory(monkeypatch):
    """Files are taken for such that no disk has to be waited for."""
    monkeypatch.setattr(sqlite_file, "_is_in_memory", lambda device: True)


@pytest.fixture
def taken(monkeypatch):
    """Whether each small write was done in one piece."""
    seen, real = [], SmallWrite.in_one_piece

    def noting(self, turn, looked):
        written = real(self, turn, looked)
        seen.append(written is not None)
        return written

    monkeypatch.setattr(SmallWrite, "in_one_piece", noting)
    return seen


def hashed(data):
    return hashlib.sha256(data).hexdigest()


# --- the same rows -------------------------------------------------------------------------------

plans = st.builds(
    dict,
    mode=st.sampled_from(["overwrite", "overwrite", "overwrite", "replace", "create"]),
    file_mode=st.sampled_from([None, None, 0o640, 0o7777]),
    size_max=st.sampled_from([10_000, 10_000, 10_000, 2]),
    expected_sha256=st.sampled_from([None, None, None, hashed(b"a"), hashed(b"")]),
    expected_version=st.sampled_from([None, None, None, None, "7"]),
    parents=st.booleans(),
)
marks = st.builds(
    dict,
    subject=st.sampled_from(["", "user:a"]),
    request_id=st.sampled_from(["", "r-1", "r-2"]),
    note=st.sampled_from([None, b"", b"note"]),
)
paths = st.sampled_from(["f", "d/e/f", *PATHS])
contents = st.sampled_from([b"", b"a", b"abc", b"x" * 8_192, b"x" * 8_193])
writes = st.tuples(st.just("write"), paths, contents, plans, marks)
steps = st.one_of(
    writes, writes, writes, writes,
    st.tuples(st.just("remove"), st.sampled_from(["f", "d/f", "d/e", "d", "link"])),
    st.tuples(st.just("move"), st.sampled_from(["d", "d/e", "f"]), st.sampled_from(["m", "d/m"])),
    st.tuples(st.just("make"), st.sampled_from(["d", "d/e"])),
    st.tuples(st.just("link"), st.sampled_from(["link", "d/link"])),
    st.tuples(st.just("lock"), paths),
    st.tuples(st.just("hold"), paths),
    st.tuples(st.just("stale"), contents),
)  # fmt: skip


NO_MARK = {"subject": "", "request_id": "", "note": None}


def over(path="d/e/f", **plan):
    """A write, over a file that stands if nothing else is said, with this plan."""
    usual = {"mode": "overwrite", "size_max": 10_000, "parents": False}
    return ("write", path, b"abc", usual | plan, NO_MARK)


class Player:
    """Plays steps on a volume of its own, with a clock of its own; in steps only where asked.

    The clock goes on with each step and not with each look at it: how often it is looked at in the
    background is nobody's to say.
    """

    def __init__(self, path, *, in_steps):
        self.now_ns = 1_700_000_000_000_000_000
        uptime = Uptime("boot", lambda: 0)
        self.store = VolumeStore.open(str(path), clock_ns=lambda: self.now_ns, uptime=uptime)
        self.in_steps = in_steps
        self.held = None

    async def play(self, steps, *, in_fork):
        driver = StoreDriver(self.store)
        await driver.write("d/e/f", b"first", parents=True)
        await driver.write("f", b"first")
        if in_fork:
            driver = StoreDriver(await self.store.versions.fork("work"))
        try:
            return [await self._outcome(driver, *step) for step in steps]
        finally:
            if self.held is not None:
                self.held.close()
            if in_fork:
                await driver.aclose()

    async def _outcome(self, driver, verb, *arguments):
        self.now_ns += 1
        try:
            return await getattr(self, verb)(driver, *arguments)
        except BailiwickError as error:
            return type(error), str(error), error.details

    async def write(self, driver, path, data, plan, mark):
        store = driver.store.marked(Mark(**mark))
        handle = await store.resolve(ScopedPath(path), "entry", parents=plan["parents"])
        try:
            return await self._write(store, handle, data, WritePlan(**plan))
        finally:
            handle.close()

    async def _write(self, store, handle, data, plan):
        real = SmallWrite.in_one_piece
        if self.in_steps:
            SmallWrite.in_one_piece = lambda *_: None
        try:
            return await store.write(handle, data, hashed(data), plan)
        finally:
            SmallWrite.in_one_piece = real

    async def remove(self, driver, path):
        return await driver.remove(path, recursive=True)

    async def move(self, driver, path, to):
        return await driver.move(path, to)

    async def make(self, driver, path):
        return await driver.make_dir(path)

    async def link(self, driver, path):
        return await driver.symlink(path, "d")

    async def lock(self, driver, path):
        store = driver.store.marked(Mark(subject="user:b"))
        handle = await store.resolve(ScopedPath(path), "entry")
        try:
            return await store.versions.lock(handle, 60)
        finally:
            handle.close()

    async def hold(self, driver, path):
        """Find a place now, to write there later, whatever has become of it."""
        found = await driver.store.resolve(ScopedPath(path), "entry")
        if self.held is not None:
            self.held.close()
        self.held = found

    async def stale(self, driver, data):
        if self.held is not None:
            return await self._write(driver.store, self.held, data, WritePlan())
        return None

    async def rows(self):
        async def job(turn):
            tables = ("inode", "dentry", "change", "fallen", "upload", "lease")
            found = {table: await turn.session.rows(f"SELECT * FROM {table}") for table in tables}
            found["volume"] = await turn.session.rows("SELECT last, horizon, locks FROM volume")
            return found

        return await self.store.core.database.write(job)


@pytest.mark.spec("VOL-2", "VOL-12", "AUDIT-3")
@pytest.mark.parametrize("in_fork", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("on_disk", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_both_ways_leave_the_same_rows_and_say_the_same(
    tmp_path_factory, monkeypatch, in_fork, on_disk
):
    monkeypatch.setattr(sqlite_file, "_is_in_memory", lambda device: not on_disk)

    @hypothesis.settings(max_examples=20, deadline=None)
    @hypothesis.given(st.lists(steps, min_size=1, max_size=12))
    @hypothesis.example([over(file_mode=0o7777), over(mode="replace")])
    @hypothesis.example([over(mode="create"), over(size_max=2)])
    @hypothesis.example([over("d/f", mode="replace"), over("d/f", mode="create"), over("d/f")])
    @hypothesis.example([over("d/f", file_mode=0o7777), ("remove", "d/f"), over("d/f")])
    @hypothesis.example([over(expected_version="7"), over(expected_sha256=hashed(b"a"))])
    @hypothesis.example([("hold", "d/e/f"), ("remove", "d"), ("stale", b"abc")])
    @hypothesis.example([("lock", "d/e/f"), over()])
    def check(steps):
        async def both():
            place, seen = tmp_path_factory.mktemp("ways"), []
            for in_steps in (False, True):
                player = Player(place / f"{in_steps}.db", in_steps=in_steps)
                async with contextlib.aclosing(player.store):
                    said = await player.play(steps, in_fork=in_fork)
                    assert (await player.store.versions.check()).problems == []
                    seen.append((said, await player.rows()))
            assert seen[0] == seen[1]

        asyncio.run(both())

    check()


# --- which of them are usual ---------------------------------------------------------------------


@pytest.mark.spec("VOL-2")
async def test_what_is_usual_and_what_is_not(tmp_path, in_memory, taken):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("d/f", b"made", parents=True)
        await fs.symlink("link", "d")
        taken.clear()
        await fs.write("d/f", b"over")
        await fs.write("link/f", b"over by a link above it")
        await fs.write("d/f", b"with a mode", file_mode=0o640)
        await fs.write("d/new", b"new")
        await fs.write("d/newer", b"newer", mode="create")
        fork = StoreDriver(await fs.store.versions.fork("work"))
        assert taken == [True] * 5
        taken.clear()
        await fork.write("d/f", b"looked up for the first time")
        await fork.write("d/f", b"over in a fork")
        await fork.write("d/other", b"may hide another")
        assert taken == [True, True, False]
        await fork.aclose()
        taken.clear()
        await fs.write("d/f", b"expected", expected_sha256=hashed(b"with a mode"))
        assert taken == [True]
        taken.clear()
        with pytest.raises(HashMismatch):
            await fs.write("d/newest", b"expected", expected_sha256=hashed(b"with a mode"))
        await fs.write("made/f", b"in a new directory", parents=True)
        handle = await fs.store.resolve(ScopedPath("other"), "entry")
        lease = await fs.store.versions.lock(handle, 60)
        handle.close()
        await fs.write("d/f", b"while something else is locked")
        assert taken == [False, False, False]
        await fs.store.versions.release(lease)
        await fs.write("d/f", b"in the end")
        assert taken[3:] == [True]


@pytest.mark.spec("VOL-6")
async def test_nothing_is_written_in_a_branch_that_was_deleted(tmp_path, in_memory, taken):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("f", b"first")
        fork = StoreDriver(await fs.store.versions.fork("work"))
        await fork.write("f", b"second")
        handle = await fork.store.resolve(ScopedPath("f"), "entry")
        taken.clear()
        await fork.store.write(handle, b"third", hashed(b"third"), WritePlan())
        await fs.store.versions.delete_fork("work")
        with pytest.raises(Closed):
            await fork.store.write(handle, b"fourth", hashed(b"fourth"), WritePlan())
        assert taken == [True]
        handle.close()
        await fork.aclose()


@pytest.mark.spec("VOL-7")
async def test_a_lease_holds_up_a_usual_write(tmp_path, in_memory):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("d/f", b"first", parents=True)
        await fs.write("d/f", b"second")
        handle = await fs.store.resolve(ScopedPath("d"), "entry")
        await by(fs, Mark(subject="user:a")).store.versions.lock(handle, 60)
        handle.close()
        with pytest.raises(LockHeld):
            await fs.write("d/f", b"third")
        assert await fs.read("d/f") == b"second"


# --- other processes ----------------------------------------------------------------------------

ELSEWHERE = """
import asyncio, sys
from bailiwick.stores.volume import VolumeStore
from bailiwick.testing.driver import StoreDriver

async def main():
    fs = StoreDriver(VolumeStore.open(sys.argv[1]))
    await fs.write("d/f", b"of another process", file_mode=0o640)
    await fs.move("d/gone", "kept")
    await fs.aclose()

asyncio.run(main())
"""


@pytest.mark.spec("VOL-6", "VOL-12")
async def test_what_another_process_changed_is_written_over(tmp_path, in_memory, taken):
    async with opened(tmp_path / "v.db") as fs:
        for name in ("d/f", "d/gone"):
            await fs.write(name, b"first", parents=True)
            await fs.write(name, b"second")
        held = await fs.store.resolve(ScopedPath("d/gone"), "entry")
        changing = await asyncio.create_subprocess_exec(
            sys.executable, "-c", ELSEWHERE, str(tmp_path / "v.db")
        )
        assert await changing.wait() == 0
        taken.clear()
        written = await fs.write("d/f", b"third")
        assert (written.file_mode, written.size_before) == (0o640, 18)
        assert (await fs.store.write(held, b"new", hashed(b"new"), WritePlan())).created
        held.close()
        assert taken == [True, True]
        assert await fs.read("kept") == b"second"
        assert (await fs.store.versions.check()).problems == []


# --- faults --------------------------------------------------------------------------------------


@pytest.mark.spec("VOL-2", "ERR-3")
@pytest.mark.parametrize(
    ("path", "statement"),
    [
        ("d/f", "INSERT INTO inode"), ("d/f", "INSERT INTO change"), ("d/f", "UPDATE volume"),
        ("d/new", "INSERT INTO dentry"), ("d/new", "UPDATE inode"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("on_disk", [False, True])
async def test_a_write_that_fails_halfway_never_was(
    tmp_path, monkeypatch, path, statement, on_disk
):
    monkeypatch.setattr(sqlite_file, "_is_in_memory", lambda device: not on_disk)
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("d/f", b"first", parents=True)
        before = (await fs.write("d/f", b"second")).version
        session = fs.store.core.database.file.frame.turn(1).session
        real = session.run_raw

        def failing(sql, values):
            if statement in sql:
                raise apsw.FullError("no space left")
            return real(sql, values)

        session.run_raw = failing
        for _ in range(2):
            with pytest.raises(IoError):
                await fs.write(path, b"third")
        session.run_raw = real
        assert [each.name for each in await fs.entries("d")] == ["f"]
        assert await fs.read("d/f") == b"second"
        assert (await fs.stat("d/f")).version == before
        assert await in_database(fs, "SELECT count(*) FROM change WHERE verb = 'write'") == 2
        await fs.write(path, b"fourth")
        assert await fs.read(path) == b"fourth"
        assert (await fs.store.versions.check()).problems == []


@pytest.mark.spec("VOL-2", "LIFE-1")
async def test_writes_that_share_a_commit_fail_alone(tmp_path, monkeypatch, taken):
    async with opened(tmp_path / "v.db") as fs:
        for number in range(8):
            await fs.write(f"d/{number}", b"first", parents=True)
        session = fs.store.core.database.file.frame.turn(1).session
        real = session.run_raw

        def failing(sql, values):
            if "INSERT INTO change" in sql and b"bad" in values:
                raise apsw.FullError("no space left")
            return real(sql, values)

        session.run_raw = failing
        note = itertools.cycle([b"good", b"bad"])
        results = await asyncio.gather(
            *(by(fs, Mark(note=next(note))).write(f"d/{n}", b"second") for n in range(8)),
            return_exceptions=True,
        )
        session.run_raw = real
        assert [isinstance(each, IoError) for each in results] == [False, True] * 4
        contents = [await fs.read(f"d/{number}") for number in range(8)]
        assert contents == [b"second", b"first"] * 4
        assert (await fs.store.versions.check()).problems == []
