"""Every column of every table, altered by hand: `check` says so, and no file shows wrong bytes.

What `check` cannot know is listed here with its reason, and in docs/volumes.md; the list is held
against what really goes unseen, so that it stays true.
"""

import random
import shutil

import apsw
import pytest

from bailiwick.errors import BailiwickError
from bailiwick.paths import ScopedPath
from bailiwick.testing.driver import StoreDriver
from bailiwick.versions import Mark
from tests.stores.volume.volumes import by, in_database, opened

INFINITY = 9223372036854775807
ROWS_EACH = 3

ADVISORY = {
    "volume.horizon": "the oldest version that is kept: told nowhere else",
    "volume.last": "a larger one only skips numbers",
    "volume.locks": "more than there are only costs a look",
    "volume.drained": "how far a ledger has come, which has records of its own",
    "upload.expires_ms": "when collecting looks at it",
    "fallen.node": "work for collecting, which looks again before it takes anything away",
    "fallen.version": "the same",
    "fallen.after": "the same",
    "lease.parent": "a lock lasts minutes",
    "lease.name": "the same",
    "lease.token": "the same",
    "lease.owner": "the same",
    "lease.expires_ms": "the same",
    "lease.boot": "the same",
    "lease.ends_ms": "the same",
    "pin.session": "a reader says it again three times a minute",
    "pin.version": "the same",
    "pin.expires_ms": "the same",
    "mark.time_ns": "when collecting may take a version away",
    "mark.version": "the same",
    "doomed.blob": "work for collecting, which deletes what no chunk names",
    "change.was": "in a fork: what an ancestor had there",
}
"""Columns of which some values may be altered unseen, and why nobody reads wrong bytes by that."""

SOME = {"change.was", "volume.last", "volume.locks", "lease.token"}
"""Of these it depends on the value."""


async def planted(path):
    """A volume with rows of every kind, and the content of its files."""
    async with opened(path) as fs:
        one = by(fs, Mark(subject="user:ann", request_id="r1", note=b"a note"))
        await one.write("d/small", b"one", parents=True)
        await one.write("d/middle", b"middle " * 2_000)
        await one.write("large", random.Random(1).randbytes(1_500_001))
        await one.append("d/middle", b"more" * 20_000)
        await one.symlink("link", "d/small")
        await one.write("gone/f", b"gone", parents=True)
        await one.remove("gone", recursive=True)
        await one.move("d/small", "moved")
        versions = one.store.versions
        await versions.snapshot("before")
        fork = StoreDriver(await versions.fork("try"))
        await fork.write("d/forked", b"forked")
        await versions.merge("try")
        await fork.write("moved", b"in the fork")
        await fork.aclose()
        await versions.lock(await one.store.resolve(ScopedPath("large"), "entry"), 600)
        far = INFINITY // 2
        for sql in (
            f"INSERT INTO pin VALUES (1, 'gone', 30, {far}) RETURNING 1",
            f"INSERT INTO mark VALUES (1, {far}, 30) RETURNING 1",
            "INSERT INTO content VALUES (1, 4, 0, NULL, 0, 0) RETURNING 1",
            f"INSERT INTO upload VALUES (1, 4, {far}) RETURNING 1",
            "INSERT INTO doomed VALUES (1, 'nothing') RETURNING 1",
        ):
            await in_database(fs, sql)
        return await contents(fs)


async def contents(fs):
    """Every file that can be read, by name: what is read at all must be what was written."""
    found = {}
    for name in ("moved", "large", "d/middle", "d/forked"):
        try:
            found[name] = await fs.read(name)
        except BailiwickError:
            continue
    try:
        then = StoreDriver(await fs.store.versions.as_of("before"))
    except BailiwickError:
        return found
    try:
        for name in ("moved", "d/middle"):
            found[f"then {name}"] = await then.read(name)
    except BailiwickError:
        pass
    finally:
        await then.aclose()
    return found


def altered(value, kind):
    if value is None:
        return {"INTEGER": 7, "TEXT": "x", "BLOB": b"x"}[kind]
    if isinstance(value, int):
        return value - 2 if value == INFINITY else value ^ 1
    if isinstance(value, str):
        return chr(ord(value[0]) ^ 1) + value[1:] if value else "x"
    return bytes([value[0] ^ 1]) + value[1:] if value else b"x"


def alter(path, table, column, kind, row):
    """Change one value of one row. Whether the database itself took it."""
    connection = apsw.Connection(str(path))
    try:
        columns = [each[1] for each in connection.execute(f"PRAGMA table_info({table})")]
        where = " AND ".join(f"{each} IS ?" for each in columns)
        new = altered(row[columns.index(column)], kind)
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (new, *row))
        return connection.changes() == 1
    except apsw.ConstraintError:
        return False
    finally:
        connection.close()


def rows_of(path):
    """For each column of each table some rows, the first and the last of them."""
    connection = apsw.Connection(str(path))
    try:
        tables = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            if not name.startswith("sqlite_")
        ]
        for table in tables:
            rows = connection.execute(f"SELECT * FROM {table}").fetchall()
            assert rows, f"nothing is tried of {table}"
            some = [*rows[: ROWS_EACH - 1], *rows[ROWS_EACH - 1 :][-1:]]
            for _, column, kind, *_ in connection.execute(f"PRAGMA table_info({table})"):
                yield from ((table, column, kind, row) for row in some)
    finally:
        connection.close()


async def judged(path, expected):
    """Whether `check` finds anything; and that nothing wrong is read."""
    try:
        async with opened(path) as fs:
            for name, content in (await contents(fs)).items():
                assert content == expected[name], name
            return bool((await fs.store.versions.check()).problems)
    except BailiwickError:
        return True  # so damaged that it cannot be opened, which is said


@pytest.mark.slow
@pytest.mark.spec("VOL-3", "VOL-9")
async def test_whatever_is_altered_is_found_or_is_known_not_to_matter(tmp_path):
    whole, copy = tmp_path / "whole", tmp_path / "copy"
    whole.mkdir(mode=0o700)
    expected = await planted(whole / "v.db")
    assert len(expected) == 6
    assert not await judged(whole / "v.db", expected), "nothing is wrong yet"
    tried, unseen = set(), set()
    for table, column, kind, row in list(rows_of(whole / "v.db")):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(whole, copy)
        if alter(copy / "v.db", table, column, kind, row):
            tried.add(f"{table}.{column}")
            if not await judged(copy / "v.db", expected):
                unseen.add(f"{table}.{column}")
    assert len(tried) > 90
    assert unseen - ADVISORY.keys() == set()
    assert ADVISORY.keys() - unseen <= SOME, "these are found: say so"
