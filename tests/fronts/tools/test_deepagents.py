"""The deepagents backend: its protocol method by method, and in a deep agent that runs."""

import asyncio
import base64
import threading
from typing import get_args

import pytest
from deepagents import create_deep_agent
from deepagents.backends import FilesystemBackend
from deepagents.backends.protocol import (
    BackendProtocol,
    FileOperationError,
    SandboxBackendProtocol,
)
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

import bailiwick
from bailiwick.errors import KINDS
from bailiwick.fronts.tools.deepagents import BailiwickBackend, literal
from bailiwick.fronts.tools.deepagents_sandbox import BailiwickSandbox
from tests.fronts.tools.test_langchain import GO, THREAD, scripted

TREE = {
    "a.py": "one\ntwo\nthree\n", "src/app/main.py": "import a\n", "src/b.txt": "x\n",
    ".github/workflows/ci.yml": "on: push\n", ".hidden": "h\n", "crlf.txt": "a\r\nb\r\n",
    "empty": "", "node_modules/m.py": "import m\n", ".gitignore": "node_modules\n",
}  # fmt: skip


class Twins:
    """Both halves of a backend; each call goes to one of them."""

    def __init__(self, backend, waiting):
        self._backend = backend
        self._waiting = waiting

    def __getattr__(self, name):
        if self._waiting:
            return getattr(self._backend, f"a{name}")
        call = getattr(self._backend, name)
        return lambda *args, **options: asyncio.to_thread(call, *args, **options)


@pytest.fixture(params=["async", "blocking"])
def waiting(request):
    return request.param == "async"


async def plant(fs):
    for path, text in TREE.items():
        await fs.write_bytes(path, text.encode(), parents=True)


@pytest.mark.spec("TOOL-5")
def test_every_method_of_the_protocol_is_ours():
    names = {n for n in vars(BackendProtocol) if not n.startswith("_")}
    assert names <= vars(BailiwickBackend).keys()
    assert {f"a{n}" for n in names if f"a{n}" in names} <= vars(BailiwickBackend).keys()


@pytest.mark.spec("TOOL-5")
async def test_ls_and_read(waiting):
    async with bailiwick.open("memory:") as fs:
        await plant(fs)
        backend = Twins(BailiwickBackend(fs), waiting)
        entries = {info["path"]: info for info in (await backend.ls("/")).entries}
        assert {"/a.py", "/src/", "/node_modules/", "/.hidden"} <= entries.keys()
        assert entries["/src/"]["is_dir"] is True
        assert entries["/a.py"]["size"] == 14
        assert (await backend.ls("/none")).error.startswith("Error: path_not_found")

        whole = await backend.read("/a.py")
        assert whole.file_data["content"] == TREE["a.py"]
        assert (whole.start_line, whole.end_line, whole.total_lines) == (1, 3, 3)
        page = await backend.read("/a.py", offset=1, limit=1)
        assert (page.file_data["content"], page.next_offset) == ("two\n", 2)
        assert (await backend.read("/a.py", offset=-5, limit=1)).start_line == 1
        assert (await backend.read("/a.py", limit=0)).no_lines_requested
        assert (await backend.read("/a.py", offset=9)).error
        assert (await backend.read("/empty")).file_data["content"] == ""
        assert (await backend.read("/none")).error.startswith("Error: path_not_found")
        assert (await backend.read("/src")).error.startswith("Error: is_a_directory")
        await fs.write_bytes("bin", b"\0\1")
        binary = (await backend.read("/bin")).file_data
        assert binary["encoding"] == "base64"
        assert base64.b64decode(binary["content"]) == b"\0\1"


@pytest.mark.spec("TOOL-5")
async def test_a_file_too_large_to_hold_is_read_by_windows(waiting):
    async with bailiwick.open("memory:") as fs:
        lines = [f"line {number}" for number in range(600_000)]
        await fs.write_bytes("big", "\n".join(lines).encode())
        backend = Twins(BailiwickBackend(fs), waiting)
        page = await backend.read("/big", offset=599_990, limit=100)
        assert page.file_data["content"].split("\n") == lines[599_990:]
        assert (page.start_line, page.end_line, page.next_offset) == (599_991, 600_000, None)
        page = await backend.read("/big", offset=10, limit=5)
        assert page.file_data["content"] == "".join(f"{each}\n" for each in lines[10:15])
        assert page.next_offset == page.end_line == 15
        page = await backend.read("/big", offset=0, limit=400_000)
        assert page.file_data["content"] == "".join(f"{e}\n" for e in lines[: page.end_line])
        assert page.next_offset == page.end_line
        assert (await backend.read("/big", limit=0)).no_lines_requested
        assert (await backend.read("/big", offset=10**7)).error
        await fs.write_bytes("wide", b"x" * 6_000_000)
        assert (await backend.read("/wide")).error.startswith("Error: file_too_large")


