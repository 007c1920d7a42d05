"""A server, or something in between, that lies: each lie is an error, and costs little."""

import contextlib
import gzip
import json
import logging
import tracemalloc

import pytest

from bailiwick import errors
from bailiwick.client import connect, events, reconnection, transport
from tests.client.lying import CAPABILITIES, answer, lying
from tests.waiting import for_ever, let_pass, loop_turns

pytestmark = pytest.mark.spec("PY-5")

TOKEN = "bwk_marmalade"


@contextlib.asynccontextmanager
async def told(said, **options):
    async with lying(said) as liar, connect(liar.url, token=TOKEN, **options) as fs:
        fs.liar = liar
        yield fs
        await loop_turns(20)  # for the library to let go of what it was reading


async def refused(call):
    with pytest.raises(errors.BailiwickError) as caught:
        await call
    # Its frames would keep the library's generators alive until the loop is gone.
    return caught.value.with_traceback(None)


async def drained(chunks):
    return b"".join([chunk async for chunk in chunks])


STAT = {
    "kind": "stat", "path": "a", "name": "a", "type": "file", "sizeBytes": 1, "modifiedMs": 1,
    "modifiedNs": 1, "mode": 384, "version": "1", "links": 1, "target": None, "mime": None,
}  # fmt: skip


async def test_what_is_right_is_taken():
    async with told(answer(STAT)) as fs:
        assert (await fs.stat("a")).mode == 0o600


WRONG = {
    "no JSON": b"<html>hello</html>",
    "no object": b"[]",
    "another kind": {**STAT, "kind": "list"},
    "something missing": {key: value for key, value in STAT.items() if key != "version"},
    "text for a number": {**STAT, "sizeBytes": "1"},
    "an unknown type": {**STAT, "type": "device"},
    "a path that climbs": {**STAT, "path": "../../etc/passwd"},
    "an absolute path": {**STAT, "path": "/etc/passwd"},
    "a path with NUL": {**STAT, "path": "a\0b"},
    "half a character": b'{"kind": "stat", "path": "\xff"}',
    "nested without end": b"[" * 100_000,
    "nothing": b"",
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG.keys())
async def test_what_is_no_answer_is_an_error(body):
    async with told(answer(body)) as fs:
        error = await refused(fs.stat("a"))
    assert type(error) is errors.InternalError
    assert "no answer that can be understood" in str(error)
    assert TOKEN not in f"{error!r} {error} {error.__dict__}"


ENTRY = {
    "name": "b", "path": "a/b", "type": "file", "ignored": False, "sizeBytes": 1,
    "modifiedMs": 1, "modifiedNs": 1, "addressable": True,
}  # fmt: skip


@pytest.mark.parametrize(
    "entry",
    [
        {**ENTRY, "name": "../b"}, {**ENTRY, "path": "a/c"}, {**ENTRY, "name": ".."},
        {**ENTRY, "path": "../b"}, {**ENTRY, "name": ""}, {**ENTRY, "path": 7}, "b",
    ],
)  # fmt: skip
async def test_an_entry_leads_nowhere_else(entry):
    page = {
        "kind": "list", "path": "a", "entries": [entry], "truncated": False, "nextCursor": None,
        "requestId": "r",
    }  # fmt: skip
    async with told(answer(page)) as fs:
        assert type(await refused(fs.list("a"))) is errors.InternalError
        fs.liar.said = answer({**page, "entries": [ENTRY]})
        assert (await fs.list("a")).entries[0].path == "a/b"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status):
    async with lying(answer(STAT)) as elsewhere:
        to = f"Location: {elsewhere.url}/stat?path=a"
        async with told(answer(b"", f"{status} Elsewhere", to)) as fs:
            for call in (fs.stat("a"), fs.write_text("a", "x"), drained(fs.stream("a"))):
                assert type(await refused(call)) is errors.InternalError
        assert elsewhere.heard == []


async def test_the_environment_sends_the_token_nowhere(monkeypatch):
    async with lying(answer(STAT)) as elsewhere:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, elsewhere.url)
        async with told(answer(STAT)) as fs:
            await fs.stat("a")
        assert elsewhere.heard == []


async def test_a_huge_answer_is_not_read():
    async with told(answer(b"{}", length=2**40)) as fs:
        error = await refused(fs.stat("a"))
    assert (type(error), error.details) == (errors.FileTooLarge, {"limit": 100 * 2**20})


