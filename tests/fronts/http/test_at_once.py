"""Reads that are answered where they are parsed, without a task: they differ in nothing else."""

import asyncio
import contextlib
import json
import re

import msgspec
import pytest

from bailiwick.errors import IoError
from bailiwick.fronts.http import protocol, settings
from bailiwick.fronts.http.protocol import BoundedProtocol
from bailiwick.fronts.http.routes import system
from bailiwick.hook import Hook
from bailiwick.pipeline import Pipeline
from tests.fronts.http.serving import AGENT, PERSON, check_error, parsed, serving
from tests.waiting import loop_turns, until

USUAL = "Content-Length: 0"
"""A header that says nothing, and with which a request goes the usual way."""


class Ways:
    """Counts requests by the way they were answered."""

    def __init__(self, monkeypatch):
        self.short, self.tasks = 0, 0
        at_once, start = BoundedProtocol._answer_at_once, BoundedProtocol._start_asgi_task

        def answering(connection, headers):
            answered = at_once(connection, headers)
            self.short += answered
            return answered

        def starting(connection, *arguments):
            self.tasks += 1
            start(connection, *arguments)

        monkeypatch.setattr(BoundedProtocol, "_answer_at_once", answering)
        monkeypatch.setattr(BoundedProtocol, "_start_asgi_task", starting)

    def taken(self):
        """How many went the short way and how many did not, since this was asked last."""
        counted = self.short, self.tasks
        self.short = self.tasks = 0
        return counted


@pytest.fixture
def ways(monkeypatch):
    return Ways(monkeypatch)


class Kept:
    """One connection that is kept, and what is asked on it. It ends with the house."""

    def __init__(self, house, reader, writer):
        self.house, self.reader, self.writer = house, reader, writer
        house.also_close(self)

    @classmethod
    async def to(cls, house):
        return cls(house, *await house.connect())

    async def ask(self, path, *headers, token=None, method="GET", body=b""):
        head = self.house.head(f"{method} {path} HTTP/1.1", *headers, token=token)
        self.writer.write(head + body)
        return await self.answer()

    async def answer(self):
        """Status, headers without the date, and the document."""
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 120)
        length = int(re.search(rb"content-length: (\d+)", head)[1])
        status, headers, document = parsed(head + await self.reader.readexactly(length))
        del headers["date"]
        return status, headers, document

    async def aclose(self):
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


async def warm(house, path, **how):
    """Ask once, so that the scope of a caller is open, and what marks the file is known."""
    kept = await Kept.to(house)
    await kept.ask(f"/file?path={path}", USUAL, **how)
    await kept.aclose()


async def records(house):
    """What stands on record of reads: path and outcome."""
    found = (await house.client().get("/audit?operation=read")).json()["records"]
    return [(each["path"], each["outcome"]) for each in reversed(found)]


# --- the same answer ----------------------------------------------------------------------------


@pytest.mark.spec("HTTP-3", "AUDIT-1")
async def test_a_read_at_hand_takes_no_task_and_says_the_same(tmp_path, ways):
    async with serving(tmp_path) as house:
        (house.place / "a.txt").write_text("one\ntwo\n")
        await warm(house, "a.txt")
        ways.taken()
        kept = await Kept.to(house)
        quick = await kept.ask("/file?path=a.txt")
        assert ways.taken() == (1, 0)
        usual = await kept.ask("/file?path=a.txt", USUAL)
        assert ways.taken() == (0, 1)
        named = await kept.ask("/file?path=a.txt", "X-Request-Id: mine")
        assert ways.taken() == (1, 0)
        assert quick[0] == usual[0] == 200
        shown = [answer[1].pop("x-request-id") for answer in (quick, usual, named)]
        assert quick[1] == usual[1]
        assert quick[1]["etag"]
        ids = [answer[2].pop("requestId") for answer in (quick, usual, named)]
        assert quick[2] == usual[2] == named[2]
        assert quick[2]["content"] == "one\ntwo\n"
        assert len(set(ids)) == 3
        assert ids[2] == "mine"
        assert shown == ids
        assert await records(house) == [("a.txt", "success")] * 4


