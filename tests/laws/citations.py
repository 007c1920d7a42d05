"""Which rule of SPEC.md is proved by which test, read from the sources without running them.

`python -m tests.laws.citations` prints the whole matrix; it is never kept by hand.
"""

import ast
import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

from tests.laws.repository import ROOT, parse_those_with, python_files

RULE_LINE = re.compile(r"^- \*\*([A-Z]+-[0-9]+)\*\*")
NOT_BUILT_HEADING = "## Not built yet"

# The store contract is shipped with the package; its cases are tests wherever it is run.
TEST_FOLDERS = ("tests", "src/bailiwick/testing")
BENCH_FOLDER = "bench"


class Citation(NamedTuple):
    rule: str
    path: str
    line: int


class Spec(NamedTuple):
    built: frozenset[str]
    not_built: frozenset[str]
    twice: tuple[str, ...]


def read_spec(text: str) -> Spec:
    """The rule ids that SPEC.md defines: a line that begins `- **PATH-1**` defines PATH-1."""
    built: set[str] = set()
    not_built: set[str] = set()
    twice: list[str] = []
    section = built
    for line in text.splitlines():
        if line.startswith("## "):
            section = not_built if line.strip() == NOT_BUILT_HEADING else built
        if found := RULE_LINE.match(line):
            rule = found.group(1)
            if rule in built | not_built:
                twice.append(rule)
            section.add(rule)
    return Spec(frozenset(built), frozenset(not_built), tuple(twice))


def _marker_arguments(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="spec") as function):
                if ast.unparse(function).endswith("mark.spec"):
                    yield from node.args


def _bench_constants(tree: ast.Module) -> Iterator[ast.expr]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CITES":
            yield from getattr(node.value, "elts", [node.value])


def citations(root: pathlib.Path = ROOT) -> list[Citation]:
    """Every citation in tests (`@pytest.mark.spec("…")`) and in bench (`CITES = ("…",)`).

    An argument that is not a plain string is returned as its source, and so is an unknown rule.
    """
    return [
        Citation(_cited_rule(argument), str(path.relative_to(root)), argument.lineno)
        for folders, word, arguments_of in (
            (TEST_FOLDERS, "mark.spec", _marker_arguments),
            ((BENCH_FOLDER,), "CITES", _bench_constants),
        )
        for path, tree in parse_those_with(word, python_files(*folders, root=root))
        for argument in arguments_of(tree)
    ]


def _cited_rule(argument: ast.expr) -> str:
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        return argument.value
    return ast.unparse(argument)


def main() -> None:
    spec = read_spec((ROOT / "SPEC.md").read_text(encoding="utf-8"))
    cited = citations()
    for rule in sorted(spec.built, key=lambda rule: (rule.split("-")[0], int(rule.split("-")[1]))):
        places = [f"{path}:{line}" for cited_rule, path, line in cited if cited_rule == rule]
        print(f"{rule:10} {', '.join(places) or '—'}")


if __name__ == "__main__":
    main()
