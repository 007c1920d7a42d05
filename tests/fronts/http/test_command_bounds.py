"""Commands over HTTP under attack: crowds, slow readers, grants and tokens that end meanwhile."""

import asyncio
import json
import resource
from random import Random

import httpx
import pytest

from bailiwick.commands import SLOTS
from bailiwick.fronts.http.access import executions, streams
from bailiwick.grant import User
from tests.fronts.http.serving import AGENT, check_error
from tests.fronts.http.test_commands import (
    ALLOWED,
    RUNNING,
    begun,
    followed,
    lines_of,
    printed,
    put,
    ran,
    refused,
    served,
)
from tests.waiting import until

pytestmark = [pytest.mark.spec("EXEC-10"), pytest.mark.usefixtures("needs_bubblewrap")]


FEW = ALLOWED.replace(
    'durability = "rename"',
    'durability = "rename"\nlimits = { exec_per_subject_max = 3, exec_kept_max = 4,'
    " exec_kept_seconds = 600.0 }",
)
QUICK = FEW.replace("exec_kept_seconds = 600.0", "exec_kept_seconds = 0.0")


@pytest.mark.slow
@pytest.mark.spec("EXEC-5", "HTTP-5")
async def test_a_thousand_at_once_are_refused_but_for_a_few_and_others_have_room(tmp_path):
    async with served(tmp_path, FEW) as house:
        agent = await house.agent(*RUNNING)
        other = await house.agent(*RUNNING, subject="agent_run:c1/other")
        gate = asyncio.Semaphore(64)

        async def one():
            async with gate:
                return await agent.post("/exec", json={"argv": ["sleep", "1000"], "detach": True})

        answers = await asyncio.gather(*(one() for _ in range(1_000)))
        ids = [lines_of(each.text)[0]["exec"]["id"] for each in answers if each.status_code == 200]
        assert len(ids) == 3
        late = [each for each in answers if each.status_code != 200]
        assert {each.status_code for each in late} == {429}
        check_error(429, late[0].json(), "rate_limited")
        assert late[0].json()["retryable"]
        assert "retry-after" in late[0].headers
        assert (await ran(other, argv=["echo", "room"])).said == b"room\n"
        assert (await ran(house.client(), argv=["echo", "room"])).said == b"room\n"
        await agent.delete(f"/exec/{ids[0]}")
        assert (await ran(agent, argv=["echo", "room"])).said == b"room\n"


@pytest.mark.spec("HTTP-5")
async def test_streams_are_bounded_as_those_of_events_are(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "EVENT_STREAMS_PER_CALLER_MAX", 2)
    async with served(tmp_path) as house:
        agent = await house.agent(*RUNNING)
        id = await begun(agent, argv=["cat"], stdinPipe=True)
        told = [asyncio.ensure_future(agent.get(f"/exec/{id}")) for _ in range(2)]
        await until(lambda: house.app.streams == 2)
        await refused(agent.get(f"/exec/{id}"), 429, "rate_limited")
        await refused(agent.get("/events"), 429, "rate_limited")
        await refused(agent.post("/exec", json={"argv": ["true"]}), 429, "rate_limited")
        assert len((await agent.get("/exec")).json()["executions"]) == 1
        await put(agent, id, b"", end="true")
        assert {(await each).status_code for each in told} == {200}
        await until(lambda: house.app.streams == 0)
        assert (await ran(agent, argv=["echo", "again"])).said == b"again\n"


@pytest.mark.spec("EXEC-6")
async def test_of_those_that_have_ended_the_newest_are_kept_and_not_for_ever(tmp_path):
    async with served(tmp_path, FEW) as house:
        agent = await house.agent(*RUNNING)
        ids = [(await ran(agent, argv=["echo", str(n)])).exec["id"] for n in range(8)]
        running = await begun(agent, argv=["sleep", "1000"])
        kept = [each["id"] for each in (await agent.get("/exec")).json()["executions"]]
        assert kept == [*ids[-4:], running]
        await refused(agent.get(f"/exec/{ids[0]}"), 404, "path_not_found")
        assert (await followed(agent, ids[-1])).said == b"7\n"


@pytest.mark.spec("EXEC-6")
async def test_what_was_kept_long_enough_is_let_go_of(tmp_path, monkeypatch):
    monkeypatch.setattr(executions, "EVENT_LOOK_SECONDS", 0.05)
    async with served(tmp_path, QUICK) as house:
        agent = await house.agent(*RUNNING)
        await ran(agent, argv=["true"])
        running = await begun(agent, argv=["sleep", "1000"])
        await until(lambda: [*house.app.executions._commands] == [running])


