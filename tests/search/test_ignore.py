"""Ignore rules against git itself, and the few things that git has no say in."""

import os
import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bailiwick.search import ignore
from bailiwick.search.ignore import IgnoreLevel

GIT = shutil.which("git")
needs_git = pytest.mark.skipif(GIT is None, reason="git is not installed: nothing to compare with")

PIECES = (
    "a", "b", "foo", "bar", "*", "**", "?", "/", "[ab]", "[!a]", "[^b]", "[a-f]", "\\", "\\*", " ",
    "\\ ", "é", "#", "!", ".x", "*.x", "[[:alpha:]]", "[[:foo:]]", "[]", "[]a]", "[^]", "[a-", "-",
    "[", "]", "[\\]]", "[a-\\f]", "[[:]", "[[::]]", "**/", "/**", "\t", "[é]", "[0-9-z]", "\0",
    "[[:space:]]", "[b-a]", "[--b]",
)  # fmt: skip
NAMES = (
    "a", "b", "foo", "bar", "ab", "foobar", "a.x", "é", "a b", "b ", "#a", "!a", "\\", "*", "c",
    "[", "]", "-", "f", "aé", " ", ".x", "a\t",
)  # fmt: skip

lines = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(("", "", "", "!", "/", "#", "\\!", "\\#")),
        st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join),
        st.sampled_from(("", "", "", "/", " ", "  ", "\\ ", "\r", "//")),
    ),
)
texts = st.builds(
    lambda parts, end: "\n".join(parts) + end,
    st.lists(lines, min_size=1, max_size=6),
    st.sampled_from(("", "\n")),
)
trees = st.recursive(
    st.none(),
    lambda below: st.tuples(
        st.one_of(st.none(), texts), st.dictionaries(st.sampled_from(NAMES), below, max_size=5)
    ),
    max_leaves=25,
)
root_trees = st.tuples(
    texts, st.dictionaries(st.sampled_from(NAMES), trees, min_size=2, max_size=6)
)


def plant(directory, tree):
    text, entries = tree
    if text is not None:
        with open(os.path.join(directory, ".gitignore"), "w", newline="") as file:
            file.write(text)
    for name, below in entries.items():
        place = os.path.join(directory, name)
        if below is None:
            open(place, "w").close()
        else:
            os.mkdir(place)
            plant(place, below)


def our_answers(tree, level, prefix=""):
    for name, below in tree[1].items():
        yield prefix + name, level.is_ignored(name, below is not None)
        if below is not None:
            yield from our_answers(below, level.enter(name, texts_of(below)), f"{prefix}{name}/")


def texts_of(tree):
    return {} if tree[0] is None else {".gitignore": tree[0]}


def git_answers(directory, paths, home):
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C",
    }  # fmt: skip
    if not os.path.exists(os.path.join(directory, ".git")):
        subprocess.run([GIT, "init", "-q", directory], env=environment, check=True)
    run = subprocess.run(
        [GIT, "-c", "core.excludesFile=", "check-ignore", "--no-index", "-z", "--stdin"],
        cwd=directory,
        env=environment,
        input="\0".join(paths).encode(),
        capture_output=True,
    )
    assert run.returncode in (0, 1), run.stderr
    ignored = set(run.stdout.decode().split("\0"))
    return {path: path in ignored for path in paths}


@needs_git
@pytest.mark.spec("TREE-6")
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(root_trees)
def test_git_says_the_same(tmp_path_factory, tree):
    directory = tmp_path_factory.mktemp("repository")
    try:
        plant(directory, tree)
        ours = dict(our_answers(tree, IgnoreLevel.top(texts_of(tree))))
        theirs = git_answers(directory, list(ours), directory)
        assert ours == theirs
    finally:
        shutil.rmtree(directory)


