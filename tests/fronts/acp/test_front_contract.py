"""The story that every front tells, told by a real agent: to a client with the adapter, and through
the proxy, each with its person at the editor or at the console."""

import asyncio
import contextlib
from pathlib import Path

import acp
import pytest
from acp.schema import AllowedOutcome

from bailiwick.errors import KINDS
from bailiwick.fronts.acp import extension
from bailiwick.testing.front_contract import (
    CASES,
    ROOT,
    SUBJECT,
    StoryHouse,
    Wrote,
    story_house,
)
from tests.fronts.acp.editors import Editor, desk
from tests.fronts.acp.test_adapter import ScopedEditor, agent_of
from tests.fronts.test_front_contract import ACCESS

pytestmark = pytest.mark.spec("ERR-4", "ACP-1", "ACP-2", "ACP-3")

HERE = "/editor/works/here"

BEYOND = {
    "names": extension.LIST,
    "edit": extension.EDIT,
    "remove": extension.REMOVE,
    "undo": extension.UNDO,
}
"""The steps of the story for which the protocol has no method, and the method that was added for
each. The other two, and the condition of a write, go by the protocol's own calls."""

LONG = 64 * 1024


class AcpFront:
    """What an agent does with files, as steps of its script."""

    def __init__(self, run, top):
        self._run = run
        self._top = top

    def _at(self, path):
        return f"{self._top}/{path}"

    async def _do(self, *step):
        [got] = await self._run(step)
        if "ok" in got:
            return got["ok"]
        assert got["code"] == -32602 if got["data"]["errorKind"] == "parse_error" else -32603
        data = got["data"]
        error = KINDS[data["errorKind"]](
            got["message"], path=data.get("path"), decided_by=data.get("decidedBy")
        )
        assert (error.retryable, error.category) == (data["retryable"], data["category"])
        raise error

    async def _extended(self, step, **given):
        return await self._do("extension", BEYOND[step].removeprefix("_"), given)

    async def write(self, path, text, *, expected_sha256=None):
        asked = {} if expected_sha256 is None else {"expectedSha256": expected_sha256}
        meta = {"bailiwick": asked}
        if len(text) > LONG:
            assert set(text) == {text[0]}
            done = await self._do("write_long", self._at(path), text[0], len(text), meta)
        else:
            done = await self._do("write", self._at(path), text, meta)
        return Wrote(done["bailiwick"]["sha256"], done["bailiwick"]["requestId"])

    async def read(self, path):
        return await self._do("read", self._at(path))

    async def names(self, path):
        entries = (await self._extended("names", path=self._at(path)))["entries"]
        assert [entry["path"] for entry in entries] == [
            f"{self._at(path)}/{entry['name']}" for entry in entries
        ]
        return [entry["name"] for entry in entries]

    async def edit(self, path, old, new):
        await self._extended("edit", path=self._at(path), oldText=old, newText=new)

    async def remove(self, path):
        await self._extended("remove", path=self._at(path))

    async def undo(self, request_id):
        undone = (await self._extended("undo", requestId=request_id))["undone"]
        return [path.removeprefix(f"{self._top}/") for path in undone]


class Answering:
    """The person at the editor, who answers when the story says so."""

    def __init__(self, *given, **options):
        super().__init__(*given, **options)
        self.asked = asyncio.Queue()
        self.said = asyncio.Queue()

    async def request_permission(self, options, session_id, tool_call, **more):
        await self.asked.put(tool_call)
        chosen = {"once": "allow_once", "no": "reject_once"}[await self.said.get()]
        return acp.RequestPermissionResponse(
            outcome=AllowedOutcome(outcome="selected", option_id=chosen)
        )


class AnsweringEditor(Answering, Editor):
    pass


class AnsweringScopedEditor(Answering, ScopedEditor):
    pass


class AtTheEditor(StoryHouse, frozen=True):
    """The house, whose questions are answered in the editor."""

    editor: object

    async def answer(self, answer):
        call = await self.editor.asked.get()
        await self.editor.said.put(answer)
        return call.title


@contextlib.asynccontextmanager
async def by_the_adapter(house, person):
    scope = await house.authority.request_root(SUBJECT, ROOT, ACCESS, "the story")
    top = scope.root.mount_point.rstrip("/")
    asks = person == "editor"
    editor = AnsweringScopedEditor(scope) if asks else ScopedEditor(scope, asks=False)
    try:
        async with agent_of(editor) as run:
            yield AcpFront(run, top), editor
    finally:
        await editor.adapter.aclose()
        await scope.aclose()


@contextlib.asynccontextmanager
async def by_the_proxy(house, person):
    """The command itself, between a plain editor and a plain agent. An editor that cannot ask
    leaves the question to whoever looks at the console."""
    editor = AnsweringEditor() if person == "editor" else Editor(answer=None)
    state = house.config.replace("bailiwick.toml", "state")
    options = ("--config", house.config, "--state", state)
    async with desk(Path(house.config).parent, *options, cwd=HERE, editor=editor) as at:
        yield AcpFront(at.run, HERE), editor
    assert editor.file_calls == []


FRONTS = {"adapter": by_the_adapter, "proxy": by_the_proxy}


@pytest.mark.parametrize("person", ["editor", "console"])
@pytest.mark.parametrize("front", FRONTS)
async def test_an_agent_tells_the_same_story(tmp_path, front, person):
    """The whole of it to one agent, as a process is started for each."""
    async with (
        story_house(str(tmp_path)) as house,
        FRONTS[front](house, person) as (driver, editor),
    ):
        if person == "editor":
            house = AtTheEditor(house.authority, house.config, editor)
        for case in CASES:
            await case(driver, house)
        records = await house.authority.ledger.tail(100)
        assert "acp" in {record.front for record in records}


# --- which steps are the protocol's --------------------------------------------------------------


async def test_the_protocol_itself_has_no_method_for_the_steps_beyond_it(tmp_path):
    """A plain editor, without Bailiwick anywhere, answers each of them as unknown; so it does for
    the names that the protocol would give them."""
    editor = Editor()
    async with agent_of(editor) as run:
        for method in BEYOND.values():
            [got] = await run(["extension", method.removeprefix("_"), {"path": "/a"}])
            assert got["code"] == -32601
        [read] = await run(["read", "/a"])
    assert read == {"ok": "of the editor itself"}
    own = set(acp.CLIENT_METHODS.values())
    assert {method for method in own if method.startswith("fs/")} == {
        "fs/read_text_file", "fs/write_text_file",
    }  # fmt: skip


@pytest.mark.parametrize("front", FRONTS)
async def test_the_steps_beyond_it_are_announced(tmp_path, front):
    async with story_house(str(tmp_path)) as house, FRONTS[front](house, "editor") as (driver, _):
        told = await driver._do("capabilities")
    assert told["fs"]["readTextFile"] is told["fs"]["writeTextFile"] is True
    assert set(told["fs"]["_meta"]["bailiwick"]["methods"]) == set(BEYOND.values())
