"""`bailiwick exec` and `bailiwick work`, as they are typed."""

import base64
import json
import os
import signal
import socket
import subprocess

import pytest

from tests.fronts.cli.command import COMMAND, bailiwick, environment

pytestmark = pytest.mark.usefixtures("needs_bubblewrap")


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    place = tmp_path / "project"
    place.mkdir()
    (place / "a.txt").write_text("one\n")
    return place


def typed(project, *arguments, **more):
    return bailiwick("-p", project, *arguments, **more)


@pytest.mark.spec("EXEC-3")
def test_output_goes_through_and_the_exit_code_is_the_programs(project):
    done = typed(
        project, "exec", "--", "sh", "-c", "cat; echo two > a.txt; echo err >&2; exit 7",
        given="typed\n",
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (7, "typed\n", "err\n")
    assert (project / "a.txt").read_text() == "two\n"


@pytest.mark.spec("EXEC-4")
@pytest.mark.parametrize(("network", "code"), [("none", 1), ("loopback", 1), ("host", 0)])
def test_whoever_types_it_lets_the_network_through(project, network, code):
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}"
        done = typed(project, "exec", "--network", network, "--", "bash", "-c", connect)
    assert done.returncode == code, done.stderr


@pytest.mark.spec("EXEC-3")
@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--timeout", "1", "--", "sleep", "60"), 124, "note: its time was up"),
        (("--", "no-such-program"), 127, "not found"),
        (("--", "sh", "-c", "kill -9 $$"), 137, ""),
        (("--cwd", "../elsewhere", "--", "true"), 125, "path_outside_workspace: "),
        (("--cwd", "a.txt", "--", "true"), 125, "not_a_directory: "),
        (("--publish", "never", "--", "true"), 2, "invalid choice"),
        ((), 2, "CMD"),
    ],
)
def test_how_it_can_end(project, arguments, code, says):
    done = typed(project, "exec", *arguments)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.spec("EXEC-3")
def test_json_is_a_line_a_piece_and_the_result_last(project):
    done = typed(project, "exec", "--json", "--", "sh", "-c", "printf 'h\\303\\251'; rm a.txt")
    *pieces, last = map(json.loads, done.stdout.splitlines())
    assert pieces == [{"seq": 0, "stream": "stdout", "data": "hé"}]
    result = last["result"]
    assert result["changes"][0]["path"] == "a.txt"
    assert result["changes"][0]["kind"] == "deleted"
    assert {name: result[name] for name in ("exitCode", "signal", "sandbox", "truncated")} == {
        "exitCode": 0, "signal": None, "sandbox": "bubblewrap", "truncated": False,
    }  # fmt: skip
    assert (result["withheld"], result["conflicts"]) == ([], [])
    undone = typed(project, "undo", result["requestId"])
    assert undone.returncode == 0, undone.stderr
    assert (project / "a.txt").read_text() == "one\n"


@pytest.mark.spec("EXEC-3", "EXEC-6")
def test_json_tells_bytes_that_are_no_text_so_that_they_survive(project):
    done = typed(project, "exec", "--json", "--", "printf", "\\377\\\\xff")
    (piece, _) = map(json.loads, done.stdout.splitlines())
    said = base64.b64decode(piece.pop("data"))
    assert piece == {"seq": 0, "stream": "stdout", "encoding": "base64"}
    assert said == b"\xff\\xff"


@pytest.mark.spec("EXEC-3")
def test_variables_are_passed_by_name_only(project):
    done = typed(
        project, "exec", "--env", "GIVEN", "--env", "SET=two", "--env", "UNSET", "--", "env",
        env={"GIVEN": "one", "HIDDEN": "three"},
    )  # fmt: skip
    assert {"GIVEN=one", "SET=two"} <= set(done.stdout.splitlines())
    assert "HIDDEN" not in done.stdout
    assert "UNSET" not in done.stdout


