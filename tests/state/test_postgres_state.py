"""What only a state in PostgreSQL has: several servers, lost answers, tables of two ages."""

import asyncio
import contextlib
import threading
import time
import types

import asyncpg
import pytest

from bailiwick.errors import Busy, IoError, Unsupported
from bailiwick.limits import Limits
from bailiwick.patience import AT_ONCE_S, keeping
from bailiwick.state.database import DatabasePart
from bailiwick.state.postgres import connection as connection_module
from bailiwick.state.postgres import pulse as pulse_module
from bailiwick.state.postgres import schema as schema_module
from bailiwick.state.postgres.database import open_in_postgres
from bailiwick.state.postgres.standstill import Standstill
from tests.postgres_proxy import PostgresProxy
from tests.state.rooms import PARTS, Rooms, held, real_clock, standing_grant
from tests.waiting import loop_turns, until

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

            async def execute(statements, **how):
                await said(statements, **how)
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
AND wait_event = 'ClientRead' AND clock_timestamp() - state_change > interval '100 ms'
"""
"""The server has taken what was asked, and not only been sent it."""

_WAITED_FOR = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


@pytest.mark.spec("SCALE-6")
@pytest.mark.parametrize("last_words", [b"pg_advisory_xact_lock", b"INSERT INTO held VALUES (2)"])
async def test_who_is_cut_off_while_it_holds_the_lock_of_all_is_given_up_first(
    postgres, tmp_path, last_words
):
    """Before those who wait for it lose patience: what they ask for is done. Between two statements
    PostgreSQL gives it up; in the middle of one that is just being learnt it never would."""
    own = DatabasePart("held", ("CREATE TABLE held (n INTEGER NOT NULL) STRICT;",))

    def job(connection):
        connection.execute("INSERT INTO held VALUES (1)")

    def another(connection):
        connection.execute("INSERT INTO held VALUES (2)")

    async with (
        PostgresProxy(postgres) as proxy,
        opened(proxy.dsn, tmp_path, own) as one,
        opened(postgres.dsn, tmp_path, own) as two,
    ):
        await one.write(job)
        before = len(await asyncio.to_thread(two.read, "SELECT n FROM held"))
        holds = proxy.stall_after(last_words)
        lost = asyncio.create_task(one.write(another))
        await holds.wait()
        await until(lambda: asyncio.to_thread(two.read, _HELD_IN_SILENCE))
        await two.write(job)
        proxy.flow()
        with pytest.raises((Busy, IoError)):
            await lost
        await until(lambda: not one.broken)
        await one.write(job)
        assert len(await asyncio.to_thread(two.read, "SELECT n FROM held")) == before + 2


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
async def test_who_has_no_more_patience_is_told_and_what_they_wanted_never_happens(dsn, tmp_path):
    """Be it begun already, or not."""
    async with opened(dsn, tmp_path) as database:
        other = await asyncpg.connect(dsn)
        try:
            await other.execute("SELECT pg_advisory_lock($1)", connection_module.WRITING)
            patient = asyncio.ensure_future(database.write(add(1)))
            await until(lambda: asyncio.to_thread(database.read, _WAITED_FOR))
            with keeping(AT_ONCE_S), pytest.raises(Busy):
                await database.write(add(2))
            assert not patient.done()
            await other.execute("SELECT pg_advisory_unlock($1)", connection_module.WRITING)
            await patient
            await other.execute("SELECT pg_advisory_lock($1)", connection_module.WRITING)
            with keeping(AT_ONCE_S), pytest.raises(Busy):
                await database.write(add(3))
        finally:
            await other.close()
        await until(lambda: not database.broken)
        await database.write(add(4))
        assert numbers(database) == [1, 4]


@pytest.mark.spec("SCALE-6", "AUDIT-4")
async def test_who_has_no_more_patience_ends_the_transaction_of_nobody_else(dsn, tmp_path):
    """Neither of those who wait, nor of what is written for nobody, as records are."""
    kept = []

    async def hurried(database):
        with keeping(4 * AT_ONCE_S):
            await database.write(add(2))

    async with opened(dsn, tmp_path) as database:
        first, second = [await asyncpg.connect(dsn) for _ in range(2)]
        lock = f"SELECT pg_advisory_lock({connection_module.WRITING})"
        try:
            await first.execute(lock)
            before = asyncio.ensure_future(database.write(add(1)))
            await until(lambda: asyncio.to_thread(database.read, _WAITED_FOR))
            behind = asyncio.ensure_future(second.execute(lock))
            await until(lambda: asyncio.to_thread(_count, database, _WAITED_FOR, 2))
            told = asyncio.ensure_future(hurried(database))
            await loop_turns()
            patient = asyncio.ensure_future(database.write(add(3)))
            await loop_turns()
            database.submit(add(4), ended=kept.append)
            await first.close()
            await before
            await behind
            with pytest.raises(Busy):
                await told
            assert not patient.done()
        finally:
            await second.close()
        await patient
        await until(lambda: kept)
        assert kept == [None]
        assert numbers(database) == [1, 3, 4]
        assert database.failures == 0


@pytest.mark.spec("SCALE-6")
async def test_who_has_less_patience_waits_no_longer_for_what_is_done_before_it(dsn, tmp_path):
    """In the same transaction, by somebody who has a little more."""

    async def ended_after(database, job, seconds):
        begun = time.monotonic()
        with keeping(seconds), contextlib.suppress(Busy):
            await database.write(job)
        return time.monotonic() - begun

    def slow(connection):
        connection.execute("SELECT pg_sleep(3.7)")

    async with opened(dsn, tmp_path) as database:
        other = await asyncpg.connect(dsn)
        try:
            await other.execute("SELECT pg_advisory_lock($1)", connection_module.WRITING)
            before = asyncio.ensure_future(database.write(add(1)))
            await until(lambda: asyncio.to_thread(database.read, _WAITED_FOR))
            more = asyncio.ensure_future(ended_after(database, slow, 3.9))
            less = asyncio.ensure_future(ended_after(database, add(2), 2.3))
            await loop_turns()
        finally:
            await other.close()
        await before
        assert await less < 2.3 + 2 * AT_ONCE_S
        await more


@pytest.mark.spec("SCALE-6")
async def test_an_event_loop_stands_still_for_slow_answers_only_for_a_part_of_its_time(
    dsn, tmp_path, monkeypatch
):
    """However many ask, each of whom is answered: nobody else's request would be looked at."""
    clock = [0.0]
    async with opened(dsn, tmp_path) as database:
        monkeypatch.setattr(database, "_standstill", Standstill(lambda: clock[0]))
        answered = 0
        with contextlib.suppress(Busy):
            for _ in range(40):
                database.read("SELECT pg_sleep(0.5)")
                answered += 1
        assert 3 <= answered <= 12  # six seconds of it, of which each answer takes half a second
        assert await asyncio.to_thread(numbers, database) == []
        await until(lambda: database.is_answering)
        with pytest.raises(Busy, match="slowly"):
            database.read("SELECT 1")
        clock[0] += 11.0
        assert database.read("SELECT 1") == [(1,)]


