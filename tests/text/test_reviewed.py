"""What is left to look at of a text: lines of agents that differ from what people agreed to."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bailiwick.text.reviewed import ReviewedLine, ReviewedText
from tests.text.test_weave import texts


def shown(text):
    return [
        (*("".join(each.text for each in side).split() for side in (hunk.removed, hunk.added)),)
        for hunk in text.hunks()
    ]


def written(data, *writes):
    text = ReviewedText(data)
    for run, after in writes:
        text.write(run, after)
    return text


@pytest.mark.spec("REVIEW-1")
@pytest.mark.parametrize(
    ("writes", "left"),
    [
        ([("r", b"1\ntwo\n3\n")], [(["2"], ["two"])]),
        ([("r", b"1\ntwo\n3\n"), ("r", b"1\n2\n3\n")], []),
        ([("r", b"1\ntwo\n3\n"), ("s", b"1\nzwei\n3\n")], [(["2"], ["zwei"])]),
        ([("r", b"1\ntwo\n3\n"), ("s", b"1\n2\n3\n")], []),
        (
            [("r", b"1\ntwo\n3\n"), ("s", b"1\ntwo\nthree\n")],
            [(["2"], ["two"]), (["3"], ["three"])],
        ),
        ([(None, b"1\ntwo\n3\n")], []),
        ([("r", b"1\ntwo\n3\n"), (None, b"1\ndeux\n3\n")], []),
        ([("r", b"1\ntwo\n3\n"), (None, b"1\ntwo\n3\n4\n")], [(["2"], ["two"])]),
        ([("r", b"1\n3\n"), (None, b"1\n3\n4\n")], [(["2"], [])]),
        ([("r", b"1\nA\nB\n3\n"), (None, b"1\nA\nx\n3\n")], [(["2"], ["A"])]),
        ([("r", b"")], [(["1", "2", "3"], [])]),
        ([("r", b""), (None, b"1\n2\n3\n")], []),
    ],
)
def test_what_is_left_is_what_agents_made_of_what_was_agreed_to(writes, left):
    assert shown(written(b"1\n2\n3\n", *writes)) == left


@pytest.mark.spec("REVIEW-1")
def test_what_restores_what_was_accepted_is_not_left():
    text = written(b"1\n2\n3\n", ("r", b"1\ntwo\n3\n"))
    text.accept(text.hunks())
    assert not text.hunks()
    text.write("s", b"1\nzwei\n3\n")
    assert shown(text) == [(["two"], ["zwei"])]
    text.write("t", b"1\ntwo\n3\n")
    assert not text.hunks()


@pytest.mark.spec("REVIEW-1")
def test_numbers_and_lines_around_are_of_what_was_agreed_to_and_of_what_stands():
    text = written(b"1\n2\n3\n4\n5\n6\n", ("r", b"0\n1\n2\n3\n4\nfive\n6\n"))
    first, second = text.hunks()
    assert (first.old_line, first.new_line, first.above, first.below) == (
        1, 1, [], ["1\n", "2\n", "3\n"],
    )  # fmt: skip
    assert (second.old_line, second.new_line) == (5, 6)
    assert (second.above, second.below) == (["2\n", "3\n", "4\n"], ["6\n"])


SLOTS = 4
deeds = st.one_of(
    st.tuples(st.sampled_from(["r", "s", None]), st.integers(0, SLOTS - 1), st.sampled_from("abc")),
    st.tuples(st.sampled_from(["accept", "reject"]), st.integers(0, SLOTS - 1), st.just("")),
)


@pytest.mark.spec("REVIEW-1")
@settings(max_examples=400, deadline=None)
@given(st.lists(deeds, max_size=14))
def test_places_apart_are_known_by_what_was_agreed_to_and_what_stands(deeds):
    """Lines between others that nobody touches: each is what was agreed to, or left."""
    agreed, now = ["a"] * SLOTS, ["a"] * SLOTS

    def data():
        return "".join(f"{each}{n}\n-{n}-\n" for n, each in enumerate(now)).encode()

    text = ReviewedText(data())
    for what, slot, value in deeds:
        if what in ("accept", "reject"):
            chosen = [each for each in text.hunks() if each.texts[1] == f"{now[slot]}{slot}\n"]
            assert bool(chosen) == (agreed[slot] != now[slot])
            if what == "accept":
                text.accept(chosen)
                agreed[slot] = now[slot]
            else:
                after = text.without(chosen)
                now[slot] = agreed[slot]
                assert after == data()
                text.write(None, after)
        else:
            if what is None and value != now[slot]:  # to write what stands there is no edit
                agreed[slot] = value
            now[slot] = value
            text.write(what, data())
        assert text.data == data()
        assert [each.texts for each in text.hunks()] == [
            (f"{agreed[n]}{n}\n", f"{now[n]}{n}\n") for n in range(SLOTS) if agreed[n] != now[n]
        ]


lines = st.lists(st.sampled_from("abcd"), max_size=6).map(
    lambda each: "".join(f"{line}\n" for line in each).encode()
)


@pytest.mark.spec("REVIEW-1")
@settings(max_examples=400, deadline=None)
@given(lines, st.lists(st.tuples(st.sampled_from(["r", "s", None]), lines), max_size=6), st.data())
def test_taking_all_back_gives_what_was_agreed_to_and_accepting_all_leaves_nothing(
    first, writes, draw
):
    text = ReviewedText(first)
    for run, after in writes:
        text.write(run, after)
        assert text.data == after
        if text.hunks() and draw.draw(st.booleans()):
            some = draw.draw(st.lists(st.sampled_from(text.hunks()), unique_by=id))
            left = len(text.hunks()) - len(some)
            accepts = draw.draw(st.booleans())
            after = text.data if accepts else text.without(some)
            (text.accept if accepts else text.take_back)(some)
            assert (text.data, len(text.hunks())) == (after, left)
    hunks = text.hunks()
    back = text.without(hunks)
    assert back == text.agreed
    text.write(None, back)
    assert not text.hunks()


@pytest.mark.spec("REVIEW-6")
def test_rewriting_a_long_text_does_not_look_at_each_line_for_each_other(monkeypatch):
    looks = 0

    def counted(line):
        nonlocal looks
        looks += 1
        return line.agreed and line.stands

    monkeypatch.setattr(ReviewedLine, "is_settled", property(counted))
    line, other, third = ("".join(each).encode() for each in texts(2000))
    text = ReviewedText(line)
    text.write("run", other)
    text.write(None, third)
    assert looks < 2000 * 100
    assert len(text.hunks()) == 1000
