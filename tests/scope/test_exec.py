"""Running programs: what they see, what they print, and how what they changed comes back."""

import asyncio
import os

import pytest

import bailiwick
from bailiwick.errors import (
    Closed,
    MissingAccess,
    ParseError,
    PathNotFound,
    PolicyDenied,
    Unsupported,
)
from bailiwick.policies.rules import RulePolicy
from tests.authority.support import EVERYTHING, governed, rule

RUNNING = (*EVERYTHING, "execute")
ALLOW_EXEC = (
    f'[[grant]]\nsubject = "agent_run:*"\nroot = "workspace:demo"\naccess = {list(RUNNING)!r}\n'
    '[[rule]]\nid = "run"\noperation = ["exec"]\neffect = "allow"\n'
)


pytestmark = pytest.mark.usefixtures("needs_bubblewrap")


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    (root / "d").mkdir()
    (root / "d" / "b.txt").write_text("b\n")
    return root


def opened(project, **options):
    return bailiwick.open(project, state_dir=str(project.parent / "state"), **options)


def left_in(project):
    """The working copies that lie in the state directory. What is being removed is none."""
    work = project.parent / "state" / "work"
    return [each.name for each in work.glob("*/*") if each.suffix != ".gone"]


def told(result):
    return {(str(each.path), each.kind) for each in result.changes}


@pytest.mark.spec("EXEC-3", "EXEC-7")
async def test_what_a_program_changed_comes_back_as_one_change(project):
    async with opened(project, history="on") as fs:
        execution = fs.exec(
            shell="sed -i s/one/two/ a.txt; rm -r d; mkdir n; echo x > n/f; chmod 750 n/f;"
            " ln -s n/f l"
        )
        result = await execution.result()
        assert (result.exit_code, result.signal, result.timed_out) == (0, None, False)
        assert told(result) == {
            ("a.txt", "updated"), ("d", "deleted"), ("d/b.txt", "deleted"), ("n", "created"),
                ("n/f", "created"), ("l", "created"),
        }  # fmt: skip
        assert (project / "a.txt").read_text() == "two\n"
        assert not (project / "d").exists()
        assert (project / "n" / "f").stat().st_mode & 0o777 == 0o750
        assert os.readlink(project / "l") == "n/f"
        assert result.work_id is None
        assert left_in(project) == []
        (version, *_) = (await fs.history("a.txt")).versions
        assert version.request_id == result.request_id
        await fs.undo(result.request_id)
        assert (project / "a.txt").read_text() == "one\n"
        assert (project / "d" / "b.txt").read_text() == "b\n"
        assert not (project / "n").exists()


@pytest.mark.spec("EXEC-3", "EXEC-6")
async def test_output_is_ordered_and_can_be_read_again(project):
    async with opened(project) as fs:
        execution = await fs.exec(shell="echo out; echo err >&2; echo out again")
        pieces = [piece async for piece in execution]
        assert [each.seq for each in pieces] == list(range(len(pieces)))
        by_stream = {"stdout": b"", "stderr": b""}
        for each in pieces:
            by_stream[each.stream] += each.data
        assert by_stream == {"stdout": b"out\nout again\n", "stderr": b"err\n"}
        assert [piece async for piece in execution.output(1)] == pieces[1:]
        await execution.result()
        assert [piece async for piece in execution.output()] == pieces


@pytest.mark.spec("EXEC-3")
async def test_words_are_no_text_of_a_shell(project):
    async with opened(project) as fs:
        execution = fs.exec(["echo", "$HOME; rm a.txt", "*"])
        assert b"".join([piece.data async for piece in execution]) == b"$HOME; rm a.txt *\n"
        assert (await execution.result()).changes == []


@pytest.mark.spec("EXEC-3")
@pytest.mark.parametrize(
    "wrong",
    [
        {"argv": "echo hi"}, {"argv": []}, {"argv": ["echo"], "shell": "echo"}, {},
        {"argv": ["echo"], "publish": "sometimes"}, {"argv": ["echo"], "timeout": 0},
        {"argv": ["echo"], "timeout": 1e9}, {"argv": ["a\0b"]}, {"argv": ["echo"], "limits": 3},
        {"argv": ["echo"], "env": {"A B": "c"}}, {"argv": ["echo"], "env": {"A=B": "c"}},
        {"argv": [b"echo"]}, {"argv": ["cat"], "stdin": "text"}, {"argv": ["cat"], "stdin": 5},
        {"argv": ["echo"], "env": [("A", "b")]},
    ],
)  # fmt: skip
async def test_what_makes_no_command_is_refused(project, wrong):
    async with opened(project) as fs:
        with pytest.raises(ParseError):
            await fs.exec(**wrong)
        with pytest.raises(PathNotFound):
            await fs.exec(["true"], cwd="nowhere")
    assert left_in(project) == []


