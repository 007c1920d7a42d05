"""`bailiwick review`, in a directory that an agent has worked in."""

import asyncio
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios

import pytest

import bailiwick
from bailiwick.build.served import named_places, open_served, state_for
from bailiwick.fronts.cli import main
from bailiwick.fronts.cli.commands.review import _Seat
from bailiwick.operations import FILE_ACCESS
from bailiwick.reviews import QueueShelf
from bailiwick.scope.working_copies import WorkVerbs
from tests.fronts.cli.governed import place
from tests.fronts.cli.test_runs import said, worked_in
from tests.scope.test_runs import rooted

__all__ = ["place", "worked_in"]


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
    with pytest.raises(SystemExit):
        main(["review", "--accept", second, "--note", "for nobody"])


@pytest.mark.spec("REVIEW-4", "CLI-2")
def test_all_that_was_given_is_said_and_what_came_of_it_is_told(worked_in, capsys):
    first, second = hunks(said(capsys, "review")[1])
    with pytest.raises(SystemExit) as wrong:
        main(["review", "--accept", first, "--reject", second, first])
    assert (wrong.value.code, said(capsys, "review")[1]["left"]) == (2, 2)
    assert main(["review", "--accept", second, "--reject", first, "ffffffffffff"]) == 1
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        "accepted: 1 hunk", "taken back: a.txt", "nothing is left to review",
    ]  # fmt: skip
    assert "'ffffffffffff'" in shown.err
    assert (worked_in / "a.txt").read_text() == "1\n2\n3\n"


@pytest.mark.spec("REVIEW-4", "CLI-2")
@pytest.mark.parametrize("wide", ["run", "file", "prefix"])
@pytest.mark.parametrize("swap", [False, True])
def test_a_hunk_of_what_is_said_otherwise_is_refused_before_anything_is_done(
    worked_in, capsys, wide, swap
):
    first, second = hunks(said(capsys, "review")[1])
    run = said(capsys, "runs")[1]["runs"][0]["id"]
    wider = {"run": run, "file": f"{run[:8]}:a.txt", "prefix": first[:8]}[wide]
    one, other = (first, wider) if swap else (wider, first)
    assert main(["review", "--accept", one, second, "--reject", other]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"parse_error: '{one}' is accepted and '{other}' rejected")
    assert hunks(said(capsys, "review")[1]) == [first, second]
    assert said(capsys, "review", "--reject", first)[1]["left"] == 1  # what is left of the larger
    assert said(capsys, "review", "--accept", run)[1]["accepted"] == [second]
    assert (worked_in / "a.txt").read_text() == "1\n2\n3\n"


@pytest.mark.spec("REVIEW-4")
def test_an_option_that_is_given_twice_counts_twice(worked_in, capsys):
    first, second = hunks(said(capsys, "review")[1])
    code, done = said(capsys, "review", "--accept", first, "--accept", second)
    assert (code, done["accepted"], done["left"]) == (0, [first, second], 0)


@pytest.mark.spec("REVIEW-4", "CLI-2")
def test_where_there_is_more_than_was_looked_at_it_says_so(worked_in, capsys, monkeypatch):
    catch_up = QueueShelf.catch_up

    async def cut(self, *given):
        ends = await catch_up(self, *given)
        self.is_cut = True
        return ends

    monkeypatch.setattr(QueueShelf, "catch_up", cut)
    assert main(["review"]) == 3
    assert "2 left of what was looked at: there is more\n" in capsys.readouterr().out
    code, told = said(capsys, "review", "--accept", *hunks(said(capsys, "review")[1]))
    assert (code, told["left"], told["truncated"]) == (3, 0, True)
    assert main(["review"]) == 3
    assert capsys.readouterr().out == (
        "nothing is left to review of what was looked at: there is more\n"
    )


