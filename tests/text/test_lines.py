"""Windows of lines: pages join to the file, in any encoding, at any cap."""

import base64
import zlib
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bailiwick.errors import BinaryFile, HashMismatch, ParseError
from bailiwick.text.codec import decode, encode
from bailiwick.text.cursor import LineCursor, LinePosition, Seen, decode_cursor, encode_cursor
from bailiwick.text.lines import WINDOW_BYTES_MAX, drive, resume, tail, window

ENCODINGS = [
    ("utf-8", False), ("utf-8", True), ("utf-16-le", True), ("utf-16-be", True),
    ("utf-32-le", True), ("utf-32-be", True), ("latin-1", False), ("gb18030", False),
    ("shift_jis", False), ("cp037", False),
]  # fmt: skip

# Letters of all widths, and the two whose UTF-16 bytes hold a line feed across units.
ALPHABET = "ab\n\r\n\u0a0a\u000a\u0a00é☃語😀\U0010ffff"
unicode_texts = st.lists(
    st.sampled_from([*ALPHABET, "\r\n", "\n\n", "a long stretch without an end "]), max_size=60
).map("".join)
plain_texts = st.lists(st.sampled_from(["a", "b ", "\n", "\r\n", "\r", "word"]), max_size=80).map(
    "".join
)


class File:
    """Bytes that count how they are read."""

    def __init__(self, data):
        self.data = data
        self.ranges = []

    def read(self, offset, length):
        assert length > 0
        self.ranges.append((offset, length))
        return self.data[offset : offset + length]

    @property
    def bytes_asked(self):
        return sum(length for _, length in self.ranges)


def pages_of(data, *, limit=None, bytes_max=WINDOW_BYTES_MAX, chunk_bytes=64, encoding=None):
    page = drive(
        window(1, limit, encoding=encoding, bytes_max=bytes_max, chunk_bytes=chunk_bytes),
        File(data).read,
    )
    pages = [page]
    while page.next is not None:
        assert len(pages) <= len(data) + 1, "pages do not advance"
        cursor = decode_cursor(encode_cursor("v1", page.next))
        assert cursor.position == page.next
        page = drive(
            resume(cursor.position, limit, bytes_max=bytes_max, chunk_bytes=chunk_bytes),
            File(data).read,
        )
        pages.append(page)
    return pages


def is_seen(data, seen, end):
    """Whether what was seen before ``end`` is what ``data`` holds there."""
    first = data[seen.start : seen.start + seen.first_bytes]
    last = data[end - seen.last_bytes : end]
    return (
        zlib.crc32(first) == seen.first_checksum and zlib.crc32(last) == seen.last_checksum
        and len(first) == seen.first_bytes and len(last) == seen.last_bytes
    )  # fmt: skip


@pytest.mark.spec("READ-2")
@settings(max_examples=200)
@given(
    text=st.one_of(unicode_texts, plain_texts),
    form=st.sampled_from(ENCODINGS[:6]),
    start=st.tuples(st.sampled_from(["line", "tail"]), st.integers(1, 9)),
    bytes_max=st.integers(8, 40),
    checked_max=st.sampled_from([4, 16, 1 << 20]),
    later=st.binary(max_size=5),
)
def test_every_page_says_what_lies_before_its_end(text, form, start, bytes_max, checked_max, later):
    if text.startswith("\ufeff"):
        return
    data = encode(text, *form)
    how = {"bytes_max": bytes_max, "chunk_bytes": 16, "checked_max": checked_max}
    way, number = start
    first = window(number, **how) if way == "line" else tail(len(data), number, **how)
    page = drive(first, File(data).read)
    begun = page.seen.start
    while True:
        seen, end = page.seen, page.end
        assert is_seen(data + later, seen, end)
        assert seen.start == begun
        assert max(seen.first_bytes, seen.last_bytes) <= checked_max
        if end - begun <= checked_max:
            assert (begun + seen.first_bytes, seen.last_bytes) == (end, 0)
        elif page.text:
            assert seen.last_bytes
        for at in {begun, end - 1, begun + seen.first_bytes - 1} & set(range(begun, end)):
            changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
            inside = at < begun + seen.first_bytes or at >= end - seen.last_bytes
            assert is_seen(changed, seen, end) != inside
        if page.next is None:
            break
        assert page.end == page.next.offset
        cursor = decode_cursor(encode_cursor("v", page.next, seen))
        page = drive(resume(cursor.position, seen=cursor.seen, **how), File(data).read)


