"""The command itself: help at once, exit codes, suggestions; and the lazy public package."""

import ast
import os
import pty
import subprocess
import sys

import pytest

import bailiwick as package
from bailiwick.fronts import cli
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
        each = bailiwick(name, "--help")
        assert each.returncode == 0
        assert each.stdout.startswith(f"usage: bailiwick {name}")
        assert "--json" in each.stdout or "ACTION" in each.stdout


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
def test_without_a_configuration_the_hint_says_where_to_put_one(tmp_path):
    done = bailiwick("root", "list", cwd=tmp_path)
    assert done.returncode == 2
    assert "--config" in done.stderr
    assert "$BAILIWICK_CONFIG" in done.stderr


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
    assert child.wait(timeout=20) == 1
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
    assert child.wait(timeout=60) == 1
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
    assert seen == found
    assert {name for _, name in found} == set(package.__all__) - {"__version__"}


@pytest.mark.spec("PY-1")
def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        package.nonsense  # noqa: B018
    assert not hasattr(package, "__wrapped__")
    assert set(package.__all__) <= set(dir(package))


@pytest.mark.spec("PY-3")
def test_import_loads_nothing_at_all():
    assert modules_of("import bailiwick") == {"bailiwick"}