@pytest.mark.spec("SCALE-6")
def test_quick_answers_are_as_many_as_are_asked_for():
    standstill = Standstill()

    def answered():
        standstill.refuse()
        standstill.note(0.2)
        return True

    assert all(answered() for _ in range(10_000))


def _count(database, sql, least):
    return len(database.read(sql)) >= least


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


@pytest.mark.spec("SCALE-6")
async def test_a_database_that_answers_others_is_not_silent(dsn, tmp_path, monkeypatch):
    """Where a machine has much to do a beat may be late, again and again."""

    async def late(_pulse):
        raise TimeoutError

    own = DatabasePart("late", ("CREATE TABLE late (n INTEGER NOT NULL) STRICT;",))
    async with opened(dsn, tmp_path, own) as database:
        clock = types.SimpleNamespace(now=time.monotonic(), monotonic=lambda: clock.now)
        monkeypatch.setattr(pulse_module.Pulse, "_beat", late)
        monkeypatch.setattr(pulse_module, "time", clock)
        for _ in range(4):
            clock.now += 0.8 * pulse_module._SILENT_S
            assert database.read("SELECT n FROM late") == []
        for number in range(4):
            clock.now += 0.8 * pulse_module._SILENT_S
            await database.write(
                lambda connection, n=number: connection.execute("INSERT INTO late VALUES (?)", (n,))
            )
        assert database.is_answering
        assert not database.broken
        clock.now += 1.2 * pulse_module._SILENT_S
        assert not database.is_answering
        with pytest.raises(Busy):
            database.read("SELECT n FROM late")


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


def last_heard_of(seconds, since_set_on=0.0):
    """By a database whose clock was ``since_set_on`` by so much, just before it was asked."""

    async def ask(*_):
        now = time.time()
        return [(int((now + since_set_on) * 1e6), int((now - seconds) * 1e6))]

    return ask


@pytest.mark.spec("SCALE-5")
async def test_only_time_in_which_the_database_was_away_does_not_count_against_a_server(
    postgres, tmp_path
):
    """Where it is away now and then, the dead are known to be dead all the same: what they had
    begun would be nobody's for as long as that goes on."""
    async with PostgresProxy(postgres) as proxy, opened(proxy.dsn, tmp_path) as database:
        pulse = database._pulse
        assert not await pulse.is_alive(last_heard_of(schema_module.ALIVE_S + 1.0), "another")
        with proxy.stalled():
            await until(lambda: not database.is_answering)  # for 2.5 seconds
        await until(lambda: database.is_answering)
        assert await pulse.is_alive(last_heard_of(schema_module.ALIVE_S + 1.0), "another")
        assert not await pulse.is_alive(last_heard_of(schema_module.ALIVE_S * 10), "another")


@pytest.mark.spec("SCALE-5")
async def test_nobody_dies_of_a_clock_that_is_set_on(dsn, tmp_path):
    """Nor while this machine sleeps, of which its own clock knows nothing."""
    async with opened(dsn, tmp_path) as database:
        pulse = database._pulse
        assert await pulse.is_alive(last_heard_of(1.0, since_set_on=3600.0), "another")
        pulse._beaten_us -= 3600 * 1_000_000  # it was set on since the last beat
        beaten = pulse._beaten_us
        await until(lambda: pulse._beaten_us > beaten)
        assert await pulse.is_alive(last_heard_of(3600.0), "another")
        assert not await pulse.is_alive(last_heard_of(3601.0 + schema_module.ALIVE_S), "another")


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
