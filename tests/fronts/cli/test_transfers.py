"""`bailiwick import` and `export`, as they are typed and as they are killed."""

import json
import os
import signal
import subprocess

import pytest

from tests.fronts.cli.command import COMMAND, environment, within
from tests.test_transfer import plant, seen
from tests.waiting import let_pass_blocking, until_blocking


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def told(*arguments):
    done = within(*arguments, "--json")
    return done.returncode, json.loads(done.stdout or done.stderr)


@pytest.mark.spec("CLI-1", "CLI-2")
def test_in_and_out_again(tmp_path):
    plant({"a": b"1", "d": {"b": b"22", "l": ("link", "b")}}, tmp_path / "source")
    code, there = told("import", "source", "sqlite:v.db")
    assert code == 0
    assert there == {
        "kind": "import", "files": 2, "directories": 1, "links": 1, "bytes": 3, "unchanged": 0,
        "leftOut": [],
    }  # fmt: skip
    versions = told("volume", "info", "sqlite:v.db")[1]["versions"]
    code, again = told("import", "source", "sqlite:v.db")
    assert (again["files"], again["unchanged"]) == (0, 3)
    assert told("volume", "info", "sqlite:v.db")[1]["versions"] == versions, "nothing was touched"
    done = within("export", "sqlite:v.db", "deep/target")
    assert done.stdout == "2 files (3 B), 1 directories, 1 links; 0 unchanged, 0 left out\n"
    assert seen(tmp_path / "deep/target") == seen(tmp_path / "source")


@pytest.mark.spec("CLI-1")
def test_a_part_and_an_ignore_file(tmp_path):
    plant({".gitignore": b"*.o\n", "x.o": b"1", "src": {"a": b"2"}}, tmp_path / "source")
    assert told("import", "source", "sqlite:v.db", "--to", "project", "--ignore")[0] == 0
    assert within("-p", "sqlite:v.db", "find").stdout.split() == [
        "project", "project/.gitignore", "project/src", "project/src/a",
    ]  # fmt: skip
    assert told("export", "sqlite:v.db", "out", "--from", "project/src")[0] == 0
    assert os.listdir(tmp_path / "out") == ["a"]


@pytest.mark.spec("CLI-2")
def test_what_was_left_out_is_told(tmp_path):
    plant({"a": b"1"}, tmp_path / "source")
    os.mkfifo(tmp_path / "source/pipe")
    done = within("import", "source", "sqlite:v.db")
    assert (done.returncode, done.stderr) == (
        0, "left out: pipe: a special file (not_a_regular_file)\n",
    )  # fmt: skip
    (tmp_path / "source/out").symlink_to("/etc/passwd")
    code, result = told("import", "source", "sqlite:v.db")
    assert code == 1
    assert {(each["path"], each["errorKind"]) for each in result["leftOut"]} == {
        ("pipe", "not_a_regular_file"), ("out", "symlink_escape"),
    }  # fmt: skip


@pytest.mark.spec("CLI-1")
@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("import", "nowhere", "sqlite:none.db"), "root_not_found"),
        (("export", "sqlite:none.db", "out"), "root_not_found"),
        (("export", "sqlite:v.db", "out", "--from", "missing"), "path_not_found"),
        (("import", "source", "memory:"), "unsupported"),
        (("export", "sqlite:v.db", "source/file"), "file_already_exists"),
    ],
)  # fmt: skip
def test_what_is_refused_leaves_nothing_behind(tmp_path, arguments, kind):
    plant({"file": b"1"}, tmp_path / "source")
    within("volume", "create", "sqlite:v.db")
    code, error = told(*arguments)
    assert (code, error["errorKind"]) == (1, kind)
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "none.db").exists()


@pytest.mark.spec("CLI-1")
@pytest.mark.parametrize("name", ["sqlite:odd", "http://odd", "memory:"])
def test_a_directory_may_have_any_name(tmp_path, name):
    plant({"a": b"1"}, tmp_path / "source")
    within("import", "source", "sqlite:v.db")
    assert told("export", "sqlite:v.db", name)[0] == 0
    assert (tmp_path / name / "a").read_bytes() == b"1"


@pytest.mark.spec("CLI-1")
def test_a_target_that_lies_in_its_own_source_is_left_alone(tmp_path, monkeypatch):
    plant({"a": b"1", "d": {"big": os.urandom(2_000_000)}}, tmp_path / "source")
    monkeypatch.chdir(tmp_path / "source")
    for _ in range(2):
        assert told("import", ".", "sqlite:d/own.db")[0] == 0
        assert within("-p", "sqlite:d/own.db", "find").stdout.split() == ["a", "d", "d/big"]
    assert told("export", ".", "copy", "--from", "d")[0] == 0
    assert told("import", ".", "inside/copy")[1]["errorKind"] == "root_not_found"
    (tmp_path / "source/inside").mkdir()
    assert told("import", ".", "inside")[0] == 0
    assert sorted(os.listdir("inside")) == ["a", "copy", "d"]
    assert told("export", ".", "inside/deeper")[0] == 0
    assert sorted(os.listdir("inside/deeper/inside")) == ["a", "copy", "d"]


@pytest.mark.slow
@pytest.mark.spec("CLI-1", "VOL-3", "DISK-4")
@pytest.mark.parametrize("way", ["import", "export"])
def test_killed_midway_there_are_whole_files_only_and_the_next_run_completes(tmp_path, way):
    tree = {f"d{d}": {f"f{n:02}": bytes([n]) * 20_000 for n in range(40)} for d in range(10)}
    plant(tree, tmp_path / "source")
    whole = seen(tmp_path / "source")
    if way == "export":
        assert told("import", "source", "sqlite:from.db")[0] == 0
    stopped = 0
    for attempt in range(6):
        command = (
            ["import", "source", "sqlite:v.db"] if way == "import"
            else ["export", "sqlite:from.db", "target"]
        )  # fmt: skip
        child = subprocess.Popen(
            [COMMAND, *command], env=environment(), cwd=tmp_path, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        made = tmp_path / ("v.db" if way == "import" else "target")
        until_blocking(lambda made=made, child=child: made.exists() or child.poll() is not None)
        let_pass_blocking(0.05 * attempt)
        child.send_signal(signal.SIGKILL)
        stopped += child.wait() == -signal.SIGKILL
        if way == "import" and (tmp_path / "v.db").exists():
            assert told("volume", "check", "sqlite:v.db")[1].get("clean") in (True, None)
            if within("-p", "sqlite:v.db", "ls").returncode:
                continue  # killed before the volume was made
            assert told("export", "sqlite:v.db", f"seen{attempt}")[0] == 0
            found = seen(tmp_path / f"seen{attempt}")
        else:
            (tmp_path / "target").mkdir(exist_ok=True)
            within("-p", "target", "ls")  # whoever opens it next takes away what was staged
            found = seen(tmp_path / "target")
        for name, (content, *_) in found.items():
            assert content == whole[name][0], name
    assert stopped, "none was killed while it worked"
    if way == "import":
        assert told("import", "source", "sqlite:v.db")[0] == 0
        assert told("export", "sqlite:v.db", "target")[0] == 0
    else:
        assert told("export", "sqlite:from.db", "target")[0] == 0
    assert seen(tmp_path / "target") == whole