@pytest.mark.spec("TOOL-5")
@pytest.mark.parametrize(
    ("pattern", "path"),
    [("*.py", None), ("/*.py", None), ("**/*.py", "/src"), ("*.yml", "/"), ("**/*.yml", "/"),
     ("*", "/"), (".*", "/"), ("{a,main}.py", None), ("src/**/*.py", None), ("*.py", "/none")],
)  # fmt: skip
async def test_glob_finds_what_the_framework_s_own_backend_finds(pattern, path, tmp_path, waiting):
    async with bailiwick.open(tmp_path) as fs:
        await plant(fs)
        ours = await Twins(BailiwickBackend(fs), waiting).glob(pattern, path)
        theirs = FilesystemBackend(root_dir=tmp_path, virtual_mode=True).glob(pattern, path)
        assert sorted(i["path"] for i in ours.matches) == sorted(i["path"] for i in theirs.matches)


@pytest.mark.spec("TOOL-5")
async def test_grep_is_literal_and_globs_filter(waiting):
    async with bailiwick.open("memory:") as fs:
        await plant(fs)
        backend = Twins(BailiwickBackend(fs), waiting)
        found = await backend.grep("import")
        assert [m["path"] for m in found.matches] == ["/node_modules/m.py", "/src/app/main.py"]
        assert found.matches[1] == {"path": "/src/app/main.py", "line": 1, "text": "import a"}
        assert [m["path"] for m in (await backend.grep("import", "/src", "*.py")).matches] == [
            "/src/app/main.py"
        ]
        assert (await backend.grep("import", "/", "*.txt")).matches == []
        assert (await backend.grep("i.port")).matches == []
        assert (await backend.grep("x", "/none")).matches == []
        cut = await backend.grep("import", max_count=1)
        assert (len(cut.matches), cut.truncated) == (1, True)
        exact = await backend.grep("import", max_count=2)
        assert (len(exact.matches), exact.truncated) == (2, False)
        assert (await backend.grep("x", None, "../*")).error
        assert (await backend.glob("../*")).error


@pytest.mark.spec("TOOL-5")
async def test_write_edit_delete_and_transfer(waiting):
    async with bailiwick.open("memory:") as fs:
        backend = Twins(BailiwickBackend(fs), waiting)
        assert (await backend.write("/d/f.txt", "a a\n")).path == "/d/f.txt"
        assert (await backend.write("/d/f.txt", "b b\n")).error is None
        assert "ambiguous_text_match" in (await backend.edit("/d/f.txt", "b", "c")).error
        edited = await backend.edit("/d/f.txt", "b", "c", replace_all=True)
        assert (edited.path, edited.occurrences) == ("/d/f.txt", 2)
        assert (await backend.write("/../x", "")).error.startswith("Error: path_outside_workspace")
        sent = await backend.upload_files([("/u.bin", b"\0"), ("/../x", b""), ("/d", b"")])
        assert [response.error for response in sent] == [None, "invalid_path", "is_directory"]
        got = await backend.download_files(["/u.bin", "/none", "/d"])
        assert [r.error for r in got] == [None, "file_not_found", "is_directory"]
        assert got[0].content == b"\0"
        assert (await backend.delete("/d")).path == "/d"
        assert (await backend.delete("/d")).error.startswith("Error: path_not_found")


@pytest.mark.spec("TOOL-5", "POL-3")
async def test_it_acts_as_an_agent(waiting):
    async with bailiwick.open("memory:") as fs:
        await fs.write_text(".env", "KEY=1")
        backend = Twins(BailiwickBackend(fs), waiting)
        read = await backend.read("/.env")
        assert read.error.startswith("Error: approval_pending")
        assert (await backend.download_files(["/.env"]))[0].error == "permission_denied"
        assert (await backend.upload_files([("/.git/x", b"")]))[0].error == "permission_denied"
        narrowed = Twins(BailiwickBackend(fs, allowed_paths=["src/**"]), waiting)
        assert (await narrowed.write("/a", "x")).error.startswith("Error: missing_access")


@pytest.mark.spec("TOOL-5", "ERR-2")
def test_every_kind_of_error_has_a_word_of_the_framework_or_its_own():
    words = get_args(FileOperationError)
    for kind, error in KINDS.items():
        word = literal(error("x"))
        assert word in words or word == kind
        refused = error.category == "policy" and word == kind
        assert not refused or kind in ("file_too_large", "quota_exceeded")


@pytest.mark.spec("TOOL-5")
async def test_a_blocking_call_on_the_scope_s_own_loop_says_so():
    async with bailiwick.open("memory:") as fs:
        with pytest.raises(RuntimeError, match="own event loop"):
            BailiwickBackend(fs).ls("/")


