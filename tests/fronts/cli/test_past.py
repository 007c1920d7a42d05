"""The verbs about versions, as they are typed: history, restore, undo, snapshots, forks, merge."""

import json
import subprocess

import pytest

from tests.fronts.cli.command import COMMAND, environment, within
from tests.fronts.cli.places import Typed


@pytest.fixture
def volume(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("BAILIWICK_PLACE", raising=False)
    typed = Typed(f"sqlite:{tmp_path}/agent.db")
    within("volume", "create", typed.place)
    return typed


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "project").mkdir()
    return Typed(tmp_path / "project")


@pytest.fixture(params=["volume", "directory"])
def place(request):
    return request.getfixturevalue(request.param)


def versions(place, path):
    return place.json("history", path)["versions"]


@pytest.mark.spec("CLI-1", "VOL-5", "DISK-8")
def test_history(place):
    made = [place.json("write", "a", "--text", text) for text in ("one", "two")]
    told = place.json("history", "a")
    assert (told["kind"], told["path"], told["nextCursor"]) == ("history", "a", None)
    newest, oldest = told["versions"]
    assert (newest["kind"], oldest["kind"]) == ("updated", "created")
    assert newest["requestId"] == made[1]["requestId"]
    assert newest["subject"] == "user:local"
    assert newest["sizeBytes"] == 3
    text = place.ok("history", "a")
    assert text.splitlines()[0].split() == [
        "VERSION", "WHEN", "WHAT", "PATH", "SIZE", "WHO", "REQUEST",
    ]  # fmt: skip
    assert made[0]["requestId"] in text
    page = place("history", "a", "--limit", "1")
    cursor = page.stderr.rpartition("--cursor ")[2].strip()
    assert made[0]["requestId"] in place.ok("history", "a", "--cursor", cursor)
    assert place.refused("history", "nothing") == "path_not_found"


@pytest.mark.spec("CLI-1", "VOL-5")
def test_what_was_is_seen_in_every_verb_that_looks(place):
    place.ok("write", "d/a", "--text", "one\n", "--parents")
    then = versions(place, "d/a")[0]["version"]
    place.ok("write", "d/a", "--text", "two\n")
    place.ok("write", "d/b", "--text", "new\n")
    assert place.ok("cat", "d/a", "--as-of", then) == "one\n"
    assert place.ok("ls", "d", "--as-of", then) == "a\n"
    assert "b" not in place.ok("tree", "--as-of", then)
    assert place.ok("find", "--type", "file", "--as-of", then) == "d/a\n"
    assert place.json("stat", "d/a", "--as-of", then)["sizeBytes"] == 4
    assert "-one\n+two\n" in place.ok("diff", "d/a", "--as-of", then)
    now = versions(place, "d/a")[0]["version"]
    assert "-two\n+one\n" in place.ok("diff", "d/a", "--as-of", now, "--other-as-of", then)
    assert place.refused("cat", "d/a", "--as-of", "999999") == "path_not_found"


@pytest.mark.spec("CLI-1", "VOL-5", "DISK-8")
def test_restore(place):
    place.ok("write", "a", "--text", "one")
    then = versions(place, "a")[0]["version"]
    place.ok("write", "a", "--text", "two")
    assert place.ok("restore", "a", then) == "restored a (changed: 1)\n"
    assert place.ok("cat", "a") == "one"
    assert "nothing to do" in place.ok("restore", "a", then)
    assert place.json("restore", "a", then)["kind"] == "restore"


@pytest.mark.spec("CLI-1", "VOL-5", "DISK-8")
def test_undo(place):
    place.ok("write", "a", "--text", "one")
    change = place.json("write", "a", "--text", "two")["requestId"]
    assert place.ok("undo", change, "--preview") == "would be put back: a\n"
    assert place.ok("cat", "a") == "two"
    assert place.ok("undo", change) == "put back: a\n"
    assert place.ok("cat", "a") == "one"
    removed = place.ok("rm", "a").rpartition("request ")[2].strip()
    told = place.json("undo", removed)
    assert (told["kind"], told["undone"], told["conflicts"]) == ("undo", ["a"], [])
    assert place.ok("cat", "a") == "one"
    assert place.refused("undo", "no-such-request") == "path_not_found"


@pytest.mark.spec("CLI-1", "AUDIT-5")
def test_one_command_is_one_request(place):
    place.fill({"a": b"1", "b": b"2"})
    removed = {each["requestId"] for each in place.json("rm", "a", "b")}
    place.ok("undo", *removed)
    assert place.ok("cat", "a", "b") == "12"


@pytest.mark.spec("CLI-1", "VOL-5")
def test_an_undo_that_meets_a_later_change_leaves_it_and_says_so(volume):
    volume.ok("write", "a", "--text", "one")
    change = volume.json("write", "a", "--text", "two")["requestId"]
    volume.ok("write", "a", "--text", "three")
    done = volume("undo", change)
    assert done.returncode == 1
    assert done.stderr.startswith("left as it is: a: ")
    assert volume.ok("cat", "a") == "three"


@pytest.mark.spec("CLI-1", "VOL-5")
def test_undo_of_versions(volume):
    volume.ok("write", "a", "--text", "one")
    for text in ("two", "three"):
        volume.ok("write", "a", "--text", text)
    third, second, _ = (each["version"] for each in versions(volume, "a"))
    volume.ok("undo", "--version", second, "--through", third)
    assert volume.ok("cat", "a") == "one"


