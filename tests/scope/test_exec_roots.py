"""What an operator lets programs use, and which other roots they see."""

import pytest

import bailiwick
from bailiwick.errors import ParseError, RootNotFound, Unsupported
from tests.authority.support import governed, rule
from tests.scope.test_exec import ALLOW_EXEC, RUNNING, told

pytestmark = pytest.mark.usefixtures("needs_bubblewrap")


@pytest.mark.spec("EXEC-4", "EXEC-5")
async def test_the_operator_says_what_programs_may_use(tmp_path):
    share = 'exec = {network = "loopback", timeout = "1 min", processes = 20, memory = "64 MiB"}'
    async with governed(
        tmp_path, ALLOW_EXEC, on_disk=True, state_dir=tmp_path / "state", options=share
    ) as house:
        agent = await house.scope(RUNNING)
        execution = agent.exec(shell="cat /proc/net/dev; ulimit -d", network="loopback")
        said = b"".join([piece.data async for piece in execution]).decode()
        assert "lo:" in said
        assert said.endswith(f"{64 * 1024}\n")
        assert (await execution.result()).sandbox == "bubblewrap"
        with pytest.raises(Unsupported):
            await agent.exec(["true"], network="host")
        for run in (agent.exec, agent.session().exec):
            with pytest.raises(ParseError):
                await run(["true"], timeout=61)
        limits = bailiwick.CommandLimits(memory_bytes_max=2**40)
        execution = agent.exec(shell="ulimit -d", limits=limits)
        said = b"".join([piece.data async for piece in execution]).decode()
        assert said == f"{64 * 1024}\n"
    async with governed(tmp_path, ALLOW_EXEC, on_disk=True, state_dir=tmp_path / "state") as house:
        agent = await house.scope(RUNNING)
        with pytest.raises(Unsupported):
            await agent.exec(["true"], network="loopback")


@pytest.mark.spec("EXEC-3")
async def test_a_root_that_a_program_adds_shares_what_it_says(tmp_path):
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "t").write_text("tool\n")
    (tmp_path / "p").mkdir()
    async with governed(tmp_path, ALLOW_EXEC, state_dir=tmp_path / "state") as house:
        for number, readable in enumerate((tmp_path / "p", tmp_path / "state")):
            with pytest.raises(ParseError):
                await house.authority.add_root(
                    f"workspace:wrong{number}", str(tmp_path / "p"), trusted=True,
                    commands=bailiwick.HostShare(readable=(str(readable),)),
                )  # fmt: skip
        await house.authority.add_root(
            "workspace:more", str(tmp_path / "p"), trusted=True,
            commands=bailiwick.HostShare(readable=(str(tmp_path / "tools"),)),
        )  # fmt: skip
        person = await house.scope(RUNNING, subject=bailiwick.User("me"), root="workspace:more")
        execution = person.exec(["cat", str(tmp_path / "tools" / "t")])
        assert b"".join([piece.data async for piece in execution]) == b"tool\n"
        await execution.result()


NOTES = (
    '[[root]]\nid = "notes"\nkind = "knowledge"\nmemory = true\ntrusted = true\n'
    '[[root]]\nid = "mine"\nkind = "knowledge"\nmemory = true\ntrusted = true\n'
    '[[grant]]\nsubject = "agent_run:c1/r1"\nroot = "knowledge:notes"\n'
    'access = ["read", "list", "metadata"]\n'
)


