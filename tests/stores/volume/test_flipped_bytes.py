"""One flipped byte anywhere: `check` finds it, and a read gives the right bytes or an error."""

import random
import re
import shutil
import sqlite3
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from bailiwick.errors import BailiwickError, IoError
from bailiwick.versions import Mark, Undoing
from tests.stores.volume.trees import tree_of
from tests.stores.volume.volumes import blob_files, by, in_database, opened

PAGE_FLIPS, BLOB_FLIPS = 120, 10


async def planted(path):
    """A volume with content of every kind, all of it in the database's own file."""
    async with opened(path) as fs:
        for number in range(12):
            await fs.write(f"d{number % 3}/small{number}", b"%d " % number * 90, parents=True)
        for number in range(4):
            await fs.write(f"d1/middle{number}", b"%d " % number * 9_000)
        await fs.write("d2/large", random.Random(1).randbytes(1_700_000))
        await fs.append("d2/small2", b"more and more")
        await fs.symlink("link", "d1/small1")
        await fs.move("d0/small0", "moved")
        return await tree_of(fs.store)


async def readings(path, expected):
    """Read every file that there was: wrong ones, those that failed, and what `check` says."""
    wrong, failed = [], []
    async with opened(path) as fs:
        for name, content in expected.items():
            if not isinstance(content, bytes):
                continue
            try:
                if await fs.read(name) != content:
                    wrong.append(name)
            except BailiwickError as error:
                failed.append((name, error))
        try:
            problems = (await fs.store.versions.check()).problems
        except BailiwickError as error:
            problems = [error]
    return wrong, failed, problems


def flip(path, at, mask):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ mask]))


def copied(folder, to):
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(folder, to)
    return to / "v.db"


@pytest.mark.slow
@pytest.mark.spec("VOL-3", "VOL-9")
async def test_a_flipped_byte_of_the_database_never_gives_wrong_bytes(tmp_path):
    (tmp_path / "whole").mkdir()
    expected = await planted(tmp_path / "whole" / "v.db")
    assert (await readings(copied(tmp_path / "whole", tmp_path / "copy"), expected))[:2] == ([], [])
    chance, size = random.Random(11), (tmp_path / "whole" / "v.db").stat().st_size
    noticed = 0
    for _ in range(PAGE_FLIPS):
        path = copied(tmp_path / "whole", tmp_path / "copy")
        at, mask = chance.randrange(100, size), 1 << chance.randrange(8)
        flip(path, at, mask)
        try:
            wrong, failed, problems = await readings(path, expected)
        except BailiwickError:
            noticed += 1  # so damaged that it cannot be opened, which is said
            continue
        assert wrong == [], (at, mask)
        for name, error in failed:
            assert error.path is None or error.path == name
            assert problems, (at, mask, name)
        noticed += bool(problems)
    assert noticed > PAGE_FLIPS // 4, "most bytes of a database mean something"


@pytest.mark.spec("VOL-3", "VOL-9")
async def test_a_flipped_byte_of_a_blob_is_found_and_named(tmp_path):
    (tmp_path / "whole").mkdir()
    expected = await planted(tmp_path / "whole" / "v.db")
    chance = random.Random(5)
    for _ in range(BLOB_FLIPS):
        path = copied(tmp_path / "whole", tmp_path / "copy")
        (blob,) = blob_files(tmp_path / "copy")
        flip(blob, chance.randrange(1_700_000), 1 << chance.randrange(8))
        wrong, failed, problems = await readings(path, expected)
        assert wrong == []
        assert [(name, type(error), str(error.path)) for name, error in failed] == [
            ("d2/large", IoError, "d2/large")
        ]
        assert any(each.path == "d2/large" for each in problems)


