"""Reading through a scope: bytes, text, JSON and streams."""

import asyncio
import hashlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bailiwick
from bailiwick.limits import Limits
from tests.scope.support import Opener, place_of, plant

SHARED_TMP = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
SMALL = Limits(text_read_bytes_max=64)


@pytest.mark.spec("READ-1")
async def test_bytes_are_read_whole_and_by_ranges(opening):
    async with opening() as fs:
        await fs.write_bytes("f", b"0123456789")
        whole = await fs.read_bytes("f")
        assert (whole.data, whole.size, whole.truncated) == (b"0123456789", 10, False)
        assert whole.sha256 == hashlib.sha256(b"0123456789").hexdigest()
        middle = await fs.read_bytes("f", 3, 4)
        assert (middle.data, middle.offset, middle.truncated) == (b"3456", 3, True)
        assert middle.sha256 is None
        end = await fs.read_bytes("f", 8, 100)
        assert (end.data, end.truncated) == (b"89", False)
        assert (await fs.read_bytes("f", 20, 5)).data == b""
        assert (await fs.read_bytes("f", 0, 0)).data == b""


@pytest.mark.spec("READ-1", "READ-7")
async def test_one_call_returns_at_most_its_limit(opening):
    async with opening(limits=Limits(bytes_call_max=4)) as fs:
        await fs.write_bytes("f", b"1234")
        assert (await fs.read_bytes("f")).data == b"1234"
        await fs.append("f", b"5")
        with pytest.raises(bailiwick.FileTooLarge) as refused:
            await fs.read_bytes("f")
        assert refused.value.details["limit"] == 4
        assert (await fs.read_bytes("f", 1, 4)).data == b"2345"
        with pytest.raises(bailiwick.ParseError):
            await fs.read_bytes("f", 0, 5)
        with pytest.raises(bailiwick.FileTooLarge):
            await fs.read_json("f")


@pytest.mark.parametrize(("offset", "length"), [(-1, None), (0, -1), (-5, 2)])
async def test_a_negative_range_is_refused(opening, offset, length):
    async with opening() as fs:
        await fs.write_bytes("f", b"x")
        with pytest.raises(bailiwick.ParseError):
            await fs.read_bytes("f", offset, length)
        with pytest.raises(bailiwick.ParseError):
            await anext(fs.stream("f", offset, length))


@pytest.mark.spec("READ-1")
async def test_a_stream_has_every_byte_in_bounded_chunks(opening):
    data = bytes(range(256)) * 40
    async with opening(limits=Limits(stream_chunk_bytes=1000)) as fs:
        await fs.write_bytes("f", data)
        chunks = [chunk async for chunk in fs.stream("f")]
        assert b"".join(chunks) == data
        assert max(map(len, chunks)) <= 1000
        ranged = b"".join([chunk async for chunk in fs.stream("f", 5, 3000)])
        assert ranged == data[5:3005]
        await fs.write_bytes("empty", b"")
        assert [chunk async for chunk in fs.stream("empty")] == []


@pytest.mark.spec("READ-1")
async def test_json_is_read_as_a_value(opening):
    async with opening() as fs:
        await fs.write_bytes("f.json", b'\xef\xbb\xbf{"a": [1, 2.5, null], "\xc3\xa4": true}')
        read = await fs.read_json("f.json")
        assert read.value == {"a": [1, 2.5, None], "ä": True}
        assert read.sha256 == (await fs.read_bytes("f.json")).sha256


@pytest.mark.spec("READ-5")
@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("", 1, 1),
        ('{"a": }', 1, 7),
        ('{\n  "a": 1,\n}', 3, 1),
        ('["NaN", "\\"NaN",\n NaN]', 2, 2),
        ("[\n-Infinity]", 2, 1),
    ],
)
async def test_invalid_json_says_where(opening, text, line, column):
    async with opening() as fs:
        await fs.write_text("f.json", text)
        with pytest.raises(bailiwick.ParseError) as refused:
            await fs.read_json("f.json")
        assert refused.value.details == {"line": line, "column": column}
        assert refused.value.status == 422