def joined(pages):
    text = pages[0].text
    for before, page in pairwise(pages):
        text += page.text if before.partial_line else "\n" + page.text
    return text


def lines_of(text):
    """Lines as a person counts them: a newline ends one, and begins none."""
    return text.removesuffix("\n").split("\n") if text else []


def sliced(text, first, count):
    """Some lines of a text, with the newline that ends the text if they reach its end."""
    lines = lines_of(text)
    chosen = lines[first : first + count]
    ends = first + count >= len(lines) and text.endswith("\n") and bool(chosen)
    return "\n".join(chosen) + "\n" * ends


@pytest.mark.spec("READ-2", "READ-3")
@settings(max_examples=400)
@given(
    text=st.one_of(unicode_texts, plain_texts),
    form=st.sampled_from(ENCODINGS),
    limit=st.one_of(st.none(), st.integers(1, 5)),
    bytes_max=st.integers(8, 40),
    chunk_bytes=st.integers(1, 40),
)
def test_pages_join_to_the_file(text, form, limit, bytes_max, chunk_bytes):
    encoding, bom = form
    try:
        data = encode(text, encoding, bom)
    except ParseError:
        return
    named = None if encoding.startswith("utf-") else encoding
    if text.startswith("\ufeff"):
        return
    pages = pages_of(
        data, limit=limit, bytes_max=bytes_max, chunk_bytes=chunk_bytes, encoding=named
    )
    assert joined(pages) == text
    lines = text.split("\n")
    assert pages[-1].total_lines == len(lines_of(text))
    assert pages[-1].ends_with_newline == text.endswith("\n")
    assert all(page.ends_with_newline is None for page in pages[:-1])
    for before, page in zip([None, *pages], pages, strict=False):
        assert (page.encoding, page.bom) == (encoding, bom)
        assert page.returned_bytes == len(encode(page.text, encoding)) <= bytes_max
        assert lines[page.first_line - 1].startswith(page.text.split("\n")[0]) or (
            before.partial_line
        )
        if limit is not None:
            assert len(lines_of(page.text)) <= limit
        if page.partial_line:
            assert page.text
            assert "\n" not in page.text, "a cut inside a line is a page of that line alone"


@pytest.mark.spec("READ-2")
@given(
    text=unicode_texts,
    form=st.sampled_from(ENCODINGS[:6]),
    line=st.integers(1, 30),
    limit=st.integers(1, 30),
    pad=st.sampled_from([0, 5000]),
)
def test_a_window_is_a_slice_of_the_lines(text, form, line, limit, pad):
    text = "x" * pad + "\n" + text
    data = encode(text, *form)
    page = drive(window(line, limit, chunk_bytes=16), File(data).read)
    lines = lines_of(text)
    assert page.text == sliced(text, line - 1, limit)
    assert page.first_line == line
    assert page.truncated == (line - 1 + limit < len(lines))
    assert page.total_lines == (None if page.truncated else len(lines))


@pytest.mark.spec("READ-2")
@settings(max_examples=300)
@given(
    text=st.one_of(unicode_texts, plain_texts),
    form=st.sampled_from(ENCODINGS),
    count=st.integers(1, 30),
    chunk_bytes=st.integers(1, 40),
    pad=st.sampled_from([0, 5000]),
)
def test_tail_is_the_last_lines(text, form, count, chunk_bytes, pad):
    text = "y\n" * pad + text
    encoding, bom = form
    try:
        data = encode(text, encoding, bom)
    except ParseError:
        return
    if text.startswith("\ufeff"):
        return
    named = None if encoding.startswith("utf-") else encoding
    page = drive(tail(len(data), count, encoding=named, chunk_bytes=chunk_bytes), File(data).read)
    lines = lines_of(text)
    assert page.text == sliced(text, max(len(lines) - count, 0), count)
    assert page.next is None
    assert page.ends_with_newline == text.endswith("\n")
    if count >= len(lines):
        assert page.first_line == 1
        assert page.total_lines == len(lines)
    else:
        assert page.first_line is None
        assert page.total_lines is None


