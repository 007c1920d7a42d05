"""Matching lines against a search line by line, and the cases that others get wrong."""

import pytest
import re2
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from bailiwick.errors import ParseError
from bailiwick.search import grep as grep_module
from bailiwick.search.grep import compile_query
from bailiwick.search.searcher import LineMatch

ALL = {"context": 0, "matches_left": 1_000_000, "line_characters_max": 2_000}


def search(pattern, data, *, literal=False, ignore_case=False, word=False, **more):
    query = compile_query(pattern, literal=literal, ignore_case=ignore_case, word=word)
    return query.search(data, **{**ALL, **more})


def where(matches):
    return [(match.line, match.column) for match in matches]


# --- the reference: split, then search every line alone ----------------------------------------


def lines_of(data):
    data = data.removeprefix(b"\xef\xbb\xbf")
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    return [line.removesuffix(b"\r") for line in lines]


def characters_before(line, offset):
    """Characters that end at or before the offset."""
    count = end = 0
    for character in line.decode("utf-8", "surrogateescape"):
        end += len(character.encode("utf-8", "surrogateescape"))
        if end > offset:
            break
        count += 1
    return count


def reference(pattern, data, ignore_case=False):
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    regex = re2.compile(pattern.encode(), options)
    return [
        (number, characters_before(line, found.start()) + 1)
        for number, line in enumerate(lines_of(data), start=1)
        if (found := regex.search(line))
    ]


atoms = st.sampled_from(
    ["a", "b", "é", ".", "\\s", "\\S", "\\w", "\\W", "\\d", "[^a]", "[ab]", "[^\\n]", "[\\s]",
     "\\b", "\\B", "^", "$", "\\A", "\\z", "(?i)", "(?s)", "(?-m)", "(?s:.)", "\\C", "\\t", "\\r",
     "[[:space:]]", "\\pL", "(?m)", "\\x{e9}", "\\Qa.b\\E", "[]a]", "\\.", " "]
)  # fmt: skip
repeats = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "*?", "{1,3}"])
simple = st.lists(st.tuples(atoms, repeats).map("".join), min_size=1, max_size=4).map("".join)
patterns = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("|".join),
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, repeats).map(lambda pair: f"({pair[0]}){pair[1]}"),
    ),
    max_leaves=4,
)
contents = st.lists(
    st.sampled_from(
        [b"a", b"b", b"A", "é".encode(), b"\xff", b"\xc3", b"\x80", b" ", b"\t", b"\n", b"\n",
         b"\r\n", b"\r", b".", b"1", b"ab", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"aXa"]
    ),
    max_size=14,
).map(b"".join)  # fmt: skip


def compiles(pattern):
    options = re2.Options()
    options.log_errors = False
    try:
        return (
            re2.compile(pattern.encode(), options).programsize < grep_module.INSTRUCTIONS_MAX - 99
        )
    except re2.error:
        return False


@pytest.mark.spec("GREP-3")
@settings(max_examples=600)
@given(patterns, contents, st.booleans())
@example("\\s+", b"a \n b", False)
@example("\\r$", b"a\r\r", False)
@example("[^a]", b"a\na\n", False)
@example("a$", b"a\r\nb", False)
@example("$", b"a\n", False)
@example("^$", b"a\n\n", False)
@example("\\B", "aé".encode(), False)
def test_a_block_is_searched_as_its_lines_would_be(pattern, data, ignore_case):
    assume(compiles(pattern))
    assert where(search(pattern, data, ignore_case=ignore_case)) == reference(
        pattern, data, ignore_case
    )


@pytest.mark.spec("GREP-3")
@settings(max_examples=400)
@given(patterns, contents, st.integers(0, 3), st.data())
def test_chunks_give_the_same_answer_as_the_whole(pattern, data, context, draw):
    assume(compiles(pattern))
    query = compile_query(pattern)
    options = {**ALL, "context": context, "matches_left": draw.draw(st.integers(1, 5))}
    searcher = query.searcher(**options)
    found, rest = [], data
    while rest:
        size = draw.draw(st.integers(1, len(rest)))
        found += searcher.feed(rest[:size])
        rest = rest[size:]
    found += searcher.finish()
    assert found == query.search(data, **options)