@pytest.mark.spec("VOL-3", "VOL-9")
@pytest.mark.parametrize("compression", ["off", "zstd"])
@pytest.mark.parametrize("how", ["swapped", "cut", "grown", "gone", "another's"])
async def test_a_blob_that_is_another_is_found_and_never_read_for_it(tmp_path, how, compression):
    """Those of two files, of one size: where it stands is all that tells them apart."""
    contents = {
        name: random.Random(name).randbytes(850_000).hex().encode() for name in ("one", "two")
    }
    async with opened(tmp_path / "v.db", compression=compression) as fs:
        for name, content in contents.items():
            await fs.write(name, content)
    blobs = sorted(map(Path, blob_files(tmp_path)))
    one, two = (blob.read_bytes() for blob in blobs)
    assert one != two
    if how == "swapped":
        blobs[0].write_bytes(two)
        blobs[1].write_bytes(one)
    elif how == "gone":
        blobs[0].unlink()
    else:
        blobs[0].write_bytes({"cut": one[:-1], "grown": one + b"x", "another's": two}[how])
    wrong, failed, problems = await readings(tmp_path / "v.db", contents)
    assert wrong == []
    damaged = {name for name, _ in failed}
    assert damaged if how != "swapped" else damaged == {"one", "two"}
    assert {type(error) for _, error in failed} == {IoError}
    assert {each.path for each in problems} >= damaged
    blobs[0].write_bytes(one)  # the control
    blobs[1].write_bytes(two)
    assert await readings(tmp_path / "v.db", contents) == ([], [], [])


@pytest.mark.spec("VOL-3", "VOL-9")
@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE inode SET data = zeroblob(length(data)) WHERE data IS NOT NULL AND id = $1",
        "UPDATE inode SET sha256 = zeroblob(32) WHERE id = $1",
        "UPDATE inode SET size = size + 1 WHERE id = $1",
        "UPDATE inode SET mode = mode + 1 WHERE id = $1",
        "UPDATE inode SET mtime_ns = mtime_ns + 1 WHERE id = $1",
        "UPDATE inode SET edition = edition + 1 WHERE id = $1",
        "UPDATE inode SET content = 1 WHERE id = $1",
        "UPDATE dentry SET kind = 2 WHERE node = $1",
    ],
)
async def test_a_damaged_row_is_found_and_its_file_is_an_error_that_names_it(tmp_path, damage):
    path = tmp_path / "v.db"
    async with opened(path) as fs:
        await fs.write("a", b"one")
        await fs.write("b", b"two")
        (node,) = [await in_database(fs, "SELECT node FROM dentry WHERE name = 'a'")]
        await in_database(fs, damage, node)
    async with opened(path) as fs:
        with pytest.raises(IoError) as caught:
            await fs.read("a")
        assert caught.value.path == "a"
        assert await fs.read("b") == b"two"
        assert (await fs.store.versions.check()).problems


@pytest.mark.spec("VOL-3")
async def test_a_name_that_leads_to_another_file_is_an_error_and_not_that_file(tmp_path):
    path = tmp_path / "v.db"
    async with opened(path) as fs:
        await fs.write("a", b"one")
        await fs.write("b", b"two")
        other = await in_database(fs, "SELECT node FROM dentry WHERE name = 'b'")
        await in_database(fs, "DELETE FROM dentry WHERE name = 'b'")
        await in_database(fs, "UPDATE dentry SET node = $1 WHERE name = 'a'", other)
    async with opened(path) as fs:
        with pytest.raises(IoError) as caught:
            await fs.read("a")
        assert caught.value.path == "a"
        assert any(each.path == "a" for each in (await fs.store.versions.check()).problems)


@pytest.mark.spec("VOL-3")
async def test_a_damaged_file_can_be_replaced_and_removed(tmp_path):
    path = tmp_path / "v.db"
    async with opened(path) as fs:
        for name in ("a", "b", "c"):
            await fs.write(name, b"content")
        await in_database(fs, "UPDATE inode SET data = x'00' WHERE data IS NOT NULL")
    async with opened(path) as fs:
        await fs.write("a", b"again")
        assert await fs.read("a") == b"again"
        await fs.remove("b")
        with pytest.raises(IoError):
            await fs.set_mode("c", 0o600)
        with pytest.raises(IoError):
            await fs.copy("c", "d")
        with pytest.raises(IoError):
            await fs.append("c", b"more")


