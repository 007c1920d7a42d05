"""A state in a database that is not what it says: whoever opens it is told in our words, and makes
nothing of it."""

import asyncio
import contextlib

import asyncpg
import pytest

from bailiwick.errors import BailiwickError, Busy, InternalError, IoError, Unsupported
from bailiwick.limits import Limits
from tests.state.test_postgres_state import LATER, NUMBERS, add, numbers, opened
from tests.waiting import for_ever

pytestmark = pytest.mark.spec("SCALE-5", "SCALE-6", "SCALE-8")


@pytest.fixture
def dsn(postgres):
    with postgres.fresh_database() as dsn:
        yield dsn


async def told(dsn, *statements):
    """Have the database say something else."""
    connection = await asyncpg.connect(dsn, server_settings={"search_path": "bailiwick_state"})
    try:
        for each in statements:
            await connection.execute(each)
        return await connection.fetchval(
            "SELECT count(*) FROM pg_tables WHERE schemaname = 'bailiwick_state'"
        )
    finally:
        await connection.close()


async def refused(dsn, tmp_path, *parts):
    with pytest.raises(BailiwickError) as caught:
        async with opened(dsn, tmp_path, *parts, limits=Limits(database_connect_seconds_max=2.0)):
            pass
    error = caught.value
    assert "tests@" not in str(error)
    assert "127.0.0.1" not in str(error)
    return error


LIES = {
    "a version before the first": "UPDATE parts SET version = -1",
    "a version that was never": "UPDATE parts SET version = 9000000000000000000",
    "no versions at all": "DELETE FROM parts",
    "no table of versions": "DROP TABLE parts",
    "another table of versions": "ALTER TABLE parts RENAME COLUMN version TO edition",
    "versions that are no numbers": "ALTER TABLE parts ALTER COLUMN version TYPE TEXT",
    "no row of control": "DELETE FROM state_control",
    "a table of servers of somebody else": "ALTER TABLE state_servers RENAME COLUMN seen TO met",
    "a view where servers are":
        "DROP TABLE state_servers; CREATE VIEW state_servers AS SELECT 1 AS x",
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
async def test_tables_that_are_not_what_they_should_be_are_refused(dsn, tmp_path, lie):
    async with opened(dsn, tmp_path) as database:
        await database.write(add(1))
    tables = await told(dsn, lie)
    error = await refused(dsn, tmp_path)
    assert isinstance(error, (IoError, Unsupported)), repr(error)
    assert await told(dsn) == tables  # nothing was made of it


async def test_tables_of_another_version_are_refused_and_stay(dsn, tmp_path):
    async with opened(dsn, tmp_path, LATER) as database:
        await database.write(lambda it: it.execute("INSERT INTO numbers VALUES (?, ?)", (1, "x")))
    assert isinstance(await refused(dsn, tmp_path, NUMBERS), Unsupported)
    async with opened(dsn, tmp_path, LATER) as database:  # the control
        assert numbers(database) == [1]


async def test_a_database_that_only_reads_is_told(dsn, tmp_path):
    async with opened(dsn, tmp_path) as database:
        await database.write(add(1))
    name = dsn.rpartition("/")[2].partition("?")[0]
    await told(dsn, f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    error = await refused(dsn, tmp_path)
    assert isinstance(error, (IoError, Busy)), repr(error)


async def _http(reader, writer):
    await reader.read(64)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


async def _garbage(reader, writer):
    writer.write(bytes(range(256)) * 64)


async def _gone(reader, writer):
    pass


async def _silent(reader, writer):
    await for_ever()


async def _greedy(reader, writer):
    """Says that a message of two gigabytes follows."""
    await reader.read(64)
    writer.write(b"R\x7f\xff\xff\xff" + b"\0" * 65536)
    await for_ever()


@pytest.mark.parametrize("liar", [_http, _garbage, _gone, _silent, _greedy])
async def test_what_is_no_postgresql_is_given_up_in_time(tmp_path, liar):
    serving = set()

    async def serve(reader, writer):
        serving.add(asyncio.current_task())
        with contextlib.suppress(OSError, asyncio.CancelledError), contextlib.closing(writer):
            await liar(reader, writer)
            await writer.drain()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        async with asyncio.timeout(20):
            error = await refused(f"postgres://tests@127.0.0.1:{port}/postgres", tmp_path)
    finally:
        for task in serving:
            task.cancel()
        server.close()
        await asyncio.gather(*serving, return_exceptions=True)
        await server.wait_closed()
    assert isinstance(error, (IoError, Busy)), repr(error)
    assert not isinstance(error, InternalError)
