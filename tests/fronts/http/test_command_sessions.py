"""Sessions and working copies over HTTP: open between requests, and found again after a restart."""

import asyncio
import json
import signal

import httpx
import pytest

from tests.fronts.http.serving import AGENT, check_error
from tests.fronts.http.test_commands import (
    ROOT,
    RUNNING,
    begun,
    followed,
    printed,
    put,
    ran,
    refused,
    served,
)
from tests.fronts.http.test_serve_command import client as client_of
from tests.fronts.http.test_serve_command import process
from tests.processes import children_of, is_gone
from tests.waiting import until, until_blocking

pytestmark = [pytest.mark.spec("EXEC-10"), pytest.mark.usefixtures("needs_bubblewrap")]


async def opened(client, **body):
    got = await client.post("/sessions", json=body)
    assert got.status_code == 201, got.text
    return got.json()["id"]


async def refused_line(client, id, kind):
    """What a command is told of ends with an error: its output was given up."""
    last = (await followed(client, id)).last
    check_error(last["error"]["status"], last["error"], kind)


def changed(document):
    return {(each["path"], each["kind"]) for each in document["changes"]}


@pytest.mark.spec("EXEC-3")
async def test_commands_build_on_each_other_until_it_is_published(tmp_path):
    async with served(tmp_path) as house:
        client = house.client()
        (house.place / "a.txt").write_text("one\n")
        id = await opened(client, env={"LANG": "C"})
        at = f"/sessions/{id}"
        await ran(client, f"{at}/exec", shell="echo two > a.txt; mkdir d; echo x > d/f")
        told = await ran(client, f"{at}/exec", shell="cat a.txt; pwd; echo $LANG", cwd="d")
        assert told.said.splitlines()[0] != b"one"
        assert told.said.endswith(b"/d\nC\n")
        assert told.exec["session"] == id
        assert (house.place / "a.txt").read_text() == "one\n"
        found = (await client.get(f"{at}/changes")).json()
        assert changed(found) == {("a.txt", "updated"), ("d", "created"), ("d/f", "created")}
        assert "-one\n+two\n" in (await client.get(f"{at}/diff?path=a.txt")).json()["text"]
        got = await client.post(at, json={"cwd": "d", "env": {"LANG": "D"}})
        assert (got.json()["cwd"], got.json()["env"]) == ("d", {"LANG": "D"})
        assert (await ran(client, f"{at}/exec", shell="cat f; echo $LANG")).said == b"x\nD\n"
        gone = (await client.post(f"{at}/discard", json={"paths": ["d"]})).json()
        assert "d" in gone["discarded"]
        published = (await client.post(f"{at}/publish", json={})).json()
        assert changed(published) == {("a.txt", "updated")}
        assert (house.place / "a.txt").read_text() == "two\n"
        assert [each["id"] for each in (await client.get("/sessions")).json()["sessions"]] == [id]
        assert (await client.delete(at)).json() == {"kind": "session_closed", "id": id}
        for answer in (client.get(at), client.delete(at), client.get(f"{at}/changes")):
            await refused(answer, 404, "path_not_found")
        assert (await client.get("/work")).json()["work"] == []


@pytest.mark.spec("EXEC-3")
async def test_what_runs_holds_up_publishing_and_a_terminal_has_a_size(tmp_path):
    async with served(tmp_path) as house:
        client = house.client()
        id = await opened(client)
        at = f"/sessions/{id}"
        size = {"rows": 31, "columns": 97}
        running = await begun(
            client, f"{at}/exec", shell="stty size; echo x > f; read go; stty size; read go",
            terminal=size, timeout=600,
        )  # fmt: skip
        await printed(client, running, "31 97")
        assert (await client.get(at)).json()["running"] == [running]
        await refused(client.post(f"{at}/publish", json={}), 503, "busy")
        await client.post(f"/exec/{running}/resize", json={"rows": 5, "columns": 6})
        await put(client, running, b"go\n")
        await printed(client, running, "5 6", since=1)
        for wrong in ({"rows": 0, "columns": 1}, {"rows": 1}, {"rows": "1", "columns": 1}):
            await refused(client.post(f"/exec/{running}/resize", json=wrong), 400, "parse_error")
        assert (await client.delete(at)).status_code == 200
        await refused_line(client, running, "closed")
        assert (await followed(client, running, 2**63 - 1)).result["signal"] == 9
        (left,) = (await client.get("/work")).json()["work"]
        assert left["id"] == id
        found = (await client.get(f"/work/{id}")).json()
        assert changed(found) == {("f", "created")}
        again = (await client.post(f"/sessions/{id}/open", json={})).json()
        assert again["id"] == id
        assert [each.startswith("/bin/sh -c") for each in again["lost"]] == [True]
        await refused(client.get(f"/work/{id}"), 503, "busy")


