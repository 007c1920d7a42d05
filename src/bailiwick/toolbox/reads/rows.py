"""Names and lines as rows of text, for models: short, and such that none can pass for another.

Rows about a result are ours and begin with a bracket. A name that begins so is shown as the same
path spelt otherwise, and what is not printed in a name is shown escaped: a row is a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bailiwick.errors import escape_for_display
from bailiwick.model import Entry
from bailiwick.search.context_lines import in_context
from bailiwick.search.results import GrepMatch
from bailiwick.toolbox.truncation import utf8_length

_KINDS = {"directory": "-", "symlink": "link"}


def path_row(path: str) -> str:
    shown = escape_for_display(path)
    return f"./{shown}" if shown.startswith("[") else shown


def entry_row(entry: Entry) -> str:
    """``size<tab>name``; a directory has a dash for a size, and a slash at its end."""
    size = str(entry.size) if entry.type == "file" else _KINDS.get(entry.type, entry.type)
    slash = "/" if entry.type == "directory" else ""
    marks = "\tignored" if entry.ignored else ""
    marks += "" if entry.addressable else "\tnot addressable"
    return f"{size}\t{entry.display}{slash}{marks}"


def tree_rows(entries: Sequence[Entry], above: int) -> Iterator[str]:
    """Names beneath each other, a space deeper for each level; entries are sorted by path, and
    ``above`` levels stand above the first of them."""
    for entry in entries:
        level = str(entry.path).count("/") - above
        slash = "/" if entry.type == "directory" else ""
        name = path_row(entry.name) if level == 0 else entry.display
        yield f"{' ' * level}{name}{slash}"


def match_rows(matches: Sequence[GrepMatch], *, apart: bool) -> Iterator[list[str]]:
    """The rows of each match: ``path:line:text``, and around it ``path-line-text``, as grep prints
    them. A line is told once, however many matches it stands beside. Where ``apart``, ``--`` stands
    between lines that do not follow each other."""
    for match, before, after, follows in in_context(matches):
        path = escape_for_display(match.path)
        yield [
            *(["--"] if apart and not follows else []),
            *(f"{path}-{line}-{text}" for line, text in before),
            f"{path}:{match.line}:{match.text}",
            *(f"{path}-{line}-{text}" for line, text in after),
        ]


def rows_length(rows: Sequence[str]) -> int:
    return sum(utf8_length(row) + 1 for row in rows)
