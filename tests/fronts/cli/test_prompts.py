"""Asking at a terminal: a real one, made of a pseudo-terminal."""

import asyncio
import os
import pty
import subprocess
import sys
import termios

import pytest

from bailiwick.approvals import Approval, Preview, Question
from bailiwick.fronts.cli.prompts import _Terminal, diff_lines, question_lines
from bailiwick.grant import AgentRun
from tests.laws.repository import ROOT


def approval(**more):
    given = {
        "subject": AgentRun("c1", "r7"), "root": "workspace:demo", "operation": "write",
        "verb": "write_text", "access": ("write",), "paths": ("migrations/1.sql",),
        "paths_total": 1, "paths_sha256": "0" * 64, "destination": None,
        "prompt": "migrations are reviewed", "sources": ("rule-1",), "default": "deny",
        "reason": "apply model edit", "grant_id": "g", "request_id": "q", "front": "cli",
        "preview": Preview(),
    }  # fmt: skip
    question = Question(**given | more)
    return Approval(id="a1", question=question, state="pending", asked_ns=0, expires_ns=1)


class Screen:
    """A pseudo-terminal with a person in front of it."""

    def __init__(self):
        self.person, self.program = pty.openpty()
        self.shown = ""
        self.asker = _Terminal(self.program, self._show)
        self.prompts = 0
        self._prompted = asyncio.Event()

    def _show(self, text):
        self.shown += text
        if text.endswith("? "):
            self.prompts += 1
            self._prompted.set()

    async def prompted(self):
        await self._prompted.wait()
        self._prompted.clear()

    def type(self, text):
        os.write(self.person, text.encode())

    def close(self):
        os.close(self.person)
        os.close(self.program)


@pytest.fixture
def screen():
    made = Screen()
    yield made
    made.close()


async def answered(screen, *typed):
    asking = asyncio.create_task(screen.asker.ask(approval()))
    for text in typed:
        await screen.prompted()
        screen.type(text)
    return await asyncio.wait_for(asking, 120)


@pytest.mark.spec("ASK-1")
@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("o\n", "once"), ("once\n", "once"), ("g\n", "grant"), ("a\n", "always"), ("A\n", "always"),
        ("n\n", "no"), ("no\n", "no"), ("v\n", "never"), ("\x04", None),
    ],
)  # fmt: skip
async def test_a_letter_is_an_answer(screen, typed, answer):
    assert await answered(screen, typed) == answer


@pytest.mark.spec("ASK-1")
async def test_anything_else_asks_again(screen):
    assert await answered(screen, "\n", "yes\n", "\xff\n", "o o\n", "n\n") == "no"
    assert screen.prompts == 5


@pytest.mark.spec("ASK-1")
async def test_what_was_typed_before_does_not_count(screen):
    """A letter that was on its way to something else must not wave a change through."""
    screen.type("a\n")
    screen.type("o\n")
    assert await answered(screen, "n\n") == "no"


@pytest.mark.spec("ASK-1")
async def test_a_question_answered_elsewhere_is_withdrawn(screen):
    asking = asyncio.create_task(screen.asker.ask(approval()))
    await screen.prompted()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert "answered elsewhere" in screen.shown
    assert await answered(screen, "o\n") == "once"  # the terminal is free again


@pytest.mark.spec("ASK-1")
async def test_two_questions_are_put_one_after_the_other(screen):
    first = asyncio.create_task(screen.asker.ask(approval()))
    second = asyncio.create_task(screen.asker.ask(approval(operation="delete")))
    await screen.prompted()
    assert "delete" not in screen.shown
    screen.type("o\n")
    assert await first == "once"
    await screen.prompted()
    assert "delete" in screen.shown
    screen.type("n\n")
    assert await second == "no"


@pytest.mark.spec("ASK-1")
def test_the_question_shows_who_what_where_why_and_the_diff():
    preview = Preview(diff="--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n", diff_truncated=True)
    paths = tuple(f"p{number}" for number in range(30))
    text = "\n".join(
        question_lines(approval(preview=preview, paths=paths, paths_total=500, destination="d/e"))
    )
    for part in (
        "agent_run:c1/r7 asks to write in workspace:demo", "p19", "… and 480 more", "to d/e",
        "apply model edit", "rule-1", "migrations are reviewed", "-x", "+y", "longer than",
    ):  # fmt: skip
        assert part in text
    assert "p20\n" not in text