@settings(max_examples=300)
@given(st.text("ab.é*", min_size=1, max_size=3), contents, st.booleans())
def test_a_literal_is_searched_as_it_stands(text, data, ignore_case):
    quoted = re2.escape(text)
    found = where(search(text, data, literal=True, ignore_case=ignore_case))
    assert found == reference(quoted, data, ignore_case)


@given(contents, st.integers(0, 3), st.text("ab", min_size=1, max_size=1))
def test_context_is_the_lines_around(data, context, pattern):
    shown = [line.decode("utf-8", "backslashreplace") for line in lines_of(data)]
    for match in search(pattern, data, context=context):
        here = match.line - 1
        assert match.text == shown[here]
        assert match.before == shown[max(0, here - context) : here]
        assert match.after == shown[here + 1 : here + 1 + context]


# --- by example --------------------------------------------------------------------------------


@pytest.mark.spec("GREP-1")
def test_a_match_says_where_it_is_and_what_stands_around():
    data = b"one\ntwo\nthree\nfour\n"
    assert search("h", data, context=1) == [
        LineMatch(3, 2, "three", ["two"], ["four"], line_truncated=False, undecodable=False)
    ]


@pytest.mark.spec("GREP-1")
@pytest.mark.parametrize(
    ("pattern", "data", "options", "found"),
    [
        ("foo", b"foo foobar\nxfoo\n", {"word": True}, [(1, 1)]),
        ("foo|ba", b"foobar\nba\n", {"word": True}, [(2, 1)]),
        ("-x", b"a -x\na-x\n -xy\n", {"literal": True, "word": True}, [(1, 3)]),
        ("a.c", b"abc\na.c\n", {"literal": True}, [(2, 1)]),
        ("STRASSE", b"strasse\n", {"ignore_case": True}, [(1, 1)]),
        ("É", "é\n".encode(), {"ignore_case": True}, [(1, 1)]),
        ("É", "é\n".encode(), {"ignore_case": True, "literal": True}, [(1, 1)]),
        ("k", "\u212a\n".encode(), {"ignore_case": True}, [(1, 1)]),
        ("\\Qa.b", b"a.b\n", {"word": True}, [(1, 1)]),
        ("x", "ééx".encode(), {}, [(1, 3)]),
        ("x", b"\xff\xffx", {}, [(1, 3)]),
        ("^x", b"\xef\xbb\xbfx", {}, [(1, 1)]),
        ("x$", b"x\r\nx\r", {}, [(1, 1), (2, 1)]),
        ("^", b"", {}, []),
        ("^", b"\n", {}, [(1, 1)]),
        ("a.b", b"a\xffb\n", {}, []),
        ("a", b"aXaXa\n", {}, [(1, 1)]),
    ],
)
def test_searches(pattern, data, options, found):
    assert where(search(pattern, data, **options)) == found


@pytest.mark.spec("GREP-3")
@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("a(?=b)", "lookaround"),
        ("a(?!b)", "lookaround"),
        ("(?<=a)b", "lookaround"),
        ("(?<!a)b", "lookaround"),
        ("(a)\\1", "backreference"),
        ("a\\Z", "`$`"),
        ("(", "literal"),
        ("[z-a]", "literal"),
        ("*", "literal"),
        ("a{2000}", "1000"),
        ("((a{30}){30}){30}", "counts"),
        ("x[xy]{999}" * 9, "counts"),
        ("\\pL{2,30}", "counts"),
        ("a)(b", "literal"),
        ("", "`^`"),
        ("a\nb", "context"),
        ("a\\nb", "context"),
        ("x" * 20_000, "characters"),
        ("\ud800", "literal"),
    ],
)
def test_what_cannot_be_searched_is_a_parse_error_with_a_hint(pattern, hint, capfd):
    with pytest.raises(ParseError) as refused:
        compile_query(pattern, word=")(" in pattern)
    assert hint in refused.value.hint
    assert capfd.readouterr() == ("", "")


