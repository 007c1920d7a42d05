"""What ends a command besides itself: its grant, and how many there may be."""

import pytest

import bailiwick
from bailiwick.errors import GrantRevoked, PathNotFound, RateLimited, RootNotFound
from tests.authority.support import AGENT, ME, governed
from tests.scope.test_exec import ALLOW_EXEC, RUNNING
from tests.scope.test_exec_roots import NOTES

pytestmark = pytest.mark.usefixtures("needs_bubblewrap")


def running(tmp_path, rules=ALLOW_EXEC, **options):
    return governed(tmp_path, rules, on_disk=True, state_dir=tmp_path / "state", **options)


async def printed(execution, wanted):
    """Wait until it has printed something."""
    said = b""
    async for piece in execution.output():
        said += piece.data
        if wanted in said:
            return


WAITS_FOR_EVER = "echo changed > a.txt; echo begun; exec sleep 1000"


@pytest.mark.spec("EXEC-5", "AUTH-5")
async def test_a_command_ends_with_its_grant_and_what_it_changed_is_withheld(tmp_path):
    async with running(tmp_path) as house:
        agent = await house.scope(RUNNING)
        execution = agent.exec(shell=WAITS_FOR_EVER)
        await printed(execution, b"begun")
        await house.authority.revoke(agent.grant.id, by=ME)
        result = await execution.result()
        assert (result.signal, result.changes) == (9, [])
        assert [(each.path, each.error_kind) for each in result.withheld] == [
            ("a.txt", "grant_revoked")
        ]
        assert not (house.place / "a.txt").exists()
        again = await house.scope(RUNNING)
        async with await again.open_work(result.work_id) as work:
            assert [str(each.path) for each in (await work.changes()).changes] == ["a.txt"]
            await work.discard()


@pytest.mark.spec("EXEC-5", "AUTH-5")
async def test_commands_of_a_session_end_with_its_grant(tmp_path):
    async with running(tmp_path) as house:
        agent = await house.scope(RUNNING)
        async with agent.session() as session:
            execution = session.exec(shell=WAITS_FOR_EVER, timeout=3600)
            await printed(execution, b"begun")
            await house.authority.revoke(agent.grant.id, by=ME)
            assert (await execution.result()).signal == 9
            with pytest.raises(GrantRevoked):
                await session.exec(["true"])
            with pytest.raises(GrantRevoked):
                await session.publish()
        assert not (house.place / "a.txt").exists()
        assert [each.id for each in await (await house.scope(RUNNING)).work()] == [session.id]


BESIDE = ALLOW_EXEC + NOTES.partition("[[grant]]")[0]


async def granted(house, agent):
    return await house.authority.add_grant(
        subject=str(agent.subject), root="knowledge:notes", access=["read", "list", "metadata"],
        by=ME,
    )  # fmt: skip


@pytest.mark.spec("EXEC-4", "EXEC-5", "AUTH-5")
async def test_a_command_ends_with_the_grant_on_a_root_beside(tmp_path):
    """What it wrote may be what it has read there: it is withheld."""
    async with running(tmp_path, BESIDE) as house:
        await house.plant({"n.txt": "note"}, "knowledge:notes")
        agent = await house.scope(RUNNING)
        grant = await granted(house, agent)
        shell = "cat /roots/knowledge/notes/n.txt > a.txt; echo begun; exec sleep 1000"
        execution = agent.exec(shell=shell, roots=["knowledge:notes"])
        await printed(execution, b"begun")
        await house.authority.revoke(grant.id, by=ME)
        result = await execution.result()
        assert (result.signal, result.changes) == (9, [])
        assert [(each.path, each.error_kind) for each in result.withheld] == [
            ("a.txt", "grant_revoked")
        ]
        assert not (house.place / "a.txt").exists()
        async with await agent.open_work(result.work_id) as work:
            await work.discard()
        assert (await agent.exec(["true"]).result()).exit_code == 0


@pytest.mark.spec("EXEC-5", "AUTH-5")
async def test_one_that_ends_just_then_is_withheld_as_well(tmp_path):
    async with running(tmp_path, BESIDE) as house:
        agent = await house.scope(RUNNING)
        grant = await granted(house, agent)
        execution = agent.exec(
            shell="echo x > a.txt; echo begun; read go", stdin="pipe", roots=["knowledge:notes"]
        )
        await printed(execution, b"begun")
        await house.authority.revoke(grant.id, by=ME)
        await execution.close_input()
        result = await execution.result()
        assert [each.error_kind for each in result.withheld] == ["grant_revoked"]
        assert not (house.place / "a.txt").exists()