@pytest.mark.spec("HTTP-3")
async def test_what_is_new_is_seen_at_once(tmp_path, ways):
    async with serving(tmp_path) as house:
        kept = await Kept.to(house)
        (house.place / "a.txt").write_text("before")
        await warm(house, "a.txt")
        for content in ("first", "second and longer", ""):
            (house.place / "a.txt").write_text(content)
            assert (await kept.ask("/file?path=a.txt"))[2]["content"] == content
        assert ways.taken()[0] >= 2
        (house.place / "a.txt").unlink()
        assert (await kept.ask("/file?path=a.txt"))[0] == 404


REQUESTS = [
    ("/file?path=a.txt", ()),
    ("/file?path=sub", ()),
    ("/file?path=missing", ()),
    ("/file?path=big.txt", ()),
    ("/file?path=binary", ()),
    ("/file?path=link", ()),
    ("/file?path=../secret", ()),
    ("/file?path=/a.txt", ()),
    ("/file?path=a.txt/", ()),
    ("/file?path=a%2Etxt", ()),
    ("/file?path=a.txt%00", ()),
    ("/file?path=%ff", ()),
    ("/file?path=%", ()),
    ("/file?path=", ()),
    ("/file?path=a.txt&path=a.txt", ()),
    ("/file?path=a.txt&nosuch=1", ()),
    ("/file?path=a.txt&line=1&limit=1", ()),
    ("/file?path=a.txt&fork=none", ()),
    ("/file?path=a.txt&approval=none", ()),
    ("/file", ()),
    ("/file?", ()),
    ("/f%69le?path=a.txt", ()),
    ("/file/?path=a.txt", ()),
    ("/nowhere?path=a.txt", ()),
    ("/roots/workspace/demo/file?path=a.txt", ()),
    ("/file?path=a.txt", ("Origin: http://evil.example",)),
    ("/file?path=a.txt", ("Origin: null",)),
    ("/file?path=a.txt", ("Sec-Fetch-Site: cross-site",)),
    ("/file?path=a.txt", ("Cookie: bailiwick_session=x",)),
    ("/file?path=a.txt", ("X-Request-Id: " + "x" * 129,)),
    ("/file?path=a.txt", ("X-Request-Id: one", "X-Request-Id: two")),
    ("/file?path=a.txt", ("Accept: a", "Accept: b")),
    ("/file?path=a.txt", ("If-None-Match: *",)),
    ("/file?path=a.txt", ("Range: bytes=0-1",)),
]  # fmt: skip


@pytest.mark.spec("HTTP-2", "HTTP-3", "AUDIT-1")
async def test_whatever_is_asked_both_ways_say_the_same(tmp_path):
    async with serving(tmp_path) as house:
        (house.place / "a.txt").write_text("a")
        (house.place / "sub").mkdir()
        (house.place / "big.txt").write_text("big\n" * 80_000)
        (house.place / "binary").write_bytes(bytes(100))
        (house.place / "link").symlink_to("a.txt")
        for token in (None, "wrong-token-of-anybody", ""):
            for path, headers in REQUESTS if token is None else REQUESTS[::6]:
                before = len(await records(house))
                said = []
                for more in ((), (USUAL,)):
                    answer = await house.send(
                        house.head(f"GET {path} HTTP/1.1", *headers, *more, token=token)
                        + house.head("GET /health HTTP/1.1", "Connection: close", token=token)
                    )
                    first = re.split(rb"(?=HTTP/1\.1 )", answer)[1]
                    status, lines, document = parsed(first)
                    # A refusal of the usual way parts from who says how long its body is.
                    own = ("date", "x-request-id")
                    told = {name: lines[name] for name in lines if name not in own}
                    document.pop("requestId", None)
                    said.append((status, told, document))
                assert said[0] == said[1], (path, headers, token)
                after = await records(house)
                assert (len(after) - before) % 2 == 0, (path, headers, token)
                assert len(after) == before or after[-1] == after[-2]