async def test_an_endless_answer_is_not_kept(monkeypatch):
    monkeypatch.setattr(transport.HttpAnswer.document, "__defaults__", (2**20,))

    async def endless(writer):
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(10_000):
            writer.write(b"10000\r\n" + b" " * 65536 + b"\r\n")
            await writer.drain()

    async with told(endless) as fs:
        tracemalloc.start()
        try:
            error = await refused(fs.stat("a"))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert type(error) is errors.FileTooLarge
    assert peak < 8 * 2**20


async def test_what_is_compressed_is_not_unpacked():
    bomb = gzip.compress(b" " * 2**24 + json.dumps(STAT).encode())
    assert len(bomb) < 2**16
    async with told(answer(bomb, "200 OK", "Content-Encoding: gzip")) as fs:
        assert type(await refused(fs.stat("a"))) is errors.InternalError
        assert type(await refused(drained(fs.stream("a")))) is errors.InternalError
        assert all("accept-encoding: identity" in head.lower() for head in fs.liar.heard)


async def test_a_slow_answer_is_given_up():
    async def drip(writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(200):
            writer.write(b" ")
            await writer.drain()
            await let_pass(0.05)

    async with told(drip) as fs:
        fs._session.transport.timeout_s = 0.3  # from here on: to connect may take its time
        error = await refused(fs.stat("a"))
        assert (type(error), error.retryable) == (errors.IoError, True)
        assert "0.3 seconds" in str(error)


async def test_a_server_that_says_nothing_is_given_up():
    async def silent(writer):
        await for_ever()

    async with told(silent) as fs:
        fs._session.transport.timeout_s = 0.2
        for call in (fs.stat("a"), fs.write_text("a", "x"), drained(fs.stream("a"))):
            assert type(await refused(call)) is errors.IoError


# --- cut off ------------------------------------------------------------------------------------


async def test_nobody_there_is_said_plainly():
    async with lying(b"") as liar:
        url = liar.url
    error = await refused(connect(url, token=TOKEN).__aenter__())
    assert type(error) is errors.IoError
    assert error.hint == "is it running?"


def part(data, first, last, size, *, tag='"1"', length=None):
    return answer(
        data, "206 Partial Content", f"ETag: {tag}", f"Content-Range: bytes {first}-{last}/{size}",
        length=length,
    )  # fmt: skip


async def test_a_cut_download_is_taken_up_where_it_broke():
    begun = answer(b"abc", "200 OK", 'ETag: "1"', length=10)
    async with told([begun, part(b"defghij", 3, 9, 10)]) as fs:
        assert await drained(fs.stream("a")) == b"abcdefghij"
        again = fs.liar.heard[-1].lower()
        assert "range: bytes=3-" in again
        assert 'if-match: "1"' in again


CUT = {
    "at once, and for ever": [answer(b"abc", "200 OK", 'ETag: "1"', length=10), b""],
    "without a length": [
        b'HTTP/1.1 200 OK\r\nETag: "1"\r\n\r\nabc',
    ],
    "in the middle of a chunk": [
        b'HTTP/1.1 200 OK\r\nETag: "1"\r\nTransfer-Encoding: chunked\r\n\r\nA\r\nabc',
    ],
    "without a tag": [answer(b"abc", "200 OK", length=10)],
    "and is then another part": [
        answer(b"abc", "200 OK", 'ETag: "1"', length=10), part(b"abcdefg", 0, 6, 10),
    ],
    "and is then the whole": [
        answer(b"abc", "200 OK", 'ETag: "1"', length=10),
        answer(b"abcdefghij", "200 OK", 'ETag: "1"'),
    ],
    "and is then shorter": [
        answer(b"abc", "200 OK", 'ETag: "1"', length=10), part(b"de", 3, 4, 5),
    ],
}  # fmt: skip


@pytest.mark.parametrize("said", CUT.values(), ids=CUT.keys())
async def test_a_cut_download_is_never_a_short_file(said):
    async with told(list(said)) as fs:
        error = await refused(drained(fs.stream("a")))
    assert type(error) in (errors.IoError, errors.InternalError)


async def test_a_part_is_the_part_that_was_asked_for():
    for said in (
        part(b"abc", 0, 2, 10),
        part(b"cdefg", 2, 6, 10),
        answer(b"abcdefghij", "200 OK", 'ETag: "1"'),
        part(b"cde", 2, 4, 10, length=4),
    ):
        async with told(said) as fs:
            assert type(await refused(drained(fs.stream("a", 2, 3)))) in (
                errors.InternalError, errors.IoError,
            )  # fmt: skip
    async with told(part(b"cde", 2, 4, 10)) as fs:
        assert await drained(fs.stream("a", 2, 3)) == b"cde"


BYTES = {
    "kind": "file_bytes", "path": "a", "contentBase64": "YWJj", "offset": 0, "sizeBytes": 3,
    "returnedBytes": 3, "truncated": False, "hash": None, "version": "1", "requestId": "r",
}  # fmt: skip


@pytest.mark.parametrize(
    "lie", [{"offset": 1}, {"contentBase64": "?"}, {"contentBase64": None}, {"path": ".."}]
)
async def test_bytes_are_those_that_were_asked_for(lie):
    async with told(answer(BYTES)) as fs:
        assert (await fs.read_bytes("a")).data == b"abc"
        fs.liar.said = answer({**BYTES, **lie})
        assert type(await refused(fs.read_bytes("a"))) is errors.InternalError
        fs.liar.said = answer(BYTES)
        assert type(await refused(fs.read_bytes("a", 0, 2))) is errors.InternalError


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(errors.KINDS))
@pytest.mark.spec("ERR-4")
async def test_every_error_is_the_same_here(kind):
    known = errors.KINDS[kind]
    body = {
        "errorKind": kind, "error": "why", "status": known.default_status, "requestId": "r1",
        "category": known.category, "retryable": known.retryable, "hint": "do", "path": "a/b",
        "decidedBy": "rule", "details": {"currentHash": "sha256:" + "0" * 64, "retryAfterS": 2},
    }  # fmt: skip
    async with told(answer(body, f"{known.default_status} No"), retry=0) as fs:
        error = await refused(fs.stat("a"))
    assert type(error) is known
    assert (error.message, error.hint, error.path) == ("why", "do", "a/b")
    assert (error.decided_by, error.request_id) == ("rule", "r1")
    assert error.details == {"current_sha256": "0" * 64, "retry_after_s": 2}
    assert error.status == known.default_status


