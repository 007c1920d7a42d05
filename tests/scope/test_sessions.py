"""Sessions: one working copy over many commands, at a time and one after the other."""

import asyncio
import os
import socket

import pytest

import bailiwick
from bailiwick.errors import (
    ApprovalDenied,
    Busy,
    Closed,
    MissingAccess,
    ParseError,
    PathNotFound,
    PathOutsideWorkspace,
    PolicyDenied,
    Unsupported,
)
from bailiwick.paths import RESERVED_PREFIX
from bailiwick.verbs import commands
from tests.sandboxes.test_ending import mounts_of_this_namespace
from tests.sandboxes.workshop import launchers_at_work, sleepers
from tests.scope.test_exec import left_in, opened, told
from tests.waiting import until

pytestmark = [pytest.mark.spec("EXEC-3"), pytest.mark.usefixtures("needs_bubblewrap")]


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    (root / "d").mkdir(parents=True)
    (root / "a.txt").write_text("one\n")
    (root / "d" / "b.txt").write_text("b\n")
    return root


async def said_by(session, script, **more):
    execution = session.exec(shell=script, **more)
    said = b"".join([piece.data async for piece in execution]).decode()
    await execution.result()
    return said


async def until_said(execution, wanted):
    said = b""
    async for piece in execution:
        said += piece.data
        if wanted in said:
            break
    return said


async def test_commands_build_on_each_other_and_the_tree_is_as_it_was_until_it_is_published(
    project,
):
    async with opened(project, history="on") as fs:
        async with fs.session() as session:
            await said_by(session, "sed -i s/one/two/ a.txt; echo t > /tmp/t; mkdir n")
            result = await session.exec(["sh", "-c", "cat a.txt /tmp/t > n/seen"]).result()
            assert (result.exit_code, result.changes, result.work_id) == (0, [], session.id)
            assert (project / "a.txt").read_text() == "one\n"
            assert told(await session.changes()) == {
                ("a.txt", "updated"), ("n", "created"), ("n/seen", "created")
            }  # fmt: skip
            assert "-one\n+two\n" in (await session.diff("a.txt")).text
            published = await session.publish()
            assert (project / "n" / "seen").read_text() == "two\nt\n"
            assert (await session.changes()).changes == []
            # It goes on from there: what was published is below, what comes is on top.
            assert await said_by(session, "echo three >> a.txt; cat a.txt; ls /tmp") == (
                "two\nthree\n"
            )
            assert told(await session.publish("partial")) == {("a.txt", "updated")}
        assert (project / "a.txt").read_text() == "two\nthree\n"
        assert left_in(project) == []
        versions = (await fs.history("a.txt")).versions
        assert published.request_id in {each.request_id for each in versions}
    assert not launchers_at_work()


async def test_several_at_a_time_see_each_other_and_nothing_is_published_meanwhile(project):
    before = mounts_of_this_namespace()
    async with opened(project) as fs, fs.session() as session:
        server = await session.exec(
            shell="while ! test -e go; do :; done; echo gone on; read x; echo $x > typed",
            stdin="pipe", timeout=3600,
        )  # fmt: skip
        with pytest.raises(Busy):
            await session.publish()
        with pytest.raises(Busy):
            await session.discard()
        assert (await session.exec(["touch", "go"]).result()).exit_code == 0
        assert await until_said(server, b"gone on\n") == b"gone on\n"
        assert told(await session.changes()) == {("go", "created")}
        await server.write(b"hello\n")
        assert (await server.result()).exit_code == 0
        assert told(await session.publish()) == {("go", "created"), ("typed", "created")}
    assert (project / "typed").read_text() == "hello\n"
    assert mounts_of_this_namespace() == before
    assert not launchers_at_work()


