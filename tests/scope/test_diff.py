"""`diff` through a scope."""

import hashlib

import pytest

import bailiwick
from bailiwick.limits import Limits
from tests.scope.support import Rules, deny, hide, plant, unruled


@pytest.mark.spec("DIFF-1")
async def test_two_files_are_compared_with_three_lines_of_context(opening):
    lines = [f"line {number}\n" for number in range(1, 21)]
    async with opening() as fs:
        await fs.write_text("a", "".join(lines))
        await fs.write_text("b", "".join(lines).replace("line 10\n", "ten\nand more\n"))
        result = await fs.diff("a", "b")
        assert (result.a, result.b, result.equal, result.binary) == ("a/a", "b/b", False, False)
        assert (result.added_lines, result.removed_lines, result.truncated) == (2, 1, False)
        assert result.text == (
            "--- a/a\n+++ b/b\n@@ -7,7 +7,8 @@\n line 7\n line 8\n line 9\n-line 10\n+ten\n"
            "+and more\n line 11\n line 12\n line 13\n"
        )
        same = await fs.diff("a", "a")
        assert (same.equal, same.text, same.added_lines) == (True, "", 0)


@pytest.mark.spec("DIFF-1")
async def test_a_file_is_compared_with_a_text(opening):
    async with opening() as fs:
        await fs.write_text("f", "a\nb\n")
        assert (await fs.diff("f", text="a\nb\n")).equal
        result = await fs.diff("f", text="a\nc\n")
        assert (result.added_lines, result.removed_lines, result.equal) == (1, 1, False)
        assert (await fs.diff("f", text="")).removed_lines == 2


@pytest.mark.spec("DIFF-1")
async def test_binary_files_are_compared_by_size_and_hash(opening):
    async with opening() as fs:
        await plant(fs, {"a": b"\0\1", "b": b"\0\2\3", "t": "text\n"})
        result = await fs.diff("a", "b")
        assert (result.binary, result.equal) == (True, False)
        for data in (b"\0\1", b"\0\2\3"):
            expected = f"{len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}"
            assert expected in result.text
        assert (await fs.diff("a", "a")).equal
        assert (await fs.diff("a", "t")).binary
        assert (await fs.diff("a", text="x")).binary


@pytest.mark.spec("DIFF-1")
async def test_a_diff_too_large_is_summarised_and_says_so(opening):
    async with opening(limits=Limits(diff_lines_max=10)) as fs:
        await fs.write_text("a", "".join(f"a{n}\n" for n in range(30_000)))
        await fs.write_text("b", "".join(f"b{n}\n" for n in range(30_000)))
        result = await fs.diff("a", "b")
        assert (result.truncated, result.equal) == (True, False)
        assert (result.added_lines, result.removed_lines) == (30_000, 30_000)
        assert len(result.text) < 5_000


@pytest.mark.spec("DIFF-1")
async def test_what_is_too_large_to_compare_is_refused(opening):
    async with opening(limits=Limits(diff_bytes_max=4)) as fs:
        await fs.write_text("a", "12345")
        await fs.write_text("b", "1")
        for call in (fs.diff("a", "b"), fs.diff("b", "a")):
            with pytest.raises(bailiwick.FileTooLarge):
                await call
    assert Limits().diff_bytes_max == 5 << 20


@pytest.mark.spec("DIFF-1", "ERR-5")
async def test_a_diff_has_exactly_two_sides(opening):
    async with opening() as fs:
        await fs.write_text("f", "x\n")
        for call in (fs.diff("f"), fs.diff("f", "f", text="x"), fs.diff("f", text=b"x")):
            with pytest.raises(bailiwick.ParseError):
                await call
        with pytest.raises(bailiwick.PathNotFound):
            await fs.diff("f", "missing")


@pytest.mark.spec("PATH-6", "POL-1")
async def test_both_sides_of_a_diff_are_read_and_so_both_are_asked_about(opening):
    policy = Rules(deny("kept", access={"read"}), hide("gone"))
    async with opening(policy=policy) as fs:
        await plant(unruled(fs), {"open": "x\n", "kept": "secret\n", "gone": "secret\n"})
        for call in (fs.diff("open", "kept"), fs.diff("kept", "open"), fs.diff("kept", text="")):
            with pytest.raises(bailiwick.PolicyDenied) as refused:
                await call
            assert refused.value.path == "kept"
        for call in (fs.diff("open", "gone"), fs.diff("gone", "open")):
            with pytest.raises(bailiwick.PathNotFound):
                await call
        assert all(context.access == {"read"} for context in policy.seen)


@pytest.mark.spec("DIFF-1")
async def test_files_that_differ_only_in_how_they_are_stored_are_said_to(opening):
    async with opening() as fs:
        await plant(fs, {"plain": "é\n", "other": b"\xef\xbb\xbf\xc3\xa9\n"})
        await fs.write_text("wide", "é\n", encoding="utf-16-le", bom=True)
        for path, stored in (("wide", "utf-16-le with BOM"), ("other", "utf-8 with BOM")):
            result = await fs.diff(path, "plain")
            assert (result.equal, result.binary, result.truncated) == (False, False, False)
            assert result.text == f"same text, stored as {stored} / utf-8\n"
            assert (result.added_lines, result.removed_lines) == (0, 0)
            # A given text is stored in no way: it is the same, or it is not.
            assert (await fs.diff(path, text="é\n")).equal
            assert not (await fs.diff(path, text="e\n")).equal