@pytest.mark.spec("EXEC-3")
async def test_where_and_with_what_it_runs(project):
    async with opened(project) as fs:
        execution = fs.exec(
            ["sh", "-c", "cat b.txt; cat; echo $NAME; env | wc -l"],
            cwd="d", env={"NAME": "value"}, stdin=b"typed\n",
        )  # fmt: skip
        said = b"".join([piece.data async for piece in execution]).decode()
        assert said.startswith("b\ntyped\nvalue\n")
        assert "BAILIWICK" not in said


@pytest.mark.spec("EXEC-5")
async def test_out_of_time_it_is_gone_and_what_it_changed_comes_back(project):
    async with opened(project) as fs:
        result = await fs.exec(shell="echo two > a.txt; sleep 60", timeout=1).result()
        assert result.timed_out
        assert result.signal == 9
        assert (project / "a.txt").read_text() == "two\n"


@pytest.mark.spec("EXEC-5")
async def test_closing_the_scope_ends_what_runs(project):
    async with opened(project) as fs:
        execution = await fs.exec(["sleep", "1000"])
    result = await execution.result()
    assert result.signal == 9
    assert left_in(project) == []


@pytest.mark.spec("EXEC-3")
async def test_manual_keeps_all_of_it_in_a_working_copy(project):
    async with opened(project) as fs:
        result = await fs.exec(shell="echo two > a.txt; echo n > n", publish="manual").result()
        assert result.changes == []
        assert (project / "a.txt").read_text() == "one\n"
        (info,) = await fs.work()
        assert info.id == result.work_id
        assert info.command[-1].startswith("echo two")
    async with opened(project) as fs:  # it is found again by whoever opens the directory next
        async with await fs.open_work(result.work_id) as work:
            changes = await work.changes()
            assert told(changes) == {("a.txt", "updated"), ("n", "created")}
            assert "+two" in (await work.diff("a.txt")).text
            published = await work.apply(["n"])
            assert told(published) == {("n", "created")}
            assert (project / "n").read_text() == "n\n"
            assert (project / "a.txt").read_text() == "one\n"
            assert told(await work.changes()) == {("a.txt", "updated")}
            await work.discard()
        assert await fs.work() == []
        with pytest.raises(PathNotFound):
            await fs.open_work(result.work_id)


@pytest.mark.spec("EXEC-3", "EXEC-8")
async def test_what_was_chosen_comes_whatever_else_was_left(project):
    script = "echo two > a.txt; mkdir -p n/m; echo n > n/m/n; ln -s /etc/passwd n/l; mkfifo n/f"
    async with opened(project) as fs:
        result = await fs.exec(shell=script).result()
        assert {str(each.path) for each in result.withheld} == {"n/l", "n/f"}
        async with await fs.open_work(result.work_id) as work:
            published = await work.apply(["a.txt", "n/m/n"])
            assert not published.withheld
            assert not published.conflicts
            assert (project / "a.txt").read_text() == "two\n"
            assert (project / "n/m/n").read_text() == "n\n"
            assert os.listdir(project / "n") == ["m"]
            published = await work.apply(["n"])
            assert {str(each.path) for each in published.withheld} == {"n/l", "n/f"}
            await work.discard()


@pytest.mark.spec("EXEC-8")
@pytest.mark.parametrize("publish", ["atomic", "partial"])
async def test_what_a_person_changed_meanwhile_stays(project, publish):
    async with opened(project) as fs:
        execution = await fs.exec(
            shell="read go; echo program > a.txt; echo program > d/b.txt; echo program > new",
            stdin="pipe", publish=publish,
        )  # fmt: skip
        (project / "a.txt").write_text("person\n")
        (project / "new").write_text("person\n")
        await execution.write(b"go\n")
        result = await execution.result()
        assert {str(each.path) for each in result.conflicts} == {"a.txt", "new"}
        assert {each.error_kind for each in result.conflicts} == {"hash_mismatch"}
        assert (project / "a.txt").read_text() == "person\n"
        assert (project / "new").read_text() == "person\n"
        expected = "b\n" if publish == "atomic" else "program\n"
        assert (project / "d" / "b.txt").read_text() == expected
        async with await fs.open_work(result.work_id) as work:
            assert "+program" in (await work.diff("a.txt")).text
            await work.discard()


