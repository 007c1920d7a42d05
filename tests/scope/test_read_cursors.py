"""Cursors of text reads: they go on after an append, and not after any other change."""

import asyncio
import subprocess
import sys

import pytest

import bailiwick
from bailiwick.limits import Limits
from bailiwick.text.cursor import Seen, decode_cursor, encode_cursor
from tests.scope.support import place_of

PAGES = Limits(text_read_bytes_max=64)
PLACES = ("memory", "disk", "walk", "history", "volume")
LINES = [f"line {number}" for number in range(1, 41)]
TEXT = "".join(f"{line}\n" for line in LINES)


def opened(kind, tmp_path, **options):
    """A scope of each kind of store, with pages of 64 bytes."""
    options = {"limits": PAGES, **options}
    if kind == "memory":
        return bailiwick.open("memory:", **options)
    if kind == "volume":
        return bailiwick.open(f"sqlite:{tmp_path}/v.db", **options)
    (tmp_path / "tree").mkdir()
    options |= {"state_dir": str(tmp_path / "state"), "durability": "rename"}
    if kind == "walk":
        options["containment"] = "walk"
    if kind == "history":
        options["history"] = "on"
    return bailiwick.open(tmp_path / "tree", **options)


async def rest(fs, page, **more):
    """What follows a page, to the end."""
    text = "" if page.partial_line else "\n"
    while page.next_cursor is not None:
        page = await fs.read_text("f", cursor=page.next_cursor, **more)
        text += page.text + ("" if page.partial_line or page.next_cursor is None else "\n")
    return text


@pytest.mark.spec("READ-2")
@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("window", [{"line": 1}, {"line": 9, "limit": 3}, {"tail": 30}], ids=str)
async def test_a_cursor_goes_on_after_an_append(tmp_path, kind, window):
    async with opened(kind, tmp_path) as fs:
        await fs.write_text("f", TEXT)
        page = await fs.read_text("f", **window)
        await fs.append("f", "more\n")
        following = await fs.read_text("f", cursor=page.next_cursor)
        await fs.append("f", "and more\n")
        text = page.text + "\n" + following.text + await rest(fs, following)
        assert (TEXT + "more\nand more\n").endswith(text)
        assert text.startswith(page.text)
        if following.first_line is not None:
            assert following.text.startswith(LINES[following.first_line - 1])


@pytest.mark.spec("READ-2")
@pytest.mark.parametrize("kind", PLACES)
async def test_a_cursor_goes_on_where_the_same_is_written_again(tmp_path, kind):
    async with opened(kind, tmp_path) as fs:
        await fs.write_text("f", TEXT)
        page = await fs.read_text("f", line=1)
        await fs.write_text("f", TEXT + "more\n")
        assert page.text + await rest(fs, page) == TEXT + "more\n"
        # What lies behind the cursor may change too: it was not read yet.
        await fs.write_text("f", TEXT.replace("line 40", "another"))
        assert page.text + await rest(fs, page) == TEXT.replace("line 40", "another")


@pytest.mark.spec("READ-2")
@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize(
    "changed",
    [
        TEXT.replace("line 1\n", "LINE 1\n"), TEXT.replace("line 7", "line x"), "x" + TEXT,
        TEXT[1:], TEXT[:10], "", TEXT.replace("line 6\nline 7", "line 7\nline 6") + "more\n",
    ],
    ids=["first", "last", "shifted", "cut-before", "shorter", "empty", "swapped-and-grown"],
)  # fmt: skip
async def test_a_cursor_is_stale_where_what_lies_before_it_changed(tmp_path, kind, changed):
    async with opened(kind, tmp_path) as fs:
        await fs.write_text("f", TEXT)
        page = await fs.read_text("f", line=1, limit=5)
        page = await fs.read_text("f", cursor=page.next_cursor, limit=2)
        await fs.write_text("f", changed)
        with pytest.raises(bailiwick.HashMismatch):
            await fs.read_text("f", cursor=page.next_cursor)