async def test_a_directory_and_variables_hold_for_the_commands_that_come(project):
    async with opened(project) as fs, fs.session(cwd="d", env={"NAME": "one"}) as session:
        assert await said_by(session, "cat b.txt; echo $NAME $MORE") == "b\none\n"
        assert await said_by(session, "ls; echo $NAME $MORE", cwd=".", env={"MORE": "m"}) == (
            "a.txt\nd\none m\n"
        )
        session.cwd = "."
        session.env["NAME"] = "two"
        assert await said_by(session, "mkdir -p e/f; cat a.txt; echo $NAME $MORE") == "one\ntwo\n"
        session.cwd = "e/f"
        assert await said_by(session, "basename $PWD; rm -r ../../d; ln -s e ../../d") == "f\n"
        assert await said_by(session, "ls", cwd="d") == "f\n"
        for outside in ("..", "/etc"):
            with pytest.raises(PathOutsideWorkspace):
                await session.exec(["true"], cwd=outside)
        with pytest.raises(PathNotFound):
            await session.exec(["true"], cwd="nowhere")
        with pytest.raises(ParseError):
            await session.exec(["true"], env={"A B": "c"})


@pytest.mark.spec("EXEC-3")
async def test_a_directory_outside_is_refused_when_it_is_said(project):
    """And not by every command that comes, also those that are run elsewhere."""
    async with opened(project) as fs, fs.session(cwd="d") as session:
        for outside in ("..", "/etc"):
            with pytest.raises(PathOutsideWorkspace):
                session.cwd = outside
            with pytest.raises(PathOutsideWorkspace):
                fs.session(cwd=outside)
        for wrong in ({"cwd": 5}, {"env": {"A=B": "c"}}, {"env": ["A=b"]}):
            with pytest.raises(ParseError):
                fs.session(**wrong)
        assert await said_by(session, "cat b.txt") == "b\n"


async def test_a_terminal_on_demand(project):
    async with opened(project) as fs, fs.session() as session:
        shell = await session.exec(
            shell="trap 'stty size; exit 3' WINCH; stty size; while :; do sleep 0.01; done",
            terminal=bailiwick.WindowSize(30, 99),
        )
        await until_said(shell, b"30 99")
        await shell.resize(50, 120)
        assert b"50 120" in await until_said(shell, b"50 120")
        assert (await shell.result()).exit_code == 3


async def test_closing_ends_its_processes_and_keeps_what_was_not_published(project):
    async with opened(project) as fs:
        async with fs.session(cwd="d", env={"N": "1"}) as session:
            await session.exec(shell="echo two > ../a.txt; sleep 70030", timeout=3600)
            await until(lambda: sleepers(70_030))
            assert (await session.exec(["true"]).result()).exit_code == 0
        assert sleepers(70_030) == []
        with pytest.raises(Closed):
            await session.exec(["true"])
        with pytest.raises(Closed):
            await session.changes()
        (info,) = await fs.work()
        assert info.id == session.id
        async with await fs.open_session(session.id) as again:
            with pytest.raises(Busy):
                await fs.open_session(session.id)
            assert again.lost == ("/bin/sh -c 'echo two > ../a.txt; sleep 70030'",)
            assert (again.cwd, again.env) == ("d", {"N": "1"})
            assert await said_by(again, "cat ../a.txt b.txt; echo $N") == "two\nb\n1\n"
            assert await again.discard() == ["a.txt"]
            assert await said_by(again, "cat ../a.txt") == "one\n"
        assert left_in(project) == []
        with pytest.raises(PathNotFound):
            await fs.open_session(session.id)


async def test_the_end_of_the_scope_is_the_end_of_the_session(project):
    async with opened(project) as fs:
        session = fs.session()
        running = await session.exec(shell="echo two > a.txt; sleep 70031")
        await until(lambda: sleepers(70_031))
    assert sleepers(70_031) == []
    assert (await running.result()).signal == 9
    assert left_in(project) == [session.id]
    assert not launchers_at_work()


