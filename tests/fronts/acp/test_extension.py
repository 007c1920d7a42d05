"""What an agent may ask beyond the protocol: what each call takes, and who never hears of it."""

import hashlib
import json

import acp
import pytest
from acp.schema import ClientCapabilities

import bailiwick
from bailiwick.fronts.acp import extension
from bailiwick.fronts.acp.adapter import FileSystemAdapter
from bailiwick.operations import ALL_ACCESS
from tests.fronts.acp.editors import Editor, desk
from tests.fronts.acp.wires import wires

pytestmark = pytest.mark.spec("ACP-2", "ACP-3")


def kind(answer):
    return answer["error"]["data"]["errorKind"]


async def ask(between, name, **given):
    return await between.agent.request(f"_bailiwick/{name}", {"sessionId": "s", **given})


async def test_a_directory_is_listed_page_by_page():
    limits = bailiwick.Limits(list_page_max=2)
    async with bailiwick.open("memory:", limits=limits) as scope, wires(scope) as between:
        await scope.write_text("d/.gitignore", "c\n", parents=True)
        for name in "abc":
            await scope.write_text(f"d/{name}", name)
        first = (await ask(between, "list", path="/d"))["result"]
        rest = (await ask(between, "list", path="/d", cursor=first["nextCursor"]))["result"]
    found = first["entries"] + rest["entries"]
    assert [entry["name"] for entry in found] == [".gitignore", "a", "b", "c"]
    assert found[1] == {
        "name": "a", "path": "/d/a", "kind": "file", "sizeBytes": 1, "ignored": False,
    }  # fmt: skip
    assert found[3]["ignored"] is True
    assert "nextCursor" not in rest


async def test_an_edit_is_only_made_onto_what_stands_there():
    async with wires() as between:
        await between.scope.write_text("a", "one one\n")
        twice = await ask(between, "edit", path="/a", oldText="one", newText="1")
        done = await ask(between, "edit", path="/a", oldText="one", newText="1", replaceAll=True)
        stale = await ask(
            between, "edit", path="/a", oldText="1", newText="2", replaceAll=True,
            expectedSha256="0" * 64,
        )  # fmt: skip
        assert (await between.scope.read_text("a")).text == "1 1\n"
    assert kind(twice) == "ambiguous_text_match"
    assert done["result"]["replacements"] == 2
    assert done["result"]["sha256"] == hashlib.sha256(b"1 1\n").hexdigest()
    assert kind(stale) == "hash_mismatch"


async def test_what_was_read_is_what_a_write_may_expect():
    async with wires() as between:
        await between.scope.write_text("a", "one\ntwo\n")
        got = (await between.read("/a"))["result"]
        window = (await between.read("/a", line=2, limit=1))["result"]
        known = got["_meta"]["bailiwick"]["sha256"]
        assert known == hashlib.sha256(b"one\ntwo\n").hexdigest()
        assert window["_meta"]["bailiwick"].get("sha256") in (None, known)
        given = {"sessionId": "s", "path": "/a", "content": "mine"}
        given["_meta"] = {"bailiwick": {"expectedSha256": known}, "other": 1}
        done = await between.agent.request("fs/write_text_file", given)
        late = await between.agent.request("fs/write_text_file", given)
        assert (await between.scope.read_text("a")).text == "mine"
    assert done["result"]["_meta"]["bailiwick"]["sha256"] == hashlib.sha256(b"mine").hexdigest()
    assert kind(late) == "hash_mismatch"


@pytest.mark.parametrize(
    "meta", [7, "x", [], {"expectedSha256": 7}, {"expectedSha256": ["0" * 64]},
             {"expectedSha256": "0"}, {"expectedSha256": ""}, {"expectedSha": "0" * 64},
             {"expected_sha256": "0" * 64}, {"expectedSha256": None, "": 0}],
)  # fmt: skip
async def test_a_condition_that_nobody_understands_is_no_write(meta):
    async with wires() as between:
        given = {"sessionId": "s", "path": "/a", "content": "x", "_meta": {"bailiwick": meta}}
        assert kind(await between.agent.request("fs/write_text_file", given)) == "parse_error"
        assert not await between.scope.exists("a")


