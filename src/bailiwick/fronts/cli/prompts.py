"""Asking the person at the terminal: shows what would be done, and waits for one letter.

Only where both ends are a terminal. What the question shows comes from callers and files, so every
line of it is escaped. What was typed before the question stood on the screen does not count.
"""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from collections.abc import Callable, Iterator

from bailiwick.approvals import Answer, Approval, Asker, Question, always_for
from bailiwick.errors import escape_for_display
from bailiwick.fronts.cli.output import paint
from bailiwick.grant import Subject

_LINE_BYTES_MAX = 4096
"""What a terminal hands over at once."""

_PATHS_SHOWN_MAX = 20
_DIFF_LINES_SHOWN_MAX = 200

_CHOICES: dict[str, Answer] = {
    "o": "once", "once": "once",
    "g": "grant", "grant": "grant",
    "a": "always", "always": "always",
    "n": "no", "no": "no",
    "v": "never", "never": "never",
}  # fmt: skip


def _prompt(subject: Subject) -> str:
    """What can be answered. "Always" says for whom: the next run of an agent has another name."""
    always = escape_for_display(always_for(subject))
    return f"[o]nce, for this [g]rant, [a]lways for {always}, [n]o, ne[v]er under this grant? "


def terminal_asker() -> Asker | None:
    """How to ask the person at this terminal; None where there is none."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    return _Terminal(sys.stdin.fileno(), _say).ask


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


class _Terminal:
    """One terminal, which can be asked one thing at a time."""

    def __init__(self, fd: int, say: Callable[[str], None]) -> None:
        self._fd = fd
        self._say = say
        self._turn = asyncio.Lock()

    async def ask(self, approval: Approval) -> Answer | None:
        """Put the question; None where the terminal is closed."""
        async with self._turn:
            termios.tcflush(self._fd, termios.TCIFLUSH)
            self._say("\n" + "\n".join(question_lines(approval)) + "\n")
            try:
                return await self._choice(_prompt(approval.question.subject))
            except asyncio.CancelledError:
                self._say("\n(answered elsewhere, or no longer needed)\n")
                raise

    async def _choice(self, prompt: str) -> Answer | None:
        while True:
            self._say(prompt)
            line = await self._line()
            if not line:
                self._say("\n")
                return None
            answer = _CHOICES.get(line.decode("utf-8", "replace").strip().lower())
            if answer is not None:
                return answer

    async def _line(self) -> bytes:
        """What is typed up to a line's end; empty at the end of the input.

        Watched by the event loop and not read in a thread: a thread that waits for a person
        cannot be called back.
        """
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._fd, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._fd)
        try:
            return os.read(self._fd, _LINE_BYTES_MAX)
        except OSError:
            return b""  # the terminal has gone


def question_lines(approval: Approval) -> Iterator[str]:
    """The question as it is shown."""
    question = approval.question
    bold = f"{question.subject} asks to {question.operation} in {question.root}"
    yield paint(escape_for_display(bold), "bold", sys.stderr)
    if question.target:
        yield f"  {question.verb} {escape_for_display(question.target)}"
    if question.destination:
        yield f"  to {escape_for_display(question.destination)}"
    if question.arguments:
        yield f"  with: {escape_for_display(question.arguments)}"
    yield from _path_lines(question)
    if question.reason:
        yield f"reason given: {escape_for_display(question.reason)}"
    yield f"asked by {escape_for_display(', '.join(question.sources))}:" + (
        f" {escape_for_display(question.prompt)}" if question.prompt else ""
    )
    if question.preview.sha256_before:
        yield f"replaces or removes content {question.preview.sha256_before}"
    yield from diff_lines(question.preview.diff or "", question.preview.diff_truncated)


def _path_lines(question: Question) -> Iterator[str]:
    """What rules ask about, where that is not just what the call names."""
    if question.paths == (question.target,):
        return
    if question.target:
        yield "  asked about in particular:"
    for path in question.paths[:_PATHS_SHOWN_MAX]:
        yield f"  {escape_for_display(path)}"
    more = question.paths_total - min(len(question.paths), _PATHS_SHOWN_MAX)
    if more > 0:
        yield f"  … and {more} more"


def diff_lines(diff: str, truncated: bool) -> Iterator[str]:
    """A diff in colours, each line escaped and the whole bounded."""
    # By newlines alone: other marks that end a line for some readers are part of it here.
    lines = diff.removesuffix("\n").split("\n")
    for line in lines[:_DIFF_LINES_SHOWN_MAX]:
        colour = {"+": "green", "-": "red", "@": "dim"}.get(line[:1])
        shown = escape_for_display(line.expandtabs(4))
        yield paint(shown, colour, sys.stderr) if colour else shown
    left = len(lines) - _DIFF_LINES_SHOWN_MAX
    if left > 0:
        yield f"… {left} more lines"
    if truncated:
        yield "… the diff is longer than what is kept of it"