@pytest.mark.spec("EXEC-8")
async def test_a_file_that_others_removed_meanwhile_stays_removed(project):
    async with opened(project) as fs:
        execution = await fs.exec(shell="read go; sed -i s/one/two/ a.txt", stdin="pipe")
        (project / "a.txt").unlink()
        await execution.write(b"go\n")
        result = await execution.result()
        assert not (project / "a.txt").exists()
        assert result.exit_code != 0 or [str(each.path) for each in result.conflicts] == ["a.txt"]


@pytest.mark.spec("EXEC-9")
async def test_a_directory_that_was_renamed_is_a_move(project):
    async with opened(project) as fs:
        result = await fs.exec(["mv", "d", "e"]).result()
        (change,) = result.changes
        assert (change.kind, str(change.origin), str(change.path)) == ("moved", "d", "e")
        assert (project / "e" / "b.txt").read_text() == "b\n"
        assert not (project / "d").exists()


@pytest.mark.spec("EXEC-7")
async def test_what_no_root_can_hold_is_said(project):
    async with opened(project) as fs:
        result = await fs.exec(
            shell="mkfifo p; echo two > a.txt; chmod 4755 a.txt; ln -s /etc/passwd out",
            publish="partial",
        ).result()  # fmt: skip
        withheld = {each.path: each.error_kind for each in result.withheld}
        assert withheld == {
            "p": "unsupported", "a.txt": "unsupported", "out": "symlink_escape"
        }  # fmt: skip
        assert (project / "a.txt").stat().st_mode & 0o7777 == 0o755
        assert sorted(os.listdir(project)) == ["a.txt", "d"]


@pytest.mark.spec("EXEC-4")
async def test_who_may_only_read_has_nothing_to_write_to(project):
    async with opened(project, access=("read", "list", "metadata", "execute")) as fs:
        execution = fs.exec(shell="cat a.txt; echo two > a.txt; echo status $?")
        said = b"".join([piece.data async for piece in execution]).decode()
        assert said.startswith("one\n")
        assert "Read-only" in said
        assert "status 2" in said
        assert (await execution.result()).changes == []


@pytest.mark.spec("EXEC-1")
async def test_who_may_not_execute_runs_nothing(project):
    async with opened(project, access=("read", "list", "write")) as fs:
        with pytest.raises(MissingAccess):
            await fs.exec(["true"]).result()


@pytest.mark.spec("EXEC-4")
async def test_an_agent_sees_nothing_that_it_would_have_to_ask_for(project):
    (project / ".env").write_text("SECRET=1\n")
    (project / "d" / "id_rsa").write_text("SECRET\n")
    async with opened(project) as fs:
        agent = await fs.delegate(bailiwick.AgentRun("c", "1"), access=fs.access)
        asked = []

        async def allow(approval):
            asked.append(approval.question)
            return "once"

        agent = agent.with_caller("test", asker=allow)
        execution = agent.exec(shell="ls -A . d; cat .env d/id_rsa; echo new > c.txt")
        said = b"".join([piece.data async for piece in execution]).decode()
        result = await execution.result()
        assert "SECRET" not in said
        assert "id_rsa\n" not in said.replace("d/id_rsa", "")
        assert ".env\n" not in said.split("cat:")[0]
        assert told(result) == {("c.txt", "created")}
        assert "cat .env" in asked[0].command
        assert (project / ".env").read_text() == "SECRET=1\n"


