"""`bailiwick grant token`."""

import json

import pytest

from tests.fronts.cli.command import within

CONFIG = """
[state]
path = "kept"
[[root]]
id = "demo"
kind = "workspace"
memory = true
[[token]]
name = "ci"
subject = "agent_run:ci/main"
"""


@pytest.mark.spec("HTTP-2", "CLI-1")
def test_tokens_are_made_listed_and_ended(tmp_path):
    file = tmp_path / "bailiwick.toml"
    file.write_text(CONFIG)

    def token(*arguments):
        return within("grant", "token", *arguments, "--config", file)

    made = token("ci")
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith("bwk_")
    assert "agent_run:ci/main" in made.stderr
    named = token("ann", "--subject", "user:ann", "--expires-in", "8h", "--json")
    assert json.loads(named.stdout)["subject"] == "user:ann"
    listed = json.loads(token("--json").stdout)
    assert [each["name"] for each in listed] == ["ann", "ci"]
    assert made.stdout.strip() not in token().stdout
    assert token("ann", "--revoke").returncode == 0
    assert token("ann", "--revoke").stderr.startswith("path_not_found")
    assert token("nosuch").stderr.startswith("parse_error")
    assert token("ci", "--subject", "user:other").stderr.startswith("parse_error")