def test_a_literal_may_hold_anything_but_a_newline():
    assert where(search("(?=a)\\1[", b"x(?=a)\\1[", literal=True)) == [(1, 2)]
    with pytest.raises(ParseError):
        compile_query("a\nb", literal=True)
    with pytest.raises(ParseError):
        compile_query("\ud800", literal=True)


@pytest.mark.spec("GREP-3")
def test_a_nested_repetition_is_linear():
    """Eight seconds elsewhere, on 28 bytes; here it may as well be a megabyte."""
    assert search("(a+)+$", b"a" * 27 + b"!") == []
    assert search("(a+)+$", b"a" * 1_000_000 + b"!") == []


@pytest.mark.spec("GREP-3")
def test_undecodable_bytes_are_shown_and_marked():
    (match,) = search("needle", b"\xff\xfe needle \xc3\nnext \x80\n", context=1)
    assert match.text == "\\xff\\xfe needle \\xc3"
    assert match.column == 4
    assert match.after == ["next \\x80"]
    assert match.undecodable
    assert not search("a", b"a\\xff\n")[0].undecodable


@pytest.mark.spec("GREP-3")
def test_a_line_of_megabytes_is_shown_around_the_match():
    line = b"x" * 2_000_000 + b"needle" + b"y" * 2_000_000
    (match,) = search("needle", b"before\n" + line + b"\nafter\n", context=1)
    assert match.line_truncated
    assert match.column == 2_000_001
    assert len(match.text) == 2_000
    assert "xneedley" in match.text
    assert (match.before, match.after) == (["before"], ["after"])


@pytest.mark.spec("GREP-3")
@pytest.mark.parametrize("position", [0, 1, 499, 500, 1_000, 2_990, 2_994])
def test_the_part_shown_is_as_long_as_it_may_be(position):
    line = "é" * position + "needle" + "é" * (3_000 - position - 6)
    (match,) = search("needle", line.encode())
    assert len(match.text) == 2_000
    assert match.text in line
    assert "needle" in match.text
    assert match.line_truncated


def test_a_line_just_short_enough_is_shown_whole():
    line = "é" * 1_994 + "needle"
    (match,) = search("needle", line.encode())
    assert match.text == line
    assert not match.line_truncated


def test_a_long_line_of_context_is_cut_and_marked():
    (match,) = search("needle", b"x" * 5_000 + b"\nneedle\n", context=1)
    assert match.before == ["x" * 2_000]
    assert match.line_truncated


@pytest.mark.spec("GREP-1")
def test_the_search_ends_with_the_matches_asked_for():
    searcher = compile_query("a").searcher(**{**ALL, "context": 1, "matches_left": 2})
    assert searcher.feed(b"a\na\n") == [LineMatch(1, 1, "a", [], ["a"], False, False)]
    assert not searcher.done
    assert [match.after for match in searcher.feed(b"x\na\n")] == [["x"]]
    assert searcher.done
    assert searcher.feed(b"a\n") + searcher.finish() == []


# --- lines longer than memory allows -----------------------------------------------------------


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(grep_module, "LINE_BYTES_MAX", 64)
    monkeypatch.setattr(grep_module, "OVERLAP_BYTES_MAX", 16)
    grep_module._compile_query.cache_clear()
    yield
    grep_module._compile_query.cache_clear()


def fed(pattern, data, size, **more):
    searcher = compile_query(pattern).searcher(**{**ALL, **more})
    found = []
    for start in range(0, len(data), size):
        found += searcher.feed(data[start : start + size])
        assert searcher._carry_bytes <= 64 + size
    return found + searcher.finish()


