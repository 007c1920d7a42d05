"""Diffs: applied, they give the other text; bounded, whatever the texts."""

import re
import shutil
import subprocess
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bailiwick.text import diff as diffs
from bailiwick.text.agreement import common_prefix, common_suffix
from bailiwick.text.diff import unified_diff

_HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@\n")


def keepends(text):
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def applied(diff, text):
    """Apply a unified diff strictly: every line and every count must be right."""
    if diff == "":
        return text
    lines = keepends(diff)
    assert lines[0].startswith("--- ")
    assert lines[1].startswith("+++ ")
    source, result, at, i = keepends(text), [], 0, 2
    while i < len(lines):
        header = _HEADER.fullmatch(lines[i])
        assert header, lines[i]
        a_start, a_count, b_start, b_count = (
            int(group) if group is not None else 1 for group in header.groups()
        )
        start = a_start - 1 if a_count else a_start
        assert start >= at
        result += source[at:start]
        assert len(result) == (b_start - 1 if b_count else b_start)
        at = start
        i += 1
        taken = given_ = 0
        while taken < a_count or given_ < b_count:
            sign, body = lines[i][0], lines[i][1:]
            i += 1
            if i < len(lines) and lines[i].startswith("\\"):
                assert lines[i] == "\\ No newline at end of file\n"
                body = body[:-1]
                i += 1
            if sign in " -":
                assert source[at] == body
                at += 1
                taken += 1
            if sign in " +":
                result.append(body)
                given_ += 1
            assert sign in " -+"
        assert (taken, given_) == (a_count, b_count)
    return "".join(result + source[at:])


def shortest(a, b):
    """The fewest changed lines, by the textbook table."""
    a, b = keepends(a), keepends(b)
    row = [0] * (len(b) + 1)
    for x in a:
        previous, row = row, [0]
        for j, y in enumerate(b):
            row.append(previous[j] + 1 if x == y else max(previous[j + 1], row[j]))
    return len(a) + len(b) - 2 * row[-1]


lines_of_few_kinds = st.lists(st.sampled_from(["a\n", "b\n", "\n", "c\r\n", "d\u2028\x0c\n"]))
texts = st.builds("".join, st.tuples(lines_of_few_kinds.map("".join), st.sampled_from(["", "a"])))


@pytest.mark.spec("DIFF-1", "EDIT-4")
@settings(max_examples=400)
@given(a=texts, b=texts, context=st.integers(0, 4))
def test_a_diff_applies_and_is_shortest(a, b, context):
    diff = unified_diff(a, b, "a", "b", context=context)
    assert applied(diff.text, a) == b
    assert not diff.truncated
    assert diff.added + diff.removed == shortest(a, b)
    body = keepends(diff.text)[2:]
    assert diff.added == sum(line.startswith("+") for line in body)
    assert diff.removed == sum(line.startswith("-") for line in body)


@pytest.mark.spec("DIFF-1")
@settings(max_examples=400)
@given(
    before=texts, gone=texts, new=texts, after=texts, context=st.integers(0, 4),
    lines_max=st.integers(3, 30), characters_max=st.integers(10, 100),
)  # fmt: skip
def test_texts_that_differ_in_one_place_have_the_diff_that_comparing_lines_gives(
    before, gone, new, after, context, lines_max, characters_max
):
    whole = before + gone + after, before + new + after

    def written():
        return [
            unified_diff(*whole, "a", "b", context=context, **most)
            for most in ({}, {"lines_max": lines_max}, {"characters_max": characters_max})
        ]

    quickly = written()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(diffs, "_in_one_place", lambda *_: None)
        assert quickly == written()


@pytest.mark.spec("DIFF-1", "EDIT-5")
@settings(max_examples=300)
@given(a=texts, b=texts, work=st.integers(0, 30))
def test_a_diff_that_runs_out_of_work_still_applies(a, b, work):
    diff = unified_diff(a, b, "a", "b", work_max=work)
    assert applied(diff.text, a) == b


@pytest.mark.spec("DIFF-1")
@given(a=st.text(), b=st.text())
def test_any_two_texts(a, b):
    assert applied(unified_diff(a, b, "a", "b").text, a) == b


@pytest.mark.spec("DIFF-1")
def test_the_format():
    a = "".join(f"{n}\n" for n in range(1, 21))
    b = a.replace("10\n", "ten\n").replace("20\n", "20")
    assert unified_diff(a, b, "a/x", "b/x").text == (
        "--- a/x\n+++ b/x\n"
        "@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n"
        "@@ -17,4 +17,4 @@\n 17\n 18\n 19\n-20\n+20\n\\ No newline at end of file\n"
    )
    assert unified_diff("", "a\n", "a", "b").text == "--- a\n+++ b\n@@ -0,0 +1 @@\n+a\n"
    assert unified_diff("a\n", "", "a", "b").text == "--- a\n+++ b\n@@ -1 +0,0 @@\n-a\n"
    assert unified_diff("a\n", "a\n", "a", "b").text == ""


@pytest.mark.spec("DIFF-1")
def test_carriage_returns_are_shown_as_they_stand():
    diff = unified_diff("a\r\nb\r\n", "a\r\nb\n", "a", "b")
    assert diff.text == "--- a\n+++ b\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n+b\n"


