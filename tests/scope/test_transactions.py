"""Transactions through a scope: all at once, or nothing, and every step of it on record."""

import asyncio

import msgspec
import pytest

import bailiwick
from bailiwick import Closed, GrantExpired, HashMismatch, MissingAccess, PolicyDenied, Unsupported
from bailiwick.grant import AgentRun
from tests.scope.support import Rules, deny, records
from tests.scope.volumes import ruled, text, tree, volume
from tests.waiting import for_ever

pytestmark = pytest.mark.spec("VOL-7")


async def test_many_changes_appear_at_once(tmp_path):
    async with volume(tmp_path) as fs:
        await fs.write_text("a", "before")
        async with fs.with_request("tx").transaction() as inside:
            await inside.write_text("a", "after")
            await inside.write_text("d/b", "new", parents=True)
            await inside.move("a", "d/a")
            assert await tree(inside) == {"d/a": "after", "d/b": "new"}
            assert await tree(fs) == {"a": "before"}
            await fs.write_text("beside", "by another")
            assert not await inside.exists("beside")
        assert await tree(fs) == {"beside": "by another", "d/a": "after", "d/b": "new"}
        with pytest.raises(Closed):
            await inside.read_text("d/a")
        newest = (await fs.history("d/b")).versions[0]
        assert (newest.verb, newest.request_id) == ("transaction", "tx")
        assert [each.name for each in await fs.forks()] == ["main"]
        await fs.undo("tx")
        assert await tree(fs) == {"a": "before", "beside": "by another"}


@pytest.mark.spec("AUDIT-1", "AUDIT-5")
async def test_each_step_is_on_record_and_how_it_ended(tmp_path):
    async with volume(tmp_path) as fs:
        async with fs.with_request("t1").transaction() as inside:
            await inside.write_text("a", "1")
        with pytest.raises(ZeroDivisionError):  # noqa: PT012
            async with fs.with_request("t2").transaction() as inside:
                await inside.write_text("b", "1")
                raise ZeroDivisionError
        kept = [
            (each.verb, each.operation, each.outcome, each.error_kind, each.root.branch)
            for each in records(fs)
        ]
        assert kept == [
            ("write_text", "write", "success", None, "transaction:t1"),
            ("transaction", "version", "success", None, ""),
            ("write_text", "write", "success", None, "transaction:t2"),
            ("transaction", "version", "failed", "cancelled", ""),
        ]
        assert {each.request_id for each in records(fs)} == {"t1", "t2"}
        assert await tree(fs) == {"a": "1"}


@pytest.mark.parametrize("how", ["exception", "refusal", "cancelled"])
async def test_what_goes_wrong_inside_leaves_nothing(tmp_path, how):
    async with volume(tmp_path) as fs:
        await fs.write_text("a", "before")

        async def work():
            async with fs.transaction() as inside:
                await inside.write_text("a", "after")
                if how == "exception":
                    raise ZeroDivisionError
                if how == "refusal":
                    await inside.read_text("missing")
                asyncio.current_task().cancel()
                await for_ever()

        expected = {
            "exception": ZeroDivisionError, "refusal": bailiwick.PathNotFound,
            "cancelled": asyncio.CancelledError,
        }[how]  # fmt: skip
        with pytest.raises(expected):
            await asyncio.ensure_future(work())
        assert await tree(fs) == {"a": "before"}
        ended = [each for each in records(fs) if each.verb == "transaction"]
        assert [(each.outcome, each.error_kind) for each in ended] == [("failed", "cancelled")]
        assert [each.name for each in await fs.forks()] == ["main"]
        assert fs._pipeline.dependents == {}


async def test_others_changed_the_same_meanwhile(tmp_path):
    async with volume(tmp_path) as fs:
        await fs.write_text("a", "before")
        with pytest.raises(HashMismatch) as refused:  # noqa: PT012
            async with fs.transaction() as inside:
                await inside.write_text("a", "mine")
                await inside.write_text("b", "mine")
                await fs.write_text("a", "theirs")
        assert refused.value.path == "a"
        assert refused.value.details["conflicts"] == [["a", "it was changed on both sides"]]
        assert await tree(fs) == {"a": "theirs"}
        ended = [each for each in records(fs) if each.verb == "transaction"]
        assert [(each.outcome, each.error_kind) for each in ended] == [("failed", "hash_mismatch")]


async def test_what_came_into_a_moved_directory_meanwhile_is_a_conflict(tmp_path):
    """It was not there when the move was decided on: nobody was asked about it."""
    async with volume(tmp_path) as fs:
        await fs.write_text("d/a", "1", parents=True)
        with pytest.raises(HashMismatch):  # noqa: PT012
            async with fs.transaction() as inside:
                await inside.move("d", "e")
                await fs.write_text("d/late", "1")
        assert await tree(fs) == {"d/a": "1", "d/late": "1"}


