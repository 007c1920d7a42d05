"""Where the files of this repository are: the laws look at the tree through this module."""

import ast
import pathlib
from collections.abc import Iterator

import pathspec

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "bailiwick"


def python_files(*folders: str, root: pathlib.Path = ROOT) -> Iterator[pathlib.Path]:
    """Every Python file below the folders named, in a stable order."""
    for folder in folders:
        yield from sorted((root / folder).rglob("*.py"))


def parse(path: pathlib.Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def published_files(root: pathlib.Path = ROOT) -> list[pathlib.Path]:
    """Every file that is or would be committed: all that .gitignore does not name.

    Git is not asked, since an unpacked source archive is checked by the same laws.
    """
    lines = (root / ".gitignore").read_text(encoding="utf-8").splitlines()
    ignored = pathspec.GitIgnoreSpec.from_lines([*lines, ".git"])
    return sorted(root / name for name in ignored.match_tree_files(root, negate=True))