@pytest.mark.spec("READ-2")
@given(text=unicode_texts, count=st.integers(1, 20), bytes_max=st.integers(8, 30))
def test_a_tail_larger_than_a_page_is_continued(text, count, bytes_max):
    data = text.encode()
    if text.startswith("\ufeff"):
        return
    pages = [drive(tail(len(data), count, bytes_max=bytes_max), File(data).read)]
    while pages[-1].next is not None:
        pages.append(drive(resume(pages[-1].next, bytes_max=bytes_max), File(data).read))
    assert joined(pages) == sliced(text, max(len(lines_of(text)) - count, 0), count)


@pytest.mark.spec("READ-3")
@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"", 0), (b"a", 1), (b"a\n", 1), (b"\n", 1), (b"a\n\n", 2), (b"a\nb", 2),
        (b"a\r\n", 1), (b"a\r\nb", 2), (b"a\rb", 1), (b"a\r", 1),
        (b"\xef\xbb\xbf", 0), (b"\xef\xbb\xbf\n", 1), (b"\xff\xfe", 0),
        ("a\n".encode("utf-16"), 1), ("a\nb".encode("utf-16"), 2), ("\u0a00".encode("utf-16"), 1),
    ],
)  # fmt: skip
def test_lines_are_counted_as_a_person_does(data, count):
    text = decode(data).text
    assert len(lines_of(text)) == count
    ends = text.endswith("\n")
    whole = drive(window(), File(data).read)
    assert (whole.total_lines, whole.ends_with_newline, whole.next) == (count, ends, None)
    for line in (1, count, count + 1, count + 5):
        page = drive(window(max(line, 1)), File(data).read)
        assert (page.total_lines, page.ends_with_newline) == (count, ends)
        assert bool(page.text) == (1 <= line <= count)
    for limit in (max(count, 1), count + 1):
        page = drive(window(1, limit), File(data).read)
        assert (page.text, page.total_lines, page.next) == (whole.text, count, None)
    assert drive(tail(len(data), count + 1), File(data).read).text == whole.text
    last = drive(tail(len(data), 1), File(data).read)
    assert len(lines_of(last.text)) == min(count, 1)


@pytest.mark.spec("READ-2")
def test_the_newline_that_ends_a_file_comes_with_its_last_line():
    data = b"a\nb\n"
    assert [page.text for page in pages_of(data, limit=1)] == ["a", "b\n"]
    assert drive(window(2), File(data).read).text == "b\n"
    assert drive(window(2, 1), File(data).read).text == "b\n"
    assert drive(tail(4, 1), File(data).read).text == "b\n"
    # One that does not fit into the page is what an empty page stands for.
    pages = pages_of(b"12345678\n", bytes_max=8)
    assert [(page.text, page.total_lines) for page in pages] == [("12345678", None), ("", 1)]


@pytest.mark.spec("READ-2")
@pytest.mark.parametrize("line", [4, 5, 1000, 10**12])
@pytest.mark.parametrize("data", [b"a\nb\nc", b"a\nb\nc\n"])
def test_past_the_end_is_an_empty_page(line, data):
    page = drive(window(line, 10), File(data).read)
    assert (page.text, page.next, page.total_lines, page.first_line) == ("", None, 3, line)


@pytest.mark.spec("READ-3")
def test_a_crlf_page_keeps_its_carriage_returns():
    data = b"a\r\nb\r\nc"
    pages = pages_of(data, limit=1)
    assert [page.text for page in pages] == ["a\r", "b\r", "c"]
    assert [page.line_ending for page in pages] == ["crlf", "crlf", "none"]
    assert joined(pages).encode() == data


@pytest.mark.spec("READ-3")
def test_a_long_line_is_cut_between_characters():
    text = "😀" * 100
    pages = pages_of(text.encode(), bytes_max=10)
    assert all(page.text == "😀😀" for page in pages)
    assert [page.partial_line for page in pages[:-1]] == [True] * (len(pages) - 1)
    assert all(page.next is None or page.next.inside_line for page in pages)
    assert {page.first_line for page in pages} == {1}


@pytest.mark.spec("READ-2")
def test_a_page_is_cut_at_a_line_where_possible():
    data = b"12345678\n" + b"x" * 50
    page = drive(window(bytes_max=20), File(data).read)
    assert (page.text, page.partial_line) == ("12345678", False)
    whole = drive(window(bytes_max=20), File(b"1234\n" * 4).read)
    assert (whole.text, whole.next) == ("1234\n" * 4, None)
    exact = drive(window(bytes_max=8), File(data).read)
    assert (exact.text, exact.partial_line) == ("12345678", False)


