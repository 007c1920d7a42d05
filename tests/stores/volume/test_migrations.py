"""Files of an older and of a newer Bailiwick: brought forward in one transaction, or left alone."""

import subprocess
import sys

import apsw
import pytest

from bailiwick.errors import LockHeld, Unsupported
from bailiwick.stores.volume.rows import schema
from bailiwick.stores.volume.uptime import Uptime
from tests.stores.volume.volumes import opened

pytestmark = pytest.mark.spec("VOL-10")

MORE = (
    "CREATE TABLE extra (volume INTEGER NOT NULL, word TEXT NOT NULL) STRICT",
    "INSERT INTO extra SELECT id, name FROM volume; ALTER TABLE volume ADD COLUMN colour TEXT",
)
"""What versions to come might bring."""


def scripts_with(monkeypatch, *more):
    known = schema.scripts()
    monkeypatch.setattr(schema, "scripts", lambda: (*known, *more))
    return len(known)


async def planted(path):
    async with opened(path) as volume:
        await volume.write("f", b"kept")


def look(path, sql):
    connection = apsw.Connection(str(path))
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


async def test_an_older_file_is_brought_forward_and_keeps_its_content(tmp_path, monkeypatch):
    path = tmp_path / "v.db"
    await planted(path)
    known = scripts_with(monkeypatch, *MORE)
    assert look(path, "PRAGMA user_version") == [(known,)]
    for _ in range(2):
        async with opened(path) as volume:
            assert await volume.read("f") == b"kept"
        assert look(path, "PRAGMA user_version") == [(known + 2,)]
        assert look(path, "SELECT * FROM extra") == [(1, "main")]
        assert look(path, "SELECT colour FROM volume") == [(None,)]


async def test_the_first_version_there_ever_was_is_brought_forward(tmp_path, monkeypatch):
    """From the script of the first version to all that were published since."""
    path, all_of_them = tmp_path / "v.db", schema.scripts()
    monkeypatch.setattr(schema, "scripts", lambda: all_of_them[:1])
    connection = apsw.Connection(str(path))
    schema.migrate(connection)
    connection.close()
    monkeypatch.setattr(schema, "scripts", lambda: all_of_them)
    assert look(path, "PRAGMA user_version") == [(1,)]
    async with opened(path) as volume:
        await volume.write("f", b"x" * 10_000)
        assert await volume.read("f") == b"x" * 10_000
    assert look(path, "PRAGMA user_version") == [(len(all_of_them),)]


async def test_merges_of_an_older_file_are_known_in_the_newer_one(tmp_path, monkeypatch):
    path, all_of_them = tmp_path / "v.db", schema.scripts()
    monkeypatch.setattr(schema, "scripts", lambda: all_of_them[:3])
    connection = apsw.Connection(str(path))
    schema.migrate(connection)
    connection.execute("INSERT INTO merged VALUES (1, 2, 7, 30), (1, 7, 2, 20)")
    connection.close()
    monkeypatch.setattr(schema, "scripts", lambda: all_of_them)
    async with opened(path):
        pass
    taken = look(path, "SELECT branch, version, source, upto FROM taken ORDER BY branch")
    assert taken == [(2, 30, 7, 30), (7, 20, 2, 20)]


@pytest.mark.spec("VOL-7")
async def test_leases_of_an_older_file_go_on_for_what_is_left_of_them(tmp_path, monkeypatch):
    """They were given by the clock alone: two of them, of which one is over by now."""
    path, all_of_them = tmp_path / "v.db", schema.scripts()
    monkeypatch.setattr(schema, "scripts", lambda: all_of_them[:5])
    connection = apsw.Connection(str(path))
    schema.migrate(connection)
    connection.execute(
        "INSERT INTO volume VALUES (1, 'main', 'uid', 1, 40, 0, 2, 0, 0, NULL);"
        "INSERT INTO branch VALUES (1, 2, 'main', 0, 0, 9223372036854775807, 0, NULL, NULL);"
        "INSERT INTO lineage VALUES (1, 2, 0, 2, 9223372036854775806);"
        "INSERT INTO inode VALUES (1, 2, 1, 3, 2, 448, 0, 0, 3, NULL, NULL, NULL, NULL);"
        "INSERT INTO lease VALUES (1, 2, 1, 'held', 30, 'a', 90000), (1, 2, 1, 'over', 31, 'a', 1)"
    )
    connection.close()
    monkeypatch.setattr(schema, "scripts", lambda: all_of_them)
    now = [7]
    uptime = Uptime("boot", lambda: now[0])
    async with opened(path, clock_ns=lambda: 60_000 * 10**6, uptime=uptime) as volume:
        await volume.write("over", b"x")
        for later_ms in (0, 29_999):
            now[0] = 7 + later_ms
            with pytest.raises(LockHeld):
                await volume.write("held", b"x")
        now[0] = 30_007
        await volume.write("held", b"x")


async def test_a_migration_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "v.db"
    await planted(path)
    before = look(path, "SELECT name, sql FROM sqlite_schema ORDER BY name")
    with monkeypatch.context() as patch:
        known = scripts_with(patch, *MORE, "INSERT INTO nothing VALUES (1)")
        with pytest.raises(Exception, match="nothing"):
            async with opened(path):
                pass
    assert look(path, "SELECT name, sql FROM sqlite_schema ORDER BY name") == before
    assert look(path, "PRAGMA user_version") == [(known,)]
    async with opened(path) as volume:
        assert await volume.read("f") == b"kept"


DYING = """
import os, sys
import apsw
from bailiwick.stores.volume import VolumeStore
from bailiwick.stores.volume.rows import schema

known = schema.scripts()
schema.scripts = lambda: (*known, *{more!r}, "SELECT die()")
opening = schema.migrate


def migrate(connection):
    connection.create_scalar_function("die", lambda: os.kill(os.getpid(), 9))
    opening(connection)


import bailiwick.stores.volume.rows.sqlite_file as embedded
embedded.migrate = migrate
VolumeStore.open(sys.argv[1])
"""


async def test_killed_in_the_middle_the_old_file_is_left(tmp_path):
    path = tmp_path / "v.db"
    await planted(path)
    before = look(path, "SELECT name, sql FROM sqlite_schema ORDER BY name")
    ended = subprocess.run([sys.executable, "-c", DYING.format(more=MORE), str(path)], check=False)
    assert ended.returncode == -9
    assert look(path, "SELECT name, sql FROM sqlite_schema ORDER BY name") == before
    async with opened(path) as volume:
        assert await volume.read("f") == b"kept"


async def test_a_newer_file_is_refused_and_left_as_it_is(tmp_path):
    path = tmp_path / "v.db"
    await planted(path)
    newer = len(schema.scripts()) + 1
    look(path, f"PRAGMA user_version = {newer}")
    before = path.read_bytes()
    with pytest.raises(Unsupported, match=f"newer Bailiwick.* {newer}") as refused:
        async with opened(path):
            pass
    assert refused.value.hint
    assert path.read_bytes() == before
