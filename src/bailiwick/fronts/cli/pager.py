"""Long output on a terminal goes through a pager; what fits on the screen is simply printed.

Only a terminal gets one: in a pipe nothing is between a command and its reader. What is shown was
escaped before, so the pager is handed no control characters but our own colours.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from bailiwick.fronts.cli import EXIT_OK

if TYPE_CHECKING:
    import subprocess  # loaded when a pager is started

_LESS = "FRX"
"""For less: leave when it fits after all, show colours, keep what was shown on the screen."""


def pager_command() -> list[str]:
    """What shows a page at a time here: $BAILIWICK_PAGER, $PAGER, else less; nothing for `cat`."""
    for name in ("BAILIWICK_PAGER", "PAGER"):
        if name in os.environ:
            words = shlex.split(os.environ[name])
            return [] if words[:1] in ([], ["cat"]) else words
    found = shutil.which("less")
    return [found] if found else []


def run_paged(job: Callable[[], int], *, wanted: bool) -> int:
    """Run a job; what it prints goes through a pager once it is longer than the screen."""
    command = pager_command() if wanted and sys.stdout.isatty() else []
    if not command or os.environ.get("TERM") == "dumb":
        return job()
    terminal = sys.stdout
    pages = _Pages(terminal, command)
    sys.stdout = pages
    try:
        return job()
    except BrokenPipeError:
        if not pages.started:
            raise
        return EXIT_OK  # the person has left the pager: they saw what they wanted
    finally:
        sys.stdout = terminal
        pages.finish()


class _Pages:
    """Stands for the terminal: holds back one screen, then starts the pager and feeds it."""

    def __init__(self, terminal: TextIO, command: list[str]) -> None:
        self._terminal = terminal
        self._command = command
        self._held: list[str] = []
        self._process: subprocess.Popen[str] | None = None
        self._without = False
        size = shutil.get_terminal_size()
        self._columns = max(1, size.columns)
        self._room = size.lines - 1

    @property
    def started(self) -> bool:
        return self._process is not None

    @property
    def encoding(self) -> str:
        return self._terminal.encoding

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._terminal.fileno()

    def write(self, text: str) -> int:
        if self._process is not None:
            self._feed(text)
            return len(text)
        if self._without:
            return self._terminal.write(text)
        self._held.append(text)
        for line in text.split("\n")[:-1]:
            self._room -= 1 + len(line) // self._columns
        if self._room < 0:
            self._start()
        return len(text)

    def flush(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.flush()

    def _start(self) -> None:
        import subprocess

        environment = {"LESS": _LESS, **os.environ}
        try:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, env=environment, text=True,
                encoding=self.encoding, errors="backslashreplace",
            )  # fmt: skip
        except OSError:
            # No pager after all: the person sees everything at once.
            self._without = True
            self._show_held(self._terminal)
            return
        held, self._held = self._held, []
        self._feed("".join(held))

    def _feed(self, text: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(text)

    def _show_held(self, terminal: TextIO) -> None:
        terminal.write("".join(self._held))
        terminal.flush()
        self._held.clear()

    def finish(self) -> None:
        """Show what was held back, or wait until the person has left the pager."""
        if self._process is None:
            self._show_held(self._terminal)
            return
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        while True:
            # Ctrl-C is the pager's: it stops its search, not us.
            with contextlib.suppress(KeyboardInterrupt):
                self._process.wait()
                return
