"""Files and functions stay small enough to be read in one sitting."""

import ast

import pytest

from tests.laws.repository import ROOT, parse, python_files

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 600
FOLDERS = ("src", "tests", "bench", "examples", "release")


def long_functions(node):
    """Those in a module or in a part of one; what is short is not looked into."""
    for child in ast.iter_child_nodes(node):
        lines = getattr(child, "end_lineno", 0) - getattr(child, "lineno", 0) + 1
        if lines > FUNCTION_LINES_MAX or isinstance(child, ast.match_case):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield child.name, lines
            yield from long_functions(child)


def too_long(root):
    """Everything over its limit, one line each."""
    for path in python_files(*FOLDERS, root=root):
        shown = path.relative_to(root)
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > FILE_LINES_MAX:
            yield f"{shown} has {lines} lines"
        for name, length in long_functions(parse(path)):
            yield f"{shown} {name}() has {length} lines"


@pytest.mark.slow
def test_files_and_functions_are_short():
    assert list(too_long(ROOT)) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f():\n" + "    pass\n" * 69, []),
        ("def f():\n" + "    pass\n" * 70, ["src/planted.py f() has 71 lines"]),
        ("class C:\n async def m():\n" + "  pass\n" * 70, ["src/planted.py m() has 71 lines"]),
        ("x = 1\n" * 600, []),
        ("x = 1\n" * 601, ["src/planted.py has 601 lines"]),
    ],
)
def test_planted_length_is_found(tmp_path, source, found):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "planted.py").write_text(source)
    assert list(too_long(tmp_path)) == found
