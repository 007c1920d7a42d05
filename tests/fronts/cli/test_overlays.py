"""`bailiwick -p overlay:./project`, as it is typed."""

import json

import pytest

from bailiwick.sandboxes.bubblewrap import Bubblewrap
from tests.fronts.cli.command import bailiwick

pytestmark = pytest.mark.spec("OVER-1")


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    place = tmp_path / "project"
    place.mkdir()
    (place / "a.txt").write_text("one\ntwo\nthree\n")
    return place


def test_it_is_changed_shown_joined_and_applied(project):
    over = f"overlay:{project}"
    assert bailiwick("-p", over, "write", "a.txt", given="ONE\ntwo\nthree\n").returncode == 0
    assert bailiwick("-p", over, "write", "b.txt", given="new\n").returncode == 0
    assert bailiwick("-p", over, "ls").stdout.split() == ["a.txt", "b.txt"]
    assert bailiwick("-p", project, "ls").stdout.split() == ["a.txt"]
    listed = json.loads(bailiwick("-p", project, "work", "list", "--json").stdout)
    (work,) = listed["work"]
    assert work["command"] == ["overlay:"]
    (project / "a.txt").write_text("one\ntwo\nTHREE\n")
    shown = bailiwick("-p", over, "work", "show", work["id"]).stdout
    assert "created b.txt" in shown
    assert "conflict a.txt" in shown
    refused = bailiwick("-p", project, "work", "apply", work["id"])
    assert refused.returncode == 1
    assert (project / "a.txt").read_text() == "one\ntwo\nTHREE\n"
    done = bailiwick("-p", project, "work", "apply", work["id"], "--merge")
    assert done.returncode == 0, done.stderr
    assert (project / "a.txt").read_text() == "ONE\ntwo\nTHREE\n"
    assert (project / "b.txt").read_text() == "new\n"
    assert json.loads(bailiwick("-p", project, "work", "list", "--json").stdout)["work"] == []


def test_hunks_are_those_of_the_difference_that_was_shown(project):
    over, lines = f"overlay:{project}", [f"{number}\n" for number in range(30)]
    (project / "a.txt").write_text("".join(lines))
    lines[20] = "seen\n"
    assert bailiwick("-p", over, "write", "a.txt", given="".join(lines)).returncode == 0
    (work,) = json.loads(bailiwick("-p", project, "work", "list", "--json").stdout)["work"]
    shown = bailiwick("-p", project, "work", "diff", work["id"])
    assert "+seen" in shown.stdout
    seen = shown.stderr.split("--seen ")[1].strip()
    assert f"--seen {seen}\n" in bailiwick("-p", project, "work", "show", work["id"]).stderr
    some = ("-p", project, "work", "apply", work["id"], "a.txt", "--hunks", "1")
    refused = bailiwick(*some)
    assert (refused.returncode, "--seen" in refused.stderr) == (2, True)
    unseen = ["unseen\n", *lines[1:]]
    assert bailiwick("-p", over, "write", "a.txt", given="".join(unseen)).returncode == 0
    refused = bailiwick(*some, "--seen", seen)
    assert refused.returncode == 1
    assert "not what was looked at" in refused.stderr
    assert "seen" not in (project / "a.txt").read_text()
    told = bailiwick("-p", project, "work", "diff", work["id"], "--json").stdout
    done = bailiwick(*some, "--seen", json.loads(told)["version"])
    assert done.returncode == 0, done.stderr
    assert (project / "a.txt").read_text().startswith("unseen\n1\n")


@pytest.mark.spec("OVER-1")
def test_what_is_no_text_keeps_no_difference_from_being_shown(project):
    over = f"overlay:{project}"
    assert bailiwick("-p", over, "write", "a.txt", given="ONE\ntwo\nthree\n").returncode == 0
    assert bailiwick("-p", over, "write", "b b", given="\0\1").returncode == 0
    (work,) = json.loads(bailiwick("-p", project, "work", "list", "--json").stdout)["work"]
    shown = bailiwick("-p", project, "work", "diff", work["id"])
    assert (shown.returncode, "--seen" in shown.stderr) == (0, True), shown.stderr
    assert "+ONE\n" in shown.stdout
    assert "b b is not shown: the file is binary\n" in shown.stdout
    told = json.loads(bailiwick("-p", project, "work", "diff", work["id"], "--json").stdout)
    assert told["differences"]["b b"]["errorKind"] == "binary_file"
    assert told["differences"]["a.txt"]["added"] == 1
    assert bailiwick("-p", project, "work", "diff", work["id"], "nowhere").returncode == 1