@pytest.mark.spec("READ-5")
@pytest.mark.parametrize("text", ["[" * 100_000, "1" * 5_000], ids=["deep", "long-number"])
async def test_json_python_gives_up_on_is_a_parse_error(opening, text):
    async with opening() as fs:
        await fs.write_text("f.json", text)
        with pytest.raises(bailiwick.ParseError):
            await fs.read_json("f.json")


@pytest.mark.spec("READ-3")
async def test_a_text_read_says_all_it_knows(opening):
    stored = b"\xff\xfe" + "a\r\nb\r\n".encode("utf-16-le")
    async with opening() as fs:
        await fs.write_bytes("f.txt", stored)
        read = await fs.read_text("f.txt")
        assert (read.text, read.encoding, read.bom) == ("a\r\nb\r\n", "utf-16-le", True)
        assert (read.line_ending, read.size, read.returned_bytes) == ("crlf", 14, 14)
        assert read.sha256 == hashlib.sha256(stored).hexdigest()
        assert read.version == (await fs.stat("f.txt")).version
        assert (read.total_lines, read.truncated, read.next_cursor) == (2, False, None)
        assert (read.ends_with_newline, read.line_feeds) == (True, 2)
        assert (read.path, read.matched_ignore) == ("f.txt", None)


@pytest.mark.spec("READ-3")
async def test_a_window_has_no_hash_but_the_rest(opening):
    async with opening() as fs:
        await fs.write_text("f.txt", "a\nb\nc\n")
        read = await fs.read_text("f.txt", line=2, limit=1)
        assert (read.text, read.first_line, read.sha256) == ("b", 2, None)
        assert (read.size, read.returned_bytes, read.truncated) == (6, 1, True)
        assert read.version == (await fs.stat("f.txt")).version
        assert read.next_cursor is not None


@pytest.mark.spec("READ-2")
async def test_the_whole_of_a_large_text_is_refused_and_any_window_served(opening):
    text = "\n".join(f"line {number}" for number in range(1, 200))
    async with opening(limits=SMALL) as fs:
        await fs.write_text("f.txt", text)
        with pytest.raises(bailiwick.FileTooLarge) as refused:
            await fs.read_text("f.txt")
        assert "line" in refused.value.hint
        assert refused.value.details["limit"] == 64
        assert (await fs.read_text("f.txt", line=150, limit=2)).text == "line 150\nline 151"
        assert (await fs.read_text("f.txt", tail=2)).text == "line 198\nline 199"
        first = await fs.read_text("f.txt", line=1)
        assert len(first.text.encode()) <= 64
        assert first.truncated


@pytest.mark.spec("READ-2")
def test_a_text_read_returns_256_kib_by_default():
    assert Limits().text_read_bytes_max == 256 * 1024
    assert Limits().bytes_call_max == 100 * 1024 * 1024


@pytest.mark.spec("READ-2")
async def test_a_cursor_to_a_changed_file_is_stale(opening):
    async with opening() as fs:
        await fs.write_text("f.txt", "a\nb\nc\n")
        page = await fs.read_text("f.txt", limit=1)
        await fs.write_text("f.txt", "x\ny\nz and more\n")
        with pytest.raises(bailiwick.HashMismatch):
            await fs.read_text("f.txt", cursor=page.next_cursor)
        with pytest.raises(bailiwick.ParseError):
            await fs.read_text("f.txt", cursor="nonsense")


@pytest.mark.spec("READ-2")
@pytest.mark.parametrize(
    "window",
    [
        {"line": 0}, {"line": -3}, {"limit": 0}, {"limit": -1}, {"tail": 0}, {"tail": -2},
        {"line": 1, "tail": 1}, {"tail": 1, "limit": 1}, {"line": 1, "cursor": "x"},
        {"tail": 1, "cursor": "x"}, {"cursor": "x", "encoding": "latin-1"},
    ],
)  # fmt: skip
async def test_a_window_that_makes_no_sense_is_refused(opening, window):
    async with opening() as fs:
        await fs.write_text("f.txt", "a\nb\n")
        with pytest.raises(bailiwick.ParseError):
            await fs.read_text("f.txt", **window)