@pytest.mark.spec("HTTP-2")
async def test_a_foreign_host_is_refused_on_a_connection_that_was_served(tmp_path, ways):
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("a")
        await warm(house, "a")
        kept = await Kept.to(house)
        assert (await kept.ask("/file?path=a"))[0] == 200
        assert ways.taken()[0] == 1
        head = house.head("GET /file?path=a HTTP/1.1")
        kept.writer.write(head.replace(b"127.0.0.1", b"evil.example"))
        status, _, document = await kept.answer()
        check_error(status, document, "forbidden_origin")
        kept.writer.write(b"GET /file?path=a HTTP/1.1\r\n\r\n")
        assert (await kept.answer())[0] == 403


# --- who may, and how often ---------------------------------------------------------------------


@pytest.mark.spec("HTTP-2", "AUTH-5")
async def test_a_token_that_ends_is_refused_at_the_very_next_request(tmp_path, ways, clock):
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("a")
        book = house.authority.tokens
        lasting = await book.issue("lasting", str(PERSON), by=PERSON, front="test")
        short = await book.issue("short", str(PERSON), by=PERSON, front="test", expires_in=60)
        kept = await Kept.to(house)
        for token in (lasting, short):
            await warm(house, "a", token=token)
            assert (await kept.ask("/file?path=a", token=token))[0] == 200
        assert ways.taken()[0] == 2
        await book.revoke("lasting", by=PERSON, front="test")
        status, headers, document = await kept.ask("/file?path=a", token=lasting)
        check_error(status, document, "unauthenticated")
        assert headers["www-authenticate"].startswith("bearer")
        clock.advance(60)
        status, _, document = await kept.ask("/file?path=a", token=short)
        check_error(status, document, "unauthenticated")
        assert (await kept.ask("/file?path=a"))[0] == 200


@pytest.mark.spec("AUTH-5", "AUDIT-1")
async def test_a_grant_that_ends_is_refused_at_the_very_next_request(tmp_path, ways):
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("a")
        await house.agent("read")
        agent = await house.authority.tokens.issue("agent", AGENT, by=PERSON, front="test")
        await warm(house, "a", token=agent)
        kept = await Kept.to(house)
        assert (await kept.ask("/file?path=a", token=agent))[0] == 200
        assert ways.taken()[0] == 1
        for grant in (await house.client().get("/grants")).json()["grants"]:
            if grant["standing"]:
                await house.client().post(f"/grants/{grant['id']}/revoke", json={})
        status, _, document = await kept.ask("/file?path=a", token=agent)
        check_error(status, document, "missing_access")


@pytest.mark.spec("HTTP-2")
async def test_every_request_is_counted_once_whatever_way_it_goes(tmp_path, ways):
    async with serving(tmp_path, reads_per_minute=8) as house:
        (house.place / "a").write_text("a")
        await house.agent("read")
        agent = await house.authority.tokens.issue("agent", AGENT, by=PERSON, front="test")
        await warm(house, "a", token=agent)
        kept = await Kept.to(house)
        ways.taken()
        for path, status in (("a", 200), ("missing", 404), ("a&limit=1", 200)):
            for _ in range(2):
                assert (await kept.ask(f"/file?path={path}", token=agent))[0] == status
        assert ways.taken() == (2, 4)
        assert (await kept.ask("/file?path=a", token=agent))[0] == 200
        status, headers, document = await kept.ask("/file?path=a", token=agent)
        check_error(status, document, "rate_limited")
        assert int(headers["retry-after"]) >= 1


RATED = """
[[root]]
kind = "workspace"
id = "demo"
path = "tree"
trusted = true
quota = { operations_per_minute = 6 }
"""


@pytest.mark.spec("AUTH-5", "HTTP-2")
async def test_every_operation_is_counted_once_whatever_way_it_goes(tmp_path, ways):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a").write_text("a")
    async with serving(tmp_path, config=RATED) as house:
        await warm(house, "a")
        kept = await Kept.to(house)
        ways.taken()
        for path, status in (("a", 200), ("missing", 404)):
            for _ in range(2):
                assert (await kept.ask(f"/file?path={path}"))[0] == status
        assert (await kept.ask("/file?path=a"))[0] == 200
        assert ways.taken() == (3, 2)
        status, _, document = await kept.ask("/file?path=a")
        check_error(status, document, "rate_limited")