@pytest.mark.spec("EXEC-4", "EXEC-9")
async def test_rules_are_asked_about_the_paths_that_they_name_and_no_others(tmp_path, monkeypatch):
    """To ask them about each of ten thousand would take as long as ten commands."""
    rules = ALLOW_EXEC + rule("deny", "**/*.pem", "kept/**", "**/odd*")
    async with governed(tmp_path, rules, on_disk=True) as house:
        for directory in ("kept", "seen", "seen/inner"):
            (house.place / directory).mkdir()
            for number in range(200):
                (house.place / directory / f"f{number}").touch()
        (house.place / "seen" / "a.pem").touch()
        (house.place / "seen" / "odd\nname").touch()
        (house.place / "seen" / "a\nname").touch()
        os.close(os.open(os.fsencode(house.place) + b"/no-text\xff", os.O_CREAT))
        asked = []
        decide = RulePolicy.decide
        monkeypatch.setattr(
            RulePolicy, "decide",
            lambda policy, context: asked.append(context.path) or decide(policy, context),
        )  # fmt: skip
        agent = await house.scope(RUNNING)
        execution = agent.exec(shell="find . -type f -print0 | tr '\\0\\n' '\\n?'")
        told = b"".join([piece.data async for piece in execution]).decode().split()
        seen = {f"./seen/{name}" for name in ("a?name", *(f"f{number}" for number in range(200)))}
        assert set(told) == seen | {f"./seen/inner/f{number}" for number in range(200)}
        assert {str(each) for each in asked if not each.startswith("kept/")} <= {
            ".", "seen/a.pem", "seen/odd\nname",
        }  # fmt: skip


@pytest.mark.spec("EXEC-4")
async def test_a_difference_tells_nothing_that_was_kept_from_the_program(project):
    """It can put something of its own at a name that it does not see."""
    (project / ".env").write_text("SECRET=1\n")

    async def allow(approval):
        return "once"

    async with opened(project) as fs:
        agent = await fs.delegate(bailiwick.AgentRun("c", "1"), access=fs.access)
        agent = agent.with_caller("test", asker=allow)
        result = await agent.exec(shell="echo mine > .env", publish="manual").result()
        async with await agent.open_work(result.work_id) as work:
            with pytest.raises(PolicyDenied):
                await work.diff(".env")
        async with await fs.open_work(result.work_id) as work:
            assert "-SECRET=1\n+mine\n" in (await work.diff(".env")).text
            await work.discard()


@pytest.mark.spec("EXEC-7")
async def test_what_rules_ask_about_is_asked_once_with_all_of_it(project):
    (project / ".git").mkdir()
    (project / ".git" / "config").write_text("[core]\n")
    async with opened(project) as fs:
        agent = await fs.delegate(bailiwick.AgentRun("c", "1"), access=fs.access)
        questions = []

        async def answer(approval):
            questions.append(approval.question)
            return "once" if approval.question.operation == "exec" else "no"

        agent = agent.with_caller("test", asker=answer)
        execution = agent.exec(shell="echo x >> .git/config; echo two > a.txt")
        result = await execution.result()
        assert result.exit_code == 0
        assert result.changes == []
        assert {each.error_kind for each in result.withheld} == {"approval_denied"}
        assert len(questions) == 2
        assert questions[1].command == questions[0].command  # what it was changed by
        assert "a.txt" in questions[1].preview.diff
        assert ".git/config" in questions[1].preview.diff
        assert "-one\n+two\n" in questions[1].preview.diff
        assert (project / "a.txt").read_text() == "one\n"
        (info,) = await fs.work()
        async with await fs.open_work(info.id) as work:
            await work.discard()


@pytest.mark.spec("EXEC-3")
async def test_a_transaction_runs_nothing(tmp_path):
    async with bailiwick.open(f"sqlite:{tmp_path / 'agent.db'}") as fs, fs.transaction() as tx:
        with pytest.raises(Unsupported):
            await tx.exec(["true"])
        with pytest.raises(Unsupported):
            await tx.work()


@pytest.mark.spec("EXEC-3")
def test_blocking_code_has_the_same(project):
    with bailiwick.open_sync(project, state_dir=str(project.parent / "state")) as fs:
        execution = fs.exec(["sh", "-c", "cat; echo two > a.txt"], stdin="pipe")
        execution.write(b"typed\n")
        execution.close_input()
        assert b"".join(piece.data for piece in execution) == b"typed\n"
        assert told(execution.result()) == {("a.txt", "updated")}
        with fs.exec(["sleep", "1000"]) as execution:
            pass
        assert execution.result().signal == 9


@pytest.mark.spec("EXEC-5")
async def test_a_cancelled_start_leaves_nothing(project):
    async with opened(project) as fs:
        task = asyncio.ensure_future(fs.exec(["sleep", "1000"]).result())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert left_in(project) == []


