"""Where a document that is no JSON goes wrong: the same place in every version of Python."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bailiwick.errors import ParseError
from bailiwick.text.json_document import NESTING_MAX, parse_json

BLANK = " \t\n\r"


class Wrong(Exception):
    """Where the reference stops."""


class Reference:
    """JSON read one character at a time, by the grammar alone."""

    def __init__(self, text):
        self.text, self.at = text, 0

    def here(self):
        return self.text[self.at : self.at + 1]

    def blank(self):
        while self.here() and self.here() in BLANK:
            self.at += 1

    def document(self):
        self.blank()
        self.value()
        self.blank()
        if self.here():
            raise Wrong(self.at)

    def value(self):
        first = self.here()
        if first == '"':
            self.string()
        elif first == "{":
            self.members("}", self.member)
        elif first == "[":
            self.members("]", self.value)
        elif first and first in "-0123456789":
            self.number()
        else:
            self.word()

    def word(self):
        for word in ("true", "false", "null"):
            if self.text.startswith(word, self.at):
                self.at += len(word)
                return
        raise Wrong(self.at)

    def members(self, end, one):
        self.at += 1
        self.blank()
        if self.here() == end:
            self.at += 1
            return
        while True:
            one()
            self.blank()
            if self.here() == end:
                self.at += 1
                return
            if self.here() != ",":
                raise Wrong(self.at)
            self.at += 1
            self.blank()

    def member(self):
        if self.here() != '"':
            raise Wrong(self.at)
        self.string()
        self.blank()
        if self.here() != ":":
            raise Wrong(self.at)
        self.at += 1
        self.blank()
        self.value()

    def string(self):
        start = self.at
        self.at += 1
        while self.here() != '"':
            if not self.here():
                raise Wrong(start)
            if self.here() < " ":
                raise Wrong(self.at)
            if self.here() == "\\":
                self.escape(start)
            else:
                self.at += 1
        self.at += 1

    def escape(self, start):
        letter = self.text[self.at + 1 : self.at + 2]
        if not letter:
            raise Wrong(start)
        if letter == "u":
            digits = self.text[self.at + 2 : self.at + 6]
            if len(digits) < 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
                raise Wrong(self.at + 1)
            self.at += 6
        elif letter in '"\\/bfnrt':
            self.at += 2
        else:
            raise Wrong(self.at)

    def digits(self, at):
        while self.text[at : at + 1] and self.text[at] in "0123456789":
            at += 1
        return at

    def number(self):
        start = self.at
        at = start + (self.text[start] == "-")
        whole = at + 1 if self.text[at : at + 1] == "0" else self.digits(at)
        if whole == at:
            raise Wrong(start)
        at = whole
        if self.text[at : at + 1] == "." and self.digits(at + 1) > at + 1:
            at = self.digits(at + 1)
        if self.text[at : at + 1] in ("e", "E"):
            sign = at + 2 if self.text[at + 1 : at + 2] in ("+", "-") else at + 1
            if self.digits(sign) > sign:
                at = self.digits(sign)
        self.at = at


def place_by_the_grammar(text):
    reference = Reference(text)
    try:
        reference.document()
    except Wrong as wrong:
        at = wrong.args[0]
        return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return None


def place_said(text):
    try:
        parse_json(text.encode())
    except ParseError as refused:
        return refused.details["line"], refused.details["column"]
    return None


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.sampled_from('ab"\\\n\té☃😀'), max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab", max_size=2), inner),
    max_leaves=12,
)  # fmt: skip


@st.composite
def damaged(draw):
    text = json.dumps(
        draw(values), indent=draw(st.sampled_from([None, 1])), ensure_ascii=draw(st.booleans())
    )
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        gone = draw(st.integers(0, 2))
        put = draw(st.text(st.sampled_from('[]{},:"\\u01-.eE tn\n\tx'), max_size=3))
        text = text[:at] + put + text[at + gone :]
    return text


@pytest.mark.spec("READ-5")
@settings(max_examples=300)
@given(damaged())
@example("[1,\n ]")
@example('{"a": 1 , }')
@example("[,]")
@example("[1,,]")
@example('{"a":,}')
@example("1,]")
@example(",]null")
@example("[1\n,")
@example('["a\\')
@example('["\\u12"]')
@example("[1.]")
@example("-")
@example("[01]")
def test_the_place_is_the_one_the_grammar_gives(text):
    assert place_said(text) == place_by_the_grammar(text)


@pytest.mark.spec("READ-5")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1,\n]", "a comma before the end of an array at line 2, column 1"),
        ('{"a": 1, }', "a comma before the end of an object at line 1, column 10"),
    ],
)
def test_what_is_said_is_the_same_too(text, said):
    with pytest.raises(ParseError) as refused:
        parse_json(text.encode())
    assert refused.value.message == f"not valid JSON: {said}"


@pytest.mark.spec("READ-5")
@pytest.mark.parametrize(
    ("opening", "closing"), [("[", "]"), ('{"a": ', "}"), ('[1, {"b": 2, "a": ', "}]")]
)
def test_how_deep_a_document_may_be_does_not_depend_on_python(opening, closing):
    times = NESTING_MAX // len(closing)
    text = opening * times + "0" + closing * times
    assert parse_json(text.encode()) == json.loads(text)
    with pytest.raises(ParseError, match="nested too deeply") as caught:
        parse_json(f"[{text}]".encode())
    assert caught.value.status == 422


@pytest.mark.spec("READ-5")
def test_brackets_side_by_side_or_in_text_are_not_deep():
    many = [[], {}] * NESTING_MAX
    assert parse_json(json.dumps(many).encode()) == many
    assert parse_json(json.dumps("[" * 2_000).encode()) == "[" * 2_000
    with pytest.raises(ParseError, match="nested too deeply"):
        parse_json(b"[" * 200_000 + b"]" * 200_000)
