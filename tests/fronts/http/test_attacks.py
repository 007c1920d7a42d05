"""Clients that do not mean well, by raw sockets: sizes, times, addresses, two readings of one
request. Each is answered in the one shape, without more being read than must be."""

import asyncio
import contextlib
import os

import msgspec
import pytest

from bailiwick.fronts.http import settings
from bailiwick.fronts.http.routes import system
from bailiwick.fronts.http.settings import PIPELINED_MAX
from bailiwick.fronts.http.transport import protocol
from bailiwick.fronts.http.transport.descriptors import DescriptorRoom
from bailiwick.fronts.http.transport.protocol import BoundedProtocol
from tests.fronts.http.serving import check_error, parsed, serving
from tests.waiting import for_ever, let_pass, until


@pytest.mark.spec("HTTP-2", "HTTP-3")
async def test_a_wrong_token_is_refused_before_the_body_is_read(tmp_path):
    async with serving(tmp_path) as house:
        head = house.head(
            "PUT /file/raw?path=a HTTP/1.1",
            "Content-Length: 1000000000",
            token="x" * 20,
        )
        # Not one byte of the body is sent: whoever waited for it would wait for ever.
        status, headers, document = parsed(await house.send(head))
        check_error(status, document, "unauthenticated")
        assert (status, headers["connection"]) == (401, "close")
        assert "bearer" in headers["www-authenticate"]
        assert not list(house.place.iterdir())


@pytest.mark.spec("HTTP-2")
async def test_a_client_that_goes_on_sending_still_gets_its_answer(tmp_path):
    async with serving(tmp_path) as house:
        head = house.head(
            "PUT /file/raw?path=a HTTP/1.1", "Content-Length: 3000000", token="x" * 20
        )
        answer = await house.send(head, b"x" * 999_999)
        assert parsed(answer)[0] == 401


@pytest.mark.spec("HTTP-2")
async def test_a_continue_is_not_said_to_who_is_refused(tmp_path):
    async with serving(tmp_path) as house:
        asking = ("PUT /file/raw?path=a HTTP/1.1", "Content-Length: 3", "Expect: 100-continue")
        answer = await house.send(house.head(*asking, token="x" * 20))
        assert answer.startswith(b"HTTP/1.1 401")
        reader, writer = await house.connect()
        writer.write(house.head(*asking))
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
        writer.write(b"abc")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 201")
        writer.close()
        await writer.wait_closed()


@pytest.mark.spec("HTTP-2")
@pytest.mark.parametrize(
    "headers",
    [
        ["X-Long: " + "a" * 40_000],
        [f"X-{n}: {'b' * 1000}" for n in range(40)],
        ["X-Endless: " + "c" * 2_000_000],
    ],
    ids=["one long", "many", "endless"],
)
async def test_headers_are_bounded(tmp_path, headers):
    async with serving(tmp_path) as house:
        status, _, document = parsed(await house.send(house.head("GET /health HTTP/1.1", *headers)))
        check_error(status, document, "parse_error")
        assert status == 431
        # One that ends just below is answered.
        fine = house.head("GET /health HTTP/1.1", "X: " + "a" * 31_000, "Connection: close")
        assert (await house.send(fine)).startswith(b"HTTP/1.1 200")


@pytest.mark.spec("HTTP-2")
@pytest.mark.parametrize("cut", [0, 20_000])
async def test_headers_behind_another_request_are_bounded(tmp_path, cut):
    async with serving(tmp_path) as house:
        first = house.head("GET /health HTTP/1.1")
        large = house.head("GET /health HTTP/1.1", *(f"X-{n}: {'b' * 1000}" for n in range(40)))
        sent = first + large
        pieces = [sent[: len(first) + cut], sent[len(first) + cut :]] if cut else [sent]
        assert (await house.send(*pieces)).count(b"HTTP/1.1 431") == 1


@pytest.mark.spec("HTTP-2")
async def test_a_long_address_is_bounded(tmp_path):
    async with serving(tmp_path) as house:
        answer = await house.send(house.head(f"GET /file?path={'a' * 60_000} HTTP/1.1"))
        assert parsed(answer)[0] == 431


@pytest.fixture
def quick(monkeypatch):
    """The bounds on time, made short enough to wait for."""
    monkeypatch.setattr(protocol, "HEADER_SECONDS_MAX", 0.3)
    monkeypatch.setattr(protocol, "IDLE_SECONDS_MAX", 0.5)
    monkeypatch.setattr("bailiwick.fronts.http.transport.server._LOOK_SECONDS", 0.1)