@pytest.mark.spec("EXEC-4")
async def test_other_roots_come_in_by_name_as_their_grants_show_them(tmp_path):
    rules = ALLOW_EXEC + NOTES + rule("hide", "secret", id="kept")
    async with governed(tmp_path, rules, on_disk=True, state_dir=tmp_path / "state") as house:
        await house.plant({"a.txt": "own"})
        await house.plant({"n.txt": "note", "secret": "hush"}, "knowledge:notes")
        await house.plant({"m.txt": "mine"}, "knowledge:mine")
        agent = await house.scope(RUNNING)
        script = (
            "cat a.txt /roots/knowledge/notes/n.txt; ls /roots/* /roots/knowledge/notes;"
            " echo x > /roots/knowledge/notes/x || echo b > b"
        )
        execution = agent.exec(shell=script, roots=["knowledge:notes"])
        said = b"".join([piece.data async for piece in execution]).decode()
        result = await execution.result()
        assert said.startswith("ownnote")
        assert "hush" not in said
        assert "secret" not in said
        assert told(result) == {("b", "created")}
        assert set(await house.tree("knowledge:notes")) == {"n.txt", "secret"}
        words = []
        for unknown in ("knowledge:mine", "knowledge:nothing", "nonsense", ""):
            with pytest.raises(RootNotFound) as caught:
                await agent.exec(["true"], roots=[unknown])
            words.append(str(caught.value))
        assert len(set(words)) == 1
        for wrong in ("knowledge:notes", ["knowledge:notes"] * 2):
            with pytest.raises(ParseError):
                await agent.exec(["true"], roots=wrong)
        read = [each for each in await house.operations() if each.root == "knowledge:notes"]
        assert [(each.verb, str(each.subject)) for each in read] == [("exec", str(agent.subject))]
    async with bailiwick.open("memory:", state_dir=str(tmp_path / "own")) as fs:
        with pytest.raises(RootNotFound):
            await fs.exec(["true"], roots=["knowledge:notes"])


@pytest.mark.spec("EXEC-3", "EXEC-4")
async def test_a_session_sees_other_roots_as_long_as_their_grants_hold(tmp_path):
    rules = ALLOW_EXEC + NOTES.partition("[[grant]]")[0] + rule("hide", "secret", id="kept")
    async with governed(tmp_path, rules, on_disk=True, state_dir=tmp_path / "state") as house:
        await house.plant({"n.txt": "note", "secret": "hush"}, "knowledge:notes")
        agent = await house.scope(RUNNING)
        person = bailiwick.User("local")

        async def said(session):
            execution = session.exec(shell="cd /roots/knowledge/notes && cat *; echo x > x; true")
            told = b"".join([piece.data async for piece in execution]).decode()
            await execution.result()
            return told

        grant = await house.authority.add_grant(
            subject=str(agent.subject), root="knowledge:notes",
            access=["read", "list", "metadata"], by=person,
        )  # fmt: skip
        for wrong in ("knowledge:notes", ["knowledge:notes"] * 2):
            with pytest.raises(ParseError):
                agent.session(roots=wrong)
        async with agent.session(roots=["knowledge:notes"]) as session:
            assert (await said(session)).startswith("note")
            assert "hush" not in await said(session)
            await session.exec(shell="echo own > own").result()
            assert set(await house.tree("knowledge:notes")) == {"n.txt", "secret"}
        async with await agent.open_session(session.id) as again:
            assert again.roots == ("knowledge:notes",)
            assert (await said(again)).startswith("note")
            await house.authority.revoke(grant.id, by=person)
            with pytest.raises(RootNotFound):
                await said(again)
            await again.discard()


@pytest.mark.spec("EXEC-4")
async def test_what_comes_to_be_hidden_in_another_root_is_not_shown_to_the_next(tmp_path):
    notes = tmp_path / "notes"
    (notes / "d").mkdir(parents=True)
    (notes / "d" / "n.txt").write_text("note")
    rules = ALLOW_EXEC + NOTES.replace("memory = true", f'path = "{notes}"', 1)
    rules += rule("hide", "**/secret", id="kept")
    async with governed(tmp_path, rules, on_disk=True, state_dir=tmp_path / "state") as house:
        agent = await house.scope(RUNNING)
        async with agent.session(roots=["knowledge:notes"]) as session:
            for _ in range(2):
                execution = session.exec(shell="cat /roots/knowledge/notes/d/*")
                assert b"".join([piece.data async for piece in execution]) == b"note"
                await execution.result()
                (notes / "d" / "secret").write_text("hush")


@pytest.mark.spec("EXEC-1")
def test_a_question_shows_which_roots_a_command_reads():
    command = bailiwick.Command(argv=("cat",), roots=("knowledge:notes",))
    assert command.text == "cat (reading knowledge:notes)"
