"""`bailiwick review`, in a directory that an agent has worked in."""

import os
import pty
import subprocess
import sys

import pytest

from bailiwick.fronts.cli import main
from tests.fronts.cli.test_runs import said, worked_in

__all__ = ["worked_in"]


def hunks(told):
    return [hunk["id"] for file in told["files"] for hunk in file["hunks"]]


@pytest.mark.spec("REVIEW-4")
def test_verdicts_by_ids_and_what_is_left(worked_in, capsys):
    code, told = said(capsys, "review")
    assert (code, told["kind"], told["left"]) == (3, "review", 2)
    first, second = hunks(told)
    code, done = said(capsys, "review", "--reject", first, "--note", "keep the digit")
    assert (code, done["rejected"], done["undone"], done["left"]) == (3, [first], ["a.txt"], 1)
    assert (worked_in / "a.txt").read_text() == "1\n2\n3\n"
    run = said(capsys, "runs")[1]["runs"][0]
    assert run["reviewed"] == 1
    assert said(capsys, "review", run["id"][:6])[1]["left"] == 1
    assert main(["review"]) == 3
    assert "b.txt" in capsys.readouterr().out
    code, done = said(capsys, "review", "--accept", second)
    assert (code, done["accepted"], done["left"]) == (0, [second], 0)
    assert main(["review"]) == 0
    assert "nothing is left" in capsys.readouterr().out
    assert main(["review", "ffffffffffff"]) == 1
    assert main(["review", "--accept", "ffffffffffff"]) == 1


def at_terminal(typed):
    """What it says at a terminal of 40 columns, and its exit status."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "40", "TERM": "xterm"}
    child = subprocess.Popen(
        [sys.executable, "-m", "bailiwick", "review"],
        stdin=theirs, stdout=theirs, stderr=theirs, env=environment,
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, typed)
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:
        pass  # the other side is closed
    finally:
        os.close(ours)
    return child.wait(), shown.decode()


@pytest.mark.spec("REVIEW-4")
def test_at_a_terminal_it_goes_from_hunk_to_hunk(worked_in, capsys):
    code, shown = at_terminal(b"?\ny\nu\ne\nkeep the digit\ns\n")
    assert code == 3
    assert "(1/2)" in shown
    assert "1 left" in shown
    assert "\x1b[" in shown
    assert (worked_in / "a.txt").read_text() == "1\n2\n3\n"
    code, shown = at_terminal(b"q\n")
    assert (code, "1 left" in shown) == (3, True)
    code, shown = at_terminal(b"a\n")
    assert (code, "nothing is left" in shown) == (0, True)
    assert said(capsys, "review")[0] == 0