# --- what has to wait ---------------------------------------------------------------------------


class Slow(Hook):
    """Sees every operation, and takes its time."""

    name = "slow"

    def __init__(self):
        self.seen = []

    async def before(self, context):
        await loop_turns(10)

    async def after(self, context, record):
        self.seen.append((record.path, record.outcome))


@pytest.mark.spec("HTTP-3", "AUDIT-1")
async def test_a_read_that_has_to_wait_goes_on_in_a_task(tmp_path, ways):
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("a")
        await warm(house, "a")
        kept = await Kept.to(house)
        assert (await kept.ask("/file?path=a"))[0] == 200
        slow = Slow()
        unregister = house.authority.hooks.register(slow)
        ways.taken()
        assert (await kept.ask("/file?path=a"))[0] == 200
        assert (await kept.ask("/file?path=missing"))[0] == 404
        assert ways.taken() == (0, 2)
        unregister()
        assert (await kept.ask("/file?path=a"))[0] == 200
        assert ways.taken() == (1, 0)
        assert slow.seen[0] == ("a", "success")
        told = await records(house)
        assert told == [*[("a", "success")] * 3, ("missing", "failed"), ("a", "success")]


@pytest.mark.spec("HTTP-3", "HTTP-5", "AUDIT-1")
async def test_what_fails_on_the_spot_is_told_and_not_done_again(tmp_path, ways, monkeypatch):
    tried = []

    def unrecorded(pipeline, call):
        call.close()
        tried.append(call.verb)
        raise IoError("it was done, but the record could not be written")

    async with serving(tmp_path) as house:
        (house.place / "a").write_text("a")
        await warm(house, "a")
        kept = await Kept.to(house)
        ways.taken()
        with monkeypatch.context() as patched:
            patched.setattr(Pipeline, "succeeded", unrecorded)
            status, _, document = await kept.ask("/file?path=a")
        check_error(status, document, "io_error")
        assert tried == ["read_text"]
        found, _ = house.app._prompt[b"/file"]
        house.app._prompt[b"/file"] = found, lambda request: "\ud800"  # no JSON can say this
        status, _, document = await kept.ask("/file?path=a")
        check_error(status, document, "internal_error")
        assert ways.taken() == (0, 2)


@pytest.mark.spec("HTTP-3", "AUDIT-1")
async def test_a_client_that_leaves_before_its_task_begins(tmp_path, ways):
    """A read that has to wait, of a client that has gone: what it began is let go of."""
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("a")
        await warm(house, "a")
        unregister = house.authority.hooks.register(Slow())
        for _ in range(20):
            _, writer = await house.connect()
            writer.write(house.head("GET /file?path=a HTTP/1.1"))
            writer.transport.abort()
        await until(lambda: not house.app_connections() and not house.server.server_state.tasks)
        unregister()
        for _ in range(20):
            _, writer = await house.connect()
            writer.write(house.head("GET /file?path=a HTTP/1.1"))
            writer.transport.abort()
        await until(lambda: not house.app_connections())
        assert (await house.client().get("/file?path=a")).status_code == 200


# --- one connection -----------------------------------------------------------------------------


@pytest.mark.spec("HTTP-3")
async def test_a_request_may_come_byte_by_byte(tmp_path, ways):
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("a")
        await warm(house, "a")
        ways.taken()
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
        assert ways.taken() == (2, 0)