@pytest.mark.spec("READ-2", "VOL-2")
@pytest.mark.parametrize("kind", ["history", "volume"])
async def test_a_cursor_goes_on_in_what_was(tmp_path, kind):
    async with opened(kind, tmp_path) as fs:
        await fs.write_text("f", TEXT)
        version = (await fs.history("f")).versions[0].version
        page = await fs.read_text("f", line=1, as_of=version)
        await fs.write_text("f", "another\n")
        assert page.text + await rest(fs, page, as_of=version) == TEXT
        with pytest.raises(bailiwick.HashMismatch):
            await fs.read_text("f", cursor=page.next_cursor)


@pytest.mark.spec("READ-2")
@pytest.mark.parametrize("kind", PLACES)
async def test_of_a_large_file_the_beginning_and_the_last_page_are_looked_at_again(tmp_path, kind):
    limits = Limits(text_read_bytes_max=64, cursor_check_bytes_max=100)
    async with opened(kind, tmp_path, limits=limits) as fs:
        await fs.write_text("f", TEXT)
        page = await fs.read_text("f", line=30, limit=2)
        for changed, stale in (("line 1\n", True), ("line 31\n", True), ("line 25\n", False)):
            await fs.write_text("f", TEXT.replace(changed, changed.upper()))
            if stale:
                with pytest.raises(bailiwick.HashMismatch):
                    await fs.read_text("f", cursor=page.next_cursor)
            else:
                assert (await fs.read_text("f", cursor=page.next_cursor)).text.startswith("line 32")


@pytest.mark.spec("READ-2")
async def test_nothing_is_read_again_where_the_version_is_the_same(tmp_path, monkeypatch):
    async with opened("memory", tmp_path, limits=Limits()) as fs:
        await fs.write_bytes("f", b"a line of text\n" * 200_000)
        page = await fs.read_text("f", line=150_000, limit=5)
        store, ranges = fs._pipeline.store, []
        real = store.read

        async def counted(handle, offset, length):
            ranges.append((offset, length))
            return await real(handle, offset, length)

        monkeypatch.setattr(store, "read", counted)
        page = await fs.read_text("f", cursor=page.next_cursor, limit=5)
        assert min(offset for offset, length in ranges if length) >= 15 * 150_000
        assert sum(length for _, length in ranges) < 100_000


@pytest.mark.spec("READ-2")
async def test_a_forged_cursor_is_not_worth_a_long_look(tmp_path):
    async with opened("memory", tmp_path, limits=Limits(cursor_check_bytes_max=100)) as fs:
        await fs.write_text("f", TEXT)
        page = await fs.read_text("f", line=5, limit=1)
        cursor = decode_cursor(page.next_cursor)
        at = cursor.position.offset
        for seen in (Seen(0, 101, 0, at - 101, 0), Seen(0, 0, 0, 101, 0)):
            forged = encode_cursor("v", cursor.position, seen) if at >= 101 else "nonsense"
            with pytest.raises(bailiwick.ParseError):
                await fs.read_text("f", cursor=forged)
        # One of before there were checksums holds for its version, and is stale after it.
        old = encode_cursor(cursor.version, cursor.position)
        assert (await fs.read_text("f", cursor=old, limit=1)).text == "line 6"
        await fs.append("f", "more")
        with pytest.raises(bailiwick.HashMismatch):
            await fs.read_text("f", cursor=old)


APPENDS = """
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
os.write(1, b"!")
while os.fstat(fd).st_size < 32 << 20:
    os.write(fd, b"a line of text\\n" * 50)
os.read(0, 1)
"""


@pytest.mark.spec("READ-2", "READ-6")
async def test_a_log_that_another_process_writes_is_read_in_any_way(disk):
    async with disk() as fs:
        place = f"{place_of(fs)}/f"
        with open(place, "wb") as file:
            file.write(b"a line of text\n" * 60_000)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            APPENDS,
            place,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert await process.stdout.readexactly(1) == b"!"
            page = await fs.read_text("f", line=1)
            for number in range(40):
                deep = await fs.read_text("f", line=50_000 + number, limit=3)
                assert deep.text == "\n".join(["a line of text"] * 3)
                *whole, _last = (await fs.read_text("f", tail=3)).text.split("\n")
                assert set(whole) == {"a line of text"}  # the last one may be half written
                page = await fs.read_text("f", cursor=page.next_cursor, limit=1000)
                assert page.text == "\n".join(["a line of text"] * 1000)
        finally:
            process.kill()
            await process.communicate()
