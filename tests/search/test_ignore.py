"""Ignore rules against git itself, and the few things that git has no say in."""

import os
import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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


@pytest.mark.spec("READ-8")
def test_how_a_path_is_marked():
    root = IgnoreLevel.top({".gitignore": "*.log\nbuild/"})
    assert root.classify("a.log") == "file"
    assert root.classify("a.txt") is None
    assert root.classify("build", True) == "directory"
    assert root.classify("build") is None
    assert root.enter("build").classify("a.txt") == "directory"


def test_a_level_is_not_changed_by_entering():
    root = IgnoreLevel.top({".gitignore": "a"})
    root.enter("d", {".gitignore": "!a"})
    assert root.is_ignored("a", False)


def test_a_very_long_ignore_file_still_decides():
    text = "\n".join(f"name[{n % 10}]{n}*x?y" for n in range(20_000))
    level = IgnoreLevel.top({".gitignore": text})
    assert level.is_ignored("name719997__x_y", False)
    assert not level.is_ignored("name719998__x_y", False)


def test_stars_do_not_make_matching_slow():
    level = IgnoreLevel.top({".gitignore": "a*" * 60 + "b"})
    assert not level.is_ignored("a" * 250, False)
