"""A rule wants a person asked: by the client where it can, else by whoever looks at the console."""

import asyncio
import contextlib
from types import SimpleNamespace

import pytest
from mcp_types import ElicitResult

import bailiwick
from bailiwick.fronts.mcp import workspaces
from bailiwick.fronts.mcp.service import Service
from bailiwick.grant import User
from bailiwick.testing.front_contract import SUBJECT, story_house
from tests.fronts.mcp.clients import over_http, over_stdio, served, token_for, told
from tests.toolbox.support import toolbox
from tests.waiting import let_pass, until

BOTH = [("legacy", "stdio"), ("auto", "stdio"), ("legacy", "http"), ("auto", "http")]


class Person:
    """Who is asked, and says always the same."""

    def __init__(self, action, **content):
        self.answer = ElicitResult(action=action, content=content or None)
        self.asked = []

    async def __call__(self, context, params):
        self.asked.append(params)
        return self.answer


@contextlib.asynccontextmanager
async def client_of(house, way, mode, person, *options):
    handlers = {} if person is None else {"elicitation_callback": person}
    if way == "stdio":
        state = house.config.replace("bailiwick.toml", "state")
        async with over_stdio(
            "--config", house.config, *options, state=state, mode=mode, **handlers
        ) as client:
            yield client
        return
    secret = await token_for(house.authority, SUBJECT)
    async with (
        served(house.authority) as url,
        over_http(url, secret, mode=mode, **handlers) as client,
    ):
        yield client


GIVEN = {"path": "reviewed/a.txt", "content": "please\n"}


@pytest.mark.spec("MCP-2", "ASK-1")
@pytest.mark.parametrize(("mode", "way"), BOTH)
async def test_the_person_is_asked_by_the_client(tmp_path, mode, way):
    person = Person("accept", answer="once")
    async with story_house(str(tmp_path)) as house, client_of(house, way, mode, person) as client:
        assert told(await client.call_tool("write_file", GIVEN))["ok"]
        [asked] = person.asked
        assert "reviewed/a.txt" in asked.message
        assert "+please" in asked.message
        assert "this is looked at first" in asked.message
        answers = asked.requested_schema["properties"]["answer"]["enum"]
        assert answers == ["once", "grant", "always", "no"]
        # Once is once.
        again = {**GIVEN, "content": "again\n"}
        assert told(await client.call_tool("write_file", again))["ok"]
        assert len(person.asked) == 2
        [approval, *_] = house.authority.approvals.list().approvals
        assert (approval.answered_by, approval.state) == ("user:mcp", "used")


@pytest.mark.spec("MCP-2", "ASK-1")
@pytest.mark.parametrize(("mode", "way"), BOTH)
async def test_what_the_person_refuses_is_not_done(tmp_path, mode, way):
    async with story_house(str(tmp_path)) as house:
        for person in (Person("decline"), Person("accept", answer="no")):
            async with client_of(house, way, mode, person) as client:
                refused = told(await client.call_tool("write_file", GIVEN))
                assert refused["errorKind"] == "approval_denied"
                assert person.asked
                missing = told(await client.call_tool("read_file", {"path": GIVEN["path"]}))
                assert missing["errorKind"] == "path_not_found"
            if way == "http":
                return


@pytest.mark.spec("MCP-2", "ASK-1")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_an_answer_for_this_grant_is_remembered(tmp_path, mode):
    person = Person("accept", answer="grant")
    async with (
        story_house(str(tmp_path)) as house,
        client_of(house, "stdio", mode, person) as client,
    ):
        for content in ("one", "two"):
            given = {**GIVEN, "content": content}
            assert told(await client.call_tool("write_file", given))["ok"]
        assert len(person.asked) == 1


@pytest.mark.spec("MCP-2", "ASK-1")
@pytest.mark.parametrize(("mode", "way"), BOTH)
async def test_else_it_is_pending_in_the_console(tmp_path, mode, way):
    async with story_house(str(tmp_path)) as house, client_of(house, way, mode, None) as client:
        pending = told(await client.call_tool("write_file", GIVEN))
        assert pending["errorKind"] == "approval_pending"
        assert pending["approvalId"]
        assert await house.answer("once") == "this is looked at first"
        assert told(await client.call_tool("write_file", GIVEN))["ok"]


