"""A module is named by what it is about: a drawer for leftovers cannot be born."""

import pytest

from tests.laws.repository import ROOT, python_files

DRAWERS = {"common", "helper", "helpers", "lib", "misc", "shared", "stuff", "util",
           "utilities", "utils"}  # fmt: skip
FOLDERS = ("src", "tests", "bench", "examples")


def drawers(root):
    for path in python_files(*FOLDERS, root=root):
        shown = path.relative_to(root)
        parts = {part.removesuffix(".py").strip("_").removeprefix("test_") for part in shown.parts}
        if parts & DRAWERS:
            yield str(shown)


def test_no_module_is_a_drawer():
    assert list(drawers(ROOT)) == []


@pytest.mark.parametrize(
    "planted",
    ["src/bailiwick/utils.py", "src/bailiwick/text/_helpers.py", "tests/common/__init__.py"],
)
def test_planted_drawer_is_found(tmp_path, planted):
    (tmp_path / planted).parent.mkdir(parents=True)
    (tmp_path / planted).touch()
    assert list(drawers(tmp_path)) == [planted]
