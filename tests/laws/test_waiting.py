"""A test waits for what happens: a time that is guessed is too short on some machine.

`asyncio.sleep(0)` lets other tasks run and takes no time. Whatever else sleeps does so through
`tests.waiting`, by a name that says why nothing can be awaited.
"""

import ast
import re

import pytest

from tests.laws.repository import ROOT, parse, parse_those_with, python_files

ROOMS = {
    "tests/waiting.py": "the names by which a test may let time pass",
    "tests/hostile/attacker.py": "runs alone behind the wall, and chooses its instants",
    "tests/laws/test_waiting.py": "plants what it looks for",
}

SLEEPING = re.compile(r"\bsleep\((?!0\))")


def sleeps(tree):
    """The line of each sleep that takes time, also in the text of programs for other processes."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="sleep") | ast.Attribute(attr="sleep")):
                if [ast.unparse(each) for each in node.args] != ["0"] or node.keywords:
                    yield node.lineno
            case ast.ImportFrom(names=names) if any(each.name == "sleep" for each in names):
                yield node.lineno
            case ast.Constant(value=str(text)) if SLEEPING.search(text):
                yield node.lineno


def test_no_test_sleeps():
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path, tree in parse_those_with("sleep", python_files("tests"))
        if str(path.relative_to(ROOT)) not in ROOMS
        for line in sleeps(tree)
    ]
    assert found == [], "wait for what happens, or by one of the names in tests/waiting.py"


def test_every_room_sleeps():
    """An exception that nobody needs any more is taken off the list."""
    assert [room for room in ROOMS if not list(sleeps(parse(ROOT / room)))] == []


@pytest.mark.parametrize(
    "planted",
    [
        "time.sleep(1)",
        "await asyncio.sleep(0.01)",
        "asyncio.sleep(delay=1)",
        "asyncio.sleep(0, 'x')",
        "asyncio.sleep(seconds)",
        "sleep(0.5)",
        "from time import sleep",
        "PROGRAM = 'import time; time.sleep(600)'",
        "PROGRAM = f'time.sleep({seconds})'",
    ],
)
def test_planted_sleep_is_found(planted):
    assert list(sleeps(ast.parse(planted))) == [1]


@pytest.mark.parametrize(
    "planted", ["asyncio.sleep(0)", "await until(holds)", "'asyncio.sleep(0)'", "sleeping(1)"]
)
def test_what_takes_no_time_is_free(planted):
    assert list(sleeps(ast.parse(planted))) == []
