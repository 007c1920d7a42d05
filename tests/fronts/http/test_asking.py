"""A person in between: 202, the approval, and the same request again."""

import asyncio

import pytest

from tests.fronts.http.serving import AGENT, check_error, serving
from tests.waiting import until

ASKS = """
[[root]]
id = "demo"
kind = "workspace"
path = "{place}"
trusted = true

[[grant]]
subject = "agent_run:*"
root = "workspace:demo"
access = ["read", "list", "metadata", "write", "delete", "move"]

[[rule]]
id = "migrations"
subject = "agent_run:*"
operation = ["write"]
path = ["migrations/**"]
effect = "ask"
reason = "migrations are reviewed"
"""


def config(tmp_path):
    (tmp_path / "tree").mkdir()
    return ASKS.format(place=tmp_path / "tree")


BODY = {"path": "migrations/1.sql", "content": "create table t (x);\n", "parents": True}


async def waiting(person):
    async def asked():
        return (await person.get("/approvals")).json()["approvals"]

    return (await until(asked))[0]


@pytest.mark.spec("ASK-2", "HTTP-4")
async def test_a_call_that_must_wait_is_told_to_come_back(tmp_path):
    async with serving(tmp_path, config=config(tmp_path), ask_wait_s=0.05) as house:
        person, agent = house.client(), await house.agent()
        got = await agent.post("/file/write", json=BODY)
        pending = got.json()
        assert got.status_code == 202
        assert pending.keys() == {"kind", "approvalId", "expiresAt", "requestId"}
        assert (pending["kind"], pending["expiresAt"][-1]) == ("approval_pending", "Z")
        assert not (house.place / "migrations").exists()
        shown = (await person.get(f"/approvals/{pending['approvalId']}")).json()
        assert shown["subject"] == AGENT
        assert "+create table" in shown["diff"]
        assert shown["decidedBy"] == ["migrations"]
        # Not yet: the same request, with the approval, is still pending.
        again = await agent.post("/file/write", json={**BODY, "approval": pending["approvalId"]})
        assert again.status_code == 202
        # An agent answers no question, not even its own, but may look at it.
        path = f"/approvals/{pending['approvalId']}"
        assert (await agent.get(path)).status_code == 200
        own = await agent.post(path, json={"answer": "once"})
        check_error(own.status_code, own.json(), "missing_access")
        answered = await person.post(path, json={"answer": "once"})
        assert answered.json()["state"] == "granted"
        # Other bytes are another question: the approval is bound to what was seen.
        other = {**BODY, "content": "drop table t;\n", "approval": pending["approvalId"]}
        refused = await agent.post("/file/write", json=other)
        check_error(refused.status_code, refused.json(), "approval_denied")
        done = await agent.post("/file/write", json={**BODY, "approval": pending["approvalId"]})
        assert done.status_code == 201
        assert (house.place / "migrations/1.sql").read_text() == BODY["content"]
        used = await agent.post(
            "/file/write", json={**BODY, "mode": "overwrite", "approval": pending["approvalId"]}
        )
        check_error(used.status_code, used.json(), "approval_denied")


@pytest.mark.spec("ASK-2")
async def test_a_call_goes_on_when_it_is_answered_in_time(tmp_path):
    async with serving(tmp_path, config=config(tmp_path)) as house:
        person, agent = house.client(), await house.agent()
        call = asyncio.create_task(agent.post("/file/write", json=BODY))
        question = await waiting(person)
        await person.post(f"/approvals/{question['id']}", json={"answer": "once"})
        assert (await call).status_code == 201
        call = asyncio.create_task(agent.post("/file/write", json=BODY | {"content": "x"}))
        question = await waiting(person)
        await person.post(f"/approvals/{question['id']}", json={"answer": "no"})
        refused = await call
        check_error(refused.status_code, refused.json(), "approval_denied")
        assert refused.json()["decidedBy"] == "migrations (user:local)"


@pytest.mark.spec("ASK-2", "POL-3")
async def test_reading_asks_too_and_raw_routes_take_the_approval_in_the_query(tmp_path):
    async with serving(tmp_path, config=config(tmp_path), ask_wait_s=0.05) as house:
        (house.place / ".env").write_text("SECRET=1")
        person, agent = house.client(), await house.agent()
        for route, method in (("/file", "GET"), ("/file/raw", "GET")):
            got = await agent.request(method, f"{route}?path=.env")
            assert got.status_code == 202
            approval = got.json()["approvalId"]
            await person.post(f"/approvals/{approval}", json={"answer": "once"})
            again = await agent.request(method, f"{route}?path=.env&approval={approval}")
            assert again.status_code == 200
            assert "SECRET" in again.text


@pytest.mark.spec("ASK-1", "HTTP-7")
async def test_who_waits_for_a_person_does_not_hold_up_a_server_that_stops(tmp_path):
    async with serving(tmp_path, config=config(tmp_path)) as house:
        agent = await house.agent()
        call = asyncio.create_task(agent.post("/file/write", json=BODY))
        await waiting(house.client())
        house.server.stop()
        answer = await asyncio.wait_for(call, 120)
        check_error(answer.status_code, answer.json(), "closed")