@pytest.mark.spec("HTTP-2")
async def test_slow_headers_are_bounded(tmp_path, quick):
    async with serving(tmp_path) as house:
        # A connection without a byte, and one whose headers never end, however often it sends.
        for piece in (b"", b"GET /health HTTP/1.1\r\nHost: localhost\r\n"):
            reader, writer = await house.connect()
            writer.write(piece)
            drips = asyncio.create_task(drip(writer) if piece else for_ever())
            status, _, document = parsed(await asyncio.wait_for(reader.read(), 120))
            check_error(status, document, "io_error")
            assert (status, document["retryable"]) == (408, True)
            drips.cancel()
            await asyncio.wait((drips,))
            writer.close()


async def drip(writer):
    with contextlib.suppress(OSError):
        while True:
            await let_pass(0.05)
            writer.write(b"X: y\r\n")
            await writer.drain()


@pytest.mark.spec("HTTP-2", "WRITE-4")
async def test_a_slow_body_is_bounded_and_leaves_nothing(tmp_path, quick):
    async with serving(tmp_path) as house:
        reader, writer = await house.connect()
        writer.write(house.head("PUT /file/raw?path=slow.bin HTTP/1.1", "Content-Length: 100000"))
        drips = asyncio.create_task(drip(writer))
        status, _, document = parsed(await asyncio.wait_for(reader.read(), 120))
        check_error(status, document, "io_error")
        assert status == 408
        drips.cancel()
        await asyncio.wait((drips,))
        writer.close()
        await until(lambda: not list(house.place.iterdir()))


@pytest.mark.spec("HTTP-2")
async def test_a_client_that_does_not_read_is_let_go(tmp_path, quick):
    async with serving(tmp_path) as house:
        (house.place / "big.bin").write_bytes(os.urandom(16 * 1024 * 1024))
        reader, writer = await house.connect()
        writer.write(house.head("GET /file/raw?path=big.bin HTTP/1.1"))
        await reader.readexactly(10)
        reader._transport.pause_reading()
        await until(lambda: not house.app_connections())
        writer.close()


@pytest.mark.spec("HTTP-2")
async def test_json_bodies_are_bounded_while_they_are_read(tmp_path):
    async with serving(tmp_path) as house:
        announced = house.head(
            "POST /file/write HTTP/1.1",
            "Content-Type: application/json",
            f"Content-Length: {settings.JSON_BYTES_MAX + 1}",
        )
        status, _, document = parsed(await house.send(announced))
        check_error(status, document, "file_too_large")
        assert document["details"]["limit"] == settings.JSON_BYTES_MAX
        # A body that does not say how long it is.
        chunked = house.head(
            "POST /file/write HTTP/1.1",
            "Content-Type: application/json",
            "Transfer-Encoding: chunked",
        )
        chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        reader, writer = await house.connect()
        writer.write(chunked)
        for _ in range(12):
            writer.write(chunk)
            await writer.drain()
        assert parsed(await reader.read())[0] == 413
        writer.close()


@pytest.mark.spec("HTTP-2")
async def test_connections_are_bounded(tmp_path):
    async with serving(tmp_path, room=DescriptorRoom(3, 0)) as house:
        held = [await house.connect() for _ in range(3)]
        await until(lambda: house.app_connections() == 3)
        status, _, document = parsed(await house.send())
        check_error(status, document, "busy")
        assert status == 503
        for _, writer in held:
            writer.close()
            await writer.wait_closed()
        await until(lambda: not house.app_connections())
        assert (await house.client().get("/health")).status_code == 200


BROKEN = [
    ("%00", "parse_error"),
    ("a%00b", "parse_error"),
    ("%2e%2e%2fsecret", "path_outside_workspace"),
    ("..%2f..%2fetc%2fpasswd", "path_outside_workspace"),
    ("%2fetc%2fpasswd", "path_outside_workspace"),
    ("a/../../secret", "path_outside_workspace"),
    ("%c0%ae%c0%ae%c0%afsecret", "parse_error"),
    ("%e0%80%ae%e0%80%ae/secret", "parse_error"),
    ("%ff%fe", "parse_error"),
    ("%zz", "parse_error"),
    ("%", "parse_error"),
    ("%ed%a0%80", "parse_error"),
    ("%5c%5cserver%5cshare", "path_outside_workspace"),
    ("C%3a%5cwindows", "path_outside_workspace"),
    ("%252e%252e%252fsecret", "path_not_found"),
]


