"""Editing through a scope: all or nothing, counted honestly, a compare-and-swap."""

import asyncio
import hashlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bailiwick
from bailiwick import Edit
from bailiwick.limits import Limits
from tests.scope.support import Opener, place_of, plant, records, snapshot


@pytest.mark.spec("EDIT-1", "EDIT-4")
async def test_an_edit_says_what_it_did(opening):
    async with opening() as fs:
        await fs.write_text("f", "one\ntwo\nthree\n")
        result = await fs.edit("f", old="two", new="2")
        assert (result.replacements, result.first_changed_line, result.dry_run) == (1, 2, False)
        assert result.sha256_before == hashlib.sha256(b"one\ntwo\nthree\n").hexdigest()
        assert result.sha256 == hashlib.sha256(b"one\n2\nthree\n").hexdigest()
        assert result.version == (await fs.stat("f")).version
        assert result.diff == "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
        assert (await fs.read_text("f")).text == "one\n2\nthree\n"


@pytest.mark.spec("EDIT-1")
async def test_all_edits_apply_to_the_text_as_it_was(opening):
    async with opening() as fs:
        await fs.write_text("f", "a b c\n")
        await fs.edit("f", [Edit("a", "b"), Edit("b", "c"), Edit("c", "a")])
        assert (await fs.read_text("f")).text == "b c a\n"


@pytest.mark.spec("EDIT-1")
@pytest.mark.parametrize(
    ("edits", "error"),
    [
        ([Edit("one", "1"), Edit("missing", "x")], bailiwick.TextNotFound),
        ([Edit("one", "1"), Edit("o", "x")], bailiwick.AmbiguousTextMatch),
        ([Edit("one two", "x"), Edit("two three", "y")], bailiwick.ParseError),
        ([Edit("one", "1"), Edit("one", "2")], bailiwick.ParseError),
        ([Edit("one", "1"), Edit("", "x")], bailiwick.ParseError),
    ],
)
async def test_one_bad_edit_undoes_all(opening, edits, error):
    async with opening() as fs:
        await fs.write_text("f", "one two three\n")
        version = (await fs.stat("f")).version
        with pytest.raises(error):
            await fs.edit("f", edits)
        assert (await fs.read_text("f")).text == "one two three\n"
        assert (await fs.stat("f")).version == version


@pytest.mark.spec("EDIT-2")
async def test_matches_are_counted_with_overlaps(opening):
    async with opening() as fs:
        await fs.write_text("f", "first\naXaXa\n")
        with pytest.raises(bailiwick.AmbiguousTextMatch) as refused:
            await fs.edit("f", old="aXa", new="b")
        assert refused.value.details["count"] == 2
        assert refused.value.details["lines"] == [2]


@pytest.mark.spec("EDIT-2", "AUDIT-1")
async def test_no_text_of_file_or_edit_is_told_on(opening, caplog):
    async with opening() as fs:
        await fs.write_text("f", "marmalade marmalade\n")
        for old in ("marmalade", "quince"):
            with pytest.raises(bailiwick.BailiwickError) as refused:
                await fs.edit("f", old=old, new="plum")
            said = f"{refused.value} {refused.value.hint} {refused.value.details}"
            for word in ("marmalade", "quince", "plum"):
                assert word not in said
                assert word not in repr(records(fs))
                assert word not in caplog.text


@pytest.mark.spec("EDIT-3")
async def test_bytes_outside_the_edit_stay(opening):
    stored = b"\xef\xbb\xbfone\r\ntwo\nthree\r\nfour"
    async with opening() as fs:
        await fs.write_bytes("f", stored)
        await fs.edit("f", old="three", new="3")
        assert (await fs.read_bytes("f")).data == stored.replace(b"three", b"3")


@pytest.mark.spec("EDIT-3")
async def test_lf_in_the_edit_matches_crlf_in_the_file(opening):
    async with opening() as fs:
        await fs.write_bytes("f", b"a\r\nb\r\nc\n")
        await fs.edit("f", old="a\nb\n", new="x\ny\nz\n")
        assert (await fs.read_bytes("f")).data == b"x\r\ny\r\nz\r\nc\n"


@pytest.mark.spec("EDIT-4")
async def test_a_dry_run_changes_nothing(opening):
    async with opening() as fs:
        await fs.write_text("f", "old\n")
        version = (await fs.stat("f")).version
        result = await fs.edit("f", old="old", new="new", dry_run=True)
        assert result.dry_run
        assert "+new" in result.diff
        assert result.version == version == (await fs.stat("f")).version
        assert (await fs.read_text("f")).text == "old\n"


@pytest.mark.spec("EDIT-4")
async def test_an_expected_hash_is_enforced(opening):
    async with opening() as fs:
        await fs.write_text("f", "old\n")
        current = (await fs.read_text("f")).sha256
        with pytest.raises(bailiwick.HashMismatch) as refused:
            await fs.edit("f", old="old", new="new", expected_sha256="0" * 64)
        assert refused.value.details["current_sha256"] == current
        await fs.edit("f", old="old", new="new", expected_sha256=current)


