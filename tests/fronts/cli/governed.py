"""A directory with a configuration and a state, and the commands on the authority in it."""

import json

import pytest

from bailiwick.build.governed import Authority
from tests.fronts.cli.command import bailiwick, within

CONFIG = """
[ask]
surface = "cli"

[[root]]
id = "demo"
kind = "workspace"
path = "./project"
mount_point = "/workspace"
trusted = true
display_name = "Demo"
labels = {team = "blue"}

[[root]]
id = "scratch"
kind = "workspace"
memory = true
trusted = true

[[root]]
id = "foreign"
kind = "workspace"
path = "./foreign"
mount_point = "/foreign"

[[grant]]
subject = "agent_run:*"
root = "workspace:demo"
access = ["read", "list", "metadata", "write"]
reason = "coding agent"

[[rule]]
subject = "agent_run:*"
operation = ["write"]
path = ["migrations/**"]
effect = "ask"
reason = "migrations are reviewed"
"""


class Place:
    """A directory with a configuration, and the command run in it."""

    def __init__(self, directory):
        self.directory = directory
        for name in ("project/src", "project/migrations", "foreign"):
            (directory / name).mkdir(parents=True)
        (directory / "bailiwick.toml").write_text(CONFIG)

    def __call__(self, *arguments):
        return within(*arguments, "--state", "state")

    def command(self, *arguments, **more):
        """The real command, in a process of its own."""
        return bailiwick(*arguments, "--state", "state", cwd=self.directory, **more)

    def json(self, *arguments):
        done = self(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def refused(self, *arguments):
        """The error kind, which a refusal names on stderr after the configuration that is used and
        what there is to note; nothing is on stdout."""
        done = self(*arguments)
        assert done.returncode == 1, done.stderr
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
        lines = done.stderr.splitlines()
        assert lines[0] == f"using {self.directory}/bailiwick.toml"
        said = [line for line in lines[1:] if not line.startswith("note: ")]
        return said[0].partition(":")[0]

    def add_grant(self, access="read,list,metadata", *more, subject="user:ann"):
        command = ("grant", "add", "--subject", subject, "--root", "workspace:demo")
        done = self(*command, "--access", access, *more)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def authority(self):
        config = str(self.directory / "bailiwick.toml")
        return Authority.from_config(config, state_dir=str(self.directory / "state"))


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BAILIWICK_CONFIG", raising=False)
    return Place(tmp_path)
