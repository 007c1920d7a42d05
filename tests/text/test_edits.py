"""Edits: exactly what was asked for, and nothing beside it."""

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bailiwick.errors import (
    AmbiguousTextMatch,
    BailiwickError,
    BinaryFile,
    FileTooLarge,
    ParseError,
    TextNotFound,
)
from bailiwick.model import Edit
from bailiwick.text.codec import encode
from bailiwick.text.diff import unified_diff
from bailiwick.text.edits import apply_edits
from bailiwick.text.occurrences import find_all

UNICODE = [
    ("utf-8", False), ("utf-8", True), ("utf-16-le", True), ("utf-16-be", True),
    ("utf-32-le", True), ("utf-32-be", True),
]  # fmt: skip


def edited(data, *edits, **options):
    return apply_edits(data, [Edit(*edit) for edit in edits], **options)


# --- peers' faults -------------------------------------------------------------------------------


@pytest.mark.spec("EDIT-3")
def test_one_crlf_does_not_make_an_edit_rewrite_every_line_ending():
    data = b"one\ntwo\r\nthree\nfour\n"
    assert edited(data, ("three", "3")).data == b"one\ntwo\r\n3\nfour\n"


@pytest.mark.spec("EDIT-3")
def test_lf_in_the_search_text_matches_a_crlf_file_which_stays_crlf():
    data = b"a\r\nb\r\nc\r\n"
    assert edited(data, ("a\nb\n", "x\ny\nz\n")).data == b"x\r\ny\r\nz\r\nc\r\n"


@pytest.mark.spec("EDIT-2")
def test_overlapping_matches_are_ambiguous():
    with pytest.raises(AmbiguousTextMatch) as caught:
        edited(b"aXaXa", ("aXa", "b"))
    assert caught.value.details["count"] == 2


@pytest.mark.spec("EDIT-2")
def test_the_first_of_several_matches_is_never_taken_silently():
    with pytest.raises(AmbiguousTextMatch) as caught:
        edited(b"x = 1\ny = 2\nx = 1\n", ("x = 1", "x = 3"))
    assert caught.value.details["lines"] == [1, 3]
    assert caught.value.details["count"] == 2
    assert caught.value.details["count_complete"]


@pytest.mark.spec("EDIT-3", "READ-5")
def test_undecodable_bytes_are_never_written_back_as_replacement_characters():
    with pytest.raises(BinaryFile):
        edited(b"caf\xe9 au lait", ("au", "con"))
    assert edited(b"caf\xe9 au lait", ("au", "con"), encoding="latin-1").data == b"caf\xe9 con lait"


@pytest.mark.spec("EDIT-1")
def test_the_second_of_two_edits_does_not_undo_the_first():
    result = edited(b"alpha\nbeta\n", ("alpha", "beta"), ("beta", "alpha"))
    assert result.data == b"beta\nalpha\n"
    assert result.replacements == 2


@pytest.mark.spec("EDIT-5")
def test_files_over_256_kib_and_10_000_lines_can_be_edited():
    data = b"".join(b"line %d\n" % number for number in range(300_000))
    result = edited(data, ("line 299999\n", "the last\n"))
    assert result.data == data[:-12] + b"the last\n"
    assert result.first_changed_line == 300_000


# --- rules ---------------------------------------------------------------------------------------


@pytest.mark.spec("EDIT-1")
def test_all_edits_land_or_none():
    with pytest.raises(TextNotFound) as caught:
        edited(b"a b", ("a", "x"), ("missing", "y"))
    assert caught.value.details["edit"] == 2


@pytest.mark.spec("EDIT-1")
@pytest.mark.parametrize(
    "edits",
    [
        [("abc", "x"), ("cde", "y")],
        [("abc", "x"), ("abc", "y")],
        [("abcde", "x"), ("c", "y")],
        [("c", "y"), ("abcde", "x")],
        [("b", "y", True), ("bc", "x")],
    ],
)
def test_edits_that_overlap_are_refused(edits):
    with pytest.raises(ParseError) as caught:
        edited(b"-abcde-", *edits)
    assert caught.value.details["edits"] == [1, 2]


@pytest.mark.spec("EDIT-1")
def test_edits_may_touch():
    assert edited(b"abcd", ("ab", "1"), ("cd", "2")).data == b"12"
    assert edited(b"a\r\nb", ("a", "1"), ("\nb", "\n2")).data == b"1\r\n2"


@pytest.mark.spec("EDIT-1")
def test_edits_without_a_text_to_replace_are_refused():
    with pytest.raises(ParseError):
        edited(b"abc", ("", "x"))
    with pytest.raises(ParseError):
        edited(b"abc")


@pytest.mark.spec("EDIT-1")
def test_replacing_a_text_by_itself_changes_nothing():
    result = edited(b"a\r\nb\n", ("a\nb", "a\nb"))
    assert result.data == b"a\r\nb\n"
    assert result.replacements == 1
    assert result.first_changed_line is None


