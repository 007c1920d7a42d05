"""Joining what two have made of one text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.text.diff import hunks_between
from bailiwick.text.merge import merged, with_hunks

BASE = b"one\ntwo\nthree\nfour\nfive\n"

TEXTS = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n", "d\r\n", "e"]), max_size=12).map(
    lambda lines: "".join(lines).encode()
)


def test_what_lies_apart_is_joined():
    ours = BASE.replace(b"one", b"ONE")
    theirs = BASE.replace(b"five", b"FIVE") + b"six\n"
    assert merged(BASE, ours, theirs) == b"ONE\ntwo\nthree\nfour\nFIVE\nsix\n"
    assert merged(BASE, theirs, ours) == merged(BASE, ours, theirs)


def test_lines_that_overlap_or_touch_are_not_joined():
    assert merged(BASE, BASE.replace(b"two", b"2"), BASE.replace(b"two", b"zwei")) is None
    assert merged(BASE, BASE.replace(b"two", b"2"), BASE.replace(b"three", b"3")) is None
    assert merged(b"", b"ours\n", b"theirs\n") is None


def test_the_same_on_both_sides_is_one_change():
    both = BASE.replace(b"two\n", b"")
    assert merged(BASE, both, both.replace(b"five", b"FIVE")) == both.replace(b"five", b"FIVE")


def test_the_end_of_the_last_line_counts():
    assert merged(b"a\nb\nc", b"A\nb\nc", b"a\nb\nc\n") == b"A\nb\nc\n"


def test_binary_is_never_joined():
    assert merged(b"a\0\nb\nc\n", b"a\0\nb\nC\n", b"A\0\nb\nc\n") is None


@given(TEXTS, TEXTS, TEXTS)
def test_it_takes_both_sides_and_neither_more(base, ours, theirs):
    assert merged(base, ours, base) == ours
    assert merged(base, base, theirs) == theirs
    assert merged(base, ours, ours) == ours
    assert merged(base, ours, theirs) == merged(base, theirs, ours)


@given(TEXTS, TEXTS, st.data())
def test_hunks_are_chosen_one_by_one(old, new, data):
    count = len(hunks_between(old.decode(), new.decode()))
    chosen = data.draw(st.sets(st.integers(1, count))) if count else set()
    some = with_hunks(old, new, chosen)
    if len(chosen) == count:
        assert some == new
    if not chosen:
        assert some == old
    rest = with_hunks(old, new, chosen, others=True)
    assert rest == with_hunks(old, new, set(range(1, count + 1)) - chosen)
    assert merged(old, some, rest) in (new, None)


def test_a_hunk_that_there_is_not():
    with pytest.raises(IndexError):
        with_hunks(b"a\n", b"b\n", [2])
