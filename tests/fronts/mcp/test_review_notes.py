"""What a person took back is told to the agent with its next result."""

import json

import pytest

from bailiwick.build.governed import Authority
from bailiwick.fronts.mcp.conversation import Conversation
from bailiwick.fronts.mcp.service import server_info
from bailiwick.fronts.mcp.workspaces import WantedService, open_service
from bailiwick.grant import User
from tests.fronts.mcp.test_run_names import HELLO, called
from tests.waiting import until

ACCESS = ("read", "write", "list", "delete", "metadata")


@pytest.mark.spec("REVIEW-3")
async def test_the_next_result_says_what_was_taken_back(tmp_path):
    async with Authority.open() as authority:
        await authority.add_root("workspace:w", f"sqlite:{tmp_path}/v.db", trusted=True)
        wanted = WantedService(User("local"), "s1")
        async with open_service(authority, wanted) as service:
            sent = []
            talk = Conversation(service, sent.append, server_info())
            first = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}
            talk.receive(json.dumps(first).encode())
            talk.receive(called(1, "1.txt"))
            await until(lambda: len(sent) > 1)
            person = await authority.request_root(User("local"), "workspace:w", ACCESS, "look")
            (file,) = (await person.review.queue()).files
            await person.review.reject(file.hunks[0].id, note="not needed")
            for number in (2, 3):
                talk.receive(called(number, f"{number}.txt"))
                await until(lambda number=number: len(sent) > number)
            await talk.aclose()
    second, third = (json.loads(each)["result"] for each in sent[2:4])
    told = {"path": "1.txt", "lines": ["+x"], "note": "not needed"}
    assert second["_meta"] == {"bailiwick/review": [told]}
    assert "took back what you changed in 1.txt: not needed" in json.dumps(second["content"]) or (
        second["structuredContent"]["review"] == [told]
    )
    assert "_meta" not in third
    assert "review" not in third.get("structuredContent", {})
