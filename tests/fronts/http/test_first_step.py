"""A request takes its first step where it came in; what waits goes on as the same task."""

import asyncio
import contextvars
import logging

import pytest

from bailiwick.errors import IoError
from bailiwick.first_step import BeginsAtOnce, SelectorLoop
from bailiwick.fronts.http import settings
from bailiwick.fronts.http.routes import system
from bailiwick.fronts.http.transport.event_loop import new_event_loop
from bailiwick.pipeline import Pipeline
from tests.fronts.http.serving import AGENT, PERSON, check_error, parsed, serving
from tests.fronts.http.stepping import Kept, Slow, answers_with, records, warm
from tests.waiting import loop_turns, until

pytestmark = pytest.mark.spec("LINE-4")


# --- what is answered in a first step -------------------------------------------------------------


@pytest.mark.spec("HTTP-3", "AUDIT-1")
async def test_a_read_at_hand_is_answered_where_it_came_in(tmp_path, steps):
    assert isinstance(asyncio.get_running_loop(), BeginsAtOnce)
    async with serving(tmp_path) as house:
        (house.place / "a.txt").write_text("one\ntwo\n")
        await warm(house, "a.txt")
        steps.taken()
        kept = await Kept.to(house)
        usual = await kept.ask("/file?path=a.txt")
        empty = await kept.ask("/file?path=a.txt", "Content-Length: 0")
        named = await kept.ask("/file?path=a.txt", "X-Request-Id: mine")
        assert steps.taken() == (3, 0)
        shown = [answer[1].pop("x-request-id") for answer in (usual, empty, named)]
        ids = [answer[2].pop("requestId") for answer in (usual, empty, named)]
        assert usual[0] == empty[0] == named[0] == 200
        assert usual[1] == empty[1]
        assert usual[2] == empty[2] == named[2]
        assert usual[1]["etag"]
        assert usual[2]["content"] == "one\ntwo\n"
        assert len(set(ids)) == 3
        assert ids[2] == "mine"
        assert shown == ids
        assert await records(house) == [("a.txt", "success")] * 4


