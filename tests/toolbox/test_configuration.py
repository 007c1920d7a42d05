"""Every field of the configuration is enforced, and cannot be gone around."""

import pytest

import bailiwick
from bailiwick.errors import ParseError
from bailiwick.fronts.tools import tools
from bailiwick.toolbox import ToolConfig, read_config
from tests.toolbox.support import inner, toolbox, workspace


@pytest.mark.spec("TOOL-6")
def test_names_as_python_and_as_json_spell_them():
    python = read_config({"max_file_size_mb": 2, "allowed_paths": {"b", "a"}})
    wire = read_config({"maxFileSizeMb": 2, "allowedPaths": ["a", "b"]})
    assert python == wire == ToolConfig(max_file_size_mb=2, allowed_paths=("a", "b"))
    assert read_config({}) == ToolConfig()
    assert read_config({"fs": True}).offers("rm")


@pytest.mark.spec("TOOL-6")
@pytest.mark.parametrize(
    "wrong",
    [
        {"unknown": 1}, {"operations": ["read"]}, {"operations": "ls"}, {"allowed_paths": []},
        {"allowed_paths": "src"}, {"allowed_paths": ["["]}, {"allowed_paths": [1]},
        {"max_file_size_mb": 0}, {"max_file_size_mb": -1}, {"max_tool_result_bytes": 0},
        {"max_tool_result_bytes": 1.5}, {"max_dir_entries": 0}, {"max_glob_matches": "7"},
        {"fs": "yes"}, {"max_file_size_mb": 1, "maxFileSizeMb": "x"},
    ],
    ids=repr,
)  # fmt: skip
def test_a_wrong_configuration_is_refused(wrong):
    with pytest.raises(ParseError):
        read_config(wrong)


@pytest.mark.spec("TOOL-6")
async def test_options_or_a_config():
    async with bailiwick.open("memory:") as fs:
        with pytest.raises(ParseError):
            tools(fs, config=ToolConfig(), fs=False)
        with pytest.raises(ParseError):
            tools(fs, session="a/b")


@pytest.mark.spec("TOOL-6")
async def test_operations_that_are_not_offered_are_not_there():
    async with workspace(operations=["read_file", "ls"]) as (fs, box):
        assert [tool.name for tool in box.tools] == ["read_file", "ls"]
        for operation in ("write_file", "rm", "undo", "history"):
            answer = await box.call(operation, {"path": "a", "content": "x"})
            assert answer["errorKind"] == "parse_error"
        assert not await fs.exists("a")
    async with workspace(fs=False) as (_, box):
        assert box.tools == ()
        assert (await box.call("ls"))["ok"] is False


