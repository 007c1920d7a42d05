"""The ten tools: their names, schemas and marks, and what each answers."""

import asyncio
import json

import msgspec
import pytest

import bailiwick
from bailiwick.errors import ParseError
from bailiwick.fronts.tools import tools
from bailiwick.operations import ALL_ACCESS
from bailiwick.toolbox import BASE_OPERATIONS, HISTORY_OPERATIONS
from bailiwick.toolbox.schemas import input_schema
from bailiwick.toolbox.tool import OPERATIONS
from tests.toolbox.support import inner, parts, workspace


@pytest.mark.spec("TOOL-1")
async def test_names_and_number():
    async with bailiwick.open("memory:") as fs:
        made = tools(fs, name="notes")
        assert [tool.name for tool in made.tools] == [
            f"workspace__notes__{operation}" for operation in BASE_OPERATIONS
        ]
        assert made.tools[0].name in made
        assert "read_file" not in made
        for wrong in ("", "a b", "a" * 41, "ä", "a/b", None):
            with pytest.raises(ParseError):
                tools(fs, name=wrong)


@pytest.mark.spec("TOOL-1", "MCP-1")
async def test_ten_schemas_fit_into_eight_kilobytes():
    async with workspace() as (_, box):
        shown = [
            {
                "name": f"workspace__{'n' * 40}__{tool.operation}",
                "description": tool.description,
                "inputSchema": tool.input_schema,
                "outputSchema": tool.output_schema,
                "annotations": {
                    "readOnlyHint": tool.read_only, "destructiveHint": tool.destructive,
                    "idempotentHint": tool.idempotent, "openWorldHint": False,
                },
            }
            for tool in box.tools
        ]  # fmt: skip
        assert len(shown) == 11
        assert len(msgspec.json.encode(shown)) < 8_000


@pytest.mark.spec("TOOL-1")
@pytest.mark.parametrize("operation", [*BASE_OPERATIONS, *HISTORY_OPERATIONS])
def test_a_schema_is_plain_and_strict(operation):
    schema = input_schema(OPERATIONS[operation].takes)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    text = json.dumps(schema)
    for absent in ("$ref", "anyOf", "null", "title", "default"):
        assert absent not in text
    for field in schema["properties"].values():
        assert field["type"] in {"string", "integer", "number", "boolean", "array"}


@pytest.mark.spec("TOOL-4")
def test_marks():
    reading = {"read_file", "ls", "tree", "glob", "grep", "stat", "history", "diff"}
    assert {name for name, tool in OPERATIONS.items() if tool.read_only} == reading
    assert {name for name, tool in OPERATIONS.items() if tool.parallel_safe} == reading
    assert {name for name, tool in OPERATIONS.items() if tool.destructive} == {
        "write_file", "edit_file", "rm", "move", "undo", "run_command",
        "run_code",
    }  # fmt: skip


@pytest.mark.spec("TOOL-1", "TOOL-3")
async def test_every_tool_once():
    async with workspace() as (fs, box):
        call = box.call
        made = await call("write_file", {"path": "src/a.py", "content": "one\ntwo\n"})
        assert made == {"ok": True, "created": True, "sha256": made["sha256"]}
        read = await call("read_file", {"path": "src/a.py"})
        assert parts(read["text"]).groups()[:3] == ("notes", "read_file", "src/a.py")
        assert inner(read["text"]) == "one\ntwo\n"
        assert read["sha256"] == made["sha256"]
        assert read["totalLines"] == 2
        last = await call("read_file", {"path": "src/a.py", "line": 2, "limit": 1})
        assert (inner(last["text"]), last.get("nextLine")) == ("two\n", None)
        past = await call("read_file", {"path": "src/a.py", "line": 9})
        assert (inner(past["text"]), past["totalLines"]) == ("", 2)

        edited = await call("edit_file", {"path": "src/a.py", "oldText": "one", "newText": "eins"})
        assert edited["ok"] is True
        assert edited["firstChangedLine"] == 1
        assert "-one\n+eins" in inner(edited["diff"])
        both = [{"oldText": "eins", "newText": "1"}, {"oldText": "two", "newText": "2"}]
        assert (await call("edit_file", {"path": "src/a.py", "edits": both}))["ok"]
        assert (await fs.read_text("src/a.py")).text == "1\n2\n"

        assert await call("ls", {"path": "src"}) == {
            "entries": [{"name": "a.py", "path": "src/a.py", "type": "file", "size": 4}]
        }
        assert (await call("ls"))["entries"] == [
            {"name": "src", "path": "src", "type": "directory"}
        ]
        assert await call("glob", {"pattern": "**/*.py"}) == {"matches": ["src/a.py"]}
        assert await call("glob", {"pattern": "*.py", "path": "src"}) == {"matches": ["src/a.py"]}
        found = await call("grep", {"pattern": "^[12]$", "context": 1})
        assert [(m["path"], m["lineNumber"], inner(m["line"])) for m in found["matches"]] == [
            ("src/a.py", 1, "1"), ("src/a.py", 2, "2"),
        ]  # fmt: skip
        assert inner(found["matches"][1]["before"]) == "1"
        assert found["skippedPaths"] == found["skippedBinaryPaths"] == []
        assert (await call("grep", {"pattern": "[12", "literal": True}))["matches"] == []
        stat = (await call("stat", {"path": "src/a.py"}))["stat"]
        assert (stat["path"], stat["type"], stat["size"]) == ("src/a.py", "file", 4)

        assert await call("mkdir", {"path": "x/y", "recursive": True}) == {"ok": True}
        assert await call("move", {"from": "src/a.py", "to": "x/b.py"}) == {"ok": True}
        assert (await call("rm", {"path": "x"}))["errorKind"] == "directory_not_empty"
        assert await call("rm", {"path": "x", "recursive": True}) == {"ok": True}
        assert not await fs.exists("x")


