"""Ten mistakes that designs like this one are known to make, each with the test that shows it."""

import asyncio
import os

import apsw
import pytest

from bailiwick.errors import ParseError, PathNotFound
from bailiwick.paths import ScopedPath
from bailiwick.store import WritePlan
from bailiwick.stores.volume.rows import sqlite_session
from bailiwick.stores.volume.rows.records import NOBODY, BoundName
from bailiwick.stores.volume.rows.schema import for_sqlite
from bailiwick.stores.volume.rows.tree import open_tree
from bailiwick.testing.contract import chunks
from bailiwick.testing.driver import StoreDriver
from bailiwick.versions import Undoing
from tests.stores.volume.trees import tree_of
from tests.stores.volume.volumes import in_database, opened


async def node_of(store, path):
    handle = await store.resolve(ScopedPath(path), "object")
    handle.close()
    return handle.inode.id


async def is_alive(store, node):
    core = store.core
    async with core.looking() as session:
        tree = await open_tree(session, core.view)
        return await tree.inode(node) is not None


@pytest.mark.spec("VOL-6")
async def test_1_a_name_and_a_node_are_hidden_apart(tmp_path):
    """Renaming over an inherited file in a fork must hide its node as well as give its name."""
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("x", b"x")
        await fs.write("y", b"y")
        fork = StoreDriver(await fs.store.versions.fork("work"))
        replaced = await node_of(fork.store, "y")
        await fork.move("x", "y", replace=True)
        assert not await is_alive(fork.store, replaced)
        assert await is_alive(fs.store, replaced)
        assert await tree_of(fork.store) == {"y": b"x"}
        await fork.aclose()


@pytest.mark.spec("VOL-6")
async def test_2_an_old_version_of_a_fork_shows_its_parent_no_later(tmp_path):
    """The bound of every ancestor is the least on the way to it: needs three levels to show."""
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("f", b"at the first fork")
        one = StoreDriver(await fs.store.versions.fork("one"))
        old = (await one.write("g", b"old")).version
        await fs.write("f", b"later, in main")
        await one.write("g", b"later, in one")
        two = StoreDriver(await one.store.versions.fork("two", version=old))
        await one.write("h", b"after the second fork")
        three = StoreDriver(await two.store.versions.fork("three"))
        for fork in (two, three):
            assert await tree_of(fork.store) == {"f": b"at the first fork", "g": b"old"}
        await two.write("g", b"in two")
        assert await three.read("g") == b"old"
        for fork in (one, two, three):
            await fork.aclose()


async def test_3_no_statement_is_planned_again_when_it_is_run(tmp_path):
    """SQLite replans statements with a range at every run, unless it is told to be stable."""
    async with opened(tmp_path / "v.db") as fs:
        database = fs.store.core.database
        for connection in (database.file._connection, database._connection):
            assert connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1) == 1


@pytest.mark.spec("VOL-5")
async def test_4_every_key_that_an_operation_touches_is_logged(tmp_path):
    """A rename over another file touches two names and a node: one row would not undo it."""
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("a", b"a")
        await fs.write("b", b"b")
        before = await tree_of(fs.store)
        await fs.move("a", "b", replace=True)
        version = await in_database(fs, "SELECT max(version) FROM change")
        logged = await in_database(fs, "SELECT count(*) FROM change WHERE version = $1", version)
        assert logged == 3
        await fs.store.versions.undo(Undoing(first=str(version), last=str(version)))
        assert await tree_of(fs.store) == before


@pytest.mark.spec("VOL-5")
async def test_5_what_is_restored_gets_a_new_id(tmp_path):
    """An id that died may still be bound in a directory that was removed, and a fork that revived
    it would stand on rows that its parent's gc takes away."""
    async with opened(tmp_path / "v.db") as fs:
        version = (await fs.write("f", chunks.pattern(10_000))).version
        await fs.make_dir("d")
        old = await node_of(fs.store, "f")
        await fs.move("f", "d/f")
        await fs.remove("d", recursive=True)
        await fs.store.versions.restore(ScopedPath("f"), version)
        assert await node_of(fs.store, "f") != old
        await fs.remove("f")
        fork = StoreDriver(await fs.store.versions.fork("work"))
        await fork.store.versions.restore(ScopedPath("f"), version)
        await fs.store.versions.collect(keep_days=0)
        assert await fork.read("f") == chunks.pattern(10_000)
        with pytest.raises(PathNotFound, match="no longer kept"):
            await fs.store.versions.undo(Undoing(first=version, last=version))
        assert (await fs.store.versions.check()).problems == []
        await fork.aclose()


@pytest.mark.spec("VOL-8", "TREE-4")
async def test_6_what_was_removed_with_its_directory_does_not_stay_for_ever(tmp_path):
    """One row removes a directory; without a second pass all rows beneath it would leak. In a fork
    an overwritten file has a node of the fork and a name of its parent."""
    async with opened(tmp_path / "v.db") as fs:
        for number in range(30):
            await fs.write(f"d/e{number % 3}/f{number}", b"x", parents=True)
        fork = StoreDriver(await fs.store.versions.fork("work"))
        await fork.write("d/e1/f1", b"overwritten")
        await fork.move("d/e2/f2", "saved")
        await fork.remove("d", recursive=True)
        for _ in range(2):
            await fork.store.versions.collect(keep_days=0)
        branch = fork.store.core.view.branch
        own = "SELECT count(*) FROM inode WHERE branch = $1 AND kind = 1"
        assert await in_database(fork, own, branch) == 0
        assert await tree_of(fork.store) == {"saved": b"x"}
        assert len(await tree_of(fs.store)) == 34
        await fork.aclose()
        await fs.store.versions.delete_fork("work")
        await fs.remove("d", recursive=True)
        for _ in range(2):
            await fs.store.versions.collect(keep_days=0)
        assert await in_database(fs, "SELECT count(*) FROM dentry") == 0
        assert await in_database(fs, "SELECT count(*) FROM inode") == 1


