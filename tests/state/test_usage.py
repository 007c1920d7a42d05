"""What is kept is counted exactly: by tasks, threads and processes together."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bailiwick.errors import IoError, QuotaExceeded
from bailiwick.grant import Quota, Root
from bailiwick.meter import Amount, Meter
from tests.state.processes import run_at_once
from tests.state.rooms import WORKSPACE, held, opened, real_clock, standing_grant

pytestmark = pytest.mark.both_engines

WHO = {"by": "user:ann", "front": "cli"}


def root_of(**quota):
    return Root(kind="workspace", id="demo", trusted=True, quota=Quota(**quota))


async def handed_out(rooms, *grants):
    return [await rooms.grants.hand_out(grant, front="python") for grant in grants]


@pytest.mark.spec("AUTH-8")
async def test_only_what_has_a_bound_is_counted():
    async with opened() as rooms:
        meter: Meter = rooms.meter
        free, bound, rated, below = await handed_out(
            rooms,
            held("free"),
            held("bound", quota=Quota(bytes=1)),
            held("rated", quota=Quota(operations_per_minute=5)),
            held("below", "bound"),
        )
        assert not meter.counts(free)
        assert not meter.counts(rated)
        assert meter.counts(bound)
        assert meter.counts(below)
        assert meter.counts(held("free", root=root_of(files=3)))
        assert not meter.counts(held("free", root=root_of(operations_per_minute=3)))
        await meter.charge(free, 10**9, 10**6)
        assert rooms.rows("usage") == []


@pytest.mark.spec("AUTH-8")
async def test_a_bound_is_reached_and_not_passed():
    async with opened() as rooms:
        [grant] = await handed_out(rooms, held("h1", quota=Quota(bytes=100, files=2)))
        await rooms.meter.charge(grant, 60, 1)
        with pytest.raises(QuotaExceeded) as refused:
            await rooms.meter.charge(grant, 41, 1)
        assert refused.value.details == {
            "bound": "grant", "name": "h1", "of": "bytes", "limit": 100, "used": 60, "asked": 41,
        }  # fmt: skip
        assert rooms.meter.used_by_grant("h1") == (60, 1)
        await rooms.meter.charge(grant, 40, 1)
        with pytest.raises(QuotaExceeded) as refused:
            await rooms.meter.charge(grant, -10, 1)
        assert refused.value.details["of"] == "files"
        assert rooms.meter.used_by_grant("h1") == (100, 2)


@pytest.mark.spec("AUTH-8")
async def test_what_is_taken_away_is_never_refused_and_never_below_nothing():
    async with opened(measured=(500, 50)) as rooms:
        grant = held("h1", quota=Quota(bytes=100), root=root_of(bytes=100, files=10))
        await handed_out(rooms, grant)
        await rooms.meter.charge(grant, -7, -1)
        assert rooms.meter.used_by_grant("h1") == (0, 0)
        assert rooms.meter.used_by_root("workspace:demo") == (493, 49), "over its bound already"
        with pytest.raises(QuotaExceeded):
            await rooms.meter.charge(grant, 1, 0)
        await rooms.meter.charge(grant, -1000, -1000)
        assert rooms.meter.used_by_root("workspace:demo") == (0, 0)


@pytest.mark.spec("AUTH-8")
async def test_grant_and_root_are_charged_together_or_not_at_all():
    async with opened(measured=(90, 0)) as rooms:
        grant = held("h1", quota=Quota(bytes=1_000), root=root_of(bytes=100))
        await handed_out(rooms, grant)
        with pytest.raises(QuotaExceeded) as refused:
            await rooms.meter.charge(grant, 11, 1)
        assert refused.value.details["bound"] == "root"
        assert refused.value.details["name"] == "workspace:demo"
        assert rooms.meter.used_by_grant("h1") == (0, 0)
        await rooms.meter.charge(grant, 10, 1)
        assert rooms.meter.used_by_grant("h1") == (10, 1)
        assert rooms.meter.used_by_root("workspace:demo") == (100, 1)


@pytest.mark.spec("AUTH-8")
async def test_a_quota_is_not_multiplied_by_delegating_or_asking_again():
    async with opened() as rooms:
        await rooms.grants.add(standing_grant("s1", quota=Quota(files=5)), **WHO)
        first, second, below = await handed_out(
            rooms, held("a", "s1"), held("b", "s1"), held("aa", "a", quota=Quota(files=2))
        )
        await rooms.meter.charge(first, 0, 2)
        await rooms.meter.charge(second, 0, 2)
        await rooms.meter.charge(below, 0, 1)
        for grant in (first, second, below):
            with pytest.raises(QuotaExceeded) as refused:
                await rooms.meter.charge(grant, 0, 1)
            assert refused.value.details["name"] == "s1"
        await rooms.meter.charge(first, 0, -2)
        await rooms.meter.charge(below, 0, 1)
        with pytest.raises(QuotaExceeded) as refused:
            await rooms.meter.charge(below, 0, 1)
        assert refused.value.details["name"] == "aa"


async def test_a_root_is_measured_once_however_many_come_first():
    async with opened(measured=(10, 1)) as rooms:
        grant = held("h1", root=root_of(bytes=1_000))
        await handed_out(rooms, grant)
        await asyncio.gather(*(rooms.meter.charge(grant, 1, 0) for _ in range(30)))
        assert rooms.measurements == 1
        assert rooms.meter.used_by_root("workspace:demo") == (40, 1)


async def test_usage_survives_a_restart_and_can_be_measured_anew(tmp_path):
    grant = held("h1", quota=Quota(bytes=50), root=root_of(bytes=100))
    async with opened(tmp_path, measured=(5, 1)) as rooms:
        await handed_out(rooms, grant)
        await rooms.meter.charge(grant, 20, 2)
    async with opened(tmp_path, measured=(7, 7)) as rooms:
        assert rooms.meter.used_by_grant("h1") == (20, 2)
        await rooms.meter.charge(grant, 1, 0)
        assert rooms.measurements == 0
        assert rooms.meter.used_by_root("workspace:demo") == (26, 3)
        await rooms.meter.settle(grant, Amount(1, 0), Amount(1, 0))
        assert await rooms.meter.remeasure(grant.root) == (7, 7)
        assert rooms.meter.used_by_root("workspace:demo") == (7, 7)
        await rooms.meter.forget("workspace:demo")
        assert rooms.meter.used_by_root("workspace:demo") is None


async def test_a_root_that_cannot_be_measured_takes_nothing_in_but_lets_things_go(monkeypatch):
    async with opened() as rooms:

        async def broken(root):
            raise IoError("the disk is gone")

        monkeypatch.setattr(rooms.meter, "_measure", broken)
        grant = held("h1", quota=Quota(bytes=50), root=root_of(bytes=100))
        await handed_out(rooms, grant)
        with pytest.raises(IoError):
            await rooms.meter.charge(grant, 1, 1)
        assert rooms.rows("usage") == []
        await rooms.meter.charge(grant, -1, -1)
        assert rooms.meter.used_by_root("workspace:demo") is None


async def test_a_cancelled_measurement_leaves_the_next_caller_to_measure(monkeypatch):
    async with opened() as rooms:
        begun, release = asyncio.Event(), asyncio.Event()

        async def slow(root):
            begun.set()
            await release.wait()
            return 3, 1

        monkeypatch.setattr(rooms.meter, "_measure", slow)
        grant = held("h1", root=root_of(bytes=100))
        await handed_out(rooms, grant)
        first = asyncio.create_task(rooms.meter.charge(grant, 1, 0))
        await begun.wait()
        second = asyncio.create_task(rooms.meter.charge(grant, 1, 0))
        first.cancel()
        await asyncio.wait([first])
        release.set()
        await second
        assert rooms.meter.used_by_root("workspace:demo") == (4, 1)


@pytest.mark.sqlite_only
async def test_a_failed_write_charges_nobody():
    async with opened() as rooms:
        grant = held("h1", quota=Quota(bytes=50), root=root_of(bytes=100))
        await handed_out(rooms, grant)
        await rooms.meter.charge(grant, 5, 1)
        await rooms.database.write(
            lambda connection: connection.execute(
                "CREATE TRIGGER full BEFORE INSERT ON usage WHEN new.kind = 'root'"
                " BEGIN SELECT raise(FAIL, 'disk full'); END"
            ).fetchall()
        )
        before = rooms.rows("usage")
        with pytest.raises(Exception, match="refused"):
            await rooms.meter.charge(grant, 5, 1)
        assert rooms.rows("usage") == before


async def test_the_counts_of_grants_that_are_gone_are_dropped():
    async with opened() as rooms:
        gone, kept = await handed_out(
            rooms, held("gone", quota=Quota(bytes=9)), held("kept", quota=Quota(bytes=9))
        )
        await rooms.meter.charge(gone, 1, 1)
        await rooms.meter.charge(kept, 1, 1)
        await rooms.grants.release("gone")
        await rooms.meter.prune()
        assert [row[1] for row in rooms.rows("usage")] == ["kept"]


async def test_threads_with_their_own_loops_end_exactly_at_the_bound(tmp_path):
    async with opened(tmp_path, measured=(3, 0)) as rooms:
        grant = held("h1", root=root_of(bytes=103))
        await handed_out(rooms, grant)

        async def charge_often():
            let = 0
            for _ in range(40):
                try:
                    await rooms.meter.charge(grant, 1, 0)
                except QuotaExceeded:
                    continue
                let += 1
            return let

        let = await asyncio.gather(*(
            asyncio.to_thread(asyncio.run, charge_often()) for _ in range(4)
        ))  # fmt: skip
        assert sum(let) == 100
        assert rooms.meter.used_by_root("workspace:demo") == (103, 0)


@pytest.mark.spec("AUTH-8")
@pytest.mark.slow
async def test_eight_processes_end_exactly_at_the_bound(tmp_path):
    async with opened(tmp_path, real_clock) as rooms:
        await handed_out(rooms, held("h1", quota=Quota(files=150), root=WORKSPACE))
        jobs = [("charge", tmp_path, 120, "h1", 30)] * 8
        let = await asyncio.to_thread(run_at_once, *jobs)
        assert sum(map(int, let)) == 120
        assert rooms.meter.used_by_root("workspace:demo") == (120, 120)
        assert rooms.meter.used_by_grant("h1") == (120, 120)


CHARGES = st.lists(
    st.tuples(st.sampled_from(("a", "aa", "b")), st.integers(-9, 9), st.integers(-2, 2)),
    max_size=25,
)


@pytest.mark.sqlite_only
@settings(max_examples=60)
@given(CHARGES, st.integers(1, 20), st.integers(1, 20), st.integers(0, 30))
async def test_any_charges_give_what_a_table_on_paper_gives(charges, grant_max, root_max, there):
    root = root_of(bytes=root_max)
    quota = Quota(bytes=grant_max, files=3)
    async with opened(measured=(there, 1)) as rooms:
        await handed_out(
            rooms,
            held("a", root=root, quota=quota),
            held("aa", "a", root=root),
            held("b", root=root),
        )
        paper = {"a": [0, 0], "root": [there, 1]}
        bounds = {"a": (grant_max, 3), "root": (root_max, None)}
        for who, size, files in charges:
            rows = ["root"] if who == "b" else ["a", "root"]
            fits = all(
                added <= 0 or limit is None or used + added <= limit
                for row in rows
                for used, limit, added in zip(paper[row], bounds[row], (size, files), strict=True)
            )
            try:
                await rooms.meter.charge(held(who, root=root), size, files)
            except QuotaExceeded:
                assert not fits
            else:
                assert fits
                for row in rows:
                    paper[row] = [
                        max(0, used + added)
                        for used, added in zip(paper[row], (size, files), strict=True)
                    ]
            assert rooms.meter.used_by_grant("a") == tuple(paper["a"])
            # A root is measured when something is added to it, not when a grant refuses that.
            held_now = rooms.meter.used_by_root("workspace:demo") or (there, 1)
            assert held_now == tuple(paper["root"])
