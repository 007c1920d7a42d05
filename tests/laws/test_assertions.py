"""A test says what must be so: one that only runs something passes whatever that comes to."""

import ast
import functools
import re

import pytest

from tests.laws.repository import PACKAGE, ROOT, parse, python_files

SAYS = re.compile(r"\bassert|\braises\(|\bfail\(|AssertionError|check=True")
TEST = re.compile(r"^(?:async )?def test_.*?(?=^[^\s)]|\Z)", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"[A-Za-z_]\w*")

FIXTURES_THAT_CHECK = {
    "browser": "what is looked for in a page has to come, or to go",
    "with_sandboxes": "what is called behind the wall asserts there",
}


def names_of(tree):
    """What a module defines and imports: the definition by its name, or where that is."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.ImportFrom):
            found.update(
                {each.asname or each.name: (node.module, each.name) for each in node.names}
            )
    return found


@functools.cache
def parsed(module):
    """A module of the tests, or of the contracts that are shipped; None of anything else."""
    if module.partition(".")[0] == "tests" or module.startswith("bailiwick.testing"):
        for folder in (ROOT, PACKAGE.parent):
            path = folder / (module.replace(".", "/") + ".py")
            if path.exists():
                return parse(path)
    return None


def origin(module, name):
    """What is imported, and the names that it was written with."""
    tree = parsed(module)
    names = {} if tree is None else names_of(tree)
    found = names.get(name)
    if isinstance(found, tuple):
        return origin(*found)
    return (parsed(f"{module}.{name}"), {}) if found is None else (found, names)


def says(node, names, seen=frozenset()):
    """Whether code says what must be so, itself or by something of the tests that it names."""
    text = ast.unparse(node)
    if SAYS.search(text):
        return True
    for name in set(NAME.findall(text)) - seen:
        found, there = names.get(name), names
        if isinstance(found, tuple):
            found, there = origin(*found)
        if found is not None and says(found, there, seen | {name}):
            return True
    return False


def silent(text):
    """The names of the tests in a module that say nothing. Most modules need not be parsed."""
    if all(SAYS.search(each) for each in TEST.findall(text)):
        return []
    names = names_of(ast.parse(text))
    return [
        name
        for name, node in names.items()
        if name.startswith("test_")
        and not isinstance(node, tuple)
        and not any(each.arg in FIXTURES_THAT_CHECK for each in node.args.args)
        and not says(node, names, frozenset({name}))
    ]


def test_every_test_says_what_must_be_so():
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in python_files("tests")
        if path.name.startswith("test_")
        for name in silent(path.read_text(encoding="utf-8"))
    ]
    assert found == [], "\n".join(found)


PLANTED = """
from tests.laws.repository import parse

def checked(x):
    assert x

{}
"""


@pytest.mark.parametrize(
    "planted",
    ["def test_it(house):\n    house.close()", "async def test_it():\n    await parse(x)"],
)
def test_a_planted_test_that_says_nothing_is_found(planted):
    assert silent(PLANTED.format(planted)) == ["test_it"]


@pytest.mark.parametrize(
    "body",
    ["assert x", "with pytest.raises(E): x()", "checked(x)", "subprocess.run(x, check=True)"],
)
def test_what_says_something_is_free(body):
    assert silent(PLANTED.format(f"def test_it(x):\n    {body}")) == []