@pytest.mark.spec("VOL-3")
async def test_7_a_blob_is_synced_with_its_directory_before_a_row_names_it(tmp_path, monkeypatch):
    """The libraries that write blobs for others sync nothing at all."""
    done = []
    fsync, rename = os.fsync, os.rename

    def note(what, call):
        def noted(*arguments):
            done.append(what)
            return call(*arguments)

        return noted

    monkeypatch.setattr(os, "fsync", note("sync", fsync))
    monkeypatch.setattr(os, "rename", note("rename", rename))
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("f", b"small")
        await fs.write("f", chunks.pattern(100_000))
        assert done == []
        await fs.write("f", chunks.pattern(2_000_000))
    assert done[-3:] == ["sync", "rename", "sync"]


async def test_8_parameters_go_by_their_number(tmp_path):
    """SQLite takes ``$2`` for a name, and gives names their values in order of appearance."""
    connection = apsw.Connection(":memory:")
    sql = "SELECT $2, $1"
    assert connection.execute(sql, ("one", "two")).fetchall() == [("one", "two")]
    assert connection.execute(for_sqlite(sql), ("one", "two")).fetchall() == [("two", "one")]
    connection.close()


@pytest.mark.spec("VOL-4")
async def test_9_a_change_drops_what_it_touched_from_memory_and_nothing_else(tmp_path):
    """Forgetting everything at every commit leaves a cache that never hits."""
    async with opened(tmp_path / "v.db") as fs, opened(tmp_path / "v.db") as other:
        for number in range(50):
            await fs.write(f"d/f{number}", b"x", parents=True)
        for number in range(50):
            await other.read(f"d/f{number}")
        cache = other.store.core._cache
        names, inodes = len(cache.names), len(cache.inodes)
        await fs.write("d/f7", b"changed")
        await fs.write("elsewhere", b"")
        assert await other.read("d/f0") == b"x"
        assert len(cache.names) == names
        assert len(cache.inodes) >= inodes - 2
        assert await other.read("d/f7") == b"changed"


@pytest.mark.spec("VOL-4")
async def test_9_a_log_that_was_cut_drops_everything(tmp_path):
    """A reader that slept through a collection cannot know what it missed."""
    async with opened(tmp_path / "v.db") as fs, opened(tmp_path / "v.db") as other:
        await fs.write("f", b"old")
        assert await other.read("f") == b"old"
        await fs.write("f", b"new")
        await fs.store.versions.collect(keep_days=0)
        await in_database(fs, "DELETE FROM change")
        assert await other.read("f") == b"new"


@pytest.mark.spec("VOL-4")
async def test_10_no_reader_keeps_a_transaction_open(tmp_path):
    """One that does keeps the log from being cut: it grew by 14 MiB a second."""
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("f", chunks.pattern(3_000_000))
        await fs.write("g", b"x")
        connection = fs.store.core.database._connection
        stream = fs.stream("f")
        await anext(stream)
        handle = await fs.store.resolve(ScopedPath("g"), "object")
        then = await fs.store.versions.as_of((await fs.stat("g")).version)
        assert not connection.in_transaction
        await then.aclose()
        handle.close()
        await stream.aclose()
        with pytest.raises(PathNotFound):
            await fs.read("nothing")
        assert not connection.in_transaction


@pytest.mark.spec("VOL-4")
async def test_10_waiting_for_another_process_is_short_and_uneven(tmp_path, monkeypatch):
    pauses = []
    monkeypatch.setattr(sqlite_session.time, "sleep", pauses.append)
    patience = sqlite_session.Patience()
    assert all(patience(tries) for tries in range(200))
    assert max(pauses) <= 0.004
    assert len(set(pauses)) > 150
    monkeypatch.setattr(sqlite_session.time, "monotonic", lambda: float("inf"))
    assert not patience(200)


async def test_names_that_are_no_text_are_refused(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.make_dir("d")
        directory = await fs.store.resolve(ScopedPath("d"), "object")
        with pytest.raises(ParseError):
            await fs.store.descend(directory, "\udcff")
        directory.close()


async def test_a_job_that_waits_is_refused(tmp_path):
    from bailiwick.errors import InternalError

    async with opened(tmp_path / "v.db") as fs:

        async def job(_turn):
            await asyncio.sleep(0)

        with pytest.raises(InternalError):
            await fs.store.core.database.write(job)
        assert await fs.write("f", b"x")


async def test_a_job_that_fails_is_undone_alone_and_leaves_no_memory(tmp_path):
    """What the writer remembers of a change that was undone would show it to the next one."""
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("f", b"x")
        core = fs.store.core

        async def job(turn):
            mutation = turn.mutation("write", NOBODY)
            bound = await turn.tree.name(1, "f")
            await mutation.set_name((1, "f"), None)
            await mutation.set_name((1, "g"), BoundName(*bound))
            raise ZeroDivisionError

        async def half():
            entry = await fs.store.resolve(ScopedPath("h"), "entry")
            try:
                await fs.store.write(entry, b"y", chunks.sha256_of(b"y"), WritePlan())
            finally:
                entry.close()

        results = await asyncio.gather(half(), core.change(job), half(), return_exceptions=True)
        assert isinstance(results[1], ZeroDivisionError)
        assert await tree_of(fs.store) == {"f": b"x", "h": b"y"}
        await fs.write("f", b"z")
        assert (await fs.store.versions.check()).problems == []