@pytest.mark.spec("EDIT-1")
def test_replace_all():
    assert edited(b"a,b,c", (",", ";", True)).data == b"a;b;c"
    assert edited(b"a,b,c", (",", ";", True)).replacements == 2
    assert edited(b"one", ("one", "two", True)).data == b"two"


@pytest.mark.spec("EDIT-2")
def test_replacing_all_of_a_text_that_overlaps_itself_is_ambiguous():
    with pytest.raises(AmbiguousTextMatch) as caught:
        edited(b"aaa", ("aa", "b", True))
    assert "overlaps" in caught.value.message
    assert edited(b"aaba", ("a", "c", True)).data == b"ccbc"


@pytest.mark.spec("EDIT-2")
def test_the_lines_listed_are_capped_and_say_so():
    with pytest.raises(AmbiguousTextMatch) as caught:
        edited(b"x\n" * 100, ("x", "y"))
    details = caught.value.details
    assert details["lines"] == list(range(1, 21))
    assert details["count"] == 100
    assert not details["lines_complete"]
    with pytest.raises(AmbiguousTextMatch) as caught:
        edited(b"x x x x\n", ("x", "y"))
    assert caught.value.details["lines"] == [1]
    assert caught.value.details["lines_complete"]


@pytest.mark.spec("EDIT-2")
@given(
    data=st.text("ab\n", min_size=1, max_size=30),
    old=st.text("ab\n", min_size=1, max_size=4),
)
def test_matches_are_counted_with_overlaps(data, old):
    starts = [i for i in range(len(data)) if data.startswith(old, i)]
    if len(starts) == 1:
        assert edited(data.encode(), (old, "x")).replacements == 1
        return
    with pytest.raises(AmbiguousTextMatch if starts else TextNotFound) as caught:
        edited(data.encode(), (old, "x"))
    if starts:
        lines = sorted({data.count("\n", 0, i) + 1 for i in starts})
        assert caught.value.details["count"] == len(starts)
        assert caught.value.details["lines"] == lines[:20]


@pytest.mark.spec("EDIT-2")
def test_no_error_holds_text_of_the_file():
    secret = "hunter2"
    for edits in (
        [("password", "x")],
        [("nothing like it", "x")],
        [(f"password={secret}", "x"), (secret, "y")],
        [("1", "\ud800")],
    ):
        with pytest.raises(BailiwickError) as caught:
            edited(f"password={secret}\npassword=1\n".encode(), *edits)
        shown = f"{caught.value} {caught.value.details} {caught.value.hint}"
        assert secret not in shown
        assert "password" not in shown


@pytest.mark.spec("EDIT-2")
def test_work_is_bounded_for_hostile_search_texts():
    # Counted by what is kept: no list of millions of overlapping matches is made.
    found = find_all("a" * 5_000_000, "a" * 1000, stop_at_overlap=False)
    assert len(found.starts) == 10_000
    assert not found.complete
    found = find_all("a" * 5_000_000, "a" * 2_500_000, stop_at_overlap=False)
    assert 1 < len(found.starts) <= 30
    found = find_all("\n" * 5_000_000, "\n" * 1000, stop_at_overlap=True)
    assert len(found.starts) == 2
    found = find_all("ab" * 2_500_000, "ab" * 1000 + "c", stop_at_overlap=False)
    assert not found.starts


@pytest.mark.slow
@pytest.mark.spec("EDIT-5")
@pytest.mark.parametrize(
    ("data", "edit"),
    [
        (b"\n" * 5_000_000, ("\n" * 1000, "x")),
        (b"\r\n" * 2_500_000, ("\n" * 1000, "x")),
        (b"\n\r\n" * 1_700_000, ("\n" * 1000, "x")),
        (b"a" * 5_000_000, ("a" * 100_000, "x")),
    ],
)
def test_hostile_edits_of_large_files_end(data, edit):
    with pytest.raises(AmbiguousTextMatch) as caught:
        edited(data, edit)
    assert caught.value.details["count"] > 1


@pytest.mark.spec("EDIT-5")
def test_a_search_text_that_almost_matches_everywhere():
    data = b"a" * 5_000_000 + b"\r\n\n"
    result = edited(data, ("a" * 100_000 + "\n", "x\ny\n"))
    assert result.data == data[:4_900_000] + b"x\r\ny\r\n\n"


@pytest.mark.spec("EDIT-5")
def test_many_replacements_in_a_mixed_file_of_one_long_line():
    data = b"a " * 100_000 + b"\r\n\n"
    result = edited(data, ("a", "b\n", True), ("\n\n", "\n"))
    assert result.data == b"b\r\n " * 100_000 + b"\r\n"
    assert result.replacements == 100_001