async def test_an_error_repaints_no_terminal():
    body = {"errorKind": "busy\x1b[2J", "error": "\x1b[31m\u202e" + "x" * 10_000, "path": "\x07"}
    for kind, known in ((body["errorKind"], errors.InternalError), ("busy", errors.Busy)):
        async with told(answer({**body, "errorKind": kind}, "503 No"), retry=0) as fs:
            error = await refused(fs.stat("a"))
        assert type(error) is known
        assert str(error).isprintable()
        assert len(str(error)) < 6_000


@pytest.mark.parametrize(
    ("status", "known"),
    [(502, errors.IoError), (504, errors.IoError), (404, errors.InternalError)],
)
async def test_an_error_page_of_something_else(status, known):
    async with told(answer(b"<h1>nginx</h1>" * 1000, f"{status} Bad"), retry=0) as fs:
        assert type(await refused(fs.stat("a"))) is known


async def test_a_question_without_an_id_is_none():
    async with told(answer({"kind": "approval_pending"}, "202 Accepted")) as fs:
        assert type(await refused(fs.write_text("a", "x"))) is errors.InternalError


# --- events -------------------------------------------------------------------------------------

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


def event(cursor, path="a", **more):
    body = {
        "kind": "updated", "path": path, "type": "file", "subject": "", "requestId": "",
        "version": None, "origin": None, "subtree": False, "timeMs": 1, "cursor": cursor,
        "beneath": [], "beneathTruncated": False, **more,
    }  # fmt: skip
    return f"id: {cursor}\nevent: change\ndata: {json.dumps(body)}\n\n".encode()


async def test_a_watch_goes_on_from_the_last_change():
    half = event("3")[:40]
    said = [
        STREAM + b"retry: 1\nid: 0\n\n" + event("1") + event("2") + half,
        b"",
        STREAM + b": still here\n\n" + event("3") + event("4"),
    ]
    async with told(said) as fs:
        async with contextlib.aclosing(fs.watch()) as changes:
            seen = [(await anext(changes)).cursor for _ in range(4)]
        assert seen == ["1", "2", "3", "4"]
        asked = [head.split(" ")[1] for head in fs.liar.heard if "/events" in head]
        assert ["since=2" in each for each in asked] == [False, *[True] * (len(asked) - 1)]


