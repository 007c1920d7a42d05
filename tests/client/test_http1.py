"""Answers as they come: read strictly, however they are cut, and as another reader does."""

import itertools

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.client.http1 import (
    HEAD_BYTES_MAX,
    NotHttp,
    ResponseReader,
    chunk,
    field_lines,
    request_line,
)

pytestmark = pytest.mark.spec("PY-5")


def whole(pieces):
    """What is read of an answer that comes in pieces and ends: its status, headers and body."""
    reader, waiting = ResponseReader(), itertools.chain(pieces, [b""])

    def read(what):
        while (found := what()) is None:
            reader.feed(next(waiting))
        return found

    head = read(reader.head)
    while head.status < 200:
        head = read(reader.head)
    body = b""
    while piece := read(reader.body):
        body += piece
    return head.status, head.headers, body


def refused(said):
    with pytest.raises(NotHttp):
        whole([said])
    return True


def by_h11(said):
    """What another reader makes of it."""
    wire = h11.Connection(h11.CLIENT)
    wire.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
    wire.send(h11.EndOfMessage())
    wire.receive_data(said)
    wire.receive_data(b"")
    body, response = b"", None
    while type(event := wire.next_event()) is not h11.EndOfMessage:
        if type(event) is h11.Response:
            response = event
        elif type(event) is h11.Data:
            body += event.data
        else:
            assert type(event) is h11.InformationalResponse, event
    return response.status_code, dict(response.headers), body


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("said", "body", "keeps"),
    [
        (OK, b"{}", True),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", b"{}", False),
        (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\n{}", b"{}", True),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 \r\nX: y\r\n\r\n" + OK, b"{}", True),
        (b"HTTP/1.1 200 OK\r\n\r\n{}", b"{}", False),
        (b"HTTP/1.1 204 No\r\nContent-Length: 2\r\n\r\n", b"", True),
        (b"HTTP/1.1 304 No\r\n\r\n", b"", True),
        (b"HTTP/1.1 200 OK\r\nconnection: x, Close\r\nContent-Length: 0\r\n\r\n", b"", False),
        (b"HTTP/1.1 200 OK\r\nconnection: close\r\nconnection: x\r\nContent-Length: 0\r\n\r\n",
         b"", False),
        (OK + b"more", b"{}", False),
        (CHUNKED + b"2\r\n{}\r\n0\r\n\r\n", b"{}", True),
        (CHUNKED + b"01 ;x=y\r\n{\r\nA\r\n234567890}\r\n000\r\nX: y\r\n\r\n", b"{234567890}", True),
        (CHUNKED + b"0\r\n\r\n" + OK, b"", False),
    ],
)  # fmt: skip
def test_where_an_answer_ends_and_whether_another_may_follow(said, body, keeps):
    reader = ResponseReader()
    reader.feed(said)
    assert whole([said])[2] == body
    # The end of the connection ends whatever may follow: so it is asked before that is told.
    head = reader.head()
    while head.status < 200:
        head = reader.head()
    while reader.body():
        pass
    assert (reader.keeps and reader.is_between) == keeps


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 099 OK\r\n\r\n",
        b"HTTP/1.1  200 OK\r\n\r\n",
        b"HTTP/1.1 101 Upgrade\r\n\r\n" + OK,
        b"HTTP/1.1 200 O\nK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX : y\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n: y\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: y\r\n folded\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: y\nContent-Length: 1\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nX: y\rz\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: \0\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        CHUNKED,
        CHUNKED + b"2\r\n{}",
        CHUNKED + b"2\r\n{}0\r\n\r\n",
        CHUNKED + b"2\r\n{}x\r\n0\r\n\r\n",
        CHUNKED + b"2\r\n{}\r\n",
        CHUNKED + b"2\n{}\r\n0\r\n\r\n",
        CHUNKED + b"0x2\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"-2\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"0\r\nno field\r\n\r\n",
        CHUNKED + b"0\r\nX: y\r\n",
        CHUNKED + b"11111111111111112\r\n",
    ],
)  # fmt: skip
def test_what_is_no_answer(said):
    assert refused(said)


@pytest.mark.parametrize(
    "begun",
    [b"HTTP/1.1 200 OK\r\nX: ", CHUNKED + b"1;", CHUNKED + b"0\r\nX: ", b"HTTP/1.1 200 "],
)
def test_what_has_no_end_is_not_waited_for(begun):
    def without_end():
        yield begun
        for _ in range(2 * HEAD_BYTES_MAX // 1_024):
            yield b" " * 1_024
        pytest.fail("it is still waited for")

    with pytest.raises(NotHttp):
        whole(without_end())


names = st.sampled_from(
    [b"Content-Length", b"content-length", b"Transfer-Encoding", b"Connection", b"X", b"ETag"]
)
values = st.one_of(
    st.sampled_from(
        [b"0", b"2", b"5", b"chunked", b"Chunked", b"close", b"keep-alive", b"", b"a b"]
    ),
    st.binary(max_size=4),
)
bodies = st.one_of(
    st.binary(max_size=12),
    st.lists(st.binary(min_size=1, max_size=6), max_size=3).map(
        lambda parts: b"".join(map(chunk, parts)) + chunk(b"")
    ),
)


@st.composite
def answers(draw):
    """Answers of which many are right, and some are right but for a byte or two."""
    status = draw(st.sampled_from([b"200 OK", b"200", b"204 No", b"304 N", b"404 Not", b"100 Go"]))
    fields = draw(st.lists(st.tuples(names, values), max_size=4))
    lines = [b"HTTP/1.%d %b" % (draw(st.sampled_from([1, 1, 1, 0])), status)]
    lines += [b"%b:%b%b" % (name, draw(st.sampled_from([b" ", b"", b"\t "])), value)
              for name, value in fields]  # fmt: skip
    said = b"\r\n".join(lines) + b"\r\n\r\n" + draw(bodies)
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        at = draw(st.integers(0, len(said)))
        said = said[:at] + draw(st.binary(max_size=2)) + said[at + draw(st.integers(0, 2)) :]
    return said


@given(answers(), st.lists(st.integers(0, 200), max_size=5))
def test_what_is_taken_is_what_another_reader_takes_however_it_is_cut(said, cuts):
    places = sorted({0, len(said), *(each for each in cuts if each < len(said))})
    pieces = [said[a:b] for a, b in itertools.pairwise(places)]
    try:
        taken = whole([said] if said else [])
    except NotHttp:
        with pytest.raises(NotHttp):
            whole(pieces)
        return
    assert whole(pieces) == taken
    status, headers, body = by_h11(said)
    assert (status, body) == (taken[0], taken[2])
    told_otherwise = (b"connection", b"transfer-encoding")  # all of them joined; in small letters
    for each in told_otherwise:
        assert (each in headers) == (each in taken[1])
        headers.pop(each, None), taken[1].pop(each, None)
    assert headers == taken[1]


@pytest.mark.parametrize(
    "fields", [{"x": "a\r\nb: c"}, {"x": " a"}, {"x": "a "}, {"x": "\x7f"}, {"a b": "c"}, {"": "c"}]
)
def test_what_does_not_fit_into_a_header(fields):
    with pytest.raises(NotHttp):
        field_lines(fields.items())


@pytest.mark.parametrize("target", ["", "/a b", "/a\r\n", "/ä", "/\0"])
def test_what_is_no_target(target):
    with pytest.raises(NotHttp):
        request_line("GET", target)
