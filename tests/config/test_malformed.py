"""Whatever is done to a configuration: it loads, or one error says where it is wrong."""

import re
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bailiwick.config import Config, load
from bailiwick.errors import ParseError
from tests.config.test_loader import WHOLE

LINES = WHOLE.splitlines()
PAIRS = [number for number, line in enumerate(LINES) if " = " in line]
FEW_PAIRS = PAIRS[::6]
"""Those at which `make unit` tries every value."""

VALUES = [
    "true", "false", "0", "-1", "1.5", "nan", "inf", "99999999999999999999", '""', '"x"', '"*"',
    '"../.."', '"/"', '"\\u0000"', '"\\u202e"', "'a[b'", "[]", "[1]", '["x"]', '[""]', "[[]]",
    "{}", "{a = 1}", "[{}]", "1979-05-27", "07:32:00", '"5 min"', '"1 GiB"', '"agent_run:*"',
    '"workspace:demo"', '"protect.env"', '["read"]', '"hide"', "0o777", '"on"',
]  # fmt: skip


def survives(text):
    """The error, if there is one: it names a place that is there."""
    error = None
    try:
        config = load(text, source="x.toml")
    except ParseError as refused:
        error = refused
    if error is not None:
        place = re.match(r"x\.toml:(\d+):(\d+): .", error.message, re.DOTALL)
        assert place, error.message
        line, column = int(place[1]), int(place[2])
        lines = text.replace("\r\n", "\n").split("\n")
        assert 1 <= line <= len(lines)
        assert 1 <= column <= len(lines[line - 1]) + 1
        assert (error.details["line"], error.details["column"]) == (line, column)
        return error
    assert isinstance(config, Config)
    # What loads is TOML, and nothing in it was passed over.
    tomllib.loads(text.removeprefix("\ufeff"))
    return None


def test_the_example_itself_loads():
    assert survives(WHOLE) is None


@pytest.mark.spec("POL-2", "ERR-5")
@pytest.mark.parametrize(
    "number",
    [pytest.param(n, marks=[] if n in FEW_PAIRS else [pytest.mark.slow]) for n in PAIRS],
)
def test_any_value_at_any_key_is_taken_or_refused_in_its_table(number):
    key = LINES[number].partition(" = ")[0]
    start = max(n for n in range(number + 1) if LINES[n].startswith("["))
    ends = [n for n in range(number + 1, len(LINES)) if LINES[n].startswith("[")]
    end = ends[0] if ends else len(LINES)
    for value in VALUES:
        lines = list(LINES)
        lines[number] = f"{key} = {value}"
        error = survives("\n".join(lines))
        # At the key itself, or where it contradicts another key of the same table.
        assert error is None or start < error.details["line"] <= end, error.message


@pytest.mark.spec("POL-2", "ERR-5")
@pytest.mark.parametrize("number", PAIRS)
def test_any_key_misspelled_is_an_error_at_that_key(number):
    lines = list(LINES)
    key = "x" + lines[number].partition(" = ")[0]
    lines[number] = "x" + lines[number]
    error = survives("\n".join(lines))
    assert error is not None
    assert f"'{key}' is not known here" in error.message
    assert error.details["line"] == number + 1


@pytest.mark.spec("POL-2", "ERR-5")
@pytest.mark.parametrize("number", PAIRS)
def test_any_key_left_out_is_missed_or_has_a_default(number):
    survives("\n".join(LINES[:number] + LINES[number + 1 :]))


@pytest.mark.spec("POL-2", "ERR-5")
@settings(max_examples=400)
@given(st.data())
def test_any_damage_is_survived(data):
    text = WHOLE
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 12)))
        new = data.draw(
            st.sampled_from(
                ["", "\n", "[", "]", "[[", '"', "'", '"""', "=", ".", ",", "{", "}", "#", "\\", "é",
                 "\x00", "\r", "\r\n", "\ufeff", "\ud800", "a = 1\n", "[[rule]]\n", "[root]\n"]
            )
            | st.text(max_size=4)
        )  # fmt: skip
        text = text[:start] + new + text[end:]
    survives(text)


@pytest.mark.spec("POL-2", "ERR-5")
@settings(max_examples=200)
@given(st.permutations(range(len(LINES))), st.integers(1, len(LINES)))
def test_any_lines_in_any_order_are_survived(order, count):
    survives("\n".join(LINES[number] for number in order[:count]))


@settings(max_examples=200)
@given(st.text(max_size=60))
def test_any_text_is_survived(text):
    survives(text)