@pytest.mark.spec("HTTP-3", "HTTP-5", "PATH-2", "PATH-3")
@pytest.mark.parametrize(("path", "kind"), BROKEN)
async def test_a_path_that_leads_out_or_nowhere(tmp_path, path, kind):
    (tmp_path / "secret").write_text("hunter2")
    async with serving(tmp_path) as house:
        for route in ("/file", "/file/raw", "/file/bytes", "/stat", "/list"):
            answer = await house.send(
                house.head(f"GET {route}?path={path} HTTP/1.1", "Connection: close")
            )
            status, _, document = parsed(answer)
            check_error(status, document, kind)
            assert b"hunter2" not in answer
            assert str(tmp_path).encode() not in answer


@pytest.mark.spec("HTTP-5")
@pytest.mark.parametrize(
    "query",
    [
        "path=a.txt&path=b.txt",
        "path=a.txt&Path=a.txt",
        "path=a.txt&p%61th=b.txt",
        "path=a.txt&nosuch=1",
        "path",
        "path=",
        "",
        "path=a.txt&line=1.5",
        "path=a.txt&line=+1",
        "path=a.txt&line=-1",
        "path=a.txt&line=%C2%B2",
        "path=a.txt&line=0x10",
        "path=a.txt&line=0",
        "path=a.txt&line=99999999999999999999999",
        "path=a.txt&limit=2001",
        "path=a.txt&maxBytes=262145",
        "path=a.txt&",
    ],
)
async def test_parameters_are_strict(tmp_path, query):
    async with serving(tmp_path) as house:
        (house.place / "a.txt").write_text("a\n")
        answer = await house.send(
            house.head(f"GET /file?{query} HTTP/1.1", "Connection: close"), until_end=True
        )
        status, _, document = parsed(answer)
        check_error(status, document, "parse_error")


@pytest.mark.spec("HTTP-2", "HTTP-3")
@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["Host: evil.example"], 403),
        (["Host: evil.example:4180"], 403),
        (["Host: localhost.evil.example"], 403),
        (["Host: 127.0.0.1.evil.example"], 403),
        (["Host: "], 403),
        ([], 403),
        (["Host: localhost", "Host: evil.example"], 400),
        (["Host: localhost", "Origin: http://evil.example"], 403),
        (["Host: localhost", "Origin: null"], 403),
        (["Host: localhost", "Origin: http://localhost:1"], 403),
        (["Host: localhost", "Origin: http://localhost.evil.example"], 403),
        (["Host: localhost", "Origin: http://localhost"], 200),
        (["Host: localhost:5555"], 200),
        (["Host: [::1]:5555"], 200),
    ],
)
async def test_hosts_and_origins(tmp_path, lines, status):
    async with serving(tmp_path) as house:
        head = "\r\n".join(
            ["GET /list HTTP/1.1", *lines, f"Authorization: Bearer {house.token}",
             "Connection: close"]
        )  # fmt: skip
        got, headers, document = parsed(await house.send(head.encode() + b"\r\n\r\n"))
        assert got == status, document
        if status == 403:
            check_error(got, document, "forbidden_origin")
        assert not [name for name in headers if name.startswith("access-control")]


SMUGGLED = b"GET /file?path=stolen HTTP/1.1\r\nHost: localhost\r\n\r\n"

TWO_READINGS = {
    "length and chunks": [b"Content-Length: 6", b"Transfer-Encoding: chunked"],
    "two lengths": [b"Content-Length: 6", b"Content-Length: 60"],
    "a list of lengths": [b"Content-Length: 6, 60"],
    "a signed length": [b"Content-Length: +6"],
    "a length in hex": [b"Content-Length: 0x6"],
    "a space before the colon": [b"Transfer-Encoding : chunked"],
    "an unknown coding": [b"Transfer-Encoding: xchunked"],
    "chunked is not last": [b"Transfer-Encoding: chunked, identity"],
    "a folded line": [b"X: y", b" Transfer-Encoding: chunked"],
    "a bare return": [b"X: y\rTransfer-Encoding: chunked"],
    "a nul": [b"X: \x00"],
}