@pytest.mark.spec("ASK-1")
def test_nothing_in_a_question_can_repaint_the_screen():
    evil = "\x1b[2J\x1b[Happroved\r\u202e"
    text = "\n".join(
        question_lines(
            approval(
                paths=(evil,), reason=evil, prompt=evil, sources=(evil,), destination=evil,
                preview=Preview(diff=f"+{evil}\n"), subject=AgentRun(evil, evil), root=evil,
            )
        )
    )  # fmt: skip
    assert not any(character in text for character in "\x1b\r\u202e")


def test_a_long_diff_is_cut():
    preview = Preview(diff="".join(f"+{number}\n" for number in range(1000)))
    lines = list(question_lines(approval(preview=preview)))
    assert lines[-1] == "… 800 more lines"


def test_without_a_terminal_there_is_nobody_to_ask():
    code = "from bailiwick.fronts.cli.prompts import terminal_asker; print(terminal_asker())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "None\n"


def at_a_terminal(code, *answers, cwd=None):
    """Run a program with a terminal for stdin and stderr, and a person who types at each prompt."""
    person, program = pty.openpty()
    assert termios.tcgetattr(program)[3] & termios.ICANON
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=program, stderr=program, stdout=subprocess.PIPE,
        cwd=cwd, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    os.close(program)
    shown = b""
    try:
        for answer in answers:
            seen = len(shown)
            while not shown[seen:].endswith(b"? "):
                shown += os.read(person, 4096)
            os.write(person, answer.encode())
        out, _ = child.communicate(timeout=120)
    finally:
        child.kill()
        child.wait()
        os.close(person)
    return out.decode(), shown.decode()


@pytest.mark.spec("ASK-1")
def test_a_program_at_a_terminal_can_ask():
    code = (
        "import asyncio; from bailiwick.fronts.cli.prompts import terminal_asker\n"
        "from tests.fronts.cli.test_prompts import approval\n"
        "async def main(): print(await terminal_asker()(approval()))\n"
        "asyncio.run(main())"
    )
    out, shown = at_a_terminal(code, "g\n")
    assert out == "grant\n"
    assert "migrations/1.sql" in shown


WRITING = """
import asyncio
from bailiwick.build.governed import Authority
from bailiwick.errors import ApprovalDenied
from bailiwick.fronts.cli.prompts import terminal_asker

async def main():
    async with Authority.from_config("bailiwick.toml", state_dir="state") as authority:
        fs = await authority.request_root(
            "agent_run:c/r", "workspace:demo", {"read", "write"}, "a new table",
            front="cli", asker=terminal_asker())
        for name in "ab":
            try:
                await fs.write_text(name, name + "\\n")
            except ApprovalDenied:
                print("refused", name)

asyncio.run(main())
"""


@pytest.mark.spec("ASK-1", "ASK-2")
def test_an_agents_write_is_put_to_the_person_at_the_terminal(tmp_path):
    """The whole of it: a rule, the question with its diff, the answer, the write."""
    (tmp_path / "project").mkdir()
    (tmp_path / "bailiwick.toml").write_text(
        '[[root]]\nid = "demo"\nkind = "workspace"\npath = "project"\ntrusted = true\n'
        '[[grant]]\nsubject = "agent_run:*"\nroot = "workspace:demo"\n'
        'access = ["read", "write"]\n'
        '[[rule]]\noperation = "write"\neffect = "ask"\nreason = "look first"\n'
    )
    out, shown = at_a_terminal(WRITING, "o\n", "n\n", cwd=tmp_path)
    assert out == "refused b\n"
    assert (tmp_path / "project" / "a").read_text() == "a\n"
    assert not (tmp_path / "project" / "b").exists()
    assert "agent_run:c/r asks to write in workspace:demo" in shown
    assert "look first" in shown
    assert "+a" in shown


@pytest.mark.spec("ASK-1", "CLI-2")
def test_no_mark_in_a_line_makes_it_look_like_two():
    """Readers that end a line at U+2028, a form feed or U+0085 would show the rest as unchanged."""
    diff = "@@ -1 +1,2 @@\n context\n+harmless\u2028 as before\n+other\x0c-gone\x85@@ -9 +9 @@\n"
    lines = list(diff_lines(diff, False))
    assert len(lines) == 4
    assert not any(line.startswith((" as before", "-gone", "@@ -9")) for line in lines)
