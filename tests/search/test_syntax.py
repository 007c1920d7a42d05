"""What can be said of a pattern before anything is searched."""

import pytest
import re2
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bailiwick.search.syntax import required_text


@pytest.mark.spec("GREP-3")
@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("import re", "import re"),
        ("^def \\w+\\(self", "(self"),
        ("[A-Z]{4}-[0-9]{6}-[a-z]{3}", "-"),
        ("foo.*barbaz", "barbaz"),
        ("\\.\\-x", ".-x"),
        ("ab{cd", "ab{cd"),
        ("é+ü", "ü"),
        # what may be missing
        ("ab?c*", "a"),
        ("ab{0,2}cde", "cde"),
        ("ab{2}", "a"),
        ("\\Qa.b\\E*", "a."),
        ("a\\Q\\E*", ""),
        ("abc|x", ""),
        ("(abc|x)yz", "yz"),
        ("(ab)?c", "c"),
        ("((a)b(c))d", "d"),
        # what is matched in another case, or is no text
        ("(?i)abc", ""),
        ("ab(?i)c", ""),
        ("(?i:abc)d", "d"),
        ("(?P<name>a)b", "b"),
        ("\\x41\\n\\pL\\d", ""),
        ("[abc]", ""),
        ("^.$", ""),
    ],
)
def test_the_text_that_every_match_holds(pattern, text):
    assert required_text(pattern) == text


_PIECES = st.sampled_from(
    ["a", "b", "A", "é", "-", "{", "}", ".", "\\.", "\\-", "\\w", "[ab]", "(", ")", "(?:", "(?i:",
     "(?i)", "|", "*", "+", "?", "{0,1}", "{2}", "{1,}?", "\\Qa-\\E", "\\Q\\E", "^", "$", "\\x61"]
)  # fmt: skip


@pytest.mark.spec("GREP-3")
@settings(max_examples=1_000)
@given(st.lists(_PIECES, min_size=1, max_size=9).map("".join), st.text("aAbé-.{", max_size=12))
def test_nothing_matches_where_that_text_is_missing(pattern, line):
    options = re2.Options()
    options.log_errors = False
    try:
        regex = re2.compile(pattern.encode(), options)
    except re2.error:
        assume(False)
    if regex.search(line.encode()) is not None:
        assert required_text(pattern) in line
