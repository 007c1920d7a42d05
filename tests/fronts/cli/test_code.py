"""`bailiwick code`, as it is typed."""

import json

import pytest

from tests.fronts.cli.command import bailiwick
from tests.fronts.cli.terminal import Terminal

pytestmark = pytest.mark.usefixtures("needs_bubblewrap")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    volume = f"sqlite:{tmp_path}/v.db"
    assert bailiwick("volume", "create", volume).returncode == 0
    return volume


def typed(place, source, *arguments):
    return bailiwick("-p", place, "code", *arguments, "-", given=source)


@pytest.mark.spec("CODE-1")
def test_it_prints_its_output_and_its_value_and_how_to_undo(place, tmp_path):
    file = tmp_path / "source.py"
    file.write_text("print('hello')\nstate.write_text('a.txt', 'x\\n')\nstate.files().paths\n")
    done = bailiwick("-p", place, "code", file)
    assert (done.returncode, done.stdout) == (0, 'hello\n[\n  "a.txt"\n]\n'), done.stderr
    assert done.stderr.startswith("changed 1 path: bailiwick undo ")
    undone = bailiwick("-p", place, "undo", done.stderr.split()[-1])
    assert undone.returncode == 0
    assert bailiwick("-p", place, "ls").stdout == ""


@pytest.mark.spec("CODE-1")
@pytest.mark.parametrize(
    ("source", "arguments", "code", "says"),
    [
        ("1/0", (), 1, "ZeroDivisionError"),
        ("while True: pass", ("--timeout", "1"), 124, "longer than 1 s"),
        ("state.exists('a'); state.exists('a')", ("--calls-max", "1"), 1, "as many calls"),
        ("1", ("--timeout", "100000"), 125, "parse_error"),
    ],
)
def test_how_it_can_end(place, source, arguments, code, says):
    done = typed(place, source, *arguments)
    assert done.returncode == code, done.stderr
    assert says in done.stderr


@pytest.mark.spec("CODE-1")
def test_a_file_that_is_not_there_is_refused(place):
    done = bailiwick("-p", place, "code", "no/such/file.py")
    assert done.returncode == 125
    assert "cannot be read" in done.stderr


@pytest.mark.spec("CODE-1")
def test_json_tells_all_of_it(place):
    done = typed(place, "print('x'); state.write_text('a', 'y'); [1]", "--json", "--transactional")
    told = json.loads(done.stdout)
    assert (told["ok"], told["value"], told["output"], told["error"]) == (True, [1], "x\n", None)
    assert told["changes"] == [{"kind": "created", "path": "a", "origin": None}]
    assert told["calls"] == [{"verb": "write_text", "path": "a", "errorKind": None}]
    told = json.loads(typed(place, "state.read_text('nope')", "--json").stdout)
    assert (told["ok"], told["error"]["kind"]) == (False, "path_not_found")
    assert told["error"]["traceback"].startswith("Traceback")


@pytest.mark.spec("CODE-2")
def test_what_it_prints_does_not_repaint_a_terminal(place, tmp_path):
    file = tmp_path / "source.py"
    file.write_text("print('\\x1b[31mred\\x1b]0;title\\x07'); raise KeyError('\\x1b[2J')")
    with Terminal("-p", place, "code", file, cwd=tmp_path) as terminal:
        assert terminal.ended() == 1
        shown = terminal.shown
    assert b"\\x1b[31mred\\x1b]0;title\\x07" in shown
    assert b"\x1b[31mred" not in shown
    assert b"\x1b[2J" not in shown