@pytest.mark.spec("HTTP-2", "HTTP-3")
@pytest.mark.parametrize("lines", TWO_READINGS.values(), ids=list(TWO_READINGS))
async def test_a_request_that_can_be_read_in_two_ways(tmp_path, lines):
    async with serving(tmp_path) as house:
        head = b"\r\n".join(
            [b"POST /file/write HTTP/1.1", b"Host: localhost", b"Content-Type: application/json",
             f"Authorization: Bearer {house.token}".encode(), *lines]
        )  # fmt: skip
        answer = await house.send(head + b"\r\n\r\n0\r\n\r\n" + SMUGGLED)
        # One answer, a refusal, and the connection is over: what follows is never a request.
        assert answer.count(b"HTTP/1.1 ") == 1, answer
        status, _, document = parsed(answer)
        check_error(status, document, document["errorKind"])
        assert status in (400, 411, 413, 501), answer
        records = await house.authority.ledger.tail(10)
        assert not any("stolen" in (record.path or "") for record in records)


OTHER_READINGS = {
    "chunks in 1.0": ("PUT /file/raw?path=f HTTP/1.0", "Transfer-Encoding: chunked"),
    "a later version": ("PUT /file/raw?path=f HTTP/2.0", "Content-Length: 3"),
    "a fragment": ("PUT /file/raw?path=f#1 HTTP/1.1", "Content-Length: 3"),
    "another host": ("PUT http://elsewhere/file/raw?path=f HTTP/1.1", "Content-Length: 3"),
    "a user": ("PUT http://me@{host}/file/raw?path=f HTTP/1.1", "Content-Length: 3"),
    "another scheme": ("PUT ftp://{host}/file/raw?path=f HTTP/1.1", "Content-Length: 3"),
    "packed chunks": ("PUT /file/raw?path=f HTTP/1.1", "Transfer-Encoding: gzip, chunked"),
    "a part": ("PUT /file/raw?path=f HTTP/1.1", "Content-Length: 3\r\nContent-Range: bytes 0-2/9"),
}


@pytest.mark.spec("HTTP-2", "HTTP-3", "ERR-5")
@pytest.mark.parametrize(("line", "header"), OTHER_READINGS.values(), ids=list(OTHER_READINGS))
async def test_a_write_that_others_would_read_otherwise(tmp_path, line, header):
    """Taken as it is, each of these would replace the file by something nobody meant."""
    async with serving(tmp_path) as house:
        (house.place / "f").write_text("as it was")
        line = line.format(host=f"127.0.0.1:{house.port}")
        body = b"3\r\nnew\r\n0\r\n\r\n" if "chunked" in header else b"new"
        answer = await house.send(house.head(line, header, "Connection: close") + body)
        assert answer.count(b"HTTP/1.1 ") == 1
        status, _, document = parsed(answer)
        check_error(status, document, "parse_error")
        assert (house.place / "f").read_text() == "as it was"
        assert [each.name for each in house.place.iterdir()] == ["f"]


@pytest.mark.spec("ERR-5")
async def test_a_body_that_would_have_to_be_unpacked(tmp_path):
    async with serving(tmp_path) as house:
        client = house.client()
        for method, route in (("PUT", "/file/raw?path=f"), ("POST", "/file/write")):
            for coding in ("gzip", "br, gzip", "x"):
                headers = {"content-encoding": coding, "content-type": "application/json"}
                got = await client.request(method, route, content=b"{}", headers=headers)
                check_error(got.status_code, got.json(), "unsupported_media_type")
        plain = {"content-encoding": "identity"}
        assert (await client.put("/file/raw?path=f", content=b"", headers=plain)).status_code == 201
        whole = house.head(f"GET http://127.0.0.1:{house.port}/list HTTP/1.1", "Connection: close")
        assert (await house.send(whole)).startswith(b"HTTP/1.1 200")


@pytest.mark.spec("HTTP-3")
@pytest.mark.parametrize(
    "sent",
    [b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n", b"GET /x HTTP/9.9\r\n\r\n", b"\x00" * 50,
     b"GET http://[::1 HTTP/1.1\r\nHost: localhost\r\n\r\n"],
    ids=["tls", "short", "version", "nul", "url"],
)  # fmt: skip
async def test_what_is_not_http(tmp_path, sent):
    async with serving(tmp_path) as house:
        status, headers, document = parsed(await house.send(sent))
        check_error(status, document, "parse_error")
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.spec("HTTP-3")
async def test_an_upgrade_is_answered_as_what_it_is(tmp_path):
    async with serving(tmp_path) as house:
        head = house.head(
            "GET /list HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket",
            "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==",
        )  # fmt: skip
        answer = await house.send(head + SMUGGLED)
        assert answer.startswith(b"HTTP/1.1 200")
        assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.spec("HTTP-2", "HTTP-3")
