"""What only a state in PostgreSQL has: several servers, lost answers, tables of two ages."""

import asyncio
import contextlib
import threading

import asyncpg
import pytest

from bailiwick.errors import Busy, IoError, Unsupported
from bailiwick.limits import Limits
from bailiwick.state.database import DatabasePart
from bailiwick.state.postgres import connection as connection_module
from bailiwick.state.postgres import pulse as pulse_module
from bailiwick.state.postgres import schema as schema_module
from bailiwick.state.postgres.database import open_in_postgres
from tests.postgres_proxy import PostgresProxy
from tests.state.rooms import PARTS, Rooms, held, real_clock, standing_grant
from tests.waiting import until

NUMBERS = DatabasePart("numbers", ("CREATE TABLE numbers (n INTEGER NOT NULL UNIQUE) STRICT;",))
LATER = DatabasePart("numbers", (*NUMBERS.versions, "ALTER TABLE numbers ADD COLUMN name TEXT;"))


@pytest.fixture
def dsn(postgres):
    with postgres.fresh_database() as dsn:
        yield dsn


@contextlib.asynccontextmanager
async def opened(dsn, tmp_path, *parts, limits=None):
    """Off the loop: a proxy may be on it."""
    database = await asyncio.to_thread(
        open_in_postgres, dsn, str(tmp_path), parts or (NUMBERS,), limits or Limits()
    )
    try:
        yield database
    finally:
        await database.aclose()


def add(number):
    return lambda connection: connection.execute("INSERT INTO numbers VALUES (?)", (number,))


def numbers(database):
    return [row[0] for row in database.read("SELECT n FROM numbers ORDER BY n")]


async def test_a_job_that_fails_is_undone_alone(dsn, tmp_path):
    async with opened(dsn, tmp_path) as database:
        jobs = [database.write(add(number)) for number in (1, 2, 2, "\ud800", 3)]
        done = await asyncio.gather(*jobs, return_exceptions=True)
        assert [isinstance(each, Exception) for each in done] == [False, False, True, True, False]
        assert numbers(database) == [1, 2, 3]


@pytest.mark.spec("SCALE-5")
async def test_a_commit_whose_answer_is_lost_is_looked_up(dsn, tmp_path, monkeypatch):
    async with opened(dsn, tmp_path) as database:
        raw = connection_module.PostgresConnection._commit
        doubts = []

        async def lost(self, deferred):
            """The server commits, and the connection ends before it can say so."""
            said = self._raw.execute

            async def execute(statements):
                await said(statements)
                self._raw.terminate()
                raise ConnectionResetError

            doubts.append(1)
            held_raw, self._raw = self._raw, _Stand(self._raw, execute)
            await raw(self, deferred)
            assert self._raw is not held_raw

        with monkeypatch.context() as patched:
            patched.setattr(connection_module.PostgresConnection, "_commit", lost)
            await database.write(add(1))
        assert doubts
        assert numbers(database) == [1]
        await database.write(add(2))
        assert numbers(database) == [1, 2]


class _Stand:
    """A connection with another way to execute."""

    def __init__(self, raw, execute):
        self._raw = raw
        self.execute = execute

    def __getattr__(self, name):
        return getattr(self._raw, name)


_HELD_IN_SILENCE = f"""
SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE granted AND locktype = 'advisory' AND objid = {connection_module.WRITING}
AND state = 'idle in transaction' AND now() - state_change > interval '100 ms'
"""
"""The server has taken what was asked, and not only been sent it."""


@pytest.mark.spec("SCALE-6")
async def test_who_is_cut_off_while_it_holds_the_lock_of_all_is_given_up_first(postgres, tmp_path):
    """Before those who wait for it lose patience: what they ask for is done."""
    own = DatabasePart("held", ("CREATE TABLE held (n INTEGER NOT NULL) STRICT;",))

    def job(connection):
        connection.execute("INSERT INTO held VALUES (1)")

    async with (
        PostgresProxy(postgres) as proxy,
        opened(proxy.dsn, tmp_path, own) as one,
        opened(postgres.dsn, tmp_path, own) as two,
    ):
        await one.write(job)
        holds = proxy.stall_after(b"pg_advisory_xact_lock")
        lost = asyncio.create_task(one.write(job))
        await holds.wait()
        await until(lambda: asyncio.to_thread(two.read, _HELD_IN_SILENCE))
        await two.write(job)
        proxy.flow()
        with pytest.raises((Busy, IoError)):
            await lost
        await until(lambda: not one.broken)
        await one.write(job)
        assert len(await asyncio.to_thread(two.read, "SELECT n FROM held")) == 3


@pytest.mark.spec("SCALE-6")
async def test_all_who_share_a_turn_that_does_not_come_are_told_at_once_to_try_again(
    dsn, tmp_path, monkeypatch
):
    sent = []
    ready = connection_module.PostgresConnection._ready

    async def noted(self):
        sent.extend(self._deferred)
        return await ready(self)

    limits = Limits(database_lock_seconds_max=0.3)
    async with opened(dsn, tmp_path, limits=limits) as database:
        other = await asyncpg.connect(dsn)
        try:
            await other.execute("SELECT pg_advisory_lock($1)", connection_module.WRITING)
            with monkeypatch.context() as patched:
                patched.setattr(connection_module.PostgresConnection, "_ready", noted)
                jobs = [database.write(add(number)) for number in range(8)]
                done = await asyncio.gather(*jobs, return_exceptions=True)
        finally:
            await other.close()
        assert {type(each) for each in done} == {Busy}
        # The first comes alone, and the others together.
        assert sum(each.startswith("BEGIN") for each in sent) <= 2
        await asyncio.gather(*(database.write(add(number)) for number in range(8)))
        assert numbers(database) == list(range(8))


