"""HTTP/1.1 as a client of one server speaks it: the heads of requests, and answers as they come.

Nothing is sent or received here. An answer is read strictly: what two readers could take for two
different answers is none. So lines end with CRLF and are not folded, a length is given once and in
digits, and no body has both a length and chunks. No request here is a HEAD, whose answer would have
a length and no body.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

HEAD_BYTES_MAX: Final = 100 * 1024
"""The most that the headers of an answer may hold, or what stands between the parts of its body."""

_NAME = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"
_TEXT = rb"[\t\x20-\x7e\x80-\xff]*+"
_FIELD = rb"(%b):(%b)\r\n" % (_NAME, _TEXT)

_is_target = re.compile(rb"[\x21-\x7e]+").fullmatch
_is_name = re.compile(_NAME).fullmatch
_is_value = re.compile(rb"(?:[\x21-\x7e\x80-\xff](?:%b)(?<![ \t]))?" % _TEXT).fullmatch

_status_line = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: %b)?\r\n" % _TEXT).match
_are_fields = re.compile(rb"(?:%b:%b\r\n)*+" % (_NAME, _TEXT)).fullmatch
_fields = re.compile(_FIELD).findall
_chunk_size = re.compile(rb"([0-9A-Fa-f]{1,16}+)[ \t]*+(?:;%b)?\r\n" % _TEXT).fullmatch
_is_length = re.compile(rb"[0-9]{1,18}").fullmatch

_Framing = Literal["length", "chunked", "close"]
"""Where a body ends: after so many bytes, by a chunk of none, or with the connection."""


class NotHttp(Exception):
    """What was said, or is to be said, is no HTTP/1.1."""


class ResponseHead(NamedTuple):
    """The status of an answer, and its headers by their names in small letters; of several with one
    name the last."""

    status: int
    headers: dict[bytes, bytes]


def field_lines(fields: Iterable[tuple[str, str]]) -> bytes:
    """Headers as they are sent. Raises `NotHttp` for what does not fit into one."""
    lines = []
    try:
        for name, value in fields:
            shown, said = name.encode("ascii"), value.encode()
            if not _is_name(shown) or not _is_value(said):
                raise NotHttp
            lines.append(b"%b: %b\r\n" % (shown, said))
    except UnicodeEncodeError:
        raise NotHttp from None
    return b"".join(lines)


def request_line(method: str, target: str) -> bytes:
    """What a request begins with. Raises `NotHttp` for a target that is none."""
    try:
        shown = target.encode("ascii")
    except UnicodeEncodeError:
        raise NotHttp from None
    if not _is_target(shown):
        raise NotHttp
    return b"%b %b HTTP/1.1\r\n" % (method.encode(), shown)


def chunk(data: bytes) -> bytes:
    """A part of a body whose length nobody knows yet; one of nothing ends it."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class ResponseReader:
    """Reads one answer after the other from what comes on a connection.

    What comes is given to `feed`. `head` and `body` return None until more of it has come.
    """

    def __init__(self) -> None:
        self._data = b""
        self._at = 0
        self._ended = False
        self._framing: _Framing = "length"
        self._left = 0
        self._after_chunk = False
        self._in_trailers = False
        self._in_body = False
        self.keeps = True
        """Whether another request may follow on the connection, as far as the answers say."""

    @property
    def is_between(self) -> bool:
        """Whether an answer was read to its end, and nothing came after it."""
        return not self._in_body and self._at == len(self._data) and not self._ended

    def feed(self, data: bytes) -> None:
        """Take what came next; nothing stands for the end of the connection."""
        if not data:
            self._ended = True
        elif self._at == len(self._data):
            self._data, self._at = data, 0
        else:
            self._data, self._at = self._data[self._at :] + data, 0

    def head(self) -> ResponseHead | None:
        """The head of an answer, or of one that goes before it (1xx). Raises `NotHttp`."""
        end = self._data.find(b"\r\n\r\n", self._at, self._at + HEAD_BYTES_MAX)
        if end < 0:
            self._require_more()
            return None
        line = _status_line(self._data, self._at)
        if line is None:
            raise NotHttp
        found = self._fields_until(line.end(), end + 2)
        self._at = end + 4
        headers = {name.lower(): value.strip(b" \t") for name, value in found}
        if len(headers) != len(found):
            _look_at_repeated(found, headers)
        status, is_newer = int(line[2]), line[1] == b"1"
        framing, length = _framing_of(headers, is_newer)
        if status == 101:
            raise NotHttp  # nobody asked for another protocol
        if status >= 200:
            if status in (204, 304):
                framing, length = "length", 0  # whatever they say
            self._begin_body(framing, length)
            asked = headers.get(b"connection", b"").lower().split(b",")
            closes = framing == "close" or b"close" in [each.strip(b" \t") for each in asked]
            self.keeps = is_newer and not closes
        return ResponseHead(status, headers)

    def _fields_until(self, begin: int, end: int) -> list[tuple[bytes, bytes]]:
        if _are_fields(self._data, begin, end) is None:
            raise NotHttp
        return _fields(self._data, begin, end)

    def _begin_body(self, framing: _Framing, length: int) -> None:
        self._framing, self._left = framing, length
        self._in_body = True
        self._after_chunk = self._in_trailers = False

    def body(self) -> bytes | None:
        """What has come of the body, and nothing at its end. Raises `NotHttp` where it ends
        early."""
        if self._framing == "close":
            piece = self._data[self._at :]
            self._at = len(self._data)
            if piece or not self._ended:
                return piece or None
        elif self._left:
            return self._part()
        elif self._framing == "chunked":
            return self._chunked()
        self._in_body = False
        return b""

    def _part(self) -> bytes | None:
        """What has come of what has a length."""
        piece = self._data[self._at : self._at + self._left]
        if not piece:
            self._require_more()
            return None
        self._at += len(piece)
        self._left -= len(piece)
        return piece

    def _chunked(self) -> bytes | None:
        while not self._in_trailers:
            if self._left:
                self._after_chunk = True
                return self._part()
            begin = self._at + 2 * self._after_chunk
            end = self._data.find(b"\r\n", begin, begin + HEAD_BYTES_MAX)
            if end < 0:
                self._require_more()
                return None
            size = _chunk_size(self._data, begin, end + 2)
            if size is None or self._data[self._at : begin] not in (b"", b"\r\n"):
                raise NotHttp
            self._at, self._left = end + 2, int(size[1], 16)
            self._in_trailers = not self._left
        if self._data.startswith(b"\r\n", self._at):
            self._at += 2
        else:
            end = self._data.find(b"\r\n\r\n", self._at, self._at + HEAD_BYTES_MAX)
            if end < 0:
                self._require_more()
                return None
            self._fields_until(self._at, end + 2)
            self._at = end + 4
        self._framing, self._in_body = "length", False
        return b""

    def _require_more(self) -> None:
        """Refuse to wait for what does not come, or without end."""
        if self._ended or len(self._data) - self._at > HEAD_BYTES_MAX:
            raise NotHttp


def _framing_of(headers: dict[bytes, bytes], is_newer: bool) -> tuple[_Framing, int]:
    """Where the body ends, and the length of one that has one."""
    length, coding = headers.get(b"content-length"), headers.get(b"transfer-encoding")
    if coding is not None:
        if coding.lower() != b"chunked" or length is not None or not is_newer:
            raise NotHttp
        return "chunked", 0
    if length is None:
        return "close", 0
    if not _is_length(length):
        raise NotHttp
    return "length", int(length)


def _look_at_repeated(fields: list[tuple[bytes, bytes]], headers: dict[bytes, bytes]) -> None:
    """Refuse headers that say twice where a body ends; what is said of the connection is all of
    it."""
    names = [name.lower() for name, _ in fields]
    if names.count(b"content-length") > 1 or names.count(b"transfer-encoding") > 1:
        raise NotHttp
    if b"connection" in headers:
        said = (value for name, value in fields if name.lower() == b"connection")
        headers[b"connection"] = b",".join(said)