@pytest.mark.spec("DIFF-1")
def test_names_cannot_forge_lines():
    diff = unified_diff("a\n", "b\n", "x\n+++ y", "my file")
    assert diff.text.split("\n")[:2] == ["--- x\\x0a+++ y\t", "+++ my file\t"]


@pytest.mark.spec("DIFF-1", "EDIT-5")
def test_a_diff_too_large_is_summarised_and_says_so():
    a = "".join(f"{n}\n" for n in range(1000))
    b = a.replace("5\n", "five\n")
    whole = unified_diff(a, b, "a", "b")
    cut = unified_diff(a, b, "a", "b", lines_max=50)
    assert not whole.truncated
    assert cut.truncated
    assert (cut.added, cut.removed) == (whole.added, whole.removed) == (100, 100)
    shown, note = cut.text[: cut.text.rindex("# ")], cut.text[cut.text.rindex("# ") :]
    assert whole.text.startswith(shown)
    assert "too large" in note
    assert cut.text.count("\n") <= 51
    applied(shown, a)
    by_characters = unified_diff("x" * 10_000, "y" * 10_000, "a", "b", characters_max=1000)
    assert by_characters.truncated
    assert len(by_characters.text) < 1000


def _shuffled(lines, step):
    return "".join(f"{(k * step) % lines}\n" for k in range(lines))


# Made when they are needed: together they have forty megabytes.
HOSTILE = {
    "all-differ": lambda: tuple("".join(f"{x}{n}\n" for n in range(200_000)) for x in "ab"),
    "all-equal": lambda: ("x\n" * 500_000, "x\n" * 400_000 + "y\n" + "x\n" * 50_000),
    "two-kinds": lambda: ("x\ny\n" * 300_000, "y\nx\nx\n" * 200_000),
    "shuffled": lambda: (_shuffled(100_003, 7), _shuffled(100_003, 11)),
    "empty-lines": lambda: ("\n" * 5_000_000, "\n" * 4_000_000),
    "one-line": lambda: ("x" * 5_000_000, "y" * 5_000_000),
}
FEW = ("all-differ", "one-line")
"""Of them, what is tried in `make unit`."""


@pytest.mark.slow
@pytest.mark.spec("DIFF-1", "EDIT-5")
@pytest.mark.parametrize(
    "which",
    [pytest.param(name, marks=[] if name in FEW else [pytest.mark.slow]) for name in HOSTILE],
)
def test_large_hostile_texts_end_and_the_edit_goes_on(which):
    a, b = HOSTILE[which]()
    diff = unified_diff(a, b, "a", "b")
    assert diff.added - diff.removed == len(keepends(b)) - len(keepends(a))
    assert diff.truncated == ("too large" in diff.text)
    assert len(diff.text) <= 1024 * 1024 + 200


@pytest.mark.spec("DIFF-1", "EDIT-5")
def test_two_far_changes_in_a_large_file_are_a_small_diff():
    a = "".join(f"{n % 1000}\n" for n in range(200_000))
    b = "7\n" + a[2:-4] + "7\n"
    diff = unified_diff(a, b, "a", "b")
    assert (diff.added, diff.removed) == (2, 2)
    assert applied(diff.text, a) == b


@pytest.mark.slow
@pytest.mark.spec("DIFF-1")
def test_the_memory_of_a_diff_is_bounded_by_its_work_not_by_the_square_of_the_lines():
    a = "".join(f"{n * 7 % 2003}\n" for n in range(2000))
    b = "".join(f"{n * 11 % 2003}\n" for n in range(2000))
    tracemalloc.start()
    try:
        diff = unified_diff(a, b, "a", "b", work_max=50_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert applied(diff.text, a) == b
    assert peak < 4 * 1024 * 1024


@pytest.mark.skipif(shutil.which("patch") is None, reason="patch is not installed")
@pytest.mark.spec("DIFF-1")
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("a\nb\nc\n", "a\nB\nc"),
        ("a\r\nb\r\n", "a\r\nx\r\nb\r\n"),
        ("".join(f"{n}\n" for n in range(100)), "".join(f"{n}\n" for n in range(100) if n % 9)),
        ("", "new\n"),
    ],
)
def test_patch_applies_it(tmp_path, a, b):
    target = tmp_path / "file"
    target.write_bytes(a.encode())
    subprocess.run(
        ["patch", "--binary", "-s", str(target)],
        input=unified_diff(a, b, "a/file", "b/file").text.encode(),
        check=True,
        timeout=120,
    )
    assert target.read_bytes() == b.encode()


@given(st.lists(st.integers(0, 1), max_size=200), st.integers(0, 200), st.integers(0, 3))
def test_common_ends_are_exact(values, cut, flip):
    other = [*values[:cut], *([7] * flip), *values[cut:]]
    expected = next(
        (i for i, (x, y) in enumerate(zip(values, other, strict=False)) if x != y),
        min(len(values), len(other)),
    )
    assert common_prefix(values, other) == expected
    most = min(len(values), len(other))
    assert common_suffix(values[::-1], other[::-1], most) == expected
