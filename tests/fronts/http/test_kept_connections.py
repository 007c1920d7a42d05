"""Requests on one connection: in which order, how many at a time, and for how long."""

import asyncio
import json
import re

import pytest

from bailiwick.fronts.http import settings
from bailiwick.fronts.http.routes import system
from bailiwick.fronts.http.transport import protocol
from tests.fronts.http.serving import check_error, parsed, serving
from tests.fronts.http.stepping import Kept, Slow, answers_with, warm
from tests.waiting import for_ever, loop_turns, until

pytestmark = pytest.mark.spec("LINE-4")


# --- one connection -----------------------------------------------------------------------------


@pytest.mark.spec("HTTP-3")
async def test_a_request_may_come_byte_by_byte(tmp_path, steps):
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("a")
        await warm(house, "a")
        steps.taken()
        kept = await Kept.to(house)
        head = house.head("GET /file?path=a HTTP/1.1")
        for byte in head:
            kept.writer.write(bytes([byte]))
            await asyncio.sleep(0)
        assert (await kept.answer())[2]["content"] == "a"
        kept.writer.write(b"\r\n" + head[:20])
        await loop_turns(10)
        kept.writer.write(head[20:])
        assert (await kept.answer())[2]["content"] == "a"
        assert steps.taken() == (2, 0)


@pytest.mark.spec("HTTP-3")
async def test_requests_sent_together_are_answered_in_order_and_take_turns(tmp_path, steps):
    async with serving(tmp_path) as house:
        for number in range(40):
            (house.place / f"{number}").write_text(f"{number}")
            await warm(house, f"{number}")
        steps.taken()
        kept = await Kept.to(house)
        heads = [house.head(f"GET /file?path={number} HTTP/1.1") for number in range(40)]
        kept.writer.write(b"".join(heads))
        for number in range(40):
            assert (await kept.answer())[2]["content"] == f"{number}"
        first, later = steps.taken()
        # Of what comes in one piece one is begun where it came in; the pieces are the kernel's.
        assert first + later == 40
        assert 1 <= first < 20
        # Once all is answered the connection is as it was.
        assert (await kept.ask("/file?path=0"))[2]["content"] == "0"
        assert steps.taken() == (1, 0)


@pytest.mark.spec("HTTP-3")
async def test_a_read_waits_for_what_was_asked_before_it(tmp_path, steps):
    answered = asyncio.Event()

    async def slowly(request):
        await answered.wait()
        return system.Health(ok=True)

    async with serving(tmp_path) as house:
        (house.place / "a").write_text("a")
        await warm(house, "a")
        answers_with(house, slowly)
        kept = await Kept.to(house)
        steps.taken()
        kept.writer.write(house.head("GET /health HTTP/1.1"))
        await until(lambda: steps.later == 1)
        kept.writer.write(house.head("GET /file?path=a HTTP/1.1"))
        connections = house.server.server_state.connections
        await until(lambda: any(each.pipeline for each in connections))
        answered.set()
        assert (await kept.answer())[2]["kind"] == "health"
        assert (await kept.answer())[2]["kind"] == "file"
        assert steps.taken() == (0, 2)


@pytest.mark.spec("HTTP-3")
async def test_a_read_behind_a_write_sees_it(tmp_path):
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("old")
        await warm(house, "a")
        kept = await Kept.to(house)
        read = house.head("GET /file?path=a HTTP/1.1")
        for round_ in range(5):
            body = json.dumps({"path": "a", "content": f"new {round_}"}).encode()
            write = house.head(
                "POST /file/write HTTP/1.1",
                "Content-Type: application/json",
                f"Content-Length: {len(body)}",
            )
            kept.writer.write(read + write + body + read + read)
            before = (await kept.answer())[2]["content"]
            assert before == ("old" if round_ == 0 else f"new {round_ - 1}")
            assert (await kept.answer())[2]["kind"] == "file_write"
            for _ in range(2):
                assert (await kept.answer())[2]["content"] == f"new {round_}"


@pytest.mark.spec("HTTP-3")
async def test_what_comes_behind_an_answer_is_judged_by_itself(tmp_path, steps):
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("a")
        await warm(house, "a")
        read = house.head("GET /file?path=a HTTP/1.1")
        for rest, status in (
            (b"this is not HTTP\r\n\r\n", 400),
            (house.head("GET /file?path=a HTTP/1.0", "Connection: keep-alive"), 200),
            (house.head("GET /file?path=a HTTP/1.1", "Connection: close"), 200),
            (house.head("GET /file?path=a HTTP/1.1", "Connection: Upgrade", "Upgrade: h2c"), 200),
        ):
            steps.taken()
            answers = re.split(rb"(?=HTTP/1\.1 )", await house.send(read + rest))[1:]
            assert [parsed(each)[0] for each in answers] == [200, status], rest
            assert steps.taken()[0] == 1
            # By itself it is answered just so, and the connection ends.
            assert parsed(await house.send(rest))[0] == status
            # So it is where another request was answered before.
            kept = await Kept.to(house)
            assert (await kept.ask("/file?path=a"))[0] == 200
            kept.writer.write(rest)
            assert (await asyncio.wait_for(kept.reader.read(), 120)).count(b"HTTP/1.1 ") == 1
        # A client that has said all it will say is answered.
        reader, writer = await house.connect()
        writer.write(read)
        writer.write_eof()
        assert (await asyncio.wait_for(reader.read(), 120)).startswith(b"HTTP/1.1 200")
        writer.close()