@pytest.mark.spec("TOOL-5")
def test_the_blocking_twin_serves_any_thread():
    with bailiwick.open_sync("memory:") as fs:
        backend = BailiwickBackend(fs)
        threads = [
            threading.Thread(target=backend.write, args=(f"/{number}", "x")) for number in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(fs.list().entries) == 8
        assert len(asyncio.run(backend.als("/")).entries) == 8, "and a loop of another thread"


def calling(name, **arguments):
    return AIMessage(content="", tool_calls=[{"name": name, "args": arguments, "id": "c1"}])


def replies(state):
    return [m.content for m in state["messages"] if isinstance(m, ToolMessage)]


@pytest.mark.spec("TOOL-5")
async def test_a_deep_agent_works_on_a_scope():
    async with bailiwick.open("memory:") as fs:
        model = scripted(
            calling("write_file", file_path="/a.txt", content="one\ntwo\n"),
            calling("edit_file", file_path="/a.txt", old_string="one", new_string="eins"),
            calling("read_file", file_path="/a.txt"),
            calling("ls", path="/"),
            calling("glob", pattern="*.txt"),
            calling("grep", pattern="two"),
            AIMessage(content="done"),
        )
        state = await create_deep_agent(model, backend=BailiwickBackend(fs)).ainvoke(GO)
        assert state["messages"][-1].content == "done"
        told = replies(state)
        assert "eins" in told[2]
        assert all("/a.txt" in text for text in told[3:6])
        assert (await fs.read_text("a.txt")).text == "eins\ntwo\n"


@pytest.mark.spec("TOOL-5", "POL-4")
@pytest.mark.parametrize("agreed", [True, False])
async def test_a_rule_that_asks_interrupts_the_deep_agent(agreed):
    async with bailiwick.open("memory:") as fs:
        await fs.write_text(".git/config", "old\n", parents=True)
        model = scripted(
            calling("edit_file", file_path="/.git/config", old_string="old", new_string="new"),
            AIMessage(content="done"),
        )
        agent = create_deep_agent(model, backend=BailiwickBackend(fs), checkpointer=InMemorySaver())
        state = await agent.ainvoke(GO, THREAD)
        [paused] = state["__interrupt__"]
        assert paused.value["paths"] == [".git/config"]
        word = {"approved": agreed, "binding": paused.value["binding"]}
        state = await agent.ainvoke(Command(resume=word), THREAD)
        assert state["messages"][-1].content == "done"
        assert (await fs.read_text(".git/config")).text == ("new\n" if agreed else "old\n")


@pytest.mark.spec("TOOL-5", "POL-4")
@pytest.mark.parametrize("agreed", [True, False])
def test_a_blocking_deep_agent_is_interrupted_too(agreed):
    with bailiwick.open_sync("memory:") as fs:
        fs.write_text(".env", "KEY=1\n")
        model = scripted(calling("read_file", file_path="/.env"), AIMessage(content="done"))
        agent = create_deep_agent(model, backend=BailiwickBackend(fs), checkpointer=InMemorySaver())
        assert len(agent.invoke(GO, THREAD)["__interrupt__"]) == 1
        state = agent.invoke(Command(resume=agreed), THREAD)
        assert ("KEY=1" in replies(state)[0]) is agreed


# --- commands ------------------------------------------------------------------------------------


@pytest.mark.spec("EXEC-10", "TOOL-5")
@pytest.mark.parametrize("agreed", [True, False])
async def test_a_deep_agent_runs_a_command_when_the_person_has_seen_it(project, tmp_path, agreed):
    async with bailiwick.open(project, state_dir=str(tmp_path / "state")) as fs:
        model = scripted(
            calling("execute", command="echo hi | tee said; exit 3"), AIMessage(content="done")
        )
        graph = create_deep_agent(
            model=model, backend=BailiwickSandbox(fs), checkpointer=InMemorySaver()
        )
        paused = await graph.ainvoke(GO, THREAD)
        [interruption] = paused["__interrupt__"]
        assert "echo hi | tee said; exit 3" in interruption.value["prompt"]
        assert list(project.iterdir()) == []
        word = {"approved": agreed, "binding": interruption.value["binding"]}
        done = await graph.ainvoke(Command(resume=word), THREAD)
        [told] = [each.content for each in done["messages"] if isinstance(each, ToolMessage)]
        assert [each.name for each in project.iterdir()] == (["said"] if agreed else [])
        if agreed:
            assert told.startswith("hi\n")
            assert "exit code 3" in told
        else:
            assert "approval_denied" in told


@pytest.mark.spec("EXEC-10")
async def test_a_sandbox_is_made_where_programs_can_be_run(project, tmp_path):
    async with bailiwick.open(project, state_dir=str(tmp_path / "state")) as fs:
        assert isinstance(BailiwickSandbox(fs), SandboxBackendProtocol)
        assert not isinstance(BailiwickBackend(fs), SandboxBackendProtocol)
        agent = await fs.delegate(bailiwick.AgentRun("c", "r"))
        with pytest.raises(bailiwick.Unsupported):
            BailiwickSandbox(agent)
    async with bailiwick.open("memory:") as fs:
        assert isinstance(BailiwickSandbox(fs), SandboxBackendProtocol)


@pytest.mark.spec("EXEC-10")
async def test_both_halves_execute(project, tmp_path, waiting):
    async with bailiwick.open(project, state_dir=str(tmp_path / "state")) as fs:
        backend = Twins(BailiwickSandbox(fs), waiting)
        refused = await backend.execute("true")
        assert refused.exit_code is None
        assert refused.output.startswith("Error: approval_pending")