@pytest.mark.spec("GREP-3")
@pytest.mark.parametrize("offset", range(0, 400, 7))
def test_a_line_in_pieces_is_searched_without_a_gap(small_pieces, offset):
    line = "é".encode() * offset + b" needle " + "é".encode() * (400 - offset)
    data = b"first\n" + line + b"\nlast needle\n"
    matches = fed("\\bneedle\\b", data, 10, context=1)
    assert where(matches) == [(2, offset + 2), (3, 6)]
    assert matches[0].line_truncated
    assert matches[0].before == ["first"]
    assert matches[0].after == ["last needle"]


def test_anchors_do_not_hold_between_pieces(small_pieces):
    data = b"b" + b"a" * 500 + b"c\n"
    assert fed("^a", data, 10) == []
    assert fed("a$", data, 10) == []
    assert where(fed("^b", data, 10)) == [(1, 1)]
    assert where(fed("c$", data, 10)) == [(1, 502)]
    assert where(fed("c$", data.rstrip(), 10)) == [(1, 502)]


def test_a_line_in_pieces_is_one_match(small_pieces):
    assert where(fed("a", b"a" * 500 + b"\na", 10)) == [(1, 1), (2, 1)]
    assert where(fed("a", b"a" * 500, 10, context=2)) == [(1, 1)]


# --- steps that bound the time between two looks at the clock ----------------------------------


@pytest.mark.spec("GREP-1")
@pytest.mark.parametrize(
    "pattern", [".{0,900}z", "|".join(f"word{n * 7919 % 10**6}" for n in range(1_300)), "\\pL{2,6}"]
)
def test_large_patterns_as_people_write_them_are_taken(pattern):
    assert where(search(pattern, b"a word7919 z\n")) == [(1, 1 if pattern[0] == "." else 3)]


@pytest.mark.spec("GREP-3")
@pytest.mark.parametrize("pattern", ["a", "a.*b", "x[xy]{0,400}x[xy]{900}zz", ".{0,900}z"])
@settings(max_examples=30)
@given(st.lists(st.integers(0, 90_000), max_size=8))
def test_steps_are_short_and_end_with_a_line_where_they_can(pattern, lengths):
    data = b"".join(b"x" * length + b"\n" for length in lengths)[:-1]
    query = compile_query(pattern)
    steps = list(query.steps(data))
    assert b"".join(steps) == data
    for step in steps:
        assert len(step) * query._byte_ns_max <= 250_000_000 or len(step) == 2_048
        assert len(step) <= 65_536
    for step in steps[:-1]:
        assert step.endswith(b"\n") or b"\n" not in step


@pytest.mark.spec("GREP-3")
@pytest.mark.parametrize("offset", range(0, 60_000, 2_501))
def test_a_long_line_is_searched_in_pieces_that_no_bounded_match_outgrows(offset):
    """What a slow pattern may take at once is bounded, and no match of it is lost."""
    query = compile_query("<[xy]{0,400}-[xy]{900}>")
    line = b"x" * offset + b"<" + b"xy" * 200 + b"-" + b"xy" * 450 + b">" + b"y" * 3_000
    blocks, find = [], query._find

    def noting(block, start, end):
        blocks.append(end - start)
        return find(block, start, end)

    searcher = query.searcher(**ALL)
    searcher._find = noting
    found = [match for step in query.steps(line) for match in searcher.feed(step)]
    assert where(found + searcher.finish()) == [(1, offset + 1)]
    assert max(blocks) * query._byte_ns_max <= 2_000_000_000


@pytest.mark.spec("GREP-3")
def test_a_search_that_stops_gives_what_it_has():
    searcher = compile_query("a").searcher(**{**ALL, "context": 3})
    assert searcher.feed(b"a\nb\na unfinished") == []
    assert searcher.stop() == [LineMatch(1, 1, "a", [], ["b"], False, False)]
