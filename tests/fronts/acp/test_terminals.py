"""Terminals of an agent, served by the proxy in the sandbox: by the real SDK, and as bytes."""

import json
import os

import acp
import pytest

import bailiwick
from bailiwick.fronts.acp.terminals import TERMINALS_MAX
from bailiwick.sandboxes.bubblewrap import Bubblewrap
from tests.fronts.acp.editors import Editor, desk, start_proxy
from tests.fronts.acp.wires import wires
from tests.processes import children_of

pytestmark = [pytest.mark.spec("EXEC-10"), pytest.mark.spec("ACP-3")]


@pytest.fixture
def project(tmp_path):
    for lack in Bubblewrap().missing():
        if lack.fatal:
            pytest.skip(f"{lack.what}: {lack.remedy}")
    place = tmp_path / "project"
    (place / "d").mkdir(parents=True)
    (place / "a.txt").write_text("one\n")
    return place


class OwnTerminals(Editor):
    """An editor that would run commands itself."""

    def __init__(self, answer="allow_once"):
        super().__init__(answer)
        self.commands = []

    async def create_terminal(self, session_id, command, **more):
        self.commands.append(command)
        return acp.CreateTerminalResponse(terminal_id="of the editor")


def serving(tmp_path, project, editor=None):
    return desk(tmp_path, "--terminals", "--root", str(project), cwd=project, editor=editor)


async def test_a_command_is_run_in_the_sandbox_and_what_it_changed_is_there(tmp_path, project):
    (tmp_path / "secret").write_text("outside")
    editor = OwnTerminals()
    variables = [{"name": "X", "value": "1"}]
    async with serving(tmp_path, project, editor) as at:
        capabilities, ran, read, words, outside = await at.run(
            ["capabilities"],
            ["terminal", "echo two > a.txt; pwd; exit 3", {"cwd": f"{project}/d"}],
            ["read", f"{project}/d/a.txt"],
            ["terminal", "printf", {"args": ["%s|", "a b", "$X"], "env": variables}],
            ["terminal", f"cat {tmp_path}/secret"],
        )  # fmt: skip
        assert editor.commands == []
    assert capabilities["ok"]["terminal"] is True
    assert ran["ok"]["output"].endswith("/d\n")
    assert (ran["ok"]["code"], ran["ok"]["signal"], ran["ok"]["truncated"]) == (3, None, False)
    assert read == {"ok": "two\n"}, "before it is told that it has ended"
    assert words["ok"]["output"] == "a b|$X|"
    assert "No such file" in outside["ok"]["output"]
    questions = [call for _, _, call in editor.questions]
    assert len(questions) == 3, "each command is asked about"
    assert {call.kind for call in questions} == {"execute"}
    assert "echo two > a.txt; pwd; exit 3" in questions[0].title


@pytest.mark.parametrize("answer", ["reject_once", "cancelled", "reject_always"])
async def test_a_command_that_the_person_does_not_want_is_not_run(tmp_path, project, answer):
    async with serving(tmp_path, project, Editor(answer)) as at:
        refused, again = await at.run(
            ["terminal", "touch /work/*/made; touch made"], ["terminal", "touch made"]
        )
    assert refused["data"]["errorKind"] == again["data"]["errorKind"] == "approval_denied"
    assert not (project / "made").exists()


async def test_without_the_option_terminals_are_the_editors(tmp_path, project):
    editor = OwnTerminals()
    async with desk(tmp_path, "--root", str(project), cwd=project, editor=editor) as at:
        made, capabilities = await at.run(["start", "make"], ["capabilities"])
    assert made == {"ok": "of the editor"}
    assert editor.commands == ["make"]
    assert not capabilities["ok"].get("terminal")


async def test_one_that_goes_on_is_looked_at_killed_and_released(tmp_path, project):
    async with serving(tmp_path, project) as at:
        _, _, running, _, ended, told, _, gone = await at.run(
            ["start", "echo made > made; echo begun; sleep 1000"],
            ["until", "begun\n"],
            ["output"],
            ["kill"],
            ["wait"],
            ["output"],
            ["release"],
            ["output"],
        )
    assert (running["ok"]["ended"], running["ok"]["output"]) == (False, "begun\n")
    assert ended["ok"] == {"code": None, "signal": "SIGKILL"}
    assert told["ok"] == {"output": "begun\n", "truncated": False, "ended": True}
    assert gone["data"]["errorKind"] == "path_not_found"
    assert (project / "made").read_text() == "made\n", "what it had done is brought back"


async def test_of_much_output_the_end_is_kept_from_a_whole_character_on(tmp_path, project):
    async with serving(tmp_path, project) as at:
        [told] = await at.run(
            ["terminal", "for i in $(seq 1000); do printf äöü; done", {"output_byte_limit": 11}]
        )
    assert told["ok"]["truncated"] is True
    assert told["ok"]["output"] == "öüäöü"


async def test_who_only_reads_has_no_terminals(tmp_path, project):
    process = await start_proxy(tmp_path, "--terminals", "--read-only", "--root", str(project))
    _, said = await process.communicate()
    assert process.returncode != 0
    assert b"not allowed with" in said


async def test_a_command_that_runs_when_the_editor_goes_is_ended(tmp_path, project):
    before = set(children_of(os.getpid()))
    async with serving(tmp_path, project) as at:
        await at.run(["start", "echo x > kept; echo begun; sleep 1000"], ["until", "begun\n"])
        at.process.stdin.close()
        await at.process.wait()
    assert not (project / "kept").exists()
    assert set(children_of(os.getpid())) <= before


@pytest.fixture
def opened(project, tmp_path):
    return lambda: bailiwick.open(project, state_dir=str(tmp_path / "state"))