@pytest.mark.spec("EDIT-5")
def test_a_result_over_the_limit_is_refused_before_it_is_built():
    with pytest.raises(FileTooLarge):
        edited(b"a" * 1_000_000, ("a", "x" * 1_000_000, True))
    with pytest.raises(FileTooLarge):
        edited(b"ab", ("b", "é" * 6), bytes_max=10)
    assert len(edited(b"ab", ("b", "é" * 4), bytes_max=10).data) == 9


# --- line endings --------------------------------------------------------------------------------


@pytest.mark.spec("EDIT-3")
@pytest.mark.parametrize(
    ("data", "old", "new", "result"),
    [
        # The span has line ends: the new text takes them one by one, then the last.
        ("a\r\nb\nc\n", "a\nb\nc", "A\nB\nC", "A\r\nB\nC\n"),
        ("a\r\nb\nc\n", "a\nb\nc", "A\nB\nC\nD", "A\r\nB\nC\nD\n"),
        # It has none: the end of that line.
        ("a\r\nb\nc\n", "a", "a\nA", "a\r\nA\r\nb\nc\n"),
        ("a\r\nb\nc\n", "b", "b\nB", "a\r\nb\nB\nc\n"),
        # That line has none: the last line that has one.
        ("a\nb\r\nc", "c", "c\nC", "a\nb\r\nc\r\nC"),
        ("a\r\nb\nc", "c", "c\nC", "a\r\nb\nc\nC"),
        ("a", "a", "a\nb\n", "a\nb\n"),
        # A CRLF as written stays one, in old and new.
        ("a\nb\n", "a\n", "x\r\n", "x\r\nb\n"),
        ("a\r\nb\nc", "a\r\nb\n", "x\r\ny\n", "x\r\ny\nc"),
        ("a\r\nb\r\n", "a\r\nb", "x\ny", "x\r\ny\r\n"),
        # A carriage return alone is text.
        ("a\rb\n", "a\rb", "c\rd", "c\rd\n"),
        ("a\r\r\nb\r\n", "a\r\r\nb", "c\r\r\nd", "c\r\r\nd\r\n"),
        # A last line with its carriage return, as a page of lines shows it.
        ("a\r\nb\r\n", "a\r", "c\r", "c\r\nb\r\n"),
        # A line feed at the start of a text as written may be half of a CRLF.
        ("a\r\nb\r\n", "\nb\r\n", "\nc\n", "a\r\nc\r\n"),
        # A lone line feed or nothing.
        ("a\r\nb", "\n", "", "ab"),
        ("a\r\nb", "\n", "\n\n", "a\r\n\r\nb"),
        ("a\r\nb\nc", "\nb\n", "\n", "a\r\nc"),
    ],
)
def test_line_endings_at_the_edited_place(data, old, new, result):
    for encoding, bom in UNICODE:
        assert edited(encode(data, encoding, bom), (old, new)).data == encode(result, encoding, bom)


@pytest.mark.spec("EDIT-3")
@pytest.mark.parametrize("old", ["a\r\nb", "a\r", "a\r\n"])
def test_a_crlf_as_written_does_not_match_a_line_feed(old):
    with pytest.raises(TextNotFound):
        edited(b"a\nb\n", (old, "x"))


@pytest.mark.spec("EDIT-3")
def test_utf16_never_matches_at_odd_bytes():
    # 0A 0A | 0A 0A … as UTF-16: "\u0a0a" many times; a line feed is at no odd place.
    data = encode("\u0a0a\u0a00\u000a", "utf-16-le", bom=True)
    assert edited(data, ("\n", "x")).text_after == "\u0a0a\u0a00x"
    data = encode("ab\u6100\u6200", "utf-16-le", bom=True)
    with pytest.raises(TextNotFound):
        edited(data, ("\u6200\u6100", "x"))


@pytest.mark.spec("EDIT-3")
def test_the_byte_order_mark_stays():
    assert edited(b"\xef\xbb\xbfa", ("a", "b")).data == b"\xef\xbb\xbfb"
    result = edited(b"\xef\xbb\xbfa", ("a", ""))
    assert (result.data, result.bom, result.text_after) == (b"\xef\xbb\xbf", True, "")


@pytest.mark.spec("EDIT-3")
def test_a_new_text_the_encoding_cannot_hold_is_refused():
    with pytest.raises(ParseError) as caught:
        edited(b"caf\xe9", ("caf", "\u2603"), encoding="latin-1")
    assert caught.value.details["edit"] == 1


@pytest.mark.spec("EDIT-4")
@pytest.mark.parametrize(
    ("before", "old", "new", "line"),
    [
        ("a\nb\nc\n", "a\nb", "a\nB", 2),
        ("a\nb\nc\n", "b\n", "", 2),
        ("a\nb\nc\n", "a\nb", "a", 2),
        ("a\r\nb\r\nc", "c", "C", 3),
        ("a", "a", "a\nb", 1),
    ],
)
def test_the_first_changed_line(before, old, new, line):
    assert edited(before.encode(), (old, new)).first_changed_line == line


