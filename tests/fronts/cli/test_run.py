"""`bailiwick run`: any program, whole, on a working copy, with the terminal handed through."""

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import termios
import zipfile

import pytest

from tests.fronts.cli.command import COMMAND, bailiwick, environment
from tests.fronts.cli.terminal import Terminal
from tests.sandboxes.test_ending import mounts_of_this_namespace
from tests.sandboxes.workshop import sleepers
from tests.waiting import until_blocking

pytestmark = [pytest.mark.spec("OVER-3"), pytest.mark.usefixtures("needs_bubblewrap")]


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    place = tmp_path / "project"
    (place / "src").mkdir(parents=True)
    (place / "src" / "main.c").write_text("int answer = 41;\n")
    (place / "Makefile").write_text("out: src/main.c\n\tcp src/main.c out\n")
    return place


def run(project, *arguments, **more):
    return bailiwick("run", project, *arguments, **more)


def tree(place):
    """All that lies in a directory: links by their text, files by content and mode."""
    found = {}
    for each in sorted(place.rglob("*")):
        name = str(each.relative_to(place))
        if each.is_symlink():
            found[name] = os.readlink(each)
        elif each.is_dir():
            found[name] = "directory"
        else:
            found[name] = (each.read_bytes(), each.stat().st_mode & 0o777)
    return found


def kept_as(said):
    return re.search(r"kept as (w\w+)", said)[1]


def wheel(place):
    """A package as small as can be, built by hand: nothing is downloaded to install it."""
    info = "greeting-1.0.dist-info"
    with zipfile.ZipFile(place / "greeting-1.0-py3-none-any.whl", "w") as file:
        file.writestr("greeting.py", "WORDS = 'good morning'\n")
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(
            f"{info}/RECORD", f"greeting.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n"
        )


AGENT = """\
set -e
sed -i s/41/42/ src/main.c
make
git init -q .
git -c user.name=a -c user.email=a@example.com add -A
git -c user.name=a -c user.email=a@example.com commit -qm 'All of it'
git log --oneline | wc -l
cp -a . ~/left
"""


@pytest.fixture
def home(tmp_path):
    """Where a program can leave a copy of what it sees, for comparison."""
    (made := tmp_path / "home").mkdir()
    return made


