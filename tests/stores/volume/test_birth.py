"""When a node was made: kept by moves and overwrites, known for as long as the node is."""

import itertools

import apsw
import pytest

import bailiwick
from bailiwick.paths import ScopedPath
from bailiwick.stores.volume.rows.checksums import inode_guard
from bailiwick.stores.volume.rows.records import Inode
from bailiwick.stores.volume.rows.tree import INODE_COLUMNS
from bailiwick.testing.driver import StoreDriver
from bailiwick.versions import Mark, Undoing
from tests.stores.volume.volumes import by, in_database, opened

pytestmark = [pytest.mark.spec("VOL-11"), pytest.mark.both_engines]


def ticking(path):
    ticks = itertools.count(1_000)
    return opened(path, clock_ns=lambda: next(ticks))


async def born(fs, path):
    return (await fs.lstat(path)).created_ns


async def test_it_is_kept_by_everything_that_keeps_the_node(tmp_path):
    async with ticking(tmp_path / "v.db") as fs:
        assert await born(fs, ".") is not None
        await fs.write("d/f", b"one", parents=True)
        await fs.symlink("link", "d/f")
        await fs.write("large", bytes(3_000_000))
        first = {path: await born(fs, path) for path in ("d", "d/f", "link", "large")}
        assert None not in first.values()
        assert first["d"] <= (await fs.stat("d")).mtime_ns
        for change in (
            fs.write("d/f", b"two"), fs.write("d/f", b"x" * 100_000), fs.append("d/f", b"more"),
            fs.truncate("d/f", 3), fs.set_mode("d/f", 0o640), fs.set_times("d/f", 5),
            fs.write("d/g", b"beside"), fs.append("large", b"more"), fs.write("large", b"small"),
        ):  # fmt: skip
            await change
            assert {path: await born(fs, path) for path in first} == first
        await fs.move("d", "e")
        await fs.move("link", "e/link")
        assert await born(fs, "e") == first["d"]
        assert await born(fs, "e/f") == first["d/f"]
        assert await born(fs, "e/link") == first["link"]
        await fs.copy("e", "copied", recursive=True)
        assert await born(fs, "copied/f") > first["d/f"]
        await fs.write("other", b"x")
        await fs.move("e/f", "other", replace=True)
        assert await born(fs, "other") == first["d/f"]
        await fs.remove("other")
        await fs.write("other", b"x")
        assert await born(fs, "other") > first["d/f"]


async def test_a_scope_tells_it_where_it_is_kept(tmp_path):
    directory = tmp_path / "directory"
    directory.mkdir()
    for place in ("memory:", f"sqlite:{tmp_path}/v.db", directory):
        async with bailiwick.open(place) as fs:
            await fs.write_text("f", "one")
            made = (await fs.stat("f")).created_ns
            assert (made is None) == (place is directory)
            await fs.write_text("f", "two")
            await fs.move("f", "g")
            stat = await fs.stat("g")
            assert stat.created_ns == made
            assert made is None or made <= stat.mtime_ns


async def test_what_comes_back_was_made_when_it_was(tmp_path):
    async with ticking(tmp_path / "v.db") as fs:
        versions = fs.store.versions
        first = await fs.write("d/f", b"one", parents=True)
        made = await born(fs, "d/f")
        await by(fs, Mark(request_id="r")).remove("d", recursive=True)
        await versions.undo(Undoing(request_id="r"))
        assert await born(fs, "d/f") == made
        await fs.remove("d", recursive=True)
        await versions.restore(ScopedPath("d"), first.version)
        assert await born(fs, "d/f") == made
        await fs.write("d/f", b"two")
        await versions.restore(ScopedPath("d/f"), first.version)
        assert await born(fs, "d/f") == made
        past = StoreDriver(await versions.as_of(first.version))
        try:
            assert await born(past, "d/f") == made
        finally:
            await past.aclose()


async def test_forks_and_merges_keep_it(tmp_path):
    async with ticking(tmp_path / "v.db") as fs:
        await fs.write("f", b"one")
        made = await born(fs, "f")
        fork = StoreDriver(await fs.store.versions.fork("work"))
        try:
            await fork.write("f", b"two")
            await fork.write("new", b"x")
            assert await born(fork, "f") == made
            new = await born(fork, "new")
            await fs.store.versions.merge("work")
            assert (await born(fs, "f"), await born(fs, "new")) == (made, new)
        finally:
            await fork.aclose()
        draft = await fs.store.versions.begin()
        await StoreDriver(draft.store).write("f", b"three")
        await draft.commit(Mark())
        await draft.discard()
        assert await born(fs, "f") == made
        await fs.store.versions.collect(keep_days=0)
        assert await born(fs, "f") == made


@pytest.mark.spec("VOL-9")
async def test_a_flipped_birth_is_found(tmp_path):
    async with ticking(tmp_path / "v.db") as fs:
        await fs.write("f", b"one")
    async with ticking(tmp_path / "v.db") as fs:
        for value in ("created_ns + 1", "NULL"):
            await in_database(fs, f"UPDATE inode SET created_ns = {value} WHERE kind = 1")
            assert (await fs.store.versions.check()).problems, value


@pytest.mark.spec("VOL-10")
@pytest.mark.sqlite_only("there are no older tables elsewhere")
async def test_of_what_an_older_bailiwick_made_it_is_not_known(tmp_path):
    """The sums of its rows stay right, and what is made or copied from now on is known."""
    path = tmp_path / "v.db"
    async with ticking(path) as fs:
        await fs.write("f", b"one")
        await fs.make_dir("d")
    connection = apsw.Connection(str(path))
    columns = INODE_COLUMNS.removesuffix(", created_ns")
    for rowid, *row in connection.execute(f"SELECT rowid, {columns} FROM inode").fetchall():
        sum_then = inode_guard(Inode(*row))
        connection.execute("UPDATE inode SET guard = ? WHERE rowid = ?", (sum_then, rowid))
    connection.execute(
        "ALTER TABLE inode DROP COLUMN created_ns; DROP INDEX change_key;"
        " ALTER TABLE change DROP COLUMN key; PRAGMA user_version = 6"
    )
    connection.close()
    async with ticking(path) as fs:
        assert not (await fs.store.versions.check()).problems
        await fs.write("f", b"two")
        await fs.write("d/new", b"x")
        assert [await born(fs, each) for each in (".", "d", "f")] == [None] * 3
        assert await born(fs, "d/new") is not None
        await fs.copy("f", "copy")
        assert await born(fs, "copy") is not None
        assert not (await fs.store.versions.check()).problems