@pytest.mark.spec("EXEC-3")
def test_a_program_is_run_in_it(project):
    for lack in Bubblewrap().missing():
        if lack.fatal:
            pytest.skip(f"{lack.what}: {lack.remedy}")
    over = f"overlay:{project}"
    assert bailiwick("-p", over, "write", "b.txt", given="new\n").returncode == 0
    done = bailiwick("-p", over, "exec", "--", "sh", "-c", "cat b.txt; sed -i s/two/TWO/ a.txt")
    assert (done.returncode, done.stdout) == (0, "new\n"), done.stderr
    assert (project / "a.txt").read_text() == "one\ntwo\nthree\n"
    kept = bailiwick("-p", over, "exec", "--publish", "manual", "--", "touch", "c.txt")
    assert kept.returncode == 0, kept.stderr
    listed = json.loads(bailiwick("-p", over, "work", "list", "--json").stdout)["work"]
    assert {tuple(each["command"]) for each in listed} == {("touch", "c.txt"), ("overlay:",)}
    (left,) = [each["id"] for each in listed if each["command"][0] == "touch"]
    assert bailiwick("-p", over, "work", "apply", left).returncode == 0
    assert bailiwick("-p", over, "ls").stdout.split() == ["a.txt", "b.txt", "c.txt"]
    (work,) = json.loads(bailiwick("-p", project, "work", "list", "--json").stdout)["work"]
    assert bailiwick("-p", project, "work", "apply", work["id"]).returncode == 0
    assert (project / "a.txt").read_text() == "one\nTWO\nthree\n"
    assert sorted(each.name for each in project.iterdir()) == ["a.txt", "b.txt", "c.txt"]


@pytest.mark.parametrize("over", ["directory", "volume"])
def test_what_an_agent_did_over_mcp_is_applied_by_the_person(project, tmp_path, over):
    place = project
    if over == "volume":
        place = f"sqlite:{tmp_path}/agent.db"
        assert bailiwick("volume", "create", place).returncode == 0
    said = [
        {"id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"}}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {
            "name": "write_file", "arguments": {"path": "b.txt", "content": "new\n"}}},
    ]  # fmt: skip
    lines = "".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in said)
    assert '"created"' in bailiwick("mcp", f"overlay:{place}", given=lines).stdout
    assert "b.txt" not in bailiwick("-p", place, "ls").stdout
    (work,) = json.loads(bailiwick("-p", place, "work", "list", "--json").stdout)["work"]
    assert bailiwick("-p", place, "work", "apply", work["id"]).returncode == 0
    assert bailiwick("-p", place, "cat", "b.txt").stdout == "new\n"


def test_it_lies_over_a_volume(tmp_path, project):
    volume = f"sqlite:{tmp_path}/agent.db"
    missing = bailiwick("-p", f"overlay:{volume}", "ls")
    assert missing.returncode != 0
    assert "overlay" not in missing.stderr
    assert bailiwick("volume", "create", volume).returncode == 0
    assert bailiwick("-p", volume, "write", "a.txt", given="one\ntwo\nthree\n").returncode == 0
    over = f"overlay:{volume}"
    assert bailiwick("-p", over, "write", "a.txt", given="ONE\ntwo\nthree\n").returncode == 0
    (work,) = json.loads(bailiwick("-p", volume, "work", "list", "--json").stdout)["work"]
    assert bailiwick("-p", volume, "write", "a.txt", given="one\ntwo\nTHREE\n").returncode == 0
    assert bailiwick("-p", volume, "work", "apply", work["id"]).returncode == 1
    assert bailiwick("-p", volume, "work", "apply", work["id"], "--merge").returncode == 0
    assert bailiwick("-p", volume, "cat", "a.txt").stdout == "ONE\ntwo\nTHREE\n"
    refused = bailiwick("-p", "overlay:memory:", "ls")
    assert "gone when the command ends" in refused.stderr