@pytest.mark.spec("LINE-5", "LIFE-1")
@pytest.mark.parametrize("what", ["session", "command"])
@pytest.mark.parametrize("how", ["closed", "cancelled"])
@pytest.mark.parametrize("steps", [1, 2])
async def test_an_end_that_is_left_half_way_is_an_end(project, what, how, steps):
    """Nobody else would end the program: what is closed already is not closed again."""
    async with opened(project) as fs:
        session = fs.session()
        running = await session.exec(shell="sleep 70032", timeout=3600)
        await until(lambda: sleepers(70_032))
        ending = (session if what == "session" else running).aclose()
        if how == "closed":
            await _leave_after(steps, ending)
        else:
            task = asyncio.ensure_future(ending)
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        await until(lambda: not sleepers(70_032))
        await session.aclose()
        await until(lambda: not launchers_at_work())


async def _leave_after(steps, coroutine):
    """Close a coroutine where it waits for the so many-th time."""
    waited_for = coroutine.send(None)
    for _ in range(steps - 1):
        while waited_for is not None and not waited_for.done():
            await asyncio.sleep(0)
        try:
            waited_for = coroutine.send(None)
        except StopIteration:
            return
    coroutine.close()


async def test_some_of_it_is_published_or_given_up(project):
    async with opened(project) as fs, fs.session() as session:
        await said_by(session, "echo 1 > one; echo 2 > two; echo 3 > three")
        assert told(await session.publish(paths=["one"])) == {("one", "created")}
        assert await session.discard(["two"]) == ["two"]
        assert await said_by(session, "ls") == "a.txt\nd\none\nthree\n"
        assert told(await session.publish()) == {("three", "created")}
    assert sorted(os.listdir(project)) == ["a.txt", "d", "one", "three"]


@pytest.mark.spec("EXEC-8")
async def test_what_a_person_changed_since_it_was_mounted_is_a_conflict(project):
    """Also where another command was started after that: it may have seen what was there before."""
    async with opened(project) as fs, fs.session() as session:
        await said_by(session, "cat a.txt")
        new = project / "a.new"
        new.write_text("person\n")
        new.rename(project / "a.txt")
        await said_by(session, "echo program >> a.txt; echo c > c.txt")
        published = await session.publish()
        assert [str(each.path) for each in published.conflicts] == ["a.txt"]
        assert published.changes == []
        assert told(await session.publish("partial")) == {("c.txt", "created")}
        assert (project / "a.txt").read_text() == "person\n"
        await session.discard()
        assert await said_by(session, "cat a.txt") == "person\n"


async def agent_of(fs, answer):
    agent = await fs.delegate(bailiwick.AgentRun("c", "1"), access=fs.access)
    return agent.with_caller("test", asker=answer)


@pytest.mark.spec("EXEC-1")
async def test_every_command_is_asked_about_and_names_its_session(project):
    asked = []

    async def answer(approval):
        asked.append(approval.question)
        return "no" if "rm" in approval.question.command else "once"

    async with opened(project) as fs:
        agent = await agent_of(fs, answer)
        async with agent.session(env={"A": "b"}) as session:
            assert (await session.exec(["true"]).result()).exit_code == 0
            with pytest.raises(ApprovalDenied):
                await session.exec(["rm", "a.txt"])
            assert (await session.exec(["test", "-e", "a.txt"]).result()).exit_code == 0
        assert [each.command for each in asked] == ["A=b true", "A=b rm a.txt", "A=b test -e a.txt"]
    async with opened(project, access=("read", "write")) as fs, fs.session() as session:
        with pytest.raises(MissingAccess):
            await session.exec(["true"])
    assert left_in(project) == []


@pytest.mark.spec("EXEC-4")
async def test_nothing_that_had_to_be_asked_for_is_seen_nor_told_by_a_difference(project):
    (project / ".env").write_text("SECRET=1\n")

    async def allow(approval):
        return "once"

    async with opened(project) as fs:
        agent = await agent_of(fs, allow)
        async with agent.session() as session:
            said = await said_by(session, "cat .env; ls -A; echo mine > .env; rm -f .env")
            assert "SECRET" not in said
            await said_by(session, "echo mine > .env")
            with pytest.raises(PolicyDenied):
                await session.diff(".env")
            assert "SECRET" not in repr(await session.changes())
            assert (project / ".env").read_text() == "SECRET=1\n"
            await session.discard()