@pytest.mark.spec("ASK-1", "ASK-2", "AUDIT-1")
async def test_whoever_asks_learns_nothing_by_their_own_question(tmp_path):
    """A change of a file that must not be read unasked: the person sees what it holds, by the diff
    and the hash of what would be replaced; the agent, who may look at its question, does not."""
    rule = '[[rule]]\nid = "kept"\nsubject = "agent_run:*"\npath = ["kept/**"]\neffect = "ask"\n'
    async with serving(tmp_path, config=config(tmp_path) + rule, ask_wait_s=0.05) as house:
        person, agent = house.client(), await house.agent()
        secret = {"path": "kept/k", "content": "TOPSECRET\n", "parents": True}
        assert (await person.post("/file/write", json=secret)).status_code == 201
        pending = await agent.post("/file/write", json={"path": "kept/k", "content": ""})
        assert pending.status_code == 202
        route = f"/approvals/{pending.json()['approvalId']}"
        seen = (await person.get(route)).json()
        assert "-TOPSECRET" in seen["diff"]
        assert seen["hashBefore"] is not None
        for own in (await agent.get(route), await agent.get("/approvals")):
            assert own.status_code == 200
            assert "TOPSECRET" not in own.text
            assert seen["hashBefore"] not in own.text
        # And when it was allowed to write there, but not to read, the ledger does not tell either.
        await person.post(route, json={"answer": "once"})
        body = {"path": "kept/k", "content": "", "approval": pending.json()["approvalId"]}
        assert (await agent.post("/file/write", json=body)).status_code == 200
        written = {"verb": "write_text", "outcome": "success"}
        (told,) = (await agent.get("/audit", params=written)).json()["records"]
        assert (told["hashBefore"], told["hashAfter"]) == (None, None)
        records = (await person.get("/audit", params=written)).json()["records"]
        assert seen["hashBefore"] in {each["hashBefore"] for each in records}


UNGRANTED = """
[ask]
surface = "console"
roots = true

[[root]]
id = "demo"
kind = "workspace"
memory = true
trusted = true
"""


@pytest.mark.spec("NOTE-3", "HTTP-4")
async def test_a_root_that_nobody_granted_is_asked_for_and_used_when_it_is_granted(tmp_path):
    async with serving(tmp_path, config=UNGRANTED, ask_wait_s=0.05) as house:
        person, agent = house.client(), await house.agent()
        route = "/roots/workspace/demo/file/write"
        body = {"path": "a.txt", "content": "a\n"}
        first = await agent.post(route, json=body)
        assert (first.status_code, first.json()["kind"]) == (202, "approval_pending")
        asked = await waiting(person)
        assert (asked["subject"], asked["root"], asked["operation"], asked["verb"]) == (
            AGENT, "workspace:demo", "grant", "request_root",
        )  # fmt: skip
        assert asked["arguments"] == "list, metadata, read, write, for 1 h"
        for lasting in ("always", "grant"):
            refused = await person.post(f"/approvals/{asked['id']}", json={"answer": lasting})
            assert (refused.status_code, refused.json()["errorKind"]) == (400, "parse_error")
        denied = await agent.post(f"/approvals/{asked['id']}", json={"answer": "once"})
        assert denied.status_code in (403, 404)
        given = await person.post(f"/approvals/{asked['id']}", json={"answer": "once"})
        assert given.json()["state"] == "granted"
        assert (await agent.post(route, json=body)).status_code == 201
        assert (await agent.get("/roots/workspace/demo/file?path=a.txt")).json()["content"] == "a\n"
        more = await agent.post("/roots/workspace/demo/remove", json={"path": "a.txt"})
        assert (more.status_code, more.json()["errorKind"]) == (403, "missing_access")
        grants = (await person.get("/grants")).json()["grants"]
        (standing,) = [each for each in grants if each["subject"] == AGENT and not each["parent"]]
        assert standing["expiresMs"] is not None


@pytest.mark.spec("NOTE-3")
async def test_over_http_a_root_that_is_not_there_is_asked_for_in_the_same_words(tmp_path):
    async with serving(tmp_path, config=UNGRANTED, ask_wait_s=0.05) as house:
        heard = []
        for name in ("demo", "none"):
            agent = await house.agent(subject=f"agent_run:chat/{name}")
            for route in ("file?path=a", "entries?path=.", "file?path=a"):
                answer = await agent.get(f"/roots/workspace/{name}/{route}")
                told = answer.json()
                for key in ("requestId", "approvalId", "expiresMs", "expiresAt", "hint"):
                    told.pop(key, None)
                heard.append((name, answer.status_code, str(told).replace(name, "NAME")))
        assert [each[1:] for each in heard[:3]] == [each[1:] for each in heard[3:]]
        assert heard[0][1] == 202