async def test_a_session_that_nobody_uses_is_closed_and_can_be_opened_again(tmp_path, monkeypatch):
    monkeypatch.setattr(executions, "EVENT_LOOK_SECONDS", 0.05)
    async with served(tmp_path, FEW) as house:
        agent = await house.agent(*RUNNING)
        id = (await agent.post("/sessions", json={})).json()["id"]
        await ran(agent, f"/sessions/{id}/exec", shell="echo x > f")
        for _ in range(2):
            assert (await agent.post("/sessions", json={})).status_code == 201
        await refused(agent.post("/sessions", json={}), 429, "rate_limited")
        monkeypatch.setattr(executions, "SESSION_IDLE_SECONDS_MAX", 0.0)
        await until(lambda: not house.app.executions._sessions)
        monkeypatch.undo()
        await until(lambda: asyncio.ensure_future(opens(agent, id)))


async def opens(client, id):
    """Whether it could be opened: it is closing, or has closed."""
    return (await client.post(f"/sessions/{id}/open", json={})).status_code == 200


@pytest.mark.slow
@pytest.mark.spec("EXEC-6")
async def test_a_slow_reader_costs_no_memory_and_holds_up_nobody(tmp_path):
    """What it has not read lies in a file: as much as is kept of any output."""
    async with served(tmp_path) as house:
        client = house.client()
        body = {"shell": "head -c 60000000 /dev/zero", "detach": True}
        reader, writer = await house.connect()
        try:
            id = lines_of((await client.post("/exec", json=body)).text)[0]["exec"]["id"]
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            writer.write(house.head(f"GET /exec/{id} HTTP/1.1"))
            await reader.readexactly(1_000)  # and then nothing more
            told = await followed(client, id, 2**63 - 1)
            assert told.result["exitCode"] == 0
            assert told.result["truncated"] is False
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            assert grown < 30_000  # kilobytes, of some eighty thousand that were printed
        finally:
            writer.close()
            await writer.wait_closed()


@pytest.mark.spec("EXEC-5", "AUTH-5")
async def test_a_grant_that_is_revoked_ends_its_command_and_what_is_told_of_it(tmp_path):
    async with served(tmp_path) as house:
        agent, person = await house.agent(*RUNNING), house.client()
        id = await begun(agent, shell="echo x > f; echo begun; exec sleep 1000")
        async with agent.stream("GET", f"/exec/{id}") as answer:
            lines = answer.aiter_lines()
            assert "exec" in json.loads(await anext(lines))
            assert json.loads(await anext(lines))["data"] == "begun\n"
            (standing,) = [
                each for each in (await person.get("/grants")).json()["grants"]
                if each["standing"] and each["subject"] == AGENT
            ]  # fmt: skip
            await person.post(f"/grants/{standing['id']}/revoke", json={})
            last = json.loads([line async for line in lines if line][-1])
            check_error(403, last["error"], "grant_revoked")
        await refused(agent.get(f"/exec/{id}"), 403, "grant_revoked")
        await refused(agent.post("/exec", json={"argv": ["true"]}), 403, "missing_access")
        told = await followed(person, id)
        assert told.result["signal"] == 9
        (withheld,) = told.result["withheld"]
        assert (withheld["path"], withheld["errorKind"]) == ("f", "grant_revoked")
        assert not (house.place / "f").exists()


@pytest.mark.spec("AUTH-7")
async def test_a_token_that_expires_ends_what_it_began_and_what_is_told_of_it(
    tmp_path, clock, monkeypatch
):
    async with served(tmp_path) as house:
        await house.agent(*RUNNING)
        secret = await house.authority.tokens.issue(
            "short", AGENT, by=User("local"), front="test", expires_in=600.0
        )
        agent = house.client(secret)
        id = await begun(agent, shell="echo x > f; echo begun; exec sleep 1000")
        async with agent.stream("GET", f"/exec/{id}") as answer:
            lines = answer.aiter_lines()
            await anext(lines)
            assert json.loads(await anext(lines))["data"] == "begun\n"
            clock.advance(601)
            last = json.loads([line async for line in lines if line][-1])
            check_error(401, last["error"], "unauthenticated")
        await refused(agent.get(f"/exec/{id}"), 401, "unauthenticated")
        await until(lambda: not house.app.executions._commands)
        (left,) = (await house.client().get("/work")).json()["work"]
        assert left["subject"] == AGENT
        assert not (house.place / "f").exists()


