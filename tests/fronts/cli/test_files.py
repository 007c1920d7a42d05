"""The verbs on files, as they are typed: on a directory and on a volume alike."""

import hashlib
import json
import os
import subprocess

import pytest

import bailiwick as package
from bailiwick import client
from bailiwick.build.care import create_volume
from bailiwick.errors import KINDS, PermissionDenied
from bailiwick.fronts.cli.hints import NEXT_STEPS
from bailiwick.paths import DEPTH_MAX
from bailiwick.scope import Scope
from tests.fronts.cli.command import COMMAND, bailiwick, environment, within
from tests.fronts.cli.places import Typed

FILES = {
    "README.md": b"# Demo\nhello world\n", "src/a.py": b"x = 1\ny = 2\n", "src/b.py": b"x = 2\n",
    "data.bin": b"\x00\xff\x01binary", ".gitignore": b"*.log\n", "noise.log": b"hello\n",
}  # fmt: skip


@pytest.fixture(params=["directory", "volume"])
def place(request, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("BAILIWICK_PLACE", "BAILIWICK_CONFIG", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    if request.param == "directory":
        (tmp_path / "project").mkdir()
        typed = Typed(tmp_path / "project")
    else:
        typed = Typed(f"sqlite:{tmp_path}/agent.db?volume=demo")
        within("volume", "create", typed.place)
    typed.fill(FILES)
    return typed


# --- looking -----------------------------------------------------------------------------------


@pytest.mark.spec("CLI-1", "CLI-2")
def test_ls(place):
    assert place.ok("ls").splitlines() == [
        ".gitignore", "README.md", "data.bin", "noise.log", "src/",
    ]  # fmt: skip
    assert place.ok("ls", "src", "-0") == "a.py\0b.py\0"
    rows = place.ok("ls", "-l", "src").splitlines()
    assert [row.split()[0] for row in rows] == ["-", "-"]
    assert rows[0].endswith("  a.py")
    told = place.json("ls", "src")
    assert {name: told[name] for name in ("kind", "path", "truncated", "nextCursor")} == {
        "kind": "list", "path": "src", "truncated": False, "nextCursor": None,
    }  # fmt: skip
    first = told["entries"][0]
    assert set(first) == {
        "name",
        "path",
        "type",
        "kind",
        "ignored",
        "sizeBytes",
        "modifiedMs",
        "addressable",
        "readOnly",
    }
    assert (first["name"], first["path"], first["kind"]) == ("a.py", "src/a.py", "file")
    assert first["sizeBytes"] == len(FILES["src/a.py"])
    ignored = {entry["name"]: entry["ignored"] for entry in place.json("ls")["entries"]}
    assert ignored["noise.log"] is True
    assert ignored["README.md"] is False


@pytest.mark.spec("CLI-1")
def test_a_directory_of_many_pages_is_listed_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "many").mkdir()
    for number in range(2_500):
        (tmp_path / "many" / f"{number:05}").touch()
    assert len(Typed(tmp_path / "many").ok("ls").splitlines()) == 2_500


@pytest.mark.spec("CLI-2")
@pytest.mark.parametrize("typed", ["sqlite:agent.db", "http://127.0.0.1:8000", "memory:"])
def test_a_place_that_is_typed_as_a_path_is_told_from_one(place, typed):
    told = place("ls", typed)
    assert told.returncode == 1
    assert "name it with -p" in told.stderr


@pytest.mark.spec("CLI-2", "READ-5")
def test_a_text_without_a_mark_is_told_with_what_reads_it(place):
    place.fill({"u": "grün\n".encode("utf-16-le")})
    told = place("cat", "u", "--line", "1")
    assert told.returncode == 1
    assert "hint: if it is text: `bailiwick cat FILE | iconv -f utf-16-le -t utf-8`" in told.stderr


@pytest.mark.spec("CLI-1")
def test_tree(place):
    assert place.ok("tree").splitlines() == [
        ".", "├── .gitignore", "├── README.md", "├── data.bin", "└── src", "    ├── a.py",
        "    └── b.py", "", "1 directories, 5 files",
    ]  # fmt: skip
    assert "noise.log" in place.ok("tree", "--all")
    assert "a.py" not in place.ok("tree", "--depth", "1")
    cut = place("tree", "--limit", "2")
    assert len(cut.stdout.splitlines()) == 5
    assert "cut after 2 entries" in cut.stderr
    told = place.json("tree", "src")
    assert [entry["name"] for entry in told["entries"]] == ["a.py", "b.py"]
    assert (told["kind"], told["files"], told["truncated"]) == ("tree", 2, False)


@pytest.mark.spec("TREE-7")
def test_a_directory_that_could_not_be_looked_into_is_named(tmp_path, monkeypatch):
    os.mkdir(bytes(tmp_path) + b"/\xff")
    for name in ("open", "shut"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").touch()
    listed = Scope.list

    async def shut(self, path=".", **more):
        if str(path) == "shut":
            raise PermissionDenied("permission denied", path="shut")
        return await listed(self, path, **more)

    monkeypatch.setattr(Scope, "list", shut)
    typed = Typed(tmp_path)
    done = typed("tree")
    assert done.returncode == 0
    assert "3 directories, 1 files\n" in done.stdout
    assert sorted(done.stderr.splitlines()) == [
        r"note: \xff could not be looked into", "note: shut could not be looked into",
    ]  # fmt: skip
    assert sorted(typed.json("tree")["unreadable"]) == [r"\xff", "shut"]
    assert typed.json("tree", "--depth", "1")["unreadable"] == []
    assert typed.refused("tree", "shut") == "permission_denied"
    assert typed("find").stderr == "note: \\xff could not be looked into\n"


@pytest.mark.spec("CLI-1", "TREE-10")
def test_a_tree_as_deep_as_paths_go(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "top" / "/".join("d" * DEPTH_MAX)).mkdir(parents=True)
    deep = Typed(tmp_path / "top")
    assert f"{DEPTH_MAX} directories, 0 files" in deep.ok("tree")
    told, levels = deep.json("tree"), 0
    while entries := told.get("entries"):
        (told,) = entries
        levels += 1
    assert levels == DEPTH_MAX


@pytest.mark.spec("CLI-1")
def test_stat(place):
    told = place.json("stat", "README.md")
    assert told["kind"] == "stat"
    assert {"path", "type", "sizeBytes", "modifiedMs", "mode", "version"} <= set(told)
    assert (told["path"], told["type"], told["sizeBytes"]) == ("README.md", "file", 19)
    assert "19 bytes" in place.ok("stat", "README.md")


@pytest.mark.spec("CLI-1")
def test_find(place):
    assert place.ok("find", "--name", "*.py").splitlines() == ["src/a.py", "src/b.py"]
    assert place.ok("find", "--type", "directory", "-0") == "src\0"
    assert place.ok("find", "--larger", "12B", "--smaller", "18B") == "src/a.py\n"
    assert "README.md" in place.ok("find", "--newer", "1h", "--depth", "1")
    told = place.json("find", "src", "--limit", "1")
    assert (told["kind"], told["path"], told["truncated"]) == ("find", "src", True)
    assert [entry["name"] for entry in told["entries"]] == ["a.py"]
    assert "there may be more" in place("find", "src", "--limit", "1").stderr
    assert f"--cursor {told['nextCursor']}" in place("find", "src", "--limit", "1").stderr
    rest = place.json("find", "src", "--cursor", told["nextCursor"])
    assert [entry["name"] for entry in rest["entries"]] == ["b.py"]
    assert (rest["truncated"], rest["nextCursor"]) == (False, None)


@pytest.mark.spec("CLI-1")
def test_grep(place):
    assert place.ok("grep", "x =").splitlines() == ["src/a.py:1:x = 1", "src/b.py:1:x = 2"]
    assert place.ok("grep", "HELLO", "-i", "-l").splitlines() == ["README.md"]
    assert place.ok("grep", "hello", "--all", "-l").splitlines() == ["README.md", "noise.log"]
    assert place.ok("grep", "x = 1", "-C", "1").splitlines() == [
        "src/a.py:1:x = 1", "src/a.py-2-y = 2",
    ]  # fmt: skip
    assert place.ok("grep", "-F", "x = 1", "--include", "*.md") == ""
    told = place.json("grep", "y", "src")
    assert (told["kind"], told["pattern"], told["path"]) == ("grep", "y", "src")
    assert told["matches"] == [{
        "path": "src/a.py", "line": 2, "column": 1, "text": "y = 2", "before": [], "after": [],
        "lineTruncated": False, "undecodable": False,
    }]  # fmt: skip
    assert {"skippedPaths", "skippedBinaryPaths", "unreadable", "withheld"} <= set(told)
    assert "binary files not searched: 1" in place("grep", "hello").stderr
    assert place.refused("grep", "(") == "parse_error"


@pytest.mark.spec("CLI-1", "GREP-3")
def test_grep_tells_a_line_once_and_says_where_some_are_left_out(place):
    lines = ["needle", "needle", "a", "b", "needle", "c", "d", "e", "needle"]
    place.fill({"near": "\n".join(lines).encode() + b"\n", "other": b"needle\n"})
    assert place.ok("grep", "needle", "-C", "1").splitlines() == [
        "near:1:needle", "near:2:needle", "near-3-a", "near-4-b", "near:5:needle", "near-6-c",
        "--", "near-8-e", "near:9:needle", "--", "other:1:needle",
    ]  # fmt: skip


@pytest.mark.spec("GREP-3", "TREE-7")
def test_grep_names_the_lines_that_it_shows_in_part(place):
    place.fill({"long": b"needle\n" + b"x" * 3000 + b" needle\n"})
    note = "note: long:2: a long line, shown in part"
    assert note in place("grep", "needle").stderr.splitlines()
    assert "long:1:" not in place("grep", "needle").stderr
    assert note not in place("grep", "needle", "-l").stderr.splitlines()
    assert len(place.ok("cat", "long", "--line", "2", "--limit", "1")) > 3000


@pytest.mark.spec("CLI-1")
def test_cat(place):
    assert place.ok("cat", "README.md", "src/b.py") == "# Demo\nhello world\nx = 2\n"
    assert place.ok("cat", "src/a.py", "--line", "2") == "y = 2\n"
    for tail, text in ((1, "y = 2\n"), (2, "x = 1\ny = 2\n"), (9, "x = 1\ny = 2\n")):
        assert place.ok("cat", "src/a.py", "--tail", tail) == text
    place.fill({"open": b"one\ntwo"})
    assert place.ok("cat", "open", "--tail", "1") == "two\n"
    assert place.ok("cat", "open", "--tail", "2") == "one\ntwo\n"
    told = place.json("cat", "README.md")
    assert told["kind"] == "file"
    assert told["content"] == FILES["README.md"].decode()
    assert told["hash"] == "sha256:" + hashlib.sha256(FILES["README.md"]).hexdigest()
    assert {
        "path", "encoding", "bom", "lineEnding", "sizeBytes", "returnedBytes", "truncated",
        "version", "matchedIgnore", "originalLineCount", "nextCursor", "hasMore",
    } <= set(told)  # fmt: skip


@pytest.mark.spec("CLI-1", "CLI-2")
def test_a_pipe_gets_the_very_bytes(place):
    done = place("cat", "data.bin")
    assert done.stdout.encode("utf-8", "surrogateescape") == FILES["data.bin"]
    assert place.refused("cat", "data.bin", "--line", "1") == "binary_file"


@pytest.mark.spec("CLI-1", "DIFF-1")
def test_diff(place):
    text = place.ok("diff", "src/a.py", "src/b.py")
    assert "-x = 1" in text
    assert "+x = 2" in text
    piped = bailiwick("-p", place.place, "diff", "src/a.py", "-", given="x = 1\n")
    assert "-y = 2" in piped.stdout
    assert bailiwick("-p", place.place, "diff", "src/a.py", "-", given="\udcff").returncode == 1
    told = place.json("diff", "src/a.py", "src/b.py")
    assert (told["kind"], told["equal"], told["addedLines"]) == ("diff", False, 1)


# --- changing ----------------------------------------------------------------------------------


def said(place, *command):
    """What a change says of itself; each line ends with the one request that it is on record as."""
    lines = [line.rpartition(", request ") for line in place.ok(*command).splitlines()]
    assert len({request for _, _, request in lines}) == 1
    assert all(separator and request for _, separator, request in lines)
    return [text for text, _, _ in lines]


@pytest.mark.spec("CLI-1", "WRITE-2")
def test_write(place):
    assert said(place, "write", "new.txt", "--text", "one") == ["created new.txt (3 B)"]
    assert said(place, "write", "new.txt", "--text", "two") == ["wrote new.txt (3 B)"]
    assert said(place, "write", "new.txt", "--text", "\n", "--append") == ["wrote new.txt (4 B)"]
    assert place.ok("cat", "new.txt") == "two\n"
    assert place.refused("write", "new.txt", "--text", "x", "--mode", "create") == (
        "file_already_exists"
    )
    assert place.refused("write", "no/such/dir", "--text", "x") == "path_not_found"
    told = place.json("write", "a/b/c", "--text", "x", "--parents", "--file-mode", "640")
    assert (told["kind"], told["created"], told["fileMode"]) == ("file_write", True, "0640")
    assert told["hash"] == "sha256:" + hashlib.sha256(b"x").hexdigest()
    wrong = "0" * 64
    assert place.refused("write", "a/b/c", "--text", "y", "--expect", wrong) == "hash_mismatch"
    place.ok("write", "a/b/c", "--text", "y", "--mode", "replace", "--expect", told["hash"])


@pytest.mark.spec("CLI-1", "WRITE-1")
def test_write_takes_what_is_piped_in_whatever_it_holds(place):
    content = b"\x00\xff\r\n" * 300_000
    done = bailiwick("-p", place.place, "write", "big",
                     given=content.decode("utf-8", "surrogateescape"))  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert place("cat", "big").stdout.encode("utf-8", "surrogateescape") == content


@pytest.mark.spec("CLI-1", "EDIT-1")
def test_edit(place):
    assert "+x = 10" in place.ok("edit", "src/a.py", "--old", "x = 1", "--new", "x = 10")
    assert place.ok("cat", "src/a.py") == "x = 10\ny = 2\n"
    assert place.refused("edit", "src/a.py", "--old", "zzz", "--new", "") == "text_not_found"
    assert place.refused("edit", "src/a.py", "--old", "=", "--new", "") == "ambiguous_text_match"
    told = place.json("edit", "src/a.py", "--old", "=", "--new", ":=", "--all", "--dry-run")
    assert (told["kind"], told["replacements"], told["dryRun"]) == ("file_edit", 2, True)
    assert place.ok("cat", "src/a.py") == "x = 10\ny = 2\n"
    place.ok("edit", "src/a.py", "--old", "x", "--new", "p", "--old", "y", "--new", "q")
    assert place.ok("cat", "src/a.py") == "p = 10\nq = 2\n"


@pytest.mark.spec("CLI-1", "TREE-2")
def test_mkdir_mv_cp_rm(place):
    assert said(place, "mkdir", "one", "two") == ["made one", "made two"]
    assert place.refused("mkdir", "one") == "file_already_exists"
    assert "nothing to do" in place.ok("mkdir", "one", "--parents")
    assert said(place, "mv", "README.md", "one/") == ["moved README.md → one/README.md"]
    assert place.refused("mv", "src/a.py", "src/b.py") == "file_already_exists"
    assert "--replace" in place("mv", "src/a.py", "src/b.py").stderr
    assert place.json("mv", "src/a.py", "src/b.py", "--replace")["destination"] == "src/b.py"
    assert place.refused("cp", "src", "copied") == "is_a_directory"
    assert "(2 objects)" in place.ok("cp", "-r", "src", "copied")
    assert place.refused("rm", "copied") == "directory_not_empty"
    stale = hashlib.sha256(b"not that").hexdigest()
    assert place.refused("rm", "one/README.md", "--expect", stale) == "hash_mismatch"
    assert place.refused("mv", "one/README.md", "x", "--expect", stale) == "hash_mismatch"
    assert place("rm", "one/README.md", "src/b.py", "--expect", stale).returncode == 2
    assert said(place, "rm", "-r", "copied") == ["removed copied (2 objects)"]
    assert place.refused("rm", "copied") == "path_not_found"
    assert said(place, "rm", "-f", "copied") == ["removed copied (nothing to do)"]
    assert [each["kind"] for each in place.json("rm", "one/README.md", "src/b.py")] == (
        ["change", "change"]
    )


# --- where, as whom, and what is refused -------------------------------------------------------


@pytest.mark.spec("CLI-1", "CLI-2")
def test_the_place_is_given_before_or_after_or_by_the_environment(place, monkeypatch, tmp_path):
    listed = place.ok("ls")
    assert within("ls", "-p", place.place).stdout == listed
    assert within(f"--place={place.place}", "ls").stdout == listed
    monkeypatch.setenv("BAILIWICK_PLACE", place.place)
    assert within("ls").stdout == listed
    (tmp_path / "other").mkdir()
    assert within("-p", tmp_path / "other", "ls").stdout == ""


@pytest.mark.spec("CLI-1")
def test_without_a_place_it_is_the_directory_that_one_is_in(tmp_path, monkeypatch):
    monkeypatch.delenv("BAILIWICK_PLACE", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    (tmp_path / "project/here").touch()
    assert within("ls").stdout == "here\n"


@pytest.mark.spec("CLI-1", "PATH-1")
@pytest.mark.parametrize("path", ["../x", "src/../../x", "C:/x", "//server/x"])
def test_what_lies_outside_is_refused(place, path):
    for verb in ("ls", "cat", "stat", "rm"):
        assert place.refused(verb, path) == "path_outside_workspace"


@pytest.mark.spec("CLI-1", "CLI-2")
@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("memory:", "unsupported"), ("sqlite:missing.db", "root_not_found"),
        ("sqlite:", "parse_error"), ("sqlite:x?volum=y", "parse_error"),
        ("./missing", "root_not_found"), ("ftp://x", "parse_error"),
    ],
)  # fmt: skip
def test_a_place_that_is_none(tmp_path, monkeypatch, place, kind):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert Typed(place).refused("ls") == kind
    assert not (tmp_path / "missing.db").exists()


@pytest.mark.spec("CLI-1", "VOL-1")
async def test_a_volume_that_is_mistyped_is_not_made(tmp_path):
    await create_volume(f"sqlite:{tmp_path}/a.db?volume=main")
    done = bailiwick("-p", f"sqlite:{tmp_path}/a.db?volume=mian", "ls")
    assert done.returncode == 1
    assert "volume create" in done.stderr


@pytest.mark.spec("CLI-1", "POL-3")
def test_an_agent_is_held_to_the_protective_rules(place):
    place.fill({".env": b"secret", "src/.git/x": b"1"})
    assert place.ok("cat", ".env") == "secret"
    assert place("--as", "agent_run:demo/1", "cat", "README.md").returncode == 0
    assert place.refused("cat", ".env", "--as", "agent_run:demo/1") == "approval_denied"


@pytest.mark.spec("CLI-1", "PY-5")
def test_a_server_is_reached_through_the_client(place, monkeypatch):
    """The verbs are those of a scope: whatever `bailiwick.connect` gives has them too."""
    asked = []

    def connect(address, *, token):
        asked.append((address, token))
        return package.open(place.place)

    monkeypatch.setattr(client, "connect", connect)
    there = Typed("http://127.0.0.1:4180")
    assert there.ok("ls", "--token", "t") == place.ok("ls")
    monkeypatch.setenv("BAILIWICK_TOKEN", "of the environment")
    assert there.json("write", "new", "--text", "1")["created"]
    assert asked == [(there.place, "t"), (there.place, "of the environment")]
    assert there.refused("ls", "--as", "agent_run:demo/1") == "unsupported"


@pytest.mark.spec("ERR-4", "CLI-2")
def test_every_kind_of_error_says_what_to_do_next():
    assert NEXT_STEPS.keys() == KINDS.keys()
    assert all(step and step == step.strip() for step in NEXT_STEPS.values())


@pytest.mark.spec("CLI-2", "PATH-5")
def test_names_are_shown_escaped_and_given_raw_to_programs(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    name = "a\x1b[31m\nb"
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / name).write_text("x = \x1b[2J\n")
    place = Typed(tmp_path / "d")
    for verb in (["ls"], ["ls", "-l"], ["tree"], ["find"], ["grep", "x"], ["stat", name]):
        text = place.ok(*verb)
        assert r"a\x1b[31m\x0ab" in text
        assert "\x1b" not in text
    assert place.ok("ls", "-0") == name + "\0"
    assert place.json("ls")["entries"][0]["name"] == name
    assert "\x1b" not in place.ok("ls", "--json")


@pytest.mark.spec("CLI-2")
def test_json_of_an_error_has_one_shape(place):
    done = place("cat", "nothing", "--json")
    error = json.loads(done.stderr)
    assert error["errorKind"] == "path_not_found"
    assert {"error", "hint", "status", "category", "retryable", "path", "requestId"} <= set(error)


@pytest.mark.spec("CLI-1")
def test_links_are_seen(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    place = Typed(tmp_path / "d")
    (tmp_path / "d").mkdir()
    (tmp_path / "d/l").symlink_to("a")
    (tmp_path / "d/a").touch()
    os.mkfifo(tmp_path / "d/pipe")
    assert place.ok("ls").split() == ["a", "l@", "pipe?"]
    assert place.json("stat", "l", "--no-follow")["target"] == "a"
    assert place.json("stat", "l")["type"] == "file"


@pytest.mark.spec("CLI-1")
def test_a_home_that_holds_the_state_can_be_looked_at_and_not_changed(tmp_path, monkeypatch):
    """Where the state lies in a person's home, they still see what is there."""
    home = tmp_path / "home"
    (home / "project").mkdir(parents=True)
    (home / "notes").write_text("mine\n")
    monkeypatch.setenv("XDG_STATE_HOME", str(home / ".local/state"))
    place = Typed(home)
    assert "notes" in place.ok("ls")
    assert place.ok("cat", "notes") == "mine\n"
    assert place.refused("write", "notes", "--text", "x") == "unsupported"
    assert "XDG_STATE_HOME" in place("rm", "notes").stderr
    assert (home / "notes").read_text() == "mine\n"
    Typed(home / "project").ok("write", "a", "--text", "1")


@pytest.mark.spec("CLI-2")
@pytest.mark.parametrize("words", [["ls"], ["find"], ["--help"], ["cat", "long"]])
def test_whoever_has_read_enough_ends_a_command_without_a_word(tmp_path, words):
    (tmp_path / "long").write_text("line\n" * 200_000)
    reads, writes = os.pipe()
    os.close(reads)
    try:
        done = subprocess.run(
            [COMMAND, *words], cwd=tmp_path, env=environment(), stdout=writes,
            stderr=subprocess.PIPE, text=True, timeout=60,
        )  # fmt: skip
    finally:
        os.close(writes)
    assert (done.returncode, done.stderr) == (141, "")
