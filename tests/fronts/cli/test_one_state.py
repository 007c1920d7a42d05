"""Without a configuration: what all who work in a directory share, and the commands on it."""

import json
import subprocess

import pytest

from tests.fronts.cli.command import COMMAND, environment, within
from tests.fronts.cli.places import Typed


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("BAILIWICK_PLACE", "BAILIWICK_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "project").mkdir()
    return Typed(tmp_path / "project")


@pytest.fixture
def volume(directory, tmp_path):
    typed = Typed(f"sqlite:{tmp_path}/agent.db")
    within("volume", "create", typed.place)
    return typed


def over_mcp(place, path, content):
    """Have an agent write a file over MCP, in a process of its own."""
    asked = [
        ("initialize", {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }),
        ("tools/call", {"name": "write_file", "arguments": {"path": path, "content": content}}),
    ]  # fmt: skip
    with subprocess.Popen(
        [COMMAND, "mcp", str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=environment(),
    ) as process:  # fmt: skip
        for number, (method, parameters) in enumerate(asked):
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
        process.stdin.close()
        process.wait()
    return answer["result"]["structuredContent"]


@pytest.mark.spec("PAST-1", "PAST-2")
def test_what_an_agent_did_is_seen_where_one_stands(directory, monkeypatch):
    written = over_mcp(directory.place + "/", "a", "hello\n")
    directory.ok("write", "b", "--text", "mine")
    [version] = directory.json("history", "a")["versions"]
    assert version["requestId"] == written["requestId"]
    assert version["subject"].startswith("agent_run:mcp/")
    monkeypatch.chdir(directory.place)
    told = json.loads(within("audit", "query", "--json", "--operation", "write").stdout)
    subjects = [each["subject"] for each in told["records"]]
    assert sorted(subjects) == sorted([version["subject"], "user:local"])
    assert within("audit", "verify").returncode == 0
    # What the agent did is taken back by whoever stands there, and that is on record too.
    directory.ok("undo", written["requestId"])
    assert directory.refused("cat", "a") == "path_not_found"


@pytest.mark.spec("PAST-2")
@pytest.mark.parametrize("words", [
    ("approvals", "list"), ("audit", "tail"), ("audit", "verify"), ("grant", "list"),
    ("root", "list"), ("policy", "show"), ("policy", "explain", "agent_run:a/b", "read", ".env"),
])  # fmt: skip
def test_commands_on_an_authority_need_no_configuration(directory, volume, words):
    for place in (directory, volume):
        place.ok(*words)
        place.json(*words) if words[0] != "audit" else place.ok(*words, "--json")


@pytest.mark.spec("PAST-2")
def test_what_is_no_place_is_refused_and_nothing_is_made(directory, tmp_path):
    for place in (tmp_path / "nowhere", f"sqlite:{tmp_path}/nothing.db"):
        assert Typed(place).refused("audit", "tail") == "root_not_found"
    assert Typed("memory:").refused("audit", "tail") == "unsupported"
    assert Typed("http://localhost:1").refused("audit", "tail") == "unsupported"
    both = directory("audit", "tail", "--config", "x")
    assert both.returncode == 1
    assert "not both" in both.stderr
    assert not list((tmp_path / "state").rglob("authority.db"))


@pytest.mark.spec("PAST-2")
def test_the_configuration_of_a_place_that_is_named_is_meant(directory, tmp_path):
    file = tmp_path / "project" / "bailiwick.toml"
    file.write_text('[[root]]\nkind = "workspace"\nid = "demo"\npath = "."\n')
    assert "workspace:demo" in directory.ok("root", "list")
    told = directory("root", "list")
    assert f"using {file}" not in told.stdout


@pytest.mark.spec("PAST-2")
def test_a_token_for_an_agent_is_one_line(directory):
    made = directory.json("grant", "token", "ci")
    assert made["token"].startswith("bwk_")
    assert made["subject"] == "agent_run:ci/token"
    assert "write" in made["access"]
    granted = {each["id"]: each for each in directory.json("grant", "list")}
    [grant] = [each for each in granted.values() if each["kind"] == "standing"]
    assert grant["subject"] == "agent_run:ci/token"
    # Made again it is another secret under the same grant; narrower, under another.
    again = directory.json("grant", "token", "ci")
    assert again["token"] != made["token"]
    assert "access" not in again
    assert directory.json("grant", "token", "ci", "--access", "read,list")["access"] == [
        "list", "read",
    ]  # fmt: skip
    [grant] = [each for each in directory.json("grant", "list") if each["kind"] == "standing"]
    assert sorted(grant["access"]) == ["list", "read"]
    # With the token goes what was granted with it.
    directory.ok("grant", "token", "ci", "--revoke")
    assert [each for each in directory.json("grant", "list") if each["kind"] == "standing"] == []
    # A person needs no grant, and gets none.
    assert "access" not in directory.json("grant", "token", "me", "--subject", "user:ann")
    assert directory.refused(
        "grant", "token", "me", "--subject", "user:ann", "--access", "read"
    ) == "parse_error"  # fmt: skip
