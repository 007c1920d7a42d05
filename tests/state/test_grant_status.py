"""Whether a grant holds: at once, in every process, and without a query while nothing changes."""

import asyncio
import logging
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.errors import (
    Closed,
    GrantExpired,
    GrantRevoked,
    InternalError,
    IoError,
    ParseError,
    RateLimited,
    UntrustedWorkspace,
)
from bailiwick.grant import Quota, Root
from bailiwick.grant_status import Standing
from bailiwick.operations import READ, WRITE
from bailiwick.state.grants.book import DAY_NS, IDLE_DAYS_MAX
from bailiwick.state.usage.rates import Rates
from tests.state.processes import workers
from tests.state.rooms import START_NS, WORKSPACE, Clock, held, opened, real_clock, standing_grant

pytestmark = pytest.mark.both_engines

WHO = {"by": "user:ann", "front": "cli"}

UNTRUSTED = Root(kind="workspace", id="demo", trusted=False)


async def handed_out(rooms, *grants):
    return [await rooms.grants.hand_out(grant, front="python") for grant in grants]


@pytest.fixture
def switching_often():
    """Threads take turns as often as they can, so that a gap between two steps is met."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def count_reads(rooms, monkeypatch):
    """A list that grows with every query."""
    read, seen = rooms.database.read, []

    def counted(sql, bindings=()):
        seen.append(sql)
        return read(sql, bindings)

    monkeypatch.setattr(rooms.database, "read", counted)
    return seen


# --- revoked, expired, unknown -------------------------------------------------------------------


@pytest.mark.spec("AUTH-5")
async def test_a_grant_holds_until_it_or_what_it_comes_from_is_revoked():
    async with opened() as rooms:
        await rooms.grants.add(standing_grant("s1"), **WHO)
        a, aa, b = await handed_out(rooms, held("a", "s1"), held("aa", "a"), held("b", "s1"))
        standing: Standing = rooms.standing
        assert not standing.constant
        for grant in (a, aa, b):
            standing.check(grant, WRITE)
        await rooms.grants.revoke("a", **WHO)
        for grant in (a, aa):
            with pytest.raises(GrantRevoked):
                standing.check(grant, READ)
        standing.check(b, READ)
        await rooms.grants.revoke("s1", **WHO)
        with pytest.raises(GrantRevoked):
            standing.check(b, READ)


@pytest.mark.spec("AUTH-5")
async def test_what_is_not_in_the_book_does_not_hold():
    async with opened() as rooms:
        with pytest.raises(GrantRevoked):
            rooms.standing.check(held("nobody"), READ)
        [grant] = await handed_out(rooms, held("h1"))
        rooms.clock.advance((IDLE_DAYS_MAX + 1) * 24 * 3600)
        await rooms.grants.prune()
        with pytest.raises(GrantRevoked):
            rooms.standing.check(grant, READ)


@pytest.mark.spec("AUTH-5")
async def test_an_expired_grant_does_not_hold_whatever_its_copy_says():
    async with opened() as rooms:
        [grant] = await handed_out(rooms, held("h1", expires_at=START_NS / 1e9 + 60))
        forged = held("h1")
        rooms.clock.advance(59.9)
        rooms.standing.check(grant, READ)
        rooms.standing.check(forged, READ)
        rooms.clock.advance(0.1)
        for each in (grant, forged):
            with pytest.raises(GrantExpired):
                rooms.standing.check(each, READ)


async def test_a_copy_that_ends_sooner_ends_sooner():
    async with opened() as rooms:
        await handed_out(rooms, held("h1"))
        rooms.clock.advance(2)
        with pytest.raises(GrantExpired):
            rooms.standing.check(held("h1", expires_at=START_NS / 1e9 + 1), READ)


# --- across databases, threads and processes -----------------------------------------------------


@pytest.mark.spec("AUTH-5")
async def test_a_revocation_through_another_connection_bites_at_the_next_check(tmp_path):
    async with opened(tmp_path) as here, opened(tmp_path) as there:
        [grant] = await handed_out(here, held("h1"))
        here.standing.check(grant, READ)
        there.standing.check(grant, READ)
        await there.grants.revoke("h1", **WHO)
        for rooms in (here, there):
            with pytest.raises(GrantRevoked):
                rooms.standing.check(grant, READ)


@pytest.mark.spec("AUTH-5")
async def test_a_revocation_in_one_process_bites_in_another(tmp_path):
    async with opened(tmp_path, real_clock) as rooms:
        await rooms.grants.add(standing_grant("s1"), **WHO)
        await handed_out(rooms, held("h1", "s1"))
        with workers(("check", tmp_path, "h1", 3)) as [worker]:
            for expected in ("holds", "holds"):
                worker.go()
                assert worker.line() == expected
                worker.wait_ready()
            await rooms.grants.revoke("s1", **WHO)
            worker.go()
            assert worker.line() == "grant_revoked"


@pytest.mark.spec("AUTH-5")
async def test_a_process_that_revokes_bites_here(tmp_path):
    async with opened(tmp_path, real_clock) as rooms:
        [grant] = await handed_out(rooms, held("h1"))
        rooms.standing.check(grant, READ)
        with workers(("revoke", tmp_path, "h1")) as [worker]:
            rooms.standing.check(grant, READ)
            worker.go()
            assert worker.line() == "1"
            with pytest.raises(GrantRevoked):
                rooms.standing.check(grant, READ)


async def test_threads_that_check_see_a_revocation_that_has_returned(tmp_path):
    async with opened(tmp_path) as rooms:
        grants = await handed_out(rooms, *(held(f"h{number}") for number in range(40)))
        revoked, wrong, stop = set(), [], threading.Event()

        def keep_checking():
            while not stop.is_set():
                for grant in grants:
                    gone = grant.id in revoked
                    try:
                        rooms.standing.check(grant, READ)
                    except GrantRevoked:
                        continue
                    if gone:
                        wrong.append(grant.id)

        threads = [threading.Thread(target=keep_checking) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for grant in grants:
                await rooms.grants.revoke(grant.id, **WHO)
                revoked.add(grant.id)
        finally:
            stop.set()
            for thread in threads:
                await asyncio.to_thread(thread.join)
        assert wrong == []


# --- the cost ------------------------------------------------------------------------------------


async def test_nothing_is_queried_while_nothing_changes(monkeypatch):
    async with opened() as rooms:
        first, second = await handed_out(rooms, held("h1"), held("h2"))
        rooms.standing.check(first, READ)
        rooms.standing.check(second, READ)
        queries = count_reads(rooms, monkeypatch)
        await handed_out(rooms, held("h3", "h1"))
        await rooms.grants.release("h3")
        for _ in range(100):
            rooms.standing.check(first, WRITE)
            rooms.standing.check(second, READ)
        assert queries == []
        await rooms.grants.revoke("h2", **WHO)
        rooms.standing.check(first, READ)
        assert len(queries) == 2, "trust, and the one grant that was asked about"


async def test_while_the_epoch_is_odd_every_check_reads(monkeypatch):
    """As after a process that died in the middle of a change."""
    async with opened() as rooms:
        [grant] = await handed_out(rooms, held("h1"))
        rooms.standing.check(grant, READ)
        queries = count_reads(rooms, monkeypatch)
        with rooms.database.epoch.changing():
            for _ in range(5):
                rooms.standing.check(grant, READ)
            assert len(queries) == 10
            # A change that was committed and not announced is seen all the same.
            await rooms.database.write(
                lambda connection: connection.execute("UPDATE grants SET ended_ns = 1").fetchall()
            )
            with pytest.raises(GrantRevoked):
                rooms.standing.check(grant, READ)


async def test_what_is_in_use_is_noted_once_a_day(monkeypatch):
    async with opened() as rooms:
        await rooms.grants.add(standing_grant("s1"), **WHO)
        [grant] = await handed_out(rooms, held("h1", "s1"))
        noted = []
        note_use = rooms.grants.note_use
        monkeypatch.setattr(
            rooms.grants, "note_use", lambda *given: (noted.append(given), note_use(*given))
        )
        for _ in range(IDLE_DAYS_MAX + 10):
            rooms.clock.advance(24 * 3600)
            rooms.standing.check(grant, READ)
            rooms.standing.check(grant, READ)
            await rooms.database.write(lambda connection: None)
            await rooms.grants.prune()
        # Whoever looks again before the note is kept, as happens where several servers share the
        # state, notes the same once more.
        assert len(set(noted)) == IDLE_DAYS_MAX + 10
        assert rooms.grants.row("h1")[2] > START_NS + IDLE_DAYS_MAX * DAY_NS


async def test_what_is_remembered_of_grants_is_bounded(monkeypatch):
    monkeypatch.setattr("bailiwick.state.grants.status._HELD_KEPT", 4)
    monkeypatch.setattr("bailiwick.state.grants.book._LINEAGES_KEPT", 4)
    async with opened() as rooms:
        for grant in await handed_out(rooms, *(held(f"h{number}") for number in range(20))):
            rooms.standing.check(grant, READ)
        assert len(rooms.standing._view.held) <= 4
        assert len(rooms.grants._lineages) <= 4


# --- faults --------------------------------------------------------------------------------------


async def test_a_state_that_cannot_be_read_lets_nobody_through(monkeypatch):
    async with opened() as rooms:
        [grant] = await handed_out(rooms, held("h1"))
        rooms.standing.check(grant, READ)
        read = rooms.database.read

        def broken(sql, bindings=()):
            raise IoError("the disk is gone")

        await rooms.trust.set_trust("workspace:other", True, **WHO)
        monkeypatch.setattr(rooms.database, "read", broken)
        for _ in range(3):
            with pytest.raises(IoError):
                rooms.standing.check(grant, READ)
            with pytest.raises(IoError):
                rooms.trust.is_trusted("workspace:demo", True)
        monkeypatch.setattr(rooms.database, "read", read)
        rooms.standing.check(grant, READ)


@pytest.mark.sqlite_only
async def test_a_damaged_state_lets_nobody_through():
    async with opened() as rooms:
        [grant] = await handed_out(rooms, held("h1"))
        await rooms.database.write_control(
            lambda connection: connection.execute("DROP TABLE grants").fetchall()
        )
        with pytest.raises(InternalError):
            rooms.standing.check(grant, READ)


async def test_a_closed_state_lets_nobody_through():
    async with opened() as rooms:
        [grant] = await handed_out(rooms, held("h1"))
        rooms.standing.check(grant, READ)
    with pytest.raises(Closed):
        rooms.standing.check(grant, READ)
    with pytest.raises(Closed):
        rooms.grants.standing()


# --- trust ---------------------------------------------------------------------------------------


@pytest.mark.spec("AUTH-7")
async def test_an_untrusted_root_is_read_and_not_changed_and_says_so_once(caplog):
    async with opened() as rooms:
        [grant] = await handed_out(rooms, held("h1", root=UNTRUSTED))
        with caplog.at_level(logging.WARNING, "bailiwick"):
            for _ in range(3):
                rooms.standing.check(grant, READ)
                with pytest.raises(UntrustedWorkspace):
                    rooms.standing.check(grant, WRITE)
            assert len(caplog.records) == 1
            other = held("h1", root=Root(kind="workspace", id="other"))
            with pytest.raises(UntrustedWorkspace):
                rooms.standing.check(other, WRITE)
            assert [record.root for record in caplog.records] == [
                "workspace:demo",
                "workspace:other",
            ]


@pytest.mark.spec("AUTH-7", "AUDIT-1")
async def test_trust_is_given_and_taken_for_everyone_and_kept(tmp_path):
    async with opened(tmp_path) as here, opened(tmp_path) as there:
        doubted, trusted = await handed_out(
            here, held("h1", root=UNTRUSTED), held("h2", root=WORKSPACE)
        )
        await there.trust.set_trust("workspace:demo", True, **WHO)
        here.standing.check(doubted, WRITE)
        assert here.trust.is_trusted("workspace:demo", configured=False)
        assert not here.trust.is_trusted("workspace:other", configured=False)
        await here.trust.set_trust("workspace:demo", False, **WHO)
        for rooms in (here, there):
            with pytest.raises(UntrustedWorkspace):
                rooms.standing.check(trusted, WRITE)
        acts = [(r["act"], r["root"], r["details"], r["subject"]) for r in here.records()[2:]]
        assert acts == [
            ("trust", "workspace:demo", {"trusted": "true"}, "user:ann"),
            ("trust", "workspace:demo", {"trusted": "false"}, "user:ann"),
        ]
    async with opened(tmp_path) as rooms:
        with pytest.raises(UntrustedWorkspace):
            rooms.standing.check(trusted, WRITE)
        for name in ("demo", "workspace:", "/etc", "workspace:*"):
            with pytest.raises(ParseError):
                await rooms.trust.set_trust(name, True, **WHO)


# --- rates ---------------------------------------------------------------------------------------


def allowed_of(check, times):
    """How many of so many tries are let through."""
    let = 0
    for _ in range(times):
        try:
            check()
        except RateLimited:
            continue
        let += 1
    return let


@pytest.mark.spec("AUTH-8")
async def test_no_more_than_the_bound_in_a_minute():
    async with opened() as rooms:
        [grant] = await handed_out(rooms, held("h1", quota=Quota(operations_per_minute=5)))

        def check():
            rooms.standing.check(grant, READ)

        assert allowed_of(check, 3) == 3
        rooms.clock.advance(30)
        assert allowed_of(check, 10) == 2
        with pytest.raises(RateLimited) as refused:
            check()
        assert refused.value.details == {"retry_after_s": 30.0}
        assert refused.value.retryable
        rooms.clock.advance(refused.value.details["retry_after_s"])
        assert allowed_of(check, 10) == 3


@pytest.mark.spec("AUTH-8")
async def test_a_bound_is_not_passed_by_delegating_or_asking_again():
    async with opened() as rooms:
        quota = Quota(operations_per_minute=4)
        await rooms.grants.add(standing_grant("s1", quota=quota), **WHO)
        grants = await handed_out(rooms, held("a", "s1"), held("aa", "a"), held("b", "s1"))
        let = sum(
            allowed_of(lambda grant=grant: rooms.standing.check(grant, READ), 3) for grant in grants
        )
        assert let == 4


@pytest.mark.spec("AUTH-8")
async def test_a_root_has_a_rate_of_its_own_and_a_refusal_counts_nowhere():
    async with opened() as rooms:
        root = Root(kind="workspace", id="demo", quota=Quota(operations_per_minute=6))
        narrow = held("a", root=root, quota=Quota(operations_per_minute=2))
        wide = held("b", root=root)
        await handed_out(rooms, narrow, wide)
        assert allowed_of(lambda: rooms.standing.check(narrow, READ), 10) == 2
        assert allowed_of(lambda: rooms.standing.check(wide, READ), 10) == 4
        elsewhere = held("b", root=WORKSPACE)
        assert allowed_of(lambda: rooms.standing.check(elsewhere, READ), 10) == 10
        # What is remembered of rates outlives a change of the epoch.
        await rooms.trust.set_trust("workspace:demo", True, **WHO)
        assert allowed_of(lambda: rooms.standing.check(wide, READ), 10) == 0


async def test_threads_do_not_pass_a_bound_together(switching_often):
    async with opened() as rooms:
        [grant] = await handed_out(rooms, held("h1", quota=Quota(operations_per_minute=500)))
        let = await asyncio.gather(*(
            asyncio.to_thread(allowed_of, lambda: rooms.standing.check(grant, READ), 300)
            for _ in range(4)
        ))  # fmt: skip
        assert sum(let) == 500


@given(st.integers(1, 6), st.lists(st.integers(0, 40), min_size=1, max_size=60))
def test_the_window_lets_through_what_fits_and_nothing_else(per_minute, pauses):
    clock = Clock(0)
    rates = Rates(clock)
    let = []
    for pause in pauses:
        clock.advance(pause)
        recent = [moment for moment in let if moment > clock.now_ns - 60 * 10**9]
        try:
            rates.pass_through([("one", per_minute)])
        except RateLimited as error:
            assert len(recent) == per_minute
            wait_ns = int(error.details["retry_after_s"] * 1e9)
            assert wait_ns == min(recent) + 60 * 10**9 - clock.now_ns
        else:
            assert len(recent) < per_minute
            let.append(clock.now_ns)


def test_a_bound_that_is_lowered_holds_at_once():
    clock = Clock(0)
    rates = Rates(clock)
    for _ in range(10):
        clock.advance(1)
        rates.pass_through([("one", 10)])
    with pytest.raises(RateLimited) as refused:
        rates.pass_through([("one", 2)])
    clock.advance(refused.value.details["retry_after_s"] - 0.001)
    with pytest.raises(RateLimited):
        rates.pass_through([("one", 2)])
    clock.advance(0.001)
    rates.pass_through([("one", 2)])


def test_windows_in_which_nothing_happens_are_dropped():
    clock = Clock(0)
    rates = Rates(clock)
    for number in range(5_000):
        rates.pass_through([(f"w{number}", 1)])
        clock.advance(1)
    assert len(rates._windows) <= 1_024


@pytest.mark.spec("AUTH-8", "HTTP-12")
@pytest.mark.parametrize(("processes", "each"), [(1, 10), (3, 3), (20, 1)])
def test_processes_that_serve_together_have_equal_parts(processes, each):
    rates = Rates(lambda: 0)
    rates.processes = processes
    for _ in range(each):
        rates.pass_through([("grant x", 10)])
    with pytest.raises(RateLimited):
        rates.pass_through([("grant x", 10)])