async def test_a_condition_in_another_case_is_no_write_either():
    async with wires() as between:
        meta = {"Bailiwick": {"expectedSha256": "0" * 64}}
        given = {"sessionId": "s", "path": "/a", "content": "x", "_meta": meta}
        assert kind(await between.agent.request("fs/write_text_file", given)) == "parse_error"
        assert not await between.scope.exists("a")


@pytest.mark.parametrize(
    "meta", [None, 7, "x", [], {}, {"bailiwick": None}, {"bailiwick": {}}, {"other": {"a": 1}}]
)
async def test_what_others_say_in_passing_is_none_of_our_business(meta):
    async with wires() as between:
        given = {"sessionId": "s", "path": "/a", "content": "x", "_meta": meta}
        assert "result" in await between.agent.request("fs/write_text_file", given)


WRONG = [
    ("list", {}), ("list", {"path": 7}), ("list", {"path": "/", "cursor": 7}),
    ("list", {"path": "/", "cursor": "no cursor"}), ("list", {"path": ""}),
    ("edit", {"path": "/a"}), ("edit", {"path": "/a", "oldText": "x"}),
    ("edit", {"path": "/a", "oldText": "x", "newText": "y", "replaceAll": 1}),
    ("edit", {"path": "/a", "oldText": "x", "newText": "y", "expectedSha256": 1}),
    ("remove", {"path": "/a", "recursive": "yes"}), ("remove", {}), ("remove", {"path": None}),
    ("undo", {}), ("undo", {"requestId": ["x"]}), ("undo", {"requestId": "\ud800"}),
    ("edit", {"path": "/a", "oldText": "x", "newText": "y", "expectedSha": "0" * 64}),
    ("edit", {"path": "/a", "oldText": "x", "newText": "y",
              "_meta": {"bailiwick": {"expectedSha256": "0" * 64}}}),
    ("remove", {"path": "/a", "Recursive": True}), ("list", {"path": "/", "limit": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given"), WRONG)
async def test_arguments_that_make_no_sense(name, given):
    async with wires() as between:
        await between.scope.write_text("a", "x")
        answer = await ask(between, name, **given)
        assert (await between.scope.read_text("a")).text == "x"
    assert (answer["error"]["code"], kind(answer)) == (-32602, "parse_error")


@pytest.mark.parametrize("name", ["list", "edit", "remove", "undo"])
async def test_a_call_names_its_session(name):
    async with wires() as between:
        given = {"path": "/a", "oldText": "x", "newText": "y", "requestId": "r"}
        assert kind(await between.agent.request(f"_bailiwick/{name}", given)) == "parse_error"


async def test_paths_are_confined_as_ever():
    async with wires() as between:
        for name, more in (
            ("list", {}),
            ("remove", {}),
            ("edit", {"oldText": "a", "newText": "b"}),
        ):
            for path in ("/../x", "/a/../../x", "..", "/d/../.."):
                answer = await ask(between, name, path=path, **more)
                assert kind(answer) == "path_outside_workspace", (name, path)


async def test_what_we_do_not_know_is_not_for_the_editor_either():
    """An editor behind which another Bailiwick stands would serve it beside the scope."""
    async with wires() as between:
        answer = await ask(between, "chmod", path="/a")
        assert answer["error"]["code"] == -32601
        # Nobody waits for a notification, so nothing is done and nothing is passed on.
        await between.scope.write_text("a", "x")
        await between.agent.say(
            b'{"method":"_bailiwick/remove","params":{"sessionId":"s","path":"/a"}}\n'
        )
        hidden = b'{"method":"session/update","params":{}}\r{"id":9,"method":"_bailiwick/undo"}\n'
        await between.agent.say(hidden)
        assert (await between.agent.hear_json())["error"]["code"] == -32700
        await between.agent.say(b'{"method":"_other/thing"}\n')
        assert await between.editor.hear() == b'{"method":"_other/thing"}\n'
        assert await between.scope.exists("a")


async def test_a_removal_is_asked_about_as_what_it_is():
    async with wires() as between:
        await between.scope.write_text(".git/hooks/x", "x", parents=True)
        asked = {
            "id": 5, "method": "_bailiwick/remove",
            "params": {"sessionId": "s", "path": "/.git/hooks/x"},
        }  # fmt: skip
        await between.agent.say(json.dumps(asked).encode() + b"\n")
        question = await between.editor.hear_json()
        assert question["method"] == "session/request_permission"
        assert question["params"]["toolCall"]["kind"] == "delete"
        assert await between.scope.exists(".git/hooks/x")
        chosen = {"outcome": {"outcome": "selected", "optionId": "reject_once"}}
        await between.editor.say(
            json.dumps({"id": question["id"], "result": chosen}).encode() + b"\n"
        )
        assert kind(await between.agent.hear_json()) == "approval_denied"
        assert await between.scope.exists(".git/hooks/x")


def test_what_is_announced_follows_from_what_may_be_done():
    looking = {"read", "list", "metadata"}
    assert extension.served(ALL_ACCESS, ["history"], trusted=True) == list(extension.CALLS)
    assert extension.UNDO not in extension.served(ALL_ACCESS, [], trusted=True)
    assert extension.served(looking, ["history"], trusted=True) == [extension.LIST]
    assert extension.served(ALL_ACCESS, ["history"], trusted=False) == [extension.LIST]
    assert extension.served({"read"}, [], trusted=True) == []


async def test_a_directory_that_is_only_read_is_only_listed(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "a").write_text("x")
    options = ("--root", str(project), "--read-only")
    async with desk(tmp_path, *options, cwd=project) as at:
        told, listed, removed = await at.run(
            ["capabilities"],
            ["extension", "bailiwick/list", {"path": str(project)}],
            ["extension", "bailiwick/remove", {"path": f"{project}/a"}],
        )
    assert told["ok"]["fs"]["_meta"]["bailiwick"]["methods"] == ["_bailiwick/list"]
    assert [entry["path"] for entry in listed["ok"]["entries"]] == [f"{project}/a"]
    assert removed["data"]["errorKind"] == "missing_access"
    assert (project / "a").exists()


async def test_what_an_agent_does_in_a_directory_it_can_take_back(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "a").write_text("before")
    async with desk(tmp_path, "--root", str(project), cwd=project) as at:
        [wrote] = await at.run(["write", f"{project}/a", "after", {"bailiwick": {}}])
        request = wrote["ok"]["bailiwick"]["requestId"]
        [undone] = await at.run(["extension", "bailiwick/undo", {"requestId": request}])
    assert undone["ok"]["undone"] == [f"{project}/a"]
    assert (project / "a").read_text() == "before"


async def test_an_editor_with_an_extension_of_its_own_never_hears_of_ours(tmp_path):
    class Extended(Editor):
        def __init__(self):
            super().__init__()
            self.heard = []

        async def ext_method(self, method, params):
            self.heard.append(method)
            return {"own": True}

    project = tmp_path / "project"
    project.mkdir()
    async with desk(tmp_path, "--root", str(project), cwd=project, editor=Extended()) as at:
        ours, unknown, theirs = await at.run(
            ["extension", "bailiwick/list", {"path": str(project)}],
            ["extension", "bailiwick/anything", {}],
            ["extension", "vendor/thing", {}],
        )
        heard = at.editor.heard
    assert ours["ok"]["entries"] == []
    assert unknown["code"] == -32601
    assert theirs["ok"] == {"own": True}
    assert heard == ["vendor/thing"]


async def test_the_adapter_leaves_to_the_client_what_is_not_its_own():
    async with bailiwick.open("memory:") as scope:
        files = FileSystemAdapter(scope)
        told = ClientCapabilities(fs=files.capabilities).model_dump(by_alias=True)
        assert told["fs"]["_meta"]["bailiwick"]["methods"] == [
            extension.LIST, extension.EDIT, extension.REMOVE,
        ]  # fmt: skip
        for method in ("bailiwick/anything", "vendor/thing"):
            with pytest.raises(acp.RequestError) as refused:
                await files.ext_method(method, {"sessionId": "s"})
            assert refused.value.code == -32601
        for method, given in (
            ("bailiwick/list", {"path": "/"}),
            ("bailiwick/undo", {"sessionId": "s", "requestId": "\ud800"}),
        ):
            with pytest.raises(acp.RequestError) as refused:
                await files.ext_method(method, given)
            assert refused.value.data["errorKind"] == "parse_error"
        await files.aclose()