@pytest.mark.spec("EDIT-4")
async def test_of_parallel_edits_none_is_lost_without_an_error(opening):
    async with opening() as fs:
        await fs.write_text("f", "".join(f"<{n}>\n" for n in range(12)))
        results = await asyncio.gather(
            *(fs.edit("f", old=f"<{n}>", new=f"[{n}]") for n in range(12)), return_exceptions=True
        )
        text = (await fs.read_text("f")).text
        for number, result in enumerate(results):
            if isinstance(result, bailiwick.HashMismatch):
                assert f"<{number}>" in text
            else:
                assert result.replacements == 1
                assert f"[{number}]" in text


@pytest.mark.spec("EDIT-4")
async def test_a_change_between_reading_and_publishing_is_not_overwritten(disk):
    """The foreign change comes after the edit has read and before it publishes."""
    async with disk() as fs:
        await fs.write_text("f", "old\n")
        store = fs._pipeline.store
        write = store.write

        async def write_late(*arguments):
            with open(f"{place_of(fs)}/f", "w") as file:
                file.write("foreign\n")
            return await write(*arguments)

        store.write = write_late
        with pytest.raises(bailiwick.HashMismatch):
            await fs.edit("f", old="old", new="new")
        assert (await fs.read_text("f")).text == "foreign\n"


@pytest.mark.spec("EDIT-5")
async def test_a_large_file_is_edited_and_its_diff_summarised(opening):
    limits = Limits(diff_lines_max=50)
    async with opening(limits=limits) as fs:
        await fs.write_text("f", "word\n" * 60_000 + "needle\n")
        small = await fs.edit("f", old="needle", new="pin")
        assert not small.diff_truncated
        assert small.first_changed_line == 60_001
        large = await fs.edit("f", old="word", new="term", replace_all=True)
        assert (large.replacements, large.diff_truncated) == (60_000, True)
        assert len(large.diff) < 10_000
        assert (await fs.read_text("f", tail=2)).text == "term\npin\n"


@pytest.mark.spec("EDIT-5")
async def test_what_is_beyond_the_limit_is_refused(opening):
    async with opening(limits=Limits(text_write_bytes_max=10)) as fs:
        await fs.write_bytes("large", b"x" * 11)
        await fs.write_text("f", "0123456789")
        with pytest.raises(bailiwick.FileTooLarge):
            await fs.edit("large", old="x", new="y", replace_all=True)
        with pytest.raises(bailiwick.FileTooLarge):
            await fs.edit("f", old="0", new="00")
        assert (await fs.read_text("f")).text == "0123456789"
    assert Limits().text_write_bytes_max == 5 << 20


@pytest.mark.spec("EDIT-1", "ERR-5")
@pytest.mark.parametrize(
    "arguments",
    [
        {}, {"old": "a"}, {"new": "a"}, {"edits": []}, {"edits": [Edit("a", "b")], "old": "a"},
        {"edits": [Edit("a", "b")], "replace_all": True}, {"edits": [("a", "b")]},
    ],
)  # fmt: skip
async def test_a_call_that_is_no_edit_is_refused(opening, arguments):
    async with opening() as fs:
        await fs.write_text("f", "a\n")
        with pytest.raises(bailiwick.ParseError):
            await fs.edit("f", **arguments)


async def test_only_an_existing_text_file_is_edited(opening):
    async with opening() as fs:
        await plant(fs, {"d": None, "binary": b"\0\1\2", "latin": b"caf\xe9"})
        before = await snapshot(fs)
        for path, error in (
            ("missing", bailiwick.PathNotFound), ("d", bailiwick.IsADirectory),
            ("binary", bailiwick.BinaryFile), ("latin", bailiwick.BinaryFile),
        ):  # fmt: skip
            with pytest.raises(error):
                await fs.edit(path, old="a", new="b")
        assert await snapshot(fs) == before


@pytest.mark.spec("EDIT-1", "EDIT-2")
@settings(
    max_examples=80,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    text=st.text("ab\n", max_size=40), old=st.text("ab\n", min_size=1, max_size=3),
    new=st.text("abc\n", max_size=4), replace_all=st.booleans(),
)  # fmt: skip
async def test_an_edit_is_str_replace_where_that_is_unambiguous(
    tmp_path, text, old, new, replace_all
):
    overlapping = sum(text.startswith(old, at) for at in range(len(text)))
    async with Opener("memory", tmp_path)() as fs:
        await fs.write_text("f", text)
        edit = fs.edit("f", old=old, new=new, replace_all=replace_all)
        if overlapping == 0:
            with pytest.raises(bailiwick.TextNotFound):
                await edit
        elif overlapping > 1 and not replace_all:
            with pytest.raises(bailiwick.AmbiguousTextMatch) as refused:
                await edit
            assert refused.value.details["count"] == overlapping
        elif overlapping > text.count(old):
            with pytest.raises(bailiwick.AmbiguousTextMatch):  # it overlaps with itself
                await edit
        else:
            assert (await edit).replacements == text.count(old)
            assert (await fs.read_text("f")).text == text.replace(old, new)


@pytest.mark.spec("EDIT-4", "ERR-5")
@pytest.mark.parametrize("wrong", ["abc", "", "A" * 64, "0" * 63, 5])
async def test_an_expected_hash_is_64_lowercase_digits(opening, wrong):
    async with opening() as fs:
        await fs.write_text("f", "x")
        with pytest.raises(bailiwick.ParseError):
            await fs.edit("f", old="x", new="y", expected_sha256=wrong)
        with pytest.raises(bailiwick.ParseError):
            await fs.write_text("f", "y", expected_sha256=wrong)
        assert (await fs.read_text("f")).text == "x"