@pytest.mark.spec("CLI-1", "VOL-6")
def test_snapshots(volume):
    volume.ok("write", "a", "--text", "one")
    assert volume.ok("snapshot", "create", "before").startswith("snapshot before is version ")
    volume.ok("write", "a", "--text", "two")
    assert volume.ok("cat", "a", "--as-of", "before") == "one"
    assert [each["name"] for each in volume.json("snapshot", "list")["snapshots"]] == ["before"]
    assert "before" in volume.ok("snapshot", "list")
    assert volume.refused("snapshot", "create", "before") == "file_already_exists"
    assert volume.ok("snapshot", "delete", "before") == "snapshot before is deleted\n"
    assert volume.json("snapshot", "list")["snapshots"] == []


@pytest.mark.spec("CLI-1", "VOL-6", "VOL-13")
def test_forks_and_merges(volume, tmp_path):
    volume.ok("write", "a", "--text", "one")
    assert "&branch=attempt" in volume.ok("fork", "create", "attempt")
    assert volume.json("fork", "create", "other")["kind"] == "fork"
    fork = Typed(f"sqlite:{tmp_path}/agent.db?branch=attempt")
    fork.ok("write", "b", "--text", "new")
    fork.ok("write", "a", "--text", "changed")
    assert volume.ok("ls") == "a\n"
    assert volume.ok("fork", "diff", "attempt").splitlines() == ["updated   a", "created   b"]
    names = [each["name"] for each in volume.json("fork", "list")["forks"]]
    assert {"attempt", "other"} <= set(names)
    assert volume.ok("merge", "attempt", "--preview").splitlines() == [
        "would be changed: a", "would be changed: b",
    ]  # fmt: skip
    assert volume.ok("ls") == "a\n"
    assert volume.json("merge", "attempt")["changed"] == ["a", "b"]
    assert volume.ok("cat", "a", "b") == "changednew"
    assert volume.ok("fork", "delete", "other") == "fork other is deleted\n"


@pytest.mark.spec("CLI-1", "VOL-6")
def test_a_merge_with_conflicts_takes_over_nothing(volume, tmp_path):
    volume.ok("write", "a", "--text", "one")
    volume.ok("fork", "create", "attempt")
    fork = Typed(f"sqlite:{tmp_path}/agent.db?branch=attempt")
    fork.ok("write", "a", "--text", "theirs")
    fork.ok("write", "b", "--text", "new")
    volume.ok("write", "a", "--text", "ours")
    done = volume("merge", "attempt")
    assert (done.returncode, done.stdout) == (1, "")
    assert "conflict: a: " in done.stderr
    assert volume.ok("ls") == "a\n"


@pytest.mark.spec("CLI-1", "CLI-2")
@pytest.mark.parametrize(
    "command", [("snapshot", "create", "s"), ("fork", "create", "f"), ("merge", "f")]
)
def test_a_directory_has_a_past_and_no_branches(directory, command):
    directory.ok("write", "a", "--text", "1")
    assert directory.refused(*command) == "unsupported"


@pytest.mark.spec("CLI-2")
@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("undo",), "name a REQUEST"), (("undo", "x", "--version", "3"), "name a REQUEST"),
        (("undo", "x", "--through", "3"), "--through needs"), (("diff", "a"), "--as-of"),
        (("restore", "a"), "VERSION"), (("fork", "make"), "invalid choice"),
    ],
)  # fmt: skip
def test_what_is_missing_is_wrong_usage(volume, command, says):
    done = volume(*command)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert "hint: " in done.stderr


@pytest.mark.spec("CLI-1", "EVENT-1")
def test_watch_tells_what_others_change_and_goes_on_from_a_cursor(volume):
    with subprocess.Popen(
        [COMMAND, "-p", volume.place, "watch", "--json", "--count", "1"], stdout=subprocess.PIPE,
        env=environment(), text=True,
    ) as watching:  # fmt: skip
        for number in range(200):  # what is written before it watches goes unseen
            volume.ok("write", f"a{number}", "--text", "1")
            if watching.poll() is not None:
                break
        first = json.loads(watching.stdout.readline())
    assert (first["kind"], first["subject"]) == ("created", "user:local")
    assert first["requestId"]
    volume.ok("mv", first["path"], "b")
    shown = volume.ok("watch", "b", "--since", first["cursor"], "--count", "1")
    assert "created  b  by user:local" in shown, "what comes from elsewhere is new at this place"


@pytest.mark.spec("CLI-1", "VOL-5", "DISK-8")
def test_what_somebody_did_is_undone_by_time(place):
    place.ok("write", "mine", "--text", "person")
    place.ok("write", "theirs", "--text", "agent", "--as", "agent_run:a/b")
    preview = place.json("undo", "--by", "agent_run:a/b", "--since", "1h", "--preview")
    assert (preview["undone"], preview["preview"]) == (["theirs"], True)
    assert place.json("undo", "--by", "agent_run:a/b", "--since", "1h")["undone"] == ["theirs"]
    assert place.ok("cat", "mine") == "person"
    assert place.refused("cat", "theirs") == "path_not_found"
    by = ("--by", "agent_run:a/b")
    for wrong in (by, ("--since", "1h"), ("x", *by, "--since", "1h")):
        assert place("undo", *wrong).returncode == 2
