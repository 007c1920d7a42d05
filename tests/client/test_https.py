"""A server by https: who it is is made sure of before it is told anything."""

import asyncio
import contextlib
import ssl

import pytest

from bailiwick import errors
from bailiwick.client import connect
from tests.fronts.http.serving import serving
from tests.notifiers.certificates import self_signed

pytestmark = pytest.mark.spec("PY-5")

TOKEN = "a-token-that-nobody-else-may-hear"


@contextlib.asynccontextmanager
async def listening(context, answer, *, ends=False):
    """Somebody at the address of a server; what they were told, and their port."""
    heard, tasks = [], set()

    async def serve(reader, writer):
        with (
            contextlib.suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError),
            contextlib.closing(writer),
        ):
            heard.append(await reader.read(65_536))
            writer.write(answer)
            await writer.drain()
            if ends:
                writer.transport.abort()
        with contextlib.suppress(OSError, ssl.SSLError):
            await writer.wait_closed()

    def begin(reader, writer):
        tasks.add(asyncio.ensure_future(serve(reader, writer)))

    server = await asyncio.start_server(begin, "127.0.0.1", 0, ssl=context)
    try:
        yield heard, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


@contextlib.asynccontextmanager
async def in_front_of(port, context):
    """What many put in front of a server: it speaks TLS, and passes on what it is told."""
    tasks = set()

    async def passed_on(reader, writer):
        with contextlib.suppress(OSError, ssl.SSLError), contextlib.closing(writer):
            while piece := await reader.read(65_536):
                writer.write(piece)
                await writer.drain()

    async def serve(reader, writer):
        further, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(passed_on(reader, back), passed_on(further, writer))

    def begin(reader, writer):
        tasks.add(asyncio.ensure_future(serve(reader, writer)))

    front = await asyncio.start_server(begin, "127.0.0.1", 0, ssl=context)
    try:
        yield front.sockets[0].getsockname()[1]
    finally:
        front.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await front.wait_closed()


async def test_verbs_streams_and_events_go_by_https(tmp_path):
    context, certificate = self_signed(tmp_path)
    trusted = ssl.create_default_context(cafile=str(certificate))
    large = bytes(range(256)) * 4_096
    async with (
        serving(tmp_path, lasting=False, place="memory:") as house,
        in_front_of(house.port, context) as port,
        connect(f"https://localhost:{port}", token=house.token, tls=trusted) as fs,
    ):
        watching = fs.watch()
        first = asyncio.ensure_future(anext(watching))
        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(fs.write_text(f"d/{number}", "text", parents=True))
        await fs.write_stream("large", _pieces(large))
        assert b"".join([piece async for piece in fs.stream("large")]) == large
        assert (await fs.read_text("d/7")).text == "text"
        assert (await first).path.startswith("d")
        await watching.aclose()


async def _pieces(data):
    for at in range(0, len(data), 100_000):
        yield data[at : at + 100_000]


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
async def test_who_cannot_show_that_they_are_the_server_is_told_nothing(tmp_path, name):
    """A certificate that nobody vouches for, and one that is for another name."""
    context, certificate = self_signed(tmp_path)
    trusts = None
    if name != "localhost":
        trusts = ssl.create_default_context(cafile=str(certificate))
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    async with listening(context, answer) as (heard, port):
        address = f"https://{name}:{port}"
        with pytest.raises(errors.IoError, match="cannot be trusted") as refused:
            async with connect(address, token=TOKEN, tls=trusts) as fs:
                await fs.write_text("a", "what is private")
        assert "tls=" in refused.value.hint
        assert heard == []
        # Without looking at the certificate they would have heard the token.
        careless = ssl.create_default_context()
        careless.check_hostname, careless.verify_mode = False, ssl.CERT_NONE
        with pytest.raises(errors.BailiwickError):
            async with connect(address, token=TOKEN, tls=careless) as fs:
                await fs.write_text("a", "what is private")
        assert any(TOKEN.encode() in each for each in heard)


async def test_who_speaks_no_tls_is_no_server_by_https():
    async with listening(None, b"HTTP/1.1 400 Bad Request\r\n\r\n") as (heard, port):
        with pytest.raises(errors.IoError):
            async with connect(f"https://127.0.0.1:{port}", token=TOKEN) as fs:
                await fs.read_text("a")
        assert not any(TOKEN.encode() in each for each in heard)


async def test_an_answer_that_is_cut_off_on_its_way_is_not_taken_for_all_of_it(tmp_path):
    """Whoever is in between cannot read or change what is said, but can end it anywhere."""
    context, certificate = self_signed(tmp_path)
    trusted = ssl.create_default_context(cafile=str(certificate))
    begun = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nContent-Type: text/plain\r\n\r\nhalf"
    async with listening(context, begun, ends=True) as (heard, port):
        with pytest.raises(errors.IoError):
            async with connect(f"https://localhost:{port}", token=TOKEN, tls=trusted) as fs:
                await fs.read_bytes("a")
        assert heard
