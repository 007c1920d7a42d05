"""The book of grants: handed out, delegated, taken back, and still so after a restart."""

import asyncio

import msgspec
import pytest

from bailiwick.errors import FileAlreadyExists, GrantExpired, GrantRevoked, IoError, ParseError
from bailiwick.grant import AgentRun, Automation, Core, Extension, Quota, Root, User
from bailiwick.limits import Limits
from bailiwick.paths import ScopedPath
from bailiwick.state.bodies import Bodies
from bailiwick.state.grants.book import DAY_NS, ENDED_KEPT_DAYS, IDLE_DAYS_MAX
from bailiwick.state.grants.budgets import accountable
from tests.state.rooms import (
    AGENT,
    START_NS,
    WORKSPACE,
    Clock,
    NoDisk,
    held,
    opened,
    standing_grant,
)

pytestmark = pytest.mark.both_engines(lean=True)

WHO = {"by": "user:ann", "front": "cli"}


async def tree(rooms):
    """A standing grant, two hand-outs, and two delegations of the first, one below the other."""
    await rooms.grants.add(standing_grant("s1"), **WHO)
    for id_, parent in (("a", "s1"), ("b", "s1"), ("aa", "a"), ("aaa", "aa")):
        await rooms.grants.hand_out(held(id_, parent), front="python")


def living(rooms, *ids):
    return [id_ for id_ in ids if rooms.grants.load(id_) is not None]


# --- keeping -------------------------------------------------------------------------------------


@pytest.mark.spec("AUTH-5")
@pytest.mark.parametrize(
    "subject",
    [AgentRun("c/d", "r"), Core("x"), Extension("x"), Automation("x"),
     User("x")],
)  # fmt: skip
async def test_a_grant_comes_back_from_a_restart_as_it_was(tmp_path, subject):
    grant = held(
        "h1", subject=subject, path=ScopedPath("a/b"), base=ScopedPath("a"),
        allowed=(("*.py",), ("src/**",)), denied=("x",), source="conversation", explicit=True,
        symlinks="reject", hardlinks="allow",
        quota=Quota(bytes=5), limits=Limits(max_file_bytes=7), access=frozenset(("read", "list")),
        expires_at=(START_NS + DAY_NS) / 1e9, root=Root(kind="artifact", id="x", labels={"a": "b"}),
    )  # fmt: skip
    async with opened(tmp_path) as rooms:
        assert await rooms.grants.hand_out(grant, front="python") == grant
    async with opened(tmp_path) as rooms:
        again = rooms.grants.load("h1")
    assert again == grant
    assert type(again.subject) is type(subject)
    assert type(again.path) is ScopedPath


@pytest.mark.spec("AUTH-5")
async def test_standing_grants_are_listed_and_survive(tmp_path):
    first = standing_grant("s1", quota=Quota(files=3), path=ScopedPath("src"))
    second = standing_grant("s2", expires_at=START_NS / 1e9 + 60)
    clock = Clock()
    async with opened(tmp_path, clock) as rooms:
        await rooms.grants.add(first, **WHO)
        await rooms.grants.add(second, **WHO)
        with pytest.raises(FileAlreadyExists):
            await rooms.grants.add(first, **WHO)
    async with opened(tmp_path, clock) as rooms:
        assert rooms.grants.standing() == [first, second]
        assert rooms.grants.find("s1").grant == first
        assert rooms.grants.find("nobody") is None
        clock.advance(61)
        assert rooms.grants.standing() == [first]
        assert rooms.grants.load("s1") is None, "a standing grant is not one to act under"


async def test_the_book_is_read_page_by_page():
    async with opened() as rooms:
        await tree(rooms)
        await rooms.grants.revoke("b", **WHO)
        first = rooms.grants.entries(limit=3)
        rest = rooms.grants.entries(limit=3, cursor=first.next_cursor)
        assert [entry.id for entry in (*first.entries, *rest.entries)] == ["aaa", "aa", "a", "s1"]
        assert rest.next_cursor is None
        everything = rooms.grants.entries(ended=True).entries
        assert {entry.id for entry in everything if entry.ended_ns} == {"b"}
        only = rooms.grants.entries(kind="held", subject=str(AGENT), root="workspace:demo")
        assert [entry.parent for entry in only.entries] == ["aa", "a", "s1"]
        assert rooms.grants.entries(subject="user:x").entries == []
        for bad in ({"limit": 0}, {"limit": 10**9}, {"cursor": "x"}, {"cursor": "-1"}):
            with pytest.raises(ParseError):
                rooms.grants.entries(**bad)


