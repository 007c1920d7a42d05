"""A progress bar for long work: on a terminal only, on stderr, and gone when the work is done."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import Self, TextIO

from bailiwick.errors import escape_for_display

_REDRAW_S = 0.1
"""Often enough to look alive, and nothing that the work would feel."""

_BAR_CELLS = 24


class Bar:
    """``with Bar("importing") as bar: bar.show(done, total, "a.txt")``. Silent in a pipe."""

    def __init__(self, what: str, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self._what = what
        self._stream = stream or sys.stderr
        self.visible = (
            not quiet and self._stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        )
        self._began = time.monotonic()
        self._drawn = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def show(self, done: int, total: int | None, now: str = "") -> None:
        """Show how far the work has come; without a total, how long it has taken."""
        if not self.visible:
            return
        moment = time.monotonic()
        if moment - self._drawn < _REDRAW_S:
            return
        self._drawn = moment
        columns = shutil.get_terminal_size().columns
        text = bar_text(self._what, done, total, moment - self._began, now)
        self._stream.write(f"\r\x1b[K{text[: columns - 1]}")
        self._stream.flush()


def bar_text(what: str, done: int, total: int | None, seconds: float, now: str) -> str:
    """One line of it, without anything that could move the cursor."""
    if total is None:
        return f"{what}: {done} steps, {seconds:.0f} s  {escape_for_display(now)}"
    # What is being worked on may grow meanwhile; a bar never shows more than all of it.
    part = min(1.0, done / total) if total else 1.0
    full = int(part * _BAR_CELLS)
    bar = "█" * full + "░" * (_BAR_CELLS - full)
    return f"{what} {bar} {part:4.0%}  {escape_for_display(now)}"