@pytest.mark.spec("EXEC-5", "AUTH-5")
async def test_commands_of_a_session_end_with_the_grant_on_a_root_beside(tmp_path):
    async with running(tmp_path, BESIDE) as house:
        agent = await house.scope(RUNNING)
        grant = await granted(house, agent)
        async with agent.session(roots=["knowledge:notes"]) as session:
            execution = session.exec(shell=WAITS_FOR_EVER, timeout=3600)
            await printed(execution, b"begun")
            await house.authority.revoke(grant.id, by=ME)
            assert (await execution.result()).signal == 9
            with pytest.raises(RootNotFound):
                await session.exec(["true"])
            await session.discard()


@pytest.mark.spec("EXEC-5")
async def test_a_command_ends_with_the_scope_that_was_lent_for_it(tmp_path):
    async with running(tmp_path) as house:
        agent = await house.scope(RUNNING)
        execution = agent.exec(shell=WAITS_FOR_EVER)
        await printed(execution, b"begun")
        await agent.aclose()
        assert (await execution.result()).signal == 9
        (left,) = await (await house.scope(RUNNING)).work()
        assert left.subject == str(AGENT)


AT_ONCE = "limits = { exec_at_once_max = 8, exec_per_subject_max = 3 }"


def others(house, number):
    return house.scope(RUNNING, subject=bailiwick.AgentRun("c1", f"other{number}"))


async def started(*scopes):
    return [await scope.exec(["sleep", "1000"]) for scope in scopes]


@pytest.mark.spec("EXEC-5")
async def test_one_agent_does_not_crowd_out_the_others(tmp_path):
    async with running(tmp_path, options=AT_ONCE) as house:
        agent = await house.scope(RUNNING)
        heir = await agent.delegate(bailiwick.AgentRun("c1", "heir"), access=RUNNING)
        under_way = await started(agent, agent, heir)
        for crowding in (agent, heir):
            with pytest.raises(RateLimited) as refused:
                await crowding.exec(["true"])
            assert refused.value.retryable
            assert refused.value.details["limit"] == 3
        assert (await (await others(house, 1)).exec(["true"]).result()).exit_code == 0
        await under_way.pop().aclose()
        assert (await heir.exec(["true"]).result()).exit_code == 0
        for execution in under_way:
            await execution.aclose()


@pytest.mark.spec("EXEC-5")
async def test_agents_together_leave_room_for_people(tmp_path):
    async with running(tmp_path, options=AT_ONCE) as house:
        crowd = [await others(house, number // 3) for number in range(6)]
        under_way = await started(*crowd)
        with pytest.raises(RateLimited, match="here"):
            await (await others(house, 9)).exec(["true"])
        person = await house.scope(RUNNING, subject=ME)
        under_way += await started(person, person)
        with pytest.raises(RateLimited, match="here"):
            await person.exec(["true"])
        for execution in under_way:
            await execution.aclose()
        assert (await (await others(house, 9)).exec(["true"]).result()).exit_code == 0


@pytest.mark.spec("EXEC-5")
async def test_the_room_of_a_session_counts_too_and_what_fails_does_not(tmp_path):
    async with running(tmp_path, options=AT_ONCE) as house:
        agent = await house.scope(RUNNING)
        for _ in range(4):
            with pytest.raises(PathNotFound):
                await agent.exec(["true"], cwd="nowhere")
        sessions = [agent.session() for _ in range(3)]
        # What is left is for one, and the third needs a room and a command in it.
        for session in sessions[:2]:
            await session.exec(["true"]).result()
        with pytest.raises(RateLimited):
            await sessions[2].exec(["true"])
        await sessions[0].aclose()
        await sessions[2].exec(["true"]).result()
        for session in sessions[1:]:
            await session.aclose()
        assert len(await started(agent, agent, agent)) == 3


@pytest.mark.spec("EXEC-8", "AUTH-5")
async def test_a_name_that_somebody_chose_leads_to_nobody_elses_working_copies(tmp_path):
    async with running(tmp_path) as house:
        victim = await others(house, 1)
        result = await victim.exec(shell="echo mine > a.txt", publish="manual").result()
        agent = await house.scope(RUNNING)
        namesake = await agent.delegate(victim.subject, access=RUNNING)
        assert str(namesake.subject) == str(victim.subject)
        assert await namesake.work() == []
        for opens in (namesake.open_work, namesake.open_session):
            with pytest.raises(PathNotFound):
                await opens(result.work_id)
        left = await namesake.exec(shell="echo theirs > a.txt", publish="manual").result()
        assert [each.id for each in await namesake.work()] == [left.work_id]
        assert [each.id for each in await victim.work()] == [result.work_id]