@pytest.mark.spec("AUTH-5", "AUDIT-1")
async def test_what_is_granted_and_delegated_is_on_record():
    async with opened() as rooms:
        await tree(rooms)
        seen = [(r["act"], r["grant_id"], r["subject"]) for r in rooms.records()]
        holder = str(AGENT)
        assert seen == [
            ("grant", "s1", "user:ann"), ("grant", "a", holder), ("grant", "b", holder),
            ("delegate", "aa", holder), ("delegate", "aaa", holder),
        ]  # fmt: skip
        assert rooms.records()[1]["reason"] == "to see"
        assert all(record["request_id"] for record in rooms.records())


@pytest.mark.parametrize("when", [float("nan"), float("inf"), -1.0, 1e300])
async def test_a_grant_cannot_end_at_no_time(when):
    async with opened() as rooms:
        with pytest.raises(ParseError):
            await rooms.grants.hand_out(held(expires_at=when), front="python")
        assert rooms.rows("grants") == []


async def test_half_a_character_is_refused_and_nothing_kept():
    async with opened() as rooms:
        with pytest.raises(ParseError):
            await rooms.grants.hand_out(held(reason="\ud800"), front="python")
        assert rooms.rows("grants") == []


# --- a child and its parent ----------------------------------------------------------------------


@pytest.mark.spec("AUTH-5")
async def test_a_delegation_does_not_outlive_what_it_comes_from():
    async with opened() as rooms:
        soon = START_NS / 1e9 + 60
        await rooms.grants.hand_out(held("a", expires_at=soon), front="python")
        child = await rooms.grants.hand_out(held("aa", "a"), front="python")
        later = await rooms.grants.hand_out(held("ab", "a", expires_at=soon + 9), front="python")
        sooner = await rooms.grants.hand_out(held("ac", "a", expires_at=soon - 9), front="python")
        assert (child.expires_at, later.expires_at, sooner.expires_at) == (soon, soon, soon - 9)
        rooms.clock.advance(60)
        assert living(rooms, "a", "aa", "ab", "ac") == []


@pytest.mark.spec("AUTH-5", "HTTP-1")
async def test_a_grant_that_processes_share_is_one(tmp_path):
    async with opened(tmp_path) as one, opened(tmp_path) as other:
        assert one.grants.shared("shared-1-a") is None
        given = [
            await rooms.grants.hand_out(held("shared-1-a", reason=why), front="http", shared=True)
            for rooms, why in ((one, "first"), (other, "second"))
        ]
        assert [each.reason for each in given] == ["first", "first"]
        assert other.grants.shared("shared-1-a") == given[0]
        await one.grants.revoke("shared-1-a", **WHO)
        for rooms in (one, other):
            with pytest.raises(GrantRevoked):
                rooms.grants.shared("shared-1-a")
            with pytest.raises(GrantRevoked):
                await rooms.grants.hand_out(held("shared-1-a"), front="http", shared=True)
        soon = START_NS / 1e9 + 60
        await one.grants.hand_out(held("shared-1-b", expires_at=soon), front="http", shared=True)
        other.clock.advance(61)
        with pytest.raises(GrantExpired):
            other.grants.shared("shared-1-b")
        # Once nobody acts under them any more they go, but for what was passed on.
        await one.grants.hand_out(held("shared-1-c"), front="http", shared=True)
        await one.grants.hand_out(held("heir", "shared-1-c"), front="http")
        await one.grants.hand_out(held("shared-2-d"), front="http", shared=True)
        await other.grants.release_shared("shared-1-")
        assert other.grants.find("shared-1-b") is None
        assert living(one, "shared-1-c", "heir", "shared-2-d") == [
            "shared-1-c", "heir", "shared-2-d",
        ]  # fmt: skip


@pytest.mark.spec("AUTH-5", "HTTP-12")
async def test_a_grant_counts_for_the_first_on_its_line_who_is_no_person():
    async with opened() as rooms:
        await rooms.grants.add(standing_grant("s1"), **WHO)
        person, host, ann, bob = User("p"), Core("h"), AgentRun("ann", "1"), AgentRun("bob", "1")
        lines = {
            "own": (ann,),
            "to itself": (ann, ann, ann),
            "to another": (ann, bob, ann),
            "from a person": (person, bob),
            "from the host by a person": (host, person, bob, ann),
            "through somebody who calls himself a person": (ann, person, bob),
            "of people": (host, person),
        }
        told = {}
        for name, line in lines.items():
            parent = "s1"
            for number, subject in enumerate(line):
                id_ = f"{name} {number}"
                await rooms.grants.hand_out(held(id_, parent, subject=subject), front="python")
                parent = id_
            told[name] = accountable(rooms.database.read, parent)
        assert told == {
            "own": str(ann), "to itself": str(ann), "to another": str(ann),
            "from a person": str(bob), "from the host by a person": str(bob),
            "through somebody who calls himself a person": str(ann), "of people": str(person),
        }  # fmt: skip
        assert accountable(rooms.database.read, "nothing") is None