@pytest.mark.spec("EXEC-8")
async def test_working_copies_are_looked_at_applied_and_given_up(tmp_path):
    async with served(tmp_path) as house:
        client = house.client()
        script = "mkdir d; echo 1 > d/a; echo 2 > b; echo 3 > c"
        id = (await ran(client, shell=script, publish="manual")).result["workId"]
        (listed,) = (await client.get("/work")).json()["work"]
        assert (listed["id"], listed["command"][-1]) == (id, script)
        assert "+2\n" in (await client.get(f"/work/{id}/diff?path=b")).json()["text"]
        await refused(client.get(f"/work/{id}/diff?path=none"), 404, "path_not_found")
        for verb in ("apply", "discard"):
            for paths in (["none"], ["d", "none"]):
                asked = client.post(f"/work/{id}/{verb}", json={"paths": paths})
                await refused(asked, 404, "path_not_found")
        assert len((await client.get(f"/work/{id}")).json()["changes"]) == 4
        assert not (house.place / "d").exists()
        applied = await client.post(f"/work/{id}/apply", json={"paths": ["d"]})
        assert changed(applied.json()) == {("d", "created"), ("d/a", "created")}
        assert (house.place / "d" / "a").read_text() == "1\n"
        (house.place / "b").write_text("person\n")
        published = (await client.post(f"/work/{id}/apply", json={"publish": "partial"})).json()
        assert [each["path"] for each in published["conflicts"]] == ["b"]
        assert changed(published) == {("c", "created")}
        assert (house.place / "b").read_text() == "person\n"
        gone = (await client.post(f"/work/{id}/discard", json={})).json()
        assert gone["discarded"] == ["b"]
        for wrong in (id, "w0000000000", "..%2f..", "%00", "x" * 4_000):
            await refused(client.get(f"/work/{wrong}"), 404, "path_not_found")
            await refused(client.post(f"/work/{wrong}/apply", json={}), 404, "path_not_found")


@pytest.mark.spec("AUTH-5")
async def test_a_session_of_another_is_as_one_that_is_not_there(tmp_path):
    async with served(tmp_path) as house:
        agent = await house.agent(*RUNNING)
        other = await house.agent(*RUNNING, subject="agent_run:c1/other")
        person = house.client()
        id = await opened(agent, env={"KEY": "secret"})
        for wrong in ({"env": {"A B": "c"}}, {"env": {"A": "x" * 200_000}}, {"cwd": "x" * 200_000}):
            await refused(agent.post("/sessions", json=wrong), 400, "parse_error")
            await refused(agent.post(f"/sessions/{id}", json=wrong), 400, "parse_error")
        for path in ("/sessions", f"/sessions/{id}"):
            outside = agent.post(path, json={"cwd": "../.."})
            await refused(outside, 400, "path_outside_workspace")
        await ran(agent, f"/sessions/{id}/exec", shell="echo x > f")
        at, run = f"/sessions/{id}", {"argv": ["true"]}
        for who, status, kind in (
            (other, 404, "path_not_found"), (person, 403, "missing_access"),
        ):  # fmt: skip
            for answer in (
                who.post(at, json={}), who.post(f"{at}/exec", json=run),
                who.get(f"{at}/changes"), who.get(f"{at}/diff?path=f"),
                who.post(f"{at}/publish", json={}), who.post(f"{at}/discard", json={}),
            ):  # fmt: skip
                await refused(answer, status, kind)
        await refused(other.post(f"{at}/open", json={}), 404, "path_not_found")
        await refused(person.post(f"{at}/open", json={}), 503, "busy")
        await refused(other.get(at), 404, "path_not_found")
        await refused(other.delete(at), 404, "path_not_found")
        await refused(other.get(f"/work/{id}"), 404, "path_not_found")
        assert (await other.get("/sessions")).json()["sessions"] == []
        # A person sees it and can end it; what was changed in it they bring back in their own name.
        shown = await person.get(at)
        assert shown.json()["subject"] == AGENT
        assert "secret" not in shown.text + (await person.get("/sessions")).text
        assert (await agent.get(at)).json()["env"] == {"KEY": "secret"}
        assert (await person.delete(at)).status_code == 200
        applied = await person.post(f"/work/{id}/apply", json={})
        assert changed(applied.json()) == {("f", "created")}