@pytest.mark.spec("REVIEW-4")
def test_a_root_without_history_keeps_no_other_from_being_reviewed(place):
    config = "".join(
        f'[[root]]\nid = "{id}"\nkind = "workspace"\npath = "./{path}"\ntrusted = true\n{more}'
        for id, path, more in (
            ("plain", "foreign", ""), ("kept", "project", 'history = "on"\n'),
        )
    )  # fmt: skip
    (place.directory / "bailiwick.toml").write_text(config)

    async def work():
        async with place.authority() as authority:
            for root in ("workspace:plain", "workspace:kept"):
                agent = await authority.request_root(
                    bailiwick.User("local"), root, FILE_ACCESS, "to pass on"
                )
                agent = await agent.delegate(bailiwick.AgentRun("mcp", "one"))
                await agent.write_text("a.txt", "a\n")

    asyncio.run(work())
    looked = place("review", "--json")
    assert (looked.returncode, "workspace:plain keeps no history" in looked.stderr) == (3, True)
    (file,) = json.loads(looked.stdout)["files"]
    done = place("review", "--accept", file["hunks"][0]["id"], "--json")
    assert (done.returncode, json.loads(done.stdout)["left"]) == (0, 0)
    assert place.refused("review", "--root", "plain") == "unsupported"
    assert 'history = "on"' in place("review", "--root", "plain").stderr


@pytest.mark.spec("REVIEW-4")
def test_two_letters_are_no_key(worked_in, capsys):
    code, shown = at_terminal(b"ns\nq\n", columns=80)
    assert (code, shown.count("(1/2)")) == (3, 2)
    assert said(capsys, "review")[1]["left"] == 2


def interrupt_until_heard(child, terminal):
    """A key is waited for only after it was said: an interrupt between the two is not heard before
    the next one."""
    child.send_signal(signal.SIGINT)
    while not select.select([terminal], [], [], 2)[0]:
        child.send_signal(signal.SIGINT)


