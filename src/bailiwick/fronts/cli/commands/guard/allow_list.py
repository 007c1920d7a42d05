"""What the guard lets pass: the allow-list of a project, and exceptions beside the code.

In ``pyproject.toml``::

    [tool.bailiwick.guard]
    allow = ["src/app/low_level.py", "src/tools/", "tests/**/*.py", "app.cache:load"]

An entry is a file, a directory, a pattern of paths (all relative to the file's own directory), or
``module:function``. In the code, on the line of the use or on a line of its own above it::

    # bailiwick: allow: reads its own settings before there is a scope

A reason must be given. An exception that excuses nothing is reported, so that it goes away again.
"""

from __future__ import annotations

import io
import os
import re
import tokenize
import tomllib
from typing import NamedTuple

from bailiwick.errors import BailiwickError, IoError, ParseError
from bailiwick.fronts.cli.commands.guard.checker import Finding
from bailiwick.search.glob import compile_glob

_COMMENT = re.compile(r"#\s*bailiwick:\s*allow\b[\s:,.-]*(.*)", re.IGNORECASE)
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


class AllowList(NamedTuple):
    """The allow-list of one project; ``root`` is the directory that its paths begin at."""

    root: str
    paths: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()

    def allows_file(self, path: str) -> bool:
        """Whether everything in a file is let pass."""
        relative = os.path.relpath(os.path.abspath(path), self.root).replace(os.sep, "/")
        if relative.startswith("../"):
            return False
        return any(_covers(entry, relative) for entry in self.paths)

    def allows(self, finding: Finding) -> bool:
        """Whether one use is let pass because of the function that it stands in."""
        if not self.functions or not finding.function:
            return False
        where = f"{module_name(finding.path)}:{finding.function}"
        return any(where == entry or where.startswith(f"{entry}.") for entry in self.functions)


def _covers(entry: str, relative: str) -> bool:
    if any(character in entry for character in "*?[{"):
        return compile_glob(entry).matches(relative, is_directory=False)
    plain = entry.rstrip("/")
    return plain in (".", relative) or relative.startswith(f"{plain}/")


def module_name(path: str) -> str:
    """The dotted name of a module: as far up as directories are packages."""
    directory, name = os.path.split(os.path.abspath(path))
    parts = [] if name == "__init__.py" else [name.rpartition(".")[0] or name]
    while os.path.isfile(os.path.join(directory, "__init__.py")):
        directory, package = os.path.split(directory)
        if not package:
            break
        parts.insert(0, package)
    return ".".join(parts)


def find_project(start: str) -> str | None:
    """The nearest ``pyproject.toml``, from a directory upwards."""
    directory = os.path.abspath(start)
    while True:
        candidate = os.path.join(directory, "pyproject.toml")
        if os.path.isfile(candidate):
            return candidate
        above = os.path.dirname(directory)
        if above == directory:
            return None
        directory = above


def read_allow_list(file: str | None) -> AllowList:
    """The allow-list in a ``pyproject.toml``; raises `ParseError` where it cannot be understood."""
    if file is None:
        return AllowList(os.getcwd())
    try:
        with open(file, "rb") as opened:
            document = tomllib.load(opened)
    except OSError as error:
        raise IoError(f"{file} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ParseError(f"{file} is no TOML: {error}") from None
    table = document
    for key in ("tool", "bailiwick", "guard"):
        table = table.get(key, {})
        if not isinstance(table, dict):
            raise ParseError(f"{file}: {key!r} must be a table")
    for key in table:
        if key != "allow":
            raise ParseError(f"{file}: [tool.bailiwick.guard] has no key {key!r}", hint="allow")
    entries = table.get("allow", [])
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise ParseError(f"{file}: allow is a list of texts")
    return _allow_list(os.path.dirname(os.path.abspath(file)), entries)


def _allow_list(root: str, entries: list[str]) -> AllowList:
    functions = tuple(entry for entry in entries if _FUNCTION.fullmatch(entry))
    paths = tuple(entry.removeprefix("./") or "." for entry in entries if entry not in functions)
    for entry in paths:
        if entry.startswith(("/", "~")) or ".." in entry.split("/") or not entry.strip("/"):
            raise ParseError(
                f"the allow-list has {entry!r}",
                hint="write a path relative to pyproject.toml, or module:function",
            )
        try:
            compile_glob(entry)
        except BailiwickError as error:
            raise ParseError(f"the allow-list has {entry!r}: {error.message}") from None
    return AllowList(root, paths, functions)


class Comment(NamedTuple):
    """An exception beside the code."""

    line: int
    column: int
    reason: str
    alone: bool
    """Whether nothing else stands on its line: then it is for the next line of code."""


def comments_in(content: bytes) -> list[Comment]:
    """Every exception in a module. A comment's text in a string is not one."""
    found: list[Comment] = []
    try:
        for token in tokenize.tokenize(io.BytesIO(content).readline):
            match = _COMMENT.match(token.string) if token.type == tokenize.COMMENT else None
            if match:
                alone = token.line[: token.start[1]].strip() == ""
                line, column = token.start
                found.append(Comment(line, column + 1, match[1].strip(), alone))
    except (tokenize.TokenError, SyntaxError, UnicodeDecodeError, RecursionError):
        pass  # the parser has said what is wrong
    return found


def apply_comments(findings: list[Finding], comments: list[Comment], path: str) -> list[Finding]:
    """Take away what is excused, and add what is wrong with the exceptions themselves."""
    kept = list(findings)
    for comment in comments:
        if not comment.reason:
            kept.append(_complaint(comment, path, "an exception needs its reason"))
            continue
        excused = [finding for finding in kept if _is_for(comment, finding)]
        if not excused:
            kept.append(_complaint(comment, path, "this exception excuses nothing"))
        kept = [finding for finding in kept if finding not in excused]
    return kept


def _is_for(comment: Comment, finding: Finding) -> bool:
    first = finding.line - 1 if comment.alone else finding.line
    return finding.category != "allowance" and first <= comment.line <= finding.end_line


def _complaint(comment: Comment, path: str, why: str) -> Finding:
    end = comment.column + len("# bailiwick: allow")
    message = f"{why}: write # bailiwick: allow: WHY, where it is needed"
    return Finding(
        path, comment.line, comment.column, comment.line, end, "allowance", "allow", "", message
    )
