"""Connections: as many as descriptors allow, some of them for people, and not all for one."""

import contextlib
import os
import resource
import socket

import httpx
import pytest

from bailiwick.fronts.http.transport import descriptors, protocol
from bailiwick.fronts.http.transport.descriptors import DescriptorRoom, room_for
from tests.fronts.http.serving import serving
from tests.fronts.http.test_crowding import kind_of, token_of
from tests.fronts.http.test_review import streaming
from tests.fronts.http.test_serve_command import client, process
from tests.waiting import until

OTHER = "agent_run:c9/r9"


@contextlib.asynccontextmanager
async def uploading(house, token, length=1_000):
    """An upload that has begun and does not go on."""
    reader, writer = await house.connect()
    try:
        writer.write(
            house.head("PUT /file/raw?path=up HTTP/1.1", f"Content-Length: {length}", token=token)
        )
        writer.write(b"x")
        await writer.drain()
        yield reader
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def under_way(house, count):
    """Wait until so many requests are."""
    budgets = house.app._callers._budgets
    await until(lambda: sum(each.requests for each in budgets.values()) == count)


@pytest.mark.spec("HTTP-12", "HTTP-13")
async def test_one_agent_holds_half_of_what_is_for_all(tmp_path):
    async with (
        serving(tmp_path, lasting=False, room=DescriptorRoom(10, 2)) as house,
        contextlib.AsyncExitStack() as held,
    ):
        agent = await house.agent("read", "list", "write", "watch")
        other = await house.agent("read", "list", "write", "watch", subject=OTHER)
        for _ in range(2):
            await held.enter_async_context(uploading(house, token_of(agent)))
            await held.enter_async_context(streaming(house, token=token_of(agent)))
        await under_way(house, 4)
        for asked in (agent.get("/capabilities"), agent.post("/dir", json={"path": "d"})):
            assert await kind_of(asked) == "rate_limited"
        assert await kind_of(other.get("/list")) == "ok"
        assert await kind_of(house.client().get("/list")) == "ok"


@pytest.mark.spec("HTTP-13")
@pytest.mark.parametrize("kept", [2, 0], ids=["kept for people", "control: nothing kept"])
async def test_people_get_in_while_agents_hold_everything(tmp_path, kept):
    async with (
        serving(tmp_path, lasting=False, room=DescriptorRoom(8 + kept, kept)) as house,
        contextlib.AsyncExitStack() as held,
    ):
        person = house.client(connection="close")
        for number in range(2):
            agent = await house.agent("read", "watch", "write", subject=f"agent_run:c/{number}")
            for _ in range(4):
                await held.enter_async_context(uploading(house, token_of(agent)))
        await under_way(house, 8)
        for _ in range(3):
            assert await kind_of(person.get("/list")) == ("ok" if kept else "busy")
        late = await house.agent("read", "list", subject=OTHER)
        late.headers["connection"] = "close"
        assert await kind_of(late.get("/list")) == "busy"
        if kept:
            # A person's stream and a change besides it, too.
            async with streaming(house):
                assert await kind_of(person.post("/dir", json={"path": "d"})) == "ok"


@pytest.mark.spec("HTTP-13")
async def test_silence_keeps_nobody_out(tmp_path):
    """Whoever has no token holds as many connections as there are, and opens ever more."""
    async with (
        serving(tmp_path, lasting=False, room=DescriptorRoom(8, 2)) as house,
        contextlib.AsyncExitStack() as held,
    ):
        for _ in range(12):
            _, writer = await house.connect()
            held.callback(writer.close)
        for _ in range(3):
            assert await kind_of(house.client(connection="close").get("/list")) == "ok"


@pytest.mark.spec("HTTP-13")
async def test_who_was_refused_and_stays_keeps_nobody_out(tmp_path, monkeypatch):
    """Whoever has no token announces a body and never sends it: the refusal is there at once, and
    the connection stays for a while, so that it is not lost."""
    monkeypatch.setattr(protocol, "LINGER_SECONDS_MAX", 3_600)
    async with (
        serving(tmp_path, lasting=False, room=DescriptorRoom(8, 2)) as house,
        contextlib.AsyncExitStack() as held,
    ):
        for _ in range(6):
            _, writer = await house.connect()
            held.callback(writer.close)
        head = house.head("POST /file/write HTTP/1.1", "Content-Length: 9", token="unknown")
        for _ in range(2):
            reader, writer = await house.connect()
            held.callback(writer.close)
            writer.write(head)
            assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 401")
        await until(lambda: house.app_connections() == 8)
        for _ in range(3):
            assert await kind_of(house.client(connection="close").get("/list")) == "ok"


@pytest.mark.spec("HTTP-13")
async def test_a_connection_that_waits_makes_room(tmp_path):
    async with serving(tmp_path, lasting=False, room=DescriptorRoom(4, 0)) as house:
        agent = await house.agent("read", "list")
        clients = [house.client(token_of(agent)) for _ in range(12)]
        kinds = [await kind_of(each.get("/list")) for each in clients]
        assert kinds == ["ok"] * 12
        assert house.app_connections() <= 5


@pytest.mark.spec("HTTP-13")
def test_there_are_as_many_as_descriptors_allow():
    for limit in (0, 64, 256, 1_024, 4_096, 1_048_576):
        room = room_for(limit)
        assert 8 <= room.connections <= 1_024
        assert 2 <= room.for_people <= 32
        assert limit < 1_024 or 2 * room.connections + 128 <= limit
    assert room_for(1_024).connections < 512
    assert room_for(4_096) == DescriptorRoom(1_024, 32)


@pytest.mark.spec("HTTP-13", "HTTP-4")
async def test_ready_says_when_descriptors_are_short(tmp_path, monkeypatch):
    async with serving(tmp_path, lasting=False) as house:
        stranger = house.client("")
        assert (await stranger.get("/ready")).status_code == 200
        there = len(os.listdir("/dev/fd"))
        monkeypatch.setattr(descriptors, "limit", lambda: there + 20)
        answer = await stranger.get("/ready")
        assert (answer.status_code, answer.json()["errorKind"]) == (503, "busy")
        assert answer.json()["hint"]


@pytest.mark.spec("HTTP-13")
def test_a_server_raises_its_own_limit():
    """As far as it may; in a process of its own, since what is raised cannot be lowered again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    pid = os.fork()
    if not pid:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, min(hard, 2_048)))
            os._exit(0 if descriptors.raise_limit() == min(hard, 2_048) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)


@pytest.mark.slow
@pytest.mark.spec("HTTP-13")
def test_a_crowd_does_not_use_up_the_descriptors(tmp_path):
    """A process that may have few: more connections than it has descriptors, and it serves on."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/a.txt").write_text("a")
    with (
        process(tmp_path, "tree", before=lambda: _may_open(256)) as (server, told),
        contextlib.ExitStack() as crowd,
    ):
        port = int(told["url"].rpartition(":")[2])
        for _ in range(400):
            crowd.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
        for number in range(10):
            with client(told) as person:
                assert person.get("/file/raw?path=a.txt").content == b"a"
                made = person.put(f"/file/raw?path=f{number}", content=b"x")
                assert made.status_code == 201, made.text
        assert httpx.get(f"{told['url']}/ready", timeout=30).status_code == 200
        assert len(os.listdir(f"/proc/{server.pid}/fd")) < 256 - 32


def _may_open(count):
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))