@pytest.mark.spec("EXEC-4")
async def test_what_may_be_seen_is_decided_anew_for_each_command(project, monkeypatch):
    hidden = []

    async def masked(call, copy):
        """As rules would have it that are changed meanwhile."""
        return tuple(hidden)

    monkeypatch.setattr(commands, "_masked", masked)
    async with opened(project) as fs, fs.session() as session:
        running = await session.exec(["sleep", "70033"])
        assert await said_by(session, "ls; touch n") == "a.txt\nd\n"
        hidden.append("a.txt")
        with pytest.raises(Busy):  # there is one view for all of them
            await session.exec(["ls"])
        await running.aclose()
        assert await said_by(session, "ls") == "d\nn\n"
        assert told(await session.publish()) == {("n", "created")}
    assert sorted(os.listdir(project)) == ["a.txt", "d", "n"]


@pytest.mark.spec("EXEC-4")
async def test_what_is_staged_for_an_instant_ends_no_room(project):
    stage = project / "d" / f"{RESERVED_PREFIX}0-1"
    async with opened(project) as fs, fs.session() as session:
        await said_by(session, "touch /tmp/stays")
        stage.mkdir()
        (project / "new").touch()
        asyncio.get_running_loop().call_later(0.1, stage.rmdir)
        assert await said_by(session, "ls /tmp; ls new") == "stays\nnew\n"


@pytest.mark.spec("EXEC-4")
async def test_a_tree_that_others_change_is_judged_once_for_a_command(project, monkeypatch):
    hidden, judged = ["a.txt"], []

    async def masked(call, tree):
        judged.append(tree)
        return tuple(hidden)

    monkeypatch.setattr(commands, "_masked", masked)
    async with opened(project) as fs, fs.session() as session:
        assert await said_by(session, "touch /tmp/stays; ls") == "d\n"
        for name in ("b", "c"):
            (project / name).touch()
            judged.clear()
            assert await said_by(session, f"ls -d {name} /tmp/stays") == f"/tmp/stays\n{name}\n"
            assert len(judged) == 1
        hidden.clear()
        (project / "e").touch()
        assert await said_by(session, "ls; touch /tmp/stays") == "a.txt\nb\nc\nd\ne\n"
        hidden.append("e")
        assert await said_by(session, "ls; touch /tmp/stays") == "a.txt\nb\nc\nd\n"
        hidden.clear()
        (project / "e").unlink()
        assert await said_by(session, "ls; ls /tmp") == "a.txt\nb\nc\nd\nstays\n"


def make(project):
    (project / ".env").write_text("SECRET=1\n")


def make_below(project):
    (project / "d" / ".env").write_text("SECRET=1\n")


def make_in_new_directory(project):
    (project / "new" / "er").mkdir(parents=True)
    (project / "new" / "er" / ".env").write_text("SECRET=1\n")


def move_what_was_hidden(project):
    os.rename(project / "hidden", project / "elsewhere")


@pytest.mark.spec("EXEC-4")
@pytest.mark.parametrize("change", [make, make_below, make_in_new_directory, move_what_was_hidden])
async def test_what_came_into_the_tree_and_is_hidden_is_not_shown_to_the_next(project, change):
    (project / "hidden").mkdir()
    (project / "hidden" / ".env").write_text("SECRET=1\n")

    async def allow(approval):
        return "once"

    every = "grep -rs SECRET .; cat .env d/.env new/er/.env elsewhere/.env"
    async with opened(project) as fs:
        agent = await agent_of(fs, allow)
        async with agent.session() as session:
            assert "SECRET" not in await said_by(session, f"{every}; echo mine > own")
            change(project)
            plain = await asyncio.create_subprocess_shell(
                every, cwd=project, stdout=asyncio.subprocess.PIPE
            )
            assert b"SECRET" in (await plain.communicate())[0]
            said = await said_by(session, f"{every}; cat own")
            assert "SECRET" not in said
            assert said.endswith("mine\n")
            await session.discard()