@pytest.mark.spec("AUTH-5")
async def test_nothing_is_handed_out_of_what_does_not_hold():
    async with opened() as rooms:
        await tree(rooms)
        await rooms.grants.hand_out(held("short", expires_at=START_NS / 1e9 + 1), front="python")
        await rooms.grants.revoke("a", **WHO)
        rooms.clock.advance(2)
        before = rooms.everything()
        for parent, error in (
            ("a", GrantRevoked),
            ("aaa", GrantRevoked),
            ("nobody", GrantRevoked),
            ("short", GrantExpired),
        ):
            with pytest.raises(error):
                await rooms.grants.hand_out(held("new", parent), front="python")
        assert rooms.everything() == before


@pytest.mark.spec("AUTH-5")
async def test_revoking_ends_the_whole_branch_and_no_more():
    async with opened() as rooms:
        await tree(rooms)
        assert await rooms.grants.revoke("a", request_id="r9", reason="done", **WHO) == 3
        assert living(rooms, "a", "aa", "aaa", "b") == ["b"]
        assert await rooms.grants.revoke("a", **WHO) == 0
        assert await rooms.grants.revoke("nobody", **WHO) == 0
        revoked = [record for record in rooms.records() if record["act"] == "revoke"]
        assert {record["grant_id"] for record in revoked} == {"a", "aa", "aaa"}
        assert {(r["subject"], r["request_id"], r["reason"], r["front"]) for r in revoked} == {
            ("user:ann", "r9", "done", "cli")
        }
        assert await rooms.grants.revoke("s1", **WHO) == 2, "the standing one, and b"
        assert rooms.grants.standing() == []


@pytest.mark.spec("AUTH-5")
async def test_a_revocation_survives_a_restart(tmp_path):
    async with opened(tmp_path) as rooms:
        await tree(rooms)
        await rooms.grants.revoke("s1", **WHO)
    async with opened(tmp_path) as rooms:
        assert living(rooms, "a", "b", "aa", "aaa") == []
        assert rooms.grants.standing() == []


@pytest.mark.spec("AUTH-5")
async def test_delegating_while_it_is_revoked_leaves_no_survivor():
    async with opened() as rooms:
        await tree(rooms)

        async def delegate(number):
            if number == 20:
                return await rooms.grants.revoke("a", **WHO)
            try:
                return await rooms.grants.hand_out(held(f"n{number}", "aa"), front="python")
            except GrantRevoked:
                return None

        await asyncio.gather(*(delegate(number) for number in range(40)))
        assert living(rooms, "a", "aa", "aaa", *(f"n{number}" for number in range(40))) == []


async def test_a_deep_branch_ends_as_one():
    async with opened() as rooms:
        parent = None
        for number in range(300):
            await rooms.grants.hand_out(held(f"n{number}", parent), front="python")
            parent = f"n{number}"
        assert await rooms.grants.revoke("n0", **WHO) == 300


# --- what a configuration lists ------------------------------------------------------------------


@pytest.mark.spec("AUTH-5")
async def test_a_configuration_replaces_what_it_granted_before(tmp_path):
    kept, gone, made = standing_grant("kept"), standing_grant("gone"), standing_grant("made")
    async with opened(tmp_path) as rooms:
        result = await rooms.grants.sync_configured([kept, gone])
        assert result == (("kept", "gone"), (), (), ())
        await rooms.grants.add(made, **WHO)
        for parent in ("kept", "gone", "made"):
            await rooms.grants.hand_out(held(f"of-{parent}", parent), front="python")
    async with opened(tmp_path) as rooms:
        new = standing_grant("new")
        assert await rooms.grants.sync_configured([kept, new]) == (("new",), (), ("gone",), ())
        assert living(rooms, "of-kept", "of-gone", "of-made") == ["of-kept", "of-made"]
        assert rooms.grants.standing() == [kept, made, new]
        ended = [r["grant_id"] for r in rooms.records() if r["act"] == "revoke"]
        assert sorted(ended) == ["gone", "of-gone"]
        before = rooms.records()
        assert await rooms.grants.sync_configured([kept, new]) == ((), (), (), ())
        assert rooms.records() == before, "nothing new, nothing on record"
        assert rooms.grants.find("kept").configured
        assert not rooms.grants.find("made").configured