EXAMPLES = [
    ("*.pyc", {"a.pyc": True, "d/a.pyc": True, "a.py": False}),
    ("/build", {"build": True, "d/build": False}),
    ("build/", {"build": False, "build/": True, "d/build/": True, "build/x": True}),
    ("docs/_build/", {"docs/_build/": True, "d/docs/_build/": False}),
    ("*\n!keep", {"a": True, "keep": False, "d/": True, "d/keep": True}),
    ("*\n!*/\n!keep", {"a": True, "d/": False, "d/keep": False, "d/a": True}),
    ("a/**/b", {"a/b": True, "a/x/b": True, "a/x/y/b": True, "b": False}),
    ("**/x", {"x": True, "d/x": True}),
    ("d/**", {"d/": False, "d/a": True, "d/e/f": True}),
    ("foo**/bar", {"foobar": True, "foo/bar": True, "foox/y/bar": True, "bar": False}),
    ("a\\ ", {"a ": True, "a": False}),
    ("a   ", {"a": True, "a ": False}),
    ("\\#a\n#b", {"#a": True, "#b": False}),
    ("\\!a", {"!a": True}),
    ("a\\", {"a": False, "a\\": False}),
    ("[a", {"[a": False, "a": False}),
    ("?", {"a": True, "é": False}),
    ("??", {"é": True}),
    ("a\r\n\r\n", {"a": True, "a\r": False}),
    ("/", {"a": False}),
    ("a//", {"a/": False}),
    ("\ufeffa", {"a": True}),
]


def answers_of(text, paths):
    answers = {}
    for path in paths:
        *above, name = path.rstrip("/").split("/")
        level = IgnoreLevel.top({".gitignore": text})
        for directory in above:
            level = level.enter(directory)
        answers[path] = level.is_ignored(name, path.endswith("/"))
    return answers


@pytest.mark.spec("TREE-6")
@pytest.mark.parametrize(("text", "answers"), EXAMPLES)
def test_examples(text, answers):
    assert answers_of(text, answers) == answers


@needs_git
@pytest.mark.parametrize(("text", "answers"), EXAMPLES)
def test_git_agrees_with_the_examples(tmp_path, text, answers):
    (tmp_path / ".gitignore").write_bytes(text.encode())
    for path, wanted in answers.items():
        shutil.rmtree(tmp_path / path.split("/")[0], ignore_errors=True)
        place = tmp_path / path.rstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir() if path.endswith("/") else place.touch()
        assert git_answers(tmp_path, [path.rstrip("/")], tmp_path) == {path.rstrip("/"): wanted}
        shutil.rmtree(place) if place.is_dir() else place.unlink()


@pytest.mark.spec("TREE-6")
def test_a_deeper_file_decides_before_a_higher_one():
    level = IgnoreLevel.top({".gitignore": "*.log"}).enter("d", {".gitignore": "!keep.log"})
    assert level.is_ignored("a.log", False)
    assert not level.is_ignored("keep.log", False)


@pytest.mark.spec("TREE-6")
def test_of_two_files_in_one_directory_the_later_decides():
    level = IgnoreLevel.top({".gitignore": "a\n!b", ".bailiwickignore": "!a\nb"})
    assert not level.is_ignored("a", False)
    assert level.is_ignored("b", False)


@pytest.mark.spec("TREE-6")
def test_the_repository_itself_is_always_ignored():
    level = IgnoreLevel.top({".gitignore": "!.git\n!.git/**"})
    assert level.is_ignored(".git", True)
    inside = level.enter("sub").enter(".git")
    assert inside.ignored
    assert inside.is_ignored("config", False)
    assert not level.is_ignored(".github", True)


@pytest.mark.spec("TREE-8")
def test_a_base_named_inside_an_ignored_directory_is_looked_into():
    root = IgnoreLevel.top({".gitignore": "build/\nbuild/**\n*.o"})
    assert root.named() is root
    build = root.enter("build", {".gitignore": "*.tmp"})
    assert build.ignored
    assert build.is_ignored("a.c", False)
    below = build.enter("x").named()
    assert not below.ignored
    assert not below.is_ignored("a.c", False)
    assert not below.is_ignored("a.o", False)
    assert below.is_ignored("a.tmp", False)
    assert not below.enter("y").is_ignored("a.c", False)


def test_a_level_is_not_changed_by_entering():
    root = IgnoreLevel.top({".gitignore": "a"})
    root.enter("d", {".gitignore": "!a"})
    assert root.is_ignored("a", False)


@pytest.mark.spec("TREE-6")
def test_a_long_ignore_file_decides_by_its_last_match():
    lines = []
    for n in range(400):
        lines += [f"!n{n}[ab]?x", f"n{n}[bc]?x", f"!p{n}", f"*.e{n}", f"!q{n}*", f"/d/x{n}"]
    level = IgnoreLevel.top({".gitignore": "\n".join(lines)})
    assert not level.is_ignored("n399a_x", False)
    assert level.is_ignored("n399b_x", False)
    assert level.is_ignored("p1.e2", False)
    assert not level.is_ignored("q2.e1", False)
    assert not level.is_ignored("q1.e1", False)
    assert level.is_ignored("q1.e2", False)
    assert level.enter("d").is_ignored("x7", False)