@pytest.mark.spec("EXEC-4")
async def test_what_came_and_is_hidden_waits_for_those_that_run(project):
    async def allow(approval):
        return "once"

    async with opened(project) as fs:
        agent = await agent_of(fs, allow)
        async with agent.session() as session:
            running = await session.exec(["sleep", "70034"])
            (project / "seen").write_text("by all\n")
            await said_by(session, "touch /tmp/stays")
            assert await said_by(session, "cat seen; ls /tmp") == "by all\nstays\n"
            make(project)
            with pytest.raises(Busy):
                await session.exec(["ls"])
            await running.aclose()
            assert await said_by(session, "ls -A") == "a.txt\nd\nseen\n"
            (project / ".env").unlink()
            assert await said_by(session, "touch /tmp/x; ls -A") == "a.txt\nd\nseen\n"
            assert await said_by(session, "ls /tmp") == "x\n"


def make_socket(project):
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(project / "d" / "door"))


def make_fifo(project):
    os.mkfifo(project / "d" / "door")


def make_deeper_than_can_be_masked(project):
    directory = os.open(project / "d", os.O_RDONLY)
    for _ in range(15):
        os.mkdir("n" * 250, dir_fd=directory)
        above, directory = directory, os.open("n" * 250, os.O_RDONLY, dir_fd=directory)
        os.close(above)
    with open(os.open("door", os.O_CREAT | os.O_WRONLY, dir_fd=directory), "w") as file:
        file.write("SECRET=1\n")
    os.close(directory)


def leave_half_removed(project):
    (project / "d" / f"{RESERVED_PREFIX}0-1").mkdir()
    (project / "d" / f"{RESERVED_PREFIX}0-1" / "door").write_text("SECRET=1\n")


@pytest.mark.spec("EXEC-4")
@pytest.mark.parametrize(
    "change", [make_socket, make_fifo, make_deeper_than_can_be_masked, leave_half_removed]
)
async def test_what_came_into_the_tree_and_is_for_no_program_is_not_shown(project, change):
    way = "cd d; while cd nnn* 2> /dev/null; do :; done; cd .b* 2> /dev/null; ls door 2> /dev/null"
    async with opened(project) as fs, fs.session() as session:
        assert await said_by(session, f"{way}; touch /tmp/x") == ""
        change(project)
        plain = await asyncio.create_subprocess_shell(
            way, cwd=project, stdout=asyncio.subprocess.PIPE
        )
        assert (await plain.communicate())[0] == b"door\n"
        assert await said_by(session, f"{way}; touch /tmp/stays") == ""
        (project / "d" / f"{RESERVED_PREFIX}0-2").write_text("half of what is written\n")
        assert await said_by(session, "ls /tmp") == "stays\n"


@pytest.mark.spec("EXEC-3")
async def test_only_its_own_sessions_are_found_by_an_agent(project):
    async def allow(approval):
        return "once"

    async with opened(project) as fs:
        async with fs.session() as session:
            await said_by(session, "echo person > p.txt")
        agent = await agent_of(fs, allow)
        with pytest.raises(PathNotFound):
            await agent.open_session(session.id)
        async with await fs.open_session(session.id) as session:
            await session.discard()


async def test_who_may_only_read_changes_nothing(project):
    only_read = opened(project, access=("read", "list", "metadata", "execute"))
    async with only_read as fs, fs.session() as session:
        assert "Read-only" in await said_by(session, "exec 2>&1; echo two > a.txt")
        assert await said_by(session, "echo 1 > /tmp/x") == ""
        assert await said_by(session, "cat /tmp/x") == "1\n"
    assert left_in(project) == []


async def test_what_makes_no_session_leaves_nothing(project):
    async with opened(project) as fs, fs.session() as session:
        for wrong in (
            {"argv": "echo hi"}, {"argv": ["true"], "timeout": 0},
            {"argv": ["true"], "timeout": 1e9},
            {"argv": ["true"], "terminal": bailiwick.WindowSize(), "limits": 3},
            {"argv": ["cat"], "terminal": bailiwick.WindowSize(), "stdin": b"in\n"},
        ):  # fmt: skip
            with pytest.raises(ParseError):
                await session.exec(**wrong)
        with pytest.raises(Unsupported):
            await session.exec(["true"], network="host")
        assert await session.publish() == await session.publish("partial")
        assert await session.discard() == []
        with pytest.raises(PathNotFound):
            await session.diff("a.txt")
        assert left_in(project) == []


