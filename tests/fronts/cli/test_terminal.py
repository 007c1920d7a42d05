"""What a person sees at a terminal: nothing that a file says controls it, long output is paged,
long work shows its progress, and Ctrl-C is a clean end."""

import fcntl
import json
import os
import signal
import stat
import subprocess
import termios

import pytest

from bailiwick.fronts.cli import pager as pager_module
from bailiwick.fronts.cli.progress import bar_text
from tests.fronts.cli.command import COMMAND, bailiwick, environment, within
from tests.fronts.cli.terminal import SECONDS_MAX, Terminal, shown_by

HOSTILE = b"\x1b]0;title\x07\x1b[2J\x9b31mred\rover\x08\nta\tb \xe2\x80\xaeflip\n\xff\xfe"


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.mark.spec("CLI-2")
def test_a_file_does_not_control_the_terminal(project):
    (project / "evil").write_bytes(HOSTILE)
    (project / "cut").write_bytes("ä".encode() * 200_000)
    shown, code = shown_by("cat", "evil", "--no-pager", cwd=project, env={"NO_COLOR": "1"})
    assert code == 0
    lines = [
        rb"\x1b]0;title\x07\x1b[2J\x9b31mred\x0dover\x08",
        b"ta\tb " + rb"\u202eflip",
        rb"\xff\xfe",
    ]
    assert shown == b"\n".join(lines)
    piped = within("-p", project, "cat", "evil").stdout
    assert piped.encode("utf-8", "surrogateescape") == HOSTILE
    (project / "dos").write_bytes(b"x" * (256 * 1024 - 1) + b"\r\nb\r\n")
    assert b"0d" not in shown_by("cat", "dos", "--no-pager", cwd=project)[0]
    whole, _ = shown_by("cat", "cut", "--no-pager", cwd=project)
    assert whole.decode() == "ä" * 200_000, "a character cut by a chunk's end is shown whole"


@pytest.mark.spec("CLI-2")
@pytest.mark.parametrize(
    "command", [("diff", "a", "evil"), ("cat", "evil", "--line", "1"), ("grep", "flip")]
)
def test_nor_does_any_other_verb_let_it(project, command):
    (project / "evil").write_bytes(HOSTILE.removesuffix(b"\xff\xfe").replace(b"\x9b", b""))
    (project / "a").write_bytes(b"a\n")
    shown, _ = shown_by(*command, "--no-pager", cwd=project, env={"NO_COLOR": "1"})
    assert b"flip" in shown
    assert b"\x1b" not in shown
    assert b"\x07" not in shown
    assert "\u202e".encode() not in shown


@pytest.mark.spec("CLI-2")
def test_colours_on_a_terminal_unless_refused(project):
    (project / "directory").mkdir()
    assert shown_by("ls", cwd=project)[0] == b"\x1b[34mdirectory/\x1b[0m\n"
    assert shown_by("ls", cwd=project, env={"NO_COLOR": "1"})[0] == b"directory/\n"
    assert bailiwick("ls", cwd=project).stdout == "directory/\n"


# --- the pager ---------------------------------------------------------------------------------


def make_pager(tmp_path):
    """A pager that keeps what it is given and says that it was there."""
    pager = tmp_path / "pager"
    pager.write_text(f"#!/bin/sh\ncat > {tmp_path}/paged\necho PAGED\n")
    pager.chmod(pager.stat().st_mode | stat.S_IXUSR)
    return pager


@pytest.mark.spec("CLI-2")
def test_long_output_goes_through_a_pager_and_short_output_does_not(project, tmp_path):
    for number in range(30):
        (project / f"{number:02}").touch()
    env = {"BAILIWICK_PAGER": str(make_pager(tmp_path)), "NO_COLOR": "1"}
    shown, code = shown_by("ls", cwd=project, env=env)
    assert (shown, code) == (b"PAGED\n", 0)
    assert (tmp_path / "paged").read_text() == "".join(f"{n:02}\n" for n in range(30))
    for arguments in (["ls", "--no-pager"], ["find", "--limit", "5"], ["ls", "--json"]):
        assert b"PAGED" not in shown_by(*arguments, cwd=project, env=env)[0]
    assert "PAGED" not in bailiwick("ls", cwd=project, env=env).stdout


@pytest.mark.spec("CLI-2")
def test_leaving_the_pager_early_is_no_failure(project, tmp_path):
    (project / "long").write_text("line\n" * 500_000)
    shown, code = shown_by("cat", "long", cwd=project, env={"PAGER": "head -n 3"})
    assert (shown, code) == (b"line\n" * 3, 0)


@pytest.mark.spec("CLI-2")
def test_a_pager_that_is_not_there_is_done_without(project):
    (project / "long").write_text("line\n" * 50)
    shown, code = shown_by("cat", "long", cwd=project, env={"PAGER": "/no/such/pager"})
    assert (shown, code) == (b"line\n" * 50, 0)


