"""What a command prints: aligned text for people, JSON for programs, and colours where they help.

Whatever came from a caller is escaped on the way out, so that a name or a reason can neither break
a line nor repaint the terminal it is shown on. JSON is plain ASCII for the same reason.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import msgspec

from bailiwick.errors import BailiwickError, escape_for_display
from bailiwick.fronts.cli.hints import next_step
from bailiwick.grant import AgentRun, Automation, Core, Extension, User

_CODES = {
    "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36", "dim": "2", "bold": "1",
    "removed": "7;31", "added": "7;32",
}  # fmt: skip


def coloured(stream: TextIO) -> bool:
    """Whether colours may be written: to a terminal that shows them, and nobody said no."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def paint(text: str, colour: str, stream: TextIO | None = None) -> str:
    if not coloured(stream or sys.stdout):
        return text
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m"


def line(text: str = "") -> None:
    sys.stdout.write(text + "\n")


def plain(value: object) -> Any:
    """A value as JSON has it. A set is sorted, so that the same value gives the same text; a
    subject is written as everywhere else: ``agent_run:c1/r7``."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str | Core | AgentRun | Extension | Automation | User):
        return str(value)
    if isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(map(plain, value))
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value.hex() if isinstance(value, bytes) else str(value)


def print_json(value: object) -> None:
    """One JSON document, indented."""
    print_plain_json(plain(value))


def print_plain_json(value: dict[str, Any]) -> None:
    """One JSON document of what is plain already: a tree may be as deep as paths go, and to make
    it plain would take more nested calls than Python allows."""
    line(json.dumps(value, indent=2))


def print_json_line(value: object) -> None:
    """One JSON document on one line, for streams of them."""
    line(json.dumps(plain(value), separators=(",", ":")))


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Aligned columns. What is shown is escaped; the last column is not padded."""
    shown = [[escape_for_display(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *shown, strict=True)]

    def aligned(cells: Sequence[str]) -> str:
        return "  ".join(f"{c:<{w}}" for c, w in zip(cells, widths, strict=True)).rstrip()

    line(paint(aligned(heads), "bold"))
    for row in shown:
        line(aligned(row))


def print_fields(pairs: Iterable[tuple[str, object]]) -> None:
    """One thing, a line for each of its properties; what is empty is left out."""
    kept = [(name, value) for name, value in pairs if value not in (None, "", (), [], {})]
    width = max((len(name) for name, _ in kept), default=0)
    for name, value in kept:
        line(f"{paint(f'{name:<{width}}', 'dim')}  {escape_for_display(str(value))}")


def words(values: Iterable[object]) -> str:
    return ", ".join(sorted(map(str, values)))


def moment(seconds: float | None) -> str:
    """A time as people read it, in UTC."""
    if seconds is None:
        return ""
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(seconds))


def print_error(error: BailiwickError, *, as_json: bool) -> None:
    """Say on stderr what went wrong: ``kind: message``, and what to do about it."""
    if as_json:
        sys.stderr.write(json.dumps(error_document(error)) + "\n")
        return
    where = f"{escape_for_display(error.path)}: " if error.path else ""
    kind = paint(error.kind, "red", sys.stderr)
    sys.stderr.write(f"{kind}: {where}{escape_for_display(error.message)}\n")
    if error.decided_by:
        sys.stderr.write(f"decided by: {escape_for_display(error.decided_by)}\n")
    hint = next_step(error)
    sys.stderr.write(f"hint: {escape_for_display(hint)}\n")


def error_document(error: BailiwickError) -> dict[str, Any]:
    document: dict[str, Any] = {
        "errorKind": error.kind,
        "error": error.message,
        "status": error.status,
        "category": error.category,
        "retryable": error.retryable,
    }
    optional = {
        "hint": next_step(error), "path": error.path,
        "decidedBy": error.decided_by, "requestId": error.request_id,
        "details": plain(error.details) or None,
    }  # fmt: skip
    return document | {name: value for name, value in optional.items() if value is not None}


def print_names(names: Iterable[str]) -> None:
    """Names as they are, each ended by NUL, for programs that take them so."""
    print_bytes(b"".join(os.fsencode(name) + b"\0" for name in names))


def print_bytes(content: bytes) -> None:
    """Bytes as they are, for a pipe or a file."""
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def safe_lines(text: str) -> str:
    """Text of a file for a terminal: line ends and tabs stay, whatever could control it does not.

    A file full of escape sequences is shown as what it holds instead of being obeyed."""
    text = text.replace("\r\n", "\n")
    return "\n".join(
        "\t".join(map(escape_for_display, part.split("\t"))) for part in text.split("\n")
    )