async def test_a_lost_server_is_given_up_in_the_end(monkeypatch):
    monkeypatch.setattr(reconnection, "RETRY_SECONDS", 0.001)
    monkeypatch.setattr(reconnection, "RETRIES_MAX", 2)
    for said in (b"", STREAM, STREAM + b"id: 0\n\n"):
        async with told(said) as fs:
            assert type(await refused(anext(fs.watch()))) is errors.IoError
            assert len(fs.liar.heard) < 20


async def test_a_silent_stream_is_begun_anew(monkeypatch):
    monkeypatch.setattr(events, "SILENCE_SECONDS_MAX", 0.1)

    async def silent(writer):
        writer.write(STREAM + event("1"))
        await writer.drain()
        await for_ever()

    async with (
        told([silent, STREAM + event("2")]) as fs,
        contextlib.aclosing(fs.watch()) as changes,
    ):
        assert [(await anext(changes)).cursor for _ in range(2)] == ["1", "2"]


@pytest.mark.parametrize(
    "said",
    [
        answer({"kind": "change"}),
        STREAM + b"event: change\ndata: {\n\n",
        STREAM + event("1", path="../x"),
        STREAM + event("1", kind="exploded"),
        STREAM + b"event: change\ndata: []\n\n",
    ],
)
async def test_an_event_that_is_none(said):
    async with told(said) as fs:
        assert type(await refused(anext(fs.watch()))) is errors.InternalError


async def test_an_event_without_end(monkeypatch):
    monkeypatch.setattr(events, "EVENT_BYTES_MAX", 10_000)
    for said in (b"data: " + b"x" * 20_000, b"data: x\n" * 20_000):
        async with told(STREAM + said) as fs:
            assert type(await refused(anext(fs.watch()))) is errors.InternalError


async def test_an_error_in_a_stream_is_raised():
    body = {"errorKind": "grant_revoked", "error": "it was taken back", "status": 403}
    async with told(STREAM + f"event: error\ndata: {json.dumps(body)}\n\n".encode()) as fs:
        assert type(await refused(anext(fs.watch()))) is errors.GrantRevoked


# --- before anything is sent --------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1:4180", "ftp://host", "http://", "http://user:secret@host", "http://host?x=1",
        "http://host#x", "http://[", "http://host:99999", 7,
    ],
)  # fmt: skip
def test_an_address_that_is_none(address):
    with pytest.raises(errors.ParseError):
        connect(address)


@pytest.mark.parametrize("token", ["", "a b", "a\r\nX-Evil: 1", "ü", 7])
def test_a_token_that_is_none(token):
    with pytest.raises(errors.ParseError) as caught:
        connect("http://127.0.0.1:1", token=token)
    assert "Evil" not in str(caught.value)


@pytest.mark.parametrize("root", ["demo", "house:demo", "workspace:"])
def test_a_root_that_is_none(root):
    with pytest.raises(errors.ParseError):
        connect("http://127.0.0.1:1", root=root)


async def test_a_root_that_would_be_another_route():
    async with lying(answer(STAT)) as liar:
        async with connect(liar.url, token=TOKEN, root="workspace:../../x?y#z"):
            pass
        assert liar.heard[0].split(" ")[1] == "/roots/workspace/..%2F..%2Fx%3Fy%23z/capabilities"


async def test_what_is_no_server_of_ours():
    for said in ({"kind": "capabilities"}, {**CAPABILITIES, "subject": "x"}, {"ok": True}):
        async with lying(b"", capabilities=said) as liar:
            error = await refused(connect(liar.url, token=TOKEN).__aenter__())
            assert type(error) is errors.InternalError


async def test_the_token_is_in_no_log_and_no_name(caplog):
    caplog.set_level(logging.DEBUG)
    async with told([b"", answer(STAT)]) as fs:
        await fs.stat("a")
        assert TOKEN not in repr(fs) + repr(fs.description) + repr(fs.grant)
    assert TOKEN not in caplog.text