# --- how long -----------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch):
    """The bounds on time, made short enough to wait for."""
    monkeypatch.setattr("bailiwick.fronts.http.transport.server.KEEP_ALIVE_SECONDS", 0.3)
    monkeypatch.setattr("bailiwick.fronts.http.transport.server._LOOK_SECONDS", 0.1)


@pytest.mark.spec("HTTP-2")
async def test_a_client_that_asks_and_does_not_read_is_let_go(tmp_path, steps, monkeypatch):
    monkeypatch.setattr("bailiwick.fronts.http.transport.server._LOOK_SECONDS", 0.1)
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("0123456\n" * 30_000)
        await warm(house, "a")
        steps.taken()
        reader, writer = await house.connect()
        reader._transport.pause_reading()
        for _ in range(60):
            writer.write(house.head("GET /file?path=a HTTP/1.1"))
            await loop_turns(3)
        (connection,) = house.server.server_state.connections
        await until(lambda: connection.flow.write_paused)
        # What is made beforehand is an answer or two, and not all that were asked for.
        assert connection.real.get_write_buffer_size() < 3 * 300_000
        monkeypatch.setattr(protocol, "IDLE_SECONDS_MAX", 0.1)
        await until(lambda: not house.app_connections())
        assert sum(steps.taken()) < 60
        writer.close()


@pytest.mark.spec("HTTP-2")
@pytest.mark.parametrize("waits", [False, True])
async def test_a_connection_that_is_kept_ends_when_nothing_comes(tmp_path, waits):
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("a")
        await warm(house, "a")
        kept = await Kept.to(house)
        (connection,) = house.server.server_state.connections
        unregister = house.authority.hooks.register(Slow()) if waits else lambda: None
        for _ in range(4):
            assert (await kept.ask("/file?path=a"))[0] == 200
            connection.look_at(connection.since + settings.KEEP_ALIVE_SECONDS)
        unregister()
        assert house.app_connections() == 1
        connection.look_at(connection.since + settings.KEEP_ALIVE_SECONDS + 0.1)
        assert await kept.reader.read() == b""
        await until(lambda: not house.app_connections())


@pytest.mark.spec("HTTP-2")
async def test_a_body_behind_its_answer_does_not_hold_a_connection(tmp_path, quick):
    """A page of the console does not wait for a body that nobody wants."""
    async with serving(tmp_path) as house:
        kept = await Kept.to(house)
        kept.writer.write(house.head("GET / HTTP/1.1", "Content-Length: 3"))
        head = await asyncio.wait_for(kept.reader.readuntil(b"\r\n\r\n"), 120)
        length = int(re.search(rb"content-length: (\d+)", head)[1])
        await kept.reader.readexactly(length)
        kept.writer.write(b"abc")
        assert await asyncio.wait_for(kept.reader.read(), 120) == b""
        await until(lambda: not house.app_connections())


@pytest.mark.spec("HTTP-2")
async def test_a_server_that_closes_refuses_and_ends_what_is_kept(tmp_path, steps):
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("a")
        await warm(house, "a")
        kept, idle = await Kept.to(house), await Kept.to(house)
        assert (await kept.ask("/file?path=a"))[0] == 200
        assert (await idle.ask("/file?path=a"))[0] == 200
        steps.taken()
        house.app.closing.set()
        status, _, document = await kept.ask("/file?path=a")
        check_error(status, document, "closed")
        assert steps.taken() == (1, 0)
        house.app.closing.clear()
        house.server.stop()
        assert await asyncio.wait_for(idle.reader.read(), 120) == b""


@pytest.mark.spec("HTTP-7")
async def test_a_request_that_waits_while_the_server_stops_is_answered(tmp_path, steps):
    go_on = asyncio.Event()

    async def slowly(request):
        await go_on.wait()
        return system.Health(ok=True)

    async with serving(tmp_path, lasting=False) as house:
        answers_with(house, slowly)
        kept = await Kept.to(house)
        kept.writer.write(house.head("GET /health HTTP/1.1"))
        await until(lambda: steps.later == 1)
        (task,) = house.server.server_state.tasks
        house.server.stop()
        await until(lambda: house.app.closing.is_set())
        go_on.set()
        status, headers, document = await kept.answer()
        assert (status, headers["connection"], document["kind"]) == (200, "close", "health")
        assert await asyncio.wait_for(kept.reader.read(), 120) == b""
        await task


@pytest.mark.spec("HTTP-7")
async def test_a_request_that_does_not_end_is_cancelled_when_the_server_stops(tmp_path, steps):
    ended = asyncio.Event()

    async def never(request):
        try:
            await for_ever()
        finally:
            ended.set()

    async with serving(tmp_path, lasting=False) as house:
        answers_with(house, never)
        kept = await Kept.to(house)
        kept.writer.write(house.head("GET /health HTTP/1.1"))
        await until(lambda: steps.later == 1)
        house.server.stop()
        await ended.wait()
        await until(lambda: not house.server.server_state.tasks)