@pytest.mark.spec("TOOL-6")
async def test_how_large_a_file_may_become():
    async with workspace(max_file_size_mb=0.001) as (fs, box):
        most = int(0.001 * 1024 * 1024)
        fits = {"path": "a", "content": "x" * most}
        assert (await box.call("write_file", fits))["ok"] is True
        larger = await box.call("write_file", {"path": "b", "content": "é" * (most // 2 + 1)})
        assert larger["errorKind"] == "file_too_large"
        assert not await fs.exists("b")
        grown = await box.call(
            "edit_file", {"path": "a", "oldText": "x" * most, "newText": "y" * (most + 1)}
        )
        assert grown["errorKind"] == "file_too_large"
        many = {"path": "a", "oldText": "x", "newText": "xx", "replaceAll": True}
        assert (await box.call("edit_file", many))["errorKind"] == "file_too_large"
        less = {"path": "a", "oldText": "x" * most, "newText": "y"}
        assert (await box.call("edit_file", less))["ok"] is True


async def planted(fs):
    for path in ("src/a.py", "src/deep/b.py", "docs/c.md", "secret/key.txt"):
        await fs.write_text(path, "needle\n", parents=True)


@pytest.mark.spec("TOOL-6", "AUTH-4")
async def test_allowed_paths_bound_everything():
    async with workspace(allowed_paths=["src/**", "docs/*.md"]) as (fs, box):
        await planted(fs)
        assert inner((await box.call("read_file", {"path": "src/deep/b.py"}))["text"])
        for tool, given_ in [
            ("read_file", {"path": "secret/key.txt"}), ("stat", {"path": "secret/key.txt"}),
            ("ls", {"path": "secret"}), ("grep", {"pattern": ".", "path": "secret"}),
            ("glob", {"pattern": "*", "path": "secret"}),
            ("write_file", {"path": "secret/x", "content": "x"}),
            ("write_file", {"path": "docs/x.py", "content": "x"}),
            ("write_file", {"path": "top", "content": "x"}),
            ("edit_file", {"path": "secret/key.txt", "oldText": "needle", "newText": "x"}),
            ("mkdir", {"path": "other"}), ("rm", {"path": "secret", "recursive": True}),
            ("move", {"from": "src/a.py", "to": "secret/a.py"}),
            ("move", {"from": "secret/key.txt", "to": "src/key.txt"}),
            ("move", {"from": "secret", "to": "src/secret"}),
        ]:  # fmt: skip
            answer = await box.call(tool, given_)
            assert answer["ok"] is False, (tool, given_)
            assert answer["errorKind"] == "missing_access", (tool, given_, answer)
        found = await box.call("grep", {"pattern": "needle"})
        assert sorted(match["path"] for match in found["matches"]) == [
            "docs/c.md", "src/a.py", "src/deep/b.py",
        ]  # fmt: skip
        matched = (await box.call("glob", {"pattern": "**"}))["matches"]
        assert not any(path.startswith("secret") for path in matched)
        names = [entry["name"] for entry in (await box.call("ls"))["entries"]]
        assert "secret" not in names
        assert (await fs.read_text("secret/key.txt")).text == "needle\n"


@pytest.mark.spec("TOOL-6", "LINK-1")
async def test_allowed_paths_cannot_be_left_by_links(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key.txt").write_text("needle\n")
    (tmp_path / "src" / "link").symlink_to("../secret/key.txt")
    (tmp_path / "src" / "dir").symlink_to("../secret")
    async with bailiwick.open(tmp_path) as fs:
        assert (await fs.read_text("src/link")).text == "needle\n", "the link works for its owner"
        box = toolbox(fs, allowed_paths=["src/**"])
        for tool, given_ in [
            ("read_file", {"path": "src/link"}), ("read_file", {"path": "src/dir/key.txt"}),
            ("ls", {"path": "src/dir"}), ("grep", {"pattern": ".", "path": "src/dir"}),
            ("write_file", {"path": "src/dir/new", "content": "x"}),
            ("edit_file", {"path": "src/dir/key.txt", "oldText": "needle", "newText": "x"}),
            ("rm", {"path": "src/dir/key.txt"}),
            ("move", {"from": "src/dir/key.txt", "to": "src/k"}),
        ]:  # fmt: skip
            answer = await box.call(tool, given_)
            assert answer["ok"] is False, (tool, answer)
        assert (await box.call("grep", {"pattern": "needle"}))["matches"] == []
    assert (tmp_path / "secret" / "key.txt").read_text() == "needle\n"


@pytest.mark.spec("TOOL-6")
async def test_an_agent_s_scope_is_narrowed_too():
    async with bailiwick.open("memory:") as fs:
        await planted(fs)
        agent = await fs.delegate(bailiwick.AgentRun("c", "r"), path="src", rebase=True)
        box = toolbox(agent, allowed_paths=["deep/**"])
        assert inner((await box.call("read_file", {"path": "deep/b.py"}))["text"]) == "needle\n"
        assert (await box.call("read_file", {"path": "a.py"}))["errorKind"] == "missing_access"
        await box.aclose()
        assert (await agent.read_text("a.py")).text == "needle\n", "what was given stays open"