@pytest.mark.spec("EXEC-3", "EXEC-1")
async def test_closed_while_a_person_is_asked_it_never_begins(project):
    asked, never = asyncio.Event(), asyncio.Event()

    async def person(approval):
        asked.set()
        await never.wait()

    async with opened(project) as fs:
        agent = await fs.delegate(bailiwick.AgentRun("c", "r"), access=fs.access)
        execution = agent.with_caller("python", asker=person).exec(shell="echo two > a.txt")
        waiting = asyncio.ensure_future(execution.result())
        await asked.wait()
        await execution.aclose()
        with pytest.raises(Closed):
            await waiting
    assert (project / "a.txt").read_text() == "one\n"
    assert left_in(project) == []


@pytest.mark.spec("EXEC-3", "EXEC-8")
async def test_closed_while_a_person_is_asked_about_what_it_changed_it_is_kept(tmp_path):
    asked, never = asyncio.Event(), asyncio.Event()

    async def person(approval):
        asked.set()
        await never.wait()

    rules = rule("ask", "kept/**", access=["write"]) + ALLOW_EXEC
    async with governed(tmp_path, rules, on_disk=True, state_dir=tmp_path / "state") as house:
        agent = await house.authority.request_root(
            bailiwick.AgentRun("c", "r"), "workspace:demo", RUNNING, "test"
        )
        execution = agent.with_caller("python", asker=person).exec(
            shell="mkdir kept; echo > kept/f"
        )
        waiting = asyncio.ensure_future(execution.result())
        await asked.wait()
        await execution.aclose()
        result = await waiting
        assert {each.error_kind for each in result.withheld} == {"closed"}
        assert not (house.place / "kept").exists()
        [kept] = await agent.work()
        assert kept.id == result.work_id


@pytest.mark.spec("EXEC-3")
async def test_of_a_command_that_was_refused_nothing_is_held(project):
    async with opened(project) as fs:
        agent = await fs.delegate(bailiwick.AgentRun("c", "r"), access=fs.access)
        with pytest.raises(bailiwick.BailiwickError):
            await agent.exec(["true"]).result()
        assert fs._pipeline.dependents == {}


@pytest.mark.spec("EXEC-4", "EXEC-8")
async def test_what_is_hidden_is_not_told_of_when_its_directory_goes(tmp_path):
    rules = rule("hide", "d/secret.txt", subject="agent_run:*") + ALLOW_EXEC
    async with governed(tmp_path, rules, on_disk=True, state_dir=tmp_path / "state") as house:
        root = house.place
        (root / "d").mkdir()
        (root / "d" / "secret.txt").write_text("SECRET\n")
        (root / "d" / "b.txt").write_text("b\n")
        agent = await house.scope(RUNNING)
        execution = agent.exec(shell="ls d; rm -r d", publish="partial")
        said = b"".join([piece.data async for piece in execution])
        result = await execution.result()
        assert said == b"b.txt\n"
        assert "secret" not in repr(result)
        assert (root / "d" / "secret.txt").read_text() == "SECRET\n"
        assert {each.path for each in result.withheld} == {"d"}


@pytest.mark.spec("EXEC-4")
async def test_a_working_copy_tells_nothing_of_what_may_not_be_read(tmp_path):
    async with governed(tmp_path, ALLOW_EXEC, on_disk=True, state_dir=tmp_path / "state") as house:
        root = house.place
        (root / ".env").write_text("SECRET=1\n")
        agent = await house.scope(RUNNING)
        for guess in ("SECRET=1", "SECRET=2"):
            result = await agent.exec(shell=f"echo {guess} > .env", publish="manual").result()
            async with await agent.open_work(result.work_id) as work:
                with pytest.raises(bailiwick.PolicyDenied):
                    await work.diff(".env")
                shown = await work.changes()
                assert [each.kind for each in shown.changes] == ["updated"], guess
                await work.discard()