@pytest.mark.spec("EXEC-8")
def test_who_is_told_of_a_conflict_is_told_how_both_come_together(project):
    words = [COMMAND, "-p", str(project), "exec", "--", "sh", "-c"]
    with subprocess.Popen(
        [*words, "echo two > a.txt; echo ready; cat"], env=environment(),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip
        assert running.stdout.readline() == "ready\n"
        (project / "a.txt").write_text("person\n")
        _, said = running.communicate(timeout=60)
    assert "conflict a.txt" in said
    (told,) = [each for each in said.splitlines() if each.startswith("note: not brought back")]
    assert "--partial --merge, or discard" in told
    assert (project / "a.txt").read_text() == "person\n"


@pytest.mark.spec("EXEC-3", "EXEC-8")
def test_what_was_kept_apart_is_looked_at_and_brought_back(project):
    done = typed(
        project, "exec", "--publish", "manual", "--", "sh", "-c", "echo two > a.txt; echo n > n"
    )
    assert "bailiwick work show" in done.stderr
    (work,) = json.loads(typed(project, "work", "list", "--json").stdout)["work"]
    assert work["id"] in typed(project, "work", "list").stdout
    shown = typed(project, "work", "show", work["id"]).stdout
    assert shown.splitlines() == ["updated a.txt", "created n"]
    assert "-one\n+two\n" in typed(project, "work", "diff", work["id"], "a.txt").stdout
    assert typed(project, "work", "apply", work["id"], "n").stdout == "created n\n"
    assert (project / "n").read_text() == "n\n"
    assert (project / "a.txt").read_text() == "one\n"
    (project / "a.txt").write_text("person\n")
    refused = typed(project, "work", "apply", work["id"])
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "conflict a.txt" in refused.stderr
    assert "--partial" in refused.stderr
    assert "--merge" in refused.stderr
    for wrong in ("x", "0", "1,", ""):
        done = typed(project, "work", "apply", work["id"], "a.txt", "--hunks", wrong, "--seen", "v")
        assert done.returncode == 2
        assert "is no whole number above zero" in done.stderr
    missing = typed(project, "work", "diff", work["id"], "n.txt")
    assert "hint: `changes` and `bailiwick work show` tell what was changed" in missing.stderr
    assert typed(project, "work", "discard", work["id"]).stdout == "gave up 1 change\n"
    assert (project / "a.txt").read_text() == "person\n"
    gone = typed(project, "work", "show", work["id"], "--json")
    assert gone.returncode == 1
    assert json.loads(gone.stderr)["errorKind"] == "path_not_found"


@pytest.mark.spec("EXEC-8")
def test_of_what_gets_another_mode_the_difference_says_which(project):
    (project / "a.txt").chmod(0o644)
    (project / "d").mkdir(mode=0o755, exist_ok=True)
    (project / "d").chmod(0o755)
    script = "chmod 755 a.txt; chmod 750 d; echo n > n"
    typed(project, "exec", "--publish", "manual", "--", "sh", "-c", script)
    (work,) = json.loads(typed(project, "work", "list", "--json").stdout)["work"]
    shown = typed(project, "work", "diff", work["id"]).stdout
    assert shown.startswith("a.txt: mode 644 to 755\nd: mode 755 to 750\n--- a/n\n")
    assert typed(project, "work", "diff", work["id"], "./d").stdout == "./d: mode 755 to 750\n"
    told = json.loads(typed(project, "work", "diff", work["id"], "--json").stdout)["differences"]
    assert {path: each["header"] for path, each in told.items()} == {
        "a.txt": "mode 644 to 755", "d": "mode 755 to 750", "n": None,
    }  # fmt: skip
    changes = json.loads(typed(project, "work", "show", work["id"], "--json").stdout)["changes"]
    assert {each["path"]: (each["modeBefore"], each["mode"]) for each in changes} == {
        "a.txt": (0o644, 0o755), "d": (0o755, 0o750), "n": (None, None),
    }  # fmt: skip


@pytest.mark.spec("EXEC-8", "CLI-2")
def test_where_nothing_waits_a_list_says_so(project):
    shown = typed(project, "work", "list").stdout
    assert shown == "nothing waits here to be brought back or given up\n"
    assert json.loads(typed(project, "work", "list", "--json").stdout)["work"] == []


@pytest.mark.spec("EXEC-1")
def test_an_agent_is_refused_where_nobody_can_be_asked(project):
    done = typed(project, "exec", "--as", "agent_run:c/1", "--", "true")
    assert done.returncode == 125
    assert "policy_denied" in done.stderr or "approval" in done.stderr


@pytest.mark.spec("EXEC-10", "CLI-2")
@pytest.mark.parametrize("words", ["exec -- echo x", "run -- echo x", "code ../print.py"])
def test_an_output_that_takes_no_more_is_no_exit_of_the_program(project, words):
    (project.parent / "print.py").write_text("print(1)\n")
    program = [COMMAND, *words.split()]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            program, cwd=project, stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE,
            text=True, env=environment(), check=False,
        )  # fmt: skip
    assert (done.returncode, "cannot be written" in done.stderr) == (125, True)