@pytest.mark.spec("HTTP-3")
async def test_requests_sent_together_are_answered_in_order_and_take_turns(tmp_path, ways):
    async with serving(tmp_path) as house:
        for number in range(40):
            (house.place / f"{number}").write_text(f"{number}")
            await warm(house, f"{number}")
        ways.taken()
        kept = await Kept.to(house)
        heads = [house.head(f"GET /file?path={number} HTTP/1.1") for number in range(40)]
        kept.writer.write(b"".join(heads))
        for number in range(40):
            assert (await kept.answer())[2]["content"] == f"{number}"
        short, tasks = ways.taken()
        # Of what comes in one piece one is answered on the spot; the pieces are the kernel's.
        assert short + tasks == 40
        assert 1 <= short < 20
        # Once all is answered the connection is as it was.
        assert (await kept.ask("/file?path=0"))[2]["content"] == "0"
        assert ways.taken() == (1, 0)


@pytest.mark.spec("HTTP-3")
async def test_a_read_waits_for_what_was_asked_before_it(tmp_path, ways):
    answered = asyncio.Event()

    async def slowly(request):
        await answered.wait()
        return system.Health(ok=True)

    async with serving(tmp_path) as house:
        (house.place / "a").write_text("a")
        await warm(house, "a")
        compiled = house.app._exact["GET", "/health"]
        compiled.route = msgspec.structs.replace(compiled.route, handler=slowly)
        kept = await Kept.to(house)
        ways.taken()
        kept.writer.write(house.head("GET /health HTTP/1.1"))
        await until(lambda: ways.tasks == 1)
        kept.writer.write(house.head("GET /file?path=a HTTP/1.1"))
        connections = house.server.server_state.connections
        await until(lambda: any(each.pipeline for each in connections))
        answered.set()
        assert (await kept.answer())[2]["kind"] == "health"
        assert (await kept.answer())[2]["kind"] == "file"
        assert ways.taken() == (0, 2)


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
async def test_what_comes_behind_an_answer_is_judged_by_itself(tmp_path, ways):
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
            ways.taken()
            answers = re.split(rb"(?=HTTP/1\.1 )", await house.send(read + rest))[1:]
            assert [parsed(each)[0] for each in answers] == [200, status], rest
            assert ways.taken()[0] == 1
            # By itself it is answered just so, and the connection ends.
            assert parsed(await house.send(rest))[0] == status
            # So it is where another request was answered by a task before.
            kept = await Kept.to(house)
            assert (await kept.ask("/file?path=a", USUAL))[0] == 200
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
    monkeypatch.setattr("bailiwick.fronts.http.server.KEEP_ALIVE_SECONDS", 0.3)
    monkeypatch.setattr("bailiwick.fronts.http.server._LOOK_SECONDS", 0.1)


@pytest.mark.spec("HTTP-2")
async def test_a_client_that_asks_and_does_not_read_is_let_go(tmp_path, ways, monkeypatch):
    monkeypatch.setattr("bailiwick.fronts.http.server._LOOK_SECONDS", 0.1)
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("0123456\n" * 30_000)
        await warm(house, "a")
        ways.taken()
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
        assert sum(ways.taken()) < 60
        writer.close()


@pytest.mark.spec("HTTP-2")
@pytest.mark.parametrize("headers", [(), (USUAL,)])
async def test_a_connection_that_is_kept_ends_when_nothing_comes(tmp_path, headers):
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("a")
        await warm(house, "a")
        kept = await Kept.to(house)
        (connection,) = house.server.server_state.connections
        for _ in range(4):
            assert (await kept.ask("/file?path=a", *headers))[0] == 200
            connection.look_at(connection.since + settings.KEEP_ALIVE_SECONDS)
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
async def test_a_server_that_closes_answers_nothing_on_the_spot(tmp_path, ways):
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("a")
        await warm(house, "a")
        kept, idle = await Kept.to(house), await Kept.to(house)
        assert (await kept.ask("/file?path=a"))[0] == 200
        assert (await idle.ask("/file?path=a"))[0] == 200
        ways.taken()
        house.app.closing.set()
        status, _, document = await kept.ask("/file?path=a")
        check_error(status, document, "closed")
        assert ways.taken() == (0, 1)
        house.app.closing.clear()
        house.server.stop()
        assert await asyncio.wait_for(idle.reader.read(), 120) == b""