def at_terminal(typed, *arguments, columns=40, interrupt_at=None):
    """What it says at a terminal of so many columns, and its exit status; somebody interrupts it
    where it says something."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm"}
    environment.pop("COLUMNS", None)
    child = subprocess.Popen(
        [sys.executable, "-m", "bailiwick", *(arguments or ("review",))],
        stdin=theirs, stdout=theirs, stderr=theirs, env=environment,
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, typed)
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
            if interrupt_at is not None and interrupt_at in shown:
                interrupt_at = None
                interrupt_until_heard(child, ours)
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


@pytest.mark.spec("REVIEW-4")
def test_an_empty_note_rejects_nothing_and_is_asked_for_again(worked_in):
    before = (worked_in / "a.txt").read_text()
    code, shown = at_terminal(b"e\n  \nq\n", columns=80)
    assert (code, shown.count("(1/2)")) == (3, 2)
    assert "an empty note is none: n rejects without one" in shown
    assert "taken back" not in shown
    assert (worked_in / "a.txt").read_text() == before


@pytest.mark.spec("REVIEW-4")
def test_in_the_end_it_says_of_each_path_once_what_came_of_it(worked_in):
    lines = [f"{number}\n" for number in range(1, 30)]

    async def work():
        places = named_places([str(worked_in)])
        async with open_served(places, None, state_for(places), history="on") as authority:
            person = await authority.request_root(
                bailiwick.User("local"), next(iter(places)), FILE_ACCESS, "to pass on", front="mcp"
            )
            await person.write_text("a.txt", "".join(lines))
            lines[3], lines[14], lines[25] = "four\n", "fifteen\n", "last\n"
            agent = await person.delegate(bailiwick.AgentRun("mcp", "two"))
            await agent.write_text("a.txt", "".join(lines))

    asyncio.run(work())
    code, shown = at_terminal(b"n\nn\ny\ny\n", columns=80)
    ends = shown.replace("\r", "").rpartition("? ")[2].splitlines()
    assert (code, ends) == (0, [
        "accepted: a.txt", "accepted: b.txt", "taken back: a.txt", "nothing is left to review",
    ])  # fmt: skip


@pytest.mark.spec("REVIEW-4")
def test_an_interrupt_ends_it_and_nothing_of_what_was_said_is_done(worked_in, capsys):
    before = (worked_in / "a.txt").read_text()
    code, shown = at_terminal(b"n\n", interrupt_at=b"(2/2)")
    assert (code, "nothing of it was done" in shown) == (130, True)
    assert (worked_in / "a.txt").read_text() == before
    assert said(capsys, "review")[1]["left"] == 2


@pytest.fixture
def forked(tmp_path, monkeypatch, capsys):
    """A volume with a fork that has changed two places of one file and made another."""
    lines = "".join(f"{number}\n" for number in range(1, 10))
    place = f"sqlite:{tmp_path}/agent.db"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    async def work():
        async with bailiwick.open(place) as fs:
            await fs.write_text("a", lines)
            fork = await fs.fork("attempt")
            await fork.write_text("a", lines.replace("2\n", "two\n").replace("8\n", "eight\n"))
            await fork.write_text("b", "b\n")
            await fork.aclose()

    asyncio.run(work())
    return place, lines


def in_place(capsys, place, *arguments):
    code = main(["-p", place, *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.spec("REVIEW-2", "REVIEW-4")
def test_a_fork_is_reviewed_by_its_name(forked, capsys):
    place, lines = forked
    code, told = in_place(capsys, place, "review", "attempt")
    assert (code, told["left"], [file["path"] for file in told["files"]]) == (3, 3, ["a", "b"])
    two, eight, new = hunks(told)
    seen = f"{two}@{told['files'][0]['version']}"
    code, done = in_place(
        capsys, place, "review", "fork:attempt", "--accept", seen, "--reject", new
    )
    assert (code, done["accepted"], done["applied"]) == (3, [two], ["a"])
    assert (done["rejected"], done["left"]) == ([new], 1)
    assert main(["-p", place, "cat", "a"]) == 0
    assert capsys.readouterr().out == lines.replace("2\n", "two\n")
    code, done = in_place(capsys, place, "review", "attempt", "--accept", "attempt")
    assert (code, done["accepted"], done["left"]) == (0, [eight], 0)
    assert in_place(capsys, place, "review", "attempt")[0] == 0
    assert main(["-p", place, "review", "other"]) == 1


@pytest.mark.spec("REVIEW-2", "REVIEW-4")
def test_what_a_program_left_is_reviewed_by_the_id_of_its_working_copy(worked_in, capsys):
    code = main(["exec", "--publish", "manual", "--", "sh", "-c", "echo mine > c.txt; rm b.txt"])
    capsys.readouterr()
    if code:
        pytest.skip("no sandbox here: apt install bubblewrap")
    assert main(["work", "list", "--json"]) == 0
    (work,) = json.loads(capsys.readouterr().out)["work"]
    main(["runs"])
    assert f"not applied yet: bailiwick review {work['id']}" in capsys.readouterr().err
    code, told = said(capsys, "review")
    apart = [file for file in told["files"] if file.get("work") == work["id"]]
    assert (code, [file["path"] for file in apart]) == (3, ["b.txt", "c.txt"])
    code, told = said(capsys, "review", work["id"])
    assert [(file["path"], file["kind"]) for file in told["files"]] == [
        ("b.txt", "deleted"), ("c.txt", "created"),
    ]  # fmt: skip
    gone, _ = hunks(told)
    code, done = said(capsys, "review", work["id"], "--reject", gone)
    assert (code, done["left"]) == (3, 1)
    code, done = said(capsys, "review", work["id"], "--accept", work["id"])
    assert (code, done["applied"]) == (0, ["c.txt"])
    assert (worked_in / "c.txt").read_text() == "mine\n"
    assert (worked_in / "b.txt").exists()
    main(["runs"])
    assert "not applied" not in capsys.readouterr().err


@pytest.mark.spec("REVIEW-2", "REVIEW-4")
def test_what_is_not_applied_yet_is_spoken_of_without_naming_it(worked_in, capsys):
    for script in ("echo one > one", "echo two > two"):
        if main(["exec", "--publish", "manual", "--", "sh", "-c", script]):
            pytest.skip("no sandbox here: apt install bubblewrap")
    capsys.readouterr()
    _, told = said(capsys, "review")
    one, two = (file for file in told["files"] if "work" in file)
    assert {one["path"], two["path"]} == {"one", "two"}
    code, done = said(capsys, "review", "--accept", one["hunks"][0]["id"], "--reject", two["work"])
    assert (code, done["applied"], done["rejected"]) == (
        3, [one["path"]], [two["hunks"][0]["id"]],
    )  # fmt: skip
    assert (worked_in / one["path"]).exists()
    assert not (worked_in / two["path"]).exists()
    assert main(["work", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["work"] == []


@pytest.mark.spec("REVIEW-4")
@pytest.mark.parametrize("columns", [40, 60])
def test_on_a_narrow_terminal_no_line_is_wider_and_words_that_differ_are_set_off(
    forked, capsys, columns
):
    place, _ = forked
    long = "the quick brown fox jumps over the lazy dog and runs away from all the others there"

    async def work():
        async with bailiwick.open(place) as fs:
            await fs.write_text("long", f"{long}\n")
            fork = await fs.fork("words")
            await fork.write_text("long", f"{long.replace('brown', 'red')} 漢字\n")
            await fork.aclose()

    asyncio.run(work())
    code, shown = at_terminal(b"?\nq\n", "-p", place, "review", "words", columns=columns)
    assert code == 3
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    for each in plain.replace("\r", "").split("\n"):
        assert sum(2 if character in "漢字" else 1 for character in each) <= columns, each
    assert "\x1b[7;31mbrown\x1b[0m" in shown
    assert "\x1b[7;32mred\x1b[0m" in shown
    assert "".join(each[1:] for each in plain.replace("\r", "").split("\n")).count("quick") == 2


@pytest.mark.spec("REVIEW-2", "REVIEW-4")
def test_at_a_terminal_pieces_of_a_fork_are_merged_or_given_up(forked, capsys):
    place, lines = forked
    code, shown = at_terminal(b"y\ne\nkeep the digit\ny\n", "-p", place, "review", "attempt")
    assert (code, "nothing is left" in shown, "applied: a" in shown) == (0, True, True)
    assert main(["-p", place, "cat", "a"]) == 0
    assert capsys.readouterr().out == lines.replace("2\n", "two\n")
    assert main(["-p", place, "cat", "b"]) == 0


@pytest.mark.spec("REVIEW-4")
def test_a_working_copy_in_use_is_passed_over_unless_it_is_named(worked_in, capsys, monkeypatch):
    if main(["exec", "--publish", "manual", "--", "sh", "-c", "echo one > one"]):
        pytest.skip("no sandbox here: apt install bubblewrap")
    capsys.readouterr()
    main(["work", "list", "--json"])
    (work,) = json.loads(capsys.readouterr().out)["work"]

    async def in_use(scope, id):
        raise bailiwick.Busy("a command is run in it")

    monkeypatch.setattr(WorkVerbs, "open_work", in_use)
    main(["review"])
    assert f"somebody works in {work['id']}" in capsys.readouterr().err
    assert main(["review", work["id"]]) == 1
    assert "busy" in capsys.readouterr().err


@pytest.mark.spec("REVIEW-6")
async def test_a_long_queue_is_asked_for_in_few_pages(tmp_path, monkeypatch):
    """For each page all of it is looked at."""
    async with rooted(tmp_path, "volume") as (person, agent):
        one = await agent("one")
        async with one.transaction() as inside:
            for number in range(250):
                await inside.write_text(f"{number}", "x\n")
        asked, queue = [], type(person.review).queue

        async def counted(self, **given):
            asked.append(given)
            return await queue(self, **given)

        monkeypatch.setattr(type(person.review), "queue", counted)
        files, is_cut = await _Seat(person).files()
        assert (len(files), is_cut) == (250, False)
        assert len(asked) == 1
