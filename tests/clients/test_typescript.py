"""The TypeScript client: made from the wire as it is, and tried by Node against a real server."""

import asyncio
import json
import re
import shlex
import shutil
import subprocess
import sys

import pytest

import bailiwick
from bailiwick.config.values import ServerConfig
from release import typescript
from tests.clients.houses import asking
from tests.fronts.cli.command import environment
from tests.laws.repository import ROOT
from tests.processes import in_a_group
from tests.waiting import PATIENCE_S

PLACE = ROOT / "clients" / "typescript"


@pytest.mark.spec("REL-4")
@pytest.mark.parametrize(
    ("path", "text"), typescript.files().items(), ids=lambda each: getattr(each, "name", "")
)
def test_what_is_made_from_the_wire_is_what_the_server_says(path, text):
    """Where this fails: `python -m release.typescript`, and a look at the difference."""
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.spec("REL-4")
@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"$ref": "#/components/schemas/Limits"}, "Limits"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string | null"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, '("a" | "b")[]'),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "Record<string, number>"),
        ({"type": "object"}, "Record<string, unknown>"),
        ({}, "unknown"),
    ],
)
def test_a_schema_is_written_as_a_type(schema, written):
    assert typescript.type_of(schema) == written


@pytest.mark.spec("REL-4")
def test_no_argument_has_two_places():
    """One that is in the query and in the body would be sent in one of them only."""
    document = typescript.document()
    twice = {}
    for name, told in typescript.operations(document).items():
        row = typescript.route(told, document)
        fields = typescript.fields_of_body(told, document)
        if both := fields & set(row["query"]):
            twice[name] = both
    assert twice == {}


@pytest.mark.slow
@pytest.mark.spec("REL-4", "PY-5")
async def test_the_client_works_against_a_server(tmp_path):
    node = shutil.which("node")
    if node is None:
        print("the TypeScript client is tried by Node, which is not installed")
        pytest.skip("the TypeScript client is tested by Node: apt install nodejs")
    async with asking(tmp_path) as (_, variables):
        process = await asyncio.create_subprocess_exec(
            node, "--test", str(PLACE / "test"), env=variables,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        said, _ = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0, said.decode()[-6_000:]
    assert b"# fail 0" in said
    assert b"# pass 0" not in said


@pytest.mark.slow
@pytest.mark.spec("REL-4", "CLI-1")
def test_the_commands_of_the_page_give_an_agent_what_its_example_asks_for(tmp_path):
    page = (ROOT / "docs" / "typescript.md").read_text(encoding="utf-8")
    serve, grant = re.findall(r"^\$ bailiwick (.*?) +#", page, re.MULTILINE)
    address, root = re.search(r'connect\("([^"]+)".*root: "([^"]+)"', page).groups()
    assert address == f"http://127.0.0.1:{ServerConfig().port}"
    assert {(address, root)} == set(
        re.findall(r'connect\("([^"]+)".*root: "([^"]+)"', (PLACE / "README.md").read_text())
    )
    (tmp_path / "here" / "project").mkdir(parents=True)
    homes = {name: str(tmp_path) for name in ("HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")}
    here = {"cwd": tmp_path / "here", "env": environment(**homes)}

    def command(line):
        return [sys.executable, "-m", "bailiwick", *shlex.split(line)]

    with in_a_group(
        [*command(serve), "--port", "0", "--json"], stdout=subprocess.PIPE, **here
    ) as server:
        with server.stdout:
            url = json.loads(server.stdout.readline())["url"]
        granted = subprocess.run(command(grant), capture_output=True, check=True, **here)
        token = json.loads(granted.stdout)["token"]
        with bailiwick.connect_sync(url, token=token, root=root) as fs:
            fs.write_text("notes/today.md", "hello\n", parents=True)
        server.terminate()
        server.wait(PATIENCE_S)
