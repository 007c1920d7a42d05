"""A client names its run in the ``_meta`` of a call, and people see that name."""

import json

import pytest

from bailiwick.build.governed import Authority
from bailiwick.fronts.mcp.conversation import Conversation
from bailiwick.fronts.mcp.service import server_info
from bailiwick.fronts.mcp.workspaces import WantedService, open_service
from bailiwick.grant import User
from tests.waiting import until

HELLO = {
    "protocolVersion": "2025-06-18", "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}  # fmt: skip


def called(number, path, meta=None):
    arguments = {"path": path, "content": "x\n"}
    params = {"name": "write_file", "arguments": arguments}
    if meta is not None:
        params["_meta"] = meta
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    return json.dumps(message).encode()


@pytest.mark.spec("RUN-1")
async def test_a_run_is_named_in_meta_until_it_says_otherwise(tmp_path):
    async with Authority.open() as authority:
        await authority.add_root("workspace:w", f"sqlite:{tmp_path}/v.db", trusted=True)
        wanted = WantedService(User("local"), "s1")
        async with open_service(authority, wanted) as service:
            sent = []
            talk = Conversation(service, sent.append, server_info())
            first = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}
            talk.receive(json.dumps(first).encode())
            named = {"bailiwick/run": {"title": "Tidy up", "step": "one"}}
            for number, meta in enumerate((named, None, {"bailiwick/run": {"step": "two"}}), 1):
                talk.receive(called(number, f"{number}.txt", meta))
                await until(lambda number=number: len(sent) > number)
            talk.receive(called(4, "4.txt", {"bailiwick/run": {"title": "two\nlines"}}))
            await until(lambda: len(sent) > 4)
            await talk.aclose()
            person = await authority.request_root(User("local"), "workspace:w", ["read"], "look")
            (run,) = await person.runs()
        assert (run.title, run.front, run.subject) == ("Tidy up", "mcp", "agent_run:mcp/s1")
        assert [(each.name, each.calls) for each in run.steps] == [("one", 2), ("two", 1)]
        assert run.created == 3