async def test_what_has_to_be_asked_is_asked_as_for_any_verb(tmp_path):
    rules = ROOT + (
        '[[rule]]\nid = "look"\npath = ["asked"]\naccess = ["write"]\neffect = "ask"\n'
        'reason = "kept"\n'
    )
    async with served(tmp_path, rules, ask_wait_s=0.05) as house:
        agent, person = await house.agent(*RUNNING), house.client()

        async def approved(path, body):
            got = await agent.post(path, json=body)
            assert got.status_code == 202, got.text
            approval = got.json()["approvalId"]
            shown = (await person.get(f"/approvals/{approval}")).json()
            answered = await person.post(f"/approvals/{approval}", json={"answer": "once"})
            assert answered.status_code == 200
            return shown, {**body, "approval": approval}

        shown, again = await approved("/exec", {"shell": "echo x > asked"})
        assert "echo x > asked" in shown["arguments"]
        told = await ran(agent, **again)
        # What it changed is another question, and nobody has answered that one yet.
        (withheld,) = told.result["withheld"]
        assert (withheld["path"], withheld["errorKind"]) == ("asked", "approval_timeout")
        await refused(agent.post("/exec", json=again), 403, "approval_denied")  # it was used
        work = f"/work/{told.result['workId']}/apply"
        shown, again = await approved(work, {})
        assert "+x" in shown["diff"]
        assert changed((await agent.post(work, json=again)).json()) == {("asked", "created")}
        id = await opened(agent)
        at = f"/sessions/{id}"
        _, again = await approved(f"{at}/exec", {"shell": "echo y > asked"})
        await ran(agent, f"{at}/exec", **again)
        _, again = await approved(f"{at}/publish", {"publish": "atomic"})
        assert changed((await agent.post(f"{at}/publish", json=again)).json()) == {
            ("asked", "updated")
        }
        assert (house.place / "asked").read_text() == "y\n"


@pytest.mark.slow
@pytest.mark.spec("EXEC-5", "EXEC-3")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["term", "kill"])
def test_a_server_that_ends_leaves_no_process_and_its_sessions_are_found_again(tmp_path, how):
    (tmp_path / "tree").mkdir()
    run = {"shell": "echo x > f; echo begun; exec sleep 1234", "timeout": 3600}
    with process(tmp_path, "tree", code=-how if how == signal.SIGKILL else 0) as (server, told):
        with client_of(told) as person:
            id = person.post("/sessions", json={"env": {"A": "b"}}).json()["id"]
            with person.stream("POST", f"/sessions/{id}/exec", json=run) as answer:
                assert any("begun" in line for line in answer.iter_lines())
            alone = person.post("/exec", json={"argv": ["sleep", "1234"], "detach": True})
            assert alone.status_code == 200
        started = all_below(server.pid)
        assert started
        server.send_signal(how)
        server.wait(60)
        until_blocking(lambda: all(map(is_gone, started)))
    with process(tmp_path, "tree") as (_, told), client_of(told) as person:
        assert person.get("/sessions").json()["sessions"] == []
        assert person.get(f"/sessions/{id}").status_code == 404
        assert person.get(f"/exec/{json.loads(alone.text)['exec']['id']}").status_code == 404
        again = person.post(f"/sessions/{id}/open", json={}).json()
        assert again["env"] == {"A": "b"}
        if how == signal.SIGKILL:
            assert [each.endswith("sleep 1234'") for each in again["lost"]] == [True]
        found = person.get(f"/sessions/{id}/changes").json()
        assert changed(found) == {("f", "created")}
        assert changed(person.post(f"/sessions/{id}/publish", json={}).json()) == changed(found)
    assert (tmp_path / "tree" / "f").read_text() == "x\n"


def all_below(pid):
    below = children_of(pid)
    return [*below, *(each for child in below for each in all_below(child))]


async def test_several_workers_run_no_commands_and_say_so(tmp_path):
    async with served(tmp_path, workers=2) as house:
        client = house.client()
        await refused(client.post("/exec", json={"argv": ["true"]}), 501, "unsupported")
        await refused(client.post("/sessions", json={}), 501, "unsupported")
        assert (await client.get("/work")).json()["work"] == []


async def test_a_token_that_is_taken_back_takes_its_session_along(tmp_path):
    async with served(tmp_path) as house:
        agent = await house.agent(*RUNNING)
        id = await opened(agent)
        running = await begun(agent, f"/sessions/{id}/exec", shell="echo x > f; echo b; sleep 1000",
                              timeout=3600)  # fmt: skip
        await printed(agent, running, "b")
        await house.authority.tokens.revoke(AGENT.replace("/", "."), by="user:local", front="test")
        got = await agent.get(f"/sessions/{id}")
        check_error(401, got.json(), "unauthenticated")
        await until(lambda: not house.app.executions._sessions)
        again = await house.agent()
        await until(lambda: asyncio.ensure_future(opens(again, id)))
        assert changed((await again.get(f"/sessions/{id}/changes")).json()) == {("f", "created")}


async def opens(client: httpx.AsyncClient, id):
    """Whether it could be opened: it is closing, or has closed."""
    return (await client.post(f"/sessions/{id}/open", json={})).status_code == 200