def test_a_coding_agent_at_work_leaves_the_project_alone_until_it_is_applied(project, home):
    for needed in ("git", "make"):
        if shutil.which(needed, path="/usr/bin:/bin") is None:
            pytest.skip(f"{needed} is not installed: apt install {needed}")
    before = tree(project)
    done = run(project, "--home", home, "--", "sh", "-c", AGENT)
    assert (done.returncode, done.stdout) == (0, "cp src/main.c out\n1\n"), done.stderr
    assert tree(project) == before
    work = kept_as(done.stderr)
    assert "updated src/main.c" in done.stderr
    assert "nothing of this is in the directory yet" in done.stderr
    assert f"bailiwick -p {project} review {work}" in done.stderr
    assert "updated src/main.c" in bailiwick("-p", project, "work", "show", work).stdout
    applied = bailiwick("-p", project, "work", "apply", work)
    assert applied.returncode == 0, applied.stderr
    assert tree(project) == tree(home / "left")
    assert (project / "out").read_text() == "int answer = 42;\n"
    said = subprocess.run(
        ["git", "-c", f"safe.directory={project}", "status", "--porcelain"],
        cwd=project, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert said.stdout == ""
    assert json.loads(bailiwick("-p", project, "work", "list", "--json").stdout)["work"] == []


DEEP_AGENT = """\
import shutil
from pathlib import Path
from deepagents import create_deep_agent
from deepagents.backends import FilesystemBackend
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage


class Scripted(GenericFakeChatModel):
    def bind_tools(self, tools, **_):
        return self


def calling(name, **arguments):
    return AIMessage(content="", tool_calls=[{"name": name, "args": arguments, "id": name}])


turns = [
    calling("read_file", file_path="/src/main.c"),
    calling("edit_file", file_path="/src/main.c", old_string="41", new_string="42"),
    calling("write_file", file_path="/docs/plan.md", content="First, look.\\n"),
    AIMessage(content="done"),
]
graph = create_deep_agent(
    model=Scripted(messages=iter(turns)), backend=FilesystemBackend(root_dir=".", virtual_mode=True)
)
state = graph.invoke({"messages": [("user", "go")]})
print(len(state["messages"]), state["messages"][-1].content)
shutil.copytree(".", Path.home() / "left", symlinks=True)
"""


@pytest.mark.slow
def test_an_agent_of_a_framework_with_file_tools_of_its_own(project, home):
    """Of which none knows of us: what they change is seen all the same."""
    before = tree(project)
    (home / "agent.py").write_text(DEEP_AGENT)
    shared = {sys.prefix, sys.base_prefix}
    readable = [word for each in sorted(shared) for word in ("--allow-read", each)]
    done = run(
        project, "--home", home, *readable, "--", sys.executable, "-B", "-c",
        "import pathlib, runpy; runpy.run_path(str(pathlib.Path.home() / 'agent.py'))",
        timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "8 done\n"), done.stderr
    assert tree(project) == before
    applied = bailiwick("-p", project, "work", "apply", kept_as(done.stderr))
    assert applied.returncode == 0, applied.stderr
    assert tree(project) == tree(home / "left")
    assert (project / "src" / "main.c").read_text() == "int answer = 42;\n"
    assert (project / "docs" / "plan.md").read_text() == "First, look.\n"


def test_what_is_installed_comes_back_but_for_links_that_lead_out(project, home):
    python = "/usr/bin/python3"
    if subprocess.run([python, "-c", "import ensurepip, venv"], check=False).returncode:
        pytest.skip("the system's Python makes no environments: apt install python3-venv")
    wheel(project)
    script = (
        f"{python} -m venv env && env/bin/pip install -q --no-index greeting-1.0-py3-none-any.whl"
        " && env/bin/python -c 'import greeting; print(greeting.WORDS)' && cp -a . ~/left"
    )
    done = run(
        project, "--apply", "--partial", "--home", home, "--", "sh", "-c", script, timeout=300
    )
    assert (done.returncode, done.stdout) == (0, "good morning\n"), done.stderr
    withheld = re.findall(r"withheld (\S+): symlink_escape", done.stderr)
    left = tree(home / "left")
    assert withheld == [each for each in left if str(left[each]).startswith("/")] != []
    assert tree(project) == {name: left[name] for name in left if name not in withheld}
    assert bailiwick("-p", project, "work", "discard", kept_as(done.stderr)).returncode == 0


def test_apply_brings_all_of_it_back_or_nothing(project):
    done = run(project, "--apply", "--", "sh", "-c", "rm -r src; echo new > n")
    assert (done.returncode, done.stdout) == (0, "")
    assert sorted(done.stderr.splitlines()) == ["created n", "deleted src/"]
    assert sorted(os.listdir(project)) == ["Makefile", "n"]
    done = run(project, "--apply", "--", "sh", "-c", "ln -s /etc/passwd out; echo two > n; exit 3")
    assert done.returncode == 3
    assert "withheld out: symlink_escape" in done.stderr
    assert "not brought back" in done.stderr
    assert "--partial" in done.stderr
    assert (project / "n").read_text() == "new\n"
    work = kept_as(done.stderr)
    assert bailiwick("-p", project, "work", "discard", work).returncode == 0
    assert run(project, "--", "true").stderr == "note: it changed nothing\n"


def test_json_is_a_line_a_piece_and_the_result_last(project):
    done = run(project, "--json", "--", "sh", "-c", "cat; rm Makefile", given="typed\n")
    piece, last = map(json.loads, done.stdout.splitlines())
    assert piece == {"seq": 0, "stream": "stdout", "data": "typed\n"}
    result = last["result"]
    assert (last["applied"], result["exitCode"]) == (False, 0)
    assert [(each["path"], each["kind"]) for each in result["changes"]] == [("Makefile", "deleted")]
    assert bailiwick("-p", project, "work", "discard", result["workId"]).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--", "no-such-program"), 127, "not found"),
        (("--", "sh", "-c", "kill -9 $$"), 137, ""),
        (("--timeout", "1", "--", "sleep", "60"), 124, "note: its time was up"),
        (("--allow-read", "/", "--", "true"), 125, "parse_error: "),
        (("--allow-read", "/proc", "--", "true"), 125, "parse_error: "),
        (("--allow-read", "/no/where", "--", "true"), 125, "--allow-read /no/where: "),
        (("--home", "/no/where", "--", "true"), 125, "path_not_found: --home /no/where"),
        (("--network", "all", "--", "true"), 2, "invalid choice"),
        (("--partial", "--", "true"), 2, "--apply"),
        (("true",), 2, "unrecognized"),
        ((), 2, "after --"),
        (("--",), 2, "after --"),
    ],
)
def test_how_it_can_end(project, arguments, code, says):
    done = run(project, *arguments)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(project.parent.glob("state/bailiwick/work/*/*"))