async def created(between, request, session="s", **given):
    """Ask for a terminal, agree to it; the answer."""
    params = {"sessionId": session, "command": "true", **given}
    await between.agent.say(message("terminal/create", params, request))
    question = await between.editor.hear_json()
    chosen = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
    await between.editor.say(
        json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": chosen}).encode() + b"\n"
    )
    return await between.agent.hear_json()


def message(method, params, request):
    asked = {"jsonrpc": "2.0", "id": request, "method": method, "params": params}
    return json.dumps(asked).encode() + b"\n"


@pytest.mark.parametrize(
    ("method", "code"),
    [("terminal/new_thing", -32601), ("Terminal/Create", -32601), ("terminal/output", -32602)],
)
async def test_no_call_about_terminals_reaches_the_editor(opened, method, code):
    async with opened() as fs, wires(fs, terminals=True) as between:
        answer = await between.agent.request(method, {"sessionId": "s"})
        assert answer["error"]["code"] == code
        await between.agent.say(b'{"method":"next"}\n')
        assert await between.editor.hear() == b'{"method":"next"}\n'


@pytest.mark.parametrize(
    "given",
    [
        {"command": 7}, {"args": "x"}, {"args": [1]}, {"env": {"X": "1"}}, {"env": [{"name": "X"}]},
        {"env": [{"name": "A B", "value": "1"}]}, {"outputByteLimit": -1}, {"cwd": 1},
        {"command": "a\0b"}, {"command": "\ud800"},
    ],
)  # fmt: skip
async def test_what_makes_no_command_is_refused(opened, given):
    async with opened() as fs, wires(fs, terminals=True) as between:
        answer = await between.agent.request(
            "terminal/create", {"sessionId": "s", "command": "true", **given}
        )
        assert answer["error"]["data"]["errorKind"] == "parse_error"
        assert await fs.work() == []


async def test_a_terminal_is_for_its_session_alone(opened):
    async with opened() as fs, wires(fs, terminals=True) as between:
        made = (await created(between, 1))["result"]["terminalId"]
        for method in ("output", "wait_for_exit", "kill", "release"):
            given = {"sessionId": "another", "terminalId": made}
            answer = await between.agent.request(f"terminal/{method}", given)
            assert answer["error"]["data"]["errorKind"] == "path_not_found"
        given = {"sessionId": "s", "terminalId": made}
        answer = await between.agent.request("terminal/wait_for_exit", given)
        assert answer["result"] == {"exitCode": 0, "signal": None}


async def test_there_are_so_many_terminals_and_no_more(opened, monkeypatch):
    assert TERMINALS_MAX > 8
    monkeypatch.setattr("bailiwick.fronts.acp.terminals.TERMINALS_MAX", 2)
    async with opened() as fs, wires(fs, terminals=True) as between:
        made = [(await created(between, number))["result"]["terminalId"] for number in (1, 2)]
        params = {"sessionId": "s", "command": "true"}
        refused = await between.agent.request("terminal/create", params)
        assert refused["error"]["data"]["errorKind"] == "busy"
        given = {"sessionId": "s", "terminalId": made[0]}
        assert (await between.agent.request("terminal/release", given))["result"] == {}
        assert "result" in await created(between, 3)


@pytest.mark.parametrize("how", ["the session is cancelled", "the request is cancelled"])
async def test_a_question_about_a_command_is_given_up_with_its_call(opened, project, how):
    async with opened() as fs, wires(fs, terminals=True) as between:
        params = {"sessionId": "s", "command": "touch made"}
        await between.agent.say(message("terminal/create", params, 7))
        assert (await between.editor.hear_json())["method"] == "session/request_permission"
        if how == "the session is cancelled":
            await between.editor.say(
                b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}\n'
            )
            cancelled = await between.agent.hear_json()
            if cancelled.get("method") == "session/cancel":
                cancelled = await between.agent.hear_json()
        else:
            await between.agent.say(
                b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}\n'
            )
            cancelled = await between.agent.hear_json()
        assert cancelled["error"]["code"] == -32800
        assert await fs.work() == []
    assert not (project / "made").exists()


async def test_what_a_command_changed_that_has_to_be_asked_for_is_another_question(opened, project):
    (project / ".git").mkdir()
    async with opened() as fs, wires(fs, terminals=True) as between:
        command = "echo evil > .git/hook"
        made = (await created(between, 1, command=command))["result"]["terminalId"]
        question = await between.editor.hear_json()
        shown = question["params"]["toolCall"]
        assert shown["kind"] == "edit"
        assert ".git/hook" in json.dumps(shown)
        no = {"outcome": {"outcome": "selected", "optionId": "reject_once"}}
        await between.editor.say(
            json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": no}).encode() + b"\n"
        )
        given = {"sessionId": "s", "terminalId": made}
        ended = await between.agent.request("terminal/wait_for_exit", given)
        assert ended["result"]["exitCode"] == 0
        told = await between.agent.request("terminal/output", given)
        assert "nothing of what it changed came back" in told["result"]["output"]
        assert (await between.agent.request("terminal/release", given))["result"] == {}
        assert len(await fs.work()) == 1
    assert not (project / ".git" / "hook").exists()


async def test_a_question_about_what_changed_is_given_up_when_the_relay_closes(opened, project):
    before = set(children_of(os.getpid()))
    (project / ".git").mkdir()
    async with opened() as fs:
        async with wires(fs, terminals=True) as between:
            await created(between, 1, command="echo evil > .git/hook")
            assert (await between.editor.hear_json())["method"] == "session/request_permission"
        assert len(await fs.work()) == 1
    assert set(children_of(os.getpid())) <= before
