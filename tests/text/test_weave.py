"""Whose lines are whose, and what taking back the lines of one leaves."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bailiwick.text import weave as weave_module
from bailiwick.text.diff import hunks_between
from bailiwick.text.weave import Strand, Weave


def woven(*versions):
    """A weave of versions, each an author and a text; and what the author ``a`` did in it."""
    (first, text), *more = versions
    weave = Weave(text, first)
    last = max(n for n, (by, _) in enumerate(more) if by == "a")
    for by, text in more[: last + 1]:
        weave.write(by, text)
    hunks = weave.settle(lambda by: by == "a")
    for by, text in more[last + 1 :]:
        weave.write(by, text)
    return weave, hunks


def told(hunks):
    return [([s.text for s in h.removed], [s.text for s in h.added]) for h in hunks]


@pytest.mark.spec("RUN-2")
def test_the_net_of_several_changes_is_one_hunk():
    _, hunks = woven(("", b"1\n2\n3\n"), ("a", b"1\nx\n3\n"), ("a", b"1\ny\n3\n"))
    assert told(hunks) == [(["2\n"], ["y\n"])]
    assert (hunks[0].old_line, hunks[0].above, hunks[0].below) == (2, ["1\n"], ["3\n"])


@pytest.mark.spec("RUN-2")
def test_what_was_put_back_is_no_change():
    _, hunks = woven(("", b"1\n2\n3\n"), ("a", b"1\nx\n3\n"), ("a", b"1\n2\n3\n"))
    assert hunks == []


@pytest.mark.spec("RUN-2")
def test_what_others_do_in_between_is_theirs():
    _, hunks = woven(
        ("", b"1\n2\n3\n4\n5\n"), ("a", b"1\na\n3\n4\n5\n"), ("b", b"1\na\n3\nb\n5\n"),
        ("a", b"1\na\n3\nb\nz\n"),
    )  # fmt: skip
    assert told(hunks) == [(["2\n"], ["a\n"]), (["5\n"], ["z\n"])]


@pytest.mark.spec("RUN-3")
def test_taking_back_leaves_what_others_wrote_beside_it():
    weave, hunks = woven(
        ("", b"1\n2\n3\n"), ("a", b"1\na\n3\n"), ("b", b"0\n1\nb\na\nc\n3\n")
    )  # fmt: skip
    assert weave.state(hunks[0]) == "stands"
    assert weave.without(hunks) == b"0\n1\nb\n2\nc\n3\n"


@pytest.mark.spec("RUN-3")
@pytest.mark.parametrize(
    "later",
    [
        pytest.param(b"1\nq\n3\n", id="another text in its place"),
        pytest.param(b"1\n3\n", id="what was put there is gone"),
    ],
)
def test_what_others_changed_since_is_no_longer_taken_back(later):
    weave, hunks = woven(("", b"1\n2\n3\n"), ("a", b"1\na\n3\n"), ("b", later))
    assert weave.state(hunks[0]) == "changed"


@pytest.mark.spec("RUN-3")
def test_where_a_line_was_taken_out_and_others_wrote_the_order_is_not_known():
    weave, hunks = woven(("", b"1\n2\n3\n"), ("a", b"1\n3\n"), ("b", b"1\nq\n3\n"))
    assert weave.state(hunks[0]) == "changed"


@pytest.mark.spec("RUN-3")
@pytest.mark.parametrize(
    ("before", "after"),
    [(b"1\n2\n3\n", b"1\na\n3\n"), (b"1\n2\n3\n", b"1\n3\n"), (b"1\n3\n", b"1\n2\n3\n")],
)
def test_what_was_taken_back_already_is_not_taken_back_again(before, after):
    weave, hunks = woven(("", before), ("a", after), ("b", before))
    assert weave.state(hunks[0]) == "undone"
    assert weave.without(hunks) == before


@pytest.mark.spec("RUN-3")
def test_a_last_line_without_an_end_gets_one_where_another_follows():
    weave, hunks = woven(("", b"1"), ("a", b"2"), ("b", b"2\n3\n"))
    assert weave.state(hunks[0]) != "stands" or weave.without(hunks) == b"1\n3\n"


class Line:
    """A line of the model: its text is its own, so that it can be told from all others."""

    numbers = iter(range(10**9))

    def __init__(self, by):
        self.by = by
        self.text = f"{by}{next(self.numbers)}\n"


@st.composite
def edits(draw):
    """What several do to one text, one after the other: each takes out and puts in some lines."""
    lines = [Line("base") for _ in range(draw(st.integers(0, 8)))]
    versions = [("base", list(lines))]
    for _ in range(draw(st.integers(1, 7))):
        by = draw(st.sampled_from("abp"))
        low = draw(st.integers(0, len(lines)))
        high = draw(st.integers(low, min(len(lines), low + 3)))
        new = [Line(by) for _ in range(draw(st.integers(0, 3)))]
        lines = [*lines[:low], *new, *lines[high:]]
        versions.append((by, list(lines)))
    return versions


def text_of(lines):
    return "".join(each.text for each in lines).encode()


@pytest.mark.spec("RUN-3")
@given(edits(), st.data())
@settings(max_examples=400)
def test_taking_back_any_hunks_leaves_exactly_the_lines_of_all_others(versions, data):
    touched = [n for n, (by, _) in enumerate(versions) if by == "a"]
    if not touched:
        return
    weave = Weave(text_of(versions[0][1]), "base")
    for by, lines in versions[1 : touched[-1] + 1]:
        weave.write(by, text_of(lines))
    hunks = weave.settle(lambda by: by == "a")
    assert weave.data == text_of(versions[touched[-1]][1])
    for by, lines in versions[touched[-1] + 1 :]:
        weave.write(by, text_of(lines))
    now = versions[-1][1]
    assert weave.data == text_of(now)
    chosen = [each for each in hunks if data.draw(st.booleans())]
    if any(weave.state(each) == "changed" for each in chosen):
        return
    left = weave.without(chosen).decode().splitlines(keepends=True)
    gone = {s.text for each in chosen for s in each.added}
    back = {s.text for each in chosen if weave.state(each) == "stands" for s in each.removed}
    standing = [each.text for each in now if each.text not in gone]
    # Of what stands, all that is not taken back, in its order; besides only what the author took.
    assert [each for each in left if each not in back] == standing
    assert sorted(each for each in left if each in back) == sorted(back)
    # What comes back stands among the lines of the first text in the order that it had there.
    order = [each.text for _, lines in versions[:1] for each in lines]
    first = [each for each in left if each in order]
    assert first == [each for each in order if each in first]


@pytest.mark.spec("RUN-3")
@given(edits())
@settings(max_examples=300)
def test_taking_back_all_where_nobody_else_wrote_is_what_was_before(versions):
    weave = Weave(text_of(versions[0][1]), "base")
    for _, lines in versions[1:]:
        weave.write("a", text_of(lines))
    hunks = weave.settle(lambda by: by == "a")
    assert weave.without(hunks) == text_of(versions[0][1])


@given(st.lists(st.tuples(st.sampled_from("ab"), st.text("xy\n", max_size=12)), min_size=1))
@settings(max_examples=300)
def test_lines_that_look_the_same_do_not_confuse_it(versions):
    weave = Weave(b"x\ny\n", "base")
    for by, text in versions:
        weave.write(by, text.encode())
        assert weave.data == text.encode()
    hunks = weave.settle(lambda by: by == "a")
    assert weave.data == versions[-1][1].encode()
    if all(weave.state(each) != "changed" for each in hunks):
        weave.without(hunks)


class PlainCrowds(weave_module._Crowds):
    """Goes through all that lies around each place."""

    def gather_around(self, place, author):
        self._before, self._behind = {}, {}
        super().gather_around(place, author)


@given(
    st.lists(st.integers(0, 9), max_size=14),
    st.lists(
        st.tuples(st.sampled_from("abc"), st.lists(st.integers(0, 3), max_size=18)), max_size=8
    ),
)
@settings(max_examples=400)
def test_what_was_passed_need_not_be_gone_through_again(first, deeds):
    """Each deed says of every line whether it stays, goes, or has something else put for it, or
    before it: what was there at the beginning, or something new."""
    found = []
    for crowds in (weave_module._Crowds, PlainCrowds):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(weave_module, "_Crowds", crowds)
            lines = [f"{each}\n" for each in first]
            weave, then = Weave("".join(lines).encode(), "base"), lines
            for by, kinds in deeds:
                kinds = [*kinds, *[0] * len(lines)]
                lines = [
                    each
                    for place, line in enumerate(lines)
                    for each in (
                        [line], [], [then[place % len(then)]], [f"{by}{place % 3}\n", line]
                    )[kinds[place]]
                ]  # fmt: skip
                weave.write(by, "".join(lines).encode())
            found.append([(s.text, s.by, s.gone_by, s.crowded, s.replaced) for s in weave._strands])
    assert found[0] == found[1]


def plainly_around(strands, parts, wanted):
    """Whether lines stand where others are, by going through all of them."""
    places = [place for place, each in enumerate(strands) if each in parts]
    low, high = places[0], places[-1] + 1
    while low > 0 and (strands[low - 1].late or not strands[low - 1].stands):
        low -= 1
    while high < len(strands) and (strands[high].late or not strands[high].stands):
        high += 1
    now = [each.text for each in strands[low:high] if each.stands]
    wanted = [each.text for each in wanted]
    return any(now[at : at + len(wanted)] == wanted for at in range(len(now) - len(wanted) + 1))


@pytest.mark.spec("RUN-3")
@given(
    st.lists(st.text("xy\n", max_size=12), min_size=2, max_size=5),
    st.lists(st.text("xyz\n", max_size=12), min_size=1, max_size=4),
)
@settings(max_examples=400)
def test_what_others_put_back_is_found_as_by_going_through_everything(ours, others):
    weave = Weave(ours[0].encode(), "base")
    for text in ours[1:]:
        weave.write("a", text.encode())
    hunks = weave.settle(lambda by: by == "a")
    for text in others:
        weave.write("b", text.encode())
        index = weave_module._StandingLines(weave._strands)
        for each in hunks:
            parts = (*each.removed, *each.added)
            plain = plainly_around(weave._strands, parts, each.removed)
            assert index.stands_around(parts, each.removed) == plain


def texts(count):
    """Lines, as many others, and every second of those as yet others."""
    line, other, third = (
        [f"{word} {number}\n" for number in range(count)] for word in ("line", "other", "third")
    )
    return line, other, [(third if number % 2 else other)[number] for number in range(count)]


@pytest.mark.spec("REVIEW-6")
def test_rewriting_a_long_text_does_not_look_at_each_line_for_each_other(monkeypatch):
    looks = 0

    def counted(strand):
        nonlocal looks
        looks += 1
        return strand.gone_by is None

    monkeypatch.setattr(Strand, "stands", property(counted))
    line, other, third = ("".join(each).encode() for each in texts(2000))
    for versions in ((line, other, third), (line, third, other, line), (line, b"line 1\n", line)):
        weave = Weave(versions[0], "base")
        for by, text in zip("aba", versions[1:], strict=False):
            weave.write(by, text)
        weave.settle(lambda by: by == "a")
    assert looks < 2000 * 100


@pytest.mark.spec("REVIEW-6")
def test_what_became_of_many_pieces_is_told_by_a_few_looks_at_the_text():
    looks = 0

    class Counted(list):
        def __iter__(self):
            nonlocal looks
            looks += 1
            return super().__iter__()

    line, other, _ = texts(2000)
    ours = [(line if number % 2 else other)[number] for number in range(2000)]
    theirs = [each if number % 4 else f"theirs {number}\n" for number, each in enumerate(ours)]
    weave = Weave("".join(line).encode(), "base")
    weave.write("a", "".join(ours).encode())
    hunks = weave.settle(lambda by: by == "a")
    weave.write("b", "".join(theirs).encode())
    weave._strands = Counted(weave._strands)
    assert [weave.state(each) for each in hunks] == ["changed", "stands"] * 500
    assert looks < 10


@pytest.mark.spec("REVIEW-6")
def test_to_write_in_many_places_moves_each_line_a_few_times_at_most():
    moved = 0

    class Counted(list):
        def append(self, each):
            nonlocal moved
            moved += 1
            super().append(each)

        def __setitem__(self, place, value):
            nonlocal moved
            moved += len(self)
            super().__setitem__(place, value)

    line, other, _ = texts(2000)
    weave = Weave("".join(line).encode(), "base")
    weave._strands = Counted(weave._strands)
    mixed = [(line if number % 2 else other)[number] for number in range(2000)]
    weave.write("a", "".join(mixed).encode())
    assert weave.data == "".join(mixed).encode()
    assert moved < 2000 * 10


@pytest.mark.spec("REVIEW-6")
def test_of_a_text_that_was_changed_in_many_places_no_place_is_compared_by_itself(monkeypatch):
    compared = 0

    def counted(*given, **more):
        nonlocal compared
        compared += 1
        return hunks_between(*given, **more)

    monkeypatch.setattr(weave_module, "hunks_between", counted)
    line, _, _ = texts(2000)
    other = [f"other {number}\n" if number % 2 else each for number, each in enumerate(line)]
    weave = Weave("".join(line).encode(), "base")
    weave.write("a", "".join(other).encode())
    hunks = weave.settle(lambda by: by == "a")
    assert (len(hunks), compared) == (1000, 1)
    assert [each.text for each in hunks[3].added] == ["other 7\n"]