@pytest.mark.spec("EXEC-4")
@pytest.mark.parametrize("rules", ["", rule("hide", "secret/**", subject="agent_run:*")])
async def test_what_a_link_led_to_is_not_what_stood_at_a_path_beneath_it(tmp_path, rules):
    """A directory of the same name in a working copy is compared with nothing, not with that."""
    rules += ALLOW_EXEC
    async with governed(tmp_path, rules, on_disk=True, state_dir=tmp_path / "state") as house:
        secret = house.place / "secret"
        secret.mkdir()
        (secret / "key").write_text("SECRET\n")
        (house.place / "link").symlink_to("secret")
        agent = await house.scope(RUNNING)
        script = "rm link; mkdir link; echo guess > link/key"
        result = await agent.exec(shell=script, publish="manual").result()
        async with await agent.open_work(result.work_id) as work:
            assert (await work.diff("link/key")).text.splitlines()[2:] == [
                "@@ -0,0 +1 @@",
                "+guess",
            ]
            version = (await work.changes()).version
            (secret / "key").write_text("ANOTHER SECRET\n")
            assert (await work.changes()).version == version
            await work.discard()


@pytest.mark.spec("EXEC-4", "EXEC-8")
@pytest.mark.parametrize("stands", ["nothing", "file", "changed", "directory", "link"])
async def test_what_is_left_at_a_hidden_name_is_new_as_far_as_is_told(tmp_path, stands):
    rules = rule("hide", "secret", subject="agent_run:*") + ALLOW_EXEC
    async with governed(tmp_path, rules, on_disk=True, state_dir=tmp_path / "state") as house:
        secret = house.place / "secret"
        if stands in ("file", "changed"):
            secret.write_text("SECRET\n")
        elif stands == "directory":
            secret.mkdir()
        elif stands == "link":
            secret.symlink_to("nowhere")
        agent = await house.scope(RUNNING)
        result = await agent.exec(shell="echo guess > secret", publish="manual").result()
        if stands == "changed":
            secret.write_text("SECRET, and more\n")
        async with await agent.open_work(result.work_id) as work:
            shown = await work.changes()
            assert [(str(each.path), each.kind) for each in shown.changes] == [
                ("secret", "created")
            ]
            assert shown.conflicts == []
            assert [(each.path, each.error_kind) for each in shown.withheld] == [
                ("secret", "policy_denied")
            ]
            published = await work.apply(publish="partial")
            assert (published.changes, published.conflicts) == ([], [])
            assert published.withheld == shown.withheld


@pytest.mark.spec("EXEC-6")
async def test_much_output_is_kept_as_long_as_the_execution_is(project):
    async with opened(project) as fs:
        execution = await fs.exec(shell="head -c 3000000 /dev/zero")
        assert (await execution.result()).truncated is False
        assert sum([len(piece.data) async for piece in execution]) == 3_000_000
        del execution  # and with it the file that held it: the check for leaks looks for that


@pytest.mark.spec("EXEC-8")
@pytest.mark.parametrize("before", ["", "mkdir n; echo old > n/old; echo gone > n/gone"])
async def test_what_was_left_out_says_nothing_of_what_came(project, before):
    """A new directory hides what lies below: what was brought back from it is not removed."""
    script = (
        "rm -rf n; mkdir -p n/m; echo good > n/good; ln -s /etc/hostname n/bad; echo x > n/m/x;"
        " ln -s /etc/hostname n/m/bad"
    )
    async with opened(project) as fs:
        await fs.exec(shell=before or "true").result()
        result = await fs.exec(shell=script, publish="partial").result()
        assert {each.path for each in result.withheld} == {"n/bad", "n/m/bad"}
        async with await fs.open_work(result.work_id) as work:
            assert told(await work.changes()) == {("n/bad", "created"), ("n/m/bad", "created")}
        async with await fs.open_session(result.work_id) as session:
            execution = session.exec(shell="cat n/good n/m/x")
            said = b"".join([each.data async for each in execution])
            await execution.result()
            assert said == b"good\nx\n"
            assert (await session.publish("partial")).changes == []
            await session.discard()
        assert sorted(os.listdir(project / "n")) == ["good", "m"]
        assert os.listdir(project / "n" / "m") == ["x"]


@pytest.mark.spec("EXEC-8")
async def test_a_directory_moves_with_all_that_lies_in_it_or_not_at_all(project):
    (project / "d" / "c.txt").write_text("c\n")
    async with opened(project) as fs:
        other = await fs.delegate(
            subject=bailiwick.User("other"), access=fs.grant.access, denied=["n/b.txt"]
        )
        result = await other.exec(shell="mv d n; echo x > x", publish="partial").result()
        assert told(result) == {("x", "created")}
        assert "n/b.txt" in {each.path for each in result.withheld}
        assert sorted(os.listdir(project / "d")) == ["b.txt", "c.txt"]
        assert not (project / "n").exists()
