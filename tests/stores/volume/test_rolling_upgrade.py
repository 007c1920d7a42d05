"""Servers of two versions side by side on one database of volumes.

The newer one is this code with one script more; the older one is this code as it is, in a process
of its own.
"""

import asyncio
import json
import subprocess
import sys

import asyncpg
import pytest

from bailiwick.errors import Busy, Unsupported
from bailiwick.limits import Limits
from bailiwick.stores.volume import VolumeStore
from bailiwick.stores.volume.content.blobs import FolderBlobs
from bailiwick.stores.volume.rows import schema
from bailiwick.testing.driver import StoreDriver
from tests.waiting import until

pytestmark = pytest.mark.spec("SCALE-8")

LATER = "CREATE TABLE later (volume INTEGER NOT NULL PRIMARY KEY) STRICT;"

PROCESS = """
import asyncio, json, sys
from bailiwick.errors import BailiwickError
from bailiwick.stores.volume import VolumeStore
from bailiwick.stores.volume.content.blobs import FolderBlobs
from bailiwick.stores.volume.rows import schema
from bailiwick.testing.driver import StoreDriver

dsn, folder, *later = sys.argv[1:]
if later:
    scripts = (*schema.scripts(), *later)
    schema.scripts = lambda: scripts

async def said(work):
    try:
        await work
        return "done"
    except BailiwickError as error:
        return error.kind

async def main():
    try:
        fs = StoreDriver(VolumeStore.open(dsn, blobs=FolderBlobs(folder)))
    except BailiwickError as error:
        print(json.dumps(error.kind), flush=True)
        return
    print(json.dumps("opened"), flush=True)
    while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
        print(json.dumps(await said(fs.write(line, line.encode()))), flush=True)
    await fs.aclose()

asyncio.run(main())
"""


class Process:
    """A server of one version or the other: told what to write, it says what became of it."""

    def __init__(self, dsn, tmp_path, *later):
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROCESS, dsn, str(tmp_path / "blobs"), *later],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    async def says(self):
        return json.loads(await asyncio.to_thread(self._process.stdout.readline))

    async def writes(self, name):
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        return await self.says()

    async def end(self):
        self._process.stdin.close()
        assert await asyncio.to_thread(self._process.wait) == 0
        self._process.stdout.close()


@pytest.fixture
def dsn(postgres):
    with postgres.fresh_database() as dsn:
        yield dsn


def opened(dsn, tmp_path, **limits):
    blobs = FolderBlobs(str(tmp_path / "blobs"))
    return StoreDriver(VolumeStore.open(dsn, blobs=blobs, limits=Limits(**limits)))


def upgrade(monkeypatch):
    """This process is of a newer version from here on."""
    scripts = (*schema.scripts(), LATER)
    monkeypatch.setattr(schema, "scripts", lambda: scripts)


async def said_by(dsn, sql):
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


async def version(dsn):
    return await said_by(dsn, "SELECT version FROM bailiwick.about")


async def test_a_newer_server_only_reads_until_the_older_are_gone(dsn, tmp_path, monkeypatch):
    older = Process(dsn, tmp_path)
    assert await older.says() == "opened"
    assert await older.writes("first") == "done"
    before = await version(dsn)
    upgrade(monkeypatch)
    fs = opened(dsn, tmp_path)
    try:
        assert await fs.read("first") == b"first"
        with pytest.raises(Busy, match="older"):
            await fs.write("mine", b"mine")
        # The older one goes on, and is seen.
        assert await older.writes("second") == "done"
        assert await fs.read("second") == b"second"
        assert sorted(each.name for each in await fs.entries(".")) == ["first", "second"]
        assert await version(dsn) == before
        await older.end()

        async def is_written():
            try:
                await fs.write("mine", b"mine")
            except Busy:
                return False
            return True

        await until(is_written)
        assert await version(dsn) == before + 1
        assert await fs.read("mine") == b"mine"
    finally:
        await fs.aclose()
    refused = Process(dsn, tmp_path)
    assert await refused.says() == "unsupported"
    await refused.end()


async def test_an_older_server_that_nobody_saw_refuses_newer_tables(dsn, tmp_path, monkeypatch):
    """It had no connection while the tables were changed: it finds out by the next one."""
    older = Process(dsn, tmp_path)
    assert await older.says() == "opened"
    assert await older.writes("first") == "done"
    await said_by(
        dsn,
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    upgrade(monkeypatch)
    fs = opened(dsn, tmp_path)
    try:
        await fs.write("mine", b"mine")

        async def is_refused():
            told = await older.writes("second")
            assert told != "done"
            return told == "unsupported"

        await until(is_refused)
        assert [each.name for each in await fs.entries(".")] == ["first", "mine"]
    finally:
        await fs.aclose()
    await older.end()


async def test_of_several_that_start_at_once_one_changes_the_tables(dsn, tmp_path):
    """A second one would find the table there already."""
    await opened(dsn, tmp_path).aclose()
    before = await version(dsn)
    newer = [Process(dsn, tmp_path, LATER) for _ in range(4)]
    assert [await each.says() for each in newer] == ["opened"] * 4
    assert await version(dsn) == before + 1
    assert [await each.writes(f"f{number}") for number, each in enumerate(newer)] == ["done"] * 4
    for each in newer:
        await each.end()


async def test_a_volume_is_not_made_while_older_servers_are_at_work(dsn, tmp_path, monkeypatch):
    older = Process(dsn, tmp_path)
    assert await older.says() == "opened"
    assert await older.writes("first") == "done"
    upgrade(monkeypatch)
    with pytest.raises(Busy, match="older"):
        VolumeStore.open(dsn, volume="another", blobs=FolderBlobs(str(tmp_path / "blobs")))
    await older.end()


async def test_tables_that_are_too_old_to_be_read_are_waited_for(dsn, tmp_path, monkeypatch):
    older = Process(dsn, tmp_path)
    assert await older.says() == "opened"
    assert await older.writes("first") == "done"
    upgrade(monkeypatch)
    monkeypatch.setattr(schema, "READ_SINCE", schema.newest_version())
    with pytest.raises(Busy, match="older"):
        opened(dsn, tmp_path)
    await older.end()
    await opened(dsn, tmp_path).aclose()
    monkeypatch.undo()
    with pytest.raises(Unsupported):
        opened(dsn, tmp_path)
