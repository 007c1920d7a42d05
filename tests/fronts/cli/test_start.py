"""The command itself: help at once, exit codes, suggestions; and the lazy public package."""

import ast
import importlib
import json
import os
import pty
import subprocess
import sys

import pytest

import bailiwick as package
from bailiwick.fronts import cli
from bailiwick.fronts.cli.commands.completion import words_of
from tests.fronts.cli.command import COMMAND, bailiwick, environment, within
from tests.laws.repository import PACKAGE


def modules_of(code):
    script = f"import sys; before = set(sys.modules)\n{code}\nprint(*set(sys.modules) - before)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.spec("CLI-2")
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["help"]])
def test_help_loads_nothing_but_the_command(arguments):
    """What makes it come at once: counted in modules, since a time proves little here."""
    loaded = modules_of(f"from bailiwick.fronts.cli import main; main({arguments!r})")
    assert loaded <= {"bailiwick", "bailiwick.fronts", "bailiwick.fronts.cli", "__future__"}


@pytest.mark.spec("CLI-2")
def test_a_planted_import_would_be_noticed():
    assert "asyncio" in modules_of("import bailiwick; bailiwick.open")


@pytest.mark.spec("CLI-2")
def test_help_names_every_command_and_each_explains_itself():
    done = bailiwick("--help")
    assert (done.returncode, done.stderr) == (0, "")
    for name in cli.COMMANDS:
        assert f"\n  {name} " in done.stdout


@pytest.mark.spec("CLI-2")
@pytest.mark.parametrize("asked", ["--help", "--version", "ls", "cat f", "doctor"])
def test_an_output_that_takes_no_more_is_said_to_be_that(tmp_path, asked):
    (tmp_path / "f").write_text("held\n")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [COMMAND, *asked.split()], stdout=full, stderr=subprocess.PIPE, text=True,
            cwd=tmp_path, env=environment(), check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == f"bailiwick: the output cannot be written: {os.strerror(28)}\n"


@pytest.mark.spec("CLI-1", "CLI-2")
@pytest.mark.parametrize("name", sorted(set(cli.COMMANDS) - set(cli.GROUPS["serving"])))
def test_each_command_explains_itself_with_an_example(name):
    helped = within(name, "--help")
    assert helped.returncode == 0
    assert helped.stdout.startswith(f"usage: bailiwick {name}")
    actions = actions_of(name)
    for explained in [within(name, action, "--help").stdout for action in actions] or [
        helped.stdout
    ]:
        assert "--json" in explained
        assert "example" in explained
        assert f"bailiwick {name}" in explained.partition("example")[2] or (
            f" {name} " in explained.partition("example")[2]
        )


@pytest.mark.spec("CLI-1")
@pytest.mark.parametrize("name", cli.GROUPS["serving"])
def test_other_fronts_are_started_by_name_or_said_to_be_missing(name):
    module = cli.COMMANDS[name][0].partition(":")[0]
    done = within(name, "--help")
    try:
        importlib.import_module(module)
    except ModuleNotFoundError:
        assert done.returncode == 1
        assert done.stderr.startswith("unsupported: ")
    else:
        assert done.returncode == 0
        assert f"bailiwick {name}" in done.stdout


def actions_of(name):
    """The actions of a command, as completion knows them."""
    return [action for action in words_of(name) if action]


@pytest.mark.spec("CLI-1")
def test_the_contract_names_these_commands():
    named = (
        "serve mcp acp ls tree cat write edit rm mv cp mkdir find grep stat diff history restore"
        " undo snapshot fork merge watch import export root grant policy approvals audit volume"
        " guard doctor bench exec work mount"
    )
    assert set(named.split()) <= set(cli.COMMANDS)


@pytest.mark.spec("CLI-1", "PY-3")
@pytest.mark.parametrize(
    ("missing", "says"),
    [("uvicorn", "pip install 'bailiwick[server]'"), ("bailiwick.fronts.http", "install a")],
)
def test_a_command_whose_extra_is_missing_names_it(monkeypatch, missing, says):
    def lacking(name):
        raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)

    monkeypatch.setattr(cli, "command", lacking)
    done = within("serve", "--json")
    assert done.returncode == 1
    assert says in json.loads(done.stderr)["hint"]
    assert within("serve").stderr.startswith("unsupported: ")
    with pytest.raises(ModuleNotFoundError):
        within("ls")