def test_a_server_and_a_volume_that_is_not_there_run_nothing(tmp_path):
    for place, said in (
        (f"sqlite:{tmp_path}/v.db", "root_not_found"), ("http://127.0.0.1:1", "unsupported"),
    ):  # fmt: skip
        done = bailiwick("run", place, "--", "true")
        assert (done.returncode, said in done.stderr) == (125, True), done.stderr


# --- what it has of the machine ------------------------------------------------------------------


def test_what_is_shared_is_seen_and_its_home_is_kept(project, home, tmp_path):
    (tools := tmp_path / "tools").mkdir()
    (tools / "t").write_text("tool\n")
    script = f"cat {tools}/t; echo $GIVEN $HIDDEN; echo x > {tools}/x; echo kept > ~/memory"
    done = run(
        project, "--allow-read", tools, "--home", home, "--env", "GIVEN", "--", "sh", "-c", script,
        env={"GIVEN": "one", "HIDDEN": "two"},
    )  # fmt: skip
    assert done.stdout == "tool\none\n"
    assert os.listdir(tools) == ["t"]
    assert run(project, "--home", home, "--", "sh", "-c", "cat ~/memory").stdout == "kept\n"
    assert run(project, "--", "sh", "-c", f"ls -A ~; ls {tmp_path}").stdout == ""


def test_the_network_is_that_of_the_machine_where_the_person_says_so(project):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        script = f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached"
        for network, said in (("host", "reached\n"), ("loopback", ""), ("none", "")):
            assert run(project, "--network", network, "--", "bash", "-c", script).stdout == said


@pytest.mark.parametrize("how", ["--allow-read", "--home"])
def test_what_leads_round_the_boundary_is_not_shared(project, home, tmp_path, how):
    """The directory itself, what holds it, and the state: also by a link."""
    (project / ".env").write_text("SECRET\n")
    (tmp_path / "link").symlink_to(project)
    (state := tmp_path / "state" / "bailiwick").mkdir(parents=True, exist_ok=True)
    for path in (project, tmp_path, project / "src", tmp_path / "link", state, tmp_path / "state"):
        done = run(project, how, path, "--", "sh", "-c", f"cat {path}/.env; echo x > ~/x")
        assert (done.returncode, done.stdout) == (125, ""), path
        assert done.stderr.startswith("parse_error: ")
    assert not (project / "x").exists()
    (home / "bin").mkdir()
    done = run(project, "--home", home, "--allow-read", home / "bin", "--", "true")
    assert done.returncode == 125