@pytest.mark.spec("READ-5")
def test_what_is_not_text_in_the_window_is_binary_file():
    data = b"a" * 5000 + b"\n\xff\xfe\n" + b"b" * 5000
    with pytest.raises(BinaryFile):
        drive(window(2, 1), File(data).read)
    with pytest.raises(BinaryFile):
        drive(window(2), File(data).read)
    with pytest.raises(BinaryFile):
        drive(resume(LinePosition(5001, 2, False, "utf-8", False), bytes_max=8), File(data).read)
    # Lines that are whole text stay readable.
    assert drive(window(3, 1), File(data).read).text == "b" * 5000
    with pytest.raises(BinaryFile):
        drive(window(), File(b"a\0b").read)
    with pytest.raises(BinaryFile):
        drive(tail(3, 1), File(b"a\0b").read)
    with pytest.raises(BinaryFile):
        drive(window(3), File(b"\xff\xfea\0\n\0b").read)


@pytest.mark.spec("READ-5")
def test_a_character_cut_off_by_the_end_of_the_file_is_binary_file():
    data = "ab😀".encode()[:-1]
    with pytest.raises(BinaryFile):
        drive(window(), File(data).read)
    with pytest.raises(BinaryFile):
        pages_of(b"x" * 20 + data, bytes_max=8)


@pytest.mark.spec("READ-2")
@pytest.mark.parametrize(
    "reads",
    [
        lambda: window(0), lambda: window(1, 0), lambda: window(-1), lambda: tail(5, 0),
        lambda: window(bytes_max=7),
    ],
)  # fmt: skip
def test_arguments_out_of_range_are_refused(reads):
    with pytest.raises(ParseError):
        drive(reads(), File(b"a\nb\nc").read)


@pytest.mark.spec("READ-2")
def test_a_file_that_shrinks_under_a_tail_is_reported():
    with pytest.raises(HashMismatch):
        drive(tail(100_000, 5), File(b"a\n" * 100).read)


@pytest.mark.spec("READ-2")
def test_what_is_appended_meanwhile_is_no_part_of_the_tail():
    assert drive(tail(3, 2), File(b"a\nb\nlater").read).text == "a\nb"