@pytest.mark.spec("VOL-5", "VOL-9")
async def test_an_undo_does_not_believe_a_log_that_was_altered(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await by(fs, Mark(subject="user:ann", request_id="hers")).write("a", b"hers")
        await by(fs, Mark(subject="user:bob", request_id="his")).write("b", b"his")
        for column, was in (("request", "hers"), ("subject", "user:ann")):
            now = {"request": "his", "subject": "user:bob"}[column]
            sql = f"UPDATE change SET {column} = $1 WHERE {column} = $2 RETURNING 1"
            assert await in_database(fs, sql, now, was)
            asked = Undoing(first="1") if column == "subject" else Undoing(request_id="his")
            with pytest.raises(IoError, match="the log says"):
                await fs.store.versions.undo(asked)
            assert (await fs.store.versions.check()).problems
            await in_database(fs, f"UPDATE change SET {column} = $1 WHERE node = 5 AND seq = 0"
                              " RETURNING 1", was)  # fmt: skip
        assert await fs.read("a") == b"hers"


@pytest.mark.spec("VOL-5", "VOL-9")
async def test_a_snapshot_whose_row_was_altered_shows_no_other_version(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("a", b"one")
        await fs.write("a", b"two")
        await fs.store.versions.snapshot("kept")
        await in_database(fs, "UPDATE snapshot SET version = version - 1 RETURNING 1")
        with pytest.raises(IoError, match="snapshot"):
            await fs.store.versions.as_of("kept")


@pytest.mark.spec("VOL-1", "VOL-9")
async def test_no_empty_volume_takes_the_place_of_one_whose_name_was_altered(tmp_path):
    async with opened(tmp_path / "v.db") as fs:
        await fs.write("a", b"one")
        await in_database(fs, "UPDATE volume SET name = 'nain' RETURNING 1")
    with pytest.raises(IoError, match="volume"):
        async with opened(tmp_path / "v.db"):
            pass


class Laxly:
    """A database whose columns take any type, as damage does: one flipped bit in the head of a row
    makes text of bytes, and bytes of text. Closing it makes them strict again, since reading does
    not look."""

    def __init__(self, path):
        self._path = path

    def __enter__(self):
        with self._schema() as database:
            self._kept = database.execute(
                "SELECT name, sql FROM sqlite_schema WHERE sql LIKE '%STRICT%'"
            ).fetchall()
            for name, sql in self._kept:
                lax = re.sub(r"STRICT,?\s*", "", sql)
                database.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (lax, name))
        return self

    def __exit__(self, *error):
        with self._schema() as database:
            for name, sql in self._kept:
                database.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (sql, name))

    def columns(self):
        with closing(sqlite3.connect(self._path)) as database:
            return [
                (name, row[1], row[2])
                for name, _ in self._kept
                for row in database.execute(f"PRAGMA table_info({name})")
            ]

    def cast(self, table, column, kind):
        with closing(sqlite3.connect(self._path)) as database, database:
            database.execute("PRAGMA ignore_check_constraints = ON")
            database.execute(f"UPDATE {table} SET {column} = CAST({column} AS {kind})")

    @contextmanager
    def _schema(self):
        with closing(sqlite3.connect(self._path)) as database, database:
            database.execute("PRAGMA writable_schema = ON")
            yield database
            version = database.execute("PRAGMA schema_version").fetchone()[0]
            database.execute(f"PRAGMA schema_version = {version + 1}")


@pytest.mark.slow
@pytest.mark.spec("VOL-3", "VOL-9")
async def test_bytes_that_became_text_and_text_that_became_bytes_are_damage(tmp_path):
    (tmp_path / "whole").mkdir()
    expected = await planted(tmp_path / "whole" / "v.db")
    with Laxly(copied(tmp_path / "whole", tmp_path / "copy")) as lax:
        columns = lax.columns()
    other = {"BLOB": "TEXT", "TEXT": "BLOB"}
    wrongly_typed = [
        (table, column, other[kind]) for table, column, kind in columns if kind in other
    ]
    assert ("inode", "data", "TEXT") in wrongly_typed
    for table, column, kind in wrongly_typed:
        path = copied(tmp_path / "whole", tmp_path / "copy")
        with Laxly(path) as lax, suppress(sqlite3.Error):  # some go by each other, and stay
            lax.cast(table, column, kind)
        try:
            wrong, failed, problems = await readings(path, expected)
        except BailiwickError:
            continue
        assert wrong == [], (table, column)
        assert problems or not failed, (table, column)