@pytest.mark.parametrize(
    ("variables", "command"),
    [
        ({"PAGER": "more -s"}, ["more", "-s"]), ({"PAGER": ""}, []), ({"PAGER": "cat"}, []),
        ({"PAGER": "more", "BAILIWICK_PAGER": "cat"}, []),
    ],
)  # fmt: skip
def test_which_pager(monkeypatch, variables, command):
    for name in ("PAGER", "BAILIWICK_PAGER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert pager_module.pager_command() == command


# --- progress ----------------------------------------------------------------------------------


@pytest.mark.spec("CLI-2")
def test_long_work_shows_its_progress_on_a_terminal_and_nothing_in_a_pipe(project, tmp_path):
    for number in range(50):
        (project / f"{number:02}").write_bytes(b"x" * 1000)
    place = f"sqlite:{tmp_path}/v.db"
    shown, code = shown_by("import", project, place, cwd=tmp_path)
    assert code == 0
    assert b"importing " in shown
    assert "░".encode() in shown
    assert shown.rstrip().endswith(b"50 files (48.8 KiB), 0 directories, 0 links;"
                                   b" 0 unchanged, 0 left out")  # fmt: skip
    for action in ("check", "gc"):
        shown, code = shown_by("volume", action, place, cwd=tmp_path)
        assert code == 0
        assert b"\x1b[K" in shown
    for arguments in (["import", project, place], ["volume", "check", place]):
        assert bailiwick(*arguments, cwd=tmp_path).stderr == ""
        quiet, _ = shown_by(*arguments, "--json", cwd=tmp_path)
        json.loads(quiet)


@pytest.mark.spec("CLI-2")
@pytest.mark.parametrize(
    ("done", "total", "shows"), [(0, 10, "0%"), (5, 10, "50%"), (20, 10, "100%"), (0, 0, "100%")]
)
def test_a_bar_never_shows_more_than_all(done, total, shows):
    text = bar_text("importing", done, total, 1.0, "a\nb")
    assert f" {shows}" in text
    assert text.count("█") + text.count("░") == 24
    assert r"a\x0ab" in text
    assert "7 steps, 3 s" in bar_text("collecting", 7, None, 3.2, "")


# --- Ctrl-C, and being asked -------------------------------------------------------------------


@pytest.mark.spec("LIFE-1", "CLI-2")
def test_ctrl_c_ends_a_watch_cleanly(project):
    with Terminal("watch", cwd=project) as terminal:
        for number in range(1_000):  # what is written before it watches goes unseen
            (project / f"seen{number}").touch()
            terminal.poll(0.05)
            if b"seen" in terminal.shown:
                break
        os.kill(terminal.child.pid, signal.SIGINT)
        assert terminal.ended() == 130
        assert b"Traceback" not in terminal.shown


@pytest.mark.spec("LIFE-1", "CLI-2")
@pytest.mark.parametrize("arguments", [["write", "a"], ["write", "a", "--append"]])
def test_ctrl_c_ends_a_write_that_waits_for_its_input_and_nothing_is_written(project, arguments):
    with subprocess.Popen(
        [COMMAND, *arguments], stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=project,
        env=environment(),
    ) as child:  # fmt: skip
        child.stdin.write(b"half of it")
        child.stdin.flush()
        while int.from_bytes(fcntl.ioctl(child.stdin, termios.FIONREAD, b"\0" * 4), "little"):
            assert child.poll() is None
        child.send_signal(signal.SIGINT)
        assert child.wait(SECONDS_MAX) == 130
        assert child.stderr.read() == b""
    assert list(project.iterdir()) == []


@pytest.mark.spec("CLI-1")
def test_what_is_typed_is_written(project):
    with Terminal("write", "a", cwd=project, stdin_too=True) as terminal:
        terminal.wait_for(b"Ctrl-D ends it")
        terminal.type(b"typed\n\x04")
        assert terminal.ended() == 0
    assert (project / "a").read_text() == "typed\n"


@pytest.mark.spec("ASK-1", "CLI-1")
@pytest.mark.parametrize(("answer", "code"), [(b"o\n", 0), (b"n\n", 1)])
def test_whoever_acts_as_an_agent_is_asked_at_the_terminal(project, answer, code):
    (project / ".env").write_text("s3cret\n")
    with Terminal(
        "--as", "agent_run:demo/1", "cat", ".env", cwd=project, stdin_too=True
    ) as terminal:
        terminal.wait_for(b"[n]o, ne[v]er under this grant? ")
        terminal.type(answer)
        assert terminal.ended() == code
        assert (b"s3cret" in terminal.shown) is (code == 0)