@pytest.mark.spec("AUTH-5")
async def test_a_grant_that_ends_in_the_middle_ends_all_of_it(tmp_path):
    async with volume(tmp_path) as fs:
        agent = await fs.delegate(AgentRun("a", "b"), expires_in=60.0)
        with pytest.raises(GrantExpired):  # noqa: PT012
            async with agent.transaction() as inside:
                await inside.write_text("a", "1")
                ended = msgspec.structs.replace(agent.grant, expires_at=1.0)
                agent._lent = msgspec.structs.replace(agent._lent, grant=ended)
        assert await tree(fs) == {}
        last = [each for each in records(fs) if each.verb == "transaction"][-1]
        assert (last.outcome, last.error_kind) == ("denied", "grant_expired")


@pytest.mark.spec("POL-1")
async def test_a_rule_that_comes_in_the_middle_holds_at_the_end(tmp_path):
    rules = Rules()
    async with volume(tmp_path, policy=rules) as fs:
        agent = await ruled(fs)
        with pytest.raises(PolicyDenied) as refused:  # noqa: PT012
            async with agent.transaction() as inside:
                await inside.write_text("free", "1")
                await inside.write_text("kept", "1")
                rules._rules = (deny("kept"),)
        assert refused.value.path == "kept"
        rules._rules = ()
        assert await tree(fs) == {}


@pytest.mark.spec("POL-1")
async def test_each_step_inside_is_decided_on(tmp_path):
    async with volume(tmp_path, policy=Rules(deny("kept"))) as fs:
        agent = await ruled(fs, access=["read", "list", "write"])
        async with agent.transaction() as inside:
            with pytest.raises(PolicyDenied):
                await inside.write_text("kept", "1")
            await inside.write_text("free", "1")
            with pytest.raises(MissingAccess):
                await inside.remove("free")
            heir = await inside.delegate(AgentRun("c1", "r9"), access=["read"])
            assert await text(heir, "free") == "1"
            with pytest.raises(MissingAccess):
                await heir.write_text("free", "2")
        assert await tree(fs) == {"free": "1"}
        reader = await ruled(fs, access=["read", "list"])
        with pytest.raises(MissingAccess):
            async with reader.transaction():
                raise AssertionError("it must not begin")
        assert records(fs)[-1].outcome == "denied"


@pytest.mark.spec("EVENT-1")
async def test_others_hear_of_it_once_and_at_the_end(tmp_path):
    async with volume(tmp_path) as fs:
        heard = []
        await fs.on_change(lambda change: heard.append((change.kind, change.path)))
        async with fs.transaction() as inside:
            await inside.write_text("a", "1")
            await inside.write_text("a", "2")
            await inside.write_text("b", "1")
            await inside.remove("b")
            await asyncio.sleep(0)
            assert heard == []
        await asyncio.sleep(0)
        assert heard == [("created", "a")]


async def test_within_a_transaction_there_is_no_other_and_no_fork(tmp_path):
    async with volume(tmp_path) as fs:
        await fs.write_text("a", "1")
        async with fs.transaction() as inside:
            with pytest.raises(Unsupported):
                async with inside.transaction():
                    pass
            for wrong in (inside.fork("x"), inside.snapshot("x"), inside.merge("x")):
                with pytest.raises(Unsupported):
                    await wrong
            with pytest.raises(Unsupported):
                await inside.lock("a")
            version = (await fs.history("a")).versions[0].version
            await inside.write_text("a", "2")
            assert await text(inside, "a", as_of=version) == "1"
            await inside.restore("a", version)
        assert await tree(fs) == {"a": "1"}


@pytest.mark.spec("LIFE-2")
async def test_closing_the_root_ends_a_transaction(tmp_path):
    async with volume(tmp_path) as fs:
        block = fs.transaction()
        inside = await block.__aenter__()
        await inside.write_text("a", "1")
        await fs.aclose()
        with pytest.raises(Closed):
            await inside.write_text("b", "1")
        with pytest.raises(Closed):
            await block.__aexit__(None, None, None)
    async with volume(tmp_path) as fs:
        assert await tree(fs) == {}


@pytest.mark.spec("PY-2")
def test_blocking_code_has_transactions_and_locks_too(tmp_path):
    from bailiwick.portal import Portal, SyncScope

    portal = Portal.borrow()
    opened = volume(tmp_path)
    fs = SyncScope(portal.run(opened.__aenter__()), portal)
    try:
        with fs.transaction() as inside:
            inside.write_text("a", "1")
            assert not fs.exists("a")
        with pytest.raises(ZeroDivisionError), fs.transaction() as inside:  # noqa: PT012
            inside.write_text("a", "2")
            raise ZeroDivisionError
        with pytest.raises(HashMismatch), fs.transaction() as inside:  # noqa: PT012
            inside.write_text("a", "2")
            fs.write_text("a", "3")
        with fs.lock("a", ttl=5) as lease:
            lease.renew(10)
            with pytest.raises(bailiwick.LockHeld):
                fs.write_text("a", "4")
            fs.write_text("a", "4", lock_token=lease.token)
        assert not lease.release()
        fork = fs.fork("work")
        fork.write_text("b", "1")
        assert fs.merge("work").changed == ["b"]
        fork.close()
        again = fs.open_fork("work")
        again.close()
        version = fs.history("a").versions[-1].version
        assert fs.read_text("a", as_of=version).text == "1"
        assert b"".join(fs.stream("a", as_of=version)) == b"1"
    finally:
        portal.run(opened.__aexit__(None, None, None))
        portal.give_back()
