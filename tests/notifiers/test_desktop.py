"""A notification of the desktop. The program here is a stand-in, a script that writes down what it
was given: no desktop is asked."""

import os
import stat
import time

import pytest

from bailiwick.approvals import Approval
from bailiwick.build.governed import Authority
from bailiwick.errors import ApprovalTimeout
from bailiwick.grant import AgentRun
from bailiwick.notifiers.desktop import Desktop, find_program
from tests.state.rooms import question
from tests.waiting import give_a_chance, until

STAND_IN = """#!/bin/sh
{
  for each in "$@"; do printf '%s\\0' "$each"; done
  env | grep -c BAILIWICK_TOKEN
} > "$0.told.part"
mv "$0.told.part" "$0.told"
"""


def stand_in(directory):
    directory.mkdir(exist_ok=True)
    program = directory / "notify-send"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    return program


def told(program):
    """What it was given, and whether it could see a token."""
    *arguments, tokens = program.with_name("notify-send.told").read_text().split("\0")
    return arguments, int(tokens)


@pytest.fixture
def program(tmp_path, monkeypatch):
    found = stand_in(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{found.parent}:/usr/bin:/bin")
    monkeypatch.setenv("BAILIWICK_TOKEN", "bwk_secret")
    return found


def approval(**fields):
    now = time.time_ns()
    return Approval(
        id="q1", question=question(**fields), state="pending", asked_ns=now,
        expires_ns=now + 300 * 10**9,
    )  # fmt: skip


@pytest.mark.spec("NOTE-1")
async def test_the_desktop_is_told_who_asks_for_what(program):
    await Desktop([])(approval())
    arguments, tokens = told(program)
    assert arguments == [
        "--app-name=Bailiwick", "--", "agent_run:c1/r1 asks you",
        "write .git/config in workspace:demo",
    ]  # fmt: skip
    assert tokens == 0


HOSTILE = [
    "--hint=int:transient:1", "-u", "<b>fat</b> & <a href='x'>here</a>", "$(touch owned)",
    "`touch owned`", "; touch owned", "a\nb", "a\0b", "\x1b]0;title\x07", "\udcff", "x" * 10_000,
    "\u202eevil",
]  # fmt: skip


@pytest.mark.spec("NOTE-1")
@pytest.mark.parametrize("name", HOSTILE)
async def test_what_an_agent_names_is_shown_and_not_obeyed(program, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    await Desktop([])(approval(paths=(name,), target=name, operation=name, root=name))
    arguments, _ = told(program)
    assert arguments[:2] == ["--app-name=Bailiwick", "--"]
    assert len(arguments) == 4
    for text in arguments[2:]:
        assert "<" not in text
        assert ">" not in text
        assert text.isprintable()
        assert len(text) < 500
    assert not (tmp_path / "owned").exists()


@pytest.mark.spec("NOTE-1")
def test_a_program_that_agents_could_have_put_there_is_not_run(tmp_path, monkeypatch):
    inside, outside = stand_in(tmp_path / "tree"), stand_in(tmp_path / "bin")
    tree = str(tmp_path / "tree")
    monkeypatch.setenv("PATH", tree)
    assert find_program([]) == str(inside)  # the control
    assert find_program([tree]) is None
    (tmp_path / "way").symlink_to(tree)
    monkeypatch.setenv("PATH", str(tmp_path / "way"))
    assert find_program([tree]) is None
    # What stands in the directory that happens to be the current one.
    monkeypatch.chdir(tree)
    for entry in (".", "", "../tree"):
        monkeypatch.setenv("PATH", f"{entry}:{outside.parent}")
        assert find_program([]) == str(outside)
    for mode in (0o775, 0o757, 0o644):
        outside.chmod(mode)
        assert find_program([]) is None
    assert stat.S_IMODE(os.stat(inside).st_mode) == 0o755


CONFIG = """
{notify}
[[root]]
id = "demo"
kind = "workspace"
path = "tree"
trusted = true

[[grant]]
subject = "agent_run:*"
root = "workspace:demo"
access = ["read", "list", "metadata", "write"]

[[rule]]
subject = "agent_run:*"
operation = ["write"]
path = ["**"]
effect = "ask"
"""


@pytest.mark.spec("NOTE-1")
@pytest.mark.parametrize(
    ("notify", "surface", "is_told"),
    [("", "console", True), ("[notify]\ndesktop = false", "console", False),
     ("[notify]\ndesktop = true", "none", True), ("", "none", False)],
)  # fmt: skip
async def test_it_is_told_where_questions_wait_elsewhere_unless_the_configuration_says_otherwise(
    tmp_path, program, notify, surface, is_told
):
    (tmp_path / "tree").mkdir()
    (tmp_path / "bailiwick.toml").write_text(CONFIG.format(notify=notify))
    opening = Authority.from_config(
        tmp_path / "bailiwick.toml", str(tmp_path / "state"), surface=surface
    )

    async def later(approval):
        return None

    async with opening as authority:
        scope = await authority.request_root(
            AgentRun("c1", "r1"), "workspace:demo", ["write"], "to see", wait_s=0.01, asker=later
        )
        with pytest.raises(ApprovalTimeout):
            await scope.write_text("a.txt", "the content")
        shown = program.with_name("notify-send.told")
        if is_told:
            await until(shown.exists)
            assert "the content" not in shown.read_text()
        else:
            await give_a_chance()
            assert not shown.exists()
