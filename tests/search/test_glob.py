"""Globs against a slow matcher that is obviously right, and the cases that others get wrong."""

import fnmatch
import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bailiwick.errors import ParseError
from bailiwick.search.glob import compile_filter, compile_glob

# --- the reference: components by recursion, one name by trying every split ------------------


def name_matches(tokens, name):
    if not tokens:
        return name == ""
    first, *rest = tokens
    if first == "*":
        return any(name_matches(rest, name[cut:]) for cut in range(len(name) + 1))
    if not name:
        return False
    if first == "?":
        return name_matches(rest, name[1:])
    if isinstance(first, tuple):
        negated, members = first
        return (name[0] in members) != negated and name_matches(rest, name[1:])
    return name[0] == first and name_matches(rest, name[1:])


def path_matches(components, names):
    if not components:
        return not names
    first, *rest = components
    if first == "**":
        least = 0 if rest else 1
        return any(path_matches(rest, names[cut:]) for cut in range(least, len(names) + 1))
    return bool(names) and name_matches(first, names[0]) and path_matches(rest, names[1:])


def spelled(component):
    if component == "**":
        return "**"
    shown = []
    for token in component:
        if isinstance(token, tuple):
            negated, members = token
            shown.append("[" + ("!" if negated else "") + "".join(members) + "]")
        else:
            shown.append(token)
    return "".join(shown)


letters = st.sampled_from("abé.-")
bracket = st.tuples(st.booleans(), st.lists(st.sampled_from("abé."), min_size=1, max_size=3))
name_pattern = st.lists(
    st.one_of(letters, st.just("*"), st.just("?"), bracket.map(lambda b: (b[0], tuple(b[1])))),
    min_size=1,
    max_size=4,
).filter(lambda tokens: tokens not in (["."], [".", "."], ["*", "*"]))
pattern_components = st.lists(st.one_of(name_pattern, st.just("**")), min_size=1, max_size=4)
names = st.text(st.sampled_from("abé.-"), min_size=1, max_size=3).filter(
    lambda name: name not in (".", "..")
)
paths = st.lists(names, min_size=1, max_size=4)


@pytest.mark.spec("TREE-5")
@settings(max_examples=500)
@given(pattern_components, paths)
def test_a_glob_means_what_the_reference_says(components, path):
    glob = compile_glob("/".join(map(spelled, components)))
    wanted = path_matches(components, path)
    assert glob.matches("/".join(path), False) is wanted
    assert glob.matches("/".join(path), True) is wanted


@pytest.mark.spec("TREE-5")
@settings(max_examples=300)
@given(pattern_components, paths, st.lists(names, max_size=3))
def test_a_directory_is_entered_exactly_where_something_beneath_may_match(components, path, more):
    """Pruning never loses a match; and what it keeps, some name could justify."""
    glob = compile_glob("/".join(map(spelled, components)))
    if more and path_matches(components, path + more):
        assert glob.may_match_below("/".join(path))
    if not glob.may_match_below("/".join(path)):
        assert not any(
            path_matches(components, [*path, *tail]) for tail in itertools.product("ab.", repeat=1)
        )


@given(st.text("ab*?.", min_size=1, max_size=8).filter(lambda p: p not in (".", "..")), names)
def test_within_one_name_the_standard_library_agrees(pattern, name):
    if pattern.strip("*") == "" and len(pattern) > 1:
        pattern = "*"
    assert compile_glob(pattern).matches(name, False) is fnmatch.fnmatchcase(name, pattern)


@given(st.text("abc{},*[]!\\/.", max_size=12), paths)
def test_any_text_is_a_pattern_or_a_parse_error(pattern, path):
    try:
        glob = compile_glob(pattern)
    except ParseError:
        return
    if glob.matches("/".join(path), False):
        assert all(glob.may_match_below("/".join(path[:cut])) for cut in range(1, len(path)))


# --- by example ------------------------------------------------------------------------------


@pytest.mark.spec("TREE-5")
@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("*", ["a", ".hidden", "é"], ["a/b"]),
        ("*.py", ["a.py", ".py"], ["a/b.py", "a.pyc", "A.PY"]),
        ("**", ["a", "a/b", ".git/x"], []),
        ("**/*.py", ["a.py", "x/a.py", "x/y/a.py"], ["a.js"]),
        ("src/**", ["src/a", "src/a/b"], ["src", "srcs/a"]),
        ("src/**/b", ["src/b", "src/x/b", "src/x/y/b"], ["b", "src/bb"]),
        ("a**b", ["ab", "axb"], ["a/b"]),
        ("?", ["a", "é", "𝄞"], ["ab", ""]),
        ("[!a]", ["b", "é", "!"], ["a", "/"]),
        ("[^a]", ["b"], ["a"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "-x"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[!]a]", ["b"], ["]", "a"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("a[.-0]", ["a.", "a0"], ["a/"]),
        ("{*.ts,*.md}", ["a.ts", "b.md"], ["c.js"]),
        ("{a,b{c,d}}.x", ["a.x", "bc.x", "bd.x"], ["b.x"]),
        ("{src,docs/**}/*.md", ["src/a.md", "docs/a.md", "docs/x/a.md"], ["src/x/a.md"]),
        ("a{,b}", ["a", "ab"], ["abb"]),
        ("x{a}", ["xa"], ["x{a}"]),
        ("[{]a[}]", ["{a}"], ["a"]),
        ("\\*\\{", ["*{"], ["a{"]),
        ("./a//b", ["a/b"], ["a"]),
        ("a,b", ["a,b"], ["a"]),
    ],
)
def test_patterns(pattern, matching, others):
    glob = compile_glob(pattern)
    assert [path for path in matching if not glob.matches(path, False)] == []
    assert [path for path in others if glob.matches(path, False)] == []