def test_a_socket_in_what_is_shared_leads_nowhere(project, tmp_path):
    (tools := tmp_path / "tools").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tools / "s"))
        server.listen()
        script = f"import socket; socket.socket(socket.AF_UNIX).connect('{tools}/s')"
        done = run(project, "--allow-read", tools, "--network", "host", "--",
                   "/usr/bin/python3", "-c", script)  # fmt: skip
        assert done.returncode == 1
        assert "Error" in done.stderr
        subprocess.run([sys.executable, "-c", script], check=True)  # it leads somewhere outside


# --- the terminal --------------------------------------------------------------------------------


def on_terminal(project, *arguments):
    return Terminal("run", project, *arguments, cwd=project, stdin_too=True)


def test_the_terminal_is_handed_through_with_its_size_and_is_as_before_afterwards(project):
    script = (
        "trap 'stty size; exit 3' WINCH; test -t 0 && test -t 1 && test -t 2 && echo all;"
        " stty size; echo two > n; echo $TERM; while :; do sleep 0.01; done"
    )
    with on_terminal(project, "--", "sh", "-c", script) as terminal:
        before = termios.tcgetattr(terminal.person)
        terminal.wait_for(b"xterm\r\n")
        assert b"all\r\n24 80\r\n" in terminal.shown
        assert termios.tcgetattr(terminal.person) != before
        fcntl.ioctl(terminal.person, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
        os.kill(terminal.child.pid, signal.SIGWINCH)
        terminal.wait_for(b"50 120\r\n")
        terminal.wait_for(b"kept as")
        assert termios.tcgetattr(terminal.person) == before
        assert terminal.ended() == 3
        assert b"created n" in terminal.shown
        work = kept_as(terminal.shown.decode())
    assert bailiwick("-p", project, "work", "discard", work).returncode == 0


def test_what_is_typed_goes_to_the_program_and_control_c_too(project):
    script = "trap 'echo caught' INT; echo up; read line; echo \"<$line>\"; sleep 70040; echo after"
    with on_terminal(project, "--", "sh", "-c", script) as terminal:
        terminal.wait_for(b"up\r\n")
        terminal.type(b"hello\r")
        terminal.wait_for(b"<hello>\r\n")
        until_blocking(lambda: sleepers(70_040))
        terminal.type(b"\x03")
        terminal.wait_for(b"caught\r\n")
        terminal.wait_for(b"after\r\n")
        assert terminal.ended() == 0
    assert sleepers(70_040) == []


def test_ended_from_outside_it_gives_the_terminal_back(project):
    with on_terminal(project, "--", "sh", "-c", "echo two > n; echo up; sleep 70043") as terminal:
        before = termios.tcgetattr(terminal.person)
        terminal.wait_for(b"up\r\n")
        until_blocking(lambda: sleepers(70_043))
        terminal.child.terminate()
        terminal.wait_for(b"kept as")
        assert termios.tcgetattr(terminal.person) == before
        assert terminal.ended() == 137
    assert sleepers(70_043) == []


def test_an_interactive_shell_is_one(project):
    with on_terminal(project, "--apply", "--", "bash", "--norc", "-i") as terminal:
        terminal.wait_for(b"# " if os.getuid() == 0 else b"$ ")
        terminal.type(b"echo made > made; exit 5\r")
        assert terminal.ended() == 5
        assert b"created made" in terminal.shown
    assert (project / "made").read_text() == "made\n"


def test_without_a_terminal_an_interrupt_is_for_the_program_and_an_end_is_for_all(project):
    script = "trap 'echo caught; exit 4' INT; echo up; echo two > n; sleep 70041; exit 4"
    for number, code in ((signal.SIGINT, 4), (signal.SIGTERM, 137)):
        with started(project, "--", "sh", "-c", script) as process:
            assert process.stdout.readline() == b"up\n"
            until_blocking(lambda: sleepers(70_041))
            process.send_signal(number)
            said = process.stderr.read().decode()
            assert process.wait() == code, said
        assert sleepers(70_041) == []
        assert "created n" in said
        assert bailiwick("-p", project, "work", "discard", kept_as(said)).returncode == 0


def started(project, *arguments):
    return subprocess.Popen(
        [COMMAND, "run", str(project), *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
    )  # fmt: skip


@pytest.mark.spec("EXEC-8")
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_what_is_kept_is_told_where_nobody_reads_the_output_any_more(project, options):
    script = "echo kept > n; while :; do echo begun; sleep 0.1; done"
    with started(project, *options, "--", "sh", "-c", script) as process:
        assert process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read().decode()
        assert process.wait() == 141, said
    (work,) = json.loads(bailiwick("-p", project, "work", "list", "--json").stdout)["work"]
    assert (kept_as(said), said.count("\n")) == (work["id"], 4)
    assert f"bailiwick -p {project} review {work['id']}\n" in said
    assert bailiwick("-p", project, "work", "show", work["id"]).stdout == "created n\n"


@pytest.mark.spec("EXEC-8")
def test_what_is_kept_is_told_where_the_output_cannot_be_written(project):
    for last in ((), ("--json",)):  # what the program prints, and what is told at its end
        script = "echo kept > n" if last else "echo kept > n; echo begun"
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [COMMAND, "run", str(project), *last, "--", "sh", "-c", script],
                stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, text=True,
                env=environment(), check=False,
            )  # fmt: skip
        assert done.returncode == 125
        assert "cannot be written" in done.stderr
        work = kept_as(done.stderr)
        assert bailiwick("-p", project, "work", "show", work).stdout == "created n\n"


@pytest.mark.spec("EXEC-5", "EXEC-8")
def test_killed_it_leaves_a_working_copy_and_nothing_else(project):
    before = mounts_of_this_namespace()
    script = "sed -i s/41/42/ src/main.c; echo up; sleep 70042 & sleep 70042"
    with started(project, "--", "sh", "-c", script) as process:
        assert process.stdout.readline() == b"up\n"
        until_blocking(lambda: len(sleepers(70_042)) == 2)
        process.kill()
        process.wait()
    until_blocking(lambda: sleepers(70_042) == [])
    assert mounts_of_this_namespace() == before
    assert (project / "src" / "main.c").read_text() == "int answer = 41;\n"
    (work,) = json.loads(bailiwick("-p", project, "work", "list", "--json").stdout)["work"]
    assert work["command"] == ["sh", "-c", script]
    assert bailiwick("-p", project, "work", "apply", work["id"]).returncode == 0
    assert (project / "src" / "main.c").read_text() == "int answer = 42;\n"


def test_as_an_agent_it_sees_nothing_that_it_would_have_to_ask_for(project):
    (project / ".env").write_text("SECRET\n")
    with on_terminal(
        project, "--as", "agent_run:c/1", "--", "sh", "-c", "cat .env; echo seen"
    ) as terminal:
        terminal.wait_for(b"under this grant? ")
        terminal.type(b"o\r")
        terminal.wait_for(b"seen\r\n")
        terminal.ended()
        assert b"SECRET" not in terminal.shown


def test_a_program_in_a_volume(project, tmp_path):
    place = f"sqlite:{tmp_path / 'agent.db'}"
    assert bailiwick("volume", "create", place).returncode == 0
    assert bailiwick("write", "-p", place, "a.txt", given="one\n").returncode == 0
    ran = bailiwick("run", place, "--", "sh", "-c", "cat a.txt; echo two > a.txt")
    assert (ran.returncode, ran.stdout) == (0, "one\n")
    id = re.search(r"kept as (\w+)", ran.stderr)[1]
    assert bailiwick("cat", "-p", place, "a.txt").stdout == "one\n"
    assert "-one\n+two\n" in bailiwick("work", "diff", id, "-p", place).stdout
    assert bailiwick("work", "apply", id, "-p", place).returncode == 0
    assert bailiwick("cat", "-p", place, "a.txt").stdout == "two\n"
    ran = bailiwick("exec", "-p", place, "--", "sh", "-c", "echo three > a.txt")
    assert ran.returncode == 0
    assert bailiwick("cat", "-p", place, "a.txt").stdout == "three\n"
