"""What code often wants of a tree, made of calls that `state` has.

The text of this module goes into the sandbox, where it is a part of `state`. So it imports nothing
that is not in every Python, and reaches the tree by the calls of ``self`` alone.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any


class Conveniences:
    """For a `state`: its other methods are those of the scope."""

    def search_files(
        self: Any,
        pattern: str,
        path: str = ".",
        *,
        include: Any = None,
        literal: bool = False,
        ignore_case: bool = False,
        max_results: int | None = None,
    ) -> list[dict[str, Any]]:
        """Files that hold a pattern, each with its matching lines: the first ``max_results`` of
        them, 1,000 unless told."""
        found = self.grep(
            pattern,
            path,
            include=include,
            literal=literal,
            ignore_case=ignore_case,
            max_results=max_results,
            report_skipped=False,
        )
        files: dict[str, list[dict[str, Any]]] = {}
        for match in found.matches:
            line = {"line": match.line, "text": match.text}
            files.setdefault(match.path, []).append(line)
        return [{"path": each, "matches": lines} for each, lines in files.items()]

    def replace_in_files(
        self: Any,
        old: str,
        new: str,
        path: str = ".",
        *,
        include: Any = None,
        dry_run: bool = False,
        max_results: int = 50_000,
    ) -> list[Any]:
        """Replace a text wherever it stands: what was changed, a file each. Nothing is where not
        all of it was found: it may stand in ``max_results`` lines."""
        found = self.grep(
            _first_line(old),
            path,
            include=include,
            literal=True,
            max_results=max_results,
            report_skipped=False,
        )
        if found.truncated:
            raise ValueError(f"nothing was replaced: {found.reason}")
        changed = []
        for file in dict.fromkeys(match.path for match in found.matches):
            try:
                changed.append(self.edit(file, old=old, new=new, replace_all=True, dry_run=dry_run))
            except ValueError as error:
                if getattr(error, "kind", None) != "text_not_found":
                    raise
        return changed

    def plan_edits(self: Any, edits: Iterable[Any]) -> list[dict[str, Any]]:
        """What edits would do, changing nothing: ``{"path", "old", "new", "replace_all"?}`` each,
        several of a file together. To be looked at, and given to `apply_edits`."""
        files: dict[str, list[Any]] = {}
        for each in edits:
            edit = self.Edit(each["old"], each["new"], each.get("replace_all", False))
            files.setdefault(str(each["path"]), []).append(edit)
        plan = []
        for path, wanted in files.items():
            would = self.edit(path, wanted, dry_run=True)
            plan.append(
                {
                    "path": path,
                    "diff": would.diff,
                    "expected_sha256": would.sha256_before,
                    "edits": [
                        {"old": each.old, "new": each.new, "replace_all": each.replace_all}
                        for each in wanted
                    ],
                }
            )
        return plan

    def apply_edits(self: Any, plan: Iterable[dict[str, Any]]) -> list[Any]:
        """Do what was planned, where no file has changed since; looked at before the first one."""
        steps = [
            (each["path"], [self.Edit(**edit) for edit in each["edits"]], each["expected_sha256"])
            for each in plan
        ]
        for path, edits, expected in steps:
            self.edit(path, edits, expected_sha256=expected, dry_run=True)
        return [self.edit(path, edits, expected_sha256=expected) for path, edits, expected in steps]

    def summarize_tree(self: Any, path: str = ".", *, depth: int = 3) -> dict[str, Any]:
        """How many files, directories and bytes, by ending too, and a drawing ``depth`` deep."""
        files = directories = size = 0
        endings: dict[str, int] = {}
        lines: list[str] = []
        for entry in _everything(self, path):
            level = entry.path.count("/") - (0 if path == "." else path.strip("/").count("/") + 1)
            if entry.type == "directory":
                directories += 1
            else:
                files += 1
                size += entry.size
                ending = _ending(entry.name)
                endings[ending] = endings.get(ending, 0) + 1
            if level < depth:
                lines.append("  " * level + entry.name + "/" * (entry.type == "directory"))
        return {
            "files": files,
            "directories": directories,
            "bytes": size,
            "endings": dict(sorted(endings.items(), key=lambda each: -each[1])),
            "tree": "\n".join(lines),
        }

    def hash_file(self: Any, path: str) -> str:
        """The SHA-256 of a file of any size, in hex digits."""
        digest = hashlib.sha256()
        for chunk in self.stream(path):
            digest.update(chunk)
        return digest.hexdigest()

    def query_json(self: Any, path: str, query: str = "") -> Any:
        """What stands in a JSON document at ``a.b[0].c``; ``[*]`` stands for every element."""
        return _looked_up(self.read_json(path).value, _steps(query))

    def update_json(
        self: Any, path: str, changes: dict[str, Any], *, remove: Iterable[str] = ()
    ) -> Any:
        """Set what stands at each query, making objects on the way, and remove others; refused
        where the file is changed meanwhile. ``list[+]`` adds to a list."""
        read = self.read_json(path)
        document = read.value
        for query, value in changes.items():
            document = _with(document, _steps(query), value)
        for query in remove:
            *above, last = _steps(query)
            del _looked_up(document, above)[last]
        return self.write_json(path, document, expected_sha256=read.sha256)


_PAGE = 2_000
"""Entries asked for at a time."""


def _first_line(text: str) -> str:
    """A line to look for: the longest that a text holds, since lines are searched one by one."""
    return max(text.splitlines() or [text], key=len)


def _ending(name: str) -> str:
    """What follows the last dot, with it; a dot that it begins with is none."""
    _, dot, ending = name[1:].rpartition(".")
    return dot + ending if dot else ""


def _everything(state: Any, path: str) -> Iterator[Any]:
    cursor = None
    while True:
        found = state.find(path, cursor=cursor, limit=_PAGE)
        yield from found.matches
        cursor = found.next_cursor
        if cursor is None:
            return


def _steps(query: str) -> list[Any]:
    """``a.b[0]["c.d"]`` as ``["a", "b", 0, "c.d"]``."""
    steps: list[Any] = []
    place, text = 0, query.removeprefix("$")
    token = re.compile(r'\.?([^.\[\]"]+)|\[(-?\d+|\*|\+)\]|\["((?:[^"\\]|\\.)*)"\]')
    while place < len(text):
        found = token.match(text, place)
        if found is None:
            raise ValueError(f"no place in a document is called {query!r}")
        name, index, quoted = found.groups()
        if index is not None:
            steps.append(index if index in "*+" else int(index))
        else:
            steps.append(name if quoted is None else json.loads(f'"{quoted}"'))
        place = found.end()
    return steps


def _looked_up(document: Any, steps: list[Any]) -> Any:
    for number, step in enumerate(steps):
        if step == "*" and isinstance(document, list):
            return [_looked_up(each, steps[number + 1 :]) for each in document]
        document = document[step]
    return document


def _with(document: Any, steps: list[Any], value: Any) -> Any:
    if not steps:
        return value
    step, more = steps[0], steps[1:]
    if step == "+" and isinstance(document, list):
        document.append(_with({}, more, value))
        return document
    try:
        inner = document[step]
    except KeyError:
        inner = {}
    document[step] = _with(inner, more, value)
    return document
