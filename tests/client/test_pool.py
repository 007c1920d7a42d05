"""Connections of a client: kept for the next request, and given up when they are of no use."""

import asyncio
import contextlib

import pytest

from bailiwick import errors
from bailiwick.client.pool import ConnectionPool, NeverSent

pytestmark = pytest.mark.spec("PY-5")

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Counted:
    """A server that counts its connections and what was asked on each."""

    def __init__(self):
        self.asked = []


@contextlib.asynccontextmanager
async def counted(said=OK, *, ends=False, heard=0):
    """Answers whatever comes; ``heard`` is how much of a body it takes before it does."""
    server_of = Counted()

    async def serve(reader, writer):
        mine = len(server_of.asked)
        server_of.asked.append(0)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError), contextlib.closing(writer):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(heard)
                server_of.asked[mine] += 1
                writer.write(said)
                await writer.drain()
                if ends:
                    break
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    serving = set()

    def begin(reader, writer):
        serving.add(asyncio.ensure_future(serve(reader, writer)))

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    pool = ConnectionPool(f"http://127.0.0.1:{port}/at", {}, timeout_s=30.0, tls=None)
    try:
        yield server_of, pool
    finally:
        await pool.aclose()
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await server.wait_closed()


async def asked(pool, method="GET", content=None, headers=None):
    answer = await pool.send(method, "/stat", headers or {}, content, None)
    try:
        pieces = []
        while piece := await answer.read():
            pieces.append(piece)
        return answer.status, b"".join(pieces)
    finally:
        answer.close()


async def test_a_connection_is_kept_for_the_next_request():
    async with counted() as (server, pool):
        for _ in range(5):
            assert await asked(pool) == (200, b"{}")
        assert server.asked == [5]


async def test_requests_at_the_same_time_have_a_connection_each():
    async with counted() as (server, pool):
        await asyncio.gather(*(asked(pool) for _ in range(3)))
        assert server.asked == [1, 1, 1]
        await asked(pool)
        assert sum(server.asked) == 4
        assert len(server.asked) == 3


async def test_what_the_server_has_ended_is_not_used_again():
    """It says nothing of it: a change that was sent there would be lost, and not known of."""
    async with counted(ends=True) as (server, pool):
        for _ in range(5):
            assert await asked(pool, "POST") == (200, b"{}")
        assert server.asked == [1, 1, 1, 1, 1]


async def test_an_answer_that_is_not_read_to_its_end_ends_its_connection():
    async with counted() as (server, pool):
        answer = await pool.send("GET", "/stat", {}, None, None)
        answer.close()
        assert await asked(pool) == (200, b"{}")
        assert server.asked == [1, 1]


async def test_what_a_source_raises_is_told():
    async def source():
        yield b"some of it"
        raise PermissionError("the source is not to be read")

    async with counted(heard=100) as (_, pool):
        with pytest.raises(PermissionError, match="the source"):
            await asked(pool, "PUT", source())


async def test_an_answer_may_come_before_all_was_taken():
    async def source():
        for _ in range(64):
            yield bytes(1024 * 1024)

    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
    async with counted(refusal, ends=True) as (_, pool):
        status, _ = await asked(pool, "PUT", source())
        assert status == 413


async def test_what_was_never_sent_is_told_apart():
    async with counted() as (_, pool):
        pass
    with pytest.raises(errors.Closed):
        await asked(pool)
    nowhere = ConnectionPool("http://127.0.0.1:1", {}, timeout_s=30.0, tls=None)
    with pytest.raises(NeverSent):
        await asked(nowhere)


async def test_an_address_that_is_too_long_is_refused_before_it_is_sent():
    async with counted() as (server, pool):
        with pytest.raises(errors.ParseError, match="too long"):
            await pool.send("GET", "/stat?path=" + "a" * 70_000, {}, None, None)
        assert server.asked == []


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n{}",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000,
        b"SSH-2.0-OpenSSH\r\n",
        b"",
    ],
)
async def test_what_is_no_answer_is_cut_off(said):
    async with counted(said, ends=True) as (_, pool):
        with pytest.raises(errors.IoError, match="cut off"):
            await asked(pool)


async def test_what_is_said_beyond_an_answer_answers_nothing_else():
    forged = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
    async with counted(OK + forged) as (server, pool):
        for _ in range(3):
            assert await asked(pool) == (200, b"{}")
        assert server.asked == [1, 1, 1]


async def test_a_server_that_only_ever_says_that_it_will_answer_is_given_up():
    async with counted(b"HTTP/1.1 102 Processing\r\n\r\n" * 1_000) as (server, pool):
        async with asyncio.timeout(20):
            with pytest.raises(errors.IoError, match="no HTTP"):
                await asked(pool)
        assert server.asked == [1]


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        ("/a b", {}), ("/a\r\nx: y", {}), ("/\xe4", {}), ("/\udcff", {}),
        ("/stat", {"x-a": "b\r\nc: d"}), ("/stat", {"x-a": "b\n"}), ("/stat", {"x a": "b"}),
        ("/stat", {"x-a": "\udcff"}), ("/stat", {"x-\xe4": "b"}),
    ],
)  # fmt: skip
async def test_what_does_not_fit_into_a_request_is_refused_before_anything_is_sent(target, headers):
    async with counted() as (server, pool):
        with pytest.raises(errors.ParseError):
            await pool.send("GET", target, headers, None, None)
        assert server.asked == []
