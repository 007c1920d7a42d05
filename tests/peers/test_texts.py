"""Faults of other filesystems for agents with text, none of them ours.

Each test is one fault that was seen in the wild; its docstring says what happens there.
"""

import asyncio
import tracemalloc

import pytest

import bailiwick
from bailiwick import Edit
from tests.scope.support import plant, snapshot


@pytest.mark.spec("EDIT-3")
async def test_one_crlf_does_not_make_an_edit_rewrite_every_line_ending(opening):
    """There the file is normalised before the edit and written back whole."""
    async with opening() as fs:
        await fs.write_bytes("f", b"a\nb\r\nc\nd\n")
        await fs.edit("f", old="c", new="C")
        assert (await fs.read_bytes("f")).data == b"a\nb\r\nC\nd\n"


@pytest.mark.spec("EDIT-3")
async def test_lf_in_the_search_text_matches_a_crlf_file(opening):
    """There it never does, and the model cannot know why."""
    async with opening() as fs:
        await fs.write_bytes("f", b"def f():\r\n    pass\r\n")
        await fs.edit("f", old="def f():\n    pass", new="def g():\n    return 1")
        assert (await fs.read_bytes("f")).data == b"def g():\r\n    return 1\r\n"


@pytest.mark.spec("WRITE-5")
async def test_a_crlf_file_stays_one_when_it_is_written(opening):
    """There it becomes an LF file."""
    async with opening() as fs:
        await fs.write_bytes("f", b"a\r\nb\r\n")
        await fs.write_text("f", "a\nb\nc\n")
        assert (await fs.read_bytes("f")).data == b"a\r\nb\r\nc\r\n"


@pytest.mark.spec("EDIT-2")
async def test_overlapping_matches_are_ambiguous(opening):
    """There "aXa" is counted once in "aXaXa", and the edit is applied."""
    async with opening() as fs:
        await fs.write_text("f", "aXaXa")
        with pytest.raises(bailiwick.AmbiguousTextMatch) as refused:
            await fs.edit("f", old="aXa", new="b")
        assert refused.value.details["count"] == 2
        assert await snapshot(fs) == {"f": b"aXaXa"}


@pytest.mark.spec("EDIT-2")
async def test_the_first_of_several_matches_is_not_taken(opening):
    """There it is, silently."""
    async with opening() as fs:
        await fs.write_text("f", "x = 1\ny = 2\nx = 1\n")
        with pytest.raises(bailiwick.AmbiguousTextMatch) as refused:
            await fs.edit("f", old="x = 1", new="x = 3")
        assert refused.value.details["lines"] == [1, 3]


@pytest.mark.spec("READ-5")
async def test_undecodable_bytes_are_not_replaced_and_written_back(opening):
    """There they become U+FFFD when read, and the file is lost when an edit writes it."""
    async with opening() as fs:
        await fs.write_bytes("f", b"name = caf\xe9\n")
        with pytest.raises(bailiwick.BinaryFile):
            await fs.read_text("f")
        with pytest.raises(bailiwick.BinaryFile):
            await fs.edit("f", old="name", new="title")
        assert await snapshot(fs) == {"f": b"name = caf\xe9\n"}


@pytest.mark.spec("WRITE-5")
async def test_an_unknown_encoding_does_not_become_utf8(opening):
    """There it does, without a word."""
    async with opening() as fs:
        for call in (fs.write_text("f", "ä", encoding="latin-99"),):
            with pytest.raises(bailiwick.ParseError):
                await call
        await fs.write_text("f", "ä")
        with pytest.raises(bailiwick.ParseError):
            await fs.read_text("f", encoding="latin-99")


@pytest.mark.spec("EDIT-4")
async def test_of_parallel_edits_the_last_does_not_win(opening):
    """There each writes what it read with its own change, and no one is told."""
    async with opening() as fs:
        await fs.write_text("f", "one\ntwo\n")
        results = await asyncio.gather(
            fs.edit("f", old="one", new="1"), fs.edit("f", old="two", new="2"),
            return_exceptions=True,
        )  # fmt: skip
        refused = [isinstance(result, bailiwick.HashMismatch) for result in results]
        text = (await fs.read_text("f")).text
        assert text == ("one\n" if refused[0] else "1\n") + ("two\n" if refused[1] else "2\n")
        assert not all(refused)


@pytest.mark.spec("EDIT-1")
async def test_the_second_of_two_planned_edits_does_not_undo_the_first(opening):
    """There each is planned on the text as it was, and written whole."""
    async with opening() as fs:
        await fs.write_text("f", "one\ntwo\n")
        result = await fs.edit("f", [Edit("one", "1"), Edit("two", "2")])
        assert result.replacements == 2
        assert (await fs.read_text("f")).text == "1\n2\n"


@pytest.mark.spec("EDIT-4", "WRITE-2")
async def test_a_stale_plan_does_not_overwrite_newer_text(opening):
    """There the plan is applied to whatever stands there now."""
    async with opening() as fs:
        await fs.write_text("f", "old\n")
        planned = await fs.edit("f", old="old", new="planned", dry_run=True)
        await fs.write_text("f", "old, but newer\n")
        stale = planned.sha256_before
        for call in (
            fs.edit("f", old="old", new="planned", expected_sha256=stale),
            fs.write_text("f", "planned\n", expected_sha256=stale),
        ):
            with pytest.raises(bailiwick.HashMismatch):
                await call
        assert await snapshot(fs) == {"f": b"old, but newer\n"}


@pytest.mark.spec("EDIT-5")
@pytest.mark.parametrize("text", ["word\n" * 20_000, "x" * 400_000 + "\n"], ids=["lines", "bytes"])
async def test_a_large_file_can_be_edited(opening, text):
    """There a diff is made of all of it, so that 256 KiB or 10,000 lines are too many."""
    async with opening() as fs:
        await fs.write_text("f", text + "needle\n")
        result = await fs.edit("f", old="needle", new="pin")
        assert result.replacements == 1
        assert (await fs.read_text("f", tail=1)).text == "pin\n"


@pytest.mark.spec("DIFF-1", "EDIT-5")
async def test_the_memory_of_a_diff_is_not_quadratic(opening):
    """There 2,000 lines that all differ take 96 MB."""
    async with opening() as fs:
        await plant(fs, {side: "".join(f"{side}{n}\n" for n in range(2_000)) for side in "ab"})
        tracemalloc.start()
        try:
            result = await fs.diff("a", "b")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert (result.added_lines, result.removed_lines) == (2_000, 2_000)
        assert peak < 16 << 20
