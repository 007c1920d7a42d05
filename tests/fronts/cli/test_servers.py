"""The same commands on a running server: `-p http://…` and a token."""

import asyncio
import json

import pytest

from bailiwick.sandboxes.bubblewrap import Bubblewrap
from tests.fronts.cli.command import within
from tests.fronts.cli.places import Typed
from tests.fronts.http.serving import serving

pytestmark = pytest.mark.spec("CLI-1", "PY-5")


async def typing(tmp_path, monkeypatch, session, *, volume=True):
    """Type at a server, in a thread of its own: each command runs a loop of its own."""
    place = f"sqlite:{tmp_path}/files.db?volume=demo" if volume else None
    async with serving(tmp_path, place=place) as house:
        monkeypatch.setenv("BAILIWICK_TOKEN", house.token)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
        await asyncio.to_thread(session, Typed(house.url), house)


async def test_the_verbs_work_on_a_server(tmp_path, monkeypatch):
    def session(at, house):
        wrote = at.json("write", "src/a.py", "--text", "one\n", "--parents")
        assert wrote["created"]
        at.ok("mkdir", "empty")
        at.ok("cp", "src/a.py", "src/b.py")
        at.ok("mv", "src/b.py", "src/c.py")
        assert at.ok("cat", "src/a.py") == "one\n"
        assert at.ok("ls", "src").split() == ["a.py", "c.py"]
        assert "c.py" in at.ok("tree")
        assert at.ok("find", "--type", "file").split() == ["src/a.py", "src/c.py"]
        assert "src/a.py" in at.ok("grep", "one")
        assert at.json("stat", "src/a.py")["sizeBytes"] == 4
        at.ok("edit", "src/c.py", "--old", "one", "--new", "two")
        assert "+two" in at.ok("diff", "src/a.py", "src/c.py")
        at.ok("rm", "empty")
        assert at.refused("cat", "none") == "path_not_found"
        assert at.refused("cat", "../x") == "path_outside_workspace"

    await typing(tmp_path, monkeypatch, session)


async def test_versions_of_a_server(tmp_path, monkeypatch):
    def session(at, house):
        first = at.json("write", "a", "--text", "1")
        second = at.json("write", "a", "--text", "2")
        assert len(at.json("history", "a")["versions"]) == 2
        at.ok("restore", "a", first["version"])
        assert at.ok("cat", "a") == "1"
        at.ok("snapshot", "create", "kept")
        assert second["version"] != first["version"]
        third = at.json("write", "b", "--text", "3")
        assert at.json("undo", third["requestId"])["undone"] == ["b"]
        at.ok("fork", "create", "other")
        at.ok("merge", "other")

    await typing(tmp_path, monkeypatch, session)


async def test_trees_come_and_go(tmp_path, monkeypatch):
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "f").write_bytes(bytes(range(256)) * 2_000)
    (source / "g").write_text("g")

    def session(at, house):
        done = within("import", source, at.place)
        assert done.returncode == 0, done.stderr
        assert at.ok("find", "--type", "file").split() == ["deep/f", "g"]
        done = within("export", at.place, tmp_path / "target")
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "target/deep/f").read_bytes() == bytes(range(256)) * 2_000

    await typing(tmp_path, monkeypatch, session)


async def test_a_token_and_a_root_are_given(tmp_path, monkeypatch):
    def session(at, house):
        named = Typed(f"{house.url}/roots/workspace/demo")
        assert named.ok("ls") == ""
        assert Typed(f"{house.url}/roots/workspace/none").refused("ls") == "root_not_found"
        monkeypatch.setenv("BAILIWICK_TOKEN", "bwk_wrong")
        assert at.refused("ls") == "unauthenticated"
        assert at.ok("ls", "--token", house.token) == ""
        assert Typed("http://127.0.0.1:1").refused("ls") == "io_error"

    await typing(tmp_path, monkeypatch, session)


@pytest.mark.spec("EXEC-3", "EXEC-10")
async def test_programs_of_a_server_are_run_there(tmp_path, monkeypatch):
    def session(at, house):
        def typed(*words):
            done = within("-p", at.place, *words)
            assert "Traceback" not in done.stderr
            return done

        done = typed("exec", "--", "sh", "-c", "echo out; echo err >&2; echo x > f; exit 7")
        assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")
        assert at.ok("cat", "f") == "x\n"
        done = typed("exec", "--publish", "manual", "--json", "--", "rm", "f")
        kept = json.loads(done.stdout.splitlines()[-1])["result"]["workId"]
        assert typed("work", "show", kept).stdout == "deleted f\n"
        assert kept in typed("work", "list").stdout
        assert typed("work", "apply", kept).stdout == "deleted f\n"
        refused = typed("work", "show", kept)
        assert (refused.returncode, "path_not_found" in refused.stderr) == (1, True)
        refused = typed("run", "--", "true")
        assert refused.returncode == 125
        assert "unsupported: programs are run on this machine" in refused.stderr

    for lack in Bubblewrap().missing():
        if lack.fatal:
            pytest.skip(f"{lack.what}: {lack.remedy}")
    await typing(tmp_path, monkeypatch, session, volume=False)
