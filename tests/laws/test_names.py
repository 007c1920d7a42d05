"""Words a Python programmer would look for: modules by what they hold, one name for one thing.

What each list lets pass is there for a reason; an entry that nobody needs any more is taken off.
"""

import ast
import functools
from collections import defaultdict

import pytest

from tests.laws.repository import ROOT, parse, parse_those_with, python_files

MODULES_SIDE_BY_SIDE_MAX = 24
"""About what is taken in at a glance. A folder that grows past it gets rooms."""

CROWDED = {
    "src/bailiwick": "each is a layer of its own, drawn in ARCHITECTURE.md",
}

GERUNDS = {
    "encoding": "an established word for what it holds",
    "finishing": "stores of one's own import it by this name",
    "listing": "an established word for what it holds",
    "mounting": "documented: applications mount MCP by this name",
    "testing": "what a package for tests is called",
    "tracing": "an established word for what it holds, and documented",
}

SHARED_CLASSES: dict[str, str] = {
    "Edit": "the same for code in a sandbox, where nothing of the package is",
    "Limits": "the limits that a server tells, by their name in openapi.json; and those of a root",
}

LEANING = "The same"
"""How a docstring begins that says no more than that something else is like it."""


def gerunds(root):
    """The modules that are named by what they are doing."""
    for path in python_files("src", root=root):
        name = path.parent.name if path.stem == "__init__" else path.stem
        if name.endswith("ing") and name not in GERUNDS:
            yield str(path.relative_to(root))


@functools.cache
def definitions(root):
    """Every class that is defined, by its name, with the files it is defined in."""
    found = defaultdict(list)
    for path in python_files("src", root=root):
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(path.relative_to(root)))
    return found


def shared_names(root):
    return {
        name: files
        for name, files in definitions(root).items()
        if len(files) > 1 and name not in SHARED_CLASSES
    }


def leaning(tree):
    """The lines of docstrings that say no more than 'the same' as something else."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, documented) and (ast.get_docstring(node) or "").startswith(LEANING):
            yield node.body[0].lineno


def crowded(root):
    """The folders with too many modules side by side."""
    counts = defaultdict(int)
    for path in python_files("src", root=root):
        counts[str(path.parent.relative_to(root))] += path.stem != "__init__"
    return [
        folder
        for folder, count in counts.items()
        if count > MODULES_SIDE_BY_SIDE_MAX and folder not in CROWDED
    ]


@pytest.mark.spec("LINE-7")
def test_a_module_is_named_by_what_it_holds():
    assert list(gerunds(ROOT)) == []


@pytest.mark.spec("LINE-7")
def test_a_class_name_means_one_thing():
    assert shared_names(ROOT) == {}


@pytest.mark.spec("LINE-7")
def test_a_docstring_stands_by_itself():
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path, tree in parse_those_with(LEANING, python_files("src"))
        for line in leaning(tree)
    ]
    assert found == []


@pytest.mark.spec("LINE-7")
def test_no_folder_is_crowded():
    assert crowded(ROOT) == []


def test_every_exception_is_needed():
    modules = {path.stem for path in python_files("src")}
    modules |= {path.parent.name for path in python_files("src")}
    assert modules >= GERUNDS.keys()
    defined = definitions(ROOT)
    assert [name for name in SHARED_CLASSES if len(defined[name]) < 2] == []


def planted(root, path, text=""):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.mark.parametrize(
    "path", ["src/bailiwick/stores/touching.py", "src/bailiwick/holding/__init__.py"]
)
def test_a_planted_gerund_is_found(tmp_path, path):
    planted(tmp_path, path)
    planted(tmp_path, "src/bailiwick/stores/listing.py")
    assert list(gerunds(tmp_path)) == [path]


def test_a_planted_twin_is_found(tmp_path):
    planted(tmp_path, "src/a.py", "class Place: ...\n")
    planted(tmp_path, "src/b.py", "def make():\n    class Place: ...\n")
    planted(tmp_path, "src/c.py", "class Limits: ...\nclass Alone: ...\n")
    assert shared_names(tmp_path) == {"Place": ["src/a.py", "src/b.py"]}


@pytest.mark.parametrize(
    "text",
    [
        '"""The same."""',
        'class A:\n    """The same for B."""',
        'def f():\n    """The same, later."""',
    ],
)
def test_a_planted_leaning_docstring_is_found(text):
    assert list(leaning(ast.parse(text)))


def test_a_planted_crowd_is_found(tmp_path):
    for number in range(MODULES_SIDE_BY_SIDE_MAX + 1):
        planted(tmp_path, f"src/bailiwick/{number}.py")
        planted(tmp_path, f"src/bailiwick/stores/{number}.py")
    assert crowded(tmp_path) == ["src/bailiwick/stores"]
    (tmp_path / "src/bailiwick/stores/0.py").unlink()
    assert crowded(tmp_path) == []