@pytest.mark.spec("MCP-2", "ASK-1")
@pytest.mark.parametrize(("mode", "way"), BOTH)
async def test_a_call_that_says_so_waits_for_the_console(tmp_path, mode, way):
    async with story_house(str(tmp_path)) as house, client_of(house, way, mode, None) as client:
        waits = {"bailiwick/wait": 30}
        call = asyncio.ensure_future(client.call_tool("write_file", GIVEN, meta=waits))
        assert await house.answer("once") == "this is looked at first"
        assert told(await call)["ok"]


@pytest.mark.spec("MCP-2", "ASK-1")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_every_call_waits_for_the_console_where_the_command_says_so(tmp_path, mode):
    waiting = "--wait", "10 min"
    async with (
        story_house(str(tmp_path)) as house,
        client_of(house, "stdio", mode, None, *waiting) as client,
    ):
        for answer, outcome in (("once", None), ("no", "approval_denied")):
            call = asyncio.ensure_future(client.call_tool("write_file", GIVEN))
            assert await house.answer(answer) == "this is looked at first"
            assert told(await call).get("errorKind") == outcome


@pytest.mark.spec("MCP-2")
@pytest.mark.parametrize(("mode", "way"), BOTH)
async def test_a_person_who_answers_nothing_leaves_it_to_the_console(tmp_path, mode, way):
    person = Person("cancel")
    async with story_house(str(tmp_path)) as house:
        async with client_of(house, way, mode, person) as client:
            # At once: the model is not held for a form that was put away.
            asked = asyncio.wait_for(client.call_tool("write_file", GIVEN), 20)
            pending = told(await asked)
            assert pending["errorKind"] == "approval_pending"
            assert pending["approvalId"]
            await house.answer("once")
            # Now the same call goes through, and nobody is asked any more.
            assert told(await client.call_tool("write_file", GIVEN))["ok"]
        assert len(person.asked) == 1


@pytest.mark.spec("MCP-2")
async def test_a_model_does_not_wait_forever(tmp_path, monkeypatch):
    monkeypatch.setattr(workspaces, "ASK_WAIT_SECONDS", 0.2)
    async with (
        story_house(str(tmp_path)) as house,
        client_of(house, "http", "auto", None) as client,
    ):
        pending = told(await client.call_tool("write_file", GIVEN, meta={"bailiwick/wait": 9}))
        assert pending["errorKind"] == "approval_pending"
        await house.answer("once")
        assert told(await client.call_tool("write_file", GIVEN))["ok"]


@pytest.mark.spec("MCP-2")
async def test_a_form_stays_for_as_long_as_calls_wait():
    async def elicit(form):
        await let_pass(0.3)
        return {"action": "accept", "content": {"answer": "once"}}

    async with bailiwick.open("memory:") as fs:
        await fs.write_text(".env", "KEY=1")
        box = toolbox(fs.with_caller("mcp", wait_s=0.05))
        client = SimpleNamespace(can_elicit=True, modern=False, elicit=elicit)
        for wait_s, is_done in ((60.0, True), (0.0, False)):
            service = Service({"workspace:one": box}, wait_s=wait_s)
            answer = await service.call_tool(client, "read_file", {"path": ".env"}, None)
            assert ("KEY=1" in str(answer)) is is_done


@pytest.mark.spec("MCP-2", "ASK-1")
async def test_an_answer_is_for_what_was_shown(tmp_path):
    """The file changes between the question and the answer: it is asked again, about that."""
    async with story_house(str(tmp_path)) as house:
        await _write(house, "first\n")

        class Slow(Person):
            async def __call__(self, context, params):
                if not self.asked:
                    await _write(house, "changed meanwhile\n")
                return await super().__call__(context, params)

        person = Slow("accept", answer="once")
        async with client_of(house, "stdio", "auto", person) as client:
            assert told(await client.call_tool("write_file", GIVEN))["ok"]
        assert ["-first" in each.message for each in person.asked] == [True, False]
        assert "-changed meanwhile" in person.asked[1].message


async def _write(house, text):
    scope = await house.authority.request_root(
        User("ann"), "workspace:story", {"write"}, "meanwhile"
    )
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(scope.aclose)
        writing = asyncio.ensure_future(scope.write_text(GIVEN["path"], text, parents=True))
        desk = house.authority.approvals
        asked = await until(
            lambda: [each for each in desk.pending() if each.question.subject == User("ann")]
        )
        await desk.answer(asked[0].id, "once", by="user:local", front="test")
        await writing
