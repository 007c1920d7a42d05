"""The mutants themselves: one change each, the same each time, and noticed where a test looks."""

import ast
import importlib
import sys

import pytest

from tests.mutation.__main__ import PARTS, source_of
from tests.mutation.mutants import mutants, mutated
from tests.mutation.plugin import put_in_place

SOURCE = '''
"""Docstring 1."""
LIMIT = 3

def f(a: "x == y", b=True):
    """Docstring 2."""
    if a < 3 and not b:
        raise ValueError
    g(a)
    return a + 1
'''


def test_each_change_is_one_and_none_is_where_nothing_runs():
    said = [(each.was, each.now) for each in mutants(SOURCE)]
    assert said == [
        ("a < 3 and (not b)", "a < 3 or not b"),
        ("a < 3", "a <= 3"),
        ("3", "4"),
        ("not b", "b"),
        ("raise ValueError", "pass"),
        ("g(a)", "pass"),
        ("return a + 1", "return None"),
        ("a + 1", "a - 1"),
        ("1", "2"),
    ]


def test_none_is_no_other_answer_than_no():
    said = [each.now for each in mutants("def f():\n    return False\ndef g():\n    return True\n")]
    assert said == ["True", "return None", "False"]


@pytest.mark.parametrize("mutant", mutants(SOURCE), ids=lambda each: each.now)
def test_a_mutant_is_made_by_its_number(mutant):
    changed = ast.unparse(mutated(SOURCE, mutant.number))
    assert changed != ast.unparse(ast.parse(SOURCE))
    compile(changed, "mutant", "exec")


@pytest.mark.parametrize("part", PARTS)
def test_every_part_has_modules_with_mutants(part):
    assert all(mutants(source_of(module)) for module in PARTS[part].modules)


REACHABLE = """
import functools

def twice(function):
    @functools.wraps(function)
    def called(value):
        return 2 * function(value)
    return called

class Held:
    @property
    def size(self):
        return 1 + 1

@twice
def less(value):
    return value - 1
"""


def test_a_mutant_is_put_in_the_place_of_what_is_loaded(tmp_path, monkeypatch):
    (tmp_path / "reachable.py").write_text(REACHABLE)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("reachable")
    try:
        seen = {}
        for mutant in mutants(REACHABLE):
            if mutant.was in ("1 + 1", "value - 1"):
                put_in_place("reachable", mutant.number)
                seen[mutant.now] = (module.Held().size, module.less(3))
        assert seen == {"1 - 1": (0, 4), "value + 1": (2, 8)}
    finally:
        del sys.modules["reachable"]