@pytest.mark.spec("CLI-2")
def test_version_and_module():
    assert bailiwick("--version").stdout == f"bailiwick {package.__version__}\n"
    done = subprocess.run(
        [sys.executable, "-m", "bailiwick", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"bailiwick {package.__version__}\n"


@pytest.mark.spec("CLI-2")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "usage: bailiwick"),
        (["gaurd"], "did you mean 'guard'?"),
        (["approval"], "did you mean 'approvals'?"),
        (["zzz"], "bailiwick --help"),
        (["--verbose"], "there is no option '--verbose'"),
        (["\x1b[2J"], r"\x1b[2J"),
        (["root"], "ACTION"),
        (["root", "lisst"], "invalid choice"),
        (["root", "list", "--conf", "x"], "--conf"),
        (["grant", "add", "--subject", "user:a"], "--root"),
        (["grant", "add", "--subject", "user:a", "--root", "workspace:a", "--access", "raed"],
         "'raed'"),
        (["audit", "tail", "-n", "0"], "1 to 1000"),
        (["audit", "tail", "-n", "x"], "1 to 1000"),
        (["approvals", "answer", "x", "maybe"], "maybe"),
        (["guard"], "PATH"),
        (["doctor", "extra"], "extra"),
        (["doctor", "--state", "here"], "--state needs"),
        (["guard", "--json", "--format", "sarif", "."], "two formats"),
        (["grant", "show", "x", "--null"], "--null is for"),
        (["grant", "show", "x", "--read-only"], "--read-only is for"),
        (["root", "list", "\x1b[2J"], r"\x1b[2J"),
    ],
)  # fmt: skip
def test_wrong_usage_is_exit_code_2(arguments, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BAILIWICK_CONFIG", raising=False)
    done = within(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert says in done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.spec("CLI-2")
@pytest.mark.parametrize("arguments", [[], ["gaurd"], ["root", "lisst"]])
def test_the_real_command_says_so_too(arguments, tmp_path):
    assert bailiwick(*arguments, cwd=tmp_path).returncode == 2


@pytest.mark.spec("CLI-2")
def test_without_a_configuration_it_is_about_where_one_stands(tmp_path):
    (tmp_path / "here").mkdir()
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    done = bailiwick("root", "list", cwd=tmp_path / "here", env=state)
    assert (done.returncode, done.stderr) == (0, "")
    assert "workspace:here" in done.stdout


@pytest.mark.spec("CLI-2")
@pytest.mark.parametrize(
    ("variables", "painted"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_colours_only_on_a_terminal_that_wants_them(tmp_path, variables, painted):
    (tmp_path / "m.py").write_text("open('f')\n")
    person, program = pty.openpty()
    child = subprocess.Popen(
        [COMMAND, "guard", "m.py"], stdout=program, stdin=subprocess.DEVNULL, cwd=tmp_path,
        env=environment(**{"TERM": "xterm", **variables}),
    )  # fmt: skip
    os.close(program)
    shown = b""
    while True:
        try:
            part = os.read(person, 4096)
        except OSError:  # how Linux says that the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(person)
    assert child.wait(timeout=120) == 1
    assert b"1 finding" in shown
    assert (b"\x1b[" in shown) is painted
    assert "\x1b" not in bailiwick("guard", "m.py", cwd=tmp_path).stdout


def test_a_reader_that_goes_away_is_no_traceback(tmp_path):
    (tmp_path / "m.py").write_text("open('f')\n" * 20_000)
    child = subprocess.Popen(
        [COMMAND, "guard", "m.py"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path,
        env=environment(),
    )  # fmt: skip
    child.stdout.read(10)
    child.stdout.close()
    errors = child.stderr.read()
    child.stderr.close()
    assert child.wait(timeout=120) == 141
    assert errors == b""


# --- the public package ------------------------------------------------------------------------


def _names_by_module():
    """What type checkers see imported in the package, and what is looked up when it runs."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    seen = {
        (node.module, alias.asname or alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("bailiwick")
        for alias in node.names
    }
    return seen, {(module, name) for name, module in package._MODULE_OF.items()}


@pytest.mark.spec("PY-1", "PY-3")
def test_type_checkers_and_the_running_package_see_the_same_names():
    seen, found = _names_by_module()
    # A module that can be called is seen as what it is called for.
    assert {each for each in seen if each[1] not in package._MODULES} == found
    assert {name for _, name in seen} == set(package.__all__) - {"__version__"}


@pytest.mark.spec("PY-1", "TOOL-1", "ACP-1")
def test_public_modules_are_there_without_being_imported():
    code = "import bailiwick; print(callable(bailiwick.tools), bailiwick.acp.FileSystemAdapter)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("True <class 'bailiwick.")


@pytest.mark.spec("PY-1")
def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        package.nonsense  # noqa: B018
    assert not hasattr(package, "__wrapped__")
    assert set(package.__all__) <= set(dir(package))


@pytest.mark.spec("PY-3")
def test_import_loads_nothing_at_all():
    assert modules_of("import bailiwick") == {"bailiwick"}


def run_in_shell(tmp_path, command):
    """Run it with its streams as the shell says."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "f").write_bytes(b"x\n")
    return subprocess.run(
        ["sh", "-c", f'exec "$0" -m bailiwick {command}', sys.executable],
        cwd=tmp_path / "tree",
        env=environment(XDG_STATE_HOME=str(tmp_path / "state")),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.spec("CLI-2")
@pytest.mark.parametrize("command", ["ls", "cat f", "tree", "stat f", "grep x", "--help", "mcp ."])
@pytest.mark.parametrize("streams", ["<&-", "</dev/null >&-", "<&- >&-", "</dev/null 2>&-"])
def test_closed_streams_are_no_fault(tmp_path, command, streams):
    done = run_in_shell(tmp_path, f"{command} {streams}")
    assert "Traceback" not in done.stderr
    assert "internal_error" not in done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.spec("ACP-3")
@pytest.mark.parametrize("given", ["</dev/null", "<&-", "<f"])
def test_a_proxy_without_an_editor_says_so(tmp_path, given):
    done = run_in_shell(tmp_path, f"acp -- cat {given}")
    assert done.returncode == 1
    assert done.stderr.startswith("parse_error: the standard streams are no pipes")
    assert "Traceback" not in done.stderr