@pytest.mark.spec("TOOL-1")
async def test_answers_are_json_as_they_are():
    async with workspace() as (fs, box):
        await fs.write_text("a", '\x1b[31m\u202e \\ "\n')
        for name, given in [
            ("read_file", {"path": "a"}), ("ls", {}), ("stat", {"path": "a"}),
            ("grep", {"pattern": "."}), ("read_file", {"path": "none"}),
        ]:  # fmt: skip
            answer = await box.call(name, given)
            assert json.loads(json.dumps(answer)) == answer
            assert "\x1b" not in json.dumps(answer)


@pytest.mark.spec("TOOL-1")
async def test_writing_is_checked_against_the_hash_that_was_seen():
    async with workspace() as (fs, box):
        seen = (await box.call("write_file", {"path": "a", "content": "1"}))["sha256"]
        await fs.write_text("a", "2")
        late = await box.call("write_file", {"path": "a", "content": "3", "expectedSha256": seen})
        assert late["errorKind"] == "hash_mismatch"
        assert "read_file it again" in late["hint"]
        assert (await fs.read_text("a")).text == "2"


@pytest.mark.spec("TOOL-1")
async def test_grep_tells_what_it_left_out():
    async with workspace() as (fs, box):
        await fs.write_bytes("bin", b"\0x")
        await fs.write_text("big", "x" * 3000)
        await fs.write_text(".env", "x")
        found = await box.call("grep", {"pattern": "x", "maxGrepFileSizeMb": 0.002})
        assert found["skippedPaths"] == ["big"]
        assert found["skippedBinaryPaths"] == ["bin"]
        assert found["withheldPaths"] == [".env"]
        found = await box.call("grep", {"pattern": "x", "includeGlob": "b*"})
        assert [match["path"] for match in found["matches"]] == ["big"]


@pytest.mark.spec("TOOL-1", "POL-3")
async def test_on_a_person_s_scope_the_tools_act_as_an_agent():
    seen = []

    async with bailiwick.Authority.open() as authority:

        class Hook:
            id = "seen"

            async def before(self, context):
                seen.append((str(context.subject), context.front))

            async def after(self, context, record):
                pass

        await authority.add_root("workspace:w", "memory:", trusted=True)
        authority.hooks.register(Hook())
        person = await authority.request_root(
            subject=bailiwick.User("ann"), root="workspace:w", access=ALL_ACCESS, reason="test"
        )
        box = tools(person, name="notes", session="s7")
        await box.call("workspace__notes__ls")
        await box.aclose()
        agent = await person.delegate(bailiwick.AgentRun("c1", "r7"))
        await tools(agent, name="notes").call("workspace__notes__ls")
        extension = await person.delegate(bailiwick.Extension("x"))
        await tools(extension, name="notes", front="mine").call("workspace__notes__ls")
    assert seen == [
        ("agent_run:tools/s7", "tools"), ("agent_run:c1/r7", "tools"), ("extension:x", "mine"),
    ]  # fmt: skip


@pytest.mark.spec("TOOL-4")
async def test_changes_go_one_after_the_other():
    """Two edits of one step that would undo each other."""
    async with workspace() as (fs, box):
        await fs.write_text("a", "".join(f"<{number}>\n" for number in range(20)))
        edits = [
            box.call("edit_file", {"path": "a", "oldText": f"<{n}>", "newText": f"[{n}]"})
            for n in range(20)
        ]
        assert all(answer["ok"] for answer in await asyncio.gather(*edits))
        assert (await fs.read_text("a")).text == "".join(f"[{n}]\n" for n in range(20))


@pytest.mark.spec("TOOL-3")
async def test_the_system_prompt_explains_itself():
    async with bailiwick.open("memory:") as fs:
        prompt = tools(fs, name="notes").system_prompt
        for word in ("workspace__notes__", "untrusted", "nonce", "truncated", "sha256"):
            assert word in prompt
        assert len(prompt) < 2_000


@pytest.mark.spec("TOOL-1")
def test_the_module_can_be_called():
    import bailiwick.tools as module

    with bailiwick.open_sync("memory:") as fs:
        assert module(fs, name="notes").tools[0].name == "workspace__notes__read_file"
        assert module.Toolbox is type(module(fs))
        assert module(fs, operations=["ls"]).call_blocking("workspace__notes__ls") == {
            "entries": []
        }