@pytest.mark.spec("HTTP-3")
async def test_whatever_waits_for_nothing_is_answered_where_it_came_in(tmp_path, steps):
    """Not only reads, and not only what goes well: a body that is there, a refusal, a HEAD."""
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("a")
        await warm(house, "a")
        kept = await Kept.to(house)
        body = b'{"path": "a", "oldText": "missing", "newText": "b", "mistake": 1}'
        json_body = ("Content-Type: application/json", f"Content-Length: {len(body)}")
        steps.taken()
        for method, path, status in (
            ("GET", "/health", 200),
            ("GET", "/nowhere", 404),
            ("DELETE", "/file", 405),
            ("GET", "/file?path=a&path=a", 400),
            ("GET", "/file/bytes?path=a", 200),
            ("GET", "/stat?path=a", 200),
        ):
            assert (await kept.ask(path, method=method))[0] == status, path
        assert steps.taken() == (6, 0)
        kept.writer.write(house.head("HEAD /file?path=a HTTP/1.1"))
        assert (await kept.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        assert (await kept.ask("/health"))[0] == 200
        assert steps.taken() == (2, 0)
        assert (await kept.ask("/file/edit", *json_body, method="POST", body=body))[0] == 400
        assert steps.taken() == (1, 0)


@pytest.mark.spec("HTTP-3")
async def test_what_is_new_is_seen_by_the_next_request(tmp_path, steps):
    async with serving(tmp_path) as house:
        kept = await Kept.to(house)
        (house.place / "a.txt").write_text("before")
        await warm(house, "a.txt")
        for content in ("first", "second and longer", ""):
            (house.place / "a.txt").write_text(content)
            assert (await kept.ask("/file?path=a.txt"))[2]["content"] == content
        assert steps.taken()[0] >= 2
        (house.place / "a.txt").unlink()
        assert (await kept.ask("/file?path=a.txt"))[0] == 404


REQUESTS = [
    ("/file?path=a.txt", (), 200, 1),
    ("/file?path=sub", (), 400, 1),
    ("/file?path=missing", (), 404, 1),
    ("/file?path=big.txt", (), 413, 1),
    ("/file?path=binary", (), 422, 1),
    ("/file?path=link", (), 200, 1),
    ("/file?path=../secret", (), 400, 1),
    ("/file?path=/a.txt", (), 400, 1),
    ("/file?path=a.txt/", (), 400, 1),
    ("/file?path=a%2Etxt", (), 200, 1),
    ("/file?path=a.txt%00", (), 400, 1),
    ("/file?path=%ff", (), 400, 0),
    ("/file?path=%", (), 400, 0),
    ("/file?path=", (), 400, 0),
    ("/file?path=a.txt&path=a.txt", (), 400, 0),
    ("/file?path=a.txt&nosuch=1", (), 400, 0),
    ("/file?path=a.txt&line=1&limit=1", (), 200, 1),
    ("/file?path=a.txt&fork=none", (), 501, 1),
    ("/file?path=a.txt&approval=none", (), 200, 1),
    ("/file", (), 400, 0),
    ("/file?", (), 400, 0),
    ("/f%69le?path=a.txt", (), 404, 0),
    ("/file/?path=a.txt", (), 404, 0),
    ("/nowhere?path=a.txt", (), 404, 0),
    ("/roots/workspace/demo/file?path=a.txt", (), 200, 1),
    ("/file?path=a.txt", ("Origin: http://evil.example",), 403, 0),
    ("/file?path=a.txt", ("Origin: null",), 403, 0),
    ("/file?path=a.txt", ("Sec-Fetch-Site: cross-site",), 403, 0),
    ("/file?path=a.txt", ("Cookie: bailiwick_session=x",), 200, 1),
    ("/file?path=a.txt", ("X-Request-Id: " + "x" * 129,), 200, 1),
    ("/file?path=a.txt", ("X-Request-Id: one", "X-Request-Id: two"), 400, 0),
    ("/file?path=a.txt", ("Accept: a", "Accept: b"), 200, 1),
    ("/file?path=a.txt", ("If-None-Match: *",), 200, 1),
    ("/file?path=a.txt", ("Range: bytes=0-1",), 200, 1),
]  # fmt: skip
"""What is asked, with which headers; the status, and how many records there are of it."""


@pytest.mark.spec("HTTP-2", "HTTP-3", "AUDIT-1")
async def test_whatever_is_asked_is_answered_once_and_on_record_once(tmp_path):
    async with serving(tmp_path) as house:
        (house.place / "a.txt").write_text("a")
        (house.place / "sub").mkdir()
        (house.place / "big.txt").write_text("big\n" * 80_000)
        (house.place / "binary").write_bytes(bytes(100))
        (house.place / "link").symlink_to("a.txt")
        kept, count = await Kept.to(house), 0
        for path, headers, status, on_record in REQUESTS:
            answer = await kept.ask(path, *headers)
            assert answer[0] == status, (path, headers)
            count += on_record
            assert len(await records(house)) == count, (path, headers)
        for token in ("wrong-token-of-anybody", "é"):
            for path, headers, status, _ in REQUESTS:
                if not headers:
                    answer = await kept.ask(path, token=token)
                    is_route = status != 404 or path == "/file?path=missing"
                    assert answer[0] == (401 if is_route else 404), path
        assert len(await records(house)) == count


@pytest.mark.spec("HTTP-2")
async def test_a_foreign_host_is_refused_on_a_connection_that_was_served(tmp_path, steps):
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("a")
        await warm(house, "a")
        kept = await Kept.to(house)
        assert (await kept.ask("/file?path=a"))[0] == 200
        assert steps.taken()[0] == 1
        head = house.head("GET /file?path=a HTTP/1.1")
        kept.writer.write(head.replace(b"127.0.0.1", b"evil.example"))
        status, _, document = await kept.answer()
        check_error(status, document, "forbidden_origin")
        kept.writer.write(b"GET /file?path=a HTTP/1.1\r\n\r\n")
        assert (await kept.answer())[0] == 403


# --- who may, and how often ---------------------------------------------------------------------


@pytest.mark.spec("HTTP-2", "AUTH-5")
async def test_a_token_that_ends_is_refused_at_the_very_next_request(tmp_path, steps, clock):
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("a")
        book = house.authority.tokens
        lasting = await book.issue("lasting", str(PERSON), by=PERSON, front="test")
        short = await book.issue("short", str(PERSON), by=PERSON, front="test", expires_in=60)
        kept = await Kept.to(house)
        for token in (lasting, short):
            await warm(house, "a", token=token)
            assert (await kept.ask("/file?path=a", token=token))[0] == 200
        assert steps.taken()[0] == 2
        await book.revoke("lasting", by=PERSON, front="test")
        status, headers, document = await kept.ask("/file?path=a", token=lasting)
        check_error(status, document, "unauthenticated")
        assert headers["www-authenticate"].startswith("bearer")
        clock.advance(60)
        status, _, document = await kept.ask("/file?path=a", token=short)
        check_error(status, document, "unauthenticated")
        assert (await kept.ask("/file?path=a"))[0] == 200


@pytest.mark.spec("AUTH-5", "AUDIT-1")
async def test_a_grant_that_ends_is_refused_at_the_very_next_request(tmp_path, steps):
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("a")
        await house.agent("read")
        agent = await house.authority.tokens.issue("agent", AGENT, by=PERSON, front="test")
        await warm(house, "a", token=agent)
        kept = await Kept.to(house)
        assert (await kept.ask("/file?path=a", token=agent))[0] == 200
        assert steps.taken()[0] == 1
        for grant in (await house.client().get("/grants")).json()["grants"]:
            if grant["standing"]:
                await house.client().post(f"/grants/{grant['id']}/revoke", json={})
        status, _, document = await kept.ask("/file?path=a", token=agent)
        check_error(status, document, "missing_access")


@pytest.mark.spec("HTTP-2")
async def test_every_request_is_counted_once(tmp_path, steps):
    async with serving(tmp_path, reads_per_minute=8) as house:
        (house.place / "a").write_text("a")
        await house.agent("read")
        agent = await house.authority.tokens.issue("agent", AGENT, by=PERSON, front="test")
        await warm(house, "a", token=agent)
        kept = await Kept.to(house)
        steps.taken()
        for path, status in (("a", 200), ("missing", 404), ("a&limit=1", 200)):
            for _ in range(2):
                assert (await kept.ask(f"/file?path={path}", token=agent))[0] == status
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
async def test_every_operation_is_counted_once(tmp_path, steps):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a").write_text("a")
    async with serving(tmp_path, config=RATED) as house:
        await warm(house, "a")
        kept = await Kept.to(house)
        steps.taken()
        for path, status in (("a", 200), ("missing", 404)):
            for _ in range(2):
                assert (await kept.ask(f"/file?path={path}"))[0] == status
        assert (await kept.ask("/file?path=a"))[0] == 200
        status, _, document = await kept.ask("/file?path=a")
        check_error(status, document, "rate_limited")


# --- what has to wait ---------------------------------------------------------------------------


@pytest.mark.spec("HTTP-3", "AUDIT-1")
async def test_a_read_that_has_to_wait_goes_on_as_the_same_task(tmp_path, steps):
    async with serving(tmp_path) as house:
        (house.place / "a").write_text("a")
        await warm(house, "a")
        kept = await Kept.to(house)
        assert (await kept.ask("/file?path=a"))[0] == 200
        slow = Slow()
        unregister = house.authority.hooks.register(slow)
        steps.taken()
        assert (await kept.ask("/file?path=a"))[0] == 200
        assert steps.taken() == (0, 1)
        # Nobody is asked about what is not there.
        assert (await kept.ask("/file?path=missing"))[0] == 404
        assert steps.taken() == (1, 0)
        unregister()
        assert (await kept.ask("/file?path=a"))[0] == 200
        assert steps.taken() == (1, 0)
        assert slow.seen[0] == ("a", "success")
        told = await records(house)
        assert told == [*[("a", "success")] * 3, ("missing", "failed"), ("a", "success")]


@pytest.mark.spec("HTTP-3", "HTTP-5", "AUDIT-1")
async def test_what_fails_in_its_first_step_is_told_and_not_done_again(
    tmp_path, steps, monkeypatch
):
    tried = []

    def unrecorded(pipeline, call):
        call.close()
        tried.append(call.verb)
        raise IoError("it was done, but the record could not be written")

    async with serving(tmp_path) as house:
        (house.place / "a").write_text("a")
        await warm(house, "a")
        kept = await Kept.to(house)
        steps.taken()
        with monkeypatch.context() as patched:
            patched.setattr(Pipeline, "succeeded", unrecorded)
            status, _, document = await kept.ask("/file?path=a")
        check_error(status, document, "io_error")
        assert tried == ["read_text"]

        async def unsaid(request):
            return "\ud800"  # no JSON can say this

        answers_with(house, unsaid, path="/file")
        status, _, document = await kept.ask("/file?path=a")
        check_error(status, document, "internal_error")
        assert steps.taken() == (2, 0)


@pytest.mark.spec("HTTP-3", "AUDIT-1")
async def test_a_client_that_leaves_while_its_request_waits(tmp_path, steps):
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


# --- what goes wrong ----------------------------------------------------------------------------


LOOPS = {"ours": SelectorLoop, "uvloop": new_event_loop, "another": asyncio.SelectorEventLoop}


def on_loop(factory, work):
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(work)


def budgets(house):
    """What is counted as under way, for all who have called."""
    return [each.requests for each in house.app._callers._budgets.values()]


@pytest.mark.spec("HTTP-2", "HTTP-5")
@pytest.mark.leaks_ok("uvloop keeps a pipe for signals as long as the process lives")
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("raised", [ZeroDivisionError, SystemExit, KeyboardInterrupt])
def test_a_handler_that_raises_ends_its_request_alone(tmp_path, caplog, loop, waits, raised):
    """Whatever it raises, in its first step or later, and on whichever loop."""

    async def failing(request):
        if waits:
            await loop_turns(3)
        raise raised("a handler")

    async def work():
        async with serving(tmp_path, lasting=False) as house:
            (house.place / "a").write_text("a")
            answers_with(house, failing, path="/list")
            bystander = await Kept.to(house)
            assert (await bystander.ask("/file?path=a"))[0] == 200
            for _ in range(3):
                answer = await house.send(house.head("GET /list HTTP/1.1", "Connection: close"))
                assert answer.startswith(b"HTTP/1.1 500 ")
                assert b"a handler" not in answer
                if raised is ZeroDivisionError:
                    check_error(500, parsed(answer)[2], "internal_error")
            await until(lambda: not house.server.server_state.tasks)
            assert set(budgets(house)) == {0}
            assert (await bystander.ask("/file?path=a"))[0] == 200

    with caplog.at_level(logging.ERROR):
        on_loop(LOOPS[loop], work())
    told = [each for each in caplog.records if each.exc_info and each.exc_info[0] is raised]
    assert len(told) == 3


@pytest.mark.spec("HTTP-2", "HTTP-3")
@pytest.mark.leaks_ok("uvloop keeps a pipe for signals as long as the process lives")
@pytest.mark.parametrize("loop", LOOPS)
def test_requests_do_not_see_what_one_before_them_set(tmp_path, loop):
    seen, mark = [], contextvars.ContextVar("mark", default=0)

    async def marking(request):
        seen.append(mark.get())
        mark.set(1)
        return system.Health(ok=True)

    async def work():
        async with serving(tmp_path, lasting=False) as house:
            answers_with(house, marking)
            kept = await Kept.to(house)
            for _ in range(3):
                assert (await kept.ask("/health"))[0] == 200

    on_loop(LOOPS[loop], work())
    assert seen == [0, 0, 0]


@pytest.mark.spec("HTTP-2")
async def test_what_is_under_way_is_counted_until_it_is_answered(tmp_path, steps):
    go_on = asyncio.Event()

    async def slowly(request):
        await go_on.wait()
        return system.Health(ok=True)

    async with serving(tmp_path, lasting=False) as house:
        (house.place / "a").write_text("a")
        answers_with(house, slowly, path="/list")
        kept, gone = await Kept.to(house), await Kept.to(house)
        assert (await kept.ask("/file?path=a"))[0] == 200
        assert budgets(house) == [0]
        for each in (kept, gone):
            each.writer.write(house.head("GET /list HTTP/1.1"))
        await until(lambda: budgets(house) == [2])
        await gone.aclose()
        go_on.set()
        assert (await kept.answer())[0] == 200
        await until(lambda: budgets(house) == [0])
        for path, status in (("/file?path=missing", 404), ("/file", 400), ("/nowhere", 404)):
            assert (await kept.ask(path))[0] == status
            assert budgets(house) == [0]


@pytest.mark.spec("HTTP-2", "HTTP-3")
async def test_a_body_is_waited_for_by_the_task_that_was_begun(tmp_path, steps):
    """Who asks is known before a byte of the body is: who may not is told so then."""
    async with serving(tmp_path) as house:
        kept = await Kept.to(house)
        body = b'{"path": "new", "content": "c"}'
        lines = ("Content-Type: application/json", f"Content-Length: {len(body)}")
        for number, sizes in enumerate(([5, 5], [1] * len(body), [len(body)])):
            head = house.head("POST /file/write HTTP/1.1", *lines)
            kept.writer.write(head)
            await until(lambda count=number: steps.later == count + 1)
            rest = body
            for size in sizes:
                kept.writer.write(rest[:size])
                rest = rest[size:]
                await loop_turns(2)
            kept.writer.write(rest)
            assert (await kept.answer())[0] == (200 if number else 201)
        # A client that says that it may not send all of it is asked to, in the first step.
        steps.taken()
        kept.writer.write(house.head("POST /file/write HTTP/1.1", *lines, "Expect: 100-continue"))
        assert await kept.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert steps.taken() == (0, 1)
        kept.writer.write(body)
        assert (await kept.answer())[0] == 200
        head = house.head("POST /file/write HTTP/1.1", *lines, token="x" * 20)
        status, headers, document = parsed(await house.send(head))
        check_error(status, document, "unauthenticated")
        assert headers["connection"] == "close"
        assert steps.taken() == (1, 0)


@pytest.mark.spec("HTTP-2")
async def test_a_thousand_requests_in_one_piece_take_turns(tmp_path, steps):
    """As many as may wait are answered in order, one in each turn of the loop; then it ends."""
    turn, turns, ended = 0, [], False

    def count():
        nonlocal turn
        turn += 1
        if not ended:
            asyncio.get_running_loop().call_soon(count)

    async def noting(request):
        turns.append(turn)
        return system.Health(ok=True)

    async with serving(tmp_path, lasting=False) as house:
        answers_with(house, noting)
        reader, writer = await house.connect()
        count()
        writer.write(house.head("GET /health HTTP/1.1", token="") * 1_000)
        answers = await asyncio.wait_for(reader.read(), 120)
        ended = True
        writer.close()
        assert len(turns) == len(set(turns))
        assert settings.PIPELINED_MAX < len(turns) == answers.count(b"HTTP/1.1 200 ") < 1_000
        assert answers.count(b"connection: close") == 1


@pytest.mark.spec("HTTP-2")
async def test_what_is_no_http_behind_half_a_body_begins_nothing(tmp_path, steps):
    begun = []

    async def noting(request):
        begun.append(request)

    async with serving(tmp_path, lasting=False) as house:
        answers_with(house, noting, "PUT", "/file/raw")
        head = house.head("PUT /file/raw?path=a HTTP/1.1", "Transfer-Encoding: chunked")
        status, _, document = parsed(await house.send(head + b"3\r\nabc\r\nno size\r\n"))
        check_error(status, document, "parse_error")
        assert begun == []
        assert not house.server.server_state.tasks