@pytest.mark.spec("TREE-5")
def test_a_trailing_slash_asks_for_directories():
    glob = compile_glob("src/*/")
    assert glob.matches("src/a", True)
    assert not glob.matches("src/a", False)
    assert not glob.matches("src", True)
    assert not compile_glob("src/*").matches("src", True)


@pytest.mark.spec("TREE-5")
@pytest.mark.parametrize(
    "pattern",
    ["", "/etc/*", "../x", "a/../b", "a/..", "{..,a}/b", "a\0b", "[a", "{a", "a}", "{a,{b}",
     "[z-a]", "a\\", "a\\/b", "[[:alpha:]]", ".", "./", "\ud800", "{a,/b}", "x" * 5000],
)  # fmt: skip
def test_what_is_no_pattern_is_a_parse_error(pattern):
    with pytest.raises(ParseError):
        compile_glob(pattern)
    with pytest.raises(ParseError):
        compile_filter([pattern])


@pytest.mark.parametrize(
    "pattern", ["{a,b}" * 20, "{" * 2000 + "a" + "}" * 2000, "{" + ",".join("ab" * 800) + "}"]
)
def test_braces_are_bounded(pattern):
    with pytest.raises(ParseError, match="too many alternatives"):
        compile_glob(pattern)


@pytest.mark.spec("TREE-5")
def test_stars_do_not_make_matching_slow():
    """A backtracking matcher would not come back from this."""
    assert not compile_glob("a*" * 60 + "b").matches("a" * 250, False)


@pytest.mark.parametrize(
    ("pattern", "entered", "passed"),
    [
        ("src/*.py", [".", "src"], ["docs", "src/x", "sr"]),
        ("*.py", ["."], ["src"]),
        ("src/**/x", ["src", "src/a", "src/a/b"], ["docs"]),
        ("**/x", ["a", "a/b"], []),
        ("a/*/c/d", ["a", "a/b", "a/b/c"], ["b", "a/b/d", "a/b/c/d"]),
        ("{a,b/c}/d", ["a", "b", "b/c"], ["c", "a/d"]),
    ],
)
def test_a_walk_enters_only_where_it_can_find(pattern, entered, passed):
    glob = compile_glob(pattern)
    assert [path for path in entered if not glob.may_match_below(path)] == []
    assert [path for path in passed if glob.may_match_below(path)] == []


@pytest.mark.spec("GREP-1")
def test_a_filter_without_a_slash_matches_at_any_depth():
    only = compile_filter(["*.py", "docs/*.md"])
    assert only.matches("a.py", False)
    assert only.matches("x/y/a.py", False)
    assert only.matches("docs/a.md", False)
    assert not only.matches("x/docs/a.md", False)
    assert not only.matches("a.md", False)
    assert only.may_match_below("anything/at/all")


@pytest.mark.spec("GREP-1")
def test_an_exclusion_covers_what_lies_beneath():
    out = compile_filter(["node_modules/", "*.min.js"])
    assert out.covers("node_modules/a/b.js", False)
    assert out.covers("x/node_modules/a.js", False)
    assert out.covers("node_modules", True)
    assert out.covers("x/a.min.js", False)
    assert not out.covers("node_modules", False)
    assert not out.covers("my_node_modules/a.js", False)
    assert not out.covers("node_modules_of_mine/a.js", False)
    assert not compile_filter(["build"]).covers("builder", False)


@settings(max_examples=300)
@given(st.lists(pattern_components, min_size=1, max_size=2), paths, st.booleans())
@example([["a"]], ["ab"], False)
def test_a_filter_covers_what_it_matches_here_or_above(patterns, path, is_directory):
    both = compile_filter(["/".join(map(spelled, components)) for components in patterns])
    above = any(both.matches("/".join(path[:cut]), True) for cut in range(1, len(path)))
    here = both.matches("/".join(path), is_directory)
    assert both.covers("/".join(path), is_directory) is (above or here)


@settings(max_examples=300)
@given(st.lists(pattern_components, min_size=1, max_size=2), st.lists(paths, max_size=6))
@example([["**", "a"]], [["b\na"], ["a"]])
@example([["a"]], [["."], ["a", "b"], ["b"], ["a"]])
def test_many_paths_are_covered_as_each_of_them_is(patterns, many):
    filter = compile_filter(["/".join(map(spelled, components)) for components in patterns])
    texts = ["/".join(path) for path in many]
    assert filter.covered(texts) == {each for each in texts if filter.covers(each, True)}


def test_names_that_are_not_text_are_matched_by_wildcards_only():
    assert compile_glob("*").matches("a\udcff", False)
    assert compile_glob("a?").matches("a\udcff", False)