# --- against a naive model -----------------------------------------------------------------------


def reference_spans(text, old):
    """All matches by definition: each plain line feed of ``old`` is LF or CRLF."""
    literal = "\r\n" in old or old.endswith("\r")
    if literal:
        pattern = re.escape(old)
    else:
        pattern = "\r?\n".join(re.escape(part) for part in old.split("\n"))
    spans = []
    for start in range(len(text)):
        # A match that begins with a line feed takes the carriage return before it along.
        inside_pair = text[start] == "\n" and start > 0 and text[start - 1] == "\r"
        if inside_pair and not literal:
            continue
        match = re.compile(pattern).match(text, start)
        if match:
            spans.append(match.span())
    return spans


def reference_new(text, span, new):
    if "\r\n" in new or new.endswith("\r"):
        return new
    start, end = span
    ends = re.findall(r"\r?\n", text[start:end])
    if not ends:
        later = re.search(r"\r?\n", text[end:])
        if later:
            ends = [later.group()]
            if text[end - 1] == "\r" and later.start() == 0 and later.group() == "\n":
                ends = ["\r\n"]
        else:
            ends = (re.findall(r"\r?\n", text) or ["\n"])[-1:]
    parts = new.split("\n")
    result = parts[0]
    for index, part in enumerate(parts[1:]):
        result += ends[min(index, len(ends) - 1)] + part
    return result


pieces = st.lists(st.sampled_from(["a", "b", "\n", "\r\n", "\r", "☃"]), max_size=14).map("".join)
needles = st.lists(
    st.sampled_from(["a", "b", "\n", "\n", "\r\n", "\r", "☃"]), min_size=1, max_size=4
).map("".join)
one_edit = st.tuples(needles, pieces, st.booleans())


@pytest.mark.spec("EDIT-1", "EDIT-2", "EDIT-3")
@settings(max_examples=1500)
@given(text=pieces, edits=st.lists(one_edit, min_size=1, max_size=3), form=st.sampled_from(UNICODE))
def test_edits_agree_with_the_definition(text, edits, form):
    data = encode(text, *form)
    changes = []
    expected = None
    for old, new, replace_all in edits:
        spans = reference_spans(text, old)
        overlap = any(b[0] < a[1] for a, b in pairwise(spans))
        if not spans:
            expected = expected or TextNotFound
        elif len(spans) > 1 and (overlap or not replace_all):
            expected = expected or AmbiguousTextMatch
        changes += [(*span, reference_new(text, span, new)) for span in spans]
    changes.sort()
    if expected is None and any(b[0] < a[1] for a, b in pairwise(changes)):
        expected = ParseError
    if expected is not None:
        with pytest.raises(expected):
            edited(data, *edits)
        return
    after, copied = "", 0
    for start, end, new in changes:
        after += text[copied:start] + new
        copied = end
    after += text[copied:]
    result = edited(data, *edits)
    assert result.text_after == after
    assert result.data == encode(after, *form)
    assert result.text_before == text
    assert result.replacements == len(changes)


@pytest.mark.spec("EDIT-3")
@given(
    before=st.binary(max_size=40),
    after=st.binary(max_size=40),
    new=st.text(st.characters(max_codepoint=255)),
)
def test_bytes_outside_the_edited_span_are_identical(before, after, new):
    data = before + b"<<here>>" + after
    try:
        result = edited(data, ("<<here>>", new.replace("\n", "")), encoding="latin-1").data
    except (BinaryFile, AmbiguousTextMatch):
        return
    assert result.startswith(before)
    assert result.endswith(after)
    assert len(result) == len(before) + len(new.replace("\n", "")) + len(after)


@given(
    st.text(alphabet="ab\n\r", max_size=40), st.text(alphabet="ab\n", min_size=1, max_size=4),
    st.text(alphabet="abc\n", max_size=6), st.text(alphabet="ab\n\r", max_size=40),
)  # fmt: skip
def test_what_is_known_to_be_the_same_changes_nothing_of_the_diff(before, old, new, after):
    data = f"{before}{old}{after}".encode()
    try:
        result = apply_edits(data, [Edit(old, new, replace_all=True)])
    except (TextNotFound, ParseError, AmbiguousTextMatch):
        return
    text, changed = result.text_before, result.text_after
    same = result.same_before, result.same_after
    assert text[: same[0]] == changed[: same[0]]
    assert text[len(text) - same[1] :] == changed[len(changed) - same[1] :]
    assert unified_diff(text, changed, "a", "b", same=same) == unified_diff(text, changed, "a", "b")