@pytest.mark.spec("EXEC-8")
def test_what_ends_before_the_program_does_loses_nothing_and_says_where_it_is(project):
    """A full disk takes no output, a reader goes away, somebody presses Ctrl-C."""
    program = ["-p", str(project), "exec", "--", "sh", "-c"]
    slow = "echo kept > {}; while :; do echo begun; sleep 0.1; done"
    with open("/dev/full", "w") as full:
        done = _begun(*program, slow.format("a"), stdout=full)
        said = done.communicate(timeout=60)[1]
    assert done.returncode == 125
    assert said.splitlines()[-1] == "bailiwick: the output cannot be written: " + os.strerror(28)
    gone = _begun(*program, slow.format("b"), stdout=subprocess.PIPE)
    assert gone.stdout.readline() == "begun\n"
    gone.stdout.close()
    unread = gone.stderr.read()
    gone.stderr.close()
    assert gone.wait(60) == 141
    stopped = _begun(*program, slow.format("c"), stdout=subprocess.PIPE)
    assert stopped.stdout.readline() == "begun\n"
    stopped.send_signal(signal.SIGINT)
    interrupted = stopped.communicate(timeout=60)[1]
    assert stopped.returncode == 130
    for each in (said, interrupted):
        assert each.count("is kept: bailiwick work list\n") == 1
        assert "Traceback" not in each
    kept = json.loads(typed(project, "work", "list", "--json").stdout)["work"]
    assert unread == f"note: what it changed is kept: bailiwick work show {kept[1]['id']}\n"
    found = [typed(project, "work", "show", each["id"]).stdout for each in kept]
    assert sorted(found) == ["created a\n", "created b\n", "created c\n"]


def _begun(*arguments, stdout):
    return subprocess.Popen(
        [COMMAND, *arguments], stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
        text=True, env=environment(),
    )  # fmt: skip


@pytest.mark.spec("CLI-2", "EXEC-8")
@pytest.mark.parametrize("words", [["yes"], ["cat", "a.txt"]])
def test_whoever_has_read_enough_ends_it_without_a_word(project, words):
    (project / "a.txt").write_text("line\n" * 200_000)
    gone = _begun("-p", str(project), "exec", "--", *words, stdout=subprocess.PIPE)
    assert gone.stdout.readline() in ("y\n", "line\n")
    gone.stdout.close()
    assert (gone.stderr.read(), gone.wait(60)) == ("", 141)
    gone.stderr.close()


@pytest.mark.spec("EXEC-10")
def test_work_says_what_is_missing_and_that_there_is_nothing_to_bring_back(project):
    typed(project, "exec", "--publish", "manual", "--", "sh", "-c", "echo two > b.txt")
    (kept,) = json.loads(typed(project, "work", "list", "--json").stdout)["work"]
    for verb in ("apply", "discard"):
        for paths in (["elsewhere"], ["b.txt", "elsewhere"], ["b.txt/below"]):
            done = typed(project, "work", verb, kept["id"], *paths)
            assert (done.returncode, done.stdout) == (1, "")
            named = f"path_not_found: {paths[-1]}: nothing was changed there"
            assert done.stderr.startswith(named)
    assert not (project / "b.txt").exists()
    (project / "b.txt").write_text("two\n")
    done = typed(project, "work", "apply", kept["id"], "b.txt")
    assert (done.returncode, done.stderr) == (0, "note: there was nothing to bring back\n")
    asked = typed(project, "work", "apply")
    assert "the following arguments are required: ID\n" in asked.stderr
