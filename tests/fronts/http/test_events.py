"""The change feed as server-sent events: in order, resumable without loss, and it ends."""

import asyncio
import contextlib
import json

import pytest

from tests.fronts.http.serving import check_error, serving
from tests.waiting import until


class Listener:
    """Reads events off a stream."""

    def __init__(self, lines):
        self._lines = lines

    async def next(self):
        event = {}
        async for line in self._lines:
            if line.startswith((":", "retry")):
                continue
            if not line:
                if "data" in event and event["event"] in ("change", "error"):
                    return event
                event = {}
                continue
            name, _, value = line.partition(": ")
            event[name] = value
        return None


@contextlib.asynccontextmanager
async def listening(client, route="/events", **headers):
    async with client.stream("GET", route, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream"
        yield Listener(answer.aiter_lines())


@pytest.mark.spec("HTTP-4", "EVENT-1")
async def test_changes_come_as_they_are_made_and_none_is_lost_by_coming_back(tmp_path):
    async with serving(tmp_path) as house:
        client = house.client()
        seen, last = [], None
        for round in range(3):
            given = {} if last is None else {"last-event-id": last}
            async with listening(client, **given) as events:
                await client.put(f"/file/raw?path=here{round}", content=b"")
                for _ in range(1 if last is None else 5):
                    event = await asyncio.wait_for(events.next(), 120)
                    seen.append(json.loads(event["data"])["path"])
                    last = event["id"]
            # Made while nobody listens.
            for number in range(4):
                await client.put(f"/file/raw?path=away{round}-{number}", content=b"")
        expected = []
        for round in range(3):
            expected += [f"away{round - 1}-{number}" for number in range(4) if round]
            expected.append(f"here{round}")
        assert seen == expected


@pytest.mark.spec("HTTP-4")
async def test_an_event_says_who_did_what(tmp_path):
    async with serving(tmp_path) as house:
        client = house.client(**{"x-request-id": "r-7"})
        (house.place / "src").mkdir()
        async with listening(house.client(), "/events?path=src") as events:
            await client.post("/dir", json={"path": "elsewhere"})
            await client.post("/dir", json={"path": "src/deep"})
            event = await asyncio.wait_for(events.next(), 120)
        document = json.loads(event["data"])
        assert (document["kind"], document["path"], document["type"]) == (
            "created", "src/deep", "directory",
        )  # fmt: skip
        assert (document["subject"], document["requestId"]) == ("user:local", "r-7")
        assert event["id"] == document["cursor"]


@pytest.mark.spec("HTTP-3")
async def test_what_is_wrong_is_told_before_the_stream(tmp_path):
    async with serving(tmp_path) as house:
        client = house.client()
        bad = await client.get("/events", headers={"last-event-id": "x x"})
        check_error(bad.status_code, bad.json(), "parse_error")
        out = await client.get("/events?path=../x")
        check_error(out.status_code, out.json(), "path_outside_workspace")
        agent = await house.agent("read")
        refused = await agent.get("/events")
        check_error(refused.status_code, refused.json(), "missing_access")


@pytest.mark.spec("HTTP-7", "AUTH-5")
async def test_a_stream_ends_with_its_grant_and_with_the_server(tmp_path):
    async with serving(tmp_path) as house:
        person, agent = house.client(), await house.agent("read", "list", "watch")
        async with listening(agent) as events, listening(person) as others:
            standing = next(
                each for each in (await person.get("/grants")).json()["grants"] if each["standing"]
            )
            await person.post(f"/grants/{standing['id']}/revoke", json={})
            await person.put("/file/raw?path=a", content=b"")
            event = await asyncio.wait_for(events.next(), 120)
            assert event["event"] == "error"
            assert json.loads(event["data"])["errorKind"] == "grant_revoked"
            assert (await asyncio.wait_for(others.next(), 120))["event"] == "change"
            house.server.stop()
            assert await asyncio.wait_for(others.next(), 120) is None


@pytest.mark.spec("HTTP-2", "HTTP-4")
@pytest.mark.parametrize("route", ["/events", "/file/raw?path=big"])
async def test_a_stream_ends_when_its_reader_has_gone(tmp_path, route):
    async with serving(tmp_path) as house:
        (house.place / "big").write_bytes(b"x" * 50_000_000)
        async with house.client().stream("GET", route) as answer:
            async for _ in answer.aiter_raw(16):
                break
        await until(lambda: not house.server.server_state.tasks)


@pytest.mark.spec("EVENT-1", "HTTP-4")
async def test_what_has_come_meanwhile_is_sent_together(tmp_path):
    """One by one, each would take several turns of the loop: on a busy server a stream would never
    catch up."""
    async with serving(tmp_path, place=f"sqlite:{tmp_path}/v.db?volume=main") as house:
        client, count = house.client(), 100
        async with client.stream("GET", "/events") as stream:
            head = await anext(stream.aiter_text())
        cursor = head.partition("id: ")[2].strip()
        for number in range(count):
            await client.put(f"/file/raw?path=f{number}", content=b"")
        reader, writer = await house.connect()
        try:
            writer.write(house.head(f"GET /events?since={cursor} HTTP/1.1"))
            await reader.readuntil(b"\r\n\r\n")
            events, chunks = b"", 0
            while events.count(b"event: change") < count:
                size = int(await asyncio.wait_for(reader.readline(), 120), 16)
                events += (await reader.readexactly(size + 2))[:-2]
                chunks += 1
        finally:
            writer.close()
        assert [f'"path":"f{number}"'.encode() in events for number in range(count)] == [
            True
        ] * count
        assert chunks < count // 2