HOSTILE = {
    "alternating": "!a\nb\n" * 5_000,
    "endings": "\n".join(f"{'!' * (n % 2)}*.x{n}" for n in range(10_000)),
    "beginnings": "\n".join(f"{'!' * (n % 2)}x{n}*" for n in range(10_000)),
    "expressions": "\n".join(f"{'!' * (n % 2)}a{n}?*b" for n in range(600)),
    "paths": "\n".join(f"{'!' * (n % 2)}a/*{n}" for n in range(600)),
}


class _Counted:
    """Counts how often a table or an automaton is asked."""

    def __init__(self, inner):
        self.inner, self.asked = inner, 0

    def get(self, *key):
        self.asked += 1
        return self.inner.get(*key)

    def last_match(self, text):
        self.asked += 1
        return self.inner.last_match(text)


@pytest.mark.spec("TREE-6")
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_what_a_name_costs_does_not_grow_with_the_rules(text):
    ((rules, _),) = IgnoreLevel.top({".gitignore": text + "\n#" + "x"})._layers
    assert rules.size > 500
    patterns = rules.for_all
    counted = []
    for slot in ("_names", "_paths", "_endings", "_beginnings"):
        if getattr(patterns, slot):
            counted.append(_Counted(getattr(patterns, slot)))
            setattr(patterns, slot, counted[-1])
    for slot in ("_name_expressions", "_path_expressions"):
        group = tuple(_Counted(each) for each in getattr(patterns, slot))
        counted += group
        setattr(patterns, slot, group)
    rules.verdict("d/some-name", "some-name", False)
    assert 0 < sum(each.asked for each in counted) <= 12


@pytest.mark.spec("TREE-6")
@pytest.mark.parametrize(
    "text",
    [
        "a\n" * (ignore.RULES_MAX + 1) + "!a",
        "a\n" + "#" * ignore.TEXT_CHARACTERS_MAX + "\n!a",
        "a\n" + "x[a]?y*z\n" * (ignore.EXPRESSION_CHARACTERS_MAX // 8 + 1) + "!a",
        "a\n" + "x*?[a]\n" * (ignore.BLIND_SPOTS_MAX // 2 + 1) + "!a",
    ],
    ids=["rules", "characters", "expressions", "blind spots"],
)
def test_of_a_file_too_large_the_rest_does_not_count_and_a_warning_says_so(text, caplog):
    assert IgnoreLevel.top({".gitignore": text}).is_ignored("a", False)
    assert "too large" in caplog.text
    assert {record.levelname for record in caplog.records} == {"WARNING"}


@pytest.mark.spec("TREE-6")
def test_ignore_files_in_force_at_once_are_bounded(caplog):
    level = IgnoreLevel.top({".gitignore": "top"})
    for depth in range(ignore.LAYERS_MAX - 1):
        level = level.enter("d", {".gitignore": f"n{depth}"})
    assert level.is_ignored("top", False)
    assert caplog.text == ""
    level = level.enter("d", {".gitignore": "!n0"})
    assert not level.is_ignored("top", False)
    assert not level.is_ignored("n0", False)
    assert level.is_ignored("n1", False)
    assert "ignore files in force" in caplog.text


@pytest.mark.spec("TREE-6")
def test_what_is_kept_of_compiled_files_is_bounded_by_its_size(monkeypatch):
    monkeypatch.setattr(ignore, "RULES_KEPT", 50)
    monkeypatch.setattr(ignore, "_kept", kept := ignore._KeptPatterns())
    texts = ["\n".join(f"{letter}{n}" for n in range(20)) for letter in "abcdef"]
    for text in texts:
        first = ignore.compile_rules(text)
        assert ignore.compile_rules(text) is first
        assert kept.rules <= 50
    assert kept.get(texts[-1]) is first
    assert kept.get(texts[0]) is None
    large = "\n".join(map(str, range(100)))
    assert ignore.compile_rules(large) is ignore.compile_rules(large)
    assert kept.get(texts[-1]) is None


def test_stars_do_not_make_matching_slow():
    level = IgnoreLevel.top({".gitignore": "a*" * 60 + "b"})
    assert not level.is_ignored("a" * 250, False)