async def test_a_grant_listed_differently_ends_what_was_handed_out_of_it():
    async with opened() as rooms:
        wide = standing_grant("s1", access=frozenset(("read", "write")))
        await rooms.grants.sync_configured([wide])
        await rooms.grants.hand_out(held("h1", "s1"), front="python")
        narrow = standing_grant("s1")
        assert (await rooms.grants.sync_configured([narrow])).changed == ("s1",)
        assert living(rooms, "h1") == []
        assert rooms.grants.standing() == [narrow]


async def test_a_new_expiry_shortens_what_was_handed_out_and_never_lengthens_it():
    async with opened() as rooms:
        now = START_NS / 1e9
        await rooms.grants.sync_configured([standing_grant("s1", expires_at=now + 100)])
        await rooms.grants.hand_out(held("h1", "s1"), front="python")
        await rooms.grants.hand_out(held("h2", "h1", expires_at=now + 5), front="python")
        await rooms.grants.sync_configured([standing_grant("s1", expires_at=now + 200)])
        assert rooms.grants.load("h1").expires_at == now + 100
        assert rooms.grants.row("h1")[0] == int((now + 100) * 1e9)
        assert rooms.grants.standing()[0].expires_at == now + 200
        await rooms.grants.sync_configured([standing_grant("s1", expires_at=now + 10)])
        assert rooms.grants.load("h1").expires_at == now + 10
        assert rooms.grants.load("h2").expires_at == now + 5
        rooms.clock.advance(11)
        assert living(rooms, "h1", "h2") == []


async def test_what_was_revoked_by_hand_stays_so_until_the_configuration_says_otherwise():
    async with opened() as rooms:
        await rooms.grants.sync_configured([standing_grant("s1")])
        await rooms.grants.revoke("s1", **WHO)
        again = standing_grant("s1", expires_at=START_NS / 1e9 + 100)
        assert (await rooms.grants.sync_configured([again])).revoked == ("s1",)
        rooms.clock.advance(400 * 24 * 3600)
        assert (await rooms.grants.sync_configured([standing_grant("s1")])).revoked == ("s1",)
        assert rooms.grants.standing() == []
        other = standing_grant("s1", reason="decided anew")
        assert (await rooms.grants.sync_configured([other])).changed == ("s1",)
        assert rooms.grants.standing() == [other]


async def test_two_configurations_leave_each_other_alone():
    async with opened() as rooms:
        await rooms.grants.sync_configured([standing_grant("s1")], origin="one.toml")
        await rooms.grants.sync_configured([standing_grant("s2")], origin="two.toml")
        assert [grant.id for grant in rooms.grants.standing()] == ["s1", "s2"]


async def test_a_configuration_that_cannot_be_kept_changes_nothing():
    async with opened() as rooms:
        await rooms.grants.sync_configured([standing_grant("s1")])
        await rooms.grants.add(standing_grant("made"), **WHO)
        before = rooms.everything()
        with pytest.raises(FileAlreadyExists):
            await rooms.grants.sync_configured([standing_grant("s2"), standing_grant("made")])
        with pytest.raises(ParseError):
            await rooms.grants.sync_configured([standing_grant("s3"), standing_grant("s3")])
        assert rooms.everything() == before


async def test_while_a_change_is_under_way_nothing_is_remembered():
    """As after a process that died in the middle of one: what it left is seen all the same."""
    async with opened() as rooms:
        await rooms.grants.add(standing_grant("s1"), **WHO)
        with rooms.database.epoch.changing():
            assert len(rooms.grants.standing()) == 1
            await rooms.database.write(
                lambda connection: connection.execute("UPDATE grants SET ended_ns = 1").fetchall()
            )
            assert rooms.grants.standing() == []


# --- the book stays small ------------------------------------------------------------------------


async def test_what_ended_long_ago_is_cleared_away():
    async with opened() as rooms:
        await tree(rooms)
        await rooms.grants.sync_configured([standing_grant("listed")])
        await rooms.grants.hand_out(held("short", expires_at=START_NS / 1e9 + 1), front="python")
        await rooms.grants.revoke("a", **WHO)
        await rooms.grants.revoke("listed", **WHO)
        assert await rooms.grants.prune() == 0
        rooms.clock.advance(ENDED_KEPT_DAYS * 24 * 3600 + 2)
        assert await rooms.grants.prune() == 4
        assert rooms.grants.find("a") is None
        assert rooms.grants.find("short") is None
        assert rooms.grants.find("listed") is not None
        assert living(rooms, "b") == ["b"]


