"""The Agents SDK's own loop of a sandbox agent, whose sandbox is a workspace."""

import io
import json
from pathlib import Path

import pytest
from agents import RunConfig, Runner, RunState
from agents.editor import ApplyPatchOperation
from agents.run_config import SandboxRunConfig
from agents.sandbox import SandboxAgent
from agents.sandbox.capabilities import Filesystem, Shell
from agents.sandbox.entries import File
from agents.sandbox.errors import (
    InvalidManifestPathError,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
)
from agents.sandbox.manifest import Manifest
from agents.sandbox.snapshot import RemoteSnapshotSpec
from openai.types.responses import ResponseFunctionToolCall

import bailiwick
from bailiwick.fronts.tools import tools as make_tools
from bailiwick.fronts.tools.openai_sandbox import SandboxTools
from tests.fronts.tools.support import TAGGED, running
from tests.fronts.tools.test_openai_agents import Scripted, say

pytestmark = [pytest.mark.spec("EXEC-10"), pytest.mark.spec("TOOL-5")]


@pytest.fixture(autouse=True)
def _state_of_the_sdk(tmp_path, monkeypatch):
    """Where the SDK makes a directory for snapshots, whether it takes any or not."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state-of-user"))


def execute(cmd, call_id="c1", **more):
    return ResponseFunctionToolCall(
        type="function_call", name="exec_command", call_id=call_id, id=f"id-{call_id}",
        arguments=json.dumps({"cmd": cmd, "yield_time_ms": 60_000, **more}),
    )  # fmt: skip


def agent(model, *capabilities):
    return SandboxAgent(name="a", instructions="work", model=model, capabilities=list(capabilities))


def quiet(kit):
    return RunConfig(tracing_disabled=True, sandbox=SandboxRunConfig(client=kit.client))


@pytest.mark.parametrize("agreed", [True, False])
async def test_a_command_pauses_the_run_until_the_person_has_answered(project, agreed):
    (project / "d").mkdir()
    async with running(project) as (_, box):
        kit = SandboxTools(box)
        model = Scripted(
            execute("echo hi | tee said; pwd; exit 3", workdir="d", login=False), say("done")
        )
        runner = agent(model, kit.shell())
        result = await Runner.run(runner, "go", run_config=quiet(kit))
        [interruption] = result.interruptions
        assert "echo hi | tee said; pwd; exit 3" in kit.question(interruption).prompt
        assert list((project / "d").iterdir()) == []
        state = result.to_state()
        state.approve(interruption) if agreed else state.reject(interruption)
        result = await Runner.run(runner, state, run_config=quiet(kit))
        assert result.final_output == "done"
        assert [each.name for each in (project / "d").iterdir()] == (["said"] if agreed else [])
        if agreed:
            told = model.outputs()["c1"]
            assert TAGGED.search(told)[5].startswith("hi\n")
            assert TAGGED.search(told)[5].endswith("/d\n")
            assert "Process exited with code 3" in told
            assert "[changed: d/said created]" in told


@pytest.mark.parametrize("given", ["agreed", "nothing"])
async def test_a_run_goes_on_in_another_process_with_what_was_shown(project, given):
    async with running(project, session="run-1") as (_, box):
        kit = SandboxTools(box)
        first = agent(Scripted(execute("touch made")), kit.shell())
        result = await Runner.run(first, "go", run_config=quiet(kit))
        [interruption] = result.interruptions
        shown = {"c1": kit.question(interruption).binding}
        kept = result.to_state().to_string()
        other = SandboxTools(box, agreed=shown if given == "agreed" else {})
        model = Scripted(say("done"))
        runner = agent(model, other.shell())
        state = await RunState.from_string(runner, kept)
        state.approve(state.get_interruptions()[0])
        await Runner.run(runner, state, run_config=quiet(other))
        assert (project / "made").exists() is (given == "agreed")
        if given == "nothing":
            assert "approval_denied" in model.outputs()["c1"]


async def test_the_sdks_own_capability_asks_in_line_or_runs_nothing(project):
    asked = []

    async def person(approval):
        asked.append(approval.question.command)
        return "once"

    async with running(project) as (fs, _):
        for scope, made in ((fs, False), (fs.with_caller("python", asker=person), True)):
            kit = SandboxTools(make_tools(scope, "notes", operations=["run_command"]))
            model = Scripted(execute("touch made"), say("done"))
            await Runner.run(agent(model, Shell()), "go", run_config=quiet(kit))
            assert (project / "made").exists() is made
            assert ("approval_denied" in model.outputs()["c1"]) is not made
    assert len(asked) == 1


async def test_files_are_read_and_written_by_the_verbs(project):
    (project / "a.txt").write_text("one\n")
    (project / ".env").write_text("KEY=1\n")
    (project.parent / "secret").write_text("outside")
    async with running(project) as (_, box):
        kit = SandboxTools(box)
        async with await kit.client.create(options=None) as session:
            assert (await session.read(Path("a.txt"))).read() == b"one\n"
            await session.write(Path("n/b.txt"), io.BytesIO(b"two\n"))
            await session.mkdir("n", parents=True)
            await session.mkdir("m")
            await session.mv("n/b.txt", "m/c.txt")
            assert [(each.path, each.kind) for each in await session.ls("m")] == [
                ("m/c.txt", "file")
            ]
            assert await session.same_file("a.txt", "./a.txt")
            assert not await session.same_file("a.txt", "m/c.txt")
            await session.rm("n", recursive=True)
            with pytest.raises(WorkspaceReadNotFoundError):
                await session.read(Path("none"))
            with pytest.raises(WorkspaceArchiveReadError):
                await session.read(Path(".env"))
            with pytest.raises(WorkspaceArchiveWriteError):
                await session.write(Path(".git/config"), io.BytesIO(b"evil"))
            with pytest.raises(InvalidManifestPathError):
                await session.read(Path("../secret"))
            with pytest.raises(ValueError, match="no users"):
                await session.read(Path("a.txt"), user="root")
        assert not await session.running()
    assert sorted(each.name for each in project.iterdir()) == [".env", "a.txt", "m"]


async def test_what_cannot_be_done_is_refused_when_a_session_is_made(project):
    async with running(project) as (fs, box):
        kit = SandboxTools(box)
        with pytest.raises(ValueError, match="variables only"):
            await kit.client.create(manifest=Manifest(entries={"f": File(content=b"x")}))
        with pytest.raises(ValueError, match="no snapshot"):
            await kit.client.create(snapshot=RemoteSnapshotSpec(client_dependency_key="k"))
        session = await kit.client.create(manifest=Manifest(root="/etc"))
        assert session.state.manifest.root.startswith("/work/")
        assert not session.supports_pty()
        without = make_tools(await fs.delegate(bailiwick.AgentRun("c", "r")), "notes")
        with pytest.raises(bailiwick.MissingAccess):
            SandboxTools(without)


async def test_a_patch_of_the_sdks_own_tool_is_applied(project):
    (project / "a.txt").write_text("one\n")
    async with running(project) as (_, box):
        kit = SandboxTools(box)
        names = []

        async def tools_of(runner):
            model = Scripted(say("done"))
            runner.model = model
            await Runner.run(runner, "go", run_config=quiet(kit))
            names.extend(tool.name for tool in model.sent[0][2])

        await tools_of(agent(None, Filesystem(), kit.shell()))
        assert names == ["view_image", "apply_patch", "exec_command"]
        async with await kit.client.create() as session:
            await session.apply_patch(
                ApplyPatchOperation(type="update_file", path="a.txt", diff="@@\n-one\n+two\n")
            )
    assert (project / "a.txt").read_text() == "two\n"


@pytest.mark.parametrize("rebase", [True, False])
async def test_a_part_of_the_tree_is_a_sandbox_too(project, rebase):
    (project / "d").mkdir()
    (project / "d" / "f").write_text("deep\n")

    async def person(approval):
        return "once"

    async with running(project) as (fs, _):
        agent_scope = await fs.delegate(
            bailiwick.AgentRun("c", "r"), path="d", access=fs.access, rebase=rebase
        )
        kit = SandboxTools(make_tools(agent_scope.with_caller("python", asker=person), "notes"))
        async with await kit.client.create() as session:
            assert (await session.read(Path("f"))).read() == b"deep\n"
            root = session.state.manifest.root
            done = await session.exec(f"cat {root}/f; pwd; echo err >&2; exit 4")
            assert (done.stdout, done.exit_code) == (f"deep\n{root}\n".encode(), 4)
            assert done.stderr == b"err\n"