async def test_an_answer_may_take_its_time_whatever_was_asked(tmp_path, quick, monkeypatch):
    """The bounds are on clients: work of the server is not cut off by any of them."""

    async def slowly(request):
        await let_pass(1.5)
        return system.Health(ok=True)

    async with serving(tmp_path) as house:
        compiled = house.app._exact["GET", "/health"]
        compiled.route = msgspec.structs.replace(compiled.route, handler=slowly)
        monkeypatch.setattr(protocol, "LINGER_SECONDS_MAX", 0.3)
        upgrade = ("Connection: Upgrade", "Upgrade: h2c")
        for headers in (("Connection: close",), upgrade):
            answer = await house.send(house.head("GET /health HTTP/1.1", *headers))
            assert answer.startswith(b"HTTP/1.1 200"), headers
        together = house.head("GET /health HTTP/1.1")
        last = house.head("GET /health HTTP/1.1", "Connection: close")
        assert (await house.send(together + last)).count(b"HTTP/1.1 200") == 2


@pytest.mark.spec("HTTP-3")
async def test_requests_sent_together_are_answered_in_order(tmp_path):
    async with serving(tmp_path) as house:
        for name in "abc":
            (house.place / name).write_text(name * 3)
        heads = [house.head(f"GET /file/raw?path={name} HTTP/1.1") for name in "ab"]
        last = house.head("GET /file/raw?path=c HTTP/1.1", "Connection: close")
        answer = await house.send(b"".join(heads) + last)
        assert [part[-3:] for part in answer.split(b"HTTP/1.1 200")[1:]] == [b"aaa", b"bbb", b"ccc"]


@pytest.mark.spec("HTTP-2", "HTTP-3")
async def test_who_sends_thousands_together_is_answered_some(tmp_path, monkeypatch):
    waiting = []
    complete = BoundedProtocol.on_response_complete

    def counting(connection):
        waiting.append(len(connection.pipeline))
        complete(connection)

    monkeypatch.setattr(BoundedProtocol, "on_response_complete", counting)
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("a")
        heads = [house.head("GET /file/raw?path=a&n=0 HTTP/1.1")]
        heads += [house.head("GET /file/raw?path=a HTTP/1.1")] * 5_000
        answer = await house.send(b"".join(heads))
        answers = answer.split(b"HTTP/1.1 ")[1:]
        assert PIPELINED_MAX < len(answers) <= PIPELINED_MAX + 2
        assert [each[:3] for each in answers] == [b"400", *[b"200"] * (len(answers) - 1)]
        assert b"connection: close" in answers[-1].lower()
        assert max(waiting) <= PIPELINED_MAX
        # As many as may wait are all answered, and the connection is kept.
        reader, writer = await house.connect()
        writer.write(heads[1] * PIPELINED_MAX)
        for _ in range(PIPELINED_MAX):
            assert (await reader.readuntil(b"\r\n\r\na")).startswith(b"HTTP/1.1 200")
        writer.write(heads[1])
        assert (await reader.readuntil(b"\r\n\r\na")).startswith(b"HTTP/1.1 200")
        writer.close()
        await writer.wait_closed()


@pytest.mark.spec("HTTP-3", "HTTP-5")
@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "parse_error", 400),
        (b"\xff", "parse_error", 400),
        (b"[]", "parse_error", 400),
        (b'{"path": "a"}', "parse_error", 400),
        (b'{"path": "a", "content": 1}', "parse_error", 400),
        (b'{"path": "a", "content": "", "nosuch": 1}', "parse_error", 400),
        (b'{"path": "", "content": ""}', "parse_error", 400),
        (b'{"path": "a", "content": "\\ud800"}', "parse_error", 400),
        (b"[" * 100_000, "parse_error", 400),
        (b'{"path": "../a", "content": ""}', "path_outside_workspace", 400),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_bodies_are_strict(tmp_path, body, kind, status):
    async with serving(tmp_path) as house:
        client = house.client()
        sent = await client.post(
            "/file/write", content=body, headers={"content-type": "application/json"}
        )
        check_error(sent.status_code, sent.json(), kind)
        assert sent.status_code == status
        plain = await client.post(
            "/file/write", content=b"{}", headers={"content-type": "text/plain"}
        )
        check_error(plain.status_code, plain.json(), "unsupported_media_type")
        assert not list(house.place.iterdir())


@pytest.mark.spec("ERR-5")
async def test_a_body_nobody_asked_for_is_refused(tmp_path):
    async with serving(tmp_path) as house:
        got = await house.client().request("GET", "/list", content=b"{}")
        check_error(got.status_code, got.json(), "parse_error")