async def test_what_nobody_uses_is_given_up_leaf_by_leaf():
    async with opened() as rooms:
        await tree(rooms)
        rooms.clock.advance((IDLE_DAYS_MAX + 1) * 24 * 3600)
        rooms.grants.note_use("aa", rooms.clock())
        assert await rooms.grants.prune() == 2, "b, and the lowest of the branch"
        assert living(rooms, "a", "aa", "aaa", "b") == ["a", "aa"]
        assert len(rooms.grants.standing()) == 1


async def test_the_book_is_pruned_by_handing_out(monkeypatch):
    monkeypatch.setattr("bailiwick.state.grants.book._PRUNE_EVERY", 8)
    async with opened() as rooms:
        for number in range(64):
            soon = rooms.clock() / 1e9 + 1
            await rooms.grants.hand_out(held(f"n{number}", expires_at=soon), front="python")
            rooms.clock.advance((ENDED_KEPT_DAYS + 1) * 24 * 3600)
        assert len(rooms.rows("grants")) <= 8


async def test_what_is_released_is_gone_unless_something_hangs_on_it():
    async with opened() as rooms:
        await tree(rooms)
        for id_ in ("a", "b", "s1", "nobody"):
            await rooms.grants.release(id_)
        assert living(rooms, "a", "b") == ["a"]
        assert len(rooms.grants.standing()) == 1
        assert not any(record["act"] == "revoke" for record in rooms.records())


async def test_the_quotas_over_a_grant_are_those_of_its_whole_line():
    async with opened() as rooms:
        await rooms.grants.add(standing_grant("s1", quota=Quota(bytes=9)), **WHO)
        await rooms.grants.hand_out(held("h1", "s1"), front="python")
        await rooms.grants.hand_out(held("h2", "h1", quota=Quota(files=2)), front="python")
        assert rooms.grants.lineage("h2") == (("h2", Quota(files=2)), ("s1", Quota(bytes=9)))
        assert rooms.grants.lineage("nobody") == ()


# --- faults --------------------------------------------------------------------------------------


@pytest.mark.spec("AUDIT-1")
async def test_without_a_record_nothing_is_granted_or_revoked():
    async with opened() as rooms:
        await tree(rooms)
        await rooms.grants.sync_configured([standing_grant("listed")])
        rooms.fail_records = True
        before = rooms.everything()
        for attempt in (
            rooms.grants.add(standing_grant("s2"), **WHO),
            rooms.grants.hand_out(held("new", "a"), front="python"),
            rooms.grants.revoke("s1", **WHO),
            rooms.grants.sync_configured([standing_grant("other")]),
            rooms.trust.set_trust("workspace:demo", True, **WHO),
        ):
            with pytest.raises(NoDisk):
                await attempt
        assert rooms.everything() == before
        assert living(rooms, "a", "b", "aa", "aaa") == ["a", "b", "aa", "aaa"]
        rooms.fail_records = False
        assert await rooms.grants.revoke("s1", **WHO) == 5


@pytest.mark.sqlite_only
async def test_a_full_disk_leaves_nothing_half_done():
    async with opened() as rooms:
        await tree(rooms)

        def no_more_pages(connection):
            pages = connection.pragma("page_count")
            assert connection.pragma("max_page_count", pages) == pages

        await rooms.database.write(no_more_pages)
        before = rooms.everything()
        for attempt in (
            rooms.grants.hand_out(held("new", "a", reason="x" * 100_000), front="python"),
            rooms.grants.revoke("a", reason="x" * 100_000, **WHO),
            rooms.grants.sync_configured([standing_grant("new", reason="x" * 100_000)]),
        ):
            with pytest.raises(IoError):
                await attempt
        assert rooms.everything() == before
        assert living(rooms, "a", "b", "aa", "aaa") == ["a", "b", "aa", "aaa"]


@pytest.mark.sqlite_only
async def test_a_row_that_cannot_be_read_is_a_fault_of_the_state():
    async with opened() as rooms:
        await tree(rooms)
        await rooms.database.write_control(
            lambda connection: connection.execute("UPDATE grants SET body = x'c1'").fetchall()
        )
        with pytest.raises(IoError):
            rooms.grants.load("a")
        with pytest.raises(IoError):
            rooms.grants.lineage("a")
        # Nobody can tell what it gives, so it gives nothing; the others are not in doubt by that.
        assert rooms.grants.standing() == []
        assert rooms.grants.entries().entries == []


def test_every_field_of_a_grant_is_kept():
    """A field that someone adds to `Grant` must come back too."""
    grant = held()
    bodies = Bodies(type(grant))
    decoded = bodies.decode(bodies.encode(grant))
    assert msgspec.structs.astuple(decoded) == msgspec.structs.astuple(grant)
    assert decoded.root == WORKSPACE
