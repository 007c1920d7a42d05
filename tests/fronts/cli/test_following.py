"""`bailiwick approvals --follow`: told in one process what another asks; and what was answered for
longer, seen and taken back."""

import asyncio
import json
import os
import signal
import subprocess

import pytest

from bailiwick.errors import ApprovalTimeout
from bailiwick.grant import AgentRun
from tests.fronts.cli import governed
from tests.fronts.cli.command import COMMAND, environment
from tests.fronts.cli.terminal import SECONDS_MAX, Terminal

place = governed.place

HOSTILE = "migrations/\x1b[2J\x07evil.sql"


async def ask(authority, path):
    """A question of an agent that nobody waits for any more."""
    scope = await authority.request_root(
        AgentRun("c1", "r1"), "workspace:demo", ["write"], "to see", front="test", wait_s=0.01
    )
    with pytest.raises(ApprovalTimeout) as waited:
        await scope.write_text(path, "new")
    return waited.value.details["approval_id"]


async def asked(place, *paths):
    async with place.authority() as authority:
        return [await ask(authority, path) for path in paths]


@pytest.mark.spec("NOTE-1")
def test_a_question_of_another_process_is_told_with_a_bell_and_ctrl_c_ends_it(place):
    (first,) = asyncio.run(asked(place, "migrations/0.sql"))
    with Terminal("approvals", "--follow", "--state", "state", cwd=place.directory) as terminal:
        terminal.wait_for(first.encode())  # what waits already
        (place.directory / "project" / HOSTILE).write_text("old")
        (second,) = asyncio.run(asked(place, HOSTILE))
        terminal.wait_for(second.encode())
        assert terminal.shown.count(b"\a") == 2
        # What an agent named does not reach the terminal as it is.
        assert b"\x1b[2J" not in terminal.shown
        assert place("approvals", "answer", second, "no").returncode == 0
        terminal.wait_for(b"no by user:local")
        assert terminal.shown.count(b"\a") == 2
        os.kill(terminal.child.pid, signal.SIGINT)
        assert terminal.ended() == 130
        assert b"Traceback" not in terminal.shown


@pytest.mark.spec("NOTE-1", "CLI-2")
def test_programs_follow_by_the_line_and_hear_no_bell(place):
    following = subprocess.Popen(
        [COMMAND, "approvals", "list", "--follow", "--json", "--state", "state"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=place.directory, env=environment(),
    )  # fmt: skip
    with following:
        try:
            (first,) = asyncio.run(asked(place, "migrations/0.sql"))
            told = following.stdout.readline()
            assert b"\a" not in told
            told = json.loads(told)
            assert (told["kind"], told["id"], told["state"]) == ("asked", first, "pending")
            assert told["question"]["preview"]["diff"] is None
        finally:
            following.send_signal(signal.SIGINT)
            assert following.wait(SECONDS_MAX) == 130


@pytest.mark.spec("NOTE-2")
def test_an_answer_for_longer_is_listed_and_taken_back(place):
    (asked_id,) = asyncio.run(asked(place, "migrations/0.sql"))
    assert place("approvals", "rules").stdout == "nothing was answered for longer than once\n"
    place("approvals", "answer", asked_id, "always")
    (rule,) = place.json("approvals", "rules")
    assert (rule["approval_id"], rule["by"], rule["grant_id"]) == (asked_id, "user:local", None)
    assert "migrations/0.sql" in place("approvals", "rules").stdout
    assert place("approvals", "forget", rule["id"]).returncode == 0
    assert place.json("approvals", "rules") == []
    assert place.refused("approvals", "forget", rule["id"]) == "path_not_found"
    # So it is asked again.
    (again,) = asyncio.run(asked(place, "migrations/0.sql"))
    assert again != asked_id
