"""Versions under an authority: revocation, quotas and the ledger hold in forks and transactions."""

from contextlib import asynccontextmanager

import pytest

import bailiwick
from bailiwick import GrantRevoked, PathNotFound, QuotaExceeded
from tests.authority.support import AGENT, EVERYTHING, ME, House
from tests.scope.volumes import text, told, tree

CHILD = bailiwick.AgentRun("c1", "child")


@asynccontextmanager
async def house_on_volume(tmp_path, **options):
    async with bailiwick.Authority.open(state_dir=str(tmp_path / "state")) as authority:
        place = f"sqlite:{tmp_path}/v.db"
        await authority.add_root("workspace:demo", place, trusted=True, **options)
        await authority.add_grant(
            subject="agent_run:*", root="workspace:demo", access=EVERYTHING, by=ME
        )
        yield House(authority, None)


@pytest.mark.spec("AUDIT-1", "AUDIT-5", "VOL-5")
async def test_the_ledger_tells_what_was_done_in_which_branch(tmp_path):
    async with house_on_volume(tmp_path) as house:
        fs = await house.scope()
        fork = await fs.fork("work")
        await fork.write_text("a", "1")
        async with fs.with_request("tx").transaction() as inside:
            await inside.write_text("b", "1")
        merged = await fs.merge("work")
        kept = [
            (each.verb, each.operation, each.root, each.details.get("branch"), each.outcome)
            for each in await house.operations()
        ]
        assert kept == [
            (verb, operation, "workspace:demo", branch, "success")
            for verb, operation, branch in (
                ("fork", "version", None), ("write_text", "write", "work"),
                ("write_text", "write", "transaction:tx"), ("transaction", "version", None),
                ("merge", "version", None),
            )
        ]  # fmt: skip
        assert (await fs.history("a")).versions[0].request_id == merged.request_id
        await fork.aclose()


@pytest.mark.spec("AUTH-5", "VOL-7", "VOL-13")
async def test_revocation_ends_forks_and_transactions(tmp_path):
    async with house_on_volume(tmp_path) as house:
        fs = await house.scope()
        await fs.write_text("a", "1")
        fork = await fs.fork("work")
        heir = await fork.delegate(CHILD)
        await heir.write_text("b", "1")
        with pytest.raises(GrantRevoked):  # noqa: PT012
            async with fs.transaction() as inside:
                await inside.write_text("a", "2")
                await house.authority.revoke(fs.grant.id, by=ME)
        for ended in (fork, heir, inside):
            with pytest.raises((GrantRevoked, bailiwick.Closed)):
                await ended.read_text("a")
        person = await house.scope(subject=ME)
        assert await tree(person) == {"a": "1"}
        last = [each for each in await house.operations() if each.verb == "transaction"][-1]
        assert (last.outcome, last.error_kind) == ("denied", "grant_revoked")
        await fork.aclose()


@pytest.mark.spec("VOL-5", "AUTH-8")
async def test_going_back_is_counted_against_quotas(tmp_path):
    quota = bailiwick.Quota(bytes=100)
    async with house_on_volume(tmp_path, quota=quota) as house:
        fs = await house.scope()
        used = fs._pipeline.meter.used_by_root
        await fs.write_text("a", "x" * 60)
        await fs.with_request("rm").remove("a")
        await fs.write_text("b", "x" * 60)
        with pytest.raises(QuotaExceeded):
            await fs.undo("rm")
        with pytest.raises(PathNotFound):
            await fs.read_text("a")
        await fs.write_text("b", "x" * 10)
        await fs.undo("rm")
        assert tuple(used("workspace:demo")) == (70, 2)
        with pytest.raises(ZeroDivisionError):  # noqa: PT012
            async with fs.transaction() as inside:
                await inside.write_text("c", "x" * 20)
                raise ZeroDivisionError
        assert tuple(used("workspace:demo")) == (70, 2)
        async with fs.transaction() as inside:
            await inside.write_text("c", "x" * 20)
            await inside.remove("a")
            with pytest.raises(QuotaExceeded):
                await inside.write_text("d", "x" * 80)
        assert tuple(used("workspace:demo")) == (30, 2)


@pytest.mark.spec("VOL-5")
async def test_a_person_undoes_what_an_agent_did(tmp_path):
    async with house_on_volume(tmp_path) as house:
        agent, person = await house.scope(), await house.scope(subject=ME)
        await agent.write_text("a", "agent")
        await agent.write_text("b", "agent")
        await person.write_text("b", "person")
        done = await person.undo(subject=str(AGENT))
        assert (done.undone, told(done)) == (["a"], {"b"})
        assert await text(person, "b") == "person"