async def test_what_the_opener_shares_is_seen_and_nothing_else(project, tmp_path):
    (tools := tmp_path / "tools").mkdir()
    (tools / "t").write_text("tool\n")
    (home := tmp_path / "home").mkdir()
    share = bailiwick.HostShare(
        networks={"none", "loopback"}, readable=(str(tools),), home=str(home)
    )
    async with opened(project, commands=share) as fs, fs.session() as session:
        said = await said_by(
            session, f"cat {tools}/t; ls {tmp_path}; echo h > ~/h; echo x > {tools}/x", cwd="d"
        )
        assert said.startswith("tool\ntools\n")
        assert (home / "h").read_text() == "h\n"
        assert os.listdir(tools) == ["t"]
        said = await said_by(session, "cat /proc/net/dev", network="loopback")
        assert "lo:" in said
        with pytest.raises(Unsupported):
            await session.exec(["true"], network="host")
        assert (await fs.exec(["cat", f"{tools}/t"]).result()).exit_code == 0


async def test_what_would_lead_round_the_boundary_is_not_shared(project, tmp_path):
    (tmp_path / "h" / "bin").mkdir(parents=True)
    for wrong in (
        {"readable": (str(project),)}, {"readable": (str(tmp_path),)}, {"readable": ("h",)},
        {"home": str(project / "d")}, {"home": str(tmp_path / "state")},
        {"home": str(tmp_path / "h"), "readable": (str(tmp_path / "h" / "bin"),)},
    ):  # fmt: skip
        with pytest.raises(ParseError):
            async with opened(project, commands=bailiwick.HostShare(**wrong)):
                pass
    with pytest.raises(ParseError):
        async with opened(project, commands={"home": "/"}):
            pass
    volume = tmp_path / "v" / "agent.db"
    volume.parent.mkdir()
    for wrong in (str(volume), str(volume.parent), str(tmp_path / "state")):
        share = bailiwick.HostShare(readable=(wrong,))
        with pytest.raises(ParseError):
            async with bailiwick.open(
                f"sqlite:{volume}", state_dir=str(tmp_path / "state"), commands=share
            ):
                pass


def test_blocking_code_has_the_same(project):
    with bailiwick.open_sync(project, state_dir=str(project.parent / "state")) as fs:
        with fs.session(cwd="d") as session:
            execution = session.exec(["cat"], stdin="pipe", terminal=bailiwick.WindowSize())
            execution.resize(10, 20)
            execution.write(b"typed\n")
            execution.close_input()
            assert b"typed" in b"".join(piece.data for piece in execution)
            session.cwd = "."
            session.env["A"] = "b"
            assert session.exec(shell="echo $A > a.txt").result().exit_code == 0
            assert told(session.changes()) == {("a.txt", "updated")}
            assert "+b" in session.diff("a.txt").text
        (info,) = fs.work()
        with fs.open_work(info.id) as work:
            assert (work.id, told(work.changes())) == (session.id, {("a.txt", "updated")})
            assert "+b" in work.diff("a.txt").text
        with fs.open_session(session.id) as session:
            assert (session.cwd, session.env, session.lost) == (".", {"A": "b"}, ())
            assert told(session.publish()) == {("a.txt", "updated")}
            assert session.discard() == []
    assert (project / "a.txt").read_text() == "b\n"


async def test_a_cancelled_start_leaves_nothing(project):
    async with opened(project) as fs:
        async with fs.session() as session:
            task = asyncio.ensure_future(session.exec(["sleep", "70032"]).result())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert sleepers(70_032) == []
    assert left_in(project) == []
    assert not launchers_at_work()
