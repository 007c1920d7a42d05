"""The TypeScript client: made from the wire as it is, and tried by Node against a real server."""

import asyncio
import shutil

import pytest

from release import typescript
from tests.clients.houses import asking
from tests.laws.repository import ROOT

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
