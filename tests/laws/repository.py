"""Where the files of this repository are: the laws look at the tree through this module."""

import ast
import os
import pathlib
from collections.abc import Iterable, Iterator

import pathspec

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "bailiwick"


def python_files(*folders: str, root: pathlib.Path = ROOT) -> Iterator[pathlib.Path]:
    """Every Python file below the folders named, in a stable order."""
    for folder in folders:
        yield from sorted((root / folder).rglob("*.py"))


def parse(path: pathlib.Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def parse_those_with(
    word: str, paths: Iterable[pathlib.Path]
) -> Iterator[tuple[pathlib.Path, ast.Module]]:
    """The files in which a word stands, parsed: to parse them all takes seconds."""
    for path in paths:
        if word in path.read_text(encoding="utf-8"):
            yield path, parse(path)


def published_files(root: pathlib.Path = ROOT) -> list[pathlib.Path]:
    """Every file that is or would be committed: all that .gitignore does not name.

    Git is not asked, since an unpacked source archive is checked by the same laws.
    """
    lines = (root / ".gitignore").read_text(encoding="utf-8").splitlines()
    ignored = pathspec.GitIgnoreSpec.from_lines([*lines, ".git"])
    found = []
    for folder, folders, files in os.walk(root):
        here = pathlib.Path(folder).relative_to(root)
        # Nothing in an ignored directory can be named again, so that no environment is read.
        folders[:] = [name for name in folders if not ignored.match_file(f"{here / name}/")]
        found += [root / here / name for name in files if not ignored.match_file(here / name)]
    return sorted(found)