class Generated:
    """A file of many GiB that exists only as arithmetic: line k is k in 15 digits."""

    LINE = 16

    def __init__(self, lines):
        self.size = lines * self.LINE
        self.ranges = []

    def read(self, offset, length):
        self.ranges.append((offset, length))
        end = min(offset + length, self.size)
        first = offset // self.LINE
        data = b"".join(b"%015d\n" % k for k in range(first, -(-end // self.LINE)))
        skip = offset - first * self.LINE
        return data[skip : skip + max(end - offset, 0)]


@pytest.mark.spec("READ-2")
def test_a_tail_of_a_huge_file_reads_only_its_end():
    file = Generated(10**10)
    page = drive(tail(file.size, 200), file.read)
    assert page.text.split("\n")[0] == f"{10**10 - 200:015d}"
    assert len(file.ranges) <= 3
    assert sum(length for _, length in file.ranges) < 64 * 1024


@pytest.mark.spec("READ-2")
def test_a_cursor_into_a_huge_file_reads_only_its_page():
    file = Generated(10**10)
    page = drive(resume(LinePosition(16 * 10**9, 10**9 + 1, False, "utf-8", False), 100), file.read)
    assert page.text.startswith(f"{10**9:015d}\n")
    assert page.next is not None
    assert page.next.line == 10**9 + 101
    assert len(file.ranges) == 1


@pytest.mark.spec("READ-2")
def test_skipping_reads_each_byte_once_in_large_chunks():
    file = Generated(1_000_000)
    page = drive(window(900_000, 3), file.read)
    assert page.text == "\n".join(f"{k:015d}" for k in range(899_999, 900_002))
    assert len(file.ranges) < 16 * 900_000 / (256 * 1024) + 8
    ends = [offset + length for offset, length in file.ranges]
    assert [offset for offset, _ in file.ranges[1:]] == ends[:-1]


@pytest.mark.spec("READ-2")
def test_a_small_window_of_a_large_file_asks_for_little():
    file = Generated(1_000_000)
    drive(window(1, 10), file.read)
    assert file.ranges == [(0, 16 * 1024)]


@pytest.mark.spec("READ-2")
def test_a_small_tail_is_read_once():
    file = File(b"a\nb\nc\n")
    drive(tail(6, 2), file.read)
    assert file.ranges == [(0, 6)]


@pytest.mark.spec("READ-2")
def test_memory_is_one_window_whatever_the_line_length():
    held = 0

    def read(offset, length):
        nonlocal held
        held = max(held, length)
        return b"x" * length

    page = drive(window(), read)
    assert page.partial_line
    assert len(page.text) == WINDOW_BYTES_MAX
    assert held <= 256 * 1024


@pytest.mark.spec("READ-2")
def test_misaligned_line_feeds_of_utf16_are_not_lines():
    # U+0A00 after U+0A0A: the bytes between the characters look like a line feed.
    text = "\u0a0a\u0a00" * 3000 + "\n" + "\u000a" + "\u0a00" * 10
    for encoding in ("utf-16-le", "utf-16-be"):
        data = encode(text, encoding, bom=True)
        page = drive(window(2, 5), File(data).read)
        assert page.text == "\n" + "\u0a00" * 10
        assert page.total_lines == 3


@pytest.mark.spec("READ-2")
@given(
    version=st.text(max_size=40),
    offset=st.integers(0, 2**60).map(lambda n: n * 4),
    line=st.one_of(st.none(), st.integers(1, 2**62)),
    inside=st.booleans(),
    encoding=st.sampled_from(["utf-8", "utf-16-le", "latin-1"]),
)
def test_cursors_round_trip(version, offset, line, inside, encoding):
    position = LinePosition(offset, line, inside, encoding, True)
    seen = Seen(0, offset, 2**32 - 1) if offset % 8 else Seen(0, offset // 2, 1, offset // 4, 7)
    try:
        text = encode_cursor(version, position, seen)
    except UnicodeEncodeError:
        return
    assert len(text) <= 1024
    assert decode_cursor(text) == LineCursor(version, position, seen)
    assert decode_cursor(encode_cursor(version, position)) == LineCursor(version, position)


def _packed(text):
    return base64.urlsafe_b64encode(text.encode()).decode()


@pytest.mark.spec("READ-2")
@pytest.mark.parametrize(
    "text",
    [
        "", "x", "!!!!", "é", "A" * 1025, "A" * 2000,
        _packed("[]"), _packed("{}"), _packed("null"),
        _packed('["other","v",[0,1,false,"utf-8",false]]'),
        _packed('["lines","v",[-1,1,false,"utf-8",false]]'),
        _packed('["lines","v",[0,0,false,"utf-8",false]]'),
        _packed('["lines","v",[0,1,1,"utf-8",false]]'),
        _packed('["lines","v",[0,1,false,"rot13",false]]'),
        _packed('["lines","v",[0,1,false,"utf8",false]]'),
        _packed('["lines","v",[0,1,false,"utf-16",false]]'),
        _packed('["lines","v",[3,1,false,"utf-16-le",false]]'),
        _packed('["lines","v",[99999999999999999999,1,false,"utf-8",false]]'),
        _packed('["lines",1,[0,1,false,"utf-8",false]]'),
        _packed('["lines","v",[8,1,false,"utf-8",false],[0,9,0,0,0]]'),
        _packed('["lines","v",[8,1,false,"utf-8",false],[0,7,0,0,0]]'),
        _packed('["lines","v",[8,1,false,"utf-8",false],[0,4,0,5,0]]'),
        _packed('["lines","v",[8,1,false,"utf-8",false],[0,8,-1,0,0]]'),
        _packed('["lines","v",[8,1,false,"utf-8",false],[0,8,4294967296,0,0]]'),
    ],
)  # fmt: skip
def test_malformed_cursors_are_parse_errors(text):
    with pytest.raises(ParseError):
        decode_cursor(text)


@pytest.mark.spec("READ-2")
@given(st.text(max_size=60))
def test_any_text_as_a_cursor_is_parsed_or_refused(text):
    with pytest.raises(ParseError):
        decode_cursor(text)