@pytest.mark.spec("READ-2", "READ-3")
@settings(max_examples=60, suppress_health_check=SHARED_TMP)
@given(
    text=st.text(st.sampled_from("ab\n\r ä€😀"), max_size=200),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]),
    limit=st.none() | st.integers(1, 6),
)
async def test_windows_joined_are_the_file(tmp_path, text, encoding, limit):
    """Pages join with a newline, one cut inside a line without; and no character is ever cut."""
    async with Opener("memory", tmp_path)(limits=SMALL) as fs:
        await fs.write_bytes("f", text.encode(encoding))
        joined, page = "", await fs.read_text("f", line=1, limit=limit)
        while True:
            assert page.returned_bytes <= 64
            joined += page.text
            if page.next_cursor is None:
                break
            joined += "" if page.partial_line else "\n"
            page = await fs.read_text("f", cursor=page.next_cursor, limit=limit)
        assert joined == text
        assert page.total_lines in (None, text.count("\n") + (not text.endswith("\n")) - (not text))


@pytest.mark.spec("READ-2")
@settings(max_examples=40, suppress_health_check=SHARED_TMP)
@given(
    lines=st.lists(st.text("xyä", max_size=5), min_size=1, max_size=30),
    first=st.integers(1, 40), count=st.integers(1, 12),
)  # fmt: skip
async def test_a_window_is_those_lines(tmp_path, lines, first, count):
    async with Opener("memory", tmp_path)() as fs:
        await fs.write_text("f", "".join(f"{line}\n" for line in lines))
        page = await fs.read_text("f", line=first, limit=count)
        chosen = "".join(f"{line}\n" for line in lines[first - 1 : first - 1 + count])
        assert page.text == (chosen.removesuffix("\n") if page.truncated else chosen)
        assert page.truncated == (first - 1 + count < len(lines))
        assert page.total_lines in ([None] if page.truncated else [len(lines)])
        last = await fs.read_text("f", tail=count)
        assert last.text == "".join(f"{line}\n" for line in lines[-count:])


@pytest.mark.spec("READ-2", "READ-3")
@pytest.mark.parametrize("text", ["", "a", "a\n", "a\r\nb\r\n", "\n\n", "a\rb"])
async def test_whole_and_by_windows_the_lines_are_counted_alike(opening, text):
    count = text.count("\n") + (text != "" and not text.endswith("\n"))
    async with opening() as fs:
        await fs.write_text("f", text)
        whole = await fs.read_text("f")
        past = await fs.read_text("f", line=count + 3)
        first = await fs.read_text("f", line=1, limit=count + 1)
        last = await fs.read_text("f", tail=count + 1)
        for read in (whole, past, first, last):
            assert (read.total_lines, read.line_feeds) == (count, text.count("\n"))
            assert (read.ends_with_newline, read.truncated) == (text.endswith("\n"), False)
        assert (past.text, first.text, last.text) == ("", text, text)
        found = (await fs.grep("^", "f")).matches
        assert [match.line for match in found] == list(range(1, count + 1))


@pytest.mark.spec("READ-5")
@pytest.mark.parametrize("data", [b"caf\xe9\n", b"a\xff\xfe", b"\xc3"])
async def test_what_is_not_utf8_is_binary_unless_its_encoding_is_named(opening, data):
    async with opening() as fs:
        await fs.write_bytes("f", data)
        with pytest.raises(bailiwick.BinaryFile):
            await fs.read_text("f")
        with pytest.raises(bailiwick.BinaryFile):
            await fs.read_text("f", line=1)
        with pytest.raises(bailiwick.BinaryFile):
            await fs.read_json("f")
        assert (await fs.read_text("f", encoding="latin-1")).text == data.decode("latin-1")
        with pytest.raises(bailiwick.ParseError):
            await fs.read_text("f", encoding="no-such-encoding")