@pytest.mark.spec("SCALE-6")
async def test_a_database_that_does_not_answer_is_waited_for_only_so_long(
    postgres, tmp_path, monkeypatch
):
    monkeypatch.setattr(pulse_module, "_SILENT_S", 0.6)
    limits = Limits(database_connect_seconds_max=0.5, database_statement_seconds_max=0.5)
    own = DatabasePart("stalled", ("CREATE TABLE stalled (n INTEGER NOT NULL) STRICT;",))
    async with (
        PostgresProxy(postgres) as proxy,
        opened(proxy.dsn, tmp_path, own, limits=limits) as database,
    ):
        assert await asyncio.to_thread(database.read, "SELECT n FROM stalled") == []
        with proxy.stalled():
            await until(lambda: not database.is_answering)
            with pytest.raises(Busy):  # on the loop, at once
                database.read("SELECT n FROM stalled")
            with pytest.raises((Busy, IoError)):
                await database.write(
                    lambda connection: connection.execute("INSERT INTO stalled VALUES (1)")
                )
            assert database.broken
        await until(lambda: database.is_answering)
        await until(lambda: not database.broken)
        await database.write(
            lambda connection: connection.execute("INSERT INTO stalled VALUES (2)")
        )


@pytest.mark.spec("SCALE-5")
async def test_a_revocation_holds_everywhere_once_it_returns(dsn, tmp_path, monkeypatch):
    """Also where no notification is heard."""
    from bailiwick.errors import GrantRevoked
    from bailiwick.operations import READ

    monkeypatch.setattr(pulse_module.Pulse, "_notified", lambda *_: None)
    async with (
        opened(dsn, tmp_path / "a", *PARTS) as first,
        opened(dsn, tmp_path / "b", *PARTS) as second,
    ):
        one, two = Rooms(first, real_clock), Rooms(second, real_clock)
        await one.grants.add(standing_grant(), by="user:a", front="test")
        for number in range(5):
            grant = held(f"h{number}", "s1")
            await one.grants.hand_out(grant, front="test")
            two.standing.check(grant, READ)
            await one.grants.revoke(grant.id, by="user:a", front="test")
            with pytest.raises(GrantRevoked):
                two.standing.check(grant, READ)


@pytest.mark.spec("SCALE-8")
async def test_two_servers_that_start_on_older_tables_change_them_once(dsn, tmp_path):
    async with opened(dsn, tmp_path) as database:
        await database.write(add(7))
    ready, states = threading.Barrier(2), []

    def start():
        ready.wait()
        states.append(open_in_postgres(dsn, str(tmp_path), (LATER,), Limits()))

    threads = [threading.Thread(target=start) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert [each.read("SELECT n, name FROM numbers") for each in states] == [[(7, None)]] * 2
    for each in states:
        await each.aclose()
    with pytest.raises(Unsupported, match="newer"):
        async with opened(dsn, tmp_path):
            pass


@pytest.mark.spec("SCALE-8")
async def test_tables_are_not_changed_under_servers_that_do_not_know_them(dsn, tmp_path):
    async with opened(dsn, tmp_path) as older:
        with pytest.raises(Busy, match="older"):
            async with opened(dsn, tmp_path, LATER):
                pass
        await older.write(add(1))
    async with opened(dsn, tmp_path, LATER) as newer:
        assert newer.read("SELECT n, name FROM numbers") == [(1, None)]


@pytest.mark.spec("SCALE-8")
async def test_who_was_not_heard_of_while_tables_were_changed_serves_no_more(
    dsn, tmp_path, monkeypatch
):
    """It was cut off, or stood still, for so long that it counted as gone."""
    async with opened(dsn, tmp_path) as older:
        await older.write(add(1))
        with monkeypatch.context() as patched:
            patched.setattr(schema_module, "_OTHERS", "SELECT 0")
            newer = await asyncio.to_thread(
                open_in_postgres, dsn, str(tmp_path), (LATER,), Limits()
            )
        try:
            await until(lambda: not older.is_answering)
            with pytest.raises(Unsupported, match="newer"):
                older.read("SELECT n FROM numbers")
            with pytest.raises(Unsupported, match="newer"):
                await older.write(add(2))
            assert older.epoch.current() == older.epoch.current() == bytes([1] * 8)
            await newer.write(
                lambda connection: connection.execute("INSERT INTO numbers VALUES (3, 'three')")
            )
            assert newer.read("SELECT n, name FROM numbers ORDER BY n") == [(1, None), (3, "three")]
            await until(lambda: newer.servers == 1)
        finally:
            await newer.aclose()


@pytest.mark.spec("SCALE-5")
async def test_who_serves_is_known_to_all(dsn, tmp_path):
    async with opened(dsn, tmp_path) as first, opened(dsn, tmp_path) as second:
        assert first.owner.is_alive(second.owner.name)
        assert not first.owner.is_alive("00000000")
        await until(lambda: first.servers == second.servers == 2)
        name = second.owner.name
        await second.aclose()
        assert not first.owner.is_alive(name)


@pytest.mark.spec("SCALE-5")
async def test_a_change_that_is_heard_of_while_it_is_closed_harms_nothing(
    dsn, tmp_path, monkeypatch
):
    heard, close = [], pulse_module.Pulse.close

    async def closed(pulse):
        pulse.epoch.changed()
        heard.append(pulse)
        await close(pulse)

    monkeypatch.setattr(pulse_module.Pulse, "close", closed)
    async with opened(dsn, tmp_path) as database:
        await database.write(add(1))
    assert len(heard) == 1