async def test_who_leaves_while_it_is_started_leaves_nothing_behind(tmp_path):
    async with served(tmp_path) as house:
        client = house.client()
        body = json.dumps({"argv": ["sleep", "1000"], "endWithClient": True}).encode()
        for pause in range(6):
            _, writer = await house.connect()
            head = house.head(
                "POST /exec HTTP/1.1", "Content-Type: application/json",
                f"Content-Length: {len(body)}",
            )  # fmt: skip
            writer.write(head + body)
            await writer.drain()
            await asyncio.sleep(0)
            if pause % 2:
                await until(lambda: house.app.executions._commands)
            writer.close()
            await writer.wait_closed()
            await until(lambda: not house.app.executions._commands)
        await house.settled()
        await until(lambda: not house.app.executions._commands)
        await client.aclose()


async def test_many_readers_of_one_command_and_a_server_that_closes_under_them(tmp_path):
    async with served(tmp_path) as house:
        client = house.client()
        id = await begun(client, shell="echo begun; exec sleep 1000")
        await printed(client, id, "begun")
        readers = [asyncio.ensure_future(client.get(f"/exec/{id}")) for _ in range(8)]
        await until(lambda: house.app_connections() >= 8)
        house.server.stop()
        for answer in await asyncio.gather(*readers, return_exceptions=True):
            if isinstance(answer, httpx.HTTPError):
                continue  # it was cut off, which it notices
            last = lines_of(answer.text)[-1]
            assert "result" in last or last["error"]["errorKind"] in ("closed", "path_not_found")
        assert house.app.executions._commands == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_everything_at_once_is_no_fault_and_leaves_nothing(tmp_path, seed):
    """Several clients of two agents begin, follow, feed, signal, publish and close whatever there
    is, their own and the other's, in any order."""
    random = Random(seed)
    known, spaces = [], []

    async def step(client):
        id = random.choice(known) if known else "none"
        space = random.choice(spaces) if spaces else "none"
        run = {
            "shell": random.choice(["echo x >> f; cat", "exit 3", "echo y > g; sleep 0.05"]),
            "stdinPipe": random.random() < 0.5, "timeout": 5, "publish": "partial",
            "detach": random.random() < 0.7, "endWithClient": random.random() < 0.3,
        }  # fmt: skip
        inside = {name: each for name, each in run.items() if name != "publish"}
        got = await random.choice(
            [
                lambda: client.post("/exec", json=run),
                lambda: client.post("/sessions", json={}),
                lambda: client.post(f"/sessions/{space}/exec", json=inside),
                lambda: client.post(f"/sessions/{space}/publish", json={"publish": "partial"}),
                lambda: client.get(f"/sessions/{space}/changes"),
                lambda: client.post(f"/sessions/{space}/open", json={}),
                lambda: client.delete(f"/sessions/{space}"),
                lambda: client.get(f"/exec/{id}"),
                lambda: put(client, id, b"hello", end="true"),
                lambda: client.post(f"/exec/{id}/signal", json={"signal": "SIGKILL"}),
                lambda: client.delete(f"/exec/{id}"),
                lambda: client.get("/work"),
            ]
        )()
        assert got.status_code in (200, 201, 404, 409, 429, 503), got.text
        if got.status_code == 503:
            assert got.json()["errorKind"] in ("busy", "closed"), got.text
        if got.status_code == 409:
            assert got.json()["errorKind"] == "closed", got.text
        if got.status_code == 201:
            spaces.append(got.json()["id"])
        elif got.headers["content-type"] == "application/x-ndjson":
            lines = lines_of(got.text)
            known.append(lines[0]["exec"]["id"])
            assert lines[-1].get("error", {}).get("errorKind") in (None, "closed"), lines[-1]

    async def client_of(client, steps):
        for _ in range(steps):
            await step(client)

    async with served(tmp_path) as house:
        agents = [
            await house.agent(*RUNNING, subject=f"agent_run:c1/{name}") for name in ("one", "two")
        ]
        await asyncio.gather(*(client_of(agents[n % 2], 25) for n in range(6)))
        person = house.client()
        for each in (await person.get("/sessions")).json()["sessions"]:
            assert (await person.delete(f"/sessions/{each['id']}")).status_code == 200
        for each in (await person.get("/exec")).json()["executions"]:
            assert (await person.delete(f"/exec/{each['id']}")).status_code == 200
        assert not house.app.executions._commands
        assert not house.app.executions._sessions
        assert SLOTS._taken.total() == 0
        assert house.app.streams == 0