@pytest.mark.spec("READ-6")
async def test_a_file_replaced_during_a_stream_gives_the_old_bytes_whole(opening):
    async with opening(limits=Limits(stream_chunk_bytes=1024)) as fs:
        await fs.write_bytes("f", b"o" * 8192)
        got = b""
        async for chunk in fs.stream("f"):
            if not got:
                await fs.write_bytes("f", b"n" * 8192)
            got += chunk
        assert got == b"o" * 8192
        assert (await fs.read_bytes("f")).data == b"n" * 8192


@pytest.mark.spec("READ-6")
async def test_a_file_rewritten_in_place_during_a_stream_is_noticed(disk):
    async with disk(limits=Limits(stream_chunk_bytes=1024)) as fs:
        await fs.write_bytes("f", b"o" * 8192)
        chunks = fs.stream("f")
        await anext(chunks)
        with open(f"{place_of(fs)}/f", "r+b") as file:
            file.write(b"n" * 4096)
            file.truncate(4096)
        with pytest.raises(bailiwick.HashMismatch):
            [chunk async for chunk in chunks]


@pytest.mark.spec("READ-7")
async def test_a_sparse_file_is_not_held_in_memory(disk):
    async with disk() as fs:
        with open(f"{place_of(fs)}/huge", "wb") as file:
            file.truncate(1 << 40)
        with pytest.raises(bailiwick.FileTooLarge):
            await fs.read_text("huge")
        with pytest.raises(bailiwick.FileTooLarge):
            await fs.diff("huge", text="")
        assert (await fs.read_bytes("huge", (1 << 40) - 3, 10)).data == b"\0\0\0"


@pytest.mark.spec("READ-8")
async def test_ignore_rules_only_mark_what_is_named(opening):
    async with opening() as fs:
        await plant(
            fs,
            {".gitignore": "*.log\nbuild/\n", "a.log": "x", "build/b.txt": "y", "c.txt": "z"},
        )
        assert (await fs.read_text("a.log")).matched_ignore == "file"
        assert (await fs.read_text("build/b.txt")).matched_ignore == "directory"
        assert (await fs.read_text("c.txt")).matched_ignore is None
        assert (await fs.read_text("a.log", line=1)).matched_ignore == "file"
        assert (await fs.write_text("build/new.txt", "n")).matched_ignore == "directory"
        assert await fs.exists("a.log")
        assert (await fs.read_bytes("a.log")).data == b"x"


@pytest.mark.spec("READ-1", "TREE-3")
async def test_a_directory_has_no_content(opening):
    async with opening() as fs:
        await fs.make_dir("d")
        for read in (fs.read_bytes, fs.read_text, fs.read_json):
            with pytest.raises(bailiwick.IsADirectory):
                await read("d")
        with pytest.raises(bailiwick.IsADirectory):
            await fs.read_text("d", tail=1)
        with pytest.raises(bailiwick.IsADirectory):
            await anext(fs.stream("d"))
        with pytest.raises(bailiwick.PathNotFound):
            await fs.read_text("missing")


@pytest.mark.spec("LIFE-1", "READ-2")
@pytest.mark.parametrize("window", [{"line": 10**6}, {"tail": 10**6}], ids=str)
async def test_a_window_far_into_a_file_lets_others_work_and_can_be_stopped(opening, window):
    async with opening() as fs:
        await fs.write_bytes("f", b"a line of text\n" * (8 << 20 >> 4))
        reading = asyncio.create_task(fs.read_text("f", **window))
        turns = 0
        while not reading.done():
            await asyncio.sleep(0)
            turns += 1
        await reading
        assert turns >= 8
        reading = asyncio.create_task(fs.read_text("f", **window))
        for _ in range(3):
            await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
