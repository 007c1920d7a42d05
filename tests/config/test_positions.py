"""Where things stand in TOML: the same structure as the parser finds, and the right places."""

import tomllib

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bailiwick.config.toml_positions import TomlPosition, scan


def places(value, path=()):
    """Every path into a parsed document."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield (*path, key)
            yield from places(each, (*path, key))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield (*path, number)
            yield from places(each, (*path, number))


def found_in(text):
    positions = scan(text)
    return set(positions.keys) | set(positions.values)


EXAMPLE = '''\
# a comment with [brackets] and "quotes"
top = 1
[a]                     # a table
"quoted key" = "x"
dotted.key . deep = 2
list = [
  1, # one
  "two", [3, {four = 4}],
]
[[rule]]
effect = """
line = [
"""
[[rule]]
  effect = 'deny'
inline = {x = 1, y.z = [1, 2]}
[rule.sub]
k = 1979-05-27 07:32:00
[[rule.more]]
[[rule.more]]
k = true
'''


def test_each_key_and_value_has_its_place():
    positions = scan(EXAMPLE)
    assert positions.keys["top",] == (2, 1)
    assert positions.values["top",] == (2, 7)
    assert positions.keys["a",] == (3, 1)
    assert positions.keys["a", "quoted key"] == (4, 1)
    assert positions.keys["a", "dotted"] == (5, 1)
    assert positions.keys["a", "dotted", "key"] == (5, 8)
    assert positions.keys["a", "dotted", "key", "deep"] == (5, 14)
    assert positions.values["a", "list", 1] == (8, 3)
    assert positions.values["a", "list", 2, 1] == (8, 14)
    assert positions.keys["a", "list", 2, 1, "four"] == (8, 15)
    assert positions.keys["rule", 0] == (10, 1)
    assert positions.keys["rule", 1] == (14, 1)
    assert positions.keys["rule", 1, "effect"] == (15, 3)
    assert positions.values["rule", 1, "effect"] == (15, 12)
    assert positions.keys["rule", 1, "inline", "y"] == (16, 18)
    assert positions.values["rule", 1, "inline", "y", "z", 1] == (16, 28)
    assert positions.keys["rule", 1, "sub", "k"] == (18, 1)
    assert positions.keys["rule", 1, "more", 1, "k"] == (21, 1)
    assert found_in(EXAMPLE) == set(places(tomllib.loads(EXAMPLE)))


def test_line_endings_do_not_move_anything():
    assert scan(EXAMPLE.replace("\n", "\r\n")) == scan(EXAMPLE)


def test_what_is_written_nowhere_is_near_what_is_around_it():
    positions = scan("[a]\nb = [1]\n")
    assert positions.of(("a", "b", 7, "x")) == (2, 5)
    assert positions.of_key(("a", "missing")) == (1, 1)
    assert positions.of(("nothing",)) == TomlPosition(1, 1)


def test_a_table_opened_after_its_inner_one_has_its_own_place():
    assert scan("[a.b]\nx = 1\n[a]\ny = 1\n").keys["a",] == (3, 1)


@pytest.mark.parametrize(
    "text",
    [
        "", "\n\n", "# only a comment", "a=1", 'a="#"', "a='''\n'''", 'a="""x"""""', "a=''''x'''''",
        'a="""\\""""', "a=[]", "a=[ # c\n]", "a={}", "a.b.c=1\na.b.d=2", "'a.b'.c=1", '"\\u00e9"=1',
        '"a\\"]"=[1]', "[ a . b ]\n c=1", "[[a]]\n[[a]]\n[a.b]\n[[a.c]]", "a=[[],[[]],{}]",
        "a=1979-05-27T07:32:00Z", "a=1979-05-27 07:32:00", "a=+inf\nb=0xff\nc=1_000",
        'a={"b c"={d=[{e=1}]}}', "1=2\n-_=3", "a=[{b=1},\n{b=2}]", '""=1', "a = '''it''s'''",
    ],
)  # fmt: skip
def test_odd_documents_are_seen_as_the_parser_sees_them(text):
    assert found_in(text) == set(places(tomllib.loads(text)))


# --- any document ----------------------------------------------------------------------------

blank = st.sampled_from(["", " ", "\t", "  "])
gap = st.sampled_from(["", " ", "\n", ' # c ] } "\n', "\n\n  "])
bare = st.sampled_from(["a", "b", "c-1", "_", "7"])
names = st.one_of(
    bare,
    st.sampled_from(['"a"', "'b'", '"x.y"', "'[z]'", '"q\\"u"', '"\\u00e9"', '""', "'#'"]),
)
keys = st.lists(names, min_size=1, max_size=3).map(" . ".join) | names
scalars = st.sampled_from(
    [
        "1", "-2.5e3", "true", "nan", "0o17", "1979-05-27 07:32:00", "07:32:00", '"x"', '""',
        "''", "'\\'", '"a\\\\"', '"# [ = ]"', '"""\n[a]\n"""', "'''\nb = 1'''", '"""a"""""',
        "''''a'''''", '"""\\"""x"""', '"""\\\n   y"""',
    ]
)  # fmt: skip


@st.composite
def arrays(draw, inner):
    elements = draw(st.lists(inner, max_size=3))
    text = "["
    for number, each in enumerate(elements):
        last = number == len(elements) - 1
        comma = draw(st.sampled_from(["", ","])) if last else ","
        text += draw(gap) + each + draw(gap) + comma
    return text + draw(gap) + "]"


@st.composite
def inline_tables(draw, inner):
    pairs = draw(st.lists(st.tuples(keys, inner), max_size=3))
    inside = ", ".join(f"{key}{draw(blank)}={draw(blank)}{value}" for key, value in pairs)
    return "{" + draw(blank) + inside + draw(blank) + "}"


values = st.recursive(scalars, lambda inner: arrays(inner) | inline_tables(inner), max_leaves=6)


@st.composite
def documents(draw):
    lines = []
    for _ in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from(["pair", "pair", "pair", "table", "tables", "comment"]))
        indent, after = draw(blank), draw(st.sampled_from(["", ' # [x] = "', "\n"]))
        if kind == "pair":
            line = f"{draw(keys)}{draw(blank)}={draw(blank)}{draw(values)}"
        elif kind == "table":
            line = f"[{draw(blank)}{draw(keys)}{draw(blank)}]"
        elif kind == "tables":
            line = f"[[{draw(blank)}{draw(keys)}{draw(blank)}]]"
        else:
            line = "# [[a]]"
        lines.append(indent + line + after)
        text = "\n".join(lines)
        # A line that the document does not bear (a key twice, a table over a value) is left out.
        try:
            tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            lines.pop()
    return "\n".join(lines) + draw(st.sampled_from(["", "\n"]))


@settings(max_examples=500)
@given(documents())
def test_the_scanner_finds_what_the_parser_finds(text):
    assume(text)
    assert found_in(text) == set(places(tomllib.loads(text)))


@settings(max_examples=200)
@given(documents())
def test_every_place_is_where_its_text_stands(text):
    positions, lines = scan(text), text.split("\n")
    for path, (line, column) in positions.keys.items():
        assert column <= len(lines[line - 1]), path
        first = lines[line - 1][column - 1]
        assert first not in " \t#=,", path
    for path, (line, column) in positions.values.items():
        assert lines[line - 1][column - 1] not in " \t#=,", path
